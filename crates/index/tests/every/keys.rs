//! Keys that are hard to keep in order, and records whose addresses say whose they are.

use terrace_index::{Address, Key, Verdict};

/// Bits of an address below its key's number.
const VERSION_BITS: u32 = 24;

/// The address of a record of this key in some version; keys count from 0.
pub fn address(key: usize, version: u64) -> Address {
    assert!(version < 1 << VERSION_BITS);
    Address::new((key as u64 + 1) << VERSION_BITS | version)
}

/// Whose record this is.
pub fn owner(address: Address) -> usize {
    (address.raw() >> VERSION_BITS) as usize - 1
}

/// Its version.
pub fn version(address: Address) -> u64 {
    address.raw() & ((1 << VERSION_BITS) - 1)
}

/// Verifies by the owner in the address.
pub fn is(key: usize) -> impl Fn(Address) -> Verdict + Copy {
    move |address| if owner(address) == key { Verdict::Match } else { Verdict::Differs }
}

/// FNV-1a and SplitMix64's finaliser: what an engine would compute from database and key.
pub fn hash(db: u8, bytes: &[u8]) -> u64 {
    let step = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    let z = bytes.iter().fold(step(0xcbf2_9ce4_8422_2325, &db), step);
    let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// The key of these bytes.
pub fn key(db: u8, bytes: &[u8]) -> Key<'_> {
    Key { hash: hash(db, bytes), db, bytes }
}

/// Keys that share long prefixes, are empty, contain zeros, differ in the last byte, begin one another, are all ones.
pub fn hard() -> Vec<Vec<u8>> {
    let mut keys = vec![vec![]];
    for len in [1, 2, 7, 8, 9, 16, 24, 300] {
        keys.push(vec![0; len]);
        keys.push(vec![0xff; len]);
        let mut last = vec![0; len];
        last[len - 1] = 1;
        keys.push(last);
        let mut last = vec![0xff; len];
        last[len - 1] = 0xfe;
        keys.push(last);
    }
    for prefix in ["user:0000000000000000000000000000000000:", "01234567", "0123456"] {
        keys.push(prefix.into());
        for last in [&[0][..], &[0, 0], &[1], b"a", b"b", b"ba", &[0x7f], &[0x80], &[0xff], &[0xff, 0]] {
            keys.push([prefix.as_bytes(), last].concat());
        }
    }
    for number in [1u64, 255, 256, 257, 1 << 31, 1 << 32, 1 << 56, u64::MAX - 255] {
        keys.push(number.to_be_bytes().to_vec());
    }
    keys.sort();
    keys.dedup();
    keys
}

/// Many keys of 8 bytes or of other lengths that share a long prefix, all different.
pub fn numbered(number: u64) -> Vec<u8> {
    match number % 3 {
        0 => (number << 32 | number).to_be_bytes().to_vec(),
        1 => format!("a prefix that many keys share:{number:08}").into_bytes(),
        _ => hash(0, &number.to_be_bytes()).to_be_bytes().to_vec(),
    }
}
