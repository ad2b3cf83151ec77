//! What a clean stop saves, and the opening after it: index and block table (`clean_stop.rs` of `terrace_blocks`). Every page has
//! been flushed by then, so that addresses stay what they are. What is in frames and in the read cache is not saved.

use terrace_blocks::{Homes, Lower, Place};
use terrace_index::Address;

use crate::space::HybridLog;

impl<L: Lower> Homes for HybridLog<L> {
    const KINDS: bool = false;

    fn home(&self, address: Address) -> Option<Address> {
        Some(address)
    }
    fn place(&self, home: Address) -> Option<Place> {
        Some(self.addresses.place(home))
    }
    fn address(&self, place: Place) -> Option<Address> {
        Some(self.addresses.address(place))
    }
}
