//! Reading a heap that keeps its index and that nobody has open, for `terrace check`: opened as an opening would, over the medium and
//! without a change of it, then each entry is followed.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use terrace_engine::hash::KeyHasher;
use terrace_engine::manifest::Manifest;
use terrace_engine::record::Kind;
use terrace_engine::space::{Counted, Fetch, LargeValues};
use terrace_engine::{DATABASES, StoreError};
use terrace_media::{Buffer, ByteRegion};

use crate::medium::{Geometry, Medium};
use crate::overlay::Overlay;
use crate::space::HeapSpace;

/// What an entry leads to that it should not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A record that is damaged: its key answers an error.
    Record {
        /// Where its chunk starts.
        chunk: u64,
    },
    /// A record of another bucket, or of no key.
    Stray {
        /// Where its chunk starts.
        chunk: u64,
    },
    /// A record that another entry leads to, too.
    Twice {
        /// Where its chunk starts.
        chunk: u64,
    },
    /// A large value of which parts are missing or damaged: its key answers an error.
    Value {
        /// Where its record's chunk starts.
        chunk: u64,
    },
    /// A record whose chunk says that it is free: a later write would take it.
    Free {
        /// Where its chunk starts.
        chunk: u64,
    },
    /// A line of the index: keys of its bucket that are not found answer an error.
    Line {
        /// Which bucket.
        bucket: u64,
    },
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Examined {
    /// Keys that the heap says each database has, and keys that are there.
    pub counted: Counted,
    /// The same as found.
    pub found: Counted,
    /// Records, by kind.
    pub records: [u64; 4],
    /// Bytes of them.
    pub record_bytes: u64,
    /// Large values, and their bytes.
    pub large: (u64, u64),
    /// Of the keys, those whose time has passed at the store's.
    pub expired: u64,
    /// Pages, those that hold nothing, and those of the index.
    pub pages: (u64, u64, u64),
    /// Buckets.
    pub buckets: u64,
    /// Bits that an opening sets right.
    pub flipped: u64,
    /// What is wrong.
    pub faults: Vec<Fault>,
}

/// Reads the heap in a region from byte `base` on.
///
/// # Errors
/// What an opening would refuse it for.
pub fn examine<R: ByteRegion>(
    region: Arc<R>,
    base: u64,
    (geometry, store_id): (Geometry, u64),
    (hasher, now_ms): (KeyHasher, u64),
    manifest: &Manifest,
    progress: &dyn Fn(u64, u64),
) -> Result<Examined, StoreError> {
    let bytes = region.len();
    let medium = Medium::new(Arc::new(Overlay::new(region)), base, geometry, store_id);
    let bytes = medium.stored_manifest().map_or(bytes, |(_, stored)| stored.min(bytes));
    let space = HeapSpace::new(medium, bytes, hasher, u64::MAX, String::new());
    space.note_flushes(manifest);
    let Some(table) = space.table.clone() else { return Ok(Examined::default()) };
    let counted = space.reopen_with(&table, manifest)?;
    let pages = space.pages.table.len() as u64;
    let mut all = Examined {
        counted,
        buckets: table.buckets(),
        pages: (pages, space.pages.alloc().free.len() as u64, table.pages_held()),
        ..Examined::default()
    };
    for bucket in 0..table.buckets() {
        let mut chunks = Vec::new();
        if !table.led_to(bucket, |chunk| chunks.push(chunk), |_| {}) {
            all.faults.push(Fault::Line { bucket });
        }
        for chunk in chunks {
            space.follow(&mut all, bucket, chunk, now_ms);
        }
        progress(bucket + 1, table.buckets());
    }
    all.flipped = table.healed.load(Relaxed);
    Ok(all)
}

impl<R: ByteRegion> HeapSpace<R> {
    fn follow(&self, all: &mut Examined, bucket: u64, chunk: u64, now_ms: u64) {
        let Some((page, _, number)) = self.pages.number(chunk) else {
            all.faults.push(Fault::Stray { chunk });
            return;
        };
        if !self.pages.table[page as usize].seen.set(number) {
            all.faults.push(Fault::Twice { chunk });
        }
        let bytes = self.whole(chunk);
        let Some(view) = bytes.as_deref().and_then(|bytes| self.view(chunk, bytes)) else {
            all.faults.push(Fault::Record { chunk });
            // Counted as what it was, as far as its front says.
            let front = self.read_front(chunk).map(|(_, front)| front).filter(|front| front.sound);
            let db = front.map_or(0, |front| usize::from(front.meta.db()) & (DATABASES - 1));
            all.found.keys[db] += 1;
            all.found.expiring[db] += u64::from(front.is_some_and(|front| front.expire_at != 0));
            all.found.poisoned += 1;
            return;
        };
        if self.medium.region.load_u64(self.medium.at(chunk)) == self.pages.place(chunk).free() {
            all.faults.push(Fault::Free { chunk });
        }
        let db = usize::from(view.head.meta.db()) & (DATABASES - 1);
        let hash = self.hasher.key(view.head.meta.db(), view.key).hash;
        if self.table.as_ref().is_none_or(|table| table.bucket(hash) != bucket) {
            all.faults.push(Fault::Stray { chunk });
        }
        all.records[view.head.meta.kind() as usize] += 1;
        all.record_bytes += view.head.meta.slot_words() as u64 * 8;
        if view.head.version <= self.flushed[db].load(Relaxed) {
            return;
        }
        all.found.keys[db] += 1;
        all.found.expiring[db] += u64::from(view.head.expire_at != 0);
        all.expired += u64::from(view.head.life().is_over(now_ms));
        if view.head.meta.kind() == Kind::Extent {
            all.large.0 += 1;
            all.large.1 += self.extent_bytes(view.value);
            let mut value = Buffer::new();
            if !matches!(self.fetch_extent(view.value, &mut value), Fetch::Match(_)) {
                all.faults.push(Fault::Value { chunk });
            }
        }
    }
}
