//! A block device's pages: durable content and the versions written since the last sync.

use std::collections::BTreeMap;

use terrace_media::IO_ALIGN;

use crate::trace::{Bytes, SiteId, Trace};

/// What a disk writes as one.
pub(crate) const SECTOR_BYTES: usize = 512;
/// Sectors of a page.
pub(crate) const SECTORS: usize = IO_ALIGN / SECTOR_BYTES;

/// One unsynced version of a page: where its bytes start in the trace's arena, and who wrote it.
pub(crate) type Version = (usize, SiteId);

/// The persistence state of a block device.
pub(crate) struct Pages {
    pub(crate) base: Vec<u8>,
    /// By page number: versions since the last sync, oldest first.
    pub(crate) pending: BTreeMap<usize, Vec<Version>>,
    /// Pages whose base changed since these were last taken.
    pub(crate) rebased: Vec<usize>,
}

impl Pages {
    pub(crate) fn new(base: Vec<u8>) -> Self {
        Self { base, pending: BTreeMap::new(), rebased: Vec::new() }
    }

    pub(crate) fn write(&mut self, offset: u64, bytes: Bytes, site: SiteId) {
        for (page, start) in pages_of(offset, bytes) {
            self.pending.entry(page).or_default().push((start, site));
        }
    }

    /// Makes the last versions durable; `false` if there were none.
    pub(crate) fn sync(&mut self, trace: &Trace) -> bool {
        let useful = !self.pending.is_empty();
        for (page, versions) in std::mem::take(&mut self.pending) {
            if let Some((start, _)) = versions.last() {
                let to = page * IO_ALIGN..(page + 1) * IO_ALIGN;
                self.base[to].copy_from_slice(&trace.arena[*start..start + IO_ALIGN]);
                self.rebased.push(page);
            }
        }
        useful
    }

    pub(crate) fn base_page(&self, page: usize) -> &[u8] {
        &self.base[page * IO_ALIGN..(page + 1) * IO_ALIGN]
    }
}

/// Page numbers of a write, each with the start of its bytes in the arena.
pub(crate) fn pages_of(offset: u64, bytes: Bytes) -> impl Iterator<Item = (usize, usize)> {
    let first = offset as usize / IO_ALIGN;
    (0..bytes.len / IO_ALIGN).map(move |i| (first + i, bytes.start + i * IO_ALIGN))
}
