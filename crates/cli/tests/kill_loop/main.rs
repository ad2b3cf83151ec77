//! The real server, killed in mid-load: whatever it acknowledged is there when it is back.
//!
//! Several clients write over both protocols, pipelined, each to keys of its own (whose state it therefore knows exactly)
//! and to a few that all share (whose history must be linearizable, crashes included). After a seeded number of
//! acknowledged operations the server gets SIGKILL, is started again and asked for every key.
//!
//! `TERRACE_KILL_ROUNDS` (default 3) is the number of kills in each setting, `TERRACE_KILL_SEED` the seed.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

#[path = "../common/server.rs"]
mod server;

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use server::{Server, on_every_engine};
use terrace_testkit::client::{RespClient, Value};
use terrace_testkit::clocks::wild;
use terrace_testkit::load::{
    Losable, Shared, Wire, Writer, check_shared, read_all, shared_keys, shared_values,
};
use terrace_testkit::rng::Rng;
use terrace_testkit::settings::variable;

/// Clients of each protocol.
const CLIENTS: u32 = 3;
/// A round takes far less; a server that hangs fails the test instead of stalling it.
const ROUND_WITHIN: Duration = Duration::from_secs(300);
/// Keys whose time is over leave the count within this.
const EXPIRED_WITHIN: Duration = Duration::from_secs(6);
/// The death of the process loses nothing that was acknowledged, whenever that was.
const ALL_SAFE: u64 = u64::MAX;

/// What happens to the server at the end of a round, in mid-load.
#[derive(Clone, Copy)]
enum End {
    Kill,
    Terminate,
}

/// What the records go down to.
#[derive(Clone, Copy, Debug)]
enum Lower {
    /// Files in an ordinary directory.
    Block,
    /// A mapped file on tmpfs, which outlives its process: byte-addressable media without the hardware.
    ByteAddressable,
    /// Such memory on three devices.
    Striped,
    /// Such memory for little, and files for the rest.
    Both,
}

struct Loop {
    dir: tempfile::TempDir,
    /// Keys are given a time to live, and the wall clock is set while the server is down.
    leased: bool,
    /// On tmpfs, for byte-addressable media.
    memory: Option<tempfile::TempDir>,
    engine: &'static str,
    lower: Lower,
    durability: &'static str,
    writers: Vec<Writer>,
    /// What the shared keys held at the end of the last round.
    shared: BTreeMap<u64, i64>,
    clock: u64,
    rng: Rng,
    acknowledged: u64,
    unanswered: usize,
}

impl Loop {
    fn new(engine: &'static str, lower: Lower, durability: &'static str) -> Self {
        let seed = variable("TERRACE_KILL_SEED", 1);
        println!("{engine}, {lower:?}, durability {durability}, seed {seed}");
        let writers = (0..2 * CLIENTS).map(|client| Writer::new(client, client >= CLIENTS, seed)).collect();
        let (dir, rng) = (tempfile::tempdir().unwrap(), Rng::new(seed));
        let memory = match lower {
            Lower::Block => None,
            Lower::ByteAddressable | Lower::Striped | Lower::Both => {
                Some(tempfile::tempdir_in("/dev/shm").unwrap())
            }
        };
        Self {
            dir,
            leased: false,
            memory,
            engine,
            lower,
            durability,
            writers,
            shared: BTreeMap::new(),
            clock: 1,
            rng,
            acknowledged: 0,
            unanswered: 0,
        }
    }

    /// The same, with time.
    fn with_time(mut self) -> Self {
        self.leased = true;
        self.writers.iter_mut().for_each(Writer::lease);
        self
    }

    /// Somebody sets the wall clock while no server runs: what the store kept of it was another one.
    fn set_wall(&mut self) {
        let path = self.dir.path().join("data/clock");
        let text = std::fs::read_to_string(&path).unwrap();
        let mut words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        words.pop();
        let ahead_ms: i64 = words.pop().unwrap().parse().unwrap();
        words.push((ahead_ms + wild(&mut self.rng) / 1000).to_string());
        let text = words.join(" ");
        std::fs::write(path, format!("{text} {:08x}\n", crc32c::crc32c(text.as_bytes()))).unwrap();
    }

    fn start(&self) -> Server {
        let mut options = vec!["--dram", "6MiB", "--durability", self.durability];
        let pmem_bytes = if matches!(self.lower, Lower::Both) { "20MiB" } else { "48MiB" };
        let pmem = self.memory.as_ref().map(|memory| match self.lower {
            Lower::Striped => {
                let each = ["one", "two", "three"].map(|name| memory.path().join(name).display().to_string());
                format!("16MiB@{}", each.join(","))
            }
            _ => format!("{pmem_bytes}@{}", memory.path().display()),
        });
        if let Some(pmem) = &pmem {
            options.extend(["--pmem", pmem, "--profile", "dram"]);
        }
        if !matches!(self.lower, Lower::ByteAddressable | Lower::Striped) {
            options.extend(["--ssd", "40MiB"]);
        }
        Server::start(self.dir.path(), self.engine, &options)
    }

    /// Loads the server, ends it in mid-load, starts it again and checks everything.
    fn round(&mut self, server: Server, end: End) -> Server {
        // From the first moments of a load to long after the first records have moved down.
        let target = (500 << self.rng.below(8)) + self.rng.below(1000);
        let shared = Shared::new(self.clock, target, Losable::Nothing);
        let (redis, memcached) = (server.redis, server.memcached);
        // The loop ends a round at its first message and may be gone before the last.
        let (tell, told) = mpsc::channel();
        let results: Vec<Result<usize, String>> = std::thread::scope(|scope| {
            let shared = &shared;
            let mut clients = Vec::new();
            for (i, writer) in self.writers.iter_mut().enumerate() {
                let tell = tell.clone();
                clients.push(scope.spawn(move || {
                    let say = |what| tell.send(what).unwrap_or_default();
                    let wire =
                        if i < CLIENTS as usize { Wire::redis(redis) } else { Wire::memcached(memcached) };
                    let result = match wire {
                        Ok(wire) => writer.run(wire, shared, &|| say("target")),
                        Err(error) => Err(format!("can't connect: {error}")),
                    };
                    // Before the target is reached nobody has a reason to end.
                    say("end");
                    result
                }));
            }
            let first = told.recv_timeout(ROUND_WITHIN);
            match end {
                End::Kill => server.kill(),
                End::Terminate => {
                    let (status, output) = server.terminate();
                    assert!(
                        status.success(),
                        "SIGTERM must end the server in order, not with {status}:\n{output}"
                    );
                }
            }
            let results = clients.into_iter().map(|client| client.join().unwrap()).collect();
            assert_eq!(first, Ok("target"), "the load ended early: {results:?}");
            results
        });
        for result in results {
            self.unanswered += result.unwrap_or_else(|wrong| panic!("{wrong}"));
        }
        for writer in &mut self.writers {
            writer.crashed(&shared.clock);
        }
        self.clock = shared.clock.into_inner();
        self.acknowledged += shared.acknowledged.into_inner();
        if self.leased {
            self.set_wall();
        }
        let server = self.start();
        self.check(&server);
        server
    }

    fn check(&mut self, server: &Server) {
        let mut present = 0;
        let mut writers = Vec::new();
        for (i, writer) in self.writers.iter_mut().enumerate() {
            // The other protocol than the one it was written with.
            let wire = if i < CLIENTS as usize {
                Wire::memcached(server.memcached)
            } else {
                Wire::redis(server.redis)
            };
            writer.wait_for_brief();
            let found = read_all(wire.unwrap(), &writer.ledger.keys()).unwrap();
            present += found.values().filter(|state| state.is_some()).count();
            let settled = writer.ledger.settle(&found, ALL_SAFE);
            assert!(
                settled.wrong.is_empty(),
                "{} keys are wrong, such as:\n{}\n{}",
                settled.wrong.len(),
                settled.wrong[..settled.wrong.len().min(20)].join("\n"),
                server.output()
            );
            let mut redis = RespClient::connect(server.redis).unwrap();
            writer.check_leases(&mut redis, &found).unwrap_or_else(|wrong| panic!("{wrong}"));
            writers.push((std::mem::take(&mut writer.history), settled));
        }

        let found = read_all(Wire::redis(server.redis).unwrap(), &shared_keys()).unwrap();
        let now = shared_values(&found).unwrap();
        present += now.len();
        let before = std::mem::replace(&mut self.shared, now);
        if let Err(violation) = check_shared(&writers, &before, &self.shared, self.clock, ALL_SAFE) {
            panic!("{violation}\n{}", server.output());
        }
        self.clock += 100;

        let size = || RespClient::connect(server.redis).and_then(|mut client| client.text("DBSIZE")).unwrap();
        let (begun, is_right) = (Instant::now(), || size() == Value::Integer(present as i64));
        while self.leased && !is_right() && begun.elapsed() < EXPIRED_WITHIN {
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(size(), Value::Integer(present as i64), "DBSIZE counts the keys that are there");
    }

    fn report(&self, rounds: u64, what: &str) {
        println!(
            "{}, {:?}, durability {}: {rounds} {what}, {} operations acknowledged, {} cut off, nothing lost",
            self.engine, self.lower, self.durability, self.acknowledged, self.unanswered
        );
    }
}

fn kills(engine: &'static str, lower: Lower, durability: &'static str) {
    kill(Loop::new(engine, lower, durability));
}

fn kill(mut run: Loop) {
    let rounds = variable("TERRACE_KILL_ROUNDS", 3);
    let mut server = run.start();
    for round in 1..=rounds {
        server = run.round(server, End::Kill);
        println!(
            "  round {round}: {} acknowledged so far, back in {:?}",
            run.acknowledged, server.started_in
        );
    }
    run.report(rounds, "kills");
}

on_every_engine!(
    sigkill_loses_nothing_acknowledged_under_batch,
    sigkill_loses_nothing_acknowledged_under_sync,
    sigkill_loses_nothing_acknowledged_on_byte_addressable_media,
    sigkill_and_a_clock_that_is_set_take_no_time_from_a_key,
    sigterm_saves_everything_in_every_mode,
);

fn sigkill_loses_nothing_acknowledged_under_batch(engine: &'static str) {
    kills(engine, Lower::Block, "batch:100");
}

fn sigkill_loses_nothing_acknowledged_under_sync(engine: &'static str) {
    kills(engine, Lower::Block, "sync");
}

fn sigkill_loses_nothing_acknowledged_on_byte_addressable_media(engine: &'static str) {
    kills(engine, Lower::ByteAddressable, "sync");
}

fn sigkill_and_a_clock_that_is_set_take_no_time_from_a_key(engine: &'static str) {
    kill(Loop::new(engine, Lower::Block, "batch:100").with_time());
}

/// The other engines have one lower tier.
#[test]
fn sigkill_loses_nothing_acknowledged_on_both_media() {
    kills("tac", Lower::Both, "sync");
}

/// What a single device holds is on three.
#[test]
fn sigkill_loses_nothing_acknowledged_on_several_devices() {
    kills("bonsai", Lower::Striped, "sync");
}

fn sigterm_saves_everything_in_every_mode(engine: &'static str) {
    for durability in ["none", "batch:100", "sync"] {
        let mut run = Loop::new(engine, Lower::Block, durability);
        let server = run.start();
        let server = run.round(server, End::Terminate);
        // Once more from what was saved, without any load in between.
        let (status, output) = server.terminate();
        assert!(status.success(), "{status}:\n{output}");
        let server = run.start();
        run.check(&server);
        println!("  back in {:?}", server.started_in);
        run.report(1, "orderly stop");
    }
}
