import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;

import io.lettuce.core.AclSetuserArgs;
import io.lettuce.core.BitFieldArgs;
import io.lettuce.core.ClientOptions;
import io.lettuce.core.CopyArgs;
import io.lettuce.core.GetExArgs;
import io.lettuce.core.KeyScanCursor;
import io.lettuce.core.KeyValue;
import io.lettuce.core.LettuceFutures;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisURI;
import io.lettuce.core.ScanArgs;
import io.lettuce.core.ScanIterator;
import io.lettuce.core.SetArgs;
import io.lettuce.core.TrackingArgs;
import io.lettuce.core.TransactionResult;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.async.RedisAsyncCommands;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.codec.ByteArrayCodec;
import io.lettuce.core.protocol.CommandType;
import io.lettuce.core.protocol.ProtocolVersion;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import io.lettuce.core.pubsub.StatefulRedisPubSubConnection;
import io.lettuce.core.support.caching.CacheAccessor;
import io.lettuce.core.support.caching.CacheFrontend;
import io.lettuce.core.support.caching.ClientSideCaching;

/** Lettuce's documentation: "Getting started", "Connecting", "Pub/Sub", "Transactions", "Scanning", "Client-side caching". */
final class LettuceExamples {
    private static final String HOST = Examples.address("REDIS_ADDRESS")[0];
    private static final int PORT = Integer.parseInt(Examples.address("REDIS_ADDRESS")[1]);
    private static final RedisURI URI =
        RedisURI.builder().withHost(HOST).withPort(PORT).withTimeout(Duration.ofSeconds(10)).build();
    private static final RedisClient CLIENT = RedisClient.create(URI);

    private LettuceExamples() {}

    private interface Work {
        void run(StatefulRedisConnection<String, String> connection, RedisCommands<String, String> redis) throws Exception;
    }

    /** One with a connection to an empty server. */
    private static void example(String name, Work work) {
        Examples.example(name, () -> {
            try (StatefulRedisConnection<String, String> connection = CLIENT.connect()) {
                connection.sync().flushall();
                work.run(connection, connection.sync());
            }
        });
    }

    private static RedisClient speaking(ProtocolVersion version) {
        RedisClient client = RedisClient.create(URI);
        client.setOptions(ClientOptions.builder().protocolVersion(version).build());
        return client;
    }

    public static void main(String[] arguments) {
        commands();
        manyAtOnce();
        pubSub();
        connections();
        Examples.end();
    }

    private static void commands() {
        example("basic usage", (connection, redis) -> {
            Examples.equal(redis.set("key", "Hello, Redis!"), "OK");
            Examples.equal(redis.get("key"), "Hello, Redis!");
            Examples.equal(redis.get("missing"), null);
        });
        example("options of set and expiry", (connection, redis) -> {
            Examples.equal(redis.set("k", "v", SetArgs.Builder.nx().ex(60)), "OK");
            Examples.equal(redis.set("k", "w", SetArgs.Builder.nx()), null);
            Examples.equal(redis.setGet("k", "w", SetArgs.Builder.keepttl()), "v");
            Examples.yes(redis.ttl("k") > 0, "a time to live");
            Examples.equal(redis.getex("k", GetExArgs.Builder.persist()), "w");
            Examples.equal(redis.ttl("k"), -1L);
            Examples.equal(redis.expire("k", Duration.ofSeconds(100)), true);
            Examples.equal(redis.persist("k"), true);
            Examples.equal(redis.psetex("short", 30, "v"), "OK");
            Examples.until("the key's end", () -> redis.get("short") == null);
        });
        example("strings and counters", (connection, redis) -> {
            Examples.equal(redis.mset(Map.of("a", "1", "b", "two")), "OK");
            Examples.equal(
                redis.mget("a", "missing", "b"),
                List.of(KeyValue.just("a", "1"), KeyValue.empty("missing"), KeyValue.just("b", "two")));
            Examples.equal(redis.msetnx(Map.of("a", "1", "n", "2")), false);
            Examples.equal(redis.incrby("a", 11), 12L);
            Examples.equal(redis.decr("a"), 11L);
            Examples.equal(redis.incrbyfloat("a", 0.5), 11.5);
            Examples.equal(redis.append("b", "+more"), 8L);
            Examples.equal(redis.getrange("b", 0, 2), "two");
            Examples.equal(redis.setrange("b", 4, "less"), 8L);
            Examples.equal(redis.getdel("b"), "two+less");
            redis.set("word", "x");
            Examples.refused("ERR value is not an integer or out of range", () -> redis.incr("word"));
        });
        example("bytes", (connection, redis) -> {
            try (StatefulRedisConnection<byte[], byte[]> bytes = CLIENT.connect(ByteArrayCodec.INSTANCE)) {
                byte[] value = ByteBuffer.allocate(2 * 1024 * 1024).putInt(13).putInt(-1).array();
                Examples.equal(bytes.sync().set(new byte[] {0, 13, 10}, value), "OK");
                Examples.equal(bytes.sync().get(new byte[] {0, 13, 10}), value);
            }
        });
        example("scanning", (connection, redis) -> {
            for (int n = 0; n < 300; n++) {
                redis.set("user:" + n, "v");
            }
            Set<String> seen = new HashSet<>();
            KeyScanCursor<String> cursor = redis.scan(ScanArgs.Builder.limit(50).match("user:*"));
            seen.addAll(cursor.getKeys());
            while (!cursor.isFinished()) {
                cursor = redis.scan(cursor, ScanArgs.Builder.limit(50).match("user:*"));
                seen.addAll(cursor.getKeys());
            }
            Examples.equal(seen.size(), 300);
            ScanIterator<String> scan = ScanIterator.scan(redis, ScanArgs.Builder.limit(50).match("user:1*"));
            seen.clear();
            scan.forEachRemaining(seen::add);
            Examples.equal(seen.size(), 111);
        });
        example("keys of the keyspace", (connection, redis) -> {
            redis.mset(Map.of("a", "1", "b", "2"));
            Examples.equal(redis.exists("a", "b", "missing"), 2L);
            Examples.equal(redis.type("a"), "string");
            Examples.equal(redis.rename("a", "z"), "OK");
            Examples.equal(redis.copy("z", "copied", CopyArgs.Builder.replace(true)), true);
            List<String> keys = new ArrayList<>(redis.keys("*"));
            Collections.sort(keys);
            Examples.equal(keys, List.of("b", "copied", "z"));
            Examples.equal(redis.restore("restored", 0, redis.dump("b")), "OK");
            Examples.equal(redis.get("restored"), "2");
            Examples.equal(redis.touch("b", "missing"), 1L);
            Examples.equal(redis.unlink("b", "missing"), 1L);
            Examples.equal(redis.dbsize(), 3L);
        });
        example("bitmaps, bit fields and hyperloglog", (connection, redis) -> {
            Examples.equal(redis.setbit("pings", 123, 1), 0L);
            Examples.equal(redis.getbit("pings", 123), 1L);
            Examples.equal(redis.bitcount("pings"), 1L);
            Examples.equal(redis.bitpos("pings", true), 123L);
            redis.mset(Map.of("a", "foobar", "b", "abcdef"));
            Examples.equal(redis.bitopAnd("dest", "a", "b"), 6L);
            Examples.equal(redis.get("dest"), "`bc`ab");
            BitFieldArgs.BitFieldType u32 = BitFieldArgs.unsigned(32);
            Examples.equal(redis.bitfield("s", BitFieldArgs.Builder.set(u32, 0, 1000)), List.of(0L));
            Examples.equal(redis.bitfield("s", BitFieldArgs.Builder.incrBy(u32, 0, -50).get(u32, 32)), List.of(950L, 0L));
            Examples.equal(redis.pfadd("bikes", "Hyperion", "Deimos", "Phoebe", "Quaoar"), 1L);
            Examples.equal(redis.pfadd("commuter_bikes", "Salacia", "Mimas", "Quaoar"), 1L);
            Examples.equal(redis.pfmerge("all_bikes", "bikes", "commuter_bikes"), "OK");
            Examples.equal(redis.pfcount("all_bikes"), 6L);
        });
    }

    private static void manyAtOnce() {
        example("asynchronous commands", (connection, redis) -> {
            RedisAsyncCommands<String, String> async = connection.async();
            RedisFuture<String> set = async.set("key", "value");
            RedisFuture<String> get = async.get("key");
            Examples.yes(LettuceFutures.awaitAll(5, TimeUnit.SECONDS, set, get), "both within 5 s");
            Examples.equal(List.of(set.get(), get.get()), List.of("OK", "value"));
        });
        example("reactive commands", (connection, redis) -> {
            Examples.equal(connection.reactive().set("key", "value").block(), "OK");
            Examples.equal(connection.reactive().get("key").block(), "value");
        });
        example("pipelining by hand", (connection, redis) -> {
            connection.setAutoFlushCommands(false);
            List<RedisFuture<?>> futures = new ArrayList<>();
            for (int n = 0; n < 1000; n++) {
                futures.add(connection.async().set("key-" + n, "value-" + n));
                futures.add(connection.async().expire("key-" + n, 3600));
            }
            connection.flushCommands();
            Examples.yes(
                LettuceFutures.awaitAll(10, TimeUnit.SECONDS, futures.toArray(new RedisFuture[0])), "all within 10 s");
            connection.setAutoFlushCommands(true);
            Examples.equal(redis.dbsize(), 1000L);
        });
        example("transactions", (connection, redis) -> {
            Examples.equal(redis.multi(), "OK");
            Examples.equal(redis.set("key", "value"), null);
            Examples.equal(redis.get("key"), null);
            TransactionResult result = redis.exec();
            Examples.equal(List.of(result.get(0), result.get(1)), List.of("OK", "value"));
            Examples.equal(redis.multi(), "OK");
            redis.set("key", "lost");
            Examples.equal(redis.discard(), "OK");
            Examples.equal(redis.get("key"), "value");
        });
        example("a watched key that changes", (connection, redis) -> {
            Examples.equal(redis.watch("key"), "OK");
            try (StatefulRedisConnection<String, String> other = CLIENT.connect()) {
                other.sync().set("key", "theirs");
            }
            redis.multi();
            redis.set("key", "mine");
            Examples.equal(redis.exec().wasDiscarded(), true);
            Examples.equal(redis.get("key"), "theirs");
        });
    }

    private static void pubSub() {
        for (ProtocolVersion version : ProtocolVersion.values()) {
            example("publish and subscribe in " + version, (connection, redis) -> {
                RedisClient client = speaking(version);
                try (StatefulRedisPubSubConnection<String, String> subscriber = client.connectPubSub()) {
                    List<String> got = new CopyOnWriteArrayList<>();
                    subscriber.addListener(new RedisPubSubAdapter<>() {
                        @Override
                        public void message(String channel, String message) {
                            got.add(channel + " " + message);
                        }

                        @Override
                        public void message(String pattern, String channel, String message) {
                            got.add(pattern + " " + channel + " " + message);
                        }

                        @Override
                        public void smessage(String channel, String message) {
                            got.add("shard " + channel + " " + message);
                        }
                    });
                    subscriber.sync().subscribe("news");
                    subscriber.sync().psubscribe("new*");
                    subscriber.sync().ssubscribe("shard");
                    Examples.equal(redis.publish("news", "hello"), 2L);
                    Examples.equal(redis.spublish("shard", "hello"), 1L);
                    Examples.until("three messages", () -> got.size() == 3);
                    List<String> sorted = new ArrayList<>(got);
                    Collections.sort(sorted);
                    Examples.equal(sorted, List.of("new* news hello", "news hello", "shard shard hello"));
                    Examples.equal(redis.pubsubChannels(), List.of("news"));
                    Examples.equal(redis.pubsubNumpat(), 1L);
                    subscriber.sync().unsubscribe("news");
                    subscriber.sync().punsubscribe("new*");
                    Examples.until("no subscribers", () -> redis.publish("news", "nobody") == 0);
                }
                client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
            });
        }
    }

    private static void connections() {
        example("client-side caching", (connection, redis) -> {
            try (StatefulRedisConnection<String, String> cached = CLIENT.connect()) {
                Map<String, String> map = new ConcurrentHashMap<>();
                CacheFrontend<String, String> frontend =
                    ClientSideCaching.enable(CacheAccessor.forMap(map), cached, TrackingArgs.Builder.enabled());
                redis.set("key", "value");
                Examples.equal(frontend.get("key"), "value");
                Examples.equal(map, Map.of("key", "value"));
                redis.set("key", "new");
                Examples.until("an invalidation", map::isEmpty);
                Examples.equal(frontend.get("key"), "new");
                redis.set("loaded", "there");
                Examples.equal(frontend.get("loaded", () -> "computed"), "there");
                Examples.equal(frontend.get("absent", () -> "computed"), "computed");
                Examples.equal(redis.get("absent"), "computed");
            }
        });
        example("broadcast tracking", (connection, redis) -> {
            try (StatefulRedisConnection<String, String> cached = CLIENT.connect()) {
                List<Object> got = new CopyOnWriteArrayList<>();
                cached.addListener(message -> {
                    if (message.getType().equals("invalidate")) {
                        got.add(message.getContent().size());
                    }
                });
                Examples.equal(
                    cached.sync().clientTracking(TrackingArgs.Builder.enabled().bcast().prefixes("user:")), "OK");
                redis.set("other:1", "v");
                redis.set("user:1", "v");
                Examples.until("an invalidation", () -> got.size() == 1);
            }
        });
        example("databases by the URI", (connection, redis) -> {
            RedisClient client = RedisClient.create("redis://" + HOST + ":" + PORT + "/3?clientName=app");
            try (StatefulRedisConnection<String, String> third = client.connect()) {
                Examples.equal(third.sync().set("k", "three"), "OK");
                Examples.equal(third.sync().clientGetname(), "app");
                Examples.equal(redis.get("k"), null);
                Examples.equal(redis.select(3), "OK");
                Examples.equal(redis.get("k"), "three");
                Examples.equal(redis.move("k", 0), true);
                Examples.equal(redis.swapdb(0, 3), "OK");
                Examples.equal(redis.get("k"), "three");
            }
            client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
        });
        example("RESP2", (connection, redis) -> {
            RedisClient client = speaking(ProtocolVersion.RESP2);
            try (StatefulRedisConnection<String, String> resp2 = client.connect()) {
                Examples.equal(resp2.sync().set("k", "v"), "OK");
                Examples.equal(resp2.sync().configGet("maxmemory-policy").size(), 1);
            }
            client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
        });
        example("users and passwords", (connection, redis) -> {
            AclSetuserArgs rules = AclSetuserArgs.Builder.on().addPassword("secret").keyPattern("cached:*")
                .addCommand(CommandType.GET).addCommand(CommandType.SET).addCommand(CommandType.PING);
            Examples.equal(redis.aclSetuser("alice", rules), "OK");
            RedisURI login = RedisURI.builder(URI).withAuthentication("alice", "secret").build();
            try (StatefulRedisConnection<String, String> alice = CLIENT.connect(login)) {
                Examples.equal(alice.sync().set("cached:1", "v"), "OK");
                Examples.refused("NOPERM", () -> alice.sync().get("other"));
                Examples.refused("NOPERM", () -> alice.sync().del("cached:1"));
                RedisURI wrong = RedisURI.builder(URI).withAuthentication("alice", "wrong").build();
                Examples.refused("WRONGPASS", () -> CLIENT.connect(wrong));
                Examples.equal(redis.aclWhoami(), "default");
                Examples.yes(redis.aclUsers().contains("alice"), "alice among the users");
            } finally {
                Examples.equal(redis.aclDeluser("alice"), 1L);
            }
        });
        example("reconnection", (connection, redis) -> {
            try (StatefulRedisConnection<String, String> other = CLIENT.connect()) {
                long id = other.sync().clientId();
                Examples.equal(redis.clientKill(io.lettuce.core.KillArgs.Builder.id(id)), 1L);
                Examples.until("a connection again", () -> {
                    try {
                        return other.sync().clientId() > id;
                    } catch (RuntimeException error) {
                        return false;
                    }
                });
            }
        });
        example("info and clients", (connection, redis) -> {
            Examples.yes(redis.info().contains("redis_version:"), "a version");
            Examples.equal(redis.clientSetname("me"), "OK");
            Examples.yes(redis.clientList().contains("name=me"), "this client");
            Examples.equal(redis.time().size(), 2);
            Examples.yes(redis.commandCount() > 50, "commands");
            Examples.yes(!redis.commandInfo("get").isEmpty(), "what GET is");
            Examples.equal(redis.waitForReplication(0, 10), 0L);
            Examples.equal(redis.echo("hello"), "hello");
        });
    }
}
