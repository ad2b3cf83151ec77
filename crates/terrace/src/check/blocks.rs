//! Every block: header, trailer, footer, and each record against its footer entry.

use std::collections::{HashMap, HashSet};

use terrace_blocks::inspect::{BlockImage, Extent, footer_entry};
use terrace_blocks::{BLOCK_HEADER_BYTES, BlockKind, BlockTrailer, FooterEntry, Lower, Stored};
use terrace_engine::manifest::Manifest;
use terrace_engine::record::Kind;

use super::keys::Place;
use super::{Keys, LISTED_MAX, Parts, Report};

pub(super) struct Blocks {
    /// The sequence numbers of extent blocks, by slot.
    pub extents: Vec<Option<u64>>,
    /// Where blocks of large values are that were written elsewhere, by their sequence numbers.
    pub gathered: HashMap<(u64, u32), Gathered>,
    /// Blocks with which recovery refuses to open the store.
    pub refused: Vec<u32>,
    /// Blocks that read as zeros though they were written: opening refuses them unless a large value is found in them.
    pub vanished: Vec<u32>,
    written: u64,
    by_seq: HashMap<u64, u32>,
    damaged: Vec<(u32, FooterEntry)>,
}

/// Where a piece was gathered to.
#[derive(Clone, Copy)]
pub(super) struct Gathered {
    /// The seq of the block that did.
    by: u64,
    pub slot: u32,
    /// Where it starts there.
    pub at: u32,
}

/// What a block of records turned out to be.
enum Judged {
    Counts(BlockTrailer, Vec<FooterEntry>),
    /// As a crash leaves it while it is flushed or freed.
    Torn,
    Damaged(&'static str),
}

impl Blocks {
    /// `written` of them are known to have been written, the first ones.
    pub fn new(blocks: u32, written: u64) -> Self {
        let extents = vec![None; blocks as usize];
        Self {
            extents,
            gathered: HashMap::new(),
            refused: Vec::new(),
            vanished: Vec::new(),
            written,
            by_seq: HashMap::new(),
            damaged: Vec::new(),
        }
    }

    pub fn scan<L: Lower, F>(
        &mut self,
        parts: &Parts<L, F>,
        manifest: &Manifest,
        keys: &mut Keys,
        report: &mut Report,
        progress: &dyn Fn(u64),
    ) {
        report.counts.blocks = u64::from(parts.inspector.blocks());
        for slot in 0..parts.inspector.blocks() {
            match parts.inspector.read(slot) {
                Err(error) => report.problems.push(format!("block {slot} can't be read: {error}")),
                Ok(image) => self.block(parts, &image, manifest, keys, report),
            }
            let passed_over = self.extents.get(slot as usize).is_some_and(Option::is_some);
            progress(if passed_over { 0 } else { parts.inspector.block_bytes() as u64 });
        }
    }

    fn block<L: Lower, F>(
        &mut self,
        parts: &Parts<L, F>,
        image: &BlockImage,
        manifest: &Manifest,
        keys: &mut Keys,
        report: &mut Report,
    ) {
        let slot = image.slot;
        if let Stored::Valid(header) = image.header
            && let Some(other) = self.by_seq.insert(header.seq, slot)
        {
            report
                .problems
                .push(format!("blocks {other} and {slot} have the same sequence number {}", header.seq));
        }
        let judged = match image.header {
            Stored::Empty if image.blank && u64::from(slot) < self.written => {
                self.vanished.push(slot);
                return;
            }
            Stored::Empty => {
                report.counts.blocks_free += 1;
                return;
            }
            Stored::Valid(header) if matches!(header.kind, BlockKind::Extents | BlockKind::Gathered) => {
                if header.kind == BlockKind::Gathered {
                    self.gathered(parts, slot, header.seq, report);
                }
                report.counts.blocks_extents += 1;
                self.extents[slot as usize] = Some(header.seq);
                return;
            }
            Stored::Valid(header) if header.kind == BlockKind::Snapshot => {
                report.counts.blocks_snapshot += 1;
                return;
            }
            Stored::Valid(header) => judge(image, header.seq, manifest.persisted_seq),
            Stored::Bad => match image.trailer {
                Stored::Valid(trailer) if trailer.seq <= manifest.persisted_seq => {
                    Judged::Damaged("its header's checksum does not match")
                }
                _ => Judged::Torn,
            },
        };
        match judged {
            Judged::Counts(trailer, entries) => {
                report.counts.blocks_records += 1;
                self.records(parts, image, &trailer, &entries, keys, report);
            }
            Judged::Torn => {
                report.counts.blocks_torn += 1;
                // Of a snapshot's own blocks it is told with the snapshot.
                if manifest.clean && !image.ends_a_snapshot() {
                    report.problems.push(format!(
                        "block {slot}: half of it was overwritten, and the store was closed in order; opening frees it, and what it held is lost"
                    ));
                }
            }
            Judged::Damaged(what) => {
                let at = parts.inspector.block_offset(slot);
                report.problems.push(format!(
                    "block {slot} (at byte {at} of the tier): {what}; the store does not open"
                ));
                self.refused.push(slot);
            }
        }
    }

    /// Where a block says that it has pieces of other blocks. A crash may leave more than one with a piece: the newest counts.
    fn gathered<L: Lower, F>(&mut self, parts: &Parts<L, F>, slot: u32, seq: u64, report: &mut Report) {
        match parts.inspector.gathered(slot, seq) {
            Ok(Some(table)) => {
                for piece in table {
                    let found = Gathered { by: seq, slot, at: piece.at };
                    let known = self.gathered.entry((piece.seq, piece.offset)).or_insert(found);
                    if known.by < seq {
                        *known = found;
                    }
                }
            }
            Ok(None) => report.problems.push(format!(
                "block {slot}: the table of the large values that were gathered there is damaged; their keys answer errors until SET or DEL"
            )),
            Err(error) => report.problems.push(format!("block {slot} can't be read: {error}")),
        }
    }

    fn records<L: Lower, F>(
        &mut self,
        parts: &Parts<L, F>,
        image: &BlockImage,
        trailer: &BlockTrailer,
        entries: &[FooterEntry],
        keys: &mut Keys,
        report: &mut Report,
    ) {
        let slot = image.slot;
        let mut wrong = |offset: u32, what: &str| {
            report.problems.push(format!("block {slot}, offset {offset}: {what}"));
        };
        let mut at = BLOCK_HEADER_BYTES as u32;
        let (mut newest, mut damaged, mut gaps) = (0, 0, 0);
        for (i, entry) in entries.iter().enumerate() {
            let next = entries.get(i + 1).map_or(trailer.data_end, |next| next.offset);
            if entry.offset < at || next <= entry.offset {
                wrong(entry.offset, &format!("the record before ends at {at}, or the next begins at {next}"));
            }
            gaps += entry.offset.saturating_sub(at);
            newest = newest.max(entry.version);
            let view = image.record(trailer.seq, entry.offset);
            at = match &view {
                None => {
                    damaged += 1;
                    self.damaged.push((slot, *entry));
                    next
                }
                Some(view) => {
                    if footer_entry(view, entry.offset, parts.hasher) != *entry {
                        wrong(
                            entry.offset,
                            "the record and its footer entry are of different keys or versions",
                        );
                    }
                    if view.head.expire_at != 0 && view.head.expire_at < trailer.min_expire {
                        wrong(entry.offset, "the record expires before the trailer's earliest expiry");
                    }
                    entry.offset + view.head.meta.slot_words() as u32 * 8
                }
            };
            let bytes = next.saturating_sub(entry.offset);
            report.counts.records[entry.kind as usize] += 1;
            report.counts.record_bytes += u64::from(bytes);
            keys.offer(entry, view.as_ref(), Place::Block(slot, entry.offset, bytes));
        }
        if at != trailer.data_end {
            wrong(at, &format!("the records end here, and {} is recorded", trailer.data_end));
        }
        if newest != trailer.max_version {
            wrong(at, &format!("the newest version is {newest}, and {} is recorded", trailer.max_version));
        }
        if gaps > 0 {
            report
                .notes
                .push(format!("block {slot}: {gaps} bytes belong to no record; a repair gave them up"));
        }
        report.counts.damaged += damaged;
        if damaged == 0 && !image.data_holds(trailer) {
            report.problems.push(format!(
                "block {slot}: every record is whole, and the checksum over all of them does not match: bytes between them changed"
            ));
        }
    }

    /// Of the blocks that vanished, those in which no large value is looked for.
    pub fn refuse_vanished(&mut self, keys: &Keys, report: &mut Report) {
        let descriptions = keys.living().filter_map(|(_, newest)| newest.description.as_deref());
        let described: HashSet<u32> = descriptions
            .filter_map(Extent::decode)
            .flat_map(|extent| extent.pieces)
            .map(|piece| piece.slot)
            .collect();
        for &slot in self.vanished.iter().filter(|slot| !described.contains(slot)) {
            report.problems.push(format!(
                "block {slot}: it was written, and reads as if it never had been; the store does not open"
            ));
            self.refused.push(slot);
        }
    }

    /// Damaged records, the first of them one by one.
    pub fn tell_damaged(&self, keys: &Keys, report: &mut Report) {
        for (slot, entry) in self.damaged.iter().take(LISTED_MAX) {
            let what = match (keys.is_newest(entry.hash, entry.check, *slot, entry.offset), entry.kind) {
                (false, _) => "it was replaced or deleted later: no answer depends on it",
                (true, Kind::Tombstone) => "it is a tombstone: the key answers an error until SET or DEL",
                (true, _) => "its key answers an error until SET or DEL",
            };
            report.problems.push(format!(
                "block {slot}, offset {}: damaged record, hash {:016x}, database {}, version {}; {what}",
                entry.offset, entry.hash, entry.db, entry.version
            ));
        }
        report.unlisted += self.damaged.len().saturating_sub(LISTED_MAX) as u64;
    }
}

fn judge(image: &BlockImage, seq: u64, trusted_seq: u64) -> Judged {
    let flushed = seq <= trusted_seq;
    let torn_or = |what| if flushed { Judged::Damaged(what) } else { Judged::Torn };
    let trailer = match image.trailer {
        Stored::Valid(trailer) if trailer.seq == seq => trailer,
        // Freeing clears the first words of trailer and header; a crash may keep one of the two.
        Stored::Empty => return Judged::Torn,
        _ => return torn_or("its trailer's checksum does not match"),
    };
    match image.footer() {
        None => {
            torn_or("its footer does not match its checksum or its records, so its keys can't be identified")
        }
        // A flush of which nobody noted that it was finished counts if all of it is there.
        Some(_) if !flushed && !image.data_holds(&trailer) => Judged::Torn,
        Some(entries) => Judged::Counts(trailer, entries),
    }
}
