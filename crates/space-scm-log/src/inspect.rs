//! Reading a store that nobody has open, for `terrace check`: nothing is changed. Each word of the hash table is followed.

use std::sync::Arc;

use terrace_blocks::Stored;
use terrace_engine::hash::KeyHasher;
use terrace_engine::manifest::Manifest;
use terrace_engine::op::DATABASES;
use terrace_engine::record::Kind as RecordKind;
use terrace_log::{ByteLog, LogError, LogOptions, LogReport};
use terrace_media::ByteRegion;

use crate::large;
use crate::layout::Kind;
use crate::medium::{Geometry, Medium};
use crate::table::PmTable;

/// What is not as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A record that is damaged: its key answers an error.
    Record {
        /// Where its entry starts, from the first page on.
        place: u64,
    },
    /// A large value of which a part is damaged: its key answers an error.
    Value {
        /// Where its record's entry starts.
        place: u64,
    },
    /// A bucket, or its chain: keys of it that are not found answer an error.
    Bucket {
        /// Which.
        bucket: u64,
    },
    /// Neither copy of what is known of a page: the store does not open.
    Page {
        /// Which.
        page: u32,
    },
    /// No copy of the table's root: the store does not open.
    Root,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Examined {
    /// The copies of the manifest.
    pub manifests: Option<[Stored<Manifest>; 2]>,
    /// Pages, those of them that are free or blocks of the log, and those of chains.
    pub pages: (u64, u64, u64),
    /// Keys that the root says each database has.
    pub counted: [u64; DATABASES],
    /// Keys that the table leads to.
    pub keys: [u64; DATABASES],
    /// Records that the table leads to: values, large ones.
    pub records: [u64; 2],
    /// Bytes of them.
    pub record_bytes: u64,
    /// Bytes of large values.
    pub large_bytes: u64,
    /// Whether a round was cut off: an opening makes it again.
    pub is_coming: bool,
    /// Whether an opening counts all keys anew.
    pub is_uncertain: bool,
    /// What is not as it should be.
    pub faults: Vec<Fault>,
}

/// Reads a store that starts at byte `base` of a region. `flushed` says up to which version records of each database count for nothing.
pub fn examine<R: ByteRegion>(
    region: Arc<R>,
    base: u64,
    (geometry, store_id): (Geometry, u64),
    hasher: KeyHasher,
    progress: &dyn Fn(u64, u64),
) -> Examined {
    let medium = Arc::new(Medium::new(region, base, geometry, store_id));
    let mut found = Examined { manifests: Some(medium.stored_copies()), ..Examined::default() };
    let flushed = medium.stored_manifest().unwrap_or_default().flush_versions;
    for page in 0..geometry.pages() as u32 {
        found.pages.0 += 1;
        match medium.page_line(page) {
            None => found.faults.push(Fault::Page { page }),
            Some(line) if line.kind == Kind::Free => found.pages.1 += 1,
            Some(line) => found.pages.2 += u64::from(line.kind == Kind::Chains),
        }
    }
    match medium.newest_root() {
        None => found.faults.push(Fault::Root),
        Some(root) => {
            found.counted = root.keys;
            found.is_coming = !root.is_committed;
            found.is_uncertain = root.is_uncertain;
        }
    }
    let table = PmTable::new(medium.clone(), hasher);
    let mut bytes = Vec::new();
    for bucket in 0..table.buckets() {
        if bucket % 4096 == 0 {
            progress(bucket, table.buckets());
        }
        let contents = table.contents(bucket);
        if contents.is_lost {
            found.faults.push(Fault::Bucket { bucket });
        }
        for element in contents.elements {
            let place = element.at();
            let Some(view) = medium.read_entry(place, &mut bytes) else {
                found.faults.push(Fault::Record { place });
                continue;
            };
            let db = usize::from(view.head.meta.db());
            if view.head.version <= flushed[db] {
                continue;
            }
            found.keys[db] += 1;
            found.record_bytes += view.head.meta.used_words() as u64 * 8;
            let is_large = view.head.meta.kind() == RecordKind::Extent;
            found.records[usize::from(is_large)] += 1;
            if is_large {
                found.large_bytes += large::parts(view.value).map(|(_, length)| length as u64).sum::<u64>();
                let crc = large::stored_crc(&medium, view.value);
                if crc.is_none() || large::crc_of(view.value) != crc {
                    found.faults.push(Fault::Value { place });
                }
            }
        }
    }
    found
}

/// Verifies the log of the sessions: what an opening redoes.
///
/// # Errors
/// What an opening would say.
pub fn examine_log<R: ByteRegion>(
    region: Arc<R>,
    base: u64,
    (geometry, store_id): (Geometry, u64),
    floor: u64,
) -> Result<LogReport, LogError> {
    let medium = Medium::new(region.clone(), base, geometry, store_id);
    let (start, bytes) = medium.log_area();
    let options = LogOptions { block_bytes: geometry.page_bytes, store_id };
    terrace_log::verify(ByteLog::new(region, start, bytes), options, floor, |_| {})
}
