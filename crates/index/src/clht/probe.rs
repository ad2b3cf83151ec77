//! Look-ups without locks.
//!
//! # Thread safety
//! A probe takes what it reads from words that hold an entry at that moment; the record itself tells whose it is. So a hit
//! needs nothing more, except in slot 5, whose meaning the header must confirm. A *miss* stands only if
//! the header's sequence was even and is unchanged (nothing changed that this probe could have read half), no memory was given back, and the hash
//! still belongs to this bucket (no split took its entries away); else the probe is repeated.
//! Probes wait for nobody but `update_many` (EXCLUSIVE) and, on a miss, the few stores of a moving entry (odd sequence).
//!
//! # Why the loads are ordered
//! All loads acquire. A writer's stores release and come after its LOCK and odd sequence, so a probe that read one of them
//! finds a changed header at its end, and the number of buckets that the writer knew, or a later one.

use std::sync::atomic::Ordering::Acquire;

use super::Clht;
use super::bucket::{Bucket, EXCLUSIVE, LINK, LINK_SLOT, LOCK, SEQUENCE, SLOTS, Tag};
use super::mapping::bucket_of;
use crate::sync::Backoff;
use crate::{Address, Key, Lookup, Verdict};

/// How one pass over a chain ended.
enum Pass<T> {
    /// The visitor returned this.
    Stopped(T),
    /// Every entry with the tag was visited.
    Complete,
    /// Something changed meanwhile: entries may have been missed.
    Disturbed,
}

/// The table before anything else was read.
#[derive(Clone, Copy)]
pub(super) struct Ground {
    /// How often memory had been given back.
    releases: u64,
    buckets: u64,
}

/// A hash's bucket; nothing of it was read yet.
#[derive(Clone, Copy)]
pub(super) struct Spot<'a> {
    number: u64,
    bucket: &'a Bucket,
}

impl<'a> Spot<'a> {
    /// The bucket.
    pub(super) fn bucket(self) -> &'a Bucket {
        self.bucket
    }
}

/// A hash's bucket, and what was so before anything else was read.
#[derive(Clone, Copy)]
pub(super) struct Start<'a> {
    /// How often memory had been given back.
    releases: u64,
    number: u64,
    bucket: &'a Bucket,
    header: u32,
    tag: Tag,
}

impl Clht {
    /// Looks up. Most hits are the first entry with the tag, in the bucket's own line: that case is inlined, with one call of
    /// `verify`. Where the line has no such entry the probe goes on elsewhere, and in all other cases it starts over.
    ///
    /// One look-up at a time is faster with a branch for each slot than with [`first`](Self::first), a batch is not: measured
    /// side by side, by a fifth.
    #[inline]
    pub(super) fn probe(&self, key: &Key<'_>, mut verify: impl FnMut(Address) -> Verdict) -> Lookup {
        let start = self.start(key.hash);
        if start.header & EXCLUSIVE == 0 {
            match (0..LINK_SLOT).find_map(|slot| start.bucket.matching(slot, start.tag)) {
                None => return self.probe_rest(key.hash, start, verify),
                Some(address) if verify(address) == Verdict::Match => return Lookup::Found(address),
                Some(_) => {}
            }
        }
        self.probe_all(key.hash, verify)
    }

    /// The first similar entry in the bucket's own line, if it is easily told; for batches. It was there during the call.
    #[inline]
    pub(super) fn first(&self, start: &Start<'_>) -> Option<Address> {
        if start.header & (EXCLUSIVE | SEQUENCE) != 0 {
            return None;
        }
        let similar = start.bucket.similar(start.tag, start.header & LINK != 0);
        if similar == 0 {
            return None;
        }
        let slot = similar.trailing_zeros() as usize;
        let address = start.bucket.matching(slot, start.tag)?;
        // Confirms that word 5 was an entry.
        (slot < LINK_SLOT || self.stands(start)).then_some(address)
    }

    /// Goes on where the line's first five slots hold nothing.
    #[inline(never)]
    fn probe_rest(&self, hash: u64, start: Start<'_>, mut verify: impl FnMut(Address) -> Verdict) -> Lookup {
        let mut unread = None;
        match self.pass_rest(hash, start, judge(&mut verify, &mut unread)) {
            Pass::Stopped(address) => Lookup::Found(address),
            Pass::Complete => unread.map_or(Lookup::Absent, Lookup::Unread),
            Pass::Disturbed => self.probe_all(hash, verify),
        }
    }

    #[inline(never)]
    fn probe_all(&self, hash: u64, mut verify: impl FnMut(Address) -> Verdict) -> Lookup {
        let backoff = Backoff::new();
        loop {
            let mut unread = None;
            match self.pass(hash, EXCLUSIVE, judge(&mut verify, &mut unread)) {
                Pass::Stopped(address) => return Lookup::Found(address),
                Pass::Complete => return unread.map_or(Lookup::Absent, Lookup::Unread),
                Pass::Disturbed => backoff.wait(),
            }
        }
    }

    /// Visits every entry whose stored bits match, as far as they can be read without waiting.
    pub(super) fn visit_candidates(&self, hash: u64, mut visit: impl FnMut(Address)) {
        let _: Pass<()> = self.pass(hash, 0, |address| {
            visit(address);
            None
        });
    }

    /// Whether this very entry is there.
    pub(super) fn probe_exact(&self, hash: u64, address: Address) -> bool {
        let backoff = Backoff::new();
        loop {
            match self.pass(hash, EXCLUSIVE, |candidate| (candidate == address).then_some(())) {
                Pass::Stopped(()) => return true,
                Pass::Complete => return false,
                Pass::Disturbed => backoff.wait(),
            }
        }
    }

    /// Starts loading a hash's bucket.
    #[inline]
    pub(super) fn prefetch_bucket(&self, hash: u64) {
        self.segments.prefetch(bucket_of(hash, self.buckets.load(Acquire)));
    }

    /// Where a probe starts.
    #[inline]
    fn start(&self, hash: u64) -> Start<'_> {
        let ground = self.ground();
        self.start_at(self.spot(hash, ground), ground, hash)
    }

    /// The table as it is now; read before anything else.
    #[inline]
    pub(super) fn ground(&self) -> Ground {
        let releases = self.releases.load(Acquire);
        Ground { releases, buckets: self.buckets.load(Acquire) }
    }

    /// A hash's bucket.
    #[inline]
    pub(super) fn spot(&self, hash: u64, ground: Ground) -> Spot<'_> {
        let number = bucket_of(hash, ground.buckets);
        Spot { number, bucket: self.segments.get(number) }
    }

    /// Where a probe starts, for the bucket of a hash.
    #[inline]
    pub(super) fn start_at<'a>(&self, spot: Spot<'a>, ground: Ground, hash: u64) -> Start<'a> {
        let Spot { number, bucket } = spot;
        let header = bucket.header.load(Acquire);
        Start { releases: ground.releases, number, bucket, header, tag: self.tag(hash) }
    }

    /// The number of the first overflow bucket, which starts being loaded; 0 if there is none, or if that isn't easily told.
    #[inline]
    pub(super) fn overflow(&self, start: &Start<'_>) -> u32 {
        if start.header & (EXCLUSIVE | SEQUENCE | LINK) != LINK {
            return 0;
        }
        let number = start.bucket.link() as u32;
        if number == 0 || !self.stands(start) {
            return 0;
        }
        self.pool.prefetch(number);
        number
    }

    /// The first similar entry in an overflow bucket. Whatever chain that belongs to by now, the entry was there just now.
    #[inline]
    pub(super) fn first_in_overflow(&self, hash: u64, number: u32) -> Option<Address> {
        let (bucket, tag) = (self.pool.get(number), self.tag(hash));
        (0..SLOTS).find_map(|slot| bucket.matching(slot, tag))
    }

    /// Whether nothing but the lock itself changed in the bucket since `start`.
    #[inline]
    fn stands(&self, start: &Start<'_>) -> bool {
        // A bucket whose memory was given back counts its changes from 0 again, so that the header alone might deceive.
        (start.bucket.header.load(Acquire) ^ start.header) & !LOCK == 0
            && self.releases.load(Acquire) == start.releases
    }

    /// Visits the matching entries of a hash once. A header with a bit of `wait_for` set disturbs.
    fn pass<T>(&self, hash: u64, wait_for: u32, mut visit: impl FnMut(Address) -> Option<T>) -> Pass<T> {
        let start = self.start(hash);
        if start.header & wait_for != 0 {
            return Pass::Disturbed;
        }
        match visit_slots(start.bucket, LINK_SLOT, start.tag, &mut visit) {
            Some(stop) => Pass::Stopped(stop),
            None => self.pass_rest(hash, start, visit),
        }
    }

    /// The second half of a pass: slot 5 or the overflow buckets, and whether all that was read stands.
    #[inline]
    fn pass_rest<T>(
        &self,
        hash: u64,
        start: Start<'_>,
        mut visit: impl FnMut(Address) -> Option<T>,
    ) -> Pass<T> {
        let Start { number, bucket: main, header, tag, .. } = start;
        if header & SEQUENCE != 0 {
            return Pass::Disturbed;
        }
        if header & LINK == 0 {
            if let Some(address) = main.matching(LINK_SLOT, tag) {
                // Confirms that word 5 was an entry.
                if !self.stands(&start) {
                    return Pass::Disturbed;
                }
                if let Some(stop) = visit(address) {
                    return Pass::Stopped(stop);
                }
            }
        } else {
            let mut next = main.link() as u32;
            while next != 0 {
                // Confirms, at the first turn, that word 5 was a link, and later that this is still the same chain.
                if !self.stands(&start) {
                    return Pass::Disturbed;
                }
                let bucket = self.pool.get(next);
                if let Some(stop) = visit_slots(bucket, SLOTS, tag, &mut visit) {
                    return Pass::Stopped(stop);
                }
                next = bucket.next();
            }
        }
        if self.stands(&start) && bucket_of(hash, self.buckets.load(Acquire)) == number {
            Pass::Complete
        } else {
            Pass::Disturbed
        }
    }
}

/// A visitor that stops at a match and remembers the first entry that needs a read.
#[inline]
fn judge<'a>(
    verify: &'a mut impl FnMut(Address) -> Verdict,
    unread: &'a mut Option<Address>,
) -> impl FnMut(Address) -> Option<Address> + 'a {
    |address| match verify(address) {
        Verdict::Match => Some(address),
        Verdict::Differs => None,
        Verdict::NeedsRead => {
            unread.get_or_insert(address);
            None
        }
    }
}

/// Visits the matching entries of the first `slots` slots.
#[inline]
fn visit_slots<T>(
    bucket: &Bucket,
    slots: usize,
    tag: Tag,
    visit: &mut impl FnMut(Address) -> Option<T>,
) -> Option<T> {
    (0..slots).filter_map(|slot| bucket.matching(slot, tag)).find_map(visit)
}
