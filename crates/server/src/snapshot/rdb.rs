//! The file: what Redis 7.0 writes, as far as there are strings only.
//!
//! ```text
//!   REDIS0010  (FA name value)…  (FE db)  [FC expiry, 8 bytes, little-endian, ms]  00 key value  …  FF  CRC-64, 8 bytes
//! ```
//! Names, keys and values are strings as [`payload::string`] writes them. A database may be chosen several times.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

use crate::resp::payload::{self, string};

const MAGIC: &[u8] = b"REDIS0010";
const AUX: u8 = 0xfa;
const EXPIRES: u8 = 0xfc;
const SELECT: u8 = 0xfe;
const END: u8 = 0xff;
const STRING: u8 = 0;

/// The auxiliary field that says whose file it is; Redis passes over fields that it doesn't know.
pub(super) const OWN_AUX: &str = "terrace-ver";

/// Bytes copied at a time.
const COPY_BYTES: usize = 64 << 10;

/// A file that is being written.
pub(super) struct RdbFile {
    out: BufWriter<File>,
    crc: u64,
    bytes: u64,
    db: Option<u8>,
    buffer: Vec<u8>,
}

impl RdbFile {
    /// Makes a new one, and writes its head.
    pub fn create(path: &Path, now_s: u64) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        let out = BufWriter::with_capacity(1 << 20, file);
        let mut file = Self { out, crc: 0, bytes: 0, db: None, buffer: vec![0; COPY_BYTES] };
        let mut head = MAGIC.to_vec();
        let now_s = now_s.to_string();
        for (name, value) in [
            ("redis-ver", crate::resp::REDIS_VERSION),
            ("redis-bits", "64"),
            ("ctime", &now_s),
            (OWN_AUX, env!("CARGO_PKG_VERSION")),
        ] {
            head.push(AUX);
            string::write(name.as_bytes(), &mut head);
            string::write(value.as_bytes(), &mut head);
        }
        file.write(&head)?;
        Ok(file)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.crc = payload::crc64_of(self.crc, bytes);
        self.bytes += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    /// Writes a record: `length` bytes of `body` are its key and its value, as strings.
    pub fn record(&mut self, db: u8, expire_at: u64, body: &mut impl Read, length: u64) -> io::Result<()> {
        let mut head = Vec::with_capacity(12);
        if self.db != Some(db) {
            // Below 64, a length is one byte.
            head.extend([SELECT, db]);
            self.db = Some(db);
        }
        if expire_at != 0 {
            head.push(EXPIRES);
            head.extend(expire_at.to_le_bytes());
        }
        head.push(STRING);
        self.write(&head)?;
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut left = length;
        while left > 0 {
            let piece = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            body.read_exact(&mut buffer[..piece])?;
            self.write(&buffer[..piece])?;
            left -= piece as u64;
        }
        self.buffer = buffer;
        Ok(())
    }

    /// Ends it, safe from power loss; its length.
    pub fn finish(mut self) -> io::Result<u64> {
        self.write(&[END])?;
        let crc = self.crc;
        self.write(&crc.to_le_bytes())?;
        let bytes = self.bytes;
        let file = self.out.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        Ok(bytes)
    }
}
