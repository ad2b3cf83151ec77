//! What each key must hold: the account of a client that is alone with its server.

use std::time::{Duration, Instant};

use super::random::mix;

/// Answers of a server may round a moment by so much.
const CLOCK_SLACK: Duration = Duration::from_millis(60);

/// A value that a key was given.
#[derive(Clone, Copy, Debug)]
pub struct Given {
    version: u32,
    bytes: u32,
    /// The earliest and the latest moment of its end.
    ends: Option<(Instant, Instant)>,
}

/// What an answer to a read was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    /// As it must be.
    Right,
    /// Nothing, where a cache may have evicted something.
    Missed,
    /// Anything else.
    Wrong,
}

/// The account.
pub struct Expected {
    keys: Vec<Option<Given>>,
    next_version: u32,
    /// Whether keys may be gone without having ended.
    pub evicts: bool,
}

impl Expected {
    pub fn new(keys: u32, evicts: bool) -> Self {
        Self { keys: vec![None; keys as usize], next_version: 1, evicts }
    }

    pub fn keys(&self) -> u32 {
        self.keys.len() as u32
    }

    /// Whether something is stored there, ended or not.
    pub fn holds(&self, key: u32) -> bool {
        self.keys[key as usize].is_some()
    }

    /// A version that no value had.
    pub fn version(&mut self) -> u32 {
        self.next_version += 1;
        self.next_version
    }

    /// A value was stored between two moments.
    pub fn stored(
        &mut self,
        key: u32,
        version: u32,
        bytes: usize,
        ttl: Option<Duration>,
        within: (Instant, Instant),
    ) {
        let ends = ttl.map(|ttl| (within.0 + ttl, within.1 + ttl));
        self.keys[key as usize] = Some(Given { version, bytes: bytes as u32, ends });
    }

    /// A key was deleted.
    pub fn deleted(&mut self, key: u32) {
        self.keys[key as usize] = None;
    }

    /// Everything is gone.
    pub fn emptied(&mut self) {
        self.keys.fill(None);
    }

    /// Whether a read between two moments may have been answered so.
    pub fn judge(&self, key: u32, answer: Option<&[u8]>, within: (Instant, Instant)) -> Judged {
        let Some(given) = self.keys[key as usize] else {
            return if answer.is_none() { Judged::Right } else { Judged::Wrong };
        };
        match answer {
            Some(value) => {
                let ended = given.ends.is_some_and(|(_, latest)| within.0 > latest + CLOCK_SLACK);
                let same = value.len() == given.bytes as usize && is_value(key, given.version, value);
                if same && !ended { Judged::Right } else { Judged::Wrong }
            }
            None if given.ends.is_some_and(|(earliest, _)| within.1 + CLOCK_SLACK >= earliest) => {
                Judged::Right
            }
            None if self.evicts => Judged::Missed,
            None => Judged::Wrong,
        }
    }

    /// Keys that must be there at a moment, and those that may be.
    pub fn count(&self, at: Instant) -> (u64, u64) {
        let (mut must, mut may) = (0, 0);
        for given in self.keys.iter().flatten() {
            let ends = given.ends;
            may += u64::from(ends.is_none_or(|(_, latest)| at <= latest + CLOCK_SLACK));
            must += u64::from(ends.is_none_or(|(earliest, _)| at + CLOCK_SLACK < earliest));
        }
        (must, may)
    }

    /// Bytes of values that live at a moment.
    pub fn live_bytes(&self, at: Instant) -> u64 {
        let live =
            self.keys.iter().flatten().filter(|given| given.ends.is_none_or(|(_, latest)| at <= latest));
        live.map(|given| u64::from(given.bytes)).sum()
    }
}

/// The value of a version, which no other version of any key shares but where it is too short to differ.
pub fn write_value(key: u32, version: u32, bytes: usize, out: &mut Vec<u8>) {
    out.clear();
    out.extend(words(key, version).take(bytes.div_ceil(8)).flatten());
    out.truncate(bytes);
}

fn is_value(key: u32, version: u32, value: &[u8]) -> bool {
    value.chunks(8).zip(words(key, version)).all(|(chunk, word)| chunk == &word[..chunk.len()])
}

fn words(key: u32, version: u32) -> impl Iterator<Item = [u8; 8]> {
    let seed = mix(u64::from(key) << 32 | u64::from(version));
    (0u64..).map(move |at| (seed ^ at.wrapping_mul(0x9E37_79B9_7F4A_7C15)).to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_tells_right_from_wrong() {
        let now = Instant::now();
        let later = now + Duration::from_secs(100);
        let mut expected = Expected::new(4, false);
        let mut value = Vec::new();
        write_value(1, 7, 100, &mut value);
        expected.stored(1, 7, 100, Some(Duration::from_secs(10)), (now, now));
        assert_eq!(expected.judge(1, Some(&value), (now, now)), Judged::Right);
        assert_eq!(expected.judge(1, Some(&value[..99]), (now, now)), Judged::Wrong);
        assert_eq!(expected.judge(1, None, (now, now)), Judged::Wrong, "too early");
        assert_eq!(expected.judge(1, None, (later, later)), Judged::Right);
        assert_eq!(expected.judge(1, Some(&value), (later, later)), Judged::Wrong, "back from the dead");
        assert_eq!(expected.judge(2, Some(&value), (now, now)), Judged::Wrong, "nobody stored it");
        assert_eq!((expected.count(now), expected.count(later)), ((1, 1), (0, 0)));
        expected.stored(2, 8, 100, None, (now, now));
        assert_eq!(expected.judge(2, Some(&value), (now, now)), Judged::Wrong, "another key's");
        expected.evicts = true;
        assert_eq!(expected.judge(2, None, (now, now)), Judged::Missed);
        expected.deleted(2);
        assert_eq!(expected.judge(2, None, (now, now)), Judged::Right);
    }
}
