//! Random operations: few keys, so that they collide; every operation; every size, the odd ones often.

use terrace_engine::{Condition, DATABASES, Delta, Direction, ExpireIf, Expiry, RangeStart};

use crate::case::{Action, Case};
use crate::edits::Rule;
use crate::model::{Model, Place};
use crate::rng::Rng;

/// Clocks of random tests show whole ticks of this many milliseconds, and expiries fall between ticks, so that no test
/// depends on whether a record is there in the very millisecond in which it expires.
pub const TICK_MS: u64 = 10;

/// What the store under test takes.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The longest key to use, in bytes.
    pub key_bytes_max: usize,
    /// The longest value to use, in bytes.
    pub value_bytes_max: usize,
    /// Keys and values to hold at most, in bytes; above it, the generator deletes.
    pub live_bytes_max: u64,
    /// Different keys in each database.
    pub keys: usize,
    /// Databases to use.
    pub databases: Vec<u8>,
    /// Bytes of keys and values in one atomic group.
    pub group_bytes_max: usize,
    /// The same of the long ones among them, which no page holds.
    pub long_group_bytes_max: usize,
    /// Use expiries that the test will live to see. Only with an injected clock: with the system's, the store and the model
    /// would not agree on the moment.
    pub near_expiries: bool,
    /// Use ranges, which need an ordered index.
    pub ranges: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            key_bytes_max: 64 << 10,
            value_bytes_max: 1 << 20,
            live_bytes_max: 16 << 20,
            keys: 48,
            databases: vec![0, 1, DATABASES as u8 - 1],
            group_bytes_max: 16 << 10,
            long_group_bytes_max: 384 << 10,
            near_expiries: true,
            ranges: false,
        }
    }
}

/// Lengths at which layouts change their mind.
const KEY_LENGTHS: [usize; 12] = [1, 7, 8, 9, 63, 64, 65, 250, 251, 4095, 4096, 65_535];
const VALUE_LENGTHS: [usize; 14] =
    [1, 7, 8, 9, 63, 64, 4095, 4096, 4097, 16_383, 16_384, 16_385, 65_536, 1_048_576];

/// A seeded source of operations.
#[derive(Debug)]
pub struct Generator {
    rng: Rng,
    keys: Vec<Vec<u8>>,
    limits: Limits,
    /// Numbers values, so that no two are alike.
    written: u64,
}

impl Generator {
    /// A source that repeats itself for the same seed and limits.
    pub fn new(seed: u64, limits: Limits) -> Self {
        let mut rng = Rng::new(seed);
        let mut keys = vec![Vec::new()];
        for i in 1..limits.keys.max(2) {
            let length = match rng.below(10) {
                0 | 1 => *rng.pick(&KEY_LENGTHS),
                2 if i % 16 == 0 => limits.key_bytes_max,
                _ => rng.between(2, 24) as usize,
            };
            let mut key = filler(length.min(limits.key_bytes_max), rng.next_u64());
            // The number makes keys differ; long ones differ at their ends alone.
            let number = i.to_string();
            let tail = key.len().saturating_sub(number.len());
            key.truncate(tail);
            key.extend_from_slice(number.as_bytes());
            keys.push(key);
        }
        Self { rng, keys, limits, written: 0 }
    }
    /// The limits it keeps.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }
    /// Its own randomness, for whatever else a test decides.
    pub fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    /// The operations of one batch. The model tells which versions may be compared with.
    pub fn batch(&mut self, model: &Model) -> Vec<Case> {
        let count = *self.rng.pick(&[1, 1, 2, 4, 16, 40]);
        (0..count).map(|_| self.case(model)).collect()
    }

    /// A transaction: any operations on keys, of any database.
    pub fn transaction(&mut self, model: &Model) -> Vec<Case> {
        let count = self.rng.between(2, 10);
        let mut cases = Vec::new();
        if self.rng.percent(20) {
            let key = self.rng.pick(&self.keys).clone();
            let action = Action::Edit { rule: Rule::Guard, argument: Vec::new() };
            cases.push(Case { db: self.db(), key, action });
        }
        while cases.len() < count as usize {
            let case = self.case(model);
            let keyless =
                matches!(case.action, Action::Flush(_) | Action::Scan { .. } | Action::Range { .. });
            if !keyless {
                // The same key again, often: what the transaction made of it must be seen.
                let key = cases.last().filter(|_| self.rng.percent(30)).map(|last: &Case| last.key.clone());
                cases.push(Case { key: key.unwrap_or(case.key), ..case });
            }
        }
        cases
    }

    /// An atomic group: sets without conditions, together within the limit. Keys may repeat.
    pub fn group(&mut self) -> Vec<Case> {
        let is_long = self.rng.percent(4);
        let (count, mut room, value_bytes_max) = match is_long {
            true => (100, self.limits.long_group_bytes_max, 16 << 10),
            false => (self.rng.between(2, 8), self.limits.group_bytes_max, 600),
        };
        let db = self.db();
        let mut cases = Vec::new();
        for _ in 0..count {
            let key = self.rng.pick(&self.keys).clone();
            let value = match is_long {
                true => {
                    self.written += 1;
                    filler(self.rng.between(1000, value_bytes_max) as usize, self.written)
                }
                false => self.value(value_bytes_max as usize),
            };
            if key.len() + value.len() <= room {
                room -= key.len() + value.len();
                let expiry = if self.rng.percent(10) { self.far(0) } else { Expiry::Clear };
                // What a group keeps of the old records is not promised: state the flags.
                let flags = Some(self.flags().unwrap_or(0));
                let action =
                    Action::Set { value, condition: Condition::Always, expiry, flags, old_value: false };
                cases.push(Case { db, key, action });
            }
        }
        cases
    }

    fn case(&mut self, model: &Model) -> Case {
        let db = self.db();
        let place: Place = (db, self.rng.pick(&self.keys).clone());
        let too_much = model.bytes() > self.limits.live_bytes_max;
        let action = match self.rng.below(1000) {
            _ if too_much => Action::Delete { condition: Condition::Always, old_value: false },
            330..350 if self.limits.ranges => self.range(),
            0..350 => Action::Get { value: self.rng.percent(80) },
            350..650 => self.set(&place, model),
            650..750 => self.delete(&place, model),
            750..850 => Action::Incr(self.delta()),
            850..910 => self.append(&place, model),
            910..950 => self.expire(model.now_ms()),
            950..990 => self.edit(),
            990..996 => Action::Scan { cursor: 0, count: self.rng.between(1, 20) as u32 },
            996..999 => Action::Flush(Some(db)),
            _ => Action::Flush(None),
        };
        let key = if matches!(action, Action::Flush(_) | Action::Scan { .. }) { Vec::new() } else { place.1 };
        Case { db, key, action }
    }

    fn edit(&mut self) -> Action {
        // Alone, nothing is handed on, and nobody guards.
        let rule =
            *self.rng.pick(&[Rule::Stamp, Rule::Stamp, Rule::Mark, Rule::Take, Rule::Give, Rule::Give]);
        Action::Edit { rule, argument: self.value(600) }
    }

    fn range(&mut self) -> Action {
        let from = *self.rng.pick(&[RangeStart::At, RangeStart::After, RangeStart::Edge]);
        let direction = *self.rng.pick(&[Direction::Forward, Direction::Backward]);
        Action::Range { from, direction, count: *self.rng.pick(&[1, 2, 5, 20, 1000]) }
    }

    fn db(&mut self) -> u8 {
        *self.rng.pick(&self.limits.databases)
    }

    fn set(&mut self, place: &Place, model: &Model) -> Action {
        let value = self.value(self.limits.value_bytes_max);
        let condition = match self.rng.below(10) {
            0 => Condition::Absent,
            1 => Condition::Present,
            2 | 3 => self.version(place, model),
            _ => Condition::Always,
        };
        let expiry = match self.rng.below(10) {
            0 => Expiry::Keep,
            1 => self.far(model.now_ms()),
            2 => self.near(model.now_ms()),
            3 if self.rng.percent(30) => self.past(model.now_ms()),
            _ => Expiry::Clear,
        };
        Action::Set { value, condition, expiry, flags: self.flags(), old_value: self.rng.percent(15) }
    }

    fn delete(&mut self, place: &Place, model: &Model) -> Action {
        if self.rng.percent(20) {
            // No protocol asks for the old value and compares versions too.
            return Action::Delete { condition: self.version(place, model), old_value: false };
        }
        Action::Delete { condition: Condition::Always, old_value: self.rng.percent(30) }
    }

    fn append(&mut self, place: &Place, model: &Model) -> Action {
        let value = self.value(5000);
        let front = self.rng.percent(50);
        let create = self.rng.percent(50);
        let condition = match self.rng.below(4) {
            _ if create => Condition::Always,
            0 => self.version(place, model),
            1 => Condition::Present,
            _ => Condition::Always,
        };
        Action::Append { value, front, create, condition }
    }

    fn expire(&mut self, now_ms: u64) -> Action {
        let value = self.rng.percent(50);
        let expiry = match self.rng.below(8) {
            0 => Expiry::Keep,
            1 | 2 => Expiry::Clear,
            3 => self.past(now_ms),
            4 | 5 => self.far(now_ms),
            _ => self.near(now_ms),
        };
        // Redis's conditions go with a moment; PERSIST and GETEX have none.
        let condition = match expiry {
            Expiry::At(_) => *self.rng.pick(&[
                ExpireIf::Always,
                ExpireIf::Always,
                ExpireIf::None,
                ExpireIf::Some,
                ExpireIf::Later,
                ExpireIf::Earlier,
                ExpireIf::SomeLater,
                ExpireIf::SomeEarlier,
            ]),
            _ => ExpireIf::Always,
        };
        Action::Expire { expiry, condition, value }
    }

    /// A version that the key has, had, or never had.
    fn version(&mut self, place: &Place, model: &Model) -> Condition {
        let known = match model.get(place) {
            Some(record) if record.token != 0 => record.token,
            Some(record) => record.version.floor(),
            None => 1,
        };
        Condition::Version(if self.rng.percent(70) { known } else { known.saturating_sub(1) })
    }

    fn delta(&mut self) -> Delta {
        let small = self.rng.between(0, 200);
        match self.rng.below(12) {
            0..4 => Delta::Signed(small as i64 - 100),
            4 => Delta::Signed(*self.rng.pick(&[i64::MAX, i64::MIN, 0])),
            5 => Delta::Float(small as f64 / 8.0 - 5.0),
            6 if self.rng.percent(30) => Delta::Float(f64::INFINITY),
            6 | 7 => Delta::Wrapping(small),
            8 => Delta::Wrapping(u64::MAX - small),
            _ => Delta::Saturating(small * small),
        }
    }

    fn flags(&mut self) -> Option<u32> {
        match self.rng.below(3) {
            0 => None,
            1 => Some(0),
            _ => Some(self.rng.next_u64() as u32),
        }
    }

    fn far(&mut self, now_ms: u64) -> Expiry {
        Expiry::At(between_ticks(now_ms + (100_000 + self.rng.below(100)) * 86_400_000))
    }
    fn near(&mut self, now_ms: u64) -> Expiry {
        if !self.limits.near_expiries {
            return self.far(now_ms);
        }
        Expiry::At(between_ticks(now_ms + self.rng.below(60_000)))
    }
    fn past(&mut self, now_ms: u64) -> Expiry {
        let back = self.rng.between(TICK_MS, 100_000);
        Expiry::At(between_ticks(now_ms.saturating_sub(back)))
    }

    fn value(&mut self, bytes_max: usize) -> Vec<u8> {
        self.written += 1;
        let length = match self.rng.below(100) {
            0..6 => return Vec::new(),
            6..30 => return self.number().into_bytes(),
            30..75 => self.rng.between(1, 100) as usize,
            75..90 => self.rng.between(100, 4096) as usize,
            90..96 => *self.rng.pick(&VALUE_LENGTHS[..10]),
            96..99 => self.rng.between(4096, 20_000) as usize,
            _ => *self.rng.pick(&VALUE_LENGTHS),
        };
        filler(length.min(bytes_max), self.written)
    }

    fn number(&mut self) -> String {
        match self.rng.below(12) {
            0 => i64::MAX.to_string(),
            1 => u64::MAX.to_string(),
            2 => "007".into(),
            3 => "3.25".into(),
            4 => "-40".into(),
            _ => self.rng.below(100_000).to_string(),
        }
    }
}

/// Bytes that are no number, differ by `seed`, and are the same again for the same one.
pub fn filler(length: usize, seed: u64) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    let mut bytes = format!("v{seed:x}.").into_bytes();
    while bytes.len() < length {
        bytes.extend_from_slice(&rng.next_u64().to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

fn between_ticks(ms: u64) -> u64 {
    ms / TICK_MS * TICK_MS + TICK_MS / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_itself_reaches_everything_and_keeps_its_limits() {
        let limits = Limits { key_bytes_max: 5000, value_bytes_max: 70_000, ..Limits::default() };
        let draw = || {
            let mut generator = Generator::new(7, limits.clone());
            let model = Model::new(1_000_000);
            (0..2000).flat_map(|_| generator.batch(&model)).collect::<Vec<_>>()
        };
        let cases = draw();
        assert_eq!(format!("{cases:?}"), format!("{:?}", draw()));

        assert!(cases.iter().all(|c| c.key.len() <= 5000 && (c.db as usize) < DATABASES));
        assert!(cases.iter().any(|c| c.key.len() > 4000) && cases.iter().any(|c| c.key.is_empty()));
        let count = |matches: fn(&Action) -> bool| cases.iter().filter(|c| matches(&c.action)).count();
        assert!(count(|a| matches!(a, Action::Flush(None))) > 0);
        assert!(count(|a| matches!(a, Action::Scan { .. })) > 0);
        assert!(count(|a| matches!(a, Action::Delete { condition: Condition::Version(_), .. })) > 0);
        assert!(count(|a| matches!(a, Action::Append { create: true, .. })) > 0);
        assert!(count(|a| matches!(a, Action::Expire { condition: ExpireIf::SomeEarlier, .. })) > 0);
        assert!(count(|a| matches!(a, Action::Incr(Delta::Saturating(_)))) > 0);
        let lengths: Vec<usize> = cases
            .iter()
            .filter_map(|c| if let Action::Set { value, .. } = &c.action { Some(value.len()) } else { None })
            .collect();
        for wanted in [0, 16_384, 16_385, 70_000] {
            assert!(lengths.contains(&wanted), "values of {wanted} bytes");
        }
        assert!(lengths.iter().all(|l| *l <= 70_000));
    }

    #[test]
    fn keys_differ() {
        for seed in 0..50 {
            let generator = Generator::new(seed, Limits::default());
            let different: std::collections::BTreeSet<_> = generator.keys.iter().collect();
            // One-byte keys may collide; most must not.
            assert!(different.len() > 40, "seed {seed}: {}", different.len());
        }
    }

    #[test]
    fn groups_fit() {
        let mut generator = Generator::new(3, Limits::default());
        let (short, long) = (generator.limits.group_bytes_max, generator.limits.long_group_bytes_max);
        let mut any_long = false;
        for _ in 0..500 {
            let bytes: usize = generator
                .group()
                .iter()
                .map(|c| {
                    c.key.len() + if let Action::Set { value, .. } = &c.action { value.len() } else { 0 }
                })
                .sum();
            assert!(bytes <= long);
            any_long |= bytes > short * 8;
        }
        assert!(any_long);
    }
}
