//! Keys and small helpers shared by the tests of the ordered index.

use std::ops::{Bound, ControlFlow};

use terrace_index::{Address, BTree, Change, Direction, Index, Key, Lookup, OrderedIndex, Verdict};

/// A key of database `db`. This index never looks at its hash.
pub fn key(db: u8, bytes: &[u8]) -> Key<'_> {
    Key { hash: 0, db, bytes }
}

/// The whole range, as a list.
pub fn collect(tree: &BTree, db: u8, from: Bound<&[u8]>, direction: Direction) -> Vec<(Vec<u8>, Address)> {
    let mut seen = Vec::new();
    tree.range(db, from, direction, &mut |bytes, address| {
        seen.push((bytes.to_vec(), address));
        ControlFlow::Continue(())
    });
    seen
}

/// A number of 64 well-mixed bits (SplitMix64's finaliser).
pub fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// Sets a key whatever was there.
pub fn set(tree: &BTree, bytes: &[u8], address: Address) {
    tree.update(&key(0, bytes), |_| Verdict::Match, |_| (Change::Set(address), ()));
}

/// Looks a key up, taking every record for its own.
pub fn get(tree: &BTree, bytes: &[u8]) -> Lookup {
    tree.get(&key(0, bytes), |_| Verdict::Match)
}

/// All addresses that a scan returns, in its order.
pub fn scan(tree: &BTree) -> Vec<Address> {
    let (mut cursor, mut seen) = (0, Vec::new());
    loop {
        match tree.scan(cursor, &mut seen) {
            Some(0) => return seen,
            Some(next) => cursor = next,
            None => panic!("this index has cursors"),
        }
    }
}
