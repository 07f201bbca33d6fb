"""What `tidemill tune plan` promises, taken from its text, and whether the kernel keeps it."""

import re

import machine
from report import check


def parse(plan):
    """The changes of a plan. An interrupt is known by its name, because its number changes from boot to boot."""
    names = {number: name for name, number in machine.interrupts().items()}
    changes = []
    found = re.finditer(r"^(\S+) (/\S+)( \w+)?\n  - (.*)\n  \+ (.*)\n  lasts by (\S+)", plan, re.M)
    for rule, path, key, before, after, file in (match.groups() for match in found):
        number = re.match(r"/proc/irq/(\d+)/", path)
        changes.append({"rule": rule, "path": path, "key": (key or "").strip(), "from": before, "to": after,
                        "file": file, "interrupt": names.get(number.group(1)) if number else None})
    return changes


def place(change):
    """Where the change's value is in this boot."""
    if change["interrupt"]:
        number = machine.interrupts()[change["interrupt"]]
        return f"/proc/irq/{number}/smp_affinity_list"
    return change["path"]


def label(change):
    return f"{change['rule']} {change['interrupt'] or change['path']}"


def known_as(change):
    """The change's key in machine.settings()."""
    return f"irq {change['interrupt']}" if change["interrupt"] else change["path"]


def is_of_kernel(change):
    return not change["key"]


def check_values(changes, which):
    """Compares each value in the kernel with one side of the plan: `from` or `to`."""
    for change in filter(is_of_kernel, changes):
        path = place(change)
        check(label(change), machine.value(path), machine.meaning(path, change[which]))


def check_files(changes, after):
    """Each file of the plan is there and marked as ours, or gone."""
    for file in sorted({change["file"] for change in changes}):
        try:
            head = machine.text(file).splitlines()[0]
        except FileNotFoundError:
            head = "absent"
        if after == "absent":
            check(file, head, "absent")
        else:
            check(file, head.startswith("# Written by `tidemill tune apply"), True)


def check_others(before, now, changes):
    """Nothing changed but what the plan named."""
    named = {known_as(change) for change in changes}
    differing = {key: (before.get(key), now.get(key)) for key in before.keys() | now.keys()
                 if key not in named and before.get(key) != now.get(key)}
    check(f"{len(before.keys() - named)} other settings are as before", differing, {})


def check_no_file_differs(before, now):
    """Tells those that differ only: all of them fill pages."""
    differing = {path: (before.get(path), now.get(path)) for path in before.keys() | now.keys()
                 if before.get(path) != now.get(path)}
    check(f"{len(before)} files below /etc are as before", differing, {})
