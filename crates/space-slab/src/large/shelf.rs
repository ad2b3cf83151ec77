//! Which large values have copies, in the order of CLOCK's hand.

use std::collections::HashMap;
use std::sync::Arc;

use terrace_blocks::{Piece, newest_piece};

use super::pool::Copied;
use terrace_policy::Count;

/// Copies that the hand passes at most for one value that wants to enter.
const PASSED_MAX: usize = 64;

/// What names a large value: where its newest piece begins, and in which use of its block. Each value writes one, and it is written
/// once, so the name never stands for anything else, and a copy never gets old.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Id {
    seq: u64,
    slot: u32,
    offset: u32,
}

impl Id {
    /// The name of what this describes; `None` if it can't be a description, or is that of an empty value.
    pub fn of(description: &[u8]) -> Option<Self> {
        newest_piece(description).map(|Piece { seq, slot, offset, .. }| Self { seq, slot, offset })
    }
    /// A number to choose a shelf by.
    pub fn spread(self) -> usize {
        let mixed = (self.seq ^ u64::from(self.offset) << 20).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed >> 40) as usize
    }
}

struct Kept {
    id: Id,
    hash: u64,
    /// Read since the hand passed.
    seen: bool,
    copied: Arc<Copied>,
}

/// See the module.
#[derive(Default)]
pub(super) struct Shelf {
    places: HashMap<Id, usize>,
    ring: Vec<Option<Kept>>,
    vacant: Vec<usize>,
    hand: usize,
}

impl Shelf {
    /// Whether there is a copy.
    pub fn has(&self, id: Id) -> bool {
        self.places.contains_key(&id)
    }
    /// The copy, to be read: it is hotter now. Beside it the hash of its key.
    pub fn read(&mut self, id: Id) -> Option<(u64, Arc<Copied>)> {
        let kept = self.ring[*self.places.get(&id)?].as_mut()?;
        kept.seen = true;
        Some((kept.hash, kept.copied.clone()))
    }
    /// Puts a copy in. One that is there already stays.
    pub fn put(&mut self, id: Id, hash: u64, copied: Copied) {
        if self.has(id) {
            return;
        }
        let place = self.vacant.pop().unwrap_or_else(|| {
            self.ring.push(None);
            self.ring.len() - 1
        });
        self.ring[place] = Some(Kept { id, hash, seen: false, copied: Arc::new(copied) });
        self.places.insert(id, place);
    }
    /// Takes a copy away, if there is one.
    pub fn remove(&mut self, id: Id) {
        if let Some(place) = self.places.remove(&id) {
            self.ring[place] = None;
            self.vacant.push(place);
        }
    }
    /// Takes copies away until `chunks` chunks are free, if all that have to go were read so much less often than `count` says of
    /// the one that wants to enter (an *aggregated victim*: it pays for all of them). Whether they have gone.
    pub fn displace(
        &mut self,
        chunks: usize,
        beats: impl Fn(u32) -> bool,
        count: impl Fn(u64) -> Count,
    ) -> bool {
        let (mut victims, mut freed, mut reads) = (Vec::new(), 0, 0);
        for _ in 0..PASSED_MAX {
            if freed >= chunks {
                break;
            }
            let Some(kept) = self.next() else { return false };
            if victims.contains(&kept.id) {
                return false;
            }
            reads += count(kept.hash).in_sixteenths();
            freed += kept.copied.chunks();
            victims.push(kept.id);
            if !beats(reads) {
                return false;
            }
        }
        if freed < chunks {
            return false;
        }
        victims.into_iter().for_each(|id| self.remove(id));
        true
    }
    /// The next one to go: how often it was read, and its chunks.
    pub fn coldest(&mut self, count: impl Fn(u64) -> Count) -> Option<(Count, usize)> {
        let kept = self.next()?;
        let (hash, chunks) = (kept.hash, kept.copied.chunks());
        // Asked, not sent away: the hand stays before it.
        self.hand = self.hand.checked_sub(1).unwrap_or(self.ring.len() - 1);
        Some((count(hash), chunks))
    }
    /// The next one to go goes, whatever it is. Its chunks, which are free once nobody reads them.
    pub fn drop_one(&mut self) -> Option<usize> {
        let kept = self.next()?;
        let (id, chunks) = (kept.id, kept.copied.chunks());
        self.remove(id);
        Some(chunks)
    }
    /// What the hand stops at; it has moved on.
    fn next(&mut self) -> Option<&Kept> {
        if self.places.is_empty() {
            return None;
        }
        loop {
            self.hand = (self.hand + 1) % self.ring.len();
            match &mut self.ring[self.hand] {
                Some(kept) if kept.seen => kept.seen = false,
                Some(_) => return self.ring[self.hand].as_ref(),
                None => {}
            }
        }
    }
    /// How many values have copies, and their bytes.
    pub fn held(&self) -> (u64, u64) {
        let bytes = self.ring.iter().flatten().map(|kept| kept.copied.bytes() as u64);
        bytes.fold((0, 0), |(values, sum), bytes| (values + 1, sum + bytes))
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::super::pool::Pool;
    use super::*;

    fn id(number: u32) -> Id {
        Id { seq: 1, slot: 2, offset: number }
    }

    /// A shelf with copies of one chunk each, read as often as said.
    fn shelf(reads: &[u32]) -> (Shelf, Arc<Pool>, impl Fn(u64) -> Count) {
        let pool = Arc::new(Pool::new(16, 64));
        let mut shelf = Shelf::default();
        for i in 0..reads.len() {
            let copied = pool.take(64, 16).into_iter();
            copied.for_each(|copied| shelf.put(id(i as u32), i as u64, copied));
        }
        let reads = reads.to_vec();
        (shelf, pool, move |hash| Count::whole(reads[hash as usize]))
    }

    #[test]
    fn one_that_enters_pays_for_all_that_go() {
        let (mut full, pool, count) = shelf(&[1, 2, 9, 4]);
        let than = |count: u32| move |reads| Count::whole(count).in_sixteenths() > reads;
        assert!(!full.displace(2, than(3), &count), "2 + 9 or 1 + 2, wherever the hand is, is not below 3");
        assert_eq!(full.held(), (4, 256));
        assert!(full.displace(1, than(10), &count));
        assert_eq!((full.held().0, pool.held()), (3, 3));
        assert!(!full.displace(4, than(1000), &count), "there are three");
        assert_eq!(full.held().0, 3);
    }

    #[test]
    fn what_was_read_is_passed_once() {
        let (mut full, _, count) = shelf(&[1, 1, 1]);
        let first = |full: &mut Shelf| (0..3).find(|i| !full.has(id(*i)));
        for i in [0, 1] {
            assert_eq!(full.read(id(i)).unwrap().0, u64::from(i));
        }
        assert!(full.read(id(7)).is_none());
        assert_eq!(full.coldest(&count), Some((Count::ONE, 1)));
        assert_eq!((full.drop_one(), first(&mut full)), (Some(1), Some(2)), "it was not read");
        assert_eq!((full.drop_one(), full.drop_one(), full.drop_one()), (Some(1), Some(1), None));
        assert_eq!(full.held(), (0, 0));
        let pool = Arc::new(Pool::new(16, 64));
        full.put(id(3), 3, pool.take(64, 16).unwrap());
        full.put(id(3), 3, pool.take(64, 16).unwrap());
        full.remove(id(4));
        assert_eq!((full.held().0, pool.held()), (1, 1), "one copy of each");
    }
}
