//! Rot in pages, where it is told from what a crash leaves by the state that the store was in.
//!
//! ```text
//!   after_opening   in the only copy, which an opening adopted from above what is trusted: it is told
//!   above_trust     in a page above what is trusted, wherever a crash came: nothing is missed for want of it
//!   moved           in a record whose page is emptied: it stays damaged, and is not made whole by the copy's checksum
//! ```

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod above_trust;
mod after_opening;
mod moved;

use std::sync::Arc;

use terrace_blocks::{Header, Stored};
use terrace_engine::clock::ManualClock;
use terrace_engine::{Batch, Condition, Durability, Expiry, OpError, OpKind, Reply, Store, StoreError};
use terrace_media_sim::{CrashImage, Recorder, SimBlock, SimRegion};
use terrace_proof::subjects::{Hetermm, Tac, sizes};
use terrace_testkit::sweep::{Media, MediaKind, Opening, Subject};

/// An engine on a kind of media.
#[derive(Clone, Copy)]
struct Bench {
    subject: &'static dyn Subject,
    media: MediaKind,
}

const HETERMM_BYTE: Bench = Bench { subject: &Hetermm, media: MediaKind::Byte };
const HETERMM_BLOCK: Bench = Bench { subject: &Hetermm, media: MediaKind::Block };
const TAC_BYTE: Bench = Bench { subject: &Tac, media: MediaKind::Byte };
const TAC_BLOCK: Bench = Bench { subject: &Tac, media: MediaKind::Block };
const TAC_TIERED: Bench = Bench { subject: &Tac, media: MediaKind::Tiered };

impl Bench {
    fn block_bytes(self) -> usize {
        sizes(self.media).block_bytes
    }
    /// Where the tier begins in the medium that holds it: behind the log if it is there, too; and the bytes of a manifest.
    fn tier(self) -> (usize, usize) {
        match self.media {
            MediaKind::Byte => (sizes(self.media).log_bytes as usize, 256),
            MediaKind::Block | MediaKind::Tiered => (0, 4096),
        }
    }
    /// Where the copies of the manifest begin.
    fn manifests(self) -> [usize; 2] {
        let (tier, unit) = self.tier();
        [tier, tier + unit + sizes(self.media).manifests_apart as usize]
    }
    /// Where the slots begin.
    fn slots(self, len: usize) -> impl Iterator<Item = usize> {
        let ((tier, unit), second, bytes) = (self.tier(), self.manifests()[1], self.block_bytes());
        let at = move |slot: usize| {
            let start = tier + unit + slot * bytes;
            if start < second { start } else { start + unit }
        };
        (0..).map(at).take_while(move |start| start + bytes <= len)
    }
    fn fresh(self) -> Vec<Vec<u8>> {
        let shape = self.subject.shape(self.media);
        match self.media {
            MediaKind::Byte => vec![vec![0; shape.data_bytes]],
            MediaKind::Block | MediaKind::Tiered => {
                vec![vec![0; shape.log_bytes], vec![0; shape.data_bytes]]
            }
        }
    }
    fn recorded(self, bytes: Vec<Vec<u8>>, recorder: &Recorder) -> Media {
        let mut bytes = bytes.into_iter();
        let mut next = || bytes.next().unwrap();
        match self.media {
            MediaKind::Byte => Media::Byte(recorder.region(next())),
            MediaKind::Block => Media::Block { log: recorder.block(next()), data: recorder.block(next()) },
            MediaKind::Tiered => {
                Media::Tiered { region: recorder.region(next()), data: recorder.block(next()) }
            }
        }
    }
    fn of(self, image: &CrashImage) -> Media {
        match self.media {
            MediaKind::Byte => Media::Byte(image.region(0)),
            MediaKind::Block => Media::Block { log: image.block(0), data: image.block(1) },
            MediaKind::Tiered => Media::Tiered { region: image.region(0), data: image.block(0) },
        }
    }
    /// The slots that hold whole headers, with their sequence numbers and places.
    fn headers(self, media: &Media) -> Vec<(u64, usize)> {
        let bytes = data(media);
        self.slots(bytes.len())
            .enumerate()
            .filter_map(|(slot, at)| {
                match Header::decode(&bytes[at..at + 64], sizes(self.media).store_id, slot as u32) {
                    Stored::Valid(header) => Some((header.seq, at)),
                    _ => None,
                }
            })
            .collect()
    }
    fn open(self, media: &Media, durability: Durability, fresh: bool) -> Result<Box<dyn Store>, StoreError> {
        let clock = Arc::new(ManualClock::new(1_800_000_000_000_000));
        self.subject.open(media, Opening { durability, clock, fresh, evict: false, variant: 0 })
    }
    /// Opens the store and reads keys.
    fn read(self, media: &Media, durability: Durability, keys: &[&[u8]]) -> Vec<Told> {
        match self.open(media, durability, false) {
            Ok(store) => keys.iter().map(|key| get(&*store, key)).collect(),
            Err(StoreError::Corrupt(_)) => keys.iter().map(|_| Told::Damage).collect(),
            Err(other) => panic!("{other}"),
        }
    }
}

/// The bytes of the medium that holds the slots.
fn data(media: &Media) -> Vec<u8> {
    match media {
        Media::Byte(region) => region.to_bytes(),
        Media::Block { data, .. } | Media::Tiered { data, .. } => data.to_bytes(),
    }
}

fn to_bytes(media: &Media) -> Vec<Vec<u8>> {
    match media {
        Media::Byte(region) => vec![region.to_bytes()],
        Media::Block { log, data } => vec![log.to_bytes(), data.to_bytes()],
        Media::Tiered { region, data } => vec![region.to_bytes(), data.to_bytes()],
    }
}

fn rot(media: &Media, at: usize) {
    match media {
        Media::Byte(region) => region.rot(at as u64, 4),
        Media::Block { data, .. } | Media::Tiered { data, .. } => data.rot(at as u64, 4),
    }
}

/// A copy of its own, not recorded.
fn copy(media: &Media) -> Media {
    match media {
        Media::Byte(region) => Media::Byte(SimRegion::from_image(region.to_bytes())),
        Media::Block { log, data } => Media::Block {
            log: SimBlock::from_image(log.to_bytes()),
            data: SimBlock::from_image(data.to_bytes()),
        },
        Media::Tiered { region, data } => Media::Tiered {
            region: SimRegion::from_image(region.to_bytes()),
            data: SimBlock::from_image(data.to_bytes()),
        },
    }
}

fn set(store: &dyn Store, key: &[u8], value: &[u8]) {
    assert!(try_set(store, key, value));
}

/// Whether there was room for it.
fn try_set(store: &dyn Store, key: &[u8], value: &[u8]) -> bool {
    let mut session = store.session().unwrap();
    let mut batch = Batch::new();
    let value = batch.bytes(value);
    let (condition, expiry) = (Condition::Always, Expiry::Clear);
    batch.push(0, key, OpKind::Set { value, condition, expiry, flags: None, old_value: false });
    session.execute(&mut batch);
    let settled = session.wait(&mut batch);
    match batch.reply(0, &settled) {
        Reply::Stored { .. } => true,
        Reply::Error(OpError::Full) => false,
        other => panic!("{other:?}"),
    }
}

/// What a store tells of a key.
#[derive(Debug, PartialEq)]
enum Told {
    Value(Vec<u8>),
    Absent,
    /// The record is poisoned, or the opening refused.
    Damage,
}

fn get(store: &dyn Store, key: &[u8]) -> Told {
    let mut session = store.session().unwrap();
    let mut batch = Batch::new();
    batch.push(0, key, OpKind::Get { value: true });
    session.execute(&mut batch);
    let settled = session.wait(&mut batch);
    match batch.reply(0, &settled) {
        Reply::Hit { value: Some(value), .. } => Told::Value(batch.output(value).to_vec()),
        Reply::Miss => Told::Absent,
        Reply::Error(OpError::Poisoned) => Told::Damage,
        other => panic!("{other:?}"),
    }
}
