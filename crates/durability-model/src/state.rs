//! A state of the model: what clients, DRAM, log and tier hold, and what was promised. All bytes, so that it is small.

use crate::slab::{Cell, Slab, WARM};

/// Bounds of the arrays; a [`Bounds`](crate::Bounds) may ask for less.
pub const SESSIONS: usize = 3;
/// Keys.
pub const KEYS: usize = 2;
/// Writes in a history.
pub const WRITES: usize = 6;
/// Groups of one session that are in the log at once.
pub const GROUPS: usize = 4;
/// Slots of the tier.
pub const SLOTS: usize = 4;
/// Records of a page.
pub const RECORDS: usize = 2;
/// Answers that are held back at once.
pub const TICKETS: usize = 4;

/// A set of writes, bit `number - 1` each.
pub type Writes = u8;

/// For each session a version.
pub type Positions = [u8; SESSIONS];

/// The number of a write, from 1 in the order in which they are published; 0 is none.
pub type Number = u8;

/// What a write does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
#[repr(u8)]
pub enum Kind {
    /// Sets one key.
    #[default]
    Set,
    /// Deletes one key.
    Delete,
    /// Sets both keys as one step.
    SetBoth,
    /// Forgets the database that key 0 is in; key 1 is in another one.
    Flush,
}

/// A write that was published.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Write {
    /// Who.
    pub session: u8,
    /// What.
    pub kind: Kind,
    /// Of which key.
    pub key: u8,
    /// Its version; 0 where there is no write.
    pub version: u8,
    /// All that its session had seen. Known to the judge alone: the protocol has its own, smaller, notes.
    pub past: Writes,
}

/// Where a session's batch is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
#[repr(u8)]
pub enum Turn {
    /// Between batches.
    #[default]
    Idle,
    /// Its write can be read by others and is not in the log.
    Published,
    /// The log write has been started.
    Writing,
}

/// What a session keeps in DRAM (`engine/src/core`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Session {
    /// Where it is.
    pub turn: Turn,
    /// The write that is not in the log yet.
    pub write: Number,
    /// The newest page that holds its records.
    pub max_seq: u8,
    /// All writes that it saw in this life of the store (the judge's).
    pub past: Writes,
    /// For each session the newest version seen, by this batch and by earlier ones (`seen`, `carried`).
    pub need: Positions,
    /// The newest ones recorded in the log (`recorded`).
    pub recorded: Positions,
}

/// An answer that is held back (`Ticket`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Ticket {
    /// Whose, plus one; 0: none.
    pub session: u8,
    /// The session's own version that it rests on.
    pub own: u8,
    /// Versions of others that it rests on.
    pub seen: Positions,
    /// What giving it promises.
    pub promise: Writes,
}

/// How much of a group, or of its erasure, is where.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
#[repr(u8)]
pub enum At {
    /// There is no group here.
    #[default]
    Nowhere,
    /// Its write was started.
    InFlight,
    /// Its write has completed: in the page cache, or (after the death of a process) in the caches of the processor.
    Written,
    /// Safe from power loss.
    Durable,
    /// A sync that began before its write completed was taken to cover it (a planted bug).
    Presumed,
    /// A crash took it.
    Lost,
    /// An opening cut it; that is not safe from power loss.
    Cut,
    /// Reclaimed; its erasure is not safe from power loss.
    Freed,
}

/// A group in the log, in a log block of its own (`log/src/group.rs`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Group {
    /// How far it came.
    pub at: At,
    /// What it holds.
    pub write: Number,
    /// 0: all of the write; else only the record of key `part - 1`: 1 is open, and counts with the next group alone.
    pub part: u8,
    /// 1: its slot's log held nothing when it was written (the header's flag *first*).
    pub first: u8,
    /// The version of the group before it.
    pub before: u8,
    /// The durable position it claims for its session.
    pub claim: u8,
    /// Dependencies, by session; 0: none.
    pub needs: Positions,
    /// The newest page that holds its records: it is kept until that is persisted.
    pub max_seq: u8,
}

/// A record in a page or block: twice the number of the write, plus the key; 0: none.
pub type Record = u8;

/// States of a slot in DRAM (`blocks/src/slots.rs`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
#[repr(u8)]
pub enum Use {
    /// Free.
    #[default]
    Free,
    /// A page that is written to.
    Mutable,
    /// A page on its way to the medium.
    ReadOnly,
    /// A block.
    Sealed,
    /// A block that nothing refers to.
    Freeing,
}

/// The block table's entry for a slot.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Slot {
    /// What for.
    pub state: Use,
    /// Its sequence number.
    pub seq: u8,
    /// What the page or block holds.
    pub records: [Record; RECORDS],
}

/// A block's bytes on the medium.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Image {
    /// 0: the header is empty.
    pub seq: u8,
    /// 1: not all of it arrived.
    pub torn: u8,
    /// The records.
    pub records: [Record; RECORDS],
}

/// What was written to a place and is not safe from power loss yet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
#[repr(u8)]
pub enum Change {
    /// Nothing.
    #[default]
    None,
    /// A whole new image.
    Image,
    /// Its header was cleared.
    Cleared,
}

/// A slot's place on the medium.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Place {
    /// What power loss can't take.
    pub durable: Image,
    /// What was done since.
    pub change: Change,
    /// The new image, if that is it.
    pub new: Image,
}

/// The manifest (`engine/src/manifest.rs`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Manifest {
    /// Blocks up to this number were flushed whole.
    pub persisted: u8,
    /// Log entries up to this version are not needed.
    pub floor: u8,
    /// The newest whole-database flush.
    pub flush: Number,
}

/// Where a key's record is: the number of its write and the sequence number of its page or block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Entry {
    /// 0: the key is not indexed.
    pub write: Number,
    /// The use of a slot.
    pub seq: u8,
}

/// Something on its way that waits for a barrier.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Pending {
    /// A slot plus one, or for a log floor its version plus one; 0: nothing is on its way.
    pub what: u8,
    /// It has been written to the medium.
    pub written: u8,
    /// The page that must be persisted first.
    pub seq: u8,
    /// What must be safe from power loss first.
    pub barrier: Positions,
}

/// What dies with the process.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Dram {
    /// The sessions.
    pub sessions: [Session; SESSIONS],
    /// Answers held back, sorted.
    pub tickets: [Ticket; TICKETS],
    /// The index.
    pub index: [Entry; KEYS],
    /// The block table.
    pub slots: [Slot; SLOTS],
    /// The newest page.
    pub last_seq: u8,
    /// The newest page that reclamation moved a record to.
    pub moved_seq: u8,
    /// The newest whole-database flush.
    pub flush: Number,
    /// Versions up to here were durable when the store was opened, or their groups were freed.
    pub base: Positions,
    /// The last version published.
    pub issued: Positions,
    /// A page on its way to the medium.
    pub flushing: Pending,
    /// A block on its way to be free.
    pub freeing: Pending,
    /// A log floor on its way to the manifest.
    pub floor: Pending,
    /// A sync of the log is running (1), and what it covers.
    pub syncing: u8,
    /// The written positions when it began.
    pub covered: Positions,
    /// Since when a write is unsynced: 0 none is, 1 within the window, 2 for longer.
    pub unsynced_since: u8,
    /// The same for those that the running sync covers.
    pub syncing_since: u8,
    /// Records, homes and rounds of engine `tac`.
    pub slab: Slab,
}

/// Whether the store is open.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
#[repr(u8)]
pub enum Phase {
    /// Open.
    #[default]
    Open,
    /// Nobody has looked at the media since the crash.
    Down,
    /// The log was judged, and what must be cut is being erased.
    Judged,
    /// The log is as it will be.
    LogReady,
    /// Of `tac`: torn pages are being cleared, then those that were found are trusted.
    Trusting,
    /// Blocks that hold nothing are being cleared.
    Clearing,
    /// The tier is as it will be.
    TierReady,
    /// The manifest is being stored.
    Storing,
    /// The opening has found damage, and says so.
    Refused,
}

/// A promise that was broken.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
#[repr(u8)]
pub enum Broken {
    /// None.
    #[default]
    Nothing,
    /// What an answer rested on is gone.
    Lost,
    /// Something survived without what it had seen, or without its other half, or a session's prefix has a gap.
    NotClosed,
    /// A deleted, replaced or cut write came back.
    Resurrected,
    /// Opening takes a crash for damage.
    FalseDamage,
    /// Answers of more than one window were lost.
    Window,
    /// A reader finds an older version than the newest.
    Stale,
    /// The count of records is wrong.
    Count,
}

/// A state of the whole.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct State {
    /// Open, or how far an opening is.
    pub phase: Phase,
    /// The power failed since the store was last open.
    pub power_failed: u8,
    /// Crashes so far.
    pub crashes: u8,
    /// Reads so far.
    pub reads: u8,
    /// Sessions and keys used so far: where they are all alike, the next one to be used is the lowest.
    pub used: [u8; 2],
    /// The last version given: stored ahead of use, so that it survives (`time_us`, `version_floor`).
    pub clock: u8,
    /// All writes ever.
    pub writes: [Write; WRITES],
    /// The log, by session, oldest first.
    pub log: [[Group; GROUPS]; SESSIONS],
    /// The tier.
    pub tier: [Place; SLOTS],
    /// The manifest that power loss can't take, and one that was written since (if the flag is 1).
    pub manifest: Manifest,
    /// The slots of the middle tier.
    pub cells: [Cell; WARM],
    /// 1: a page at rest has gone bad.
    pub rotten: u8,
    /// See `manifest`.
    pub manifest_new: (u8, Manifest),
    /// What dies with the process.
    pub dram: Dram,
    /// What answers rest on, which the death of the process must not take.
    pub promised: Writes,
    /// What power loss must not take.
    pub promised_power: Writes,
    /// Batch: promised before the current window.
    pub earlier: Writes,
    /// Writes that did not happen, as an opening found.
    pub dead: Writes,
    /// What went wrong.
    pub broken: Broken,
}

impl State {
    /// A write by its number.
    pub fn write(&self, number: Number) -> &Write {
        &self.writes[usize::from(number) - 1]
    }
    /// Its version; 0 for none.
    pub fn version(&self, number: Number) -> u8 {
        if number == 0 { 0 } else { self.write(number).version }
    }
    /// Whether a key's record is forgotten by a flush.
    pub fn is_flushed(&self, flush: Number, write: Number, key: usize) -> bool {
        key == 0 && self.version(write) <= self.version(flush)
    }
    /// Writes so far.
    pub fn count(&self) -> u8 {
        self.writes.iter().take_while(|write| write.version != 0).count() as u8
    }
    /// A set with all that its members had seen.
    pub fn closure(&self, set: Writes) -> Writes {
        (0..WRITES).filter(|i| set >> i & 1 == 1).fold(set, |all, i| all | self.writes[i].past)
    }
    /// The groups of a session's log.
    pub fn groups(&self, session: usize) -> impl Iterator<Item = &Group> {
        self.log[session].iter().take_while(|group| group.at != At::Nowhere)
    }
    /// The version of a group.
    pub fn group_version(&self, group: &Group) -> u8 {
        self.version(group.write)
    }
}

/// The set of one write, or of none.
pub fn only(number: Number) -> Writes {
    if number == 0 { 0 } else { 1 << (number - 1) }
}

/// A record's write and key.
pub fn parts(record: Record) -> (Number, usize) {
    (record / 2, usize::from(record % 2))
}

/// The record of a write and key.
pub fn record(write: Number, key: usize) -> Record {
    write * 2 + key as u8
}
