//! What a page holds, object by object, whoever refers to it.

use terrace_blocks::{u32_at, u64_at};
use terrace_engine::SEAL_BYTES;
use terrace_engine::record::{RecordMeta, RecordView};
use terrace_media::ByteRegion;

use crate::directory::Directory;
use crate::layout::{
    EDGE_BYTES, ENTRY_HEAD_BYTES, Kind, PART_HEAD_BYTES, chain_bytes, chain_count, decode_chain,
    decode_entry, decode_part, entry_bytes,
};
use crate::medium::Medium;
use crate::space::ScmSpace;

/// Read of an entry to know how long it is.
const FRONT_BYTES: usize = ENTRY_HEAD_BYTES + 16;

impl<R: ByteRegion> Medium<R> {
    /// Reads the entry at a place over `bytes`; its record, if it is whole.
    pub fn read_entry<'a>(&self, place: u64, bytes: &'a mut Vec<u8>) -> Option<RecordView<'a>> {
        self.page_of(place)?;
        let rest = self.rest_of_page(place);
        let mut front = [0; FRONT_BYTES];
        if rest < FRONT_BYTES {
            return None;
        }
        self.region.read(self.at(place), &mut front);
        let length = entry_bytes(&front).filter(|length| *length <= rest)?;
        bytes.clear();
        bytes.resize(length, 0);
        self.region.read(self.at(place), bytes);
        decode_entry(bytes)
    }
    /// Visits the entries of a page that hold together, one behind the other.
    pub fn moved_of(&self, page: u32, mut visit: impl FnMut(u64, &RecordView<'_>)) {
        let mut place = self.page_at(page) + EDGE_BYTES as u64;
        let mut bytes = Vec::new();
        while self.rest_of_page(place) >= FRONT_BYTES {
            match self.read_entry(place, &mut bytes) {
                Some(view) => {
                    let length = ENTRY_HEAD_BYTES + view.head.meta.used_words() * 8;
                    visit(place, &view);
                    place += length as u64;
                }
                // Damaged, or the end: what comes behind is looked for.
                None => place += 8,
            }
        }
    }
}

/// How long an entry of the log is that begins so, if it is a record that is whole.
pub(crate) fn whole(bytes: &[u8]) -> Option<usize> {
    let meta = RecordMeta(u64_at(bytes.get(..SEAL_BYTES + 16)?, SEAL_BYTES + 8));
    let length = meta.plausible().then(|| SEAL_BYTES + meta.used_words() * 8)?;
    (crc32c::crc32c(bytes.get(SEAL_BYTES..length)?) == u32_at(bytes, 0)).then_some(length)
}

impl<R: ByteRegion, T: Directory<R>> ScmSpace<R, T> {
    /// Visits the records of a page, and where the entry of each is. Those of a block in a chain, too.
    pub(crate) fn records_of(&self, page: u32, mut visit: impl FnMut(u64, &RecordView<'_>)) {
        match self.pages.page(page).kind() {
            Kind::Moved => self.medium.moved_of(page, visit),
            Kind::Free | Kind::Archived => {
                let generation = match self.pages.page(page).kind() {
                    Kind::Archived => {
                        self.pages.page(page).generation.load(std::sync::atomic::Ordering::Relaxed)
                    }
                    _ => match self.log.chained_blocks().into_iter().find(|(block, _)| *block == page) {
                        Some((_, generation)) => generation,
                        None => return,
                    },
                };
                let walked = self.log.walk(page, generation, whole, |entry| {
                    if whole(entry.bytes) == Some(entry.bytes.len())
                        && let Some(view) = RecordView::decode(&entry.bytes[SEAL_BYTES..])
                    {
                        visit(self.medium.place_of_log(entry.place), &view);
                    }
                });
                if let Err(error) = walked {
                    self.fail(format!("reading page {page}: {error}"));
                }
            }
            Kind::Chains | Kind::Nodes | Kind::Parts | Kind::Lines => {}
        }
    }

    /// Visits the chains of a page: where each is, its bucket, and how long it is.
    pub(crate) fn chains_of(&self, page: u32, mut visit: impl FnMut(u64, u64, usize)) {
        let mut place = self.medium.page_at(page) + EDGE_BYTES as u64;
        let mut bytes = Vec::new();
        while self.medium.rest_of_page(place) >= EDGE_BYTES {
            bytes.clear();
            bytes.resize(EDGE_BYTES, 0);
            self.medium.region.read(self.medium.at(place), &mut bytes);
            let length = chain_bytes(chain_count(&bytes));
            let is_one = length <= self.medium.rest_of_page(place);
            if is_one {
                bytes.resize(length, 0);
                self.medium.region.read(self.medium.at(place), &mut bytes);
            }
            match decode_chain(&bytes, self.medium.store_id, place).filter(|_| is_one) {
                Some((bucket, _)) => {
                    visit(place, bucket, length);
                    place += length as u64;
                }
                None => place += EDGE_BYTES as u64,
            }
        }
    }

    /// Visits the parts of large values of a page: where each is, the hash of its key, and how many bytes of a value it has.
    pub(crate) fn parts_of(&self, page: u32, mut visit: impl FnMut(u64, u64, usize)) {
        let mut place = self.medium.page_at(page) + EDGE_BYTES as u64;
        while self.medium.rest_of_page(place) >= PART_HEAD_BYTES {
            let mut head = [0; PART_HEAD_BYTES];
            self.medium.region.read(self.medium.at(place), &mut head);
            let part = decode_part(&head).map(|(hash, bytes)| (hash, bytes, crate::large::part_bytes(bytes)));
            match part.filter(|(.., length)| *length <= self.medium.rest_of_page(place)) {
                Some((hash, bytes, length)) => {
                    visit(place, hash, bytes);
                    place += length as u64;
                }
                None => place += 8,
            }
        }
    }
}
