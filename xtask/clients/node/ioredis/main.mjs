// ioredis's documentation: README ("Basic Usage", "Pub/Sub", "Handle Binary Data", "Pipelining", "Transaction", "TTL",
// "Transparent Key Prefixing", "Transforming", "Monitor" left out, "Streamify Scanning", "Autopipelining", "Error Handling").
import { Redis } from "ioredis";
import { address, equal, example, rejects, run, until, yes } from "../examples.mjs";

const { host, port } = address("REDIS_ADDRESS");
const made = [];

function connected(options = {}) {
  const client = new Redis({ host, port, maxRetriesPerRequest: 2, ...options });
  client.on("error", () => {});
  made.push(client);
  return client;
}

example("basic usage", async (redis) => {
  equal(await redis.set("mykey", "value"), "OK");
  equal(await redis.get("mykey"), "value");
  equal(await new Promise((resolve, reject) => redis.get("mykey", (e, r) => (e ? reject(e) : resolve(r)))), "value");
  equal(await redis.set("mykey", "hello", "EX", 10), "OK");
  yes((await redis.ttl("mykey")) > 0, "a time to live");
  equal(await redis.get("missing"), null);
});

example("connecting", async () => {
  const byUrl = new Redis(`redis://${host}:${port}/4`);
  made.push(byUrl);
  equal(await byUrl.set("k", "four"), "OK");
  const byOptions = connected({ db: 4, connectionName: "app" });
  equal(await byOptions.get("k"), "four");
  equal(await byOptions.client("GETNAME"), "app");
  const lazy = connected({ lazyConnect: true });
  await lazy.connect();
  equal(await lazy.ping(), "PONG");
});

example("strings and counters", async (redis) => {
  equal(await redis.mset({ a: 1, b: "two" }), "OK");
  equal(await redis.mset(new Map([["c", 3]])), "OK");
  equal(await redis.mget("a", "missing", "b", "c"), ["1", null, "two", "3"]);
  equal(await redis.msetnx("a", 1, "n", 2), 0);
  equal(await redis.incr("a"), 2);
  equal(await redis.incrby("a", 10), 12);
  equal(await redis.decr("a"), 11);
  equal(await redis.incrbyfloat("a", 0.5), "11.5");
  equal(await redis.append("b", "+more"), 8);
  equal(await redis.getrange("b", 0, 2), "two");
  equal(await redis.setrange("b", 4, "less"), 8);
  equal(await redis.getset("b", "x"), "two+less");
  equal(await redis.getdel("b"), "x");
  equal(await redis.setnx("a", 1), 0);
  equal(await redis.psetex("short", 30, "v"), "OK");
  await until(async () => (await redis.get("short")) === null, "the key's end");
});

for (const protocol of [2, 3]) {
  example(`publish and subscribe in RESP${protocol}`, async (pub) => {
    const sub = connected({ protocol });
    const got = [];
    equal(await sub.subscribe("my-channel-1", "my-channel-2"), 2);
    equal(await sub.psubscribe("pat?ern"), 3);
    sub.on("message", (channel, message) => got.push([channel, message]));
    sub.on("pmessage", (pattern, channel, message) => got.push([pattern, channel, message]));
    equal(await pub.publish("my-channel-1", "hello"), 1);
    equal(await pub.publish("my-channel-2", JSON.stringify({ foo: "bar" })), 1);
    equal(await pub.publish("pattern", "matched"), 1);
    await until(() => got.length === 3, "three messages");
    equal(got, [["my-channel-1", "hello"], ["my-channel-2", '{"foo":"bar"}'], ["pat?ern", "pattern", "matched"]]);
    if (protocol === 2) await rejects(sub.get("k"), "subscriber mode");
    else equal(await sub.get("k"), null);
    equal(await sub.unsubscribe("my-channel-1", "my-channel-2"), 1);
    equal(await sub.punsubscribe("pat?ern"), 0);
    equal(await sub.set("k", "v"), "OK");
  });
}

example("messages as buffers", async (pub) => {
  const sub = connected();
  const got = [];
  await sub.subscribe("bytes");
  sub.on("messageBuffer", (_, message) => got.push([...message]));
  await pub.publish("bytes", Buffer.from([0, 255, 13, 10]));
  await until(() => got.length === 1, "a message");
  equal(got, [[0, 255, 13, 10]]);
});

example("subscriptions come back after a reconnection", async (pub) => {
  const sub = connected();
  const got = [];
  await sub.subscribe("news");
  sub.on("message", (_, message) => got.push(message));
  const again = new Promise((resolve) => sub.once("ready", resolve));
  sub.disconnect(true);
  await again;
  await until(async () => (await pub.publish("news", "hello")) === 1, "a subscriber");
  await until(() => got.length === 1, "a message");
  equal(got, ["hello"]);
});

example("binary data", async (redis) => {
  const value = Buffer.from(Array.from({ length: 256 }, (_, n) => n));
  equal(await redis.set("foo", value), "OK");
  equal(Buffer.compare(await redis.getBuffer("foo"), value), 0);
  equal((await redis.mgetBuffer("foo", "missing"))[1], null);
});

example("pipelining", async (redis) => {
  const pipeline = redis.pipeline();
  pipeline.set("foo", "bar");
  pipeline.del("cc");
  equal(await pipeline.exec(), [[null, "OK"], [null, 0]]);
  equal(await redis.pipeline().set("foo", "bar").get("foo").exec(), [[null, "OK"], [null, "bar"]]);
  const many = redis.pipeline([["set", "foo", "bar"], ["get", "foo"]]);
  equal(many.length, 2);
  equal(await many.exec(), [[null, "OK"], [null, "bar"]]);
  const failing = await redis.pipeline().set("foo", "x").incr("foo").exec();
  yes(failing[1][0].message.includes("not an integer"), "an error in its place");
});

example("transactions", async (redis) => {
  equal(await redis.multi().set("foo", "bar").get("foo").exec(), [[null, "OK"], [null, "bar"]]);
  equal(await redis.multi([["set", "foo", "bar"], ["get", "foo"]]).exec(), [[null, "OK"], [null, "bar"]]);
  await redis.multi({ pipeline: false });
  equal(await redis.set("foo", "bar"), "QUEUED");
  equal(await redis.get("foo"), "QUEUED");
  equal(await redis.exec(), [[null, "OK"], [null, "bar"]]);
  await rejects(redis.multi().set("foo").set("foo", "new value").exec(), "EXECABORT");
  equal(await redis.pipeline().get("foo").multi().set("foo", "x").get("foo").exec().get("foo").exec(), [
    [null, "bar"],
    [null, "OK"],
    [null, "QUEUED"],
    [null, "QUEUED"],
    [null, ["OK", "x"]],
    [null, "x"],
  ]);
});

example("a loop of watch, multi and exec", async () => {
  const increment = async () => {
    const redis = connected();
    for (let done = 0; done < 20; ) {
      await redis.watch("n");
      const n = Number(await redis.get("n"));
      if ((await redis.multi().set("n", n + 1).exec()) !== null) done++;
    }
  };
  await Promise.all([increment(), increment(), increment(), increment()]);
  equal(await connected().get("n"), "80");
});

example("transparent key prefixing", async (redis) => {
  const fooRedis = connected({ keyPrefix: "foo:" });
  equal(await fooRedis.set("bar", "baz"), "OK");
  equal(await redis.get("foo:bar"), "baz");
  equal(await fooRedis.mget("bar", "missing"), ["baz", null]);
  equal(await fooRedis.pipeline().set("a", 1).get("a").exec(), [[null, "OK"], [null, "1"]]);
});

example("streamify scanning", async (redis) => {
  await redis.mset(Object.fromEntries(Array.from({ length: 300 }, (_, n) => [`user:${n}`, n])));
  await redis.set("other", 1);
  const seen = new Set();
  for await (const keys of redis.scanStream({ match: "user:*", type: "string", count: 100 })) {
    for (const key of keys) seen.add(key);
  }
  equal(seen.size, 300);
});

example("autopipelining", async () => {
  const redis = connected({ enableAutoPipelining: true });
  const answers = await Promise.all(Array.from({ length: 2000 }, () => redis.incr("n")));
  equal(answers, Array.from({ length: 2000 }, (_, n) => n + 1));
});

example("error handling", async (redis) => {
  await redis.set("word", "x");
  await rejects(redis.incr("word"), "ERR value is not an integer or out of range");
  await rejects(redis.call("NOSUCH", "a"), "ERR unknown command");
  await rejects(redis.call("get"), "ERR wrong number of arguments for 'get' command");
  equal(await redis.call("SET", "foo", "bar"), "OK");
});

example("bitmaps and bit fields", async (redis) => {
  equal(await redis.setbit("pings", 123, 1), 0);
  equal(await redis.getbit("pings", 123), 1);
  equal(await redis.bitcount("pings"), 1);
  equal(await redis.bitpos("pings", 1), 123);
  await redis.mset({ a: "foobar", b: "abcdef" });
  equal(await redis.bitop("AND", "dest", "a", "b"), 6);
  equal(await redis.get("dest"), "`bc`ab");
  equal(await redis.bitfield("s", "SET", "u32", "#0", 1000), [0]);
  equal(await redis.bitfield("s", "INCRBY", "u32", "#0", -50, "INCRBY", "u32", "#1", 1), [950, 1]);
});

example("hyperloglog", async (redis) => {
  equal(await redis.pfadd("bikes", "Hyperion", "Deimos", "Phoebe", "Quaoar"), 1);
  equal(await redis.pfcount("bikes"), 4);
  equal(await redis.pfadd("commuter_bikes", "Salacia", "Mimas", "Quaoar"), 1);
  equal(await redis.pfmerge("all_bikes", "bikes", "commuter_bikes"), "OK");
  equal(await redis.pfcount("all_bikes"), 6);
});

example("keys and databases", async (redis) => {
  await redis.mset({ a: 1, b: 2 });
  equal(await redis.exists("a", "b", "missing"), 2);
  equal(await redis.rename("a", "z"), "OK");
  equal(await redis.copy("z", "copied"), 1);
  equal((await redis.keys("*")).sort(), ["b", "copied", "z"]);
  equal(await redis.expire("z", 100), 1);
  yes((await redis.pttl("z")) > 0, "a time to live");
  equal(await redis.persist("z"), 1);
  equal(await redis.move("z", 5), 1);
  equal(await redis.select(5), "OK");
  equal(await redis.get("z"), "1");
  equal(await redis.swapdb(0, 5), "OK");
  equal(await redis.dbsize(), 2);
  equal(await redis.del("b", "copied"), 2);
});

example("dump and restore", async (redis) => {
  await redis.set("source", "value");
  equal(await redis.restore("destination", 0, await redis.dumpBuffer("source")), "OK");
  equal(await redis.get("destination"), "value");
});

example("users and passwords", async (redis) => {
  equal(await redis.acl("SETUSER", "alice", "on", ">secret", "~cached:*", "+get", "+set", "+info"), "OK");
  try {
    const alice = connected({ username: "alice", password: "secret" });
    equal(await alice.set("cached:1", "v"), "OK");
    await rejects(alice.get("other"), "NOPERM");
    await rejects(alice.del("cached:1"), "NOPERM");
    const errors = [];
    const wrong = new Redis({ host, port, username: "alice", password: "wrong", retryStrategy: () => null });
    wrong.on("error", (error) => errors.push(error.message));
    await rejects(wrong.ping(), "");
    yes(errors.some((message) => message.includes("WRONGPASS")), "WRONGPASS");
  } finally {
    equal(await redis.acl("DELUSER", "alice"), 1);
  }
});

example("info and configuration", async (redis) => {
  yes((await redis.info()).includes("redis_version:"), "a version");
  yes((await redis.info("keyspace")).startsWith("# Keyspace"), "a section");
  equal((await redis.config("GET", "maxmemory-policy"))[0], "maxmemory-policy");
  equal((await redis.time()).length, 2);
  yes((await redis.client("LIST")).includes("addr="), "a client");
});

example("large values", async (redis) => {
  const value = "0123456789abcdef".repeat(128 * 1024);
  equal(await redis.set("large", value), "OK");
  equal((await redis.get("large")) === value, true);
});

example("quit", async () => {
  const redis = connected();
  const last = redis.set("k", "v");
  equal(await redis.quit(), "OK");
  equal(await last, "OK");
});

await run(
  async () => {
    const redis = connected();
    await redis.flushall();
    return redis;
  },
  async () => {
    for (const client of made.splice(0)) client.disconnect();
  },
);
