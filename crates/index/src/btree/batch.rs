//! Look-ups of several keys with their descents interleaved: while one key's next node is on its way from memory, the others
//! take their step.
//!
//! # Thread safety
//! As a single descent: a child's version is noted in one round and its parent confirmed after that, in the same turn. A key
//! that is disturbed anywhere is looked up alone in the end.

use super::BTree;
use super::text::Text;
use super::view::{View, prefetch};
use crate::{Address, Key, Lookup, Verdict};

/// Descents interleaved at a time: enough to hide a load from memory, few enough for their lines to stay cached.
const WIDTH: usize = 16;

/// How far a key's descent is.
#[derive(Clone, Copy)]
enum Descent<'a> {
    /// At a node; its child on the way is known and being loaded, 0 where the node is a leaf.
    At(View<'a>, u32),
    /// Answered from the leaf, not verified.
    Found(Option<Address>),
    /// Something changed.
    Disturbed,
}

impl BTree {
    pub(super) fn look_up_batch(
        &self,
        keys: &[Key<'_>],
        mut touch: impl FnMut(Address),
        mut verify: impl FnMut(usize, Address) -> Verdict,
        out: &mut [Lookup],
    ) {
        assert!(out.len() >= keys.len(), "one answer for each key");
        for (group, keys) in keys.chunks(WIDTH).enumerate() {
            let first = group * WIDTH;
            let mut descents = [Descent::Disturbed; WIDTH];
            for (descent, key) in descents.iter_mut().zip(keys) {
                *descent = choose(self.root(), Text::new(key));
            }
            loop {
                let mut moved = false;
                for (descent, key) in descents.iter_mut().zip(keys) {
                    let Descent::At(view, child) = *descent else { continue };
                    *descent = advance(view, child, Text::new(key));
                    moved = true;
                    if let Descent::Found(Some(address)) = *descent {
                        touch(address);
                    }
                }
                if !moved {
                    break;
                }
            }
            for (i, (descent, key)) in descents.iter().zip(keys).enumerate() {
                out[first + i] = match *descent {
                    Descent::Found(None) => Lookup::Absent,
                    Descent::Found(Some(address)) => match verify(first + i, address) {
                        Verdict::Match => Lookup::Found(address),
                        Verdict::NeedsRead => Lookup::Unread(address),
                        Verdict::Differs => {
                            self.look_up(Text::new(key), |address| verify(first + i, address))
                        }
                    },
                    _ => self.look_up(Text::new(key), |address| verify(first + i, address)),
                };
            }
        }
    }
}

/// Chooses a node's child and starts loading it.
#[inline]
fn choose<'a>(view: View<'a>, text: Text<'_>) -> Descent<'a> {
    if view.shape.is_leaf() {
        return Descent::At(view, 0);
    }
    match view.child_for(text) {
        Some(child) => {
            if let Some(node) = view.pool.look(child) {
                prefetch(node);
            }
            Descent::At(view, child)
        }
        None => Descent::Disturbed,
    }
}

/// Goes on to the child chosen before, or answers from the leaf.
#[inline]
fn advance<'a>(view: View<'a>, child: u32, text: Text<'_>) -> Descent<'a> {
    let view = if child == 0 { Some(view) } else { view.step(child) };
    match view {
        None => Descent::Disturbed,
        Some(leaf) if leaf.shape.is_leaf() => leaf.find(text).map_or(Descent::Disturbed, Descent::Found),
        Some(inner) => choose(inner, text),
    }
}
