//! The longest values: those of memcached for the same `-I`, which counts an item with its key and head. The original is asked the same
//! where it is.

use std::net::SocketAddr;

use crate::client::Client;
use crate::original::Original;
use crate::ours::{Ours, VALUE_BYTES_MAX};

#[test]
fn the_longest_value_is_memcacheds() {
    let ours = Ours::start();
    all(ours.address);
    ours.stop();
}

/// As in the conformance table: without the original nothing is checked.
#[test]
fn the_original_takes_the_same() {
    if let Some(original) = Original::start() {
        all(original.address);
    }
}

/// What is said to a value of so many bytes.
fn store(client: &mut Client, verb: &str, key: &str, flags: &str, bytes: usize) -> String {
    let value = "x".repeat(bytes);
    client.ask(&format!("{verb} {key} {flags}{bytes}\r\n{value}\r\n"), "\r\n")
}

fn all(address: SocketAddr) {
    let mut client = Client::connect(address);
    for (key_bytes, flags, head) in
        [(1, "0", 60), (10, "0", 69), (250, "0", 309), (1, "5", 64), (250, "7", 313)]
    {
        let (key, flags) = ("k".repeat(key_bytes), format!("{flags} 0 "));
        let longest = VALUE_BYTES_MAX - head;
        assert_eq!(store(&mut client, "set", &key, &flags, longest), "STORED\r\n", "{key_bytes} {flags}");
        let refused = "SERVER_ERROR object too large for cache\r\n";
        assert_eq!(store(&mut client, "set", &key, &flags, longest + 1), refused, "{key_bytes} {flags}");
        assert_eq!(
            client.ask(&format!("get {key}\r\n"), "END\r\n"),
            "END\r\n",
            "no stale value stays behind"
        );
    }
    assert_eq!(store(&mut client, "ms", "m", "", VALUE_BYTES_MAX - 60), "HD\r\n");
    assert!(store(&mut client, "ms", "m", "", VALUE_BYTES_MAX - 59).starts_with("SERVER_ERROR"));
    // What is joined is counted, too.
    assert_eq!(store(&mut client, "set", "a", "0 0 ", VALUE_BYTES_MAX - 100), "STORED\r\n");
    assert_eq!(store(&mut client, "append", "a", "0 0 ", 41), "NOT_STORED\r\n");
    assert_eq!(store(&mut client, "append", "a", "0 0 ", 40), "STORED\r\n");
}
