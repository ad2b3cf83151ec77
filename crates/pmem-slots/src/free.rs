//! Letting slots go on the medium.
//!
//! # Invariants
//! * What a slot held is superseded, durably, and nobody reads it any more: who calls has waited for that.
//! * A slot is filled again only once this has returned: else the crash of a fill would leave the old commit word over new bytes.

use terrace_media::ByteRegion;

use super::medium::Area;

/// Clears the commit words of slots that start there; durable when it returns.
pub fn clear<R: ByteRegion>(area: &Area<R>, slots: &[u64]) {
    if slots.is_empty() {
        return;
    }
    for &at in slots {
        area.region.store_u64(area.base + at, 0);
        area.region.flush(area.base + at, 8);
    }
    area.region.fence();
}
