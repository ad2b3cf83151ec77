//! The two copies of the manifest in front of the blocks (`docs/formats/manifest.md`).

use std::io;

use terrace_engine::manifest::{MANIFEST_BYTES, Manifest};
use terrace_media::read_agreed;

use crate::lower::Lower;

/// Bytes of the two manifest copies in front of the blocks.
pub fn manifest_area<L: Lower>() -> u64 {
    2 * manifest_unit::<L>()
}

/// Bytes of one copy, with what is stored behind it.
pub fn manifest_unit<L: Lower>() -> u64 {
    L::UNIT.max(256) as u64
}

fn manifests<L: Lower>(lower: &L) -> io::Result<[Option<Manifest>; 2]> {
    let mut copies = [None; 2];
    for (at, copy) in copies.iter_mut().enumerate() {
        let mut bytes = [0; MANIFEST_BYTES];
        // An older copy is as whole as the newest.
        read_agreed(&mut bytes, |bytes| lower.read(at as u64 * manifest_unit::<L>(), bytes))?;
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
    lower.secure(0, manifest_area::<L>() as usize);
    lower.sync()
}

/// The copy of the manifest that can be spared, 0 or 1: to be written first, for a crash may tear it.
///
/// # Errors
/// The device's.
pub fn older_copy<L: Lower>(lower: &L) -> io::Result<u64> {
    Ok(spare(manifests(lower)?.map(|copy| copy.map(|manifest| manifest.sequence))))
}

fn spare(sequences: [Option<u64>; 2]) -> u64 {
    // None, a copy that is no use, is less than any.
    u64::from(sequences[1] < sequences[0])
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
