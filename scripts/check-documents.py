#!/usr/bin/env python3
"""Proves that documents lead somewhere: relative links, their anchors, and paths of the repository in code marks exist.

Pages about the inside may cite a Rust file by the end of its path, behind its crate's name if need be (`server/clock.rs`).
The first cells of the table of loops go on with names of functions of that file (`clock.rs` `course`).

Whole folders may be cited with a trailing slash, several files with `*` or `{a,b}`; `<...>` and `...` stand for any name.
"""
import functools
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
# Beginnings of the repository's paths; others may be the machine's.
FOLDERS = ("crates/", "docs/", "scripts/", "tests/", "clients/", "packaging/", "mk/")

# Pages that cite files by the ends of their paths.
INSIDE = ("ARCHITECTURE.md", "docs/internals/")
LOOPS = "docs/internals/loops.md"
FUNCTION = re.compile(r"(?:\w+::)?(\w+)")


def anchors(document: pathlib.Path) -> set[str]:
    """The names that GitHub gives to the headings of a document."""
    found = set()
    for line in document.read_text().splitlines():
        if line.startswith("#"):
            title = re.sub(r"[^\w\- ]", "", line.lstrip("#").strip().lower())
            found.add(title.replace(" ", "-"))
    return found


def expand(path: str) -> list[str]:
    """The alternatives of `{a,b}`."""
    match = re.search(r"\{([^{}]*)\}", path)
    if not match:
        return [path]
    return [one for word in match[1].split(",") for one in expand(path[: match.start()] + word + path[match.end():])]


def missing_path(path: str) -> bool:
    pattern = re.sub(r"<[^<>]*>|\.\.\.", "*", path.rstrip("/"))
    return not all(any(ROOT.glob(one)) for one in expand(pattern))


def cited_files(name: str, sources: list[str]) -> list[str]:
    """The Rust files that a name in a page about the inside may mean."""
    crate, _, rest = name.partition("/")
    return [path for path in sources if path in (name, f"crates/{crate}/src/{rest}") or path.endswith("/" + name)]


def inside_faults(text: str, has_functions: bool) -> list[str]:
    """Rust files, and functions, that a page about the inside cites and that do not exist."""
    found = []
    for line in text.splitlines():
        for code in CODE.findall(line):
            if code.endswith(".rs") and not re.search(r"[*{<]", code) and not cited_files(code, sources()):
                found.append(f"`{code}`: no such Rust file")
        files: list[str] = []
        for code in CODE.findall(line.split("|")[1]) if has_functions and line.startswith("|") else []:
            function = FUNCTION.fullmatch(code)
            if code.endswith(".rs"):
                files = cited_files(code, sources())
            elif files and function:
                declared = re.compile(rf"\bfn {function[1]}\b")
                if not any(declared.search((ROOT / path).read_text()) for path in files):
                    found.append(f"`{code}`: no such function in {files[0]}")
    return found


def faults(document: pathlib.Path) -> list[str]:
    text = document.read_text()
    # Blocks of code show output and commands, not citations.
    prose = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    found = []
    for target in LINK.findall(prose):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        cited = (document.parent / path).resolve() if path else document
        if not cited.exists():
            found.append(f"link to {target}: no such file")
        elif anchor and cited.suffix == ".md" and anchor not in anchors(cited):
            found.append(f"link to {target}: no such heading")
    for code in CODE.findall(prose):
        path = re.split(r"[\s:#]", code.strip())[0]
        if path.startswith(FOLDERS) and missing_path(path):
            # A name that is relative to the document's own folder is as good.
            if not list(document.parent.glob(path.rstrip("/"))):
                found.append(f"`{path}`: no such file")
    name = str(document.relative_to(ROOT))
    if name.startswith(INSIDE):
        found += inside_faults(prose, name == LOOPS)
    return found


@functools.cache
def sources() -> list[str]:
    listed = subprocess.check_output(["git", "ls-files", "-co", "--exclude-standard", "*.rs"], cwd=ROOT, text=True)
    return [path for path in listed.splitlines() if (ROOT / path).exists()]


def main() -> int:
    listed = subprocess.check_output(["git", "ls-files", "-co", "--exclude-standard", "*.md"], cwd=ROOT, text=True)
    failed = False
    for name in listed.splitlines():
        document = ROOT / name
        for fault in faults(document) if document.exists() else []:
            print(f"{name}: {fault}", file=sys.stderr)
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
