use super::*;

/// The matcher that works on the pattern as it is written, classes and all: slow, and what Redis does.
fn as_written(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
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

fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'\\', literal, ..] => (*literal == byte).then_some(2),
        [b'[', rest @ ..] => one_of(rest, byte).map(|len| len + 1),
        [literal, ..] => (*literal == byte).then_some(1),
    }
}

fn one_of(class: &[u8], byte: u8) -> Option<usize> {
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

fn fits(pattern: &[u8], text: &[u8]) -> bool {
    let mut effort = Effort::default();
    let fits = Glob::new(pattern).matches(text, &mut effort);
    assert!(!effort.is_over());
    fits
}

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
        ("a*a", "a", false),
    ];
    for (pattern, text, expected) in cases {
        assert_eq!(fits(pattern.as_bytes(), text.as_bytes()), expected, "{pattern:?} on {text:?}");
        assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern:?} on {text:?}");
    }
}

#[test]
fn random_patterns_mean_what_they_meant() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut below = |end: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as usize % end
    };
    let mut of = |letters: &[u8], most: usize| -> Vec<u8> {
        (0..below(most + 1)).map(|_| letters[below(letters.len())]).collect()
    };
    let mut fitting = 0;
    for round in 0..200_000 {
        let letters: &[u8] = if round % 2 == 0 { b"**??ab[]^-\\c" } else { b"**?ab\\" };
        let (pattern, text) = (of(letters, 10), of(b"ab]c^-\\[", 8));
        let expected = as_written(&pattern, &text);
        let shown =
            || (String::from_utf8_lossy(&pattern).into_owned(), String::from_utf8_lossy(&text).into_owned());
        assert_eq!(fits(&pattern, &text), expected, "{:?}", shown());
        assert_eq!(matches(&pattern, &text), expected, "{:?}", shown());
        fitting += usize::from(expected);
    }
    assert!(fitting > 10_000, "hardly any of them fits: {fitting}");
}

#[test]
fn stars_do_not_multiply() {
    // A recursive matcher would need more steps than there are atoms.
    let pattern = [b"*a".repeat(200), b"b".to_vec()].concat();
    assert!(!fits(&pattern, &b"a".repeat(4000)));
}

#[test]
fn what_a_match_takes_is_bounded() {
    let text = b"a".repeat(64 << 10);
    for part in [&b"?"[..], b"a", b"[ab]"] {
        let pattern = [b"*", &*part.repeat(1000), b"b*"].concat();
        let mut effort = Effort::default();
        assert!(!Glob::new(&pattern).matches(&text, &mut effort) && effort.is_over());
        assert!(!matches(&pattern, &text), "and an administrator's does not let anybody in");
    }
    // What people write is free, whatever it is compared with.
    for pattern in ["*aab*", "user:*:name", "*b", "*[0-9]*x*", "a*?a"] {
        let mut effort = Effort::default();
        Glob::new(pattern.as_bytes()).matches(&text, &mut effort);
        assert_eq!(effort.left(), crate::effort::STEPS_MAX, "{pattern}");
    }
    // So is any pattern on a short text.
    let mut effort = Effort::default();
    Glob::new(b"*???????????????x*").matches(&b"a".repeat(32), &mut effort);
    assert_eq!(effort.left(), crate::effort::STEPS_MAX);
}

#[test]
fn classes_are_read_once() {
    // 4 KiB of one class: as it is written every step would look through them.
    let pattern = [b"*[", &*b"b".repeat(4000), b"]*c*"].concat();
    let glob = Glob::new(&pattern);
    assert_eq!((glob.items.len(), glob.classes.len()), (5, 1));
    assert!(compiled_bytes(&pattern) >= 5 * size_of::<Item>() + size_of::<Set>());
    assert!(
        read(&b"a".repeat(PATTERN_BYTES_MAX)).is_ok() && read(&b"a".repeat(PATTERN_BYTES_MAX + 1)).is_err()
    );
}
