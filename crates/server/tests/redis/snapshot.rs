//! Snapshots: what they hold, that they show one moment, and what is left of one that fails.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use terrace_protocol::resp::Value;
use terrace_server::{Endpoint, ServerOptions};

use crate::client::{Client, bulk, error, ok};
use crate::original::Original;
use crate::ours::Ours;
use crate::rdb;

fn info(client: &mut Client, name: &str) -> String {
    let text = match client.ask(&["INFO", "persistence"]) {
        Value::Bulk(text) => String::from_utf8(text).unwrap(),
        other => panic!("{other:?}"),
    };
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).to_owned()
}

fn wait(client: &mut Client) {
    let end = Instant::now() + Duration::from_secs(60);
    while info(client, "rdb_bgsave_in_progress") != "0" {
        assert!(Instant::now() < end, "the snapshot does not end");
    }
}

fn expired(client: &mut Client, key: &str) {
    let end = Instant::now() + Duration::from_secs(60);
    while client.ask(&["EXISTS", key]) != Value::Integer(0) {
        assert!(Instant::now() < end, "{key} does not expire");
    }
}

fn bgsave(client: &mut Client) {
    assert_eq!(client.ask(&["BGSAVE"]), Value::Simple("Background saving started".into()));
    wait(client);
    assert_eq!(info(client, "rdb_last_bgsave_status"), "ok");
}

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// What a server has, as a snapshot would hold it.
fn asked(client: &mut Client) -> BTreeMap<(u8, Vec<u8>), rdb::Record> {
    let bytes = |value| match value {
        Value::Bulk(bytes) => bytes,
        other => panic!("{other:?}"),
    };
    let mut all = BTreeMap::new();
    for db in 0..16_u8 {
        assert_eq!(client.ask(&["SELECT", &db.to_string()]), ok());
        let Value::Array(keys) = client.ask(&["KEYS", "*"]) else { panic!("no keys") };
        for key in keys.into_iter().map(bytes) {
            let mut ask = |name: &str| {
                let head = format!("*2\r\n${}\r\n{name}\r\n${}\r\n", name.len(), key.len());
                client.send(&[head.as_bytes(), &key, b"\r\n"].concat());
                client.answer()
            };
            let value = bytes(ask("GET"));
            let Value::Integer(expires) = ask("PEXPIRETIME") else { panic!("no time") };
            all.insert((db, key), (value, expires.max(0) as u64));
        }
    }
    all
}

#[test]
fn the_original_loads_what_was_saved() {
    let ours = Ours::start();
    let mut client = Client::connect(ours.address);
    let mut values: Vec<Vec<u8>> = ["", "0", "-1", "127", "-32768", "2147483647", "2147483648", "01", "text"]
        .map(|text| text.as_bytes().to_vec())
        .to_vec();
    values.push((0..=255).collect());
    values.extend([63, 64, 16383, 16384, 100_000].map(|length| b"abc".repeat(length)[..length].to_vec()));
    for db in ["0", "3", "15"] {
        assert_eq!(client.ask(&["SELECT", db]), ok());
        for (i, value) in values.iter().enumerate() {
            let head =
                format!("*3\r\n$3\r\nSET\r\n${}\r\nk\0{i}\r\n${}\r\n", 2 + i.to_string().len(), value.len());
            client.send(&[head.as_bytes(), value, b"\r\n"].concat());
            assert_eq!(client.answer(), ok());
        }
        assert_eq!(client.ask(&["SET", "1234", "named like a number", "PX", "12345678"]), ok());
        assert_eq!(client.ask(&["SET", "", "of no name", "EXAT", "4102444800"]), ok());
        assert_eq!(client.ask(&["SET", "soon", "over", "PX", "1"]), ok());
    }
    let long = "z1".repeat(10 << 20);
    assert_eq!(client.ask(&["SET", "long", &long]), ok());
    expired(&mut client, "soon");
    let before = info(&mut client, "rdb_last_save_time").parse::<u64>().unwrap();
    let hits = || ours.store.stats().tiers.iter().map(|tier| tier.hits).sum::<u64>();
    let hits_before = hits();
    bgsave(&mut client);
    assert_eq!(hits(), hits_before, "a snapshot keeps nothing nearer");
    let expected = asked(&mut client);
    assert_eq!(expected.len(), 3 * (values.len() + 2) + 1);
    let path = ours.dir.path().join("dump.rdb");
    assert!(rdb::read(&path) == expected, "what is in the file");
    assert_eq!(names(ours.dir.path()), ["dump.rdb"]);
    assert!(matches!(client.ask(&["LASTSAVE"]), Value::Integer(time) if time as u64 >= before));
    assert_eq!(info(&mut client, "rdb_saves"), "1");
    if let Some(original) = Original::start_with(&path) {
        let loaded = asked(&mut Client::connect(original.address));
        assert!(loaded == expected, "what the original has loaded");
    }
    // An empty store has a snapshot, too.
    assert_eq!(client.ask(&["FLUSHALL"]), ok());
    assert_eq!(client.ask(&["SAVE"]), ok());
    assert!(rdb::read(&path).is_empty());
    if let Some(original) = Original::start_with(&path) {
        assert_eq!(Client::connect(original.address).ask(&["DBSIZE"]), Value::Integer(0));
    }
    ours.stop();
}

/// Accounts among which amounts move.
const ACCOUNTS: usize = 2000;

/// Writes until told to stop: keys in eight places at once, and amounts from one account to another.
fn transfer(address: SocketAddr, stop: &AtomicBool) {
    let mut client = Client::connect(address);
    let mut state = 1_u64;
    let mut n = 0;
    while !stop.load(Relaxed) {
        n += 1;
        let number = n.to_string();
        let mut words = vec!["MSET".to_owned()];
        (0..8).for_each(|i| words.extend([format!("same:{i}"), number.clone()]));
        client.command(&words.iter().map(|word| &**word).collect::<Vec<_>>());
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % ACCOUNTS
        };
        let (from, to) = (format!("account:{}", next()), format!("account:{}", next()));
        client.command(&["MULTI"]);
        client.command(&["DECRBY", &from, "7"]);
        client.command(&["INCRBY", &to, "7"]);
        client.command(&["EXEC"]);
        // There is always one, under another name.
        client.command(&["RENAME", &format!("one:{}", n - 1), &format!("one:{n}")]);
        (0..6).for_each(|_| drop(client.answer()));
    }
}

/// Writes until told to stop, one key after the other.
fn in_turn(address: SocketAddr, stop: &AtomicBool) {
    let mut client = Client::connect(address);
    for n in 1.. {
        for key in ["first", "second"] {
            let value = format!("{n}");
            client.send(format!("set {key} 0 0 {}\r\n{value}\r\n", value.len()).as_bytes());
            client.expect(b"STORED\r\n");
        }
        if stop.load(Relaxed) {
            return;
        }
    }
}

fn shows_one_moment(ours: Ours, times: usize) {
    let mut client = Client::connect(ours.address);
    for i in 0..ACCOUNTS {
        client.command(&["SET", &format!("account:{i}"), "1000"]);
    }
    (0..ACCOUNTS).for_each(|_| drop(client.answer()));
    let filler = "x".repeat(1000);
    for i in 0..20_000 {
        client.command(&["SET", &format!("filler:{i}"), &filler]);
        client.answer();
    }
    assert_eq!(client.ask(&["SET", "one:0", "here"]), ok());
    assert_eq!(client.ask(&["MSET", "first", "0", "second", "0"]), ok());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| transfer(ours.address, &stop));
        scope.spawn(|| in_turn(ours.memcached(), &stop));
        let stopping = Stop(&stop);
        let mut last = -1;
        for _ in 0..times {
            bgsave(&mut client);
            let records = rdb::read(&ours.dir.path().join("dump.rdb"));
            let number = |key: &str| {
                let (value, _) = &records[&(0, key.as_bytes().to_vec())];
                String::from_utf8(value.clone()).unwrap().parse::<i64>().unwrap()
            };
            let sum: i64 = (0..ACCOUNTS).map(|i| number(&format!("account:{i}"))).sum();
            assert_eq!(sum, 1000 * ACCOUNTS as i64, "the sum of all accounts");
            if last >= 0 {
                let same: Vec<i64> = (0..8).map(|i| number(&format!("same:{i}"))).collect();
                assert!(same.iter().all(|n| *n == same[0]), "written together: {same:?}");
            }
            let (first, second) = (number("first"), number("second"));
            assert!(first == second || first == second + 1, "written in turn: {first} {second}");
            let ones = records.keys().filter(|(_, key)| key.starts_with(b"one:")).count();
            assert_eq!(ones, 1, "a key that is renamed");
            assert_eq!(
                records.len(),
                ACCOUNTS + 20_000 + 3 + if records.contains_key(&(0, b"same:0".to_vec())) { 8 } else { 0 }
            );
            assert!(first > last, "a later moment");
            last = first;
        }
        drop(stopping);
    });
    ours.stop();
}

/// Ends the writers, in a test that fails too.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

fn both() -> ServerOptions {
    let free = || vec![Endpoint::Tcp(([127, 0, 0, 1], 0).into())];
    ServerOptions { threads: 2, memcached: free(), ..ServerOptions::default() }
}

#[test]
fn a_snapshot_of_memory_shows_one_moment() {
    shows_one_moment(Ours::start_with(both()), 5);
}

#[test]
fn a_snapshot_of_tiers_shows_one_moment() {
    let dir = tempfile::tempdir().unwrap();
    let options = terrace::Options {
        dir: Some(dir.path().into()),
        engine: "tac".into(),
        dram: Some(24 << 20),
        ssd: Some(terrace::Tier { bytes: 256 << 20, place: None }),
        ..terrace::Options::default()
    };
    shows_one_moment(Ours::over(terrace::open(options).unwrap(), both()), 3);
}

#[test]
fn what_fails_leaves_the_old_file() {
    let ours = Ours::start();
    let mut client = Client::connect(ours.address);
    assert_eq!(client.ask(&["SET", "k", "old"]), ok());
    assert_eq!(client.ask(&["SAVE"]), ok());
    // Nobody can write where a directory stands, root neither.
    let path = ours.dir.path().join("dump.rdb");
    let temporary = ours.dir.path().join(format!("temp-{}.rdb", std::process::id()));
    std::fs::create_dir(&temporary).unwrap();
    assert_eq!(client.ask(&["SET", "k", "new"]), ok());
    let told = client.ask(&["SAVE"]);
    assert!(matches!(&told, Value::Error(text) if text.starts_with(b"ERR ")), "{told:?}");
    assert_eq!(info(&mut client, "rdb_last_bgsave_status"), "err");
    assert_eq!(client.ask(&["BGSAVE"]), Value::Simple("Background saving started".into()));
    wait(&mut client);
    assert_eq!(info(&mut client, "rdb_last_bgsave_status"), "err");
    assert_eq!(rdb::read(&path)[&(0, b"k".to_vec())].0, b"old");
    std::fs::remove_dir(&temporary).unwrap();
    // What a server of the same process number left when it was killed (in a container all have the same), and anybody's.
    let anybodys = temporary.with_extension("part0");
    for left in [&temporary, &anybodys] {
        std::fs::write(left, b"left").unwrap();
    }
    // In a pipeline: it sees what stands before it, and who sent it waits.
    client.command(&["SET", "k", "newer"]);
    client.command(&["SAVE"]);
    client.command(&["GET", "k"]);
    assert_eq!([client.answer(), client.answer(), client.answer()], [ok(), ok(), bulk("newer")]);
    assert_eq!(rdb::read(&path)[&(0, b"k".to_vec())].0, b"newer");
    assert_eq!(info(&mut client, "rdb_last_bgsave_status"), "ok");
    let protected =
        "ERR CONFIG SET failed (possibly related to argument 'dbfilename') - can't set protected config";
    assert_eq!(client.ask(&["CONFIG", "SET", "dbfilename", "../x"]), error(protected));
    std::fs::remove_file(anybodys).unwrap();
    assert_eq!(names(ours.dir.path()), ["dump.rdb"]);
    ours.stop();
}

#[test]
fn databases_flushed_or_swapped_meanwhile_are_as_they_were_at_one_moment() {
    let ours = Ours::start();
    let (mut client, mut other) = (Client::connect(ours.address), Client::connect(ours.address));
    for round in 0..20 {
        let count = 3000;
        for db in ["0", "1"] {
            assert_eq!(client.ask(&["SELECT", db]), ok());
            (0..count).for_each(|i| client.command(&["SET", &format!("{i}"), db]));
            (0..count).for_each(|_| drop(client.answer()));
        }
        assert_eq!(client.ask(&["BGSAVE"]), Value::Simple("Background saving started".into()));
        if round % 2 == 0 {
            assert_eq!(other.ask(&["SWAPDB", "0", "1"]), ok());
        } else {
            assert_eq!(other.ask(&["FLUSHALL"]), ok());
        }
        wait(&mut client);
        assert_eq!(info(&mut client, "rdb_last_bgsave_status"), "ok");
        let records = rdb::read(&ours.dir.path().join("dump.rdb"));
        let held = |db: u8, value: &[u8]| {
            records.iter().filter(|((at, _), (is, _))| *at == db && is == value).count()
        };
        let all = [held(0, b"0"), held(1, b"1"), held(0, b"1"), held(1, b"0")];
        assert!([[count, count, 0, 0], [0, 0, count, count], [0; 4]].contains(&all), "{all:?}");
        assert_eq!(client.ask(&["FLUSHALL"]), ok());
    }
    ours.stop();
}

#[test]
fn a_second_one_is_refused_and_a_shutdown_ends_the_first() {
    let ours = Ours::start();
    let (mut client, mut other) = (Client::connect(ours.address), Client::connect(ours.address));
    let value = "v".repeat(1 << 20);
    for i in 0..100 {
        assert_eq!(client.ask(&["SET", &format!("{i}"), &value]), ok());
    }
    client.command(&["BGSAVE"]);
    client.command(&["BGSAVE"]);
    client.command(&["BGSAVE", "SCHEDULE"]);
    client.command(&["SAVE"]);
    client.command(&["MULTI"]);
    client.command(&["BGSAVE"]);
    client.command(&["EXEC"]);
    let refused = || error("ERR Background save already in progress");
    assert_eq!(client.answer(), Value::Simple("Background saving started".into()));
    assert_eq!([client.answer(), client.answer(), client.answer()], [refused(), refused(), refused()]);
    (0..2).for_each(|_| drop(client.answer()));
    assert_eq!(client.answer(), Value::Array(vec![refused()]));
    wait(&mut client);
    client.command(&["MULTI"]);
    client.command(&["BGSAVE"]);
    client.command(&["EXEC"]);
    (0..2).for_each(|_| drop(client.answer()));
    let scheduled = Value::Simple("Background saving scheduled".into());
    assert_eq!(client.answer(), Value::Array(vec![scheduled]));
    wait(&mut client);
    let old = std::fs::read(ours.dir.path().join("dump.rdb")).unwrap();
    // Others go on while one waits.
    client.command(&["SAVE"]);
    assert_eq!(other.ask(&["GET", "0"]), bulk(&value));
    let Ours { server, store, dir, .. } = ours;
    server.shutdown().unwrap();
    let told = client.answer();
    assert!(told == ok() || matches!(&told, Value::Error(_)), "{told:?}");
    assert_eq!(names(dir.path()), ["dump.rdb"]);
    let is_same = std::fs::read(dir.path().join("dump.rdb")).unwrap() == old;
    assert!(is_same || told == ok(), "the old file, unless it was saved");
    store.close().unwrap();
}
