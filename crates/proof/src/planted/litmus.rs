//! Litmus tests: short scripts for one rule each, crashed everywhere. Seeded histories meet these cases too rarely.
//!
//! | name | the rule |
//! |---|---|
//! | `carried` | a write rests on all that its session had read, in whichever batch |
//! | `missed` | an answer that a key is not there rests on the delete that it saw |
//! | `flush` | without a log too, a whole-database flush that was answered stays |
//! | `time` | time doesn't run backwards: what was answered as expired stays so, whatever the clock says |
//! | `clock` | a store's time elapses, through restarts and whatever the wall clock is set to (`clocks.rs`) |
//! | `expiry` | expired keys leave the count, however full the store is |
//! | `pressure` | without a log what was there at a clean close stays, in one version or another, however space is reused |
//! | `manifest` | with one copy of the manifest damaged, an opening may be cut off anywhere |

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use terrace_engine::clock::ManualClock;
use terrace_engine::manifest::Manifest;
use terrace_engine::{Batch, Condition, Durability, Expiry, OpError, OpKind, Reply};
use terrace_media_sim::{CrashImage, Explorer, Position, Recorder};
use terrace_testkit::sweep::{Media, MediaKind, Opening, Subject};

use super::detect::Finding;
use super::directed::{Client, START_US, ask, set, value};
use crate::contents::{Contents, blank, contents_of, media_of};
use crate::subjects;

const MINUTE_US: u64 = 60_000_000;
/// Background steps after which a store that nobody uses is quiet.
const QUIET_STEPS: u32 = 3_000;

/// Runs the test of this name.
pub(super) fn run(subject: &dyn Subject, name: &str) -> anyhow::Result<Finding> {
    match name {
        "carried" => carried(subject),
        "missed" => missed(subject),
        "flush" => flush(subject),
        "time" => time(subject),
        "clock" => super::clocks::clock(subject),
        "expiry" => expiry(subject),
        "pressure" => pressure(subject),
        "manifest" => manifest(subject),
        _ => bail!("no litmus test {name:?}"),
    }
}

fn opening(durability: Durability, clock: &Arc<ManualClock>, fresh: bool) -> Opening {
    Opening { durability, clock: clock.clone(), fresh, evict: false, variant: 0 }
}

fn recorded(bytes: Contents, recorder: &Recorder) -> Media {
    let mut bytes = bytes.into_iter();
    match (bytes.next(), bytes.next()) {
        (Some(log), Some(data)) => Media::Block { log: recorder.block(log), data: recorder.block(data) },
        (region, _) => Media::Byte(recorder.region(region.unwrap_or_default())),
    }
}

fn stored(reply: Option<(Reply, Vec<u8>)>) -> anyhow::Result<()> {
    ensure!(matches!(reply, Some((Reply::Stored { .. }, _))), "a set is answered {reply:?}");
    Ok(())
}

/// A closed store with these keys.
fn closed(
    subject: &dyn Subject,
    (kind, durability): (MediaKind, Durability),
    keys: &[String],
    expiry: Expiry,
) -> anyhow::Result<Contents> {
    let media = media_of(kind, &blank(subject, kind));
    let clock = Arc::new(ManualClock::new(START_US));
    let mut client = Client::open_as(subject, &media, opening(durability, &clock, true))?;
    for key in keys {
        stored(client.run(key, |batch| set(batch, &value(key, 0, 200), expiry)))?;
    }
    client.close()?;
    Ok(contents_of(&media))
}

/// Crashes what was recorded everywhere. The store is opened on each image, with the clock at the beginning; `judge` says
/// what is wrong with it after a crash at this position.
fn crashed(
    subject: &dyn Subject,
    recorder: &Recorder,
    (kind, durability): (MediaKind, Durability),
    from: Position,
    mut judge: impl FnMut(&mut Client) -> Option<String>,
) -> Finding {
    let trace = recorder.finish();
    let mut images = 0;
    let explored = Explorer::new(1).images_per_point(24).store_sample(4).minimise(false).explore(
        &trace,
        |point, image: &CrashImage| -> Result<(), String> {
            if point.position < from {
                return Ok(());
            }
            images += 1;
            let media = match kind {
                MediaKind::Byte => Media::Byte(image.region(0)),
                MediaKind::Block => Media::Block { log: image.block(0), data: image.block(1) },
                MediaKind::Tiered => Media::Tiered { region: image.region(0), data: image.block(0) },
            };
            let clock = Arc::new(ManualClock::new(START_US));
            let mut client = Client::open_as(subject, &media, opening(durability, &clock, false))
                .map_err(|error| format!("opening: {error}"))?;
            judge(&mut client).map_or(Ok(()), Err)
        },
    );
    Finding { wrong: explored.err().map(|failure| failure.message), tried: format!("{images} images") }
}

fn is_there(client: &mut Client, key: &str) -> bool {
    !matches!(client.get(key), Some((Reply::Miss, _)))
}

fn carried(subject: &dyn Subject) -> anyhow::Result<Finding> {
    let (kind, durability) = (MediaKind::Block, Durability::Batch(Duration::from_millis(100)));
    let recorder = Recorder::new();
    let media = recorded(blank(subject, kind), &recorder);
    let clock = Arc::new(ManualClock::new(START_US));
    let mut first = Client::open_as(subject, &media, opening(durability, &clock, true))?;
    let from = recorder.position();
    let mut second = first.store.session()?;
    stored(first.run("read", |batch| set(batch, b"by the second session", Expiry::Clear)))?;
    let read = ask(&mut *second, &*first.store, "read", |_| OpKind::Get { value: true });
    ensure!(matches!(read, Some((Reply::Hit { .. }, _))), "the read is answered {read:?}");
    stored(ask(&mut *second, &*first.store, "written", |batch| set(batch, b"after it", Expiry::Clear)))?;
    Ok(crashed(subject, &recorder, (kind, durability), from, |client| {
        let lost = is_there(client, "written") && !is_there(client, "read");
        lost.then(|| "a write is there, and what its session had read before is not".into())
    }))
}

fn missed(subject: &dyn Subject) -> anyhow::Result<Finding> {
    let (kind, durability) = (MediaKind::Block, Durability::Sync);
    let recorder = Recorder::new();
    let media = recorded(blank(subject, kind), &recorder);
    let clock = Arc::new(ManualClock::new(START_US));
    let mut first = Client::open_as(subject, &media, opening(durability, &clock, true))?;
    stored(first.run("deleted", |batch| set(batch, b"before it", Expiry::Clear)))?;
    // Nobody waits for it: it is in the log, and a loss of power may take it back.
    let mut batch = Batch::new();
    batch.push(0, b"deleted", OpKind::Delete { condition: Condition::Always, old_value: false });
    first.session.execute(&mut batch);
    let mut second = first.store.session()?;
    let read = ask(&mut *second, &*first.store, "deleted", |_| OpKind::Get { value: false });
    ensure!(matches!(read, Some((Reply::Miss, _))), "the read is answered {read:?}");
    let from = recorder.position();
    Ok(crashed(subject, &recorder, (kind, durability), from, |client| {
        is_there(client, "deleted").then(|| "a key is there that a read had missed".into())
    }))
}

fn keys(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("key{n}")).collect()
}

fn flush(subject: &dyn Subject) -> anyhow::Result<Finding> {
    let (kind, durability) = (MediaKind::Byte, Durability::None);
    let keys = keys(8);
    let recorder = Recorder::new();
    let media = recorded(closed(subject, (kind, durability), &keys, Expiry::Clear)?, &recorder);
    let clock = Arc::new(ManualClock::new(START_US));
    let mut client = Client::open_as(subject, &media, opening(durability, &clock, false))?;
    let done = client.run("", |_| OpKind::Flush { db: None });
    ensure!(matches!(done, Some((Reply::Done, _))), "the flush is answered {done:?}");
    let from = recorder.position();
    Ok(crashed(subject, &recorder, (kind, durability), from, |client| {
        let back = keys.iter().find(|key| is_there(client, key))?;
        Some(format!("{back} is back after a flush that was answered"))
    }))
}

fn time(subject: &dyn Subject) -> anyhow::Result<Finding> {
    // Without a log: the versions in a log would tell the time too.
    let (kind, durability) = (MediaKind::Byte, Durability::None);
    let keys = keys(8);
    let expiry = Expiry::At((START_US + 5 * MINUTE_US) / 1000);
    let recorder = Recorder::new();
    let media = recorded(closed(subject, (kind, durability), &keys, expiry)?, &recorder);
    let clock = Arc::new(ManualClock::new(START_US));
    let mut client = Client::open_as(subject, &media, opening(durability, &clock, false))?;
    clock.advance_us(10 * MINUTE_US);
    client.store.step();
    for key in &keys {
        ensure!(!is_there(&mut client, key), "{key} does not expire");
    }
    let from = recorder.position();
    Ok(crashed(subject, &recorder, (kind, durability), from, |client| {
        let back = keys.iter().find(|key| is_there(client, key))?;
        Some(format!("{back} had expired, and is back"))
    }))
}

fn expiry(subject: &dyn Subject) -> anyhow::Result<Finding> {
    let mut tried = 0;
    for kind in [MediaKind::Byte, MediaKind::Block] {
        // Small records, of which some expire: their tombstones need as much room, and what they leave is scattered.
        for (len, one_in) in [(1, 2), (1, 3), (1, 4), (1, 6), (1, 10), (8, 3), (8, 6), (40, 3), (40, 6)] {
            tried += 1;
            let left = left_of_expired(subject, kind, len, one_in)?;
            if left > 0 {
                let wrong = format!(
                    "{left} expired keys of {len} bytes, one in {one_in}, stay for ever on {kind} media"
                );
                return Ok(Finding { wrong: Some(wrong), tried: format!("{tried} stores") });
            }
        }
    }
    Ok(Finding { wrong: None, tried: format!("{tried} stores") })
}

/// Fills a store, and lets time and background work pass.
fn left_of_expired(subject: &dyn Subject, kind: MediaKind, len: usize, one_in: usize) -> anyhow::Result<u64> {
    let media = media_of(kind, &blank(subject, kind));
    let clock = Arc::new(ManualClock::new(START_US));
    let mut client = Client::open_as(subject, &media, opening(Durability::Sync, &clock, true))?;
    let expires = Expiry::At((START_US + 60 * MINUTE_US) / 1000);
    let mut kept = 0;
    for n in 0.. {
        clock.advance_us(100);
        let key = format!("{n}");
        // What expires is not alone, so that it needs a tombstone: an older version of it has no end.
        let expiries = [Expiry::Clear, expires];
        let expiries = if n % one_in == 0 { &expiries[..] } else { &expiries[..1] };
        let mut done = 0;
        for expiry in expiries {
            match client.run(&key, |batch| set(batch, &value(&key, 0, len), *expiry)) {
                Some((Reply::Error(OpError::Full), _)) => break,
                reply => stored(reply)?,
            }
            done += 1;
        }
        if done < expiries.len() {
            kept += done as u64;
            break;
        }
        kept += u64::from(n % one_in != 0);
    }
    clock.advance_us(90 * MINUTE_US);
    for _ in 0..QUIET_STEPS {
        clock.advance_us(100);
        client.store.step();
    }
    Ok(client.store.len_all() - kept)
}

fn pressure(subject: &dyn Subject) -> anyhow::Result<Finding> {
    const WRITES: usize = 600;
    let (kind, durability) = (MediaKind::Byte, Durability::None);
    let keys = keys(12);
    let recorder = Recorder::new();
    let media = recorded(closed(subject, (kind, durability), &keys, Expiry::Clear)?, &recorder);
    let clock = Arc::new(ManualClock::new(START_US));
    let mut client = Client::open_as(subject, &media, opening(durability, &clock, false))?;
    let from = recorder.position();
    for write in 0..WRITES {
        let key = &keys[write * 5 % keys.len()];
        // Longer than the last one: it does not fit in its place.
        let value = value(key, write, 100 + write / keys.len() % 40 * 8);
        stored(client.run(key, |batch| set(batch, &value, Expiry::Clear)))?;
        if write % 3 == 0 {
            client.store.step();
        }
    }
    Ok(crashed(subject, &recorder, (kind, durability), from, |client| {
        let gone = keys.iter().find(|key| !matches!(client.get(key), Some((Reply::Hit { .. }, _))))?;
        Some(format!("{gone} was there at a clean close, was only written since, and is gone"))
    }))
}

fn manifest(subject: &dyn Subject) -> anyhow::Result<Finding> {
    let (kind, durability) = (MediaKind::Byte, Durability::Sync);
    let keys = keys(8);
    let image = closed(subject, (kind, durability), &keys, Expiry::Clear)?;
    // The copies lie behind the log.
    let starts: Vec<usize> = (subjects::sizes(kind).log_bytes as usize..image[0].len())
        .step_by(64)
        .filter(|at| Manifest::decode(&image[0][*at..]).is_some())
        .collect();
    ensure!(starts.len() == 2, "manifests at {starts:?}");
    let mut tried = String::new();
    for start in starts {
        let recorder = Recorder::new();
        let mut damaged = image.clone();
        damaged[0][start + 16] ^= 1;
        let clock = Arc::new(ManualClock::new(START_US));
        let media = recorded(damaged, &recorder);
        let client = Client::open_as(subject, &media, opening(durability, &clock, false));
        drop(client.context("with one copy of the manifest damaged")?);
        let finding = crashed(subject, &recorder, (kind, durability), 0, |client| {
            let gone = keys.iter().find(|key| !is_there(client, key))?;
            Some(format!("{gone} is gone"))
        });
        if finding.wrong.is_some() {
            return Ok(finding);
        }
        tried = finding.tried;
    }
    Ok(Finding { wrong: None, tried })
}
