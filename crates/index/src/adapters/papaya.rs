//! papaya: a lock-free hash table that allocates each entry.

use super::map::Map;
use crate::Address;

/// The map of the index `papaya`.
#[derive(Default)]
pub struct Papaya(::papaya::HashMap<Box<[u8]>, Address, foldhash::fast::RandomState>);

impl Map for Papaya {
    const NAME: &'static str = "papaya";
    const ENTRY_BYTES: u64 = 48;

    fn get(&self, name: &[u8]) -> Option<Address> {
        self.0.pin().get(name).copied()
    }
    fn set(&self, name: &[u8], address: Address) {
        self.0.pin().insert(name.into(), address);
    }
    fn remove(&self, name: &[u8]) {
        self.0.pin().remove(name);
    }
    fn for_each(&self, visit: &mut dyn FnMut(&[u8], Address)) {
        self.0.pin().iter().for_each(|(name, &address)| visit(name, address));
    }
}
