//! What a range copies out of leaves, in memory that is used again: a range allocates nothing once its thread has run a few.
//!
//! # Thread safety
//! Each range takes its thread's memory for itself and gives it back at its end, so one that runs inside another has its own.
//! What is copied means nothing before the leaf's version is confirmed.

use std::cell::Cell;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::Ordering::Relaxed;

use super::get::address;
use super::node::{BODY, MASK_48, ROOM_MAX, payload_words};
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

/// Entries copied out of a leaf.
pub(super) struct Copied {
    /// Of a plain leaf: what all keys have in common, with room for the head; else the prefix.
    key: Vec<u8>,
    /// The entries of a plain leaf.
    plain: Option<Plain>,
    heads: [u64; ROOM_MAX],
    /// Addresses of 6 bytes each; one too many words, so that each may be read with 8.
    payloads: [u8; 6 * ROOM_MAX + 24],
    /// Keys of another leaf, one after the other, in the order in which they are shown.
    bytes: Vec<u8>,
    /// Where each of these keys ends, and its address.
    entries: Vec<(usize, u64)>,
}

/// What there is of a plain leaf.
#[derive(Clone, Copy)]
struct Plain {
    /// The length of the keys, and where in `key` the head of each goes.
    length: usize,
    prefix: usize,
    count: usize,
    /// Where in `payloads` the first begins.
    first: usize,
    forward: bool,
}

impl Default for Copied {
    fn default() -> Self {
        Self {
            key: Vec::new(),
            plain: None,
            heads: [0; ROOM_MAX],
            payloads: [0; 6 * ROOM_MAX + 24],
            bytes: Vec::new(),
            entries: Vec::new(),
        }
    }
}

impl Copied {
    /// Copies these entries of a leaf. `None` if disturbed.
    pub(super) fn load(&mut self, view: &View<'_>, range: Range<usize>, forward: bool) -> Option<()> {
        self.key.clear();
        self.bytes.clear();
        self.entries.clear();
        view.append_prefix(&mut self.key)?;
        if let Some(length) = view.shape.plain() {
            return self.load_plain(view, length, range, forward);
        }
        self.plain = None;
        for k in 0..range.len() {
            let i = if forward { range.start + k } else { range.end - 1 - k };
            self.bytes.extend_from_slice(&self.key);
            view.append_suffix(i, &mut self.bytes)?;
            self.entries.push((self.bytes.len(), view.address(i)));
        }
        Some(())
    }
    /// Copies words as they are: they are taken apart once it is known that they mean something.
    fn load_plain(
        &mut self,
        view: &View<'_>,
        length: usize,
        range: Range<usize>,
        forward: bool,
    ) -> Option<()> {
        let (node, prefix) = (view.node, self.key.len());
        if view.shape.count() > 0 {
            view.append_suffix(0, &mut self.key)?;
        }
        self.key.resize(self.key.len().max(prefix + 8), 0);
        let heads = node.words(BODY + range.start..BODY + range.end);
        for (head, word) in self.heads.iter_mut().zip(heads) {
            *head = word.load(Relaxed);
        }
        let first = view.shape.payloads();
        let words = node.words(first + range.start * 3 / 4..first + payload_words(false, range.end));
        for (bytes, word) in self.payloads.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.load(Relaxed).to_le_bytes());
        }
        let (length, first) = (prefix + length, range.start * 6 % 8);
        self.plain = Some(Plain { length, prefix, count: range.len(), first, forward });
        Some(())
    }
    /// Shows the entries of a database. Breaks if `visit` does, or if an entry belongs to another database.
    pub(super) fn show(
        &mut self,
        db: u8,
        visit: &mut dyn FnMut(&[u8], Address) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut show = |joined: &[u8], raw: u64| match joined {
            [of, key @ ..] if *of == db => match address(raw) {
                Some(address) => visit(key, address),
                None => ControlFlow::Continue(()),
            },
            _ => ControlFlow::Break(()),
        };
        if let Some(plain) = self.plain {
            for k in 0..plain.count {
                let i = if plain.forward { k } else { plain.count - 1 - k };
                self.key[plain.prefix..plain.prefix + 8].copy_from_slice(&self.heads[i].to_be_bytes());
                // Where a key ends within its head, zeros were written past its end.
                show(&self.key[..plain.length], plain_payload(&self.payloads, plain, i))?;
            }
            return ControlFlow::Continue(());
        }
        let mut start = 0;
        for &(end, raw) in &self.entries {
            show(&self.bytes[start..end], raw)?;
            start = end;
        }
        ControlFlow::Continue(())
    }
    /// Makes `key` the last key that was shown, if there was one.
    pub(super) fn last_key(&self, key: &mut Vec<u8>) {
        let shown = match self.plain {
            // It was put together to be shown.
            Some(plain) if plain.count > 0 => &self.key[..plain.length],
            None if !self.entries.is_empty() => {
                let start = self.entries.len().checked_sub(2).map_or(0, |i| self.entries[i].0);
                &self.bytes[start..]
            }
            _ => return,
        };
        key.clear();
        key.extend_from_slice(shown);
    }
    /// Appends the addresses.
    pub(super) fn addresses(&self, out: &mut Vec<Address>) {
        if let Some(plain) = self.plain {
            out.extend((0..plain.count).filter_map(|i| address(plain_payload(&self.payloads, plain, i))));
        }
        out.extend(self.entries.iter().filter_map(|&(_, raw)| address(raw)));
    }
}

/// The payload of an entry of a plain leaf.
#[inline]
fn plain_payload(payloads: &[u8], plain: Plain, i: usize) -> u64 {
    let bytes = payloads.get(plain.first + 6 * i..).and_then(|bytes| bytes.first_chunk());
    bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes) & MASK_48)
}
