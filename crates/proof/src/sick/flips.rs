//! Rot at rest: every byte of a small image changed, one at a time, and pages that read as zeros or as each other.
//!
//! Right is an error, a poisoned record, a repair or the right answer; wrong is any other value, an older one too. The
//! exception is what a log can't tell from a torn write: what stands behind the newest durable position that it records. So
//! each session ends its history with writes to a key of its own, which may answer with any of its last values. The last block
//! of a session's log leaves nothing that would tell when it vanishes: then, and only then, keys may be as they were earlier. That
//! can be two blocks for each session, for the first groups of its last block may claim nothing of the block before. A block of
//! pages that vanishes or is read as another is noticed; not one whose pages have changed places so that neither header nor trailer
//! can be read, which is taken for a torn write.

use std::panic::{AssertUnwindSafe, catch_unwind};

use terrace_engine::Durability;
use terrace_testkit::rng::Rng;
use terrace_testkit::sweep::{MediaKind, Subject};

use super::book::Book;
use super::clock::START_US;
use super::drive::{Driver, Stop};
use super::plan::{Cmd, CmdKind, KEYS, SESSIONS, Step, plan};
use super::trial::wrong;
use crate::contents::{Contents, blank, contents_of, media_of};
use crate::subjects::sizes;

/// The last keys, one for each session, are written at the end and nowhere else.
const BODY_KEYS: u8 = KEYS - SESSIONS as u8;

/// A store at rest.
pub(super) struct Image {
    kind: MediaKind,
    durability: Durability,
    /// Of pages, on block media.
    block_bytes: usize,
    /// Log or memory, and data; or the region alone.
    bytes: Contents,
    book: Book,
    clock_us: u64,
}

/// What is done to an image.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rot {
    /// One byte differs in these bits.
    Flip { device: usize, at: usize, mask: u8 },
    /// These bytes read as zeros.
    Zero { device: usize, at: usize, len: usize },
    /// Two stretches have changed places.
    Swap { device: usize, a: usize, b: usize, len: usize },
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The store does not open, and says so.
    Refused,
    /// Some key answers an error.
    Poisoned,
    /// Every answer is right: nobody needs the byte, or it was repaired.
    Right,
    /// Some key has an earlier state: a whole block of the log vanished, and nothing is left that would tell.
    Older,
}

impl Image {
    /// A store with a seed's history behind it: closed, or as its process left it when it died.
    pub fn new(
        subject: &dyn Subject,
        kind: MediaKind,
        durability: Durability,
        seed: u64,
        closed: bool,
    ) -> Result<Self, String> {
        let shape = subject.shape(kind);
        let media = media_of(kind, &blank(subject, kind));
        let mut driver =
            Driver::open(subject, &media, durability, START_US, Book::new(), true).map_err(wrong)?;
        let mut steps = plan(seed, &shape);
        for step in &mut steps {
            if let Step::Batch { cmds, .. } = step {
                cmds.retain(|cmd| cmd.key < BODY_KEYS);
            }
        }
        steps.retain(|step| !matches!(step, Step::Batch { cmds, .. } if cmds.is_empty()));
        steps.push(Step::Settle);
        // Some expire before the image is looked at.
        let one = |session: usize, key: u8, stamp: u32, expire_s: u32| Step::Batch {
            session,
            atomic: false,
            wait: true,
            cmds: vec![Cmd { key, kind: CmdKind::Set { len: 40, stamp, expire_s } }],
        };
        steps.extend([
            one(0, 0, 0x6000_0001, 900),
            one(1, 1, 0x6000_0002, 0),
            one(0, 2, 0x6000_0003, 90_000),
        ]);
        steps.push(Step::Tick { us: 1_000_000_000 });
        steps.push(Step::Settle);
        driver.run(&steps).map_err(wrong)?;
        let mut loose = vec![Vec::new(); SESSIONS];
        for round in 0..3 {
            for (session, states) in loose.iter_mut().enumerate() {
                let key = BODY_KEYS + session as u8;
                states.extend_from_slice(driver.book.states(key));
                let stamp = 0x6100_0000 + round * 16 + session as u32;
                driver.run(&[one(session, key, stamp, 0)]).map_err(wrong)?;
            }
        }
        driver.read_all().map_err(wrong)?;
        if closed {
            driver.close().map_err(wrong)?;
        } else {
            for (session, states) in loose.into_iter().enumerate() {
                driver.book.loosen(BODY_KEYS + session as u8, states);
            }
        }
        let (book, clock_us) = (driver.book.clone(), driver.clock.us());
        let bytes = contents_of(&media);
        drop(driver);
        Ok(Self { kind, durability, block_bytes: sizes(kind).block_bytes, bytes, book, clock_us })
    }

    /// Bytes of each device.
    pub fn sizes(&self) -> Vec<usize> {
        self.bytes.iter().map(Vec::len).collect()
    }

    /// Whether a stretch of the image holds anything.
    pub fn holds(&self, device: usize, at: usize, len: usize) -> bool {
        self.bytes[device][at..at + len].iter().any(|byte| *byte != 0)
    }

    /// Opens the image with this rot in it and reads everything. [`Fate::Older`] is answered only for what
    /// [`may_look_free`](Self::may_look_free), or for swaps of that with something else.
    pub fn rot(&self, subject: &dyn Subject, rot: Rot, again: bool) -> Result<Fate, String> {
        let strict = self.caught(subject, rot, again, &self.book);
        let loose = match rot {
            Rot::Zero { device, at, len } => strict.is_err() && self.may_look_free(device, at, len),
            Rot::Swap { device, a, b, len } if strict.is_err() => [a, b]
                .into_iter()
                .any(|at| self.rot(subject, Rot::Zero { device, at, len }, false) == Ok(Fate::Older)),
            _ => false,
        };
        // The halves of one full block: what stands where header and trailer belong is neither, as after a torn write.
        let torn = |mid: usize| self.holds(1, mid - 64, 64) || self.holds(1, mid, 64);
        let halves =
            |low: usize, len| (low % self.block_bytes, len * 2) == (0, self.block_bytes) && torn(low + len);
        let loose = loose
            || matches!(rot, Rot::Swap { device: 1, a, b, len } if a.abs_diff(b) == len && halves(a.min(b), len) && strict.is_err());
        if !loose {
            return strict;
        }
        // Never a value that the key never had, all the same.
        self.caught(subject, rot, again, &self.book.of_the_past(self.clock_us / 1000)).map(|_| Fate::Older)
    }

    /// Whole blocks of the log.
    fn may_look_free(&self, device: usize, at: usize, len: usize) -> bool {
        self.kind == MediaKind::Block && device == 0 && at.is_multiple_of(len)
    }

    fn caught(&self, subject: &dyn Subject, rot: Rot, again: bool, book: &Book) -> Result<Fate, String> {
        match catch_unwind(AssertUnwindSafe(|| self.judge(subject, rot, again, book))) {
            Ok(fate) => fate,
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
                Err(format!("a panic: {}", text.unwrap_or("(no message)")))
            }
        }
    }

    fn judge(&self, subject: &dyn Subject, rot: Rot, again: bool, book: &Book) -> Result<Fate, String> {
        let mut bytes = self.bytes.clone();
        match rot {
            Rot::Flip { device, at, mask } => bytes[device][at] ^= mask,
            Rot::Zero { device, at, len } => bytes[device][at..at + len].fill(0),
            Rot::Swap { device, a, b, len } => {
                let (low, high) = (a.min(b), a.max(b));
                let (front, back) = bytes[device].split_at_mut(high);
                front[low..low + len].swap_with_slice(&mut back[..len]);
            }
        }
        let media = media_of(self.kind, &bytes);
        let mut book = book.clone();
        let mut fate = Fate::Right;
        for round in 0..1 + u8::from(again) {
            let opened = Driver::open(subject, &media, self.durability, self.clock_us, book.clone(), false);
            let mut driver = match opened {
                Ok(driver) => driver,
                Err(Stop::Wrong(text)) => return Err(text),
                Err(Stop::Down(error)) if round == 0 && error.to_string().len() > 20 => {
                    return Ok(Fate::Refused);
                }
                Err(Stop::Down(error)) => return Err(format!("opening, round {round}: {error}")),
            };
            driver.read_all().map_err(wrong)?;
            if driver.tally.poisoned + driver.tally.io > 0 {
                fate = Fate::Poisoned;
            } else {
                driver.count().map_err(wrong)?;
            }
            if again {
                driver.close().map_err(wrong)?;
            }
            book = driver.book.clone();
        }
        Ok(fate)
    }

    /// Stretches that vanish or move as a whole: of byte-addressable media lines, of devices pages (a block of the log is
    /// one) and blocks of pages. Device, start, length; those of a kind together.
    pub fn stretches(&self) -> Vec<Vec<(usize, usize, usize)>> {
        let kinds: &[(usize, usize)] = match self.kind {
            MediaKind::Block => &[(0, 4096), (1, 4096), (1, self.block_bytes)],
            MediaKind::Byte => &[(0, 64)],
            MediaKind::Tiered => &[(0, 64), (1, 4096), (1, self.block_bytes)],
        };
        let all = |&(device, len): &(usize, usize)| {
            let end = self.bytes[device].len() / len * len;
            (0..end).step_by(len).map(|at| (device, at, len)).collect()
        };
        kinds.iter().map(all).collect()
    }
}

/// Each block of pages in turn reads as zeros, and as each of the others.
pub(super) fn block_rots(image: &Image) -> Vec<Rot> {
    let mut blocks: Vec<_> = image.stretches().pop().unwrap_or_default();
    // Two blocks lie between the copies of the manifest, which take half of one each.
    blocks.iter_mut().take(3).skip(1).for_each(|(_, at, len)| *at -= *len / 2);
    let mut rots = Vec::new();
    // The manifests come first.
    // The manifest comes first.
    for (i, &(device, at, len)) in blocks.iter().enumerate().skip(1) {
        if image.holds(device, at, len) {
            rots.push(Rot::Zero { device, at, len });
        }
        let others = blocks[i + 1..].iter();
        rots.extend(others.map(|&(_, b, _)| Rot::Swap { device, a: at, b, len }));
    }
    rots
}

/// The rots of an image, one byte in `sample` with one pattern each, or with all three where that is 1.
pub(super) fn rots(image: &Image, sample: usize, seed: u64) -> Vec<Rot> {
    let mut rng = Rng::new(seed);
    let mut rots = Vec::new();
    for (device, size) in image.sizes().into_iter().enumerate() {
        for at in 0..size {
            // What was never written is the same everywhere: a few of those will do.
            let line = at / 64 * 64;
            let blank = !image.holds(device, line, 64.min(size - line));
            if blank && !at.is_multiple_of(61) || rng.below(sample as u64) != 0 {
                continue;
            }
            let masks: &[u8] = &[0x01, 0x80, 0xff];
            let some = if sample == 1 { masks } else { std::slice::from_ref(rng.pick(masks)) };
            rots.extend(some.iter().map(|&mask| Rot::Flip { device, at, mask }));
        }
    }
    for stretches in image.stretches() {
        // There are few large ones.
        let sample = if stretches.len() < 200 { sample.div_ceil(16) } else { sample };
        for (i, &(device, at, len)) in stretches.iter().enumerate() {
            if image.holds(device, at, len) && rng.below(sample as u64) == 0 {
                rots.push(Rot::Zero { device, at, len });
                let (_, b, _) = stretches[(i + 1 + rng.below(7) as usize) % stretches.len()];
                if b != at {
                    rots.push(Rot::Swap { device, a: at, b, len });
                }
            }
        }
    }
    rots
}
