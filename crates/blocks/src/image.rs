//! A block's bytes: drawn from a page, or read whole.

use std::sync::atomic::Ordering::*;

use terrace_engine::hash::KeyHasher;
use terrace_engine::record::{Kind, RecordMeta, RecordView};

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
    pub fn draw(
        &self,
        slot_number: u32,
        hasher: KeyHasher,
        drawn: &mut Image,
        records: impl FnOnce(usize, &mut Vec<u8>),
    ) {
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
        if image.len() != used {
            return;
        }
        // Of what is in the block, whatever became of it in DRAM: a crash may take back what replaced it.
        let (mut at, mut max_version, mut min_expire) = (BLOCK_HEADER_BYTES, 0, u64::MAX);
        while at < used {
            let meta = RecordMeta(u64_at(image, at + 8));
            let record = &image[at..at + meta.used_words() * 8];
            let crc = record_crc(seq, slot_number, at as u32, record);
            let version = u64_at(record, 0);
            if let Some(view) = RecordView::decode(record) {
                let (hash, check) = if meta.kind() == Kind::Poison {
                    (u64_at(view.key, 0), u32_at(view.key, 8))
                } else {
                    let db = meta.db();
                    (hasher.key(db, view.key).hash, hasher.check(db, view.key))
                };
                let (kind, db) = (meta.kind(), meta.db());
                if view.head.expire_at != 0 {
                    min_expire = min_expire.min(view.head.expire_at);
                }
                let life = view.head.life();
                footer.push(FooterEntry { hash, version, check, offset: at as u32, kind, db, life });
            }
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
        let footer_at = block - TRAILER_BYTES - listed.len();
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
