//! Look-ups of one key, without locks.

use super::BTree;
use super::text::Text;
use super::view::View;
use crate::sync::Backoff;
use crate::{Address, Lookup, Verdict};

impl View<'_> {
    /// The confirmed address of a text in its leaf, `Some(None)` if it has no entry; `None` if disturbed.
    #[inline]
    pub(super) fn find(&self, text: Text<'_>) -> Option<Option<Address>> {
        let position = self.position(text)?;
        let raw = if position.exact { self.address(position.below) } else { 0 };
        if !self.is_valid() {
            return None;
        }
        Some(address(raw))
    }
}

/// An address; `None` for an entry that is only a place.
#[inline]
pub(super) fn address(raw: u64) -> Option<Address> {
    if raw == 0 { None } else { Some(Address::new(raw)) }
}

impl BTree {
    /// The address of a text.
    #[inline]
    pub(super) fn find(&self, text: Text<'_>) -> Option<Address> {
        let backoff = Backoff::new();
        loop {
            if let Some(found) = self.leaf(text).find(text) {
                return found;
            }
            backoff.wait();
        }
    }
    /// Looks up. A record that isn't the key's was replaced meanwhile, so the tree is asked again; where it sticks to that
    /// address its entry is left over from a record that is gone.
    #[inline]
    pub(super) fn look_up(&self, text: Text<'_>, mut verify: impl FnMut(Address) -> Verdict) -> Lookup {
        let mut refused = None;
        loop {
            let Some(address) = self.find(text) else { return Lookup::Absent };
            match verify(address) {
                Verdict::Match => return Lookup::Found(address),
                Verdict::NeedsRead => return Lookup::Unread(address),
                Verdict::Differs if refused == Some(address) => return Lookup::Absent,
                Verdict::Differs => refused = Some(address),
            }
        }
    }
}
