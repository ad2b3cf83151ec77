//! scc's HashMap: buckets with locks of their own, grown without a pause.

use super::map::Map;
use crate::Address;

/// The map of the index `scc-hash`.
#[derive(Default)]
pub struct SccHash(scc::HashMap<Box<[u8]>, Address, foldhash::fast::RandomState>);

impl Map for SccHash {
    const NAME: &'static str = "scc-hash";
    const ENTRY_BYTES: u64 = 35;

    fn get(&self, name: &[u8]) -> Option<Address> {
        self.0.read_sync(name, |_, &address| address)
    }
    fn set(&self, name: &[u8], address: Address) {
        self.0.upsert_sync(name.into(), address);
    }
    fn remove(&self, name: &[u8]) {
        self.0.remove_sync(name);
    }
    fn for_each(&self, visit: &mut dyn FnMut(&[u8], Address)) {
        self.0.iter_sync(|name, &address| {
            visit(name, address);
            true
        });
    }
}
