//! A machine small enough to explore: epochs, one writer, one reader, and whoever steps around the product's space and index.

use std::sync::atomic::{AtomicU64 as Plain, Ordering::SeqCst};

use terrace_engine::hash::KeyHasher;
use terrace_engine::record::{Head, Kind, NewRecord, RecordView};
use terrace_engine::space::{
    Arrival, Arrived, Class, Context, Fetch, FoundRecords, Replaced, Room, Space, Under, Want,
};
use terrace_engine::{Barrier, Progress, fetch_view};
use terrace_index::{Address, AnyIndex, Change, Clht, Index, Key, Lookup, Verdict};
use terrace_media::Buffer;

use terrace_sync::{Mutex, yield_now};

/// What the machine does wrong.
#[derive(Clone, Copy, PartialEq, Default)]
pub enum Bug {
    /// Nothing.
    #[default]
    None,
    /// Every epoch has passed at once.
    EpochsLie,
    /// What a read brought is believed though the place has been reused.
    GenerationIgnored,
}

/// The sessions: who reads, who writes, and somebody to begin and end with.
pub const READER: usize = 0;
/// See [`READER`].
pub const WRITER: usize = 1;
/// See [`READER`].
pub const BYSTANDER: usize = 2;

/// Keys are numbers below this one.
const KEYS: usize = 8;

/// Epochs without any cleverness.
struct Epochs {
    now: u64,
    entered: [u64; 3],
}

/// A machine around a space.
pub struct World<S: Space> {
    /// The space.
    pub space: S,
    index: Clht,
    epochs: Mutex<Epochs>,
    bug: Bug,
    /// How often a version stands in a value, at least 4 times.
    value_words: usize,
    /// The version of each key whose write is complete. Plain: no scheduling points.
    complete: [Plain; KEYS],
    /// The version of key 1 that must be complete before a reader polls for what it has read.
    poll_after: u64,
}

impl<S: Space> World<S> {
    /// `value_words`: a value consists of so many times its version. `poll_after`: the version of key 1 that must be complete before
    /// a reader polls for what it has read.
    pub fn new(space: S, bug: Bug, value_words: usize, poll_after: u64) -> Self {
        Self {
            space,
            index: Clht::with_min_buckets(2),
            epochs: Mutex::new(Epochs { now: 1, entered: [0; 3] }),
            bug,
            value_words,
            complete: Default::default(),
            poll_after,
        }
    }
    /// What a record of a key takes.
    pub fn words(&self) -> usize {
        let value = vec![0; self.value_words * 8];
        let (kind, key) = (Kind::Value, &[0; 8][..]);
        NewRecord { version: 1, kind, db: 0, flags: 0, state: 0, expire_at: 0, token: 0, key, value: &value }
            .words()
    }
    fn enter(&self, session: usize) {
        let mut epochs = self.epochs.lock();
        epochs.entered[session] = epochs.now;
    }
    fn leave(&self, session: usize) {
        self.epochs.lock().entered[session] = 0;
    }

    /// One step of background work.
    pub fn step(&self) -> Progress {
        self.space.step(AnyIndex::of(&self.index), self)
    }

    /// See [`Background::walk_unflushed`](terrace_engine::space::Background::walk_unflushed).
    pub fn walk(
        &self,
        after: u64,
        is_old: &dyn Fn(u64) -> bool,
        found: &mut FoundRecords<'_>,
    ) -> Option<u64> {
        self.space.walk_unflushed(AnyIndex::of(&self.index), self, after, is_old, found)
    }

    /// The version of a key whose write is complete.
    pub fn complete(&self, number: u64) -> u64 {
        self.complete[number as usize].load(SeqCst)
    }

    /// Writes the next version of a key. `fresh`: the session has reserved nothing.
    pub fn write(&self, local: &mut S::Local, number: u64, fresh: bool) {
        let version = self.complete[number as usize].load(SeqCst) + 1;
        let (name, value) = (number.to_le_bytes(), self.value(version));
        let record = NewRecord {
            version,
            kind: Kind::Value,
            db: 0,
            flags: 0,
            state: 0,
            expire_at: 0,
            token: 0,
            key: &name,
            value: &value,
        };
        if fresh {
            self.space.detach(local);
        }
        self.enter(WRITER);
        while self.space.prepare(local, &[record.words()], Class::Release) != Room::Ready {
            self.leave(WRITER);
            yield_now();
            self.enter(WRITER);
        }
        let key = self.key(&name);
        let head = record.head();
        // All keys have hashes of their own, and all records one size: nothing need be read.
        self.index.update(
            &key,
            |_| Verdict::Match,
            |lookup| {
                let old = if let Lookup::Found(old) = lookup { Some(old) } else { None };
                let under = old.map_or(Under::Nothing, |address| Under::Record {
                    address,
                    head: &head,
                    forgotten: false,
                    in_place: true,
                });
                let (address, _) = self.space.put(local, under, &record);
                if let Some(old) = old.filter(|old| *old != address) {
                    self.space.release(old, &head);
                }
                (Change::Set(address), ())
            },
        );
        self.space.issued(local);
        self.complete[number as usize].store(version, SeqCst);
        self.leave(WRITER);
    }

    /// Reads a key that is always there: at least the version that was complete before the last look-up began, which is where
    /// an operation takes effect. (An update that took an older one for current would undo what came between.)
    pub fn read(&self, local: &mut S::Local, number: u64) {
        let name = number.to_le_bytes();
        let key = self.key(&name);
        let mut known: Option<(Address, u64, Vec<u8>)> = None;
        loop {
            self.enter(READER);
            let least = self.complete[number as usize].load(SeqCst);
            let (mut out, mut found) = (Buffer::new(), None);
            let lookup = self.index.get(&key, |address| {
                out.clear();
                match self.fetch(&known, address, &key, &mut out) {
                    Fetch::Match(head) => {
                        found = Some(head);
                        Verdict::Match
                    }
                    Fetch::Differs => Verdict::Differs,
                    Fetch::NeedsRead => Verdict::NeedsRead,
                    Fetch::Damaged(_) => panic!("a sound record is taken for damaged"),
                }
            });
            match lookup {
                Lookup::Found(address) => {
                    let read = known.as_ref().filter(|(at, ..)| *at == address).map(|(.., bytes)| &bytes[..]);
                    let tier = found.map_or(0, |head| head.tier).max(u8::from(read.is_some()));
                    self.space.hit(local, AnyIndex::of(&self.index), &key, address, tier, read);
                    self.leave(READER);
                    return self.check(found, &out, least);
                }
                Lookup::Absent => panic!("a key that is there was not found"),
                Lookup::Unread(address) => known = self.read_later(local, address),
            }
        }
    }

    /// Reads what is at an address from the device. Leaves the epoch.
    fn read_later(&self, local: &mut S::Local, address: Address) -> Option<(Address, u64, Vec<u8>)> {
        let generation = self.space.generation(address);
        assert!(self.space.start_read(local, Some(address), &[], 1), "nothing else is in flight");
        self.leave(READER);
        let mut arrivals: Vec<Arrival> = Vec::new();
        while arrivals.is_empty() {
            self.space.reap(local, true, &mut arrivals);
        }
        // The session has other things to do.
        while self.complete[1].load(SeqCst) < self.poll_after {
            yield_now();
        }
        match arrivals.remove(0).outcome {
            Arrived::Record(bytes) => Some((address, generation, bytes)),
            Arrived::Moved => None,
            other => panic!("a sound record is taken for damaged: {other:?}"),
        }
    }

    fn fetch(
        &self,
        known: &Option<(Address, u64, Vec<u8>)>,
        address: Address,
        key: &Key<'_>,
        out: &mut Buffer,
    ) -> Fetch {
        if let Some((at, generation, bytes)) = known
            && *at == address
            && (self.bug == Bug::GenerationIgnored || *generation == self.space.generation(address))
        {
            let view = RecordView::decode(bytes).unwrap();
            return fetch_view(&view, Some(key), Want::Value, out);
        }
        self.space.fetch(address, Some(key), Want::Value, out)
    }

    fn key<'a>(&self, name: &'a [u8]) -> Key<'a> {
        self.hasher().key(0, name)
    }
    fn value(&self, version: u64) -> Vec<u8> {
        version.to_le_bytes().repeat(self.value_words)
    }
    fn check(&self, found: Option<Head>, value: &[u8], least: u64) {
        let version = found.unwrap().version;
        assert!(version >= least, "version {version} after {least}");
        assert_eq!(value, self.value(version), "a mixture of two values");
    }
}

impl<S: Space> Context for World<S> {
    fn advance_epoch(&self) -> u64 {
        let mut epochs = self.epochs.lock();
        epochs.now += 1;
        epochs.now
    }
    fn epoch_passed(&self, epoch: u64) -> bool {
        self.bug == Bug::EpochsLie
            || self.epochs.lock().entered.iter().all(|entered| *entered == 0 || *entered >= epoch)
    }
    fn barrier(&self) -> Barrier {
        Barrier::default()
    }
    fn barrier_passed(&self, _barrier: &Barrier) -> bool {
        true
    }
    fn settled(&self, _version: u64) -> bool {
        true
    }
    fn logged(&self) -> bool {
        true
    }
    fn trusts(&self, _seq: u64) -> bool {
        true
    }
    fn log_floor(&self) -> u64 {
        u64::MAX
    }
    fn flush_wanted(&self) -> u64 {
        0
    }
    fn flush_version(&self, _db: u8) -> u64 {
        0
    }
    fn now_ms(&self) -> u64 {
        1
    }
    fn raise_version_floor(&self, _version: u64) {}
    fn forgotten(&self, _kind: Kind) {}
    fn poisoned(&self, _kind: Kind, _db: u8, _expires: bool) {
        panic!("a sound record is taken for damaged");
    }
    fn recount(&self, _db: u8, _version: u64, _found: Option<Replaced>) {
        unreachable!()
    }
    fn tombstones_and_keys(&self) -> (u64, u64) {
        (0, 2)
    }
    fn hasher(&self) -> KeyHasher {
        KeyHasher::new(1)
    }
}
