import static java.nio.charset.StandardCharsets.UTF_8;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArrayList;

import redis.clients.jedis.AbstractPipeline;
import redis.clients.jedis.AbstractTransaction;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPool;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.Protocol;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.ScanIteration;
import redis.clients.jedis.Transaction;
import redis.clients.jedis.args.BitOP;
import redis.clients.jedis.args.ExpiryOption;
import redis.clients.jedis.csc.CacheConfig;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.params.GetExParams;
import redis.clients.jedis.params.LCSParams;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.params.SetParams;
import redis.clients.jedis.resps.ScanResult;

/** Jedis's documentation: README, "Transactions, pipelines and pub/sub", "Client-side caching" and its reference. */
final class JedisExamples {
    private static final String HOST = Examples.address("REDIS_ADDRESS")[0];
    private static final int PORT = Integer.parseInt(Examples.address("REDIS_ADDRESS")[1]);

    private JedisExamples() {}

    private interface Work {
        void run(RedisClient jedis) throws Exception;
    }

    /** One with a client of an empty server. */
    private static void example(String name, Work work) {
        Examples.example(name, () -> {
            try (RedisClient jedis = RedisClient.create(HOST, PORT)) {
                jedis.flushAll();
                work.run(jedis);
            }
        });
    }

    private static RedisClient with(DefaultJedisClientConfig.Builder config) {
        return RedisClient.builder().hostAndPort(HOST, PORT).clientConfig(config.build()).build();
    }

    public static void main(String[] arguments) {
        commands();
        transactions();
        pubSub();
        connections();
        Examples.end();
    }

    private static void commands() {
        example("basic usage", jedis -> {
            Examples.equal(jedis.set("foo", "bar"), "OK");
            Examples.equal(jedis.get("foo"), "bar");
            Examples.equal(jedis.get("missing"), null);
            Examples.equal(jedis.ping(), "PONG");
        });
        example("options of set and expiry", jedis -> {
            Examples.equal(jedis.set("k", "v", SetParams.setParams().nx().ex(60)), "OK");
            Examples.equal(jedis.set("k", "w", SetParams.setParams().nx()), null);
            Examples.yes(jedis.ttl("k") > 0, "a time to live");
            Examples.equal(jedis.setGet("k", "w", SetParams.setParams().keepTtl()), "v");
            Examples.equal(jedis.expire("k", 10, ExpiryOption.GT), 0L);
            Examples.equal(jedis.getEx("k", GetExParams.getExParams().persist()), "w");
            Examples.equal(jedis.ttl("k"), -1L);
            long at = System.currentTimeMillis() / 1000 + 100;
            Examples.equal(jedis.expireAt("k", at), 1L);
            Examples.equal(jedis.expireTime("k"), at);
            Examples.equal(jedis.psetex("short", 30, "v"), "OK");
            Examples.until("the key's end", () -> jedis.get("short") == null);
        });
        example("strings and counters", jedis -> {
            Examples.equal(jedis.mset("a", "1", "b", "two"), "OK");
            Examples.equal(jedis.mget("a", "missing", "b"), Arrays.asList("1", null, "two"));
            Examples.equal(jedis.msetnx("a", "1", "n", "2"), 0L);
            Examples.equal(jedis.incr("a"), 2L);
            Examples.equal(jedis.incrBy("a", 10), 12L);
            Examples.equal(jedis.decrBy("a", 2), 10L);
            Examples.equal(jedis.incrByFloat("a", 0.5), 10.5);
            Examples.equal(jedis.append("b", "+more"), 8L);
            Examples.equal(jedis.getrange("b", 0, 2), "two");
            Examples.equal(jedis.setrange("b", 4, "less"), 8L);
            Examples.equal(jedis.strlen("b"), 8L);
            Examples.equal(jedis.getDel("b"), "two+less");
            jedis.set("word", "x");
            Examples.refused("ERR value is not an integer or out of range", () -> jedis.incr("word"));
            jedis.mset("key1", "ohmytext", "key2", "mynewtext");
            Examples.equal(jedis.lcs("key1", "key2", LCSParams.LCSParams()).getMatchString(), "mytext");
        });
        example("binary and large values", jedis -> {
            byte[] value = new byte[2 * 1024 * 1024];
            for (int n = 0; n < value.length; n++) {
                value[n] = (byte) n;
            }
            Examples.equal(jedis.set("large".getBytes(UTF_8), value), "OK");
            Examples.yes(Arrays.equals(jedis.get("large".getBytes(UTF_8)), value), "the value");
        });
        example("scan", jedis -> {
            for (int n = 0; n < 300; n++) {
                jedis.set("user:" + n, "v");
            }
            Set<String> seen = new HashSet<>();
            String cursor = ScanParams.SCAN_POINTER_START;
            do {
                ScanResult<String> page = jedis.scan(cursor, new ScanParams().match("user:*").count(50), "string");
                seen.addAll(page.getResult());
                cursor = page.getCursor();
            } while (!cursor.equals(ScanParams.SCAN_POINTER_START));
            Examples.equal(seen.size(), 300);
            ScanIteration iteration = jedis.scanIteration(100, "user:1*");
            seen.clear();
            while (!iteration.isIterationCompleted()) {
                seen.addAll(iteration.nextBatch().getResult());
            }
            Examples.equal(seen.size(), 111);
        });
        example("keys of the keyspace", jedis -> {
            jedis.mset("a", "1", "b", "2");
            Examples.equal(jedis.exists("a", "b", "missing"), 2L);
            Examples.equal(jedis.type("a"), "string");
            Examples.equal(jedis.rename("a", "z"), "OK");
            Examples.equal(jedis.renamenx("z", "b"), 0L);
            Examples.equal(jedis.copy("z", "copied", false), true);
            List<String> keys = new ArrayList<>(jedis.keys("*"));
            Collections.sort(keys);
            Examples.equal(keys, List.of("b", "copied", "z"));
            Examples.equal(jedis.dbSize(), 3L);
            Examples.equal(jedis.restore("restored", 0, jedis.dump("b")), "OK");
            Examples.equal(jedis.get("restored"), "2");
            Examples.equal(jedis.objectEncoding("b"), "int");
            Examples.equal(jedis.del("b", "missing"), 1L);
            Examples.equal(jedis.unlink("z"), 1L);
            Examples.yes(jedis.memoryUsage("copied") > 0, "bytes");
        });
        example("bitmaps, bit fields and hyperloglog", jedis -> {
            Examples.equal(jedis.setbit("pings", 123, true), false);
            Examples.equal(jedis.getbit("pings", 123), true);
            Examples.equal(jedis.bitcount("pings"), 1L);
            Examples.equal(jedis.bitpos("pings", true), 123L);
            jedis.mset("a", "foobar", "b", "abcdef");
            Examples.equal(jedis.bitop(BitOP.AND, "dest", "a", "b"), 6L);
            Examples.equal(jedis.get("dest"), "`bc`ab");
            Examples.equal(jedis.bitfield("s", "SET", "u32", "#0", "1000"), List.of(0L));
            Examples.equal(jedis.bitfield("s", "INCRBY", "u32", "#0", "-50", "GET", "u32", "#1"), List.of(950L, 0L));
            Examples.equal(jedis.pfadd("bikes", "Hyperion", "Deimos", "Phoebe", "Quaoar"), 1L);
            Examples.equal(jedis.pfadd("commuter_bikes", "Salacia", "Mimas", "Quaoar"), 1L);
            Examples.equal(jedis.pfmerge("all_bikes", "bikes", "commuter_bikes"), "OK");
            Examples.equal(jedis.pfcount("all_bikes"), 6L);
        });
    }

    private static void transactions() {
        example("transactions", jedis -> {
            try (AbstractTransaction multi = jedis.multi()) {
                multi.set("counting-1", "1");
                multi.set("counting-2", "2");
                Response<String> got = multi.get("counting-2");
                Examples.equal(multi.exec(), List.of("OK", "OK", "2"));
                Examples.equal(got.get(), "2");
            }
        });
        example("pipelines", jedis -> {
            try (AbstractPipeline pipe = jedis.pipelined()) {
                List<Response<String>> got = new ArrayList<>();
                for (int n = 0; n < 1000; n++) {
                    pipe.set("key" + n, "value" + n);
                    got.add(pipe.get("key" + n));
                }
                pipe.sync();
                Examples.equal(got.get(999).get(), "value999");
            }
        });
        example("a loop of watch, multi and exec", jedis -> {
            Examples.threads(4, () -> {
                for (int done = 0; done < 25;) {
                    try (AbstractTransaction transaction = jedis.transaction(false)) {
                        transaction.watch("n");
                        String n = jedis.get("n");
                        transaction.multi();
                        transaction.set("n", String.valueOf(n == null ? 1 : Integer.parseInt(n) + 1));
                        if (transaction.exec() != null) {
                            done++;
                        }
                    }
                }
            });
            Examples.equal(jedis.get("n"), "100");
        });
        example("errors within transactions", jedis -> {
            jedis.set("word", "x");
            try (AbstractTransaction multi = jedis.multi()) {
                multi.incr("word");
                multi.get("word");
                List<Object> got = multi.exec();
                Examples.yes(got.get(0) instanceof JedisDataException, "an error in its place");
                Examples.equal(got.get(1), "x");
            }
        });
    }

    private static void pubSub() {
        for (RedisProtocol protocol : List.of(RedisProtocol.RESP2, RedisProtocol.RESP3)) {
            example("publish and subscribe in " + protocol, jedis -> {
                List<String> got = new CopyOnWriteArrayList<>();
                JedisPubSub listener = new JedisPubSub() {
                    @Override
                    public void onSubscribe(String channel, int count) {
                        got.add("subscribed " + channel);
                    }

                    @Override
                    public void onMessage(String channel, String message) {
                        got.add(channel + " " + message);
                        unsubscribe();
                    }
                };
                try (RedisClient subscriber = with(DefaultJedisClientConfig.builder().protocol(protocol))) {
                    Thread thread = new Thread(() -> subscriber.subscribe(listener, "news"));
                    thread.start();
                    Examples.until("a confirmation", () -> got.size() == 1);
                    Examples.equal(jedis.publish("news", "hello"), 1L);
                    thread.join(5000);
                }
                Examples.equal(got, List.of("subscribed news", "news hello"));
            });
        }
        example("patterns", jedis -> {
            List<String> got = new CopyOnWriteArrayList<>();
            JedisPubSub listener = new JedisPubSub() {
                @Override
                public void onPSubscribe(String pattern, int count) {
                    got.add(pattern);
                }

                @Override
                public void onPMessage(String pattern, String channel, String message) {
                    got.add(channel + " " + message);
                    punsubscribe();
                }
            };
            Thread thread = new Thread(() -> jedis.psubscribe(listener, "new*"));
            thread.start();
            Examples.until("a confirmation", () -> got.size() == 1);
            Examples.equal(jedis.publish("news", "hello"), 1L);
            thread.join(5000);
            Examples.equal(got, List.of("new*", "news hello"));
        });
    }

    private static void connections() {
        Examples.example("a pool of connections", () -> {
            try (JedisPool pool = new JedisPool(HOST, PORT)) {
                try (Jedis jedis = pool.getResource()) {
                    jedis.flushAll();
                    Examples.equal(jedis.set("clientName", "Jedis"), "OK");
                    Examples.equal(jedis.watch("clientName"), "OK");
                    Transaction transaction = jedis.multi();
                    transaction.get("clientName");
                    Examples.equal(transaction.exec(), List.of("Jedis"));
                }
                Examples.threads(8, () -> {
                    for (int n = 0; n < 25; n++) {
                        try (Jedis jedis = pool.getResource()) {
                            jedis.incr("n");
                        }
                    }
                });
                try (Jedis jedis = pool.getResource()) {
                    Examples.equal(jedis.get("n"), "200");
                }
            }
        });
        Examples.example("databases", () -> {
            try (Jedis jedis = new Jedis(HOST, PORT)) {
                jedis.flushAll();
                Examples.equal(jedis.select(3), "OK");
                jedis.set("k", "three");
                Examples.equal(jedis.move("k", 4), 1L);
                Examples.equal(jedis.swapDB(3, 4), "OK");
                Examples.equal(jedis.get("k"), "three");
                Examples.equal(jedis.flushDB(), "OK");
                Examples.equal(jedis.dbSize(), 0L);
            }
            try (RedisClient five = with(DefaultJedisClientConfig.builder().database(5).clientName("app"))) {
                five.set("k", "five");
                Examples.equal(five.get("k"), "five");
            }
        });
        example("RESP3", jedis -> {
            try (RedisClient resp3 = with(DefaultJedisClientConfig.builder().resp3())) {
                Examples.equal(resp3.set("k", "v"), "OK");
                Examples.equal(resp3.mget("k", "missing"), Arrays.asList("v", null));
                Examples.equal(resp3.configGet("maxmemory-policy").size(), 1);
            }
        });
        example("client-side caching", jedis -> {
            DefaultJedisClientConfig.Builder config = DefaultJedisClientConfig.builder().resp3();
            try (RedisClient cached = RedisClient.builder().hostAndPort(HOST, PORT).clientConfig(config.build())
                .cacheConfig(CacheConfig.builder().maxSize(1000).build()).build()) {
                try {
                    cached.ping();
                } catch (RuntimeException error) {
                    if (String.valueOf(error.getMessage()).contains("or later")) {
                        throw new Examples.Skip("Jedis asks for a server of version 7.4");
                    }
                    throw error;
                }
                jedis.set("city", "New York");
                Examples.equal(cached.get("city"), "New York");
                Examples.equal(cached.get("city"), "New York");
                Examples.equal(cached.getCache().getStats().getHitCount(), 1L);
                jedis.set("city", "Tokyo");
                Examples.until("the new value", () -> cached.get("city").equals("Tokyo"));
            }
        });
        Examples.example("users and passwords", () -> {
            try (Jedis jedis = new Jedis(HOST, PORT)) {
                jedis.flushAll();
                Examples.equal(jedis.aclSetUser("alice", "on", ">secret", "~cached:*", "+get", "+set", "+ping"), "OK");
                try {
                    for (RedisProtocol protocol : RedisProtocol.values()) {
                        DefaultJedisClientConfig.Builder config = DefaultJedisClientConfig.builder();
                        try (RedisClient alice = with(config.user("alice").password("secret").protocol(protocol))) {
                            Examples.equal(alice.set("cached:1", "v"), "OK");
                            Examples.refused("NOPERM", () -> alice.get("other"));
                            Examples.refused("NOPERM", () -> alice.del("cached:1"));
                        }
                    }
                    Examples.refused("WRONGPASS", () -> {
                        try (Jedis wrong = new Jedis(new HostAndPort(HOST, PORT),
                            DefaultJedisClientConfig.builder().user("alice").password("wrong").build())) {
                            return wrong.ping();
                        }
                    });
                    Examples.equal(jedis.aclWhoAmI(), "default");
                    Examples.yes(jedis.aclUsers().contains("alice"), "alice among the users");
                    Examples.equal(jedis.aclGetUser("alice").getFlags().contains("on"), true);
                } finally {
                    Examples.equal(jedis.aclDelUser("alice"), 1L);
                }
            }
        });
        Examples.example("info and clients", () -> {
            try (Jedis jedis = new Jedis(HOST, PORT)) {
                Examples.yes(jedis.info().contains("redis_version:"), "a version");
                Examples.equal(jedis.clientSetname("me"), "OK");
                Examples.equal(jedis.clientGetname(), "me");
                Examples.yes(jedis.clientId() > 0, "an id");
                Examples.yes(jedis.clientList().contains("name=me"), "this client");
                Examples.yes(jedis.clientInfo().contains("name=me"), "this client");
                Examples.equal(jedis.time().size(), 2);
                Examples.equal(jedis.echo("hello"), "hello");
                Examples.equal(jedis.waitReplicas(0, 10), 0L);
                Examples.refused("unknown command", () -> jedis.sendCommand(() -> "NOSUCH".getBytes(UTF_8)));
                Examples.equal(new String((byte[]) jedis.sendCommand(Protocol.Command.ECHO, "raw"), UTF_8), "raw");
            }
        });
    }
}
