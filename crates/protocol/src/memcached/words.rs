//! Words of a line.

/// The words of (the rest of) a line, separated by spaces. Only the space separates: tabs belong to words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words<'a> {
    rest: &'a [u8],
}

impl<'a> Words<'a> {
    /// Those of a text.
    pub fn new(line: &'a [u8]) -> Self {
        Self { rest: line }
    }
    /// What is left of the line.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];
    fn next(&mut self) -> Option<&'a [u8]> {
        let start = self.rest.iter().position(|&byte| byte != b' ')?;
        let word = &self.rest[start..];
        let end = word.iter().position(|&byte| byte == b' ').unwrap_or(word.len());
        self.rest = &word[end..];
        Some(&word[..end])
    }
}

/// Most words that memcached looks at in a line other than a get.
const WORDS_MAX: usize = 23;

/// The arguments of a line that has few.
pub(super) struct Args<'a> {
    first: [&'a [u8]; 6],
    last: &'a [u8],
    count: usize,
}

impl<'a> Args<'a> {
    /// The arguments after the command word.
    pub(super) fn new(words: Words<'a>) -> Self {
        let mut args = Self { first: [&[]; 6], last: &[], count: 0 };
        for word in words.take(WORDS_MAX - 1) {
            if let Some(slot) = args.first.get_mut(args.count) {
                *slot = word;
            }
            args.last = word;
            args.count += 1;
        }
        args
    }
    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.count
    }
    /// An argument of the first six; empty if there is none.
    pub(super) fn get(&self, i: usize) -> &'a [u8] {
        self.first[i]
    }
    /// The last one; empty if there is none.
    pub(super) fn last(&self) -> &'a [u8] {
        self.last
    }
    /// Whether the last one asks for silence. True even where another argument was due there, as in memcached.
    pub(super) fn noreply(&self) -> bool {
        self.last == b"noreply"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_spaces_separate() {
        let words: Vec<_> = Words::new(b"  a b\tc   d ").collect();
        assert_eq!(words, [&b"a"[..], b"b\tc", b"d"]);
        assert_eq!(Words::new(b"   ").next(), None);
    }

    #[test]
    fn arguments_beyond_the_sixth_are_counted() {
        let args = Args::new(Words::new(b"1 2 3 4 5 6 7 noreply"));
        assert_eq!((args.count(), args.get(5), args.last()), (8, &b"6"[..], &b"noreply"[..]));
        assert!(args.noreply());
        assert_eq!(Args::new(Words::new(b"")).count(), 0);
    }
}
