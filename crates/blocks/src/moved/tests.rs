//! Power goes while a block of large values moves.

use std::sync::Arc;

use terrace_engine::hash::KeyHasher;
use terrace_engine::manifest::Manifest;
use terrace_engine::record::Kind;
use terrace_engine::space::{Arrived, Replaced};
use terrace_engine::{Barrier, Progress};
use terrace_media_sim::{Access, Fault, FaultKind, SimBlock};

use super::*;
use crate::block_tier::BlockTier;
use crate::pieces::pieces;
use crate::reads::Reads;

const BLOCK_BYTES: usize = 8 << 10;
const BLOCKS: usize = 16;

type Tier = Blocks<BlockTier<SimBlock>>;

/// Whatever is waited for has come: here the device alone is in doubt.
struct Come;

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

/// A tier, and in it a block that is about to move for the second time: the slot that the value's description names is gone, so that
/// nothing but the header of its copy says where the value is.
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
            blocks.store_extent(&[&value], &mut description).unwrap();
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
        assert!(mover.blocks.finish_shrinking().unwrap());
        mover
    }
    fn move_below(&mut self, end: u32) -> io::Result<()> {
        let from = self.blocks.find_piece(self.piece).unwrap().slot;
        assert!(from >= end, "{from}");
        self.blocks.set_end(end);
        self.blocks.move_extents(from, &mut self.freeing, &Come).map(|moved| assert!(moved))
    }
    /// Clears what waits to be free.
    fn clear(&mut self) -> Progress {
        self.blocks.free_ready(&mut self.freeing, u64::MAX, &Come, &mut |_| unreachable!())
    }
    /// Power has gone: of all that was written since the last sync, anything may be lost. How many blocks with the value an opening
    /// finds, and what that reads.
    fn reopen(self, seed: u64) -> (usize, Option<Vec<u8>>) {
        self.device.lose_unsynced(seed);
        let blocks = tier(&SimBlock::from_image(self.device.to_bytes()));
        blocks.scan_blocks(0, 1, &|_, _| {}, &|_, _, _| {}).unwrap();
        let found =
            (0..blocks.slots.len()).filter(|&slot| blocks.has_seq(slot as u32, self.piece.seq)).count();
        blocks.adopt_pieces(&self.description);
        let mut reads = Reads::new(blocks.lower.queue().unwrap());
        assert!(blocks.start_extent(&mut reads, &self.description, 1));
        let mut arrivals = Vec::new();
        blocks.reap_reads(&mut reads, true, &mut arrivals);
        match arrivals.pop().unwrap().outcome {
            Arrived::Extent(bytes) => (found, Some(bytes)),
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
