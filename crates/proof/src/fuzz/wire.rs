//! Bytes as a network delivers them: in pieces of any size.

use std::fmt::Debug;

/// Inputs up to this length are cut in two at every byte.
const EVERY_CUT: usize = 200;

/// Calls `check` with the input in single bytes, then in two pieces, cut at each place (at 16 places, if it is long).
///
/// # Errors
/// The first that `check` answers.
fn splits(input: &[u8], mut check: impl FnMut(&[&[u8]]) -> Result<(), String>) -> Result<(), String> {
    check(&input.chunks(1).collect::<Vec<_>>())?;
    check(&input.chunks(7).collect::<Vec<_>>())?;
    let step = if input.len() <= EVERY_CUT { 1 } else { input.len() / 16 };
    for cut in (1..input.len()).step_by(step) {
        check(&[&input[..cut], &input[cut..]]).map_err(|error| format!("cut at {cut}: {error}"))?;
    }
    Ok(())
}

/// What `read` finds in the input in one piece.
///
/// # Errors
/// Its first, or that it finds something else in pieces.
pub(super) fn alike<T: PartialEq + Debug>(
    input: &[u8],
    read: impl Fn(&[&[u8]]) -> Result<T, String>,
) -> Result<T, String> {
    let whole = read(&[input])?;
    splits(input, |pieces| {
        let split = read(pieces)?;
        if split == whole {
            Ok(())
        } else {
            Err(format!("in one piece {whole:?}, in {} {split:?}", pieces.len()))
        }
    })?;
    Ok(whole)
}

/// What an event of a parser says of the bytes behind it.
pub(super) enum Behind {
    /// There is more to read.
    More,
    /// Nothing is read any more.
    End,
    /// So many bytes at least are needed, from the first that was not consumed.
    Needed(usize),
}

/// Shows pieces to a parser of memcached's as a connection does: its events. `step` says how many bytes it consumed, its event and what
/// is behind that.
///
/// # Errors
/// If it consumes more than it was shown, asks for what it has, or stands still.
pub(super) fn events(
    pieces: &[&[u8]],
    mut step: impl FnMut(&[u8]) -> (usize, String, Behind),
) -> Result<Vec<String>, String> {
    let (mut input, mut events) = (Vec::new(), Vec::new());
    for piece in pieces {
        input.extend_from_slice(piece);
        loop {
            let (consumed, event, behind) = step(&input);
            if consumed > input.len() {
                return Err(format!("{event} of {consumed} bytes where {} were shown", input.len()));
            }
            let left = input.len() - consumed;
            match behind {
                Behind::Needed(bytes) if bytes <= left => {
                    return Err(format!("asks for {bytes} bytes and has {left}"));
                }
                Behind::Needed(_) => {
                    input.drain(..consumed);
                    break;
                }
                Behind::End => {
                    events.push(event);
                    return Ok(events);
                }
                Behind::More if consumed == 0 => return Err("an event without progress".into()),
                Behind::More => {
                    events.push(event);
                    input.drain(..consumed);
                }
            }
        }
    }
    Ok(events)
}
