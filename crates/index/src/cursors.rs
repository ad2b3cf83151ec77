//! Cursors of ordered indexes: numbers that stand for the key at which an iteration goes on.
//!
//! # Thread safety
//! One mutex, held for a copy of one key.
//!
//! # Invariants
//! Cursors are given out in ascending order, beginning with 1; `kept` holds the positions of the newest, without a gap, and
//! never more than [`CURSORS_MAX`] of them or [`BYTES_MAX`] bytes (one position of any length always fits). A cursor may be
//! used again until it is forgotten, for whoever asks may ask twice.

use std::collections::VecDeque;

use crate::sync::Mutex;

/// The most cursors remembered.
const CURSORS_MAX: usize = 16 << 10;

/// The most bytes of keys remembered.
const BYTES_MAX: usize = 4 << 20;

/// A bounded memory of positions.
#[derive(Default)]
pub struct Cursors(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    /// The position of cursor `forgotten + 1` comes first.
    positions: VecDeque<Box<[u8]>>,
    bytes: usize,
    forgotten: u64,
}

impl Cursors {
    /// A cursor, never 0, for a position. The oldest are forgotten if there are too many.
    pub fn save(&self, position: &[u8]) -> u64 {
        let mut kept = self.0.lock();
        kept.bytes += position.len();
        kept.positions.push_back(position.into());
        while kept.positions.len() > CURSORS_MAX || (kept.bytes > BYTES_MAX && kept.positions.len() > 1) {
            let Some(oldest) = kept.positions.pop_front() else { break };
            kept.bytes -= oldest.len();
            kept.forgotten += 1;
        }
        kept.forgotten + kept.positions.len() as u64
    }

    /// The position that a cursor stands for; `None` for 0, and for cursors forgotten or never given out: begin again.
    pub fn find(&self, cursor: u64) -> Option<Box<[u8]>> {
        let kept = self.0.lock();
        let nth = cursor.checked_sub(kept.forgotten)?.checked_sub(1)?;
        kept.positions.get(usize::try_from(nth).ok()?).cloned()
    }

    /// DRAM held, in bytes, without this struct.
    pub fn memory_bytes(&self) -> u64 {
        let kept = self.0.lock();
        (kept.bytes + kept.positions.capacity() * size_of::<Box<[u8]>>()) as u64
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn positions_come_back_until_they_are_forgotten() {
        let cursors = Cursors::default();
        assert_eq!(cursors.find(0), None);
        assert_eq!(cursors.find(1), None);
        assert_eq!(cursors.save(b""), 1);
        assert_eq!(cursors.save(b"a\0b"), 2);
        for _ in 0..2 {
            assert_eq!(cursors.find(1).as_deref(), Some(&b""[..]));
            assert_eq!(cursors.find(2).as_deref(), Some(&b"a\0b"[..]));
        }
        assert_eq!(cursors.find(3), None);
        for n in 3..=CURSORS_MAX as u64 + 1 {
            assert_eq!(cursors.save(&n.to_le_bytes()), n);
        }
        assert_eq!(cursors.find(0), None);
        assert_eq!(cursors.find(1), None, "the oldest is forgotten");
        assert_eq!(cursors.find(2).as_deref(), Some(&b"a\0b"[..]));
        assert_eq!(cursors.find(u64::MAX), None);
    }

    #[test]
    fn bytes_are_bounded_too() {
        let cursors = Cursors::default();
        let long = vec![7; BYTES_MAX / 2];
        let given: Vec<u64> = (0..5).map(|_| cursors.save(&long)).collect();
        assert_eq!(given, [1, 2, 3, 4, 5]);
        assert!(cursors.find(3).is_none() && cursors.find(4).is_some() && cursors.find(5).is_some());
        let longest = vec![7; BYTES_MAX + 1];
        let last = cursors.save(&longest);
        assert_eq!(cursors.find(last).as_deref(), Some(&longest[..]), "one always fits");
        assert!(cursors.find(5).is_none());
        assert!(cursors.memory_bytes() >= BYTES_MAX as u64);
    }
}
