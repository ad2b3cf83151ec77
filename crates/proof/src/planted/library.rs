//! The entries: `planted/*.toml`, one file a class.

use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};
use serde::Deserialize;

/// A planted bug.
#[derive(Clone, Debug)]
pub struct Bug {
    /// What `TERRACE_PLANTED` must be. From 1, in the order of the files and their entries.
    pub number: u32,
    /// The kind of mistake.
    pub class: String,
    /// A sentence.
    pub name: String,
    /// The file, from the workspace's root.
    pub file: String,
    /// What stands there, once (white space is all the same).
    pub original: String,
    /// What a mistaken programmer would have written.
    pub mutant: String,
    /// Why that is wrong.
    pub why: String,
    /// Who must catch it, each of them.
    pub detectors: Vec<Detector>,
    /// Nobody has caught it yet: a hole in the tests. It is planted on request alone.
    pub survives: bool,
}

/// A detector and how much of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Detector {
    /// Its name and what it runs on: `sweep byte sync`, `log block`, `damage byte`.
    pub name: String,
    /// Histories, power cuts or schedules, at most.
    pub histories: u64,
    /// The first one's seed.
    pub seed: u64,
}

impl Detector {
    /// With as much of it as is usual.
    pub(super) fn usual(name: String) -> Self {
        let histories = match name.split(' ').next() {
            Some("torture") => CUTS,
            Some("schedules") => SCHEDULES,
            _ => HISTORIES,
        };
        Self { name, histories, seed: 0 }
    }
    /// How many times the usual this is.
    pub(super) fn share(&self) -> u32 {
        self.histories.div_ceil(Self::usual(self.name.clone()).histories) as u32
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Class {
    class: String,
    bug: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    file: String,
    original: String,
    mutant: String,
    why: String,
    detector: String,
    histories: Option<u64>,
    seed: Option<u64>,
    /// The medium and mode of a torture that must catch it too.
    torture: Option<String>,
    #[serde(default)]
    survives: bool,
}

/// Histories that a detector tries unless the entry says otherwise.
pub(super) const HISTORIES: u64 = 150;
/// Power cuts of the torture.
const CUTS: u64 = 60;
/// Schedules of two to four threads.
const SCHEDULES: u64 = 4000;

/// The whole library.
///
/// # Errors
/// If a file can't be read or says something else than it should, or a name is used twice.
pub fn load(root: &Path) -> anyhow::Result<Vec<Bug>> {
    let folder = root.join("crates/proof/planted");
    let mut files = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))? {
        files.push(entry?.path());
    }
    files.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    let mut bugs: Vec<Bug> = Vec::new();
    for path in files {
        let text = fs::read_to_string(&path)?;
        let class: Class = toml::from_str(&text).with_context(|| format!("reading {}", path.display()))?;
        for entry in class.bug {
            ensure!(bugs.iter().all(|bug| bug.name != entry.name), "two bugs are called {:?}", entry.name);
            let usual = Detector::usual(entry.detector);
            let histories = entry.histories.unwrap_or(usual.histories);
            let mut detectors = vec![Detector { histories, seed: entry.seed.unwrap_or(0), ..usual }];
            detectors.extend(entry.torture.map(|on| Detector::usual(format!("torture {on}"))));
            bugs.push(Bug {
                number: bugs.len() as u32 + 1,
                class: class.class.clone(),
                name: entry.name,
                file: entry.file,
                original: entry.original,
                mutant: entry.mutant,
                why: entry.why,
                detectors,
                survives: entry.survives,
            });
        }
    }
    Ok(bugs)
}
