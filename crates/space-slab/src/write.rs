//! A session's writes: slots reserved before, records written over their older version or into a new slot.
//!
//! # Invariants
//! * A reserved slot belongs to its session until it is put, or given back when the session rests.
//! * What a put replaced in its place gives up its home only once the new version has been issued: whoever frees the home's
//!   page waits for all versions issued before.

use std::sync::atomic::Ordering::*;

use terrace_blocks::{Lower, Reads};
use terrace_engine::record::{Head, Kind, NewRecord};
use terrace_engine::space::{Class, Limits, Room, Under};
use terrace_index::Address;

use crate::admit::Against;
use crate::chosen::ToTell;
use crate::debts::{NO_PAGE, Owed};
use crate::location::{Location, Locations};
use crate::open::GROUP_PART;
use crate::reserved::Reserved;
use crate::space::SlabSpace;
use terrace_pmem_slots::StoredSlot;
use terrace_policy::Count;

/// What a session keeps.
pub struct Local<L: Lower> {
    /// Whose slots are taken first.
    pub(crate) partition: usize,
    reserved: Reserved,
    /// Homes of records that were just overwritten, with their words.
    homes: Vec<(Address, usize)>,
    put_bytes: u64,
    pub(crate) accesses: u64,
    /// What lists of a policy are to hear.
    pub(crate) to_tell: ToTell,
    pub(crate) reads: Reads<L>,
    /// Slots that were put and whose records are bound for the middle tier.
    bound: Vec<u64>,
    /// Slots that were put and whose records lie beside unread ones.
    owing: Vec<Owed>,
    /// How many records of a group each class has.
    wanted: Vec<usize>,
    /// The step before which a large value began to wait for credit.
    pub(crate) against: Option<Against>,
}

impl<L: Lower> Local<L> {
    pub(crate) fn new(reads: Reads<L>, partition: usize) -> Self {
        Self {
            partition,
            reserved: Reserved::default(),
            homes: Vec::new(),
            put_bytes: 0,
            accesses: 0,
            to_tell: ToTell::default(),
            reads,
            bound: Vec::new(),
            owing: Vec::new(),
            wanted: Vec::new(),
            against: None,
        }
    }
}

impl<L: Lower> SlabSpace<L> {
    /// What is taken now: DRAM that the index has taken, or that was given back, holds no group.
    pub(crate) fn limits_now(&self) -> Limits {
        let limits = self.options.limits();
        let dram_bytes = self.slabs.target.frames() * self.slabs.slab_bytes;
        let group_bytes = limits.group_bytes.min(dram_bytes / GROUP_PART).max(limits.short_group_bytes);
        Limits { group_bytes, ..limits }
    }

    #[inline]
    pub(crate) fn prepare_slots(&self, local: &mut Local<L>, records: &[usize], class: Class) -> Room {
        let refused = match class {
            Class::Write => self.blocks.free.full.load(Relaxed) || self.index_has_dram(),
            Class::Release => self.blocks.free.stuck.load(Relaxed),
            Class::Restore => false,
        };
        if refused {
            return Room::Full;
        }
        if records.len() > 1 && class == Class::Write {
            let words: usize = records.iter().sum();
            if let Err(room) = self.has_credit_for(local, words * 8) {
                return room;
            }
        }
        if self.rounds.held.load(SeqCst) == 0 && self.has_credit(class) && self.reserve(local, records) {
            Room::Ready
        } else {
            self.blocks.free.hungry.store(true, SeqCst);
            let stuck = class == Class::Restore && self.blocks.free.stuck.load(Relaxed);
            if stuck { Room::Full } else { Room::Wait }
        }
    }

    #[inline]
    fn reserve(&self, local: &mut Local<L>, records: &[usize]) -> bool {
        if let [words] = records {
            let Some(class) = self.slabs.classes.of(*words) else { return false };
            return local.reserved.has(class)
                || self.reserve_one(&mut local.reserved, local.partition, class);
        }
        let mut wanted = std::mem::take(&mut local.wanted);
        let all = self.count_classes(records, &mut wanted) && self.reserve_all(local, &wanted);
        local.wanted = wanted;
        all
    }

    /// How many of these records each class has; `false` if one is too long for any.
    fn count_classes(&self, records: &[usize], wanted: &mut Vec<usize>) -> bool {
        wanted.clear();
        wanted.resize(self.slabs.classes.count(), 0);
        records.iter().all(|&words| {
            let class = self.slabs.classes.of(words);
            wanted[class.unwrap_or(0)] += 1;
            class.is_some()
        })
    }

    /// Longest first: what is left over in a slab of theirs does for shorter ones, if no slab is left for those.
    fn reserve_all(&self, local: &mut Local<L>, wanted: &[usize]) -> bool {
        let mut missing = Vec::new();
        local.reserved.missing(wanted, |class, count| {
            missing.push((class, count));
            true
        });
        missing.into_iter().all(|(class, count)| {
            (0..count).all(|_| {
                let taken = |class| Some((class, self.slabs.take(class, local.partition)?));
                let Some((held, offset)) = (class..self.slabs.classes.count()).find_map(taken) else {
                    self.slabs.pressing.store(class as u32, SeqCst);
                    return false;
                };
                local.reserved.add(held, offset);
                true
            })
        })
    }

    fn reserve_one(&self, reserved: &mut Reserved, partition: usize, class: usize) -> bool {
        let Some(offset) = self.slabs.take(class, partition) else {
            self.slabs.pressing.store(class as u32, SeqCst);
            return false;
        };
        reserved.add(class, offset);
        true
    }

    /// Whether puts of such records would find their slots.
    #[inline]
    pub(crate) fn slots_fit(&self, local: &Local<L>, records: &[usize]) -> bool {
        if let [words] = records {
            return self.slabs.classes.of(*words).is_some_and(|class| local.reserved.has(class));
        }
        let mut wanted = Vec::new();
        self.count_classes(records, &mut wanted) && local.reserved.missing(&wanted, |_, _| false)
    }

    /// Gives back what is reserved, and reports what was counted.
    pub(crate) fn rest_local(&self, local: &mut Local<L>) {
        local.reserved.drain(|offset| self.slabs.give(offset));
        if local.put_bytes > 0 {
            self.rounds.put_bytes.fetch_add(std::mem::take(&mut local.put_bytes), Relaxed);
        }
        if !local.bound.is_empty() {
            self.bound.lock().append(&mut local.bound);
        }
        if !local.owing.is_empty() {
            self.debts.hand_over(&mut local.owing);
        }
        if local.accesses > 0 {
            self.temperature.count_accesses(std::mem::take(&mut local.accesses));
        }
        local.reads.forget_around();
        if !local.to_tell.is_empty() {
            self.policy.hand_over(&mut local.to_tell);
        }
    }

    #[inline]
    pub(crate) fn put_record(
        &self,
        local: &mut Local<L>,
        under: Under<'_>,
        record: &NewRecord<'_>,
    ) -> (Address, u64) {
        local.accesses += 1;
        let words = record.words();
        let round = self.rounds.current.load(Acquire);
        let smallest = self.slabs.classes.of(words);
        if let Some((address, head)) = under.to_rewrite()
            && let Location::Dram(offset) = self.locations.location(address)
            && let Some(class) = self.slabs.class_of(self.slabs.slab_of(offset))
            && smallest.is_some_and(|smallest| self.slabs.classes.is_near(smallest, class))
        {
            let slot = self.slabs.slot(offset);
            let slab = &self.slabs.table[self.slabs.slab_of(offset) as usize];
            // Before the record changes: what looks clean is what its home holds.
            let (home, before) = slot.dirty(round as u32);
            if before != round as u32 {
                slab.stamped(round as u32);
            }
            if before == 0 {
                slab.dirty.fetch_add(1, Relaxed);
                self.take_credit(self.slabs.classes.bytes(class));
            }
            if let Some(home) = home {
                local.homes.push((home, head.meta.slot_words()));
            }
            slot.record().replace(record);
            if matches!(under, Under::Record { forgotten: true, .. }) {
                slot.take_debt(true);
            }
            self.touch_slot(local, offset);
            if record.expire_at != 0 {
                slab.min_expire.fetch_min(record.expire_at, Release);
            }
            local.put_bytes += words as u64 * 8;
            return (address, round);
        }
        let best = smallest.and_then(|class| local.reserved.take(class));
        let Some((class, offset)) = best else { unreachable!("`prepare` came before") };
        let slab = &self.slabs.table[self.slabs.slab_of(offset) as usize];
        let slot = self.slabs.slot(offset);
        slot.record().write(record);
        slab.live.fetch_add(1, Relaxed);
        slab.dirty.fetch_add(1, Relaxed);
        let (debt, page) = self.debt_of(under);
        if debt.is_owed() {
            self.debts.unsettled.fetch_add(1, Relaxed);
            local.owing.push(Owed {
                page,
                offset,
                version: if page == NO_PAGE { 0 } else { record.version },
            });
        }
        let count = self.count_of_put(under, record.kind);
        let access = self.policy.entering(count, self.temperature.now());
        slot.publish_owing(None, round as u32, access, debt);
        self.policy.tell_filled(&mut local.to_tell, offset);
        slab.stamped(round as u32);
        if record.expire_at != 0 {
            slab.min_expire.fetch_min(record.expire_at, Release);
        }
        if !debt.is_owed() && self.is_bound(under.address()) {
            local.bound.push(offset);
        }
        self.take_credit(self.slabs.classes.bytes(class));
        local.put_bytes += self.slabs.classes.bytes(class) as u64;
        (self.locations.dram(offset), round)
    }

    /// The count with which a record enters DRAM that is put. What it replaces in the middle tier has been read as often as that
    /// was, and would be the next to leave if it were forgotten. Of what lies in a page not even the hash is known here.
    fn count_of_put(&self, under: Under<'_>, kind: Kind) -> Count {
        let Some(Location::Pmem(at)) = under.address().map(|at| self.locations.location(at)) else {
            return Count::ONE;
        };
        match self.middle.as_ref().map(|middle| middle.slabs.head(at)) {
            Some(StoredSlot::Filled(head)) if kind != Kind::Tombstone => {
                let count = self.temperature.touch_below(head.hash, &self.policy);
                self.temperature.enters(head.hash);
                count
            }
            _ => Count::ONE,
        }
    }

    /// The versions put so far have been issued.
    #[inline]
    pub(crate) fn let_homes_go(&self, local: &mut Local<L>) {
        for (home, words) in local.homes.drain(..) {
            self.release_copy(home, words);
        }
    }

    /// A copy of `words` words below DRAM is referred to no more, and its home is none.
    pub(crate) fn release_copy(&self, address: Address, words: usize) {
        if let Location::Pmem(at) = self.locations.location(address) {
            if let Some(middle) = &self.middle {
                if let Some(home) = middle.slabs.take_home(at) {
                    self.release_copy(home, words);
                }
                middle.release(at);
            }
            return;
        }
        let slot = &self.blocks.slots[self.locations.place(address).slot as usize];
        // Release: who finds nothing live here must also find the successor's version issued.
        slot.live_bytes.fetch_sub(words as i64 * 8, Release);
    }

    /// The index refers to this record no more.
    pub(crate) fn release_record(&self, address: Address, head: &Head) {
        let words = head.meta.slot_words();
        if !Locations::is_dram(address) {
            self.release_copy(address, words);
            return;
        }
        let Location::Dram(offset) = self.locations.location(address) else { return };
        if let Some(home) = self.clear_slot(offset) {
            self.release_copy(home, words);
        }
    }

    /// Empties a slot that the index refers to no more; its home, if it had one, is still counted as live there. It can be
    /// taken again once every session has left its epoch.
    pub(crate) fn clear_slot(&self, offset: u64) -> Option<Address> {
        let slab = &self.slabs.table[self.slabs.slab_of(offset) as usize];
        let (home, was_dirty, debt) = self.slabs.slot(offset).clear();
        if debt.is_owed() {
            self.debts.unsettled.fetch_sub(1, Relaxed);
        }
        slab.live.fetch_sub(1, Relaxed);
        if was_dirty {
            slab.dirty.fetch_sub(1, Relaxed);
        }
        self.retired.push(offset);
        home
    }
}
