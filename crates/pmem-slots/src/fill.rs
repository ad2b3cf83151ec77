//! Filling slots: their bytes, then the words that make them count.
//!
//! # Invariants
//! * The slots are free, durably: until its commit word is stored a slot counts for nothing, whatever else is in it.
//! * A commit word is stored only once all of its slot is durable, so that one that is found stands for a whole record.

use terrace_media::ByteRegion;

use super::medium::{Area, Filling};

/// Fills slots that are durably free; their records are durable when it returns.
pub fn fill<R: ByteRegion>(area: &Area<R>, slots: &[Filling], bytes: &[u8]) {
    if slots.is_empty() {
        return;
    }
    let ends = slots.iter().skip(1).map(|next| next.bytes).chain([bytes.len()]);
    for (slot, end) in slots.iter().zip(ends) {
        area.region.write_nt(area.base + slot.at, &bytes[slot.bytes..end]);
    }
    area.region.fence();
    for slot in slots {
        area.region.store_u64(area.base + slot.at, slot.commit);
        area.region.flush(area.base + slot.at, 8);
    }
    area.region.fence();
}
