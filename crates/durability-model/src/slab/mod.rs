//! The tier of engine `tac` (`docs/tac.md`): records in DRAM with homes and rounds, slots of a middle tier, pages below.
//!
//! ```text
//!   put, settle, purge          blind.rs     a key: [DRAM record] + [what the index refers to below]
//!   Stage  WritePage  SyncPages  Swing  Home   moves.rs     copy, make durable, swing
//!   Fill   FenceSlot  SwingSlot
//!   Promote  EvictClean
//!   rounds, floor, tombstones   rounds.rs    when the log may be cut
//!   LetGo  ClearSlot            free.rs      when a slot or page may be used again
//!   opening                     open.rs
//!   what must always hold       check.rs
//! ```
//!
//! Not here: room (DRAM has enough), epochs (an operation is one step), classes and formats of slabs, temperature.

mod blind;
mod check;
mod free;
mod moves;
mod open;
mod rounds;

use crate::protocol::{Action, Protocol};
use crate::state::{Dram, KEYS, Number, Pending, RECORDS, Record, SLOTS, State, Use, parts};

/// Slots of the middle tier; a [`Bounds`](crate::Bounds) may ask for less.
pub const WARM: usize = 2;

/// Where a copy is: 0 nowhere, 1 to [`WARM`] a slot of the middle tier, from [`PAGES`] on twice the page plus the record's place.
pub type Location = u8;
/// The first location of a page.
pub const PAGES: Location = 16;
/// The copy was made from a dirty record in DRAM.
pub const FROM_DRAM: Location = 128;

/// A record in DRAM.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Hot {
    /// 0: none.
    pub write: Number,
    /// Its durable copy; 0: it is dirty.
    pub home: Location,
    /// The round of its write; 0: clean.
    pub stamp: u8,
    /// 1: the index may refer to an older version of it below, unread.
    pub unsettled: u8,
    /// 1: that one was taken for live and counted.
    pub assumed_live: u8,
    /// In which half of the slabs it lies (a planted bug moves it).
    pub half: u8,
}

/// What a slot of the middle tier is used for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Warm {
    /// 0 free, 1 filled and not fenced, 2 whole.
    pub state: u8,
    /// Whence its record was copied, until the index is swung.
    pub from: Location,
}

/// A slot of the middle tier on the medium.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Cell {
    /// The record under the newest commit word.
    pub record: Record,
    /// How far the commit word is.
    pub commit: Commit,
    /// 1: the record was stored and not fenced before its commit word (a planted bug).
    pub unfenced: u8,
    /// 1: the commit word of an older record may come back under this one (a planted bug).
    pub stale: u8,
    /// 1: the commit word doesn't fit the record.
    pub torn: u8,
}

/// The commit word of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
#[repr(u8)]
pub enum Commit {
    /// Zero, and safe.
    #[default]
    Clear,
    /// Set, and safe.
    Set,
    /// Set, not fenced.
    Setting,
    /// Cleared, not fenced.
    Clearing,
}

impl Cell {
    /// Whether whoever looks finds a record.
    pub fn is_set(&self) -> bool {
        matches!(self.commit, Commit::Set | Commit::Setting)
    }
}

/// What of it dies with the process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Slab {
    /// Records in DRAM, by key.
    pub hot: [Hot; KEYS],
    /// What the index refers to below, by key.
    pub low: [Location; KEYS],
    /// The middle tier.
    pub warm: [Warm; WARM],
    /// By page and record, whence it was copied, until the index is swung.
    pub from: [[Location; RECORDS]; SLOTS],
    /// The round with which puts are stamped.
    pub round: u8,
    /// The round that is being retired.
    pub walking: u8,
    /// 1: the walk has passed the first half of the slabs (with a planted bug that moves records).
    pub half: u8,
    /// The walk has ended; what the round still waits for.
    pub retiring: Pending,
    /// The newest round that is retired.
    pub retired: u8,
    /// A slot on its way to be free.
    pub clearing: Pending,
    /// Live records counted, by key (each is its own database).
    pub count: [i8; KEYS],
    /// A page, plus one, to which no entry of the index was seen to refer (a planted bug).
    pub looked: u8,
}

/// A step of the tier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// A copy of a key's record enters the staged page.
    Stage(u8, Source),
    /// The staged page is written.
    WritePage,
    /// All pages written are synced, and cleared headers with them.
    SyncPages,
    /// What referred to the source of a page's record refers to the page; a dirty record has left DRAM.
    Swing(u8, u8),
    /// A record stays in DRAM and has its home in the page.
    Home(u8, u8),
    /// A copy of a key's record is stored in a free slot of the middle tier, with its commit word, which is not fenced.
    Fill(u8, Source),
    /// The second fence of a fill, or that of a clearing.
    FenceSlot(u8),
    /// As `Swing`.
    SwingSlot(u8),
    /// As `Home`, where there are no pages.
    HomeSlot(u8),
    /// A key's record below gets a copy in DRAM, and is its home.
    Promote(u8),
    /// A clean record leaves DRAM.
    EvictClean(u8),
    /// A round ends, and its walk begins.
    OpenRound,
    /// The walk has passed the first half (with a planted bug).
    WalkHalf,
    /// A dirty record moves to the other half (a planted bug).
    MoveHot(u8),
    /// No record of the round is without a home.
    WalkEnds,
    /// The round is retired.
    RetireRound,
    /// The manifest is stored.
    StoreManifest,
    /// The manifest is stored with a log floor.
    StoreFloor,
    /// A slot to which nothing refers is let go.
    LetGo(u8),
    /// Its commit word is cleared.
    ClearSlot,
    /// A page's entries are looked for in the index, and then among the homes (a planted bug).
    LookIndex(u8),
    /// The page seems to hold garbage.
    LookHomes,
    /// The unread candidate of a blind set is found to be an older version of it, or another key's.
    Settle(u8),
    /// A record that a whole-database flush has forgotten leaves the index.
    Purge(u8),
    /// A page at rest goes bad while the store is down.
    Rot(u8),
}

/// From where a copy is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// The dirty record in DRAM.
    Dram,
    /// The home of the record in DRAM.
    Home,
    /// What the index refers to.
    Low,
}

impl Protocol {
    pub(crate) fn slab_actions(&self, state: &State, out: &mut Vec<Action>) {
        let mut steps = Vec::new();
        self.move_steps(state, &mut steps);
        self.round_steps(state, &mut steps);
        self.free_steps(state, &mut steps);
        self.blind_steps(state, &mut steps);
        out.extend(steps.into_iter().map(Action::Slab));
        if state.dram.floor.what == 0 && state.clock > state.manifest.floor {
            out.push(Action::TakeFloor);
        }
        self.slab_free_actions(state, out);
    }

    pub(crate) fn slab_step(&self, state: &mut State, step: Step) {
        match step {
            Step::Stage(key, source) => self.stage(state, usize::from(key), source),
            Step::WritePage => write_page(state),
            Step::SyncPages => sync_pages(state),
            Step::Swing(page, i) => self.swing(state, page_location(page, i)),
            Step::Home(page, i) => set_home(state, page_location(page, i)),
            Step::Fill(key, source) => self.fill(state, usize::from(key), source),
            Step::FenceSlot(slot) => self.fence_slot(state, usize::from(slot)),
            Step::SwingSlot(slot) => self.swing(state, slot + 1),
            Step::HomeSlot(slot) => set_home(state, slot + 1),
            Step::Promote(key) => self.promote(state, usize::from(key)),
            Step::EvictClean(key) => evict_clean(state, usize::from(key)),
            Step::OpenRound => {
                state.dram.slab.walking = state.dram.slab.round;
                state.dram.slab.round += 1;
            }
            Step::WalkHalf => state.dram.slab.half = 1,
            Step::MoveHot(key) => state.dram.slab.hot[usize::from(key)].half ^= 1,
            Step::WalkEnds => self.walk_ends(state),
            Step::RetireRound => {
                let slab = &mut state.dram.slab;
                slab.retired = std::mem::take(&mut slab.walking);
                slab.retiring = Pending::default();
            }
            Step::StoreManifest => self.store_manifest(state, false),
            Step::StoreFloor => self.store_manifest(state, true),
            Step::LetGo(slot) => {
                let (seq, barrier) = (state.dram.moved_seq, state.dram.issued);
                state.dram.slab.clearing = Pending { what: slot + 1, written: 0, seq, barrier };
            }
            Step::ClearSlot => self.clear_slot(state),
            Step::LookIndex(page) => state.dram.slab.looked = page + 1,
            Step::LookHomes => {
                let page = std::mem::take(&mut state.dram.slab.looked) - 1;
                self.begin_freeing_page(state, usize::from(page));
            }
            Step::Settle(key) => self.settle_key(state, usize::from(key)),
            Step::Purge(key) => {
                let slab = &mut state.dram.slab;
                (slab.hot[usize::from(key)], slab.low[usize::from(key)]) = (Hot::default(), 0);
            }
            Step::Rot(page) => {
                let image = &mut state.tier[usize::from(page)].durable;
                (image.torn, image.records) = (1, [0; RECORDS]);
                state.rotten = 1;
            }
        }
    }
}

use free::sync_pages;
use moves::{evict_clean, set_home, write_page};

fn page_location(page: u8, i: u8) -> Location {
    PAGES + page * RECORDS as u8 + i
}

/// The page and place of a location.
fn place(location: Location) -> Option<(usize, usize)> {
    let is_page = (PAGES..FROM_DRAM).contains(&location);
    is_page.then(|| {
        let offset = usize::from(location - PAGES);
        (offset / RECORDS, offset % RECORDS)
    })
}

/// What a reader finds at a location.
fn content(state: &State, location: Location) -> Record {
    match place(location) {
        Some((page, i)) => state.dram.slots[page].records[i],
        None if location == 0 => 0,
        None => state.cells[usize::from(location) - 1].record,
    }
}

/// Whether the index or a home refers to a location.
fn is_referred(dram: &Dram, location: Location) -> bool {
    dram.slab.low.contains(&location)
        || dram.slab.hot.iter().any(|hot| hot.write != 0 && hot.home == location)
}

/// Where the records of a page are.
fn locations(page: usize) -> impl Iterator<Item = Location> {
    (0..RECORDS).map(move |i| page_location(page as u8, i as u8))
}

/// What the index yields for a key.
pub(crate) fn current(state: &State, key: usize) -> Number {
    match state.dram.slab.hot[key].write {
        0 => parts(content(state, state.dram.slab.low[key])).0,
        write => write,
    }
}

/// The newest page up to which all are whole (`sealed_seq`).
fn sealed_seq(state: &State) -> u8 {
    let written = state.dram.slots.iter().filter(|slot| slot.state == Use::ReadOnly).map(|slot| slot.seq);
    written.min().map_or(state.dram.last_seq, |seq| seq - 1)
}
