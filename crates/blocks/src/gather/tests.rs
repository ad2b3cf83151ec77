//! Power goes while pieces of large values are gathered.

use std::sync::Arc;

use terrace_engine::hash::KeyHasher;
use terrace_engine::manifest::Manifest;
use terrace_engine::record::Kind;
use terrace_engine::space::{Arrived, Replaced, Room};
use terrace_engine::{Barrier, Progress};
use terrace_media_sim::{Access, Fault, FaultKind, SimBlock};

use terrace_engine::space::Context;

use super::*;
use crate::block_tier::BlockTier;
use crate::freeing::Freeing;
use crate::pieces::{Piece, pieces};
use crate::reads::Reads;

const BLOCK_BYTES: usize = 8 << 10;
const BLOCKS: usize = 16;

type Tier = Blocks<BlockTier<SimBlock>>;

/// Whatever is waited for has come: here the device alone is in doubt.
pub(crate) struct Come;

impl Context for Come {
    fn advance_epoch(&self) -> u64 {
        0
    }
    fn epoch_passed(&self, _epoch: u64) -> bool {
        true
    }
    fn barrier(&self) -> Barrier {
        Barrier::default()
    }
    fn barrier_passed(&self, _barrier: &Barrier) -> bool {
        true
    }
    fn trusts(&self, _seq: u64) -> bool {
        true
    }
    fn settled(&self, _version: u64) -> bool {
        unreachable!()
    }
    fn logged(&self) -> bool {
        unreachable!()
    }
    fn log_floor(&self) -> u64 {
        unreachable!()
    }
    fn flush_wanted(&self) -> u64 {
        unreachable!()
    }
    fn flush_version(&self, _db: u8) -> u64 {
        unreachable!()
    }
    fn now_ms(&self) -> u64 {
        unreachable!()
    }
    fn raise_version_floor(&self, _version: u64) {
        unreachable!()
    }
    fn forgotten(&self, _kind: Kind) {
        unreachable!()
    }
    fn poisoned(&self, _kind: Kind, _db: u8, _expires: bool) {
        unreachable!()
    }
    fn recount(&self, _db: u8, _version: u64, _found: Option<Replaced>) {
        unreachable!()
    }
    fn tombstones_and_keys(&self) -> (u64, u64) {
        unreachable!()
    }
    fn hasher(&self) -> KeyHasher {
        unreachable!()
    }
}

fn tier(device: &SimBlock) -> Tier {
    let lower = BlockTier::new(Arc::new(device.clone()), 0, String::new());
    Blocks::new(lower, BLOCK_BYTES, 1).unwrap()
}

fn store(blocks: &Tier, value: &[u8], description: &mut Vec<u8>) -> Result<(), Option<Room>> {
    blocks.store_extent(value, &blocks.parts_of(value, None), description)
}

/// A tier, and in it a value that is about to be gathered for the second time: the slot that its description names is gone, so that
/// nothing but the table of a block says where the value is.
struct Mover {
    device: SimBlock,
    blocks: Tier,
    freeing: Freeing,
    value: Vec<u8>,
    description: Vec<u8>,
    piece: Piece,
}

impl Mover {
    fn new() -> Self {
        let device = SimBlock::from_image(vec![0; (BLOCKS + 1) * BLOCK_BYTES]);
        device.keep_history();
        let blocks = tier(&device);
        blocks.save_manifest(&Manifest::default().encode()).unwrap();
        // A block each, so that the last one lies high up.
        let mut stored = Vec::new();
        for i in 0..10u8 {
            let value = vec![i; BLOCK_BYTES / 2];
            let mut description = Vec::new();
            store(&blocks, &value, &mut description).unwrap();
            stored.push((value, description));
        }
        blocks.close_open_extents();
        blocks.sync_extents().unwrap();
        let (value, description) = stored.pop().unwrap();
        let mut freeing = Freeing::default();
        for (_, description) in &stored {
            blocks.forget_extent(description);
            blocks.begin_freeing(&mut freeing, pieces(description).unwrap().2[0].slot, 0, &Come);
        }
        let piece = pieces(&description).unwrap().2[0];
        let mut mover = Self { device, blocks, freeing, value, description, piece };
        assert_eq!(mover.clear(), Progress::Worked);
        mover.move_below(8).unwrap();
        assert_eq!(mover.clear(), Progress::Worked);
        assert!(mover.blocks.end_tier());
        mover.blocks.finish_shrinking().unwrap();
        mover
    }
    fn move_below(&mut self, end: u32) -> io::Result<()> {
        let from = self.blocks.find_piece(self.piece).unwrap().slot;
        assert!(from >= end, "{from}");
        self.blocks.set_end(end);
        self.gather(from)
    }
    fn gather(&mut self, from: u32) -> io::Result<()> {
        let mut gathering = Gathering::default();
        assert!(self.blocks.gather(&mut gathering, from)?);
        assert!(self.blocks.seal_staged(&mut gathering)?);
        assert_eq!(gathering.take_gained(), 0, "one for one");
        self.blocks.begin_freeing(&mut self.freeing, from, 0, &Come);
        Ok(())
    }
    /// Clears what waits to be free.
    fn clear(&mut self) -> Progress {
        let mut step = || self.blocks.free_ready(&mut self.freeing, u64::MAX, &Come, &mut |_| unreachable!());
        let first = step();
        while first == Progress::Worked && step() == Progress::Worked {}
        first
    }
    /// Power has gone: of all that was written since the last sync, anything may be lost. How many blocks with the value an opening
    /// finds, and what that reads.
    fn reopen(self, seed: u64) -> (usize, Option<Vec<u8>>) {
        self.device.lose_unsynced(seed);
        let blocks = tier(&SimBlock::from_image(self.device.to_bytes()));
        blocks.scan_blocks(0, 1, &|_, _| {}, &|_, _, _| {}).unwrap();
        let found = blocks.slots.iter().filter(|slot| slot.state() == State::Extents).count();
        blocks.adopt_pieces(&self.description);
        let mut reads = Reads::new(blocks.lower.queue().unwrap());
        assert!(blocks.start_extent(&mut reads, &self.description, 1));
        let mut arrivals = Vec::new();
        blocks.reap_reads(&mut reads, true, &mut arrivals);
        match arrivals.pop().unwrap().outcome {
            Arrived::Extent(bytes) => (found, Some(bytes.to_vec())),
            _ => (found, None),
        }
    }
}

/// Power goes at each of the syncs of a move in turn: that of the copy, that of its header, and that of clearing its source.
#[test]
fn a_value_is_found_wherever_its_move_is_cut_short() {
    for sync in 0..3 {
        let mut times_found = [0; 3];
        for seed in 0..24 {
            let mut mover = Mover::new();
            mover.device.inject(Fault::new(Access::Sync, FaultKind::Io).after(sync));
            let cut_short = mover.move_below(4).is_err() || mover.clear() == Progress::Blocked;
            assert!(cut_short && mover.device.faults_fired() == 1);
            let value = mover.value.clone();
            let (found, read) = mover.reopen(seed);
            times_found[found] += 1;
            assert!(
                read == Some(value),
                "sync {sync}, seed {seed}: {found} blocks have it, and it is not read"
            );
        }
        // Two, where the copy has its header and the source still has its own.
        assert_eq!(times_found[0], 0);
        assert!(times_found[1] > 0 && (times_found[2] > 0) == (sync > 0), "sync {sync}: {times_found:?}");
    }
}

/// Sparse blocks of 64 KiB.
struct Sparse {
    device: SimBlock,
    blocks: Tier,
    /// Values that live, with their descriptions.
    living: Vec<(Vec<u8>, Vec<u8>)>,
}

const WIDE: usize = 64 << 10;

fn wide(device: &SimBlock) -> Tier {
    Blocks::new(BlockTier::new(Arc::new(device.clone()), 0, String::new()), WIDE, 1).unwrap()
}

impl Sparse {
    /// Of five values one lives.
    fn new() -> Self {
        Self::of(|i| i % 5 == 0)
    }
    /// Values of which these live.
    fn of(lives: fn(usize) -> bool) -> Self {
        let device = SimBlock::from_image(vec![0; 24 * WIDE]);
        let blocks = wide(&device);
        blocks.save_manifest(&Manifest::default().encode()).unwrap();
        let mut living = Vec::new();
        for i in 0..80usize {
            let value = vec![i as u8; 3000 + i * 97 % 9000];
            let mut description = Vec::new();
            store(&blocks, &value, &mut description).unwrap();
            if lives(i) { living.push((value, description)) } else { blocks.forget_extent(&description) }
        }
        blocks.close_open_extents();
        blocks.sync_extents().unwrap();
        Self { device, blocks, living }
    }
    fn sparse(&self) -> Vec<u32> {
        (0..self.blocks.slots.len() as u32).filter(|&number| self.blocks.extent_gain(number) > 0).collect()
    }
    fn free(&self, freeing: &mut Freeing) -> usize {
        for (number, slot) in self.blocks.slots.iter().enumerate() {
            if slot.state() == State::Extents && slot.live_bytes.load(SeqCst) == 0 {
                self.blocks.begin_freeing(freeing, number as u32, 0, &Come);
            }
        }
        while self.blocks.free_ready(freeing, u64::MAX, &Come, &mut |_| unreachable!()) == Progress::Worked {}
        self.blocks.free_slots()
    }
}

fn read(blocks: &Tier, description: &[u8]) -> Option<Vec<u8>> {
    let mut reads = Reads::new(blocks.lower.queue().unwrap());
    assert!(blocks.start_extent(&mut reads, description, 1));
    let mut arrivals = Vec::new();
    blocks.reap_reads(&mut reads, true, &mut arrivals);
    match arrivals.pop().unwrap().outcome {
        Arrived::Extent(bytes) => Some(bytes.to_vec()),
        _ => None,
    }
}

#[test]
fn what_lives_in_sparse_blocks_is_put_together_and_what_goes_meanwhile_is_not() {
    let Sparse { device, blocks, mut living } = Sparse::new();
    let sparse = Sparse { device: device.clone(), blocks, living: Vec::new() };
    let (used, mut freeing) = (sparse.sparse().len(), Freeing::default());
    let before = sparse.free(&mut freeing);
    assert!(used > 6, "{used}");
    let mut gathering = Gathering::default();
    for number in sparse.sparse() {
        assert!(sparse.blocks.gather(&mut gathering, number).unwrap());
    }
    let gone = living.pop().unwrap();
    sparse.blocks.forget_extent(&gone.1);
    assert!(sparse.blocks.seal_staged(&mut gathering).unwrap());
    let gained = gathering.take_gained();
    assert!(gained * 2 > used as i64, "{gained} of {used}");
    // One may have held nothing but what went.
    assert!(sparse.free(&mut freeing) as i64 >= before as i64 + gained);
    for (value, description) in &living {
        assert!(read(&sparse.blocks, description).as_ref() == Some(value));
    }
    // What was gathered goes like anything else, once.
    let live = |blocks: &Tier| blocks.slots.iter().map(|slot| slot.live_bytes.load(SeqCst)).sum::<i64>();
    let expected: usize = living.iter().map(|(value, _)| value.len()).sum();
    assert_eq!(live(&sparse.blocks), expected as i64);
    let (value, description) = living.pop().unwrap();
    sparse.blocks.forget_extent(&description);
    sparse.blocks.forget_extent(&description);
    assert_eq!(live(&sparse.blocks), (expected - value.len()) as i64);
    // An opening finds each where it was gathered to, and nothing else.
    drop(sparse.blocks);
    let again = wide(&device);
    again.scan_blocks(0, 1, &|_, _| {}, &|_, _, _| {}).unwrap();
    living.iter().for_each(|(_, description)| again.adopt_pieces(description));
    again.clear_torn().unwrap();
    again.clear_unadopted().unwrap();
    assert_eq!(live(&again), (expected - value.len()) as i64);
    for (value, description) in &living {
        assert!(read(&again, description).as_ref() == Some(value));
    }
    let held: usize = (0..again.slots.len()).map(|number| again.held_in(number as u32).len()).sum();
    let pieces: usize = living.iter().map(|(_, description)| pieces(description).unwrap().2.len()).sum();
    assert_eq!(held, pieces);
}

/// Where all before the end was sparse and nothing free, nothing could move, and writes were refused.
#[test]
fn what_frees_two_blocks_before_the_end_of_a_tier_that_shrinks_may_lie_behind_it() {
    let sparse = Sparse::new();
    let (blocks, victims) = (&sparse.blocks, sparse.sparse());
    let is_used = |blocks: &Tier, number: usize| blocks.slots[number].state() != State::Free;
    let last = |blocks: &Tier| (0..blocks.slots.len()).rfind(|&number| is_used(blocks, number)).unwrap();
    let end = last(blocks) + 1;
    blocks.set_end(end as u32);
    blocks.free.slots.lock().clear();
    let beyond = |blocks: &Tier| last(blocks) >= end;
    let mut gathering = Gathering::default();
    assert!(blocks.gather(&mut gathering, victims[0]).unwrap());
    assert!(!blocks.seal_staged(&mut gathering).unwrap() && !beyond(blocks), "it gains nothing");
    assert!(blocks.gather(&mut gathering, victims[1]).unwrap());
    assert!(blocks.seal_staged(&mut gathering).unwrap() && beyond(blocks));
    assert_eq!(gathering.take_gained(), 1);
    for (value, description) in &sparse.living {
        assert!(read(blocks, description).as_ref() == Some(value));
    }
}

/// Blocks are so dense that one that is full frees no more than one: the next ones are sparser.
#[test]
fn what_fills_a_block_may_lie_behind_the_end_of_a_tier_that_shrinks() {
    let sparse = Sparse::of(|i| i % 5 != 0);
    let (blocks, victims) = (&sparse.blocks, sparse.sparse());
    assert!(victims.len() > 6);
    blocks.set_end(victims.iter().max().unwrap() + 1);
    blocks.free.slots.lock().clear();
    let (mut gathering, mut gained) = (Gathering::default(), 0);
    for number in victims {
        assert!(blocks.gather(&mut gathering, number).unwrap());
        gained += gathering.take_gained();
    }
    assert!(gained > 0, "{gained}");
    for (value, description) in &sparse.living {
        assert!(read(blocks, description).as_ref() == Some(value));
    }
}

#[test]
fn gathering_gains_what_is_reckoned_however_small_the_pieces_are() {
    for bytes in [40, 520, 1030, 2600, 7000] {
        let device = SimBlock::from_image(vec![0; 40 * WIDE]);
        let blocks = wide(&device);
        blocks.save_manifest(&Manifest::default().encode()).unwrap();
        let mut description = Vec::new();
        for i in 0..240usize {
            description.clear();
            store(&blocks, &vec![i as u8; bytes], &mut description).unwrap();
        }
        blocks.close_open_extents();
        blocks.sync_extents().unwrap();
        let sparse = Sparse { device: device.clone(), blocks, living: Vec::new() };
        let victims = sparse.sparse();
        let each = victims.iter().map(|&number| (number, sparse.blocks.extent_gain(number)));
        let reckoned = sparse.blocks.gains(each).extents;
        let mut gathering = Gathering::default();
        for number in victims {
            assert!(sparse.blocks.gather(&mut gathering, number).unwrap());
        }
        assert!(sparse.blocks.seal_staged(&mut gathering).unwrap());
        let gained = gathering.take_gained() * WIDE as i64;
        assert!(gained >= reckoned as i64, "{bytes}: {gained} gained, {reckoned} reckoned");
    }
}

#[test]
fn a_snapshot_knows_what_was_gathered() {
    let Sparse { device, blocks, living } = Sparse::new();
    let mut gathering = Gathering::default();
    let sparse = Sparse { device: device.clone(), blocks, living: Vec::new() };
    let victims = sparse.sparse();
    let blocks = sparse.blocks;
    for number in victims {
        assert!(blocks.gather(&mut gathering, number).unwrap());
    }
    assert!(blocks.seal_staged(&mut gathering).unwrap());
    let mut writer = blocks.begin_snapshot();
    blocks.save_table(&mut writer).unwrap();
    let parts = writer.parts();
    let head = writer.finish(1, b"").unwrap();
    let again = wide(&device);
    let reader = again.open_snapshot(head, 1).unwrap();
    let table = again.load_table(&reader, 0..parts).unwrap();
    again.survey(&reader, &table, 0, 1).unwrap();
    reader.restore(&table);
    let freed: Vec<u32> = (0..again.slots.len() as u32).filter(|&n| again.held_in(n).is_empty()).collect();
    // Where they were written is free, and anything may be there.
    for number in freed {
        if again.slots[number as usize].state() == State::Extents {
            again.slots[number as usize].seq.store(0, SeqCst);
        }
    }
    for (value, description) in &living {
        assert!(read(&again, description).as_ref() == Some(value));
    }
    assert_eq!(again.slots.iter().map(|slot| slot.live_bytes.load(SeqCst)).sum::<i64>(), {
        living.iter().map(|(value, _)| value.len() as i64).sum::<i64>()
    });
}

/// Blocks may be short while another goes on with what it has.
#[test]
fn what_fits_in_the_open_block_waits_for_no_other() {
    let blocks = wide(&SimBlock::from_image(vec![0; 24 * WIDE]));
    store(&blocks, &[1; 10_000], &mut Vec::new()).unwrap();
    blocks.free.slots.lock().clear();
    store(&blocks, &[2; 10_000], &mut Vec::new()).unwrap();
    assert_eq!(store(&blocks, &[3; WIDE], &mut Vec::new()), Err(Some(Room::Wait)));
}
