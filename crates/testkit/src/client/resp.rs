//! Redis's protocol, versions 2 and 3.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};

use super::{malformed, read_block, read_line};

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `+OK`.
    Simple(String),
    /// `-ERR ..`.
    Error(String),
    /// `:1`.
    Integer(i64),
    /// `$3 foo`, `=..` (verbatim) or `(..` (a big number).
    Bulk(Vec<u8>),
    /// No value, in any of its spellings.
    Null,
    /// `#t`.
    Boolean(bool),
    /// `,1.5`.
    Double(f64),
    /// `*`, `~` or `>`.
    Array(Vec<Value>),
    /// `%`.
    Map(Vec<(Value, Value)>),
}

/// A connection.
#[derive(Debug)]
pub struct RespClient {
    stream: BufReader<TcpStream>,
    outgoing: Vec<u8>,
}

impl RespClient {
    /// Connects.
    ///
    /// # Errors
    /// As [`TcpStream::connect`].
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        Ok(Self { stream: super::connect(address)?, outgoing: Vec::new() })
    }
    /// Queues a command; [`flush`](Self::flush) sends it.
    pub fn queue(&mut self, arguments: &[&[u8]]) {
        self.outgoing.extend_from_slice(format!("*{}\r\n", arguments.len()).as_bytes());
        for argument in arguments {
            self.outgoing.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
            self.outgoing.extend_from_slice(argument);
            self.outgoing.extend_from_slice(b"\r\n");
        }
    }
    /// Sends what is queued.
    ///
    /// # Errors
    /// If the connection fails.
    pub fn flush(&mut self) -> io::Result<()> {
        self.stream.get_mut().write_all(&self.outgoing)?;
        self.outgoing.clear();
        Ok(())
    }
    /// The next answer.
    ///
    /// # Errors
    /// If the connection fails, or the answer is malformed ([`io::ErrorKind::InvalidData`]).
    pub fn receive(&mut self) -> io::Result<Value> {
        parse(&mut self.stream)
    }
    /// Sends a command and waits for its answer.
    ///
    /// # Errors
    /// As [`flush`](Self::flush) and [`receive`](Self::receive).
    pub fn command(&mut self, arguments: &[&[u8]]) -> io::Result<Value> {
        self.queue(arguments);
        self.flush()?;
        self.receive()
    }
    /// [`command`](Self::command) for arguments without spaces: `text("SET key value")`.
    ///
    /// # Errors
    /// As [`command`](Self::command).
    pub fn text(&mut self, line: &str) -> io::Result<Value> {
        let arguments: Vec<&[u8]> = line.split_whitespace().map(str::as_bytes).collect();
        self.command(&arguments)
    }
}

fn parse(stream: &mut impl BufRead) -> io::Result<Value> {
    let line = read_line(stream)?;
    let mut rest = line.chars();
    let kind = rest.next().ok_or_else(|| malformed("an empty line"))?;
    let rest = rest.as_str();
    let number = || rest.parse::<i64>().map_err(|_| malformed(format!("no number: {line:?}")));
    let length = || number().map(|n| usize::try_from(n).ok());
    Ok(match kind {
        '+' => Value::Simple(rest.into()),
        '-' => Value::Error(rest.into()),
        ':' => Value::Integer(number()?),
        '_' => Value::Null,
        '#' => Value::Boolean(rest == "t"),
        ',' => Value::Double(rest.parse().map_err(|_| malformed(format!("no number: {line:?}")))?),
        '(' => Value::Bulk(rest.into()),
        '$' | '=' => match length()? {
            None => Value::Null,
            Some(length) => Value::Bulk(read_block(stream, length)?),
        },
        '*' | '~' | '>' => match length()? {
            None => Value::Null,
            Some(length) => Value::Array((0..length).map(|_| parse(stream)).collect::<io::Result<_>>()?),
        },
        '%' => {
            let pairs = length()?.unwrap_or(0);
            Value::Map((0..pairs).map(|_| Ok((parse(stream)?, parse(stream)?))).collect::<io::Result<_>>()?)
        }
        _ => return Err(malformed(format!("unknown kind of answer: {line:?}"))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_every_kind() {
        let text = b"+OK\r\n-ERR no\r\n:-7\r\n$3\r\na\r\n\r\n$-1\r\n_\r\n#t\r\n,1.5\r\n*2\r\n:1\r\n*-1\r\n%1\r\n+a\r\n$0\r\n\r\n";
        let mut stream = &text[..];
        let mut next = || parse(&mut stream).unwrap();
        assert_eq!(next(), Value::Simple("OK".into()));
        assert_eq!(next(), Value::Error("ERR no".into()));
        assert_eq!(next(), Value::Integer(-7));
        assert_eq!(next(), Value::Bulk(b"a\r\n".to_vec()));
        assert_eq!(next(), Value::Null);
        assert_eq!(next(), Value::Null);
        assert_eq!(next(), Value::Boolean(true));
        assert_eq!(next(), Value::Double(1.5));
        assert_eq!(next(), Value::Array(vec![Value::Integer(1), Value::Null]));
        assert_eq!(next(), Value::Map(vec![(Value::Simple("a".into()), Value::Bulk(vec![]))]));
        assert!(stream.is_empty());
    }

    #[test]
    fn malformed_answers_are_errors() {
        for wrong in ["", "+OK", "+OK\n", ":x\r\n", "$3\r\nabcd\r\n", "$3\r\nab", "?\r\n", "\r\n"] {
            assert!(parse(&mut wrong.as_bytes()).is_err(), "{wrong:?}");
        }
    }
}
