//! The visitor of a range changes the tree itself: each test decides where a range is disturbed.

use std::ops::{Bound, ControlFlow};

use crate::common::{key, set};
use terrace_index::{Address, BTree, Direction, Index, OrderedIndex};

const KEYS: u64 = 200;

fn address(number: u64) -> Address {
    Address::new(number + 1)
}

fn tree() -> BTree {
    let tree = BTree::new();
    (0..KEYS).for_each(|number| set(&tree, &(1000 + number).to_be_bytes(), address(number)));
    tree
}

/// Runs `disturb` when the range comes to this key, and returns all numbers below [`KEYS`] that it shows, in order.
fn shown(direction: Direction, trigger: u64, disturb: impl Fn(&BTree)) -> Vec<u64> {
    let tree = tree();
    let (mut seen, mut last): (Vec<u64>, Option<Vec<u8>>) = (Vec::new(), None);
    tree.range(0, Bound::Unbounded, direction, &mut |bytes, address| {
        let in_order = last.as_ref().is_none_or(|last| match direction {
            Direction::Forward => &last[..] < bytes,
            Direction::Backward => &last[..] > bytes,
        });
        assert!(in_order, "{last:?}, then {bytes:?}");
        last = Some(bytes.to_vec());
        let number = address.raw() - 1;
        if number == trigger {
            disturb(&tree);
        }
        if number < KEYS {
            seen.push(number);
        }
        ControlFlow::Continue(())
    });
    if direction == Direction::Backward {
        seen.reverse();
    }
    seen
}

#[test]
fn a_range_goes_on_where_it_was_when_its_leaf_moves_entries() {
    for direction in [Direction::Forward, Direction::Backward] {
        for trigger in (0..KEYS).step_by(7) {
            // A few more below all others: every place in the first leaf changes.
            let seen = shown(direction, trigger, |tree| {
                (0..5u64).for_each(|low| set(tree, &low.to_be_bytes(), Address::new(1 << 40 | (low + 1))));
            });
            assert!(seen.into_iter().eq(0..KEYS), "disturbed at {trigger}");
        }
    }
}

#[test]
fn a_range_does_not_go_on_in_a_leaf_that_is_gone() {
    for direction in [Direction::Forward, Direction::Backward] {
        for trigger in 0..KEYS {
            let mut seen = shown(direction, trigger, |tree| {
                // Leaves merge, and their nodes are taken for keys above all others.
                for number in (0..KEYS).filter(|number| !number.is_multiple_of(20)) {
                    assert!(tree.remove(&key(0, &(1000 + number).to_be_bytes()), address(number)));
                }
                for high in 10_000..10_400u64 {
                    set(tree, &high.to_be_bytes(), Address::new(1 << 40 | high));
                }
            });
            seen.retain(|number| number.is_multiple_of(20));
            assert!(seen.into_iter().eq((0..KEYS).step_by(20)), "disturbed at {trigger}");
        }
    }
}
