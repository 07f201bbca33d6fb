"""Valkey's source tree, of which the Tcl suite is a part, from Debian's source package.

`fetch` returns its folder, build/tools/valkey-VERSION; it downloads what is not there yet. TIDEMILL_VALKEY_SOURCE
names a tree that is there already.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# Debian keeps the newest version of each suite only, so later ones of the same series are taken too.
SERIES = "9.1."
SUITES = ["forky", "sid"]
PACKAGE = "valkey"


class Unavailable(Exception):
    """The source cannot be had here; the text says why and what to do."""


# For machines whose apt knows no mirror of Debian.
EVERYBODYS_MIRROR = "http://deb.debian.org/debian"


def sites():
    """Mirrors of Debian: the one from which apt takes its packages here, then everybody's."""
    targets = subprocess.run(["apt-get", "indextargets", "--format", "$(SITE) $(RELEASE)", "Created-By: Packages"],
                             capture_output=True, text=True, check=True).stdout
    found = [line.split()[0].rstrip("/") for line in targets.splitlines() if "security" not in line]
    return list(dict.fromkeys([*found[:1], EVERYBODYS_MIRROR]))


def download(directory, site):
    """Downloads the source package into a directory, by lists and a configuration of its own."""
    (directory / "state/lists/partial").mkdir(parents=True)
    (directory / "cache/archives/partial").mkdir(parents=True)
    keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
    sources = "".join(f"deb-src [signed-by={keyring}] {site} {suite} main\n" for suite in SUITES)
    (directory / "sources.list").write_text(sources)
    apt = ["-qq", "-o", f"Dir::State={directory}/state", "-o", "Dir::State::status=/var/lib/dpkg/status",
           "-o", f"Dir::Cache={directory}/cache", "-o", f"Dir::Etc::sourcelist={directory}/sources.list",
           "-o", "Dir::Etc::sourceparts=-", "-o", "APT::Sandbox::User=root",
           "-o", "Acquire::Retries=2", "-o", "Acquire::http::Timeout=30", "-o", "Acquire::https::Timeout=30"]
    subprocess.run(["apt-get", *apt, "update"], check=True, stdin=subprocess.DEVNULL)
    shown = subprocess.run(["apt-cache", *apt, "showsrc", PACKAGE], capture_output=True, text=True, check=True).stdout
    versions = [version for version in re.findall(r"^Version: (\S+)$", shown, re.MULTILINE) if version.startswith(SERIES)]
    if not versions:
        raise Unavailable(f"Debian's {' and '.join(SUITES)} have no {PACKAGE} {SERIES}x")
    subprocess.run(["apt-get", *apt, "source", "--download-only", f"{PACKAGE}={versions[0]}"], check=True, cwd=directory,
                   stdin=subprocess.DEVNULL)
    return next(directory.glob(f"{PACKAGE}_*.orig.tar.*")), versions[0].split("-")[0]


def fetch():
    """The source tree's folder.

    Raises Unavailable.
    """
    named = os.environ.get("TIDEMILL_VALKEY_SOURCE")
    if named:
        return pathlib.Path(named)
    tools = ROOT / "build/tools"
    present = sorted(tools.glob(f"valkey-{SERIES}*/.complete"))
    if present:
        return present[-1].parent
    tools.mkdir(parents=True, exist_ok=True)
    reasons = []
    try:
        mirrors = sites()
    except (OSError, subprocess.CalledProcessError) as error:
        mirrors, reasons = [], [str(error)]
    for site in mirrors:
        with tempfile.TemporaryDirectory(prefix=".valkey-source-", dir=tools) as scratch:
            try:
                archive, version = download(pathlib.Path(scratch), site)
                return unpack(archive, pathlib.Path(scratch), tools / f"valkey-{version}")
            except (OSError, subprocess.CalledProcessError, tarfile.TarError, Unavailable) as error:
                failed = f"{error.cmd[0]} failed" if isinstance(error, subprocess.CalledProcessError) else str(error)
                reasons.append(f"{site}: {failed}")
    raise Unavailable("Valkey's suite is missing: Debian's source package of Valkey cannot be downloaded "
                      f"({'; '.join(reasons)}). Name a source tree in TIDEMILL_VALKEY_SOURCE")


def unpack(archive, scratch, target):
    """Unpacks an archive of one folder into its place at once: another run may do the same meanwhile."""
    # Not by tar, which needs a program per compression.
    unpacked = scratch / "unpacked"
    with tarfile.open(archive) as files:
        files.extractall(unpacked)
    (folder,) = unpacked.iterdir()
    (folder / ".complete").touch()
    if not (target / ".complete").exists():
        shutil.rmtree(target, ignore_errors=True)
        folder.rename(target)
    return target


if __name__ == "__main__":
    try:
        print(fetch())
    except Unavailable as reason:
        sys.exit(str(reason))
