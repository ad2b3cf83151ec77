//! Iteration over the hash table, and what is in front of it: by hash, without state.

use terrace_index::linear::{depth_of, next_cursor};
use terrace_index::{Address, Index};
use terrace_media::ByteRegion;

use crate::index::ScmIndex;
use crate::table::PmTable;

impl<R: ByteRegion> ScmIndex<R, PmTable<R>> {
    /// As [`Index::scan`].
    pub(crate) fn scan_buckets(&self, cursor: u64, out: &mut Vec<Address>) -> u64 {
        let buckets = self.directory.buckets();
        let bucket = cursor & (buckets - 1);
        let next = next_cursor(cursor, depth_of(bucket, buckets));
        // Before the table: what leaves the front meanwhile is in the table by then.
        let fresh = self.fresh_of(bucket, cursor, next);
        let (mut bytes, mut key) = (Vec::new(), Vec::new());
        for element in self.directory.contents(bucket).elements {
            let is_replaced = !fresh.is_empty()
                && self.directory.medium.read_entry(element.at(), &mut bytes).is_some_and(|view| {
                    fresh.iter().any(|address| {
                        let db = self.dram.key_of(*address, &mut key);
                        (db, &key[..]) == (view.head.meta.db(), view.key)
                    })
                });
            if !is_replaced {
                out.extend(Address::from_raw(element.at()));
            }
        }
        out.extend(fresh);
        next
    }
    /// What the front has of a bucket of the table, which covers the hashes from one cursor to the next.
    fn fresh_of(&self, bucket: u64, cursor: u64, next: u64) -> Vec<Address> {
        let (mut found, mut key) = (Vec::new(), Vec::new());
        let mut at = cursor;
        while let Some(after) = self.front.scan(at, &mut found) {
            let is_past = after == 0 || next != 0 && after.reverse_bits() >= next.reverse_bits();
            if is_past {
                break;
            }
            at = after;
        }
        // Buckets of the front are no parts of the table's: one may cover several.
        found.retain(|address| {
            let db = self.dram.key_of(*address, &mut key);
            self.directory.bucket_of(self.directory.hasher.key(db, &key).hash) == bucket
        });
        found
    }
}
