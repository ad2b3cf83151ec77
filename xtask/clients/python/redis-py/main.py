"""redis-py's documentation: README, "Examples", "Advanced features", "RESP3 features"."""

import asyncio
import datetime
import threading
import time

import redis
import redis.asyncio
from redis.backoff import ExponentialBackoff
from redis.cache import CacheConfig
from redis.retry import Retry

from examples import Skip, address, equal, example, raises, run, true

HOST, PORT = address("REDIS_ADDRESS")


def before():
    client = redis.Redis(host=HOST, port=PORT)
    client.flushall()
    return client


def version(r):
    return tuple(int(part) for part in r.info("server")["redis_version"].split(".")[:2])


def wait_message(pubsub, seconds=5.0):
    """The next message that is no confirmation."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        message = pubsub.get_message(ignore_subscribe_messages=True, timeout=0.1)
        if message is not None:
            return message
    raise AssertionError("expected a message, got none in 5 s")


@example
def basic_example(r):
    equal(r.set("foo", "bar"), True)
    equal(r.get("foo"), b"bar")
    equal(r.get("missing"), None)


@example
def ping_and_echo(r):
    equal(r.ping(), True)
    equal(r.echo("hello"), b"hello")


@example
def decoding_responses(_):
    r = redis.Redis(host=HOST, port=PORT, decode_responses=True)
    equal(r.set("city", "Z\u00fcrich"), True)
    equal(r.get("city"), "Z\u00fcrich")
    equal(r.strlen("city"), 7)


@example
def connecting_by_url(_):
    r = redis.Redis.from_url(f"redis://{HOST}:{PORT}/3?protocol=3&decode_responses=True")
    equal(r.set("where", "three"), True)
    equal(r.get("where"), "three")
    equal(redis.Redis(host=HOST, port=PORT, db=0).get("where"), None)
    equal(redis.Redis(host=HOST, port=PORT, db=3).get("where"), b"three")


@example
def client_name_at_connection(_):
    r = redis.Redis(host=HOST, port=PORT, client_name="app")
    true(r.client_getname() in ("app", b"app"), "the name app")


@example
def retry_on_timeout_settings(_):
    retry = Retry(ExponentialBackoff(), 3)
    r = redis.Redis(host=HOST, port=PORT, retry=retry, retry_on_error=[redis.ConnectionError])
    equal(r.ping(), True)


@example
def set_and_get_examples(r):
    equal(r.set("full_name", "john doe"), True)
    equal(r.exists("full_name"), 1)
    equal(r.get("full_name"), b"john doe")
    equal(r.set("full_name", "overridee!"), True)
    equal(r.get("full_name"), b"overridee!")
    equal(r.setex("important_key", 100, "important_value"), True)
    true(99 <= r.ttl("important_key") <= 100, "a time to live of 100")
    equal(r.mset({"key": "value", "otherkey": b"\x00\r\n\xff"}), True)
    equal(r.mget("key", "missing", "otherkey"), [b"value", None, b"\x00\r\n\xff"])
    equal(r.append("key", "+more"), 10)
    equal(r.strlen("key"), 10)
    equal(r.getrange("key", 0, 4), b"value")
    equal(r.setrange("key", 6, "less"), 10)
    equal(r.get("key"), b"value+less")
    equal(r.getset("key", "old"), b"value+less")
    equal(r.getdel("key"), b"old")
    equal(r.get("key"), None)


@example
def options_of_set(r):
    equal(r.set("k", "1", nx=True), True)
    equal(r.set("k", "2", nx=True), None)
    equal(r.set("k", "2", xx=True), True)
    equal(r.set("absent", "2", xx=True), None)
    equal(r.set("k", "3", get=True), b"2")
    equal(r.set("k", "4", ex=datetime.timedelta(seconds=30)), True)
    equal(r.set("k", "5", keepttl=True), True)
    true(0 < r.pttl("k") <= 30000, "a time to live that was kept")
    equal(r.set("k", "6"), True)
    equal(r.ttl("k"), -1)
    equal(r.setnx("k", "7"), False)
    equal(r.msetnx({"k": 1, "n": 2}), False)
    equal(r.msetnx({"m": 1, "n": 2}), True)


@example
def expiry(r):
    r.set("k", "v")
    equal(r.expire("k", 100), True)
    equal(r.expire("missing", 100), False)
    equal(r.expire("k", 50, gt=True), False)
    equal(r.expire("k", 50, lt=True), True)
    equal(r.persist("k"), True)
    equal(r.ttl("k"), -1)
    equal(r.ttl("missing"), -2)
    at = int(time.time()) + 100
    equal(r.expireat("k", at), True)
    equal(r.expiretime("k"), at)
    equal(r.pexpireat("k", at * 1000 + 500), True)
    equal(r.pexpiretime("k"), at * 1000 + 500)
    equal(r.getex("k", ex=10), b"v")
    true(0 < r.ttl("k") <= 10, "a time to live that GETEX set")
    equal(r.getex("k", persist=True), b"v")
    equal(r.ttl("k"), -1)
    equal(r.psetex("short", 40, "v"), True)
    time.sleep(0.1)
    equal(r.get("short"), None)
    equal(r.exists("short"), 0)


@example
def counters(r):
    equal(r.incr("n"), 1)
    equal(r.incr("n", 10), 11)
    equal(r.incrby("n", 4), 15)
    equal(r.decr("n"), 14)
    equal(r.decrby("n", 4), 10)
    equal(r.incrbyfloat("n", 0.5), 10.5)
    equal(r.get("n"), b"10.5")
    r.set("word", "x")
    raises(redis.ResponseError, "value is not an integer or out of range", lambda: r.incr("word"))


@example
def keys_of_the_keyspace(r):
    r.mset({"a": 1, "b": 2, "c": 3})
    equal(r.exists("a", "b", "missing"), 2)
    equal("a" in r, True)
    equal(r.type("a"), b"string")
    equal(r.type("missing"), b"none")
    equal(r.touch("a", "missing"), 1)
    equal(r.rename("a", "z"), True)
    equal(r.renamenx("z", "b"), False)
    raises(redis.ResponseError, "no such key", lambda: r.rename("missing", "y"))
    equal(r.copy("z", "copied"), True)
    equal(r.copy("z", "copied"), False)
    equal(sorted(r.keys()), [b"b", b"c", b"copied", b"z"])
    equal(r.keys("c*") in ([b"c", b"copied"], [b"copied", b"c"]), True)
    true(r.randomkey() in (b"b", b"c", b"copied", b"z"), "one of the keys")
    equal(r.dbsize(), 4)
    equal(r.delete("b", "c", "missing"), 2)
    equal(r.unlink("z"), 1)
    equal(r.object("encoding", "copied") in (b"int", "int"), True)


@example
def dump_and_restore(r):
    r.set("k", b"\x00binary\r\n")
    payload = r.dump("k")
    equal(r.restore("other", 0, payload) in (b"OK", True), True)
    equal(r.get("other"), b"\x00binary\r\n")
    raises(redis.ResponseError, "BUSYKEY", lambda: r.restore("other", 0, payload))
    equal(r.restore("other", 60000, payload, replace=True) in (b"OK", True), True)
    true(0 < r.pttl("other") <= 60000, "a time to live")


@example
def longest_common_subsequence(r):
    r.mset({"key1": "ohmytext", "key2": "mynewtext"})
    equal(r.lcs("key1", "key2"), b"mytext")
    equal(r.lcs("key1", "key2", len=True), 6)


@example
def scan_iterators(r):
    keys = {f"user:{n}": n for n in range(500)}
    r.mset(keys)
    r.mset({f"other:{n}": n for n in range(100)})
    equal(sorted(set(r.scan_iter("user:*"))), sorted(key.encode() for key in keys))
    equal(len(set(r.scan_iter(count=1000))), 600)
    equal(len(set(r.scan_iter(_type="STRING"))), 600)
    equal(list(r.scan_iter(_type="HASH")), [])
    cursor, seen = 0, set()
    while True:
        cursor, found = r.scan(cursor, match="other:*", count=10)
        seen.update(found)
        if cursor == 0:
            break
    equal(len(seen), 100)


@example
def pipelines(r):
    pipe = r.pipeline()
    pipe.set("foo", 5)
    pipe.set("bar", 18.5)
    pipe.set("blee", "hello world!")
    equal(pipe.execute(), [True, True, True])
    equal(r.pipeline().set("foo", "bar").get("foo").incr("auto_number").execute(), [True, b"bar", 1])
    pipe = r.pipeline(transaction=False)
    for n in range(2000):
        pipe.set(f"k{n}", n)
    equal(pipe.execute(), [True] * 2000)
    equal(r.get("k1999"), b"1999")


@example
def errors_within_pipelines(r):
    r.set("word", "x")
    pipe = r.pipeline()
    pipe.set("a", 1).incr("word").get("a")
    raises(redis.ResponseError, "value is not an integer", pipe.execute)
    equal(r.get("a"), b"1")
    got = r.pipeline().incr("word").get("a").execute(raise_on_error=False)
    true(isinstance(got[0], redis.ResponseError), "an error in its place")
    equal(got[1], b"1")


@example
def optimistic_locking_with_watch(r):
    """The loop of the documentation on pipelines, by several clients at once."""

    def increment():
        with redis.Redis(host=HOST, port=PORT).pipeline() as pipe:
            while True:
                try:
                    pipe.watch("OUR-SEQUENCE-KEY")
                    current = int(pipe.get("OUR-SEQUENCE-KEY") or 0)
                    pipe.multi()
                    pipe.set("OUR-SEQUENCE-KEY", current + 1)
                    pipe.execute()
                    return
                except redis.WatchError:
                    continue

    threads = [threading.Thread(target=lambda: [increment() for _ in range(20)]) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal(r.get("OUR-SEQUENCE-KEY"), b"100")


@example
def transaction_convenience_method(r):
    r.set("OUR-SEQUENCE-KEY", 7)

    def client_side_incr(pipe):
        current = int(pipe.get("OUR-SEQUENCE-KEY"))
        pipe.multi()
        pipe.set("OUR-SEQUENCE-KEY", current + 1)

    equal(r.transaction(client_side_incr, "OUR-SEQUENCE-KEY"), [True])
    equal(r.get("OUR-SEQUENCE-KEY"), b"8")


@example
def a_watched_key_that_changes(r):
    with r.pipeline() as pipe:
        pipe.watch("k")
        r.set("k", "changed")
        pipe.multi()
        pipe.set("k", "mine")
        raises(redis.WatchError, "Watched variable changed", pipe.execute)
    equal(r.get("k"), b"changed")


@example
def publish_and_subscribe(r):
    p = r.pubsub()
    p.subscribe("my-first-channel", "my-second-channel")
    p.psubscribe("my-*")
    confirmed = [p.get_message(timeout=5) for _ in range(3)]
    equal([message["type"] for message in confirmed], ["subscribe", "subscribe", "psubscribe"])
    equal([message["data"] for message in confirmed], [1, 2, 3])
    equal(r.publish("my-first-channel", "some data"), 2)
    got = sorted([wait_message(p), wait_message(p)], key=lambda message: message["type"])
    equal(
        got,
        [
            {"type": "message", "pattern": None, "channel": b"my-first-channel", "data": b"some data"},
            {"type": "pmessage", "pattern": b"my-*", "channel": b"my-first-channel", "data": b"some data"},
        ],
    )
    equal(sorted(r.pubsub_channels()), [b"my-first-channel", b"my-second-channel"])
    equal([tuple(pair) for pair in r.pubsub_numsub("my-first-channel")], [(b"my-first-channel", 1)])
    equal(r.pubsub_numpat(), 1)
    p.unsubscribe()
    p.punsubscribe()
    ended = [p.get_message(timeout=5)["type"] for _ in range(3)]
    equal(sorted(ended), ["punsubscribe", "unsubscribe", "unsubscribe"])
    p.close()
    equal(r.publish("my-first-channel", "nobody"), 0)


@example
def pubsub_in_resp2(_):
    r = redis.Redis(host=HOST, port=PORT, protocol=2)
    p = r.pubsub(ignore_subscribe_messages=True)
    p.subscribe("news")
    equal(p.get_message(timeout=1), None)
    p.ping()
    equal(r.publish("news", b"\x00\x01"), 1)
    got = wait_message(p)
    while got["type"] == "pong":
        got = wait_message(p)
    equal(got["data"], b"\x00\x01")
    p.close()


@example
def pubsub_handlers_in_a_thread(r):
    got, done = [], threading.Event()

    def handler(message):
        got.append(message["data"])
        if len(got) == 3:
            done.set()

    p = r.pubsub()
    p.subscribe(**{"my-channel": handler})
    true(p.get_message(timeout=5), "a confirmation")
    thread = p.run_in_thread(sleep_time=0.01)
    for data in ("a", "b", "c"):
        equal(r.publish("my-channel", data), 1)
    done.wait(5)
    thread.stop()
    thread.join()
    equal(got, [b"a", b"b", b"c"])


@example
def sharded_pubsub(r):
    p = r.pubsub()
    p.ssubscribe("shard")
    equal(p.get_message(timeout=5)["type"], "ssubscribe")
    equal(r.spublish("shard", "hello"), 1)
    message = wait_message(p)
    equal((message["type"], message["data"]), ("smessage", b"hello"))
    p.close()


@example
def keyspace_notifications(r):
    r.config_set("notify-keyspace-events", "KEA")
    p = r.pubsub()
    p.psubscribe("__key*__:*")
    true(p.get_message(timeout=5), "a confirmation")
    r.set("k", "v")
    got = {(m["channel"], m["data"]) for m in (wait_message(p), wait_message(p))}
    equal(got, {(b"__keyspace@0__:k", b"set"), (b"__keyevent@0__:set", b"k")})
    r.config_set("notify-keyspace-events", "")
    p.close()


@example
def bitmaps(r):
    equal(r.setbit("pings", 123, 1), 0)
    equal(r.setbit("pings", 123, 1), 1)
    equal(r.getbit("pings", 123), 1)
    equal(r.getbit("pings", 456), 0)
    equal(r.bitcount("pings"), 1)
    r.mset({"a": "foobar", "b": "abcdef"})
    equal(r.bitcount("a", 1, 1), 6)
    equal(r.bitcount("a", 5, 30, "BIT"), 17)
    equal(r.bitpos("pings", 1), 123)
    equal(r.bitop("AND", "dest", "a", "b"), 6)
    equal(r.get("dest"), b"`bc`ab")
    equal(r.bitop("NOT", "dest", "a"), 6)


@example
def bit_fields(r):
    stats = r.bitfield("bike:1:stats")
    equal(stats.set("u32", "#0", 1000).execute(), [0])
    equal(stats.incrby("u32", "#0", -50).incrby("u32", "#1", 1).execute(), [950, 1])
    equal(stats.get("u32", "#0").get("u32", "#1").execute(), [950, 1])
    overflowing = r.bitfield("mykey", default_overflow="FAIL")
    equal(overflowing.set("u2", 0, 3).execute(), [0])
    equal(overflowing.incrby("u2", 0, 1).execute(), [None])
    equal(r.bitfield_ro("bike:1:stats", "u32", "#0"), [950])


@example
def hyperloglog(r):
    equal(r.pfadd("bikes", "Hyperion", "Deimos", "Phoebe", "Quaoar"), 1)
    equal(r.pfcount("bikes"), 4)
    equal(r.pfadd("commuter_bikes", "Salacia", "Mimas", "Quaoar"), 1)
    equal(r.pfmerge("all_bikes", "bikes", "commuter_bikes"), True)
    equal(r.pfcount("all_bikes"), 6)
    equal(r.pfadd("bikes", "Deimos"), 0)


@example
def databases(r):
    one = redis.Redis(host=HOST, port=PORT, db=1)
    r.set("k", "zero")
    equal(one.get("k"), None)
    equal(r.move("k", 1), True)
    equal(one.get("k"), b"zero")
    equal(r.copy("missing", "x", destination_db=1), False)
    equal(one.copy("k", "k", destination_db=0), True)
    equal(r.swapdb(0, 1), True)
    equal(one.flushdb(), True)
    equal(r.dbsize(), 1)
    equal(r.flushall(), True)
    equal(r.dbsize(), 0)
    raises(redis.ResponseError, "DB index is out of range", lambda: redis.Redis(host=HOST, port=PORT, db=99).ping())


@example
def resp2_and_resp3(_):
    for protocol in (2, 3):
        r = redis.Redis(host=HOST, port=PORT, protocol=protocol)
        equal(r.set("k", "v"), True)
        equal(r.get("k"), b"v")
        equal(r.mget("k", "missing"), [b"v", None])
        equal(r.config_get("maxmemory-policy").keys(), {"maxmemory-policy": 0}.keys())
        equal(r.pipeline().get("k").exists("k").execute(), [b"v", 1])


@example
def connection_pools(_):
    pool = redis.ConnectionPool(host=HOST, port=PORT, db=0)
    r1, r2 = redis.Redis(connection_pool=pool), redis.Redis(connection_pool=pool)
    equal(r1.set("k", "v"), True)
    equal(r2.get("k"), b"v")
    blocking = redis.BlockingConnectionPool(host=HOST, port=PORT, max_connections=4, timeout=5)
    shared, errors = redis.Redis(connection_pool=blocking), []

    def work():
        try:
            for _ in range(50):
                shared.incr("n")
        except redis.RedisError as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal(errors, [])
    equal(shared.get("n"), b"400")
    blocking.disconnect()


@example
def asyncio_examples(_):
    async def work():
        client = redis.asyncio.Redis(host=HOST, port=PORT)
        equal(await client.ping(), True)
        async with client.pipeline(transaction=True) as pipe:
            ok1, ok2 = await (pipe.set("key1", "value1").set("key2", "value2").execute())
        equal((ok1, ok2), (True, True))
        equal(await asyncio.gather(*(client.incr("n") for _ in range(20))) is not None, True)
        equal(await client.get("n"), b"20")
        equal(sorted([key async for key in client.scan_iter("key*")]), [b"key1", b"key2"])
        await client.aclose()

    asyncio.run(work())


@example
def asyncio_pubsub(_):
    async def work():
        client = redis.asyncio.Redis(host=HOST, port=PORT)
        got = []

        async def reader(channel):
            while True:
                message = await channel.get_message(ignore_subscribe_messages=True, timeout=5)
                if message is not None:
                    got.append(message["data"].decode())
                    if message["data"] == b"STOP":
                        break

        async with client.pubsub() as pubsub:
            await pubsub.subscribe("channel:1", "channel:2")
            await pubsub.get_message(timeout=5)
            await pubsub.get_message(timeout=5)
            future = asyncio.create_task(reader(pubsub))
            await client.publish("channel:1", "Hello")
            await client.publish("channel:2", "World")
            await client.publish("channel:1", "STOP")
            await asyncio.wait_for(future, 5)
        equal(got, ["Hello", "World", "STOP"])
        await client.aclose()

    asyncio.run(work())


@example
def client_side_caching(r):
    if version(r) < (7, 4):
        raise Skip("redis-py asks for a server of version 7.4")
    cached = redis.Redis(host=HOST, port=PORT, protocol=3, cache_config=CacheConfig())
    cache = cached.get_cache()
    r.set("city", "New York")
    equal(cached.get("city"), b"New York")
    equal(cached.get("city"), b"New York")
    equal(cache.size, 1)
    r.set("city", "Tokyo")
    end = time.monotonic() + 5
    while cached.get("city") != b"Tokyo":
        true(time.monotonic() < end, "an invalidation within 5 s")
    cached.close()


@example
def tracking_by_hand(r):
    """What client-side caching rests on, for servers of any version."""
    connection = redis.Connection(host=HOST, port=PORT, protocol=3)
    connection.connect()
    pushed = []
    connection._parser.set_invalidation_push_handler(lambda message: pushed.append(message))
    for command in (("CLIENT", "TRACKING", "ON"), ("GET", "k")):
        connection.send_command(*command)
        connection.read_response()
    r.set("k", "v")
    end = time.monotonic() + 5
    while not pushed:
        true(time.monotonic() < end, "an invalidation within 5 s")
        connection.send_command("PING")
        connection.read_response()
    equal([part if isinstance(part, list) else bytes(part) for part in pushed[0]], [b"invalidate", [b"k"]])
    connection.disconnect()


@example
def users_and_passwords(r):
    r.acl_setuser("alice", enabled=True, passwords=["+secret"], keys=["cached:*"], commands=["+get", "+set"])
    try:
        alice = redis.Redis(host=HOST, port=PORT, username="alice", password="secret")
        equal(alice.set("cached:1", "v"), True)
        equal(alice.get("cached:1"), b"v")
        raises(redis.exceptions.NoPermissionError, "key", lambda: alice.get("other"))
        raises(redis.exceptions.NoPermissionError, "command", lambda: alice.delete("cached:1"))
        wrong = redis.Redis(host=HOST, port=PORT, username="alice", password="wrong")
        raises(redis.AuthenticationError, "invalid username-password pair", wrong.ping)
        equal(redis.Redis(host=HOST, port=PORT, protocol=2, username="alice", password="secret").get("cached:1"), b"v")
        equal(r.acl_whoami() in (b"default", "default"), True)
        true("alice" in [name if isinstance(name, str) else name.decode() for name in r.acl_users()], "alice among the users")
        true("~cached:*" in r.acl_getuser("alice")["keys"], "the pattern of keys")
    finally:
        equal(r.acl_deluser("alice"), 1)


@example
def info_and_config(r):
    info = r.info()
    true(isinstance(info["redis_version"], str), "a version")
    true(isinstance(info["connected_clients"], int) and info["connected_clients"] >= 1, "clients")
    true(isinstance(info["used_memory"], int), "used memory")
    r.mset({"a": 1, "b": 2})
    r.expire("a", 100)
    keyspace = r.info("keyspace")["db0"]
    equal((keyspace["keys"], keyspace["expires"]), (2, 1))
    equal(r.info("replication")["role"], "master")
    true(int(r.config_get("maxclients")["maxclients"]) > 0, "a limit of connections")
    equal(r.config_resetstat(), True)
    true(len(r.time()) == 2, "seconds and microseconds")
    true(isinstance(r.lastsave(), datetime.datetime), "a date")
    true(r.command_count() > 50, "a count of commands")
    equal(r.command()["get"]["arity"], 2)


@example
def client_commands(r):
    equal(r.client_setname("me"), True)
    true(r.client_id() > 0, "an id")
    mine = [client for client in r.client_list() if client["name"] == "me"]
    equal(len(mine), 1)
    info = r.client_info()
    equal((str(info["id"]), info["name"]), (mine[0]["id"], "me"))
    if version(r) >= (7, 2):
        equal((info["lib-name"].split("(")[0], info["lib-ver"]), ("redis-py", redis.__version__))
    other = redis.Redis(host=HOST, port=PORT)
    number = other.client_id()
    equal(r.client_kill_filter(_id=number), 1)
    equal(r.client_no_evict("OFF") in (b"OK", "OK", True), True)
    equal(r.client_pause(1), True)
    equal(r.client_unpause() in (b"OK", True), True)


@example
def memory_slowlog_and_latency(r):
    r.set("k", "v")
    true(r.memory_usage("k") > 0, "bytes")
    equal(r.memory_usage("missing"), None)
    equal(r.slowlog_reset(), True)
    true(isinstance(r.slowlog_get(), list), "a list")
    true(isinstance(r.slowlog_len(), int), "a number")
    true(isinstance(r.latency_latest(), list), "a list")


@example
def waiting_and_saving(r):
    r.set("k", "v")
    equal(r.wait(0, 100), 0)
    equal(r.bgsave(), True)
    true(r.lastsave() is not None, "a date")


@example
def large_values(r):
    value = bytes(range(256)) * 8192
    equal(r.set("large", value), True)
    equal(r.get("large") == value, True)
    equal(r.strlen("large"), 2 * 1024 * 1024)
    equal(r.getrange("large", 256, 511), bytes(range(256)))


@example
def acquiring_a_lock(r):
    """SET NX PX, as Lock.acquire does; its release is a script."""
    lock = r.lock("print-it", timeout=10)
    equal(lock.acquire(blocking=False), True)
    equal(r.lock("print-it", timeout=10).acquire(blocking=False), False)
    equal(lock.locked(), True)


@example
def a_command_that_is_not_there(r):
    raises(redis.ResponseError, "unknown command", lambda: r.execute_command("NOSUCH", "a"))
    raises(redis.ResponseError, "wrong number of arguments", lambda: r.execute_command("GET"))


run(before)
