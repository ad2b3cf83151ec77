//! Expired records and victims, found by going round the index.
//!
//! A record that was written since the search last came by is passed over once, one that was read twice (CLOCK, in the order of the index). A write that
//! finds no room says how much it needs, so that a large value in a store that is not quite full evicts, too, and only as much leaves as
//! is needed. It is refused only once the search went round after it had asked, or knows that nothing has expired.
//!
//! # Thread safety
//! The search is in no epoch. It holds the lock on `sweep` from when it looks into the index until it has read what it found there, and
//! nothing is freed without that lock. Order of locks: `limbo`, then `sweep`.
//!
//! `wanted_bytes` may be cleared by one write while another one waits: that one asks again in its next round.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};

use terrace_engine::record::{Head, Kind};
use terrace_engine::space::{Background, Context, Fetch, FoundKeys, LargeValues, Records, Room, Want};
use terrace_index::{Address, AnyIndex, Index};
use terrace_media::Buffer;

use crate::allocated::allocated_bytes;
use crate::record::HeapRecord;
use crate::space::{DramSpace, Local};

/// Buckets looked at in one step.
const BUCKETS: usize = 256;
/// Keys found that nobody has taken yet, at most; a bucket's more.
const FOUND: usize = 256;
/// Rounds that may end before a write that found no room is refused: one that had begun before it, one that had not, and one in
/// which what that found is deleted.
const ROUNDS: u64 = 3;

/// What the search knows of the time of what it has not found.
pub(crate) struct Times {
    /// Nothing that was there when the last round began expires before.
    seen_ms: AtomicU64,
    /// Nor anything that was written since this one began.
    fresh_ms: AtomicU64,
    /// Rounds that have ended.
    rounds: AtomicU64,
    /// Something that has expired, or that a flush forgot, may take room.
    may_gain: AtomicBool,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            seen_ms: AtomicU64::new(u64::MAX),
            fresh_ms: AtomicU64::new(u64::MAX),
            rounds: AtomicU64::new(0),
            may_gain: AtomicBool::new(false),
        }
    }
}

impl Times {
    /// A record that expires is written.
    #[inline]
    pub fn note(&self, expire_at: u64) {
        if expire_at < self.fresh_ms.load(Relaxed) {
            self.fresh_ms.fetch_min(expire_at, Relaxed);
        }
    }
}

/// A round of the search.
#[derive(Default)]
struct Round {
    /// The first of the deadlines that are still to come.
    next_ms: u64,
    /// The newest whole-database flush when it began, and when the last one did.
    flushed: u64,
    done_flushed: u64,
}

/// Where the search goes on, and what it has found.
#[derive(Default)]
pub(crate) struct Sweep {
    /// The index's.
    cursor: u64,
    addresses: Vec<Address>,
    pub(crate) expired: Vec<(u8, Vec<u8>)>,
    victims: Vec<Victim>,
    round: Round,
}

struct Victim {
    db: u8,
    key: Vec<u8>,
    bytes: u64,
}

impl DramSpace {
    /// Whether so much more has room; else it is waited for. What was replaced and is not freed yet will be, soon.
    pub(crate) fn room_for(&self, local: &mut Local, bytes: u64) -> Room {
        let capacity = self.capacity_bytes();
        let wanted = self.used_bytes.load(Relaxed) + bytes;
        if wanted > capacity {
            self.wanted_bytes.fetch_max(bytes, Relaxed);
            let rounds = self.times.rounds.load(Relaxed);
            let asked = *local.asked.get_or_insert(rounds);
            if self.times.may_gain.load(Relaxed) && rounds - asked < ROUNDS {
                return Room::Wait;
            }
            local.asked = None;
            return Room::Full;
        }
        local.asked = None;
        if self.wanted_bytes.load(Relaxed) != 0 {
            self.wanted_bytes.store(0, Relaxed);
        }
        if wanted + self.retired_bytes.load(Relaxed) > capacity { Room::Wait } else { Room::Ready }
    }

    /// Bytes that have to go.
    pub(crate) fn excess_bytes(&self) -> u64 {
        let capacity = self.capacity_bytes();
        // A hundredth is kept free, so that evicting starts before writes find no room.
        let spare = (capacity / 100).max(self.wanted_bytes.load(Relaxed));
        self.used_bytes.load(Relaxed).saturating_sub(capacity.saturating_sub(spare))
    }

    /// Walks some index buckets and notes keys that have expired and keys that could be evicted.
    pub(crate) fn look_around(&self, index: &AnyIndex, context: &dyn Context) {
        let now_ms = context.now_ms();
        let full = self.is_full();
        let flushed = (0..16).map(|db| context.flush_version(db)).max().unwrap_or(0);
        if self.with_expiry.load(Relaxed) == 0 && !full && flushed == 0 {
            return;
        }
        let mut sweep = self.sweep.lock();
        self.search(&mut sweep, (now_ms, flushed, full), index, context);
        let times = &self.times;
        let due = times.seen_ms.load(Relaxed).min(times.fresh_ms.load(Relaxed)) <= now_ms;
        let found = !sweep.expired.is_empty() || context.is_purging() || context.has_unpurged();
        times.may_gain.store(due || found || flushed > sweep.round.done_flushed, Relaxed);
    }

    fn search(
        &self,
        sweep: &mut Sweep,
        (now_ms, flushed, full): (u64, u64, bool),
        index: &AnyIndex,
        context: &dyn Context,
    ) {
        let Sweep { cursor, addresses, expired, victims, round } = sweep;
        let mut key = Buffer::new();
        // Victims that nobody took, as in a full store that refuses, must not stand in the way of what has expired.
        if victims.len() >= FOUND {
            victims.clear();
        }
        for _ in 0..BUCKETS {
            if expired.len() + victims.len() >= FOUND {
                return;
            }
            addresses.clear();
            if *cursor == 0 {
                let next_ms = self.times.fresh_ms.swap(u64::MAX, Relaxed);
                // Until it has gone round nothing is known of what was fresh; what is being put now it may pass by.
                self.times.seen_ms.fetch_min(next_ms, Relaxed);
                *round = Round { next_ms, flushed, done_flushed: round.done_flushed };
            }
            // An index without cursors leaves what expired to those who ask for it, and nothing can be evicted.
            *cursor = index.scan(*cursor, addresses).unwrap_or(0);
            for &address in addresses.iter() {
                key.clear();
                let Fetch::Match(head) = self.fetch(address, None, Want::Head, &mut key) else { continue };
                let db = head.meta.db();
                let dead = head.version <= context.flush_version(db);
                if dead || (head.expire_at != 0 && head.expire_at <= now_ms) {
                    expired.push((db, key.to_vec()));
                    continue;
                }
                if head.expire_at != 0 {
                    round.next_ms = round.next_ms.min(head.expire_at);
                }
                if full && !HeapRecord::at(address).pass_over() {
                    victims.push(Victim { db, bytes: self.bytes_of(address, &head), key: key.to_vec() });
                }
            }
            if *cursor == 0 {
                self.times.seen_ms.store(round.next_ms, Relaxed);
                self.times.rounds.fetch_add(1, Relaxed);
                round.done_flushed = round.flushed;
                return;
            }
        }
    }

    /// What a record takes, its large value counted.
    fn bytes_of(&self, address: Address, head: &Head) -> u64 {
        let record = allocated_bytes(head.meta.slot_words() * 8);
        if head.meta.kind() != Kind::Extent {
            return record;
        }
        let mut found = Buffer::new();
        match self.fetch(address, None, Want::Value, &mut found) {
            // It may have been written anew meanwhile.
            Fetch::Match(head) if head.meta.kind() == Kind::Extent => {
                record + found.get(head.meta.key_bytes()..).map_or(0, |extent| self.extent_bytes(extent))
            }
            _ => record,
        }
    }

    /// Gives out victims, at most so many, until they make up for what has to go.
    pub(crate) fn take_victims(&self, count: usize, found: &mut FoundKeys<'_>) {
        let (mut sweep, excess) = (self.sweep.lock(), self.excess_bytes());
        let mut bytes = 0;
        for _ in 0..count {
            if bytes >= excess {
                return;
            }
            let Some(victim) = sweep.victims.pop() else { return };
            bytes += victim.bytes;
            found(victim.db, &victim.key);
        }
    }
}
