//! `terrace check --repair` of nodes: what is damaged is made anew from what is whole, or given up. Nothing else changes.
//!
//! ```text
//! look     lines of pages that are lost: kinds | slots: nodes that are whole, and others | entries that are damaged | the log: their records
//! change   root: all is to be counted anew | lines of pages | texts, ends | slots that are given up: free | entries | commit words | lost: no
//! ```
//!
//! The root comes first: whatever a crash cuts off, keys are counted anew, and the next repair goes on with what is damaged still.
//!
//! An entry's check covers its place and not its node's use of the slot, so entries that a node has let go hold together, too. Of a node
//! that can't tell which of them count none is brought back. Its keys belong to the node before it then, which has none of them.

use std::sync::Arc;

use terrace_engine::StoreError;
use terrace_engine::hash::KeyHasher;
use terrace_engine::op::DATABASES;
use terrace_log::{ByteLog, Log, LogOptions};
use terrace_media::ByteRegion;

use super::Nodes;
use super::dram::{Seen, set_fp};
use super::find::fp_of;
use super::layout::{
    COMMIT_AT, ENTRY_BYTES, Entry, FP_AT, FP_WORDS, META_BYTES, STATIC_AT, Static, encode_text, entry_at,
    free_word,
};
use super::mend::Wanted;
use super::reopen::FoundSlot;
use crate::layout::{Kind, PageLine, Root};
use crate::medium::{Geometry, Medium};
use crate::open::log_of;
use crate::repair::LostLines;

/// What is known of a store that is repaired.
pub(super) struct Repair<R: ByteRegion> {
    pub medium: Arc<Medium<R>>,
    pub nodes: Nodes<R>,
    pub log: Log<ByteLog<R>>,
    pub lost: LostLines,
    pub root: Root,
    /// Nodes up to this sequence number count.
    pub counts: u64,
    pub flushed: [u64; DATABASES],
    /// Nothing was under way when it was left.
    pub is_closed: bool,
}

/// What a node becomes.
pub(super) struct Mend {
    pub slot: u32,
    pub about: Static,
    pub before: Seen,
    pub bitmap: u64,
    pub fps: [u64; FP_WORDS],
    pub entries: Vec<(usize, Entry)>,
}

/// What is to be done.
#[derive(Default)]
pub(super) struct Work {
    /// Slots that are to be free, and those of them that may have been nodes.
    pub blanks: Vec<u32>,
    pub given_up: u64,
    /// Nodes that are left.
    pub nodes: u32,
    /// Nodes whose words of when they end are to say: never.
    pub ends: Vec<u32>,
    /// Nodes of which a bit of the commit word was wrong.
    pub commits: u64,
    /// Slots that get the text of a fence.
    pub texts: Vec<(u32, Vec<u8>)>,
    pub mends: Vec<Mend>,
    pub wanted: Vec<Wanted>,
    /// Entries that nothing finds where they are, or that are older than another one of their key.
    pub astray: u64,
    /// Nodes with fingerprints that are not those of their entries.
    pub fingerprints: u64,
}

fn nowhere(what: &str) -> StoreError {
    StoreError::Corrupt(format!("{what} stands nowhere else"))
}

/// Repairs the store of nodes that starts at byte `base` of a region; what was done, a line each. What was done stays done if it is cut off,
/// and doing it again does the rest. Where no node, entry or
/// line is damaged only the log is opened.
///
/// # Errors
/// If something is damaged that stands nowhere else: nothing was changed then.
pub fn repair_ordered<R: ByteRegion>(
    region: Arc<R>,
    base: u64,
    (geometry, store_id): (Geometry, u64),
    hasher: KeyHasher,
) -> Result<Vec<String>, StoreError> {
    let medium = Arc::new(Medium::new(region, base, geometry, store_id));
    let manifest = medium.stored_manifest().ok_or_else(|| nowhere("the manifest"))?;
    let root = medium.newest_root().filter(|_| medium.has_committed_root());
    let root = root.ok_or_else(|| nowhere("the root, which says which nodes count,"))?;
    let options = LogOptions { block_bytes: geometry.page_bytes, store_id };
    let (log, _) = Log::open(log_of(&medium), options, manifest.log_floor, 1)
        .map_err(|error| StoreError::Corrupt(error.to_string()))?;
    let mut repair = Repair {
        nodes: Nodes::new(medium.clone(), hasher, None),
        lost: LostLines::new(&medium, &log),
        medium,
        log,
        root,
        counts: root.sequence - u64::from(!root.is_committed),
        flushed: manifest.flush_versions,
        is_closed: manifest.clean,
    };
    let slots = repair.node_slots();
    let mut work = Work::default();
    let whole = repair.whole_nodes(&slots, &mut work);
    repair.look_into(whole, &mut work);
    repair.find_records(&mut work.wanted)?;
    if !repair.lost.pages.is_empty() {
        for at in work.wanted.iter().filter_map(Wanted::place) {
            repair.leads(at);
        }
        repair.lost.see_log(&repair.medium, &repair.log)?;
    }
    Ok(repair.change(&slots, work))
}

impl<R: ByteRegion> Repair<R> {
    /// Does it.
    fn change(&self, slots: &[u32], mut work: Work) -> Vec<String> {
        let no_work = work.blanks.is_empty() && work.ends.is_empty() && work.texts.is_empty();
        if no_work && work.mends.is_empty() && self.lost.pages.is_empty() {
            return Vec::new();
        }
        let (mut made_anew, mut lost) = (0u64, 0u64);
        for wanted in &work.wanted {
            let (mend, i) = wanted.of;
            let mend = &mut work.mends[mend];
            match wanted.found {
                Some((entry, hash)) => {
                    set_fp(&mut mend.fps, i, fp_of(hash));
                    mend.entries.push((i, entry));
                    made_anew += 1;
                }
                None => {
                    mend.bitmap &= !(1 << i);
                    lost += 1;
                }
            }
        }
        self.count_anew(slots);
        self.save_lines();
        self.save_texts(&work);
        self.free(&work.blanks);
        self.save_mends(&work.mends);
        // Those that were given up are missed no more.
        self.medium.note_nodes(work.nodes);
        self.medium.region.fence();
        let lines = self.lost.tell((Kind::Nodes, "nodes"));
        let clears = work.mends.iter().filter(|mend| mend.about.is_lost).count() as u64;
        let most = work.given_up * self.nodes.entries as u64;
        let told = [
            (
                work.commits,
                "nodes had a wrong bit in the word that says which entries they have: it was set right"
                    .to_owned(),
            ),
            (work.texts.len() as u64, "texts of fences were made anew from keys".into()),
            (
                work.ends.len() as u64,
                "nodes did not say whether they have ended: they have not, for the store was closed".into(),
            ),
            (made_anew, "damaged entries of nodes were made anew from their records".into()),
            (
                lost,
                "damaged entries of nodes were given up, a record each: their keys are not there any more"
                    .into(),
            ),
            (work.fingerprints, "nodes had wrong fingerprints: they were made anew from keys".into()),
            (work.astray, "entries of nodes were given up that no key was found by".into()),
            (
                work.given_up,
                format!(
                    "nodes were given up, and {most} records with them at most: their keys are not there any more"
                ),
            ),
            (clears, "nodes had lost records before: the keys of these are not there any more".into()),
        ];
        let told = told.into_iter().filter(|(count, _)| *count > 0);
        lines.into_iter().chain(told.map(|(count, what)| format!("{count} {what}"))).collect()
    }

    /// The root says that all is to be counted anew. What a round that was cut off had made does not count, for the log has it: the root
    /// has a later number then, with which it would.
    fn count_anew(&self, slots: &[u32]) {
        let mut root = self.root;
        if !root.is_committed {
            for &slot in slots {
                // What a dead process stored may be in a cache only.
                self.medium.region.flush(self.medium.at(self.nodes.place_of_slot(slot)), META_BYTES);
                match self.nodes.read_slot(slot, self.counts) {
                    FoundSlot::NotYet(sequence) => self.nodes.remove(slot, sequence),
                    FoundSlot::Node(..) | FoundSlot::Damaged(_) => self.nodes.unend(slot),
                    FoundSlot::Free | FoundSlot::Ended | FoundSlot::Unknown | FoundSlot::Blank => {}
                }
            }
            self.medium.region.fence();
            (root.sequence, root.is_committed) = (root.sequence + 1, true);
            (root.upto, root.round) = (root.from, root.from);
        }
        root.is_uncertain = true;
        // What is written over first may be the only copy of the newest one.
        self.medium.agree_on_root();
        self.medium.save_root(&root);
    }
    /// Lines that are lost are there again, and what is live in a page is counted anew.
    fn save_lines(&self) {
        for page in 0..self.medium.pages() as u32 {
            let line = match (self.lost.pages.get(&page), self.medium.page_line(page)) {
                (Some(kind), _) => PageLine { kind: *kind, order: 1, ..PageLine::default() },
                (None, Some(line)) if line.kind != Kind::Free && line.is_exact => {
                    PageLine { sequence: line.sequence + 1, is_exact: false, ..line }
                }
                _ => continue,
            };
            self.medium.save_page_line(page, &line);
        }
    }
    fn save_texts(&self, work: &Work) {
        for (slot, fence) in &work.texts {
            let bytes = encode_text(self.nodes.of(*slot), None, fence);
            self.medium.region.write_nt(self.medium.at(self.nodes.place_of_slot(*slot)), &bytes);
        }
        work.ends.iter().for_each(|slot| self.nodes.unend(*slot));
        self.medium.region.fence();
    }
    /// Slots are free: the word that says so comes first, for what is cut off must not make a node whole.
    fn free(&self, slots: &[u32]) {
        slots.iter().for_each(|slot| self.nodes.uncommit(*slot));
        self.medium.region.fence();
        for slot in slots {
            let mut blank = [0; META_BYTES];
            blank[COMMIT_AT..COMMIT_AT + 8].copy_from_slice(&free_word(self.nodes.of(*slot)).to_le_bytes());
            self.medium.region.write_nt(self.medium.at(self.nodes.place_of_slot(*slot)), &blank);
        }
        self.medium.region.fence();
    }
    /// Entries are there before the words that make them count, and what was lost is forgotten last.
    fn save_mends(&self, mends: &[Mend]) {
        let region = &self.medium.region;
        for Mend { slot, entries, .. } in mends {
            for (i, entry) in entries {
                let place = self.nodes.place_of_slot(*slot) + entry_at(*i) as u64;
                region.write(self.medium.at(place), &entry.encode(self.medium.store_id, place));
                region.flush(self.medium.at(place), ENTRY_BYTES);
            }
        }
        region.fence();
        for Mend { slot, about, before, bitmap, fps, .. } in mends {
            let place = self.medium.at(self.nodes.place_of_slot(*slot));
            for (word, at) in FP_AT.iter().enumerate().filter(|(word, _)| fps[*word] != before.fps[*word]) {
                region.store_u64(place + *at as u64, fps[word]);
                region.flush(place + *at as u64, 8);
            }
            self.nodes.commit(*slot, &self.seen(*slot, about, *bitmap, *fps));
        }
        region.fence();
        for at in STATIC_AT {
            for Mend { slot, about, .. } in mends.iter().filter(|mend| mend.about.is_lost) {
                let bytes = Static { is_lost: false, ..about.clone() }.encode(self.nodes.of(*slot));
                region.write_nt(self.medium.at(self.nodes.place_of_slot(*slot)) + at as u64, &bytes);
            }
            region.fence();
        }
    }
}
