//! What a range must answer: every live key from its start on, in order, as a get would answer it.

use terrace_engine::{Direction, RangeStart};

use super::Model;
use crate::case::{Action, Case, Observed, show};

impl Model {
    /// Fewer rows than were asked for are right only where the answer says that more are left, or none are.
    pub(super) fn check_range(
        &mut self,
        case: &Case,
        (from, direction, count): (RangeStart, Direction, u32),
        observed: &Observed,
    ) -> Result<(), String> {
        let Observed::Ranged(next, rows) = observed else { return Err("Ranged".into()) };
        let inside = |key: &[u8]| match (from, direction) {
            (RangeStart::Edge, _) => true,
            (RangeStart::At, Direction::Forward) => key >= &case.key[..],
            (RangeStart::At, Direction::Backward) => key <= &case.key[..],
            (RangeStart::After, Direction::Forward) => key > &case.key[..],
            (RangeStart::After, Direction::Backward) => key < &case.key[..],
        };
        let mut expected: Vec<Vec<u8>> = self.keys(case.db).into_iter().filter(|key| inside(key)).collect();
        if direction == Direction::Backward {
            expected.reverse();
        }
        if rows.len() > count as usize {
            return Err(format!("at most {count} rows"));
        }
        for (i, (key, got)) in rows.iter().enumerate() {
            let Some(wanted) = expected.get(i) else { return Err(format!("no row {i}, not {}", show(key))) };
            if key != wanted {
                return Err(format!("{} in row {i}, not {}", show(wanted), show(key)));
            }
            let get = Case { db: case.db, key: key.clone(), action: Action::Get { value: true } };
            self.check(&get, got).map_err(|wrong| format!("{wrong} in row {i}, key {}", show(key)))?;
        }
        match (expected.get(rows.len()), next) {
            (Some(more), None) => Err(format!("a place to go on: {} is left", show(more))),
            (Some(_), Some(_)) if rows.is_empty() => Err("a row: some are left".into()),
            _ => Ok(()),
        }
    }
}
