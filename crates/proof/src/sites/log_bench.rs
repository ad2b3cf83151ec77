//! The operation log alone: several sessions that depend on each other, which whole stores on one thread hardly ever do, on
//! an area that another log was on before.
//!
//! ```text
//!   remains of another log --create--> groups, syncs, reclaims (each with its own actor) --+--> trace
//!                                            |                                            |
//!                                            '-- a crash in it --open, a group a session--+
//! ```

use std::cell::Cell;
use std::sync::Arc;

use terrace_log::{BlockLog, ByteLog, Log, LogDevice, LogError, LogOptions};
use terrace_media_sim::snapshot::Crash;
use terrace_media_sim::{
    CrashImage, Explorer, Position, Recorder, Rng, SimBlock, SimRegion, Trace, set_actor,
};
use terrace_testkit::sweep::MediaKind;
use terrace_testkit::sweep::without::{Crashes, Outcome, model, near};

/// This file, as the compiler names it.
pub(super) const FILE: &str = file!();

/// Sessions.
const SLOTS: usize = 2;
/// Who opens, and who reclaims.
pub(super) const OPENER: u32 = 7;
const RECLAIMER: u32 = 8;
/// A version that no history reaches.
const AFTER: u64 = 1 << 20;
pub(super) const STORE_ID: u64 = 0xABCD;
const GROUPS: usize = 40;
const IMAGES_A_POINT: u64 = 16;

/// A group that was written, and what it rests on.
#[derive(Clone)]
struct Group {
    slot: u16,
    versions: Vec<u64>,
    /// The first two are one step.
    atomic: bool,
    dependencies: Vec<(u16, u64)>,
}

/// What a crash at or after `from` must respect.
#[derive(Clone, Copy, Default)]
struct Promise {
    from: Position,
    /// Groups whose write has begun.
    begun: usize,
    durable: [u64; SLOTS],
    /// Entries up to this version may be gone.
    persisted: u64,
    /// What openings are given: versions up to it are durable elsewhere.
    floor: u64,
}

/// A history of a log.
pub(crate) struct LogHistory {
    media: MediaKind,
    trace: Trace,
    groups: Arc<Vec<Group>>,
    /// In order; before the first one no log need be there.
    promises: Vec<Promise>,
    /// What the older log on the area held.
    older: Vec<Entry>,
    /// What the opening that the history begins with found: that and nothing else, from then on.
    exact: Option<Vec<Entry>>,
    /// From where on which session's group after the opening must be there.
    went_on: Vec<WentOn>,
}

pub(super) fn block_bytes(media: MediaKind) -> usize {
    match media {
        MediaKind::Byte | MediaKind::Tiered => 1024,
        // Of more than one page.
        MediaKind::Block => 8192,
    }
}

pub(super) fn area_bytes(media: MediaKind) -> usize {
    match media {
        MediaKind::Byte | MediaKind::Tiered => 128 + 9 * 1024,
        MediaKind::Block => 4096 + 9 * 8192,
    }
}

pub(super) fn options(media: MediaKind, store_id: u64) -> LogOptions {
    LogOptions { block_bytes: block_bytes(media), store_id }
}

pub(super) fn on_region(region: SimRegion) -> ByteLog<SimRegion> {
    let len = terrace_media::ByteRegion::len(&region);
    ByteLog::new(Arc::new(region), 0, len)
}

pub(super) fn on_block(device: SimBlock) -> BlockLog<SimBlock> {
    let len = terrace_media::BlockDevice::len(&device);
    BlockLog::new(Arc::new(device), 0, len)
}

/// The bytes of an entry tell slot and version apart.
fn payload(slot: u16, version: u64, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i as u64 * 31 + version * 7 + u64::from(slot)) as u8).collect()
}

/// What an older log with another identity left on the area: sessions wrote, it was opened again, they wrote more.
fn remains(media: MediaKind) -> Result<(Vec<u8>, Vec<Entry>), LogError> {
    fn fill<D: LogDevice>(log: &Log<D>, from: u64) -> Result<(), LogError> {
        for slot in 0..SLOTS as u16 {
            let mut writer = log.writer(slot, from);
            for version in from + 1..from + 4 {
                writer.entry(version, 0, &[&payload(slot, version, 200)]);
                writer.write(0, &[])?;
            }
        }
        log.sync()
    }
    fn twice<D: LogDevice>(make: impl Fn() -> D, options: LogOptions) -> Result<Vec<Entry>, LogError> {
        fill(&Log::create(make(), options)?, 0)?;
        fill(&Log::open(make(), options, 0, 1)?.0, 10)?;
        found(&Log::open(make(), options, 0, 1)?.1)
    }
    let options = options(media, STORE_ID ^ 1);
    let recorder = Recorder::new();
    match media {
        MediaKind::Byte | MediaKind::Tiered => {
            let region = recorder.region(vec![0; area_bytes(media)]);
            let entries = twice(|| on_region(region.clone()), options)?;
            Ok((region.to_bytes(), entries))
        }
        MediaKind::Block => {
            let device = recorder.block(vec![0; area_bytes(media)]);
            let entries = twice(|| on_block(device.clone()), options)?;
            Ok((device.to_bytes(), entries))
        }
    }
}

/// The positions that survive if exactly `groups` are there.
fn closed(groups: &[Group], floor: u64) -> [u64; SLOTS] {
    let mut there = vec![true; groups.len()];
    loop {
        let (mut positions, mut cut) = ([0; SLOTS], [false; SLOTS]);
        for (group, there) in groups.iter().zip(&mut there) {
            let slot = usize::from(group.slot);
            *there &= !cut[slot];
            cut[slot] |= !*there;
            if *there {
                positions[slot] = group.versions.last().copied().unwrap_or(0);
            }
        }
        let unmet = |group: &Group| {
            let missing = |&(slot, version): &(u16, u64)| version > floor.max(positions[usize::from(slot)]);
            group.dependencies.iter().any(missing)
        };
        let Some(first) = (0..groups.len()).find(|&i| there[i] && unmet(&groups[i])) else {
            return positions;
        };
        there[first] = false;
    }
}

/// Runs the history of a seed, and some that begin with opening what a crash of it left.
///
/// # Errors
/// If the log fails without any crash, or a recovery does.
pub(crate) fn record(media: MediaKind, seed: u64, second: usize) -> Result<Vec<LogHistory>, String> {
    let recorder = Recorder::new();
    let blank = !seed.is_multiple_of(2);
    let remains = if blank { Ok((vec![0; area_bytes(media)], Vec::new())) } else { remains(media) };
    let (bytes, older) = remains.map_err(|error| error.to_string())?;
    let run = match media {
        MediaKind::Byte | MediaKind::Tiered => run(&recorder, on_region(recorder.region(bytes)), media, seed),
        MediaKind::Block => run(&recorder, on_block(recorder.block(bytes)), media, seed),
    };
    let (groups, promises) = run.map_err(|error| error.to_string())?;
    let first = LogHistory {
        media,
        trace: recorder.finish(),
        groups: Arc::new(groups),
        promises,
        older,
        exact: None,
        went_on: Vec::new(),
    };
    let mut histories = Vec::new();
    let sample = (first.trace.len() / second.max(1) / 4).max(1) as u64;
    let opened = Explorer::new(seed)
        .only(Crash::Power)
        .images_per_point(4)
        .point_sample(sample)
        .store_sample(0)
        .minimise(false)
        .explore(&first.trace, |point, image| {
            let Some(promise) = first.promise(point.position) else { return Ok(()) };
            let (recorder, copy) = image.recording(point.crash);
            let go_on = match media {
                MediaKind::Byte | MediaKind::Tiered => {
                    go_on(on_region(copy.region(0)), &first, promise, &recorder)
                }
                MediaKind::Block => go_on(on_block(copy.block(0)), &first, promise, &recorder),
            };
            let (exact, went_on) = go_on.map_err(|error| error.to_string())?;
            histories.push(LogHistory {
                media,
                trace: recorder.finish(),
                groups: first.groups.clone(),
                promises: vec![Promise { from: 0, ..*promise }],
                older: Vec::new(),
                exact: Some(exact),
                went_on,
            });
            Ok::<(), String>(())
        });
    opened.map_err(|failure| failure.message)?;
    histories.insert(0, first);
    Ok(histories)
}

fn run<D: LogDevice>(
    recorder: &Recorder,
    device: D,
    media: MediaKind,
    seed: u64,
) -> Result<(Vec<Group>, Vec<Promise>), LogError> {
    let immediate = device.immediate();
    set_actor(OPENER);
    let log = Log::create(device, options(media, STORE_ID))?;
    let mut writers = [log.writer(0, 0), log.writer(1, 0)];
    let (mut groups, mut promises): (Vec<Group>, _) = (Vec::new(), Vec::new());
    let mut now = Promise { from: recorder.position(), ..Promise::default() };
    promises.push(now);
    let mut rng = Rng::new(seed);
    let (mut version, mut synced) = (0, 0);
    let reclaim = |now: &mut Promise, promises: &mut Vec<Promise>| {
        // What is persisted must be durable with all that it rests on.
        now.persisted = now.persisted.max(now.durable[0].min(now.durable[1]));
        // The floor follows later: the last block of a session stays until then.
        now.floor = if now.persisted.is_multiple_of(2) { now.persisted } else { now.floor };
        now.from = recorder.position();
        promises.push(*now);
        set_actor(RECLAIMER);
        log.reclaim(now.persisted, now.floor)
    };
    for _ in 0..GROUPS {
        let slot = rng.below(SLOTS as u64) as usize;
        let mut group = Group {
            slot: slot as u16,
            versions: Vec::new(),
            atomic: rng.one_in(2),
            dependencies: Vec::new(),
        };
        // Now and then more than one group holds.
        let most = if rng.one_in(4) { 6 } else { 2 };
        let entries = 1 + rng.below(most);
        for i in 0..entries {
            if i == 0 && group.atomic {
                writers[slot].begin_atomic();
            }
            version += 1;
            group.versions.push(version);
            let bytes = payload(group.slot, version, rng.below(block_bytes(media) as u64 / 3) as usize);
            writers[slot].entry(version, version, &[&bytes]);
            if i == 1 || i + 1 == entries {
                writers[slot].end_atomic();
            }
        }
        if rng.one_in(3) {
            // On what the other session wrote last, or on what it will write next (a cycle, or a cut).
            let other = writers[1 - slot].last_written();
            let next = if rng.one_in(4) { version + 1 } else { other };
            group.dependencies.push((1 - group.slot, next));
        }
        groups.push(group.clone());
        now = Promise { from: recorder.position(), begun: groups.len(), ..now };
        promises.push(now);
        set_actor(slot as u32);
        while let Err(error) = writers[slot].write(now.durable[slot], &group.dependencies) {
            if !matches!(error, LogError::Full) {
                return Err(error);
            }
            reclaim(&mut now, &mut promises)?;
            set_actor(slot as u32);
            if log.free_blocks() == 0 {
                // Nothing of this can be freed: an unmet dependency holds everything behind it.
                return Ok((groups, promises));
            }
        }
        if immediate || rng.one_in(4) {
            log.sync()?;
            synced = groups.len();
        }
        now.durable = closed(&groups[..synced], now.persisted);
        now.from = recorder.position();
        promises.push(now);
        if rng.one_in(6) {
            reclaim(&mut now, &mut promises)?;
        }
    }
    Ok((groups, promises))
}

/// Opens, and lets each session write one group. What was found, and from where on whose group must be there.
fn go_on<D: LogDevice>(
    device: D,
    history: &LogHistory,
    promise: &Promise,
    recorder: &Recorder,
) -> Result<(Vec<Entry>, Vec<WentOn>), LogError> {
    set_actor(OPENER);
    let immediate = device.immediate();
    let (log, replay) = Log::open(device, options(history.media, STORE_ID), promise.floor, 1)?;
    let exact = found(&replay)?;
    drop(replay);
    let mut written = Vec::new();
    for slot in 0..SLOTS as u16 {
        set_actor(u32::from(slot));
        let mut writer = log.writer(slot, AFTER);
        writer.entry(AFTER + 1, 0, &[AFTER_BYTES]);
        match writer.write(0, &[]) {
            Ok(_) if immediate => written.push((recorder.acknowledged(0), slot)),
            Ok(_) => written.push((Position::MAX, slot)),
            Err(LogError::Full) => {}
            Err(error) => return Err(error),
        }
    }
    log.sync()?;
    let safe = recorder.acknowledged(0);
    let went_on = written.into_iter().map(|(from, slot)| (from.min(safe), slot));
    Ok((exact, went_on.collect()))
}

const AFTER_BYTES: &[u8] = b"after the crash";

/// Crashes a history of a log.
pub(super) fn crash(
    trace: &Trace,
    crashes: Crashes,
    check: impl Fn(Position, &CrashImage) -> Result<(), String>,
) -> Outcome {
    let judged = Cell::new(0);
    let mut explorer = Explorer::new(crashes.seed)
        .only(Crash::Power)
        .model(model(crashes.seed))
        .images_per_point(IMAGES_A_POINT)
        .store_sample(4)
        .minimise(false);
    if let Some(site) = crashes.near {
        explorer = explorer.within(near(trace, site, crashes.seed));
    } else {
        let points = trace.len() as u64;
        explorer = explorer.point_sample((points * IMAGES_A_POINT / crashes.images.max(1)).max(1));
    }
    if let Some(site) = crashes.without {
        explorer = explorer.without_site(site);
    }
    let result = explorer.explore(trace, |point, image| {
        if judged.get() >= crashes.images {
            return Ok(());
        }
        judged.set(judged.get() + 1);
        check(point.position, image)
    });
    Outcome { images: judged.get(), wrong: result.err().map(|failure| failure.message) }
}

impl LogHistory {
    pub(super) fn trace(&self) -> &Trace {
        &self.trace
    }

    fn promise(&self, position: Position) -> Option<&Promise> {
        self.promises.iter().rev().find(|promise| promise.from <= position)
    }

    pub(crate) fn crash(&self, crashes: Crashes) -> Outcome {
        crash(&self.trace, crashes, |position, image| self.check_image(position, image))
    }

    fn check_image(&self, position: Position, image: &CrashImage) -> Result<(), String> {
        match self.media {
            MediaKind::Byte | MediaKind::Tiered => self.check(position, || on_region(image.region(0))),
            MediaKind::Block => self.check(position, || on_block(image.block(0))),
        }
    }

    /// A creation that was cut off leaves the new log, empty, or none; of the older one everything or none.
    fn check_half_made<D: LogDevice>(&self, make: impl Fn() -> D) -> Result<(), String> {
        for (store_id, expected) in [(STORE_ID ^ 1, &self.older), (STORE_ID, &Vec::new())] {
            match Log::open(make(), options(self.media, store_id), 0, 1) {
                Ok((_, replay)) => {
                    let got = found(&replay).map_err(|error| error.to_string())?;
                    if got != *expected {
                        return Err(format!("a log half made holds {} entries", got.len()));
                    }
                }
                Err(LogError::Mismatch(_)) => {}
                Err(error) => return Err(format!("a log half made: opening: {error}")),
            }
        }
        Ok(())
    }

    /// What an earlier opening found is there, and nothing else, and what was written since.
    fn check_exact(&self, position: Position, got: &[Entry]) -> Result<(), String> {
        let Some(exact) = &self.exact else { return Ok(()) };
        let of_before: Vec<_> = got.iter().filter(|entry| entry.1 <= AFTER).cloned().collect();
        if of_before != *exact {
            return Err(format!(
                "{} entries where an earlier opening found {}",
                of_before.len(),
                exact.len()
            ));
        }
        for (from, slot) in &self.went_on {
            if *from <= position && !got.iter().any(|entry| entry.0 == *slot && entry.1 > AFTER) {
                return Err(format!("what session {slot} wrote after an opening is lost"));
            }
        }
        Ok(())
    }

    fn check<D: LogDevice>(&self, position: Position, make: impl Fn() -> D) -> Result<(), String> {
        let Some(promise) = self.promise(position) else { return self.check_half_made(make) };
        let options = options(self.media, STORE_ID);
        let open =
            || Log::open(make(), options, promise.floor, 1).map_err(|error| format!("opening: {error}"));
        let (log, replay) = open()?;
        let got = found(&replay).map_err(|error| error.to_string())?;
        self.check_exact(position, &got)?;
        let positions = replay.positions();
        let reached = |slot: u16| positions.get(&slot).copied().unwrap_or(0);
        let position = |slot: u16| reached(slot).max(promise.persisted);
        for (slot, durable) in promise.durable.into_iter().enumerate() {
            if position(slot as u16) < durable {
                return Err(format!(
                    "slot {slot} is cut at {}, {durable} was durable",
                    position(slot as u16)
                ));
            }
        }
        let mut expected = got.iter().filter(|entry| entry.1 > AFTER && entry.2 == AFTER_BYTES).count();
        for group in self.groups.iter().take(promise.begun) {
            let there = |version: &u64| got.iter().any(|entry| entry.0 == group.slot && entry.1 == *version);
            if let (true, [a, b, ..]) = (group.atomic, &group.versions[..])
                && *a > promise.persisted
                && there(a) != there(b)
            {
                return Err(format!("the step of versions {a} and {b} is half there"));
            }
            for &version in &group.versions {
                let here = got.iter().find(|entry| entry.0 == group.slot && entry.1 == version);
                if version <= reached(group.slot) && here.is_none() && version > promise.persisted {
                    // Where the sessions went on, what was cut before stays cut.
                    if reached(group.slot) < AFTER {
                        return Err(format!("version {version} of slot {} is missing", group.slot));
                    }
                }
                if let Some((slot, _, bytes)) = here {
                    let rests = group.dependencies.iter().all(|&(slot, version)| version <= position(slot));
                    if *bytes != payload(*slot, version, bytes.len()) || !rests {
                        return Err(format!("version {version} of slot {slot} is wrong or rests on nothing"));
                    }
                    expected += 1;
                }
            }
        }
        if expected != got.len() {
            return Err(format!("{} entries that were never written", got.len() - expected));
        }
        // The sessions go on, past everything that was cut.
        let next = AFTER * 2;
        let mut written = 0;
        for slot in 0..SLOTS as u16 {
            let mut writer = log.writer(slot, next);
            writer.entry(next + 1, 0, &[AFTER_BYTES]);
            match writer.write(next, &[]) {
                Ok(_) => written += 1,
                Err(LogError::Full) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        drop(log);
        let (_, replay) = open().map_err(|error| format!("a second recovery: {error}"))?;
        let all = found(&replay).map_err(|error| error.to_string())?;
        let again: Vec<_> = all.iter().filter(|entry| entry.1 <= next).cloned().collect();
        if again != got || all.len() != got.len() + written {
            return Err("a second recovery found something else".into());
        }
        Ok(())
    }
}

pub(super) type Entry = (u16, u64, Vec<u8>);

/// From where on a session's group must be there.
type WentOn = (Position, u16);

pub(super) fn found<D: LogDevice>(replay: &terrace_log::Replay<D>) -> Result<Vec<Entry>, LogError> {
    let mut found = Vec::new();
    replay.for_each(|entry| found.push((entry.slot, entry.version, entry.bytes.to_vec())))?;
    Ok(found)
}
