#!/usr/bin/env python3
"""Client CPU per operation of tidemill bench, on a do-nothing server: beside redis-benchmark, and with more threads.

Repeats are interleaved in random order and CPU time (user and system of the whole client process) is compared, not
wall time, because the machine may be busy with other things. Both clients send the same number of GETs over 50
connections from one thread. With more threads each has 50 connections and sends as many GETs as the one thread, and the
server has as many threads as the client, so that each load thread does the same work against the same server: what is
left is what the threads cost each other. Exits 1 when a median ratio misses its budget.

BENCH_CLIENT=peers or threads runs one part only; REPEATS sets the repeats (7).
"""
import os
import platform
import random
import statistics
import subprocess
import sys
import time

REPEATS = int(os.environ.get("REPEATS", "7"))
PART = os.environ.get("BENCH_CLIENT", "all")
REQUESTS = {1: 100_000, 16: 600_000, 64: 1_500_000}
PEER_BUDGET = 0.65
THREADS_BUDGET = 1.10
tidemill = sys.argv[1] if len(sys.argv) > 1 else "target/release/tidemill"


class NullServer:
    """A do-nothing server with so many threads; ends with the block."""

    def __init__(self, threads):
        self.threads = threads

    def __enter__(self):
        command = [tidemill, "bench", "--serve-nothing", "-t", str(self.threads)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self.process.stdout.readline().strip()

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()


def cpu_us_per_operation(command, count):
    with open(os.devnull, "w") as nothing:
        child = subprocess.Popen(command, stdout=nothing, stderr=nothing)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {child.returncode}")
    return (usage.ru_utime + usage.ru_stime) / count * 1e6


def ours(port, pipeline, threads=1):
    """Command line and number of requests in all."""
    each = REQUESTS[pipeline] // 50
    command = [tidemill, "bench", "-h", "127.0.0.1", "-p", port, "-t", str(threads), "-c", "50", "-n", str(each),
               "--pipeline", str(pipeline), "--ratio", "0:1", "--key-maximum", "100000",
               "--distinct-client-seed", "--hide-histogram"]
    return command, each * 50 * threads


def theirs(port, pipeline):
    count = REQUESTS[pipeline]
    command = ["redis-benchmark", "-h", "127.0.0.1", "-p", port, "-c", "50", "-n", str(count), "-P", str(pipeline),
               "-r", "100000", "-t", "get", "-q"]
    return command, count


def interleaved(runs):
    """Figures by name of REPEATS repeats, each in an order of its own."""
    seen = {name: [] for name in runs}
    for _ in range(REPEATS):
        for name in random.sample(list(runs), len(runs)):
            seen[name].append(cpu_us_per_operation(*runs[name]))
    return seen


def text(values):
    return f"{statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def judged(label, figures, baseline, budget):
    """Prints a line; whether the budget was met."""
    ratios = [own / other for own, other in zip(figures, baseline)]
    met = statistics.median(ratios) <= budget
    print(f"{label:<22}  {text(figures):>26}  {text(baseline):>26}  {text(ratios):>22}  "
          f"budget {budget:.2f}: {'met' if met else 'MISSED'}")
    return met


def heading(*columns):
    print(f"\n{columns[0]:<22}  {columns[1]:>26}  {columns[2]:>26}  {'ratio':>22}")


def peers():
    heading("one thread", "tidemill", "redis-benchmark")
    met = True
    with NullServer(1) as port:
        for pipeline in REQUESTS:
            seen = interleaved({"ours": ours(port, pipeline), "theirs": theirs(port, pipeline)})
            met &= judged(f"pipeline {pipeline}", seen["ours"], seen["theirs"], PEER_BUDGET)
    return met


def threads():
    heading("more threads", "so many", "one thread")
    met = True
    for count in (2, 4):
        for pipeline in REQUESTS:
            with NullServer(1) as one, NullServer(count) as many:
                seen = interleaved({"one": ours(one, pipeline), "many": ours(many, pipeline, count)})
            met &= judged(f"{count} threads, pipeline {pipeline}", seen["many"], seen["one"], THREADS_BUDGET)
    return met


def main():
    seed = time.time_ns() % 1_000_000
    random.seed(seed)
    version = subprocess.run(["redis-benchmark", "--version"], capture_output=True, text=True).stdout.strip()
    print(f"{platform.platform()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}; {version}; seed {seed}")
    print("client CPU, microseconds per operation; medians (smallest to largest)")
    parts = {"peers": peers, "threads": threads}
    wanted = [part for name, part in parts.items() if PART in (name, "all")]
    if not wanted:
        sys.exit(f"BENCH_CLIENT={PART}: peers, threads or all")
    return 0 if all([part() for part in wanted]) else 1


if __name__ == "__main__":
    sys.exit(main())
