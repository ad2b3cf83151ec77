//! Where what the index keeps beside its pages lies, in front of the heap's pages.
//!
//! ```text
//! root, twice | steps, twice each | lanes, a line for each stripe | counts, a word for each stripe and database
//! ```

use terrace_engine::op::DATABASES;

use super::lanes::LANE_BYTES;
use super::root::ROOT_BYTES;
use super::steps::STEP_BYTES;
use crate::layout::{LINE_BYTES, PAGE_HEADER_BYTES};

/// Steps of several keys that can be under way at once.
pub const STEPS: usize = 8;
/// Stripes at most.
const STRIPES_MAX: u64 = 4096;

/// Offsets in the region.
#[derive(Clone, Copy, Debug)]
pub struct Front {
    at: u64,
    /// Two to the power of this many buckets are in the first page: the table begins with them.
    pub base: u32,
}

impl Front {
    /// From `at` on, for pages of so many bytes.
    pub fn new(at: u64, page_bytes: usize) -> Self {
        Self { at, base: ((page_bytes - PAGE_HEADER_BYTES) / LINE_BYTES).ilog2() }
    }
    /// Buckets that the table begins with.
    pub fn first_buckets(&self) -> u64 {
        1 << self.base
    }
    /// Locks, lanes, and words of each database's count.
    pub fn stripes(&self) -> usize {
        self.first_buckets().min(STRIPES_MAX) as usize
    }
    /// A copy of the root.
    pub fn root(&self, copy: u64) -> u64 {
        self.at + copy * ROOT_BYTES
    }
    /// A copy of a step.
    pub fn step(&self, step: usize, copy: u64) -> u64 {
        self.at + 2 * ROOT_BYTES + (step as u64 * 2 + copy) * STEP_BYTES
    }
    /// A stripe's lane.
    pub fn lane(&self, stripe: usize) -> u64 {
        self.at + 2 * ROOT_BYTES + STEPS as u64 * 2 * STEP_BYTES + stripe as u64 * LANE_BYTES
    }
    /// A stripe's count of a database.
    pub fn count(&self, stripe: usize, db: u8) -> u64 {
        self.lane(self.stripes()) + (stripe * DATABASES + usize::from(db)) as u64 * 8
    }
    /// Bytes of it all.
    pub fn bytes(&self) -> u64 {
        self.count(self.stripes(), 0) - self.at
    }
}
