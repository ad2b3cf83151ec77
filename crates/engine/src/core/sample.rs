//! How long records have left, by a few of them.

use terrace_index::Index;
use terrace_log::LogDevice;
use terrace_media::Buffer;

use super::{Core, live};
use crate::space::{Fetch, Space, Want};

/// Entries of the index that are looked at.
const ENTRIES: usize = 512;

impl<I: Index, S: Space, D: LogDevice> Core<I, S, D> {
    /// Tells database and deadline of some records that expire. No device is read: of what lies on one the space tells what it
    /// remembers.
    pub(crate) fn sample_deadlines(&mut self, found: &mut dyn FnMut(u8, u64)) {
        let machine = self.machine.clone();
        let mut addresses = Vec::new();
        self.enter();
        while addresses.len() < ENTRIES
            && let Some(next) = machine.index.scan(self.sampled, &mut addresses)
        {
            self.sampled = next;
            if next == 0 {
                break;
            }
        }
        let mut bytes = Buffer::new();
        for address in addresses {
            bytes.clear();
            if let Fetch::Match(head) = machine.space.fetch(address, None, Want::Head, &mut bytes)
                && head.expire_at != 0
                && live(&machine.shared, &head, false)
            {
                found(head.meta.db(), head.expire_at);
            }
        }
        self.leave();
        machine.space.sample_deadlines(found);
    }
}
