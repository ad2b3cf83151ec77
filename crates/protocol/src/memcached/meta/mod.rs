//! Meta commands: what a client asks for by flags.
//!
//! A request keeps the text of its flags: answers give flags back in the order in which they came, and memcached applies
//! them in that order, too.

mod answer;
mod parse;

use super::base64::{KeyBuffer, decode};
use super::number::{digits, signed_digits};
use super::words::Words;
pub use answer::{
    Item, flags as answer_flags, number as answer_number, status as answer_status, value as answer_value,
};
pub(super) use parse::{debug, delete_or_number, get, set};

/// A key as it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key<'a> {
    /// Its text.
    pub text: &'a [u8],
    /// The text is base64, which has been checked.
    pub base64: bool,
}

impl<'a> Key<'a> {
    /// A key that is its text.
    pub fn plain(text: &'a [u8]) -> Self {
        Self { text, base64: false }
    }

    /// The key's bytes.
    pub fn bytes<'b>(&self, buffer: &'b mut KeyBuffer) -> &'b [u8]
    where
        'a: 'b,
    {
        if !self.base64 {
            return self.text;
        }
        decode(self.text, buffer).unwrap_or_default()
    }
}

/// A well-formed meta command's key and flags. Every flag is known, there at most once, and its number (if it takes one) fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta<'a> {
    /// The key.
    pub key: Key<'a>,
    /// The flags.
    pub flags: Flags<'a>,
}

/// The flags of a meta command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags<'a> {
    words: Words<'a>,
    /// A bit for each letter that is there.
    seen: u64,
}

impl<'a> Flags<'a> {
    /// Whether a flag is there.
    pub fn has(&self, letter: u8) -> bool {
        self.seen & bit(letter) != 0
    }

    /// The flags as they came: a letter, and what stands behind it.
    pub fn iter(&self) -> impl Iterator<Item = (u8, &'a [u8])> + use<'a> {
        self.words.filter_map(|word| word.split_first().map(|(&letter, rest)| (letter, rest)))
    }

    /// The flags as they came, as text.
    pub fn text(&self) -> &'a [u8] {
        self.words.rest()
    }

    /// What stands behind a flag, if that is there.
    pub fn token(&self, letter: u8) -> Option<&'a [u8]> {
        if !self.has(letter) {
            return None;
        }
        self.iter().find(|(found, _)| *found == letter).map(|(_, rest)| rest)
    }

    /// The signed number of a flag (`N`, `R`, `T`), if that is there.
    pub fn signed(&self, letter: u8) -> Option<i64> {
        signed_digits(self.token(letter)?)
    }

    /// The number of a flag (`C`, `D`, `E`, `F`, `J`), if that is there.
    pub fn unsigned(&self, letter: u8) -> Option<u64> {
        digits(self.token(letter)?)
    }
}

/// What `ms` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetMode {
    /// Store; with a cas token, only if the record still has it.
    Set,
    /// Store if absent.
    Add,
    /// Store if present.
    Replace,
    /// Put behind the value.
    Append,
    /// Put before the value.
    Prepend,
}

/// The bit of a letter; of anything else, none.
fn bit(letter: u8) -> u64 {
    if letter.is_ascii_alphabetic() { 1 << (letter - b'A') } else { 0 }
}
