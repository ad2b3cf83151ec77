//! The rows of all groups as one array, and a hash of their names; both made when this is compiled.
//!
//! A name is hashed by its length and at most its first and last eight bytes, with the bit that tells upper from lower case
//! set in each; so looking a command up copies nothing and costs one or two comparisons.

use super::{Categories, Command, TOP};

const GROUPS: [&[Command]; 12] = [
    super::acl::ROWS,
    super::admin::ROWS,
    super::bitmaps::ROWS,
    super::cluster::ROWS,
    super::connection::ROWS,
    super::generic::ROWS,
    super::hyperloglog::ROWS,
    super::pubsub::ROWS,
    super::scripting::ROWS,
    super::server::ROWS,
    super::strings::ROWS,
    super::transactions::ROWS,
];

const COUNTS: (usize, usize) = count();
const TOP_LEVEL: usize = COUNTS.0;
const TOTAL: usize = COUNTS.0 + COUNTS.1;
/// How many there are, subcommands counted.
pub(in crate::resp) const COMMAND_COUNT: usize = TOTAL;
/// Four times as many, so that most names are found where they belong.
const SLOTS: usize = (TOTAL * 4).next_power_of_two();
const EMPTY: u16 = u16::MAX;

/// All commands: those without a container first, then each container's subcommands one after the other.
pub(in crate::resp) static COMMANDS: [Command; TOTAL] = flatten();
static INDEX: [u16; SLOTS] = index(&COMMANDS);

/// Commands, and subcommands.
const fn count() -> (usize, usize) {
    let (mut commands, mut subs) = (0, 0);
    let mut group = 0;
    while group < GROUPS.len() {
        let mut row = 0;
        while row < GROUPS[group].len() {
            commands += 1;
            subs += GROUPS[group][row].rows.len();
            row += 1;
        }
        group += 1;
    }
    (commands, subs)
}

const fn flatten() -> [Command; TOTAL] {
    let mut all = [GROUPS[0][0]; TOTAL];
    let (mut at, mut sub_at) = (0, TOP_LEVEL);
    let mut group = 0;
    while group < GROUPS.len() {
        let mut row = 0;
        while row < GROUPS[group].len() {
            let mut command = GROUPS[group][row];
            command.id = at as u16;
            let first = sub_at;
            let mut sub = 0;
            while sub < command.rows.len() {
                let mut of_container = command.rows[sub];
                of_container.id = sub_at as u16;
                of_container.parent = at as u16;
                of_container.group = command.group;
                of_container.categories = of_container.categories.and(Categories::of_group(command.group));
                all[sub_at] = of_container;
                sub_at += 1;
                sub += 1;
            }
            command.subs = (first as u16, sub_at as u16);
            all[at] = command;
            at += 1;
            row += 1;
        }
        group += 1;
    }
    all
}

const fn index(all: &[Command; TOTAL]) -> [u16; SLOTS] {
    let mut slots = [EMPTY; SLOTS];
    let mut id = 0;
    while id < TOTAL {
        let mut slot = hash(all[id].parent, all[id].name.as_bytes());
        while slots[slot] != EMPTY {
            slot = (slot + 1) % SLOTS;
        }
        slots[slot] = id as u16;
        id += 1;
    }
    slots
}

/// Where a name belongs.
const fn hash(parent: u16, name: &[u8]) -> usize {
    const LOWER: u64 = 0x2020_2020_2020_2020;
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let (first, last) = if let (Some(first), Some(last)) = (name.first_chunk::<8>(), name.last_chunk::<8>()) {
        (u64::from_le_bytes(*first), u64::from_le_bytes(*last))
    } else if let (Some(first), Some(last)) = (name.first_chunk::<4>(), name.last_chunk::<4>()) {
        (u32::from_le_bytes(*first) as u64, u32::from_le_bytes(*last) as u64)
    } else if let [first, .., last] = name {
        (*first as u64, *last as u64)
    } else {
        (0, 0)
    };
    let mixed =
        (first | LOWER) ^ (last | LOWER).rotate_left(23) ^ (((parent as u64) << 8 | name.len() as u64) << 40);
    let mixed = (mixed ^ mixed >> 29).wrapping_mul(ODD);
    (mixed >> 48) as usize % SLOTS
}

/// The command of this name, in any case; a container's subcommand if `parent` is one's place.
fn look_up(parent: u16, name: &[u8]) -> Option<&'static Command> {
    let mut slot = hash(parent, name);
    loop {
        // Most slots are empty, so this ends.
        let command = COMMANDS.get(usize::from(INDEX[slot]))?;
        if command.parent == parent && name.eq_ignore_ascii_case(command.name.as_bytes()) {
            return Some(command);
        }
        slot = (slot + 1) % SLOTS;
    }
}

/// The command of this name, in any case.
pub(in crate::resp) fn find(name: &[u8]) -> Option<&'static Command> {
    look_up(TOP, name)
}

impl Command {
    /// The subcommand of this name, in any case.
    pub fn sub(&self, name: &[u8]) -> Option<&'static Command> {
        look_up(self.id, name)
    }
}

/// Every command that is no subcommand.
pub(in crate::resp) fn top_level() -> &'static [Command] {
    &COMMANDS[..TOP_LEVEL]
}

/// The command of this name, which may be `container|subcommand`.
pub(in crate::resp) fn named(name: &[u8]) -> Option<&'static Command> {
    let mut parts = name.splitn(2, |byte| *byte == b'|');
    let command = find(parts.next()?)?;
    match parts.next() {
        Some(sub) => command.sub(sub),
        None => Some(command),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_in_any_case_and_nothing_else_is() {
        for command in &COMMANDS {
            let name = command.full_name.to_ascii_uppercase();
            assert_eq!(named(name.as_bytes()).map(|found| found.id), Some(command.id), "{name}");
            assert_eq!(COMMANDS[usize::from(command.id)].full_name, command.full_name);
            let longer = format!("{}x", command.full_name);
            assert!(named(longer.as_bytes()).is_none_or(|found| found.full_name == longer), "{longer}");
        }
        for nothing in [&b""[..], b"g", b"ge", b"client|", b"|id", b"get|id", &[b'a'; 100], b"\xff\xfe"] {
            assert!(named(nothing).is_none(), "{nothing:?}");
        }
    }

    #[test]
    fn names_are_unique_and_subcommands_carry_their_containers_name() {
        let names: std::collections::BTreeSet<_> = COMMANDS.iter().map(|command| command.full_name).collect();
        assert_eq!(names.len(), TOTAL);
        for command in top_level() {
            for sub in command.subcommands() {
                assert_eq!(sub.full_name, format!("{}|{}", command.name, sub.name));
            }
        }
    }

    #[test]
    fn names_lie_near_where_they_belong() {
        let steps = |command: &Command| {
            let place = INDEX.iter().position(|id| *id == command.id).unwrap();
            (place + SLOTS - hash(command.parent, command.name.as_bytes())) % SLOTS
        };
        let all: usize = COMMANDS.iter().map(steps).sum();
        assert!(all < TOTAL, "{all} steps to find all {TOTAL} commands");
        let get = find(b"GET").unwrap();
        let set = find(b"set").unwrap();
        assert_eq!((steps(get), steps(set)), (0, 0), "the two that matter most");
    }
}
