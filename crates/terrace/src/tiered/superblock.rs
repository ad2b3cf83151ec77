//! The superblock of a store over tiers: made, checked, and what follows from it.

use std::path::Path;

use terrace_engine::StoreError;
use terrace_media::{ByteRegion, SUPERBLOCK_BYTES, Superblock, SuperblockError};

use super::striped::Label;
use super::{Engine, Sizes, sizes};
use crate::Options;

/// A superblock for a new store.
pub(super) fn new_superblock<E: Engine>(
    options: &Options,
    sizes: &Sizes,
    media_bytes: u64,
) -> Result<Superblock, StoreError> {
    let identity =
        terrace_media::superblock::random_identity().map_err(StoreError::io("reading random bytes"))?;
    let drawn = u64::from_le_bytes(std::array::from_fn(|i| identity[i] ^ 0x5a)).rotate_left(17);
    let created = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    Ok(Superblock {
        engine: E::NAME.into(),
        options: sizes::encode(sizes)?.into_bytes(),
        identity,
        hash_seed: options.hash_seed.unwrap_or(drawn),
        media_bytes,
        created_ms: created.map_or(0, |d| d.as_millis() as u64),
    })
}

/// Checks a stored superblock and takes the store's sizes from it.
///
/// # Errors
/// [`StoreError::Options`] if it is another engine's or the medium is too short; [`StoreError::Corrupt`] if it is damaged.
pub(crate) fn check_superblock<E: Engine>(
    bytes: &[u8; SUPERBLOCK_BYTES],
    media_bytes: u64,
    place: &Path,
) -> Result<(Superblock, Sizes), StoreError> {
    let wrong = |error: SuperblockError| match error {
        SuperblockError::OtherEngine { .. } | SuperblockError::TooShort { .. } => {
            StoreError::Options(format!("{}: {error}", place.display()))
        }
        other => StoreError::Corrupt(format!(
            "{}: {other}; nothing was changed: if a store was here, put this page back from a copy of it",
            place.display()
        )),
    };
    let superblock = Superblock::decode(bytes).map_err(wrong)?;
    superblock.check(E::NAME, media_bytes).map_err(wrong)?;
    let text = String::from_utf8_lossy(&superblock.options).into_owned();
    if let Some(label) = Label::of(&superblock) {
        return Err(label.refuse_alone(place));
    }
    let sizes = sizes::decode(&text).map_err(|error| {
        StoreError::Corrupt(format!("{}: the superblock's sizes: {error}", place.display()))
    })?;
    Ok((superblock, sizes))
}

/// Bytes of blocks between the copies of a store's manifest.
pub(crate) fn apart_of(superblock: &Superblock) -> u64 {
    let sizes = sizes::decode(&String::from_utf8_lossy(&superblock.options));
    sizes.map_or(0, |sizes| sizes.apart())
}

/// Bytes of the log that lies beside the blocks of a store; 0 if it lies elsewhere, or that can't be read.
pub(crate) fn log_bytes_of(superblock: &Superblock) -> u64 {
    let sizes = sizes::decode(&String::from_utf8_lossy(&superblock.options));
    sizes.ok().filter(|sizes| sizes.pmem_bytes.is_none()).map_or(0, |sizes| sizes.log_bytes)
}

/// The store's identity as blocks and log carry it: the first word, never 0.
pub(crate) fn store_id(superblock: &Superblock) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| superblock.identity[i])) | 1
}

/// How long the store on a device is, if there is one: the device may be longer.
pub(crate) fn stored_bytes<R: ByteRegion>(region: &R) -> Option<u64> {
    let mut bytes = [0; SUPERBLOCK_BYTES];
    if region.len() < bytes.len() as u64 {
        return None;
    }
    region.read(0, &mut bytes);
    Superblock::decode(&bytes).ok().map(|superblock| superblock.media_bytes)
}
