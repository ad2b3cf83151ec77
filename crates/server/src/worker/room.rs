//! Room for an unfinished command.

use terrace_engine::Buffer;

/// An unfinished command of so many bytes is large.
const LARGE_INPUT_BYTES: usize = 8 << 20;
/// A claim is believed once one in so many of its bytes has come.
const CLAIMED_TIMES: usize = 8;

/// Makes room for `more` bytes behind what there is of a command that will have `wanted` at least, as far as is known. A buffer that
/// grows is twice as large in the end, and takes three times as much while it moves: one whose length is known has all of it once an
/// eighth has come (a claim alone takes no memory), and another large one grows by an eighth. So does a stranger's, whatever it claims.
pub(super) fn make_room(input: &mut Buffer, more: usize, wanted: usize, is_stranger: bool) {
    if input.capacity() - input.len() >= more {
        return;
    }
    let to_come = wanted.saturating_sub(input.len());
    if !is_stranger && to_come >= more && input.len() >= to_come / CLAIMED_TIMES {
        input.reserve_exact(to_come);
    } else if is_stranger || input.len() >= LARGE_INPUT_BYTES {
        input.reserve_exact(more.max(input.len() / 8));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(bytes: usize, wanted: usize, is_stranger: bool) -> usize {
        let (mut input, mut moves) = (Buffer::new(), 0);
        while input.len() < bytes {
            let before = input.capacity();
            make_room(&mut input, 1000, wanted, is_stranger);
            input.extend_from_slice(&[0; 1000]);
            moves += usize::from(input.capacity() != before);
        }
        assert!(moves < 20 || input.capacity() != wanted, "moved {moves} times");
        input.capacity()
    }

    #[test]
    fn a_command_has_the_room_it_says_and_no_more() {
        assert_eq!(room(1_000_000, 1_000_000, false), 1_000_000);
        assert!(room(1_000_000, 0, false) >= 1_000_000);
        assert!(room(9_000_000, 0, false) < 18_000_000);
        assert!(room(1000, 500_000_000, false) < 5000, "a claim takes nothing");
        let stranger = room(16_000, 1_000_000, true);
        assert!((16_000..18_000).contains(&stranger), "{stranger} bytes for who has not logged in");
    }
}
