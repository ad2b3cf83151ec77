//! Giving a page to a class of chunks.
//!
//! # Invariants
//! * No chunk of the page counts: all are free, durably. So the page may stop being of its class before it is of another.
//! * While its chunks are made the header's magic is zero, durably. It is stored, alone in its fence, once all else is durable.

use terrace_media::ByteRegion;

use crate::layout::{LINE_BYTES, PAGE_HEADER_BYTES, PageHeader, Place, chunks_in};
use crate::medium::Medium;

impl<R: ByteRegion> Medium<R> {
    /// Makes all chunks of a page free chunks of the header's class and use; durable when it returns.
    pub fn format(&self, header: &PageHeader) {
        let page_bytes = self.geometry.page_bytes;
        let start = u64::from(header.page) * page_bytes as u64;
        self.store_word(start, 0);
        self.region.fence();
        let chunk_bytes = usize::from(header.lines) * LINE_BYTES;
        for chunk in 0..chunks_in(page_bytes, header.lines) {
            let offset = (PAGE_HEADER_BYTES + chunk * chunk_bytes) as u32;
            let place = Place { seq: header.seq, page: header.page, offset };
            self.region.write_nt(self.at(start + u64::from(offset)), &place.free().to_le_bytes());
        }
        self.region.write_nt(self.at(start) + 8, &header.encode()[8..]);
        self.region.fence();
        self.store_word(start, header.magic());
        self.region.fence();
    }

    /// Makes a page known that is not used yet; durable after a fence of this thread.
    pub fn blank(&self, page: u32) {
        let header = PageHeader::of_chunks(self.store_id, 0, page, 0);
        let start = u64::from(page) * self.geometry.page_bytes as u64;
        self.region.write_nt(self.at(start), &header.encode());
    }
}
