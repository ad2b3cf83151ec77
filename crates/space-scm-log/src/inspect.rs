//! Reading a store that nobody has open, for `terrace check`: nothing is changed. Each word of the hash table is followed, or each entry of
//! each node.

use std::sync::Arc;

use terrace_blocks::Stored;
use terrace_engine::hash::KeyHasher;
use terrace_engine::manifest::Manifest;
use terrace_engine::op::DATABASES;
use terrace_engine::record::{Kind as RecordKind, RecordView};
use terrace_log::{LogError, LogOptions, LogReport};
use terrace_media::ByteRegion;

use crate::large;
use crate::layout::Kind;
use crate::medium::{Geometry, Medium};
use crate::nodes::Nodes;
pub use crate::nodes::examine::{NodeCounts, NodeFault};
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
    /// No copy of the root: the store does not open.
    Root,
    /// A node, or something in it.
    Node {
        /// Which slot.
        slot: u32,
        /// What of it.
        what: NodeFault,
    },
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Examined {
    /// The copies of the manifest.
    pub manifests: Option<[Stored<Manifest>; 2]>,
    /// Pages, those of them that are free or blocks of the log, and those of chains or nodes.
    pub pages: (u64, u64, u64),
    /// Of nodes.
    pub nodes: NodeCounts,
    /// Keys that the root says each database has.
    pub counted: [u64; DATABASES],
    /// Keys that the table or nodes lead to.
    pub keys: [u64; DATABASES],
    /// Records that these lead to: values, large ones.
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

impl Examined {
    /// What stands in front of the pages but for the hash table: manifest, root, and the lines of pages, of which one is `own` that the
    /// directory has. The sequence number up to which nodes count, and how many there are at least.
    fn of_front<R: ByteRegion>(medium: &Medium<R>, own: Kind) -> (Self, (u64, u32)) {
        let mut found = Self { manifests: Some(medium.stored_copies()), ..Self::default() };
        for page in 0..medium.pages() as u32 {
            found.pages.0 += 1;
            match medium.page_line(page) {
                None => found.faults.push(Fault::Page { page }),
                Some(line) if line.kind == Kind::Free => found.pages.1 += 1,
                Some(line) => found.pages.2 += u64::from(line.kind == own),
            }
        }
        let Some(root) = medium.newest_root() else {
            found.faults.push(Fault::Root);
            // Whatever is there is looked at.
            return (found, (u64::MAX, 0));
        };
        found.counted = root.keys;
        found.is_coming = !root.is_committed;
        found.is_uncertain = root.is_uncertain;
        (found, (root.sequence - u64::from(!root.is_committed), root.nodes))
    }
    /// A record whose entry is at this place counts.
    pub(crate) fn see_record<R: ByteRegion>(
        &mut self,
        medium: &Medium<R>,
        place: u64,
        view: &RecordView<'_>,
    ) {
        self.keys[usize::from(view.head.meta.db())] += 1;
        self.record_bytes += view.head.meta.used_words() as u64 * 8;
        let is_large = view.head.meta.kind() == RecordKind::Extent;
        self.records[usize::from(is_large)] += 1;
        if is_large {
            self.large_bytes += large::parts(view.value).map(|(_, length)| length as u64).sum::<u64>();
            let crc = large::stored_crc(medium, view.value);
            if crc.is_none() || large::crc_of(view.value) != crc {
                self.faults.push(Fault::Value { place });
            }
        }
    }
}

/// Reads a store with a hash table that starts at byte `base` of a region.
pub fn examine<R: ByteRegion>(
    region: Arc<R>,
    base: u64,
    (geometry, store_id): (Geometry, u64),
    hasher: KeyHasher,
    progress: &dyn Fn(u64, u64),
) -> Examined {
    let medium = Arc::new(Medium::new(region, base, geometry, store_id));
    let (mut found, _) = Examined::of_front(&medium, Kind::Chains);
    let flushed = medium.stored_manifest().unwrap_or_default().flush_versions;
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
            match medium.read_entry(place, &mut bytes) {
                None => found.faults.push(Fault::Record { place }),
                Some(view) if view.head.version <= flushed[usize::from(view.head.meta.db())] => {}
                Some(view) => found.see_record(&medium, place, &view),
            }
        }
    }
    found
}

/// The same of a store of nodes, whose geometry has no buckets.
pub fn examine_ordered<R: ByteRegion>(
    region: Arc<R>,
    base: u64,
    (geometry, store_id): (Geometry, u64),
    hasher: KeyHasher,
    progress: &dyn Fn(u64, u64),
) -> Examined {
    let medium = Arc::new(Medium::new(region, base, geometry, store_id));
    let (mut found, counts) = Examined::of_front(&medium, Kind::Nodes);
    let flushed = medium.stored_manifest().unwrap_or_default().flush_versions;
    Nodes::new(medium, hasher, None).examine(&mut found, counts, &flushed, progress);
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
    let medium = Medium::new(region, base, geometry, store_id);
    let options = LogOptions { block_bytes: geometry.page_bytes, store_id };
    terrace_log::verify(crate::open::log_of(&medium), options, floor, |_| {})
}
