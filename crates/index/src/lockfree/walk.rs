//! A walk along the list, which takes nothing for true that another thread may have changed meanwhile.
//!
//! # Thread safety
//! Lock-free, for readers and writers alike: whoever meets a deleted node takes it out of the list and goes on.
//!
//! # Invariants
//! A walk stands at a *place*: a link and what it held. The link belonged to an element that was in the list and not deleted
//! when the link was read. Of the node behind it nothing is believed until the link, read again, still holds the same: then
//! the node was in the list all the time from the first reading to the second, so what was read of it in between is its own,
//! and, if it was not deleted, the link to the next element starts the next place.

use std::sync::atomic::Ordering::{AcqRel, Acquire};

use super::LockFree;
use super::nodes::Node;
use super::word::{Target, Word};
use crate::Address;
use crate::sync::AtomicU64;

/// A link, and what it held when the walk came by.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) link: &'a AtomicU64,
    pub(super) word: Word,
}

impl Place<'_> {
    /// Changes the link if it still holds what it held.
    #[inline]
    pub(super) fn swing(&self, to: Word) -> bool {
        self.link.compare_exchange(self.word.0, to.0, AcqRel, Acquire).is_ok()
    }
}

/// A node that was in the list, and where.
#[derive(Clone, Copy)]
pub(super) struct Hit<'a> {
    pub(super) place: Place<'a>,
    pub(super) node: &'a Node,
    pub(super) number: u32,
    pub(super) position: u64,
    pub(super) address: Address,
    /// The node's link.
    next: Word,
}

/// What comes next in the list.
pub(super) enum Element<'a> {
    /// Nothing.
    End,
    /// A bucket's anchor.
    Anchor(u64),
    /// An entry.
    Node(Hit<'a>),
}

/// The place of an anchor in the list: before every entry of its bucket.
#[inline]
pub(super) fn anchor_position(bucket: u64) -> u64 {
    bucket.reverse_bits()
}

/// A walk.
#[derive(Clone, Copy)]
pub(super) struct Walk<'a> {
    table: &'a LockFree,
    pub(super) place: Place<'a>,
}

impl<'a> Walk<'a> {
    /// A walk that starts at an anchor in the list.
    #[inline]
    pub(super) fn new(table: &'a LockFree, link: &'a AtomicU64) -> Self {
        Self { table, place: Place { link, word: linked(link) } }
    }
    /// What comes next; `None` if others changed the list here: start over.
    #[inline]
    pub(super) fn peek(&mut self) -> Option<Element<'a>> {
        loop {
            let number = match self.place.word.target() {
                Target::End => return Some(Element::End),
                Target::Anchor(bucket) => return Some(Element::Anchor(bucket)),
                Target::Node(number) => number,
            };
            let node = self.table.nodes.get(number);
            let next = Word(node.link.load(Acquire));
            let position = node.position.load(Acquire);
            let address = node.address.load(Acquire);
            let place = self.place;
            if place.link.load(Acquire) != place.word.0 {
                return None;
            }
            if !next.is_marked() {
                let address = Address::new(address);
                return Some(Element::Node(Hit { place, node, number, position, address, next }));
            }
            let around = place.word.to_target_of(next);
            if !place.swing(around) {
                return None;
            }
            self.table.nodes.give_back(number);
            self.place.word = around;
        }
    }
    /// Steps over an entry that [`peek`](Self::peek) showed.
    #[inline]
    pub(super) fn pass_node(&mut self, hit: &Hit<'a>) {
        self.place = Place { link: &hit.node.link, word: hit.next };
    }
    /// Steps over an anchor that [`peek`](Self::peek) showed.
    pub(super) fn pass_anchor(&mut self, bucket: u64) {
        let link = self.table.anchors.get(bucket);
        self.place = Place { link, word: linked(link) };
    }
}

/// Reads the link of an anchor that is in the list, and notes that it is if that hasn't been done.
#[inline]
pub(super) fn linked(link: &AtomicU64) -> Word {
    let mut word = Word(link.load(Acquire));
    while !word.is_linked() {
        word = match link.compare_exchange(word.0, word.linked().0, AcqRel, Acquire) {
            Ok(_) => word.linked(),
            Err(now) => Word(now),
        };
    }
    word
}
