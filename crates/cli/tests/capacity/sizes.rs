//! Keys and values of every size that is promised, and of the sizes where layouts change.

use terrace_testkit::client::{MemcachedClient, RespClient, Value};

use crate::load::value;
use crate::server::{Server, on_every_engine};

const OPTIONS: [&str; 6] = ["--dram", "256MiB", "--ssd", "1GiB", "--durability", "batch:100"];
const VALUES: [usize; 6] = [0, 1, 16 << 10, (16 << 10) + 1, 1 << 20, 64 << 20];
const KEYS: [usize; 4] = [0, 1, 250, 64 << 10];

on_every_engine!(every_size_through_both_protocols_and_a_kill);

fn every_size_through_both_protocols_and_a_kill(engine: &str) {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), engine, &OPTIONS);
    let mut redis = RespClient::connect(server.redis).unwrap();
    let mut memcached = MemcachedClient::connect(server.memcached).unwrap();
    for bytes in VALUES {
        let answer =
            redis.command(&[b"SET", format!("value:{bytes}").as_bytes(), &value(bytes as u64, bytes)]);
        assert_eq!(answer.unwrap(), Value::Simple("OK".into()), "a value of {bytes} bytes");
        let answer = memcached.store(&format!("set item:{bytes} 7 0"), &value(bytes as u64 + 1, bytes));
        assert_eq!(answer.unwrap(), "STORED", "an item of {bytes} bytes");
    }
    for bytes in KEYS {
        let answer = redis.command(&[b"SET", &key(bytes), &value(bytes as u64 + 2, 100)]).unwrap();
        assert_eq!(answer, Value::Simple("OK".into()), "a key of {bytes} bytes");
    }
    let answer = redis.command(&[b"SET", &key((64 << 10) + 1), b"x"]).unwrap();
    assert!(matches!(answer, Value::Error(_)), "a longer key is refused, not cut: {answer:?}");
    check(&server);
    server.kill();

    let server = Server::start(dir.path(), engine, &OPTIONS);
    println!("back from SIGKILL in {:?}", server.started_in);
    check(&server);
    let (status, output) = server.terminate();
    assert!(status.success(), "{status}:\n{output}");

    let server = Server::start(dir.path(), engine, &OPTIONS);
    check(&server);
}

fn check(server: &Server) {
    let mut redis = RespClient::connect(server.redis).unwrap();
    let mut get = |key: &[u8]| match redis.command(&[b"GET", key]).unwrap() {
        Value::Bulk(value) => value,
        other => panic!("a key of {} bytes: {other:.100?}", key.len()),
    };
    for bytes in VALUES {
        assert!(
            get(format!("value:{bytes}").as_bytes()) == value(bytes as u64, bytes),
            "a value of {bytes} bytes"
        );
        assert!(
            get(format!("item:{bytes}").as_bytes()) == value(bytes as u64 + 1, bytes),
            "an item of {bytes} bytes"
        );
    }
    for bytes in KEYS {
        assert!(get(&key(bytes)) == value(bytes as u64 + 2, 100), "a key of {bytes} bytes");
    }
    let mut memcached = MemcachedClient::connect(server.memcached).unwrap();
    for bytes in VALUES {
        let item = memcached.gets(&format!("item:{bytes}")).unwrap().unwrap();
        assert!(item.value == value(bytes as u64 + 1, bytes) && item.flags == 7, "an item of {bytes} bytes");
    }
}

fn key(bytes: usize) -> Vec<u8> {
    value(77, bytes)
}
