//! Records: where one lies, what it says, how it is stored.

use terrace_index::{Address, AnyIndex, Key};
use terrace_media::Buffer;

use crate::record::{Head, NewRecord};
use crate::session::StoreError;

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
    /// The record is on a device: see [`DeviceReads::start_read`](super::DeviceReads::start_read).
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
    /// The same, of one that fits a page; room for longer ones is kept until [`Records::rest`].
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
    /// [`Records::takes_unread`].
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

/// A record that a step replaces or removes.
#[derive(Clone, Copy, Debug)]
pub struct GivenUp {
    /// Where it is.
    pub address: Address,
    /// Its head.
    pub head: Head,
    /// The key is gone, and no tombstone was put for it.
    pub is_removed: bool,
}

/// Where records lie.
///
/// # Thread safety
/// `put` and `release` of one key run inside the index's critical section for that key; `fetch` runs anywhere inside an
/// epoch. A `Local` belongs to one session.
pub trait Records: Send + Sync + 'static {
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
    fn detach(&self, _local: &mut Self::Local) {}

    /// Whether [`touch`](Self::touch) may load what says where the record is, and [`touch_again`](Self::touch_again) the record.
    const TOUCHES_TWICE: bool = false;

    /// Starts loading the record into the cache.
    fn touch(&self, _address: Address) {}

    /// Goes on with that once all records of a batch were touched.
    #[inline]
    fn touch_again(&self, _address: Address) {}

    /// Reads the record at an address if it can be had without waiting. With a key, compares it first; without, takes
    /// whatever is there and appends the *key* before the value. `out` gets what is wanted, only on a match.
    fn fetch(&self, address: Address, key: Option<&Key<'_>>, want: Want, out: &mut Buffer) -> Fetch;

    /// A number that changes when the place is reused for another record while somebody reads from a device what was there.
    fn generation(&self, _address: Address) -> u64 {
        0
    }

    /// Makes sure that records of these lengths, in words, can be put. Called outside of any critical section, inside an
    /// epoch.
    fn prepare(&self, local: &mut Self::Local, records: &[usize], class: Class) -> Room;

    /// Whether puts of records of these lengths would succeed in the room prepared.
    fn fits(&self, local: &Self::Local, records: &[usize]) -> bool;

    /// Stores a record: in place of the old one where that may be updated in place, else elsewhere. Returns where, and the
    /// sequence number of the page it lies in. The caller makes sure that it fits.
    fn put(&self, local: &mut Self::Local, under: Under<'_>, record: &NewRecord<'_>) -> (Address, u64);

    /// The index no longer refers to this record (its successor is elsewhere, or it is gone). Called after its successor's
    /// version has been issued.
    fn release(&self, address: Address, head: &Head);

    /// What is put from here to [`end_step`](Self::end_step) is one step: after a crash all of it counts, or none. Only a space that
    /// keeps its records itself ([`Durable::SELF_KEPT`](super::Durable::SELF_KEPT)) has anything to do for that.
    #[inline]
    fn begin_step(&self, _local: &mut Self::Local) {}

    /// The step is whole; `version` is the newest of it. What it gives up is released. Called inside the critical section of all its keys.
    fn end_step(&self, _local: &mut Self::Local, _version: u64, given_up: &[GivenUp]) {
        for up in given_up {
            self.release(up.address, &up.head);
        }
    }

    /// The session leaves its epoch and may stay away: it gives back room that it does not use.
    #[inline]
    fn rest(&self, _local: &mut Self::Local) {}

    /// The version put last has been issued: what it replaced without [`release`](Self::release), being in its place, may
    /// be given up by whoever waits for the versions issued so far.
    #[inline]
    fn issued(&self, _local: &mut Self::Local) {}

    /// A client's get has found this record, at a tier as [`Head::tier`] says; `read` is the whole of it if it had to be read from a
    /// device. Called once for each such get, inside an epoch, outside of any critical section.
    #[inline]
    fn hit(
        &self,
        _local: &mut Self::Local,
        _index: &AnyIndex,
        _key: &Key<'_>,
        _address: Address,
        _tier: u8,
        _read: Option<&[u8]>,
    ) {
    }

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
}
