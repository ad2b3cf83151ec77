//! Reads choices from a fuzzer's bytes. Behind their end everything is zero, so that every input means something and a
//! shorter one means less.

/// The bytes not read yet.
pub(super) struct Source<'a> {
    rest: &'a [u8],
}

impl<'a> Source<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }
    /// Whether all is read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
    /// How many bytes are left: fewer with every choice.
    pub fn left(&self) -> usize {
        self.rest.len()
    }
    /// One byte.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        *first
    }
    /// Two bytes.
    pub fn short(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }
    /// Four bytes.
    pub fn word(&mut self) -> u32 {
        u32::from(self.short()) | u32::from(self.short()) << 16
    }
    /// A number below `bound`, from one byte where that is enough.
    ///
    /// # Panics
    /// If `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        match bound {
            ..=0x100 => usize::from(self.byte()) % bound,
            0x101..=0x1_0000 => usize::from(self.short()) % bound,
            _ => self.word() as usize % bound,
        }
    }
    /// One of several.
    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
    /// A number that is likely to be on an edge: small, a power of two, all ones, or any.
    pub fn edge(&mut self) -> u64 {
        let small = u64::from(self.byte());
        match self.byte() % 6 {
            0 => small,
            1 => 1 << (small % 64),
            2 => (1u64 << (small % 64)).wrapping_sub(1),
            3 => u64::MAX - small,
            4 => u64::from(self.word()),
            _ => u64::from(self.word()) | u64::from(self.word()) << 32,
        }
    }
}
