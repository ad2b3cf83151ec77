//! Keys and records shared by the tests of the index.
//!
//! A record's address says whose it is: `key << 20 | version`, so that any thread can verify without a lock.

use terrace_index::{Address, Clht, Index, Key, LockFree, Verdict};

/// Bits of an address below the key's number.
pub const VERSION_BITS: u32 = 20;

/// The address of a key's record in some version (below 2^20); keys count from 1.
pub fn address(key: u64, version: u64) -> Address {
    assert!(key > 0 && version < 1 << VERSION_BITS);
    Address::new(key << VERSION_BITS | version)
}

/// Whose record this is.
pub fn owner(address: Address) -> u64 {
    address.raw() >> VERSION_BITS
}

/// The version of a record.
pub fn version(address: Address) -> u64 {
    address.raw() & ((1 << VERSION_BITS) - 1)
}

/// A well-mixed hash of a key's number (SplitMix64's finaliser).
pub fn mix(key: u64) -> u64 {
    let mut z = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// A key with this hash. The index never looks at its bytes.
pub fn with_hash(hash: u64) -> Key<'static> {
    Key { hash, db: 0, bytes: b"" }
}

/// The key with this number.
pub fn key(number: u64) -> Key<'static> {
    with_hash(mix(number))
}

/// Verifies by the owner in the address.
pub fn is(number: u64) -> impl Fn(Address) -> Verdict {
    move |address| {
        assert_ne!(owner(address), 0, "{address:?} was never an address");
        if owner(address) == number { Verdict::Match } else { Verdict::Differs }
    }
}

/// An index that these tests can make.
pub trait Subject: Index + std::fmt::Debug + Sized {
    /// An empty one, as small as it gets: `buckets` to begin with, where there are buckets.
    fn with_buckets(buckets: u64) -> Self;
}

impl Subject for Clht {
    fn with_buckets(buckets: u64) -> Self {
        Self::with_min_buckets(buckets)
    }
}

impl Subject for LockFree {
    fn with_buckets(buckets: u64) -> Self {
        Self::with_min_buckets(buckets)
    }
}

/// Makes a test of each function for each index: `on_every_index!(first, second);`, where each is `fn first<I: Subject>()`.
#[macro_export]
macro_rules! on_every_index {
    ($($name:ident),+ $(,)?) => {
        $crate::on_every_index!(@index clht, terrace_index::Clht, $($name),+);
        $crate::on_every_index!(@index lockfree, terrace_index::LockFree, $($name),+);
    };
    (@index $module:ident, $index:ty, $($name:ident),+) => {
        mod $module {
            $(
                #[test]
                fn $name() {
                    super::$name::<$index>();
                }
            )+
        }
    };
}

/// All addresses, by steps of a scan; `between` runs after each step but the last.
pub fn scan_all(index: &impl Index, mut between: impl FnMut()) -> Vec<Address> {
    let (mut cursor, mut seen) = (0, Vec::new());
    loop {
        cursor = index.scan(cursor, &mut seen).unwrap();
        if cursor == 0 {
            return seen;
        }
        between();
    }
}

/// Whose entries a scan returns, sorted.
pub fn scan_owners(index: &impl Index) -> Vec<u64> {
    let mut owners: Vec<u64> = scan_all(index, || {}).into_iter().map(owner).collect();
    owners.sort_unstable();
    owners
}
