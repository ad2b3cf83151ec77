//! H1: beside TIPS. It is another system, and none is here to run beside ours.

use super::super::{Kind, Outcome, Row, Settings};

/// The paper's table 2, 16 workers.
const PAPER: [(&str, &str); 3] = [
    ("clht", "WH 3.56, RH 4.19, RO 5.40"),
    ("LFHT (ours: lockfree)", "WH 3.65, RH 4.64, RO 7.37"),
    ("btree", "WH 2.06, RH 1.11, RO 1.51, SH 5.60"),
];

/// H1.
pub(super) fn table_2(_settings: &Settings) -> anyhow::Result<Outcome> {
    let row = |(index, paper): (&str, &str)| {
        Row::not_measured(
            "H1",
            format!("hetermm / TIPS, index {index}, throughput"),
            paper,
            Kind::Emulated,
            "TIPS is another system, and nothing here is shaped like it",
        )
    };
    Ok(Outcome { rows: PAPER.map(row).to_vec(), plots: Vec::new() })
}
