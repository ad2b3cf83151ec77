//! `stats detail`: counts of operations by the prefixes of keys.

use std::collections::HashMap;
use std::io::Write as _;

use parking_lot::Mutex;

/// Prefixes that are counted; further ones are not.
const PREFIXES_MAX: usize = 4096;

/// What happened to keys of one prefix.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    gets: u64,
    hits: u64,
    sets: u64,
    deletes: u64,
}

/// Something that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Hit,
    Miss,
    Set,
    Delete,
}

/// See the module. The lock is a leaf, and taken only while somebody wants these counts.
#[derive(Default)]
pub(super) struct Prefixes {
    counts: Mutex<HashMap<Box<[u8]>, Counts>>,
}

impl Prefixes {
    /// Counts one. A key without the delimiter has no prefix.
    pub(super) fn count(&self, key: &[u8], delimiter: u8, event: Event) {
        let Some(end) = key.iter().position(|&byte| byte == delimiter) else { return };
        let mut all = self.counts.lock();
        if all.len() >= PREFIXES_MAX && !all.contains_key(&key[..end]) {
            return;
        }
        let counts = all.entry(key[..end].into()).or_default();
        match event {
            Event::Hit => {
                counts.gets += 1;
                counts.hits += 1;
            }
            Event::Miss => counts.gets += 1,
            Event::Set => counts.sets += 1,
            Event::Delete => counts.deletes += 1,
        }
    }

    /// Appends what was counted, a line each, sorted.
    pub(super) fn dump(&self, out: &mut Vec<u8>) {
        let counts = self.counts.lock();
        let mut rows: Vec<_> = counts.iter().collect();
        rows.sort_unstable_by_key(|(prefix, _)| *prefix);
        for (prefix, Counts { gets, hits, sets, deletes }) in rows {
            out.extend_from_slice(b"PREFIX ");
            out.extend_from_slice(prefix);
            // Writing to a Vec can't fail.
            let _ = write!(out, " get {gets} hit {hits} set {sets} del {deletes}\r\n");
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&self) {
        self.counts.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_counted_and_bounded() {
        let prefixes = Prefixes::default();
        for (key, event) in [
            ("b:1", Event::Hit),
            ("b:2", Event::Miss),
            ("a:b:c", Event::Set),
            ("a:", Event::Delete),
            ("none", Event::Set),
        ] {
            prefixes.count(key.as_bytes(), b':', event);
        }
        let mut out = Vec::new();
        prefixes.dump(&mut out);
        assert_eq!(out, b"PREFIX a get 0 hit 0 set 1 del 1\r\nPREFIX b get 2 hit 1 set 0 del 0\r\n");
        for i in 0..PREFIXES_MAX * 2 {
            prefixes.count(format!("p{i}:x").as_bytes(), b':', Event::Set);
        }
        prefixes.count(b"b:3", b':', Event::Delete);
        let mut out = Vec::new();
        prefixes.dump(&mut out);
        assert_eq!(out.iter().filter(|&&byte| byte == b'\n').count(), PREFIXES_MAX);
        assert!(
            String::from_utf8(out).unwrap().contains("PREFIX b get 2 hit 1 set 0 del 1\r\n"),
            "known ones go on"
        );
        prefixes.clear();
        let mut out = Vec::new();
        prefixes.dump(&mut out);
        assert!(out.is_empty());
    }
}
