//! How many buckets there are, and which flush of each database its counts belong to.
//!
//! ```text
//! 0 sequence  8 buckets  16.. of each database: the flush version  144 crc of store id and 0..144:u32 zero
//! ```
//!
//! Two copies, one stored after the other, each durable before the next: a crash tears one at most, and a copy that rots is made anew
//! from the other.

use terrace_blocks::{u32_at, u64_at};
use terrace_engine::op::DATABASES;
use terrace_media::ByteRegion;

use super::front::Front;
use crate::medium::Medium;

/// Of a copy.
pub const ROOT_BYTES: u64 = 192;
const CRC_AT: usize = 16 + DATABASES * 8;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    sequence: u64,
    /// How many: all that linear hashing has to know.
    pub buckets: u64,
    /// The counts of a database are those since this flush.
    pub flushed: [u64; DATABASES],
}

impl Root {
    /// Of a table with so many buckets.
    pub fn new(buckets: u64) -> Self {
        Self { sequence: 0, buckets, flushed: [0; DATABASES] }
    }
    fn encode(&self, store_id: u64) -> [u8; ROOT_BYTES as usize] {
        let mut bytes = [0; ROOT_BYTES as usize];
        bytes[..8].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.buckets.to_le_bytes());
        bytes[16..CRC_AT].copy_from_slice(self.flushed.map(u64::to_le_bytes).as_flattened());
        let crc = crc32c::crc32c_append(crc32c::crc32c(&store_id.to_le_bytes()), &bytes[..CRC_AT]);
        bytes[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
        bytes
    }
    fn decode(bytes: &[u8; ROOT_BYTES as usize], store_id: u64) -> Option<Self> {
        let root = Self {
            sequence: u64_at(bytes, 0),
            buckets: u64_at(bytes, 8),
            flushed: std::array::from_fn(|db| u64_at(bytes, 16 + db * 8)),
        };
        (u32_at(bytes, CRC_AT) == u32_at(&root.encode(store_id), CRC_AT)).then_some(root)
    }
    /// Stores the next one; durable when it returns.
    pub fn save<R: ByteRegion>(&mut self, medium: &Medium<R>, front: &Front) {
        self.sequence += 1;
        self.save_copies(medium, front, [0, 1]);
    }
    fn save_copies<R: ByteRegion>(&self, medium: &Medium<R>, front: &Front, copies: [u64; 2]) {
        for copy in copies {
            medium.region.write_nt(front.root(copy), &self.encode(medium.store_id));
            medium.region.fence();
        }
    }
    /// The newest copy, and both are it when this returns; `None` if neither holds together.
    pub fn load<R: ByteRegion>(medium: &Medium<R>, front: &Front) -> Option<Self> {
        let copies = [0, 1].map(|copy| {
            let mut bytes = [0; ROOT_BYTES as usize];
            medium.region.read(front.root(copy), &mut bytes);
            Self::decode(&bytes, medium.store_id)
        });
        let newest = copies.into_iter().flatten().max_by_key(|root| root.sequence)?;
        if copies[0] != copies[1] {
            // The other one first: what is stored next may be cut off in what would be the only one.
            let older = u64::from(copies[0] == Some(newest));
            newest.save_copies(medium, front, [older, 1 - older]);
        }
        Some(newest)
    }
}
