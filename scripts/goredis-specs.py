#!/usr/bin/env python3
"""go-redis's own specs against Valkey, with go-redis's constructors and with those of clients/go/goredis.

The sources of the specs come from the Go module cache and are changed only in a copy under build/: where
they call a constructor of go-redis, they call one that a variable chooses, and instead of fixed ports they
use those on which this script starts what they want: a server, three for the ring, a primary with two
replicas and three sentinels, a cluster of six, and a server and a cluster of six with TLS. Every spec that go-redis
passes has to pass; those that do not are listed with what they said. Exit status 1 below the target.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CLIENT = ROOT / "clients" / "go"
MODULE = "github.com/redis/go-redis/v9"
CONSTRUCTORS = ["NewClient", "NewClusterClient", "NewFailoverClient", "NewFailoverClusterClient", "NewRing",
                "NewUniversalClient"]
TARGET = 0.98

# Left out: the commands of modules (search, JSON, time series, probabilistic), which Valkey does not have.
FILES = ["acl_commands", "array_commands", "bitmap_commands", "command", "commands", "csc_e2e", "error",
         "himport_commands", "hotkeys_commands", "iterator", "monitor", "pipeline", "pool", "pubsub", "race",
         "redis", "script_server_sha_integration", "tx", "universal", "autopipeline", "osscluster", "ring", "sentinel", "tls", "tls_cluster"]
SKIP = []

# Ports in the sources, by the part that the server behind them plays.
PORTS = {
    "single": [6381],
    "ring": [6390, 6391, 6392],
    "replicated": [9121, 9122, 9123],
    "sentinel": [26379, 26380, 26381],
    "cluster": [16600, 16601, 16602, 16603, 16604, 16605],
    "tls": [6666],
    "tls-cluster": [5430, 5431, 5432, 5433, 5434, 5435],
}
PORT_FILES = ["main", "osscluster", "ring", "sentinel", "universal", "race", "pubsub", "tls", "tls_cluster"]
CERTIFICATE_FOLDERS = ["dockers/standalone/tls", "dockers/osscluster-tls/tls"]

# Reasons of specs that are known to fail.
REASONS = {
    "ClusterClient FailingTimeoutSeconds": "looks for defaults that go-redis writes into the caller's options; here they are copied",
    "ClusterClient timeout": "changes the options it gave after the client was made; here they are copied",
    "kill myself": "a connection that asks for its CLIENT ID gets a socket; the shared one keeps the client's name",
}

SWITCH = """package redis_test

import (
	"os"

	"github.com/redis/go-redis/v9"
	"go.tidemill.dev/client/goredis"
)

// Chosen by the script that runs the specs twice.
var (
%s)

func init() {
	if os.Getenv("SPECS_ADAPTER") == "1" {
%s	}
}
"""


def run(*command, **options):
    return subprocess.run(command, check=True, text=True, **options)


def prepare(work, ports):
    """Copy the module, route its constructors through variables, change its ports, build the test binary."""
    found = run("go", "mod", "download", "-json", MODULE, cwd=CLIENT / "goredis", stdout=subprocess.PIPE)
    module = json.loads(found.stdout)
    source = work / "source"
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(module["Dir"], source)
    for directory, _, files in os.walk(source):
        os.chmod(directory, 0o755)
        for name in files:
            os.chmod(os.path.join(directory, name), 0o644)
    calls = re.compile(r"\bredis\.(%s)\(" % "|".join(CONSTRUCTORS))
    for path in source.glob("*_test.go"):
        text = path.read_text()
        if re.search(r"^package redis_test", text, re.M):
            text = calls.sub(r"specs\1(", text)
            text = text.replace('redisStackPort = "6379"', 'redisStackPort = os.Getenv("SPECS_PORT")')
            if path.name.removesuffix("_test.go") in PORT_FILES:
                text = re.sub(r"\b(%s)\b" % "|".join(str(port) for port in ports if port), lambda found: str(ports[int(found[0])]), text)
            path.write_text(text)
    make_certificates(source / CERTIFICATE_FOLDERS[0])
    for folder in CERTIFICATE_FOLDERS[1:]:
        shutil.copytree(source / CERTIFICATE_FOLDERS[0], source / folder)
    (source / "specs_switch_test.go").write_text(SWITCH % (
        "".join(f"\tspecs{name} = redis.{name}\n" for name in CONSTRUCTORS),
        "".join(f"\t\tspecs{name} = goredis.{name}\n" for name in CONSTRUCTORS)))
    (work / "go.work").write_text(
        f"go 1.26.0\n\nuse (\n\t{source}\n\t{CLIENT}\n\t{CLIENT / 'goredis'}\n)\n\n"
        f"replace go.tidemill.dev/client v0.0.0 => {CLIENT}\n")
    binary = work / "specs.test"
    run("go", "test", "-c", "-o", str(binary), ".", cwd=source, env=os.environ | {"GOWORK": str(work / "go.work")})
    return module["Version"], source, binary


def make_certificates(folder):
    """One certificate plays all parts: the authority's, the server's and the client's."""
    folder.mkdir(parents=True, exist_ok=True)
    run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
        "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", str(folder / "client.key"),
        "-out", str(folder / "client.crt"), stderr=subprocess.DEVNULL)
    shutil.copy(folder / "client.crt", folder / "ca.crt")


def free_ports():
    """A free port for each that the sources name. Cluster nodes talk on a port 10,000 above, which is free too."""
    held = []
    chosen = {}
    for port in sum(PORTS.values(), []) + [0]:
        while True:
            probe = socket.socket()
            held.append(probe)
            probe.bind(("127.0.0.1", 0))
            number = probe.getsockname()[1]
            above = socket.socket()
            held.append(above)
            try:
                if number + 10000 < 65536:
                    above.bind(("127.0.0.1", number + 10000))
                    break
            except OSError:
                pass
        chosen[port] = number
    for probe in held:
        probe.close()
    return chosen


class Servers:
    """What the specs talk to. Processes that specs shut down are started again, as a supervisor would."""

    def __init__(self, directory, ports, certificates):
        self.directory, self.ports = pathlib.Path(directory), ports
        self.certificates = {"cert": certificates / "client.crt", "key": certificates / "client.key",
                             "ca-cert": certificates / "ca.crt"}
        self.stopping = threading.Event()
        self.processes = {}
        self.lines = {}
        for part, numbers in PORTS.items():
            for number in numbers:
                self.add(part, ports[number])
        self.add("single", ports[0])
        for port in self.lines:
            self.processes[port] = self.start(port)
        for port in self.lines:
            self.await_port(port)
        self.join_tls_cluster()
        self.supervisor = threading.Thread(target=self.supervise)
        self.supervisor.start()

    def add(self, part, port):
        home = self.directory / str(port)
        home.mkdir()
        line = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(home), "--loglevel", "warning"]
        if part == "sentinel":
            (home / "sentinel.conf").write_text(
                f"sentinel monitor go-redis-test 127.0.0.1 {self.ports[9121]} 2\n"
                "sentinel down-after-milliseconds go-redis-test 5000\nsentinel failover-timeout go-redis-test 60000\n"
                "sentinel parallel-syncs go-redis-test 1\n")
            line = [str(home / "sentinel.conf"), "--sentinel", *line]
        else:
            line += ["--save", "", "--enable-debug-command", "yes", "--repl-diskless-sync-delay", "0"]
        if part.endswith("cluster"):
            line += ["--cluster-enabled", "yes"]
        server = shutil.which("valkey-server") or str(ROOT / "build" / "tools" / "bin" / "valkey-server")
        if part.startswith("tls"):
            server = "redis-server"  # Valkey as it is packed for Python is built without TLS
            line += ["--port", "0", "--tls-port", str(port), "--tls-auth-clients", "optional", "--tls-cluster", "yes",
                     "--tls-replication", "yes"]
            for name, path in self.certificates.items():
                line += [f"--tls-{name}-file", str(path)]
        self.lines[port] = [server, *line]

    def join_tls_cluster(self):
        """The specs make the other cluster themselves; this one they want to find."""
        nodes = [f"127.0.0.1:{self.ports[number]}" for number in PORTS["tls-cluster"]]
        files = sum(([f"--{name.replace('-', '')}", str(path)] for name, path in self.certificates.items()), [])
        joined = subprocess.run(["redis-cli", "--tls", *files, "--cluster", "create", *nodes, "--cluster-replicas", "1",
                                 "--cluster-yes"], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if joined.returncode != 0:
            self.stop()
            sys.exit(f"goredis-specs: the cluster with TLS does not start:\n{joined.stdout}")

    def start(self, port):
        return subprocess.Popen(self.lines[port], stdout=subprocess.DEVNULL)

    def await_port(self, port):
        for _ in range(600):
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:
                time.sleep(0.05)
        self.stop()
        sys.exit("goredis-specs: a server does not start")

    def supervise(self):
        while not self.stopping.wait(0.5):
            for port, process in self.processes.items():
                if process.poll() is not None:
                    self.processes[port] = self.start(port)

    def stop(self):
        self.stopping.set()
        if hasattr(self, "supervisor"):
            self.supervisor.join()
        for process in self.processes.values():
            process.kill()
            process.wait()


def connections_opened(port):
    """What the server counted: it shows that the adapter was used."""
    with socket.create_connection(("127.0.0.1", port), 5) as conn:
        conn.sendall(b"INFO stats\r\n")
        conn.settimeout(5)
        text = b""
        while b"total_commands_processed" not in text:
            received = conn.recv(65536)
            if not received:
                break
            text += received
    found = re.search(rb"total_connections_received:(\d+)", text)
    return int(found[1]) - 2 if found else "?"  # the script opened two itself


def run_specs(work, source, binary, adapter, arguments, ports):
    """Run the specs once; the outcome of each by its full name."""
    report = work / f"report-{adapter}.json"
    report.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        servers = Servers(directory, ports, source / CERTIFICATE_FOLDERS[0])
        port = ports[0]
        try:
            files = [f"--ginkgo.focus-file=/({'|'.join(arguments.files)})_test[.]go$"]
            skip = [f"--ginkgo.skip={pattern}" for pattern in arguments.skip]
            focus = [f"--ginkgo.focus={arguments.focus}"] if arguments.focus else []
            with open(work / f"log-{adapter}.txt", "w") as log:
                subprocess.run(
                    [str(binary), "-test.run=^TestGinkgoSuite$", "-test.timeout=30m", f"--ginkgo.json-report={report}",
                     "--ginkgo.timeout=25m", "--ginkgo.seed=1", *files, *focus, *skip],
                    cwd=source, stdout=log, stderr=log,
                    env=os.environ | {"SPECS_ADAPTER": str(adapter), "SPECS_PORT": str(port)})
            print(f"{'goredis' if adapter else 'go-redis'} opened {connections_opened(port)} connections", flush=True)
        finally:
            servers.stop()
    if not report.exists():
        sys.exit(f"goredis-specs: no specs were run, see {work / f'log-{adapter}.txt'}")
    outcomes = {}
    for spec in json.loads(report.read_text())[0]["SpecReports"] or []:
        if spec["LeafNodeType"] != "It":
            continue
        name = " / ".join((spec["ContainerHierarchyTexts"] or []) + [spec["LeafNodeText"]])
        location = spec["LeafNodeLocation"]
        name = f"{name} ({pathlib.Path(location['FileName']).name}:{location['LineNumber']})"
        message = (spec.get("Failure") or {}).get("Message", "")
        outcomes[name] = (spec["State"], message)
    return outcomes


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", nargs="*", default=FILES, help="spec files, without _test.go")
    parser.add_argument("--focus", default="", help="only specs whose name matches")
    parser.add_argument("--skip", nargs="*", default=SKIP, help="no specs whose name matches")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build" / "goredis-specs")
    parser.add_argument("--keep-baseline", action="store_true", help="take go-redis's own outcomes from the last run")
    arguments = parser.parse_args()
    work = arguments.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    ports = free_ports()
    version, source, binary = prepare(work, ports)
    baseline = work / "baseline.json"
    if arguments.keep_baseline and baseline.exists():
        theirs = json.loads(baseline.read_text())
    else:
        theirs = run_specs(work, source, binary, 0, arguments, ports)
        baseline.write_text(json.dumps(theirs))
    ours = run_specs(work, source, binary, 1, arguments, ports)
    passed_by_them = [name for name, (state, _) in theirs.items() if state == "passed"]
    failing = [name for name in passed_by_them if ours.get(name, ("missing", ""))[0] != "passed"]
    total = len(passed_by_them)
    for name in sorted(failing):
        state, message = ours.get(name, ("missing", ""))
        known = [reason for part, reason in REASONS.items() if part in name]
        print(f"FAIL {name}: {known[0] if known else state + ': ' + ' '.join(message.split())[:400]}")
    skipped = sum(state in ("skipped", "pending") for state, _ in theirs.values())
    failed = sum(state not in ("passed", "skipped", "pending") for state, _ in theirs.values())
    passed = total - len(failing)
    print(f"go-redis {version}: {len(theirs)} specs, of which go-redis itself passes {total}, fails {failed}, skips {skipped}")
    print(f"goredis: {passed}/{total} passed ({100 * passed / max(total, 1):.2f} %), target {100 * TARGET:.0f} %")
    sys.exit(passed < TARGET * total or total == 0)


if __name__ == "__main__":
    main()
