//! Many records through either protocol, pipelined.

use terrace_testkit::client::{MemcachedClient, RespClient, Value};
use terrace_testkit::random::filler;

/// Requests that are sent together.
const PIPELINE: usize = 64;

/// The value of record `i`: as long as asked, and like no other.
pub fn value(i: u64, bytes: usize) -> Vec<u8> {
    filler(bytes, i)
}

/// Stores records over RESP; returns those that were stored. The others were refused because the store is full: any other
/// answer fails the test.
pub fn set_redis(client: &mut RespClient, records: &[u64], bytes: usize) -> Vec<u64> {
    let mut stored = Vec::new();
    for some in records.chunks(PIPELINE) {
        for &i in some {
            client.queue(&[b"SET", key(i).as_bytes(), &value(i, bytes)]);
        }
        client.flush().unwrap();
        for &i in some {
            match client.receive().unwrap() {
                Value::Simple(ok) if ok == "OK" => stored.push(i),
                Value::Error(error) if error.starts_with("OOM ") => {}
                other => panic!("SET {} was answered {other:?}", key(i)),
            }
        }
    }
    stored
}

/// The same over memcached's protocol.
pub fn set_memcached(client: &mut MemcachedClient, records: &[u64], bytes: usize) -> Vec<u64> {
    let mut stored = Vec::new();
    for some in records.chunks(PIPELINE) {
        for &i in some {
            client.queue_store(&format!("set {} 0 0", key(i)), &value(i, bytes), None);
        }
        client.flush().unwrap();
        for &i in some {
            match client.receive_line().unwrap().as_str() {
                "STORED" => stored.push(i),
                "SERVER_ERROR out of memory storing object" => {}
                other => panic!("set {} was answered {other:?}", key(i)),
            }
        }
    }
    stored
}

/// Reads records over RESP and compares every byte; `there` says which must be there.
pub fn check_redis(client: &mut RespClient, records: &[u64], bytes: usize, there: impl Fn(u64) -> bool) {
    for some in records.chunks(PIPELINE) {
        for &i in some {
            client.queue(&[b"GET", key(i).as_bytes()]);
        }
        client.flush().unwrap();
        for &i in some {
            let expected = if there(i) { Value::Bulk(value(i, bytes)) } else { Value::Null };
            let got = client.receive().unwrap();
            assert!(got == expected, "{}: there: {}, got {got:.200?}", key(i), there(i));
        }
    }
}

/// The same over memcached's protocol.
pub fn check_memcached(
    client: &mut MemcachedClient,
    records: &[u64],
    bytes: usize,
    there: impl Fn(u64) -> bool,
) {
    for some in records.chunks(PIPELINE) {
        for &i in some {
            client.queue(&format!("get {}", key(i)));
        }
        client.flush().unwrap();
        for &i in some {
            let got = client.receive_items().unwrap().pop().map(|item| item.value);
            let expected = there(i).then(|| value(i, bytes));
            assert!(got == expected, "{}: there: {}, got {got:.200?}", key(i), there(i));
        }
    }
}

/// Deletes records over RESP, all of which are there.
pub fn delete(client: &mut RespClient, records: &[u64]) {
    for some in records.chunks(PIPELINE) {
        for &i in some {
            client.queue(&[b"DEL", key(i).as_bytes()]);
        }
        client.flush().unwrap();
        for &i in some {
            assert_eq!(client.receive().unwrap(), Value::Integer(1), "{} was there", key(i));
        }
    }
}

/// How many keys the server counts.
pub fn count(client: &mut RespClient) -> i64 {
    match client.text("DBSIZE").unwrap() {
        Value::Integer(count) => count,
        other => panic!("DBSIZE was answered {other:?}"),
    }
}

/// The name of record `i`.
pub fn key(i: u64) -> String {
    format!("record:{i:08}")
}
