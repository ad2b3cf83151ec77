//! What the look-up of a key that is not there costs (section 3.3), for a study of it.
//!
//! ```text
//! front  empty        bucket --> chain: tag, place | tag, place | ..        place --> entry: a key that is there
//! look-up of a key that is there: its entry is read, and found          of one that is not: entries that are read are counted
//! ```
//!
//! Look-ups go the way that the machine's go: through the index, which asks whoever looks up to read what a tag speaks for.

use std::io;
use std::marker::PhantomData;
use std::sync::Arc;

use terrace_engine::hash::KeyHasher;
use terrace_engine::record::{Kind as RecordKind, NewRecord};
use terrace_index::{Address, Clht, Index, Lookup, Verdict};
use terrace_media::{ByteRegion, HeapRegion};

use crate::dram::Dram;
use crate::index::ScmIndex;
use crate::layout::{Bucket, EDGE_BYTES, Element, Leads, encode_entry};
use crate::medium::{Geometry, Medium};
use crate::table::PmTable;

/// Entries lie in the first page, and their chain in the second.
const PAGES: usize = 2;
const PAGE_BYTES: usize = 64 << 10;
/// What the medium's checksums are of.
const STORE_ID: u64 = 1;
/// DRAM in front of the table, which stays empty.
const FRAMES: usize = 1;
const FRONT_BUCKETS: u64 = 64;

/// The most elements that a bucket has here.
pub const ELEMENTS_MAX: usize = 512;

struct Bed {
    index: ScmIndex<HeapRegion, PmTable<HeapRegion>>,
    bytes: Vec<u8>,
}

impl Bed {
    /// A table of one bucket, which leads to keys 0 to `elements`.
    fn new(elements: usize, seed: u64) -> io::Result<Self> {
        let geometry = Geometry { page_bytes: PAGE_BYTES, buckets: 1, bytes: 0 };
        let bytes = geometry.least_bytes(PAGES);
        let region = Arc::new(HeapRegion::new(bytes)?);
        let medium = Arc::new(Medium::new(region, 0, Geometry { bytes, ..geometry }, STORE_ID));
        let table = Arc::new(PmTable::new(medium.clone(), KeyHasher::new(seed)));
        table.format();
        let (mut at, mut chain) = (medium.page_at(0) + EDGE_BYTES as u64, Vec::with_capacity(elements));
        let (mut record, mut entry) = (Vec::new(), Vec::new());
        for number in 0..elements as u64 {
            let key = number.to_be_bytes();
            record.clear();
            NewRecord {
                version: number + 1,
                kind: RecordKind::Value,
                db: 0,
                flags: 0,
                state: 0,
                expire_at: 0,
                token: 0,
                key: &key,
                value: &[],
            }
            .encode(&mut record);
            encode_entry(&record, &mut entry);
            medium.region.write_nt(medium.at(at), &entry);
            chain.push(Element::new(table.hasher.key(0, &key).hash, at));
            at += entry.len() as u64;
        }
        let at = medium.page_at(1) + EDGE_BYTES as u64;
        table.write_chain(at, 0, &chain);
        table.store(0, Bucket { leads: Leads::Chain(at), is_lost: false });
        medium.region.fence();
        let dram = Arc::new(Dram::new(FRAMES, PAGE_BYTES, 0));
        let front = Arc::new(Clht::with_min_buckets(FRONT_BUCKETS));
        Ok(Self { index: ScmIndex { front, directory: table, dram, region: PhantomData }, bytes: Vec::new() })
    }

    /// Looks a key up: whether it is there, and how many entries were read.
    fn look_up(&mut self, number: u64) -> (bool, u64) {
        let bytes = number.to_be_bytes();
        let table = &self.index.directory;
        let key = table.hasher.key(0, &bytes);
        let mut read = 0;
        let looked = self.index.get(&key, |address: Address| {
            read += 1;
            match table.medium.read_entry(address.raw(), &mut self.bytes) {
                Some(view) if view.key == bytes => Verdict::Match,
                Some(_) => Verdict::Differs,
                None => Verdict::NeedsRead,
            }
        });
        (matches!(looked, Lookup::Found(_)), read)
    }
}

/// Entries that are read while so many keys are looked up that are not in a bucket of so many elements; the seed is that of the keys' hashes.
///
/// # Errors
/// If there is no memory for the bucket.
///
/// # Panics
/// If the bucket has no chain, or too long a one: give 2 elements to [`ELEMENTS_MAX`]. If a key is not found that is there, or one
/// that is not: the look-ups would say nothing.
pub fn entries_read(elements: usize, lookups: u64, seed: u64) -> io::Result<u64> {
    assert!((2..=ELEMENTS_MAX).contains(&elements), "{elements} elements: give 2 to {ELEMENTS_MAX}");
    let mut bed = Bed::new(elements, seed)?;
    for number in 0..elements as u64 {
        assert!(bed.look_up(number).0, "key {number} of {elements} is not found");
    }
    let absent = elements as u64..elements as u64 + lookups;
    Ok(absent
        .map(|number| {
            let (found, read) = bed.look_up(number);
            assert!(!found, "key {number} is found in a bucket of {elements}");
            read
        })
        .sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_there_is_found_by_reading_its_entry() {
        let mut bed = Bed::new(16, 1).unwrap();
        for number in 0..16 {
            let (found, read) = bed.look_up(number);
            assert!(found && read >= 1, "key {number}: {read} entries read");
        }
    }

    /// Tags have 16 bits, so that a chain of so many elements is wrong about one look-up in 65,536 for each of them.
    #[test]
    fn entries_are_read_as_often_as_tags_of_16_bits_agree() {
        const LOOKUPS: u64 = 1_000_000;
        for elements in [16, ELEMENTS_MAX] {
            let read = entries_read(elements, LOOKUPS, 1).unwrap() as f64;
            let expected = LOOKUPS as f64 * elements as f64 / f64::from(1u32 << 16);
            // A chance of one in 16,000 if look-ups were independent of each other; they are always the same ones.
            assert!((read - expected).abs() < 4.0 * expected.sqrt(), "{elements}: {read} of {expected}");
        }
        assert_eq!(entries_read(16, LOOKUPS, 1).unwrap(), entries_read(16, LOOKUPS, 1).unwrap());
    }

    #[test]
    #[should_panic(expected = "give 2 to")]
    fn a_bucket_without_a_chain_is_refused() {
        let _ = entries_read(1, 1, 1);
    }
}
