//! Answers read back, for clients and tests.

use super::integer::parse_integer;

/// Arrays and maps nest at most this deep.
const DEPTH_MAX: usize = 16;

/// An answer of either version.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A status such as `OK`.
    Simple(Vec<u8>),
    /// An error, code first.
    Error(Vec<u8>),
    /// A whole number.
    Integer(i64),
    /// A string.
    Bulk(Vec<u8>),
    /// Nothing.
    Null,
    /// An array.
    Array(Vec<Value>),
    /// What came without having been asked for.
    Push(Vec<Value>),
    /// A set, in the order received.
    Set(Vec<Value>),
    /// A map, in the order received.
    Map(Vec<(Value, Value)>),
    /// True or false.
    Boolean(bool),
    /// A floating-point number.
    Double(f64),
    /// Text for people, without its three-letter format.
    Verbatim(Vec<u8>),
}

/// The bytes are no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a RESP answer")]
pub struct DecodeError;

impl Value {
    /// Reads the answer that `input` begins with, and how many bytes it takes; `None` if more bytes are needed.
    ///
    /// # Errors
    /// If the bytes are no answer, or nest more than 16 deep.
    pub fn decode(input: &[u8]) -> Result<Option<(Self, usize)>, DecodeError> {
        let mut reader = Reader { input, at: 0 };
        Ok(reader.value(0)?.map(|value| (value, reader.at)))
    }
}

struct Reader<'a> {
    input: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn value(&mut self, depth: usize) -> Result<Option<Value>, DecodeError> {
        if depth > DEPTH_MAX {
            return Err(DecodeError);
        }
        let Some(line) = self.line() else { return Ok(None) };
        let (kind, rest) = line.split_first().ok_or(DecodeError)?;
        Ok(Some(match kind {
            b'+' => Value::Simple(rest.to_vec()),
            b'-' => Value::Error(rest.to_vec()),
            b':' => Value::Integer(parse_integer(rest).ok_or(DecodeError)?),
            b'_' => Value::Null,
            b'#' => Value::Boolean(match rest {
                b"t" => true,
                b"f" => false,
                _ => return Err(DecodeError),
            }),
            b',' => Value::Double(
                std::str::from_utf8(rest).ok().and_then(|text| text.parse().ok()).ok_or(DecodeError)?,
            ),
            b'$' | b'*' if rest == b"-1" => Value::Null,
            b'$' => match self.bytes(length(rest)?)? {
                Some(bytes) => Value::Bulk(bytes.to_vec()),
                None => return Ok(None),
            },
            b'=' => match self.bytes(length(rest)?)? {
                Some([_, _, _, b':', text @ ..]) => Value::Verbatim(text.to_vec()),
                Some(_) => return Err(DecodeError),
                None => return Ok(None),
            },
            b'*' => match self.values(length(rest)?, depth)? {
                Some(values) => Value::Array(values),
                None => return Ok(None),
            },
            b'>' => match self.values(length(rest)?, depth)? {
                Some(values) => Value::Push(values),
                None => return Ok(None),
            },
            b'~' => match self.values(length(rest)?, depth)? {
                Some(values) => Value::Set(values),
                None => return Ok(None),
            },
            b'%' => match self.values(length(rest)?.checked_mul(2).ok_or(DecodeError)?, depth)? {
                Some(values) => {
                    let mut values = values.into_iter();
                    let mut pairs = Vec::new();
                    while let (Some(key), Some(value)) = (values.next(), values.next()) {
                        pairs.push((key, value));
                    }
                    Value::Map(pairs)
                }
                None => return Ok(None),
            },
            _ => return Err(DecodeError),
        }))
    }

    fn values(&mut self, len: usize, depth: usize) -> Result<Option<Vec<Value>>, DecodeError> {
        let mut values = Vec::new();
        for _ in 0..len {
            match self.value(depth + 1)? {
                Some(value) => values.push(value),
                None => return Ok(None),
            }
        }
        Ok(Some(values))
    }

    fn line(&mut self) -> Option<&'a [u8]> {
        let rest = &self.input[self.at..];
        let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
        self.at += end + 2;
        Some(&rest[..end])
    }

    fn bytes(&mut self, len: usize) -> Result<Option<&'a [u8]>, DecodeError> {
        let rest = &self.input[self.at..];
        match rest.len().checked_sub(2) {
            Some(room) if room >= len => {
                self.at += len + 2;
                if &rest[len..len + 2] == b"\r\n" { Ok(Some(&rest[..len])) } else { Err(DecodeError) }
            }
            _ => Ok(None),
        }
    }
}

fn length(text: &[u8]) -> Result<usize, DecodeError> {
    parse_integer(text).and_then(|len| usize::try_from(len).ok()).ok_or(DecodeError)
}
