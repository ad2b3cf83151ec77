//! What the server's memory is for: a process of its own, for memory is a process's, and other tests that run in it would
//! be measured with it. So this program holds one test.
#![expect(clippy::unwrap_used, reason = "helpers stop a test by panicking")]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use terrace::Options;
use terrace_server::{Endpoint, Server, ServerOptions};

/// How many clients claim something.
const CLAIMS: usize = 100;
/// What all claims together may take: a hundredth of what they claim at the least, and room for the noise of an
/// allocator.
const TAKEN_MAX: u64 = 64 << 20;

#[test]
fn claims_without_data_take_no_memory() {
    let store = Options { engine: "dram".into(), dram_records: Some(256 << 20), ..Options::default() };
    let store = terrace::open(store).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let free = Endpoint::Tcp((Ipv4Addr::LOCALHOST, 0).into());
    let options = ServerOptions {
        threads: 2,
        dir: dir.path().to_str().unwrap().into(),
        redis: vec![free.clone()],
        memcached: vec![free],
        ..ServerOptions::default()
    };
    let claimed = options.memcached_value_bytes_max;
    let server = Server::start(store.clone(), options).unwrap();
    let addresses = server.addresses();
    let redis = addresses.redis.unwrap();
    // A million arguments of half a gigabyte each.
    claim(redis, redis, b"*1048576\r\n$3\r\nSET\r\n$536870912\r\nabc");
    claim(addresses.memcached.unwrap(), redis, format!("set k 0 0 {claimed}\r\nabc").as_bytes());
    claim(addresses.memcached.unwrap(), redis, format!("ms k {claimed}\r\nabc").as_bytes());
    assert!(server.is_healthy(), "a worker died");
    server.shutdown().unwrap();
    store.close().unwrap();
}

/// Many clients begin a request and keep its rest; the server has read all of it when it is measured.
fn claim(address: SocketAddr, witness: SocketAddr, request: &[u8]) {
    let mut clients: Vec<TcpStream> = (0..CLAIMS).map(|_| TcpStream::connect(address).unwrap()).collect();
    let before = memory_bytes();
    for client in &mut clients {
        client.write_all(request).unwrap();
    }
    for client in &mut clients {
        // An answer to another connection shows that a worker has come by.
        ping(witness);
        client.write_all(b"d").unwrap();
    }
    ping(witness);
    let grown = memory_bytes().saturating_sub(before);
    assert!(grown < TAKEN_MAX, "{CLAIMS} times {:?} took {grown} bytes", request.escape_ascii().to_string());
}

/// Asks on a new connection, and waits for the answer.
fn ping(address: SocketAddr) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(b"PING\r\n").unwrap();
    let mut answer = [0; 7];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"+PONG\r\n");
}

/// The process's memory in bytes: what it has asked for, touched or not, for a claim must not be asked for either.
fn memory_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmData:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
}
