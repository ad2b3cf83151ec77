//! Tables and figures, put together of what the engine shows and what is simulated.

use super::super::{Outcome, Row, Settings};
use super::{contention, hits, swapping, timed};

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

/// T4.
pub(super) fn figure_11(settings: &Settings) -> anyhow::Result<Outcome> {
    let mut all = swapping::rows(settings)?;
    all.extend(hits::of_whole_bufs(settings)?);
    Ok(rows(all))
}

/// T6.
pub(super) fn figure_10(settings: &Settings) -> anyhow::Result<Outcome> {
    Ok(rows(contention::rows(settings)?))
}
