//! Where records of slots lie in pages, too: as a record in DRAM, one in a slot has a *home* below, if it was ever there. It
//! leaves for nothing, then.
//!
//! Only DRAM knows of homes: after a crash there are two copies of one version, of which the opening takes one.
//!
//! # Thread safety
//! Who takes a home has it, and nobody else: it counts as live in its page until that one lets it go, or refers to it.

use std::sync::atomic::Ordering::*;

use terrace_index::Address;

use super::slab::PmemSlabs;
use crate::sync::Mutex;

/// Bytes of an address.
const HOME_BYTES: usize = 6;
type Home = [u8; HOME_BYTES];

/// The homes of a slab's slots.
#[derive(Default)]
pub struct Homes(Mutex<Held>);

#[derive(Default)]
struct Held {
    /// Nothing until a slot has one.
    homes: Vec<Home>,
    count: u32,
}

impl Held {
    /// A slot's home is another one. What it was.
    fn replace(&mut self, slot: usize, home: Option<Address>) -> Option<Address> {
        let old = address_of(std::mem::replace(self.homes.get_mut(slot)?, bytes_of(home)));
        self.count = self.count + u32::from(home.is_some()) - u32::from(old.is_some());
        old
    }
}

fn address_of([a, b, c, d, e, f]: Home) -> Option<Address> {
    let raw = u64::from_le_bytes([a, b, c, d, e, f, 0, 0]);
    (raw != 0).then(|| Address::new(raw))
}

fn bytes_of(home: Option<Address>) -> Home {
    let [a, b, c, d, e, f, ..] = home.map_or(0, Address::raw).to_le_bytes();
    [a, b, c, d, e, f]
}

impl PmemSlabs {
    /// Where a taken slot's record lies below, too.
    pub fn home(&self, at: u64) -> Option<Address> {
        let (slab, slot) = self.number(at)?;
        self.table[slab as usize].homes.0.lock().homes.get(slot).copied().and_then(address_of)
    }
    /// A taken slot's record lies there, too. It had no home.
    pub fn set_home(&self, at: u64, home: Address) {
        let Some((slab, slot)) = self.number(at) else { return };
        let Some(class) = self.class_of(slab) else { return };
        let mut held = self.table[slab as usize].homes.0.lock();
        if held.homes.is_empty() {
            held.homes = vec![[0; HOME_BYTES]; self.slots_in(class)];
            self.homes_bytes.fetch_add((held.homes.len() * HOME_BYTES) as u64, Relaxed);
        }
        held.replace(slot, Some(home));
    }
    /// Takes a slot's home from it.
    pub fn take_home(&self, at: u64) -> Option<Address> {
        let (slab, slot) = self.number(at)?;
        self.table[slab as usize].homes.0.lock().replace(slot, None)
    }
    /// A slot's home is elsewhere from now on, or nowhere. `false` if it was not `old`.
    pub fn move_home(&self, at: u64, old: Address, new: Option<Address>) -> bool {
        let Some((slab, slot)) = self.number(at) else { return false };
        let mut held = self.table[slab as usize].homes.0.lock();
        let is_old = held.homes.get(slot).is_some_and(|home| *home == bytes_of(Some(old)));
        if is_old {
            held.replace(slot, new);
        }
        is_old
    }
    /// The slot whose home is there. Looks at all.
    pub fn with_home(&self, there: Address) -> Option<u64> {
        let there = bytes_of(Some(there));
        (0..self.table.len() as u32).find_map(|slab| {
            let slot =
                self.table[slab as usize].homes.0.lock().homes.iter().position(|home| *home == there)?;
            Some(self.at(slab, self.class_of(slab)?, slot))
        })
    }
    /// How many slots of a slab have one.
    pub fn homes_of(&self, slab: u32) -> u64 {
        u64::from(self.table[slab as usize].homes.0.lock().count)
    }
    /// Bytes of DRAM for homes.
    pub fn homes_bytes(&self) -> u64 {
        self.homes_bytes.load(Relaxed)
    }
    /// A slab holds no record any more.
    pub(crate) fn forget_homes(&self, slab: u32) {
        let held = std::mem::take(&mut *self.table[slab as usize].homes.0.lock());
        self.homes_bytes.fetch_sub((held.homes.len() * HOME_BYTES) as u64, Relaxed);
    }
}
