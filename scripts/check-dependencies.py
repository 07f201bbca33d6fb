#!/usr/bin/env python3
"""Proves that the crates of the workspace depend on each other one way only (ARCHITECTURE.md, "Crates"), and that each
dependency from elsewhere has a row in the section of its crate in docs/dependencies.md."""
import json
import os
import pathlib
import re
import subprocess
import sys

ALLOWED = {
    "tidemill": {"server", "bench", "host"},
    "tidemill-server": {"persist", "engine", "journal", "store", "rcu", "resp", "host"},
    "tidemill-persist": {"engine", "journal", "store", "rcu", "resp", "rdb"},
    "tidemill-engine": {"store", "rcu", "resp", "rdb", "journal", "script"},
    "tidemill-journal": set(),
    "tidemill-store": {"rcu"},
    "tidemill-bench": {"resp", "host"},
    "tidemill-rcu": set(),
    "tidemill-resp": set(),
    "tidemill-rdb": {"resp"},
    "tidemill-script": set(),
    "tidemill-host": set(),
    "tidemill-testkit": {"engine", "resp"},
    "tidemill-tidy": set(),
}


def main() -> int:
    cargo = os.environ.get("CARGO", "cargo")
    metadata = json.loads(
        subprocess.check_output([cargo, "metadata", "--no-deps", "--format-version", "1"])
    )
    text = (pathlib.Path(__file__).parent.parent / "docs" / "dependencies.md").read_text()
    sections = {part.partition("\n")[0]: part for part in re.split(r"^## ", text, flags=re.M)}
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
        section = sections.get(name.removeprefix("tidemill-"), "")
        for dependency in package["dependencies"]:
            wanted = dependency["name"]
            if not wanted.startswith("tidemill") and f"`{wanted}`" not in section:
                problems.append(f"{name}: {wanted} needs a row in docs/dependencies.md")
        for extra in sorted(used - ALLOWED[name]):
            problems.append(f"{name} must not depend on tidemill-{extra}")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
