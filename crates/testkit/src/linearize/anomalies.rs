//! Every kind of anomaly, planted into a large history that really happened, is caught; the history itself is accepted.

use super::*;
use crate::rng::Rng;

const CLIENTS: usize = 8;
const KEYS: u64 = 200;

/// What a client's open call has come to.
#[derive(Clone, Copy)]
struct Open {
    entry: Entry,
    effect: Option<Answer>,
}

/// A store that does everything right: calls take effect at once, at some time within them; a crash cuts them off.
struct Honest {
    rng: Rng,
    now: u64,
    states: Vec<State>,
    open: [Option<Open>; CLIENTS],
    history: History,
    written: i64,
}

impl Honest {
    fn new(seed: u64) -> Self {
        let states = vec![None; KEYS as usize];
        let rng = Rng::new(seed);
        Self { rng, now: 0, states, open: [None; CLIENTS], history: History::default(), written: 0 }
    }

    fn action(&mut self, key: u64) -> Action {
        self.written += 1;
        let unique = self.written << 20;
        let state = self.states[key as usize];
        if key.is_multiple_of(4) {
            return match self.rng.below(40) {
                0 => Action::Delete,
                1 => Action::Set(appended(None, self.written)),
                2..20 => Action::Append(self.written),
                20..25 => Action::AppendIfPresent(self.written),
                _ => Action::Get,
            };
        }
        match self.rng.below(20) {
            0..7 => Action::Get,
            7..11 => Action::Set(unique),
            11 => Action::Delete,
            12..15 => Action::Incr(1),
            15 => Action::Cas { expected: state.unwrap_or(7), new: unique },
            16 => Action::SetIfAbsent(unique),
            17 => Action::SetIfPresent(unique),
            18 => Action::Swap(unique),
            _ => Action::IncrIfPresent(1),
        }
    }

    /// So many calls, of which a few keys get most.
    fn load(&mut self, calls: usize) {
        let target = self.history.calls.len() + calls;
        while self.history.calls.len() < target {
            self.now += 1;
            let client = self.rng.below(CLIENTS as u64) as usize;
            self.open[client] = match self.open[client] {
                None => {
                    let key = if self.rng.percent(40) { self.rng.below(5) } else { self.rng.below(KEYS) };
                    let action = self.action(key);
                    let outcome = Outcome::Lost(u64::MAX);
                    let entry = Entry { key, client: client as u32, invoke: self.now, outcome, action };
                    Some(Open { entry, effect: None })
                }
                Some(Open { entry, effect: None }) => {
                    let (state, answer) = apply(self.states[entry.key as usize], entry.action);
                    self.states[entry.key as usize] = state;
                    Some(Open { entry, effect: Some(answer) })
                }
                Some(Open { entry, effect: Some(answer) }) => {
                    let outcome = Outcome::Answered(self.now, answer);
                    self.history.calls.push(Call::new(&Entry { outcome, ..entry }));
                    None
                }
            };
        }
    }

    /// Cuts off what is open.
    fn crash(&mut self) {
        self.now += 1;
        let crash = self.now;
        for open in &mut self.open {
            if let Some(Open { entry, .. }) = open.take() {
                self.history.calls.push(Call::new(&Entry { outcome: Outcome::Lost(crash), ..entry }));
            }
        }
        self.history.crashes.push(crash);
    }

    /// One call alone.
    fn call(&mut self, key: u64, action: Action) -> Answer {
        let (state, answer) = apply(self.states[key as usize], action);
        self.states[key as usize] = state;
        self.answered(key, action, answer);
        answer
    }

    /// One call alone, whatever it should have been answered.
    fn answered(&mut self, key: u64, action: Action, answer: Answer) {
        self.now += 2;
        let outcome = Outcome::Answered(self.now, answer);
        let entry = Entry { key, client: 0, invoke: self.now - 1, outcome, action };
        self.history.calls.push(Call::new(&entry));
    }

    /// One call that the next crash may undo.
    fn undoable(&mut self, key: u64, action: Action) {
        self.call(key, action);
        if let Some(call) = self.history.calls.last_mut() {
            call.make_undoable();
        }
    }

    fn quiet(&mut self) {
        // Nobody is open: everything from here on is in one order.
        self.crash();
        for key in 0..KEYS {
            self.call(key, Action::Get);
        }
    }
}

/// A long history with crashes, the planted calls in its middle, and more after them.
fn around(plant: impl Fn(&mut Honest)) -> Result<Summary, Failure> {
    let mut store = Honest::new(3);
    for _ in 0..10 {
        store.load(5000);
        store.crash();
    }
    store.quiet();
    plant(&mut store);
    for _ in 0..10 {
        store.load(5000);
        store.crash();
    }
    store.history.check(2, |_| None)
}

fn caught(what: &str, key: u64, plant: impl Fn(&mut Honest)) {
    match around(plant) {
        Err(Failure::Violation(violation)) => {
            assert_eq!(violation.entry.key, key, "{what}: {violation}");
        }
        other => panic!("{what} was not caught: {other:?}"),
    }
}

#[test]
fn what_really_happened_is_accepted() {
    let summary = around(|_| ()).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(summary.calls > 100_000 && summary.crashes == 21 && summary.lost > 50, "{summary}");
    assert!(summary.open_max > 4, "{summary}");
}

#[test]
fn a_stale_read() {
    caught("a stale read", 6, |store| {
        store.call(6, Action::Set(1));
        store.call(6, Action::Set(2));
        store.answered(6, Action::Get, Answer::Value(Some(1)));
    });
}

#[test]
fn a_lost_update() {
    caught("a lost update", 6, |store| {
        store.call(6, Action::Set(1));
        store.answered(6, Action::Set(2), Answer::Stored);
        store.call(6, Action::Get);
    });
    caught("a lost part of a list", 8, |store| {
        store.call(8, Action::Set(appended(None, 1)));
        let (state, _) = apply(store.states[8], Action::Append(2));
        store.answered(8, Action::Append(2), Answer::Stored);
        assert_ne!(state, store.states[8]);
        store.call(8, Action::Append(3));
    });
}

#[test]
fn a_counter_counted_twice() {
    caught("a double increment", 6, |store| {
        store.call(6, Action::Set(1));
        store.call(6, Action::Incr(1));
        store.states[6] = Some(3);
        store.call(6, Action::Get);
    });
    caught("one sum for two", 6, |store| {
        store.call(6, Action::Set(1));
        store.answered(6, Action::Incr(1), Answer::Number(2));
        store.call(6, Action::Incr(1));
    });
}

#[test]
fn a_deleted_value_that_a_crash_brings_back() {
    caught("resurrection", 6, |store| {
        store.call(6, Action::Set(1));
        store.call(6, Action::Delete);
        store.crash();
        store.answered(6, Action::Get, Answer::Value(Some(1)));
    });
}

#[test]
fn an_answered_write_that_a_crash_loses() {
    caught("loss in a crash", 6, |store| {
        store.call(6, Action::Set(1));
        store.answered(6, Action::Set(2), Answer::Stored);
        store.crash();
        store.call(6, Action::Get);
    });
}

#[test]
fn an_unanswered_call_that_takes_effect_after_the_restart() {
    let late = |store: &mut Honest| {
        store.call(6, Action::Set(1));
        store.now += 1;
        let entry = Entry {
            key: 6,
            client: 7,
            invoke: store.now,
            outcome: Outcome::Lost(u64::MAX),
            action: Action::Set(2),
        };
        store.open[7] = Some(Open { entry, effect: None });
        store.crash();
        store.call(6, Action::Get);
        store.states[6] = Some(2);
    };
    caught("a late effect", 6, |store| {
        late(store);
        store.call(6, Action::Get);
    });
}

/// Keys that are only written together are one register to the checker.
#[test]
fn half_an_atomic_group() {
    caught("half a group", 6, |store| {
        store.call(6, Action::Set(1));
        store.now += 1;
        let entry = Entry {
            key: 6,
            client: 7,
            invoke: store.now,
            outcome: Outcome::Lost(u64::MAX),
            action: Action::Set(2),
        };
        store.open[7] = Some(Open { entry, effect: None });
        store.crash();
        // The first key of the group holds the new value, the second one the old one.
        store.answered(6, Action::Get, Answer::Value(Some(2)));
        store.answered(6, Action::Get, Answer::Value(Some(1)));
    });
}

#[test]
fn a_power_cut_undoes_the_window_and_nothing_else() {
    let undone = |before: State| {
        move |store: &mut Honest| {
            store.call(6, Action::Set(1));
            store.undoable(6, Action::Set(2));
            store.undoable(6, Action::Get);
            store.undoable(6, Action::Set(3));
            store.crash();
            store.states[6] = before;
            store.call(6, Action::Get);
        }
    };
    for kept in [1, 2, 3] {
        assert!(
            around(undone(Some(kept))).is_ok(),
            "{kept} is what the key held before or within the window"
        );
    }
    caught("more than the window", 6, undone(None));
    caught("kept, then gone", 6, |store| {
        undone(Some(2))(store);
        store.crash();
        store.states[6] = Some(1);
        store.call(6, Action::Get);
    });
    caught("an answer that was to last", 6, |store| {
        store.call(6, Action::Set(1));
        store.undoable(6, Action::Set(2));
        store.call(6, Action::Get);
        store.crash();
        store.states[6] = Some(1);
        store.call(6, Action::Get);
    });
}

/// Rounds that each end with a power cut, which takes every key back to what it held at some moment of the last 2000 calls.
fn cut(window_declared: bool) -> Result<Summary, Failure> {
    let mut store = Honest::new(11);
    for _ in 0..10 {
        let begin = store.history.calls.len();
        store.load(6000);
        let safe = store.now;
        let mut moments = vec![store.states.clone()];
        for _ in 0..4 {
            store.load(500);
            moments.push(store.states.clone());
        }
        store.crash();
        for key in 0..KEYS as usize {
            store.states[key] = store.rng.pick(&moments)[key];
        }
        for call in &mut store.history.calls[begin..] {
            if window_declared && call.ended() > safe {
                call.make_undoable();
            }
        }
    }
    store.history.check(2, |_| None)
}

#[test]
fn a_window_before_every_power_cut() {
    let summary = cut(true).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(summary.undoable > 15_000 && summary.crashes == 10, "{summary}");
    assert!(matches!(cut(false), Err(Failure::Violation(_))), "without the declaration it is loss");
}

#[test]
fn a_file_keeps_everything_and_notices_damage() {
    let mut store = Honest::new(5);
    store.load(20_000);
    store.undoable(3, Action::Set(-1));
    store.crash();
    let mut bytes = Vec::new();
    store.history.save(&mut bytes).unwrap();
    assert!(bytes.len() < 22 * store.history.calls.len(), "{} bytes", bytes.len());
    assert_eq!(History::load(&bytes[..]).unwrap(), store.history);
    let mut rng = Rng::new(1);
    for _ in 0..50 {
        let at = rng.below(bytes.len() as u64) as usize;
        let flip = 1 << rng.below(8);
        bytes[at] ^= flip;
        assert!(History::load(&bytes[..]).is_err(), "byte {at}");
        bytes[at] ^= flip;
        assert!(History::load(&bytes[..at]).is_err(), "cut at {at}");
    }
}
