#!/usr/bin/env python3
"""Client CPU per operation: tidemill bench beside redis-benchmark, on the same do-nothing server.

Both send the same number of GETs over 50 connections from one thread; repeats are interleaved in
random order and CPU time (user and system of the whole client process) is compared, not wall time,
because the machine may be busy with other things. Exits 1 when a median ratio misses the budget.
"""
import os
import platform
import random
import statistics
import subprocess
import sys
import time

BUDGET = 0.65
REPEATS = int(os.environ.get("REPEATS", "7"))
REQUESTS = {1: 100_000, 16: 600_000, 64: 1_500_000}
tidemill = sys.argv[1] if len(sys.argv) > 1 else "target/release/tidemill"


def cpu_seconds(command):
    with open(os.devnull, "w") as nothing:
        child = subprocess.Popen(command, stdout=nothing, stderr=nothing)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {child.returncode}")
    return usage.ru_utime + usage.ru_stime


def commands(port, pipeline):
    count = REQUESTS[pipeline]
    ours = [tidemill, "bench", "-h", "127.0.0.1", "-p", port, "-t", "1", "-c", "50", "-n", str(count // 50),
            "--pipeline", str(pipeline), "--ratio", "0:1", "--key-maximum", "100000",
            "--distinct-client-seed", "--hide-histogram"]
    theirs = ["redis-benchmark", "-h", "127.0.0.1", "-p", port, "-c", "50", "-n", str(count), "-P", str(pipeline),
              "-r", "100000", "-t", "get", "-q"]
    return {"tidemill": ours, "redis-benchmark": theirs}


def main():
    seed = time.time_ns() % 1_000_000
    random.seed(seed)
    server = subprocess.Popen([tidemill, "bench", "--serve-nothing"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)
    missed = False
    try:
        port = server.stdout.readline().strip()
        version = subprocess.run(["redis-benchmark", "--version"], capture_output=True, text=True).stdout.strip()
        print(f"{platform.platform()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}; {version}; seed {seed}")
        print("client CPU, microseconds per operation; medians (smallest to largest)\n")
        print(f"{'pipeline':>8}  {'tidemill':>26}  {'redis-benchmark':>26}  {'ratio':>22}")
        for pipeline, count in REQUESTS.items():
            pair = commands(port, pipeline)
            seen = {name: [] for name in pair}
            for _ in range(REPEATS):
                order = list(pair)
                random.shuffle(order)
                for name in order:
                    seen[name].append(cpu_seconds(pair[name]) / count * 1e6)
            ratios = [ours / theirs for ours, theirs in zip(seen["tidemill"], seen["redis-benchmark"])]
            text = [f"{statistics.median(v):.3f} ({min(v):.3f} to {max(v):.3f})"
                    for v in (seen["tidemill"], seen["redis-benchmark"], ratios)]
            verdict = "met" if statistics.median(ratios) <= BUDGET else "MISSED"
            missed |= verdict == "MISSED"
            print(f"{pipeline:>8}  {text[0]:>26}  {text[1]:>26}  {text[2]:>22}  budget {BUDGET}: {verdict}")
    finally:
        server.stdin.close()
        server.wait()
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
