"""Types into redis-cli on a pseudo terminal and prints what it shows. Argument: the port."""

import fcntl
import os
import pty
import select
import struct
import sys
import termios
import time

child, terminal = pty.fork()
if child == 0:
    os.execvp("redis-cli", ["redis-cli", "-p", sys.argv[1]])
# Without a width redis-cli asks the terminal for it, and nobody would answer.
fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
time.sleep(0.3)
shown = b""
for line in ["PING", "RPUSH list a b", "SET text hello", "GET text", "INCR list", "QUIT"]:
    os.write(terminal, line.encode() + b"\r")
    end = time.time() + 0.3
    while time.time() < end:
        if select.select([terminal], [], [], 0.05)[0]:
            try:
                shown += os.read(terminal, 65536)
            except OSError:
                break
os.close(terminal)
sys.stdout.write(shown.decode(errors="replace"))
