//! A session at work. One operation a file; this one holds what they share.
//!
//! ```text
//!   face.rs     execute / poll / settled: a batch's way through
//!   plain.rs    gets and sets that need nothing but the index, DRAM and the log's buffer: most
//!   get.rs      reads
//!   update.rs   every write of one key: room, critical section
//!   publish.rs  a record that was decided: put, logged, counted
//!   atomic/     several keys as one step
//!   scan.rs     iteration          range.rs  records in the order of their keys
//!   sample.rs   how long records have left
//!   flush.rs    whole databases: forgotten, or exchanged
//!   commit.rs   the log group at the end of a batch, its dependencies, the ticket
//!   waiting.rs  pending operations
//! ```
//!
//! # Invariants
//! Between `enter` and `leave` the session is inside an epoch: addresses it holds stay readable. No device is waited for
//! and no log is written inside. Every version that an answer rests on passes through `see`.

mod atomic;
mod commit;
pub(crate) mod face;
mod flush;
mod get;
mod internal;
mod plain;
mod publish;
mod range;
mod sample;
mod scan;
mod update;
mod waiting;

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;

use terrace_index::{Address, Index};
use terrace_log::{LogDevice, Writer};
use terrace_media::Buffer;

use crate::decide::Scratch;
use crate::machine::Machine;
use crate::op::DATABASES;
use crate::pending::Wanted;
use crate::promised::Promised;
use crate::record::{Head, INLINE_VALUE_BYTES, KEY_BYTES_MAX, Kind, NewRecord};
use crate::reply::{OpError, Reply};
use crate::session::{Progress, StoreError};
use crate::shared::{Shared, SlotCounters};
use crate::space::{Arrival, Arrived, Class, Room, Space};
use crate::version::Version;

pub(crate) use flush::{Generation, decode_generation};

/// One session's state.
pub(crate) struct Core<I: Index, S: Space, D: LogDevice> {
    pub(crate) machine: Arc<Machine<I, S, D>>,
    slot: usize,
    local: S::Local,
    writer: Promised<S, Writer<D>>,
    /// What is no longer than this may be plain.
    short: Short,
    /// The last version issued, and the last one in the log.
    last: Version,
    logged: u64,
    now_us: u64,
    /// Where a look at the index goes on.
    sampled: u64,
    /// Expired keys that a write has replaced, to be told of.
    lapsed: Vec<(u8, Vec<u8>)>,
    /// Operations that have made a key, from the one that ran first, alone or in its group.
    made: Vec<u32>,
    /// For each session, the newest version this one saw in the current batch, and which sessions those are.
    seen: Box<[u64]>,
    touched: Vec<u16>,
    /// For each session, the newest version recorded as a dependency in this session's log.
    recorded: Box<[u64]>,
    dependencies: Vec<(u16, u64)>,
    /// Versions of others that earlier batches saw and that could still be taken back: the next group depends on them.
    carried: Vec<(u16, u64)>,
    /// Reads that came for operations which were not looked at yet.
    arrivals: Vec<Arrival>,
    arrived: HashMap<u64, Arrived>,
    /// A read could not be started for want of room in the queue, since the last wake-up for it.
    starved: bool,
    next_token: u64,
    next_order: u64,
    /// What the space and the log hold for a long group is kept while the session waits for the rest.
    is_gathering: bool,
    /// Words that the space and the log have room for.
    room_words: usize,
    /// The log's pace is kept for what is being written.
    has_waited: bool,
    /// It is the machine's own.
    is_internal: bool,
    /// See [`Core::take_unpurged`].
    unpurged: Vec<(u8, Vec<u8>)>,
    unpurged_until_us: u64,
    /// Pending operations by hash, in order.
    busy: HashMap<u64, waiting::Queue>,
    /// Of the window's keys, and of the next one's.
    hashes: Vec<u64>,
    ahead: Ahead,
    /// Buffers that are reused: an old value, a computed one, an extent's description, keys of a range.
    old: Buffer,
    scratch: Scratch,
    description: Vec<u8>,
    /// Describes the value that lends pieces to the one that `description` is of; empty: none does.
    former: Vec<u8>,
    chunk: range::Chunk,
    waker: Option<Arc<OwnedFd>>,
    /// Counted here and added to the shared counters at the end of a batch.
    hits: [u64; 3],
    misses: u64,
}

/// The longest key, and the longest value that lies in its record.
struct Short {
    key_bytes: usize,
    value_bytes: usize,
}

/// A window of operations whose buckets are on their way.
#[derive(Default)]
struct Ahead {
    /// Its first operation.
    start: usize,
    /// Of its keys; empty if there is none.
    hashes: Vec<u64>,
}

/// How far an operation came.
pub(crate) enum Step {
    Done(Reply),
    /// The answers are in the batch.
    Answered,
    /// These must be read first.
    Read(Vec<Wanted>),
}

impl<I: Index, S: Space, D: LogDevice> Core<I, S, D> {
    pub(crate) fn open(machine: &Arc<Machine<I, S, D>>) -> Result<Self, StoreError> {
        let shared = &machine.shared;
        let slot = shared.take_slot().ok_or(StoreError::TooManySessions(shared.sessions_max()))?;
        let local = machine.space.attach(slot).inspect_err(|_| shared.give_slot(slot))?;
        let last = shared.commit.last_version(slot);
        let limits = machine.space.limits();
        let sessions = shared.sessions_max();
        Ok(Self {
            machine: machine.clone(),
            slot,
            local,
            writer: Promised::new(machine.log.keeper().map(|log| log.writer(slot as u16, last.0))),
            short: Short {
                key_bytes: limits.key_bytes.min(KEY_BYTES_MAX),
                value_bytes: limits.inline_bytes.min(INLINE_VALUE_BYTES),
            },
            last,
            logged: last.0,
            now_us: shared.now_us(),
            sampled: 0,
            lapsed: Vec::new(),
            made: Vec::new(),
            seen: vec![0; sessions].into(),
            touched: Vec::new(),
            recorded: vec![0; sessions].into(),
            dependencies: Vec::new(),
            carried: Vec::new(),
            arrivals: Vec::new(),
            arrived: HashMap::new(),
            starved: false,
            next_token: 0,
            next_order: 0,
            is_gathering: false,
            room_words: 0,
            has_waited: false,
            is_internal: false,
            unpurged: Vec::new(),
            unpurged_until_us: 0,
            busy: HashMap::new(),
            hashes: Vec::new(),
            ahead: Ahead::default(),
            old: Buffer::new(),
            scratch: Scratch::default(),
            description: Vec::new(),
            former: Vec::new(),
            chunk: range::Chunk::default(),
            waker: None,
            hits: [0; 3],
            misses: 0,
        })
    }

    fn shared(&self) -> &Shared {
        &self.machine.shared
    }
    fn counters(&self) -> &SlotCounters {
        &self.machine.shared.counters[self.slot]
    }
    fn now_ms(&self) -> u64 {
        self.now_us / 1000
    }

    fn enter(&mut self) {
        self.machine.shared.enter(self.slot);
        self.now_us = self.machine.shared.now_us();
        self.machine.keep_below_floor(self.last, self.now_us);
        let flushed = self.machine.shared.flush_version.load(Acquire);
        if flushed != 0 {
            // Every miss and every write from now on rests on that flush.
            self.see(flushed);
        }
    }
    fn leave(&self) {
        self.machine.shared.epochs.leave(self.slot);
    }

    /// An answer will rest on this version. That of a damaged record is none to wait for: it was settled before it was damaged, or is
    /// made up, and nobody may ever write it.
    #[inline]
    fn see(&mut self, version: u64) {
        note_seen::<S>(&mut self.seen, &mut self.touched, version);
    }

    /// Whether a record is one that operations can see (expired or not).
    #[inline]
    fn is_live(&self, head: &Head, damaged: bool) -> bool {
        live(&self.machine.shared, head, damaged)
    }

    /// Makes room for records of these lengths, in words, in the space and in the log.
    fn make_room(&mut self, records: &[usize], class: Class) -> Result<(), OpError> {
        let (mut waited, mut rounds) = (Awaited::default(), 0);
        loop {
            if self.shared().log_failed.load(Relaxed) {
                return Err(self.shared().log_error());
            }
            rounds += 1;
            // What a session gathers for a group it keeps while it waits, and this may run in a step of its very wait.
            if self.is_internal && rounds > INTERNAL_ROUNDS && self.shared().gathering.load(SeqCst) {
                return Err(OpError::Full);
            }
            match self.machine.space.prepare(&mut self.local, records, class) {
                Room::Ready => {}
                Room::Full if class == Class::Write => {
                    self.await_eviction(&mut waited)?;
                    continue;
                }
                // That was said to a purge, so that it ends: more may be found after it.
                Room::Full if !self.is_internal && self.shared().is_purging.load(SeqCst) => {
                    self.stall()?;
                    continue;
                }
                Room::Full => return Err(OpError::Full),
                Room::Wait => {
                    self.stall()?;
                    continue;
                }
            }
            if self.make_log_room(records.iter().sum(), records.len())? {
                return Ok(());
            }
        }
    }

    /// `false` if the session left its epoch meanwhile, so that the room in the space must be asked for again.
    fn make_log_room(&mut self, words: usize, records: usize) -> Result<bool, OpError> {
        let sessions = self.seen.len();
        let Some(writer) = self.writer.keeper_mut() else { return Ok(true) };
        let bytes = words * 8 + records * LOG_SLACK;
        if writer.buffered_bytes() + bytes <= writer.room(sessions) {
            return if self.machine.shared.pace.is_limited() { self.keep_pace(bytes) } else { Ok(true) };
        }
        // Mostly what is buffered is all that stands in the way; else pages must be persisted so that log blocks are freed.
        if !writer.is_empty() {
            self.write_buffered()?;
            return Ok(false);
        }
        if self.machine.log.keeper().is_some_and(|log| log.free_blocks() < 2) {
            // Not all: blocks are freed as pages land, and writers wait for no more than the first of them.
            self.machine.want_oldest_pages();
        }
        self.stall()?;
        Ok(false)
    }

    /// What was written before is waited for; `false` as above. See [`Pace`](crate::pace::Pace).
    #[cold]
    fn keep_pace(&mut self, bytes: usize) -> Result<bool, OpError> {
        let begun_us = self.shared().clock_us();
        let owed_us = self.shared().pace.owed_us(begun_us);
        if owed_us == 0 || self.is_internal || std::mem::take(&mut self.has_waited) {
            self.shared().pace.charge(bytes, begun_us);
            return Ok(true);
        }
        self.counters().stalls.fetch_add(1, Relaxed);
        // In a model of a machine the clock may stand.
        let mut standing = 0;
        while !self.shared().has_passed(begun_us, owed_us) && standing < STANDING_ROUNDS {
            self.work_meanwhile()?;
            standing = if self.shared().clock_us() == begun_us { standing + 1 } else { 0 };
            if !self.shared().pace.is_limited() {
                break;
            }
        }
        self.has_waited = true;
        Ok(false)
    }

    /// Writes what the log's buffer holds, as at a batch's end.
    #[cold]
    fn write_buffered(&mut self) -> Result<(), OpError> {
        // The write may wait for room in the log: see below.
        self.machine.space.rest(&mut self.local);
        self.leave();
        let written = self.write_log();
        self.enter();
        if written { Ok(()) } else { Err(self.shared().log_error()) }
    }

    /// Waits for background work to make room, doing it here where nobody else does.
    #[cold]
    fn stall(&mut self) -> Result<(), OpError> {
        self.work_while_stalled().map(|_| ())
    }

    /// The same, with what that did.
    fn work_while_stalled(&mut self) -> Result<Progress, OpError> {
        self.counters().stalls.fetch_add(1, Relaxed);
        self.work_meanwhile()
    }

    /// A round of background work, outside of any epoch.
    fn work_meanwhile(&mut self) -> Result<Progress, OpError> {
        // Whoever waits holds nothing that others could wait for: an eviction in this very step, say. But one of all.
        if !self.is_gathering {
            self.machine.space.rest(&mut self.local);
        }
        self.leave();
        // Pages can't be sealed before what this session wrote into them is durable.
        let written = self.write_log();
        self.shared().want_sync();
        self.shared().notify_work();
        let progress = self.machine.work();
        self.enter();
        if !written {
            return Err(self.shared().log_error());
        }
        // Room comes from flushing pages: there is nothing to wait for any more.
        if self.machine.space.has_failed() { Err(OpError::Io) } else { Ok(progress) }
    }

    /// The space is full: an error, if one round of background work finds nothing that makes room, for what the space says may be
    /// older than what has expired since; or, in a store that evicts, such rounds up to a bound: what is left may be nothing that
    /// can be evicted. Rounds alone are no bound: while others evict, on a machine that does much else, a
    /// great many pass in which this session finds nothing to do.
    #[cold]
    fn await_eviction(&mut self, waited: &mut Awaited) -> Result<(), OpError> {
        let now_us = self.shared().now_us();
        let since_us = *waited.since_us.get_or_insert(now_us);
        let is_long = waited.is_empty || now_us.saturating_sub(since_us) >= EVICTION_US;
        let is_over = if self.machine.options.evict {
            waited.rounds > EVICTION_ROUNDS && is_long
        } else {
            waited.rounds > 0
        };
        if is_over {
            self.counters().refused.fetch_add(1, Relaxed);
            return Err(OpError::Full);
        }
        let progress = self.work_while_stalled()?;
        let shared = self.shared();
        // All was evicted, and nothing of it is on its way to be room: this is too long for the store.
        waited.is_empty = (0..DATABASES as u8).all(|db| shared.keys(db) == 0);
        let more = match progress {
            Progress::Idle if waited.is_empty => EVICTION_ROUNDS / IDLE_ROUNDS,
            Progress::Blocked if waited.is_empty => EVICTION_ROUNDS / BLOCKED_ROUNDS,
            _ => 1,
        };
        waited.rounds = waited.rounds.saturating_add(more);
        Ok(())
    }

    fn order(&mut self) -> u64 {
        self.next_order += 1;
        self.next_order
    }
}

/// How long a write has waited for eviction.
#[derive(Default)]
pub(crate) struct Awaited {
    rounds: u32,
    since_us: Option<u64>,
    /// No key was left after the last round.
    is_empty: bool,
}

/// Rounds that the machine's own session waits for room while a session gathers some; what it could not delete it tries again.
const INTERNAL_ROUNDS: u32 = 1 << 5;
/// Rounds of background work that a write waits for when the space is full and evicts, and for how long at least.
const EVICTION_ROUNDS: u32 = 1 << 16;
const EVICTION_US: u64 = 5_000_000;
/// The same once no key is left, where there is nothing to do, and where something is waited for.
const IDLE_ROUNDS: u32 = 1 << 6;
const BLOCKED_ROUNDS: u32 = 1 << 12;

/// Rounds of background work in which a clock that stands is no accident.
const STANDING_ROUNDS: u32 = 4;

/// Bytes that an entry's header and padding take in the log.
const LOG_SLACK: usize = 24;

/// An answer rests on this version: it waits until that is safe, where anything is.
#[inline]
pub(crate) fn note_seen<S: Space>(seen: &mut [u64], touched: &mut Vec<u16>, version: u64) {
    if !S::SURVIVES {
        return;
    }
    let slot = Version(version).slot();
    if let Some(newest) = seen.get_mut(slot)
        && *newest < version
    {
        if *newest == 0 {
            touched.push(slot as u16);
        }
        *newest = version;
    }
}

/// Whether a record counts: not a tombstone, and not forgotten by a whole-database flush.
#[inline]
pub(crate) fn live(shared: &Shared, head: &Head, damaged: bool) -> bool {
    let kind = head.meta.kind();
    (damaged || kind != Kind::Tombstone) && !is_forgotten(shared, head.meta.db(), head.version)
}

/// Whether a whole-database flush has forgotten what has this version.
#[inline]
pub(crate) fn is_forgotten(shared: &Shared, db: u8, version: u64) -> bool {
    version <= shared.flush_versions[usize::from(db) & 15].load(Relaxed)
}

/// In front of a record that is read where it stands in the log: a checksum of its own.
pub const SEAL_BYTES: usize = 4;

/// Appends a record to the volatile log buffer.
#[inline]
pub(crate) fn log_record<S: Space, D: LogDevice>(
    writer: &mut Promised<S, Writer<D>>,
    record: &NewRecord<'_>,
    seq: u64,
) {
    let Some(writer) = writer.keeper_mut() else { return };
    let bytes = record.words() * 8;
    if S::ADDRESSED {
        writer.entry_with(record.version, seq, SEAL_BYTES + bytes, |out| {
            let (seal, body) = out.split_at_mut(SEAL_BYTES);
            record.encode_to(body);
            seal.copy_from_slice(&crc32c::crc32c(body).to_le_bytes());
        });
    } else {
        writer.entry_with(record.version, seq, bytes, |out| record.encode_to(out));
    }
}

/// Where a record was found, for [`Records::put`](crate::space::Records::put).
pub(crate) type Place = (Address, Head);

impl<I: Index, S: Space, D: LogDevice> Drop for Core<I, S, D> {
    fn drop(&mut self) {
        self.write_log();
        self.machine.space.detach(&mut self.local);
        self.writer.end();
        self.machine.shared.give_slot(self.slot);
    }
}
