#!/usr/bin/env python3
"""Instructions that the server executes per operation, by function: under valgrind's callgrind, with the load of the
budgets, or with one on collections or scripts, as `make bench PART=collections`, `PART=types` and `PART=scripts` have
them.

    instructions-per-operation.py SERVER [--pipeline 1 16 100] [--seconds 4] [--functions 25]
    instructions-per-operation.py SERVER --load hset hget list lindex --size leaf 1e4 1e6 [--valkey VALKEY_SERVER]
    instructions-per-operation.py SERVER --load list zadd --one-key   all requests of a pipeline to one key
    instructions-per-operation.py SERVER --load sadd-srem pfadd --size 10 100 --valkey VALKEY_SERVER
    instructions-per-operation.py SERVER --service [get users ...]   with a service beside it, and what that adds
    instructions-per-operation.py SERVER --script one get get-by-source many [--valkey VALKEY_SERVER]
    instructions-per-operation.py SERVER --script loop sum bytes table ... [--valkey VALKEY_SERVER]   the language itself
    instructions-per-operation.py ... --cache 1048576     also the misses of a cache of so many bytes behind the first level

Unlike times, the figures repeat on a busy machine. They leave out the kernel, the caches and the clock's own page, and
what happens per tick (the sweep) weighs more than in life, because under valgrind a second has far fewer operations.
With --script the server's clock is slowed as valgrind slows the server: else the time of a turn would end after few
scripts, and what was parsed behind them would be parsed again.
"""

import argparse
import collections
import hashlib
import json
import os
import pathlib
import random
import re
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
LOAD_FLAGS = ["--connections", "50", "--keys", "100000", "--value-min", "32", "--value-max", "32"]
START_SECONDS_MAX = 60


def misses(path):
    """Reads and writes of data that missed the cache of `--cache`; none without it."""
    lines = dict(line.split(": ", 1) for line in path.read_text().splitlines() if re.match("(events|totals): ", line))
    totals = dict(zip(lines["events"].split(), map(int, lines["totals"].split())))
    return {name: totals[name] for name in ("DLmr", "DLmw") if name in totals}


def build_load(directory):
    load = directory / "load"
    source = ROOT / "tests/bench/native/load.c"
    subprocess.run(["cc", "-O3", "-o", load, source], check=True)
    return load


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for(port, process):
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            time.sleep(0.1)
    sys.exit("the server does not start under valgrind")


def control(process, *arguments):
    command = ["callgrind_control", *arguments, str(process.pid)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def counts_by_function(path):
    """Sums callgrind's own cost lines, not those of calls."""
    counts, names, function, is_call = collections.Counter(), {}, None, False
    for line in path.read_text().splitlines():
        if line.startswith(("fn=", "cfn=")):
            number, name = re.match(r"\((\d+)\)(?: (.*))?", line.split("=", 1)[1]).groups()
            names.setdefault(number, name)
            if line.startswith("fn="):
                function = names[number]
        elif line.startswith("calls="):
            is_call = True
        elif re.match(r"[\d+*-]", line):
            fields = line.split()
            if not is_call and len(fields) > 1:
                counts[function] += int(fields[1])
            is_call = False
    return counts


# Keys, and elements of each.
SIZES = {
    "leaf": (3_000, 32), "1e4": (10, 10_000), "1e6": (1, 1_000_000),
    # Those of `make bench PART=types`.
    "10": (10_000, 10), "100": (1_000, 100),
}
COLLECTION_PIPELINE = 16
COLLECTION_REQUESTS = 100_000
FILL_BATCH = 500
# Streams that are as long as their trimming leaves them.
TRIMMED_KEYS, TRIMMED_ENTRIES = 50, 1_000
FIRST_ID_MS = 1_700_000_000_000


def key_of(name, key):
    return f"{name}:{key:06d}"


def member(item):
    return f"member{item:010d}"


def value(number):
    return f"v{number:09d}"


def push_or_pop(keys, number):
    key = key_of("list", number // 2 % keys)
    return ["LPUSH", key, value(number)] if number % 2 == 0 else ["RPOP", key]


def add_or_remove(keys, number):
    return [["SADD", "SREM"][number % 2], key_of("set", number // 2 % keys), "another member"]


def score_or_remove(keys, number):
    key = key_of("sorted", number // 2 % keys)
    return ["ZADD", key, str(number), "another member"] if number % 2 == 0 else ["ZREM", key, "another member"]


def deliver(keys, number):
    key = key_of("stream", number // 2 % keys)
    if number % 2 == 0:
        return ["XGROUP", "SETID", key, "group", "0"]
    return ["XREADGROUP", "GROUP", "group", "consumer", "COUNT", "10", "NOACK", "STREAMS", key, ">"]


def deliver_and_acknowledge(keys, number):
    key = key_of("stream", number // 3 % keys)
    if number % 3 == 0:
        return ["XGROUP", "SETID", key, "group", "0"]
    if number % 3 == 1:
        return ["XREADGROUP", "GROUP", "group", "consumer", "COUNT", "10", "STREAMS", key, ">"]
    return ["XACK", key, "group", *(f"{FIRST_ID_MS + 3 * item}-0" for item in range(10))]


def trimmed(kind, number, key):
    name = key_of(kind, key)
    return ["XADD", name, "MAXLEN", "~", "1000", "*", "field001", value(number), "field002", value(number)]


# Requests by the kind of collection that is filled beforehand.
COLLECTION_LOADS = {
    "hset": ("hash", lambda keys, number, key, item: ["HSET", key_of("hash", key), f"f{item:09d}", value(number)]),
    "hget": ("hash", lambda keys, number, key, item: ["HGET", key_of("hash", key), f"f{item:09d}"]),
    "list": ("list", lambda keys, number, key, item: push_or_pop(keys, number)),
    "lindex": ("list", lambda keys, number, key, item: ["LINDEX", key_of("list", key), str(item)]),
    "sadd-srem": ("set", lambda keys, number, key, item: add_or_remove(keys, number)),
    "sismember": ("set", lambda keys, number, key, item: ["SISMEMBER", key_of("set", key), member(item)]),
    "hincrby": ("none", lambda keys, number, key, item: ["HINCRBY", key_of("counters", key), f"f{item:09d}", "1"]),
    "zadd": ("sorted", lambda keys, number, key, item: ["ZADD", key_of("sorted", key), str(number), member(item)]),
    "zadd-zrem": ("sorted", lambda keys, number, key, item: score_or_remove(keys, number)),
    "zincrby": ("sorted", lambda keys, number, key, item: ["ZINCRBY", key_of("sorted", key), "1", member(item)]),
    "zscore": ("sorted", lambda keys, number, key, item: ["ZSCORE", key_of("sorted", key), member(item)]),
    "xadd-plain": ("none", lambda keys, number, key, item: ["XADD", key_of("plain", key), "*", "field001", value(number)]),
    "zrank": ("sorted", lambda keys, number, key, item: ["ZRANK", key_of("sorted", key), member(item)]),
    "xadd": ("none", lambda keys, number, key, item: trimmed("new", number, key)),
    "xadd-trim": ("trimmed", lambda keys, number, key, item: trimmed("trimmed", number, key % TRIMMED_KEYS)),
    "xreadgroup": ("stream", lambda keys, number, key, item: deliver(keys, number)),
    "xack": ("stream", lambda keys, number, key, item: deliver_and_acknowledge(keys, number)),
    "pfadd": ("none", lambda keys, number, key, item: ["PFADD", key_of("sketch", key), value(number)]),
    "pfadd-known": ("sketch", lambda keys, number, key, item: ["PFADD", key_of("sketch", key), value(item)]),
}

# Beginnings of commands that fill a collection, and words of an item.
COLLECTION_FILLS = {
    "hash": (["HSET"], lambda item: (f"f{item:09d}", value(item))),
    "list": (["RPUSH"], lambda item: (value(item),)),
    "sketch": (["PFADD"], lambda item: (value(item),)),
    "set": (["SADD"], lambda item: (member(item),)),
    "sorted": (["ZADD"], lambda item: (str(item), member(item))),
}


SERVICE_PIPELINE = 100
SERVICE_KEYS = 10_000

# Load, and commands that bring the server into the state with the service. The connection that sends them stays, as a
# client that tracks has to.
SERVICES = {
    "get": ("GET", []),
    "set": ("SET", []),
    "tracked-elsewhere": ("GET", ["HELLO 3", "CLIENT TRACKING ON", "GET key:1"]),
    "all-keys-user": ("GET", ["ACL SETUSER default -shutdown"]),
    "prefix-user": ("GET", ["ACL SETUSER default -shutdown resetkeys ~key:*"]),
    "events": ("SET", ["CONFIG SET notify-keyspace-events KEA"]),
}


# How much slower a server is under valgrind, about.
SLOWDOWN = 50
SLOW_CLOCK = """
#include <sys/syscall.h>
#include <time.h>
int clock_gettime(clockid_t clock, struct timespec *time) {
    static long long begin_ns[2];
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(SYS_clock_gettime), "D"(clock), "S"(time) : "rcx", "r11", "memory");
    if (result || clock > CLOCK_MONOTONIC) return result;
    long long now_ns = time->tv_sec * 1000000000ll + time->tv_nsec;
    if (!begin_ns[clock]) begin_ns[clock] = now_ns;
    now_ns = begin_ns[clock] + (now_ns - begin_ns[clock]) / %d;
    time->tv_sec = now_ns / 1000000000, time->tv_nsec = now_ns %% 1000000000;
    return 0;
}
""" % SLOWDOWN
SCRIPT_KEYS = 1_000
SCRIPT_PIPELINE = 100
SCRIPT_GET = "return redis.call('GET', KEYS[1])"
# Scripts by their digests, or by their sources, with the number of keys that a call declares.
SCRIPTS = {
    "one": ("EVALSHA", "return 1", 0),
    "get": ("EVALSHA", SCRIPT_GET, 1),
    "get-by-source": ("EVAL", SCRIPT_GET, 1),
    "many": ("EVALSHA", "local v for i = 1, 100 do v = redis.call('GET', KEYS[1]) end return v", 1),
    # The language itself, 1,000 times per call: what one such loop takes is a thousandth of the figure.
    "loop": ("EVALSHA", "for i = 1, 1000 do end return 1", 0),
    "sum": ("EVALSHA", "local s = 0 for i = 1, 1000 do s = s + i % 7 * 2 end return s", 0),
    "bytes": ("EVALSHA", "local t = string.rep('abcdefgh', 125) local s = 0 "
              "for i = 1, #t do s = s + string.byte(t, i) end return s", 0),
    "table": ("EVALSHA", "local t = {} for i = 1, 1000 do t[i] = i end local s = 0 "
              "for i = 1, 1000 do s = s + t[i] end return s", 0),
    "members": ("EVALSHA", "local t = {a = 0} for i = 1, 1000 do t.a = t.a + 1 end return t.a", 0),
    "pairs": ("EVALSHA", "local t = {} for i = 1, 1000 do t[i] = i end local s = 0 "
              "for k, v in pairs(t) do s = s + v end return s", 0),
    "concat": ("EVALSHA", "local n = 0 for i = 1, 1000 do local k = 'key:' .. i .. ':end' n = n + #k end return n", 0),
    "calls": ("EVALSHA", "local function f(a, b) return a + b end local s = 0 "
              "for i = 1, 1000 do s = f(s, i) end return s", 0),
    "sub": ("EVALSHA", "local t, n = 'some words to cut', 0 for i = 1, 1000 do "
            "n = n + #string.sub(t, i % 5 + 1, i % 5 + 5) end return n", 0),
    "encode": ("EVALSHA", "local t = {} for i = 1, 100 do t[i] = {id = i, name = 'name ' .. i, tags = {'a', 'b'}, ok = true} end "
               "local n = 0 for i = 1, 10 do n = n + #cjson.encode(t) end return n", 0),
    "decode": ("EVALSHA", "local t = {} for i = 1, 100 do t[i] = {id = i, name = 'name ' .. i, tags = {'a', 'b'}, ok = true} end "
               "local s, n = cjson.encode(t), 0 for i = 1, 10 do n = n + #cjson.decode(s) end return n", 0),
}


def script_key(key):
    return f"key:{key:06d}"


def encode(words):
    return "".join([f"*{len(words)}\r\n", *(f"${len(word)}\r\n{word}\r\n" for word in words)]).encode()


def write_requests(path, load, size, one_key):
    keys, items = SIZES[size]
    # Both servers get the same requests.
    generator = random.Random(1)
    _, request = COLLECTION_LOADS[load]
    with path.open("wb") as file:
        for number in range(COLLECTION_REQUESTS):
            key, serial = generator.randrange(keys), number
            if one_key:
                # Two requests of a serial number have the same key, where it decides.
                key = number // COLLECTION_PIPELINE % keys
                serial = 2 * key + number % 2
            file.write(encode(request(keys, serial, key, generator.randrange(items))))


def fill_requests(kind, keys, items):
    """Commands that fill the collections of a kind, in batches."""
    if kind == "trimmed":
        keys, items = TRIMMED_KEYS, TRIMMED_ENTRIES
    for key in range(keys):
        name = key_of(kind, key)
        for first in range(0, items, FILL_BATCH):
            batch = range(first, min(first + FILL_BATCH, items))
            if kind in ("stream", "trimmed"):
                yield [["XADD", name, f"{FIRST_ID_MS + 3 * item}-0", "field001", value(item), "field002", value(item)]
                       for item in batch]
            else:
                words, of_item = COLLECTION_FILLS[kind]
                yield [[words[0], name, *(word for item in batch for word in of_item(item))]]
        if kind == "stream":
            yield [["XGROUP", "CREATE", name, "group", "0"]]


def fill_collections(port, load, size):
    kind, _ = COLLECTION_LOADS[load]
    if kind == "none":
        return
    with socket.create_connection(("127.0.0.1", port)) as server, server.makefile("rb") as replies:
        for batch in fill_requests(kind, *SIZES[size]):
            server.sendall(b"".join(map(encode, batch)))
            for words in batch:
                reply = replies.readline()
                if reply.startswith(b"-"):
                    sys.exit(f"{words[0]}: {reply!r}")
                if reply.startswith(b"$"):
                    replies.readline()


def write_script_requests(path, name):
    command, source, declared = SCRIPTS[name]
    script = hashlib.sha1(source.encode()).hexdigest() if command == "EVALSHA" else source
    with path.open("wb") as file:
        for key in range(SCRIPT_KEYS):
            file.write(encode([command, script, str(declared), *[script_key(key)][:declared]]))


def prepare_scripts(port, name):
    requests = [["SCRIPT", "LOAD", SCRIPTS[name][1]], *(["SET", script_key(key), "value"] for key in range(SCRIPT_KEYS))]
    with socket.create_connection(("127.0.0.1", port)) as server, server.makefile("rb") as replies:
        for words in requests:
            server.sendall(encode(words))
            reply = replies.readline()
            if reply.startswith(b"$"):
                replies.readline()
            elif reply != b"+OK\r\n":
                sys.exit(f"{words[0]}: {reply!r}")


def tidemill(server, port, directory):
    return [server, "server", "--bind", "127.0.0.1", "--port", str(port), "--worker-threads", "1",
            "--cpu-placement", "off", "--save", "", "--dir", str(directory)]


def valkey(server, port, directory):
    return [server, "--bind", "127.0.0.1", "--port", str(port), "--save", "", "--dir", str(directory)]


def build_slow_clock(directory):
    library = directory / "slow-clock.so"
    command = ["cc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", library]
    subprocess.run(command, input=SLOW_CLOCK.encode(), check=True)
    return library


def counts_of_busiest_thread(output):
    """Other threads wait by the slowed clock, often for nothing; the clock itself does not count."""
    counts = max(map(counts_by_function, output.parent.glob(f"{output.name}.1-*")), key=lambda counts: counts.total())
    counts.pop("clock_gettime", None)
    return counts


def profile(command, directory, cache_bytes, warm, measure, slow_clock=None):
    """Counts what the server does in `measure`, which returns its operations; `warm` comes before."""
    port = free_port()
    output = directory / "callgrind"
    # Files of an earlier server hold no figure of this one.
    for old in directory.glob("callgrind*"):
        old.unlink()
    slowed = ["--separate-threads=yes"] if slow_clock else []
    process = subprocess.Popen(
        ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={output}",
         *(["--cache-sim=yes", f"--LL={cache_bytes},16,64"] if cache_bytes else []), *slowed, *command(port, directory)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "LD_PRELOAD": str(slow_clock or "")},
    )
    try:
        wait_for(port, process)
        warm(port)
        control(process, "-i", "on")
        operations = measure(port)
        control(process, "-i", "off")
        control(process, "-d")
    finally:
        process.terminate()
        process.wait()
    if slow_clock:
        return operations, counts_of_busiest_thread(output), {}
    profiled = output.with_name(output.name + ".1")
    return operations, counts_by_function(profiled), misses(profiled)


def run_load(load, port, *flags):
    command = [load, "--port", str(port), *LOAD_FLAGS, *flags]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["operations"]


def report(title, operations, counts, missed, functions):
    total = counts.total()
    missed = "".join(f", {count / operations:.1f} {name}" for name, count in missed.items())
    print(f"{title}: {total / operations:.0f} instructions per operation{missed}, {operations} operations")
    for function, count in counts.most_common(functions):
        print(f"{count / operations:9.1f} {count / total:6.1%}  {function}")


def servers_of(arguments):
    servers = [("tidemill", lambda port, home: tidemill(arguments.server.resolve(), port, home))]
    if arguments.valkey:
        servers.append(("valkey", lambda port, home: valkey(arguments.valkey.resolve(), port, home)))
    return servers


def profile_scripts(arguments, load, directory):
    requests = directory / "requests"
    flags = ["--pipeline", str(SCRIPT_PIPELINE), "--requests", str(requests), "--seconds"]
    for name in arguments.script:
        write_script_requests(requests, name)

        def warm(port):
            prepare_scripts(port, name)
            run_load(load, port, *flags, "1")

        for title, command in servers_of(arguments):
            measured = profile(
                command, directory, arguments.cache, warm,
                lambda port: run_load(load, port, *flags, str(arguments.seconds)), build_slow_clock(directory),
            )
            report(f"script {name}, {title}", *measured, arguments.functions)


def profile_collections(arguments, load, directory):
    requests = directory / "requests"
    flags = ["--pipeline", str(COLLECTION_PIPELINE), "--requests", str(requests), "--seconds"]
    for size in arguments.size:
        for name in arguments.load:
            write_requests(requests, name, size, arguments.one_key)

            def warm(port):
                fill_collections(port, name, size)
                run_load(load, port, *flags, "1")

            for title, command in servers_of(arguments):
                measured = profile(
                    command, directory, arguments.cache, warm,
                    lambda port: run_load(load, port, *flags, str(arguments.seconds)),
                )
                report(f"{name}, {size}, {title}", *measured, arguments.functions)


def profile_services(arguments, load, directory):
    requests = directory / "requests"
    flags = ["--pipeline", str(SERVICE_PIPELINE), "--requests", str(requests), "--seconds"]
    base = {}
    names = list(dict.fromkeys(["get", "set", *arguments.service] if arguments.service else SERVICES))
    for name in names:
        command, preparation = SERVICES[name]
        generator = random.Random(1)
        with requests.open("wb") as file:
            for _ in range(COLLECTION_REQUESTS):
                key = f"key:{generator.randrange(SERVICE_KEYS)}"
                file.write(encode(["GET", key] if command == "GET" else ["SET", key, "x" * 32]))
        held = []

        def warm(port):
            connection = socket.create_connection(("127.0.0.1", port))
            held.append(connection)
            for words in [*(f"SET key:{number} {'x' * 32}" for number in range(SERVICE_KEYS)), *preparation]:
                connection.sendall(encode(words.split(" ")))
                reply = connection.recv(4096)
                if reply.startswith(b"-"):
                    sys.exit(f"{words}: {reply!r}")
            run_load(load, port, *flags, "1")

        measured = profile(
            lambda port, home: tidemill(arguments.server.resolve(), port, home), directory, arguments.cache, warm,
            lambda port: run_load(load, port, *flags, str(arguments.seconds)),
        )
        held.pop().close()
        report(f"{name} ({command})", *measured, arguments.functions)
        # The sweep runs by the clock, whatever the load.
        swept = sum(instructions for function, instructions in measured[1].items() if "sweep" in function)
        count = (measured[1].total() - swept) / measured[0]
        if name == command.lower():
            base[command] = count
        else:
            added = count - base[command]
            print(f"{name}: {added:+.0f} of {base[command]:.0f} ({added / base[command]:+.2%}), without the sweep")


def profile_budgets(arguments, load, directory):
    for pipeline in arguments.pipeline:
        flags = ["--pipeline", str(pipeline), "--seconds"]

        def warm(port):
            run_load(load, port, "--pipeline", "50", "--fill", "--seconds", "100")
            run_load(load, port, *flags, "1")

        measured = profile(
            lambda port, home: tidemill(arguments.server.resolve(), port, home), directory, arguments.cache, warm,
            lambda port: run_load(load, port, *flags, str(arguments.seconds)),
        )
        report(f"pipeline {pipeline}", *measured, arguments.functions)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server", type=pathlib.Path)
    parser.add_argument("--pipeline", type=int, nargs="+", default=[1, 16, 100])
    parser.add_argument("--service", choices=SERVICES, nargs="*")
    parser.add_argument("--load", choices=COLLECTION_LOADS, nargs="+")
    parser.add_argument("--size", choices=SIZES, nargs="+", default=["leaf", "1e4", "1e6"])
    parser.add_argument("--one-key", action="store_true")
    parser.add_argument("--script", choices=SCRIPTS, nargs="+")
    parser.add_argument("--valkey", type=pathlib.Path)
    parser.add_argument("--cache", type=int)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--functions", type=int, default=25)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        load = build_load(directory)
        if arguments.service is not None:
            profile_services(arguments, load, directory)
        elif arguments.script:
            profile_scripts(arguments, load, directory)
        else:
            (profile_collections if arguments.load else profile_budgets)(arguments, load, directory)


if __name__ == "__main__":
    main()
