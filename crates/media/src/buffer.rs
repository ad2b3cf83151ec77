//! A buffer that grows: in memory while it is short, in a file without a name when it is long and the process has a budget.

use std::io;
use std::mem::MaybeUninit;
use std::ops::Deref;

use crate::spill::{SHORT_BYTES, Spill, Spilled, recount};

/// Bytes that are appended and read. Where [`spill_to`](crate::spill_to) was called, long ones take no memory that the system can't
/// take back; see [there](crate::spill). What can't be spilled, on a full disk above all, stays in memory.
///
/// Appending to a short one costs what it costs a vector; a long one takes a system call.
#[derive(Debug)]
pub struct Buffer(Bytes);

#[derive(Debug)]
enum Bytes {
    Memory(Vec<u8>),
    File(Spilled),
}

/// One of at least so many bytes that has to grow without being told how far grows by an eighth, and others to twice their length.
const EIGHTH_BYTES: usize = 8 << 20;

static ZEROS: [u8; 4096] = [0; 4096];

impl Buffer {
    /// An empty one, without memory.
    pub const fn new() -> Self {
        Self(Bytes::Memory(Vec::new()))
    }

    /// Appends bytes.
    #[inline]
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            Bytes::Memory(memory) if memory.capacity() - memory.len() >= bytes.len() => {
                memory.extend_from_slice(bytes);
            }
            _ => self.extend_slowly(bytes),
        }
    }

    #[cold]
    fn extend_slowly(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        match &mut self.0 {
            Bytes::Memory(memory) => memory.extend_from_slice(bytes),
            Bytes::File(file) => {
                if file.append(bytes).is_err() {
                    self.return_to_memory(self.len() + bytes.len(), bytes);
                }
            }
        }
    }

    /// Appends a byte.
    #[inline]
    pub fn push(&mut self, byte: u8) {
        self.extend_from_slice(&[byte]);
    }

    /// Makes it so long: what is new are zeros.
    pub fn resize_zeroed(&mut self, len: usize) {
        self.truncate(len);
        self.reserve(len - self.len());
        while self.len() < len {
            self.extend_from_slice(&ZEROS[..ZEROS.len().min(len - self.len())]);
        }
    }

    /// Writes over what is there.
    ///
    /// # Panics
    /// If so much is not there.
    pub fn write_at(&mut self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.len(), "{} bytes at {at} of {}", bytes.len(), self.len());
        if let Bytes::File(file) = &mut self.0
            && file.write_at(at, bytes).is_err()
        {
            self.return_to_memory(self.len(), &[]);
        }
        if let Bytes::Memory(memory) = &mut self.0 {
            memory[at..at + bytes.len()].copy_from_slice(bytes);
        }
    }

    /// Appends what `write` appends to a vector, which is empty or holds what is there already; at most `room` bytes.
    #[inline]
    pub fn append(&mut self, room: usize, write: impl FnOnce(&mut Vec<u8>)) {
        self.reserve(room);
        match &mut self.0 {
            Bytes::Memory(memory) => write(memory),
            Bytes::File(_) => {
                let mut part = Vec::with_capacity(room);
                write(&mut part);
                self.extend_from_slice(&part);
            }
        }
    }

    /// Appends `len` bytes that lie in whole words: shared memory is read so.
    ///
    /// # Panics
    /// If there are fewer.
    // Every get copies by it, and to call it would cost as much as to copy a short value.
    #[inline(always)]
    pub fn append_words(&mut self, len: usize, words: impl ExactSizeIterator<Item = u64>) {
        let count = len.div_ceil(8);
        assert!(words.len() >= count, "{len} bytes of {} words", words.len());
        if let Bytes::Memory(memory) = &mut self.0 {
            let (places, _) = memory.spare_capacity_mut().as_chunks_mut::<8>();
            if let Some(places) = places.get_mut(..count) {
                let mut written = 0;
                for (place, word) in places.iter_mut().zip(words) {
                    *place = word.to_le_bytes().map(MaybeUninit::new);
                    written += 1;
                }
                assert_eq!(written, count, "an iterator that told its length wrongly");
                // SAFETY: so many words were written, which hold at least so many bytes.
                unsafe { memory.set_len(memory.len() + len) };
                return;
            }
        }
        self.append_words_slowly(len, &mut words.take(count));
    }

    /// The same where there is no room, or in a file.
    #[cold]
    fn append_words_slowly(&mut self, len: usize, words: &mut dyn Iterator<Item = u64>) {
        self.reserve(len.next_multiple_of(8));
        let mut left = len;
        for word in words {
            self.extend_from_slice(&word.to_le_bytes()[..left.min(8)]);
            left -= left.min(8);
        }
    }

    /// Makes room for so many more bytes, and for further ones behind them.
    #[inline]
    pub fn reserve(&mut self, more: usize) {
        if self.capacity() - self.len() < more {
            let wanted = self.len() + more;
            let generous = match self.len() {
                long if long >= EIGHTH_BYTES => long + long / 8,
                short => short * 2,
            };
            self.grow_as_process_says(wanted.max(generous).max(64));
        }
    }

    /// Makes room for exactly so many more bytes.
    pub fn reserve_exact(&mut self, more: usize) {
        if self.capacity() - self.len() < more {
            self.grow_as_process_says(self.len() + more);
        }
    }

    /// Grows by the process's rule. Short ones don't ask for it: it stands behind a lock of all threads.
    #[cold]
    fn grow_as_process_says(&mut self, capacity: usize) {
        let spill = if capacity < SHORT_BYTES { None } else { Spill::current() };
        self.grow(capacity, spill.as_deref());
    }

    fn grow(&mut self, capacity: usize, spill: Option<&Spill>) {
        match &mut self.0 {
            Bytes::Memory(memory) => {
                let before = memory.capacity();
                let spill = spill.filter(|spill| capacity >= SHORT_BYTES && spill.takes(before, capacity));
                let spilled = spill.and_then(|spill| {
                    let mut file = spill.begin(capacity).ok()?;
                    file.append(memory).ok()?;
                    Some(file)
                });
                if let Some(file) = spilled {
                    recount(before, 0);
                    self.0 = Bytes::File(file);
                } else {
                    memory.reserve_exact(capacity - memory.len());
                    recount(before, memory.capacity());
                }
            }
            Bytes::File(file) => {
                if file.make_room(capacity).is_err() {
                    self.return_to_memory(capacity, &[]);
                }
            }
        }
    }

    #[cold]
    fn return_to_memory(&mut self, capacity: usize, more: &[u8]) {
        let mut memory = Vec::with_capacity(capacity);
        memory.extend_from_slice(self);
        memory.extend_from_slice(more);
        recount(0, memory.capacity());
        self.0 = Bytes::Memory(memory);
    }

    /// Keeps the first `len` bytes.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        match &mut self.0 {
            Bytes::Memory(memory) => memory.truncate(len),
            Bytes::File(file) => file.truncate(len),
        }
    }

    /// Empties it; a long one gives back what it had.
    #[inline]
    pub fn clear(&mut self) {
        match &mut self.0 {
            Bytes::Memory(memory) => memory.clear(),
            Bytes::File(_) => self.0 = Bytes::Memory(Vec::new()),
        }
    }

    /// Gives memory beyond so many bytes, and beyond what it holds, back.
    #[inline]
    pub fn shrink_to(&mut self, capacity: usize) {
        if self.memory() > capacity {
            self.shrink(capacity);
        }
    }

    #[cold]
    fn shrink(&mut self, capacity: usize) {
        if let Bytes::Memory(memory) = &mut self.0 {
            let before = memory.capacity();
            memory.shrink_to(capacity);
            recount(before, memory.capacity());
        }
    }

    /// Takes the first `len` bytes away.
    ///
    /// # Panics
    /// If it has fewer.
    pub fn consume(&mut self, len: usize) {
        if len == self.len() {
            return self.clear();
        }
        match &mut self.0 {
            Bytes::Memory(memory) => {
                memory.drain(..len);
            }
            Bytes::File(_) if len == 0 => {}
            Bytes::File(_) => {
                let mut rest = Self::new();
                rest.reserve_exact(self.len() - len);
                rest.extend_from_slice(&self[len..]);
                *self = rest;
            }
        }
    }

    /// Bytes that it has room for.
    #[inline]
    pub fn capacity(&self) -> usize {
        match &self.0 {
            Bytes::Memory(memory) => memory.capacity(),
            Bytes::File(file) => file.room(),
        }
    }

    /// Memory of the process that it takes; a long one none.
    #[inline]
    pub fn memory(&self) -> usize {
        match &self.0 {
            Bytes::Memory(memory) => memory.capacity(),
            Bytes::File(_) => 0,
        }
    }
}

impl Default for Buffer {
    fn default() -> Self {
        Self::new()
    }
}

impl From<&[u8]> for Buffer {
    /// These bytes, with no room for more.
    fn from(bytes: &[u8]) -> Self {
        let mut buffer = Self::new();
        buffer.reserve_exact(bytes.len());
        buffer.extend_from_slice(bytes);
        buffer
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        recount(self.memory(), 0);
    }
}

impl io::Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Deref for Buffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Memory(memory) => memory,
            Bytes::File(file) => file.bytes(),
        }
    }
}

impl PartialEq<[u8]> for Buffer {
    fn eq(&self, other: &[u8]) -> bool {
        **self == *other
    }
}

impl PartialEq<Vec<u8>> for Buffer {
    fn eq(&self, other: &Vec<u8>) -> bool {
        **self == **other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spill(budget: u64) -> (tempfile::TempDir, Spill) {
        let dir = tempfile::tempdir().unwrap();
        let spill = Spill::new(dir.path(), budget);
        (dir, spill)
    }

    #[test]
    fn a_long_one_takes_no_memory_and_leaves_no_file() {
        let (dir, spill) = spill(32 << 20);
        let mut buffer = Buffer::new();
        buffer.extend_from_slice(b"begin");
        buffer.grow(300 << 10, Some(&spill));
        assert_eq!((buffer.memory(), &buffer[..]), (0, &b"begin"[..]));
        let mut expected = b"begin".to_vec();
        for i in 0..5000u32 {
            buffer.extend_from_slice(&[i as u8; 1000]);
            expected.extend_from_slice(&[i as u8; 1000]);
        }
        buffer.append(10, |part| part.extend_from_slice(b"end"));
        expected.extend_from_slice(b"end");
        let words = [u64::from_le_bytes(*b"ABCDEFGH"), u64::from_le_bytes(*b"IJKLMNOP")];
        buffer.append_words(11, words.into_iter());
        expected.extend_from_slice(b"ABCDEFGHIJK");
        assert!(buffer == expected && buffer.memory() == 0 && buffer.capacity() >= expected.len());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        buffer.truncate(100_000);
        buffer.extend_from_slice(b"again");
        assert_eq!(&buffer[99_999..], [&expected[99_999..100_000], b"again"].concat());
        buffer.write_at(99_999, b"XY");
        buffer.write_at(3, b"Z");
        assert_eq!((&buffer[..5], &buffer[99_999..]), (&b"begZn"[..], &b"XYgain"[..]));
        buffer.resize_zeroed(110_000);
        assert!(buffer[100_005..].iter().all(|byte| *byte == 0) && buffer.len() == 110_000);
        buffer.resize_zeroed(100_005);
        buffer.consume(99_999);
        assert_eq!(buffer.len(), 6);
        buffer.clear();
        assert!(buffer.is_empty() && buffer.memory() < 1000);
    }

    #[test]
    fn a_short_one_stays_in_memory() {
        let (_dir, spill) = spill(1 << 30);
        let mut buffer = Buffer::new();
        buffer.grow(SHORT_BYTES, Some(&spill));
        assert!(buffer.memory() >= SHORT_BYTES);
        buffer.extend_from_slice(&[7; 1000]);
        buffer.append_words(0, [].into_iter());
        buffer.append_words(9, [7, 8].into_iter());
        buffer.consume(999);
        assert_eq!(&buffer[..], [7, 7, 0, 0, 0, 0, 0, 0, 0, 8]);
        buffer.shrink_to(10);
        assert!(buffer.memory() < 100);
    }

    #[test]
    fn many_that_are_not_short_are_long() {
        let (_dir, spill) = spill(8 << 20);
        let mut buffers = Vec::new();
        for _ in 0..40 {
            let mut buffer = Buffer::new();
            buffer.grow(100 << 10, Some(&spill));
            buffers.push(buffer);
        }
        let memory: usize = buffers.iter().map(Buffer::memory).sum();
        assert!(memory <= 512 << 10, "{memory} bytes");
    }

    #[test]
    fn where_nothing_can_be_spilled_it_stays_in_memory() {
        let (dir, spill) = spill(8 << 20);
        drop(dir);
        let mut buffer = Buffer::new();
        buffer.grow(1 << 20, Some(&spill));
        buffer.extend_from_slice(&[1; 1 << 20]);
        assert!(buffer.memory() >= 1 << 20 && buffer.iter().all(|byte| *byte == 1));
    }

    #[test]
    fn a_directory_in_memory_is_no_place_to_spill() {
        if let Ok(dir) = tempfile::tempdir_in("/dev/shm") {
            assert!(!spill_to_tmpfs(dir.path()));
        }
    }

    fn spill_to_tmpfs(dir: &std::path::Path) -> bool {
        crate::spill_to(dir, 1 << 20).unwrap()
    }
}
