//! A history as a file.
//!
//! ```text
//!   magic "TERRHIST" | version 1 | crashes: count, times | calls: count, calls | CRC-32C of all before, 4 bytes, LE
//!
//!   call:  action 1 byte | outcome 1 byte | key | client | invoke | end | argument | second
//! ```
//! Numbers are LEB128. Times are differences: a crash's to the crash before, `invoke`'s (signed, zigzag) to the `invoke` of
//! the call before, `end`'s to its own `invoke`. `argument` and `second` are signed (zigzag). Actions and outcomes are numbered in
//! `call.rs`. A call takes 12 to 20 bytes.

use std::io::{self, Read, Write};

use super::History;
use super::call::Call;

const MAGIC: &[u8; 8] = b"TERRHIST";
const VERSION: u64 = 1;

/// What goes through it is summed.
struct Summed<T> {
    inner: T,
    crc: u32,
}

impl<T: Write> Summed<T> {
    fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.crc = crc32c::crc32c_append(self.crc, bytes);
        self.inner.write_all(bytes)
    }
    fn put(&mut self, mut number: u64) -> io::Result<()> {
        let mut bytes = [0; 10];
        let mut length = 0;
        loop {
            bytes[length] = number as u8 & 0x7f | if number > 0x7f { 0x80 } else { 0 };
            length += 1;
            number >>= 7;
            if number == 0 {
                return self.bytes(&bytes[..length]);
            }
        }
    }
    fn put_signed(&mut self, number: i64) -> io::Result<()> {
        self.put((number << 1 ^ number >> 63) as u64)
    }
}

impl<T: Read> Summed<T> {
    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.inner.read_exact(&mut bytes)?;
        self.crc = crc32c::crc32c_append(self.crc, &bytes);
        Ok(bytes)
    }
    fn get(&mut self) -> io::Result<u64> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(wrong("a number of more than 64 bits"))
    }
    fn get_signed(&mut self) -> io::Result<i64> {
        let number = self.get()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("no history: {what}"))
}

impl History {
    /// Writes it to `out`, which should be buffered.
    ///
    /// # Errors
    /// As `out` does.
    pub fn save(&self, out: impl Write) -> io::Result<()> {
        let mut out = Summed { inner: out, crc: 0 };
        out.bytes(MAGIC)?;
        out.put(VERSION)?;
        out.put(self.crashes.len() as u64)?;
        let mut before = 0;
        for crash in &self.crashes {
            out.put(crash.wrapping_sub(before))?;
            before = *crash;
        }
        out.put(self.calls.len() as u64)?;
        let mut before = 0;
        for call in &self.calls {
            out.bytes(&[call.action, call.outcome])?;
            out.put(call.key.into())?;
            out.put(call.client.into())?;
            out.put_signed(call.invoke.wrapping_sub(before) as i64)?;
            out.put(call.end.wrapping_sub(call.invoke))?;
            out.put_signed(call.argument)?;
            out.put_signed(call.second)?;
            before = call.invoke;
        }
        let crc = out.crc;
        out.inner.write_all(&crc.to_le_bytes())?;
        out.inner.flush()
    }

    /// Reads one from `from`, which should be buffered.
    ///
    /// # Errors
    /// As `from` does; [`io::ErrorKind::InvalidData`] if it is no history, or damaged.
    pub fn load(from: impl Read) -> io::Result<Self> {
        let mut from = Summed { inner: from, crc: 0 };
        if &from.array()? != MAGIC {
            return Err(wrong("it begins otherwise"));
        }
        if from.get()? != VERSION {
            return Err(wrong("of another version"));
        }
        let mut history = Self::default();
        let mut before = 0u64;
        // Nothing is allocated for a count that was not read in full.
        for _ in 0..from.get()? {
            before = before.wrapping_add(from.get()?);
            history.crashes.push(before);
        }
        let mut before = 0u64;
        for _ in 0..from.get()? {
            let [action, outcome] = from.array()?;
            let key = u32::try_from(from.get()?).map_err(|_| wrong("a key out of bounds"))?;
            let client = u16::try_from(from.get()?).map_err(|_| wrong("a client out of bounds"))?;
            let invoke = before.wrapping_add(from.get_signed()? as u64);
            let end = invoke.wrapping_add(from.get()?);
            let (argument, second) = (from.get_signed()?, from.get_signed()?);
            let call = Call { invoke, end, argument, second, key, client, action, outcome };
            call.entry().ok_or_else(|| wrong("a call that is none"))?;
            history.calls.push(call);
            before = invoke;
        }
        let crc = from.crc;
        if from.array()? != crc.to_le_bytes() {
            return Err(wrong("its checksum is wrong"));
        }
        Ok(history)
    }
}
