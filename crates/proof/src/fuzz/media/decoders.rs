//! Decoders of single structures, with their checksums made right: what is decoded encodes to the same again.

use terrace_engine::databases::Databases;
use terrace_engine::manifest::{MANIFEST_BYTES, Manifest};
use terrace_engine::record::RecordView;
use terrace_media::{SUPERBLOCK_BYTES, Superblock};

use super::seal;
use crate::fuzz::Target;

/// The manifest.
pub(in crate::fuzz) static MANIFEST: Target = Target {
    name: "manifest",
    corpus: "manifest",
    about: "a manifest whose checksum is right",
    bytes_max: MANIFEST_BYTES + 8,
    words: &["TRCMANI1"],
    run: |input| {
        let mut bytes = [0; MANIFEST_BYTES];
        bytes[..input.len().min(MANIFEST_BYTES)].copy_from_slice(&input[..input.len().min(MANIFEST_BYTES)]);
        bytes[..8].copy_from_slice(b"TRCMANI1");
        bytes[MANIFEST_BYTES - 4..].fill(0);
        // No two databases lie in one place.
        let word = u64::from_le_bytes(std::array::from_fn(|i| bytes[MANIFEST_BYTES - 24 + i]));
        let databases = Databases::from_word(word).unwrap_or_default();
        bytes[MANIFEST_BYTES - 24..MANIFEST_BYTES - 16].copy_from_slice(&databases.word().to_le_bytes());
        seal::manifest(&mut bytes);
        let manifest = Manifest::decode(&bytes).ok_or("its checksum is right")?;
        if Manifest::decode(&manifest.encode()) != Some(manifest) {
            return Err(format!("{manifest:?} does not read back"));
        }
        // As it came, too.
        Manifest::decode(input);
        Ok(())
    },
};

/// The superblock.
pub(in crate::fuzz) static SUPERBLOCK: Target = Target {
    name: "superblock",
    corpus: "superblock",
    about: "a superblock, as it came and with its checksum made right",
    bytes_max: SUPERBLOCK_BYTES,
    words: &["TERRACE1", "hetermm", "block_bytes = ", "log_bytes = "],
    run: |input| {
        let _any = Superblock::decode(input);
        let mut bytes = [0; SUPERBLOCK_BYTES];
        bytes[..input.len()].copy_from_slice(input);
        bytes[..8].copy_from_slice(b"TERRACE1");
        let crc = crc32c::crc32c(&bytes[..SUPERBLOCK_BYTES - 4]);
        bytes[SUPERBLOCK_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
        let Ok(superblock) = Superblock::decode(&bytes) else { return Ok(()) };
        let again = superblock.encode().map_err(|error| format!("decoded, and can't be encoded: {error}"))?;
        if Superblock::decode(&again).as_ref() != Ok(&superblock) {
            return Err(format!("{superblock:?} does not read back"));
        }
        Ok(())
    },
};

/// The record.
pub(in crate::fuzz) static RECORD: Target = Target {
    name: "record",
    corpus: "record",
    about: "a record, as it came",
    bytes_max: 512,
    words: &[],
    run: |input| {
        let Some(view) = RecordView::decode(input) else { return Ok(()) };
        let used = view.head.meta.used_words() * 8;
        if view.key.len() + view.value.len() > used
            || view.head.meta.used_words() > view.head.meta.slot_words()
        {
            return Err(format!("{:?} in {used} bytes", view.head));
        }
        let mut again = Vec::new();
        view.to_new().encode(&mut again);
        let other = RecordView::decode(&again).ok_or("written again, and no record")?;
        if (other.key, other.value, other.head.version) != (view.key, view.value, view.head.version) {
            return Err(format!("{:?} was written again as {:?}", view.head, other.head));
        }
        Ok(())
    },
};
