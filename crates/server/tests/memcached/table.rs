//! The table of conversations, read from `table.txt`, where its notation is explained.

/// A conversation on a connection of its own.
pub struct Case {
    /// Its first line in the file.
    pub line: usize,
    /// Everything the client sends; `@` stands for the key.
    pub send: Vec<u8>,
    /// Everything the server answers; `@` stands for the key, and patterns are still in it.
    pub expect: Vec<u8>,
    /// Whether the server closes at the end.
    pub closes: bool,
}

/// All of them.
///
/// # Panics
/// If the file is not in its own notation.
pub fn cases() -> Vec<Case> {
    let text = include_str!("table.txt");
    let mut cases = Vec::new();
    let mut open: Option<Case> = None;
    for (i, line) in text.lines().enumerate() {
        if line.is_empty() {
            cases.extend(open.take());
        } else if !line.starts_with('#') {
            let case =
                open.get_or_insert(Case { line: i + 1, send: Vec::new(), expect: Vec::new(), closes: false });
            match line.split_at(1) {
                (">", rest) => unescape(rest, &mut case.send),
                ("<", rest) => unescape(rest, &mut case.expect),
                ("!", "") => case.closes = true,
                _ => panic!("line {}: {line:?}", i + 1),
            }
        }
    }
    cases.extend(open);
    assert!(cases.len() > 60, "most of the table is missing");
    cases
}

/// Appends the bytes that a line behind its mark stands for.
fn unescape(line: &str, bytes: &mut Vec<u8>) {
    let mut rest = line.strip_prefix(' ').unwrap_or(line).bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match (byte, byte == b'\\') {
            (byte, false) => byte,
            (_, true) => match rest.next() {
                None => return,
                Some(b'n') => b'\n',
                Some(b't') => b'\t',
                Some(b's') => b' ',
                Some(b'0') => 0,
                Some(other) => panic!("\\{} in {line:?}", other.escape_ascii()),
            },
        });
    }
    bytes.extend_from_slice(b"\r\n");
}
