//! What needs the engine: rows without figures of ours, until it takes `--placement`.

use super::super::{Figure, Kind, Outcome, Row, Settings};
use super::hits;

pub(super) const REASON: &str = "not measured yet: engine tac, with --placement, is not built";

fn row(id: &'static str, what: &str, paper: impl Into<Figure>, kind: Kind) -> Row {
    Row::not_measured(id, what, paper, kind, REASON)
}

fn rows(rows: Vec<Row>) -> Outcome {
    Outcome { rows, plots: Vec::new() }
}

/// T2.
pub(super) fn figure_6(_: &Settings) -> anyhow::Result<Outcome> {
    Ok(rows(vec![
        row("T2", "TaC / Anti-2, throughput, WH, profile optane-200", "at least 1.48", Kind::Emulated),
        row("T2", "TaC / Anti-2, device writes an operation, WH", Figure::None, Kind::Deterministic),
    ]))
}

/// T3: its hits can be simulated.
pub(super) fn figure_8(settings: &Settings) -> anyhow::Result<Outcome> {
    let mut all = vec![
        row("T3", "TaC / Anti-NVM, throughput, RO, DRAM 2 GB + PMem 16 GB", 1.5, Kind::Emulated),
        row("T3", "TaC / Anti-NVM, throughput, RO, DRAM 8 GB + PMem 64 GB", 1.27, Kind::Emulated),
        row("T3", "TaC / Anti-2, throughput, DRAM 2 GB + PMem 16 GB", 1.04, Kind::Emulated),
        row("T3", "TaC / Anti-2, throughput, DRAM 8 GB + PMem 64 GB", 1.44, Kind::Emulated),
    ];
    all.extend(hits::anti_2_under_writes(settings)?);
    Ok(rows(all))
}

/// T4: its hits can be simulated.
pub(super) fn figure_11(settings: &Settings) -> anyhow::Result<Outcome> {
    let throughput = "hybrid / tuple-level swapping, throughput";
    let mut all = vec![
        row("T4", &format!("{throughput}, RO"), "above 1", Kind::Measured),
        row("T4", &format!("{throughput}, RH"), "above 1", Kind::Measured),
        row("T4", &format!("{throughput}, WH"), "about 1", Kind::Measured),
        row(
            "T4",
            "hybrid / tuple-level swapping, SSD reads an operation, RH",
            Figure::None,
            Kind::Deterministic,
        ),
    ];
    all.extend(hits::of_whole_bufs(settings)?);
    Ok(rows(all))
}

/// T6.
pub(super) fn figure_10(_: &Settings) -> anyhow::Result<Outcome> {
    Ok(rows(vec![
        row(
            "T6",
            "128 partitions / 1, throughput, WH, many workers",
            "above 1, growing with the workers",
            Kind::Measured,
        ),
        row(
            "T6",
            "lists in one partition: waits for its lock an operation, WH",
            Figure::None,
            Kind::Deterministic,
        ),
    ]))
}
