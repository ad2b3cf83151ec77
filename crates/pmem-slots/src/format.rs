//! Giving a slab to a class: at its first use, or after all its slots of another class were let go.
//!
//! # Invariants
//! * No slot of the slab counts: all are free, durably. So the slab may stop being of its class before it is of another.
//! * While its slots are made the header's magic is zero, durably: nothing in the slab is looked at. It is stored, alone in its
//!   fence, once all else is durable.

use terrace_media::ByteRegion;

use super::layout::{GRANULE, SLAB_HEADER_BYTES, SlabHeader, slots_in};
use super::medium::{Area, place};

/// Makes all slots of a slab free slots of the header's class and use; durable when it returns.
pub fn format<R: ByteRegion>(area: &Area<R>, header: &SlabHeader, slab_bytes: usize) {
    let start = area.base + u64::from(header.slab) * slab_bytes as u64;
    area.region.store_u64(start, 0);
    area.region.flush(start, 8);
    area.region.fence();
    let line = header.encode();
    let slot_bytes = usize::from(header.granules) * GRANULE;
    for slot in 0..slots_in(slab_bytes, header.granules) {
        let offset = (SLAB_HEADER_BYTES + slot * slot_bytes) as u32;
        area.region.write_nt(start + u64::from(offset), &place(header, offset).free_head());
    }
    area.region.write_nt(start + 8, &line[8..]);
    area.region.fence();
    let mut magic = [0; 8];
    magic.copy_from_slice(&line[..8]);
    area.region.store_u64(start, u64::from_le_bytes(magic));
    area.region.flush(start, 8);
    area.region.fence();
}
