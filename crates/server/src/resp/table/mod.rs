//! The one table of commands: what dispatches them is what `COMMAND`, the ACL and `docs/commands.md` tell about them.
//!
//! ```text
//!   strings::ROWS, generic::ROWS, ... --index, when compiled--> COMMANDS (numbered) + a hash of their names
//! ```
//! A row is added to the file of its group. Behind what a row must have, calls of [`Command`]'s methods say the rest.

mod acl;
mod admin;
mod bitmaps;
mod cluster;
mod connection;
mod elsewhere;
mod generic;
mod hyperloglog;
mod index;
mod keyspec;
mod pubsub;
mod scripting;
mod server;
mod strings;
mod transactions;
mod words;

pub(super) use elsewhere::{has_subs_elsewhere, is_elsewhere, lacks};
pub(super) use index::{COMMAND_COUNT, COMMANDS, find, named, top_level};
pub(super) use keyspec::{KeySpec, keys_of};
pub(super) use words::{CATEGORIES, Categories, Flags, category, names_of_categories, names_of_flags};

use super::call::{Call, Outcome};

/// Does what a command says.
pub(super) type Handler = fn(&mut Call<'_>) -> Outcome;

/// A command. The order of its fields keeps together what every call looks at.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Command {
    /// Its name in lower case.
    pub name: &'static str,
    /// Does it.
    pub handler: Handler,
    /// Arguments with the name and the container's: exactly so many, or, if negative, at least.
    pub arity: i32,
    /// Redis's command flags.
    pub flags: Flags,
    /// Its place in [`COMMANDS`].
    pub id: u16,
    /// The container's place; [`TOP`] for others.
    pub parent: u16,
    /// The places of a container's subcommands: the first, and the one behind the last. Its own handler then runs only
    /// without a second argument.
    pub subs: (u16, u16),
    /// Its name with its container's, `client|id`; the same as `name` for others.
    pub full_name: &'static str,
    /// Redis's ACL categories.
    pub categories: Categories,
    /// Which arguments are keys: first, last (negative: from the end) and step.
    pub keys: Keys,
    /// How those keys are used, as Redis's key specifications say it.
    pub access: &'static str,
    /// The key specifications where `keys` and `access` do not say everything.
    pub specs: &'static [KeySpec],
    /// Redis's name of its group: `string`, `generic`, `connection` ...
    pub group: &'static str,
    /// What it does.
    pub summary: &'static str,
    /// The version of Redis that first had it.
    pub since: &'static str,
    /// What it costs.
    pub cost: &'static str,
    /// Its arguments behind the name: see [`syntax`](super::syntax).
    pub syntax: &'static str,
    /// Redis's tips for clients and proxies, separated by spaces.
    pub tips: &'static str,
    /// Since when Redis advises against it, and what it advises.
    pub deprecated: Option<(&'static str, &'static str)>,
    /// The rows of a container's subcommands, as written; use [`subcommands`](Self::subcommands).
    rows: &'static [Command],
}

/// What [`Command::parent`] is where there is none.
pub(super) const TOP: u16 = u16::MAX;

/// Which arguments are keys: first, last (negative: from the end) and step.
pub(super) type Keys = (i16, i16, i16);

pub(super) const NONE: Keys = (0, 0, 0);
pub(super) const ONE: Keys = (1, 1, 1);
pub(super) const ALL: Keys = (1, -1, 1);
pub(super) const PAIRS: Keys = (1, -1, 2);

/// A row: a command of its own.
const fn command(
    name: &'static str,
    arity: i32,
    flags: &'static str,
    keys: Keys,
    group: &'static str,
    handler: Handler,
    summary: &'static str,
) -> Command {
    let flags = Flags::parse(flags);
    Command {
        name,
        full_name: name,
        arity,
        flags,
        id: 0,
        parent: TOP,
        subs: (0, 0),
        categories: Categories::of_group(group).and(Categories::of_flags(flags)),
        keys,
        access: if flags.has(Flags::READONLY) { "RO access" } else { "RW access update" },
        specs: &[],
        group,
        summary,
        since: "1.0.0",
        cost: "O(1)",
        syntax: "",
        tips: "",
        deprecated: None,
        handler,
        rows: &[],
    }
}

/// A row of a container: `container|subcommand`.
const fn sub(full_name: &'static str, arity: i32, handler: Handler, summary: &'static str) -> Command {
    // The part behind the bar.
    let mut bar = 0;
    while full_name.as_bytes()[bar] != b'|' {
        bar += 1;
    }
    let mut row = command(full_name, arity, "loading stale", NONE, "", handler, summary);
    row.name = full_name.split_at(bar + 1).1;
    row
}

const fn container(mut command: Command, rows: &'static [Command]) -> Command {
    command.rows = rows;
    command
}

/// What a row may have beside what it must have.
impl Command {
    /// Redis's flags of a subcommand.
    const fn flags(mut self, flags: &'static str) -> Self {
        let flags = Flags::parse(flags);
        self.flags = flags;
        self.categories = Categories::of_group(self.group).and(Categories::of_flags(flags));
        self.access = if flags.has(Flags::READONLY) { "RO access" } else { "RW access update" };
        self
    }
    /// ACL categories in the place of the group's; those that follow from flags are kept.
    const fn categories(mut self, categories: &'static str) -> Self {
        self.categories = Categories::parse(categories).and(Categories::of_flags(self.flags));
        self
    }
    /// The keys of a subcommand.
    const fn keys(mut self, keys: Keys) -> Self {
        self.keys = keys;
        self
    }
    /// How the keys are used.
    const fn access(mut self, access: &'static str) -> Self {
        self.access = access;
        self
    }
    /// Key specifications of their own.
    const fn specs(mut self, specs: &'static [KeySpec]) -> Self {
        self.specs = specs;
        self
    }
    /// The version of Redis that first had it.
    const fn since(mut self, since: &'static str) -> Self {
        self.since = since;
        self
    }
    /// What it costs, if not the same whatever it is given.
    const fn cost(mut self, cost: &'static str) -> Self {
        self.cost = cost;
        self
    }
    /// Its arguments behind the name.
    const fn syntax(mut self, syntax: &'static str) -> Self {
        self.syntax = syntax;
        self
    }
    /// Tips for clients and proxies.
    const fn tips(mut self, tips: &'static str) -> Self {
        self.tips = tips;
        self
    }
    /// Since when Redis advises against it, and what it advises.
    const fn deprecated(mut self, since: &'static str, instead: &'static str) -> Self {
        self.deprecated = Some((since, instead));
        self
    }
}

impl Command {
    /// A container's subcommands.
    pub fn subcommands(&self) -> &'static [Command] {
        &COMMANDS[self.subs.0 as usize..self.subs.1 as usize]
    }

    /// Whether it may be called with so many arguments, the name included.
    pub fn takes(&self, arguments: usize) -> bool {
        match self.arity {
            exactly @ 0.. => arguments == exactly as usize,
            at_least => arguments >= at_least.unsigned_abs() as usize,
        }
    }

    /// Whether it is only there for its subcommands.
    pub fn is_container(&self) -> bool {
        self.subs.0 < self.subs.1
    }
}
