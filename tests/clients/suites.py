#!/usr/bin/env python3
"""The own test suites of redis-py and go-redis, beside Valkey.

    suites.py [redis-py] [go-redis] [--server PROGRAM]

Each suite runs against Valkey and against Tidemill, each on a port that the system chooses. A test that passes with Valkey
and not with Tidemill is an error, once it has failed twice, unless EXPECTED says why. What fails with both fails for reasons of the suite: tests for
newer servers, for modules, for a cluster or sentinels that are not there.

Suites come from PyPI and from Go's module proxy and are kept in build/tools/suites.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SUITES = ROOT / "build/tools/suites"
ORACLE = ROOT / "build/tools/bin/valkey-server"
REDIS_PY = "8.1.0"
PYTEST = "pytest==9.2.0 pytest-asyncio==1.5.0 pytest-timeout==2.4.0 numpy==2.4.6 cryptography==50.0.2".split()
# Without marks for modules, clusters, TLS and what only a certain provider has.
REDIS_PY_MARKS = "not redismod and not onlycluster and not ssl and not cp_integration"
REDIS_PY_FILES = """cache client commands connection connection_pool data_structure encoding function hash
keyspace_notifications lock monitor multiprocessing pipeline pubsub scripting""".split()
REDIS_PY_ASYNC_FILES = "commands connection_pool lock monitor pipeline pubsub scripting".split()
# go-redis asks for features by the version of Redis; Valkey has those of 7.2.
GO_REDIS_VERSION = "7.2"
# First words of its specifications for one server without modules.
GO_REDIS_PARTS = """ACL AutoPipeline BitCount Client Cmd Commands Conn Hook Monitor PubSub RawCmd RawWriteToCmd
ScanIterator Tx pipelining pool races withConn""".split()
# Tests that pass with Valkey and cannot here, and why.
EXPECTED = {
    "Commands server should SlaveOf": "there is no replication",
    "Commands server should ReplicaOf": "there is no replication",
}
SUITE_SECONDS_MAX = 900
START_SECONDS_MAX = 10


def command(*words, **options):
    """Runs a program that must succeed."""
    subprocess.run([str(word) for word in words], check=True, **options)


@contextlib.contextmanager
def started(server):
    """A server with an empty keyspace; yields its port."""
    with tempfile.TemporaryDirectory(prefix="suites-") as directory:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        process = subprocess.Popen(
            [*server, "--port", str(port), "--bind", "127.0.0.1", "--dir", directory, "--save", "", "--enable-debug-command", "yes"],
            stdout=subprocess.DEVNULL, cwd=directory)
        try:
            deadline = time.monotonic() + START_SECONDS_MAX
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), timeout=1).close()
                    break
                except OSError:
                    if process.poll() is not None or time.monotonic() > deadline:
                        sys.exit(f"{server[0]} does not start")
                    time.sleep(0.05)
            yield port
            if process.poll() is not None:
                sys.exit(f"{server[0]} ended by itself, with {process.returncode}")
        finally:
            process.terminate()
            try:
                process.wait(START_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def redis_py_python():
    """Installs redis-py's sources and what its tests need; returns the interpreter and the sources."""
    directory = SUITES / f"redis-{REDIS_PY}"
    python = SUITES / f"redis-{REDIS_PY}-python/bin/python"
    stamp = directory / ".complete-1"
    if not stamp.exists():
        SUITES.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(directory, ignore_errors=True)
        command(sys.executable, "-m", "venv", "--clear", python.parent.parent)
        pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        archive = SUITES / f"redis-{REDIS_PY}.tar.gz"
        command(*pip, "download", "--no-deps", "--no-binary", ":all:", "--dest", SUITES, f"redis=={REDIS_PY}")
        shutil.unpack_archive(archive, SUITES, filter="data")
        command(*pip, "install", directory, *PYTEST)
        stamp.touch()
    return python, directory


def redis_py(port, names):
    """Outcomes of redis-py's tests by their names, of all without names."""
    python, directory = redis_py_python()
    files = [f"tests/test_{name}.py" for name in REDIS_PY_FILES]
    files += [f"tests/test_asyncio/test_{name}.py" for name in REDIS_PY_ASYNC_FILES]
    with tempfile.NamedTemporaryFile(suffix=".xml") as report:
        subprocess.run(
            [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout", "60", "--redis-url",
             f"redis://127.0.0.1:{port}/0", "-m", REDIS_PY_MARKS, f"--junitxml={report.name}", *(names or files)],
            cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT, timeout=SUITE_SECONDS_MAX)
        tree = xml.etree.ElementTree.parse(report.name)
    outcomes = {}
    for case in tree.iter("testcase"):
        # tests.test_commands.TestRedisCommands and test_get: the name that pytest takes.
        module, *classes = case.get("classname").removeprefix("tests.").partition(".Test")[0::2]
        path = f"tests/{module.replace('.', '/')}.py"
        name = "::".join([path, *(f"Test{each}" for each in classes if each), case.get("name")])
        bad = next((each for each in case if each.tag in ("failure", "error")), None)
        skipped = case.find("skipped") is not None
        outcomes[name] = "skipped" if skipped else "passed" if bad is None else bad.get("message", "failed")[:200]
    return outcomes


def go_redis_program():
    """Compiles the tests of the go-redis that the module of the tests names."""
    downloaded = subprocess.run(["go", "list", "-m", "-json", "github.com/redis/go-redis/v9"], cwd=ROOT / "tests",
                                check=True, capture_output=True, text=True)
    module = json.loads(downloaded.stdout)
    directory = SUITES / f"go-redis-{module['Version']}"
    program = directory / "suite.test"
    if not program.exists():
        shutil.rmtree(directory, ignore_errors=True)
        shutil.copytree(module["Dir"], directory)
        command("chmod", "-R", "u+w", directory)
        command("go", "test", "-c", "-o", program, ".", cwd=directory)
    return program


def go_redis(port, names):
    """Outcomes of go-redis's specifications by their names, of all without names."""
    program = go_redis_program()
    with tempfile.TemporaryDirectory(prefix="go-redis-") as directory:
        endpoints = pathlib.Path(directory) / "endpoints.json"
        endpoints.write_text(json.dumps({"server": {"endpoints": [f"redis://127.0.0.1:{port}"]}}))
        report = pathlib.Path(directory) / "report.json"
        # With an endpoint of its own it starts neither shards nor sentinels.
        environment = {**os.environ, "RE_CLUSTER": "true", "REDIS_ENDPOINTS_CONFIG_PATH": str(endpoints),
                       "REDIS_VERSION": GO_REDIS_VERSION}
        wanted = [re.escape(name) for name in names] or [f"({'|'.join(GO_REDIS_PARTS)}) "]
        focus = [f"-ginkgo.focus=go-redis {each}" for each in wanted]
        subprocess.run([str(program), "-test.run", "TestGinkgoSuite", f"-ginkgo.json-report={report}", *focus],
                       cwd=program.parent, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT,
                       timeout=SUITE_SECONDS_MAX)
        specs = [spec for suite in json.loads(report.read_text()) for spec in suite["SpecReports"] or []]
    outcomes = {}
    for spec in specs:
        name = " ".join([*(spec["ContainerHierarchyTexts"] or []), spec["LeafNodeText"]])
        message = spec.get("Failure", {}).get("Message", "failed")
        outcomes[name] = spec["State"] if spec["State"] in ("passed", "skipped") else message[:200]
    return outcomes


def count(outcomes, word):
    return sum(outcome == word for outcome in outcomes.values())


def compare(name, suite, server):
    """Prints what passes with Valkey and not with Tidemill; returns how much that is."""
    outcomes = {}
    for who, program in (("valkey", [str(ORACLE)]), ("tidemill", server)):
        with started(program) as port:
            outcomes[who] = suite(port, [])
        passed, skipped = count(outcomes[who], "passed"), count(outcomes[who], "skipped")
        failed = len(outcomes[who]) - passed - skipped
        print(f"{name:<9} {who:<9} {passed} passed, {failed} failed, {skipped} skipped", flush=True)
    if count(outcomes["valkey"], "passed") == 0:
        sys.exit(f"{name}: nothing passes with Valkey, so nothing is shown")
    lost = [test for test, outcome in outcomes["valkey"].items()
            if outcome == "passed" and outcomes["tidemill"].get(test) != "passed" and test not in EXPECTED]
    if lost:
        with started(server) as port:
            again = suite(port, lost)
        lost = [test for test in lost if again.get(test) != "passed"]
    for test in lost:
        print(f"{name}: {test}: {outcomes['tidemill'].get(test, 'did not run')}")
    return len(lost)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    suites = {"redis-py": redis_py, "go-redis": go_redis}
    parser.add_argument("names", nargs="*", metavar="SUITE", help="redis-py, go-redis")
    parser.add_argument("--server", default=os.environ.get("TIDEMILL_SERVER", str(ROOT / "target/release/tidemill")))
    options = parser.parse_args()
    unknown = set(options.names) - set(suites)
    if unknown:
        parser.error(f"no suite {', '.join(sorted(unknown))}; there are {', '.join(suites)}")
    # It is started in another directory. Two workers on any machine: on two CPUs it has one by default.
    server = [os.path.abspath(options.server), "server", "--worker-threads", "2"]
    lost = sum(compare(name, suites[name], server) for name in options.names or suites)
    sys.exit(1 if lost else 0)


if __name__ == "__main__":
    main()
