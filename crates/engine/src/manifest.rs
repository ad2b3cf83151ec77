//! The manifest: the few facts about a store that change while it runs and that recovery starts from.
//!
//! ```text
//! 0    magic "TRCMANI1"          8    sequence of this manifest (the higher valid one of two copies counts)
//! 16   persisted page sequence   24   log floor (version)
//! 32   time high-water mark, us  40   version floor
//! 48   1 if closed cleanly, in the upper half 1 + slot of the snapshot's first block (0: none)
//! 56   flush version of each database, 16 words
//! 184  where the databases lie (4 bits each)   192  version of their last exchange
//! 200  CRC-32C of bytes 0..200   204  zero
//! ```

use crate::databases::Databases;
use crate::op::DATABASES;
use crate::version::{TICKS_MAX, Version};

/// Bytes of an encoded manifest.
pub const MANIFEST_BYTES: usize = 208;
/// No store's time stands after this, in microseconds: the year 4253.
const TIME_MAX_US: u64 = 1 << 56;
/// No sequence number of pages or manifests comes near this.
const SEQ_MAX: u64 = 1 << 62;
const MAGIC: &[u8; 8] = b"TRCMANI1";
const CRC_AT: usize = 56 + (DATABASES + 2) * 8;
const _: () = assert!(CRC_AT == 200 && CRC_AT + 8 == MANIFEST_BYTES, "the picture above is right");

/// See the module's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// Which of several manifests is the newest.
    pub sequence: u64,
    /// Pages up to this sequence number were flushed whole: a bad one among them is damage, not a torn flush.
    pub persisted_seq: u64,
    /// Log entries up to this version are durable elsewhere and must not be replayed.
    pub log_floor: u64,
    /// No later time of the store was used.
    pub time_us: u64,
    /// New versions must be above this one.
    pub version_floor: u64,
    /// Whether the store was closed cleanly.
    pub clean: bool,
    /// Where the snapshot of index and space begins that was saved as it was closed, as the space numbers places. It is told
    /// from an older one by the [`sequence`](Self::sequence) that it holds.
    pub snapshot: Option<u32>,
    /// Records of a database with at most this version are dead.
    pub flush_versions: [u64; DATABASES],
    /// Where the databases lie.
    pub databases: Databases,
    /// When they were exchanged last.
    pub databases_version: u64,
}

impl Manifest {
    /// Why the store can't be what this program wrote, whatever the checksums say: `newest` (the newest version found on the
    /// media) or something here would soon overflow. `None` if all is in range.
    pub fn senseless(&self, newest: u64) -> Option<String> {
        let newest = newest.max(self.version_floor).max(self.log_floor).max(self.newest_generation());
        if newest >> 63 != 0 || Version(newest).ticks() > TICKS_MAX || self.time_us > TIME_MAX_US {
            return Some(format!(
                "the store's newest version is {newest:#x} and its time {} us: no version is left for what would be written, \
                 and --repair makes none: a copy of the store from before its clock was set so far ahead is what opens",
                self.time_us
            ));
        }
        let number = self.persisted_seq.max(self.sequence);
        (number > SEQ_MAX)
            .then(|| format!("the manifest has a sequence number {number}: no store gets that far"))
    }
    /// The version of the newest change of whole databases; 0 for none.
    pub(crate) fn newest_generation(&self) -> u64 {
        self.flush_versions.iter().copied().fold(self.databases_version, u64::max)
    }
    /// The bytes to store.
    pub fn encode(&self) -> [u8; MANIFEST_BYTES] {
        let mut bytes = [0; MANIFEST_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        let words = [
            self.sequence,
            self.persisted_seq,
            self.log_floor,
            self.time_us,
            self.version_floor,
            u64::from(self.clean) | self.snapshot.map_or(0, |place| (u64::from(place) + 1) << 32),
        ];
        let exchanged = [self.databases.word(), self.databases_version];
        for (i, word) in words.iter().chain(&self.flush_versions).chain(&exchanged).enumerate() {
            bytes[8 + i * 8..16 + i * 8].copy_from_slice(&word.to_le_bytes());
        }
        let crc = crc32c::crc32c(&bytes[..CRC_AT]);
        bytes[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
        bytes
    }
    /// The manifest in `bytes`, `None` if there is no valid one.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..MANIFEST_BYTES)?;
        let crc = u32::from_le_bytes(bytes[CRC_AT..CRC_AT + 4].try_into().ok()?);
        if &bytes[..8] != MAGIC || crc32c::crc32c(&bytes[..CRC_AT]) != crc {
            return None;
        }
        let mut words =
            bytes[8..CRC_AT].chunks_exact(8).filter_map(|w| Some(u64::from_le_bytes(w.try_into().ok()?)));
        let mut next = || words.next().unwrap_or(0);
        let (sequence, persisted_seq, log_floor, time_us) = (next(), next(), next(), next());
        let (version_floor, closed) = (next(), next());
        Some(Self {
            sequence,
            persisted_seq,
            log_floor,
            time_us,
            version_floor,
            clean: closed as u32 == 1,
            snapshot: ((closed >> 32) as u32).checked_sub(1),
            flush_versions: std::array::from_fn(|_| next()),
            databases: Databases::from_word(next())?,
            databases_version: next(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_damage() {
        let manifest = Manifest {
            sequence: 1,
            persisted_seq: 2,
            log_floor: 3,
            time_us: 4,
            version_floor: 5,
            clean: true,
            snapshot: Some(0x0102_0304),
            flush_versions: std::array::from_fn(|i| i as u64 + 6),
            databases: Databases::default().swapped(3, 9),
            databases_version: 77,
        };
        let bytes = manifest.encode();
        assert_eq!(Manifest::decode(&bytes), Some(manifest));
        assert_eq!(bytes[48..56], [1, 0, 0, 0, 5, 3, 2, 1], "closed, and one more than the snapshot's place");
        for snapshot in [None, Some(0)] {
            let other = Manifest { snapshot, ..manifest };
            assert_eq!(Manifest::decode(&other.encode()), Some(other));
        }
        for at in 0..CRC_AT + 4 {
            let mut bad = bytes;
            bad[at] ^= 1;
            assert_eq!(Manifest::decode(&bad), None, "byte {at}");
        }
        assert_eq!(Manifest::decode(&bytes[..100]), None);
    }

    #[test]
    fn numbers_that_would_overflow_are_told() {
        let now = Manifest { time_us: 1_800_000_000_000_000, sequence: 9, ..Manifest::default() };
        assert_eq!(now.senseless(Version::new(now.time_us, 3).0), None);
        assert!(now.senseless(1 << 63).is_some());
        assert_eq!(
            now.senseless(Version::new(1 << 52 | 1, 0).0),
            None,
            "a clock may have shown a year beyond 2112"
        );
        assert!(now.senseless(Version::new(TICKS_MAX + 1, 0).0).is_some());
        let mut flush_versions = [0; DATABASES];
        flush_versions[7] = u64::MAX;
        for senseless in [
            Manifest { time_us: u64::MAX, ..now },
            Manifest { version_floor: u64::MAX, ..now },
            Manifest { log_floor: u64::MAX, ..now },
            Manifest { databases_version: u64::MAX, ..now },
            Manifest { persisted_seq: u64::MAX, ..now },
            Manifest { sequence: u64::MAX, ..now },
            Manifest { flush_versions, ..now },
        ] {
            assert!(senseless.senseless(0).is_some(), "{senseless:?}");
        }
    }
}
