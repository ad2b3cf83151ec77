//! What the explorations of both tables share.

use shuttle::rand::Rng;
use terrace_index::{Address, Change, Index, Key, Lookup, Verdict};

/// Explores `test` with two schedulers.
pub fn explore(test: impl Fn() + Send + Sync + Copy + 'static) {
    let iterations =
        std::env::var("SHUTTLE_ITERATIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(400);
    shuttle::check_random(test, iterations / 2);
    shuttle::check_pct(test, iterations / 2, 3);
}

/// The address of a key's record in some version.
pub fn address(key: u64, version: u64) -> Address {
    Address::new(key << 8 | version)
}

/// Verifies by the number in the address; a link mistaken for an entry has none.
pub fn is(number: u64) -> impl Fn(Address) -> Verdict {
    move |address| {
        let owner = address.raw() >> 8;
        assert_ne!(owner, 0, "{address:?} was never an address");
        if owner == number { Verdict::Match } else { Verdict::Differs }
    }
}

/// A key with this hash.
pub fn key(hash: u64) -> Key<'static> {
    Key { hash, db: 0, bytes: b"" }
}

/// Points the key with this number at this version.
pub fn set(index: &impl Index, hash: u64, number: u64, version: u64) {
    index.update(&key(hash), is(number), |_| (Change::Set(address(number, version)), ()));
}

/// Looks the key with this number up, alone or in a batch: both promise the same.
pub fn get(index: &impl Index, hash: u64, number: u64) -> Lookup {
    if shuttle::rand::thread_rng().r#gen() {
        return index.get(&key(hash), is(number));
    }
    let mut out = [Lookup::Absent];
    let touch =
        |candidate: Address| assert_ne!(candidate.raw() >> 8, 0, "{candidate:?} was never an address");
    index.get_batch(&[key(hash)], touch, |_, candidate| is(number)(candidate), &mut out);
    out[0]
}

/// All addresses, sorted.
pub fn scan(index: &impl Index) -> Vec<Address> {
    let (mut cursor, mut seen) = (0, Vec::new());
    loop {
        cursor = index.scan(cursor, &mut seen).unwrap_or_else(|| panic!("it has cursors"));
        if cursor == 0 {
            seen.sort_unstable();
            return seen;
        }
    }
}
