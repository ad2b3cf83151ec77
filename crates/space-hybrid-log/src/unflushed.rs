//! Records that are in no block yet: what the log is still needed for.

use std::sync::atomic::Ordering::*;

use terrace_blocks::{BLOCK_HEADER_BYTES, FooterEntry, Listed, Lower, Place, Words};
use terrace_engine::record::{Kind, RecordView};
use terrace_engine::space::{Context, FoundRecords};
use terrace_index::AnyIndex;

use crate::space::HybridLog;

/// Pages that are walked in one step.
const PAGES_A_STEP: usize = 8;

impl<L: Lower> HybridLog<L> {
    /// See [`walk_unflushed`](terrace_engine::space::Background::walk_unflushed).
    pub(crate) fn walk_pages(
        &self,
        index: &AnyIndex,
        context: &dyn Context,
        after: u64,
        is_old: &dyn Fn(u64) -> bool,
        found: &mut FoundRecords<'_>,
    ) -> Option<u64> {
        // Frames stay where they are while background steps are held up, and nothing is sealed.
        let Some(_steps) = self.steps.try_lock() else { return Some(after) };
        let pages: Vec<(u32, u64)> = {
            let pool = self.pool.lock();
            let pages =
                pool.unsealed.iter().map(|&slot| (slot, self.blocks.slots[slot as usize].seq.load(Relaxed)));
            pages.filter(|&(_, seq)| seq > after).take(PAGES_A_STEP).collect()
        };
        let last = pages.last()?.1;
        for (slot, seq) in pages {
            let mut of_page = |version: u64, record: &[u8]| found(seq, version, record);
            if !self.walk_page(slot, index, context, is_old, &mut of_page) {
                return Some(after);
            }
        }
        Some(last)
    }

    /// `false` if a record can't be told from what follows it.
    fn walk_page(
        &self,
        number: u32,
        index: &AnyIndex,
        context: &dyn Context,
        is_old: &dyn Fn(u64) -> bool,
        found: &mut dyn FnMut(u64, &[u8]),
    ) -> bool {
        let slot = &self.blocks.slots[number as usize];
        let Some(frame) = slot.frame() else { return false };
        let words = self.frames.words(frame);
        let used = slot.used_bytes.load(Acquire) as usize;
        let (mut at, hasher) = (BLOCK_HEADER_BYTES, context.hasher());
        let (mut bytes, mut copy) = (Vec::new(), Vec::new());
        while at < used {
            let record = Words(&words[at / 8..]);
            let (length, is_wanted) = record.consistently(|head| {
                let (length, is_wanted) = (head.meta.slot_words() * 8, is_old(head.version));
                bytes.clear();
                if is_wanted {
                    record.copy_bytes(0, length, &mut bytes);
                }
                (length, is_wanted)
            });
            let offset = at as u32;
            at += length;
            if length == 0 {
                return false;
            }
            if !is_wanted {
                continue;
            }
            let Some(view) = RecordView::decode(&bytes) else { return false };
            let (version, db, kind) = (view.head.version, view.head.meta.db(), view.head.meta.kind());
            if kind == Kind::Poison {
                // It stands for a record in a block, which is kept until this page is one.
                continue;
            }
            let (hash, check) = (hasher.key(db, view.key).hash, hasher.check(db, view.key));
            let entry = FooterEntry { hash, version, check, offset, kind, db, life: view.head.life() };
            let address = self.addresses.address(Place { slot: number, offset });
            if Listed::new(&entry, Some(&view), address).is_in(index) {
                // Its place may be longer than the record.
                let record = view.to_new();
                copy.clear();
                copy.resize(record.words() * 8, 0);
                record.encode_to(&mut copy);
                found(version, &copy);
            }
        }
        true
    }
}
