//! Values of parameters as `CONFIG SET` reads them, and Redis's words about wrong ones.

use terrace::Size;
use terrace_protocol::resp::parse_integer;

use crate::shared::Shared;
use crate::tls::TlsOptions;

/// What a parameter takes.
#[derive(Clone, Copy)]
pub(super) enum Change {
    /// Nothing: it is given when the server starts.
    Immutable,
    /// Nothing: a client that could set it could write where it likes.
    Protected,
    /// A number in this range.
    Number(i64, i64, fn(&Shared, i64) -> Result<(), String>),
    /// Bytes, or a share of the memory that there is, as the command line takes it.
    Budget(fn(&Shared, u64) -> Result<(), String>),
    /// Bytes, or so many hundredths of the budget of DRAM as it is now.
    Share(fn(&Shared, u64) -> Result<(), String>),
    /// The size of a tier, as the command line takes it.
    Tier(fn(&Shared, u64) -> Result<(), String>),
    /// Yes or no.
    YesNo(fn(&Shared, bool) -> Result<(), String>),
    /// One of these words.
    Word(&'static [&'static str], fn(&Shared, &'static str) -> Result<(), String>),
    /// A text that the first accepts.
    Text(fn(&[u8]) -> Result<(), String>, fn(&Shared, &[u8]) -> Result<(), String>),
    /// Of TLS: one of these words, or any text if there are none. All that one command sets are loaded together.
    Tls(&'static [&'static str], fn(&mut TlsOptions, &[u8]) -> Result<(), String>),
}

/// A value that was read.
pub(super) enum Value {
    Number(i64),
    Bytes(u64),
    Percent(u64),
    YesNo(bool),
    Word(&'static str),
    Text(Vec<u8>),
}

impl Change {
    /// Reads a value, and changes nothing.
    pub fn read(self, text: &[u8]) -> Result<Value, String> {
        match self {
            Self::Immutable => Err("can't set immutable config".into()),
            Self::Protected => Err("can't set protected config".into()),
            Self::Number(min, max, _) => {
                let number = parse_integer(text).ok_or("argument couldn't be parsed into an integer")?;
                in_range(number, (min..=max).contains(&number), min, max).map(Value::Number)
            }
            Self::Budget(_) => {
                let bytes = memory_bytes(text).or_else(|| share_of_memory(text));
                Ok(Value::Bytes(bytes.ok_or("argument must be a memory value")?))
            }
            Self::Share(_) => share(text),
            Self::Tier(_) => tier_bytes(text).map(Value::Bytes),
            Self::YesNo(_) => match text.to_ascii_lowercase().as_slice() {
                b"yes" => Ok(Value::YesNo(true)),
                b"no" => Ok(Value::YesNo(false)),
                _ => Err("argument must be 'yes' or 'no'".into()),
            },
            Self::Word(words, _) => one_of(words, text).map(Value::Word),
            Self::Tls(words, _) if !words.is_empty() => {
                one_of(words, text).map(|word| Value::Text(word.as_bytes().to_vec()))
            }
            Self::Text(check, _) => check(text).map(|()| Value::Text(text.to_vec())),
            Self::Tls(..) => Ok(Value::Text(text.to_vec())),
        }
    }

    /// Makes the change.
    pub fn apply(self, shared: &Shared, value: &Value) -> Result<(), String> {
        match (self, value) {
            (Self::Number(_, _, set), Value::Number(number)) => set(shared, *number),
            (Self::Budget(set) | Self::Share(set) | Self::Tier(set), Value::Bytes(bytes)) => {
                set(shared, *bytes)
            }
            (Self::Share(set), Value::Percent(percent)) => {
                set(shared, (u128::from(shared.dram_budget()) * u128::from(*percent) / 100) as u64)
            }
            (Self::YesNo(set), Value::YesNo(on)) => set(shared, *on),
            (Self::Word(_, set), Value::Word(word)) => set(shared, word),
            (Self::Text(_, set), Value::Text(text)) => set(shared, text),
            _ => Err("can't set immutable config".into()),
        }
    }
}

pub(super) fn one_of(words: &[&'static str], text: &[u8]) -> Result<&'static str, String> {
    let found = words.iter().find(|word| text.eq_ignore_ascii_case(word.as_bytes()));
    found.copied().ok_or_else(|| format!("argument(s) must be one of the following: {}", words.join(", ")))
}

fn in_range<T>(value: T, fits: bool, min: i64, max: i64) -> Result<T, String> {
    if fits { Ok(value) } else { Err(format!("argument must be between {min} and {max} inclusive")) }
}

/// A size as redis.conf and the command line write it. `kb`, `mb`, `gb` are powers of 1024 in both, as `KiB`, `MiB`, `GiB` are.
pub(super) fn memory_bytes(text: &[u8]) -> Option<u64> {
    match std::str::from_utf8(text).ok()?.parse() {
        Ok(Size::Bytes(bytes)) => Some(bytes),
        Ok(Size::Percent(_)) | Err(_) => None,
    }
}

/// A percentage of the memory that there is.
fn share_of_memory(text: &[u8]) -> Option<u64> {
    match std::str::from_utf8(text).ok()?.parse() {
        Ok(size @ Size::Percent(..=100.0)) => Some(size.of(terrace::usable_memory_bytes())),
        _ => None,
    }
}

/// Bytes or a percentage.
fn share(text: &[u8]) -> Result<Value, String> {
    let value = match text.strip_suffix(b"%") {
        Some(number) => parse_integer(number).and_then(|n| u64::try_from(n).ok()).map(Value::Percent),
        None => memory_bytes(text).map(Value::Bytes),
    };
    match value.ok_or("argument must be a memory or percent value")? {
        Value::Percent(101..) => Err("percentage argument must be less or equal to 100".into()),
        value => Ok(value),
    }
}

/// The size of a tier as `--pmem` and `--ssd` take it.
fn tier_bytes(text: &[u8]) -> Result<u64, String> {
    let text = String::from_utf8_lossy(text);
    match text.parse()? {
        Size::Bytes(bytes) => Ok(bytes),
        Size::Percent(_) => Err(format!("{text:?}: expected a size such as 512MiB or 200GiB")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_redis_reads_them() {
        let read = |text: &str| memory_bytes(text.as_bytes());
        assert_eq!(read("104857600"), Some(100 << 20));
        assert_eq!(
            (read("100mb"), read("100M"), read("2GB")),
            (Some(100 << 20), Some(100_000_000), Some(2 << 30))
        );
        assert_eq!(
            (read("7k"), read("7kb"), read("3g"), read("9b")),
            (Some(7000), Some(7168), Some(3_000_000_000), Some(9))
        );
        assert_eq!(
            (read(""), read("-1"), read("1.5"), read("12eb"), read("mb")),
            (None, None, None, None, None)
        );
        assert_eq!((read("99999999999gb"), read("25%")), (None, None));
    }

    #[test]
    fn all_sizes_mean_the_same_bytes_as_on_the_command_line() {
        for text in ["512MiB", "100mb", "100MB", "1.5GiB", "1.5gb", "3k", "3m", "4096", "2tb", "7B"] {
            let size: Size = text.parse().unwrap();
            let read = memory_bytes(text.as_bytes());
            assert_eq!(
                (read.map(Size::Bytes), tier_bytes(text.as_bytes()).ok()),
                (Some(size), read),
                "{text}"
            );
        }
        assert!(tier_bytes(b"10%").is_err() && tier_bytes(b"much").is_err() && tier_bytes(b"").is_err());
        let all = terrace::usable_memory_bytes();
        assert_eq!(
            (share_of_memory(b"25%"), share_of_memory(b"101%")),
            (Some(Size::Percent(25.0).of(all)), None)
        );
    }
}
