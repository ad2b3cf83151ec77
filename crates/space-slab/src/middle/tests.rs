//! Who leaves the middle tier next, and what it forgets.

use std::sync::Arc;

use terrace_blocks::{ByteTier, Reads};
use terrace_engine::record::{Head, Kind, NewRecord, RecordView};
use terrace_engine::space::{Class, Context, Room, Under};
use terrace_index::{AnyIndex, Change, Clht, Index, Verdict};
use terrace_media::HeapRegion;

use super::*;
use crate::calm::{Calm, entry_of};
use crate::location::Location;
use crate::open::{MiddleTier, SlabOptions};
use crate::placement::Placement;
use crate::read::{Climbed, Comes};
use crate::stage::Stage;
use crate::write::Local;
use terrace_pmem_slots::Fills;
use terrace_policy::Count;

const SLAB: u64 = 64 << 10;

/// A space whose middle tier is full of records that were never read.
struct Full {
    space: SlabSpace<ByteTier<HeapRegion>>,
    index: Clht,
    /// By the order in which the hand comes to them.
    slots: Vec<u64>,
    steps: MiddleSteps,
    stage: Stage,
}

impl Full {
    fn new(placement: Placement) -> Self {
        let region = |bytes| Arc::new(HeapRegion::new(bytes).unwrap());
        let options = SlabOptions { placement, ..SlabOptions::of_tests() };
        let middle = MiddleTier::new(region(4 * SLAB), (0, 4 * SLAB), String::new(), true);
        let lower = ByteTier::new(region(64 * SLAB), 0, 64 * SLAB, String::new());
        let space = SlabSpace::new(lower, Some(middle), options).unwrap();
        let index = Clht::with_min_buckets(64);
        let mut slots = Vec::new();
        let middle = space.middle.as_ref().unwrap();
        let mut fills = Fills::default();
        while let Some(at) = middle.slabs.take(Self::class(middle)) {
            let name = Self::name(slots.len());
            let key = Calm.hasher().key(0, &name);
            let entry = entry_of(key.hash, 1, 5);
            middle.slabs.add(&mut fills, at, &entry, 0, &Self::record(&name));
            index.update(&key, |_| Verdict::Differs, |_| (Change::Set(space.locations.pmem(at)), ()));
            slots.push(at);
        }
        middle.slabs.fill(&fills);
        let (steps, stage) = Default::default();
        Self { space, index, slots, steps, stage }
    }
    fn name(number: usize) -> [u8; 8] {
        (number as u64).to_le_bytes()
    }
    fn record(name: &[u8]) -> NewRecord<'_> {
        NewRecord {
            version: 5,
            kind: Kind::Value,
            db: 0,
            flags: 0,
            state: 0,
            expire_at: 0,
            token: 0,
            key: name,
            value: b"value",
        }
    }
    fn class(middle: &Middle) -> usize {
        middle.slabs.class_for(Self::record(&Self::name(0)).words()).unwrap()
    }
    fn middle(&self) -> &Middle {
        self.space.middle.as_ref().unwrap()
    }
    fn step(&mut self) {
        let Self { space, index, steps, stage, .. } = self;
        space.middle_step(steps, stage, AnyIndex::of(index), &Calm);
    }
    fn read(&self, number: usize, times: usize) {
        let hash = Calm.hasher().key(0, &Self::name(number)).hash;
        (0..times).for_each(|_| _ = self.space.temperature.touch_below(hash, &self.space.policy));
    }
    /// The count of the next to leave.
    fn rival(&self) -> u32 {
        self.middle().rivals[Self::class(self.middle())].load(Relaxed)
    }
    fn comes(&self, count: u32) -> bool {
        self.middle().admits(Self::class(self.middle()), Count::whole(count))
    }
    /// Lets a record up. Returns its slot of DRAM.
    fn lift(&self, number: usize) -> u64 {
        let (name, at) = (Self::name(number), self.slots[number]);
        let key = Calm.hasher().key(0, &name);
        let mut bytes = Vec::new();
        Self::record(&name).encode(&mut bytes);
        let view = RecordView::decode(&bytes).unwrap();
        let from = (self.space.locations.pmem(at), Location::Pmem(at));
        match self.space.climb(AnyIndex::of(&self.index), &key, from, &view, Count::whole(9), Comes::Asked) {
            Climbed::Dram(offset) => offset,
            other => panic!("{other:?}"),
        }
    }
}

/// What is hot where the hand stands keeps others out until the hand has gone on, and no longer.
#[test]
fn the_hand_goes_on_for_who_was_kept_out() {
    let mut full = Full::new(Placement::Tac);
    assert!(full.slots.len() > 900, "{}", full.slots.len());
    (0..40).for_each(|number| full.read(number, 6));
    full.step();
    assert_eq!(full.rival(), 6 * 16);
    full.step();
    assert_eq!(full.rival(), 6 * 16, "nobody came");
    let mut kept_out = 0;
    while !full.comes(2) {
        kept_out += 1;
        assert!(kept_out < 10, "the rival is {}", full.rival());
        full.step();
    }
    assert_eq!((kept_out, full.rival()), (5, 0), "40 slots, of which the coldest of eight is looked for");
}

/// Reads of a record in DRAM are none of its home's: that is the first to go, but for where PMem is to hold what DRAM does.
#[test]
fn a_home_counts_as_never_read() {
    for placement in [Placement::Tac, Placement::AntiNvm] {
        let mut full = Full::new(placement);
        (0..full.slots.len()).for_each(|number| full.read(number, 6));
        let up = full.lift(3);
        assert_eq!(full.middle().lent_slots(), 1);
        full.step();
        let expected = if placement == Placement::Tac { 0 } else { 6 * 16 };
        assert_eq!(full.rival(), expected, "{placement}");
        // Once nobody lends it, it is as others are.
        let mut local = local(&full);
        put_over(&full, &mut local, 3, full.space.locations.dram(up));
        full.space.let_homes_go(&mut local);
        assert_eq!(full.middle().lent_slots(), 0);
        full.step();
        assert_eq!(full.rival(), 6 * 16, "{placement}");
    }
}

fn local(full: &Full) -> Local<ByteTier<HeapRegion>> {
    let queue = full.space.blocks.lower.queue();
    queue.map(|queue| Local::new(Reads::new(queue), 0)).unwrap()
}

/// Sets a record that lies there. Returns its slot of DRAM.
fn put_over(
    full: &Full,
    local: &mut Local<ByteTier<HeapRegion>>,
    number: usize,
    address: terrace_index::Address,
) -> u64 {
    let name = Full::name(number);
    let record = NewRecord { version: 6, ..Full::record(&name) };
    full.space.admit_step(&Calm);
    assert!(matches!(full.space.prepare_slots(local, &[record.words()], Class::Write), Room::Ready));
    let mut bytes = Vec::new();
    Full::record(&name).encode(&mut bytes);
    let head: Head = RecordView::decode(&bytes).unwrap().head;
    let under = Under::Record { address, head: &head, forgotten: false, in_place: true };
    let (to, _) = full.space.put_record(local, under, &record);
    match full.space.locations.location(to) {
        Location::Dram(offset) => offset,
        other => panic!("{other:?}"),
    }
}

/// What is set must not be the next to leave because nobody has read the new version yet.
#[test]
fn a_put_over_a_warm_record_is_as_warm() {
    let full = Full::new(Placement::Tac);
    full.read(7, 4);
    let mut local = local(&full);
    for (number, count) in [(7, 5), (8, 1)] {
        let offset = put_over(&full, &mut local, number, full.space.locations.pmem(full.slots[number]));
        let access = full.space.slabs.slot(offset).access();
        assert_eq!(access.raw_count(), Count::whole(count), "record {number}");
    }
    // They are accesses, too: else counts would be halved late where much is set.
    full.space.rest_local(&mut local);
    assert_eq!(full.space.temperature.accesses(), 2);
}
