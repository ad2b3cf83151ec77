//! Listing all keys: `lru_crawler metadump`, `lru_crawler mgdump` and `stats cachedump`.
//!
//! A dump takes many turns, and other connections theirs between them. Each turn looks up what the last one's step of iteration
//! found, and makes the next step:
//!
//! ```text
//!   turn:  look up keys of the last step, Scan from the cursor  -->  a line for each that is still there; keys and cursor
//! ```

use std::io::Write as _;

use terrace_engine::{Batch, OpKind, Reply};
use terrace_protocol::memcached::{encode_key, reply};

use super::DATABASE;
use super::answer::Answers;
use super::meta::BINARY_KEY;

/// About how many keys a turn lists.
const KEYS_A_TURN: u32 = 64;

/// memcached's bound on the answer to `stats cachedump`, in bytes.
const CACHEDUMP_BYTES_MAX: usize = 2 << 20;

/// What is listed of each record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// `lru_crawler metadump`.
    Metadump,
    /// `lru_crawler mgdump`: a line is the `mg` of its key.
    Mgdump,
    /// `stats cachedump`, with the most keys to list; 0 for all.
    Cachedump { limit: u64 },
}

impl Format {
    /// What stands before the first line.
    pub(super) fn begin(self) -> &'static [u8] {
        match self {
            Self::Mgdump | Self::Metadump => reply::OK,
            Self::Cachedump { .. } => b"",
        }
    }

    /// All of a listing of nothing.
    pub(super) fn nothing(self) -> &'static [u8] {
        match self {
            Self::Mgdump => b"OK\r\nEN\r\n",
            Self::Metadump => b"OK\r\nEND\r\n",
            Self::Cachedump { .. } => reply::END,
        }
    }

    /// What stands behind the last line.
    fn end(self) -> &'static [u8] {
        match self {
            Self::Mgdump => b"EN\r\n",
            Self::Metadump | Self::Cachedump { .. } => reply::END,
        }
    }
}

/// A dump, as it is begun.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dump {
    pub(super) format: Format,
}

impl Dump {
    pub(super) fn new(format: Format) -> Self {
        Self { format }
    }
}

/// A dump under way.
#[derive(Debug)]
pub(super) struct Dumping {
    format: Format,
    /// Where the iteration goes on; `None` once it is at its end.
    cursor: Option<u64>,
    /// What the last step found: keys, one behind the other, and where they end.
    keys: Vec<u8>,
    ends: Vec<usize>,
    /// Operations of this turn's batch: look-ups from here on, then the step of iteration if there is one.
    first: usize,
    step: Option<usize>,
    listed: u64,
    bytes: usize,
}

impl Dumping {
    /// At the start of everything.
    pub(super) fn new(dump: Dump) -> Self {
        Self {
            format: dump.format,
            cursor: Some(0),
            keys: Vec::new(),
            ends: Vec::new(),
            first: 0,
            step: None,
            listed: 0,
            bytes: 0,
        }
    }

    /// Adds a turn's operations.
    pub(super) fn plan(&mut self, batch: &mut Batch) {
        self.first = batch.len();
        let mut start = 0;
        for &end in &self.ends {
            batch.push(DATABASE, &self.keys[start..end], OpKind::Get { value: false });
            start = end;
        }
        self.step =
            self.cursor.map(|cursor| batch.push(DATABASE, b"", OpKind::Scan { cursor, count: KEYS_A_TURN }));
    }

    /// Behind the turn's operations.
    pub(super) fn end(&self) -> usize {
        self.step.map_or(self.first + self.ends.len(), |step| step + 1)
    }

    /// Appends a turn's lines; `true` if they were the last.
    pub(super) fn answer(&mut self, answers: &mut Answers<'_>) -> bool {
        for op in self.first..self.first + self.ends.len() {
            if let Reply::Hit { meta, .. } = answers.reply(op) {
                let start = answers.out.len();
                let key = answers.batch.input(answers.batch.op(op).key);
                self.line(key, &meta, answers);
                self.listed += 1;
                self.bytes += answers.out.len() - start;
            }
            if self.is_enough() {
                self.cursor = None;
                self.step = None;
                break;
            }
        }
        self.keys.clear();
        self.ends.clear();
        if let Some(step) = self.step {
            match answers.reply(step) {
                Reply::Scanned { cursor } => {
                    self.cursor = Some(cursor).filter(|&cursor| cursor != 0);
                    for key in answers.batch.scanned(step) {
                        self.keys.extend_from_slice(key);
                        self.ends.push(self.keys.len());
                    }
                }
                Reply::Error(error) => {
                    answers.error(error, false);
                    return true;
                }
                _ => self.cursor = None,
            }
        }
        let over = self.cursor.is_none() && self.ends.is_empty();
        if over {
            answers.out.extend_from_slice(self.format.end());
        }
        over
    }

    fn is_enough(&self) -> bool {
        match self.format {
            Format::Metadump | Format::Mgdump => false,
            Format::Cachedump { limit } => {
                self.bytes >= CACHEDUMP_BYTES_MAX || (limit != 0 && self.listed >= limit)
            }
        }
    }

    fn line(&self, key: &[u8], meta: &terrace_engine::Meta, answers: &mut Answers<'_>) {
        let (now_ms, time) = (answers.ctx.now_ms, answers.ctx.time);
        let out = &mut *answers.out;
        let expires = if meta.expire_at == 0 { 0 } else { time.to_wall(meta.expire_at).div_ceil(1000) };
        // Writing to a Vec can't fail.
        match self.format {
            Format::Cachedump { .. } => {
                out.extend_from_slice(b"ITEM ");
                out.extend_from_slice(key);
                let _ = write!(out, " [{} b; {expires} s]\r\n", meta.value_bytes);
            }
            Format::Mgdump => {
                out.extend_from_slice(b"mg ");
                if meta.state & BINARY_KEY == 0 {
                    out.extend_from_slice(key);
                } else {
                    encode_key(key, out);
                    out.extend_from_slice(b" b");
                }
                out.extend_from_slice(b"\r\n");
            }
            Format::Metadump => {
                let access = answers.accesses.map(|accesses| accesses.of(DATABASE, key, now_ms));
                let uptime = answers.ctx.shared.started.elapsed().as_secs();
                let idle = access.map_or(uptime, |access| access.idle);
                out.extend_from_slice(b"key=");
                percent_encode(key, out);
                let _ = match expires {
                    0 => write!(out, " exp=-1"),
                    _ => write!(out, " exp={expires}"),
                };
                let _ = writeln!(
                    out,
                    " la={} cas={} fetch={} cls=1 size={} flags={} ",
                    (time.wall_now_ms() / 1000).saturating_sub(idle),
                    meta.cas(),
                    if access.is_some_and(|access| access.fetched) { "yes" } else { "no" },
                    key.len() as u64 + meta.value_bytes,
                    meta.flags,
                );
            }
        }
    }
}

/// Appends a key as in a URI.
pub(super) fn percent_encode(key: &[u8], out: &mut Vec<u8>) {
    for &byte in key {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(byte);
        } else {
            // Writing to a Vec can't fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn keys_as_in_uris() {
        let mut out = Vec::new();
        super::percent_encode(b"aZ0-._~ \x00\xff%", &mut out);
        assert_eq!(out, b"aZ0-._~%20%00%FF%25");
    }
}
