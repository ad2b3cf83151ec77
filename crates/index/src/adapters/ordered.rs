//! Ranges and cursors over an ordered map, a page at a time.

use std::ops::{Bound, ControlFlow};

use super::map::{Map, OrderedMap, Page};
use super::name::Name;
use super::striped::Striped;
use crate::cursors::Cursors;
use crate::{Address, Direction, OrderedIndex};

/// Entries of the first page of a range, and of the later ones; entries of a step of an iteration.
const FIRST: usize = 32;
const LATER: usize = 96;
const STEP: usize = 64;

/// One step of an iteration over all databases.
pub(super) fn scan(map: &dyn OrderedMap, cursors: &Cursors, cursor: u64, out: &mut Vec<Address>) -> u64 {
    let after = cursors.find(cursor);
    let from = after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    let mut page = Page::new(STEP);
    map.page(from, Direction::Forward, &mut page);
    out.extend(page.iter().map(|(_, address)| address));
    if page.is_full() { cursors.save(page.get(page.len() - 1).0) } else { 0 }
}

impl<M: Map> OrderedIndex for Striped<M> {
    fn range(
        &self,
        db: u8,
        from: Bound<&[u8]>,
        direction: Direction,
        visit: &mut dyn FnMut(&[u8], Address) -> ControlFlow<()>,
    ) {
        let Some(map) = self.map.ordered() else { return };
        let mut from = match (from, direction) {
            (Bound::Included(key), _) => Bound::Included(Name::new(db, key)),
            (Bound::Excluded(key), _) => Bound::Excluded(Name::new(db, key)),
            (Bound::Unbounded, Direction::Forward) => Bound::Included(Name::new(db, &[])),
            // Before everything of the next database.
            (Bound::Unbounded, Direction::Backward) => {
                db.checked_add(1).map_or(Bound::Unbounded, |next| Bound::Excluded(Name::new(next, &[])))
            }
        };
        let mut page = Page::new(FIRST);
        loop {
            map.page(from.as_ref().map(|name| &**name), direction, &mut page);
            for (name, address) in page.iter() {
                if name[0] != db || visit(&name[1..], address).is_break() {
                    return;
                }
            }
            if !page.is_full() {
                return;
            }
            let last = page.get(page.len() - 1).0;
            from = Bound::Excluded(Name::new(last[0], &last[1..]));
            page = Page::new(LATER);
        }
    }

    fn nearest(&self, db: u8, key: &[u8], direction: Direction, found: &mut Vec<u8>) -> Option<Address> {
        found.clear();
        let mut page = Page::new(1);
        self.map.ordered()?.page(Bound::Included(&Name::new(db, key)), direction, &mut page);
        let (name, address) = page.iter().next().filter(|(name, _)| name[0] == db)?;
        found.extend_from_slice(&name[1..]);
        Some(address)
    }
}
