//! Rows of the engine, and those that it can't fill yet: without figures of ours, and with the reason.

use super::super::{Figure, Kind, Outcome, Row, Settings};
use super::{hits, timed};

const NO_BUFS: &str = "not measured: the engine brings records up one by one; a get reads only the sectors of its record, so that \
     nothing that lies beside it is there to come along";
const NO_PARTITIONS: &str =
    "not measured: the engine has no partitions, its background steps run one at a time";

fn row(id: &'static str, what: &str, paper: impl Into<Figure>, kind: Kind, reason: &str) -> Row {
    Row::not_measured(id, what, paper, kind, reason)
}

fn rows(rows: Vec<Row>) -> Outcome {
    Outcome { rows, plots: Vec::new() }
}

/// T2.
pub(super) fn figure_6(settings: &Settings) -> anyhow::Result<Outcome> {
    Ok(rows(timed::write_heavy(settings)?))
}

/// T3: its hits are simulated.
pub(super) fn figure_8(settings: &Settings) -> anyhow::Result<Outcome> {
    let mut all = timed::read_only(settings)?;
    all.extend(hits::anti_2_under_writes(settings)?);
    Ok(rows(all))
}

/// T4: its hits can be simulated.
pub(super) fn figure_11(settings: &Settings) -> anyhow::Result<Outcome> {
    let throughput = "hybrid / tuple-level swapping, throughput";
    let mut all = vec![
        row("T4", &format!("{throughput}, RO"), "above 1", Kind::Measured, NO_BUFS),
        row("T4", &format!("{throughput}, RH"), "above 1", Kind::Measured, NO_BUFS),
        row("T4", &format!("{throughput}, WH"), "about 1", Kind::Measured, NO_BUFS),
        row(
            "T4",
            "hybrid / tuple-level swapping, SSD reads an operation, RH",
            Figure::None,
            Kind::Deterministic,
            NO_BUFS,
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
            NO_PARTITIONS,
        ),
        row(
            "T6",
            "lists in one partition: waits for its lock an operation, WH",
            Figure::None,
            Kind::Deterministic,
            NO_PARTITIONS,
        ),
    ]))
}
