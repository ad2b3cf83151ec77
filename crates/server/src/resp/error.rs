//! Error answers, in Redis's words.

use std::borrow::Cow;

use terrace_engine::OpError;

use super::text::part::TOO_LONG;

/// Why a command was refused: the whole line, its code first.
#[derive(Debug)]
pub(super) struct Refusal(pub Cow<'static, [u8]>);

impl From<&'static str> for Refusal {
    fn from(text: &'static str) -> Self {
        Self(Cow::Borrowed(text.as_bytes()))
    }
}

impl From<String> for Refusal {
    fn from(text: String) -> Self {
        Self(Cow::Owned(text.into_bytes()))
    }
}

impl From<Vec<u8>> for Refusal {
    fn from(text: Vec<u8>) -> Self {
        Self(Cow::Owned(text))
    }
}

pub(super) const SYNTAX: &str = "ERR syntax error";
pub(super) const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";
pub(super) const NOT_A_FLOAT: &str = "ERR value is not a valid float";

/// What a client is told when an operation failed.
pub(super) fn of_operation(error: OpError) -> Cow<'static, str> {
    match error {
        OpError::Full => "OOM command not allowed when used memory > 'maxmemory'".into(),
        OpError::NotInteger => NOT_AN_INTEGER.into(),
        OpError::NotFloat => NOT_A_FLOAT.into(),
        // Redis's words, and the limit that it is.
        OpError::ValueTooLong(most) => format!("{TOO_LONG}: this store takes {most} bytes at most").into(),
        // As Redis says it of its append-only file.
        OpError::LogFailed(_) => format!("MISCONF {error}").into(),
        // The rest are sentences of our own, or Redis's already.
        other => format!("ERR {other}").into(),
    }
}

/// The wrong number of arguments.
pub(super) fn arity(full_name: &str) -> Refusal {
    format!("ERR wrong number of arguments for '{full_name}' command").into()
}

/// A relative or absolute expiry that is not positive or does not fit.
pub(super) fn expire_time(full_name: &str) -> Refusal {
    format!("ERR invalid expire time in '{full_name}' command").into()
}

/// A command that Redis has and this server does not, for it lacks what the command is about.
pub(super) fn lacking(what: &str, full_name: &[u8]) -> Refusal {
    let name = String::from_utf8_lossy(full_name).to_ascii_uppercase().replace('|', " ");
    format!("ERR this server has no {what} yet: {name} is not supported").into()
}

/// An unknown command: tells its name and the beginning of its arguments.
pub(super) fn unknown<'a>(name: &[u8], args: impl Iterator<Item = &'a [u8]>) -> Refusal {
    const SHOWN: usize = 128;
    let mut text = b"ERR unknown command '".to_vec();
    text.extend_from_slice(&name[..name.len().min(SHOWN)]);
    text.extend_from_slice(b"', with args beginning with: ");
    let start = text.len();
    for arg in args {
        let shown = text.len() - start;
        if shown >= SHOWN {
            break;
        }
        text.push(b'\'');
        text.extend_from_slice(&arg[..arg.len().min(SHOWN - shown)]);
        text.extend_from_slice(b"' ");
    }
    text.into()
}

/// An unknown subcommand of `container`.
pub(super) fn unknown_sub(container: &str, sub: &[u8]) -> Refusal {
    let mut text = b"ERR unknown subcommand '".to_vec();
    text.extend_from_slice(&sub[..sub.len().min(128)]);
    text.extend_from_slice(format!("'. Try {} HELP.", container.to_ascii_uppercase()).as_bytes());
    text.into()
}

/// A subcommand with arguments that its arity lets pass, and it does not take.
pub(super) fn wrong_arguments(sub: &[u8], container: &str) -> Refusal {
    let behind = format!("'. Try {container} HELP.");
    let before = b"ERR unknown subcommand or wrong number of arguments for '";
    [&before[..], &sub[..sub.len().min(128)], behind.as_bytes()].concat().into()
}
