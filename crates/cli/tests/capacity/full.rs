//! A store that is full: it refuses what needs space, serves the rest, and takes writes again once space is free; or it
//! forgets the oldest records and goes on.

use std::time::{Duration, Instant};

use terrace_testkit::client::RespClient;

use crate::load;
use crate::server::{Server, on_every_engine};

const SSD_BYTES: u64 = 32 << 20;
const VALUE_BYTES: usize = 1000;
/// More than the lower tier can hold.
const RECORDS: u64 = 2 * SSD_BYTES / VALUE_BYTES as u64;
/// Reclamation goes on in the background and takes far less; a store that never recovers fails the test.
const WRITABLE_WITHIN: Duration = Duration::from_secs(60);

fn options(when_full: &'static str) -> [&'static str; 8] {
    ["--dram", "16MiB", "--ssd", "32MiB", "--durability", "batch:100", "--when-full", when_full]
}

on_every_engine!(a_full_store_refuses_serves_and_recovers, a_store_that_evicts_goes_on);

fn a_full_store_refuses_serves_and_recovers(engine: &str) {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), engine, &options("refuse"));
    let mut client = RespClient::connect(server.redis).unwrap();
    let all: Vec<u64> = (0..RECORDS).collect();
    let stored = load::set_redis(&mut client, &all, VALUE_BYTES);
    println!("{} of {RECORDS} records stored, {} B each", stored.len(), VALUE_BYTES);
    assert!(stored.len() < all.len(), "twice the tier's bytes can't fit in it");
    assert!(stored.len() as u64 * VALUE_BYTES as u64 > SSD_BYTES / 2, "half of the tier is not yet full");

    let is_stored = |i: u64| stored.binary_search(&i).is_ok();
    load::check_redis(&mut client, &all, VALUE_BYTES, is_stored);
    assert_eq!(load::count(&mut client), stored.len() as i64, "refused writes leave nothing");

    let (kept, gone): (Vec<u64>, Vec<u64>) = stored.iter().partition(|&&i| i.is_multiple_of(8));
    load::delete(&mut client, &gone);
    assert_eq!(load::count(&mut client), kept.len() as i64);
    // Not all of them: pages that are partly filled, and tombstones, take their share.
    let again = &gone[..gone.len() * 3 / 4];
    store_again(&mut client, again);
    let is_there = |i: u64| kept.binary_search(&i).is_ok() || again.binary_search(&i).is_ok();
    load::check_redis(&mut client, &all, VALUE_BYTES, is_there);
    drop(client);
    server.kill();

    let server = Server::start(dir.path(), engine, &options("refuse"));
    let mut client = RespClient::connect(server.redis).unwrap();
    load::check_redis(&mut client, &all, VALUE_BYTES, is_there);
    assert_eq!(load::count(&mut client), (kept.len() + again.len()) as i64);
}

/// Stores records, again and again those that were refused: space becomes free in the background.
fn store_again(client: &mut RespClient, records: &[u64]) {
    let from = Instant::now();
    let mut left = records.to_vec();
    while !left.is_empty() {
        let stored = load::set_redis(client, &left, VALUE_BYTES);
        left.retain(|i| stored.binary_search(i).is_err());
        assert!(from.elapsed() < WRITABLE_WITHIN, "{} of {} are still refused", left.len(), records.len());
    }
    println!("{} records found room again in {:?}", records.len(), from.elapsed());
}

fn a_store_that_evicts_goes_on(engine: &str) {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), engine, &options("evict"));
    let mut client = RespClient::connect(server.redis).unwrap();
    let all: Vec<u64> = (0..RECORDS).collect();
    let stored = load::set_redis(&mut client, &all, VALUE_BYTES);
    assert_eq!(stored.len(), all.len(), "nothing is refused");
    let there = load::count(&mut client);
    println!("{there} of {} records are left", all.len());
    assert!(there < stored.len() as i64, "twice the tier's bytes can't be in it");
    assert!(there as u64 * VALUE_BYTES as u64 > SSD_BYTES / 4, "a cache keeps what it has room for");
    // What was stored last is what a cache is for.
    load::check_redis(&mut client, &all[all.len() - 1000..], VALUE_BYTES, |_| true);
}
