//! Reads and writes that go on until everything is done: short ones and interruptions are no errors.

use std::fs::File;
use std::io;

use rustix::io::{pread, pwrite, retry_on_intr};

use crate::IO_ALIGN;

pub(super) fn read_full(file: &File, buf: &mut [u8], offset: u64) -> io::Result<()> {
    let len = buf.len();
    go_on(len, |done| Ok(retry_on_intr(|| pread(file, &mut buf[done..], offset + done as u64))?))
        .map_err(|error| error.unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into()))
}

pub(super) fn write_full(file: &File, buf: &[u8], offset: u64) -> io::Result<()> {
    go_on(buf.len(), |done| Ok(retry_on_intr(|| pwrite(file, &buf[done..], offset + done as u64))?))
        .map_err(|error| error.unwrap_or_else(|| io::ErrorKind::WriteZero.into()))
}

/// Where the next attempt starts after `moved` bytes at `done`, or `None` if nothing whole was moved: O_DIRECT needs
/// whole pages, so a part of one is moved again.
pub(super) fn resume(done: usize, moved: usize, len: usize) -> Option<usize> {
    let reached = done + moved;
    if reached >= len {
        return Some(len);
    }
    let reached = reached / IO_ALIGN * IO_ALIGN;
    (reached > done).then_some(reached)
}

/// Calls `attempt` with the bytes done so far until `len` are. Fails with its error, or with `None` if it gets stuck.
fn go_on(len: usize, mut attempt: impl FnMut(usize) -> io::Result<usize>) -> Result<(), Option<io::Error>> {
    let mut done = 0;
    while done < len {
        let moved = attempt(done).map_err(Some)?;
        done = resume(done, moved, len).ok_or(None)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_attempts_are_continued_at_whole_pages() {
        let mut seen = Vec::new();
        let mut answers = [4096, 5000, 4096 * 2].into_iter();
        go_on(4096 * 4, |done| {
            seen.push(done);
            Ok(answers.next().unwrap())
        })
        .unwrap();
        assert_eq!(seen, [0, 4096, 8192]);
    }

    #[test]
    fn no_progress_and_errors_end_it() {
        assert!(go_on(4096, |_| Ok(0)).unwrap_err().is_none());
        assert!(go_on(8192, |_| Ok(512)).unwrap_err().is_none());
        let error = go_on(4096, |_| Err(io::Error::from_raw_os_error(libc::EIO))).unwrap_err();
        assert_eq!(error.unwrap().raw_os_error(), Some(libc::EIO));
    }
}
