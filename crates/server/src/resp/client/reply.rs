//! `CLIENT REPLY`: a connection may do without answers.

use super::super::call::{Call, Outcome};
use super::super::error::SYNTAX;
use super::super::options::is;

/// Which answers a connection wants. What it subscribed to comes all the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) enum Replies {
    /// All.
    #[default]
    On,
    /// None until `CLIENT REPLY ON`.
    Off,
    /// All but the next one.
    SkipNext,
    /// All but the one of the command that runs.
    SkipThis,
}

impl Replies {
    /// Whether the command that runs gets no answer, or the next one.
    pub fn are_muted(self) -> bool {
        self != Self::On
    }

    /// A command begins; whether it is answered with silence.
    pub fn begin(&mut self) {
        if *self == Self::SkipNext {
            *self = Self::SkipThis;
        }
    }

    /// A command ended: whether it is answered with silence.
    pub fn end(&mut self) -> bool {
        match *self {
            Self::On => false,
            Self::Off | Self::SkipNext => true,
            Self::SkipThis => {
                *self = Self::On;
                true
            }
        }
    }
}

/// `CLIENT REPLY ON|OFF|SKIP`.
pub(in super::super) fn reply(call: &mut Call<'_>) -> Outcome {
    let word = call.arg(2);
    let replies = &mut call.client.replies;
    match () {
        () if is(word, "ON") => *replies = Replies::On,
        () if is(word, "OFF") => *replies = Replies::Off,
        () if is(word, "SKIP") => {
            if *replies != Replies::Off {
                *replies = Replies::SkipNext;
            }
        }
        () => return Err(SYNTAX.into()),
    }
    // Not answered, unless it is ON: the mute says so.
    call.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs commands, `-` for one that changes nothing; tells which are answered.
    fn answered(commands: &[Option<Replies>]) -> Vec<bool> {
        let mut replies = Replies::default();
        let mut run = |command: &Option<Replies>| {
            replies.begin();
            replies = match command {
                Some(Replies::SkipNext) if replies == Replies::Off => Replies::Off,
                Some(to) => *to,
                None => replies,
            };
            !replies.end()
        };
        commands.iter().map(&mut run).collect()
    }

    #[test]
    fn skip_mutes_one_command_and_off_all() {
        let (on, off, skip) = (Some(Replies::On), Some(Replies::Off), Some(Replies::SkipNext));
        assert_eq!(answered(&[None, skip, None, None]), [true, false, false, true]);
        assert_eq!(answered(&[skip, skip, None, None]), [false, false, false, true]);
        assert_eq!(answered(&[off, None, skip, None, on, None]), [false, false, false, false, true, true]);
        assert_eq!(answered(&[skip, on, None]), [false, true, true]);
    }
}
