//! Unix sockets and several addresses for a protocol.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

use terrace_server::{Endpoint, ServerOptions};

use super::ours::{Ours, ask, free_port};

#[test]
fn both_protocols_are_spoken_on_unix_sockets_and_on_several_ports() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str, mode| Endpoint::Unix { path: dir.path().join(name), mode };
    let ours = Ours::start(ServerOptions {
        redis: [free_port(), free_port(), vec![at("redis", 0o770)]].concat(),
        memcached: vec![at("memcached", 0o700)],
        ..ServerOptions::default()
    });
    let mode = |name: &str| std::fs::metadata(dir.path().join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("redis"), mode("memcached")), (0o770, 0o700));
    let addresses = ours.server.addresses();
    assert_eq!((addresses.all_redis.len(), addresses.memcached), (3, None));
    for (i, endpoint) in addresses.all_redis.iter().take(2).enumerate() {
        let mut client = std::net::TcpStream::connect(endpoint.address().unwrap()).unwrap();
        ask(&mut client, "INCR n\r\n", &format!(":{}\r\n", i + 1));
    }
    let mut redis = UnixStream::connect(dir.path().join("redis")).unwrap();
    ask(&mut redis, "SET k 5\r\nGET n\r\n", "+OK\r\n$1\r\n2\r\n");
    let path = dir.path().join("redis");
    let line = format!("addr={0}:0 laddr={0}:0", path.display());
    let (mut other, mut told) = (UnixStream::connect(&path).unwrap(), String::new());
    other.write_all(b"CLIENT INFO\r\nQUIT\r\n").unwrap();
    other.read_to_string(&mut told).unwrap();
    assert!(told.contains(&line), "{told}");
    let mut memcached = UnixStream::connect(dir.path().join("memcached")).unwrap();
    ask(&mut memcached, "get k\r\n", "VALUE k 0 1\r\n5\r\nEND\r\n");
    // More than a socket's buffer, both ways.
    let value = "x".repeat(3 << 20);
    ask(&mut memcached, &format!("set big 0 0 {}\r\n{value}\r\n", value.len()), "STORED\r\n");
    ask(&mut redis, "GET big\r\n", &format!("${}\r\n{value}\r\n", value.len()));
    ours.stop();
    assert!(!path.exists(), "a socket goes with its server");
}
