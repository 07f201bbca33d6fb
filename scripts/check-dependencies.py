#!/usr/bin/env python3
"""Proves that the crates of the workspace depend on each other one way only (ARCHITECTURE.md, "Crates")."""
import json
import os
import subprocess
import sys

ALLOWED = {
    "tidemill": {"server", "bench", "host"},
    "tidemill-server": {"engine", "store", "rcu", "resp", "host"},
    "tidemill-engine": {"store", "rcu", "resp"},
    "tidemill-store": {"rcu"},
    "tidemill-bench": {"resp", "host"},
    "tidemill-rcu": set(),
    "tidemill-resp": set(),
    "tidemill-host": set(),
}


def main() -> int:
    cargo = os.environ.get("CARGO", "cargo")
    metadata = json.loads(
        subprocess.check_output([cargo, "metadata", "--no-deps", "--format-version", "1"])
    )
    problems = []
    for package in metadata["packages"]:
        name = package["name"]
        if name not in ALLOWED:
            problems.append(f"{name}: a new crate needs a line in scripts/check-dependencies.py")
            continue
        used = {
            dependency["name"].removeprefix("tidemill-")
            for dependency in package["dependencies"]
            if dependency["name"].startswith("tidemill") and dependency["kind"] != "dev"
        }
        for extra in sorted(used - ALLOWED[name]):
            problems.append(f"{name} must not depend on tidemill-{extra}")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
