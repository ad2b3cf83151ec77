//! redis-rs's documentation: README and the examples of its reference, sync and async.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use examples::{Outcome, address, end, equal, example, refused, until};
use futures_util::StreamExt;
use redis::{AsyncCommands, Commands, RedisResult, TypedCommands};

fn client(path: &str) -> redis::Client {
    redis::Client::open(format!("redis://{}/{path}", address("REDIS_ADDRESS"))).unwrap()
}

/// A connection to an empty server.
fn fresh() -> RedisResult<redis::Connection> {
    let mut con = client("").get_connection()?;
    con.set_read_timeout(Some(Duration::from_secs(20)))?;
    redis::cmd("FLUSHALL").exec(&mut con)?;
    Ok(con)
}

/// Runs an async example.
fn tokio(work: impl Future<Output = Outcome>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(20), work).await? })
}

fn main() {
    commands();
    pipelines();
    pubsub();
    others();
    asynchronous();
    end();
}

fn commands() {
    example("typed commands", || {
        let mut con = fresh()?;
        TypedCommands::set(&mut con, "my_key", 42)?;
        equal(con.get_int("my_key")?, Some(42));
        equal(TypedCommands::get(&mut con, "missing")?, None);
        Ok(())
    });
    example("low-level commands", || {
        let mut con = fresh()?;
        redis::cmd("SET").arg("my_key").arg(42).exec(&mut con)?;
        equal(redis::cmd("GET").arg("my_key").query::<isize>(&mut con)?, 42);
        equal(redis::cmd("MEMORY").arg("USAGE").arg("my_key").query::<usize>(&mut con)? > 0, true);
        refused(redis::cmd("MEMORY USAGE").arg("my_key").query::<usize>(&mut con), "unknown command");
        Ok(())
    });
    example("conversions of types", || {
        let mut con = fresh()?;
        let binary = b"\x00\r\n\xff".to_vec();
        let _: () = Commands::mset(&mut con, &[("k1", "one"), ("k2", "two")])?;
        let _: () = Commands::set(&mut con, "my_binary", &binary)?;
        let missing: Option<String> = Commands::get(&mut con, "missing_key")?;
        equal(missing, None);
        let bin: Vec<u8> = Commands::get(&mut con, "my_binary")?;
        equal(bin, binary);
        let (k1, k2): (String, String) = Commands::mget(&mut con, &["k1", "k2"])?;
        equal((k1.as_str(), k2.as_str()), ("one", "two"));
        let config: HashMap<String, String> =
            redis::cmd("CONFIG").arg("GET").arg("maxmemory-policy").query(&mut con)?;
        equal(config.len(), 1);
        Ok(())
    });
    example("options of set and expiry", || {
        let mut con = fresh()?;
        let options = redis::SetOptions::default()
            .conditional_set(redis::ExistenceCheck::NX)
            .with_expiration(redis::SetExpiry::EX(60));
        let first: Option<String> = Commands::set_options(&mut con, "k", "v", options.clone())?;
        let second: Option<String> = Commands::set_options(&mut con, "k", "w", options)?;
        equal((first.as_deref(), second), (Some("OK"), None));
        let left: i64 = Commands::ttl(&mut con, "k")?;
        equal(left > 0 && left <= 60, true);
        equal(Commands::persist::<_, bool>(&mut con, "k")?, true);
        equal(Commands::ttl::<_, i64>(&mut con, "k")?, -1);
        equal(Commands::get_ex::<_, String>(&mut con, "k", redis::Expiry::PX(30))?, "v".to_owned());
        until("the key's end", || Commands::exists::<_, bool>(&mut con, "k").is_ok_and(|there| !there));
        equal(Commands::pset_ex::<_, _, String>(&mut con, "k", "v", 60000)?, "OK".to_owned());
        equal(Commands::get_del::<_, String>(&mut con, "k")?, "v".to_owned());
        Ok(())
    });
    example("strings and counters", || {
        let mut con = fresh()?;
        equal(Commands::incr::<_, _, i64>(&mut con, "n", 10)?, 10);
        equal(Commands::decr::<_, _, i64>(&mut con, "n", 3)?, 7);
        equal(Commands::incr::<_, _, f64>(&mut con, "n", 0.5)?, 7.5);
        equal(Commands::append::<_, _, i64>(&mut con, "s", "Hello World")?, 11);
        equal(Commands::getrange::<_, String>(&mut con, "s", 6, -1)?, "World".to_owned());
        equal(Commands::setrange::<_, _, i64>(&mut con, "s", 6, "Redis")?, 11);
        equal(Commands::strlen::<_, i64>(&mut con, "s")?, 11);
        equal(Commands::getset::<_, _, String>(&mut con, "s", "x")?, "Hello Redis".to_owned());
        equal(Commands::set_nx::<_, _, bool>(&mut con, "s", "y")?, false);
        equal(Commands::mset_nx::<_, _, bool>(&mut con, &[("a", 1), ("b", 2)])?, true);
        refused(Commands::incr::<_, _, i64>(&mut con, "s", 1), "not an integer");
        Ok(())
    });
    example("scan iterators", || {
        let mut con = fresh()?;
        for n in 0..200 {
            TypedCommands::set(&mut con, format!("test:{n}"), n)?;
        }
        TypedCommands::set(&mut con, "other", 1)?;
        let found: HashSet<String> = Commands::scan_match(&mut con, "test:*")?.collect::<RedisResult<_>>()?;
        equal(found.len(), 200);
        let mut cmd = redis::cmd("SCAN");
        let all = cmd.cursor_arg(0).clone().iter::<String>(&mut con)?.collect::<RedisResult<HashSet<_>>>()?;
        equal(all.len(), 201);
        Ok(())
    });
    example("keys of the keyspace", || {
        let mut con = fresh()?;
        TypedCommands::mset(&mut con, &[("a", 1), ("b", 2)])?;
        equal(Commands::exists::<_, i64>(&mut con, &["a", "b", "missing"])?, 2);
        equal(Commands::rename::<_, _, String>(&mut con, "a", "z")?, "OK".to_owned());
        equal(Commands::rename_nx::<_, _, bool>(&mut con, "z", "b")?, false);
        equal(Commands::key_type::<_, String>(&mut con, "z")?, "string".to_owned());
        let mut keys: Vec<String> = Commands::keys(&mut con, "*")?;
        keys.sort();
        equal(keys, ["b", "z"]);
        equal(Commands::del::<_, i64>(&mut con, &["b", "missing"])?, 1);
        equal(Commands::unlink::<_, i64>(&mut con, "z")?, 1);
        equal(redis::cmd("DBSIZE").query::<i64>(&mut con)?, 0);
        Ok(())
    });
}

fn pipelines() {
    example("pipelining", || {
        let mut con = fresh()?;
        let (k1, k2): (i32, i32) = redis::pipe()
            .cmd("SET")
            .arg("key_1")
            .arg(42)
            .ignore()
            .cmd("SET")
            .arg("key_2")
            .arg(43)
            .ignore()
            .cmd("GET")
            .arg("key_1")
            .cmd("GET")
            .arg("key_2")
            .query(&mut con)?;
        equal((k1, k2), (42, 43));
        let (k1,): (i32,) = redis::pipe().atomic().set("key_1", 44).ignore().get("key_1").query(&mut con)?;
        equal(k1, 44);
        Ok(())
    });
    example("transactions", || {
        let mut con = fresh()?;
        TypedCommands::set(&mut con, "the_key", 41)?;
        let (new,): (isize,) = redis::transaction(&mut con, &["the_key"], |con, pipe| {
            let old: isize = Commands::get(con, "the_key")?;
            pipe.set("the_key", old + 1).ignore().get("the_key").query(con)
        })?;
        equal(new, 42);
        Ok(())
    });
    example("transactions of several threads", || {
        let mut con = fresh()?;
        let threads: Vec<_> = (0..4)
            .map(|_| {
                std::thread::spawn(|| -> RedisResult<()> {
                    let mut con = client("").get_connection()?;
                    for _ in 0..25 {
                        let _: (isize,) = redis::transaction(&mut con, &["n"], |con, pipe| {
                            let old: Option<isize> = Commands::get(con, "n")?;
                            pipe.set("n", old.unwrap_or(0) + 1).ignore().get("n").query(con)
                        })?;
                    }
                    Ok(())
                })
            })
            .collect();
        for thread in threads {
            thread.join().map_err(|_| "a thread panicked")??;
        }
        equal(con.get_int("n")?, Some(100));
        Ok(())
    });
}

fn pubsub() {
    example("pubsub", || {
        let mut publisher = fresh()?;
        let mut con = client("").get_connection()?;
        let mut pubsub = con.as_pubsub();
        // One at a time: the library waits for one confirmation of each command, and the last must be in force before others publish.
        pubsub.subscribe("channel_1")?;
        pubsub.subscribe("channel_2")?;
        pubsub.psubscribe("chan*")?;
        pubsub.set_read_timeout(Some(Duration::from_secs(10)))?;
        equal(Commands::publish::<_, _, i64>(&mut publisher, "channel_1", "hello")?, 2);
        let mut got = Vec::new();
        for _ in 0..2 {
            let message = pubsub.get_message()?;
            let payload: String = message.get_payload()?;
            got.push((message.get_channel_name().to_owned(), message.from_pattern(), payload));
        }
        got.sort();
        equal(
            got,
            [("channel_1".into(), false, "hello".to_owned()), ("channel_1".into(), true, "hello".to_owned())],
        );
        pubsub.unsubscribe(&["channel_1", "channel_2"])?;
        pubsub.punsubscribe("chan*")?;
        equal(Commands::publish::<_, _, i64>(&mut publisher, "channel_1", "nobody")?, 0);
        Ok(())
    });
    example("RESP3 pubsub", || {
        let mut publisher = fresh()?;
        let (tx, rx) = std::sync::mpsc::channel();
        let mut con = client("?protocol=resp3").get_connection()?;
        con.set_push_sender(tx);
        con.subscribe_resp3(&["channel_1", "channel_2"])?;
        // It does not wait for the confirmation.
        until("a subscriber", || {
            Commands::publish::<_, _, i64>(&mut publisher, "channel_1", "hello").is_ok_and(|n| n == 1)
        });
        let mut messages = Vec::new();
        until("a message", || {
            let _pong = TypedCommands::ping(&mut con);
            messages.extend(rx.try_iter().filter(|push| push.kind == redis::PushKind::Message));
            !messages.is_empty()
        });
        let bulk = |text: &str| redis::Value::BulkString(text.into());
        equal(&messages[0].data, &vec![bulk("channel_1"), bulk("hello")]);
        Ok(())
    });
}

fn others() {
    example("bitmaps and hyperloglog", || {
        let mut con = fresh()?;
        equal(Commands::setbit::<_, i64>(&mut con, "pings", 123, true)?, 0);
        equal(Commands::getbit::<_, bool>(&mut con, "pings", 123)?, true);
        equal(Commands::bitcount::<_, i64>(&mut con, "pings")?, 1);
        TypedCommands::mset(&mut con, &[("a", "foobar"), ("b", "abcdef")])?;
        equal(Commands::bit_and::<_, _, i64>(&mut con, "dest", &["a", "b"])?, 6);
        equal(Commands::get::<_, String>(&mut con, "dest")?, "`bc`ab".to_owned());
        let (old, new): (i64, i64) = redis::cmd("BITFIELD")
            .arg("s")
            .arg("SET")
            .arg("u32")
            .arg("#0")
            .arg(1000)
            .arg("INCRBY")
            .arg("u32")
            .arg("#0")
            .arg(-50)
            .query(&mut con)?;
        equal((old, new), (0, 950));
        equal(
            Commands::pfadd::<_, _, bool>(&mut con, "bikes", &["Hyperion", "Deimos", "Phoebe", "Quaoar"])?,
            true,
        );
        equal(
            Commands::pfadd::<_, _, bool>(&mut con, "commuter_bikes", &["Salacia", "Mimas", "Quaoar"])?,
            true,
        );
        let _: () = Commands::pfmerge(&mut con, "all_bikes", &["bikes", "commuter_bikes"])?;
        equal(Commands::pfcount::<_, i64>(&mut con, "all_bikes")?, 6);
        Ok(())
    });
    example("databases and RESP3 by the url", || {
        let mut zero = fresh()?;
        for path in ["2", "2?protocol=resp3"] {
            let mut con = client(path).get_connection()?;
            TypedCommands::set(&mut con, "k", "two")?;
            equal(TypedCommands::get(&mut con, "k")?, Some("two".to_owned()));
            equal(TypedCommands::get(&mut zero, "k")?, None);
        }
        Ok(())
    });
    example("connection pool", || {
        let mut con = fresh()?;
        let pool = r2d2::Pool::builder().max_size(4).build(client(""))?;
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let pool = pool.clone();
                std::thread::spawn(move || {
                    for _ in 0..25 {
                        let _: i64 = Commands::incr(&mut pool.get().unwrap(), "n", 1).unwrap();
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().map_err(|_| "a thread panicked")?;
        }
        equal(con.get_int("n")?, Some(200));
        Ok(())
    });
    example("users and passwords", || {
        let mut con = fresh()?;
        let rules = [
            redis::acl::Rule::On,
            redis::acl::Rule::AddPass("secret".into()),
            redis::acl::Rule::Pattern("cached:*".into()),
            redis::acl::Rule::AddCommand("get".into()),
            redis::acl::Rule::AddCommand("set".into()),
        ];
        let _: () = Commands::acl_setuser_rules(&mut con, "alice", &rules)?;
        let login = |path: &str, password: &str| {
            redis::Client::open(format!("redis://alice:{password}@{}/{path}", address("REDIS_ADDRESS")))?
                .get_connection()
        };
        for path in ["", "?protocol=resp3"] {
            let mut alice = login(path, "secret")?;
            TypedCommands::set(&mut alice, "cached:1", "v")?;
            refused(TypedCommands::get(&mut alice, "other"), "NoPerm");
            refused(TypedCommands::del(&mut alice, "cached:1"), "NoPerm");
        }
        equal(login("", "wrong").is_err(), true);
        equal(Commands::acl_whoami::<String>(&mut con)?, "default".to_owned());
        equal(Commands::acl_deluser::<_, i64>(&mut con, &["alice"])?, 1);
        Ok(())
    });
    example("info", || {
        let mut con = fresh()?;
        let info: redis::InfoDict = redis::cmd("INFO").query(&mut con)?;
        equal(info.get::<String>("redis_version").is_some(), true);
        equal(info.get::<String>("role"), Some("master".to_owned()));
        equal(info.get::<u64>("used_memory").is_some_and(|bytes| bytes > 0), true);
        Ok(())
    });
    example("large values", || {
        let mut con = fresh()?;
        let value: Vec<u8> = (0..2 * 1024 * 1024).map(|n| n as u8).collect();
        let _: () = Commands::set(&mut con, "large", &value)?;
        equal(Commands::get::<_, Vec<u8>>(&mut con, "large")? == value, true);
        Ok(())
    });
}

fn asynchronous() {
    example("async connection", || {
        fresh()?;
        tokio(async {
            let con = client("").get_multiplexed_async_connection().await?;
            let tasks = (0..100).map(|_| {
                let mut con = con.clone();
                async move { AsyncCommands::incr::<_, _, i64>(&mut con, "n", 1).await }
            });
            let mut answers = futures_util::future::try_join_all(tasks).await?;
            answers.sort_unstable();
            equal(answers, (1..=100).collect::<Vec<i64>>());
            let mut con = con.clone();
            redis::cmd("SET").arg(&["key2", "bar"]).exec_async(&mut con).await?;
            let result: (Option<String>, Option<Vec<u8>>) =
                redis::cmd("MGET").arg(&["missing", "key2"]).query_async(&mut con).await?;
            equal(result, (None, Some(b"bar".to_vec())));
            let mut scan = con.scan_match::<_, String>("key*").await?;
            equal(scan.next().await.transpose()?, Some("key2".to_owned()));
            Ok(())
        })
    });
    example("connection manager", || {
        fresh()?;
        tokio(async {
            let mut con = client("").get_connection_manager().await?;
            let (n,): (i64,) = redis::pipe().atomic().incr("n", 5).query_async(&mut con).await?;
            equal(n, 5);
            Ok(())
        })
    });
    example("async pubsub", || {
        fresh()?;
        tokio(async {
            let (mut sink, mut stream) = client("").get_async_pubsub().await?.split();
            sink.subscribe("channel_1").await?;
            let mut publisher = client("").get_multiplexed_async_connection().await?;
            equal(publisher.publish::<_, _, i64>("channel_1", b"fox\x00").await?, 1);
            let message = stream.next().await.ok_or("the stream ended")?;
            equal(message.get_payload::<Vec<u8>>()?, b"fox\x00".to_vec());
            sink.unsubscribe("channel_1").await?;
            Ok(())
        })
    });
    example("RESP3 async pubsub", || {
        fresh()?;
        tokio(async {
            let (tx, mut rx) = tokio::sync::mpsc::unbounded_channel();
            let config = redis::AsyncConnectionConfig::new().set_push_sender(tx);
            let mut con =
                client("?protocol=resp3").get_multiplexed_async_connection_with_config(&config).await?;
            con.subscribe(&["channel_1", "channel_2"]).await?;
            equal(con.publish::<_, _, i64>("channel_1", "hello").await?, 1);
            loop {
                let push = rx.recv().await.ok_or("no message")?;
                if push.kind == redis::PushKind::Message {
                    break;
                }
            }
            Ok(())
        })
    });
    example("client-side caching", || {
        let mut writer = fresh()?;
        TypedCommands::set(&mut writer, "key", "old")?;
        tokio(async move {
            let config =
                redis::AsyncConnectionConfig::new().set_cache_config(redis::caching::CacheConfig::default());
            let mut con =
                client("?protocol=resp3").get_multiplexed_async_connection_with_config(&config).await?;
            equal(AsyncCommands::get::<_, String>(&mut con, "key").await?, "old".to_owned());
            equal(AsyncCommands::get::<_, String>(&mut con, "key").await?, "old".to_owned());
            let statistics = con.get_cache_statistics().ok_or("no cache")?;
            equal((statistics.hit, statistics.miss), (1, 1));
            TypedCommands::set(&mut writer, "key", "new")?;
            while AsyncCommands::get::<_, String>(&mut con, "key").await? != "new" {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Ok(())
        })
    });
}
