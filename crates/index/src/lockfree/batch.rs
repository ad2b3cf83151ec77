//! Look-ups of several keys side by side: anchors are prefetched, then all walks go on node by node, each prefetching its next
//! node while the others have their turn, then what they found is verified.
//!
//! # Thread safety
//! As a probe's. Each answer was right at some moment during the call, not all of them at the same.
//!
//! # Why no entry is looked for twice
//! A walk remembers the first entry of its hash, which was there during the call, so a match is an answer. What is not as simple
//! (no such entry, another key's, a record that must be read, a walk that others disturbed) probes again from the start.

use super::LockFree;
use super::walk::{Element, Walk, anchor_position};
use super::word::{Target, Word};
use crate::{Address, Key, Lookup, Verdict};

/// Keys whose walks go on together.
const GROUP: usize = 16;

/// Where a key's walk stands.
#[derive(Clone, Copy)]
struct Step<'a> {
    walk: Walk<'a>,
    /// The key's place in the list, and its number in the group.
    position: u64,
    key: usize,
}

impl LockFree {
    /// Answers each key.
    #[inline]
    pub(super) fn probe_batch(
        &self,
        keys: &[Key<'_>],
        touch: &mut impl FnMut(Address),
        verify: &mut impl FnMut(usize, Address) -> Verdict,
        out: &mut [Lookup],
    ) {
        assert!(out.len() >= keys.len(), "one answer for each key");
        for (group, (keys, out)) in keys.chunks(GROUP).zip(out.chunks_mut(GROUP)).enumerate() {
            let firsts = self.firsts(keys, touch);
            for (i, ((key, first), out)) in keys.iter().zip(&firsts).zip(out).enumerate() {
                let mut verify = |address| verify(group * GROUP + i, address);
                *out = match *first {
                    Some(address) if verify(address) == Verdict::Match => Lookup::Found(address),
                    _ => self.probe(key.hash, verify),
                };
            }
        }
    }

    /// The first entry of each key's hash, where it is easily found.
    #[inline]
    fn firsts(&self, keys: &[Key<'_>], touch: &mut impl FnMut(Address)) -> [Option<Address>; GROUP] {
        for key in keys {
            self.anchors.prefetch(self.bucket_of(key.hash));
        }
        let mut steps: [Option<Step<'_>>; GROUP] = [None; GROUP];
        for (key, (number, step)) in keys.iter().zip(steps.iter_mut().enumerate()) {
            let walk = self.walk(key.hash);
            self.prefetch_target(walk.place.word);
            *step = Some(Step { walk, position: key.hash.reverse_bits(), key: number });
        }
        let mut firsts = [None; GROUP];
        let mut walking = keys.len();
        while walking > 0 {
            // Those that go on move to the front.
            let turn = std::mem::take(&mut walking);
            for i in 0..turn {
                let Some(mut step) = steps[i] else { continue };
                // Checked before a node is read, as a probe does it: a probe will wait where this doesn't.
                if self.stripes.any_exclusive() {
                    continue;
                }
                match step.walk.peek() {
                    Some(Element::Node(hit)) if hit.position < step.position => {
                        step.walk.pass_node(&hit);
                        self.prefetch_target(step.walk.place.word);
                    }
                    Some(Element::Node(hit)) if hit.position == step.position => {
                        firsts[step.key] = Some(hit.address);
                        touch(hit.address);
                        continue;
                    }
                    Some(Element::Anchor(bucket)) if anchor_position(bucket) <= step.position => {
                        step.walk.pass_anchor(bucket);
                    }
                    _ => continue,
                }
                steps[walking] = Some(step);
                walking += 1;
            }
        }
        firsts
    }

    #[inline]
    fn prefetch_target(&self, link: Word) {
        if let Target::Node(number) = link.target() {
            self.nodes.prefetch(number);
        }
    }
}
