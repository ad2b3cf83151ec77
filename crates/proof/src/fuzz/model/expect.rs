//! What an answer must be: mostly exact bytes, sometimes one of a class.

use std::collections::BTreeMap;

/// One answer, or a push.
#[derive(Clone, Debug)]
pub(crate) enum Expect {
    /// These bytes.
    Bytes(Vec<u8>),
    /// A RESP number in this range, both ends included.
    Between(i64, i64),
    /// A RESP array of these.
    Array(Vec<Expect>),
    /// A RESP array of these strings in any order.
    AnyOrder(Vec<Vec<u8>>),
    /// Any one RESP value that begins so.
    Begins(&'static str),
    /// A string made by `DUMP`, of which the end is right.
    Dump,
    /// These parts, of which some are only known when they come.
    Parts(Vec<Part>),
}

/// A part of an answer of memcached.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    Text(Vec<u8>),
    /// A number in this range, both ends included.
    Number(u64, u64),
    /// The cas token of a generation: see [`Tokens`].
    Token(u64),
    /// That of a record that was touched: it may be the one before, too.
    TouchedToken(u64),
    /// Any token, which nobody can use any more.
    AnyToken,
}

/// The cas tokens that a server has told, by the generations of the model: a later one is larger.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    written: BTreeMap<u64, u64>,
    /// Of touched records: how they compare with others is not known.
    touched: BTreeMap<u64, u64>,
}

impl Tokens {
    /// The token of a generation, if it was told.
    pub fn get(&self, generation: u64) -> Option<u64> {
        self.written.get(&generation).or_else(|| self.touched.get(&generation)).copied()
    }

    fn learn(&mut self, generation: u64, token: u64) -> bool {
        let written = &mut self.written;
        let fits_below = written.range(..generation).next_back().is_none_or(|(_, before)| *before < token);
        let fits_above = written.range(generation + 1..).next().is_none_or(|(_, after)| token < *after);
        fits_below && fits_above && *written.entry(generation).or_insert(token) == token
    }

    fn learn_touched(&mut self, generation: u64, token: u64) -> bool {
        *self.touched.entry(generation).or_insert(token) == token
    }
}

/// The protocol's version in which null and pushes are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    Two,
    Three,
}

impl Expect {
    pub fn simple(text: &str) -> Self {
        Self::Bytes(format!("+{text}\r\n").into_bytes())
    }
    pub fn ok() -> Self {
        Self::simple("OK")
    }
    pub fn error(text: &str) -> Self {
        Self::Bytes(format!("-{text}\r\n").into_bytes())
    }
    pub fn int(number: i64) -> Self {
        Self::Bytes(format!(":{number}\r\n").into_bytes())
    }
    pub fn bulk(bytes: &[u8]) -> Self {
        let mut all = format!("${}\r\n", bytes.len()).into_bytes();
        all.extend_from_slice(bytes);
        all.extend_from_slice(b"\r\n");
        Self::Bytes(all)
    }
    pub fn null(version: Version) -> Self {
        Self::Bytes(match version {
            Version::Two => b"$-1\r\n".to_vec(),
            Version::Three => b"_\r\n".to_vec(),
        })
    }
    pub fn null_array(version: Version) -> Self {
        Self::Bytes(match version {
            Version::Two => b"*-1\r\n".to_vec(),
            Version::Three => b"_\r\n".to_vec(),
        })
    }
    pub fn bulk_or_null(bytes: Option<&[u8]>, version: Version) -> Self {
        bytes.map_or_else(|| Self::null(version), Self::bulk)
    }
    /// A message that was not asked for, and what looks like one.
    pub fn push(version: Version, parts: Vec<Expect>) -> Self {
        let sign = if version == Version::Three { '>' } else { '*' };
        let mut bytes = format!("{sign}{}\r\n", parts.len()).into_bytes();
        for part in parts {
            if let Self::Bytes(part) = part {
                bytes.extend_from_slice(&part);
            }
        }
        Self::Bytes(bytes)
    }

    /// Takes the answer from the front of what was received.
    ///
    /// # Errors
    /// If it is another one.
    pub fn take(&self, received: &mut &[u8], tokens: &mut Tokens) -> Result<(), String> {
        let before = *received;
        self.matches(received, tokens)
            .ok_or_else(|| format!("expected {}, got {}", self.shown(), shown(before)))
    }

    fn matches(&self, received: &mut &[u8], tokens: &mut Tokens) -> Option<()> {
        match self {
            Self::Bytes(bytes) => *received = received.strip_prefix(&bytes[..])?,
            Self::Between(low, high) => {
                let number: i64 =
                    std::str::from_utf8(line(received)?.strip_prefix(b":")?).ok()?.parse().ok()?;
                (*low..=*high).contains(&number).then_some(())?;
            }
            Self::Array(parts) => {
                (line(received)? == format!("*{}", parts.len()).as_bytes()).then_some(())?;
                for part in parts {
                    part.matches(received, tokens)?;
                }
            }
            Self::AnyOrder(parts) => {
                (line(received)? == format!("*{}", parts.len()).as_bytes()).then_some(())?;
                let mut found = Vec::new();
                for _ in parts {
                    found.push(bulk(received)?.to_vec());
                }
                found.sort();
                let mut parts = parts.clone();
                parts.sort();
                (found == parts).then_some(())?;
            }
            Self::Begins(with) => {
                received.starts_with(with.as_bytes()).then_some(())?;
                let (_, taken) = terrace_protocol::resp::Value::decode(received).ok()??;
                *received = &received[taken..];
            }
            Self::Parts(parts) => {
                for part in parts {
                    match part {
                        Part::Text(text) => *received = received.strip_prefix(&text[..])?,
                        Part::Number(low, high) => {
                            (*low..=*high).contains(&digits(received)?).then_some(())?;
                        }
                        Part::TouchedToken(generation) => {
                            tokens.learn_touched(*generation, digits(received)?).then_some(())?;
                        }
                        Part::AnyToken => drop(digits(received)?),
                        Part::Token(generation) => {
                            tokens.learn(*generation, digits(received)?).then_some(())?;
                        }
                    }
                }
            }
            Self::Dump => {
                let dump = bulk(received)?;
                super::redis::is_payload(dump).then_some(())?;
            }
        }
        Some(())
    }

    /// For people.
    pub fn shown(&self) -> String {
        match self {
            Self::Bytes(bytes) => shown(bytes),
            Self::Array(parts) => parts.iter().map(Self::shown).collect::<Vec<_>>().join(", "),
            Self::Parts(parts) => {
                let shown = parts.iter().map(|part| match part {
                    Part::Text(text) => shown(text),
                    other => format!("{other:?}"),
                });
                shown.collect::<Vec<_>>().join(" ")
            }
            other => format!("{other:?}"),
        }
    }
}

/// The beginning of bytes, for people.
pub(crate) fn shown(bytes: &[u8]) -> String {
    let part = &bytes[..bytes.len().min(120)];
    format!("\"{}\"{}", part.escape_ascii(), if part.len() < bytes.len() { " ..." } else { "" })
}

fn line<'a>(received: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = received.windows(2).position(|two| two == b"\r\n")?;
    let line = &received[..end];
    *received = &received[end + 2..];
    Some(line)
}

fn digits(received: &mut &[u8]) -> Option<u64> {
    let count = received.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number = std::str::from_utf8(&received[..count]).ok()?.parse().ok();
    *received = &received[count..];
    number
}

fn bulk<'a>(received: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length: usize = std::str::from_utf8(line(received)?.strip_prefix(b"$")?).ok()?.parse().ok()?;
    let bytes = received.get(..length)?;
    *received = received.get(length..)?.strip_prefix(b"\r\n")?;
    Some(bytes)
}
