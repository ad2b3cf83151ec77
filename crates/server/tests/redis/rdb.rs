//! Reads a snapshot's file, as far as there are strings that are not compressed.

use std::collections::BTreeMap;
use std::path::Path;

/// A value, and when it expires; 0 for never.
pub type Record = (Vec<u8>, u64);

struct Reader {
    bytes: Vec<u8>,
    at: usize,
}

impl Reader {
    fn take(&mut self, length: usize) -> &[u8] {
        self.at += length;
        &self.bytes[self.at - length..self.at]
    }

    fn byte(&mut self) -> u8 {
        self.take(1)[0]
    }

    fn string(&mut self) -> Vec<u8> {
        let first = self.byte();
        let length = match first {
            0..0x40 => usize::from(first),
            0x40..0x80 => usize::from(first & 0x3f) << 8 | usize::from(self.byte()),
            0x80 => u32::from_be_bytes(self.take(4).try_into().unwrap()) as usize,
            0xc0 => return (self.byte() as i8).to_string().into_bytes(),
            0xc1 => return i16::from_le_bytes(self.take(2).try_into().unwrap()).to_string().into_bytes(),
            0xc2 => return i32::from_le_bytes(self.take(4).try_into().unwrap()).to_string().into_bytes(),
            other => panic!("a string that begins with {other:#x}"),
        };
        self.take(length).to_vec()
    }
}

/// All records, by database and key.
///
/// # Panics
/// If the file is not whole, or has a key twice.
pub fn read(path: &Path) -> BTreeMap<(u8, Vec<u8>), Record> {
    let mut reader = Reader { bytes: std::fs::read(path).unwrap(), at: 0 };
    assert_eq!(reader.take(9), b"REDIS0010");
    let (mut records, mut db, mut expire_at) = (BTreeMap::new(), 0, 0);
    loop {
        match reader.byte() {
            0xfa => {
                reader.string();
                reader.string();
            }
            0xfe => db = reader.byte(),
            0xfc => expire_at = u64::from_le_bytes(reader.take(8).try_into().unwrap()),
            0 => {
                let (key, value) = (reader.string(), reader.string());
                let twice = records.insert((db, key), (value, std::mem::take(&mut expire_at)));
                assert!(twice.is_none(), "a key twice");
            }
            0xff => break,
            other => panic!("an entry that begins with {other:#x}"),
        }
    }
    // Its check is Redis's affair.
    assert_eq!(reader.at + 8, reader.bytes.len());
    records
}
