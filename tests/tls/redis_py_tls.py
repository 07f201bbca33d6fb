"""redis-py over TLS. Arguments: port, authority, certificate, key."""

import sys

import redis

port, authority, certificate, key = sys.argv[1:]
client = redis.Redis(
    host="localhost", port=int(port), ssl=True, ssl_ca_certs=authority, ssl_certfile=certificate, ssl_keyfile=key
)
assert client.ping()
pipe = client.pipeline(transaction=False)
for number in range(1000):
    pipe.set(number, "x" * number)
    pipe.get(number)
assert pipe.execute()[1::2] == [b"x" * number for number in range(1000)]
subscriber = client.pubsub()
subscriber.subscribe("channel")
assert subscriber.get_message(timeout=5)["type"] == "subscribe"
client.publish("channel", "message")
assert subscriber.get_message(timeout=5)["data"] == b"message"
print("all passed")
