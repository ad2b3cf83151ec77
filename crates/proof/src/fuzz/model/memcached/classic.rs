//! The classic commands.

use super::{Expect, Item, Model, Part, expiry, number, say, text};

const NOT_A_NUMBER: &str = "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";

impl Model {
    /// `set`, `add`, `replace`, `append`, `prepend`, and `cas` with the generation of its token.
    pub fn store(
        &mut self,
        name: &str,
        key: &[u8],
        flags: u32,
        seconds: i64,
        value: &[u8],
        token: Option<u64>,
    ) -> Expect {
        let old = self.get(key).cloned();
        let fresh = Item::new(value, flags, expiry(seconds), false);
        let item = match (name, old) {
            ("cas", None) => return text("NOT_FOUND\r\n"),
            ("cas", Some(old)) if token != Some(old.token) => return text("EXISTS\r\n"),
            ("add", Some(_)) => {
                // It counts as read, though not as fetched.
                return text("NOT_STORED\r\n");
            }
            ("replace" | "append" | "prepend", None) => return text("NOT_STORED\r\n"),
            ("append" | "prepend", Some(old)) => self.joined(&old, value, name == "append"),
            _ => fresh,
        };
        self.put(key, item);
        text("STORED\r\n")
    }

    /// A record to which something was put.
    pub(super) fn joined(&self, old: &Item, value: &[u8], behind: bool) -> Item {
        let value = if behind { [&old.value, value].concat() } else { [value, &old.value].concat() };
        self.remade(old, value)
    }

    /// A record with another value, made of the old one. memcached forgets that the old one was invalidated when it needs
    /// another place for the value; we don't.
    fn remade(&self, old: &Item, value: Vec<u8>) -> Item {
        if self.original {
            Item { at: old.at, ..Item::new(&value, old.flags, 0, false) }
        } else {
            Item { value, ..old.clone() }
        }
    }

    /// A record with another number: a shorter one takes the place, and keeps the length, of a longer one.
    /// Our `incr` does not pad.
    pub(super) fn counted(&self, old: &Item, number: u64, pads: bool) -> Item {
        let mut value = number.to_string().into_bytes();
        if value.len() > old.value.len() || !self.original && !pads {
            return self.remade(old, value);
        }
        value.resize(old.value.len(), b' ');
        Item { value, ..old.clone() }
    }

    /// `get` and `gets`.
    pub fn retrieve(&mut self, keys: &[Vec<u8>], tokens: bool) -> Expect {
        let mut parts = Vec::new();
        for key in keys {
            self.show(key, tokens, &mut parts);
        }
        say(&mut parts, "END\r\n");
        Expect::Parts(parts)
    }

    /// `gat` and `gats`.
    pub fn get_and_touch(&mut self, seconds: i64, keys: &[Vec<u8>], tokens: bool) -> Expect {
        let mut parts = Vec::new();
        for key in keys {
            if let Some(item) = self.get(key) {
                item.at = expiry(seconds);
                self.touched(key);
                self.show_any(key, tokens, !self.original, &mut parts);
            }
        }
        say(&mut parts, "END\r\n");
        Expect::Parts(parts)
    }

    fn show(&mut self, key: &[u8], tokens: bool, parts: &mut Vec<Part>) {
        if self.get(key).is_some() {
            self.show_any(key, tokens, false, parts);
        }
    }

    fn show_any(&mut self, key: &[u8], tokens: bool, touched: bool, parts: &mut Vec<Part>) {
        let Some(item) = self.items.get_mut(key) else { return };
        item.fetched = true;
        let key = String::from_utf8_lossy(key);
        say(parts, format!("VALUE {key} {} {}", item.flags, item.value.len()));
        if tokens {
            say(parts, " ");
            parts.push(if touched { Part::AnyToken } else { item.shown_token() });
        }
        say(parts, "\r\n");
        say(parts, &item.value);
        say(parts, "\r\n");
    }

    pub fn touch(&mut self, key: &[u8], seconds: i64) -> Expect {
        let Some(item) = self.get(key) else { return text("NOT_FOUND\r\n") };
        item.at = expiry(seconds);
        item.fetched = true;
        self.touched(key);
        text("TOUCHED\r\n")
    }

    pub fn delete(&mut self, key: &[u8]) -> Expect {
        let deleted = self.get(key).is_some();
        self.items.remove(key);
        text(if deleted { "DELETED\r\n" } else { "NOT_FOUND\r\n" })
    }

    /// `incr` and `decr`.
    pub fn count(&mut self, key: &[u8], by: u64, down: bool) -> Expect {
        let Some(item) = self.get(key).cloned() else { return text("NOT_FOUND\r\n") };
        let Some(before) = number(&item.value, !self.original) else { return text(NOT_A_NUMBER) };
        let after = if down { before.saturating_sub(by) } else { before.wrapping_add(by) };
        let item = self.counted(&item, after, down);
        self.put(key, item);
        text(format!("{after}\r\n"))
    }

    pub fn flush(&mut self) -> Expect {
        self.items.clear();
        text("OK\r\n")
    }
}
