//! The seam between the machine and the places where records live.
//!
//! HeterMM's two calls (section 3.2) are its heart: `get_value(address)` is [`Space::fetch`],
//! `set_value(address, key, value) -> address` is [`Space::put`]. Everything else is what a prototype leaves out: room that is
//! made before a critical section, device reads that don't block, values of any size, background steps, recovery.

use std::os::fd::RawFd;

use terrace_index::{Address, Index, Key};
use terrace_media::Buffer;

use crate::commit::Barrier;
use crate::manifest::Manifest;
use crate::op::DATABASES;
use crate::record::{Head, NewRecord};
use crate::session::{Progress, StoreError};
use crate::stats::{Failure, TierStats};

/// What a fetch copies out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// The head alone (an extent's description is copied all the same: it is needed to free it).
    Head,
    /// The value (or the extent's description) too.
    Value,
}

/// What a fetch found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fetch {
    /// The record of the key; its value was appended if it was wanted.
    Match(Head),
    /// A record of another key.
    Differs,
    /// The record is on a device: see [`Space::start_read`].
    NeedsRead,
    /// The record of this key's hash, and its checksum does not match. The head holds the version.
    Damaged(Head),
}

/// The result of asking for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// The next `put` of that size can't fail.
    Ready,
    /// None now; background steps will make some.
    Wait,
    /// None, and background steps can't make any.
    Full,
}

/// What room is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Ordinary writes.
    Write,
    /// Deletes and other writes that let space be reclaimed: they may use the reserve.
    Release,
    /// Records that the log brought back: they were let in once, so they may use all there is.
    Restore,
}

/// A read that was started for a session has come to an end.
#[derive(Debug)]
pub struct Arrival {
    /// The token it was started with.
    pub token: u64,
    /// What came.
    pub outcome: Arrived,
}

/// What a device read brought.
#[derive(Debug)]
pub enum Arrived {
    /// A whole record, encoded and verified.
    Record(Vec<u8>),
    /// An extent's bytes, verified.
    Extent(Buffer),
    /// The place was reused meanwhile: look the key up again.
    Moved,
    /// What is there is damaged; for a record, what the block's footer says of it.
    Damaged {
        /// The key's hash.
        hash: u64,
        /// As [`Head::lost`] makes it.
        head: Head,
    },
    /// The device failed.
    Failed,
}

/// A large value that another one is to replace.
#[derive(Clone, Copy, Debug)]
pub struct Former<'a> {
    /// What describes it.
    pub description: &'a [u8],
    /// Its bytes.
    pub value: &'a [u8],
}

/// The longest things a space takes, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Of a key.
    pub key_bytes: usize,
    /// Of a value that lies in the record; longer ones are extents.
    pub inline_bytes: usize,
    /// Of a value.
    pub value_bytes: u64,
    /// Of all records of an atomic group together.
    pub group_bytes: usize,
    /// The same, of one that fits a page; room for longer ones is kept until [`Space::rest`].
    pub short_group_bytes: usize,
}

/// What a record is put over.
#[derive(Clone, Copy, Debug)]
pub enum Under<'a> {
    /// Nothing that is known of.
    Nothing,
    /// The key's record.
    Record {
        /// Where it is.
        address: Address,
        /// Its head.
        head: &'a Head,
        /// Whether a whole-database flush forgot it.
        forgotten: bool,
        /// Whether it may be written over where it is.
        in_place: bool,
    },
    /// A record that may be the key's, which nobody has read: it stays in the index, beside the new one. See
    /// [`Space::takes_unread`].
    Unread(Address),
}

impl<'a> Under<'a> {
    /// The record that may be written over.
    #[inline]
    pub fn to_rewrite(self) -> Option<(Address, &'a Head)> {
        match self {
            Self::Record { address, head, in_place: true, .. } => Some((address, head)),
            _ => None,
        }
    }
    /// Where it is.
    #[inline]
    pub fn address(self) -> Option<Address> {
        match self {
            Self::Nothing => None,
            Self::Record { address, .. } | Self::Unread(address) => Some(address),
        }
    }
}

/// What background steps of a space may ask of the machine.
pub trait Context {
    /// Begins a new epoch.
    fn advance_epoch(&self) -> u64;
    /// Whether every session has left the epochs before this one.
    fn epoch_passed(&self, epoch: u64) -> bool;
    /// Everything published so far.
    fn barrier(&self) -> Barrier;
    /// Whether that is safe from power loss. Where it isn't, asks for a sync.
    fn barrier_passed(&self, barrier: &Barrier) -> bool;
    /// Whether this version, and all that it rests on, is safe from power loss. Where it isn't, asks for a sync.
    fn settled(&self, version: u64) -> bool;
    /// Whether there is a log: if not, only flushed records survive.
    fn logged(&self) -> bool;
    /// Whether the stored manifest says that pages up to this sequence number were flushed whole; if not, it soon will, once they
    /// are. Until then damage in them may be taken for a torn flush.
    fn trusts(&self, seq: u64) -> bool;
    /// Stores a manifest if somebody waits for trust and it can be given. Background work does that by itself; a space that is
    /// being closed has to ask, for then nobody else works.
    ///
    /// # Errors
    /// The device's.
    fn give_trust(&self) -> std::io::Result<()> {
        Ok(())
    }
    /// Every log entry with at most this version is gone from the log.
    fn log_floor(&self) -> u64;
    /// Every page up to this sequence number should be persisted soon (the log needs room); 0 for none.
    fn flush_wanted(&self) -> u64;
    /// Records of this database with at most this version are dead.
    fn flush_version(&self, db: u8) -> u64;
    /// The time in milliseconds.
    fn now_ms(&self) -> u64;
    /// Tombstones up to this version have been removed from the index: new versions must be above.
    fn raise_version_floor(&self, version: u64);
    /// A record left the index without an operation (dead by a whole-database flush).
    fn forgotten(&self, kind: crate::record::Kind);
    /// A damaged record was replaced by one that says so: what it was no longer matters, it counts as a key.
    fn poisoned(&self, kind: crate::record::Kind, db: u8, expires: bool);
    /// A record that was put beside unread ones of this database, and has this version now, has been told from them: the newest older
    /// version of its key is `found`, or there is none, which the count is put right by. Waits for a flush: not for critical sections.
    fn recount(&self, db: u8, version: u64, found: Option<Replaced>);
    /// Tombstones the index holds, and live keys.
    fn tombstones_and_keys(&self) -> (u64, u64);
    /// Runs `work` while no whole-database flush begins or is under way: what it counts and what a flush forgets are told apart. Not
    /// for critical sections.
    fn hold_flushes(&self, work: &mut dyn FnMut()) {
        work();
    }
    /// A live key of this database, whose record had an expiry, left the index because its time has passed.
    fn expired(&self, _db: u8) {}
    /// Whether somebody wants to hear of every key that expires: then none leaves the index unread.
    fn tells_expired(&self) -> bool {
        false
    }
    /// Whether keys that a search reported are being deleted. Nothing else is searched meanwhile: it must not wait for that.
    fn is_purging(&self) -> bool {
        false
    }
    /// Whether for some of them there was no room: what they take is not live, though they are there.
    fn has_unpurged(&self) -> bool {
        false
    }
    /// Where the key hashes come from.
    fn hasher(&self) -> crate::hash::KeyHasher;
}

/// The newest of a key's records that a blind set replaced.
#[derive(Clone, Copy, Debug)]
pub struct Replaced {
    /// Its version.
    pub version: u64,
    /// What it stood for.
    pub kind: crate::record::Kind,
    /// Whether it had an expiry.
    pub expires: bool,
}

/// A record found on a medium while recovering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The key's hash.
    pub hash: u64,
    /// 32 more bits of the key: see [`KeyHasher::check`](crate::hash::KeyHasher::check).
    pub check: u32,
    /// The version.
    pub version: u64,
    /// Where.
    pub address: Address,
    /// Words of its place.
    pub words: u32,
    /// What it stands for.
    pub kind: crate::record::Kind,
    /// The database.
    pub db: u8,
    /// How long it lasts.
    pub life: crate::record::Lifetime,
}

/// What a snapshot says of the whole store beside index and space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Live keys of each database.
    pub keys: [u64; DATABASES],
    /// Those of them that have an expiry.
    pub expiring: [u64; DATABASES],
    /// Tombstones in the index.
    pub tombstones: u64,
    /// Of the keys, those whose record says that it was damaged.
    pub poisoned: u64,
}

/// Where records live. See the module's text.
///
/// # Thread safety
/// `put` and `release` of one key run inside the index's critical section for that key; `fetch` runs anywhere inside an
/// epoch. A `Local` belongs to one session.
pub trait Space: Send + Sync + 'static {
    /// What a session keeps: its open page, its queue of reads.
    type Local: Send;

    /// Whether a deleted key must leave a tombstone (older copies may exist somewhere).
    const TOMBSTONES: bool;

    /// The longest things this space takes.
    fn limits(&self) -> Limits;

    /// A session begins.
    ///
    /// # Errors
    /// If its queue of reads can't be made.
    fn attach(&self, slot: usize) -> Result<Self::Local, StoreError>;

    /// Gives up the session's open page, so that it can be flushed.
    fn detach(&self, local: &mut Self::Local);

    /// Starts loading the record into the cache.
    fn touch(&self, address: Address);

    /// Reads the record at an address if it can be had without waiting. With a key, compares it first; without, takes
    /// whatever is there and appends the *key* before the value. `out` gets what is wanted, only on a match.
    fn fetch(&self, address: Address, key: Option<&Key<'_>>, want: Want, out: &mut Buffer) -> Fetch;

    /// A number that changes when the place is reused for another record.
    fn generation(&self, address: Address) -> u64;

    /// Makes sure that records of these lengths, in words, can be put. Called outside of any critical section, inside an
    /// epoch.
    fn prepare(&self, local: &mut Self::Local, records: &[usize], class: Class) -> Room;

    /// Whether puts of records of these lengths would succeed in the room prepared.
    fn fits(&self, local: &Self::Local, records: &[usize]) -> bool;

    /// Stores a record: in place of the old one where that may be updated in place, else elsewhere. Returns where, and the
    /// sequence number of the page it lies in. The caller makes sure that it fits.
    fn put(&self, local: &mut Self::Local, under: Under<'_>, record: &NewRecord<'_>) -> (Address, u64);

    /// Whether a set need not read what it replaces: whether records may be put over [`Under::Unread`].
    const BLIND: bool = false;

    /// Whether a record of a database, of which a flush forgot everything up to version `flushed`, may be put beside this one now,
    /// which nobody has read: it counts as a live key then, until background steps have found out. Asked inside the critical
    /// section.
    fn takes_unread(&self, _unread: Address, _flushed: u64) -> bool {
        false
    }

    /// No record that needs a read has a newer version. Asked inside the critical section of the key of one.
    fn version_bound(&self) -> u64 {
        0
    }

    /// The version put last has been issued: what it replaced without [`release`](Self::release), being in its place, may
    /// be given up by whoever waits for the versions issued so far.
    #[inline]
    fn issued(&self, _local: &mut Self::Local) {}

    /// About what a read of the record at this address brings in the end; it may lead to a large value. For bounds on memory.
    fn read_bytes(&self, _address: Address) -> usize {
        64 << 10
    }

    /// The session leaves its epoch and may stay away: it gives back room that it does not use.
    #[inline]
    fn rest(&self, _local: &mut Self::Local) {}

    /// The index no longer refers to this record (its successor is elsewhere, or it is gone). Called after its successor's
    /// version has been issued.
    fn release(&self, address: Address, head: &Head);

    /// A client's get has found this record; `read` is the whole of it if it had to be read from a device. Called once for
    /// each such get, inside an epoch, outside of any critical section.
    #[inline]
    fn hit<I: Index>(
        &self,
        _local: &mut Self::Local,
        _index: &I,
        _key: &Key<'_>,
        _address: Address,
        _read: Option<&[u8]>,
    ) {
    }

    /// A client's get had to read this large value from a device. Called once for each such get, outside of any critical section:
    /// a space that has room for a copy may keep one.
    fn keep_extent(&self, _key: &Key<'_>, _description: &[u8], _value: &[u8]) {}

    /// Writes a large value where it survives what the log survives once the log entry does; appends its description to
    /// `description`. It may share with the value that it is to replace what both have alike.
    ///
    /// # Errors
    /// [`Room::Wait`] or [`Room::Full`] if there is no room, with nothing kept; `Err(None)` if the device failed.
    fn write_extent(
        &self,
        local: &mut Self::Local,
        value: &[u8],
        former: Option<Former<'_>>,
        description: &mut Vec<u8>,
    ) -> Result<(), Option<Room>>;

    /// The extent with this description is no longer referred to, or never was. What it shares with the one that `other` describes
    /// (the one that replaces it, or that it was to replace; empty: none) stays. Sessions that hold the description may still read it
    /// during their epoch.
    fn release_extent(&self, description: &[u8], other: &[u8]);

    /// The length of the value that a description stands for.
    fn extent_bytes(&self, description: &[u8]) -> u64;

    /// Appends an extent's bytes to `out` if they can be had without waiting. Of a match's head the tier alone means something.
    fn fetch_extent(&self, description: &[u8], out: &mut Buffer) -> Fetch;

    /// Starts reading a record (or, with a description, an extent) from a device for this session. `false`: too many are in
    /// flight; reap first.
    fn start_read(
        &self,
        local: &mut Self::Local,
        address: Option<Address>,
        extent: &[u8],
        token: u64,
    ) -> bool;

    /// Collects finished reads; with `wait`, at least one if any is in flight.
    fn reap(&self, local: &mut Self::Local, wait: bool, out: &mut Vec<Arrival>);

    /// A descriptor that polls readable when a read has finished.
    fn read_fd(&self, local: &Self::Local) -> Option<RawFd>;

    /// One step of background work.
    fn step<I: Index>(&self, index: &I, context: &dyn Context) -> Progress;

    /// Every record that [`put`](Self::put) gave at most this sequence number is durable elsewhere, or its successor is.
    fn persisted_seq(&self) -> u64;

    /// The highest sequence number given by `put` so far.
    fn last_seq(&self) -> u64;

    /// Every page on the medium with at most this sequence number is there whole: the stored manifest may say so.
    fn sealed_seq(&self) -> u64 {
        self.persisted_seq()
    }

    /// Log entries up to this sequence number need not be kept, the stored manifest trusting pages up to `trusted`.
    fn cut_seq(&self, trusted: u64) -> u64 {
        self.persisted_seq().min(trusted)
    }

    /// Keys of records that have expired or were forgotten by a whole-database flush, some at a time, each as database and
    /// bytes; the machine purges those that still are. Records that are [alone](crate::record::Lifetime::alone) may leave the index
    /// here, unread, instead; the context is told.
    fn find_expired<I: Index>(
        &self,
        index: &I,
        context: &dyn Context,
        found: &mut dyn FnMut(u8, &[u8]),
    ) -> Progress;

    /// Tells database and deadline of some records that lie where a read is needed, if they are remembered.
    fn sample_deadlines(&self, _found: &mut dyn FnMut(u8, u64)) {}

    /// Keys to evict when the space is full, about `count`.
    fn find_victims<I: Index>(
        &self,
        index: &I,
        context: &dyn Context,
        count: usize,
        found: &mut dyn FnMut(u8, &[u8]),
    );

    /// Whether writes would be refused now for want of space.
    fn is_full(&self) -> bool;

    /// Whether a device failed so that nothing more can be flushed: who waits for room would wait for ever.
    fn has_failed(&self) -> bool {
        false
    }

    /// Why it has.
    fn failure(&self) -> Option<Failure> {
        None
    }

    /// Waits until every extent written so far is safe from power loss. Called before the log is synced.
    ///
    /// # Errors
    /// The device's; then it stays failed.
    #[track_caller]
    fn sync(&self) -> std::io::Result<()>;

    /// Stores the machine's manifest durably.
    ///
    /// # Errors
    /// The device's.
    #[track_caller]
    fn save_manifest(&self, bytes: &[u8]) -> std::io::Result<()>;

    /// Reports every record on the medium (recovery). `found` may be called from several threads.
    ///
    /// # Errors
    /// If the device fails, or a block can't be trusted and can't be told from one that must be there.
    fn scan_media(
        &self,
        trusted_seq: u64,
        threads: usize,
        progress: &(dyn Fn(u64, u64) + Sync),
        found: &(dyn Fn(Found) + Sync),
    ) -> Result<(), StoreError>;

    /// Reports the same once more, after [`scan_media`](Self::scan_media) and before [`clear_torn`](Self::clear_torn), for a recovery
    /// that decides over some of the keys at a time. What was adopted meanwhile is reported too.
    ///
    /// # Errors
    /// If the medium fails, or no longer reads as it did.
    fn scan_again(
        &self,
        threads: usize,
        progress: &(dyn Fn(u64, u64) + Sync),
        found: &(dyn Fn(Found) + Sync),
    ) -> Result<(), StoreError>;

    /// DRAM that recovery may take now beside the index, which has so many bytes.
    fn recovery_bytes(&self, _index_bytes: u64) -> u64 {
        u64::MAX
    }

    /// Reads the keys of records that [`scan_media`](Self::scan_media) found, for an index that needs them: calls `found` with
    /// the position of each address and its record's key, `None` if the record is damaged. Costs a read of every block that
    /// holds one if `addresses` are sorted.
    ///
    /// # Errors
    /// If the medium fails.
    fn read_keys(
        &self,
        addresses: &[Address],
        found: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<(), StoreError>;

    /// Recovery has decided: of the records reported, those accepted are live. Called once for each, before `clear_torn`.
    fn adopt(&self, found: &Found);

    /// An extent that a live record describes (from a record on media or one that the log brought back).
    fn adopt_extent(&self, description: &[u8]);

    /// Every live record has been adopted. Clears what would be taken for damage if the manifest trusted all pages found, torn
    /// flushes above all, so that it may; it is cleared durably. Everything else on the medium stays: another copy of a live record
    /// may go only once a stored manifest trusts the page of the one that was adopted.
    ///
    /// # Errors
    /// The device's, or if something that must be there is missing.
    fn clear_torn(&self) -> Result<(), StoreError>;

    /// After `clear_torn`, and after a manifest was stored that trusts all pages found: space that holds no live record is free
    /// again.
    ///
    /// # Errors
    /// The device's.
    fn finish_recovery(&self) -> Result<(), StoreError>;

    /// Flushes everything. Called with no session open; afterwards the space is only dropped.
    ///
    /// # Errors
    /// The device's, or no room for what is not flushed yet.
    fn close<I: Index>(&self, index: &I, context: &dyn Context) -> Result<(), StoreError>;

    /// Saves index and space so that [`load_snapshot`](Self::load_snapshot) brings them back without a scan. Called once
    /// [`close`](Self::close) has ended; nothing may change what is on the medium afterwards. It is durable when this returns,
    /// and counts if the manifest with this sequence number names the place returned.
    ///
    /// `None`: nothing was saved, and it was said why. No failure of it is one of the store.
    fn save_snapshot<I: Index>(&self, _index: &I, _counted: &Counted, _sequence: u64) -> Option<u32> {
        None
    }

    /// Brings index and space back as the snapshot has them that the manifest names, in the place of
    /// [`scan_media`](Self::scan_media), [`adopt`](Self::adopt) and [`adopt_extent`](Self::adopt_extent). Nothing on the medium
    /// is changed. It succeeds only where a scan would, and would find the same. Beside what was counted it returns the newest
    /// version of any record on the media, which a scan would have met.
    ///
    /// # Errors
    /// Why it can't be trusted: then index and space are as before.
    fn load_snapshot<I: Index>(
        &self,
        _index: &mut I,
        _place: u32,
        _manifest: &Manifest,
        _threads: usize,
    ) -> Result<(Counted, u64), String> {
        Err("this engine has no snapshots".into())
    }

    /// What is where.
    fn tiers(&self) -> Vec<TierStats>;

    /// DRAM held beside the index, in bytes.
    fn dram_bytes(&self) -> u64;

    /// The index now holds this many bytes of DRAM: pages may have to give way.
    fn index_grew(&self, _index_bytes: u64) {}

    /// DRAM for records (with the index, where the store was opened so) is to be this much from now on. What has to leave leaves
    /// in background steps. See [`Store::resize_dram`](crate::Store::resize_dram).
    ///
    /// # Errors
    /// [`StoreError::Options`] if it can't be: the text says what can.
    fn resize_dram(&self, _bytes: u64) -> Result<(), StoreError> {
        Err(StoreError::Options(
            "DRAM can't be resized while this engine runs: open the store with another size".into(),
        ))
    }

    /// A tier below DRAM, by its name in statistics, is to be this long from now on. See
    /// [`Store::resize_tier`](crate::Store::resize_tier).
    ///
    /// # Errors
    /// [`StoreError::Options`] if it can't be: the text says what can. [`StoreError::Io`]: the medium's.
    fn resize_tier(&self, tier: &str, _bytes: u64) -> Result<(), StoreError> {
        Err(StoreError::Options(format!(
            "tier {tier} can't be resized while this engine runs: make a store of another size"
        )))
    }

    /// Pairs for `INFO` and tests.
    fn details(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}
