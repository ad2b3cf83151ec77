//! Block media in memory: what was written, and what of it a sync has made safe.

use std::io;

use parking_lot::Mutex;
use terrace_media::Counters;
use terrace_sync::yield_now;

use crate::block_format::{HEADER_BYTES, HeaderState, decode_header, super_bytes};
use crate::device::{LogDevice, Tail};

pub(super) const BLOCK_BYTES: usize = 1024;
const PAGE_BYTES: usize = 512;
const STORE_ID: u64 = 1;

pub(super) struct Device {
    /// No thread switches while it is locked.
    state: Mutex<State>,
    counters: Counters,
}

struct State {
    now: Vec<u8>,
    safe: Vec<u8>,
    /// How many writes each of them has seen.
    writes: u64,
    safe_writes: u64,
}

/// Header of block `block` in an image.
fn header(image: &[u8], block: usize) -> [u8; HEADER_BYTES] {
    let at = super_bytes(PAGE_BYTES) as usize + block * BLOCK_BYTES;
    image[at..at + HEADER_BYTES].try_into().unwrap()
}

impl State {
    fn blocks(&self) -> usize {
        (self.now.len() - super_bytes(PAGE_BYTES) as usize) / BLOCK_BYTES
    }
    /// The invariants, when block `block` is about to get a header.
    fn check(&self, block: usize, bytes: &[u8]) {
        let begun = decode_header(bytes[..HEADER_BYTES].try_into().unwrap(), STORE_ID, block as u32);
        let HeaderState::Used(begun) = begun else { return };
        assert_eq!(header(&self.now, block), header(&self.safe, block), "begun over what is not safe");
        for other in 0..self.blocks() {
            let now = header(&self.now, other);
            if let HeaderState::Used(used) = decode_header(&now, STORE_ID, other as u32)
                && used.generation <= begun.synced
            {
                assert_eq!(now, header(&self.safe, other), "a block that claims to be synced is not");
            }
        }
    }
    fn put(&mut self, offset: u64, bytes: &[u8]) {
        self.now[offset as usize..][..bytes.len()].copy_from_slice(bytes);
        self.writes += 1;
    }
}

impl Device {
    pub(super) fn new(blocks: usize) -> Self {
        let bytes = vec![0; super_bytes(PAGE_BYTES) as usize + blocks * BLOCK_BYTES];
        Self {
            state: Mutex::new(State { now: bytes.clone(), safe: bytes, writes: 0, safe_writes: 0 }),
            counters: Counters::default(),
        }
    }
}

impl LogDevice for Device {
    fn len(&self) -> u64 {
        self.state.lock().now.len() as u64
    }
    fn page_bytes(&self) -> usize {
        PAGE_BYTES
    }
    fn append(&self, _tail: &mut Tail, offset: u64, bytes: &[u8]) -> io::Result<()> {
        yield_now();
        let mut state = self.state.lock();
        let at = offset.checked_sub(super_bytes(PAGE_BYTES));
        if let Some(at) = at.filter(|at| at.is_multiple_of(BLOCK_BYTES as u64)) {
            state.check(at as usize / BLOCK_BYTES, bytes);
        }
        state.put(offset, bytes);
        drop(state);
        yield_now();
        Ok(())
    }
    fn overwrite(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        yield_now();
        self.state.lock().put(offset, bytes);
        yield_now();
        Ok(())
    }
    fn immediate(&self) -> bool {
        false
    }
    /// Covers what had been written when it began, and takes its time.
    fn sync(&self) -> io::Result<()> {
        let (covered, writes) = {
            let state = self.state.lock();
            (state.now.clone(), state.writes)
        };
        yield_now();
        yield_now();
        let mut state = self.state.lock();
        if writes > state.safe_writes {
            (state.safe, state.safe_writes) = (covered, writes);
        }
        Ok(())
    }
    fn secure(&self, _offset: u64, _len: u64) {}
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        out.copy_from_slice(&self.state.lock().now[offset as usize..][..out.len()]);
        Ok(())
    }
    fn counters(&self) -> &Counters {
        &self.counters
    }
}
