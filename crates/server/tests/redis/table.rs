//! The table of conversations, read from `table.txt`, where its notation is explained, and the files beside it.

/// The files' names and texts.
pub const FILES: &[(&str, &str)] = &[
    ("table.txt", include_str!("table.txt")),
    ("bits.txt", include_str!("bits.txt")),
    ("hyperloglog.txt", include_str!("hyperloglog.txt")),
    ("keys.txt", include_str!("keys.txt")),
    ("strings.txt", include_str!("strings.txt")),
    ("newer.txt", include_str!("newer.txt")),
    ("admin.txt", include_str!("admin.txt")),
    ("told.txt", include_str!("told.txt")),
];

/// A conversation.
#[derive(Default)]
pub struct Case {
    /// The file.
    pub file: &'static str,
    /// Its first line there.
    pub line: usize,
    /// The original that is compared with lacks what it is about.
    pub is_ours_alone: bool,
    /// Everything the client sends.
    pub send: Vec<u8>,
    /// Everything the server answers; patterns are still in it.
    pub expect: Vec<u8>,
    /// Whether the server closes at the end.
    pub closes: bool,
}

/// All of them.
///
/// # Panics
/// If the file is not in its own notation.
pub fn cases() -> Vec<Case> {
    let cases: Vec<Case> = FILES.iter().flat_map(|(file, text)| cases_of(file, text)).collect();
    assert!(cases.len() > 25, "most of the table is missing");
    cases
}

fn cases_of(file: &'static str, text: &str) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut open: Option<Case> = None;
    for (i, line) in text.lines().enumerate() {
        if line.is_empty() {
            cases.extend(open.take());
        } else if !line.starts_with('#') {
            let case = open.get_or_insert_with(|| Case { file, line: i + 1, ..Case::default() });
            match line.split_at(1) {
                (">", rest) => unescape(rest, &mut case.send),
                ("<", rest) => unescape(rest, &mut case.expect),
                ("!", "") => case.closes = true,
                ("@", " ours") => case.is_ours_alone = true,
                _ => panic!("line {}: {line:?}", i + 1),
            }
        }
    }
    cases.extend(open);
    cases
}

/// Appends the bytes that a line behind its mark stands for.
fn unescape(line: &str, bytes: &mut Vec<u8>) {
    let mut rest = line.strip_prefix(' ').unwrap_or(line).bytes();
    while let Some(byte) = rest.next() {
        bytes.push(if byte == b'\\' {
            match rest.next() {
                Some(b'r') => b'\r',
                Some(b'n') => b'\n',
                Some(b's') => b' ',
                Some(b'0') => 0,
                Some(b'\\') => b'\\',
                other => panic!("{other:?} behind a backslash in {line:?}"),
            }
        } else {
            byte
        });
    }
    bytes.extend_from_slice(b"\r\n");
}

/// Whether bytes fit a pattern: `{number}` is one, `{text}` the rest of a line, `{more}` all that follows.
pub fn matches(mut pattern: &[u8], mut got: &[u8]) -> bool {
    while !pattern.is_empty() {
        let taken;
        if pattern.starts_with(b"{more}") {
            return true;
        } else if let Some(rest) = pattern.strip_prefix(b"{number}") {
            (pattern, taken) = (rest, got.iter().take_while(|byte| byte.is_ascii_digit()).count());
            if taken == 0 {
                return false;
            }
        } else if let Some(rest) = pattern.strip_prefix(b"{text}") {
            (pattern, taken) = (rest, got.iter().take_while(|byte| **byte != b'\r').count());
        } else {
            if got.first() != pattern.first() {
                return false;
            }
            (pattern, taken) = (&pattern[1..], 1);
        }
        got = &got[taken..];
    }
    got.is_empty()
}

#[test]
fn patterns_match_what_they_should() {
    assert!(matches(b":{number}\r\n{text}\r\n", b":12\r\nx y\r\n"));
    assert!(matches(b"a{more}", b"abc\r\nd"));
    for wrong in [":\r\nx\r\n", ":1\r\nx", ":1\r\nx\r\ny", "-1\r\nx\r\n"] {
        assert!(!matches(b":{number}\r\n{text}\r\n", wrong.as_bytes()), "{wrong:?}");
    }
}
