"""pymemcache's documentation: "Getting started" and the reference of Client, PooledClient, HashClient and RetryingClient."""

import json
import threading

import pymemcache
from pymemcache import serde
from pymemcache.client.base import Client, PooledClient
from pymemcache.client.hash import HashClient
from pymemcache.client.retrying import RetryingClient
from pymemcache.exceptions import MemcacheIllegalInputError, MemcacheServerError, MemcacheUnexpectedCloseError

from examples import address, equal, example, raises, run, true

SERVER = address("MEMCACHED_ADDRESS")


def before():
    client = Client(SERVER, default_noreply=False)
    client.flush_all()
    return client


@example
def basic_usage(_):
    client = Client(SERVER)
    client.set("some_key", "some_value")
    equal(client.get("some_key"), b"some_value")
    equal(client.get("missing"), None)
    equal(client.get("missing", "default"), "default")


@example
def using_a_client_pool(_):
    client = PooledClient(SERVER, max_pool_size=4, default_noreply=False)
    client.set("some_key", "some_value")
    equal(client.get("some_key"), b"some_value")
    equal(client.set("n", "0"), True)
    threads = [threading.Thread(target=lambda: [client.incr("n", 1) for _ in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal(client.get("n"), b"200")


@example
def using_a_memcached_cluster(_):
    client = HashClient([f"{SERVER[0]}:{SERVER[1]}"], use_pooling=True)
    client.set("some_key", "some value")
    equal(client.get("some_key"), b"some value")
    equal(client.set_many({"a": "1", "b": "2"}, noreply=False), [])
    equal(client.get_many(["a", "b", "c"]), {"a": b"1", "b": b"2"})


@example
def using_the_built_in_retrying_mechanism(_):
    base = Client(SERVER)
    client = RetryingClient(base, attempts=3, retry_delay=0.01, retry_for=[MemcacheUnexpectedCloseError])
    client.set("some_key", "some value")
    equal(client.get("some_key"), b"some value")


@example
def serialization(_):
    class JsonSerde:
        def serialize(self, key, value):
            return (value, 1) if isinstance(value, str) else (json.dumps(value), 2)

        def deserialize(self, key, value, flags):
            return value.decode() if flags == 1 else json.loads(value)

    client = Client(SERVER, serde=JsonSerde())
    client.set("key", {"a": "b", "c": "d"})
    equal(client.get("key"), {"a": "b", "c": "d"})
    client.set("key", "text")
    equal(client.get("key"), "text")


@example
def pickles_and_compression(_):
    client = Client(SERVER, serde=serde.pickle_serde)
    client.set("key", [1, {"two": 3.0}])
    equal(client.get("key"), [1, {"two": 3.0}])
    client = Client(SERVER, serde=serde.compressed_serde)
    client.set("key", "x" * 10000)
    equal(client.get("key"), "x" * 10000)


@example
def key_constraints(client):
    raises(MemcacheIllegalInputError, "whitespace", lambda: client.get("has space"))
    raises(MemcacheIllegalInputError, "too long", lambda: client.get("k" * 251))
    equal(client.set("k" * 250, "v"), True)
    equal(client.get("k" * 250), b"v")
    unicode = Client(SERVER, allow_unicode_keys=True, default_noreply=False)
    equal(unicode.set("Z\u00fcrich", "v"), True)
    equal(unicode.get("Z\u00fcrich"), b"v")


@example
def a_key_prefix(client):
    prefixed = Client(SERVER, key_prefix=b"app:", default_noreply=False)
    equal(prefixed.set("k", "v"), True)
    equal(client.get("app:k"), b"v")
    equal(prefixed.get_many(["k"]), {"k": b"v"})


@example
def add_replace_append_prepend(client):
    equal(client.replace("k", "1"), False)
    equal(client.append("k", "1"), False)
    equal(client.prepend("k", "1"), False)
    equal(client.add("k", "b"), True)
    equal(client.add("k", "c"), False)
    equal(client.append("k", "c"), True)
    equal(client.prepend("k", "a"), True)
    equal(client.get("k"), b"abc")
    equal(client.replace("k", "new"), True)
    equal(client.get("k"), b"new")


@example
def check_and_set(client):
    equal(client.gets("k"), (None, None))
    client.set("k", "1")
    value, token = client.gets("k")
    equal(value, b"1")
    equal(client.cas("k", "2", token), True)
    equal(client.cas("k", "3", token), False)
    equal(client.cas("missing", "3", token), None)
    equal(client.get("k"), b"2")


@example
def a_loop_of_check_and_set(client):
    client.set("n", "0")

    def work():
        mine = Client(SERVER, default_noreply=False)
        for _ in range(25):
            while True:
                value, token = mine.gets("n")
                if mine.cas("n", str(int(value) + 1), token):
                    break

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal(client.get("n"), b"100")


@example
def many_at_once(client):
    values = {f"k{n}": f"v{n}" for n in range(500)}
    equal(client.set_many(values), [])
    equal(client.get_many(list(values) + ["missing"]), {key: value.encode() for key, value in values.items()})
    found = client.gets_many(["k1", "k2"])
    equal(sorted(found), ["k1", "k2"])
    equal(client.cas("k1", "new", found["k1"][1]), True)
    equal(client.delete_many(list(values)), True)
    equal(client.get_many(list(values)), {})


@example
def without_replies(_):
    client = Client(SERVER)
    equal(client.set("k", "1", noreply=True), True)
    equal(client.add("k", "2", noreply=True), True)
    equal(client.append("k", "0", noreply=True), True)
    equal(client.incr("k", 5, noreply=True), None)
    equal(client.touch("k", 100, noreply=True), True)
    equal(client.get("k"), b"15")
    equal(client.set_many({"a": "1", "b": "2"}, noreply=True), [])
    equal(client.delete("a", noreply=True), True)
    equal(client.get_many(["a", "b"]), {"b": b"2"})
    equal(client.flush_all(noreply=True), True)
    equal(client.get("b"), None)


@example
def counters(client):
    equal(client.incr("n", 1), None)
    client.set("n", "10")
    equal(client.incr("n", 5), 15)
    equal(client.decr("n", 1), 14)
    equal(client.decr("n", 100), 0)
    client.set("n", str(2**64 - 1))
    equal(client.incr("n", 1), 0)
    client.set("word", "x")
    raises(Exception, "cannot increment or decrement non-numeric value", lambda: client.incr("word", 1))


@example
def deleting_and_touching(client):
    equal(client.delete("k"), False)
    client.set("k", "v")
    equal(client.touch("k", 100), True)
    equal(client.touch("missing", 100), False)
    equal(client.delete("k"), True)
    equal(client.get("k"), None)


@example
def get_and_touch_as_raw_commands(client):
    client.set("k", "v")
    equal(client.raw_command("gat 100 k", end_tokens="END\r\n"), b"VALUE k 0 1\r\nv\r\n")
    true(client.raw_command("gats 100 k", end_tokens="END\r\n").startswith(b"VALUE k 0 1 "), "a token")


@example
def expiry(client):
    equal(client.set("k", "v", expire=-1), True)
    equal(client.get("k"), None)
    equal(client.set("k", "v", expire=100), True)
    equal(client.get("k"), b"v")
    equal(client.set("k", "v", expire=2000000000), True)
    equal(client.get("k"), b"v")


@example
def flags(client):
    plain = Client(SERVER, default_noreply=False)
    equal(plain.set("k", "v", flags=12345), True)
    equal(client.raw_command("get k", end_tokens="END\r\n").split(b"\r\n")[0], b"VALUE k 12345 1")


@example
def binary_values(client):
    value = bytes(range(256)) + b"\r\nEND\r\n\x00"
    equal(client.set("k", value), True)
    equal(client.get("k"), value)
    equal(client.set("empty", b""), True)
    equal(client.get("empty"), b"")


@example
def large_values(client):
    value = bytes(range(256)) * 2048
    equal(client.set("large", value), True)
    equal(client.get("large") == value, True)
    greater = b"x" * (2 * 1024 * 1024)
    try:
        client.set("k", greater)
        equal(client.get("k") == greater, True)
    except MemcacheServerError as error:
        true("object too large for cache" in str(error), "the reason")
        equal(client.get("k"), None)
    equal(client.get("large") == value, True)


@example
def statistics_and_version(client):
    stats = client.stats()
    true(isinstance(stats[b"pid"], int), "a process id")
    true(stats[b"curr_connections"] >= 1, "connections")
    true(isinstance(stats[b"threads"], int), "threads")
    true(stats[b"cmd_flush"] >= 1, "a flush")
    true(len(client.version()) > 0, "a version")
    true(client.stats("settings")[b"maxconns"] > 0, "a limit of connections")
    client.set("k", "v")
    true(any(key.startswith(b"items:") for key in client.stats("items")), "items of a class")
    true(b"active_slabs" in client.stats("slabs"), "slabs")
    true(isinstance(client.stats("conns"), dict), "connections")


@example
def flush_all_with_a_delay(client):
    client.set("k", "v")
    equal(client.flush_all(delay=100), True)
    equal(client.get("k"), b"v")


@example
def cache_memlimit(client):
    equal(client.cache_memlimit(64), True)


@example
def meta_commands_as_raw_commands(client):
    equal(client.raw_command("ms k 5 T90 F7\r\nhello"), b"HD")
    equal(client.raw_command("mg k s f t k", end_tokens="\r\n"), b"HD s5 f7 t90 kk")
    equal(client.raw_command("mg k v q O42", end_tokens="hello\r\n"), b"VA 5 O42\r\n")
    equal(client.raw_command("mg missing v"), b"EN")
    equal(client.raw_command("md k"), b"HD")
    equal(client.raw_command("ma n N0 J41 v", end_tokens="41\r\n"), b"VA 2\r\n")
    equal(client.raw_command("mn"), b"MN")


@example
def quit_closes(client):
    equal(client.quit(), None)


run(before)
