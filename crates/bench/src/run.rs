//! A whole run: load, measure, recover if asked, report.

use std::time::{Duration, Instant};

use terrace::OpenStore;
use terrace::engine::Stats;

use crate::client::{About, Client, Local, Work};
use crate::content::Content;
use crate::driver::{Lane, Phase, Plan};
use crate::latency::Tally;
use crate::report::{Circumstances, Recovery, Report};
use crate::storage::Storage;
use crate::{Config, Workload, plan};

/// Operations submitted together while loading, at least: nobody measures it, so it may be quick.
const LOAD_BATCH: usize = 64;
/// Bytes of a loading batch, at most.
const LOAD_BATCH_BYTES: u64 = 1 << 20;
/// Records that are read back after a recovery.
const RECOVERED_SAMPLE: u64 = 10_000;

/// What the two phases gave.
pub(crate) struct Measured {
    pub tally: Tally,
    pub took: Duration,
    pub load_took: Duration,
    /// The store's statistics before and after the measured phase, where the store is in this process.
    pub stats: Option<(Stats, Stats)>,
}

/// Runs a benchmark.
///
/// # Errors
/// If the options contradict each other, the store can't be opened or is too small for the records, or a connection fails.
pub fn run(config: &Config) -> anyhow::Result<Report> {
    config.check()?;
    let content = Content::new(config.key_bytes, config.value_bytes, config.text_keys(), config.seed);
    match config.connect {
        Some(endpoint) => {
            let about = About::ask(endpoint)?;
            let measured = phases(config, &content, None, || endpoint.connect())?;
            Ok(Report::new(config, Circumstances::There(about), measured))
        }
        None => run_here(config, &content),
    }
}

fn run_here(config: &Config, content: &Content) -> anyhow::Result<Report> {
    let storage = Storage::plan(config)?;
    let store = storage.open()?;
    measure(config, content, storage, store)
}

/// Loads a store that was opened just now, measures it, and ends it.
///
/// # Errors
/// If a record can't be loaded, or with [`Config::recover`] if the store can't be opened again.
pub(crate) fn measure(
    config: &Config,
    content: &Content,
    storage: Storage,
    mut store: OpenStore,
) -> anyhow::Result<Report> {
    let description = store.description.clone();
    let measured = phases(config, content, Some(&store), || {
        Ok(Box::new(Local::new(store.session()?, config.in_flight)))
    })?;
    let mut report = Report::new(config, Circumstances::Here(&storage, description), measured);
    if config.recover {
        let expected = store.len_all();
        store.kill();
        let start = Instant::now();
        store = storage.reopen()?;
        report.recovered(recovery(config, content, &store, start, expected)?);
    }
    storage.end(store)?;
    Ok(report)
}

fn phases(
    config: &Config,
    content: &Content,
    store: Option<&OpenStore>,
    connect: impl Fn() -> anyhow::Result<Box<dyn Client>>,
) -> anyhow::Result<Measured> {
    let lanes = |plan: &dyn Fn(usize) -> Box<dyn Plan>| -> anyhow::Result<Vec<Lane>> {
        (0..config.threads).map(|thread| Ok(Lane { client: connect()?, plan: plan(thread) })).collect()
    };
    let stats = || store.map(|store| store.stats());
    let is_load = config.workload == Workload::Load;
    let quick = LOAD_BATCH.min((LOAD_BATCH_BYTES / content.payload_bytes()).max(1) as usize);
    let load = Phase {
        name: "load",
        operations: config.records,
        batch: if is_load { config.batch } else { config.batch.max(quick) },
        content,
        verify: config.verify,
        nonce: 0,
        rate: if is_load { config.rate } else { config.load_rate },
        stop_on_error: true,
    };
    let before = stats();
    let mut loading = lanes(&|thread| Box::new(plan::load(config, thread)))?;
    let (tally, load_took) = load.run(&mut loading)?;
    drop(loading);
    if is_load {
        return Ok(Measured { tally, took: load_took, load_took, stats: before.zip(stats()) });
    }
    let phase = Phase {
        name: config.workload.name(),
        operations: config.operations,
        batch: config.batch,
        nonce: 1 << 63,
        rate: config.rate,
        stop_on_error: false,
        ..load
    };
    let mut measuring = lanes(&|thread| Box::new(plan::measured(config, thread).into_iter()))?;
    let before = stats();
    let (tally, took) = phase.run(&mut measuring)?;
    Ok(Measured { tally, took, load_took, stats: before.zip(stats()) })
}

/// Reads a sample of the loaded records back from a store that was opened again just now, from `start` on.
fn recovery(
    config: &Config,
    content: &Content,
    store: &OpenStore,
    start: Instant,
    expected: u64,
) -> anyhow::Result<Recovery> {
    let took = start.elapsed();
    let mut until_answer = None;
    let mut client = Local::new(store.session()?, 1);
    let mut tally = Tally::new()?;
    let step = config.records.div_ceil(RECOVERED_SAMPLE) as usize;
    for record in (0..config.records).step_by(step) {
        let operations = [plan::Planned::new(crate::workload::Kind::Get, record)];
        let work = Work { operations: &operations, content, verify: crate::Verify::All, nonce: 0, due: None };
        client.run(&work, &mut tally)?;
        until_answer.get_or_insert_with(|| start.elapsed());
    }
    Ok(Recovery {
        seconds: took.as_secs_f64(),
        first_answer_seconds: until_answer.unwrap_or(took).as_secs_f64(),
        records: store.len_all(),
        expected,
        sampled: tally.gets,
        sample_missing: tally.misses,
        sample_wrong: tally.wrong + tally.error_count(),
    })
}
