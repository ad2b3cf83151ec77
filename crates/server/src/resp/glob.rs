//! Redis's glob patterns: `*`, `?`, `[a-z]`, `[^x]`, `\` before a byte that is meant as itself.
//!
//! A pattern is compiled once, a class to the set of its bytes, so that a step of a match costs the same whatever the pattern
//! is. What is in front of the first star, and behind the last, is compared where it must be; of the stars in between only
//! the last one seen is ever gone back to, which is enough (an earlier star could not help where the later one failed).
//!
//! # Bounds
//! A match may then take as many steps as pattern times text has bytes, and names may have 64 KiB: with patterns as long that
//! would be seconds. Patterns of clients have at most [`PATTERN_BYTES_MAX`], which is far more than anybody writes by hand,
//! and what a match takes beyond four steps for each byte of the text is taken from an [`Effort`]: a pattern whose parts
//! between stars are short never does.

use crate::effort::Effort;

/// Most bytes of a pattern that a client sends.
pub(crate) const PATTERN_BYTES_MAX: usize = 4 << 10;

/// What a client is told that sends a longer one.
pub(crate) const TOO_LONG: &str = "ERR a pattern may have at most 4096 bytes";
const _: () = assert!(PATTERN_BYTES_MAX == 4096, "the text says how many");

/// Steps that are free: for each byte of the text, and whatever the text.
const FREE_PER_BYTE: u64 = 4;
const FREE: u64 = 256;
/// What one more step takes from the effort.
const STEP: u64 = 8;

/// Bytes, a bit each.
type Set = [u64; 4];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Item {
    Star,
    Any,
    Byte(u8),
    /// One of these sets.
    Class(u32),
}

/// A compiled pattern.
#[derive(Debug)]
pub(crate) struct Glob {
    items: Box<[Item]>,
    classes: Box<[Set]>,
    /// The first star and the last.
    stars: Option<(usize, usize)>,
    /// Items that take a byte each: no shorter text fits.
    shortest: usize,
}

/// A client's pattern, compiled.
///
/// # Errors
/// If it is too long.
pub(crate) fn read(pattern: &[u8]) -> Result<Glob, &'static str> {
    check(pattern)?;
    Ok(Glob::new(pattern))
}

/// Whether a client's pattern is short enough.
///
/// # Errors
/// If it is too long.
pub(crate) fn check(pattern: &[u8]) -> Result<(), &'static str> {
    if pattern.len() > PATTERN_BYTES_MAX { Err(TOO_LONG) } else { Ok(()) }
}

/// The memory that a compiled pattern takes, at most.
pub(crate) fn compiled_bytes(pattern: &[u8]) -> usize {
    let classes = pattern.iter().filter(|byte| **byte == b'[').count();
    pattern.len() * size_of::<Item>() + classes * size_of::<Set>()
}

/// Whether `text` as a whole fits `pattern`, which is of an administrator: for one look, so that a pattern without classes is
/// not compiled. Where that would take too long the text does not fit.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let mut effort = Effort::default();
    if pattern.contains(&b'[') { Glob::new(pattern).matches(text, &mut effort) } else { plain(pattern, text) }
}

impl Glob {
    /// Compiles a pattern of any length.
    pub fn new(pattern: &[u8]) -> Self {
        let mut items = Vec::with_capacity(pattern.len());
        let mut classes = Vec::new();
        let mut rest = pattern;
        while let Some((first, behind)) = rest.split_first() {
            rest = behind;
            items.push(match (first, behind) {
                (b'*', _) if items.last() == Some(&Item::Star) => continue,
                (b'*', _) => Item::Star,
                (b'?', _) => Item::Any,
                (b'\\', [literal, behind @ ..]) => {
                    rest = behind;
                    Item::Byte(*literal)
                }
                (b'[', _) => {
                    let (set, length) = class(behind);
                    rest = &behind[length..];
                    classes.push(set);
                    Item::Class(classes.len() as u32 - 1)
                }
                (literal, _) => Item::Byte(*literal),
            });
        }
        let is_star = |item: &Item| *item == Item::Star;
        let stars = items.iter().position(is_star).zip(items.iter().rposition(is_star));
        let shortest = items.iter().filter(|item| !is_star(item)).count();
        Self { items: items.into(), classes: classes.into(), stars, shortest }
    }

    /// Whether `text` as a whole fits. If that takes too long it says no, and the effort is [over](Effort::is_over).
    pub fn matches(&self, text: &[u8], effort: &mut Effort) -> bool {
        if text.len() < self.shortest || effort.is_over() {
            return false;
        }
        let Some((first, last)) = self.stars else {
            return text.len() == self.shortest && self.fits(&self.items, text);
        };
        let (before, behind) = (&self.items[..first], &self.items[last + 1..]);
        let (head, rest) = text.split_at(before.len());
        let (middle, tail) = rest.split_at(rest.len() - behind.len());
        self.fits(before, head)
            && self.fits(behind, tail)
            && (first == last || self.finds(&self.items[first..last], middle, effort))
    }

    fn takes(&self, item: Item, byte: u8) -> bool {
        match item {
            Item::Any => true,
            Item::Byte(literal) => literal == byte,
            Item::Class(class) => {
                self.classes[class as usize][usize::from(byte / 64)] & 1 << (byte % 64) != 0
            }
            Item::Star => false,
        }
    }

    /// Whether each of these items takes the byte in its place.
    fn fits(&self, items: &[Item], text: &[u8]) -> bool {
        items.iter().zip(text).all(|(item, byte)| self.takes(*item, *byte))
    }

    /// Whether the parts of `items`, each behind a star, are found one behind the other.
    fn finds(&self, items: &[Item], text: &[u8], effort: &mut Effort) -> bool {
        let free = FREE_PER_BYTE * text.len() as u64 + FREE;
        let most = free + effort.left() / STEP;
        let mut steps = 0;
        let (mut p, mut t) = (0, 0);
        // Behind the last star, and the first byte of text that it does not cover yet.
        let mut star = (0, 0);
        let found = loop {
            match (items.get(p), text.get(t)) {
                (None, _) => break true,
                (Some(Item::Star), _) => {
                    p += 1;
                    star = (p, t);
                }
                (Some(_), None) => break false,
                (Some(item), Some(byte)) if self.takes(*item, *byte) => (p, t) = (p + 1, t + 1),
                _ => {
                    steps += (t - star.1 + 1) as u64;
                    if steps > most {
                        break false;
                    }
                    star.1 += 1;
                    (p, t) = star;
                }
            }
        };
        effort.take(steps.saturating_sub(free) * STEP) && found
    }
}

/// The class behind a `[`: its bytes, and its length with the `]` (which may be missing at the end).
fn class(class: &[u8]) -> (Set, usize) {
    let negated = class.first() == Some(&b'^');
    let mut at = usize::from(negated);
    let mut set: Set = [0; 4];
    let mut add = |byte: u8| set[usize::from(byte / 64)] |= 1 << (byte % 64);
    loop {
        match &class[at..] {
            [] => break,
            [b']', ..] => {
                at += 1;
                break;
            }
            [b'\\', literal, ..] => {
                add(*literal);
                at += 2;
            }
            [low, b'-', high, ..] => {
                (*low.min(high)..=*low.max(high)).for_each(&mut add);
                at += 3;
            }
            [literal, ..] => {
                add(*literal);
                at += 1;
            }
        }
    }
    (if negated { set.map(|word| !word) } else { set }, at)
}

/// The same for a pattern without classes, as it is written.
fn plain(pattern: &[u8], text: &[u8]) -> bool {
    let mut left = crate::effort::STEPS_MAX / STEP + FREE_PER_BYTE * text.len() as u64;
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        let next = match &pattern[p..] {
            [b'*', ..] => {
                p += 1;
                star = Some((p, t));
                continue;
            }
            [b'?', ..] => Some(1),
            [b'\\', literal, ..] => (*literal == text[t]).then_some(2),
            [literal, ..] => (*literal == text[t]).then_some(1),
            [] => None,
        };
        if let Some(next) = next {
            (p, t) = (p + next, t + 1);
        } else if let Some((behind, covered)) = star {
            let steps = (t - covered + 1) as u64;
            if steps > left {
                return false;
            }
            left -= steps;
            (p, t) = (behind, covered + 1);
            star = Some((p, t));
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests;
