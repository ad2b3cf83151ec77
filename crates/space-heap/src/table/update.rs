//! Changes of one key and of several, and the index as the machine sees it.

use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;

use terrace_index::linear::bucket_of;
use terrace_index::{Address, Change, Index, Key, Lookup, Verdict};
use terrace_media::ByteRegion;

use super::PmTable;
use super::chain::Spot;
use super::counts::Weight;
use super::lanes::Lane;
use super::line::{LINK, chunk_of};
use super::steps::Step;
use super::stripes::Held;

/// What a step tells of a key.
struct Told {
    /// Its new record's, or that of the one that goes.
    chunk: u64,
    is_new: bool,
    db: u8,
    /// The old record's chunk, and what it counts for.
    old: Option<u64>,
    old_weight: Weight,
}

/// A change, and what it does to the count of a database.
struct Made {
    lane: Lane,
    db: u8,
    old: Weight,
    new: Weight,
    /// Entries more.
    grows: i64,
}

impl<R: ByteRegion> PmTable<R> {
    /// Locks the stripe of a hash, and says which its bucket is.
    #[inline]
    pub(super) fn lock(&self, hash: u64) -> (Held<'_>, u64) {
        let held = self.stripes.lock(self.stripes.of(hash));
        // Buckets of a stripe split under its lock.
        (held, self.bucket_of(hash))
    }

    fn update<T>(
        &self,
        key: &Key<'_>,
        verify: impl FnMut(Address) -> Verdict,
        decide: impl FnOnce(Lookup) -> (Change, T),
    ) -> T {
        let (mut held, bucket) = self.lock(key.hash);
        let (lookup, spot) = self.look_up(&mut held, bucket, self.tag(key.hash), verify);
        let (change, result) = decide(lookup);
        let was_found = lookup != Lookup::Absent;
        let is_larger = match self.made(&mut held, (key.hash, key.db), (spot, was_found), change) {
            Some(made) => self.make_counted(&mut held, made),
            None => false,
        };
        drop(held);
        if is_larger {
            self.grow();
        }
        result
    }

    /// What a change makes of the index; `None` if nothing. Where something was found that is in no spot, a line is damaged: the key's
    /// count is all that is known of it.
    fn made(
        &self,
        held: &mut Held<'_>,
        (hash, db): (u64, u8),
        (spot, was_found): (Option<Spot>, bool),
        change: Change,
    ) -> Option<Made> {
        let none = (false, false);
        let weight_of = |chunk: u64| self.weight(chunk, db);
        let new_at = |address: Address| {
            // One that moves may be one that a flush has forgotten.
            let (version, expires) = self.facts_of_new(held.stripe, address.raw());
            (self.tag(hash).entry(address.raw()), version, self.weight_of(db, version, expires))
        };
        Some(match (change, spot) {
            (Change::Keep, _) => return None,
            (Change::Remove, None) => {
                let at = self.line_of(self.bucket_of(hash)) + LINK as u64 * 8;
                let link = self.medium.region.load_u64(self.medium.at(at));
                let lane = Lane { at, new: link, old: link, ..Lane::default() };
                Made { lane, db, old: (true, false), new: none, grows: 0 }
            }
            (Change::Set(address), Some(Spot { at, entry })) => {
                let (new, version, weight) = new_at(address);
                let lane = Lane { at, new, old: entry, version, ..Lane::default() };
                Made { lane, db, old: weight_of(chunk_of(entry)), new: weight, grows: 0 }
            }
            (Change::Set(address), None) | (Change::Insert(address), _) => {
                let (new, version, weight) = new_at(address);
                let at = self.vacancy(held, self.bucket_of(hash));
                let old = (was_found && matches!(change, Change::Set(_)), false);
                Made { lane: Lane { at, new, version, ..Lane::default() }, db, old, new: weight, grows: 1 }
            }
            (Change::Remove, Some(Spot { at, entry })) => {
                let lane = Lane { at, old: entry, ..Lane::default() };
                Made { lane, db, old: weight_of(chunk_of(entry)), new: none, grows: -1 }
            }
        })
    }

    /// Makes a change with its count; whether the table may have to grow.
    fn make_counted(&self, held: &mut Held<'_>, made: Made) -> bool {
        let Made { mut lane, db, old, new, grows } = made;
        if let Some((at, word)) = self.counted(held.stripe, db, old, new) {
            (lane.count_at, lane.count) = (at, word);
        }
        self.make(held, &lane);
        if grows != 0 {
            self.add_entries(held.stripe, grows);
        }
        grows > 0
    }

    fn update_many<T>(
        &self,
        keys: &[Key<'_>],
        mut verify: impl FnMut(usize, Address) -> Verdict,
        decide: impl FnOnce(&[Lookup], &mut [Change]) -> T,
    ) -> T {
        let mut stripes: Vec<usize> = keys.iter().map(|key| self.stripes.of(key.hash)).collect();
        let of_key = stripes.clone();
        stripes.sort_unstable();
        stripes.dedup();
        let mut held: Vec<Held<'_>> = stripes.iter().map(|stripe| self.stripes.lock(*stripe)).collect();
        let which = |i: usize| stripes.partition_point(|stripe| *stripe < of_key[i]);
        let buckets = self.buckets.load(Acquire);
        let mut lookups = Vec::with_capacity(keys.len());
        let mut spots = Vec::with_capacity(keys.len());
        for (i, key) in keys.iter().enumerate() {
            let bucket = bucket_of(key.hash, buckets);
            let held = &mut held[which(i)];
            let (lookup, spot) = self.look_up(held, bucket, self.tag(key.hash), |address| verify(i, address));
            lookups.push(lookup);
            spots.push(spot);
        }
        held.iter_mut().for_each(Held::exclude_readers);
        let mut changes = vec![Change::Keep; keys.len()];
        let result = decide(&lookups, &mut changes);
        let was_found = |i: usize| lookups[i] != Lookup::Absent;
        // What was found in a line that is damaged has no record to tell of: its count is a matter of its own.
        for (i, change) in changes.iter_mut().enumerate() {
            if (*change, spots[i]) == (Change::Remove, None) {
                let held = &mut held[which(i)];
                if let Some(made) = self.made(held, (keys[i].hash, keys[i].db), (None, true), *change) {
                    self.make_counted(held, made);
                }
                *change = Change::Keep;
            }
        }
        let count = changes.iter().filter(|change| **change != Change::Keep).count();
        let mut is_larger = false;
        if count == 1 {
            for (i, change) in changes.iter().enumerate() {
                let held = &mut held[which(i)];
                if let Some(made) =
                    self.made(held, (keys[i].hash, keys[i].db), (spots[i], was_found(i)), *change)
                {
                    is_larger |= self.make_counted(held, made);
                }
            }
        } else if count > 1 {
            let all = keys.iter().zip(&spots).zip(&changes);
            let mut told = Vec::with_capacity(count);
            for (i, ((key, spot), change)) in all.clone().enumerate() {
                let old = spot.map(|spot| chunk_of(spot.entry));
                let old_weight = match old {
                    Some(old) => self.weight(old, key.db),
                    None => (was_found(i), false),
                };
                match (change, old) {
                    (Change::Set(address) | Change::Insert(address), _) => {
                        told.push(Told { chunk: address.raw(), is_new: true, db: key.db, old, old_weight });
                    }
                    (Change::Remove, Some(chunk)) => {
                        told.push(Told { chunk, is_new: false, db: key.db, old, old_weight });
                    }
                    (Change::Keep, _) | (Change::Remove, None) => {}
                }
            }
            self.with_step(|number, step| {
                // A lane tells a change of before: made again, it would take the place of what the step makes.
                held.iter().for_each(|held| self.clear_lane(held.stripe));
                self.begin_step(number, step, &told);
                for (i, ((key, spot), change)) in all.enumerate() {
                    let held = &mut held[which(i)];
                    let Some(made) = self.made(held, (key.hash, key.db), (*spot, was_found(i)), *change)
                    else {
                        continue;
                    };
                    held.begin_move();
                    self.store(held, &made.lane);
                    self.add_entries(held.stripe, made.grows);
                    is_larger |= made.grows > 0;
                }
                self.medium.region.fence();
                step.last = 0;
                self.save_step(number, step);
            });
            for chunk in told.iter().filter_map(|told| told.old) {
                self.medium.store_word(chunk, self.pages.place(chunk).free());
            }
        }
        drop(held);
        if is_larger {
            self.grow();
        }
        result
    }

    /// Makes a step count; durable when it returns.
    fn begin_step(&self, number: usize, step: &mut Step, told: &[Told]) {
        step.last = 0;
        for &Told { chunk, is_new, db, old_weight: old, .. } in told {
            self.medium.store_word(chunk, self.pages.place(chunk).chained(step.last, is_new));
            step.last = chunk;
            // A note would be of the last record of its stripe.
            let new = if is_new { self.weight(chunk, db) } else { (false, false) };
            let added = &mut step.added[usize::from(db) & 15];
            added.0 += i64::from(new.0) - i64::from(old.0);
            added.1 += i64::from(new.1) - i64::from(old.1);
        }
        self.medium.region.fence();
        step.count = told.len() as u64;
        self.save_step(number, step);
    }
}

/// The table, as an index.
pub(crate) struct PmIndex<R>(pub Arc<PmTable<R>>);

impl<R: ByteRegion> Index for PmIndex<R> {
    const NEEDS_KEY: bool = false;

    fn get(&self, key: &Key<'_>, verify: impl FnMut(Address) -> Verdict) -> Lookup {
        self.0.get(key, verify)
    }
    fn prefetch(&self, key: &Key<'_>) {
        self.0.prefetch(key.hash);
    }
    fn candidates(&self, key: &Key<'_>, visit: impl FnMut(Address)) {
        self.0.candidates(key.hash, visit);
    }
    fn update<T>(
        &self,
        key: &Key<'_>,
        verify: impl FnMut(Address) -> Verdict,
        decide: impl FnOnce(Lookup) -> (Change, T),
    ) -> T {
        self.0.update(key, verify, decide)
    }
    fn update_many<T>(
        &self,
        keys: &[Key<'_>],
        verify: impl FnMut(usize, Address) -> Verdict,
        decide: impl FnOnce(&[Lookup], &mut [Change]) -> T,
    ) -> T {
        self.0.update_many(keys, verify, decide)
    }
    fn contains(&self, key: &Key<'_>, address: Address) -> bool {
        self.0.leads_to(key.hash, address.raw())
    }
    fn replace(&self, key: &Key<'_>, from: Address, to: Address) -> bool {
        self.change_exact(key, from, Change::Set(to))
    }
    fn remove(&self, key: &Key<'_>, address: Address) -> bool {
        self.change_exact(key, address, Change::Remove)
    }
    fn scan(&self, cursor: u64, out: &mut Vec<Address>) -> Option<u64> {
        Some(self.0.scan(cursor, out))
    }
    fn len(&self) -> u64 {
        self.0.len()
    }
    fn memory_bytes(&self) -> u64 {
        self.0.memory_bytes()
    }
    fn name(&self) -> &'static str {
        "persistent"
    }
}

impl<R: ByteRegion> PmIndex<R> {
    fn change_exact(&self, key: &Key<'_>, address: Address, change: Change) -> bool {
        let verify = |candidate| if candidate == address { Verdict::Match } else { Verdict::Differs };
        self.0.update(key, verify, |lookup| match lookup {
            Lookup::Found(_) => (change, true),
            Lookup::Absent | Lookup::Unread(_) => (Change::Keep, false),
        })
    }
}
