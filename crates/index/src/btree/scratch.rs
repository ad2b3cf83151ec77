//! What a range copies out of leaves, in memory that is used again: a range allocates nothing once its thread has run a few.
//!
//! # Thread safety
//! Each range takes its thread's memory for itself and gives it back at its end, so one that runs inside another has its own.
//! What is copied means nothing before the leaf's version is confirmed.

use std::cell::Cell;
use std::ops::{ControlFlow, Range};

use super::view::View;
use crate::Address;

/// Bytes that a thread keeps at most.
const KEPT_BYTES: usize = 64 << 10;

thread_local! {
    static KEPT: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
}

/// Memory for one range.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) place: Vec<u8>,
    pub(super) fence: Vec<u8>,
    pub(super) copied: Copied,
}

impl Scratch {
    /// This thread's, or new.
    pub(super) fn take() -> Box<Self> {
        KEPT.try_with(Cell::take).ok().flatten().unwrap_or_default()
    }
    /// Keeps it for the thread's next range, unless it has grown large.
    pub(super) fn give_back(self: Box<Self>) {
        let Copied { key, bytes, .. } = &self.copied;
        if key.capacity() + bytes.capacity() + self.place.capacity() + self.fence.capacity() <= KEPT_BYTES {
            // Where the thread is ending there is nobody to keep it for.
            let _ = KEPT.try_with(|kept| kept.set(Some(self)));
        }
    }
}

/// Entries copied out of a leaf, in the order in which they are shown.
#[derive(Default)]
pub(super) struct Copied {
    /// The length of the keys, and where in `key` the head of each goes, if the leaf is plain.
    plain: Option<(usize, usize)>,
    /// Of a plain leaf: what all keys have in common, with room for the head; else the prefix.
    key: Vec<u8>,
    /// Keys, one after the other; none of a plain leaf.
    bytes: Vec<u8>,
    /// The address of each, after its head if the leaf is plain, else after where its key ends.
    entries: Vec<(u64, u64)>,
}

impl Copied {
    /// Copies these entries of a leaf. `None` if disturbed.
    pub(super) fn load(&mut self, view: &View<'_>, range: Range<usize>, forward: bool) -> Option<()> {
        self.key.clear();
        self.bytes.clear();
        self.entries.clear();
        view.append_prefix(&mut self.key)?;
        let prefix = self.key.len();
        self.plain = view.shape.plain().map(|length| (prefix + length, prefix));
        if self.plain.is_some() {
            if view.shape.count() > 0 {
                view.append_suffix(0, &mut self.key)?;
            }
            self.key.resize(self.key.len().max(prefix + 8), 0);
            let entry = |i| (view.node.head(i), view.node.narrow_payload(view.shape, i));
            if forward {
                self.entries.extend(range.map(entry));
            } else {
                self.entries.extend(range.rev().map(entry));
            }
            return Some(());
        }
        let count = range.len();
        for k in 0..count {
            let i = if forward { range.start + k } else { range.end - 1 - k };
            self.bytes.extend_from_slice(&self.key);
            view.append_suffix(i, &mut self.bytes)?;
            self.entries.push((self.bytes.len() as u64, view.address(i)));
        }
        Some(())
    }
    /// Shows the entries of a database. Breaks if `visit` does, or if an entry belongs to another database.
    pub(super) fn show(
        &mut self,
        db: u8,
        visit: &mut dyn FnMut(&[u8], Address) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut show = |joined: &[u8], raw: u64| {
            let [of, key @ ..] = joined else { return ControlFlow::Break(()) };
            if *of != db {
                return ControlFlow::Break(());
            }
            if raw == 0 { ControlFlow::Continue(()) } else { visit(key, Address::new(raw)) }
        };
        if let Some((length, at)) = self.plain {
            for &(head, raw) in &self.entries {
                self.key[at..at + 8].copy_from_slice(&head.to_be_bytes());
                // A head that the key ends in has written past its end.
                show(&self.key[..length], raw)?;
            }
            return ControlFlow::Continue(());
        }
        let mut start = 0;
        for &(end, raw) in &self.entries {
            show(&self.bytes[start..end as usize], raw)?;
            start = end as usize;
        }
        ControlFlow::Continue(())
    }
    /// Makes `key` the last key that was shown, if there was one.
    pub(super) fn last_key(&self, key: &mut Vec<u8>) {
        let shown = match self.plain {
            _ if self.entries.is_empty() => return,
            // It was put together to be shown.
            Some((length, _)) => &self.key[..length],
            None => {
                let start = self.entries.len().checked_sub(2).map_or(0, |i| self.entries[i].0 as usize);
                &self.bytes[start..]
            }
        };
        key.clear();
        key.extend_from_slice(shown);
    }
    /// The addresses.
    pub(super) fn addresses(&self) -> impl Iterator<Item = Address> {
        self.entries.iter().filter_map(|&(_, raw)| super::get::address(raw))
    }
}
