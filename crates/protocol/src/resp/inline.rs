//! Inline requests: a line typed by a person, split into arguments as Redis does.

use super::error::ProtocolError;

/// Splits a line (without its end) at blanks, honouring quotes; the arguments' bytes are appended to `bytes`, and each one's
/// start and end there to `args`.
///
/// Between double quotes `\n \r \t \b \a`, `\xHH` and `\` before any other byte are understood; between single quotes only
/// `\'`. A closing quote must be followed by a blank or the end. A zero byte ends the line.
pub(super) fn split(
    line: &[u8],
    bytes: &mut Vec<u8>,
    args: &mut Vec<(usize, usize)>,
) -> Result<(), ProtocolError> {
    let line = line.split(|&byte| byte == 0).next().unwrap_or(line);
    let mut at = 0;
    loop {
        at += line[at..].iter().take_while(|byte| is_blank(**byte)).count();
        if at == line.len() {
            return Ok(());
        }
        let start = bytes.len();
        at = argument(line, at, bytes)?;
        args.push((start, bytes.len()));
    }
}

/// The words of a line as an inline request, or a line of redis.conf, has them; `None` if its quotes don't balance.
pub fn split_words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (mut bytes, mut args) = (Vec::new(), Vec::new());
    split(line, &mut bytes, &mut args).ok()?;
    Some(args.into_iter().map(|(start, end)| bytes[start..end].to_vec()).collect())
}

/// Reads one argument from `line[at..]`; returns where it ends.
fn argument(line: &[u8], mut at: usize, bytes: &mut Vec<u8>) -> Result<usize, ProtocolError> {
    while let Some(&byte) = line.get(at) {
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' => break,
            b'"' => return closed(line, double_quoted(line, at + 1, bytes)?),
            b'\'' => return closed(line, single_quoted(line, at + 1, bytes)?),
            _ => bytes.push(byte),
        }
        at += 1;
    }
    Ok(at)
}

/// Checks what follows a closing quote.
fn closed(line: &[u8], at: usize) -> Result<usize, ProtocolError> {
    match line.get(at) {
        Some(byte) if !is_blank(*byte) => Err(ProtocolError::UnbalancedQuotes),
        _ => Ok(at),
    }
}

/// Reads up to the closing double quote; returns the place behind it.
fn double_quoted(line: &[u8], mut at: usize, bytes: &mut Vec<u8>) -> Result<usize, ProtocolError> {
    loop {
        match &line[at..] {
            [] => return Err(ProtocolError::UnbalancedQuotes),
            [b'"', ..] => return Ok(at + 1),
            [b'\\', b'x', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                bytes.push(nibble(*high) << 4 | nibble(*low));
                at += 4;
            }
            [b'\\', escaped, ..] => {
                bytes.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    other => *other,
                });
                at += 2;
            }
            [byte, ..] => {
                bytes.push(*byte);
                at += 1;
            }
        }
    }
}

/// Reads up to the closing single quote; returns the place behind it.
fn single_quoted(line: &[u8], mut at: usize, bytes: &mut Vec<u8>) -> Result<usize, ProtocolError> {
    loop {
        match &line[at..] {
            [] => return Err(ProtocolError::UnbalancedQuotes),
            [b'\'', ..] => return Ok(at + 1),
            [b'\\', b'\'', ..] => {
                bytes.push(b'\'');
                at += 2;
            }
            [byte, ..] => {
                bytes.push(*byte);
                at += 1;
            }
        }
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

fn nibble(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit - b'A' + 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &[u8]) -> Result<Vec<Vec<u8>>, ProtocolError> {
        let (mut bytes, mut args) = (Vec::new(), Vec::new());
        split(line, &mut bytes, &mut args)?;
        Ok(args.into_iter().map(|(start, end)| bytes[start..end].to_vec()).collect())
    }

    #[test]
    fn blanks_separate_and_quotes_join() {
        let cases: [(&[u8], &[&[u8]]); 9] = [
            (b"", &[]),
            (b"  \t ", &[]),
            (b"GET  key ", &[b"GET", b"key"]),
            (br#"SET "a b" 'c "d"'"#, &[b"SET", b"a b", b"c \"d\""]),
            (br#"x "\x00\xFf\n\q\"" "#, &[b"x", b"\x00\xff\nq\""]),
            (br"'it\'s' '\n'", &[b"it's", b"\\n"]),
            (br#""" ''"#, &[b"", b""]),
            (br#"pre"fix""#, &[b"prefix"]),
            (b"one\0two", &[b"one"]),
        ];
        for (line, expected) in cases {
            let got = words(line).unwrap();
            assert_eq!(got, expected, "{:?}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn quotes_must_balance() {
        for line in [r#"""#, "'", r#""abc"#, r#""abc"d"#, "'abc'd", r#""abc\""#, "\"a\0b\""] {
            assert_eq!(words(line.as_bytes()), Err(ProtocolError::UnbalancedQuotes), "{line:?}");
        }
    }
}
