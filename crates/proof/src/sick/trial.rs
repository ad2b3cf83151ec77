//! One history on one sick device, and what is left when the device is well again.
//!
//! ```text
//!   inject -> open -> steps -> read all -> close     every answer right, or an error; nothing acknowledged after a failed log
//!   heal -> (power loss) -> open -> read all, count  everything acknowledged is there, nothing else
//!        -> write, close, open, read all             and the store goes on
//! ```

use std::panic::{AssertUnwindSafe, catch_unwind};

use terrace_engine::{Durability, StoreError};
use terrace_media::BlockDevice;
use terrace_media_sim::{Access, Fault, FaultKind, SimBlock};
use terrace_testkit::sweep::{Media, MediaKind, Subject};

use super::book::Book;
use super::clock::START_US;
use super::drive::{Driver, Stop, Tally};
use super::plan::{Cmd, CmdKind, KEYS, Step};
use crate::contents::{Contents, blank, contents_of, media_of};

/// Which of the two devices is sick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The log's.
    Log,
    /// The one of blocks and manifest.
    Data,
}

/// What is wrong with it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sickness {
    pub part: Part,
    pub access: Access,
    pub kind: FaultKind,
    /// So many accesses succeed first.
    pub after: u64,
    pub forever: bool,
    /// The power fails too before the device is well again.
    pub power: bool,
}

impl Sickness {
    fn fault(&self) -> Fault {
        let fault = Fault::new(self.access, self.kind).after(self.after);
        if self.forever { fault.forever() } else { fault }
    }
    /// Whether it answers success and means something else.
    pub fn lies(&self) -> bool {
        matches!(
            self.kind,
            FaultKind::Stale | FaultKind::Flip { .. } | FaultKind::Misdirected { .. } | FaultKind::Lost
        )
    }
    /// Whether what it says is synced may not be there: what is acknowledged may come back as it was earlier.
    pub fn loses(&self) -> bool {
        self.access == Access::Write && self.lies()
    }
}

/// What a store showed when the device was well again.
#[derive(Clone, Copy, Debug, Default)]
struct After {
    poisoned: u64,
    older: bool,
    refused: bool,
}

/// What a trial showed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outcome {
    /// Whether the fault was reached at all.
    pub fired: bool,
    pub tally: Tally,
    /// The store refused to open or to close while the device was sick.
    pub down: bool,
    /// Poisoned keys when the device was well again.
    pub poisoned: u64,
    /// Some key had an earlier state than was acknowledged then.
    pub older: bool,
}

/// A bench of trials of one engine on media with a device at least. Memory beside that is never sick, and power loss leaves
/// all of its bytes.
pub(super) struct Bench<'a> {
    pub subject: &'a dyn Subject,
    pub kind: MediaKind,
    pub durability: Durability,
    template: Contents,
}

/// Accesses of a history, by device: reads, writes, syncs.
pub(super) type Counts = Vec<(Part, [u64; 3])>;

pub(super) fn wrong(stop: Stop) -> String {
    match stop {
        Stop::Wrong(text) => text,
        Stop::Down(error) => format!("the store does not open or close on a device that is well: {error}"),
    }
}

impl<'a> Bench<'a> {
    /// With an empty store of this engine.
    pub fn new(subject: &'a dyn Subject, kind: MediaKind, durability: Durability) -> Result<Self, String> {
        let mut bench = Self { subject, kind, durability, template: blank(subject, kind) };
        let media = bench.media();
        let mut driver =
            Driver::open(subject, &media, durability, START_US, Book::new(), true).map_err(wrong)?;
        driver.close().map_err(wrong)?;
        drop(driver);
        bench.template = contents_of(&media);
        Ok(bench)
    }

    fn media(&self) -> Media {
        media_of(self.kind, &self.template)
    }

    /// Runs the steps on a device that is well.
    pub fn count(&self, steps: &[Step]) -> Result<Counts, String> {
        let media = self.media();
        self.live(&media, steps).1.map_err(wrong)?;
        let counts = |device: &SimBlock| {
            let counters = device.counters().snapshot();
            [counters.reads, counters.writes, counters.fences]
        };
        Ok(parts(&media).into_iter().map(|(part, device)| (part, counts(device))).collect())
    }

    /// The history, up to its close or the end it comes to.
    fn live(&self, media: &Media, steps: &[Step]) -> (Book, Result<(), Stop>, Tally) {
        let book = Book::new();
        let mut driver =
            match Driver::open(self.subject, media, self.durability, START_US, book.clone(), false) {
                Ok(driver) => driver,
                Err(stop) => return (book, Err(stop), Tally::default()),
            };
        let result = driver.run(steps).and_then(|()| driver.read_all()).and_then(|()| driver.close());
        (driver.book.clone(), result, driver.tally)
    }

    /// One trial; a panic is a failure too.
    pub fn trial(&self, steps: &[Step], sickness: &Sickness, seed: u64) -> Result<Outcome, String> {
        match catch_unwind(AssertUnwindSafe(|| self.try_it(steps, sickness, seed))) {
            Ok(outcome) => outcome,
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
                Err(format!("a panic: {}", text.unwrap_or("(no message)")))
            }
        }
    }

    fn try_it(&self, steps: &[Step], sickness: &Sickness, seed: u64) -> Result<Outcome, String> {
        let media = self.media();
        let parts = parts(&media);
        let sick = parts.iter().find(|(part, _)| *part == sickness.part);
        let Some((_, device)) = sick else { return Err(format!("{} media have no such device", self.kind)) };
        parts.iter().for_each(|(_, device)| device.keep_history());
        device.inject(sickness.fault());
        let (book, result, tally) = self.live(&media, steps);
        let mut outcome = Outcome { fired: device.faults_fired() > 0, tally, ..Outcome::default() };
        match result {
            Ok(()) => {}
            Err(Stop::Wrong(text)) => return Err(text),
            Err(Stop::Down(error)) => {
                tells(&error, sickness)?;
                outcome.down = true;
            }
        }
        if !sickness.lies() && tally.poisoned > 0 {
            return Err("a record was called damaged, and the device only failed".into());
        }
        parts.iter().for_each(|(_, device)| device.heal());
        if sickness.power {
            parts.iter().for_each(|(_, device)| {
                device.lose_unsynced(seed);
            });
        }
        // Under `batch` what was acknowledged since the last sync may be lost to power, unless the store was closed.
        let may_forget = self.kind.log_is_synced() && self.durability != Durability::Sync;
        let forgets = sickness.power && outcome.down && may_forget;
        let may_lose = forgets || sickness.loses();
        let after = self.afterwards(&media, book, sickness, may_lose).map_err(|text| {
            format!(
                "when the device is well again{}: {text}",
                if sickness.power { ", after power loss" } else { "" }
            )
        })?;
        (outcome.poisoned, outcome.older) = (after.poisoned, after.older);
        outcome.down |= after.refused;
        Ok(outcome)
    }

    fn afterwards(
        &self,
        media: &Media,
        book: Book,
        sickness: &Sickness,
        may_lose: bool,
    ) -> Result<After, String> {
        let now_us = START_US + 600_000_000;
        let open = |book| Driver::open(self.subject, media, self.durability, now_us, book, false);
        let may_be = if may_lose { book.of_the_past(now_us / 1000) } else { book.clone() };
        let mut driver = match open(may_be) {
            Err(Stop::Down(error)) if sickness.loses() && error.to_string().len() > 20 => {
                return Ok(After { refused: true, ..After::default() });
            }
            opened => opened.map_err(wrong)?,
        };
        driver.read_all().map_err(wrong)?;
        let older = driver.book.contradicts(&book);
        let Tally { io, full, poisoned, log_failed, .. } = driver.tally;
        if io + full + log_failed > 0 || poisoned > 0 && !sickness.lies() {
            return Err(format!("reads were refused: {:?}", driver.tally));
        }
        if poisoned == 0 {
            driver.count().map_err(wrong)?;
        }
        let stamp = |key| 0x7000_0000 | u32::from(key);
        let set = |key| Cmd { key, kind: CmdKind::Set { len: 30, stamp: stamp(key), expire_s: 0 } };
        let writes: Vec<Step> = (0..KEYS)
            .map(|key| Step::Batch { session: 1, atomic: false, wait: true, cmds: vec![set(key)] })
            .collect();
        driver.run(&writes).and_then(|()| driver.read_all()).map_err(wrong)?;
        driver.count().map_err(wrong)?;
        driver.close().map_err(wrong)?;
        let book = driver.book.clone();
        drop(driver);
        let mut driver = open(book).map_err(|stop| format!("the second time: {}", wrong(stop)))?;
        driver.read_all().map_err(wrong)?;
        if driver.tally.answered != u64::from(KEYS) {
            return Err(format!("after everything was written again: {:?}", driver.tally));
        }
        Ok(After { poisoned, older, refused: false })
    }
}

/// An error must say what was being done, and how the device failed or what to do.
fn tells(error: &StoreError, sickness: &Sickness) -> Result<(), String> {
    let text = error.to_string();
    if sickness.lies() {
        return if text.len() > 20 { Ok(()) } else { Err(format!("it only says {text:?}")) };
    }
    let told = match error {
        StoreError::Io { what, .. } => !what.is_empty(),
        StoreError::Corrupt(text) => text.len() > 20,
        _ => false,
    };
    if told && (text.contains("os error") || text.contains("short")) {
        return Ok(());
    }
    Err(format!("the store went down and doesn't say why: {text:?}"))
}

/// The devices: byte-addressable media answer no errors.
fn parts(media: &Media) -> Vec<(Part, &SimBlock)> {
    match media {
        Media::Byte(_) => Vec::new(),
        Media::Block { log, data } => vec![(Part::Log, log), (Part::Data, data)],
        Media::Tiered { data, .. } => vec![(Part::Data, data)],
    }
}
