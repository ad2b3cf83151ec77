//! Caches that clients keep with the help of tracking are never stale for good, whoever writes.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use terrace_protocol::resp::Value;
use terrace_server::ServerOptions;

use crate::client::{Client, bulk, ok};
use crate::original::Original;
use crate::ours::Ours;

#[test]
fn caches_follow_writes() {
    let ours = Ours::start_with(ServerOptions { threads: 3, ..ServerOptions::default() });
    caches(ours.address);
    ours.stop();
}

/// As in the conformance table: without the original nothing is checked.
#[test]
fn caches_follow_writes_to_the_original() {
    let Some(original) = Original::start() else { return };
    caches(original.address);
}

const KEYS: u64 = 8;

/// A client with a cache: what it has read and was not told to forget.
struct Caching {
    client: Client,
    cache: HashMap<String, Value>,
    hits: u64,
}

impl Caching {
    fn connect(address: SocketAddr) -> Self {
        let mut client = Client::connect(address);
        assert!(matches!(client.ask(&["HELLO", "3"]), Value::Map(_)));
        assert_eq!(client.ask(&["CLIENT", "TRACKING", "ON"]), ok());
        Self { client, cache: HashMap::new(), hits: 0 }
    }

    /// The next answer; what comes in front of it is heeded.
    fn answer(&mut self) -> Value {
        loop {
            match self.client.answer() {
                Value::Push(parts) => {
                    let Value::Array(keys) = &parts[1] else { panic!("{parts:?}") };
                    for key in keys {
                        let Value::Bulk(key) = key else { panic!("{parts:?}") };
                        self.cache.remove(std::str::from_utf8(key).unwrap());
                    }
                }
                answer => return answer,
            }
        }
    }

    /// Reads two keys in one go, those in the cache from there.
    fn read(&mut self, keys: [String; 2]) {
        let missing: Vec<String> = keys.into_iter().filter(|key| !self.cache.contains_key(key)).collect();
        self.hits += 2 - missing.len() as u64;
        for key in &missing {
            self.client.command(&["GET", key]);
        }
        for key in missing {
            let value = self.answer();
            self.cache.insert(key, value);
        }
    }
}

fn caches(address: SocketAddr) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|writer| {
                scope.spawn(move || {
                    let mut client = Client::connect(address);
                    for i in 0..2000u64 {
                        let key = format!("cached:{}", (i * 7 + writer) % KEYS);
                        assert_eq!(client.ask(&["SET", &key, &format!("{writer}:{i}")]), ok());
                    }
                })
            })
            .collect();
        let readers: Vec<_> = (0..3)
            .map(|reader| {
                let done = &done;
                scope.spawn(move || {
                    let mut caching = Caching::connect(address);
                    let mut i: u64 = reader;
                    while !done.load(Relaxed) {
                        i = i.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                        caching.read([i >> 33, i >> 43].map(|key| format!("cached:{}", key % KEYS)));
                    }
                    // All writes are answered, so all that is to be heard of them is on its way.
                    caching.client.command(&["PING"]);
                    assert_eq!(caching.answer(), Value::Simple(b"PONG".to_vec()));
                    caching
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        done.store(true, Relaxed);
        let mut client = Client::connect(address);
        for reader in readers {
            let caching = reader.join().unwrap();
            assert!(caching.hits > 0, "nothing was ever read from the cache");
            for (key, value) in caching.cache {
                assert_eq!(client.ask(&["GET", &key]), value, "the cache is stale at {key}");
            }
        }
    });
}

#[test]
fn writes_through_memcached_are_heard_of() {
    let memcached = vec![terrace_server::Endpoint::Tcp((Ipv4Addr::LOCALHOST, 0).into())];
    let ours = Ours::start_with(ServerOptions { threads: 2, memcached, ..ServerOptions::default() });
    let mut caching = Caching::connect(ours.address);
    let mut ear = Client::connect(ours.address);
    assert_eq!(ear.ask(&["CONFIG", "SET", "notify-keyspace-events", "EA"]), ok());
    assert!(matches!(ear.ask(&["PSUBSCRIBE", "__keyevent@0__:*"]), Value::Array(_)));
    let mut memcached = std::net::TcpStream::connect(ours.memcached()).unwrap();
    let invalidated = Value::Push(vec![bulk("invalidate"), Value::Array(vec![bulk("m")])]);
    for (command, answer, events) in [
        ("set m 0 0 1\r\n5\r\n", "STORED\r\n", &["set"][..]),
        ("incr m 2\r\n", "7\r\n", &["incrby"]),
        ("append m 0 0 1\r\n0\r\n", "STORED\r\n", &["append"]),
        ("touch m 100\r\n", "TOUCHED\r\n", &["expire"]),
        ("set m 0 100 1\r\n5\r\n", "STORED\r\n", &["set", "expire"]),
        ("delete m\r\n", "DELETED\r\n", &["del"]),
    ] {
        caching.client.ask(&["GET", "m"]);
        memcached.write_all(command.as_bytes()).unwrap();
        let mut got = vec![0; answer.len()];
        memcached.read_exact(&mut got).unwrap();
        assert_eq!(String::from_utf8_lossy(&got), answer);
        assert_eq!(caching.client.answer(), invalidated, "{command}");
        for event in events {
            let channel = format!("__keyevent@0__:{event}");
            let message = ["pmessage", "__keyevent@0__:*", &channel, "m"].map(bulk);
            assert_eq!(ear.answer(), Value::Array(message.to_vec()));
        }
    }
    memcached.write_all(b"flush_all\r\n").unwrap();
    assert_eq!(caching.client.answer(), Value::Push(vec![bulk("invalidate"), Value::Null]));
    ours.stop();
}
