#!/usr/bin/env python3
"""Valkey's own Tcl suite with Tidemill in the server's place.

    run.py [UNIT...] [--fast] [--server PROGRAM] [--oracle] [--jobs N] [--update] [--keep DIRECTORY]

Each unit runs by itself (`--durable`: the unit goes on behind a failed test), in a process group and a directory of
its own. Tests that fail must be in expected_failures.txt, each under the reason for which it is accepted, and tests
listed there must fail, unless their reason begins with `sometimes`; anything else is an error. A unit with other errors
runs once more, with nothing beside it, and that run counts, if the machine stood still for 0.1 s beside it, or the errors
are times above a bound of the suite's (tens of milliseconds), waits of a second that were over, scripts that had not begun
after 200 ms, or negative figures of memory. `--update` writes that
list anew for the units that ran: reasons stay, tests that pass go, and those that fail without a reason come under
UNEXPLAINED, which is an error until somebody puts a reason in its place. `--fast` runs the units of `make check`.
`--oracle` runs Valkey's own binary instead: what that fails here, it fails for reasons of this machine or of
the way it was built, and nobody need pass.

The suite comes from Debian's source package: see source.py.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import source

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
EXPECTED = HERE / "expected_failures.txt"
# The suite expects of a script that runs for long that everybody hears BUSY. Two workers on any machine: by default there
# is one on two CPUs, which has no races.
OPTIONS = ["--busy-reply-all", "yes", "--worker-threads", "2"]
ORACLE = ROOT / "build/tools/bin/valkey-server"

UNITS = {
    "types": ["unit/type/" + name for name in
              "hash incr list list-2 list-3 set stream stream-cgroups string zset".split()]
             + ["unit/" + name for name in "bitfield bitops dump expire geo hashexpire hyperloglog info info-command "
                "keyspace lazyfree limits maxmemory memefficiency other protocol scan sort violations "
                "client-eviction".split()],
    "persistence": ["unit/aofrw", "unit/shutdown"] + ["integration/" + name for name in
                    "rdb aof aof-multi-part aof-race convert-ziplist-hash-on-load convert-ziplist-zset-on-load "
                    "convert-zipmap-hash-on-load corrupt-dump corrupt-dump-fuzzer skip-rdb-checksum logging valkey-check-rdb".split()],
    "services": ["unit/" + name for name in "acl acl-v2 auth commandlog introspection introspection-2 latency-monitor "
                 "multi networking obuf-limits pause pubsub pubsubshard querybuf quit replybufsize "
                 "slowlog tls tracking".split()],
    "scripts": ["unit/functions", "unit/scripting"],
}
# Units of `--fast`, for `make check`: four minutes on two cores. To add one: its failures are listed, and the slowest of
# these takes half a minute.
FAST_UNITS = ["unit/type/" + name for name in "hash incr list list-2 set stream stream-cgroups string zset".split()] + [
    "unit/" + name for name in "bitfield bitops client-eviction expire geo info info-command keyspace lazyfree limits "
    "memefficiency multi other pause protocol quit replybufsize scan slowlog sort violations".split()]
# Units whose clients speak TLS, by Tcl's package tls.
TLS_UNITS = ["unit/tls"]
UNIT_SECONDS_MAX = 300
# Without replication these wait for a replica, some of them for ever; without cluster mode no server starts.
DENIED_TAGS = "-needs:repl -repl -cluster"
# Ranges of ports, one per unit, below those that the system gives to connections. The suite looks at the ports 10,000
# above its own, too.
PORT_MIN = 10100
PORTS_PER_UNIT = 500
PORT_RANGES = 20
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# The suite's words for a figure outside of its bounds, with the figure and the upper bound.
OUT_OF_RANGE = re.compile(r"Expected '(\d+)' to be between to '\d+' and '(\d+)'")
# Seconds between two looks at a unit that runs.
LOOK_S = 0.01
# Seconds by which a sleep of this program was too long beside a unit, from which on its tests, of which some wait for 100 ms
# in all, tell the machine's speed.
STALL_S_MIN = 0.1
# Milliseconds above a bound that count as the machine's.
LATE_MS_MAX = 500
# The suite's words behind a wait of a second in all, of which a busy machine may take all.
WAITED_A_SECOND = re.compile(r"Timeout waiting for blocked clients?")
# The suite's words for a transaction that ran, since the script of another worker that was to be in its way had not begun.
BEFORE_THE_SCRIPT = re.compile(r"Expected '[\d ]+' to match 'EXECABORT\*|NOTBUSY No scripts in execution")
# Errors of the tests behind it: nobody ends that script, and its BUSY leaves a transaction open.
BESIDE_THE_SCRIPT = re.compile(r"busy running a script|not allowed inside a transaction")
# The suite's words for memory that a test has taken, where less was used behind it than before: data of the test before
# was freed in the background meanwhile, which a busy machine delays.
FREED_MEANWHILE = re.compile(r"Expected -[\d.]+ >= [\d.]+ .*\$efficiency >= ")
OUTCOME = re.compile(r"^(?:\*\*\* )?\[(ok|err|exception|skip|ignore|timeout)\]: (.*)$")


class Outcome:
    """What one unit did: names of tests that passed and failed, why those failed, how the unit ended."""

    def __init__(self, unit):
        self.unit = unit
        self.passed = []
        self.failed = collections.OrderedDict()
        self.abort = None
        self.seconds = 0.0
        self.stall_s = 0.0

    def read(self, text):
        current = None
        for line in COLOUR.sub("", text).splitlines():
            found = OUTCOME.match(line)
            if found is None:
                if current is not None and len(self.failed[current]) < 4 and line.strip():
                    self.failed[current].append(line.strip())
                continue
            kind, name = found.groups()
            current = None
            if kind == "ok":
                self.passed.append(re.sub(r" \(\d+ ms\)$", "", name))
            elif kind == "err":
                # A server that does not start is named by its place.
                current = re.sub(r"\S*/bin/", "", re.sub(r" in tests/\S+$", "", name))
                self.failed.setdefault(current, [])
            elif kind in ("exception", "timeout"):
                self.abort = line.strip()


def binaries(directory, server):
    """A folder of programs under the names by which the suite starts them."""
    directory.mkdir()
    launcher = directory / "valkey-server"
    options = shlex.join([] if server == [str(ORACLE)] else OPTIONS)
    # Behind a file: behind an option that lacks its values they would be these.
    launcher.write_text(f"#!/bin/sh\ncase $1 in -*) ;; *) set -- \"$@\" {options} ;; esac\n"
                        f"exec {shlex.join(server)} \"$@\"\n")
    launcher.chmod(0o755)
    for name in ("cli", "benchmark"):
        program = shutil.which(f"redis-{name}")
        if program is None:
            sys.exit(f"redis-{name} is missing; make setup installs it")
        (directory / f"valkey-{name}").symlink_to(program)
    for name in ("check-rdb", "check-aof"):
        tool = directory / f"valkey-{name}"
        if server == [str(ORACLE)]:
            # It goes by the name under which it is started.
            tool.symlink_to(ORACLE)
        else:
            tool.write_text(f"#!/bin/sh\nexec {shlex.join([server[0], name])} \"$@\"\n")
            tool.chmod(0o755)
    return directory


# An exception outside of any test ends a block of tests. Behind it the suite forgets which servers run, and ends the unit.
AFTER_EXCEPTION = """                send_data_packet $::test_server_fd err [join $details "\\n"]
            } else {
                # Restore state before re-raising
"""
END_OF_BLOCK = """                send_data_packet $::test_server_fd err [join $details "\\n"]
                set ::singledb $old_singledb
                set ::tags [lrange $::tags 0 end-[llength $tags]]
                return
            } else {
                # Restore state before re-raising
"""


# Valkey's saves and rewrites are processes, which tests kill. Here a command ends them as failed.
CHILD_IS_A_THREAD = """
proc get_child_pid {idx} {
    return "save-of-$idx"
}
if {[info commands exec_of_tcl] eq {}} {
    rename exec exec_of_tcl
    proc exec {args} {
        if {[lindex $args 0] eq {kill} && [regexp {^save-of-(-?\\d+)$} [lindex $args end] whole idx]} {
            return [r $idx debug abort-save]
        }
        uplevel 1 [list exec_of_tcl {*}$args]
    }
}
"""


def copy_suite(suite, directory, has_child):
    """A copy of the suite for one unit, which writes into its folder, with the end of a block mended."""
    for folder in ("tests", "utils"):
        shutil.copytree(suite / folder, directory / folder, symlinks=True)
    path = directory / "tests/support/server.tcl"
    text = path.read_text()
    if text.count(AFTER_EXCEPTION) != 1:
        sys.exit(f"{path.name} of this version is another: mend copy_suite in {__file__}")
    path.write_text(text.replace(AFTER_EXCEPTION, END_OF_BLOCK))
    if not has_child:
        with (directory / "tests/support/util.tcl").open("a") as util:
            util.write(CHILD_IS_A_THREAD)


@contextlib.contextmanager
def reserved_ports():
    """The first port of a range that no other run on this machine has: its owner listens on the port before."""
    while True:
        for base in range(PORT_MIN, PORT_MIN + PORTS_PER_UNIT * PORT_RANGES, PORTS_PER_UNIT):
            with socket.socket() as reservation:
                try:
                    reservation.bind(("127.0.0.1", base))
                    reservation.listen(1)
                except OSError:
                    continue
                yield base + 1
                return
        time.sleep(1)


def run_unit(unit, server, suite, keep):
    """Runs a unit in a copy of the suite, on ports of its own."""
    with reserved_ports() as base_port:
        return run_unit_on(base_port, unit, server, suite, keep)


def tls_mode(scratch):
    """Flags that make servers and clients of the suite speak TLS, with certificates made in its folder."""
    subprocess.run(["bash", "utils/gen-test-certs.sh"], cwd=scratch, check=True, stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return ["--tls"]


def run_unit_on(base_port, unit, server, suite, keep):
    outcome = Outcome(unit)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tidemill-suite-") as scratch:
        scratch = pathlib.Path(scratch)
        copy_suite(suite, scratch, server == [str(ORACLE)])
        environment = dict(os.environ, VALKEY_BIN_DIR=str(binaries(scratch / "bin", server)))
        output = scratch / "output"
        mode = tls_mode(scratch) if unit in TLS_UNITS else []
        with output.open("wb") as log:
            process = subprocess.Popen(
                ["tclsh", "tests/test_helper.tcl", "--single", unit, "--durable", "--clients", "1", "--tags", DENIED_TAGS,
                 *mode, "--baseport", str(base_port), "--portcount", str(PORTS_PER_UNIT - 10), "--timeout", str(UNIT_SECONDS_MAX)],
                cwd=scratch, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                start_new_session=True)
            while process.poll() is None:
                before = time.monotonic()
                if before > started + UNIT_SECONDS_MAX:
                    outcome.abort = f"not done after {UNIT_SECONDS_MAX} s"
                    break
                time.sleep(LOOK_S)
                outcome.stall_s = max(outcome.stall_s, time.monotonic() - before - LOOK_S)
        # Servers that the unit left behind are of its process group.
        for sign in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(process.pid, sign)
                time.sleep(0.2)
            except ProcessLookupError:
                break
        process.wait()
        text = output.read_text(errors="replace")
        if keep:
            (keep / (unit.replace("/", "-") + ".log")).write_text(text)
    outcome.read(text)
    if outcome.abort is None and "Test Summary:" not in COLOUR.sub("", text):
        last = [line for line in COLOUR.sub("", text).splitlines() if line.strip()]
        outcome.abort = "the unit ended early: " + (last[-1][:200] if last else "no output")
    outcome.seconds = time.monotonic() - started
    return outcome


def expected_failures():
    """Accepted failures: {unit: {name of the test: reason}}. Lines are `# unit`, `## reason`, names, `#: remark`."""
    expected = collections.defaultdict(dict)
    unit = reason = None
    for number, line in enumerate(EXPECTED.read_text().splitlines(), 1):
        if line.startswith("## "):
            reason = line[3:].strip()
        elif line.startswith("# "):
            unit, reason = line[2:].strip(), None
            expected[unit] = {}
        elif line.strip() and not line.startswith("#:"):
            if unit is None or reason is None:
                sys.exit(f"{EXPECTED.name}:{number}: a test without unit or reason")
            expected[unit][line.strip()] = reason
    return expected


def update(expected, outcomes):
    """Writes the list anew with what the units did. All units have a heading, so that changes of two do not meet."""
    for outcome in outcomes:
        known = expected[outcome.unit]
        failed = [name.strip() for name in outcome.failed] + ([ABORTS] if outcome.abort else [])
        # A unit that ended early says nothing of the tests behind its end.
        unseen = set(known) - {name.strip() for name in outcome.passed} if outcome.abort else set()
        expected[outcome.unit] = {name: known.get(name, UNEXPLAINED)
                                  for name in [*known, *failed]
                                  if name in failed or name in unseen or known[name].startswith("sometimes")}
    lines = [line for line in EXPECTED.read_text().splitlines() if line.startswith("#:")]
    for unit in sorted(set(expected).union(*UNITS.values())):
        lines += ["", f"# {unit}"]
        names = expected.get(unit, {})
        for reason in dict.fromkeys(names.values()):
            lines += [f"## {reason}", *(name for name in names if names[name] == reason)]
    EXPECTED.write_text("\n".join(lines) + "\n")


# In place of the names of tests: the unit may end before its last test.
ABORTS = "(the unit ends early)"
# In place of a reason, by `--update`.
UNEXPLAINED = "UNEXPLAINED"


def judge(outcome, expected):
    """Differences to what is expected, as lines."""
    lines = []
    for name, details in outcome.failed.items():
        if name.strip() not in expected:
            lines.append(f"{outcome.unit}: failed: {name}: {' | '.join(details[:2])[:240]}")
    if outcome.abort and ABORTS not in expected:
        lines.append(f"{outcome.unit}: ended early: {outcome.abort[:240]}")
    passed = {name.strip() for name in outcome.passed}
    for name, reason in expected.items():
        if reason == UNEXPLAINED:
            lines.append(f"{outcome.unit}: {UNEXPLAINED} in {EXPECTED.name}: {name}")
        is_chance = reason.startswith("sometimes")
        if name in passed and not is_chance and name not in {failed.strip() for failed in outcome.failed}:
            lines.append(f"{outcome.unit}: passes, but is listed as a failure: {name}")
    if not outcome.abort and ABORTS in expected:
        lines.append(f"{outcome.unit}: ends whole, but is listed to end early")
    return lines


def is_late(outcome, expected):
    """True if the unit differs from what is expected while the machine stood still, or only by what a busy machine
    does: figures a little above their upper bounds, waits of a second that were over, memory that was freed late."""
    if outcome.stall_s >= STALL_S_MIN:
        return bool(judge(outcome, expected))
    if outcome.abort and ABORTS not in expected:
        return False
    unexpected = [" ".join(details) for name, details in outcome.failed.items() if name.strip() not in expected]
    script_is_late = False
    for details in unexpected:
        script_is_late |= BEFORE_THE_SCRIPT.search(details) is not None
        if not is_late_test(details) and not (script_is_late and BESIDE_THE_SCRIPT.search(details)):
            return False
    return bool(unexpected)


def is_late_test(details):
    if any(words.search(details) for words in (WAITED_A_SECOND, BEFORE_THE_SCRIPT, FREED_MEANWHILE)):
        return True
    found = OUT_OF_RANGE.search(details)
    return found is not None and 0 < int(found[1]) - int(found[2]) <= LATE_MS_MAX


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("units", nargs="*", help=f"units or groups of them ({', '.join(UNITS)}); default: all groups")
    parser.add_argument("--server", default=str(ROOT / "target/release/tidemill"), help="binary of Tidemill")
    parser.add_argument("--oracle", action="store_true", help="Valkey's own binary in its place")
    parser.add_argument("--fast", action="store_true", help=f"of these units only {', '.join(FAST_UNITS)}")
    parser.add_argument("--update", action="store_true", help=f"write {EXPECTED.name} anew for the units that run")
    parser.add_argument("--jobs", type=int, default=2, help="units at a time")
    parser.add_argument("--keep", type=pathlib.Path, help="directory for the output of each unit")
    options = parser.parse_args()
    try:
        suite = source.fetch()
    except source.Unavailable as reason:
        sys.exit(f"{reason}")
    units = [unit for word in options.units or UNITS for unit in UNITS.get(word, [word])]
    unknown = [unit for unit in units if not (suite / "tests" / (unit + ".tcl")).exists()]
    if unknown:
        sys.exit(f"no such unit: {', '.join(unknown)}; groups: {', '.join(UNITS)}")
    if options.fast:
        units = [unit for unit in units if unit in FAST_UNITS]
    server = [str(ORACLE)] if options.oracle else [str(pathlib.Path(options.server).resolve()), "server"]
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
    expected = collections.defaultdict(dict) if options.oracle else expected_failures()
    outcomes = run_units(units, server, suite, options, expected)
    if options.oracle:
        for outcome in outcomes:
            for name, details in outcome.failed.items():
                print(f"{outcome.unit}: {name}: {' | '.join(details[:2])[:200]}")
        return 0
    if options.update:
        update(expected, outcomes)
    differences = [line for outcome in outcomes for line in judge(outcome, expected[outcome.unit])]
    for line in differences:
        print(line)
    print(f"{len(differences)} differences to {EXPECTED.name}")
    return 1 if differences else 0


def print_outcome(outcome):
    aborted = f", ended early: {outcome.abort}" if outcome.abort else ""
    print(f"{outcome.unit}: {len(outcome.passed)} passed, {len(outcome.failed)} failed, "
          f"{outcome.seconds:.0f} s{aborted}", flush=True)


def run_units(units, server, suite, options, expected):
    """Runs units, some at a time, and prints what became of each and of all; returns that in their order.

    Units that were late run once more, by themselves.
    """
    outcomes = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        running = [pool.submit(run_unit, unit, server, suite, options.keep) for unit in units]
        for done in running:
            outcomes.append(done.result())
            print_outcome(outcomes[-1])
    for at, outcome in enumerate(outcomes):
        if not options.oracle and is_late(outcome, expected[outcome.unit]):
            print(f"{outcome.unit} was late, by {outcome.stall_s:.2f} s at once, and runs once more:",
                  *judge(outcome, expected[outcome.unit]), sep="\n  ")
            outcomes[at] = run_unit(outcome.unit, server, suite, options.keep)
            print_outcome(outcomes[at])
    passed = sum(len(outcome.passed) for outcome in outcomes)
    failed = sum(len(outcome.failed) for outcome in outcomes)
    print(f"{passed} passed, {failed} failed: {passed / max(1, passed + failed):.1%}")
    return outcomes


if __name__ == "__main__":
    sys.exit(main())
