//! The first 4096 bytes of a store's medium: what it is, who wrote it, and with which options.
//!
//! ```text
//!   offset  bytes
//!        0      8  magic "TERRACE1"
//!        8      4  format version
//!       12      4  length of the options
//!       16     24  engine's name, padded with zeros
//!       40     16  identity: random, the same on all media of a store
//!       56      8  seed of the key hash
//!       64      8  size of the medium in bytes
//!       72      8  created, milliseconds since the Unix epoch
//!       80   2048  options, the caller's encoding, padded with zeros
//!     2128   1964  reserved: zeros, and not looked at
//!     4092      4  CRC-32C of the 4092 bytes before
//! ```
//!
//! All numbers are little-endian.
//!
//! Byte-addressable media have no file beside them that could say "unfinished", and a word of the superblock may be lost while
//! its neighbour is kept. There [`MAKING`] stands in the magic's place until everything behind it is durable; then the magic
//! replaces it, one aligned word.
//!
//! # Invariants
//! Size, magic, version and checksum keep their places in every later version, so that an older program can tell
//! a newer store from a damaged one.

use std::io::{self, Read};

/// Bytes of an encoded superblock.
pub const SUPERBLOCK_BYTES: usize = 4096;

/// Longest options, in bytes.
pub const OPTIONS_BYTES_MAX: usize = 2048;

/// Longest engine name, in bytes.
pub const ENGINE_BYTES_MAX: usize = 24;

/// The version that this program writes, and the one that it reads.
pub const FORMAT_VERSION: u32 = 4;

/// Where the magic would be: the store was never finished, and holds nothing.
pub const MAKING: [u8; 8] = *b"TERRMAKE";

/// What the superblock of a finished store begins with.
pub const MAGIC: [u8; 8] = *b"TERRACE1";

const VERSION_AT: usize = 8;
const OPTIONS_LEN_AT: usize = 12;
const ENGINE_AT: usize = 16;
const IDENTITY_AT: usize = ENGINE_AT + ENGINE_BYTES_MAX;
const HASH_SEED_AT: usize = IDENTITY_AT + 16;
const MEDIA_BYTES_AT: usize = HASH_SEED_AT + 8;
const CREATED_AT: usize = MEDIA_BYTES_AT + 8;
const OPTIONS_AT: usize = CREATED_AT + 8;
const RESERVED_AT: usize = OPTIONS_AT + OPTIONS_BYTES_MAX;
const CHECKSUM_AT: usize = SUPERBLOCK_BYTES - 4;

const _: () = assert!(IDENTITY_AT == 40 && HASH_SEED_AT == 56 && OPTIONS_AT == 80);
const _: () = assert!(RESERVED_AT == 2128 && RESERVED_AT < CHECKSUM_AT);

/// What a medium says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// The engine whose format the rest of the medium is in.
    pub engine: String,
    /// Options that the medium's format depends on, in the caller's encoding.
    pub options: Vec<u8>,
    /// Random, and the same on all media of a store, so that media of two stores can't be mixed up.
    pub identity: [u8; 16],
    /// Seed of the key hash.
    pub hash_seed: u64,
    /// Size of the medium in bytes.
    pub media_bytes: u64,
    /// When it was made, in milliseconds since the Unix epoch.
    pub created_ms: u64,
}

/// Why a medium can't be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SuperblockError {
    /// It doesn't begin like one.
    #[error("not a terrace store: its first bytes are {found:02x?}")]
    NotTerrace {
        /// What it begins with.
        found: Vec<u8>,
    },
    /// Its bytes were changed after they were written, or were never written in full.
    #[error("superblock damaged: checksum {computed:#010x}, but {stored:#010x} is stored")]
    Checksum {
        /// What the bytes give.
        computed: u32,
        /// What they should give.
        stored: u32,
    },
    /// Another program wrote it, or none did.
    #[error(
        "format version {found}, and this program reads {FORMAT_VERSION}: use the terrace that it was made by"
    )]
    Version {
        /// The medium's version.
        found: u32,
    },
    /// The checksum is right and the contents make no sense.
    #[error("superblock makes no sense: {0}")]
    Senseless(&'static str),
    /// Another engine's format.
    #[error("the store was made by engine {found:?} and can't be opened with {wanted:?}")]
    OtherEngine {
        /// The medium's engine.
        found: String,
        /// The engine that was asked for.
        wanted: String,
    },
    /// The medium was cut off, or is another one.
    #[error(
        "the medium holds {actual} bytes, but {recorded} are recorded: it was truncated, or a part is missing; put it back from a copy of the store"
    )]
    TooShort {
        /// Its size now.
        actual: u64,
        /// Its size when it was made.
        recorded: u64,
    },
    /// It can't be encoded.
    #[error("{what} takes {len} bytes, and {max} is the most")]
    TooLong {
        /// Which field.
        what: &'static str,
        /// Its length.
        len: usize,
        /// The limit.
        max: usize,
    },
}

impl Superblock {
    /// The bytes to write.
    ///
    /// # Errors
    /// [`SuperblockError::TooLong`] if the options or the engine's name don't fit, [`SuperblockError::Senseless`] if
    /// the name is empty or holds a zero.
    pub fn encode(&self) -> Result<[u8; SUPERBLOCK_BYTES], SuperblockError> {
        fits("the engine's name", self.engine.len(), ENGINE_BYTES_MAX)?;
        fits("the options", self.options.len(), OPTIONS_BYTES_MAX)?;
        if self.engine.is_empty() || self.engine.contains('\0') {
            return Err(SuperblockError::Senseless("the engine's name is empty or holds a zero"));
        }
        let mut bytes = [0; SUPERBLOCK_BYTES];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, &MAGIC);
        put(VERSION_AT, &FORMAT_VERSION.to_le_bytes());
        put(OPTIONS_LEN_AT, &(self.options.len() as u32).to_le_bytes());
        put(ENGINE_AT, self.engine.as_bytes());
        put(IDENTITY_AT, &self.identity);
        put(HASH_SEED_AT, &self.hash_seed.to_le_bytes());
        put(MEDIA_BYTES_AT, &self.media_bytes.to_le_bytes());
        put(CREATED_AT, &self.created_ms.to_le_bytes());
        put(OPTIONS_AT, &self.options);
        let checksum = crc32c::crc32c(&bytes[..CHECKSUM_AT]);
        bytes[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        Ok(bytes)
    }

    /// What the bytes say; they are trusted no further than their checksum.
    ///
    /// # Errors
    /// `NotTerrace`, `Checksum`, `Version`, `Senseless`, in this order.
    pub fn decode(bytes: &[u8]) -> Result<Self, SuperblockError> {
        let Some(bytes) = bytes.first_chunk::<SUPERBLOCK_BYTES>().filter(|bytes| bytes.starts_with(&MAGIC))
        else {
            return Err(SuperblockError::NotTerrace {
                found: bytes[..bytes.len().min(MAGIC.len())].to_vec(),
            });
        };
        let (computed, stored) = (crc32c::crc32c(&bytes[..CHECKSUM_AT]), u32_at(bytes, CHECKSUM_AT));
        if computed != stored {
            return Err(SuperblockError::Checksum { computed, stored });
        }
        let found = u32_at(bytes, VERSION_AT);
        if found != FORMAT_VERSION {
            return Err(SuperblockError::Version { found });
        }
        let options_len = u32_at(bytes, OPTIONS_LEN_AT) as usize;
        if options_len > OPTIONS_BYTES_MAX {
            return Err(SuperblockError::Senseless("its options are longer than their place"));
        }
        let engine = bytes[ENGINE_AT..IDENTITY_AT].split(|byte| *byte == 0).next().unwrap_or_default();
        let engine = std::str::from_utf8(engine).ok().filter(|engine| !engine.is_empty());
        Ok(Self {
            engine: engine.ok_or(SuperblockError::Senseless("its engine has no name"))?.into(),
            options: bytes[OPTIONS_AT..OPTIONS_AT + options_len].to_vec(),
            identity: array_at(bytes, IDENTITY_AT),
            hash_seed: u64::from_le_bytes(array_at(bytes, HASH_SEED_AT)),
            media_bytes: u64::from_le_bytes(array_at(bytes, MEDIA_BYTES_AT)),
            created_ms: u64::from_le_bytes(array_at(bytes, CREATED_AT)),
        })
    }

    /// What the bytes say where [`MAKING`] stands in the magic's place yet; as [`decode`](Self::decode) of others.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    pub fn decode_unfinished(bytes: &[u8]) -> Result<Self, SuperblockError> {
        match bytes.strip_prefix(&MAKING) {
            None => Self::decode(bytes),
            Some(rest) => Self::decode(&[&MAGIC, rest].concat()),
        }
    }

    /// Whether `engine` may open the medium, which is `media_bytes` long now.
    ///
    /// # Errors
    /// [`SuperblockError::OtherEngine`], [`SuperblockError::TooShort`].
    pub fn check(&self, engine: &str, media_bytes: u64) -> Result<(), SuperblockError> {
        if self.engine != engine {
            return Err(SuperblockError::OtherEngine { found: self.engine.clone(), wanted: engine.into() });
        }
        if media_bytes < self.media_bytes {
            return Err(SuperblockError::TooShort { actual: media_bytes, recorded: self.media_bytes });
        }
        Ok(())
    }
}

/// An identity for a new store, from the kernel.
///
/// # Errors
/// If the kernel's source of randomness can't be read.
pub fn random_identity() -> io::Result<[u8; 16]> {
    let mut identity = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut identity)?;
    Ok(identity)
}

fn fits(what: &'static str, len: usize, max: usize) -> Result<(), SuperblockError> {
    if len > max { Err(SuperblockError::TooLong { what, len, max }) } else { Ok(()) }
}

/// The `N` bytes at `at`, which must lie inside.
fn array_at<const N: usize>(bytes: &[u8; SUPERBLOCK_BYTES], at: usize) -> [u8; N] {
    std::array::from_fn(|i| bytes[at + i])
}

fn u32_at(bytes: &[u8; SUPERBLOCK_BYTES], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}

#[cfg(test)]
mod tests;
