//! Records of 64 bytes, the key first, in huge pages where the kernel gives them.

use terrace_index::{Address, Verdict, prefetch};

use crate::huge::Huge;
use crate::keys;

/// A record: the key and 56 bytes of value.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub struct Record {
    pub key: u64,
    pub value: [u64; 7],
}

/// All records. Number `i` has the address `i + 1`.
pub struct Records(Huge<Record>);

impl Records {
    /// Fills `count` records.
    pub fn new(count: u64) -> Self {
        Self(Huge::new(count as usize, |i| Record { key: keys::key(i), value: [i; 7] }))
    }
    /// How many there are.
    pub fn count(&self) -> u64 {
        self.0.count()
    }
    /// A record by its number.
    #[inline]
    pub fn at(&self, number: u64) -> &Record {
        self.0.at(number)
    }
    /// The address of a record by its number.
    pub fn address(&self, number: u64) -> Address {
        Address::new(number + 1)
    }
    #[inline]
    fn of(&self, address: Address) -> &Record {
        self.at(address.raw() - 1)
    }
    /// Compares the record's key.
    #[inline]
    pub fn verify(&self, key: u64, address: Address) -> Verdict {
        if self.of(address).key == key { Verdict::Match } else { Verdict::Differs }
    }
    /// Copies all 64 bytes.
    #[inline]
    pub fn copy(&self, address: Address, to: &mut Record) {
        *to = *self.of(address);
    }
    /// Starts loading a record.
    #[inline]
    pub fn prefetch(&self, address: Address) {
        prefetch(self.of(address));
    }
}
