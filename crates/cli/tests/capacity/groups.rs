//! Groups that no page and no log block holds: done as a whole or not at all, whenever the process dies.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use terrace_testkit::client::{RespClient, Value};

use super::server::{Server, on_every_engine};

const KEYS: usize = 10_000;
const COUNTERS: usize = 50_000;
/// INCRs of a counter in one transaction.
const TURNS: usize = 2;
/// Commands of which a client waits for the answers.
const BATCH: usize = 1000;
const OPTIONS: [&str; 6] = ["--dram", "64MiB", "--ssd", "512MiB", "--durability", "sync"];

on_every_engine!(
    mset_of_ten_thousand_keys,
    exec_of_a_hundred_thousand_incrs,
    groups_at_once_while_others_write,
    what_is_too_long_is_refused,
    of_less_dram_a_group_takes_less,
);

fn connect(server: &Server) -> RespClient {
    RespClient::connect(server.redis).unwrap()
}

/// Of one turn, 1 kB each.
fn mset(client: &mut RespClient, turn: u8) {
    let value = [b'a' + turn; 1000];
    let keys: Vec<String> = (0..KEYS).map(|i| format!("key{i}")).collect();
    let mut arguments: Vec<&[u8]> = vec![b"MSET"];
    keys.iter().for_each(|key| arguments.extend([key.as_bytes(), &value]));
    client.queue(&arguments);
    client.flush().unwrap();
}

/// Asks for keys of these names, and gives the answers.
fn values(client: &mut RespClient, names: impl Fn(usize) -> String, count: usize) -> Vec<Value> {
    let mut answers = Vec::new();
    for from in (0..count).step_by(BATCH) {
        let batch = from..(from + BATCH).min(count);
        batch.clone().for_each(|i| client.queue(&[b"GET", names(i).as_bytes()]));
        client.flush().unwrap();
        answers.extend(batch.map(|_| client.receive().unwrap()));
    }
    answers
}

/// Kills a server some time after a group was sent, as often as this.
const KILLS: u64 = 4;

fn mset_of_ten_thousand_keys(engine: &str) {
    let dir = tempfile::tempdir().unwrap();
    for turn in 0..KILLS as u8 {
        let server = Server::start(dir.path(), engine, &OPTIONS);
        let mut client = connect(&server);
        if turn > 0 {
            let found = values(&mut client, |i| format!("key{i}"), KEYS);
            let Value::Bulk(first) = &found[0] else { panic!("{:?}", found[0]) };
            assert!(found.iter().all(|value| value == &found[0]), "a part of a group is there");
            assert!(first[0] >= b'a' + 2 * (turn - 1), "what was answered is lost");
        }
        mset(&mut client, 2 * turn);
        assert_eq!(client.receive().unwrap(), Value::Simple("OK".into()));
        mset(&mut client, 2 * turn + 1);
        // It dies before, in or after the group: what is asserted holds for each.
        std::thread::sleep(Duration::from_millis(u64::from(turn) * 20));
        server.kill();
    }
}

fn queue_incrs(client: &mut RespClient) {
    assert_eq!(client.text("MULTI").unwrap(), Value::Simple("OK".into()));
    for from in (0..COUNTERS * TURNS).step_by(BATCH) {
        (from..from + BATCH)
            .for_each(|i| client.queue(&[b"INCR", format!("counter{}", i % COUNTERS).as_bytes()]));
        client.flush().unwrap();
        (0..BATCH).for_each(|_| assert_eq!(client.receive().unwrap(), Value::Simple("QUEUED".into())));
    }
    client.queue(&[b"EXEC"]);
    client.flush().unwrap();
}

fn exec_of_a_hundred_thousand_incrs(engine: &str) {
    let dir = tempfile::tempdir().unwrap();
    let mut counted = 0;
    for turn in 0..KILLS {
        let server = Server::start(dir.path(), engine, &OPTIONS);
        let mut client = connect(&server);
        if turn > 0 {
            let found = values(&mut client, |i| format!("counter{i}"), COUNTERS);
            let Value::Bulk(first) = &found[0] else { panic!("{:?}", found[0]) };
            assert!(found.iter().all(|value| value == &found[0]), "a part of a transaction is there");
            let first: usize = std::str::from_utf8(first).unwrap().parse().unwrap();
            assert!(first == counted || first == counted + TURNS, "{first}, and {counted} were answered");
            counted = first;
        }
        queue_incrs(&mut client);
        let Value::Array(answers) = client.receive().unwrap() else { panic!("no array") };
        counted += TURNS;
        let expected = |i: usize| Value::Integer((counted - TURNS + i / COUNTERS + 1) as i64);
        assert!(answers.len() == COUNTERS * TURNS, "{}", answers.len());
        assert!(answers.iter().enumerate().all(|(i, answer)| *answer == expected(i)));
        queue_incrs(&mut client);
        // As above.
        std::thread::sleep(Duration::from_millis(turn * 40));
        server.kill();
    }
}

/// Groups of which two have no room at once, on both workers, beside single writes that push records out of DRAM.
fn groups_at_once_while_others_write(engine: &str) {
    let dir = tempfile::tempdir().unwrap();
    let server =
        Server::start(dir.path(), engine, &["--dram", "64MiB", "--ssd", "512MiB", "--durability", "none"]);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = connect(&server);
            let mut written = 0;
            while !done.load(Relaxed) {
                let batch = written..written + BATCH;
                batch.for_each(|i| client.queue(&[b"SET", format!("other{i}").as_bytes(), &[b'o'; 500]]));
                client.flush().unwrap();
                (0..BATCH).for_each(|_| assert_eq!(client.receive().unwrap(), Value::Simple("OK".into())));
                written = (written + BATCH) % 100_000;
            }
        });
        let groups = [0, 1, 2].map(|writer| {
            let server = &server;
            scope.spawn(move || {
                let mut client = connect(server);
                for turn in 0..3 {
                    mset(&mut client, 3 * writer + turn);
                    assert_eq!(client.receive().unwrap(), Value::Simple("OK".into()));
                }
            })
        });
        let ended = groups.map(|group| group.join());
        done.store(true, Relaxed);
        assert!(ended.iter().all(Result::is_ok));
    });
    let found = values(&mut connect(&server), |i| format!("key{i}"), KEYS);
    assert!(matches!(&found[0], Value::Bulk(bytes) if bytes.len() == 1000));
    assert!(found.iter().all(|value| value == &found[0]), "a part of a group is there");
}

/// More than a quarter of DRAM: refused with how much may be, and nothing of it is done.
fn what_is_too_long_is_refused(engine: &str) {
    let dir = tempfile::tempdir().unwrap();
    let server =
        Server::start(dir.path(), engine, &["--dram", "16MiB", "--ssd", "512MiB", "--durability", "none"]);
    let mut client = connect(&server);
    mset(&mut client, 0);
    let Value::Error(text) = client.receive().unwrap() else { panic!("it was not refused") };
    assert!(text.starts_with("ERR an atomic write of several keys may hold at most "), "{text}");
    assert_eq!(client.text("DBSIZE").unwrap(), Value::Integer(0));
}

/// A group is bounded by the DRAM that there is now: one that waited for more would wait for ever.
fn of_less_dram_a_group_takes_less(engine: &str) {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), engine, &OPTIONS);
    let mut client = connect(&server);
    mset(&mut client, 0);
    assert_eq!(client.receive().unwrap(), Value::Simple("OK".into()));
    assert_eq!(client.text("CONFIG SET maxmemory 20mb").unwrap(), Value::Simple("OK".into()));
    mset(&mut client, 1);
    let Value::Error(text) = client.receive().unwrap() else { panic!("it was not refused") };
    assert!(text.starts_with("ERR an atomic write of several keys may hold at most "), "{text}");
    let found = values(&mut client, |i| format!("key{i}"), KEYS);
    assert!(found.iter().all(|value| *value == Value::Bulk(vec![b'a'; 1000])));
}
