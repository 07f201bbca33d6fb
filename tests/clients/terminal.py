"""Types into redis-cli on a pseudo terminal and prints what it shows. Argument: the port."""

import fcntl
import os
import pty
import select
import struct
import sys
import termios
import time

SECONDS_MAX = 60
LINES = [
    ("PING", "PONG"),
    ("RPUSH list a b", "(integer) 2"),
    ("SET text hello", "OK"),
    ("GET text", '"hello"'),
    ("INCR list", "WRONGTYPE"),
]

child, terminal = pty.fork()
if child == 0:
    # Without a width redis-cli asks the terminal for it, and nobody would answer.
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
    os.execvp("redis-cli", ["redis-cli", "-p", sys.argv[1]])
shown = b""
read_to = 0


def read_past(wanted):
    """Reads until something is shown, behind what was waited for before."""
    global shown, read_to
    deadline = time.monotonic() + SECONDS_MAX
    while (found := shown.find(wanted.encode(), read_to)) < 0:
        if not select.select([terminal], [], [], max(0, deadline - time.monotonic()))[0]:
            sys.exit(f"the terminal does not show {wanted}:\n{shown.decode(errors='replace')}")
        shown += os.read(terminal, 65536)
    read_to = found + len(wanted)


# Input typed before the prompt is there can get lost.
read_past(f":{sys.argv[1]}> ")
for line, answer in LINES:
    os.write(terminal, line.encode() + b"\r")
    read_past(answer)
    read_past(f":{sys.argv[1]}> ")
os.write(terminal, b"QUIT\r")
os.waitpid(child, 0)
os.close(terminal)
sys.stdout.write(shown.decode(errors="replace"))
