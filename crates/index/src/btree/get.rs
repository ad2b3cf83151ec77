//! Look-ups of one key, without locks.

use super::BTree;
use super::pool::Pool;
use super::text::Text;
use super::view::View;
use crate::sync::Backoff;
use crate::{Address, Lookup, Verdict};

impl View<'_> {
    /// The confirmed address of a text in its leaf, `Some(None)` if it has no entry; `None` if disturbed.
    #[inline]
    pub(super) fn find(&self, text: Text<'_>) -> Option<Option<Address>> {
        let (below, same_head) = self.near(text);
        let raw = match self.shape.plain() {
            _ if !same_head => 0,
            Some(length @ 0..=8) if self.shape.prefix() + length == text.len() => {
                self.node.narrow_payload(self.shape, below)
            }
            Some(0..=8) => 0,
            _ => {
                let (db, bytes) = text.parts();
                address_among_equals(self.pool, self.number, self.version, db, bytes)?
            }
        };
        if !self.is_valid() {
            return None;
        }
        Some(address(raw))
    }
}

/// The raw address of a text that has an entry's head, 0 if it has none. Takes what is in registers, as the search for a
/// child.
#[inline(never)]
fn address_among_equals(pool: &Pool, number: u32, version: u64, db: u8, bytes: &[u8]) -> Option<u64> {
    let view = View::again(pool, number, version);
    let position = view.position(Text::from_parts(db, bytes))?;
    Some(if position.exact { view.address(position.below) } else { 0 })
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
