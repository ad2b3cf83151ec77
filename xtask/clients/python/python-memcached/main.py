"""python-memcached's documentation: the module's own, and each method's."""

import memcache

from examples import address, equal, example, run, true

HOST, PORT = address("MEMCACHED_ADDRESS")


def before():
    client = memcache.Client([f"{HOST}:{PORT}"], debug=0, cache_cas=True)
    client.flush_all()
    return client


@example
def the_modules_example(_):
    mc = memcache.Client([f"{HOST}:{PORT}"], debug=0)
    equal(bool(mc.set("some_key", "Some value")), True)
    equal(mc.get("some_key"), "Some value")
    equal(bool(mc.set("another_key", 3)), True)
    equal(mc.delete("another_key"), 1)
    equal(bool(mc.set("key", "1")), True)
    equal(mc.incr("key"), 2)
    equal(mc.decr("key"), 1)
    mc.disconnect_all()


@example
def incrementing(mc):
    mc.set("counter", "20")
    equal(mc.incr("counter"), 21)
    equal(mc.incr("counter"), 22)
    equal(mc.incr("counter", 100), 122)
    equal(mc.decr("counter", 1000), 0)
    equal(mc.incr("missing"), None)


@example
def types(mc):
    for key, value in {"text": "Z\u00fcrich", "number": 42, "large": 2**70, "bytes": b"\x00\r\n", "list": [1, "two"], "no": False}.items():
        equal(bool(mc.set(key, value)), True, key)
        equal(mc.get(key), value, key)


@example
def add_and_replace(mc):
    equal(bool(mc.replace("k", "1")), False)
    equal(bool(mc.add("k", "1")), True)
    equal(bool(mc.add("k", "2")), False)
    equal(bool(mc.replace("k", "3")), True)
    equal(mc.get("k"), "3")
    equal(bool(mc.append("k", "4")), True)
    equal(bool(mc.prepend("k", "2")), True)
    equal(mc.get("k"), "234")
    equal(bool(mc.append("missing", "4")), False)


@example
def check_and_set(mc):
    mc.set("k", "1")
    equal(mc.gets("k"), "1")
    other = memcache.Client([f"{HOST}:{PORT}"])
    other.set("k", "other")
    equal(bool(mc.cas("k", "2")), False)
    equal(mc.gets("k"), "other")
    equal(bool(mc.cas("k", "2")), True)
    equal(mc.get("k"), "2")


@example
def getting_many_with_a_prefix(mc):
    equal(mc.set_multi({"key1": "val1", "key2": "val2"}, key_prefix="subspace_"), [])
    equal(mc.get_multi(["key1", "key2", "key3"], key_prefix="subspace_"), {"key1": "val1", "key2": "val2"})
    equal(mc.get("subspace_key1"), "val1")
    equal(mc.set_multi({100000: "integer", "text": "text"}), [])
    equal(mc.get_multi([100000, "text"]), {100000: "integer", "text": "text"})
    equal(mc.delete_multi(["key1", "key2"], key_prefix="subspace_"), 1)
    equal(mc.get_multi(["subspace_key1", "subspace_key2"]), {})


@example
def without_replies(mc):
    mc.set("k", "1", noreply=True)
    mc.add("k", "2", noreply=True)
    mc.incr("k", 4, noreply=True)
    equal(mc.get("k"), "5")
    mc.set_multi({"a": "1", "b": "2"}, noreply=True)
    mc.delete("a", noreply=True)
    equal(mc.get_multi(["a", "b"]), {"b": "2"})


@example
def touching(mc):
    mc.set("k", "v")
    equal(mc.touch("k", 100), 1)
    equal(bool(mc.touch("missing", 100)), False)
    mc.set("gone", "v", time=-1)
    equal(mc.get("gone"), None)


@example
def compression_and_large_values(mc):
    text = "compressible " * 20000
    equal(bool(mc.set("k", text, min_compress_len=100)), True)
    equal(mc.get("k"), text)
    value = bytes(range(256)) * 2000
    equal(bool(mc.set("large", value)), True)
    equal(mc.get("large") == value, True)
    greater = memcache.Client([f"{HOST}:{PORT}"], server_max_value_length=0)
    stored = bool(greater.set("k", b"x" * (2 * 1024 * 1024)))
    equal(greater.get("k"), b"x" * (2 * 1024 * 1024) if stored else None)
    equal(greater.get("large") == value, True)


@example
def keys_that_are_not_allowed(mc):
    for key in ("has space", "k" * 251):
        try:
            mc.set(key, "v")
        except memcache.Client.MemcachedKeyError:
            continue
        raise AssertionError(f"expected an error for {key!r}")


@example
def statistics(mc):
    ((name, stats),) = mc.get_stats()
    true(str(PORT) in name, "the server's name")
    true(int(stats["pid"]) > 0, "a process id")
    true(int(stats["cmd_set"]) >= 0, "sets")
    ((_, settings),) = mc.get_stats("settings")
    true(int(settings["maxconns"]) > 0, "a limit of connections")
    mc.set("k", "v")
    true(len(mc.get_slab_stats()) == 1, "slabs of one server")


@example
def a_server_with_a_weight(_):
    mc = memcache.Client([(f"{HOST}:{PORT}", 3)])
    equal(bool(mc.set((7, "key"), "v")), True)
    equal(mc.get((7, "key")), "v")


run(before)
