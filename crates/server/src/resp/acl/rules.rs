//! Rules as they are given: what may be wrong about one, and how a list of words is put together.

use std::fmt;

/// What is wrong about a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::resp) enum Wrong {
    Syntax,
    Unknown,
    KeysBehindAll,
    ChannelsBehindAll,
    NoSuchPassword,
    Hash,
    FirstArgumentOfSub,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Syntax => "Syntax error",
            Self::Unknown => "Unknown command or category name in ACL",
            Self::KeysBehindAll => {
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. \
                 Try 'resetkeys' to start with an empty list of patterns"
            }
            Self::ChannelsBehindAll => {
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. \
                 Try 'resetchannels' to start with an empty list of channels"
            }
            Self::NoSuchPassword => "The password you are trying to remove from the user does not exist",
            Self::Hash => {
                "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
            }
            Self::FirstArgumentOfSub => "Allowing first-arg of a subcommand is not supported",
        })
    }
}

/// Whether there is what would break a line of rules apart.
pub(super) fn has_spaces(text: &[u8]) -> bool {
    text.iter().any(|byte| byte.is_ascii_whitespace() || *byte == 0x0b || *byte == 0)
}

/// Puts the words of each selector in parentheses together; the error is where one begins that does not end.
pub(super) fn merge<'a>(words: impl Iterator<Item = &'a [u8]>) -> Result<Vec<Vec<u8>>, Vec<u8>> {
    let mut merged: Vec<Vec<u8>> = Vec::new();
    let mut open: Option<(&[u8], Vec<u8>)> = None;
    for word in words {
        let (first, mut text) = match open.take() {
            Some((first, text)) => (first, [&text, &b" "[..], word].concat()),
            None => (word, word.to_vec()),
        };
        if first.starts_with(b"(") && !word.ends_with(b")") {
            open = Some((first, text));
        } else {
            merged.push(std::mem::take(&mut text));
        }
    }
    match open {
        Some((first, _)) => Err(first.to_vec()),
        None => Ok(merged),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_put_together() {
        let merged = |text: &str| merge(text.split(' ').map(str::as_bytes)).map(|words| words.join(&b'|'));
        assert_eq!(merged("on (+get ~x) +set"), Ok(b"on|(+get ~x)|+set".to_vec()));
        assert_eq!(merged("(+get) (a b c)"), Ok(b"(+get)|(a b c)".to_vec()));
        assert_eq!(merged("on (+get ~x"), Err(b"(+get".to_vec()));
        assert_eq!(merged("("), Err(b"(".to_vec()));
        assert_eq!(merged(")"), Ok(b")".to_vec()));
    }
}
