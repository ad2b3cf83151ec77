//! Several studies at one scale, and one report of them all.

use std::path::Path;

use anyhow::ensure;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::json;

use super::circumstances::Circumstances;
use super::{Options, Report, Study, html, run};
use crate::json::{self, write_text};

/// What was reproduced so far.
#[derive(Clone, Debug)]
pub struct Collection {
    /// Where.
    pub circumstances: Circumstances,
    /// How.
    pub options: Options,
    /// In the order of the studies.
    pub reports: Vec<Report>,
}

/// Reproduces these studies one after the other. Before each, `begins` is called with its name, its number from 1 on
/// and how many there are; after each, `ended` with all that is there then, so that nothing is lost if a later one
/// fails.
///
/// # Errors
/// As [`run`], and if `ended` fails.
pub fn run_all(
    studies: &[Study],
    options: &Options,
    begins: impl Fn(&str, usize, usize),
    mut ended: impl FnMut(&Collection) -> anyhow::Result<()>,
) -> anyhow::Result<Collection> {
    let has = |study: &Study, id: &str| study.parts.iter().any(|part| part.id == id);
    for id in &options.only {
        ensure!(
            studies.iter().any(|study| has(study, id)),
            "{id:?}: there are {}",
            studies.iter().flat_map(|study| study.parts).map(|part| part.id).collect::<Vec<_>>().join(", ")
        );
    }
    // What is asked for of each; studies of which nothing is are left out.
    let chosen: Vec<(&Study, Options)> = studies
        .iter()
        .map(|study| {
            let only = options.only.iter().filter(|id| has(study, id)).cloned().collect();
            (study, Options { only, ..options.clone() })
        })
        .filter(|(_, mine)| options.only.is_empty() || !mine.only.is_empty())
        .collect();
    let (circumstances, reports) = (Circumstances::here(), Vec::new());
    let mut collection = Collection { circumstances, options: options.clone(), reports };
    for (number, (study, mine)) in chosen.iter().enumerate() {
        begins(study.name, number + 1, chosen.len());
        collection.reports.push(run(study, mine)?);
        ended(&collection)?;
    }
    Ok(collection)
}

impl Collection {
    /// A single study's.
    pub fn of(report: Report, options: &Options) -> Self {
        let circumstances = Circumstances::here();
        Self { circumstances, options: options.clone(), reports: vec![report] }
    }

    /// Writes one HTML file with tables and plots, which loads nothing from elsewhere.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn write_html(&self, path: &Path) -> anyhow::Result<()> {
        write_text(path, &html::page(self))
    }

    /// Writes one JSON object: the circumstances, the options, and each study with its rows; `-` is standard output.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn write_json(&self, path: &Path) -> anyhow::Result<()> {
        json::write(self, path)
    }
}

impl Serialize for Collection {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Options { settings, only, .. } = &self.options;
        let studies: Vec<_> = self
            .reports
            .iter()
            .map(|report| {
                let seconds: serde_json::Map<_, _> =
                    report.seconds.iter().map(|(id, seconds)| ((*id).to_owned(), json!(seconds))).collect();
                json!({
                    "name": report.study, "about": report.about, "seconds": seconds, "rows": report.rows,
                })
            })
            .collect();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("circumstances", &self.circumstances)?;
        map.serialize_entry(
            "options",
            &json!({
                "scale": settings.scale, "runs": settings.runs, "seed": settings.seed, "threads": settings.threads,
                "only": only,
            }),
        )?;
        map.serialize_entry("studies", &studies)?;
        map.end()
    }
}
