//! Look-ups of several keys with their descents interleaved: while the lines that one key needs next are on their way from
//! memory, the others take their step. Of a node these are the first line, then the four that its hints lead to.
//!
//! # Thread safety
//! As a single descent: a child's version is noted in one round and its parent confirmed after that, in the same turn. A key
//! that is disturbed anywhere is looked up alone in the end.

use super::BTree;
use super::text::Text;
use super::view::View;
use crate::{Address, Key, Lookup, Verdict};

/// Descents interleaved at a time: enough to hide a load from memory, few enough for their lines to stay cached.
pub(super) const WIDTH: usize = 16;

/// How far a key's descent is.
#[derive(Clone, Copy)]
pub(super) enum Descent<'a> {
    /// At a node, its child on the way known; the first line of that is being loaded.
    Chosen(View<'a>, u32),
    /// At a node of which the lines that a search reads are being loaded.
    Entered(View<'a>),
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
            let text_of = |i: usize| Text::new(&keys[i]);
            let is_there = |view: &View<'_>, text: Text<'_>| view.find(text);
            let descents =
                self.descend(keys.len(), text_of, is_there, |found| found.into_iter().for_each(&mut touch));
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
    /// Descends for at most [`WIDTH`] texts. `answer` says what a leaf has, and `tell` is told of each answer that was got.
    #[inline]
    pub(super) fn descend<'a, 'k>(
        &'a self,
        count: usize,
        text_of: impl Fn(usize) -> Text<'k>,
        answer: impl Fn(&View<'a>, Text<'k>) -> Option<Option<Address>>,
        mut tell: impl FnMut(Option<Address>),
    ) -> [Descent<'a>; WIDTH] {
        let mut descents = [Descent::Disturbed; WIDTH];
        for (i, descent) in descents.iter_mut().enumerate().take(count) {
            *descent = search(self.root(), text_of(i), &answer);
        }
        loop {
            let mut moved = false;
            for (i, descent) in descents.iter_mut().enumerate().take(count) {
                *descent = match *descent {
                    Descent::Chosen(view, child) => enter(view, child, text_of(i), &answer),
                    Descent::Entered(view) => search(view, text_of(i), &answer),
                    _ => continue,
                };
                moved = true;
                if let Descent::Found(found) = *descent {
                    tell(found);
                }
            }
            if !moved {
                return descents;
            }
        }
    }
}

/// Answers from a leaf, or chooses a node's child and starts loading its first line.
#[inline]
fn search<'a, 'k>(
    view: View<'a>,
    text: Text<'k>,
    answer: &impl Fn(&View<'a>, Text<'k>) -> Option<Option<Address>>,
) -> Descent<'a> {
    if view.shape.is_leaf() {
        return answer(&view, text).map_or(Descent::Disturbed, Descent::Found);
    }
    let child = view.child_for(text).and_then(|child| Some((child.get(), view.pool.look(child.get())?)));
    let Some((child, node)) = child else { return Descent::Disturbed };
    node.get().prefetch_word(0);
    Descent::Chosen(view, child)
}

/// Goes on to the child chosen before, and starts loading the lines that a search reads; where those are sure to be cached,
/// searches at once.
#[inline]
fn enter<'a, 'k>(
    view: View<'a>,
    child: u32,
    text: Text<'k>,
    answer: &impl Fn(&View<'a>, Text<'k>) -> Option<Option<Address>>,
) -> Descent<'a> {
    let Some(view) = view.step(child) else { return Descent::Disturbed };
    if view.shape.level() > 1 {
        return search(view, text, answer);
    }
    view.prefetch_search(text);
    Descent::Entered(view)
}
