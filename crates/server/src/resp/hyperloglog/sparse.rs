//! The sparse representation: runs of registers with the same value.
//!
//! ```text
//!   00llllll            ZERO:  l + 1 registers of 0
//!   01llllll llllllll   XZERO: l + 1 registers of 0
//!   1vvvvvll            VAL:   l + 1 registers of v + 1
//! ```

use super::hash::REGISTERS;

/// The largest value that a run can have.
pub(super) const VALUE_MAX: u8 = 32;
const RUN_MAX: usize = 4;
const ZEROS_MAX: usize = 64;

/// The bytes are no runs, or their registers are too few or too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Corrupted;

/// Registers with the same value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub value: u8,
    pub length: usize,
}

/// A run and where its bytes are.
#[derive(Clone, Copy)]
struct Placed {
    run: Run,
    at: usize,
    bytes: usize,
    /// Its first register.
    first: usize,
}

/// All registers in one run: none has been counted.
pub(super) fn empty() -> Vec<u8> {
    let mut bytes = Vec::new();
    Run { value: 0, length: REGISTERS }.write(&mut bytes);
    bytes
}

/// Hands all runs to `take`, first to last.
pub(super) fn each(bytes: &[u8], mut take: impl FnMut(Run)) -> Result<(), Corrupted> {
    let (mut at, mut registers) = (0, 0);
    while at < bytes.len() {
        let (run, length) = Run::read(&bytes[at..]).ok_or(Corrupted)?;
        at += length;
        registers += run.length;
        if registers > REGISTERS {
            return Err(Corrupted);
        }
        take(run);
    }
    if registers == REGISTERS { Ok(()) } else { Err(Corrupted) }
}

/// What [`raise`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Raised {
    /// The register has a new value.
    Yes,
    /// It had that value, or a larger one.
    No,
    /// The runs would take more bytes than there is room for; nothing was changed.
    NoRoom,
}

/// Raises a register to `value`, which is at most [`VALUE_MAX`]. The runs begin at `start` of `bytes`, which may grow to
/// `room` bytes. Each step is Redis's, so that the same elements make the same bytes.
pub(super) fn raise(
    bytes: &mut Vec<u8>,
    start: usize,
    index: usize,
    value: u8,
    room: usize,
) -> Result<Raised, Corrupted> {
    let (before, old) = find(&bytes[start..], index).ok_or(Corrupted)?;
    if old.run.value >= value {
        return Ok(Raised::No);
    }
    let mut new = Vec::new();
    let left = index - old.first;
    let right = old.run.length - left - 1;
    let parts = [(old.run.value, left), (value, 1), (old.run.value, right)];
    for (value, length) in parts {
        if length > 0 {
            Run { value, length }.write(&mut new);
        }
    }
    if new.len() > old.bytes && bytes.len() + new.len() - old.bytes > room {
        return Ok(Raised::NoRoom);
    }
    let at = start + old.at;
    bytes.splice(at..at + old.bytes, new);
    merge(bytes, start + before);
    Ok(Raised::Yes)
}

/// The run that holds the register, and where the run before it begins.
fn find(bytes: &[u8], index: usize) -> Option<(usize, Placed)> {
    let (mut before, mut at, mut first) = (0, 0, 0);
    loop {
        let (run, length) = Run::read(bytes.get(at..)?)?;
        if index < first + run.length {
            return Some((before, Placed { run, at, bytes: length, first }));
        }
        before = at;
        at += length;
        first += run.length;
    }
}

/// Joins neighbours of the same value, if they fit one run, among the five runs from `at` on.
fn merge(bytes: &mut Vec<u8>, mut at: usize) {
    for _ in 0..5 {
        let Some((run, length)) = bytes.get(at..).and_then(Run::read) else { return };
        let next = bytes.get(at + length..).and_then(Run::read);
        match next {
            Some((next, _))
                if run.value > 0 && next.value == run.value && run.length + next.length <= RUN_MAX =>
            {
                let joined = run.length + next.length;
                bytes.remove(at);
                bytes[at] = value_byte(run.value, joined);
            }
            _ => at += length,
        }
    }
}

fn value_byte(value: u8, length: usize) -> u8 {
    0x80 | (value - 1) << 2 | (length - 1) as u8
}

impl Run {
    /// The run at the beginning, and how many bytes it takes.
    fn read(bytes: &[u8]) -> Option<(Self, usize)> {
        Some(match *bytes {
            [byte @ 0x80..=0xff, ..] => {
                (Self { value: (byte >> 2 & 31) + 1, length: usize::from(byte & 3) + 1 }, 1)
            }
            [high @ 0x40..=0x7f, low, ..] => {
                (Self { value: 0, length: (usize::from(high & 63) << 8 | usize::from(low)) + 1 }, 2)
            }
            [byte @ 0..=0x3f, ..] => (Self { value: 0, length: usize::from(byte) + 1 }, 1),
            _ => return None,
        })
    }

    fn write(self, bytes: &mut Vec<u8>) {
        let length = self.length - 1;
        match self.value {
            0 if self.length > ZEROS_MAX => bytes.extend([0x40 | (length >> 8) as u8, length as u8]),
            0 => bytes.push(length as u8),
            value => bytes.push(value_byte(value, self.length)),
        }
    }
}

/// The runs as `PFDEBUG DECODE` shows them, whether or not they make all registers.
pub(super) fn describe(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    // What a last run lacks is a zero, as it is in Redis, whose strings end so.
    let bytes = [bytes, b"\0"].concat();
    let (mut text, mut at) = (String::new(), 0);
    while let (true, Some((run, length))) = (at + 1 < bytes.len(), bytes.get(at..).and_then(Run::read)) {
        at += length;
        let _ = match (run.value, length) {
            (0, 2) => write!(text, "Z:{} ", run.length),
            (0, _) => write!(text, "z:{} ", run.length),
            (value, _) => write!(text, "v:{value},{} ", run.length),
        };
    }
    text.truncate(text.trim_end().len());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_split_and_join() {
        let mut bytes = empty();
        let mut raise = |index, value| {
            let raised = raise(&mut bytes, 0, index, value, 3000).unwrap();
            (raised, describe(&bytes))
        };
        assert_eq!(raise(100, 3), (Raised::Yes, "Z:100 v:3,1 Z:16283".into()));
        assert_eq!(raise(101, 3), (Raised::Yes, "Z:100 v:3,2 Z:16282".into()));
        assert_eq!(raise(101, 2).0, Raised::No);
        assert_eq!(raise(100, 4), (Raised::Yes, "Z:100 v:4,1 v:3,1 Z:16282".into()));
        assert_eq!(raise(99, 4), (Raised::Yes, "Z:99 v:4,2 v:3,1 Z:16282".into()));
        assert_eq!(raise(0, 1), (Raised::Yes, "v:1,1 Z:98 v:4,2 v:3,1 Z:16282".into()));
        assert_eq!(raise(REGISTERS - 1, 32).1, "v:1,1 Z:98 v:4,2 v:3,1 Z:16281 v:32,1");
        assert_eq!(raise(40, 1).1, "v:1,1 z:39 v:1,1 z:58 v:4,2 v:3,1 Z:16281 v:32,1");
    }

    #[test]
    fn without_room_nothing_changes() {
        let mut bytes = empty();
        assert_eq!(raise(&mut bytes, 0, 5, 1, 3), Ok(Raised::NoRoom));
        assert_eq!(bytes, empty());
    }

    #[test]
    fn damage_is_found() {
        for bytes in [&b""[..], b"\x7f", b"\x7f\xff\x00", b"\x7f\xfe", b"\x00"] {
            assert_eq!(each(bytes, |_| {}), Err(Corrupted), "{bytes:x?}");
            assert_eq!(
                raise(&mut bytes.to_vec(), 0, REGISTERS - 1, 33, 3000).is_err(),
                bytes != b"\x7f\xff\x00"
            );
        }
    }
}
