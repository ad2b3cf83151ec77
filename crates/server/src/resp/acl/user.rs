//! A user: passwords and selectors.

use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

use crate::registry::DEFAULT_USER;
use crate::resp::table::{Command, named};

use super::rules::Wrong;
use super::selector::{Denied, Selector};

/// The user that connections start with.
pub(in crate::resp) const DEFAULT: &[u8] = b"default";

/// A password's SHA-256.
type Hash = [u8; 32];

/// See the module.
#[derive(Clone, Debug)]
pub(in crate::resp) struct User {
    pub name: Box<[u8]>,
    /// Another one for each user that is made: a user deleted and made again is another user.
    pub id: u64,
    pub enabled: bool,
    /// Any password is right.
    pub no_password: bool,
    /// `sanitize-payload` or `skip-sanitize-payload`: told, and nothing else; payloads are always checked here.
    sanitize: Option<&'static str>,
    passwords: Vec<Hash>,
    pub root: Selector,
    pub selectors: Vec<Selector>,
}

impl User {
    /// A user who may nothing yet.
    pub fn new(name: &[u8], id: u64) -> Self {
        Self {
            name: name.into(),
            id,
            enabled: false,
            no_password: false,
            sanitize: None,
            passwords: Vec::new(),
            root: Selector::default(),
            selectors: Vec::new(),
        }
    }

    /// The user that there always is: at first it may everything without a password.
    pub fn initial() -> Self {
        let new = Self::new(DEFAULT, DEFAULT_USER);
        Self { enabled: true, no_password: true, root: Selector::everything(), ..new }
    }

    /// Whether connections may start as this user without a word.
    pub fn is_open(&self) -> bool {
        self.enabled && self.no_password
    }

    /// Whether no check can refuse it anything.
    pub fn is_free(&self) -> bool {
        self.root.is_everything()
    }

    /// Whether both are the same but for their number.
    pub fn is_like(&self, other: &Self) -> bool {
        self.text() == other.text()
    }

    /// Whether it may log in with this password. Takes as long whichever password is right, and wherever a wrong one differs.
    pub fn admits(&self, password: &[u8]) -> bool {
        let hash = hash(password);
        let right = self.passwords.iter().fold(Choice::from(0), |right, known| right | known.ct_eq(&hash));
        self.enabled && (self.no_password || right.into())
    }

    /// Whether it may call a command with these arguments, its name included; if not, what the selector that came furthest
    /// says.
    pub fn check(&self, command: &'static Command, args: &[&[u8]]) -> Result<(), Denied> {
        let mut denied = Denied::Command;
        for selector in self.all() {
            match selector.check(command, args) {
                Ok(()) => return Ok(()),
                Err(why) => denied = denied.max(why),
            }
        }
        Err(denied)
    }

    fn all(&self) -> impl Iterator<Item = &Selector> {
        std::iter::once(&self.root).chain(&self.selectors)
    }

    /// Whether it may listen to this channel, or this pattern of channels.
    pub fn may_listen(&self, name: &[u8], is_pattern: bool) -> bool {
        self.all().any(|selector| selector.opens_channel(name, is_pattern))
    }

    /// Whether it may see the commands of others.
    pub fn may_monitor(&self) -> bool {
        named(b"monitor").is_some_and(|monitor| self.check(monitor, &[b"monitor"]).is_ok())
    }

    /// Applies one rule.
    pub fn apply(&mut self, rule: &[u8]) -> Result<(), Wrong> {
        match rule.to_ascii_lowercase().as_slice() {
            b"on" => self.enabled = true,
            b"off" => self.enabled = false,
            b"nopass" => {
                self.no_password = true;
                self.passwords.clear();
            }
            b"resetpass" => {
                self.no_password = false;
                self.passwords.clear();
            }
            b"sanitize-payload" => self.sanitize = Some("sanitize-payload"),
            b"skip-sanitize-payload" => self.sanitize = Some("skip-sanitize-payload"),
            b"clearselectors" => self.selectors.clear(),
            b"reset" => {
                *self = Self { sanitize: Some("sanitize-payload"), ..Self::new(&self.name, self.id) };
            }
            _ => match rule {
                [b'>', password @ ..] => self.add_password(hash(password)),
                [b'#', digits @ ..] => self.add_password(from_hex(digits).ok_or(Wrong::Hash)?),
                [b'<', password @ ..] => self.remove_password(hash(password))?,
                [b'!', digits @ ..] => self.remove_password(from_hex(digits).ok_or(Wrong::Hash)?)?,
                [b'(', inner @ .., b')'] => {
                    let mut selector = Selector::default();
                    for rule in inner.split(|byte| *byte == b' ').filter(|rule| !rule.is_empty()) {
                        selector.apply(rule)?;
                    }
                    self.selectors.push(selector);
                }
                _ => self.root.apply(rule)?,
            },
        }
        Ok(())
    }

    /// Has this password alone, or with an empty one any.
    pub fn require(&mut self, password: &[u8]) {
        self.passwords.clear();
        self.no_password = password.is_empty();
        if !password.is_empty() {
            self.add_password(hash(password));
        }
    }

    fn add_password(&mut self, hash: Hash) {
        if !self.passwords.contains(&hash) {
            self.passwords.push(hash);
        }
        self.no_password = false;
    }

    fn remove_password(&mut self, hash: Hash) -> Result<(), Wrong> {
        let at = self.passwords.iter().position(|known| *known == hash).ok_or(Wrong::NoSuchPassword)?;
        self.passwords.remove(at);
        Ok(())
    }

    /// The words that are on.
    pub fn flags(&self) -> Vec<&'static str> {
        let flags = [
            (true, if self.enabled { "on" } else { "off" }),
            (self.no_password, "nopass"),
            (self.sanitize.is_some(), self.sanitize.unwrap_or_default()),
        ];
        flags.into_iter().filter_map(|(set, name)| set.then_some(name)).collect()
    }

    /// The passwords' hashes in hexadecimal digits.
    pub fn hashes(&self) -> Vec<String> {
        self.passwords.iter().map(|hash| to_hex(hash)).collect()
    }

    /// Its line in an ACL file.
    pub fn text(&self) -> Vec<u8> {
        let mut parts = vec![b"user".to_vec(), self.name.to_vec()];
        parts.extend(self.flags().into_iter().map(|flag| flag.as_bytes().to_vec()));
        parts.extend(self.hashes().into_iter().map(|hash| format!("#{hash}").into_bytes()));
        parts.push(self.root.text());
        parts.extend(self.selectors.iter().map(|selector| [b"(", &*selector.text(), b")"].concat()));
        parts.join(&b' ')
    }
}

fn hash(password: &[u8]) -> Hash {
    Sha256::digest(password).into()
}

/// Hexadecimal digits of bytes.
pub(super) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(digits: &[u8]) -> Option<Hash> {
    let digits: &[u8; 64] = digits.try_into().ok()?;
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let mut hash = Hash::default();
    for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = value(pair[0])? << 4 | value(pair[1])?;
    }
    Some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(rules: &[&str]) -> User {
        let mut user = User::new(b"a", 1);
        rules.iter().for_each(|rule| user.apply(rule.as_bytes()).unwrap());
        user
    }

    #[test]
    fn passwords() {
        let some = user(&["on", ">one", ">two", ">one"]);
        assert!(some.admits(b"one") && some.admits(b"two") && !some.admits(b"three") && !some.admits(b""));
        assert_eq!(some.hashes().len(), 2);
        assert!(!user(&["on", ">one", "<one"]).admits(b"one"));
        assert!(!user(&["off", ">one"]).admits(b"one"), "a disabled user");
        assert!(user(&["on", ">one", "nopass"]).admits(b"anything"));
        let empty = "#e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert!(user(&["on", empty]).admits(b""));
        let mut none = user(&["on"]);
        assert!(!none.admits(b""), "no password is right where there is none");
        assert_eq!(none.apply(b"<x"), Err(Wrong::NoSuchPassword));
        assert_eq!(none.apply(b"#abc"), Err(Wrong::Hash));
        assert_eq!(none.apply(empty.to_ascii_uppercase().as_bytes()), Err(Wrong::Hash));
    }

    #[test]
    fn the_line_makes_the_same_user() {
        let rules = ["on", ">pw", "~x*", "&ch", "+@read", "-get", "(+set %W~y)", "(+get ~z &*)"];
        let first = user(&rules);
        let line = String::from_utf8(first.text()).unwrap();
        assert!(
            line.ends_with(
                " ~x* resetchannels &ch -@all +@read -get (%W~y resetchannels -@all +set) (~z &* -@all +get)"
            ),
            "{line}"
        );
        let words = super::super::rules::merge(line.split(' ').skip(2).map(str::as_bytes)).unwrap();
        let mut second = User::new(b"a", 2);
        words.iter().for_each(|word| second.apply(word).unwrap());
        assert!(first.is_like(&second));
    }

    #[test]
    fn any_selector_may_allow_it_all() {
        let some = user(&["+get", "~a", "(+set ~b)", "(+@all ~c)"]);
        let check = |args: &[&str]| {
            let args: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
            some.check(crate::resp::command::meant(&args).unwrap(), &args)
        };
        assert_eq!(
            (check(&["get", "a"]), check(&["set", "b", "1"]), check(&["del", "c"])),
            (Ok(()), Ok(()), Ok(()))
        );
        assert_eq!(
            (check(&["set", "a", "1"]), check(&["mget", "c", "a"])),
            (Err(Denied::Key(1)), Err(Denied::Key(2)))
        );
    }

    #[test]
    fn reset_and_open() {
        assert!(User::initial().is_open() && User::initial().is_free());
        let mut user = user(&["on", "nopass", "+@all", "~*", "&*", "(+get)"]);
        assert!(user.is_free());
        user.apply(b"reset").unwrap();
        assert_eq!(user.text(), b"user a off sanitize-payload resetchannels -@all");
    }
}
