//! Who may log in (memcached's `-Y`).

use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;
use subtle::{Choice, ConstantTimeEq};

/// memcached takes no longer lines.
const LINE_BYTES_MAX: usize = 255;

/// Users and their passwords. Clones share them, so that they can be read anew while a server runs.
#[derive(Clone, Default)]
pub struct MemcachedUsers {
    users: Arc<RwLock<Vec<User>>>,
}

struct User {
    name: Vec<u8>,
    password: Vec<u8>,
}

/// What is wrong with a list of users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrongUsers {
    /// There is none: nobody could log in.
    None,
    /// The number of the line that is not one, from 1.
    Line(usize),
}

impl fmt::Display for WrongUsers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => write!(f, "it has no user, and so nobody could log in: a line is user:password"),
            Self::Line(number) => {
                write!(f, "line {number}: not user:password, or longer than {LINE_BYTES_MAX} bytes")
            }
        }
    }
}

impl std::error::Error for WrongUsers {}

impl MemcachedUsers {
    /// Reads lines of `user:password`.
    ///
    /// # Errors
    /// If there is none, or a line is none.
    pub fn parse(text: &[u8]) -> Result<Self, WrongUsers> {
        let users = Self::default();
        users.replace(text)?;
        Ok(users)
    }

    /// Reads others in their place. Who has logged in stays so.
    ///
    /// # Errors
    /// As [`parse`](Self::parse); the users stay as they are.
    pub fn replace(&self, text: &[u8]) -> Result<(), WrongUsers> {
        if text.trim_ascii().is_empty() {
            return Err(WrongUsers::None);
        }
        let text = text.strip_suffix(b"\n").unwrap_or(text);
        let lines = text.split(|&byte| byte == b'\n').enumerate();
        let users =
            lines.map(|(i, line)| user(line).ok_or(WrongUsers::Line(i + 1))).collect::<Result<_, _>>()?;
        *self.users.write() = users;
        Ok(())
    }

    /// Whether this is a user's password. How long it takes tells nothing but lengths.
    pub(super) fn knows(&self, name: &[u8], password: &[u8]) -> bool {
        let found = self.users.read().iter().fold(Choice::from(0), |found, user| {
            found | (user.name.ct_eq(name) & user.password.ct_eq(password))
        });
        found.into()
    }
}

fn user(line: &[u8]) -> Option<User> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let colon = line.iter().position(|&byte| byte == b':').filter(|_| line.len() <= LINE_BYTES_MAX)?;
    Some(User { name: line[..colon].to_vec(), password: line[colon + 1..].to_vec() })
}

impl fmt::Debug for MemcachedUsers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} users", self.users.read().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_wrong_ones() {
        let users = MemcachedUsers::parse(b"joe:secret\r\nann:pa:ss\n").unwrap();
        assert!(users.knows(b"joe", b"secret") && users.knows(b"ann", b"pa:ss"));
        for (name, password) in
            [("joe", "pa:ss"), ("joe", ""), ("", ""), ("joe", "secrets"), ("ann:pa", "ss")]
        {
            assert!(!users.knows(name.as_bytes(), password.as_bytes()), "{name} {password}");
        }
        assert_eq!(format!("{users:?}"), "2 users", "no password is told");
        let same = users.clone();
        assert_eq!(users.replace(b"joe:new\nann"), Err(WrongUsers::Line(2)));
        assert!(same.knows(b"joe", b"secret"), "as it was");
        users.replace(b"joe:new").unwrap();
        assert!(same.knows(b"joe", b"new") && !same.knows(b"joe", b"secret"));
        for empty in ["", "\n", "\r\n\n"] {
            let wrong = MemcachedUsers::parse(empty.as_bytes()).unwrap_err();
            assert_eq!(wrong, WrongUsers::None, "{empty:?}");
            assert!(wrong.to_string().contains("no user"));
        }
        assert_eq!(MemcachedUsers::parse(&[b':'; 256]).err(), Some(WrongUsers::Line(1)));
    }
}
