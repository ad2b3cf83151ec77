"""pylibmc's documentation: "Quickstart", "Reference" and "Behaviors", in memcached's text protocol."""

import threading

import pylibmc

from examples import address, equal, example, raises, run, true

HOST, PORT = address("MEMCACHED_ADDRESS")
SERVERS = [f"{HOST}:{PORT}"]


def before():
    client = pylibmc.Client(SERVERS, behaviors={"cas": True})
    client.flush_all()
    return client


@example
def basic_operation(_):
    mc = pylibmc.Client(SERVERS, behaviors={"tcp_nodelay": True, "ketama": True})
    equal(mc.set("some_key", "Some value"), True)
    value = mc.get("some_key")
    equal(value, "Some value")
    equal(mc.set("another_key", 3), True)
    equal(mc.delete("another_key"), True)
    equal(mc.set("key", "1"), True)
    equal(mc.incr("key"), 2)
    equal(mc.decr("key"), 1)
    equal("key" in mc, True)
    equal("missing" in mc, False)
    mc["mapped"] = "value"
    equal(mc["mapped"], "value")
    del mc["mapped"]
    equal(mc.get("mapped"), None)


@example
def multi_operations(mc):
    equal(mc.set_multi({"key1": "Hello", "key2": "World"}), [])
    equal(mc.get_multi(["key1", "key2", "key3"]), {"key1": "Hello", "key2": "World"})
    equal(mc.delete_multi(["key1", "key2"]), True)
    equal(mc.get_multi(["key1", "key2"]), {})
    equal(mc.set_multi({"1": "a", "2": "b"}, key_prefix="p:"), [])
    equal(mc.get("p:1"), "a")
    equal(mc.get_multi(["1", "2"], key_prefix="p:"), {"1": "a", "2": "b"})
    equal(mc.add_multi({"p:1": "x", "p:3": "y"}), ["p:1"])


@example
def types(mc):
    for key, value in {"text": "Z\u00fcrich", "number": 42, "bytes": b"\x00\r\n", "list": [1, "two"]}.items():
        equal(mc.set(key, value), True, key)
        equal(mc.get(key), value, key)


@example
def add_replace_append_prepend(mc):
    equal(mc.replace("k", "1"), False)
    equal(mc.add("k", b"b"), True)
    equal(mc.add("k", b"c"), False)
    equal(mc.append("k", b"c"), True)
    equal(mc.prepend("k", b"a"), True)
    equal(mc.get("k"), b"abc")
    equal(mc.replace("k", "new"), True)
    equal(mc.get("k"), "new")


@example
def check_and_set(mc):
    mc.set("k", "1")
    value, token = mc.gets("k")
    equal(value, "1")
    equal(mc.cas("k", "2", token), True)
    equal(mc.cas("k", "3", token), False)
    equal(mc.get("k"), "2")


@example
def counters(mc):
    raises(pylibmc.NotFound, "", lambda: mc.incr("missing"))
    mc.set("n", "10")
    equal(mc.incr("n", 5), 15)
    equal(mc.decr("n", 5), 10)
    equal(mc.incr_multi(["n"], delta=7), None)
    equal(mc.get("n"), "17")


@example
def deleting_and_touching(mc):
    equal(mc.delete("missing"), False)
    mc.set("k", "v")
    equal(mc.touch("k", 100), True)
    equal(mc.touch("missing", 100), False)
    equal(mc.delete("k"), True)
    equal(mc.set("k", "v", time=100), True)
    equal(mc.get("k"), "v")


@example
def without_replies(_):
    mc = pylibmc.Client(SERVERS, behaviors={"no_block": True, "_noreply": True})
    equal(mc.set("k", "1"), True)
    equal(mc.get("k"), "1")
    equal(mc.set_multi({f"k{n}": str(n) for n in range(200)}), [])
    equal(mc.get("k199"), "199")


@example
def compression(mc):
    text = "compressible " * 20000
    equal(mc.set("k", text, min_compress_len=100), True)
    equal(mc.get("k"), text)


@example
def large_and_binary_values(mc):
    value = bytes(range(256)) * 3000
    equal(mc.set("large", value), True)
    equal(mc.get("large") == value, True)
    greater = b"x" * (2 * 1024 * 1024)
    try:
        mc.set("k", greater)
        equal(mc.get("k") == greater, True)
    except pylibmc.TooBig:
        equal(mc.get("k"), None)
    equal(mc.get("large") == value, True)


@example
def pools(mc):
    mc.set("n", "0")
    pool = pylibmc.ClientPool(mc, 4)
    threaded = pylibmc.ThreadMappedPool(mc)

    def work():
        for _ in range(50):
            with pool.reserve() as client:
                client.incr("n")
            with threaded.reserve() as client:
                client.incr("n")
        threaded.relinquish()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal(mc.get("n"), "400")


@example
def statistics(mc):
    ((_, stats),) = mc.get_stats()
    texts = {key if isinstance(key, str) else key.decode(): value for key, value in stats.items()}
    true(int(texts["pid"]) > 0, "a process id")
    true(int(texts["curr_connections"]) >= 1, "connections")


@example
def flushing_and_disconnecting(mc):
    mc.set("k", "v")
    equal(mc.flush_all(), True)
    equal(mc.get("k"), None)
    mc.disconnect_all()
    equal(mc.set("k", "again"), True)


run(before)
