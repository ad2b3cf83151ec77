// The documentation of memcached (the Node client): each public method of its README.
import { promisify } from "node:util";
import Memcached from "memcached";
import { address, equal, example, rejects, run, yes } from "../examples.mjs";

const { host, port } = address("MEMCACHED_ADDRESS");
const server = `${host}:${port}`;
const methods =
  "touch get gets getMulti set replace add cas append prepend incr decr del version flush stats settings slabs items";

/** The client, with promises in place of callbacks. */
function connected(options = {}) {
  const memcached = new Memcached(server, { timeout: 5000, retries: 1, maxValue: 4 * 1024 * 1024, ...options });
  const promised = Object.fromEntries(methods.split(" ").map((name) => [name, promisify(memcached[name].bind(memcached))]));
  return { ...promised, end: () => memcached.end() };
}

example("set and get", async (memcached) => {
  equal(await memcached.set("foo", "bar", 10), true);
  equal(await memcached.get("foo"), "bar");
  equal(await memcached.get("missing"), undefined);
});

example("values of other types", async (memcached) => {
  equal(await memcached.set("json", { hello: ["world", 1] }, 0), true);
  equal(await memcached.get("json"), { hello: ["world", 1] });
  equal(await memcached.set("number", 42, 0), true);
  equal(await memcached.get("number"), 42);
  const bytes = Buffer.from(Array.from({ length: 256 }, (_, n) => n));
  equal(await memcached.set("bytes", bytes, 0), true);
  equal(Buffer.compare(await memcached.get("bytes"), bytes), 0);
});

example("touch", async (memcached) => {
  await memcached.set("key", "value", 0);
  equal(await memcached.touch("key", 10), true);
  equal(await memcached.touch("missing", 10), false);
});

example("gets and cas", async (memcached) => {
  await memcached.set("foo", "bar", 0);
  const data = await memcached.gets("foo");
  equal(data.foo, "bar");
  yes(/^\d+$/.test(data.cas), "a token");
  equal(await memcached.cas("foo", "baz", data.cas, 10), true);
  equal(await memcached.cas("foo", "lost", data.cas, 10), false);
  equal(await memcached.get("foo"), "baz");
});

example("getMulti", async (memcached) => {
  await memcached.set("foo", "1", 0);
  await memcached.set("bar", "2", 0);
  equal({ ...(await memcached.getMulti(["foo", "bar", "missing"])) }, { foo: "1", bar: "2" });
});

example("add and replace", async (memcached) => {
  await rejects(memcached.replace("foo", "bar", 10), "not stored");
  equal(await memcached.add("foo", "bar", 10), true);
  await rejects(memcached.add("foo", "bar", 10), "not stored");
  equal(await memcached.replace("foo", "baz", 10), true);
});

example("append and prepend", async (memcached) => {
  await rejects(memcached.append("foo", "bar"), "not stored");
  await memcached.set("foo", "b", 0);
  equal(await memcached.append("foo", "c"), true);
  equal(await memcached.prepend("foo", "a"), true);
  equal(await memcached.get("foo"), "abc");
});

example("incr and decr", async (memcached) => {
  equal(await memcached.incr("foo", 10), false);
  await memcached.set("foo", "1", 0);
  equal(await memcached.incr("foo", 10), 11);
  equal(await memcached.decr("foo", 10), 1);
  equal(await memcached.decr("foo", 10), 0);
});

example("del", async (memcached) => {
  await memcached.set("foo", "bar", 0);
  equal(await memcached.del("foo"), true);
  equal(await memcached.del("foo"), false);
});

example("expiry", async (memcached) => {
  equal(await memcached.set("foo", "bar", 1), true);
  equal(await memcached.get("foo"), "bar");
  await new Promise((resolve) => setTimeout(resolve, 2100));
  equal(await memcached.get("foo"), undefined);
});

example("flush", async (memcached) => {
  await memcached.set("foo", "bar", 0);
  equal(await memcached.flush(), [true]);
  equal(await memcached.get("foo"), undefined);
});

example("version, stats, settings, slabs and items", async (memcached) => {
  await memcached.set("foo", "bar", 0);
  const [version] = await memcached.version();
  yes(/^\d+\.\d+/.test(version.version), "a version");
  const [stats] = await memcached.stats();
  yes(Number(stats.pid) > 0 && Number(stats.curr_connections) >= 1, "statistics");
  const [settings] = await memcached.settings();
  yes(Number(settings.maxconns) > 0, "a limit of connections");
  yes(Array.isArray(await memcached.slabs()), "slabs");
  const [items] = await memcached.items();
  yes(Object.keys(items).some((key) => /^\d+$/.test(key)), "items of a class");
});

example("a pool of connections", async () => {
  const memcached = connected({ poolSize: 5 });
  await memcached.set("n", "0", 0);
  const answers = await Promise.all(Array.from({ length: 300 }, () => memcached.incr("n", 1)));
  equal(answers.sort((a, b) => a - b), Array.from({ length: 300 }, (_, n) => n + 1));
  memcached.end();
});

example("large values", async (memcached) => {
  const value = "0123456789abcdef".repeat(50 * 1024);
  equal(await memcached.set("large", value, 0), true);
  equal((await memcached.get("large")) === value, true);
});

example("long keys are hashed", async (memcached) => {
  equal(await memcached.set("k".repeat(300), "v", 0), true);
  equal(await memcached.get("k".repeat(300)), "v");
});

await run(
  async () => {
    const memcached = connected();
    await memcached.flush();
    return memcached;
  },
  async (memcached) => memcached.end(),
);
