//! All entries, saved and loaded: 10 bytes each and 2 a bucket, for a bucket's number says what an entry does not store.
//!
//! ```text
//! head      0 base_bits:u64   8 buckets:u64   16 entries:u64
//! segment   0 first bucket:u64   8 buckets:u64   16 for each bucket: entries:u16, then each entry's word:u64 and extra:u16
//! ```
//!
//! # Thread safety
//! Nobody else uses the table. While it is loaded each bucket is filled by the thread that read its segment.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering::*};

use super::bucket::Entry;
use super::chain::Chain;
use super::{Clht, MIN_BUCKETS_MAX};
use crate::linear::depth_of;
use crate::snapshot::{Expected, Placed, ReadSegment, Snapshot, TakeSegment};

/// Bytes of a segment before its first bucket.
const SEGMENT_HEAD: usize = 16;

/// What a segment that was loaded held.
#[derive(Default)]
struct Loaded {
    buckets: u64,
    entries: u64,
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the index that was saved: {what}"))
}

fn words<const N: usize>(bytes: &[u8]) -> Option<[u64; N]> {
    let mut words = [0; N];
    for (word, bytes) in words.iter_mut().zip(bytes.get(..N * 8)?.chunks_exact(8)) {
        *word = u64::from_le_bytes(bytes.try_into().ok()?);
    }
    Some(words)
}

impl Snapshot for Clht {
    fn save(
        &self,
        segment_bytes: usize,
        placed: Placed<'_>,
        segment: TakeSegment<'_>,
    ) -> io::Result<Vec<u8>> {
        let buckets = self.buckets.load(Acquire);
        let mut entries = 0;
        let mut bytes = vec![0; SEGMENT_HEAD];
        let mut first = 0;
        for number in 0..=buckets {
            let mut bucket = vec![0; 2];
            if number < buckets {
                let chain = Chain::lock(&self.segments, number, &self.pool)
                    .ok_or_else(|| io::Error::other("the index shrinks while it is saved"))?;
                for entry in chain.entries() {
                    let to = entry.address().and_then(&mut *placed);
                    let to = to.ok_or_else(|| io::Error::other("an entry of the index has no place"))?;
                    bucket.extend_from_slice(&Entry::new(entry.tag(), to).encode());
                }
                let held = (bucket.len() - 2) / Entry::BYTES;
                let held =
                    u16::try_from(held).map_err(|_| io::Error::other("a bucket of the index is too full"))?;
                bucket[..2].copy_from_slice(&held.to_le_bytes());
                entries += u64::from(held);
            }
            if number == buckets || bytes.len() + bucket.len() > segment_bytes {
                if number == first {
                    return Err(io::Error::other("a bucket of the index is longer than a segment"));
                }
                bytes[..8].copy_from_slice(&first.to_le_bytes());
                bytes[8..SEGMENT_HEAD].copy_from_slice(&(number - first).to_le_bytes());
                segment(&bytes)?;
                bytes.truncate(SEGMENT_HEAD);
                first = number;
            }
            bytes.extend_from_slice(&bucket);
        }
        Ok([u64::from(self.segments.base_bits()), buckets, entries].map(u64::to_le_bytes).concat())
    }

    fn load(
        &mut self,
        head: &[u8],
        segments: u32,
        threads: usize,
        read: ReadSegment<'_>,
        expected: Expected<'_>,
    ) -> io::Result<()> {
        let smallest = self.buckets_min();
        let loaded = self.load_all(head, segments, threads, read, expected);
        if loaded.is_err() {
            *self = Self::with_min_buckets(smallest);
        }
        loaded
    }
}

impl Clht {
    fn load_all(
        &mut self,
        head: &[u8],
        segments: u32,
        threads: usize,
        read: ReadSegment<'_>,
        expected: Expected<'_>,
    ) -> io::Result<()> {
        let [base_bits, buckets, entries] = words::<3>(head).ok_or_else(|| broken("its head is short"))?;
        if base_bits > u64::from(MIN_BUCKETS_MAX.ilog2()) {
            return Err(broken("it begins with more buckets than a table may"));
        }
        *self = Self::with_min_buckets(1 << base_bits);
        if !(self.buckets_min()..=self.segments.limit()).contains(&buckets) {
            return Err(broken("its number of buckets is impossible"));
        }
        let mut begin = self.buckets_min();
        while begin < buckets {
            if !self.segments.ensure(begin) {
                return Err(io::Error::other("no memory for the buckets of the index"));
            }
            begin *= 2;
        }
        let next = AtomicU32::new(0);
        let table = &*self;
        let work = || -> io::Result<Loaded> {
            let (mut all, mut bytes) = (Loaded::default(), Vec::new());
            loop {
                let number = next.fetch_add(1, Relaxed);
                if number >= segments {
                    return Ok(all);
                }
                // Whoever fails leaves nothing to do for the others.
                let part = read(number, &mut bytes).and_then(|()| table.fill(&bytes, buckets, expected));
                let part = part.inspect_err(|_| next.store(segments, Relaxed))?;
                all.buckets += part.buckets;
                all.entries += part.entries;
            }
        };
        let mut all = Loaded::default();
        let parts: Vec<io::Result<Loaded>> = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads.min(segments as usize)).map(|_| scope.spawn(work)).collect();
            let mine = work();
            let join = |other: std::thread::ScopedJoinHandle<'_, _>| {
                other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            std::iter::once(mine).chain(others.into_iter().map(join)).collect()
        });
        for part in parts {
            let part = part?;
            all.buckets += part.buckets;
            all.entries += part.entries;
        }
        if (all.buckets, all.entries) != (buckets, entries) {
            return Err(broken("its segments hold other numbers of buckets and entries than it says"));
        }
        self.buckets.store(buckets, Release);
        self.count.add(entries);
        Ok(())
    }

    /// Fills the buckets of a segment.
    fn fill(&self, bytes: &[u8], buckets: u64, expected: Expected<'_>) -> io::Result<Loaded> {
        let short = || broken("a segment is short");
        let [first, count] = words::<2>(bytes).ok_or_else(short)?;
        if first.checked_add(count).is_none_or(|end| end > buckets) {
            return Err(broken("a segment is of buckets that there are none of"));
        }
        let mut rest = &bytes[SEGMENT_HEAD..];
        let mut entries = 0;
        for number in first..first + count {
            let (held, more) = rest.split_at_checked(2).ok_or_else(short)?;
            let held = usize::from(u16::from_le_bytes([held[0], held[1]]));
            let (list, more) = more.split_at_checked(held * Entry::BYTES).ok_or_else(short)?;
            rest = more;
            let mut chain = if self.segments.in_first(number) {
                Chain::lock(&self.segments, number, &self.pool).ok_or_else(|| broken("a bucket is gone"))?
            } else {
                let chain = Chain::revive(self.segments.get(number), &self.pool);
                chain.ok_or_else(|| broken("a bucket is in two segments"))?
            };
            // These hash bits say which bucket an entry is in.
            let known = depth_of(number, buckets) - self.segments.base_bits();
            for bytes in list.chunks_exact(Entry::BYTES) {
                let entry = Entry::decode(bytes).ok_or_else(|| broken("an entry is empty"))?;
                let strange =
                    (entry.stored() ^ number >> self.segments.base_bits()) & ((1 << known) - 1) != 0;
                if strange || !entry.address().is_some_and(expected) {
                    return Err(broken("an entry points where nothing is, or is of another bucket"));
                }
                chain.insert(entry);
            }
            entries += held as u64;
        }
        if !rest.is_empty() {
            return Err(broken("a segment is long"));
        }
        Ok(Loaded { buckets: count, entries })
    }
}

#[cfg(all(test, not(shuttle), not(miri)))]
mod tests {
    use super::*;
    use crate::{Address, Change, Index, Key, Lookup, Verdict};

    fn key(hash: u64) -> Key<'static> {
        Key { hash, db: 0, bytes: b"" }
    }
    fn hash(n: u64) -> u64 {
        n.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
    /// Entries with addresses 1 to `entries`; of some buckets very many.
    fn table(entries: u64) -> Clht {
        let table = Clht::with_min_buckets(4);
        for n in 1..=entries {
            let hash = if n % 5 == 0 { hash(n) & !0xfff } else { hash(n) };
            table.update(&key(hash), |_| Verdict::Differs, |_| (Change::Insert(Address::new(n)), ()));
        }
        table
    }
    fn saved(table: &Clht, segment_bytes: usize) -> (Vec<u8>, Vec<Vec<u8>>) {
        let mut segments = Vec::new();
        let mut moved = |address: Address| Address::from_raw(address.raw() + 1000);
        let mut take = |bytes: &[u8]| {
            assert!(bytes.len() <= segment_bytes);
            segments.push(bytes.to_vec());
            Ok(())
        };
        let Ok(head) = table.save(segment_bytes, &mut moved, &mut take) else { panic!("it is saved") };
        (head, segments)
    }
    fn load(into: &mut Clht, head: &[u8], segments: &[Vec<u8>], threads: usize) -> io::Result<()> {
        let read = |number: u32, bytes: &mut Vec<u8>| {
            bytes.clone_from(&segments[number as usize]);
            Ok(())
        };
        into.load(head, segments.len() as u32, threads, &read, &|address| address.raw() > 1000)
    }

    #[test]
    fn what_was_saved_is_loaded_and_goes_on() {
        for entries in [0, 1, 30, 3000] {
            let (head, segments) = saved(&table(entries), 16 << 10);
            for (threads, begin) in [(1, 4), (3, 1 << 10)] {
                let mut loaded = Clht::with_min_buckets(begin);
                load(&mut loaded, &head, &segments, threads).unwrap();
                assert_eq!(loaded.len(), entries);
                let mut all = Vec::new();
                loaded.for_each(&mut |address| all.push(address.raw()));
                all.sort_unstable();
                assert_eq!(all, (1001..=1000 + entries).collect::<Vec<_>>());
                // It grows and shrinks as if it had never been anything else.
                for n in 1..=2 * entries {
                    let hash = if n % 5 == 0 && n <= entries { hash(n) & !0xfff } else { hash(n) };
                    let at = Address::new(n + 1000);
                    if n > entries {
                        loaded.update(&key(hash), |_| Verdict::Differs, |_| (Change::Insert(at), ()));
                    }
                    let verify = |to| if to == at { Verdict::Match } else { Verdict::Differs };
                    assert_eq!(loaded.get(&key(hash), verify), Lookup::Found(at));
                }
                for n in 1..=2 * entries {
                    let hash = if n % 5 == 0 && n <= entries { hash(n) & !0xfff } else { hash(n) };
                    assert!(loaded.remove(&key(hash), Address::new(n + 1000)));
                }
                assert!(loaded.is_empty());
            }
        }
    }

    #[test]
    fn what_is_not_what_was_saved_leaves_an_empty_table() {
        let (head, segments) = saved(&table(500), 2048);
        let refused = |head: &[u8], segments: &[Vec<u8>]| {
            let mut loaded = table(7);
            let result = load(&mut loaded, head, segments, 2);
            assert!(result.is_err() && loaded.is_empty() && loaded.overflow_buckets() == 0);
        };
        refused(&head[..16], &segments);
        refused(&head, &segments[1..]);
        let mut twice = segments.clone();
        twice.push(segments[0].clone());
        refused(&head, &twice);
        for at in [0, 8, 16] {
            let mut other = head.clone();
            other[at] ^= 1;
            refused(&other, &segments);
        }
        let mut shorter = segments.clone();
        shorter[1].pop();
        refused(&head, &shorter);
        let mut longer = segments.clone();
        longer[1].push(0);
        refused(&head, &longer);
        // An address that is not expected.
        let mut moved = segments;
        moved[2][18..24].fill(0);
        refused(&head, &moved);
    }

    #[test]
    fn a_bucket_longer_than_a_segment_and_an_entry_without_a_place_are_not_saved() {
        let table = table(300);
        let mut none = |_: &[u8]| Ok(());
        assert!(table.save(40, &mut |address| Some(address), &mut none).is_err());
        assert!(table.save(4096, &mut |_| None, &mut none).is_err());
    }
}
