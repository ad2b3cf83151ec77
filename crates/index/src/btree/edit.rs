//! Changes of a node in place: an entry comes, goes, or gets another address.
//!
//! # Thread safety
//! The holder of the node's lock. Readers start over once [`Locked::change`] was called.

use super::compact::compact_head;
use super::heap::{Slot, chain_for, heap_words};
use super::lock::Locked;
use super::node::{MASK_48, SHAPE, Shape};
use super::text::Text;
use super::view::View;

/// Puts a new entry at `i`, where the node takes it: an address in a leaf, a child in an inner node.
///
/// # Panics
/// If there is no memory for a very long key. Nothing has changed then.
pub(super) fn insert(lock: &mut Locked<'_>, view: &View<'_>, i: usize, text: Text<'_>, payload: u64) {
    let (node, shape) = (view.node, view.shape);
    let prefix = shape.prefix();
    let length = text.len() - prefix;
    debug_assert!(!shape.is_leaf() || view.takes(text));
    let head = text.word(prefix);
    if shape.compact() {
        lock.change();
        node.insert_compact(shape, i, compact_head(head), payload as u32);
        node.store(SHAPE, shape.with_count(shape.count() + 1).raw());
        return;
    }
    if shape.plain().is_some() {
        lock.change();
        node.insert_arrays(shape, i, head, payload);
        node.store(SHAPE, shape.with_count(shape.count() + 1).raw());
        return;
    }
    let words = heap_words(length);
    let chain = if words == 0 {
        None
    } else {
        let mut joined = Vec::with_capacity(text.len());
        text.join(&mut joined);
        chain_for(view.pool, &joined[prefix..])
    };
    lock.change();
    let place = shape.heap() - words;
    let slot = Slot::new(length, if words > 0 { place } else { 0 });
    node.write_rest(place, length, chain, |k| text.word(prefix + 8 + 8 * k));
    node.insert_arrays(shape, i, head, payload | slot.in_payload());
    node.store(SHAPE, shape.with_more_heap(words).with_count(shape.count() + 1).raw());
}

/// Gives an entry of a compact node, which suits it, another separator and another child.
pub(super) fn set_separator(lock: &mut Locked<'_>, view: &View<'_>, i: usize, text: Text<'_>, child: u32) {
    let (node, shape) = (view.node, view.shape);
    debug_assert!(shape.compact() && i < shape.count());
    lock.change();
    node.set_compact(i, compact_head(text.word(shape.prefix())), child, shape.count());
}

/// Gives an entry another address; 0 leaves only its place.
pub(super) fn set_address(lock: &mut Locked<'_>, view: &View<'_>, i: usize, address: u64) {
    debug_assert!(address <= MASK_48);
    lock.change();
    let payload = view.node.payload(view.shape, i);
    view.node.set_payload(view.shape, i, payload & !MASK_48 | address);
}

/// Takes an entry away, unlocks, and returns what the node is then.
pub(super) fn remove(mut lock: Locked<'_>, view: &View<'_>, i: usize) -> Shape {
    let (node, shape) = (view.node, view.shape);
    let chain = view.chain_of(i);
    let words = view.heap_words_of(i);
    lock.change();
    if shape.compact() {
        node.remove_compact(shape, i);
    } else {
        node.remove_arrays(shape, i);
    }
    let shape = shape.with_less_heap(words).with_count(shape.count() - 1);
    node.store(SHAPE, shape.raw());
    drop(lock);
    if let Some(chain) = chain {
        chain.free(view.pool);
    }
    shape
}
