//! The documentation of memcache (the crate): README's basic usage in the text protocol, and its client of the meta protocol.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use examples::{address, end, equal, example, skip, until};
use memcache::exp::{Memcache, Ttl};
use memcache::{Client, MemcacheError};

/// A client of an empty server.
fn fresh() -> Result<Client, MemcacheError> {
    let client = memcache::connect(format!(
        "memcache://{}?timeout=10&tcp_nodelay=true&protocol=ascii",
        address("MEMCACHED_ADDRESS")
    ))?;
    client.flush()?;
    Ok(client)
}

fn main() {
    example("basic usage", || {
        let client = fresh()?;
        client.set("foo", "bar", 0)?;
        let value: Option<String> = client.get("foo")?;
        equal(value, Some("bar".to_owned()));
        client.prepend("foo", "foo")?;
        client.append("foo", "baz")?;
        equal(client.get::<String>("foo")?, Some("foobarbaz".to_owned()));
        let (value, _flags, cas): (String, u32, Option<u64>) = client.get("foo")?.ok_or("foo is gone")?;
        equal(value, "foobarbaz".to_owned());
        let cas = cas.ok_or("no token")?;
        equal(client.cas("foo", "qux", 0, cas)?, true);
        equal(client.cas("foo", "lost", 0, cas)?, false);
        equal(client.delete("foo")?, true);
        equal(client.delete("foo")?, false);
        client.set("counter", 40, 0)?;
        client.increment("counter", 2)?;
        equal(client.get::<i32>("counter")?, Some(42));
        equal(client.decrement("counter", 100)?, 0);
        Ok(())
    });
    example("gets", || {
        let client = fresh()?;
        client.set("foo", "1", 0)?;
        client.set("bar", "2", 0)?;
        let all: HashMap<String, String> = client.gets(&["foo", "bar", "missing"])?;
        equal(all, HashMap::from([("foo".to_owned(), "1".to_owned()), ("bar".to_owned(), "2".to_owned())]));
        Ok(())
    });
    example("add and replace", || {
        let client = fresh()?;
        client.replace("foo", "0", 0)?;
        equal(client.get::<String>("foo")?, None);
        client.add("foo", "1", 0)?;
        client.add("foo", "2", 0)?;
        equal(client.get::<String>("foo")?, Some("1".to_owned()));
        client.replace("foo", "3", 0)?;
        equal(client.get::<String>("foo")?, Some("3".to_owned()));
        Ok(())
    });
    example("expiration and touch", || {
        let client = fresh()?;
        client.set("short", "v", 1)?;
        client.set("kept", "v", 1)?;
        equal(client.touch("kept", 100)?, true);
        equal(client.touch("missing", 100)?, false);
        until("the item's end", || matches!(client.get::<String>("short"), Ok(None)));
        equal(client.get::<String>("kept")?, Some("v".to_owned()));
        Ok(())
    });
    example("binary and large values", || {
        let client = fresh()?;
        let value: Vec<u8> = (0..600_000).map(|n| n as u8).collect();
        client.set("large", value.as_slice(), 0)?;
        equal(client.get::<Vec<u8>>("large")? == Some(value), true);
        Ok(())
    });
    example("version", || {
        let client = fresh()?;
        equal(client.version()?.len(), 1);
        Ok(())
    });
    meta();
    end();
}

/// A client of the meta protocol, of an empty server.
fn fresh_meta() -> Result<Memcache, Box<dyn std::error::Error>> {
    fresh()?;
    Ok(Memcache::connect([address("MEMCACHED_ADDRESS")])?)
}

fn meta() {
    example("meta: reading and writing", || {
        let cache = fresh_meta()?;
        cache.set("user:1", "Anna", Ttl::secs(600))?;
        equal(cache.get::<String>("user:1")?, Some("Anna".to_owned()));
        equal(cache.get::<String>("missing")?, None);
        equal(cache.add("job:daily", "1", Ttl::secs(600))?, true);
        equal(cache.add("job:daily", "1", Ttl::secs(600))?, false);
        equal(cache.replace("session", "1", Ttl::secs(600))?, false);
        equal(cache.replace("user:1", "Bob", Ttl::NEVER)?, true);
        equal(cache.get_and_touch::<String>("user:1", Ttl::secs(1800))?, Some("Bob".to_owned()));
        cache.touch("user:1", Ttl::secs(60))?;
        let item = cache.inspect("user:1")?.ok_or("user:1 is gone")?;
        equal(format!("{item:?}").contains("60") || format!("{item:?}").contains("59"), true);
        cache.delete("user:1")?;
        cache.delete("user:1")?;
        equal(cache.get::<String>("user:1")?, None);
        Ok(())
    });
    example("meta: many at once", || {
        let cache = fresh_meta()?;
        let keys: Vec<String> = (0..300).map(|n| format!("key{n}")).collect();
        cache.set_many(keys.iter().map(|key| (key.clone(), key.clone())), Ttl::secs(600))?;
        let found: HashMap<String, String> = cache.get_many(keys.clone())?;
        equal(found.len(), 300);
        equal(found["key299"].as_str(), "key299");
        cache.delete_many(keys.clone())?;
        equal(cache.get_many::<String, _>(keys)?.len(), 0);
        Ok(())
    });
    example("meta: get or compute", || {
        let cache = fresh_meta()?;
        let computed = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let report: String = cache
                        .fetch("report:q3", Ttl::secs(3600), || {
                            computed.fetch_add(1, Ordering::Relaxed);
                            std::thread::sleep(Duration::from_millis(50));
                            Ok::<_, std::io::Error>("report".to_owned())
                        })
                        .unwrap();
                    equal(report.as_str(), "report");
                });
            }
        });
        equal(computed.load(Ordering::Relaxed), 1);
        Ok(())
    });
    example("meta: soft invalidation", || {
        let cache = fresh_meta()?;
        let fetched = |text: &'static str| {
            cache.fetch("article", Ttl::secs(3600), move || Ok::<_, std::io::Error>(text.to_owned()))
        };
        equal(fetched("old")?, "old".to_owned());
        cache.invalidate("article", Duration::from_secs(60))?;
        equal(cache.get::<String>("article")?, Some("old".to_owned()));
        equal(fetched("new")?, "new".to_owned());
        equal(fetched("newer")?, "new".to_owned());
        Ok(())
    });
    example("meta: atomic modification", || {
        let cache = fresh_meta()?;
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..25 {
                        let grown = |current: Option<String>| current.unwrap_or_default() + "x";
                        // Within the bound of its own retries it may lose to the others.
                        while cache.update("cart:42", Ttl::secs(1800), grown).is_err() {}
                    }
                });
            }
        });
        equal(cache.get::<String>("cart:42")?.map(|cart| cart.len()), Some(100));
        Ok(())
    });
    example("meta: counters", || {
        let cache = fresh_meta()?;
        equal(cache.incr("rate", 1, Ttl::secs(60))?, 1);
        equal(cache.incr("rate", 10, Ttl::secs(60))?, 11);
        equal(cache.decr("rate", 100, Ttl::secs(60))?, 0);
        Ok(())
    });
    example("meta: append and take", || {
        let cache = fresh_meta()?;
        if cache
            .append("events", b"login;", Ttl::secs(60))
            .is_err_and(|error| error.to_string().contains("unexpected"))
        {
            return skip("the server is older than memcached 1.6.22: an append with N stores nothing");
        }
        cache.append("events", b"logout;", Ttl::secs(60))?;
        cache.prepend("events", b"start;", Ttl::secs(60))?;
        equal(cache.take::<Vec<u8>>("events")?, Some(b"start;login;logout;".to_vec()));
        equal(cache.take::<Vec<u8>>("events")?, None);
        Ok(())
    });
    example("meta: binary keys and values", || {
        let cache = fresh_meta()?;
        let value: Vec<u8> = (0..100_000).map(|n| n as u8).collect();
        cache.set(b"key\x01 with\r\nbytes\xff", value.as_slice(), Ttl::NEVER)?;
        equal(cache.get::<Vec<u8>>(b"key\x01 with\r\nbytes\xff")? == Some(value), true);
        Ok(())
    });
}
