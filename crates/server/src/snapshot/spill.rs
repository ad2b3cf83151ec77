//! What was read, in pieces by the hash of the key, until the newest of each key goes into the file.
//!
//! An iteration may show a key twice, keys that were written are read again, and Redis refuses a file that has a key twice. Of one
//! piece at a time the hashes of all keys are held in memory, with the place of the newest entry.
//!
//! ```text
//!   entry: hash, 16 bytes  length of what follows the head, 8  expiry, 8  database, 1  there: 1, gone: 0
//!          key and value, as strings of the file; nothing if it is gone
//! ```

use std::collections::HashMap;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;

use terrace_engine::clock::Time;

use super::rdb::RdbFile;
use crate::resp::payload::string;

/// Keys of a piece, about.
const PIECE_KEYS: u64 = 256 << 10;
const PIECES_MAX: u64 = 256;
const BUFFER_BYTES: usize = 64 << 10;
const HEAD_BYTES: usize = 34;

/// See the module.
pub(super) struct Spill {
    pieces: Vec<BufWriter<File>>,
    /// Two, for a hash so long, and seeded so, that no two keys share one.
    hashers: (RandomState, RandomState),
}

/// The head of an entry.
struct Head {
    hash: u128,
    length: u64,
    expire_at: u64,
    db: u8,
    is_there: bool,
}

impl Spill {
    /// An empty one for about this many keys. Its files lie in `dir`, and have no names: nothing is left of them.
    pub fn create(dir: &Path, keys: u64) -> io::Result<Self> {
        let pieces = (0..(keys / PIECE_KEYS).clamp(1, PIECES_MAX))
            .map(|_| Ok(BufWriter::with_capacity(BUFFER_BYTES, tempfile::tempfile_in(dir)?)));
        let pieces = pieces.collect::<io::Result<_>>()?;
        Ok(Self { pieces, hashers: (RandomState::new(), RandomState::new()) })
    }

    /// A record as it is now.
    pub fn put(&mut self, db: u8, key: &[u8], value: &[u8], expire_at: u64) -> io::Result<()> {
        let mut before = Vec::with_capacity(key.len() + 32);
        string::write(key, &mut before);
        let follows = string::write_head(value, &mut before);
        let value = if follows { value } else { &[] };
        let piece = self.begin(db, key, expire_at, Some(before.len() + value.len()))?;
        piece.write_all(&before)?;
        piece.write_all(value)
    }

    /// No record is there now.
    pub fn gone(&mut self, db: u8, key: &[u8]) -> io::Result<()> {
        self.begin(db, key, 0, None)?;
        Ok(())
    }

    fn begin(
        &mut self,
        db: u8,
        key: &[u8],
        expire_at: u64,
        length: Option<usize>,
    ) -> io::Result<&mut impl Write> {
        let (high, low) = (self.hashers.0.hash_one((db, key)), self.hashers.1.hash_one((db, key)));
        let hash = u128::from(high) << 64 | u128::from(low);
        let count = self.pieces.len();
        let piece = &mut self.pieces[(high % count as u64) as usize];
        piece.write_all(&hash.to_le_bytes())?;
        piece.write_all(&(length.unwrap_or(0) as u64).to_le_bytes())?;
        piece.write_all(&expire_at.to_le_bytes())?;
        piece.write_all(&[db, length.is_some().into()])?;
        Ok(piece)
    }

    /// Writes the newest entry of each key that has not expired; how many there are. Ends early, with an error, if `stops`.
    pub fn merge(self, out: &mut RdbFile, time: Time, stops: impl Fn() -> bool) -> io::Result<u64> {
        let mut written = 0;
        for piece in self.pieces {
            let mut file = piece.into_inner().map_err(io::IntoInnerError::into_error)?;
            file.seek(SeekFrom::Start(0))?;
            let mut piece = BufReader::with_capacity(BUFFER_BYTES, file);
            let mut newest = HashMap::new();
            let mut number = 0_u64;
            while let Some(head) = Head::read(&mut piece)? {
                newest.insert(head.hash, number);
                number += 1;
                skip(&mut piece, head.length)?;
                if stops() {
                    return Err(stopped());
                }
            }
            piece.seek(SeekFrom::Start(0))?;
            for number in 0..number {
                let Some(head) = Head::read(&mut piece)? else { break };
                // The file's moments are the wall's.
                let wall_at = if head.expire_at == 0 { 0 } else { time.to_wall(head.expire_at).max(1) };
                let expired = head.expire_at != 0 && head.expire_at <= time.now_ms;
                if newest.get(&head.hash) == Some(&number) && head.is_there && !expired {
                    out.record(head.db, wall_at, &mut piece, head.length)?;
                    written += 1;
                } else {
                    skip(&mut piece, head.length)?;
                }
                if stops() {
                    return Err(stopped());
                }
            }
        }
        Ok(written)
    }
}

impl Head {
    /// The next one; `None` at the end.
    fn read(from: &mut impl Read) -> io::Result<Option<Self>> {
        let mut bytes = [0; HEAD_BYTES];
        if from.read(&mut bytes[..1])? == 0 {
            return Ok(None);
        }
        from.read_exact(&mut bytes[1..])?;
        let number = |at: usize, length: usize| {
            bytes[at..at + length].iter().rev().fold(0_u128, |number, byte| number << 8 | u128::from(*byte))
        };
        Ok(Some(Self {
            hash: number(0, 16),
            length: number(16, 8) as u64,
            expire_at: number(24, 8) as u64,
            db: bytes[32],
            is_there: bytes[33] != 0,
        }))
    }
}

fn skip(piece: &mut BufReader<File>, length: u64) -> io::Result<()> {
    piece.seek_relative(i64::try_from(length).map_err(io::Error::other)?)
}

fn stopped() -> io::Error {
    io::Error::other("the server is shutting down")
}
