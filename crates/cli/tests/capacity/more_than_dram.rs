//! Four times as many bytes as there is DRAM, over both protocols, through both kinds of restart.

use terrace_testkit::client::{MemcachedClient, RespClient, Value};

use crate::load;
use crate::server::{Server, on_every_engine};

const OPTIONS: [&str; 6] = ["--dram", "32MiB", "--ssd", "384MiB", "--durability", "batch:100"];
const VALUE_BYTES: usize = 1000;
/// With their headers a little over 128 MiB.
const RECORDS: u64 = 128 << 10;
/// Records of one protocol follow records of the other, so that both meet in every page.
const RUN: u64 = 1 << 10;

fn by_redis(i: u64) -> bool {
    (i / RUN).is_multiple_of(2)
}

fn kept(i: u64) -> bool {
    !i.is_multiple_of(2)
}

on_every_engine!(four_times_the_dram_through_both_protocols);

fn four_times_the_dram_through_both_protocols(engine: &str) {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), engine, &OPTIONS);
    let mut redis = RespClient::connect(server.redis).unwrap();
    let mut memcached = MemcachedClient::connect(server.memcached).unwrap();
    for run in (0..RECORDS).collect::<Vec<_>>().chunks(RUN as usize) {
        let stored = if by_redis(run[0]) {
            load::set_redis(&mut redis, run, VALUE_BYTES)
        } else {
            load::set_memcached(&mut memcached, run, VALUE_BYTES)
        };
        assert_eq!(stored.len(), run.len(), "there is room for all of them");
    }
    assert_eq!(load::count(&mut redis), RECORDS as i64);
    check_all(&server, |_| true);
    assert!(hits(&mut redis, "ssd") > RECORDS / 4, "most reads are cold: {}", info(&mut redis));

    load::delete(&mut redis, &(0..RECORDS).filter(|&i| !kept(i)).collect::<Vec<_>>());
    assert_eq!(load::count(&mut redis), RECORDS as i64 / 2);
    drop((redis, memcached));
    let (status, output) = server.terminate();
    assert!(status.success(), "{status}:\n{output}");

    let server = Server::start(dir.path(), engine, &OPTIONS);
    println!("back from SIGTERM in {:?}", server.started_in);
    check_all(&server, kept);
    server.kill();

    let server = Server::start(dir.path(), engine, &OPTIONS);
    println!("back from SIGKILL in {:?}", server.started_in);
    check_all(&server, kept);
}

/// Every record, by the protocol that did not write it, in an order that follows no page.
fn check_all(server: &Server, there: impl Fn(u64) -> bool + Copy) {
    let mut redis = RespClient::connect(server.redis).unwrap();
    let mut memcached = MemcachedClient::connect(server.memcached).unwrap();
    // An odd factor and a power of two: every record once.
    let order = (0..RECORDS).map(|i| i * 40_503 % RECORDS);
    let (by_redis, by_memcached): (Vec<u64>, Vec<u64>) = order.partition(|&i| by_redis(i));
    load::check_redis(&mut redis, &by_memcached, VALUE_BYTES, there);
    load::check_memcached(&mut memcached, &by_redis, VALUE_BYTES, there);
    let expected = (0..RECORDS).filter(|&i| there(i)).count();
    assert_eq!(load::count(&mut redis), expected as i64);
}

/// Gets that a tier has answered.
fn hits(client: &mut RespClient, tier: &str) -> u64 {
    let info = info(client);
    let line = info.lines().find(|line| line.contains(&format!("{tier}:medium="))).unwrap();
    line.split("hits=").nth(1).unwrap().trim().parse().unwrap()
}

fn info(client: &mut RespClient) -> String {
    match client.text("INFO").unwrap() {
        Value::Bulk(text) => String::from_utf8(text).unwrap(),
        other => panic!("INFO was answered {other:?}"),
    }
}
