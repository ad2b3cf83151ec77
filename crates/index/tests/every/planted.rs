//! The tests notice maps that break what an adapter promises.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::threads::{count_up, keep_in_sight};
use parking_lot::{Mutex, RwLock};
use terrace_index::adapters::{Map, OrderedMap, Page, Striped};
use terrace_index::{Address, Direction};

#[derive(Clone, Copy, PartialEq)]
enum Bug {
    None,
    /// An entry that is replaced is gone until the next one is: whoever looks meanwhile misses it.
    Gap,
    /// Going backwards leaves out what a page begins with.
    LostRow,
    /// One in a thousand changes is forgotten.
    LostUpdate,
}

struct Planted {
    map: RwLock<BTreeMap<Box<[u8]>, Address>>,
    bug: Bug,
    /// Of [`Bug::Gap`]: what is gone.
    withheld: Mutex<Option<(Box<[u8]>, Address)>>,
}

impl Map for Planted {
    const NAME: &'static str = "planted";
    const ENTRY_BYTES: u64 = 0;
    fn get(&self, name: &[u8]) -> Option<Address> {
        self.map.read().get(name).copied()
    }
    fn set(&self, name: &[u8], address: Address) {
        match self.bug {
            Bug::Gap => {
                let mut map = self.map.write();
                if map.remove(name).is_some() {
                    let gone = self.withheld.lock().replace((name.into(), address));
                    map.extend(gone);
                    return;
                }
            }
            Bug::LostUpdate if address.raw() % 1000 == 77 => return,
            _ => {}
        }
        self.map.write().insert(name.into(), address);
    }
    fn remove(&self, name: &[u8]) {
        self.map.write().remove(name);
    }
    fn for_each(&self, visit: &mut dyn FnMut(&[u8], Address)) {
        self.map.read().iter().for_each(|(name, &address)| visit(name, address));
    }
    fn ordered(&self) -> Option<&dyn OrderedMap> {
        Some(self)
    }
}

impl OrderedMap for Planted {
    fn page(&self, from: Bound<&[u8]>, direction: Direction, page: &mut Page) {
        let map = self.map.read();
        let _ = if direction == Direction::Forward {
            map.range::<[u8], _>((from, Bound::Unbounded)).all(|(name, &a)| page.push(name, a))
        } else {
            let skip = usize::from(self.bug == Bug::LostRow && from != Bound::Unbounded);
            let range = map.range::<[u8], _>((Bound::Unbounded, from));
            range.rev().skip(skip).all(|(name, &a)| page.push(name, a))
        };
    }
}

fn caught(bug: Bug, test: impl Fn(&Striped<Planted>)) -> bool {
    let index = Striped::new(Planted { map: RwLock::default(), bug, withheld: Mutex::default() });
    catch_unwind(AssertUnwindSafe(|| test(&index))).is_err()
}

#[test]
fn planted_bugs_are_caught() {
    assert!(caught(Bug::Gap, keep_in_sight));
    assert!(caught(Bug::LostRow, keep_in_sight));
    assert!(caught(Bug::LostUpdate, count_up));
    assert!(!caught(Bug::None, keep_in_sight) && !caught(Bug::None, count_up));
}
