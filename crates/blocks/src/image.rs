//! A block's bytes: drawn from a page, or read whole.

use std::io;
use std::sync::atomic::Ordering::*;

use terrace_engine::hash::KeyHasher;
use terrace_engine::record::{Head, Kind, RecordView};

use crate::blocks::Blocks;
use crate::footer::footer;
use crate::layout::{
    BLOCK_HEADER_BYTES, BlockKind, BlockTrailer, FooterEntry, Header, TRAILER_BYTES, checked, encode_footer,
    record_crc, u32_at, u64_at,
};
use crate::lower::Lower;

/// A block's bytes and what is in it.
pub struct Block {
    /// Its slot.
    pub slot: u32,
    /// The use of the slot that it is.
    pub seq: u64,
    /// From the medium, with checksums; else from a frame, without.
    pub sealed: bool,
    /// Its bytes, from the header on.
    pub bytes: Vec<u8>,
    /// Its records, in order.
    pub entries: Vec<FooterEntry>,
}

impl Block {
    /// The record of an entry; `None` if it is damaged.
    pub fn record(&self, entry: &FooterEntry) -> Option<RecordView<'_>> {
        let bytes = self.bytes.get(entry.offset as usize..)?;
        if self.sealed {
            checked(self.seq, self.slot, entry.offset, bytes)
        } else {
            RecordView::decode(bytes)
        }
    }
    /// Words between a record's start and the next one's.
    pub fn words(&self, i: usize, data_end: usize) -> usize {
        let end = self.entries.get(i + 1).map_or(data_end, |next| next.offset as usize);
        end.saturating_sub(self.entries[i].offset as usize) / 8
    }
}

/// A block that is about to be written, and room for making the next one.
#[derive(Default)]
pub struct Image {
    bytes: Vec<u8>,
    footer: Vec<FooterEntry>,
    listed: Vec<u8>,
}

impl Image {
    /// All of the block.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl<L: Lower> Blocks<L> {
    /// Makes the image of a page, whole: header, the records of its [`used_bytes`](crate::Slot::used_bytes), footer and
    /// trailer. `records` appends them to the bytes given, from the first record to that end.
    ///
    /// # Errors
    /// If the page is not what its slot says: with fewer or more bytes, with something that is no record, or with a footer that would
    /// lie over records. Such a block would be missing records for good once the log is cut: it must not be written.
    pub fn draw(
        &self,
        slot_number: u32,
        hasher: KeyHasher,
        drawn: &mut Image,
        records: impl FnOnce(usize, &mut Vec<u8>),
    ) -> io::Result<()> {
        let block = self.block_bytes;
        let slot = &self.slots[slot_number as usize];
        let seq = slot.seq.load(Relaxed);
        let used = slot.used_bytes.load(Acquire) as usize;
        let Image { bytes: image, footer, listed } = drawn;
        image.clear();
        footer.clear();
        let header = Header { store_id: self.store_id, seq, slot: slot_number, kind: BlockKind::Records };
        image.extend_from_slice(&header.encode());
        records(used, image);
        let wrong = |what: String| io::Error::other(format!("the page of block {slot_number} {what}: a bug"));
        if image.len() != used {
            return Err(wrong(format!("has {} bytes of {used}", image.len())));
        }
        // Of what is in the block, whatever became of it in DRAM: a crash may take back what replaced it.
        let (mut at, mut max_version, mut min_expire) = (BLOCK_HEADER_BYTES, 0, u64::MAX);
        while at < used {
            let Some(view) = RecordView::decode(&image[at..]) else {
                return Err(wrong(format!("has no record at byte {at}")));
            };
            let Head { version, meta, expire_at, .. } = view.head;
            let (kind, db) = (meta.kind(), meta.db());
            let (hash, check) = if kind == Kind::Poison {
                (u64_at(view.key, 0), u32_at(view.key, 8))
            } else {
                (hasher.key(db, view.key).hash, hasher.check(db, view.key))
            };
            if expire_at != 0 {
                min_expire = min_expire.min(expire_at);
            }
            let life = view.head.life();
            footer.push(FooterEntry { hash, version, check, offset: at as u32, kind, db, life });
            let crc = record_crc(seq, slot_number, at as u32, &image[at..at + meta.used_words() * 8]);
            max_version = max_version.max(version);
            image[at + 16..at + 20].copy_from_slice(&crc.to_le_bytes());
            at += meta.slot_words() * 8;
        }
        if let Some(count) = std::num::NonZeroUsize::new(footer.len()) {
            self.typical_bytes.store(((used / count).next_multiple_of(64)) as u64, Relaxed);
        }
        let data_crc = crc32c::crc32c(&image[BLOCK_HEADER_BYTES..]);
        image.resize(block, 0);
        listed.clear();
        let deadlines = encode_footer(footer, listed);
        slot.expiring.store(deadlines, Relaxed);
        slot.min_version.store(footer.iter().map(|entry| entry.version).min().unwrap_or(0), Relaxed);
        self.list_deadlines(slot_number, max_version, footer, used as u32);
        let footer_at = (block - TRAILER_BYTES).saturating_sub(listed.len());
        if footer_at < used {
            return Err(wrong(format!("has {used} bytes of records, and {} of footer", listed.len())));
        }
        image[footer_at..block - TRAILER_BYTES].copy_from_slice(listed);
        let trailer = BlockTrailer {
            seq,
            count: footer.len() as u32,
            data_end: used as u32,
            max_version,
            min_expire,
            deadlines,
            footer_crc: crc32c::crc32c(listed),
            data_crc,
        };
        image[block - TRAILER_BYTES..].copy_from_slice(&trailer.encode());
        Ok(())
    }

    /// Reads a whole block from the medium; `None` if it isn't there, or can't be read.
    pub fn read_block(&self, number: u32) -> Option<Block> {
        let seq = self.slots[number as usize].seq.load(Acquire);
        let size = self.block_bytes;
        if !self.on_medium(number) {
            return None;
        }
        let mut bytes = vec![0; size];
        self.lower.read(self.block_offset(number), &mut bytes).ok()?;
        let (trailer, entries) = footer(&bytes, size)?;
        (trailer.seq == seq).then_some(Block { slot: number, seq, sealed: true, bytes, entries })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use terrace_engine::record::NewRecord;
    use terrace_media::HeapRegion;

    use super::*;
    use crate::byte_tier::ByteTier;
    use crate::slots::State;

    const BLOCK: usize = 1024;

    fn records(count: u64, value: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for version in 1..=count {
            let (kind, key) = (Kind::Value, &b"key"[..]);
            NewRecord { version, kind, db: 0, flags: 0, state: 0, expire_at: 0, token: 0, key, value }
                .encode(&mut bytes);
        }
        bytes
    }

    #[test]
    fn a_page_that_is_not_what_its_slot_says_makes_no_block() {
        let bytes = 64 << 10;
        let lower = ByteTier::new(Arc::new(HeapRegion::new(bytes).unwrap()), 0, bytes, String::new());
        let blocks = Blocks::new(lower, BLOCK, 1).unwrap();
        let page = records(4, &[7; 100]);
        let short = &page[..page.len() - 8];
        let damaged = vec![0xff; page.len()];
        // Its records end where the trailer begins: no room is left for what tells of them.
        let full = records(64, b"");
        let full = &full[..(BLOCK - BLOCK_HEADER_BYTES - TRAILER_BYTES) / 32 * 32];
        let cases: [(&[u8], usize, &str); 4] = [
            (&page, page.len(), ""),
            (short, page.len(), " bytes of "),
            (&damaged, page.len(), "no record at byte"),
            (full, full.len(), "of footer"),
        ];
        for (page, used, says) in cases {
            blocks.slots[3].begin(State::ReadOnly, 9, None, (BLOCK_HEADER_BYTES + used) as u32);
            let draw = |_, image: &mut Vec<u8>| image.extend_from_slice(page);
            match blocks.draw(3, KeyHasher::new(1), &mut Image::default(), draw) {
                Ok(()) => assert!(says.is_empty(), "it was not noticed: {says}"),
                Err(error) => {
                    assert!(!says.is_empty() && error.to_string().contains(says), "{error}, not {says:?}");
                }
            }
        }
    }
}
