//! Rot in the only copy of a record is told, also where an opening that a crash cut off gave up the older copy.
//!
//! ```text
//!   slot 0   key = old, below what the manifest trusts       slot 1   key = new, whole, above it: a crash came first
//!   opening  adopts slot 1 and clears slot 0; it is cut off, and slot 1 rots
//! ```
//!
//! Were slot 0 cleared before a stored manifest trusts slot 1, the next opening would take the rot for a torn flush, drop it,
//! and miss the key in silence.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::sync::Arc;

use terrace_blocks::{Header, Stored};
use terrace_engine::clock::ManualClock;
use terrace_engine::hash::KeyHasher;
use terrace_engine::{
    Batch, Condition, Durability, Expiry, MachineOptions, OpError, OpKind, Reply, Store, StoreError,
    StoreHandle,
};
use terrace_index::Clht;
use terrace_media_sim::{CrashImage, Explorer, Recorder, SimBlock, SimRegion};
use terrace_space_hybrid_log::{Opening, Sizes, open_block, open_byte};

const STORE_ID: u64 = 9;
const BLOCKS: usize = 12;
const KEY: &[u8] = b"key";
const OLD: &[u8] = b"the old value";
const NEW: &[u8] = b"the new value";

/// The media of a store, with what lies where.
#[derive(Clone)]
enum Media {
    Byte(SimRegion),
    Block { log: SimBlock, data: SimBlock },
}

/// What the kinds of media differ in.
#[derive(Clone, Copy)]
struct Kind {
    byte: bool,
    /// A block of the log, and a quarter of a block of records.
    unit: usize,
    /// Where the slots begin in the medium that holds them.
    slots_at: usize,
}

const BYTE: Kind = Kind { byte: true, unit: 1024, slots_at: 16 * 1024 + 2 * 256 };
const BLOCK: Kind = Kind { byte: false, unit: 4096, slots_at: 2 * 4096 };

impl Kind {
    fn block_bytes(self) -> usize {
        if self.byte { 1024 } else { 8192 }
    }
    fn fresh(self) -> Vec<Vec<u8>> {
        let bytes = self.slots_at + BLOCKS * self.block_bytes();
        if self.byte { vec![vec![0; bytes]] } else { vec![vec![0; 17 * self.unit], vec![0; bytes]] }
    }
    fn recorded(self, bytes: Vec<Vec<u8>>, recorder: &Recorder) -> Media {
        let mut bytes = bytes.into_iter();
        let mut next = || bytes.next().unwrap();
        if self.byte {
            return Media::Byte(recorder.region(next()));
        }
        let (log, data) = (recorder.block(next()), recorder.block(next()));
        Media::Block { log, data }
    }
    fn of(self, image: &CrashImage) -> Media {
        if self.byte {
            return Media::Byte(image.region(0));
        }
        Media::Block { log: image.block(0), data: image.block(1) }
    }
    /// The slots that hold whole headers, with their sequence numbers and places.
    fn headers(self, media: &Media) -> Vec<(u64, usize)> {
        let bytes = media.slots();
        (0..BLOCKS)
            .filter_map(|slot| {
                let at = self.slots_at + slot * self.block_bytes();
                match Header::decode(&bytes[at..at + 64], STORE_ID, slot as u32) {
                    Stored::Valid(header) => Some((header.seq, at)),
                    _ => None,
                }
            })
            .collect()
    }
}

impl Media {
    /// The bytes of the medium that holds the slots.
    fn slots(&self) -> Vec<u8> {
        match self {
            Self::Byte(region) => region.to_bytes(),
            Self::Block { data, .. } => data.to_bytes(),
        }
    }
    fn to_bytes(&self) -> Vec<Vec<u8>> {
        match self {
            Self::Byte(region) => vec![region.to_bytes()],
            Self::Block { log, data } => vec![log.to_bytes(), data.to_bytes()],
        }
    }
    fn rot(&self, at: usize) {
        match self {
            Self::Byte(region) => region.rot(at as u64, 4),
            Self::Block { data, .. } => data.rot(at as u64, 4),
        }
    }
    /// A copy of its own, not recorded.
    fn copy(&self) -> Self {
        match self {
            Self::Byte(region) => Self::Byte(SimRegion::from_image(region.to_bytes())),
            Self::Block { log, data } => Self::Block {
                log: SimBlock::from_image(log.to_bytes()),
                data: SimBlock::from_image(data.to_bytes()),
            },
        }
    }
    /// Opens the store: without a log, so that blocks are all that there is.
    fn open(&self, kind: Kind, fresh: bool) -> Result<Box<dyn Store>, StoreError> {
        let block_bytes = kind.block_bytes();
        let opening = Opening {
            sizes: Sizes {
                block_bytes,
                log_block_bytes: kind.unit,
                log_bytes: 16 * kind.unit as u64,
                dram_bytes: 6 * block_bytes as u64,
                dram_with_index: false,
                store_id: STORE_ID,
            },
            fresh,
            machine: MachineOptions {
                engine: "hetermm",
                durability: Durability::None,
                immediate: true,
                evict: false,
                sessions: 3,
                hasher: KeyHasher::new(7),
                clock: Arc::new(ManualClock::new(1_800_000_000_000_000)),
                threads: 1,
            },
            index: &|| Clht::with_min_buckets(4),
            description: String::new(),
            progress: &|_, _| {},
        };
        Ok(match self {
            Self::Byte(region) => Box::new(StoreHandle(open_byte(&Arc::new(region.clone()), 0, opening)?)),
            Self::Block { log, data } => {
                let (log, data) = (Arc::new(log.clone()), Arc::new(data.clone()));
                Box::new(StoreHandle(open_block(&log, &data, opening)?))
            }
        })
    }
}

fn set(store: &dyn Store, value: &[u8]) {
    let mut session = store.session().unwrap();
    let mut batch = Batch::new();
    let value = batch.bytes(value);
    let (condition, expiry) = (Condition::Always, Expiry::Clear);
    batch.push(0, KEY, OpKind::Set { value, condition, expiry, flags: None, old_value: false });
    session.execute(&mut batch);
    let settled = session.wait(&mut batch);
    assert!(matches!(batch.reply(0, &settled), Reply::Stored { .. }));
}

/// What an opening tells of the key.
#[derive(Debug, PartialEq)]
enum Told {
    Value(Vec<u8>),
    Absent,
    /// The opening refused, or the record is poisoned.
    Damage,
}

fn read(media: &Media, kind: Kind) -> Told {
    let store = match media.open(kind, false) {
        Ok(store) => store,
        Err(StoreError::Corrupt(_)) => return Told::Damage,
        Err(other) => panic!("{other}"),
    };
    let mut session = store.session().unwrap();
    let mut batch = Batch::new();
    batch.push(0, KEY, OpKind::Get { value: true });
    session.execute(&mut batch);
    let settled = session.wait(&mut batch);
    match batch.reply(0, &settled) {
        Reply::Hit { value: Some(value), .. } => Told::Value(batch.output(value).to_vec()),
        Reply::Miss => Told::Absent,
        Reply::Error(OpError::Poisoned) => Told::Damage,
        other => panic!("{other:?}"),
    }
}

/// A store that was closed with the old value, and the places where a later run may have ended with both in blocks, the new
/// one above what the manifest trusts.
fn both(kind: Kind) -> Vec<Media> {
    let recorder = Recorder::new();
    let media = kind.recorded(kind.fresh(), &recorder);
    let store = media.open(kind, true).unwrap();
    set(&*store, OLD);
    store.close().unwrap();
    drop(store);
    let closed = media.to_bytes();
    let trusted = kind.headers(&media)[0].0;

    let recorder = Recorder::new();
    let media = kind.recorded(closed, &recorder);
    let store = media.open(kind, false).unwrap();
    set(&*store, NEW);
    store.close().unwrap();
    drop(store);
    let mut found = Vec::new();
    Explorer::new(1)
        .explore(&recorder.finish(), |_, image| {
            let left = kind.of(image).copy();
            let newer = kind.headers(&left).into_iter().find(|(seq, _)| *seq > trusted);
            let Some((_, at)) = newer.filter(|_| kind.headers(&left).len() == 2) else {
                return Ok::<(), String>(());
            };
            // Above what is trusted, the old value comes back if the new one's block is not whole.
            let rotten = left.copy();
            rotten.rot(at + kind.block_bytes() - 60);
            let trusts = read(&rotten, kind) != Told::Value(OLD.to_vec());
            if !trusts && read(&left.copy(), kind) == Told::Value(NEW.to_vec()) {
                found.push(left);
            }
            Ok(())
        })
        .unwrap();
    found
}

fn rot_is_told(kind: Kind) {
    let all = both(kind);
    assert!(!all.is_empty(), "no run ended with a whole block above what is trusted");
    let (mut cleared, mut told) = (0, 0);
    // They differ in what is not looked at here; a few do.
    for left in all.into_iter().take(2) {
        let recorder = Recorder::new();
        let media = kind.recorded(left.to_bytes(), &recorder);
        drop(media.open(kind, false).unwrap());
        Explorer::new(2)
            .store_sample(1)
            .minimise(false)
            .explore(&recorder.finish(), |point, image| {
                let left = kind.of(image).copy();
                let headers = kind.headers(&left);
                let Some(&(_, newest)) = headers.iter().max() else { return Err("no block".into()) };
                let whole = read(&left.copy(), kind);
                if whole != Told::Value(NEW.to_vec()) {
                    return Err(format!("{point:?}: without rot {whole:?}"));
                }
                cleared += u32::from(headers.len() == 1);
                // The header, the record's value, its place in the footer, and the trailer.
                let end = newest + kind.block_bytes();
                for at in [newest + 16, newest + 64 + 40, end - 64 - 24 + 20, end - 40] {
                    let rotten = left.copy();
                    rotten.rot(at);
                    match read(&rotten, kind) {
                        Told::Damage => told += 1,
                        Told::Value(value) if value == NEW => {}
                        // Nobody was answered since the new value was flushed: the old block is there, and counts.
                        Told::Value(value) if value == OLD && headers.len() == 2 => {}
                        other => return Err(format!("{point:?}, byte {at}: {other:?}")),
                    }
                }
                Ok::<(), String>(())
            })
            .unwrap();
    }
    assert!(cleared > 0 && told > 0, "{cleared} images without the old block, rot told {told} times");
}

#[test]
fn on_byte_addressable_media() {
    rot_is_told(BYTE);
}

#[test]
fn on_block_media() {
    rot_is_told(BLOCK);
}
