//! dashmap: a hash table behind a reader-writer lock a shard. Its guards deadlock a thread that holds one and asks for
//! another of the same shard, so none outlives the line that asks for it, and `visit` must not call back.

use super::map::Map;
use crate::Address;

/// The map of the index `dashmap`.
#[derive(Default)]
pub struct DashMap(::dashmap::DashMap<Box<[u8]>, Address, foldhash::fast::RandomState>);

impl Map for DashMap {
    const NAME: &'static str = "dashmap";
    const ENTRY_BYTES: u64 = 33;

    fn get(&self, name: &[u8]) -> Option<Address> {
        self.0.get(name).map(|entry| *entry)
    }
    fn set(&self, name: &[u8], address: Address) {
        self.0.insert(name.into(), address);
    }
    fn remove(&self, name: &[u8]) {
        self.0.remove(name);
    }
    fn for_each(&self, visit: &mut dyn FnMut(&[u8], Address)) {
        self.0.iter().for_each(|entry| visit(entry.key(), *entry));
    }
}
