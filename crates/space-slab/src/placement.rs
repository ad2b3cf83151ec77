//! Placements: which tier a record lies in, of those that there are. All decisions in which they differ are here.
//!
//! ```text
//!              tac, anti-tuple          anti-2                           anti-nvm
//!   put        DRAM                     DRAM or PMem, where more is free DRAM, and a slot of PMem is kept free for it
//!   read, SSD  DRAM, else PMem          DRAM or PMem, where more is free PMem
//!   read, PMem DRAM                     -                                DRAM, a copy
//!   DRAM's     PMem if it beats its     SSD                              PMem
//!   victim     next victim, else SSD
//!   round      home on the SSD          home on the SSD                  home in PMem
//!   PMem's     any; the home of a       any                              not the home of a record in DRAM, if another can go
//!   victim     record in DRAM counts
//!              as never read
//! ```
//!
//! What may leave DRAM (rule R1), when a location is published (R2) and that a record in DRAM is in the log or has a home (R3)
//! is no decision of theirs. Without a middle tier there is nothing to decide: all are `tac`.
//!
//! # A put of `anti-2` that belongs in PMem
//! A session never writes PMem slots: what it has put is not settled yet, and fills are the business of background steps. So
//! the record enters DRAM and is *bound* for PMem: the next eviction step copies it there as it does with a victim, once it is
//! settled. Until then reads find it in DRAM. What is put over a record in PMem is bound for PMem: a set is no way up.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::Ordering::*;

use terrace_blocks::Lower;
use terrace_index::Address;

use crate::location::Location;
use crate::middle::Middle;
use crate::space::SlabSpace;
use crate::sync::AtomicU64;
use terrace_policy::Tier;

/// What to do with three tiers: TaC's way, or one that it is compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// Each record in the tier that its temperature earns.
    #[default]
    Tac,
    /// DRAM and PMem are one pool, over the SSD.
    Anti2,
    /// DRAM is a cache of PMem, which is over the SSD.
    AntiNvm,
    /// The paper's name for `tac` without its hybrid swapping: records come up one by one.
    AntiTuple,
}

impl Placement {
    /// All, by name.
    pub const ALL: [(&'static str, Self); 4] = [
        ("tac", Self::Tac),
        ("anti-2", Self::Anti2),
        ("anti-nvm", Self::AntiNvm),
        ("anti-tuple", Self::AntiTuple),
    ];
    /// As users name it.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, placement)| *placement == self).map_or("", |(name, _)| name)
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Placement {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(name, _)| *name == text);
        found.map(|(_, placement)| *placement).ok_or_else(|| {
            let names = Self::ALL.map(|(name, _)| name).join(" or ");
            format!("there is no placement {text:?}: expected {names}")
        })
    }
}

/// Where a record may go that was read from a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Up {
    /// To DRAM, or if that does not take it, to PMem.
    Either,
    /// To this tier, or nowhere.
    To(Tier),
}

/// Where a record goes that leaves DRAM and whose home, if it has one, is a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Down {
    /// To PMem if it is worth a slot there, else to the SSD.
    Worth,
    /// To PMem if a slot is to be had, else to the SSD.
    Middle,
    /// To the SSD.
    Page,
}

/// What PMem's hand does with slots that are homes of records in DRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lent {
    /// Nobody reads them there, so each counts as a record that is never read.
    CountsNothing,
    /// It passes them by.
    Stays,
    /// As with others.
    LikeOthers,
}

/// Deals records out to two tiers in proportion to their sizes.
#[derive(Default)]
pub(crate) struct Dealer(AtomicU64);

impl Dealer {
    /// Who gets the next one: the tier of `first` bytes, or the other one of `second`?
    fn is_first(&self, first: u64, second: u64) -> bool {
        let all = (first + second).max(1);
        self.0.fetch_add(first, Relaxed) % all < first
    }
}

impl<L: Lower> SlabSpace<L> {
    /// The placement in force, and the tier that it is about.
    #[inline]
    fn placed(&self) -> (Placement, Option<&Middle>) {
        match &self.middle {
            Some(middle) => (self.options.placement, Some(middle)),
            None => (Placement::Tac, None),
        }
    }

    /// Put: whether a record that gets a slot of DRAM is bound for PMem. `old` is where its older version is.
    #[inline]
    pub(crate) fn is_bound(&self, old: Option<Address>) -> bool {
        match self.placed() {
            (Placement::Anti2, Some(middle)) => match old.map(|at| self.locations.location(at)) {
                Some(Location::Pmem(_)) => true,
                Some(Location::Dram(_)) => false,
                Some(Location::Page(..)) | None => self.by_free_bytes(middle) == Tier::Pmem,
            },
            _ => false,
        }
    }

    /// Read from a page: where it may go.
    pub(crate) fn up_from_page(&self) -> Up {
        match self.placed() {
            (Placement::Anti2, Some(middle)) => Up::To(self.by_free_bytes(middle)),
            (Placement::AntiNvm, Some(_)) => Up::To(Tier::Pmem),
            _ => Up::Either,
        }
    }

    /// Read from PMem: whether it may go to DRAM.
    pub(crate) fn goes_up_from_middle(&self) -> bool {
        self.options.placement != Placement::Anti2
    }

    /// DRAM's victim: where it goes.
    pub(crate) fn down_from_dram(&self) -> Down {
        match self.placed().0 {
            Placement::Tac | Placement::AntiTuple => Down::Worth,
            Placement::Anti2 => Down::Page,
            Placement::AntiNvm => Down::Middle,
        }
    }

    /// PMem holds all that DRAM does: rounds make homes there, and homes stay.
    #[inline]
    pub(crate) fn dram_is_in_middle(&self) -> bool {
        self.placed().0 == Placement::AntiNvm
    }

    /// What PMem's hand does with homes of records in DRAM. Where PMem need not hold what DRAM does, each is a slot that a record
    /// could have which is nowhere else above the SSD.
    pub(crate) fn lent_slots(&self) -> Lent {
        if self.dram_is_in_middle() { Lent::Stays } else { Lent::CountsNothing }
    }

    /// Of each class of PMem, how many slots must be free so that what is in DRAM alone finds its slot: a guess, by how long
    /// records in PMem are.
    pub(crate) fn slots_kept(&self, middle: &Middle) -> Vec<usize> {
        let slabs = &middle.slabs;
        if !self.dram_is_in_middle() {
            return vec![0; slabs.classes()];
        }
        let dirty: i64 = self.slabs.table.iter().map(|slab| slab.dirty.load(Relaxed).max(0)).sum();
        let held: Vec<usize> =
            (0..slabs.classes()).map(|class| slabs.held(class) * slabs.slots_in(class)).collect();
        let all = held.iter().sum::<usize>().max(1);
        // With a DRAM as large as PMem all would be kept, and nothing but homes would be there.
        held.iter().map(|&held| (held * dirty as usize / all).min(held / 2)).collect()
    }

    /// The tier that has the larger share of its bytes free. Once both are full each evicts as much as comes to it, and what is
    /// free tells of their steps, not of room: then they take turns by size, as slots of one pool would be let go.
    fn by_free_bytes(&self, middle: &Middle) -> Tier {
        let dram = (self.slabs.free_slabs() as u64, self.slabs.target.frames() as u64);
        let pmem = (middle.slabs.free_slabs() as u64, middle.slabs.end() as u64);
        if dram.0 + pmem.0 > 0 {
            // Shares, times both sizes.
            return if dram.0 * pmem.1 >= pmem.0 * dram.1 { Tier::Dram } else { Tier::Pmem };
        }
        let bytes = (dram.1 * self.slabs.slab_bytes as u64, pmem.1 * middle.slabs.slab_bytes as u64);
        if self.dealer.is_first(bytes.0, bytes.1) { Tier::Dram } else { Tier::Pmem }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_wrong_ones_told_with_those_there_are() {
        for (name, placement) in Placement::ALL {
            assert_eq!((name.parse(), placement.to_string()), (Ok(placement), name.to_owned()));
        }
        let error = "anti".parse::<Placement>().unwrap_err();
        assert!(error.contains("tac or anti-2 or anti-nvm or anti-tuple"), "{error}");
    }

    #[test]
    fn records_are_dealt_out_by_size() {
        let dealer = Dealer::default();
        let dealt: Vec<bool> = (0..900).map(|_| dealer.is_first(4, 32)).collect();
        assert_eq!(dealt.iter().filter(|first| **first).count(), 100);
        // Not all at once.
        assert!(dealt.chunks(90).all(|some| some.iter().filter(|first| **first).count() == 10));
    }
}
