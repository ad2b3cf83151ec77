//! Separators of every kind: short ones, which compact inner nodes hold, and those that make a node wide.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::common::{collect, get, key, mix, set};
use terrace_index::{Address, BTree, Direction, Index, Lookup};

/// Inserts keys, checks all of them and both orders, then removes them all in another order, checking now and again.
fn come_and_go(keys: &[Vec<u8>]) {
    let tree = BTree::new();
    let mut model = BTreeMap::new();
    for (number, bytes) in (1..).zip(keys) {
        set(&tree, bytes, Address::new(number));
        model.insert(bytes.clone(), Address::new(number));
    }
    let check = |model: &BTreeMap<Vec<u8>, Address>| {
        for (bytes, &address) in model {
            assert_eq!(get(&tree, bytes), Lookup::Found(address), "{bytes:?}");
        }
        let mut seen = collect(&tree, 0, Bound::Unbounded, Direction::Backward);
        seen.reverse();
        assert!(seen.iter().map(|(bytes, address)| (bytes, address)).eq(model), "backwards");
        assert!(collect(&tree, 0, Bound::Unbounded, Direction::Forward) == seen, "forwards");
    };
    check(&model);
    let mut order: Vec<Vec<u8>> = model.keys().cloned().collect();
    order.sort_by_key(|bytes| mix(bytes.iter().fold(7, |hash, &byte| mix(hash ^ u64::from(byte)))));
    for (i, bytes) in order.iter().enumerate() {
        let Some(address) = model.remove(bytes) else { panic!("{bytes:?} comes once") };
        assert!(tree.remove(&key(0, bytes), address));
        assert_eq!(get(&tree, bytes), Lookup::Absent);
        if i % order.len().div_ceil(4) == 0 {
            check(&model);
        }
    }
    assert!(tree.is_empty());
}

#[test]
fn long_separators_come_to_nodes_that_held_short_ones() {
    let spread = (0..20_000).map(|number| mix(number).to_be_bytes().to_vec());
    // In the middle of those, keys that differ only far behind: their separators are as long.
    let alike = |number: u64| [&b"\x80alike-for-long-"[..], &mix(number).to_be_bytes()[..]].concat();
    // More in each round, so that nodes of every fill have to make way.
    for count in [100, 3000, 20_000] {
        come_and_go(&spread.clone().chain((0..count).map(alike)).collect::<Vec<_>>());
    }
}

#[test]
fn separators_that_end_in_zeros_are_not_mistaken_for_shorter_ones() {
    // Each key with zeros after it, and each of these with more zeros: neighbours differ in nothing else.
    let key = |number: u64| [&mix(number / 8).to_be_bytes()[..2], &vec![0; number as usize % 8][..]].concat();
    come_and_go(&(0..60_000).map(key).collect::<Vec<_>>());
    // A chain of such keys at every place of a leaf, so also where a leaf is cut: the root then learns "2, 0".
    for below in 0..50 {
        let chain = (0..14).map(|zeros| [&[2][..], &vec![0; zeros]].concat());
        let keys =
            (0..below).map(|i| vec![1, i + 1]).chain(chain).chain((0..50 - below).map(|i| vec![3, i + 1]));
        come_and_go(&keys.rev().collect::<Vec<_>>());
    }
}

#[test]
fn keys_that_differ_in_zeros_at_their_ends_are_others() {
    // A leaf pads heads with zeros. Leaves of equally long keys keep that length in one place for all.
    for length in 1..=12usize {
        let tree = BTree::new();
        let of_length = |first: u8, length: usize| {
            let mut bytes = vec![0; length];
            bytes[0] = first;
            bytes
        };
        for first in 1..=200 {
            set(&tree, &of_length(first, length), Address::new(first.into()));
        }
        for first in 1..=200 {
            for other in 1..=20 {
                let expected =
                    if other == length { Lookup::Found(Address::new(first.into())) } else { Lookup::Absent };
                assert_eq!(
                    get(&tree, &of_length(first, other)),
                    expected,
                    "{other} bytes in place of {length}"
                );
            }
        }
    }
}
