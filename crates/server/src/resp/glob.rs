//! Redis's glob patterns: `*`, `?`, `[a-z]`, `[^x]`, `\` before a byte that is meant as itself.
//!
//! Only the last star seen is ever gone back to, which is enough (an earlier star could not help where the later one failed),
//! so a match takes at most pattern times text steps, never the exponential time of a recursive one.

/// Whether `text` as a whole fits `pattern`.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Behind the last star, and the first byte of text that it does not cover yet.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            star = Some((p, t));
        } else if let Some(next) = one(&pattern[p..], text[t]) {
            p += next;
            t += 1;
        } else if let Some((behind, covered)) = star {
            p = behind;
            t = covered + 1;
            star = Some((behind, t));
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

/// Whether the pattern's first item takes this byte; if so, the item's length.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'\\', literal, ..] => (*literal == byte).then_some(2),
        [b'[', rest @ ..] => class(rest, byte).map(|len| len + 1),
        [literal, ..] => (*literal == byte).then_some(1),
    }
}

/// The class behind a `[`: its length with the `]` (which may be missing at the end), if it takes this byte.
fn class(class: &[u8], byte: u8) -> Option<usize> {
    let negated = class.first() == Some(&b'^');
    let mut at = usize::from(negated);
    let mut found = false;
    loop {
        match &class[at..] {
            [] => break,
            [b']', ..] => {
                at += 1;
                break;
            }
            [b'\\', literal, ..] => {
                found |= *literal == byte;
                at += 2;
            }
            [low, b'-', high, ..] => {
                found |= (low.min(high)..=low.max(high)).contains(&&byte);
                at += 3;
            }
            [literal, ..] => {
                found |= *literal == byte;
                at += 1;
            }
        }
    }
    (found != negated).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns() {
        let cases = [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("**", "abc", true),
            ("a*c", "abbc", true),
            ("a*c", "abcd", false),
            ("a*b*c", "aXbXbXc", true),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h[ae]llo", "hallo", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hello", false),
            ("h[^e]llo", "hallo", true),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            ("[a-c]*[0-9]", "b--7", true),
            ("[abc", "c", true),
            ("[\\]]", "]", true),
            ("\\*", "*", true),
            ("\\*", "x", false),
            ("a\\", "a\\", true),
            ("user:*:name", "user:1:2:name", true),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern:?} on {text:?}");
        }
    }

    #[test]
    fn stars_do_not_multiply() {
        // A recursive matcher would need more steps than there are atoms.
        let pattern = [b"*a".repeat(200), b"b".to_vec()].concat();
        assert!(!matches(&pattern, &b"a".repeat(4000)));
    }
}
