//! Which record an entry was of that is damaged: what is left of its fields says it.
//!
//! An entry says three things of its record: its key or the hash of that, its value or where it is, its version. And it has a check of them.
//! A record is the entry's if the check is that of the entry which the record has, and one of the three is the same; or if it is the check
//! that is damaged, and all three are the same. Less is not enough: a version of which a bit flips may be that of an older record of the key.

use std::collections::HashMap;

use terrace_blocks::{u32_at, u64_at};
use terrace_engine::SEAL_BYTES;
use terrace_engine::StoreError;
use terrace_engine::record::{Kind as RecordKind, RecordView};
use terrace_media::ByteRegion;

use super::find::fp_of;
use super::layout::{ENTRY_BYTES, Entry};
use super::plan::inline_of;
use super::repair::Repair;
use crate::layout::Kind;
use crate::walk::whole;

/// An entry that is damaged, or leads to another record than its own.
pub(super) struct Wanted {
    /// Which node of those that are mended, and which of its entries.
    pub of: (usize, usize),
    /// Where it is, and its bytes.
    at: u64,
    raw: [u8; ENTRY_BYTES],
    db: u8,
    /// The fingerprint of its key, if that is known.
    fp: Option<u8>,
    /// The keys of its node: from one on, and below another.
    keys: (Vec<u8>, Option<Vec<u8>>),
    /// What it was, and the hash of its key.
    pub found: Option<(Entry, u64)>,
}

impl Wanted {
    /// See the fields.
    pub fn new(
        of: (usize, usize),
        (at, raw): (u64, [u8; ENTRY_BYTES]),
        (db, fp): (u8, Option<u8>),
        keys: (Vec<u8>, Option<Vec<u8>>),
    ) -> Self {
        Self { of, at, raw, db, fp, keys, found: None }
    }
    /// Where the record is that it leads to, if that was found.
    pub fn place(&self) -> Option<u64> {
        self.found.and_then(|(entry, _)| entry.place())
    }
    fn version(&self) -> u64 {
        u64_at(&self.raw, 16)
    }
    /// Takes a record at a place, of a key with this hash, if it is the entry's.
    fn offer(&mut self, store_id: u64, place: u64, view: &RecordView<'_>, hash: u64) {
        let (fence, upper) = &self.keys;
        let belongs = view.head.meta.db() == self.db
            && view.key >= &fence[..]
            && upper.as_ref().is_none_or(|upper| view.key < &upper[..])
            && self.fp.is_none_or(|fp| fp == fp_of(hash));
        if !belongs || view.head.meta.kind() == RecordKind::Tombstone {
            return;
        }
        let reference = || Entry::reference(hash, place, view.head.version);
        let entry = inline_of(view).unwrap_or_else(reference);
        let bytes = entry.encode(store_id, self.at);
        let (of_entry, of_raw) = (Fields::of(&bytes), Fields::of(&self.raw));
        let same = of_entry.three.iter().zip(of_raw.three).filter(|(a, b)| **a == *b).count();
        if same == 3 || same > 0 && of_entry.check == of_raw.check {
            self.found = Some((entry, hash));
        }
    }
}

/// What an entry's bytes say, whether or not they hold together.
struct Fields {
    three: [u64; 3],
    check: u32,
}

impl Fields {
    fn of(bytes: &[u8; ENTRY_BYTES]) -> Self {
        Self { three: [0, 8, 16].map(|at| u64_at(bytes, at)), check: u32_at(bytes, 24) }
    }
}

impl<R: ByteRegion> Repair<R> {
    /// Finds the records of entries.
    ///
    /// # Errors
    /// The log's.
    pub(super) fn find_records(&self, wanted: &mut [Wanted]) -> Result<(), StoreError> {
        let mut bytes = Vec::new();
        let mut of_version: HashMap<u64, Vec<usize>> = HashMap::new();
        for (number, one) in wanted.iter_mut().enumerate() {
            let place = u64_at(&one.raw, 8);
            if place.is_multiple_of(8)
                && let Some(view) = self.medium.read_entry(place, &mut bytes)
            {
                one.offer(self.medium.store_id, place, &view, self.nodes.hasher.key(one.db, view.key).hash);
            }
            if one.found.is_none() {
                of_version.entry(one.version()).or_default().push(number);
            }
        }
        if of_version.is_empty() {
            return Ok(());
        }
        self.each_record(|place, view| {
            for number in of_version.get(&view.head.version).into_iter().flatten() {
                let hash = self.nodes.hasher.key(view.head.meta.db(), view.key).hash;
                wanted[*number].offer(self.medium.store_id, place, view, hash);
            }
        })
    }

    /// Shows the records of all pages that are not free, whoever leads to them.
    fn each_record(&self, mut show: impl FnMut(u64, &RecordView<'_>)) -> Result<(), StoreError> {
        for page in 0..self.medium.pages() as u32 {
            let line = self.medium.page_line(page);
            let kind = line.map(|line| line.kind).or_else(|| self.lost.pages.get(&page).copied());
            let generation = match (self.lost.generation(page), line, kind) {
                (Some(generation), ..) => generation,
                (None, Some(line), Some(Kind::Archived)) => line.generation,
                // Whatever it was: if an entry's record is in it, it is one of records from now on.
                (None, _, Some(Kind::Moved)) | (None, None, Some(Kind::Free)) => {
                    self.medium.moved_of(page, &mut show);
                    continue;
                }
                _ => continue,
            };
            let walked = self.log.walk(page, generation, whole, |entry| {
                let record = entry.bytes.get(SEAL_BYTES..).unwrap_or_default();
                let is_whole = whole(entry.bytes) == Some(entry.bytes.len());
                if let Some(view) = RecordView::decode(record).filter(|_| is_whole) {
                    show(self.medium.place_of_log(entry.place), &view);
                }
            });
            walked.map_err(|error| StoreError::Corrupt(error.to_string()))?;
        }
        Ok(())
    }
}
