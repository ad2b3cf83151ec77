//! Rows that have a setting and a kind in common.

use super::{Figure, Holds, Kind, Row};

/// Rows of one part in one setting, in their order.
#[derive(Clone, Debug)]
pub struct Sheet {
    id: &'static str,
    kind: Kind,
    setting: String,
    rows: Vec<Row>,
}

impl Sheet {
    /// No rows yet.
    pub fn new(id: &'static str, kind: Kind, setting: impl Into<String>) -> Self {
        Self { id, kind, setting: setting.into(), rows: Vec::new() }
    }
    /// Adds a row.
    pub fn row(
        &mut self,
        what: impl Into<String>,
        paper: impl Into<Figure>,
        ours: impl Into<Figure>,
        holds: Holds,
    ) {
        let (paper, ours) = (paper.into(), ours.into());
        let (id, kind, setting) = (self.id, self.kind, self.setting.clone());
        self.rows.push(Row { id, what: what.into(), setting, paper, ours, kind, holds });
    }
    /// All of them.
    pub fn into_rows(self) -> Vec<Row> {
        self.rows
    }
}
