//! Reading twice: what can't tell by itself that it came from elsewhere or from earlier counts when two readings agree.
//!
//! A page that holds nothing has no checksum that a misdirected read could fail, and one from earlier may be as whole as the
//! one that was asked for. A device that answers so once is caught by asking again.

use std::io;

/// Readings after which a device that never says the same thing twice is given up.
pub const READINGS_MAX: usize = 4;

/// Reads into `out` until two readings, one after the other, are the same.
///
/// # Errors
/// The device's; [`io::ErrorKind::InvalidData`] if no two of [`READINGS_MAX`] readings in a row agree.
pub fn read_agreed(out: &mut [u8], mut read: impl FnMut(&mut [u8]) -> io::Result<()>) -> io::Result<()> {
    read(out)?;
    let mut again = vec![0; out.len()];
    for _ in 1..READINGS_MAX {
        read(&mut again)?;
        if again == out {
            return Ok(());
        }
        out.copy_from_slice(&again);
    }
    Err(differ())
}

/// The error of readings that never agree.
pub fn differ() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the device brings other bytes each time it is read")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wrong_reading_is_outvoted_and_a_device_that_never_agrees_is_told() {
        for wrong in 0..3 {
            let mut turn = 0;
            let mut out = [0; 8];
            read_agreed(&mut out, |bytes| {
                bytes.fill(if turn == wrong { 9 } else { 7 });
                turn += 1;
                Ok(())
            })
            .unwrap();
            assert_eq!(out, [7; 8], "reading {wrong} was wrong");
        }
        let mut turn = 0;
        let restless = read_agreed(&mut [0; 8], |bytes| {
            turn += 1;
            bytes.fill(turn);
            Ok(())
        });
        assert_eq!(restless.unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(usize::from(turn), READINGS_MAX);
    }
}
