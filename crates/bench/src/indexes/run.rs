//! The measurements themselves.

use std::hint::black_box;
use std::ops::{Bound, ControlFlow};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use terrace_index::catalogue::{ALL, Visitor, with_index};
use terrace_index::dram::measure;
use terrace_index::{Change, Direction, Index, Key, Lookup};

use super::records::{Op, Record, Records};
use super::{Options, Row};
use crate::distribution::Generator;
use crate::rng::Rng;

/// Records that a scan visits.
const SCAN: usize = 100;
/// For this many operations one scan.
const SCAN_SHARE: u64 = 50;
/// The keys of the largest batch.
const BATCH_MAX: usize = 64;

/// Measurements of each index, with one length of keys: 6 operations (scan, if ordered) for each distribution and number of
/// threads, and the count of its bytes.
fn steps(options: &Options) -> u64 {
    let ordered = |name: &String| ALL.iter().any(|about| about.name == name && about.ordered);
    let each = (options.distributions.len() * options.threads.len()) as u64;
    let of = |name: &String| 1 + each * if ordered(name) { 6 } else { 5 };
    options.indexes.iter().map(of).sum::<u64>() * options.key_bytes.len() as u64
}

pub(super) fn all(options: &Options) -> anyhow::Result<Vec<Row>> {
    let bar = ProgressBar::new(steps(options));
    if let Ok(style) = ProgressStyle::with_template("{msg:44} {bar:30} {pos}/{len} eta {eta}") {
        bar.set_style(style);
    }
    let mut rows = Vec::new();
    for &key_bytes in &options.key_bytes {
        let records = Records::new(options.records, key_bytes, options.seed);
        for name in &options.indexes {
            let visit = Measure { options, records: &records, key_bytes, bar: &bar, rows: &mut rows };
            with_index(name, visit)?.with_context(|| format!("index {name}, keys of {key_bytes} bytes"))?;
        }
    }
    bar.finish_and_clear();
    // As the options have them: by index first.
    let place = |row: &Row| options.indexes.iter().position(|name| name == row.index);
    rows.sort_by_key(place);
    Ok(rows)
}

struct Measure<'a> {
    options: &'a Options,
    records: &'a Records,
    key_bytes: usize,
    bar: &'a ProgressBar,
    rows: &'a mut Vec<Row>,
}

impl Visitor for Measure<'_> {
    type Out = anyhow::Result<()>;

    fn visit<I: Index>(self, new: fn(u64) -> I) -> Self::Out {
        let Measure { options, records, key_bytes, bar, rows } = self;
        let entries = records.len();
        bar.set_message("counting bytes");
        let shares = [records.share(0, 1)];
        let (index, bytes) = measure(|| {
            // Empty, so that every index grows to the size that it gives itself.
            let index = new(0);
            load(&index, records, &shares[0]);
            index
        });
        let bytes = bytes.context("this program does not count its allocations")?;
        ensure!(index.len() == entries, "{} entries, not {entries}", index.len());
        bar.inc(1);
        drop(index);
        drop(shares);
        let bytes_per_entry = bytes as f64 / entries as f64;
        for &distribution in &options.distributions {
            for &threads in &options.threads {
                let index = new(0);
                let mut measure = |operation: &'static str, lanes: Vec<Vec<Op>>, run: Lane<'_, I>| {
                    let conditions = format!("{key_bytes} bytes, {distribution}, {threads} threads");
                    bar.set_message(format!("{} {operation}: {conditions}", index.name()));
                    let count: usize = lanes.iter().map(Vec::len).sum();
                    let took = timed(&index, records, &lanes, run)
                        .with_context(|| format!("{operation}, {conditions}"))?;
                    bar.inc(1);
                    rows.push(Row {
                        index: index.name(),
                        key_bytes,
                        distribution: distribution.to_string(),
                        threads,
                        operation,
                        mops: count as f64 / 1e6 / took.as_secs_f64().max(1e-9),
                        bytes_per_entry,
                    });
                    anyhow::Ok(())
                };
                let draw = |count: u64, writes: u64, stream: u64| -> Vec<Vec<Op>> {
                    let lane = |thread| {
                        let mut rng = Rng::new(options.seed, stream * 1000 + thread as u64);
                        let generator = Generator::new(
                            distribution,
                            entries,
                            options.seed,
                            thread as u64,
                            threads as u64,
                        );
                        records.draw(count, &generator, writes, &mut rng)
                    };
                    (0..threads).map(lane).collect()
                };
                let shares = (0..threads).map(|thread| records.share(thread, threads)).collect();
                measure("load", shares, &|index, records, ops| load(index, records, ops))?;
                measure("get", draw(options.operations, 0, 1), &|i, r, ops| mixed(i, r, ops))?;
                let batch = options.batch;
                measure("get_batch", draw(options.operations, 0, 2), &|i, r, ops| batches(i, r, ops, batch))?;
                measure("mix_95_5", draw(options.operations, 5, 3), &|i, r, ops| mixed(i, r, ops))?;
                measure("mix_50_50", draw(options.operations, 50, 4), &|i, r, ops| mixed(i, r, ops))?;
                if index.ordered().is_some() {
                    let scans = draw((options.operations / SCAN_SHARE).max(1), 0, 5);
                    measure("scan", scans, &|index, records, ops| scan(index, records, ops))?;
                }
                ensure!(index.len() == entries, "{} entries at the end, not {entries}", index.len());
            }
        }
        Ok(())
    }
}

/// What one thread does with its operations; returns how many found what they should.
type Lane<'a, I> = &'a (dyn Fn(&I, &Records, &[Op]) -> u64 + Sync);

/// The time from all threads' common start to the end of the last.
fn timed<I: Index>(
    index: &I,
    records: &Records,
    lanes: &[Vec<Op>],
    run: Lane<'_, I>,
) -> anyhow::Result<Duration> {
    let start = Barrier::new(lanes.len());
    let ended: Vec<_> = std::thread::scope(|scope| {
        let start = &start;
        let threads: Vec<_> = lanes
            .iter()
            .map(|ops| {
                scope.spawn(move || {
                    start.wait();
                    let from = Instant::now();
                    let found = run(index, records, ops);
                    (from, Instant::now(), found == ops.len() as u64)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join()).collect()
    });
    let (mut from, mut until): (Option<Instant>, Option<Instant>) = (None, None);
    for thread in ended {
        let Ok((began, end, sound)) = thread else { anyhow::bail!("a thread panicked") };
        ensure!(sound, "a record was lost, or another's was found");
        from = Some(from.map_or(began, |from| from.min(began)));
        until = Some(until.map_or(end, |until| until.max(end)));
    }
    Ok(until.zip(from).map(|(until, from)| until - from).unwrap_or_default())
}

fn load<I: Index>(index: &I, records: &Records, ops: &[Op]) -> u64 {
    let mut copy = Record([0; 64]);
    let mut inserted = 0;
    for op in ops {
        let key = records.key(op);
        inserted += index.update(
            &key,
            |address| records.verify(&key, address, &mut copy),
            |found| (Change::Set(Records::address(op)), u64::from(found == Lookup::Absent)),
        );
    }
    inserted
}

/// Gets, and writes among them: a write points the key at its record's next version.
fn mixed<I: Index>(index: &I, records: &Records, ops: &[Op]) -> u64 {
    let mut copy = Record([0; 64]);
    let mut sound = 0;
    for op in ops {
        let key = records.key(op);
        let verify = |address| records.verify(&key, address, &mut copy);
        let found = if op.writes {
            index.update(&key, verify, |found| match found {
                Lookup::Found(address) => (Change::Set(Records::next(address)), true),
                _ => (Change::Keep, false),
            })
        } else {
            matches!(index.get(&key, verify), Lookup::Found(_))
        };
        black_box(&copy);
        sound += u64::from(found);
    }
    sound
}

fn batches<I: Index>(index: &I, records: &Records, ops: &[Op], batch: usize) -> u64 {
    let mut copies = [Record([0; 64]); BATCH_MAX];
    let mut keys = [Key { hash: 0, db: 0, bytes: &[] }; BATCH_MAX];
    let mut out = [Lookup::Absent; BATCH_MAX];
    let mut sound = 0;
    for ops in ops.chunks(batch) {
        for (key, op) in keys.iter_mut().zip(ops) {
            *key = records.key(op);
        }
        let keys = &keys[..ops.len()];
        let touch = |address| records.prefetch(address);
        index.get_batch(keys, touch, |i, a| records.verify(&keys[i], a, &mut copies[i]), &mut out);
        black_box(&copies);
        sound += out[..ops.len()].iter().filter(|found| matches!(found, Lookup::Found(_))).count() as u64;
    }
    sound
}

fn scan<I: Index>(index: &I, records: &Records, ops: &[Op]) -> u64 {
    let Some(ordered) = index.ordered() else { return 0 };
    let mut sound = 0;
    for op in ops {
        let key = records.key(op);
        let (mut visited, mut own, mut sum) = (0, false, 0);
        ordered.range(0, Bound::Included(key.bytes), Direction::Forward, &mut |bytes, address| {
            // The key itself comes first.
            own |= visited == 0 && bytes == key.bytes && records.is(op, address);
            sum ^= address.raw();
            visited += 1;
            if visited == SCAN { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        black_box(sum);
        sound += u64::from(own);
    }
    sound
}
