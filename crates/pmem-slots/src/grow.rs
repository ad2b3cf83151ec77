//! More slabs behind those that there are.
//!
//! # Invariants
//! Nobody looks at them before it is stored how many there are, and that happens only once they are known here, durably: a header
//! of zeros would be damage.

use std::io;

use terrace_media::ByteRegion;

use super::layout::SlabHeader;
use super::medium::{Area, Medium};

/// Makes the medium longer, up to the end of the last of these slabs, and makes them known; durable when it returns.
pub fn grow<R: ByteRegion>(area: &Area<R>, headers: &[SlabHeader], slab_bytes: usize) -> io::Result<()> {
    let Some(last) = headers.last() else { return Ok(()) };
    area.resize((u64::from(last.slab) + 1) * slab_bytes as u64)?;
    for header in headers {
        let start = area.base + u64::from(header.slab) * slab_bytes as u64;
        area.region.write_nt(start, &header.encode());
    }
    area.region.fence();
    Ok(())
}
