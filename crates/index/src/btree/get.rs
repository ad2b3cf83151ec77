//! Look-ups of one key, without locks.

use super::BTree;
use super::node::MASK_48;
use super::pool::Pool;
use super::text::Text;
use super::view::View;
use crate::sync::Backoff;
use crate::{Address, Lookup, Verdict};

impl View<'_> {
    /// The confirmed address of a text in its leaf, `Some(None)` if it has no entry; `None` if disturbed.
    #[inline]
    pub(super) fn find(&self, text: Text<'_>) -> Option<Option<Address>> {
        let (length, prefix) = (self.shape.plain_length(), self.shape.prefix());
        let raw = if length <= 8 {
            let head = text.word(prefix);
            let below = self.plain_heads_below(head);
            let found =
                self.node.head(below) == head && below < self.shape.count() && prefix + length == text.len();
            if found { self.node.narrow_payload(self.shape, below) } else { 0 }
        } else {
            let (db, bytes) = text.parts();
            // What the compiler knows of the other half.
            address_of(self.pool, self.number, self.version, db, bytes)? & MASK_48
        };
        if !self.is_valid() {
            return None;
        }
        Some(address(raw))
    }
}

/// The raw address of a text in a leaf whose keys are longer than a head, 0 if it has none. Takes what is in registers, as
/// the search for a child.
#[inline(never)]
fn address_of(pool: &Pool, number: u32, version: u64, db: u8, bytes: &[u8]) -> Option<u64> {
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
