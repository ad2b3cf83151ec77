//! The hash table on the medium (SCMKV section 3.3): words that lead to an entry, or to a chain of tagged elements where several share a
//! bucket.
//!
//! # Thread safety
//! One thread at a time changes it, who holds the lock of the [`Keeper`](crate::keeper::Keeper). Readers take no lock: a word is loaded
//! whole, and what it leads to stays as it is until their epoch has passed.
//!
//! # Invariants
//! * A word leads to what is durable.
//! * A chain is never changed: another one takes its place.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use smallvec::{SmallVec, smallvec};
use terrace_engine::hash::KeyHasher;
use terrace_index::{Address, Lookup, Verdict};
use terrace_media::ByteRegion;

use crate::directory::LOST;
use crate::layout::{
    Bucket, Element, LINE_BYTES, Leads, chain_bytes, chain_count, decode_chain, encode_chain,
};
use crate::medium::Medium;

/// Chains up to here are read to the stack.
const SHORT_BYTES: usize = 512;

/// What a bucket holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Its elements.
    pub elements: SmallVec<[Element; 4]>,
    /// Whether something is lost.
    pub is_lost: bool,
    /// And that was found just now.
    pub is_damaged: bool,
    /// Its chain, if it has one: where, and how long.
    pub chain: Option<(u64, usize)>,
}

/// The table. See the module.
pub struct PmTable<R> {
    pub medium: Arc<Medium<R>>,
    pub hasher: KeyHasher,
    /// Records for each bucket.
    pub records_a_bucket: AtomicU64,
}

impl<R: ByteRegion> PmTable<R> {
    pub fn new(medium: Arc<Medium<R>>, hasher: KeyHasher) -> Self {
        Self { medium, hasher, records_a_bucket: AtomicU64::new(0) }
    }
    /// Makes every bucket an empty one; durable when it returns.
    pub fn format(&self) {
        const AT_ONCE: u64 = 512;
        let store_id = self.medium.store_id;
        for first in (0..self.buckets()).step_by(AT_ONCE as usize) {
            let last = (first + AT_ONCE).min(self.buckets());
            let words: Vec<u8> = (first..last)
                .flat_map(|bucket| Bucket::EMPTY.encode(bucket, store_id).to_le_bytes())
                .collect();
            self.medium.region.write_nt(self.medium.bucket_at(first), &words);
        }
        self.medium.region.fence();
    }
    /// Makes so many words safe that a dead process may have stored, from one on; durable when it returns. The one behind them.
    pub fn secure_words(&self, from: u64, count: u64) -> u64 {
        let end = (from + count).min(self.buckets());
        self.medium.region.flush(self.medium.bucket_at(from), (end - from) as usize * 8);
        self.medium.region.fence();
        end
    }
    /// How many buckets there are.
    #[inline]
    pub fn buckets(&self) -> u64 {
        self.medium.geometry.buckets
    }
    /// The bucket of a hash.
    #[inline]
    pub fn bucket_of(&self, hash: u64) -> u64 {
        hash & (self.buckets() - 1)
    }
    #[inline]
    pub fn prefetch_bucket(&self, hash: u64) {
        self.medium.region.prefetch(self.medium.bucket_at(self.bucket_of(hash)), 8);
    }
    /// Starts loading what a key's bucket leads to.
    pub fn prefetch_led(&self, hash: u64) {
        match self.load(self.bucket_of(hash)).map(|bucket| bucket.leads) {
            Some(Leads::Entry(at) | Leads::Chain(at)) if self.medium.page_of(at).is_some() => {
                self.medium.region.prefetch(self.medium.at(at), LINE_BYTES);
            }
            _ => {}
        }
    }
    fn load(&self, bucket: u64) -> Option<Bucket> {
        Bucket::decode(
            self.medium.region.load_u64(self.medium.bucket_at(bucket)),
            bucket,
            self.medium.store_id,
        )
    }

    /// Shows a chain's elements, if it is whole and of this bucket.
    #[inline]
    fn with_chain<T>(
        &self,
        at: u64,
        bucket: u64,
        show: impl FnOnce(&mut dyn DoubleEndedIterator<Item = Element>, usize) -> T,
    ) -> Option<T> {
        let medium = &*self.medium;
        medium.page_of(at)?;
        let rest = medium.rest_of_page(at);
        let mut short = [0; SHORT_BYTES];
        medium.region.read(medium.at(at), short.get_mut(..LINE_BYTES.min(rest))?);
        let bytes = chain_bytes(chain_count(&short));
        if bytes > rest {
            return None;
        }
        let mut long = Vec::new();
        let all = if bytes <= SHORT_BYTES {
            if bytes > LINE_BYTES {
                medium.region.read(medium.at(at) + LINE_BYTES as u64, &mut short[LINE_BYTES..bytes]);
            }
            &short[..bytes]
        } else {
            long.resize(bytes, 0);
            medium.region.read(medium.at(at), &mut long);
            &long
        };
        let (of, mut elements) = decode_chain(all, medium.store_id, at)?;
        (of == bucket).then(|| show(&mut elements, bytes))
    }

    /// Visits the places that may be a key's, until `visit` says to stop.
    #[inline]
    fn visit(&self, hash: u64, mut visit: impl FnMut(u64) -> bool) {
        let bucket = self.bucket_of(hash);
        let Some(found) = self.load(bucket) else {
            visit(LOST);
            return;
        };
        let mut is_lost = found.is_lost;
        match found.leads {
            Leads::Nowhere => {}
            Leads::Entry(at) => {
                if !visit(at) {
                    return;
                }
            }
            Leads::Chain(at) => {
                let shown = self.with_chain(at, bucket, |elements, _| {
                    elements.filter(|element| element.may_be(hash)).all(|element| visit(element.at()))
                });
                match shown {
                    Some(true) => {}
                    Some(false) => return,
                    None => is_lost = true,
                }
            }
        }
        if is_lost {
            visit(LOST);
        }
    }

    /// Looks a key up, verified as [`Index::get`](terrace_index::Index::get) says.
    #[inline]
    pub fn get_hash(&self, hash: u64, mut verify: impl FnMut(Address) -> Verdict) -> Lookup {
        let mut lookup = Lookup::Absent;
        self.visit(hash, |at| {
            let Some(address) = Address::from_raw(at) else { return true };
            match verify(address) {
                Verdict::Match => lookup = Lookup::Found(address),
                Verdict::Differs => {}
                Verdict::NeedsRead => lookup = Lookup::Unread(address),
            }
            !matches!(lookup, Lookup::Found(_))
        });
        lookup
    }
    /// The places that may be a key's.
    pub fn candidates_of(&self, hash: u64, mut show: impl FnMut(Address)) {
        self.visit(hash, |at| {
            Address::from_raw(at).into_iter().for_each(&mut show);
            true
        });
    }
    /// The same of several keys, whose chains are loaded at once.
    pub fn touch_hashes(&self, count: usize, hash: impl Fn(usize) -> u64, mut touch: impl FnMut(Address)) {
        let leads = |i: usize| {
            let bucket = self.bucket_of(hash(i));
            self.load(bucket).map_or(Leads::Nowhere, |bucket| bucket.leads)
        };
        for i in 0..count {
            match leads(i) {
                Leads::Nowhere => {}
                Leads::Entry(at) => Address::from_raw(at).into_iter().for_each(&mut touch),
                Leads::Chain(at) if self.medium.page_of(at).is_some() => {
                    self.medium.region.prefetch(self.medium.at(at), LINE_BYTES);
                }
                Leads::Chain(_) => {}
            }
        }
        for i in 0..count {
            if let Leads::Chain(at) = leads(i) {
                let may_be = |element: &Element| element.may_be(hash(i));
                self.with_chain(at, self.bucket_of(hash(i)), |elements, _| {
                    elements
                        .filter(may_be)
                        .filter_map(|element| Address::from_raw(element.at()))
                        .for_each(&mut touch);
                });
            }
        }
    }
    /// Whether a key's bucket leads to this place.
    pub fn has(&self, hash: u64, place: u64) -> bool {
        let mut is_there = false;
        self.visit(hash, |at| {
            is_there |= at == place;
            !is_there
        });
        is_there
    }
    /// What a bucket's word leads to, if it is whole.
    pub fn leads_of(&self, bucket: u64) -> Option<Leads> {
        self.load(bucket).map(|bucket| bucket.leads)
    }
    /// Where the buckets' chain stands that this one leads to.
    pub fn chain_of(&self, bucket: u64) -> Option<u64> {
        match self.leads_of(bucket)? {
            Leads::Chain(at) => Some(at),
            Leads::Nowhere | Leads::Entry(_) => None,
        }
    }

    /// All that a bucket holds.
    pub fn contents(&self, bucket: u64) -> Contents {
        self.contents_by(bucket, &mut Vec::new())
    }
    /// The same, with room to read an entry.
    pub fn contents_by(&self, bucket: u64, bytes: &mut Vec<u8>) -> Contents {
        let lost = Contents { is_lost: true, is_damaged: true, ..Contents::default() };
        let Some(found) = self.load(bucket) else { return lost };
        let is_lost = found.is_lost;
        match found.leads {
            Leads::Nowhere => Contents { is_lost, ..Contents::default() },
            Leads::Entry(at) => match self
                .medium
                .read_entry(at, bytes)
                .map(|view| self.hasher.key(view.head.meta.db(), view.key).hash)
            {
                Some(hash) if self.bucket_of(hash) == bucket => {
                    let elements = smallvec![Element::new(hash, at)];
                    Contents { elements, is_lost, ..Contents::default() }
                }
                _ => lost,
            },
            Leads::Chain(at) => self
                .with_chain(at, bucket, |elements, bytes| Contents {
                    elements: elements.collect(),
                    is_lost,
                    is_damaged: false,
                    chain: Some((at, bytes)),
                })
                .unwrap_or(lost),
        }
    }

    /// Writes a bucket's chain, for which there is this room; durable after a fence.
    pub fn write_chain(&self, at: u64, bucket: u64, elements: &[Element]) {
        let bytes = encode_chain(self.medium.store_id, at, bucket, elements);
        self.medium.region.write_nt(self.medium.at(at), &bytes);
    }
    /// Makes a bucket lead elsewhere; durable after a fence.
    pub fn store(&self, bucket: u64, to: Bucket) {
        let at = self.medium.bucket_at(bucket);
        self.medium.region.store_u64(at, to.encode(bucket, self.medium.store_id));
        self.medium.region.flush(at, 8);
    }
}
