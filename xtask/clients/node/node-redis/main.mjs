// node-redis's documentation: README, "Pub/Sub", "Transactions", "Scan iterators", "v5" (pools, client-side caching), "Client configuration".
import { createClient, createClientPool, RESP_TYPES, WatchError } from "redis";
import { address, equal, example, rejects, run, until, yes } from "../examples.mjs";

const { host, port } = address("REDIS_ADDRESS");
const url = `redis://${host}:${port}`;
const made = [];

async function connected(options = {}) {
  const client = createClient({ url, ...options });
  client.on("error", () => {});
  made.push(client);
  return client.connect();
}

async function version(client) {
  const [, major, minor] = (await client.info("server")).match(/redis_version:(\d+)\.(\d+)/);
  return Number(major) * 100 + Number(minor);
}

example("basic example", async (client) => {
  equal(await client.set("key", "value"), "OK");
  equal(await client.get("key"), "value");
  equal(await client.get("missing"), null);
  equal(client.isReady, true);
});

example("modifiers of commands", async (client) => {
  equal(await client.set("key", "value", { EX: 10, NX: true }), "OK");
  equal(await client.set("key", "value", { EX: 10, NX: true }), null);
  yes((await client.ttl("key")) > 0, "a time to live");
  equal(await client.set("key", "new", { GET: true, KEEPTTL: true }), "value");
  equal(await client.getEx("key", { type: "PERSIST" }), "new");
  equal(await client.ttl("key"), -1);
  equal(await client.expire("key", 100, "NX"), 1);
  equal(await client.expire("key", 50, "GT"), 0);
  equal(await client.getDel("key"), "new");
});

example("strings and counters", async (client) => {
  equal(await client.mSet({ a: "1", b: "two" }), "OK");
  equal(await client.mGet(["a", "missing", "b"]), ["1", null, "two"]);
  equal(await client.mSetNX({ a: "1", n: "two" }), 0);
  equal(await client.incr("a"), 2);
  equal(await client.incrBy("a", 10), 12);
  equal(await client.decrBy("a", 2), 10);
  equal(Number(await client.incrByFloat("a", 0.5)), 10.5);
  equal(await client.append("b", "+more"), 8);
  equal(await client.strLen("b"), 8);
  equal(await client.getRange("b", 0, 2), "two");
  equal(await client.setRange("b", 4, "less"), 8);
  equal(await client.getSet("b", "x"), "two+less");
  await rejects(client.incr("b"), "value is not an integer or out of range");
  await client.mSet({ key1: "ohmytext", key2: "mynewtext" });
  equal(await client.lcs("key1", "key2"), "mytext");
  equal(await client.lcsLen("key1", "key2"), 6);
});

example("buffers", async (client) => {
  const binary = client.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer });
  const value = Buffer.from(Array.from({ length: 256 }, (_, n) => n));
  equal(await binary.set("key", value), Buffer.from("OK").toString());
  equal(Buffer.compare(await binary.get("key"), value), 0);
});

example("dump and restore", async (client) => {
  const binary = client.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer });
  await client.set("source", "value");
  equal(await binary.restore("destination", 0, await binary.dump("source")), "OK");
  equal(await client.get("destination"), "value");
});

example("unknown commands by sendCommand", async (client) => {
  equal(await client.sendCommand(["SET", "key", "value", "NX"]), "OK");
  equal(await client.sendCommand(["SET", "key", "value", "NX"]), null);
  await rejects(client.sendCommand(["NOSUCH"]), "unknown command");
});

example("transactions", async (client) => {
  await client.set("another-key", "another-value");
  equal(await client.multi().set("key", "value").get("another-key").exec(), ["OK", "another-value"]);
  equal(await client.multi().incr("n").incr("n").execAsPipeline(), [1, 2]);
});

example("a watched key that changes", async (client) => {
  const other = await connected();
  await client.watch("key");
  await other.set("key", "theirs");
  let lost = false;
  try {
    await client.multi().set("key", "mine").exec();
  } catch (error) {
    lost = error instanceof WatchError;
  }
  equal(lost, true);
  equal(await client.get("key"), "theirs");
});

example("a loop of watch, multi and exec", async () => {
  const increment = async () => {
    const client = await connected();
    for (let done = 0; done < 20; ) {
      await client.watch("n");
      const n = Number(await client.get("n"));
      try {
        await client.multi().set("n", n + 1).exec();
        done++;
      } catch (error) {
        if (!(error instanceof WatchError)) throw error;
      }
    }
  };
  await Promise.all([increment(), increment(), increment(), increment()]);
  equal(await (await connected()).get("n"), "80");
});

example("errors within transactions", async (client) => {
  await client.set("word", "x");
  let replies;
  try {
    await client.multi().incr("word").get("word").exec();
  } catch (error) {
    replies = error.replies;
  }
  yes(String(replies[0].message).includes("not an integer"), "an error in its place");
  equal(replies[1], "x");
});

example("connection pool", async () => {
  const pool = await createClientPool({ url }).on("error", () => {}).connect();
  equal(await pool.ping(), "PONG");
  await Promise.all(Array.from({ length: 200 }, () => pool.incr("n")));
  equal(await pool.get("n"), "200");
  equal(await pool.execute(async (client) => client.get("n")), "200");
  await pool.close();
});

for (const RESP of [2, 3]) {
  example(`pub/sub in RESP${RESP}`, async () => {
    const client = await connected({ RESP });
    const subscriber = await connected({ RESP });
    const got = [];
    await subscriber.subscribe("news", (message, channel) => got.push([channel, message]));
    await subscriber.pSubscribe("new*", (message, channel) => got.push(["pattern", channel, message]));
    equal(await client.publish("news", "hello"), 2);
    await until(() => got.length === 2, "two messages");
    equal(got.sort((a, b) => a.length - b.length), [["news", "hello"], ["pattern", "news", "hello"]]);
    equal(await client.pubSubChannels(), ["news"]);
    equal(await client.pubSubNumPat(), 1);
    await subscriber.unsubscribe("news");
    await subscriber.pUnsubscribe();
    equal(await client.publish("news", "nobody"), 0);
    equal(String(await subscriber.ping()), "PONG");
    subscriber.destroy();
  });
}

example("pub/sub of buffers", async (client) => {
  const subscriber = await connected();
  const got = [];
  await subscriber.subscribe("bytes", (message) => got.push(message), true);
  equal(await client.publish("bytes", Buffer.from([0, 255, 13, 10])), 1);
  await until(() => got.length === 1, "a message");
  equal([...got[0]], [0, 255, 13, 10]);
  subscriber.destroy();
});

example("sharded pub/sub", async (client) => {
  const subscriber = await connected();
  const got = [];
  await subscriber.sSubscribe("shard", (message) => got.push(message));
  equal(await client.sPublish("shard", "hello"), 1);
  await until(() => got.length === 1, "a message");
  equal(got, ["hello"]);
  subscriber.destroy();
});

example("scan iterator", async (client) => {
  await Promise.all(Array.from({ length: 300 }, (_, n) => client.set(`pattern:${n}`, n)));
  await client.set("other", 1);
  const seen = new Set();
  for await (const keys of client.scanIterator({ TYPE: "string", MATCH: "patter*", COUNT: 100 })) {
    for (const key of keys) seen.add(key);
  }
  equal(seen.size, 300);
});

example("auto-pipelining", async (client) => {
  equal(await Promise.all([client.set("a", "1"), client.set("b", "2"), client.get("a")]), ["OK", "OK", "1"]);
  const answers = await Promise.all(Array.from({ length: 5000 }, () => client.incr("n")));
  equal(answers, Array.from({ length: 5000 }, (_, n) => n + 1));
});

example("client-side caching", async (client) => {
  const cached = await connected({ RESP: 3, clientSideCache: { ttl: 0, maxEntries: 0, evictPolicy: "LRU" } });
  await client.set("key", "old");
  equal(await cached.get("key"), "old");
  equal(await cached.get("key"), "old");
  await client.set("key", "new");
  await until(async () => (await cached.get("key")) === "new", "the new value");
  cached.destroy();
});

example("bitmaps and bit fields", async (client) => {
  equal(await client.setBit("pings", 123, 1), 0);
  equal(await client.getBit("pings", 123), 1);
  equal(await client.bitCount("pings"), 1);
  equal(await client.bitPos("pings", 1), 123);
  await client.mSet({ a: "foobar", b: "abcdef" });
  equal(await client.bitOp("AND", "dest", ["a", "b"]), 6);
  equal(await client.get("dest"), "`bc`ab");
  equal(await client.bitField("bike:1:stats", [{ operation: "SET", encoding: "u32", offset: "#0", value: 1000 }]), [0]);
  equal(
    await client.bitField("bike:1:stats", [
      { operation: "INCRBY", encoding: "u32", offset: "#0", increment: -50 },
      { operation: "INCRBY", encoding: "u32", offset: "#1", increment: 1 },
    ]),
    [950, 1],
  );
  equal(await client.bitFieldRo("bike:1:stats", [{ encoding: "u32", offset: "#0" }]), [950]);
});

example("hyperloglog", async (client) => {
  equal(await client.pfAdd("bikes", ["Hyperion", "Deimos", "Phoebe", "Quaoar"]), 1);
  equal(await client.pfCount("bikes"), 4);
  equal(await client.pfAdd("commuter_bikes", ["Salacia", "Mimas", "Quaoar"]), 1);
  equal(await client.pfMerge("all_bikes", ["bikes", "commuter_bikes"]), "OK");
  equal(await client.pfCount("all_bikes"), 6);
});

example("keys of the keyspace", async (client) => {
  await client.mSet({ a: "1", b: "2" });
  equal(await client.exists(["a", "b", "missing"]), 2);
  equal(await client.type("a"), "string");
  equal(await client.rename("a", "z"), "OK");
  equal(await client.renameNX("z", "b"), 0);
  equal(await client.copy("z", "copied"), 1);
  equal((await client.keys("*")).sort(), ["b", "copied", "z"]);
  equal(await client.dbSize(), 3);
  equal(await client.touch(["b", "missing"]), 1);
  equal(await client.del(["b", "missing"]), 1);
  equal(await client.unlink("z"), 1);
  equal(await client.randomKey(), "copied");
  equal(await client.persist("copied"), 0);
  const at = Math.floor(Date.now() / 1000) + 100;
  equal(await client.expireAt("copied", at), 1);
  equal(await client.expireTime("copied"), at);
});

example("databases", async (client) => {
  const third = await connected({ url: `${url}/3` });
  await third.set("k", "three");
  equal(await client.get("k"), null);
  await client.select(3);
  equal(await client.get("k"), "three");
  equal(await client.move("k", 0), 1);
  equal(await client.swapDb(0, 3), "OK");
  equal(await client.get("k"), "three");
  equal(await client.flushDb(), "OK");
  equal(await client.dbSize(), 0);
});

example("client configuration", async () => {
  const client = await connected({ name: "app", database: 2, RESP: 3, socket: { host, port, keepAlive: true } });
  equal(await client.clientGetName(), "app");
  yes((await client.clientId()) > 0, "an id");
  const info = await client.clientInfo();
  equal([info.name, info.db], ["app", 2]);
  if ((await version(client)) >= 702) equal(info.libName.split("(")[0], "node-redis");
  equal((await client.clientList()).filter((one) => one.name === "app").length, 1);
  equal(Object.keys(await client.configGet("maxmemory-policy")), ["maxmemory-policy"]);
  yes((await client.info()).includes("redis_version:"), "a version");
  equal((await client.time()) instanceof Date || Array.isArray(await client.time()), true);
  equal(await client.echo("hello"), "hello");
});

example("users and passwords", async (client) => {
  await client.aclSetUser("alice", ["on", ">secret", "~cached:*", "+get", "+set"]);
  try {
    for (const RESP of [2, 3]) {
      const alice = await connected({ url: `redis://alice:secret@${host}:${port}`, RESP });
      equal(await alice.set("cached:1", "v"), "OK");
      await rejects(alice.get("other"), "NOPERM");
      await rejects(alice.del("cached:1"), "NOPERM");
    }
    const wrong = createClient({ url: `redis://alice:wrong@${host}:${port}`, socket: { reconnectStrategy: false } });
    wrong.on("error", () => {});
    await rejects(wrong.connect(), "WRONGPASS");
    equal(await client.aclWhoAmI(), "default");
  } finally {
    equal(await client.aclDelUser("alice"), 1);
  }
});

example("large values", async (client) => {
  const value = "0123456789abcdef".repeat(128 * 1024);
  equal(await client.set("large", value), "OK");
  equal((await client.get("large")) === value, true);
});

example("disconnecting", async () => {
  const client = await connected();
  const last = client.set("key", "value");
  await client.close();
  equal(await last, "OK");
  equal(client.isOpen, false);
});

await run(
  async () => {
    const client = await connected();
    await client.flushAll();
    return client;
  },
  async () => {
    for (const client of made.splice(0)) if (client.isOpen) client.destroy();
  },
);
