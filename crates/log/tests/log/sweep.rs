//! Crashes at every point of seeded histories of two sessions that fill, reclaim and reuse blocks, on both kinds of media.

use terrace_log::{Log, LogDevice, LogError};
use terrace_media_sim::{CrashImage, CrashPoint, Explorer, Model, Position, Recorder, Rng, Trace};

use crate::common::{found, on_block, on_region, open, options, payload};

/// A step that was written: its versions, in as many groups and blocks as they take, and what it rests on.
#[derive(Clone)]
struct Group {
    slot: u16,
    versions: Vec<u64>,
    dependencies: Vec<(u16, u64)>,
}

/// What a crash at or after `from` must respect.
#[derive(Clone, Copy, Default)]
struct Promise {
    from: Position,
    /// Groups whose write has begun.
    begun: usize,
    /// Each slot's durable position.
    durable: [u64; 2],
    /// Entries with a `seq` (here: their version) up to this may be gone; also the floor.
    persisted: u64,
}

struct History {
    groups: Vec<Group>,
    promises: Vec<Promise>,
}

/// The positions that survive if exactly `groups` are there.
fn closed(groups: &[Group], floor: u64) -> [u64; 2] {
    let mut there = vec![true; groups.len()];
    loop {
        let mut positions = [0; 2];
        let mut cut = [false; 2];
        for (group, there) in groups.iter().zip(&mut there) {
            let slot = group.slot as usize;
            *there &= !cut[slot];
            cut[slot] |= !*there;
            if *there {
                positions[slot] = *group.versions.last().expect("not empty");
            }
        }
        let unmet = |group: &Group| {
            group.dependencies.iter().any(|&(slot, version)| version > floor.max(positions[slot as usize]))
        };
        let Some(first) = (0..groups.len()).find(|&i| there[i] && unmet(&groups[i])) else {
            return positions;
        };
        there[first] = false;
    }
}

fn run<D: LogDevice>(recorder: &Recorder, device: D, block_bytes: usize, seed: u64) -> History {
    let immediate = device.immediate();
    let log = Log::create(device, options(block_bytes)).expect("created");
    let mut writers = [log.writer(0, 0), log.writer(1, 0)];
    let mut history = History { groups: Vec::new(), promises: Vec::new() };
    let mut now = Promise { from: recorder.position(), ..Promise::default() };
    history.promises.push(now);
    let mut rng = Rng::new(seed);
    let (mut version, mut synced) = (0, 0);
    for _ in 0..40 {
        let slot = rng.below(2) as usize;
        let mut group = Group { slot: slot as u16, versions: Vec::new(), dependencies: Vec::new() };
        // Now and then more than two blocks hold.
        let most = if rng.one_in(4) { 9 } else { 2 };
        writers[slot].begin_atomic();
        for _ in 0..=rng.below(most) {
            version += 1;
            group.versions.push(version);
            let bytes = payload(slot as u16, version, rng.below(block_bytes as u64 / 3) as usize);
            writers[slot].entry(version, version, &[&bytes]);
        }
        writers[slot].end_atomic();
        if rng.one_in(3) {
            // On what the other session wrote last, or on what it will write next (a cycle, or a cut).
            let other = writers[1 - slot].last_written();
            let next = if rng.one_in(4) { version + 1 } else { other };
            group.dependencies.push((1 - slot as u16, next));
        }
        history.groups.push(group.clone());
        now = Promise { from: recorder.position(), begun: history.groups.len(), ..now };
        history.promises.push(now);
        while let Err(error) = writers[slot].write(now.durable[slot], &group.dependencies) {
            assert!(matches!(error, LogError::Full), "{error}");
            reclaim(recorder, &log, &mut history, &mut now);
            if log.free_blocks() == 0 {
                // Nothing of this can be freed: an unmet dependency holds everything behind it. A part of the step may be written.
                return history;
            }
        }
        if immediate || rng.one_in(4) {
            log.sync().expect("synced");
            synced = history.groups.len();
        }
        now.durable = closed(&history.groups[..synced], now.persisted);
        now.from = recorder.position();
        history.promises.push(now);
        if rng.one_in(6) {
            reclaim(recorder, &log, &mut history, &mut now);
        }
    }
    history
}

fn reclaim<D: LogDevice>(recorder: &Recorder, log: &Log<D>, history: &mut History, now: &mut Promise) {
    // What is persisted must be durable with all that it rests on.
    now.persisted = now.persisted.max(now.durable[0].min(now.durable[1]));
    now.from = recorder.position();
    history.promises.push(*now);
    log.reclaim(now.persisted, now.persisted).expect("reclaims");
}

fn check<D: LogDevice>(
    history: &History,
    promise: &Promise,
    make: impl Fn() -> D,
    block: usize,
) -> Result<(), String> {
    let (log, replay) = open(make(), block, promise.persisted).map_err(|error| error.to_string())?;
    let got = found(&replay);
    let positions = replay.positions();
    let position = |slot: u16| positions.get(&slot).copied().unwrap_or(0).max(promise.persisted);
    for (slot, durable) in promise.durable.into_iter().enumerate() {
        if position(slot as u16) < durable {
            return Err(format!("slot {slot} is cut at {}, {durable} was durable", position(slot as u16)));
        }
    }
    let mut expected = Vec::new();
    for group in &history.groups[..promise.begun] {
        let ends_at = positions.get(&group.slot).copied().unwrap_or(0);
        let (first, last) = (group.versions[0], group.versions[group.versions.len() - 1]);
        if ends_at >= first && ends_at < last && last > promise.persisted {
            return Err(format!("slot {} ends at {ends_at}, inside of {first} to {last}", group.slot));
        }
        for &version in &group.versions {
            let here = got.iter().find(|entry| entry.0 == group.slot && entry.1 == version);
            let counts = version <= positions.get(&group.slot).copied().unwrap_or(0);
            if counts && here.is_none() && version > promise.persisted {
                return Err(format!("version {version} of slot {} is missing", group.slot));
            }
            if let Some((slot, _, bytes)) = here {
                let rests = group.dependencies.iter().all(|&(slot, version)| version <= position(slot));
                if *bytes != payload(*slot, version, bytes.len()) || !rests {
                    return Err(format!("version {version} of slot {slot} is wrong or rests on nothing"));
                }
                expected.push((*slot, version));
            }
        }
    }
    if expected.len() != got.len() {
        return Err(format!("{} entries that were never written", got.len() - expected.len()));
    }
    // The sessions go on, past everything that was cut.
    let next =
        history.groups.iter().filter_map(|group| group.versions.last()).max().copied().unwrap_or(0) + 1;
    let mut written = 0;
    for slot in 0..2u16 {
        let mut writer = log.writer(slot, next);
        writer.entry(next + 1, 0, &[b"after the crash"]);
        match writer.write(next, &[]) {
            Ok(_) => written += 1,
            Err(LogError::Full) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    drop(log);
    let (_, replay) = open(make(), block, promise.persisted).map_err(|error| format!("again: {error}"))?;
    let mut again = found(&replay);
    again.retain(|entry| entry.1 <= next);
    if again != got || found(&replay).len() != got.len() + written {
        return Err("opening again finds something else".into());
    }
    Ok(())
}

fn check_image(history: &History, promise: &Promise, image: &CrashImage, block: bool) -> Result<(), String> {
    if block {
        let device = image.block(0);
        check(history, promise, || on_block(&device), 4096)
    } else {
        let region = image.region(0);
        check(history, promise, || on_region(&region), 1024)
    }
}

/// Opens a copy of the image and crashes at every point of that; returns the number of images.
fn crash_while_opening(
    history: &History,
    promise: &Promise,
    (point, image): (&CrashPoint, &CrashImage),
    block: bool,
    seed: u64,
) -> Result<u64, String> {
    let (recorder, copy) = image.recording(point.crash);
    if block {
        open(on_block(&copy.block(0)), 4096, promise.persisted).map_err(|error| error.to_string())?;
    } else {
        open(on_region(&copy.region(0)), 1024, promise.persisted).map_err(|error| error.to_string())?;
    }
    let explorer = Explorer::new(seed).images_per_point(16).store_sample(1);
    let outcome =
        explorer.explore(&recorder.finish(), |_, image| check_image(history, promise, image, block));
    outcome.map(|statistics| statistics.images).map_err(|failure| format!("crash while opening: {failure:?}"))
}

fn sweep(block: bool, model: Model, seeds: std::ops::Range<u64>) {
    let (mut images, mut nth) = (0, 0);
    for seed in seeds {
        let recorder = Recorder::new();
        let history = if block {
            run(&recorder, on_block(&recorder.block(vec![0; 4096 * 13])), 4096, seed)
        } else {
            run(&recorder, on_region(&recorder.region(vec![0; 128 + 12 * 1024])), 1024, seed)
        };
        let trace: Trace = recorder.finish();
        let explorer = Explorer::new(seed).model(model).images_per_point(24).store_sample(4);
        let outcome = explorer.explore(&trace, |point, image: &CrashImage| {
            let Some(promise) = history.promises.iter().rev().find(|promise| promise.from <= point.position)
            else {
                return Ok(());
            };
            nth += 1;
            if nth % 64 == 0 {
                images += crash_while_opening(&history, promise, (point, image), block, seed)?;
            }
            check_image(&history, promise, image, block)
        });
        match outcome {
            Ok(statistics) => images += statistics.images,
            Err(failure) => panic!("seed {seed}: {failure:?}"),
        }
    }
    assert!(images > 1000, "{images} images");
}

#[test]
fn byte_media_in_order() {
    sweep(false, Model::Prefix, 0..4);
}

#[test]
fn byte_media_any_words() {
    sweep(false, Model::Strict, 6..10);
}

#[test]
fn block_media() {
    sweep(true, Model::Prefix, 0..8);
}
