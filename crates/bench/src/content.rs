//! Keys and values: made from record numbers, so that what is read can be checked without remembering it.
//!
//! ```text
//!   key    | record number, mixed, big-endian (8 bytes) | padding '.'
//!   value  | nonce (8) | mix(record, nonce) (8) | run of a fixed pool of random bytes, chosen by the second word
//! ```
//!
//! Values of under 16 bytes are a run of the pool chosen by the record alone.

use crate::permute::Permutation;
use crate::rng::{Rng, mix};

/// Places in the pool where a value can start.
const STARTS: u64 = 1 << 16;
const HEAD: usize = 16;
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Makes and checks keys and values; shared by all threads.
pub struct Content {
    key_bytes: usize,
    value_bytes: usize,
    text: bool,
    order: Permutation,
    pool: Vec<u8>,
}

/// How many bits of record number a key of this length holds.
pub fn key_bits(key_bytes: usize, text: bool) -> u32 {
    let per_byte = if text { 6 } else { 8 };
    (key_bytes.min(11) as u32 * per_byte).min(64)
}

impl Content {
    /// Keys and values of these lengths; `text` keeps keys printable.
    pub fn new(key_bytes: usize, value_bytes: usize, text: bool, seed: u64) -> Self {
        let mut rng = Rng::new(seed, u64::from_be_bytes(*b"contents"));
        let len = STARTS as usize + value_bytes + 8;
        let mut pool: Vec<u8> = (0..len / 8 + 1).flat_map(|_| rng.next_u64().to_le_bytes()).collect();
        pool.truncate(len);
        let order = Permutation::of_bits(key_bits(key_bytes, text), seed ^ 0x6B65_7973);
        Self { key_bytes, value_bytes, text, order, pool }
    }

    /// Bytes of a key and a value together.
    pub fn payload_bytes(&self) -> u64 {
        (self.key_bytes + self.value_bytes) as u64
    }

    /// Length of every value.
    pub fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// Writes a record's key into `out`.
    #[inline]
    pub fn key(&self, record: u64, out: &mut Vec<u8>) {
        out.clear();
        let mixed = self.order.apply(record);
        if self.text {
            let digits = self.key_bytes.min(11);
            out.extend((0..digits).map(|digit| ALPHABET[(mixed >> (6 * digit) & 63) as usize]));
        } else {
            let bytes = mixed.to_be_bytes();
            out.extend_from_slice(&bytes[8 - self.key_bytes.min(8)..]);
        }
        out.resize(self.key_bytes, b'.');
    }

    /// Writes a value of a record into `out`; another nonce gives another value.
    #[inline]
    pub fn value(&self, record: u64, nonce: u64, out: &mut Vec<u8>) {
        out.clear();
        if self.value_bytes < HEAD {
            out.extend_from_slice(self.run(mix(record), self.value_bytes));
        } else {
            let bound = bind(record, nonce);
            out.extend_from_slice(&nonce.to_le_bytes());
            out.extend_from_slice(&bound.to_le_bytes());
            out.extend_from_slice(self.run(bound, self.value_bytes - HEAD));
        }
    }

    /// Whether these bytes are a value of this record, whole and unmixed.
    pub fn is_value(&self, record: u64, bytes: &[u8]) -> bool {
        if bytes.len() != self.value_bytes {
            return false;
        }
        if self.value_bytes < HEAD {
            return bytes == self.run(mix(record), self.value_bytes);
        }
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        let bound = bind(record, word(0));
        word(8) == bound && bytes[HEAD..] == *self.run(bound, self.value_bytes - HEAD)
    }

    fn run(&self, choice: u64, len: usize) -> &[u8] {
        let start = (choice % STARTS) as usize;
        &self.pool[start..start + len]
    }
}

fn bind(record: u64, nonce: u64) -> u64 {
    mix(mix(record).wrapping_add(nonce))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn keys_differ_and_have_their_length() {
        for (key_bytes, text) in
            [(2, false), (3, true), (8, false), (8, true), (11, true), (24, false), (40, true)]
        {
            let content = Content::new(key_bytes, 8, text, 1);
            let mut seen = HashSet::new();
            let mut key = Vec::new();
            for record in 0..20_000 {
                content.key(record, &mut key);
                assert_eq!(key.len(), key_bytes);
                assert!(!text || key.iter().all(|byte| byte.is_ascii_graphic()));
                assert!(seen.insert(key.clone()), "record {record} repeats a key of {key_bytes} bytes");
            }
        }
    }

    #[test]
    fn values_are_told_from_other_records_and_from_damage() {
        for value_bytes in [0, 1, 15, 16, 17, 64, 1000] {
            let content = Content::new(8, value_bytes, false, 1);
            let (mut value, mut other) = (Vec::new(), Vec::new());
            content.value(7, 99, &mut value);
            content.value(7, 100, &mut other);
            assert!(content.is_value(7, &value) && content.is_value(7, &other));
            if value_bytes >= 15 {
                assert!(!content.is_value(8, &value));
                value[value_bytes / 2] ^= 1;
                assert!(!content.is_value(7, &value), "damage in {value_bytes} bytes goes unseen");
            }
            if value_bytes >= HEAD {
                assert_ne!(value, other);
            }
            value.push(0);
            assert!(!content.is_value(7, &value));
        }
    }
}
