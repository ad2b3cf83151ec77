//! The keys of a group, and what its operations need of each.

use std::collections::HashMap;

use terrace_index::Key;

use crate::databases::Databases;
use crate::decide::needs_value;
use crate::hash::KeyHasher;
use crate::op::{Expiry, Op, OpKind, Span};
use crate::record::{INLINE_VALUE_BYTES, KEY_BYTES_MAX, words_for};
use crate::space::{Class, Limits, Want};

/// What a record takes in the log beside its words, at most.
pub(super) const ENTRY_SLACK: usize = 96;
/// Up to this many keys a search by hand is cheaper than a table.
const FEW: usize = 16;

/// What operations want of a key's record.
#[derive(Clone, Copy, Default)]
pub(super) struct Wants {
    /// Its bytes, for an answer, a computation, or to write them again.
    bytes: bool,
    /// Where the value is an extent, that one's bytes too.
    pub value: bool,
}

impl Wants {
    /// What to fetch.
    pub fn want(self) -> Want {
        if self.bytes { Want::Value } else { Want::Head }
    }
}

/// One operation of the group.
pub(super) struct Step<'a> {
    pub kind: OpKind,
    /// Its key among the group's; `None`: the key is too long to be there.
    pub member: Option<usize>,
    /// Its value, or its edit's argument.
    pub argument: &'a [u8],
}

/// See the module.
pub(super) struct Plan<'a> {
    pub steps: Vec<Step<'a>>,
    /// The distinct keys.
    pub keys: Vec<Key<'a>>,
    /// What is wanted of each.
    pub wants: Vec<Wants>,
    /// What room is asked for.
    pub class: Class,
    /// Words that the record of each key may take, 0 if it is not written: a first guess.
    words: Vec<usize>,
}

impl<'a> Plan<'a> {
    /// Plans these operations.
    pub fn new(
        (input, databases): (&'a [u8], Databases),
        ops: &[Op],
        hasher: &KeyHasher,
        limits: &Limits,
    ) -> Self {
        let slice = |span: Span| &input[span.start as usize..][..span.len()];
        let inline = limits.inline_bytes.min(INLINE_VALUE_BYTES);
        let mut plan = Self {
            steps: Vec::with_capacity(ops.len()),
            keys: Vec::with_capacity(ops.len()),
            wants: Vec::with_capacity(ops.len()),
            class: Class::Release,
            words: Vec::with_capacity(ops.len()),
        };
        let mut by_hash: HashMap<u64, Vec<usize>> = HashMap::new();
        for op in ops {
            let argument = match op.kind {
                OpKind::Set { value, .. } | OpKind::Append { value, .. } => slice(value),
                OpKind::Edit { argument, .. } => slice(argument),
                _ => &[],
            };
            if !matches!(op.kind, OpKind::Delete { .. } | OpKind::Get { .. }) {
                plan.class = Class::Write;
            }
            let bytes = slice(op.key);
            if bytes.len() > limits.key_bytes.min(KEY_BYTES_MAX) {
                plan.steps.push(Step { kind: op.kind, member: None, argument });
                continue;
            }
            let key = hasher.key(databases.place(op.db), bytes);
            let member = plan.member(key, &mut by_hash);
            let wants = &mut plan.wants[member];
            wants.value |= needs_value(&op.kind);
            wants.bytes |= wants.value || matches!(op.kind, OpKind::Expire { .. });
            let value_bytes = if argument.len() > inline { 0 } else { argument.len() };
            let words = match op.kind {
                OpKind::Get { .. } => 0,
                OpKind::Delete { .. } => words_for(bytes.len(), 0, false),
                OpKind::Set { expiry: Expiry::Clear, .. } => words_for(bytes.len(), value_bytes, false),
                _ => words_for(bytes.len(), value_bytes.max(24), true),
            };
            plan.words[member] = plan.words[member].max(words);
            plan.steps.push(Step { kind: op.kind, member: Some(member), argument });
        }
        plan
    }

    /// The place of a key among the distinct ones.
    fn member(&mut self, key: Key<'a>, by_hash: &mut HashMap<u64, Vec<usize>>) -> usize {
        let is_same =
            |other: &Key<'a>| other.hash == key.hash && other.db == key.db && other.bytes == key.bytes;
        let new = self.keys.len();
        let known = if new <= FEW {
            self.keys.iter().position(is_same)
        } else {
            if by_hash.is_empty() {
                for (i, key) in self.keys.iter().enumerate() {
                    by_hash.entry(key.hash).or_default().push(i);
                }
            }
            let same_hash = by_hash.entry(key.hash).or_default();
            let known = same_hash.iter().copied().find(|&i| is_same(&self.keys[i]));
            if known.is_none() {
                same_hash.push(new);
            }
            known
        };
        known.unwrap_or_else(|| {
            self.keys.push(key);
            self.wants.push(Wants::default());
            self.words.push(0);
            new
        })
    }

    /// Words to make room for before anything is known of the records; nothing where that would be a long group, whose room is
    /// gathered once it is known how long it is.
    pub fn first_sizes(&self, bytes_max: usize) -> Vec<usize> {
        let sizes: Vec<usize> = self.words.iter().copied().filter(|&words| words > 0).collect();
        let bytes = sizes.iter().sum::<usize>() * 8 + sizes.len() * ENTRY_SLACK;
        if bytes > bytes_max { Vec::new() } else { sizes }
    }
}
