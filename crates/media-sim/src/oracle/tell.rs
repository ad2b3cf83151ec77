//! Violations in words: what was found, and the few operations that make it wrong.

use std::fmt::{Debug, Write};

use super::{OpId, Oracle, Promise, Violation};
use crate::trace::Position;

/// Of a key's operations at most so many are listed, the latest ones.
const LISTED: usize = 12;

impl<K: Ord + Clone + Debug, V: PartialEq + Debug> Oracle<K, V> {
    pub(super) fn tell_unwritten(&self, position: Position, key: &K, value: &V) -> Violation {
        self.tell(position, &format!("{key:?} = {value:?} was never written"))
    }

    pub(super) fn tell_key(
        &self,
        position: Position,
        promise: &Promise,
        key: &K,
        found: Option<&V>,
    ) -> Violation {
        let mut text = match found {
            Some(value) => format!("{key:?} = {value:?} was found"),
            None => format!("{key:?} was not found"),
        };
        let list = self.keys.get(key).map_or(&[][..], Vec::as_slice);
        let must = self.must_reach(key, promise);
        let ever = list.iter().rposition(|effect| effect.value.as_ref() == found);
        text += match ever {
            _ if found.is_none() => "; a value that must be there is lost",
            None => "; this value was never written to this key",
            Some(i) if i + 1 < must => "; it is older than a write that must be there",
            Some(_) => "; its write had not been issued, or was refused",
        };
        // The last state that must be there, and all that could follow it.
        let relevant = list.iter().skip(must.saturating_sub(1));
        let relevant: Vec<OpId> =
            relevant.map(|effect| effect.op).filter(|op| self.may_have_run(*op, position)).collect();
        for op in relevant.iter().skip(relevant.len().saturating_sub(LISTED)) {
            let why = if self.must_survive(*op, promise) { " <- must be there" } else { "" };
            text += &format!("\n    {}{why}", self.name(*op));
        }
        self.tell(position, &text)
    }

    pub(super) fn tell_torn(&self, position: Position, op: OpId) -> Violation {
        self.tell(position, &format!("this operation is half there:\n    {}", self.name(op)))
    }

    pub(super) fn tell_hole(&self, position: Position, lost: OpId, survivor: OpId) -> Violation {
        let (lost, survivor) = (self.name(lost), self.name(survivor));
        self.tell(position, &format!("lost:\n    {lost}\n  although a later one survived:\n    {survivor}"))
    }

    fn tell(&self, position: Position, what: &str) -> Violation {
        Violation { text: format!("(history {}, crash at {position}) {what}", self.seed) }
    }

    /// `op 7 (session 1): set "k" = 3, delete "l"; issued 40, acknowledged 52`.
    fn name(&self, id: OpId) -> String {
        let op = &self.ops[id];
        let mut text = match op.session {
            u32::MAX => format!("op {id} (initial):"),
            session => format!("op {id} (session {session}):"),
        };
        for key in &op.keys {
            let effect = self.keys.get(key).and_then(|list| list.iter().find(|effect| effect.op == id));
            let _ = match effect.and_then(|effect| effect.value.as_ref()) {
                Some(value) => write!(text, " set {key:?} = {value:?},"),
                None => write!(text, " delete {key:?},"),
            };
        }
        let _ = write!(text, " issued {}, ", op.issued);
        let _ = match op.acknowledged {
            Some(position) => write!(text, "acknowledged {position}"),
            None => write!(text, "never acknowledged"),
        };
        text
    }
}
