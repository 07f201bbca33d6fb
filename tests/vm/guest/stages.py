"""What happens between two boots, in order."""

import json
import os
import pathlib
import re
import signal
import subprocess
import time

import machine
import promise
import server
from connections import hold_many
from report import TIDEMILL, check, note, run, title, tune

PORT = str(server.PORT)
# Rules with something to do on this machine, made so by image.sh and the server's unit. Without them a plan that
# promises nothing would pass.
RULES_EXPECTED = {"R1", "R3", "R5", "R7", "R10", "R11", "R15"}
NETWORK_LIMIT_SECONDS = 300


def untouched(state):
    """the machine as its owner left it; tidemill tunes it"""
    shape()
    swap()
    server.install()
    state["settings"], state["files"] = machine.settings(), machine.files()
    title("doctor")
    status, text = tune("doctor", "--port", PORT)
    check("doctor's exit status (3: there is a problem)", status, 3)
    title("plan")
    status, text = tune("plan", "--port", PORT)
    check("plan's exit status", status, 0)
    state["plan"] = changes = promise.parse(text)
    check("plan's changes that this test understands", len(changes), len(re.findall(r"^  \+ ", text, re.M)))
    check("rules with a change", sorted({change["rule"] for change in changes} & RULES_EXPECTED),
          sorted(RULES_EXPECTED))
    promise.check_values(changes, "from")
    check("plan changed nothing", machine.settings() == state["settings"], True)
    title("apply --persist")
    status, _ = tune("apply", "--persist", "--yes", "--port", PORT)
    check("apply's exit status", status, 0)
    in_force(state)
    status, text = run("systemd-analyze", "verify", "/etc/systemd/system/tidemill-tune.service")
    check("systemd's complaints about the unit", text, "")


def persisted(state):
    """after a reboot what was applied is in force; tidemill reverts it"""
    wait_for_network()
    in_force(state)
    promised = [int(change["to"]) for change in state["plan"] if change["key"] == "LimitNOFILE"]
    limit = machine.open_files_max(server.process(server.UNIT))
    check("the server's limits of open files", [*limit], promised * 2)
    title("revert")
    status, _ = tune("revert")
    check("revert's exit status", status, 0)
    promise.check_files(state["plan"], "absent")
    promise.check_no_file_differs(state["files"], machine.files())


def reverted(state):
    """after another reboot the machine is as its owner left it"""
    wait_for_network()
    as_before(state)
    status, text = tune("verify")
    check("verify with nothing applied", (status, text), (0, "nothing is applied\n"))
    plan = promise.parse(tune("plan", "--port", PORT, shown=False)[1])
    check("the same plan again", known(plan), known(state["plan"]))

    title("apply without --persist, revert without a reboot")
    status, _ = tune("apply", "--yes", "--port", PORT)
    check("apply's exit status (1: only a file can hold the limit of open files)", status, 1)
    promise.check_values(plan, "to")
    status, text = tune("revert")
    check("revert's exit status", status, 0)
    as_before(state)
    threads()
    on_request()
    started_by_run()
    queues()
    # With zone reclaim each connection beyond the first node's memory costs a search for pages to drop.
    status, _ = tune("apply", "--yes", "--only", "R5", "R7", "--port", PORT)
    check("apply's exit status", status, 0)
    hold_many()


ALL = [untouched, persisted, reverted]


def shape():
    """What qemu was asked for is what the kernel sees."""
    title("machine")
    note(f"kernel {os.uname().release}")
    check("CPUs online", machine.text("/sys/devices/system/cpu/online"), "0-7")
    nodes = [machine.text(f"/sys/devices/system/node/node{node}/cpulist") for node in (0, 1)]
    check("CPUs of both memory nodes", nodes, ["0-3", "4-7"])
    check("cores of two threads", len({machine.core_of(cpu) for cpu in range(8)}), 4)
    wait_for_network()
    queues = [name for name in machine.interrupts() if ".input." in name or "-input." in name]
    note(f"receive queues with an interrupt: {len(queues)} ({', '.join(sorted(queues))})")


def swap():
    """Swap for R3, as the owner would set it up; the disk is made without, because its files may not have holes."""
    run("fallocate", "--length", "64M", "/swap", shown=False)
    os.chmod("/swap", 0o600)
    run("mkswap", "/swap", shown=False)
    with open("/etc/fstab", "a", encoding="utf-8") as mounts:
        mounts.write("/swap none swap defaults 0 0\n")
    run("swapon", "--all", shown=False)
    check("swap", len(machine.text("/proc/swaps").splitlines()) - 1, 1)


def wait_for_network():
    """The driver may load after everything else on an emulated machine."""
    deadline = time.monotonic() + NETWORK_LIMIT_SECONDS
    while time.monotonic() < deadline:
        if any("input" in name for name in machine.interrupts()):
            run("udevadm", "settle", "--timeout=120", shown=False)
            return
        time.sleep(1)
    check("the network interface's interrupts", "absent", "there")


def in_force(state):
    """What the plan promised is so, nothing else changed, and verify says the same."""
    changes = state["plan"]
    title("read back without tidemill")
    promise.check_values(changes, "to")
    promise.check_others(state["settings"], machine.settings(), changes)
    promise.check_files(changes, "there")
    title("verify")
    status, _ = tune("verify")
    check("verify's exit status", status, 0)


def known(changes):
    """What a plan names, but for interrupts: on which CPU of its list each lands is another at each boot."""
    return sorted({promise.label(change) if not change["interrupt"] else change["rule"] for change in changes})


def as_before(state):
    title("read back without tidemill")
    promise.check_values(state["plan"], "from")
    promise.check_others(state["settings"], machine.settings(), [])
    promise.check_no_file_differs(state["files"], machine.files())


def planned_workers(text):
    found = re.search(r"workers?,[^(\n]*\(CPU ([\d,-]+)\)", text)
    return machine.cpus(found.group(1)) if found else set()


def threads():
    """The server's workers are where the plan draws them, also inside a cpuset."""
    title("placement of the server's threads")
    # It may have started before the interface that its workers go near.
    server.restart()
    check_workers(server.process(server.UNIT), planned_workers(tune("plan", shown=False)[1]), set(range(8)))
    allowed = "2-5"
    pid = server.start("boxed", 6390, f"AllowedCPUs={allowed}", "LimitNOFILE=20000")
    status, text = run_boxed(allowed, TIDEMILL, "tune", "plan")
    check("plan's exit status inside the cpuset", status, 0)
    cgroup = machine.text(f"/proc/{pid}/cgroup").rsplit(":", 1)[1]
    effective = machine.text(f"/sys/fs/cgroup{cgroup}/cpuset.cpus.effective")
    check("the cpuset that the kernel grants", effective, allowed)
    check_workers(pid, planned_workers(text), machine.cpus(allowed))
    check("the server's limit of open files", machine.open_files_max(pid)[1], 20_000)
    server.stop("boxed")


def run_boxed(allowed, *words):
    """Runs a command inside a cpuset. systemd lends its terminal only over a message bus, so a file takes the output."""
    output = "/run/tidemill-vm.out"
    pathlib.Path(output).unlink(missing_ok=True)
    status, _ = run("systemd-run", "--quiet", "--service-type=oneshot", f"--property=AllowedCPUs={allowed}",
                    f"--property=StandardOutput=file:{output}", *words)
    text = machine.text(output)
    print(text)
    return status, text


def check_workers(pid, planned, allowed):
    pinned = server.workers(pid)
    check("CPUs of each worker", sorted(len(cpus) for cpus in pinned), [1] * len(planned))
    used = set().union(*pinned)
    check("workers' CPUs", sorted(used), sorted(planned))
    check("cores that hold a worker", len({machine.core_of(cpu) for cpu in used}), len(used))
    everywhere = set().union(*(cpus for _, _, cpus in machine.threads(pid)))
    check("CPUs of its threads beyond those allowed", sorted(everywhere - allowed), [])


def on_request():
    """Memory node, huge pages, policy and slice that the server takes when told to."""
    title("what the server takes on request")
    pid = server.start("granted", 6392, "LimitNOFILE=20000", arguments=(
        "--memory-policy", "bind", "--huge-pages", "yes", "--background-scheduling", "batch",
        "--worker-slice-us", "3000"))
    tasks = {name: (task, allowed) for task, name, allowed in machine.threads(pid)}
    worker, allowed = tasks["worker-0"]
    node = 0 if min(allowed) < 4 else 1
    maps = machine.text(f"/proc/{pid}/task/{worker}/numa_maps").splitlines()
    policies = {line.split()[1] for line in maps if len(line.split()) > 1}
    check("its memory policy", policies, {f"bind:{node}"})
    check("a value of 32 MiB", server.fill(6392, 32 << 20), b"+OK\r\n")
    flags = [line.split() for line in machine.text(f"/proc/{pid}/smaps").splitlines() if line.startswith("VmFlags")]
    check("mappings that ask for huge pages", any("hg" in words for words in flags), True)
    check("the background thread's policy (3: SCHED_BATCH)", machine.scheduling(tasks["reclaim"][0])[0], os.SCHED_BATCH)
    slices = machine.scheduling(worker)[1]
    refusals = server.log("granted").count("worker-slice-us 3000 is not in force: ")
    check("slice in ns, refusals logged", (slices, refusals), (3_000_000, 0) if has_slices() else (0, 1))
    server.stop("granted")


def has_slices():
    release = tuple(int(part) for part in re.findall(r"\d+", os.uname().release)[:2])
    return release >= (6, 12)


def queues():
    """The number of queues, which no file holds: told, put back, and refused beyond what the device has.

    A plan for four cores has one CPU for interrupts and so wants no more queues than there are. So the journal is
    written here, as `apply` would.
    """
    title("queues of the network interface")
    name = machine.interface()
    combined, most = machine.queues(name)
    note(f"{name}: {combined} of {most} combined queues")
    findings = json.loads(tune("doctor", "--json", "--interval", "0", shown=False)[1])["findings"]
    evidence = next(finding["evidence"] for finding in findings if finding["id"] == "R11")
    check("doctor's evidence", f"ethtool -l {name}: {combined} of {most} queues" in evidence, True)
    if most < 2:
        note("one queue only: nothing to change")
        return
    path = f"/tidemill/channels/{name}/combined"
    fewer = most // 2
    machine.set_queues(name, fewer)
    pretend_applied(name, path, most, fewer)
    check("verify", tune("verify"), (0, f"in force R11 {path}: {fewer}\n"))
    check("revert's exit status", tune("revert")[0], 0)
    check("queues after revert", machine.queues(name), (most, most))
    pretend_applied(name, path, most + 1, most)
    status, text = tune("revert")
    check("more than the device has is refused", (status, f"refused R11 {path}: value refused" in text), (1, True))
    check("queues after the refusal", machine.queues(name), (most, most))
    JOURNAL.unlink()


JOURNAL = pathlib.Path("/var/lib/tidemill-tune/journal.json")


def pretend_applied(name, path, before, after):
    entry = {"rule": "R11", "path": path, "from": str(before), "to": str(after),
             "boot_id": machine.text("/proc/sys/kernel/random/boot_id"),
             "persistence": {"Queues": {"interface": name}}, "is_persisted": False}
    JOURNAL.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    JOURNAL.write_text(json.dumps({"format": "tidemill tune journal", "version": 1, "entries": [entry], "files": []}))


def started_by_run():
    """`tidemill tune run` sets for a command what the kernel then tells of it."""
    title("tidemill tune run")
    words = [TIDEMILL, "tune", "run", "--cpus", "2-3", "--memory-node", "1", "--policy", "batch", "--thp", "never",
             "--nofile", "5000", "--memlock", "1048576", "--", "sleep", "1000"]
    print("$ " + " ".join(words).replace(TIDEMILL, "tidemill"))
    with subprocess.Popen(words) as command:
        deadline = time.monotonic() + 120
        while machine.text(f"/proc/{command.pid}/comm") != "sleep" and time.monotonic() < deadline:
            time.sleep(0.2)
        status = machine.text(f"/proc/{command.pid}/status")
        check("its CPUs", machine.field(status, "Cpus_allowed_list"), "2-3")
        check("its huge pages", machine.field(status, "THP_enabled"), "0")
        check("its policy (3: SCHED_BATCH)", machine.scheduling(command.pid)[0], os.SCHED_BATCH)
        check("its limit of open files", machine.open_files_max(command.pid), (5000, 5000))
        policies = {line.split()[1] for line in machine.text(f"/proc/{command.pid}/numa_maps").splitlines()}
        check("its memory policy", [policy for policy in policies if policy.startswith("bind")], ["bind:1"])
        command.send_signal(signal.SIGKILL)
    status, text = tune("run", "--cpus", "all", "--slice-us", "3000", "--", "true")
    if not has_slices():
        note(f"kernel {os.uname().release} has no slice per thread (6.12 has)")
        check("a slice is refused", (status, "slice" in text), (2, True))
    else:
        check("a slice is set", status, 0)
