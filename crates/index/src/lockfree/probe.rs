//! Look-ups: a pass along the entries of one hash, from its bucket's anchor on.
//!
//! # Thread safety
//! Lock-free, but for the wait for an `update_many`. A pass that others disturbed starts over; then one of them has got on.
//!
//! # Why a key that is always there is always found
//! New entries of a hash go behind all others of that hash. So a key that gets a second entry before it loses the first has
//! always one that a pass has yet to come to or has met.

use std::sync::atomic::Ordering::Acquire;

use super::LockFree;
use super::walk::{Element, Hit, Place, Walk, anchor_position};
use crate::{Address, Lookup, Verdict};

/// How one pass ended.
pub(super) enum Pass<'a, T> {
    /// The visitor returned this.
    Stopped(T),
    /// Every entry of the hash was visited; the next one of it belongs here.
    Complete(Place<'a>),
    /// Others changed the list here: entries may have been missed or visited for nothing.
    Disturbed,
}

/// What a look-up by a writer found.
pub(super) struct Found<'a> {
    pub(super) lookup: Lookup,
    /// The entry found or unread.
    pub(super) hit: Option<Hit<'a>>,
    /// Where a new entry belongs, if the pass came so far.
    pub(super) end: Option<Place<'a>>,
}

impl LockFree {
    /// A walk from the anchor of a hash's bucket.
    #[inline]
    pub(super) fn walk(&self, hash: u64) -> Walk<'_> {
        let bucket = hash & (self.buckets.load(Acquire) - 1);
        Walk::new(self, self.anchor(bucket))
    }

    /// Visits the entries of a hash once.
    #[inline]
    pub(super) fn pass<'a, T>(
        &'a self,
        hash: u64,
        mut visit: impl FnMut(&Hit<'a>) -> Option<T>,
    ) -> Pass<'a, T> {
        let position = hash.reverse_bits();
        let mut walk = self.walk(hash);
        loop {
            match walk.peek() {
                None => return Pass::Disturbed,
                Some(Element::Node(hit)) if hit.position <= position => {
                    if hit.position == position
                        && let Some(stop) = visit(&hit)
                    {
                        return Pass::Stopped(stop);
                    }
                    walk.pass_node(&hit);
                }
                Some(Element::Anchor(bucket)) if anchor_position(bucket) <= position => {
                    walk.pass_anchor(bucket)
                }
                Some(_) => return Pass::Complete(walk.place),
            }
        }
    }

    /// Looks up for a reader.
    #[inline]
    pub(super) fn probe(&self, hash: u64, mut verify: impl FnMut(Address) -> Verdict) -> Lookup {
        self.stripes.wait_for_many(hash);
        self.look_up(hash, &mut verify).lookup
    }

    /// Looks up; a writer holds the hash's stripe.
    #[inline]
    pub(super) fn look_up(&self, hash: u64, verify: &mut impl FnMut(Address) -> Verdict) -> Found<'_> {
        loop {
            let mut unread = None;
            let pass = self.pass(hash, |hit| match verify(hit.address) {
                Verdict::Match => Some(*hit),
                Verdict::Differs => None,
                Verdict::NeedsRead => {
                    unread.get_or_insert(*hit);
                    None
                }
            });
            match pass {
                Pass::Stopped(hit) => {
                    return Found { lookup: Lookup::Found(hit.address), hit: Some(hit), end: None };
                }
                Pass::Complete(end) => {
                    let lookup = unread.map_or(Lookup::Absent, |hit| Lookup::Unread(hit.address));
                    return Found { lookup, hit: unread, end: Some(end) };
                }
                Pass::Disturbed => {}
            }
        }
    }

    /// This very entry.
    pub(super) fn find(&self, hash: u64, address: Address) -> Option<Hit<'_>> {
        loop {
            match self.pass(hash, |hit| (hit.address == address).then_some(*hit)) {
                Pass::Stopped(hit) => return Some(hit),
                Pass::Complete(_) => return None,
                Pass::Disturbed => {}
            }
        }
    }

    /// Visits the entries of a hash without a promise.
    pub(super) fn visit_candidates(&self, hash: u64, mut visit: impl FnMut(Address)) {
        let _: Pass<'_, ()> = self.pass(hash, |hit| {
            visit(hit.address);
            None
        });
    }

    /// Appends the addresses of a bucket, given how many low bits of a hash tell it from others.
    pub(super) fn collect(&self, bucket: u64, depth: u32, out: &mut Vec<Address>) {
        let last = anchor_position(bucket) | u64::MAX.checked_shr(depth).unwrap_or(0);
        let len = out.len();
        let mut walk = Walk::new(self, self.anchor(bucket));
        loop {
            match walk.peek() {
                None => {
                    out.truncate(len);
                    walk = Walk::new(self, self.anchor(bucket));
                }
                Some(Element::Node(hit)) if hit.position <= last => {
                    out.push(hit.address);
                    walk.pass_node(&hit);
                }
                Some(Element::Anchor(other)) if anchor_position(other) <= last => walk.pass_anchor(other),
                Some(_) => return,
            }
        }
    }
}
