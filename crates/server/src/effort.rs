//! A bound on work that grows faster than what a client sends: the product of two lengths, of patterns and names.
//!
//! A worker serves many connections, and while it works for one the others wait. Most commands cost about as much as their
//! bytes; those that may cost far more take what is beyond from here, and answer an error when nothing is left.

/// Steps, each of about a nanosecond, that the commands of one connection may take in one turn.
pub(crate) const STEPS_MAX: u64 = 1 << 27;

/// What a client is told whose command would take more.
pub(crate) const TOO_MUCH: &str = "ERR matching takes too long: the pattern has long parts between stars, or there is too much to \
                                   compare with it";

/// What is left of [`STEPS_MAX`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    left: u64,
    over: bool,
}

impl Default for Effort {
    fn default() -> Self {
        Self { left: STEPS_MAX, over: false }
    }
}

impl Effort {
    /// Steps that may still be taken.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Takes so many steps; `false` if they are too many, and then nothing is left.
    pub fn take(&mut self, steps: u64) -> bool {
        self.over |= steps > self.left;
        self.left = if self.over { 0 } else { self.left - steps };
        !self.over
    }

    /// Whether more was asked for than there was.
    pub fn is_over(&self) -> bool {
        self.over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_much_takes_all() {
        let mut effort = Effort::default();
        assert!(effort.take(STEPS_MAX - 1) && effort.take(1) && !effort.is_over());
        assert!(!effort.take(1) && effort.is_over());
        let mut effort = Effort::default();
        assert!(!effort.take(STEPS_MAX + 1) && !effort.take(0));
        assert_eq!(effort.left(), 0);
    }
}
