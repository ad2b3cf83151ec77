//! The policy that DRAM was opened with, and the lists of those that keep some.
//!
//! ```text
//!   session   touch --> access word;  and for a policy with lists:  slot --> its buffer --rest--> Told --.
//!   step      let go, touched, filled <------------------------------------------------------------------'
//!               '--> Part of the class: a policy's lists, and which slots are in them
//! ```
//!
//! CLOCK is the default and inlined: a session asks for nothing but whether there is another one. The others are called through
//! a table of functions (`part.rs`).
//!
//! # Invariants
//! * A session waits for nobody: what finds its buffer or [`Told`] full is dropped and counted. So lists may lag, or miss a
//!   slot; a sweep finds those some time. What is told is of slots that may hold another record by now.
//! * A slot that is let go leaves its list before it can be taken again: in the step that sees it in `retired`.

use std::sync::Arc;
use std::sync::atomic::Ordering::*;

use crate::eviction::{Eviction, GateName, PolicyName};
use crate::part::{AnyPolicy, Part, Shared};
use crate::sync::{AtomicU32, AtomicU64, Mutex};
use terrace_policy::{
    Access, Alru, Beats, Clock, Count, Everyone, Gate, Hot, LazyLru, LazyLruPaper, Lru, Now, Policy, S3Fifo,
    SampledLru, Sieve, Thresholds, Tier,
};

/// What a session keeps to tell, at most.
const BUFFERED_MAX: usize = 256;
/// What waits for the next step, at most.
const TOLD_MAX: usize = 1 << 16;
/// In what is told: the slot holds a record that is new there.
const FILLED: u64 = 1;

/// A policy with a name that is not CLOCK.
struct Other {
    policy: Box<dyn AnyPolicy>,
    /// It wants to hear of every n-th touch; 0: of none.
    accessed_every: u32,
    /// It keeps lists of slots.
    has_lists: bool,
}

impl Other {
    fn of<P: Policy>(policy: P, has_lists: bool) -> Option<Self> {
        Some(Self {
            policy: Box::new(Shared(Arc::new(policy))),
            accessed_every: P::ACCESSED_EVERY,
            has_lists,
        })
    }
}

/// What sessions tell background steps.
#[derive(Default)]
struct Told {
    /// Offsets of slots, which are multiples of 16, and [`FILLED`].
    slots: Mutex<Vec<u64>>,
    dropped: AtomicU64,
}

/// What a session has to tell.
#[derive(Default)]
pub(crate) struct ToTell {
    slots: Vec<u64>,
    touches: u32,
    dropped: u64,
}

impl ToTell {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }
    fn push(&mut self, told: u64) {
        if self.slots.len() < BUFFERED_MAX {
            self.slots.push(told);
        } else {
            self.dropped += 1;
        }
    }
}

/// See the module.
pub(crate) struct Chosen {
    /// None: CLOCK.
    other: Option<Other>,
    gate: GateName,
    hashes: bool,
    /// THR_hot and THR_warm, in sixteenths.
    thresholds: [AtomicU32; 2],
    told: Told,
}

impl Chosen {
    pub fn new(eviction: Eviction) -> Self {
        let other = match eviction.policy {
            PolicyName::Clock => None,
            PolicyName::LazyLru => Other::of(LazyLru::new(Tier::Dram), false),
            PolicyName::LazyLruPaper => Other::of(LazyLruPaper::new(Tier::Dram), false),
            PolicyName::Lru => Other::of(Lru, true),
            PolicyName::Alru => Other::of(Alru, false),
            PolicyName::SampledLru => Other::of(SampledLru, true),
            PolicyName::S3Fifo => Other::of(S3Fifo, true),
            PolicyName::Sieve => Other::of(Sieve, true),
        };
        Self {
            other,
            gate: eviction.gate,
            hashes: eviction.policy == PolicyName::S3Fifo,
            thresholds: Default::default(),
            told: Told::default(),
        }
    }
    /// Whether it is the default, whose words need the epoch alone.
    #[inline]
    pub fn is_clock(&self) -> bool {
        self.other.is_none()
    }
    /// Whether it has lists, which must hear of slots.
    #[inline]
    pub fn has_lists(&self) -> bool {
        self.other.as_ref().is_some_and(|other| other.has_lists)
    }
    /// Whether its lists ask for hashes.
    pub fn asks_for_hashes(&self) -> bool {
        self.hashes
    }
    /// The word after a touch.
    #[inline]
    pub fn touched(&self, access: Access, now: Now) -> Access {
        match &self.other {
            None => Clock.touched(access, now),
            Some(other) => other.policy.touched(access, now),
        }
    }
    /// What a word counts.
    #[inline]
    pub fn count(&self, access: Access, now: Now) -> Count {
        match &self.other {
            None => Clock.count(access, now),
            Some(other) => other.policy.count(access, now),
        }
    }
    /// The word of who enters.
    #[inline]
    pub fn entering(&self, count: Count, now: Now) -> Access {
        match &self.other {
            None => Clock.entering(count, now),
            Some(other) => other.policy.entering(count, now),
        }
    }
    /// Whether a record may enter DRAM that was read so often.
    pub fn admits(&self, count: Count, rival: Option<Count>) -> bool {
        let none = Thresholds::default();
        match self.gate {
            GateName::All => Everyone.admits(Tier::Dram, count, rival, &none),
            GateName::Beats => Beats.admits(Tier::Dram, count, rival, &none),
            GateName::Hot => {
                let [hot, warm] = [0, 1].map(|i: usize| Count::sixteenths(self.thresholds[i].load(Relaxed)));
                Hot.admits(Tier::Dram, count, rival, &Thresholds { hot, warm })
            }
        }
    }
    /// New thresholds, for policy and gate.
    pub fn set_thresholds(&self, thresholds: Thresholds) {
        self.thresholds[0].store(thresholds.hot.in_sixteenths(), Relaxed);
        self.thresholds[1].store(thresholds.warm.in_sixteenths(), Relaxed);
        if let Some(other) = &self.other {
            other.policy.set_thresholds(thresholds);
        }
    }

    /// A session touched a slot: lists hear of it, if they want to.
    pub fn tell_touched(&self, to_tell: &mut ToTell, offset: u64) {
        let Some(other) = self.other.as_ref().filter(|other| other.accessed_every > 0) else { return };
        to_tell.touches += 1;
        if to_tell.touches >= other.accessed_every {
            to_tell.touches = 0;
            to_tell.push(offset);
        }
    }
    /// A session put a record into a slot that held another one, or none.
    #[inline]
    pub fn tell_filled(&self, to_tell: &mut ToTell, offset: u64) {
        if self.has_lists() {
            to_tell.push(offset | FILLED);
        }
    }
    /// Hands over what a session has to tell, unless somebody else has the lock: then the next time.
    #[cold]
    pub fn hand_over(&self, to_tell: &mut ToTell) {
        let Some(mut told) = self.told.slots.try_lock() else { return };
        let room = TOLD_MAX.saturating_sub(told.len()).min(to_tell.slots.len());
        told.extend(to_tell.slots.drain(..room));
        to_tell.dropped += to_tell.slots.len() as u64;
        to_tell.slots.clear();
        drop(told);
        self.told.dropped.fetch_add(std::mem::take(&mut to_tell.dropped), Relaxed);
    }
    /// Background work put a record into a slot.
    pub fn note_filled(&self, offset: u64) {
        if self.has_lists() {
            let mut told = self.told.slots.lock();
            if told.len() < TOLD_MAX {
                told.push(offset | FILLED);
            }
        }
    }
    /// What was told, oldest first: slots, and whether they were filled.
    pub fn take_told(&self) -> impl Iterator<Item = (u64, bool)> + use<> {
        let told = std::mem::take(&mut *self.told.slots.lock());
        told.into_iter().map(|told| (told & !FILLED, told & FILLED != 0))
    }
    /// How much of what sessions had to tell was dropped.
    pub fn dropped(&self) -> u64 {
        self.told.dropped.load(Relaxed)
    }
    /// A part for a class.
    pub fn part(&self) -> Part {
        let part = match &self.other {
            None => Shared(Arc::new(Clock)).part(),
            Some(other) => other.policy.part(),
        };
        Part::new(part, self.has_lists())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lru() -> Chosen {
        Chosen::new("lru".parse().unwrap())
    }

    #[test]
    fn lists_hear_what_sessions_tell_and_clock_asks_for_nothing() {
        let (chosen, mut to_tell) = (lru(), ToTell::default());
        chosen.tell_filled(&mut to_tell, 32);
        chosen.tell_touched(&mut to_tell, 16);
        chosen.hand_over(&mut to_tell);
        assert!(to_tell.is_empty());
        assert_eq!(chosen.take_told().collect::<Vec<_>>(), [(32, true), (16, false)]);
        let sampled = Chosen::new("sampled-lru".parse().unwrap());
        (0..250).for_each(|i| sampled.tell_touched(&mut to_tell, i * 16));
        sampled.hand_over(&mut to_tell);
        assert_eq!(sampled.take_told().collect::<Vec<_>>(), [(99 * 16, false), (199 * 16, false)]);
        let clock = Chosen::new(Eviction::default());
        clock.tell_filled(&mut to_tell, 32);
        clock.tell_touched(&mut to_tell, 16);
        assert!(to_tell.is_empty() && clock.is_clock() && !clock.has_lists());
    }

    #[test]
    fn whoever_tells_too_much_is_not_waited_for() {
        let (chosen, mut to_tell) = (lru(), ToTell::default());
        (0..1000).for_each(|i| chosen.tell_touched(&mut to_tell, i * 16));
        {
            let _held = chosen.told.slots.lock();
            chosen.hand_over(&mut to_tell);
            assert!(!to_tell.is_empty(), "kept for the next time");
        }
        chosen.hand_over(&mut to_tell);
        assert_eq!(chosen.dropped(), 1000 - BUFFERED_MAX as u64);
        for _ in 0..TOLD_MAX / BUFFERED_MAX + 3 {
            (0..BUFFERED_MAX as u64).for_each(|i| chosen.tell_touched(&mut to_tell, i * 16));
            chosen.hand_over(&mut to_tell);
        }
        assert_eq!(chosen.take_told().count(), TOLD_MAX);
        assert!(chosen.dropped() > 1000);
    }

    #[test]
    fn gates_go_by_what_they_are_told() {
        let admits = |name: &str, count, rival: Option<u32>| {
            let chosen = Chosen::new(name.parse().unwrap());
            chosen.set_thresholds(Thresholds { hot: Count::whole(4), warm: Count::ONE });
            chosen.admits(Count::whole(count), rival.map(Count::whole))
        };
        assert!(admits("lru", 0, Some(9)), "all");
        assert!(admits("lru/hot", 5, Some(9)) && !admits("lru/hot", 4, None));
        assert!(admits("clock", 5, Some(2)) && !admits("clock", 4, Some(2)));
    }
}
