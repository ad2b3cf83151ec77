//! Records of 64 bytes, and the operations on them.

use terrace_index::dram::prefer_huge_pages;
use terrace_index::{Address, Key, Verdict, prefetch};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::content::Content;
use crate::distribution::Generator;
use crate::rng::Rng;

/// The longest key: a record holds it and 8 bytes of value at least.
pub(super) const KEY_BYTES_MAX: usize = 56;

/// A key and a value, one cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Record(pub [u8; 64]);

/// All records, in huge pages where the kernel gives them, as an engine has them. An address is the record's number plus 1 in the low 32 bits and a version above, for records don't move.
pub(super) struct Records {
    records: Vec<Record>,
    key_bytes: usize,
    seed: u64,
}

/// One operation, with its key beside it.
#[derive(Clone, Copy)]
pub(super) struct Op {
    key: [u8; KEY_BYTES_MAX],
    pub number: u32,
    pub writes: bool,
}

impl Records {
    pub(super) fn new(count: u64, key_bytes: usize, seed: u64) -> Self {
        let content = Content::new(key_bytes, 64 - key_bytes, false, seed);
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let mut records = Vec::with_capacity(count as usize);
        prefer_huge_pages(records.spare_capacity_mut());
        records.extend((0..count).map(|number| {
            content.key(number, &mut key);
            content.value(number, number, &mut value);
            let mut record = Record([0; 64]);
            record.0[..key_bytes].copy_from_slice(&key);
            record.0[key_bytes..].copy_from_slice(&value);
            record
        }));
        Self { records, key_bytes, seed }
    }
    pub(super) fn len(&self) -> u64 {
        self.records.len() as u64
    }
    /// Operations of one thread, of which this many in a hundred write.
    pub(super) fn draw(&self, count: u64, generator: &Generator, writes: u64, rng: &mut Rng) -> Vec<Op> {
        let draw = |_| self.op(generator.draw(rng), rng.below(100) < writes);
        (0..count).map(draw).collect()
    }
    /// Writes of the records of one thread's share, in the order of their numbers; their keys are mixed.
    pub(super) fn share(&self, thread: usize, threads: usize) -> Vec<Op> {
        let bound = |thread| self.len() * thread as u64 / threads as u64;
        (bound(thread)..bound(thread + 1)).map(|number| self.op(number, true)).collect()
    }
    fn op(&self, number: u64, writes: bool) -> Op {
        let mut key = [0; KEY_BYTES_MAX];
        let bytes = &self.records[number as usize].0[..self.key_bytes];
        key[..self.key_bytes].copy_from_slice(bytes);
        Op { key, number: number as u32, writes }
    }
    /// The key of an operation, hashed.
    #[inline]
    pub(super) fn key<'a>(&self, op: &'a Op) -> Key<'a> {
        let bytes = &op.key[..self.key_bytes];
        Key { hash: xxh3_64_with_seed(bytes, self.seed), db: 0, bytes }
    }
    #[inline]
    fn at(&self, address: Address) -> &Record {
        &self.records[(address.raw() as u32 - 1) as usize]
    }
    #[inline]
    pub(super) fn prefetch(&self, address: Address) {
        prefetch(self.at(address));
    }
    /// Whether this record is the key's; if so, it is copied.
    #[inline]
    pub(super) fn verify(&self, key: &Key<'_>, address: Address, copy: &mut Record) -> Verdict {
        let record = self.at(address);
        if &record.0[..self.key_bytes] != key.bytes {
            return Verdict::Differs;
        }
        *copy = *record;
        Verdict::Match
    }
    /// Whether this is the address of the operation's record, in any version.
    #[inline]
    pub(super) fn is(&self, op: &Op, address: Address) -> bool {
        address.raw() as u32 == op.number + 1
    }
    /// The record's address in its first version.
    #[inline]
    pub(super) fn address(op: &Op) -> Address {
        Address::new(u64::from(op.number) + 1)
    }
    /// The address of the same record in its next version.
    #[inline]
    pub(super) fn next(address: Address) -> Address {
        const VERSIONS: u64 = 1 << (Address::BITS - 32);
        let version = (address.raw() >> 32) + 1;
        Address::new((version % VERSIONS) << 32 | address.raw() & u64::from(u32::MAX))
    }
}
