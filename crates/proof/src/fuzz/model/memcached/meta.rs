//! The meta commands.

use super::{Expect, Item, LATE, Model, Part, expiry, now, number, say, text};

/// A meta command: its key as the store has it, as the client writes it, and its flags in their order.
#[derive(Clone, Debug)]
pub(in super::super) struct Meta {
    pub key: Vec<u8>,
    pub shown: Vec<u8>,
    pub flags: Vec<(u8, Vec<u8>)>,
    /// The generation of the cas token that `C` has, if it is one of ours.
    pub token: Option<u64>,
}

impl Meta {
    fn has(&self, letter: u8) -> bool {
        self.flags.iter().any(|flag| flag.0 == letter)
    }
    fn text(&self, letter: u8) -> Option<&[u8]> {
        self.flags.iter().find(|flag| flag.0 == letter).map(|flag| &flag.1[..])
    }
    fn signed(&self, letter: u8) -> Option<i64> {
        signed(self.text(letter)?)
    }
    fn unsigned(&self, letter: u8) -> Option<u64> {
        std::str::from_utf8(self.text(letter)?).ok()?.parse().ok()
    }
    /// Whether a record has the token that is asked for, if one is.
    fn compares(&self, item: &Item) -> bool {
        !self.has(b'C') || self.token == Some(item.token)
    }
}

fn signed(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// The answer without a record; that of `ms` tells a token, which is none, and how long the value is that it was given.
fn brief(status: &str, meta: &Meta) -> Expect {
    brief_of(status, meta, None)
}

fn brief_of(status: &str, meta: &Meta, sent: Option<usize>) -> Expect {
    let mut parts = vec![Part::Text(status.into())];
    for (letter, text) in &meta.flags {
        match letter {
            b'O' => say(&mut parts, [&b" O"[..], text].concat()),
            b'k' => say(&mut parts, shown_key(&meta.shown, meta.has(b'b'))),
            b'c' if sent.is_some() => say(&mut parts, " c0"),
            b's' => say(&mut parts, sent.map_or(String::new(), |bytes| format!(" s{bytes}"))),
            _ => {}
        }
    }
    say(&mut parts, "\r\n");
    Expect::Parts(parts)
}

fn shown_key(shown: &[u8], binary: bool) -> Vec<u8> {
    [&b" k"[..], shown, if binary { &b" b"[..] } else { &[] }].concat()
}

impl Model {
    fn flag(&self, letter: u8, argument: &[u8], item: &Item, meta: &Meta, parts: &mut Vec<Part>) {
        let number = |letter: char, number: u64| format!(" {letter}{number}");
        match letter {
            b's' => say(parts, number('s', item.value.len() as u64)),
            b'f' => say(parts, number('f', item.flags.into())),
            b'c' => {
                say(parts, " c");
                // We tell the one before of a record that the command lets expire.
                let is_gone = meta.signed(b'T').is_some_and(|seconds| seconds < 0) && !self.original;
                parts.push(if is_gone { Part::AnyToken } else { item.shown_token() });
            }
            b't' if item.at == 0 => say(parts, " t-1"),
            b't' => {
                say(parts, " t");
                let left = item.at - now();
                parts.push(if item.at < 0 {
                    Part::Number(0, u64::MAX)
                } else {
                    Part::Number((left - LATE).max(0) as u64, (left + LATE) as u64)
                });
            }
            b'h' if self.original => say(parts, number('h', item.fetched.into())),
            // We know it only of what happens after somebody has asked.
            b'h' => {
                say(parts, " h");
                parts.push(Part::Number(0, 1));
            }
            b'l' => {
                say(parts, " l");
                parts.push(Part::Number(0, LATE as u64));
            }
            b'O' => say(parts, [&b" O"[..], argument].concat()),
            b'k' if item.binary => say(parts, shown_key(b"Zm9v", true)),
            b'k' => say(parts, shown_key(&meta.key, false)),
            _ => {}
        }
    }

    /// `mg`: the answer, or none.
    pub fn meta_get(&mut self, meta: &Meta) -> Option<Expect> {
        let created = self.get(&meta.key).is_none();
        if created {
            if !meta.has(b'N') {
                return (!meta.has(b'q')).then(|| brief("EN", meta));
            }
            self.put(&meta.key, Item::new(b"", 0, 0, false));
        }
        let before = self.items[&meta.key].clone();
        let (mut at, mut won) = (before.at, false);
        let is_stale = before.stale && !before.token_sent;
        for (letter, argument) in &meta.flags {
            let seconds = signed(argument).unwrap_or(0);
            match letter {
                b'T' => at = expiry(seconds),
                b'N' if created => (at, won) = (expiry(seconds), true),
                b'R' => won |= !before.token_sent && !created && at != 0 && (at < 0 || at - now() < seconds),
                _ => {}
            }
        }
        won |= is_stale;
        if (won || meta.has(b'T')) && !created {
            self.touched(&meta.key);
        }
        let token = self.items[&meta.key].token;
        let mut shown = Item { token, ..before.clone() };
        // Who has the token has the value.
        let is_known = !created && meta.has(b'C') && meta.compares(&before);
        let shows_value = meta.has(b'v') && !is_known;
        let mut parts = found(shows_value, before.value.len());
        for (letter, argument) in &meta.flags {
            match letter {
                b'T' => shown.at = expiry(signed(argument).unwrap_or(0)),
                b'N' if created => shown.at = expiry(signed(argument).unwrap_or(0)),
                _ => self.flag(*letter, argument, &shown, meta, &mut parts),
            }
        }
        for (is, word) in [(before.token_sent, " Z"), (before.stale, " X"), (won, " W")] {
            if is {
                say(&mut parts, word);
            }
        }
        say(&mut parts, "\r\n");
        if shows_value {
            say(&mut parts, &before.value);
            say(&mut parts, "\r\n");
        }
        let item = self.items.get_mut(&meta.key)?;
        item.at = at;
        item.token_sent |= won;
        item.fetched |= !meta.has(b'u');
        Some(Expect::Parts(parts))
    }

    /// `ms`.
    pub fn meta_set(&mut self, meta: &Meta, value: &[u8]) -> Option<Expect> {
        let joined_to_none = meta.has(b'N') && matches!(meta.text(b'M'), Some([b'A' | b'P', ..]));
        let at = expiry(meta.signed(if joined_to_none { b'N' } else { b'T' }).unwrap_or(0));
        let flags = meta.unsigned(b'F').unwrap_or(0) as u32;
        let fresh = Item::new(value, flags, at, meta.has(b'b'));
        let sent = Some(value.len());
        let mode = meta.text(b'M').map_or(b'S', |mode| mode[0]);
        if !b"SEARP".contains(&mode) {
            return Some(text("CLIENT_ERROR invalid mode for ms M token\r\n"));
        }
        let joins = matches!(mode, b'A' | b'P');
        let item = match (self.get(&meta.key).cloned(), mode) {
            (None, b'S' | b'R') if meta.has(b'C') => return Some(brief_of("NF", meta, sent)),
            (None, b'S' | b'E') => fresh,
            (None, _) if joined_to_none => fresh,
            (None, _) | (Some(_), b'E') => return Some(brief_of("NS", meta, sent)),
            (Some(old), _) if !meta.compares(&old) => {
                let is_older = meta.token.is_some_and(|token| token < old.token);
                if !meta.has(b'I') || joins || !is_older {
                    return Some(brief_of("EX", meta, sent));
                }
                Item { at: old.at, stale: true, token_sent: old.token_sent, ..fresh }
            }
            (Some(old), _) if joins => self.joined(&old, value, mode == b'A'),
            (Some(_), _) => fresh,
        };
        let (bytes, expires_at_once) = (item.value.len(), item.at < 0);
        let token = self.put(&meta.key, item);
        let mut parts = vec![Part::Text(b"HD".to_vec())];
        for (letter, argument) in &meta.flags {
            match letter {
                b'c' => {
                    say(&mut parts, " c");
                    let is_gone = expires_at_once && !self.original;
                    parts.push(if is_gone { Part::AnyToken } else { Part::Token(token) });
                }
                b's' => say(&mut parts, format!(" s{bytes}")),
                b'O' => say(&mut parts, [&b" O"[..], argument].concat()),
                b'k' => say(&mut parts, shown_key(&meta.shown, meta.has(b'b'))),
                _ => {}
            }
        }
        say(&mut parts, "\r\n");
        (!meta.has(b'q')).then_some(Expect::Parts(parts))
    }

    /// `md`.
    pub fn meta_delete(&mut self, meta: &Meta) -> Option<Expect> {
        let Some(item) = self.get(&meta.key).cloned() else { return Some(brief("NF", meta)) };
        if !meta.compares(&item) {
            return Some(brief("EX", meta));
        }
        let item = if meta.has(b'x') {
            let flags = meta.unsigned(b'F').unwrap_or(0) as u32;
            Item::new(b"", flags, expiry(meta.signed(b'T').unwrap_or(0)), false)
        } else {
            item
        };
        if meta.has(b'I') {
            let at = meta.signed(b'T').map_or(item.at, expiry);
            self.put(&meta.key, Item { at, stale: true, token_sent: false, ..item });
        } else if meta.has(b'x') {
            self.emptied(&meta.key, item);
        } else {
            self.items.remove(&meta.key);
        }
        (!meta.has(b'q')).then(|| brief("HD", meta))
    }

    /// A record without its value: memcached's has the token that it had.
    fn emptied(&mut self, key: &[u8], item: Item) {
        let before = self.items.get(key).map(|old| (old.token, old.since));
        self.put(key, item);
        if let (true, Some((token, since)), Some(item)) = (self.original, before, self.items.get_mut(key)) {
            (item.token, item.since) = (token, since);
        }
    }

    /// `ma`.
    pub fn meta_count(&mut self, meta: &Meta) -> Option<Expect> {
        let mode = meta.text(b'M').map_or(b'I', |mode| mode[0]);
        if !b"I+D-".contains(&mode) {
            return Some(text("CLIENT_ERROR invalid mode for ma M token\r\n"));
        }
        let down = matches!(mode, b'D' | b'-');
        let old = self.get(&meta.key).cloned();
        let created = old.is_none();
        let length = old.as_ref().map_or(0, |item| item.value.len());
        let (after, item) = match old {
            None => {
                if !meta.has(b'N') {
                    return Some(brief("NF", meta));
                }
                let initial = meta.unsigned(b'J').unwrap_or(0);
                let value = initial.to_string().into_bytes();
                (initial, Item::new(&value, 0, 0, false))
            }
            Some(item) => {
                if item.value.is_empty() {
                    return Some(text("CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"));
                }
                if !meta.compares(&item) {
                    return Some(brief("EX", meta));
                }
                let Some(before) = number(&item.value, false) else {
                    return Some(text("CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"));
                };
                let by = meta.unsigned(b'D').unwrap_or(1);
                let after = if down { before.saturating_sub(by) } else { before.wrapping_add(by) };
                (after, self.counted(&item, after, true))
            }
        };
        self.put(&meta.key, item);
        let mut shown = self.items[&meta.key].clone();
        let digits = after.to_string();
        let digits_len = digits.len();
        let mut parts = found(meta.has(b'v'), digits_len);
        for (letter, argument) in &meta.flags {
            match letter {
                b'T' => shown.at = expiry(signed(argument).unwrap_or(0)),
                b'N' if created => shown.at = expiry(signed(argument).unwrap_or(0)),
                b'k' => say(&mut parts, shown_key(&meta.shown, meta.has(b'b'))),
                b'c' | b't' | b'O' => self.flag(*letter, argument, &shown, meta, &mut parts),
                _ => {}
            }
        }
        say(&mut parts, "\r\n");
        if meta.has(b'v') {
            say(&mut parts, digits);
            say(&mut parts, "\r\n");
        }
        // memcached gives the new time to the old record, when it needed another place for a longer number.
        let is_lost = self.original && !created && digits_len > length;
        if !is_lost {
            self.items.get_mut(&meta.key)?.at = shown.at;
        }
        (!meta.has(b'q')).then_some(Expect::Parts(parts))
    }
}

/// How the answer of a record that is there begins, its value having so many bytes.
fn found(shows_value: bool, value_bytes: usize) -> Vec<Part> {
    let mut parts = Vec::new();
    if shows_value {
        say(&mut parts, format!("VA {value_bytes}"));
    } else {
        say(&mut parts, "HD");
    }
    parts
}
