//! What `--dram` bounds, in the real server: memory is a process's, so each test measures a process of its own.

use std::time::{Duration, Instant};

use terrace_testkit::client::{RespClient, Value};

use crate::server::{Server, on_every_engine};

const MIB: u64 = 1 << 20;
/// The budget.
const DRAM: u64 = 64 * MIB;
/// What may be over it.
const OVER: u64 = 16 * MIB;
/// More than the budget by far.
const LARGE: usize = 200 << 20;
/// What is freed is gone long before.
const GOES_WITHIN: Duration = Duration::from_secs(20);

on_every_engine!(a_large_value_that_is_gone_leaves_nothing, long_groups_leave_nothing);

/// Nothing is called meanwhile: what the allocator keeps goes back while the server idles.
fn a_large_value_that_is_gone_leaves_nothing(engine: &str) {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), engine, &["--dram", "64MiB", "--ssd", "1GiB"]);
    let mut client = RespClient::connect(server.redis).unwrap();
    client.queue(&[b"SET", b"large", &vec![b'x'; LARGE]]);
    client.flush().unwrap();
    assert_eq!(client.receive().unwrap(), Value::Simple("OK".into()));
    assert_eq!(client.text("DEL large").unwrap(), Value::Integer(1));
    drop(client);
    await_at_most(engine, &server, DRAM + OVER);
}

/// One on each of the server's threads, nearly as long as it may be, where DRAM is full of records.
fn long_groups_leave_nothing(engine: &str) {
    const KEYS: usize = 9_000;
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), engine, &["--dram", "64MiB", "--ssd", "1GiB"]);
    let mut clients = [(); 2].map(|()| RespClient::connect(server.redis).unwrap());
    let value = [b'x'; 1000];
    for batch in 0..80 {
        let [client, _] = &mut clients;
        (0..1000).for_each(|i| client.queue(&[b"SET", format!("{batch}-{i}").as_bytes(), &value]));
        client.flush().unwrap();
        (0..1000).for_each(|_| assert_eq!(client.receive().unwrap(), Value::Simple("OK".into())));
    }
    let before = anonymous_bytes(&server);
    for client in &mut clients {
        let keys: Vec<String> = (0..KEYS).map(|i| format!("key{i}")).collect();
        let mut arguments: Vec<&[u8]> = vec![b"MSET"];
        keys.iter().for_each(|key| arguments.extend([key.as_bytes(), &value]));
        client.queue(&arguments);
        client.flush().unwrap();
        assert_eq!(client.receive().unwrap(), Value::Simple("OK".into()));
    }
    // Of the 18 MiB that they were.
    await_at_most(engine, &server, before + 12 * MIB);
}

/// Waits until the server has no more than that.
fn await_at_most(engine: &str, server: &Server, bytes: u64) {
    let from = Instant::now();
    while anonymous_bytes(server) > bytes {
        let held = anonymous_bytes(server) / MIB;
        assert!(from.elapsed() < GOES_WITHIN, "{engine}: {held} MiB are held, not {}", bytes / MIB);
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A server's anonymous memory, as the system counts it.
fn anonymous_bytes(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.as_ref().id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
}
