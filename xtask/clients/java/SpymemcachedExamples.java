import java.net.InetSocketAddress;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

import net.spy.memcached.AddrUtil;
import net.spy.memcached.CASMutation;
import net.spy.memcached.CASMutator;
import net.spy.memcached.CASResponse;
import net.spy.memcached.CASValue;
import net.spy.memcached.MemcachedClient;

/** spymemcached's documentation: README, "Examples" and its reference, in memcached's text protocol. */
final class SpymemcachedExamples {
    private static final String[] ADDRESS = Examples.address("MEMCACHED_ADDRESS");

    private SpymemcachedExamples() {}

    private interface Work {
        void run(MemcachedClient client) throws Exception;
    }

    private static void example(String name, Work work) {
        Examples.example(name, () -> {
            MemcachedClient client = new MemcachedClient(new InetSocketAddress(ADDRESS[0], Integer.parseInt(ADDRESS[1])));
            try {
                Examples.equal(client.flush().get(), true);
                work.run(client);
            } finally {
                client.shutdown(1, TimeUnit.SECONDS);
            }
        });
    }

    public static void main(String[] arguments) {
        System.setProperty("net.spy.log.LoggerImpl", "net.spy.memcached.compat.log.SLF4JLogger");
        example("basic usage", client -> {
            Examples.equal(client.set("someKey", 3600, "a value").get(), true);
            Examples.equal(client.get("someKey"), "a value");
            Examples.equal(client.get("missing"), null);
            Examples.equal(client.delete("someKey").get(), true);
            Examples.equal(client.delete("someKey").get(), false);
        });
        example("asynchronous get", client -> {
            client.set("someKey", 3600, "a value").get();
            Future<Object> future = client.asyncGet("someKey");
            Examples.equal(future.get(5, TimeUnit.SECONDS), "a value");
        });
        example("serialized values", client -> {
            Examples.equal(client.set("list", 0, List.of("one", "two").toArray(new String[0])).get(), true);
            Examples.equal(client.get("list"), new String[] {"one", "two"});
            Examples.equal(client.set("number", 0, 42L).get(), true);
            Examples.equal(client.get("number"), 42L);
            byte[] bytes = new byte[900_000];
            Arrays.fill(bytes, 100, 200, (byte) 13);
            Examples.equal(client.set("bytes", 0, bytes).get(), true);
            Examples.equal(client.get("bytes"), bytes);
        });
        example("add, replace, append and prepend", client -> {
            Examples.equal(client.replace("k", 0, "1").get(), false);
            Examples.equal(client.add("k", 0, "b").get(), true);
            Examples.equal(client.add("k", 0, "c").get(), false);
            Examples.equal(client.append("k", "c").get(), true);
            Examples.equal(client.prepend("k", "a").get(), true);
            Examples.equal(client.get("k"), "abc");
        });
        example("check and set", client -> {
            client.set("k", 0, "1").get();
            CASValue<Object> value = client.gets("k");
            Examples.equal(value.getValue(), "1");
            Examples.equal(client.cas("k", value.getCas(), "2"), CASResponse.OK);
            Examples.equal(client.cas("k", value.getCas(), "3"), CASResponse.EXISTS);
            Examples.equal(client.cas("missing", value.getCas(), "3"), CASResponse.NOT_FOUND);
        });
        example("a mutation by check and set", client -> {
            CASMutation<Object> grow = current -> current + "x";
            Examples.threads(4, () -> {
                CASMutator<Object> mutator = new CASMutator<>(client, (net.spy.memcached.transcoders.Transcoder<Object>) client.getTranscoder(), 100000);
                for (int n = 0; n < 25; n++) {
                    mutator.cas("k", "x", 0, grow);
                }
            });
            Examples.equal(((String) client.get("k")).length(), 100);
        });
        example("bulk get", client -> {
            for (int n = 0; n < 100; n++) {
                client.set("key" + n, 0, "value" + n);
            }
            Map<String, Object> all = client.getBulk("key0", "key99", "missing");
            Examples.equal(all, Map.of("key0", "value0", "key99", "value99"));
        });
        example("counters", client -> {
            Examples.equal(client.incr("n", 1), -1L);
            Examples.equal(client.incr("n", 1, 10), 10L);
            Examples.equal(client.incr("n", 5), 15L);
            Examples.equal(client.decr("n", 100), 0L);
        });
        example("touch and expiry", client -> {
            client.set("short", 1, "v").get();
            client.set("kept", 1, "v").get();
            Examples.equal(client.touch("kept", 100).get(), true);
            Examples.until("the item's end", () -> client.get("short") == null);
            Examples.equal(client.get("kept"), "v");
        });
        example("statistics and versions", client -> {
            Map<String, String> stats = client.getStats().values().iterator().next();
            Examples.yes(Integer.parseInt(stats.get("pid")) > 0, "a process id");
            Map<String, String> settings = client.getStats("settings").values().iterator().next();
            Examples.yes(Integer.parseInt(settings.get("maxconns")) > 0, "a limit of connections");
            Examples.equal(client.getVersions().size(), 1);
        });
        example("several servers", client -> {
            List<InetSocketAddress> servers = AddrUtil.getAddresses(ADDRESS[0] + ":" + ADDRESS[1]);
            MemcachedClient other = new MemcachedClient(servers);
            Examples.equal(other.set("k", 0, "v").get(), true);
            Examples.equal(client.get("k"), "v");
            other.shutdown(1, TimeUnit.SECONDS);
        });
        Examples.end();
    }
}
