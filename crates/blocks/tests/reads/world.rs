//! Blocks on a simulated device, and a session that reads them: what it started, and what came of it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;

use terrace_blocks::{BLOCK_HEADER_BYTES, BlockTier, Blocks, Image, Lower, Place, Reads, State};
use terrace_engine::hash::KeyHasher;
use terrace_engine::record::{Kind, NewRecord, RecordView};
use terrace_engine::space::{Arrival, Arrived};
use terrace_media::BlockDevice;
use terrace_media_sim::{QueueOrder, SimBlock};

pub const BLOCK_BYTES: usize = 64 << 10;
const SLOTS: usize = 20;

/// A record as it was written: the key names the use of the slot, and the record's number in it.
#[derive(Clone)]
pub struct Written {
    pub place: Place,
    pub bytes: usize,
    key: Vec<u8>,
}

/// What came of a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The record that was asked for.
    Own,
    /// The slot was used again since the start, and that is what was said.
    Reused,
    /// The same, although it was not.
    Moved,
    Damaged,
    Failed,
}

pub struct World {
    pub device: SimBlock,
    blocks: Blocks<BlockTier<SimBlock>>,
    reads: Reads<BlockTier<SimBlock>>,
    /// What is asked for, with the use of the slot at that time.
    asked: HashMap<u64, (Written, u64)>,
    pub outcomes: HashMap<u64, Outcome>,
    tokens: u64,
    reads_before: u64,
}

impl World {
    pub fn new() -> Self {
        let device = SimBlock::from_image(vec![0; (SLOTS + 2) * BLOCK_BYTES]);
        let tier = BlockTier::new(Arc::new(device.clone()), 0, String::new());
        let blocks = Blocks::new(tier, BLOCK_BYTES, 1).unwrap();
        let reads = Reads::new(blocks.lower.queue().unwrap());
        let (asked, outcomes) = (HashMap::new(), HashMap::new());
        Self { device, blocks, reads, asked, outcomes, tokens: 0, reads_before: 0 }
    }
    /// A new queue whose reads complete so. Nothing may be in flight.
    pub fn set_order(&mut self, order: QueueOrder) {
        self.device.set_queue_order(order);
        self.reads = Reads::new(self.blocks.lower.queue().unwrap());
    }
    /// Where a slot's block starts on the device.
    pub fn offset(&self, slot: u32) -> u64 {
        self.blocks.block_offset(slot)
    }

    /// Uses a slot anew, with records of values of these lengths, and writes the block.
    pub fn fill(&mut self, slot: u32, lengths: &[usize]) -> Vec<Written> {
        let written = self.begin(slot, lengths);
        self.write(slot, lengths);
        written
    }
    /// The same, but the block is not written yet.
    pub fn begin(&mut self, slot: u32, lengths: &[usize]) -> Vec<Written> {
        let seq = self.blocks.last_seq.fetch_add(1, SeqCst) + 1;
        let entry = &self.blocks.slots[slot as usize];
        entry.begin(State::Mutable, seq, None, 0);
        let (written, bytes) = encode(slot, seq, lengths);
        entry.used_bytes.store((BLOCK_HEADER_BYTES + bytes.len()) as u32, Release);
        written
    }
    pub fn write(&mut self, slot: u32, lengths: &[usize]) {
        let entry = &self.blocks.slots[slot as usize];
        let (_, records) = encode(slot, entry.seq.load(Acquire), lengths);
        let mut image = Image::default();
        self.blocks
            .draw(slot, KeyHasher::new(1), &mut image, |_, out| out.extend_from_slice(&records))
            .unwrap();
        assert_eq!(image.bytes().len(), BLOCK_BYTES, "the records fit the block");
        self.blocks.lower.write(self.blocks.block_offset(slot), image.bytes()).unwrap();
        entry.set_state(State::Sealed);
    }

    pub fn start(&mut self, record: &Written, hint: Option<usize>) {
        assert!(self.try_start(record, hint), "the queue is full");
    }
    pub fn try_start(&mut self, record: &Written, hint: Option<usize>) -> bool {
        if self.asked.is_empty() {
            self.reads_before = self.device.counters().snapshot().reads;
        }
        let token = self.tokens + 1;
        if !self.blocks.start_record(&mut self.reads, record.place, hint, token) {
            return false;
        }
        self.tokens = token;
        let seq = self.blocks.slots[record.place.slot as usize].seq.load(Acquire);
        self.asked.insert(token, (record.clone(), seq));
        true
    }
    pub fn reap(&mut self, wait: bool) {
        let mut arrivals = Vec::new();
        self.blocks.reap_reads(&mut self.reads, wait, &mut arrivals);
        for arrival in arrivals {
            self.judge(arrival);
        }
    }
    fn judge(&mut self, Arrival { token, outcome }: Arrival) {
        let (asked, seq) = &self.asked[&token];
        let reused = self.blocks.slots[asked.place.slot as usize].seq.load(Acquire) != *seq;
        let outcome = match outcome {
            Arrived::Record(bytes) => {
                let view = RecordView::decode(&bytes).unwrap();
                assert_eq!(
                    String::from_utf8_lossy(view.key),
                    String::from_utf8_lossy(&asked.key),
                    "token {token}"
                );
                assert!(!reused, "token {token} got a record of an earlier use");
                Outcome::Own
            }
            Arrived::Moved if reused => Outcome::Reused,
            Arrived::Moved => Outcome::Moved,
            Arrived::Damaged { hash, .. } => {
                assert_eq!(hash, KeyHasher::new(1).key(0, &asked.key).hash, "token {token}");
                Outcome::Damaged
            }
            Arrived::Failed => Outcome::Failed,
            Arrived::Extent(_) => panic!("token {token} asked for a record"),
        };
        assert_eq!(self.outcomes.insert(token, outcome), None, "token {token} arrived twice");
    }
    pub fn reap_all(&mut self) {
        while self.outcomes.len() < self.asked.len() {
            let before = (self.outcomes.len(), self.device.counters().snapshot().reads);
            self.reap(true);
            let after = (self.outcomes.len(), self.device.counters().snapshot().reads);
            assert_ne!(before, after, "nothing is in flight, and somebody waits");
        }
        self.reap(false);
    }
    /// All that was started has arrived, exactly once, and well.
    pub fn all_arrive(&mut self, well: impl Fn(Outcome) -> bool) {
        self.reap_all();
        for (token, outcome) in &self.outcomes {
            assert!(well(*outcome), "token {token}: {outcome:?}");
        }
    }
    pub fn count(&self, kind: Outcome) -> usize {
        self.outcomes.values().filter(|outcome| **outcome == kind).count()
    }
    pub fn device_reads(&self) -> u64 {
        self.device.counters().snapshot().reads - self.reads_before
    }
    pub fn merged(&self) -> u64 {
        self.blocks.counts.reads_merged.load(Relaxed)
    }

    /// Writes a large value; its description.
    pub fn store_large(&mut self, value: &[u8]) -> Vec<u8> {
        let mut description = Vec::new();
        self.blocks.store_extent(value, &self.blocks.parts_of(value, None), &mut description).unwrap();
        self.reads_before = self.device.counters().snapshot().reads;
        description
    }
    pub fn start_large(&mut self, description: &[u8]) {
        self.tokens += 1;
        assert!(self.blocks.start_extent(&mut self.reads, description, self.tokens));
    }
    /// What comes, until nothing more does.
    pub fn large_arrivals(&mut self) -> Vec<Arrived> {
        let (mut all, mut tokens) = (Vec::new(), Vec::new());
        loop {
            let mut arrivals = Vec::new();
            self.blocks.reap_reads(&mut self.reads, true, &mut arrivals);
            if arrivals.is_empty() {
                return all;
            }
            for Arrival { token, outcome } in arrivals {
                assert!(!tokens.contains(&token), "token {token} arrived twice");
                tokens.push(token);
                all.push(outcome);
            }
        }
    }
}

fn encode(slot: u32, seq: u64, lengths: &[usize]) -> (Vec<Written>, Vec<u8>) {
    let (mut written, mut bytes) = (Vec::new(), Vec::new());
    for (i, length) in lengths.iter().enumerate() {
        let key = format!("slot {slot} use {seq} record {i}").into_bytes();
        let value = vec![i as u8; *length];
        let start = bytes.len();
        let record = NewRecord {
            version: seq << 16 | i as u64,
            kind: Kind::Value,
            db: 0,
            flags: 0,
            state: 0,
            expire_at: 0,
            token: 0,
            key: &key,
            value: &value,
        };
        record.encode(&mut bytes);
        let place = Place { slot, offset: (BLOCK_HEADER_BYTES + start) as u32 };
        written.push(Written { place, bytes: bytes.len() - start, key });
    }
    (written, bytes)
}
