//! One engine in one round: a fresh store, loaded, measured, killed and opened again.

use terrace::Size;

use super::loss::Loss;
use crate::Config;
use crate::content::Content;
use crate::report::Report;
use crate::run::measure;
use crate::storage::{DRAM_ONLY, Storage};

/// DRAM for records with which every engine opens, if it takes the media at all.
const AMPLE: Size = Size::Bytes(64 << 20);

/// What became of it.
pub enum Trial {
    /// It went through.
    Measured(Box<Round>),
    /// It takes the media, and not this budget or so many records: why.
    Stopped(String),
    /// It takes other media, or does not know the workload: why.
    LeftOut(String),
}

/// A round that was measured.
pub struct Round {
    pub report: Report,
    pub loss: Loss,
}

/// Runs it.
///
/// # Errors
/// If a scratch directory can't be made.
pub fn run(config: &Config) -> anyhow::Result<Trial> {
    if let Err(error) = config.check() {
        return Ok(Trial::LeftOut(error.to_string()));
    }
    let storage = plan(config)?;
    let store = match storage.open() {
        Ok(store) => store,
        Err(error) => return refused(config, &error),
    };
    let loss = Loss::of(&storage.options);
    // What ends with the process has nothing to open again.
    let config = Config { recover: !storage.options.ends_with_process(), ..config.clone() };
    let content = Content::new(config.key_bytes, config.value_bytes, config.text_keys(), config.seed);
    let report = match measure(&config, &content, storage, store) {
        Ok(report) => report,
        Err(error) => return Ok(Trial::Stopped(format!("{error:#}"))),
    };
    Ok(match report.errors.iter().next() {
        None => Trial::Measured(Box::new(Round { report, loss })),
        Some((reason, count)) => {
            Trial::Stopped(format!("{} refused {count} operations: {reason}", config.workload.name()))
        }
    })
}

/// As a benchmark alone would have it, but that the budget holds for records of `dram`, too.
pub fn plan(config: &Config) -> anyhow::Result<Storage> {
    let mut storage = Storage::plan(config)?;
    if config.engine == DRAM_ONLY {
        storage.options.dram_records = config.dram_records.map(|size| size.of(storage.data_bytes));
    }
    Ok(storage)
}

/// An engine was not opened: it is asked once more with ample DRAM, and so tells whether the budget was the reason.
fn refused(config: &Config, error: &anyhow::Error) -> anyhow::Result<Trial> {
    let reason = error.to_string();
    let ample = plan(&Config { dram: None, dram_records: Some(AMPLE), ..config.clone() })?;
    Ok(match ample.open() {
        Ok(store) => {
            ample.end(store)?;
            Trial::Stopped(reason)
        }
        Err(_) => Trial::LeftOut(reason),
    })
}
