//! What a page holds, object by object, whoever refers to it.

use terrace_engine::SEAL_BYTES;
use terrace_engine::record::RecordView;
use terrace_media::ByteRegion;

use crate::layout::{
    EDGE_BYTES, ENTRY_HEAD_BYTES, Kind, PART_HEAD_BYTES, chain_bytes, chain_count, decode_chain,
    decode_entry, decode_part, entry_bytes,
};
use crate::space::ScmSpace;
use crate::table::FRONT_BYTES;

impl<R: ByteRegion> ScmSpace<R> {
    /// Visits the records of a page: where each entry is, and its bytes. Those of a block in a chain, too.
    pub(crate) fn records_of(&self, page: u32, mut visit: impl FnMut(u64, &RecordView<'_>, &[u8])) {
        match self.pages.page(page).kind() {
            Kind::Moved => self.moved_of(page, visit),
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
                let walked = self.log.walk(page, generation, |entry| {
                    if entry.bytes.len() % 8 == SEAL_BYTES
                        && let Some(view) = RecordView::decode(&entry.bytes[SEAL_BYTES..])
                    {
                        visit(self.medium.place_of_log(entry.place), &view, &entry.bytes[SEAL_BYTES..]);
                    }
                });
                if let Err(error) = walked {
                    self.fail(format!("reading page {page}: {error}"));
                }
            }
            Kind::Chains | Kind::Parts => {}
        }
    }

    fn moved_of(&self, page: u32, mut visit: impl FnMut(u64, &RecordView<'_>, &[u8])) {
        let mut place = self.medium.page_at(page) + EDGE_BYTES as u64;
        let mut bytes = Vec::new();
        while self.medium.rest_of_page(place) >= FRONT_BYTES {
            let mut front = [0; FRONT_BYTES];
            self.medium.region.read(self.medium.at(place), &mut front);
            let rest = self.medium.rest_of_page(place);
            let Some(length) = entry_bytes(&front).filter(|length| *length <= rest) else { return };
            bytes.clear();
            bytes.resize(length, 0);
            self.medium.region.read(self.medium.at(place), &mut bytes);
            let Some(view) = decode_entry(&bytes) else { return };
            visit(place, &view, &bytes[ENTRY_HEAD_BYTES..]);
            place += length as u64;
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
            if length > self.medium.rest_of_page(place) {
                return;
            }
            bytes.resize(length, 0);
            self.medium.region.read(self.medium.at(place), &mut bytes);
            let Some((bucket, _)) = decode_chain(&bytes, self.medium.store_id, place) else { return };
            visit(place, bucket, length);
            place += length as u64;
        }
    }

    /// Visits the parts of large values of a page: where each is, the hash of its key, and how many bytes of a value it has.
    pub(crate) fn parts_of(&self, page: u32, mut visit: impl FnMut(u64, u64, usize)) {
        let mut place = self.medium.page_at(page) + EDGE_BYTES as u64;
        while self.medium.rest_of_page(place) >= PART_HEAD_BYTES {
            let mut head = [0; PART_HEAD_BYTES];
            self.medium.region.read(self.medium.at(place), &mut head);
            let Some((hash, bytes)) = decode_part(&head) else { return };
            visit(place, hash, bytes);
            place += crate::large::part_bytes(bytes.min(self.medium.geometry.page_bytes)) as u64;
        }
    }
}
