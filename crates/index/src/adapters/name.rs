//! A key as maps keep it: the database's byte, then the key's bytes.

use crate::Key;

/// Names up to this length need no allocation.
const SHORT: usize = 48;

/// A name, on the stack if it is short.
pub(super) enum Name {
    Short([u8; SHORT], usize),
    Long(Vec<u8>),
}

impl Name {
    #[inline]
    pub(super) fn of(key: &Key<'_>) -> Self {
        Self::new(key.db, key.bytes)
    }
    #[inline]
    pub(super) fn new(db: u8, bytes: &[u8]) -> Self {
        let len = bytes.len() + 1;
        if len <= SHORT {
            let mut short = [0; SHORT];
            short[0] = db;
            short[1..len].copy_from_slice(bytes);
            return Self::Short(short, len);
        }
        let mut long = Vec::with_capacity(len);
        long.push(db);
        long.extend_from_slice(bytes);
        Self::Long(long)
    }
}

impl std::ops::Deref for Name {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Short(bytes, len) => &bytes[..*len],
            Self::Long(bytes) => bytes,
        }
    }
}
