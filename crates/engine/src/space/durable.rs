//! What survives the process, and how it is found again.

use terrace_index::{Address, Index};

use super::records::Records;
use crate::manifest::Manifest;
use crate::op::DATABASES;
use crate::session::StoreError;
use crate::stats::{Failure, Scanned};

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

/// An entry of the log: its version, where in the log's area it stands, its bytes.
pub type SeeEntry<'a> = &'a mut dyn FnMut(u64, u64, &[u8]);
/// Shows the entries of the log.
pub type Entries<'a> = dyn Fn(SeeEntry<'_>) -> Result<(), StoreError> + 'a;

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

/// Media that records survive on. A space that has none is [`InDram`](super::InDram).
pub trait Durable: Records {
    /// Whether records survive the process at all. Of a space where none does, no answer waits for a log, whatever durability is
    /// asked for.
    const SURVIVES: bool = true;

    /// Whether the space keeps the promise itself: what [`put`](Records::put) or [`release`](Records::release) did is safe from power loss
    /// when it returns, and so before anybody sees it. Such a space is opened without a log.
    const SELF_KEPT: bool = false;

    /// Whether the log's entries are where records end up: they are read there, and each begins with a checksum of its own
    /// ([`SEAL_BYTES`](crate::SEAL_BYTES)). Such a space has its index on the medium, and [`redo`](Self::redo)es what that lacks.
    const ADDRESSED: bool = false;

    /// Every record that [`put`](Records::put) gave at most this sequence number is durable elsewhere, or its successor is.
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

    /// Whether a device failed so that nothing more can be flushed: who waits for room would wait for ever.
    fn has_failed(&self) -> bool {
        false
    }

    /// Why it has.
    fn failure(&self) -> Option<Failure> {
        None
    }

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

    /// How much was scanned so far, of what there is: by [`scan_media`](Self::scan_media), or by what stood in for it.
    fn scanned(&self) -> Scanned;

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

    /// Brings a space back whose index is on the medium, in the place of [`scan_media`](Self::scan_media),
    /// [`adopt`](Self::adopt) and [`adopt_extent`](Self::adopt_extent): what a crash left half done is made whole, in time that does not
    /// grow with the data. What counts; `None` of a space whose index is built anew.
    ///
    /// # Errors
    /// If it can't be trusted.
    fn reopen(&self, _manifest: &Manifest) -> Result<Option<Counted>, StoreError> {
        Ok(None)
    }

    /// Brings the index of a space that was [reopened](Self::reopen) up to the end of the log: `entries` shows all that counts of it, each
    /// session's in its order, to whom it is given; `newest` is the newest version in it, and records up to those of `flushed` count for
    /// nothing. What counts then.
    ///
    /// # Errors
    /// The medium's, or if something can't be trusted.
    fn redo(
        &self,
        counted: Counted,
        _newest: u64,
        _flushed: &[u64; DATABASES],
        _entries: &Entries<'_>,
    ) -> Result<Counted, StoreError> {
        Ok(counted)
    }

    /// Saves index and space so that [`load_snapshot`](Self::load_snapshot) brings them back without a scan. Called once
    /// [`close`](super::Background::close) has ended; nothing may change what is on the medium afterwards. It is durable when this returns,
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
}
