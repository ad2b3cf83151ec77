//! LZF, in which Redis compresses strings of more than 20 bytes.
//!
//! ```text
//!   000lllll                    l + 1 bytes as they are follow
//!   lllooooo oooooooo           l + 2 bytes as they were o + 1 bytes ago
//!   111ooooo llllllll oooooooo  l + 9 bytes likewise
//! ```

use terrace_engine::Buffer;

/// No run begins further back.
const REACH: usize = 1 << 13;
/// So much is kept at hand before all but that goes on.
const AT_HAND: usize = 1 << 17;

/// Restores `length` bytes; `None` if the input makes more, fewer, or is no LZF. What is reserved grows with what comes out.
pub(super) fn decompress(mut input: &[u8], length: usize) -> Option<Buffer> {
    let mut whole = Buffer::new();
    let mut output: Vec<u8> = Vec::new();
    while let [control, rest @ ..] = input {
        let (run, low) = (usize::from(control >> 5), usize::from(control & 31));
        if run == 0 {
            let (literal, rest) = rest.split_at_checked(low + 1)?;
            output.extend_from_slice(literal);
            input = rest;
        } else {
            let (run, rest) = match (run, rest) {
                (7, [more, rest @ ..]) => (7 + usize::from(*more), rest),
                (7, []) => return None,
                (run, rest) => (run, rest),
            };
            let (offset, rest) = rest.split_first()?;
            let start = output.len().checked_sub((low << 8 | usize::from(*offset)) + 1)?;
            // The run may reach into what it makes itself.
            for at in start..start + run + 2 {
                output.push(output[at]);
            }
            input = rest;
        }
        if whole.len() + output.len() > length {
            return None;
        }
        if output.len() >= AT_HAND {
            let gone = output.len() - REACH;
            whole.extend_from_slice(&output[..gone]);
            output.drain(..gone);
        }
    }
    whole.extend_from_slice(&output);
    (whole.len() == length).then_some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_runs() {
        assert_eq!(*decompress(b"\x02abc", 3).unwrap(), *b"abc");
        // "ab", then 4 bytes from 2 back, then 10 from 1 back.
        assert_eq!(*decompress(b"\x01ab\x40\x01\xe0\x01\x00", 16).unwrap(), *b"abababbbbbbbbbbb");
        assert_eq!(*decompress(b"", 0).unwrap(), *b"");
    }

    #[test]
    fn runs_reach_as_far_back_as_they_can_in_what_is_long() {
        let block: Vec<u8> = (0..REACH).map(|i| ((i * 7919) >> 5) as u8).collect();
        let mut input = Vec::new();
        for literal in block.chunks(32) {
            input.push((literal.len() - 1) as u8);
            input.extend_from_slice(literal);
        }
        let turns = 40;
        // Again and again the block, by runs of 256 from its length back.
        for _ in 0..turns * REACH / 256 {
            input.extend([0xff, 247, 0xff]);
        }
        let value = decompress(&input, (turns + 1) * REACH).unwrap();
        assert!(value.chunks(REACH).all(|part| part == block));
        assert!(decompress(&input, (turns + 1) * REACH - 1).is_none());
    }

    #[test]
    fn wrong_input_makes_nothing() {
        let wrong: [(&[u8], usize); 7] = [
            (b"\x02ab", 3),
            (b"\x02abc", 4),
            (b"\x02abc", 2),
            (b"\x01ab\x40", 6),
            (b"\x01ab\x40\x02", 6),
            (b"\x01ab\xe0", 6),
            (b"\x01ab\xe0\x01", 6),
        ];
        for (input, length) in wrong {
            assert!(decompress(input, length).is_none(), "{input:x?}");
        }
    }
}
