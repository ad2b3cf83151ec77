//! What a store is opened with where nobody says: the library and `terrace serve` take the same.

use std::path::Path;

use terrace_engine::StoreError;

use crate::options::{Options, Tier};
use crate::size::{Size, usable_memory_bytes};
use crate::stored::superblock_at;
use crate::tiered::log_bytes_of;

/// The engine for a new store.
pub const ENGINE: &str = "tac";
/// Where a store lies.
pub const DIR: &str = "terrace-data";
/// The share of the usable memory that `dram` takes.
const DRAM: Size = Size::Percent(50.0);
/// The share of the free disk that `ssd` takes, and its bound in sizes of DRAM.
const SSD: Size = Size::Percent(75.0);
const SSD_MAX_DRAMS: u64 = 16;
/// Remembers the size of a tier that was chosen here: at the next start the free space has shrunk by the store itself.
pub const REMEMBERED: &str = "ssd-bytes";
/// What a size is rounded down to.
const STEP: u64 = 1 << 20;

/// The budget of DRAM; `None` if the machine does not tell its memory.
pub fn dram_bytes() -> Option<u64> {
    Some(DRAM.of(usable_memory_bytes()) / STEP * STEP).filter(|bytes| *bytes > 0)
}

/// The tier on the disk of `dir`, which is made: as large as it was chosen before, or else what fits beside so much DRAM. A store that
/// is there keeps its size, and so a full disk is no reason not to open it.
///
/// # Errors
/// [`StoreError::Io`] if the directory can't be examined, made or written, [`StoreError::Options`] if its disk is full.
pub fn ssd(dir: &Path, dram: u64) -> Result<Tier, StoreError> {
    let shown = dir.display();
    let place = terrace_media::detect(dir).map_err(StoreError::io(format!("can't examine {shown}")))?;
    std::fs::create_dir_all(dir).map_err(StoreError::io(format!("can't make the directory {shown}")))?;
    let remembered = dir.join(REMEMBERED);
    if let Some(bytes) = std::fs::read_to_string(&remembered).ok().and_then(|text| text.trim().parse().ok()) {
        return Ok(Tier { bytes, place: None });
    }
    if let Some(there) = superblock_at(dir) {
        let bytes = there.media_bytes.saturating_add(log_bytes_of(&there));
        return Ok(Tier { bytes, place: None });
    }
    let bytes = SSD.of(place.free_bytes).min(dram.saturating_mul(SSD_MAX_DRAMS)) / STEP * STEP;
    if bytes == 0 {
        return Err(StoreError::Options(format!(
            "no space is free at {shown}; choose another --dir, or give --ssd SIZE@PATH"
        )));
    }
    std::fs::write(&remembered, format!("{bytes}\n"))
        .map_err(StoreError::io(format!("can't write {}", remembered.display())))?;
    Ok(Tier { bytes, place: None })
}

/// Fills in what nobody said.
pub(crate) fn fill(mut options: Options) -> Result<Options, StoreError> {
    if options.dram.is_none() && options.dram_records.is_none() {
        options.dram = dram_bytes();
    }
    if !["dram", "heap-hybrid", "heap-persistent", "scmkv", "bonsai"].contains(&options.engine.as_str())
        && options.pmem.is_none()
        && options.ssd.is_none()
    {
        let dir = options.dir.get_or_insert_with(|| DIR.into());
        let dram = options.dram.or(options.dram_records).unwrap_or_else(usable_memory_bytes);
        options.ssd = Some(ssd(dir, dram)?);
    }
    Ok(options)
}
