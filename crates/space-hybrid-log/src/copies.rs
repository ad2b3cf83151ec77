//! What a sweep of tombstones must know of pages.

use terrace_blocks::{Block, Copies, FooterEntry, Lower, Place, State};
use terrace_engine::space::Context;
use terrace_index::Address;

use crate::space::HybridLog;

impl<L: Lower> Copies for HybridLog<L> {
    fn address(&self, slot: u32, entry: &FooterEntry, _words: u32) -> Address {
        self.addresses.address(Place { slot, offset: entry.offset })
    }
    fn load(&self, slot: u32, context: &dyn Context) -> Option<Block> {
        self.load_block(slot, context)
    }
    fn not_yet_in_blocks(
        &self,
        _from: u32,
        context: &dyn Context,
        show: &mut dyn FnMut(&[FooterEntry]),
    ) -> Option<u32> {
        for (number, slot) in self.blocks.slots.iter().enumerate() {
            if matches!(slot.state(), State::Mutable | State::ReadOnly)
                && let Some(block) = self.load_block(number as u32, context)
            {
                show(&block.entries);
            }
        }
        None
    }
}
