//! What a node holds, taken out of it: the form in which nodes are split and merged.

use std::ops::Range;

use super::node::{LINK, MASK_48};
use super::text::Text;
use super::view::View;

/// Keys in order, each with an address or a child.
#[derive(Default)]
pub(super) struct Contents {
    bytes: Vec<u8>,
    items: Vec<Item>,
}

struct Item {
    start: usize,
    end: usize,
    payload: u64,
}

/// The keys that belong to a node: from `low` on, up to `high`, itself not included.
#[derive(Default)]
pub(super) struct Fences {
    pub(super) low: Vec<u8>,
    pub(super) high: Option<Vec<u8>>,
}

impl Contents {
    /// Entries.
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }
    /// The key of entry `i`.
    pub(super) fn key(&self, i: usize) -> &[u8] {
        &self.bytes[self.items[i].start..self.items[i].end]
    }
    /// The address or child of entry `i`.
    pub(super) fn payload(&self, i: usize) -> u64 {
        self.items[i].payload
    }
    /// Adds an entry; its place is `at`.
    pub(super) fn insert(&mut self, at: usize, payload: u64, key: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        key(&mut self.bytes);
        self.items.insert(at, Item { start, end: self.bytes.len(), payload });
    }
    /// Adds an entry behind all others.
    pub(super) fn push(&mut self, key: &[u8], payload: u64) {
        self.insert(self.items.len(), payload, |bytes| bytes.extend_from_slice(key));
    }
    /// Adds what a locked node holds, with or without the entries of a leaf that are only places. `None` if it isn't locked
    /// and changes meanwhile.
    pub(super) fn load(&mut self, view: &View<'_>, places: bool) -> Option<()> {
        let mut prefix = Vec::with_capacity(view.shape.prefix());
        view.append_prefix(&mut prefix)?;
        let count = view.shape.count();
        self.items.reserve(count + 2);
        self.bytes.reserve(count * (prefix.len() + 16));
        for i in 0..count {
            let payload = if view.shape.is_leaf() { view.address(i) } else { u64::from(view.child(i + 1)) };
            if payload & MASK_48 == 0 && !places {
                continue;
            }
            let start = self.bytes.len();
            self.bytes.extend_from_slice(&prefix);
            view.append_suffix(i, &mut self.bytes)?;
            self.items.push(Item { start, end: self.bytes.len(), payload });
        }
        Some(())
    }
    /// Entries below a text, and whether the next is that text.
    pub(super) fn position(&self, text: Text<'_>) -> (usize, bool) {
        let mut joined = Vec::with_capacity(text.len());
        text.join(&mut joined);
        let below = self.items.partition_point(|item| self.bytes[item.start..item.end] < joined[..]);
        (below, below < self.items.len() && self.key(below) == joined)
    }
}

impl Fences {
    /// Those of a node; `None` if disturbed.
    pub(super) fn load(view: &View<'_>) -> Option<Self> {
        let mut low = Vec::new();
        view.append_low(&mut low)?;
        let mut high = Vec::new();
        let bounded = view.append_high(&mut high)?;
        Some(Self { low, high: bounded.then_some(high) })
    }
}

/// A node to be: some of the contents, between two fences.
#[derive(Clone)]
pub(super) struct Part<'a> {
    pub(super) level: u8,
    /// The next leaf, or the first child.
    pub(super) link: u32,
    pub(super) low: &'a [u8],
    pub(super) high: Option<&'a [u8]>,
    pub(super) contents: &'a Contents,
    pub(super) range: Range<usize>,
}

/// The link of a node. Needs the lock, or a confirmation afterwards.
pub(super) fn link_of(view: &View<'_>) -> u32 {
    view.node.load(LINK) as u32
}
