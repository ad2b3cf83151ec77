//! A session's reads: from a slot, straight from byte-addressable media, or by a read that completes later; and what a hit
//! leaves behind.

use std::sync::atomic::Ordering::*;

use terrace_blocks::{Lower, fetch_words, prefetch};
use terrace_engine::Buffer;
use terrace_engine::record::{Kind, NewRecord, RecordView};
use terrace_engine::space::{Fetch, Records, Want};
use terrace_index::{Address, AnyIndex, Change, Index, Key, Lookup, Verdict};

use crate::location::Location;
use crate::placement::Up;
use crate::space::SlabSpace;
use crate::temperature::NO_RIVAL;
use crate::write::Local;
use terrace_policy::{Count, Tier};

/// Why a record might go up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comes {
    /// It was read.
    Asked,
    /// It lies beside one that was.
    Along,
}

/// What became of a record that might go up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Climbed {
    /// It is in this slot of DRAM.
    Dram(u64),
    /// It waits for a slot of the middle tier.
    Offered,
    /// It stays.
    No,
}

impl<L: Lower> SlabSpace<L> {
    #[inline]
    pub(crate) fn touch_record(&self, address: Address) {
        match self.locations.location(address) {
            Location::Dram(offset) => prefetch(self.slabs.slot(offset).0),
            Location::Pmem(at) => {
                if let Some(middle) = &self.middle {
                    middle.slabs.touch(at);
                }
            }
            Location::Page(place, _) if L::DIRECT => self.blocks.prefetch_direct(place),
            Location::Page(..) => {}
        }
    }

    #[inline]
    pub(crate) fn fetch_record(
        &self,
        address: Address,
        key: Option<&Key<'_>>,
        want: Want,
        out: &mut Buffer,
    ) -> Fetch {
        match self.locations.location(address) {
            Location::Dram(offset) => fetch_words(self.slabs.record(offset), key, want, out),
            Location::Pmem(at) => match &self.middle {
                Some(middle) => middle.slabs.fetch(at, key, want, out),
                None => Fetch::Differs,
            },
            Location::Page(..) if !L::DIRECT => Fetch::NeedsRead,
            Location::Page(place, _) => match self.blocks.slots.get(place.slot as usize) {
                Some(slot) => self.blocks.fetch_direct(place, slot.seq.load(Relaxed), key, want, out),
                None => Fetch::Differs,
            },
        }
    }

    pub(crate) fn start_read_of(&self, local: &mut Local<L>, address: Address, token: u64) -> bool {
        match self.locations.location(address) {
            Location::Page(place, bytes) => self.blocks.start_record(&mut local.reads, place, bytes, token),
            Location::Dram(_) | Location::Pmem(_) => unreachable!("what is there is fetched"),
        }
    }

    /// A client's get found this record: it is a little hotter now, and goes up if it is worth its place.
    #[inline]
    pub(crate) fn note_hit(
        &self,
        local: &mut Local<L>,
        index: &AnyIndex,
        key: &Key<'_>,
        address: Address,
        read: Option<&[u8]>,
    ) {
        local.accesses += 1;
        match self.locations.location(address) {
            Location::Dram(offset) => self.touch_slot(local, offset),
            Location::Pmem(at) => {
                if let Some(middle) = &self.middle {
                    middle.slabs.note_read(at);
                    middle.take_back(at);
                }
                self.consider(local, index, key, (address, Location::Pmem(at)), None);
            }
            Location::Page(place, bytes) => {
                let climbs = self.consider(local, index, key, (address, Location::Page(place, bytes)), read);
                let seq = self.generation(address);
                if climbs && let Some(buf) = local.reads.take_around(place, seq) {
                    self.offer_buf(buf);
                }
            }
        }
    }

    /// A slot's record was read or written. The path of every get: what is not CLOCK is elsewhere.
    #[inline(always)]
    pub(crate) fn touch_slot(&self, local: &mut Local<L>, offset: u64) {
        if self.policy.is_clock() {
            self.temperature.touch(self.slabs.slot_head(offset));
        } else {
            self.touch_otherwise(local, offset);
        }
    }

    #[cold]
    #[inline(never)]
    fn touch_otherwise(&self, local: &mut Local<L>, offset: u64) {
        self.temperature.touch_under(self.slabs.slot(offset), &self.policy);
        self.policy.tell_touched(&mut local.to_tell, offset);
    }

    /// A record below DRAM was read: it goes up if it is worth a better place. Whether it does.
    #[cold]
    fn consider(
        &self,
        local: &mut Local<L>,
        index: &AnyIndex,
        key: &Key<'_>,
        (from, location): (Address, Location),
        read: Option<&[u8]>,
    ) -> bool {
        let count = self.temperature.touch_below(key.hash, &self.policy);
        let in_middle = matches!(location, Location::Pmem(_));
        if in_middle && !self.goes_up_from_middle() {
            return false;
        }
        let mut value = Buffer::new();
        let view = match read.map(RecordView::decode) {
            Some(Some(view)) if view.key == key.bytes => view,
            None if L::DIRECT || in_middle => {
                match self.fetch_record(from, Some(key), Want::Value, &mut value) {
                    Fetch::Match(head) => RecordView { head, key: key.bytes, value: &value, checksum: 0 },
                    _ => return false,
                }
            }
            _ => return false,
        };
        match self.climb(index, key, (from, location), &view, count, Comes::Asked) {
            Climbed::Dram(offset) => self.policy.tell_filled(&mut local.to_tell, offset),
            Climbed::Offered => {}
            Climbed::No => return false,
        }
        true
    }

    /// A record below DRAM goes up if it is worth a better place.
    pub(crate) fn climb(
        &self,
        index: &AnyIndex,
        key: &Key<'_>,
        (from, location): (Address, Location),
        view: &RecordView<'_>,
        count: Count,
        comes: Comes,
    ) -> Climbed {
        if !matches!(view.head.meta.kind(), Kind::Value | Kind::Extent) {
            return Climbed::No;
        }
        let in_middle = matches!(location, Location::Pmem(_));
        let record = NewRecord { db: key.db, ..view.to_new() };
        let offer = || {
            let offered = self.offer_to_middle(key, from, (&view.head, &record), count, comes);
            if offered { Climbed::Offered } else { Climbed::No }
        };
        let up = if in_middle { Up::To(Tier::Dram) } else { self.up_from_page() };
        if up == Up::To(Tier::Pmem) {
            return offer();
        }
        let Some(class) = self.slabs.classes.of(record.words()) else { return Climbed::No };
        let rival = match self.temperature.rivals[class].load(Relaxed) {
            NO_RIVAL => None,
            sixteenths => Some(Count::sixteenths(sixteenths)),
        };
        if !self.policy.admits(count, rival) {
            // The hand goes on for the sake of who was read, and not of all that lies beside it.
            self.temperature.kept_out[class].fetch_add(u32::from(comes == Comes::Asked), Relaxed);
            return if up == Up::Either { offer() } else { Climbed::No };
        }
        let partition = key.hash as usize % self.slabs.partitions();
        let Some(offset) = self.slot_for_promotion(class, partition) else {
            // Background steps are behind: what is hot comes again.
            self.details.promotions_dropped.fetch_add(1, Relaxed);
            return if up == Up::Either { offer() } else { Climbed::No };
        };
        let slab = &self.slabs.table[self.slabs.slab_of(offset) as usize];
        let slot = self.slabs.slot(offset);
        slot.record().write(&record);
        slab.live.fetch_add(1, Relaxed);
        // Live before the index knows it: whoever finds it there may write over it at once.
        slot.publish(Some(from), 0, self.policy.entering(count, self.temperature.now()));
        // After it can be found: whoever takes what is here walks the slab then.
        if record.expire_at != 0 {
            slab.min_expire.fetch_min(record.expire_at, Release);
        }
        if !self.lift(index, key, from, self.locations.dram(offset)) {
            // Its home is not its own: the index refers to something else by now, which has let that go.
            self.clear_slot(offset);
            return Climbed::No;
        }
        self.details.promoted.fetch_add(1, Relaxed);
        self.temperature.enters(key.hash);
        self.details.from_middle_up.fetch_add(u64::from(in_middle), Relaxed);
        if let (Some(middle), Location::Pmem(at)) = (&self.middle, location) {
            middle.lend(at);
        }
        Climbed::Dram(offset)
    }

    /// Points the index at a record's copy in DRAM, if it refers to that place still. Not where a newer version of the key lies
    /// beside it: two of them would be in DRAM.
    pub(crate) fn lift(&self, index: &AnyIndex, key: &Key<'_>, from: Address, to: Address) -> bool {
        let verify = |at| match at {
            // Among records that need a read and one that matches, the match wins.
            at if at == from => Verdict::NeedsRead,
            at if self.is_in_dram(at, key) => Verdict::Match,
            _ => Verdict::Differs,
        };
        index.update(key, verify, |found| match found {
            Lookup::Unread(at) if at == from => (Change::Set(to), true),
            _ => (Change::Keep, false),
        })
    }

    /// Whether an address is of a slot of DRAM that holds this key's record.
    pub(crate) fn is_in_dram(&self, address: Address, key: &Key<'_>) -> bool {
        match self.locations.location(address) {
            Location::Dram(offset) => {
                let mut unused = Buffer::new();
                let fetched = fetch_words(self.slabs.record(offset), Some(key), Want::Head, &mut unused);
                matches!(fetched, Fetch::Match(_) | Fetch::Damaged(_))
            }
            Location::Pmem(_) | Location::Page(..) => false,
        }
    }

    /// A slot of this class, or of one a little larger. Of a class that has none a slab is asked for.
    fn slot_for_promotion(&self, class: usize, partition: usize) -> Option<u64> {
        let classes = &self.slabs.classes;
        let found = self.slabs.take(class, partition);
        if found.is_none() {
            self.slabs.wanting.store(class as u32, Relaxed);
        }
        let mut larger = (class + 1..classes.count()).take_while(|&larger| classes.is_near(class, larger));
        found.or_else(|| larger.find_map(|class| self.slabs.take(class, partition)))
    }
}
