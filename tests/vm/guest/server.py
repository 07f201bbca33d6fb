"""Starting tidemill's server as units of systemd, and asking it."""

import pathlib
import socket
import subprocess

import machine

PORT = 6379
UNIT = "tidemill.service"
# Its limit of open files is too low for its clients on purpose: R15 has to find it and a drop-in to raise it.
TEXT = """[Unit]
Description=Tidemill
# Its workers go where the interface is, so that has to be there.
Wants=network-online.target
After=network-online.target
[Service]
Type=notify
ExecStart=/opt/vm/tidemill server --port 6379 --bind 127.0.0.1 --supervised systemd --save ""
LimitNOFILE=2048
# Root would raise the limit beyond this.
User=daemon
[Install]
WantedBy=multi-user.target
"""


def install():
    pathlib.Path("/etc/systemd/system", UNIT).write_text(TEXT)
    subprocess.run(["systemctl", "daemon-reload"], check=True)
    subprocess.run(["systemctl", "enable", "--quiet", "--now", UNIT], check=True)


def start(unit, port, *settings, arguments=()):
    """Starts another server in a unit of its own; returns its process."""
    subprocess.run(
        ["systemd-run", "--quiet", f"--unit={unit}", "--service-type=notify",
         *(f"--property={setting}" for setting in settings), "/opt/vm/tidemill", "server", "--port", str(port),
         "--bind", "127.0.0.1", "--supervised", "systemd", "--save", "", *arguments], check=True)
    return process(f"{unit}.service")


def restart():
    subprocess.run(["systemctl", "restart", UNIT], check=True)


def stop(unit):
    subprocess.run(["systemctl", "stop", unit], check=True)


def process(unit):
    shown = subprocess.run(["systemctl", "show", "--value", "--property=MainPID", unit],
                           capture_output=True, text=True, check=True)
    return int(shown.stdout)


def workers(pid):
    """The CPUs of each thread that is pinned to one CPU, which only workers are."""
    return [allowed for _, name, allowed in machine.threads(pid) if is_worker(name)]


def is_worker(name):
    return name.startswith("worker")


def fill(port, value_bytes):
    """Stores one value of so many bytes."""
    with socket.create_connection(("127.0.0.1", port), timeout=300) as connection:
        connection.sendall(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n%s\r\n" % (value_bytes, bytes(value_bytes)))
        return connection.makefile("rb").readline()


def log(unit):
    return subprocess.run(["journalctl", "--no-pager", "--output=cat", f"--unit={unit}"], capture_output=True, text=True,
                          check=True).stdout


def info(port, name):
    """A field of INFO."""
    with socket.create_connection(("127.0.0.1", port), timeout=120) as connection:
        connection.sendall(b"INFO\r\n")
        stream = connection.makefile("rb")
        size = int(stream.readline()[1:])
        reply = stream.read(size).decode()
    return machine.field(reply, name)
