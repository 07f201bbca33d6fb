"""Holds COUNT idle connections from one source address until its input ends: hold.py SOURCE PORT COUNT

Prints `held COUNT` when each connection was accepted and has answered once, then, for each line of input, asks a
sample again and prints how many answered.
"""

import resource
import socket
import sys

# Chosen here: of the ports that the kernel would choose it tries one half first, one after the other, so that each
# connection beyond that half (14,116 per address) takes as many tries.
FIRST_SOURCE_PORT = 10_000
# Of all holders together below the usual backlog of 511, so that no connection waits for a retransmission.
BATCH = 64
SAMPLE = 250
ANSWER_LIMIT_SECONDS = 300
PING, PONG = b"PING\r\n", b"+PONG\r\n"


def connect(source, source_port, port):
    connection = socket.socket()
    connection.settimeout(ANSWER_LIMIT_SECONDS)
    connection.bind((source, source_port))
    connection.connect(("127.0.0.1", port))
    connection.sendall(PING)
    return connection


def answered(connections):
    return sum(connection.recv(len(PONG), socket.MSG_WAITALL) == PONG for connection in connections)


def main():
    source, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    resource.setrlimit(resource.RLIMIT_NOFILE, (count + 64, count + 64))
    held, right = [], 0
    while len(held) < count:
        numbers = range(len(held), min(len(held) + BATCH, count))
        batch = [connect(source, FIRST_SOURCE_PORT + number, port) for number in numbers]
        right += answered(batch)
        held += batch
    print("held", right, flush=True)
    for _ in sys.stdin:
        sample = held[:: max(1, count // SAMPLE)]
        for connection in sample:
            connection.sendall(PING)
        print("answered", answered(sample), "of", len(sample), flush=True)


if __name__ == "__main__":
    main()
