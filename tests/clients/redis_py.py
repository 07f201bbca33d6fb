"""redis-py with default settings: connect, pipeline, transact with WATCH, block, scan. Argument: the port."""

import sys
import threading

import redis

client = redis.Redis(port=int(sys.argv[1]))
assert client.ping()

pipe = client.pipeline(transaction=False)
for number in range(100):
    pipe.set(f"key:{number}", number)
    pipe.get(f"key:{number}")
assert pipe.execute()[1::2] == [str(number).encode() for number in range(100)]

with client.pipeline() as transaction:
    transaction.watch("key:1")
    client.set("key:1", "changed")
    transaction.multi()
    transaction.set("key:1", "lost")
    try:
        transaction.execute()
        raise SystemExit("EXEC ran although a watched key had changed")
    except redis.WatchError:
        pass
assert client.get("key:1") == b"changed"

threading.Timer(0.1, lambda: client.rpush("queue", "element")).start()
assert client.blpop("queue", timeout=5) == (b"queue", b"element")
assert client.blpop("queue", timeout=0.05) is None

assert len(set(client.scan_iter("key:*", count=7))) == 100
client.hset("hash", mapping={f"field{number}": number for number in range(1000)})
assert len(dict(client.hscan_iter("hash", count=10))) == 1000
print("all passed")
