"""What the kernel says, read without tidemill: a mistake in its readers must not hide itself."""

import ctypes
import fcntl
import os
import pathlib
import re
import socket
import struct

# Computed from free memory or drawn at random at each boot.
DIFFERS_BY_BOOT = {"tcp_mem", "udp_mem", "udplite_mem", "user_reserve_kbytes", "admin_reserve_kbytes", "netdev_rss_key",
                   "tcp_fastopen_key"}


def text(path):
    return pathlib.Path(path).read_text(errors="replace").strip()


def value(path):
    """A setting's value in a form that can be compared: the chosen word, a mask's number, a list's CPUs."""
    return meaning(path, text(path))


def meaning(path, printed):
    name = path.rsplit("/", 1)[-1]
    chosen = re.search(r"\[(\S+)\]", printed)
    if chosen:
        return chosen.group(1)
    if name.endswith("_list"):
        return sorted(cpus(printed))
    if name.endswith("_cpus"):
        return int(printed.replace(",", ""), 16)
    return " ".join(printed.split())


def cpus(printed):
    """The CPUs of a list such as 0-3,6."""
    found = set()
    for part in filter(None, printed.strip().split(",")):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def interrupts():
    """Interrupts of virtio devices by name; their numbers change from boot to boot."""
    found = {}
    for line in text("/proc/interrupts").splitlines()[1:]:
        number, _, rest = line.strip().partition(":")
        name = rest.split()[-1] if rest.split() else ""
        if name.startswith("virtio") and number.isdigit():
            found[name] = number
    return found


def settings():
    """Every setting that tidemill might change, its own or not, by path; interrupts by name."""
    found = {}
    places = [("/proc/sys/vm", "*"), ("/proc/sys/net/core", "*"), ("/proc/sys/net/ipv4", "*"),
              ("/proc/sys/kernel", "sched_*"), ("/proc/sys/kernel", "numa_balancing"),
              ("/sys/kernel/mm/transparent_hugepage", "*"), ("/sys/class/net", "*/queues/*/rps_*"),
              ("/sys/class/net", "*/queues/*/xps_cpus"),
              ("/sys/devices/system/cpu", "cpu*/power/pm_qos_resume_latency_us"),
              ("/sys/devices/system/clocksource/clocksource0", "current_clocksource")]
    for directory, pattern in places:
        for path in pathlib.Path(directory).glob(pattern):
            if path.is_file() and path.name not in DIFFERS_BY_BOOT:
                try:
                    found[str(path)] = value(str(path))
                except (OSError, ValueError):
                    continue
    for name, number in interrupts().items():
        path = f"/proc/irq/{number}/smp_affinity_list"
        if os.path.exists(path):
            found[f"irq {name}"] = value(path)
    return found


def files():
    """Every file below /etc where settings that last are kept."""
    found = {}
    for directory in ["sysctl.d", "tmpfiles.d", "udev/rules.d", "systemd"]:
        for path in pathlib.Path("/etc", directory).rglob("*"):
            found[str(path)] = path.read_text() if path.is_file() else "no file"
    return found


def threads(pid):
    """Name and allowed CPUs of each thread of a process."""
    found = []
    for task in sorted(os.listdir(f"/proc/{pid}/task"), key=int):
        status = text(f"/proc/{pid}/task/{task}/status")
        allowed = cpus(field(status, "Cpus_allowed_list"))
        found.append((int(task), field(status, "Name"), allowed))
    return found


def field(status, name):
    for line in status.splitlines():
        if line.startswith(f"{name}:"):
            return line.split(":", 1)[1].strip()
    return None


def open_files_max(pid):
    """Soft and hard limit of open files."""
    for line in text(f"/proc/{pid}/limits").splitlines():
        if line.startswith("Max open files"):
            return tuple(int(word) for word in line.split()[3:5])
    return None


def core_of(cpu):
    """The CPUs of a CPU's core."""
    return frozenset(cpus(text(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")))


def interface():
    """The network interface that has a device."""
    return next(path.parent.name for path in pathlib.Path("/sys/class/net").glob("*/device"))


def queues(name):
    """Combined queues in use and at most, by the call that `ethtool -l` makes."""
    fields = _channels(name, 0x3C)
    return fields[8], fields[4]


def set_queues(name, count):
    """As `ethtool -L`."""
    fields = _channels(name, 0x3C)
    fields[8] = count
    _channels(name, 0x3D, fields)


def _channels(name, command, fields=None):
    # struct ethtool_channels: the command, four maxima, four counts, the last of each for combined queues.
    words = (ctypes.c_uint32 * 9)(*(fields or [0] * 9))
    words[0] = command
    siocethtool = 0x8946
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel:
        fcntl.ioctl(channel, siocethtool, struct.pack("16sP16x", name.encode(), ctypes.addressof(words)))
    return list(words)


class _Attributes(ctypes.Structure):
    # struct sched_attr of linux/sched/types.h, its first version.
    _fields_ = [("size", ctypes.c_uint32), ("policy", ctypes.c_uint32), ("flags", ctypes.c_uint64),
                ("nice", ctypes.c_int32), ("priority", ctypes.c_uint32), ("runtime_ns", ctypes.c_uint64),
                ("deadline_ns", ctypes.c_uint64), ("period_ns", ctypes.c_uint64)]


def scheduling(pid):
    """Policy and slice in nanoseconds by sched_getattr(2)."""
    sched_getattr = 315
    attributes = _Attributes()
    libc = ctypes.CDLL(None, use_errno=True)
    size = ctypes.sizeof(attributes)
    if libc.syscall(sched_getattr, pid, ctypes.byref(attributes), size, 0) != 0:
        raise OSError(ctypes.get_errno(), "sched_getattr")
    return attributes.policy, attributes.runtime_ns
