//! Lists of slots that leave one for another in a few steps, wherever they stand in it.
//!
//! ```text
//!   links   0 .. lists        heads, each linked to the first and the last of its list
//!           lists ..          one of each slot: (the one before, the one behind), itself if it is in no list
//! ```
//!
//! # Thread safety
//! None of its own: whoever has it has a lock around it, or is alone.
//!
//! # Invariants
//! A slot is in one list at most. The lists are rings through their heads, so that nobody needs to know which one a
//! slot leaves.

/// See the module. It takes 8 bytes of DRAM a slot.
pub(crate) struct Links {
    links: Vec<(u32, u32)>,
    lists: u32,
}

/// What the links of one slot take.
pub(crate) const LINK_BYTES: usize = size_of::<(u32, u32)>();

impl Links {
    /// So many empty lists for so many slots.
    pub fn new(lists: usize, slots: usize) -> Self {
        let mut this = Self { links: Vec::new(), lists: lists as u32 };
        this.reserve(slots);
        this
    }
    /// There are so many slots at least.
    pub fn reserve(&mut self, slots: usize) {
        let (now, wanted) = (self.links.len(), self.lists as usize + slots);
        if wanted > now {
            self.links.reserve_exact(wanted - now);
            self.links.extend((now..wanted).map(|at| (at as u32, at as u32)));
        }
    }
    /// Bytes of DRAM.
    pub fn bytes(&self) -> usize {
        self.links.capacity() * LINK_BYTES
    }
    /// The first slot of a list.
    pub fn first(&self, list: usize) -> Option<u32> {
        self.slot(self.links[list].1)
    }
    /// The one behind a slot in its list.
    pub fn next(&self, slot: u32) -> Option<u32> {
        self.slot(self.links[(slot + self.lists) as usize].1)
    }
    /// Whether a slot is in any list.
    pub fn is_in_any(&self, slot: u32) -> bool {
        let at = slot + self.lists;
        self.links[at as usize].1 != at
    }
    /// It is in none any more.
    pub fn leave(&mut self, slot: u32) {
        let at = slot + self.lists;
        let (before, behind) = self.links[at as usize];
        self.join(before, behind);
        self.join(at, at);
    }
    /// It is the first of this list, and in no other.
    pub fn put_first(&mut self, list: usize, slot: u32) {
        self.leave(slot);
        let (at, behind) = (slot + self.lists, self.links[list].1);
        self.join(list as u32, at);
        self.join(at, behind);
    }
    /// It is the last of this list, and in no other.
    pub fn put_last(&mut self, list: usize, slot: u32) {
        self.leave(slot);
        let (at, before) = (slot + self.lists, self.links[list].0);
        self.join(before, at);
        self.join(at, list as u32);
    }
    /// All slots of a list stand in front of another's, in their order.
    pub fn put_all_first(&mut self, from: usize, to: usize) {
        let (last, first) = self.links[from];
        if first == from as u32 {
            return;
        }
        let behind = self.links[to].1;
        self.join(to as u32, first);
        self.join(last, behind);
        self.join(from as u32, from as u32);
    }

    fn join(&mut self, before: u32, behind: u32) {
        self.links[before as usize].1 = behind;
        self.links[behind as usize].0 = before;
    }
    fn slot(&self, at: u32) -> Option<u32> {
        at.checked_sub(self.lists)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(links: &Links, list: usize) -> Vec<u32> {
        std::iter::successors(links.first(list), |&slot| links.next(slot)).collect()
    }

    #[test]
    fn slots_stand_where_they_were_put_last() {
        let mut links = Links::new(2, 4);
        for slot in [2, 0, 3] {
            links.put_last(0, slot);
        }
        links.put_first(0, 1);
        assert_eq!(list(&links, 0), [1, 2, 0, 3]);
        links.put_last(1, 0);
        links.put_last(0, 1);
        links.leave(2);
        links.leave(2);
        assert_eq!((list(&links, 0), list(&links, 1)), (vec![3, 1], vec![0]));
        assert!(links.is_in_any(0) && !links.is_in_any(2));
        links.reserve(6);
        links.put_last(1, 5);
        links.put_all_first(1, 0);
        assert_eq!((list(&links, 0), list(&links, 1)), (vec![0, 5, 3, 1], vec![]));
        links.put_all_first(1, 0);
        links.put_all_first(0, 1);
        assert_eq!((list(&links, 0), list(&links, 1)), (vec![], vec![0, 5, 3, 1]));
        assert_eq!(links.bytes(), (2 + 6) * LINK_BYTES);
    }
}
