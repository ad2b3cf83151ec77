//! A region that is read and not written: what is stored stays in DRAM, line by line. So a check may do what an opening does, and a repair
//! stores what it has made once all of it is there.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use terrace_media::{ByteRegion, Counters};

const LINE: u64 = 64;

/// See the module.
pub struct Overlay<R> {
    under: Arc<R>,
    lines: Mutex<HashMap<u64, [u8; LINE as usize]>>,
}

impl<R: ByteRegion> Overlay<R> {
    /// Over a region.
    pub fn new(under: Arc<R>) -> Self {
        Self { under, lines: Mutex::default() }
    }
    /// Stores all of it in the region below, those lines last that a range of bytes names: until then they read as zeros. Durable when it
    /// returns.
    pub fn apply(&self, last: std::ops::Range<u64>) {
        let lines = std::mem::take(&mut *self.lines.lock());
        let (start, end) = (last.start / LINE * LINE, last.end.next_multiple_of(LINE));
        let is_last = |line: &u64| (start..end).contains(line);
        for line in (start..end).step_by(LINE as usize) {
            self.under.write_nt(line, &[0; LINE as usize]);
        }
        self.under.fence();
        for wanted in [false, true] {
            let some = lines.iter().filter(|(line, _)| is_last(line) == wanted);
            some.for_each(|(line, bytes)| self.under.write_nt(*line, bytes));
            self.under.fence();
        }
    }
}

impl<R: ByteRegion> ByteRegion for Overlay<R> {
    fn len(&self) -> u64 {
        self.under.len()
    }
    fn load_u64(&self, offset: u64) -> u64 {
        let mut word = [0; 8];
        self.read(offset, &mut word);
        u64::from_le_bytes(word)
    }
    fn store_u64(&self, offset: u64, value: u64) {
        self.write(offset, &value.to_le_bytes());
    }
    fn read(&self, offset: u64, out: &mut [u8]) {
        self.under.read(offset, out);
        let (lines, end) = (self.lines.lock(), offset + out.len() as u64);
        if lines.is_empty() {
            return;
        }
        for line in (offset / LINE * LINE..end).step_by(LINE as usize) {
            if let Some(bytes) = lines.get(&line) {
                let (from, to) = (offset.max(line), end.min(line + LINE));
                out[(from - offset) as usize..(to - offset) as usize]
                    .copy_from_slice(&bytes[(from - line) as usize..(to - line) as usize]);
            }
        }
    }
    fn prefetch(&self, _offset: u64, _len: usize) {}
    fn write(&self, offset: u64, bytes: &[u8]) {
        let (mut lines, end) = (self.lines.lock(), offset + bytes.len() as u64);
        for line in (offset / LINE * LINE..end).step_by(LINE as usize) {
            let stored = lines.entry(line).or_insert_with(|| {
                let mut stored = [0; LINE as usize];
                self.under.read(line, &mut stored);
                stored
            });
            let (from, to) = (offset.max(line), end.min(line + LINE));
            stored[(from - line) as usize..(to - line) as usize]
                .copy_from_slice(&bytes[(from - offset) as usize..(to - offset) as usize]);
        }
    }
    fn write_nt(&self, offset: u64, bytes: &[u8]) {
        self.write(offset, bytes);
    }
    fn flush(&self, _offset: u64, _len: usize) {}
    fn fence(&self) {}
    fn counters(&self) -> &Counters {
        self.under.counters()
    }
}

#[cfg(test)]
mod tests {
    use terrace_media::HeapRegion;

    use super::*;

    #[test]
    fn what_is_stored_is_read_and_nothing_is_changed() {
        let under = Arc::new(HeapRegion::new(4096).unwrap());
        under.write(100, &[7; 100]);
        let over = Overlay::new(under.clone());
        over.write(120, &[9; 30]);
        over.store_u64(0, 5);
        let (mut mine, mut theirs) = ([0; 100], [0; 100]);
        over.read(100, &mut mine);
        under.read(100, &mut theirs);
        assert_eq!(mine[..], [&[7; 20][..], &[9; 30], &[7; 50]].concat());
        assert_eq!((theirs, over.load_u64(0), under.load_u64(0)), ([7; 100], 5, 0));
        over.apply(64..128);
        under.read(100, &mut theirs);
        assert_eq!((&theirs[..], under.load_u64(0), over.load_u64(0)), (&mine[..], 5, 5));
    }
}
