//! B8: what our store does not have yet, beside the paper's figures.

use super::super::{Figure, Kind, Outcome, Row, Settings};

fn not_built(id: &'static str, kind: Kind, lacks: &str, rows: &[(&str, Figure)]) -> anyhow::Result<Outcome> {
    let row = |(what, paper): &(&str, Figure)| {
        Row::not_measured(id, *what, paper.clone(), kind, format!("not built yet: {lacks}"))
    };
    Ok(Outcome { rows: rows.iter().map(row).collect(), plots: Vec::new() })
}

/// B8.
pub(super) fn figure_12b(_: &Settings) -> anyhow::Result<Outcome> {
    const LACKS: &str = "replicas on other NUMA nodes (WoSI, and what it is compared with)";
    let rows = [
        ("cache lines read and written, WoSI / write-invalidate, at every mix", "below 1".into()),
        ("cache lines read and written, WoSI / write-update, at every mix", "below 1".into()),
    ];
    not_built("B8", Kind::Deterministic, LACKS, &rows)
}
