#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use terrace_engine::hash::KeyHasher;
use terrace_media::{HeapRegion, settle};

use super::super::layout::FP_WORDS;
use super::*;
use crate::medium::Geometry;

const HOME: u32 = 0;
const AWAY: u32 = 1;

/// Two NUMA nodes; slot 0 is at home.
struct Bed {
    nodes: Nodes<HeapRegion>,
    copies: Arc<HeapRegion>,
}

impl Bed {
    fn new(coherence: Coherence) -> Self {
        let geometry = Geometry { page_bytes: 2048, buckets: 0, bytes: 80 << 10 };
        let region = Arc::new(HeapRegion::new(geometry.bytes).unwrap());
        let copies = Arc::new(HeapRegion::new(64 << 10).unwrap());
        let far =
            Far { homes: Homes::new(2, geometry.bytes / 2, Vec::new()), copies: copies.clone(), coherence };
        let medium = Arc::new(Medium::new(region, 0, geometry, 1));
        let nodes = Nodes::new(medium, KeyHasher::new(7), Some(far));
        nodes.slots.add_page(0);
        nodes.slots.begin(0, &Seen::new(0, [0; FP_WORDS], 1, 0, false));
        settle(AWAY);
        Self { nodes, copies }
    }
    /// Puts a record into a place of slot 0 and lets others go, as a round does.
    fn put(&self, at: usize, value: &[u8], gone: u64) {
        let entry = Entry::inline(b"k", value, 1);
        let place = self.nodes.place_of_entry(0, at);
        let bytes = entry.encode(1, place);
        self.nodes.medium.region.write(self.nodes.medium.at(place), &bytes);
        let seen = self.nodes.slots.descriptor(0).read();
        let bitmap = (seen.bitmap() | 1 << at) & !gone;
        self.nodes.slots.change(0, &seen.with(bitmap, seen.fps));
        let key = 0..1;
        let coming = [Coming { at: at as u8, fp: 0, entry, key }];
        self.nodes.replicas.as_ref().unwrap().update(&self.nodes, 0, &seen, gone, &coming);
    }
    /// What a reader who is away finds there.
    fn read(&self, at: usize) -> u8 {
        let entry = self.nodes.read_near(self.nodes.place_of_entry(0, at)).unwrap();
        entry.texts().1[0]
    }
    /// Lines of the tier and of copies that a read there takes.
    fn costs(&self, at: usize) -> (u64, u64) {
        let lines = &self.nodes.replicas.as_ref().unwrap().stamps.lines;
        let now = || (lines.far_pmem.snapshot().reads, lines.near_pmem.snapshot().reads);
        let before = now();
        self.read(at);
        (now().0 - before.0, now().1 - before.1)
    }
}

#[test]
fn an_entry_that_is_read_often_from_another_node_is_read_there() {
    for coherence in [Coherence::SelfInvalidate, Coherence::Invalidate, Coherence::Update] {
        let bed = Bed::new(coherence);
        bed.put(0, b"1", 0);
        assert_eq!(bed.costs(0), (1, 0), "it may never be read again");
        assert_eq!(bed.costs(0), (1, 0), "it is copied");
        assert_eq!(bed.costs(0), (0, 1));
        settle(HOME);
        assert_eq!((bed.read(0), bed.costs(0)), (b'1', (0, 0)), "at home nobody asks for copies");
    }
}

#[test]
fn what_takes_a_place_is_found_there() {
    for coherence in [Coherence::SelfInvalidate, Coherence::Invalidate, Coherence::Update] {
        // All places are read, or one alone, whose copy stays where it is while others count.
        for read_each in [1, 3] {
            let bed = Bed::new(coherence);
            bed.put(0, b"1", 0);
            (0..3).for_each(|_| assert_eq!(bed.read(0), b'1'));
            // Places are taken in turn, and those that are read are read often before.
            for turn in 1..2000_usize {
                let (from, to) = ((turn - 1) % 3, turn % 3);
                let value = [b'a' + (turn % 26) as u8];
                bed.put(to, &value, 1 << from);
                for _ in 0..3 * usize::from(turn % read_each == 0) {
                    assert_eq!(bed.read(to), value[0], "{coherence:?}, turn {turn}");
                }
            }
        }
    }
}

#[test]
fn an_era_lasts_until_a_place_is_taken_that_was_let_go_in_it() {
    let bed = Bed::new(Coherence::SelfInvalidate);
    bed.put(0, b"1", 0);
    bed.put(1, b"2", 0);
    (0..3).for_each(|_| assert_eq!(bed.read(0), b'1'));
    bed.put(2, b"3", 2);
    assert_eq!(bed.nodes.slots.let_go(0), 2);
    assert_eq!(bed.costs(0), (0, 1), "its neighbours' changes are nothing to it");
    bed.put(1, b"4", 0);
    assert_eq!(bed.costs(0), (1, 0), "another entry is where one was that may have been copied");
    assert_eq!(bed.nodes.slots.let_go(0), 0);
}

/// Schedule 3 of the papers: a copy must not look fresh again.
#[test]
fn schedule_3_no_copy_counts_in_an_era_that_comes_round_again() {
    let bed = Bed::new(Coherence::SelfInvalidate);
    bed.put(0, b"1", 0);
    (0..3).for_each(|_| assert_eq!(bed.read(0), b'1'));
    assert_eq!(bed.costs(0), (0, 1));
    let seen = bed.nodes.slots.descriptor(0).read();
    let era = || bed.nodes.slots.descriptor(0).counting().unwrap().era_of(0).unwrap();
    let first = era();
    let mut changes = 0_u64;
    // The node is another one each time, and what is in its place another record.
    while changes == 0 || era() != first {
        bed.nodes.slots.begin(0, &seen);
        changes += 1;
    }
    assert_eq!(changes, 1 << 16, "all eras have been");
    let place = bed.nodes.place_of_entry(0, 0);
    bed.nodes.medium.region.write(bed.nodes.medium.at(place), &Entry::inline(b"k", b"2", 9).encode(1, place));
    assert_eq!(bed.read(0), b'2');
}

/// Schedule 3: after a restart no copy counts, whatever memory for copies holds.
#[test]
fn schedule_3_no_copy_counts_after_a_restart() {
    let bed = Bed::new(Coherence::SelfInvalidate);
    bed.put(0, b"1", 0);
    (0..3).for_each(|_| assert_eq!(bed.read(0), b'1'));
    let again = Bed { copies: bed.copies.clone(), ..Bed::new(Coherence::SelfInvalidate) };
    again.put(0, b"2", 0);
    let whole: Vec<u8> = {
        let mut bytes = vec![0; bed.copies.len() as usize];
        bed.copies.read(0, &mut bytes);
        bytes
    };
    assert!(whole.iter().any(|byte| *byte != 0), "there was a copy");
    let replicas = again.nodes.replicas.as_ref().unwrap();
    replicas.far.copies.write(0, &whole);
    assert_eq!(again.read(0), b'2');
}

#[test]
fn a_copy_that_is_damaged_is_no_copy() {
    let bed = Bed::new(Coherence::SelfInvalidate);
    bed.put(0, b"1", 0);
    (0..3).for_each(|_| assert_eq!(bed.read(0), b'1'));
    let mut bytes = vec![0; bed.copies.len() as usize];
    bed.copies.read(0, &mut bytes);
    bytes.iter_mut().filter(|byte| **byte == b'1').for_each(|byte| *byte = b'9');
    bed.copies.write(0, &bytes);
    assert_eq!(bed.read(0), b'1');
}

#[test]
fn a_writer_updates_copies_where_that_is_how_they_go_on() {
    let bed = Bed::new(Coherence::Update);
    bed.put(0, b"1", 0);
    (0..3).for_each(|_| assert_eq!(bed.read(0), b'1'));
    bed.put(1, b"2", 1);
    assert_eq!(bed.costs(1), (0, 1), "the copy is there before anybody has read it");
    assert_eq!(bed.read(1), b'2');
}

#[test]
fn what_was_copied_and_is_written_again_is_copied_when_it_is_read() {
    let bed = Bed::new(Coherence::SelfInvalidate);
    bed.put(0, b"1", 0);
    (0..3).for_each(|_| assert_eq!(bed.read(0), b'1'));
    bed.put(1, b"2", 1);
    assert_eq!(bed.costs(1), (1, 0));
    assert_eq!(bed.costs(1), (0, 1));
}

#[test]
fn of_two_keys_with_one_fingerprint_the_first_one_has_its_copy() {
    let bed = Bed::new(Coherence::SelfInvalidate);
    bed.put(0, b"1", 0);
    bed.put(1, b"2", 0);
    (0..3).for_each(|_| assert_eq!(bed.read(0), b'1'));
    for _ in 0..20 {
        assert_eq!((bed.costs(1), bed.costs(0)), ((1, 0), (0, 1)));
        assert_eq!((bed.read(1), bed.read(0)), (b'2', b'1'));
    }
}
