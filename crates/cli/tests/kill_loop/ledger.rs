//! What the keys of one writer may hold: the state left by the last acknowledged write, or by any later attempt.

use std::collections::{BTreeMap, VecDeque};

use terrace_testkit::case::show;

/// What a key holds; `None` if it is absent.
pub type State = Option<Vec<u8>>;

/// The possible states of one key, oldest first; the first is certain as long as no later attempt took effect.
struct Possible {
    states: VecDeque<State>,
    /// Attempts acknowledged so far: the number of the first state.
    acknowledged: u64,
}

/// Keys written by one attempt, with the number of the state it would leave in each.
type Group = Vec<(Vec<u8>, u64)>;

/// The keys of one writer.
#[derive(Default)]
pub struct Ledger {
    keys: BTreeMap<Vec<u8>, Possible>,
    /// Atomic attempts that are not acknowledged.
    groups: Vec<Group>,
}

impl Ledger {
    /// The state after every attempt so far.
    pub fn latest(&self, key: &[u8]) -> State {
        self.keys.get(key).and_then(|possible| possible.states.back().cloned().flatten())
    }
    /// A write is about to be sent.
    pub fn attempt(&mut self, key: &[u8], after: State) {
        self.possible(key).states.push_back(after);
    }
    /// An atomic write of several keys is about to be sent.
    pub fn attempt_group(&mut self, writes: &[(Vec<u8>, State)]) {
        let mut group = Vec::new();
        for (key, after) in writes {
            self.attempt(key, after.clone());
            let possible = self.possible(key);
            group.push((key.clone(), possible.acknowledged + possible.states.len() as u64 - 1));
        }
        self.groups.push(group);
    }
    /// The oldest open attempt on a key was acknowledged.
    pub fn acknowledge(&mut self, key: &[u8]) {
        let possible = self.possible(key);
        possible.states.pop_front();
        possible.acknowledged += 1;
        assert!(!possible.states.is_empty(), "more acknowledged than attempted");
    }
    /// Every key ever written.
    pub fn keys(&self) -> Vec<Vec<u8>> {
        self.keys.keys().cloned().collect()
    }

    /// Compares what was found after a restart with what may be there. What was found is certain from then on.
    ///
    /// Returns what is wrong, in words.
    pub fn settle(&mut self, found: &BTreeMap<Vec<u8>, State>) -> Vec<String> {
        let mut wrong = Vec::new();
        // The first and the last attempt that explain what was found.
        let mut explained: BTreeMap<&[u8], (u64, u64)> = BTreeMap::new();
        for (key, possible) in &self.keys {
            let found = &found[key];
            let fits = |state: &State| state == found;
            match (possible.states.iter().position(fits), possible.states.iter().rposition(fits)) {
                (Some(first), Some(last)) => {
                    let number = |at: usize| possible.acknowledged + at as u64;
                    explained.insert(key, (number(first), number(last)));
                }
                _ => {
                    let states: Vec<_> = possible.states.iter().map(shown).collect();
                    wrong.push(format!(
                        "key {} holds {}; acknowledged or attempted later: {states:?}",
                        show(key),
                        shown(found)
                    ));
                }
            }
        }
        for group in self.groups.drain(..) {
            let known = |(key, number): &(Vec<u8>, u64)| {
                explained.get(&key[..]).map(|(first, last)| (*first >= *number, *last < *number))
            };
            let outcomes: Vec<_> = group.iter().filter_map(known).collect();
            if outcomes.iter().any(|(took, _)| *took) && outcomes.iter().any(|(_, did_not)| *did_not) {
                wrong.push(format!("an atomic write is half there: {group:?}"));
            }
        }
        for (key, possible) in &mut self.keys {
            possible.acknowledged += possible.states.len() as u64;
            possible.states.clear();
            possible.states.push_back(found[key].clone());
        }
        wrong
    }

    fn possible(&mut self, key: &[u8]) -> &mut Possible {
        self.keys
            .entry(key.to_vec())
            .or_insert_with(|| Possible { states: VecDeque::from([None]), acknowledged: 0 })
    }
}

fn shown(state: &State) -> String {
    state.as_ref().map_or("nothing".into(), |value| show(value))
}

/// The ledger itself must notice what it is there to notice.
#[test]
fn a_ledger_notices_loss() {
    let value = |text: &str| Some(text.as_bytes().to_vec());
    let (a, b) = (b"a".to_vec(), b"b".to_vec());
    let after = |found_a: State, found_b: State| {
        let mut ledger = Ledger::default();
        ledger.attempt(&a, value("1"));
        ledger.acknowledge(&a);
        ledger.attempt(&b, value("2"));
        ledger.attempt_group(&[(a.clone(), value("3")), (b.clone(), value("4"))]);
        ledger.settle(&BTreeMap::from([(a.clone(), found_a), (b.clone(), found_b)])).len()
    };
    assert_eq!(after(value("1"), None), 0, "the unanswered writes never happened");
    assert_eq!(after(value("1"), value("2")), 0, "one of them did");
    assert_eq!(after(value("3"), value("4")), 0, "all did");
    assert_eq!(after(None, None), 1, "an acknowledged write is gone");
    assert_eq!(after(value("9"), None), 1, "a value from nowhere");
    assert_eq!(after(value("3"), value("2")), 1, "half of an atomic write");
    assert_eq!(after(value("1"), value("4")), 1, "the other half");
}
