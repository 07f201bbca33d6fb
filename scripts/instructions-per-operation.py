#!/usr/bin/env python3
"""Instructions that the server executes per operation, by function: the load of the budgets under valgrind's callgrind.

    instructions-per-operation.py SERVER [--pipeline 1 16 100] [--seconds 4] [--functions 25]

Unlike times, the figures repeat on a busy machine. They leave out the kernel, the caches and the clock's own page, and
what happens per tick (the sweep) weighs more than in life, because under valgrind a second has far fewer operations.
"""

import argparse
import collections
import json
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
LOAD_FLAGS = ["--connections", "50", "--keys", "100000", "--value-min", "32", "--value-max", "32"]
START_SECONDS_MAX = 60


def build_load(directory):
    load = directory / "load"
    source = ROOT / "tests/bench/native/load.c"
    subprocess.run(["cc", "-O3", "-o", load, source], check=True)
    return load


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for(port, process):
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            time.sleep(0.1)
    sys.exit("the server does not start under valgrind")


def control(process, *arguments):
    command = ["callgrind_control", *arguments, str(process.pid)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def counts_by_function(path):
    """Sums callgrind's own cost lines, not those of calls."""
    counts, names, function, is_call = collections.Counter(), {}, None, False
    for line in path.read_text().splitlines():
        if line.startswith(("fn=", "cfn=")):
            number, name = re.match(r"\((\d+)\)(?: (.*))?", line.split("=", 1)[1]).groups()
            names.setdefault(number, name)
            if line.startswith("fn="):
                function = names[number]
        elif line.startswith("calls="):
            is_call = True
        elif re.match(r"[\d+*-]", line):
            fields = line.split()
            if not is_call and len(fields) > 1:
                counts[function] += int(fields[-1])
            is_call = False
    return counts


def profile(server, load, directory, pipeline, seconds):
    port = free_port()
    output = directory / f"callgrind.{pipeline}"
    process = subprocess.Popen(
        ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={output}", server, "server",
         "--bind", "127.0.0.1", "--port", str(port), "--worker-threads", "1", "--cpu-placement", "off",
         "--dir", str(directory)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(port, process)

        def run(*flags):
            command = [load, "--port", str(port), *LOAD_FLAGS, *flags]
            return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)

        run("--pipeline", "50", "--fill", "--seconds", "100")
        measured = ["--pipeline", str(pipeline), "--seconds"]
        run(*measured, "1")
        control(process, "-i", "on")
        operations = run(*measured, str(seconds))["operations"]
        control(process, "-i", "off")
        control(process, "-d")
    finally:
        process.terminate()
        process.wait()
    return operations, counts_by_function(output.with_name(output.name + ".1"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server", type=pathlib.Path)
    parser.add_argument("--pipeline", type=int, nargs="+", default=[1, 16, 100])
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--functions", type=int, default=25)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        load = build_load(directory)
        for pipeline in arguments.pipeline:
            operations, counts = profile(arguments.server.resolve(), load, directory, pipeline, arguments.seconds)
            total = counts.total()
            print(f"pipeline {pipeline}: {total / operations:.0f} instructions per operation, {operations} operations")
            for function, count in counts.most_common(arguments.functions):
                print(f"{count / operations:9.1f} {count / total:6.1%}  {function}")


if __name__ == "__main__":
    main()
