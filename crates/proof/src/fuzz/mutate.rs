//! Seeded mutation: without coverage to steer by, what matters is to keep most of a valid input and to break little.

use terrace_media_sim::Rng;

use super::Target;

/// Makes inputs of a target from those of its corpus; the same seed makes the same.
pub struct Mutator<'a> {
    rng: Rng,
    target: &'a Target,
    corpus: &'a [Vec<u8>],
}

impl<'a> Mutator<'a> {
    /// From this corpus, which may be empty.
    pub fn new(seed: u64, target: &'a Target, corpus: &'a [Vec<u8>]) -> Self {
        Self { rng: Rng::new(seed), target, corpus }
    }

    /// The next input.
    pub fn input(&mut self) -> Vec<u8> {
        let mut input = match self.pick(self.corpus.len()) {
            Some(i) if !self.rng.one_in(16) => self.corpus[i].clone(),
            _ => {
                let len = 1 + self.rng.below(self.target.bytes_max.min(256) as u64);
                (0..len).map(|_| self.rng.bits() as u8).collect()
            }
        };
        for _ in 0..1u64 << self.rng.below(4) {
            self.change(&mut input);
        }
        input.truncate(self.target.bytes_max);
        input
    }

    fn pick(&mut self, count: usize) -> Option<usize> {
        (count > 0).then(|| self.rng.below(count as u64) as usize)
    }

    /// A range, short ones more often than long ones.
    fn range(&mut self, len: usize) -> std::ops::Range<usize> {
        let start = self.rng.below(len as u64 + 1) as usize;
        let longest = (1u64 << self.rng.below(9)).min((len - start) as u64 + 1);
        start..(start + self.rng.below(longest + 1) as usize).min(len)
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let at = self.rng.below(input.len() as u64 + 1) as usize;
        match self.rng.below(11) {
            0 | 1 if at < input.len() => input[at] ^= 1 << self.rng.below(8),
            2 | 3 if at < input.len() => {
                input[at] = [0, 1, 0x7f, 0x80, 0xff, self.rng.bits() as u8][self.rng.below(6) as usize];
            }
            4 => {
                let range = self.range(input.len());
                input.drain(range);
            }
            5 => {
                let range = self.range(input.len());
                let copy = input[range].to_vec();
                input.splice(at..at, copy);
            }
            6 => {
                let bytes: Vec<u8> = (0..=self.rng.below(8)).map(|_| self.rng.bits() as u8).collect();
                input.splice(at..at, bytes);
            }
            7 => self.number(input, at),
            8 => {
                // Another input's part in the place of ours.
                let Some(other) = self.pick(self.corpus.len()) else { return };
                let range = self.range(input.len());
                let theirs = self.range(self.corpus[other].len());
                input.splice(range, self.corpus[other][theirs].iter().copied());
            }
            _ => {
                let Some(word) = self.pick(self.target.words.len()) else { return };
                let word = self.target.words[word].as_bytes();
                let end = if self.rng.one_in(2) { (at + word.len()).min(input.len()) } else { at };
                input.splice(at..end, word.iter().copied());
            }
        }
    }

    /// Another number in the place of the next one written in digits.
    fn number(&mut self, input: &mut Vec<u8>, at: usize) {
        let Some(start) = input[at..].iter().position(u8::is_ascii_digit).map(|i| at + i) else { return };
        let digits = input[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number = match self.rng.below(4) {
            0 => self.rng.below(20),
            1 => 1 << self.rng.below(64),
            2 => (1 << self.rng.below(64)) - 1,
            _ => u64::MAX - self.rng.below(3),
        };
        input.splice(start..start + digits, number.to_string().into_bytes());
    }
}
