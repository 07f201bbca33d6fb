#!/usr/bin/env python3
"""Valkey's own Tcl suite with Tidemill in the server's place.

    run.py [UNIT...] [--server PROGRAM] [--oracle] [--jobs N] [--update] [--keep DIRECTORY]

Each unit runs by itself (`--durable`: the unit goes on behind a failed test), in a process group and a directory of
its own. Tests that fail must be in expected_failures.txt, each under the reason for which it is accepted, and tests
listed there must fail; anything else is an error. `--oracle` runs Valkey's own binary instead: what that fails here,
it fails for reasons of this machine or of the way it was built, and nobody need pass.

The suite comes from Debian's source package: see source.py.
"""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import source

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
EXPECTED = HERE / "expected_failures.txt"
ORACLE = ROOT / "build/tools/bin/valkey-server"

# Units that take a minute and less; `--all` takes the others too.
UNITS = {
    "types": ["unit/type/" + name for name in
              "hash incr list list-2 list-3 set stream stream-cgroups string zset".split()]
             + ["unit/" + name for name in "bitfield bitops dump expire geo hashexpire hyperloglog info info-command "
                "keyspace lazyfree limits maxmemory other protocol scan sort violations client-eviction".split()],
    "persistence": ["unit/aofrw", "unit/shutdown"] + ["integration/" + name for name in
                    "rdb aof aof-multi-part aof-race convert-ziplist-hash-on-load convert-ziplist-zset-on-load "
                    "convert-zipmap-hash-on-load corrupt-dump skip-rdb-checksum logging valkey-check-rdb".split()],
    "services": ["unit/" + name for name in "acl acl-v2 auth commandlog introspection introspection-2 latency-monitor "
                 "memefficiency multi networking obuf-limits pause pubsub pubsubshard querybuf quit replybufsize "
                 "slowlog tracking".split()],
    "scripts": ["unit/functions", "unit/scripting"],
}
UNIT_SECONDS_MAX = 300
# Without replication these wait for a replica, some of them for ever.
DENIED_TAGS = "-needs:repl -repl"
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
OUTCOME = re.compile(r"^(?:\*\*\* )?\[(ok|err|exception|skip|ignore|timeout)\]: (.*)$")


class Outcome:
    """What one unit did: names of tests that passed and failed, why those failed, how the unit ended."""

    def __init__(self, unit):
        self.unit = unit
        self.passed = []
        self.failed = collections.OrderedDict()
        self.abort = None
        self.seconds = 0.0

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
                current = re.sub(r" in tests/\S+$", "", name)
                self.failed.setdefault(current, [])
            elif kind in ("exception", "timeout"):
                self.abort = line.strip()


def binaries(directory, server):
    """A folder of programs under the names by which the suite starts them."""
    directory.mkdir()
    launcher = directory / "valkey-server"
    launcher.write_text(f"#!/bin/sh\nexec {shlex.join(server)} \"$@\"\n")
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


def run_unit(unit, server, suite, base_port, keep):
    """Runs a unit in a copy of the suite's tests: it writes into its folder."""
    outcome = Outcome(unit)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tidemill-suite-") as scratch:
        scratch = pathlib.Path(scratch)
        shutil.copytree(suite / "tests", scratch / "tests", symlinks=True)
        shutil.copytree(suite / "utils", scratch / "utils", symlinks=True)
        environment = dict(os.environ, VALKEY_BIN_DIR=str(binaries(scratch / "bin", server)))
        output = scratch / "output"
        with output.open("wb") as log:
            process = subprocess.Popen(
                ["tclsh", "tests/test_helper.tcl", "--single", unit, "--durable", "--clients", "1", "--tags", DENIED_TAGS,
                 "--baseport", str(base_port), "--portcount", "900", "--timeout", str(UNIT_SECONDS_MAX)],
                cwd=scratch, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                start_new_session=True)
            try:
                process.wait(timeout=UNIT_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                outcome.abort = f"not done after {UNIT_SECONDS_MAX} s"
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
    """Accepted failures: {unit: {name of the test: reason}}. Lines are `# unit`, `## reason`, names; `#` alone, a remark."""
    expected = collections.defaultdict(dict)
    unit = reason = None
    for number, line in enumerate(EXPECTED.read_text().splitlines(), 1):
        if line.startswith("## "):
            reason = line[3:].strip()
        elif line.startswith("# "):
            unit, reason = line[2:].strip(), None
        elif line.strip() and not line.startswith("#"):
            if unit is None or reason is None:
                sys.exit(f"{EXPECTED.name}:{number}: a test without unit or reason")
            expected[unit][line.strip()] = reason
    return expected


# In place of the names of tests: the unit may end before its last test.
ABORTS = "(the unit ends early)"


def judge(outcome, expected):
    """Differences to what is expected, as lines."""
    lines = []
    for name, details in outcome.failed.items():
        if name.strip() not in expected:
            lines.append(f"{outcome.unit}: failed: {name}: {' | '.join(details[:2])[:240]}")
    if outcome.abort and ABORTS not in expected:
        lines.append(f"{outcome.unit}: ended early: {outcome.abort[:240]}")
    passed = {name.strip() for name in outcome.passed}
    for name in expected:
        if name in passed and name not in {failed.strip() for failed in outcome.failed}:
            lines.append(f"{outcome.unit}: passes, but is listed as a failure: {name}")
    if not outcome.abort and ABORTS in expected:
        lines.append(f"{outcome.unit}: ends whole, but is listed to end early")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("units", nargs="*", help=f"units or groups of them ({', '.join(UNITS)}); default: all groups")
    parser.add_argument("--server", default=str(ROOT / "target/release/tidemill"), help="binary of Tidemill")
    parser.add_argument("--oracle", action="store_true", help="Valkey's own binary in its place")
    parser.add_argument("--jobs", type=int, default=2, help="units at a time")
    parser.add_argument("--keep", type=pathlib.Path, help="directory for the output of each unit")
    options = parser.parse_args()
    suite = source.fetch()
    units = [unit for word in options.units or UNITS for unit in UNITS.get(word, [word])]
    units = [unit for unit in units if (suite / "tests" / (unit + ".tcl")).exists()]
    if not units:
        sys.exit(f"no such unit; groups: {', '.join(UNITS)}")
    server = [str(ORACLE)] if options.oracle else [str(pathlib.Path(options.server).resolve()), "server"]
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
    expected = collections.defaultdict(dict) if options.oracle else expected_failures()
    passed = failed = 0
    differences = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        running = [pool.submit(run_unit, unit, server, suite, 21111 + 1000 * (index % 20), options.keep)
                   for index, unit in enumerate(units)]
        for done in running:
            outcome = done.result()
            passed += len(outcome.passed)
            failed += len(outcome.failed)
            aborted = f", ended early: {outcome.abort}" if outcome.abort else ""
            print(f"{outcome.unit}: {len(outcome.passed)} passed, {len(outcome.failed)} failed, "
                  f"{outcome.seconds:.0f} s{aborted}", flush=True)
            if options.oracle:
                for name, details in outcome.failed.items():
                    print(f"    {name}: {' | '.join(details[:2])[:200]}")
            differences += judge(outcome, expected[outcome.unit])
    for line in differences if not options.oracle else []:
        print(line)
    print(f"{passed} passed, {failed} failed ({failed - len([d for d in differences if ': failed: ' in d])} of them "
          f"expected), {passed / max(1, passed + failed):.1%}")
    return 1 if differences and not options.oracle else 0


if __name__ == "__main__":
    sys.exit(main())
