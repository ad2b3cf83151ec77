//! Our stand-in for TIPS: no code of its, but what the paper says that it does to persistent memory. A hash table and
//! all records are there; a table in DRAM leads to every record, as TIPS's cache holds all of the index in the paper.
//!
//! ```text
//!   set --> record, its entry in the allocation log | fence --> entry of the operation log | fence --> mark | fence
//!             --> table in DRAM --> answered                replayer: undo record | fence --> table in memory | fence
//!   get --> table in DRAM --> record, read from memory
//! ```
//!
//! # Thread safety
//! A part of the table in DRAM is locked while a record that it leads to is read, and while a set logs its entry:
//! entries of a key reach the replayer in their order. It gives a record's place back once the table in memory leads
//! elsewhere; nobody reads there by then.
//!
//! Nothing recovers it: logs are written for what they cost. Their rings are longer than the queue of what is not
//! replayed.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, RwLock};
use std::thread::JoinHandle;
use std::time::Instant;

use anyhow::{Context, bail};
use terrace_media::{ByteRegion, CountersSnapshot, HeapRegion, Profile};

use super::{KEY_BYTES, VALUE_BYTES};
use crate::client::{Client, Work};
use crate::latency::Tally;
use crate::rng::mix;
use crate::workload::Kind;

/// A cache line, and what a bucket of the table has of entries: a key and a place.
const LINE: u64 = 64;
const ENTRY: usize = 16;
/// A record with its key, in whole lines.
const RECORD: u64 = ((KEY_BYTES + VALUE_BYTES) as u64).next_multiple_of(LINE);
/// Entries that are answered and not replayed, at most; a ring of a log has more.
const QUEUE: usize = 4096;
const RING: u64 = 2 * QUEUE as u64;
/// Clients at most, those that are gone counted: each has two rings.
const CLIENTS: u64 = 16;
/// Parts of the table in DRAM.
const PARTS: u64 = 1024;
/// Places that a client takes at once.
const TAKEN: usize = 64;

/// Hashes a key, which is a word, as quickly as can be.
#[derive(Default)]
struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }
    fn write_u64(&mut self, word: u64) {
        self.0 = mix(self.0 ^ word);
    }
}

type Part = RwLock<HashMap<u64, u64, BuildHasherDefault<Mixed>>>;

/// A set that was answered.
struct Entry {
    key: u64,
    place: u64,
    /// Where its record was before.
    before: Option<u64>,
}

struct Shared {
    region: HeapRegion,
    /// Buckets of the table in memory, which begins at 0; a power of two.
    buckets: u64,
    /// Where the undo log begins, the clients' rings behind it, and records behind these.
    undo: u64,
    parts: Vec<Part>,
    /// Places of no record, and where there never was one.
    free: Mutex<Vec<u64>>,
    fresh: AtomicU64,
    clients: AtomicU64,
    replayed: AtomicU64,
}

/// See the module.
pub(super) struct StandIn {
    shared: Arc<Shared>,
    // Both are taken when it ends.
    entries: Option<SyncSender<Entry>>,
    replayer: Option<JoinHandle<()>>,
}

impl StandIn {
    /// An empty store for so many records, over an emulated device.
    pub fn new(records: u64, profile: &str) -> anyhow::Result<Self> {
        let buckets = (records / 2).next_power_of_two().max(64);
        let undo = buckets * LINE;
        let rings = (1 + 2 * CLIENTS) * RING * LINE;
        let fresh = undo + rings;
        // Each record, what replaces it until that is replayed, and what clients took.
        let places = records + 2 * QUEUE as u64 + CLIENTS * TAKEN as u64;
        let bytes = fresh + places * RECORD;
        let region = HeapRegion::with_profile(bytes, Some(Profile::built_in(profile)?))?;
        region.populate();
        let shared = Arc::new(Shared {
            region,
            buckets,
            undo,
            parts: (0..PARTS).map(|_| Part::default()).collect(),
            free: Mutex::default(),
            fresh: AtomicU64::new(fresh),
            clients: AtomicU64::new(0),
            replayed: AtomicU64::new(0),
        });
        let (entries, answered) = sync_channel(QUEUE);
        let replays = shared.clone();
        let replayer = std::thread::Builder::new()
            .name("replayer".into())
            .spawn(move || replays.replay_all(&answered))?;
        Ok(Self { shared, entries: Some(entries), replayer: Some(replayer) })
    }

    /// Another client.
    pub fn client(&self) -> anyhow::Result<OfStandIn> {
        let number = self.shared.clients.fetch_add(1, Relaxed);
        anyhow::ensure!(number < CLIENTS, "the stand-in has rings for {CLIENTS} clients");
        let entries = self.entries.clone().context("the stand-in has ended")?;
        let (key, value) = (Vec::new(), Vec::new());
        Ok(OfStandIn {
            shared: self.shared.clone(),
            entries,
            number,
            logged: 0,
            places: Vec::new(),
            key,
            value,
        })
    }

    /// What was asked of its memory, once so many sets are replayed.
    pub fn media(&self, sets: u64) -> CountersSnapshot {
        while self.shared.replayed.load(Acquire) < sets {
            std::thread::yield_now();
        }
        self.shared.region.counters().snapshot()
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        // Without senders the replayer ends; a panic of it was printed.
        self.entries = None;
        if let Some(replayer) = self.replayer.take() {
            let _ = replayer.join();
        }
    }
}

/// A key and a place, as an entry of the table has them.
fn entry(key: u64, place: u64) -> [u8; ENTRY] {
    let mut bytes = [0; ENTRY];
    bytes[..8].copy_from_slice(&key.to_le_bytes());
    bytes[8..].copy_from_slice(&place.to_le_bytes());
    bytes
}

fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[..8]);
    u64::from_le_bytes(word)
}

impl Shared {
    fn part(&self, key: u64) -> anyhow::Result<&Part> {
        self.parts.get((mix(key) >> 32) as usize % self.parts.len()).context("no such part")
    }

    /// Where the table in memory has this key, or would have it, and what is there.
    fn find(&self, key: u64) -> (u64, [u8; ENTRY]) {
        let mut bucket = mix(!key) & (self.buckets - 1);
        loop {
            let mut line = [0; LINE as usize];
            self.region.read(bucket * LINE, &mut line);
            for (number, there) in line.chunks_exact(ENTRY).enumerate() {
                // Nothing lies at 0: that is an entry of no key.
                if word(&there[8..]) == 0 || word(there) == key {
                    let at = bucket * LINE + (number * ENTRY) as u64;
                    return (at, entry(word(there), word(&there[8..])));
                }
            }
            bucket = (bucket + 1) & (self.buckets - 1);
        }
    }

    /// Brings the table in memory up to each set, until all clients and the stand-in have ended.
    fn replay_all(&self, answered: &Receiver<Entry>) {
        let mut number = 0;
        while let Ok(Entry { key, place, before }) = answered.recv() {
            let (at, there) = self.find(key);
            let mut undo = [0; 8 + ENTRY];
            undo[..8].copy_from_slice(&at.to_le_bytes());
            undo[8..].copy_from_slice(&there);
            self.region.write_nt(self.undo + number % RING * LINE, &undo);
            self.region.fence();
            self.region.write_nt(at, &entry(key, place));
            self.region.fence();
            if let (Some(before), Ok(mut free)) = (before, self.free.lock()) {
                free.push(before);
            }
            number += 1;
            self.replayed.store(number, Release);
        }
    }
}

/// A client of the stand-in.
pub(super) struct OfStandIn {
    shared: Arc<Shared>,
    entries: SyncSender<Entry>,
    number: u64,
    logged: u64,
    places: Vec<u64>,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl OfStandIn {
    fn place(&mut self) -> u64 {
        loop {
            if let Some(place) = self.places.pop() {
                return place;
            }
            if let Ok(mut free) = self.shared.free.lock() {
                let left = free.len().saturating_sub(TAKEN);
                self.places.extend(free.drain(left..));
            }
            if self.places.is_empty() {
                let place = self.shared.fresh.fetch_add(RECORD, Relaxed);
                if place + RECORD <= self.shared.region.len() {
                    return place;
                }
                self.shared.fresh.fetch_sub(RECORD, Relaxed);
                std::thread::yield_now();
            }
        }
    }

    /// The next line of one of its rings: 0 is its operation log's, 1 its allocation log's.
    fn ring(&self, ring: u64) -> u64 {
        self.shared.undo + ((1 + 2 * self.number + ring) * RING + self.logged % RING) * LINE
    }

    fn set(&mut self, work: &Work<'_>, record: u64, nonce: u64) -> anyhow::Result<()> {
        let place = self.place();
        work.content.key(record, &mut self.key);
        work.content.value(record, nonce, &mut self.value);
        let key = word(&self.key);
        let shared = self.shared.clone();
        let region = &shared.region;
        self.key.extend_from_slice(&self.value);
        region.write_nt(place, &self.key);
        region.write_nt(self.ring(1), &place.to_le_bytes());
        region.fence();
        let Ok(mut part) = shared.part(key)?.write() else { bail!("a client panicked") };
        let log = self.ring(0);
        region.write_nt(log, &entry(key, place));
        region.fence();
        self.logged += 1;
        region.write_nt(log + ENTRY as u64, &self.logged.to_le_bytes());
        region.fence();
        let before = part.insert(key, place);
        self.entries.send(Entry { key, place, before }).ok().context("the replayer has ended")
    }

    fn get(&mut self, work: &Work<'_>, record: u64, tally: &mut Tally) -> anyhow::Result<()> {
        work.content.key(record, &mut self.key);
        let key = word(&self.key);
        let mut bytes = [0; KEY_BYTES + VALUE_BYTES];
        let Ok(part) = self.shared.part(key)?.read() else { bail!("a client panicked") };
        let Some(place) = part.get(&key) else {
            // All keys are in DRAM; who is not there is looked for in memory nevertheless.
            drop(part);
            self.shared.find(key);
            work.read(record, None, tally);
            return Ok(());
        };
        self.shared.region.read(*place, &mut bytes);
        drop(part);
        let (found, value) = bytes.split_at(KEY_BYTES);
        work.read(record, (found == self.key).then_some(value), tally);
        Ok(())
    }
}

impl Client for OfStandIn {
    fn run(&mut self, work: &Work<'_>, tally: &mut Tally) -> anyhow::Result<()> {
        let start = work.due.unwrap_or_else(Instant::now);
        for (planned, nonce) in work.operations.iter().zip(work.nonce..) {
            match planned.kind() {
                Kind::Get => self.get(work, planned.record(), tally)?,
                Kind::Set | Kind::Insert => {
                    self.set(work, planned.record(), nonce)?;
                    tally.sets += 1;
                }
                Kind::ReadModifyWrite | Kind::Scan => bail!("the stand-in has gets and sets alone"),
            }
        }
        tally.record_batch(work.operations, start.elapsed());
        Ok(())
    }
}
