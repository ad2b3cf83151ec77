//! What a crash at one position may choose, and how a choice becomes an image.

use terrace_media::IO_ALIGN;

use crate::choices::Arity;
use crate::image::CrashImage;
use crate::page_choice::{PageOptions, wild_sectors};
use crate::point::CrashPoint;
use crate::replay::{Medium, Replay, SECTOR_BYTES, SECTORS, Stored, Version, pages_of};
use crate::trace::{Event, Trace};

/// What crashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// The machine: unflushed lines and unsynced pages are kept, lost or torn.
    Power,
    /// The process alone: everything it completed is kept, the access it was in may be half done.
    Process,
}

/// What survives of a line that was stored to and not flushed and fenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// Any prefix of the line's stores, as x86 keeps them in order.
    Prefix,
    /// Any subset: each aligned word in any of its versions.
    Strict,
}

/// One independent choice.
enum Dim {
    /// The first `k` of `stores[from..to]` survive: a line's list, one word's versions, or the done part of a store.
    Stores { medium: usize, from: usize, to: usize },
    /// A page in one of its versions, or torn between them.
    Page { medium: usize, page: usize, versions: Vec<Version>, options: PageOptions },
}

/// The choices of a crash at one position.
pub(crate) struct Snapshot {
    stores: Vec<Stored>,
    dims: Vec<Dim>,
    /// So many leading dimensions are not chosen but take their newest option (a process crash keeps what completed).
    fixed: usize,
}

impl Snapshot {
    pub(crate) fn take(replay: &Replay<'_>, point: &CrashPoint, model: Model) -> Self {
        let crash = point.crash;
        let mut snapshot = Self { stores: Vec::new(), dims: Vec::new(), fixed: 0 };
        for (medium, state) in replay.media.iter().enumerate() {
            match state {
                Medium::Region(lines) => {
                    for list in lines.pending.values() {
                        snapshot.add_line(medium, list, crash, model);
                    }
                }
                Medium::Block(pages) => {
                    for (page, versions) in &pages.pending {
                        snapshot.add_page(medium, *page, versions, pages.base_page(*page), replay.trace);
                    }
                }
            }
        }
        if crash == Crash::Process {
            snapshot.fixed = snapshot.dims.len();
            if point.kind.is_inside() {
                snapshot.add_in_flight(replay);
            }
        }
        snapshot
    }

    fn add_line(&mut self, medium: usize, list: &[Stored], crash: Crash, model: Model) {
        let from = self.stores.len();
        self.stores.extend_from_slice(list);
        if model == Model::Prefix || crash == Crash::Process {
            self.dims.push(Dim::Stores { medium, from, to: self.stores.len() });
            return;
        }
        // A word's versions become neighbours; the sort is stable, so they stay in order.
        self.stores[from..].sort_by_key(|stored| stored.word);
        let mut at = from;
        while at < self.stores.len() {
            let word = self.stores[at].word;
            let to = at + self.stores[at..].iter().take_while(|stored| stored.word == word).count();
            self.dims.push(Dim::Stores { medium, from: at, to });
            at = to;
        }
    }

    fn add_page(&mut self, medium: usize, page: usize, versions: &[Version], base: &[u8], trace: &Trace) {
        let bytes: Vec<&[u8]> =
            versions.iter().map(|(start, _)| &trace.arena[*start..start + IO_ALIGN]).collect();
        let options = PageOptions::new(base, &bytes);
        if options.listed.len() > 1 {
            self.dims.push(Dim::Page { medium, page, versions: versions.to_vec(), options });
        }
    }

    /// The access that the process died in: a store stops between words, a write between pages.
    fn add_in_flight(&mut self, replay: &Replay<'_>) {
        match replay.next_event() {
            Some(Event::Store { medium, offset, bytes, site, .. }) => {
                let medium = medium.0 as usize;
                if let Medium::Region(lines) = &replay.media[medium] {
                    let from = self.stores.len();
                    self.stores.extend(lines.stored_words(*offset, replay.trace.bytes(*bytes), *site));
                    self.dims.push(Dim::Stores { medium, from, to: self.stores.len() });
                }
            }
            Some(Event::BlockWrite { medium, offset, bytes, site }) => {
                for (page, start) in pages_of(*offset, *bytes) {
                    let options = PageOptions::whole_or_nothing();
                    let versions = vec![(start, *site)];
                    self.dims.push(Dim::Page { medium: medium.0 as usize, page, versions, options });
                }
            }
            _ => {}
        }
    }

    /// The dimensions that are to be chosen.
    pub(crate) fn arities(&self) -> Vec<Arity> {
        self.dims[self.fixed..].iter().map(Dim::arity).collect()
    }

    /// Whether the choice keeps the newest of its dimension `i`.
    pub(crate) fn newest(&self, i: usize) -> u32 {
        self.dims[self.fixed + i].arity().listed - 1
    }

    /// Patches an image that holds the durable content.
    pub(crate) fn apply(&self, choice: &[u32], image: &CrashImage, trace: &Trace) {
        let fixed = self.dims[..self.fixed].iter().map(|dim| (dim, dim.arity().listed - 1));
        let chosen = self.dims[self.fixed..].iter().zip(choice.iter().copied());
        for (dim, option) in fixed.chain(chosen) {
            match dim {
                Dim::Stores { medium, from, to } => {
                    if let Some(region) = image.region_of(*medium) {
                        let survivors = &self.stores[*from..*to.min(&(from + option as usize))];
                        survivors.iter().for_each(|stored| region.patch(stored.word, stored.value));
                    }
                }
                Dim::Page { medium, page, versions, options } => {
                    let Some(block) = image.block_of(*medium) else { continue };
                    let sectors = options.sectors(option, versions.len());
                    for (sector, version) in
                        sectors.into_iter().enumerate().filter(|(_, version)| *version > 0)
                    {
                        let start = versions[version as usize - 1].0 + sector * SECTOR_BYTES;
                        let bytes = &trace.arena[start..start + SECTOR_BYTES];
                        block.patch(page * IO_ALIGN + sector * SECTOR_BYTES, bytes);
                    }
                }
            }
        }
    }

    /// A sentence for each dimension that did not keep its newest option.
    pub(crate) fn describe(&self, choice: &[u32], trace: &Trace) -> Vec<String> {
        let chosen = self.dims[self.fixed..].iter().zip(choice);
        chosen
            .filter(|(dim, option)| **option != dim.arity().listed - 1)
            .map(|(dim, option)| dim.describe(*option, &self.stores, trace))
            .collect()
    }
}

impl Dim {
    fn arity(&self) -> Arity {
        match self {
            Self::Stores { from, to, .. } => Arity { listed: (to - from) as u32 + 1, wild: false },
            Self::Page { options, .. } => {
                Arity { listed: options.listed.len() as u32, wild: !options.complete }
            }
        }
    }

    fn describe(&self, option: u32, stores: &[Stored], trace: &Trace) -> String {
        match self {
            Self::Stores { medium, from, to } => {
                let list = &stores[*from..*to];
                let lost = &list[option as usize];
                let (offset, site) = (lost.word * 8, trace.site_name(lost.site));
                let all = list.len();
                format!(
                    "medium {medium}: {option} of {all} stores to the line or word survive; first lost: {offset:#x}, {site}"
                )
            }
            Self::Page { medium, page, versions, options } => {
                let sectors = options.sectors(option, versions.len());
                let sites: Vec<String> = versions.iter().map(|(_, site)| trace.site_name(*site)).collect();
                let offset = page * IO_ALIGN;
                format!(
                    "medium {medium}: page at {offset:#x} has its sectors in versions {sectors:?} (0 durable; written by {})",
                    sites.join(", ")
                )
            }
        }
    }
}

impl PageOptions {
    fn sectors(&self, option: u32, versions: usize) -> [u16; SECTORS] {
        match self.listed.get(option as usize) {
            Some(sectors) => *sectors,
            None => wild_sectors(option, versions),
        }
    }
}
