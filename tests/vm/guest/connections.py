"""Very many idle connections on one server."""

import os
import pathlib
import select
import subprocess
import sys
import time

import machine
import server
from report import check, note, title, tune

COUNT = 100_000
# An address has at most 64,511 ports that need no rights; five processes connect faster than one.
SOURCES = [f"127.0.1.{number}" for number in range(1, 6)]
PORT = 6391
# The budget (docs/benchmarks/memory.md) for resident memory per idle connection.
BYTES_MAX = 1_024
HELD_SECONDS = 10
PROGRESS_SECONDS = 30
# A timer of 300 s, tcp-keepalive's, fires within a grain of 16 s: the probes of all connections made in one such grain
# leave at once. Beyond this number per CPU the loopback drops them, and after three of them the connection.
BACKLOG = "/proc/sys/net/core/netdev_max_backlog"
CONNECT_LIMIT_SECONDS = 40 * 60


def hold_many():
    title(f"{COUNT:,} idle connections")
    pathlib.Path(BACKLOG).write_text(str(COUNT))
    dropped = dropped_count()
    pid = server.start("many", PORT, "LimitNOFILE=120000", arguments=("--maxclients", str(COUNT + 1_000)))
    before = resident_bytes(pid)
    share = COUNT // len(SOURCES)
    started = time.monotonic()
    words = [sys.executable, "/opt/vm/guest/hold.py"]
    holders = [subprocess.Popen([*words, source, str(PORT), str(share)], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, text=True) for source in SOURCES]
    try:
        wait_for(holders, pid)
        check("connections that answered", [holder.stdout.readline().strip() for holder in holders],
              [f"held {share}"] * len(SOURCES))
        note(f"connected in {time.monotonic() - started:.0f} s")
        check("connected_clients", server.info(PORT, "connected_clients"), str(COUNT + 1))
        per_connection = (resident_bytes(pid) - before) // COUNT
        note(f"resident memory per idle connection: {per_connection} bytes")
        check(f"at most {BYTES_MAX} bytes", per_connection <= BYTES_MAX, True)
        # Its table of sockets is larger than what doctor takes of any file.
        status, text = tune("doctor", "--json", "--port", str(PORT), shown=False)
        check("doctor judges the server among them", (status in (0, 1, 3), f"/proc/{pid}/" in text), (True, True))
        time.sleep(HELD_SECONDS)
        for holder in holders:
            holder.stdin.write("\n")
            holder.stdin.flush()
        answers = [holder.stdout.readline().split() for holder in holders]
        check(f"{HELD_SECONDS} s later, of a sample", [answer[1:2] == answer[3:4] != [] for answer in answers],
              [True] * len(SOURCES))
        check("connected_clients", server.info(PORT, "connected_clients"), str(COUNT + 1))
        check("packets dropped for want of backlog", dropped_count() - dropped, 0)
    finally:
        for holder in holders:
            holder.kill()
            holder.wait()
    deadline = time.monotonic() + 300
    while server.info(PORT, "connected_clients") != "1" and time.monotonic() < deadline:
        time.sleep(1)
    check("connected_clients after they went", server.info(PORT, "connected_clients"), "1")
    server.stop("many")


def wait_for(holders, pid):
    """Tells of the progress, which takes minutes, until each holder has something to say."""
    deadline = time.monotonic() + CONNECT_LIMIT_SECONDS
    waiting = {holder.stdout for holder in holders}
    while waiting and time.monotonic() < deadline:
        waiting -= set(select.select(waiting, [], [], PROGRESS_SECONDS)[0])
        sockets = machine.field(machine.text(f"/proc/{pid}/net/sockstat"), "TCP").split()[1]
        available = machine.field(machine.text("/proc/meminfo"), "MemAvailable")
        note(f"{sockets} TCP sockets in use, {available} available, load {os.getloadavg()[0]:.0f}")
    for holder in holders:
        if holder.stdout in waiting:
            holder.kill()


def dropped_count():
    """Packets that found a CPU's backlog full, of all CPUs."""
    return sum(int(line.split()[1], 16) for line in machine.text("/proc/net/softnet_stat").splitlines())


def resident_bytes(pid):
    return int(machine.field(machine.text(f"/proc/{pid}/status"), "VmRSS").split()[0]) * 1024
