//! Look-ups without locks.
//!
//! # Thread safety
//! A probe takes what it reads from words that hold an entry at that moment; the record itself tells whose it is. So a hit
//! needs nothing more, except in slot 5, whose meaning the header must confirm. A *miss* stands only if
//! the hash still belongs to this bucket (no split took its entries away), *after that* the header's sequence was even and is unchanged
//! (nothing changed that this probe could have read half, and the bucket did not come back into use), and no memory was given
//! back; else the probe is repeated.
//! Probes wait for nobody but `update_many` (EXCLUSIVE) and, on a miss, the few stores of a moving entry (odd sequence).
//!
//! # Why the loads are ordered
//! All loads acquire. A writer's stores release and come after its LOCK and odd sequence, so a probe that read one of them
//! finds a changed header at its end, and the number of buckets that the writer knew, or a later one.

use std::sync::atomic::Ordering::Acquire;

use super::Clht;
use super::bucket::{Bucket, EXCLUSIVE, LINK, LINK_SLOT, LOCK, SEQUENCE, SLOTS, Tag};
use crate::linear::bucket_of;
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

/// A hash's bucket, and what was so before anything else was read.
#[derive(Clone, Copy)]
pub(super) struct Start<'a> {
    ground: Ground,
    bucket: &'a Bucket,
    header: u32,
    hash: u64,
}

#[cfg(all(test, not(shuttle), not(miri)))]
impl Start<'_> {
    /// The bucket's header as it was.
    pub(super) fn header(&self) -> u32 {
        self.header
    }
}

impl Clht {
    /// Looks up. Most hits are the first entry with the tag, in the bucket's own line: that case is inlined, with one call of
    /// `verify` and no branch on what the line holds. In all other cases the probe starts over.
    #[inline]
    pub(super) fn probe(&self, key: &Key<'_>, mut verify: impl FnMut(Address) -> Verdict) -> Lookup {
        let start = self.start(key.hash);
        match self.first(&start) {
            Some(address) if verify(address) == Verdict::Match => Lookup::Found(address),
            _ => self.probe_rest(start, verify),
        }
    }

    /// Most other hits are the first entry with the tag in the first overflow bucket.
    #[inline(never)]
    fn probe_rest(&self, start: Start<'_>, mut verify: impl FnMut(Address) -> Verdict) -> Lookup {
        let number = self.overflow(&start);
        if number != 0
            && let Some(address) = self.first_in_overflow(start.hash, number)
            && verify(address) == Verdict::Match
        {
            return Lookup::Found(address);
        }
        self.probe_all(start, verify)
    }

    /// The first similar entry in the bucket's own line, if it is easily told. It was there during the call.
    #[inline]
    pub(super) fn first(&self, start: &Start<'_>) -> Option<Address> {
        if start.header & (EXCLUSIVE | SEQUENCE) != 0 {
            return None;
        }
        let (slot, address) = start.bucket.first(self.tag(start.hash))?;
        // Confirms that word 5 was an entry.
        (slot != LINK_SLOT || start.header & LINK == 0 && self.stands(start)).then_some(address)
    }

    #[inline(never)]
    fn probe_all<'a>(&'a self, mut start: Start<'a>, mut verify: impl FnMut(Address) -> Verdict) -> Lookup {
        let backoff = Backoff::new();
        loop {
            let mut unread = None;
            match self.pass(start, EXCLUSIVE, judge(&mut verify, &mut unread)) {
                Pass::Stopped(address) => return Lookup::Found(address),
                Pass::Complete => return unread.map_or(Lookup::Absent, Lookup::Unread),
                Pass::Disturbed => backoff.wait(),
            }
            start = self.start(start.hash);
        }
    }

    /// Visits every entry whose stored bits match, as far as they can be read without waiting.
    pub(super) fn visit_candidates(&self, hash: u64, mut visit: impl FnMut(Address)) {
        let _: Pass<()> = self.pass(self.start(hash), 0, |address| {
            visit(address);
            None
        });
    }

    /// Whether this very entry is there.
    pub(super) fn probe_exact(&self, hash: u64, address: Address) -> bool {
        let backoff = Backoff::new();
        loop {
            let visit = |candidate| (candidate == address).then_some(());
            match self.pass(self.start(hash), EXCLUSIVE, visit) {
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
    pub(super) fn start(&self, hash: u64) -> Start<'_> {
        let ground = self.ground();
        self.start_at(self.bucket(hash, ground), ground, hash)
    }

    /// The table as it is now; read before anything else.
    #[inline]
    pub(super) fn ground(&self) -> Ground {
        let releases = self.releases.load(Acquire);
        Ground { releases, buckets: self.buckets.load(Acquire) }
    }

    /// A hash's bucket; nothing of it is read.
    #[inline]
    pub(super) fn bucket(&self, hash: u64, ground: Ground) -> &Bucket {
        self.segments.get(bucket_of(hash, ground.buckets))
    }

    /// Where a probe starts, for the bucket of a hash.
    #[inline]
    pub(super) fn start_at<'a>(&self, bucket: &'a Bucket, ground: Ground, hash: u64) -> Start<'a> {
        Start { ground, bucket, header: bucket.header.load(Acquire), hash }
    }

    /// The number of the first overflow bucket; 0 if there is none, or if that isn't easily told.
    #[inline]
    pub(super) fn overflow(&self, start: &Start<'_>) -> u32 {
        if start.header & (EXCLUSIVE | SEQUENCE | LINK) != LINK {
            return 0;
        }
        let number = start.bucket.link() as u32;
        if number == 0 || !self.stands(start) {
            return 0;
        }
        number
    }

    /// The first similar entry in an overflow bucket. Whatever chain that belongs to by now, the entry was there just now.
    #[inline]
    pub(super) fn first_in_overflow(&self, hash: u64, number: u32) -> Option<Address> {
        self.pool.get(number).first(self.tag(hash)).map(|(_, address)| address)
    }

    /// Whether nothing but the lock itself changed in the bucket since `start`.
    #[inline]
    pub(super) fn stands(&self, start: &Start<'_>) -> bool {
        // A bucket whose memory was given back counts its changes from 0 again, so that the header alone might deceive.
        (start.bucket.header.load(Acquire) ^ start.header) & !LOCK == 0
            && self.releases.load(Acquire) == start.ground.releases
    }

    /// Visits the matching entries of a hash once. A header with a bit of `wait_for` set disturbs.
    fn pass<T>(
        &self,
        start: Start<'_>,
        wait_for: u32,
        mut visit: impl FnMut(Address) -> Option<T>,
    ) -> Pass<T> {
        let Start { ground, bucket: main, header, hash } = start;
        let tag = self.tag(hash);
        if header & wait_for != 0 {
            return Pass::Disturbed;
        }
        if let Some(stop) = visit_matching(main, LINK_SLOT, tag, &mut visit) {
            return Pass::Stopped(stop);
        }
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
                if let Some(stop) = visit_matching(bucket, SLOTS, tag, &mut visit) {
                    return Pass::Stopped(stop);
                }
                next = bucket.next();
            }
        }
        // First whose the hash is by now, then whether the bucket is as it was. The other way round a bucket that was merged away
        // before its header was read, and so is empty, could be split off again in between.
        let number = bucket_of(hash, ground.buckets);
        if bucket_of(hash, self.buckets.load(Acquire)) == number && self.stands(&start) {
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

/// Visits the matching entries of a line's first `slots` slots.
// A miss is little else, and a call for it is a thirtieth of what it costs.
#[inline(always)]
fn visit_matching<T>(
    bucket: &Bucket,
    slots: usize,
    tag: Tag,
    visit: &mut impl FnMut(Address) -> Option<T>,
) -> Option<T> {
    let similar = bucket.similar(tag).filter(|&slot| slot < slots);
    similar.filter_map(|slot| bucket.matching(slot, tag)).find_map(visit)
}
