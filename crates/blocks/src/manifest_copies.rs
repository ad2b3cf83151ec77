//! The two copies of the manifest (`docs/formats/manifest.md`): one in front of the blocks, and one far behind it, so that no one place
//! on a medium that goes bad takes both. (Small ones of tests have them side by side.)
//!
//! ```text
//!   | copy 0 | block 0 | ... | block k-1 | copy 1 | block k | ...       k blocks have manifests_apart() bytes
//! ```

use std::io;

use terrace_engine::manifest::{MANIFEST_BYTES, Manifest};
use terrace_media::read_agreed;

use crate::blocks::Blocks;
use crate::lower::Lower;

/// Bytes of the two manifest copies.
pub fn manifest_area<L: Lower>() -> u64 {
    2 * manifest_unit::<L>()
}

/// Bytes of one copy, with what is stored behind it.
pub fn manifest_unit<L: Lower>() -> u64 {
    L::UNIT.max(256) as u64
}

/// Where a copy begins.
pub fn manifest_at<L: Lower>(lower: &L, copy: u64) -> u64 {
    copy * (manifest_unit::<L>() + lower.manifests_apart())
}

/// Where a block begins.
pub fn block_at<L: Lower>(lower: &L, slot: u32, block_bytes: usize) -> u64 {
    let bytes = block_bytes as u64;
    let copies = if u64::from(slot) < slots_between(lower, block_bytes) { 1 } else { 2 };
    copies * manifest_unit::<L>() + u64::from(slot) * bytes
}

/// Blocks between the copies: no tier has fewer.
pub fn slots_between<L: Lower>(lower: &L, block_bytes: usize) -> u64 {
    lower.manifests_apart() / block_bytes as u64
}

/// Reads bytes of a copy; zeros where the tier is too short for it.
pub(crate) fn read_copy<L: Lower>(lower: &L, copy: u64, skip: usize, out: &mut [u8]) -> io::Result<()> {
    let at = manifest_at(lower, copy) + skip as u64;
    if at + out.len() as u64 > lower.len() {
        out.fill(0);
        return Ok(());
    }
    lower.read(at, out)
}

fn manifests<L: Lower>(lower: &L) -> io::Result<[Option<Manifest>; 2]> {
    let mut copies = [None; 2];
    for (at, copy) in copies.iter_mut().enumerate() {
        let mut bytes = [0; MANIFEST_BYTES];
        // An older copy is as whole as the newest.
        read_agreed(&mut bytes, |bytes| read_copy(lower, at as u64, 0, bytes))?;
        *copy = Manifest::decode(&bytes);
    }
    Ok(copies)
}

/// The newest manifest stored on a tier, `None` if there is none.
///
/// # Errors
/// The device's.
pub fn stored_manifest<L: Lower>(lower: &L) -> io::Result<Option<Manifest>> {
    Ok(manifests(lower)?.into_iter().flatten().max_by_key(|manifest| manifest.sequence))
}

/// Makes what a process that died left on the tier safe from power loss, before anything rests on it: on block media all of
/// it, on byte-addressable media the manifest; blocks follow as they are scanned.
///
/// # Errors
/// The device's.
pub fn secure_found<L: Lower>(lower: &L) -> io::Result<()> {
    for copy in 0..2 {
        lower.secure(manifest_at(lower, copy), manifest_unit::<L>() as usize);
    }
    lower.sync()
}

/// The copy of the manifest that can be spared: to be written first, for a crash may tear it.
fn older_copy<L: Lower>(lower: &L) -> io::Result<u64> {
    Ok(spare(manifests(lower)?.map(|copy| copy.map(|manifest| manifest.sequence))))
}

fn spare(sequences: [Option<u64>; 2]) -> u64 {
    // None, a copy that is no use, is less than any.
    u64::from(sequences[1] < sequences[0])
}

impl<L: Lower> Blocks<L> {
    /// Stores a manifest, with how many slots there are and how many have been written; it is durable afterwards.
    ///
    /// # Errors
    /// The device's, which counts as failed then.
    ///
    /// # Panics
    /// If `bytes` are more than a manifest has.
    #[track_caller]
    pub fn save_manifest(&self, bytes: &[u8]) -> io::Result<()> {
        self.store_copies(&mut self.manifest_copies.lock(), bytes)
    }

    /// The same; `same` is what `manifest_copies` holds.
    #[track_caller]
    pub(crate) fn store_copies(&self, same: &mut bool, bytes: &[u8]) -> io::Result<()> {
        let mut unit = vec![0; manifest_unit::<L>() as usize];
        unit[..bytes.len()].copy_from_slice(bytes);
        self.written.encode(&self.slots, self.store_id, &mut unit);
        self.size.encode(self.store_id, &mut unit);
        let first = if *same { 0 } else { older_copy(&self.lower)? };
        *same = false;
        // Both, one after the other: a crash may tear one, and rot in one must not bring an older manifest back, with what was
        // flushed or freed since.
        for copy in [first, 1 - first] {
            // No closure: what makes it durable is to be named by the caller's line (see `Lower`).
            let stored = match self.lower.write(manifest_at(&self.lower, copy), &unit) {
                Ok(()) => self.lower.sync(),
                failed => failed,
            };
            if let Err(error) = stored {
                self.failure.fail("storing the manifest", &error);
                return Err(error);
            }
        }
        *same = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::spare;

    #[test]
    fn the_only_newest_manifest_is_written_last() {
        assert_eq!(spare([Some(7), Some(6)]), 1);
        assert_eq!(spare([Some(6), Some(7)]), 0);
        assert_eq!(spare([Some(7), None]), 1, "a rotten copy goes first, whatever its turn");
        assert_eq!(spare([None, Some(7)]), 0);
        assert_eq!(spare([Some(7), Some(7)]), 0);
    }
}
