//! The one table of commands: what dispatches them is what `COMMAND` tells about them.

use super::call::{Call, Outcome};
use super::{client, command_info, config, connection, counters, expiry, info, keys, scan, strings};

/// A command.
pub(super) struct Command {
    /// Its name in lower case.
    pub name: &'static str,
    /// Its name with its container's, `client|id`; the same as `name` for others.
    pub full_name: &'static str,
    /// Arguments with the name and the container's: exactly so many, or, if negative, at least.
    pub arity: i32,
    /// Redis's command flags, separated by spaces.
    pub flags: &'static str,
    /// Which arguments are keys.
    pub keys: Keys,
    /// `string`, `generic`, `connection` or `server`.
    pub group: &'static str,
    /// What it does.
    pub summary: &'static str,
    /// Does it.
    pub handler: fn(&mut Call<'_>) -> Outcome,
    /// Those of a container; its own handler then runs only without a second argument.
    pub subcommands: &'static [Command],
}

/// Which arguments are keys: first, last (negative: from the end) and step.
pub(super) type Keys = (i64, i64, i64);

const NONE: Keys = (0, 0, 0);
const ONE: Keys = (1, 1, 1);
const ALL: Keys = (1, -1, 1);
const PAIRS: Keys = (1, -1, 2);

const fn command(
    name: &'static str,
    arity: i32,
    flags: &'static str,
    keys: Keys,
    group: &'static str,
    handler: fn(&mut Call<'_>) -> Outcome,
    summary: &'static str,
) -> Command {
    Command { name, full_name: name, arity, flags, keys, group, summary, handler, subcommands: &[] }
}

const fn sub(
    full_name: &'static str,
    arity: i32,
    handler: fn(&mut Call<'_>) -> Outcome,
    summary: &'static str,
) -> Command {
    // The part behind the bar.
    let mut bar = 0;
    while full_name.as_bytes()[bar] != b'|' {
        bar += 1;
    }
    let name = full_name.split_at(bar + 1).1;
    let (flags, group) = ("loading stale", "server");
    Command { name, full_name, arity, flags, keys: NONE, group, summary, handler, subcommands: &[] }
}

const fn container(mut command: Command, subcommands: &'static [Command]) -> Command {
    command.subcommands = subcommands;
    command
}

/// The command of this name, in any case.
pub(super) fn find(table: &'static [Command], name: &[u8]) -> Option<&'static Command> {
    const LONGEST: usize = 32;
    let mut lower = [0; LONGEST];
    let lower = lower.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    let found = table.binary_search_by(|command| command.name.as_bytes().cmp(lower)).ok()?;
    table.get(found)
}

/// All commands, sorted by name.
#[rustfmt::skip]
pub(super) static COMMANDS: &[Command] = &[
    command("append", 3, "write denyoom fast", ONE, "string", strings::append, "Puts bytes at the end of a value."),
    command("auth", -2, "noscript loading stale fast no_auth", NONE, "connection", connection::auth, "Authenticates; this server has no passwords."),
    container(command("client", -2, "admin noscript loading stale", NONE, "connection", connection::container, "Tells about and names connections."), CLIENT),
    container(command("command", -1, "loading stale", NONE, "server", command_info::all, "Tells about the commands."), COMMAND),
    container(command("config", -2, "admin noscript loading stale", NONE, "server", connection::container, "Tells the configuration."), CONFIG),
    command("dbsize", 1, "readonly fast", NONE, "server", keys::dbsize, "Counts the keys of the database."),
    command("decr", 2, "write denyoom fast", ONE, "string", counters::decr, "Subtracts one from a number."),
    command("decrby", 3, "write denyoom fast", ONE, "string", counters::decrby, "Subtracts from a number."),
    command("del", -2, "write", ALL, "generic", keys::del, "Deletes keys."),
    command("echo", 2, "loading stale fast", NONE, "connection", connection::echo, "Answers with its argument."),
    command("exists", -2, "readonly fast", ALL, "generic", keys::exists, "Counts the keys that are there."),
    command("expire", -3, "write fast", ONE, "generic", expiry::expire, "Sets a time to live in seconds."),
    command("expireat", -3, "write fast", ONE, "generic", expiry::expireat, "Sets the second of expiry."),
    command("expiretime", 2, "readonly fast", ONE, "generic", expiry::expiretime, "Tells the second of expiry."),
    command("flushall", -1, "write", NONE, "server", keys::flushall, "Deletes the keys of all databases."),
    command("flushdb", -1, "write", NONE, "server", keys::flushdb, "Deletes the keys of the database."),
    command("get", 2, "readonly fast", ONE, "string", strings::get, "Reads a value."),
    command("getdel", 2, "write fast", ONE, "string", strings::getdel, "Reads a value and deletes its key."),
    command("getex", -2, "write fast", ONE, "string", strings::getex, "Reads a value and changes its expiry."),
    command("getset", 3, "write denyoom fast", ONE, "string", strings::getset, "Sets a value and reads the old one."),
    command("hello", -1, "noscript loading stale fast no_auth", NONE, "connection", connection::hello, "Chooses the protocol's version."),
    command("incr", 2, "write denyoom fast", ONE, "string", counters::incr, "Adds one to a number."),
    command("incrby", 3, "write denyoom fast", ONE, "string", counters::incrby, "Adds to a number."),
    command("incrbyfloat", 3, "write denyoom fast", ONE, "string", counters::incrbyfloat, "Adds to a floating-point number."),
    command("info", -1, "loading stale", NONE, "server", info::info, "Tells about the server, by section."),
    command("mget", -2, "readonly fast", ALL, "string", strings::mget, "Reads several values."),
    command("mset", -3, "write denyoom", PAIRS, "string", strings::mset, "Sets several values in one step."),
    command("persist", 2, "write fast", ONE, "generic", expiry::persist, "Removes the expiry."),
    command("pexpire", -3, "write fast", ONE, "generic", expiry::pexpire, "Sets a time to live in milliseconds."),
    command("pexpireat", -3, "write fast", ONE, "generic", expiry::pexpireat, "Sets the millisecond of expiry."),
    command("pexpiretime", 2, "readonly fast", ONE, "generic", expiry::pexpiretime, "Tells the millisecond of expiry."),
    command("ping", -1, "fast", NONE, "connection", connection::ping, "Answers."),
    command("psetex", 4, "write denyoom", ONE, "string", strings::psetex, "Sets a value and its time to live in milliseconds."),
    command("pttl", 2, "readonly fast", ONE, "generic", expiry::pttl, "Tells the time to live in milliseconds."),
    command("quit", -1, "noscript loading stale fast no_auth", NONE, "connection", connection::quit, "Closes the connection."),
    command("reset", 1, "noscript loading stale fast no_auth", NONE, "connection", connection::reset, "Makes the connection as good as new."),
    command("scan", -2, "readonly", NONE, "generic", scan::scan, "Iterates over the keys of the database."),
    command("select", 2, "loading stale fast", NONE, "connection", connection::select, "Chooses the database."),
    command("set", -3, "write denyoom", ONE, "string", strings::set, "Sets a value."),
    command("setex", 4, "write denyoom", ONE, "string", strings::setex, "Sets a value and its time to live in seconds."),
    command("setnx", 3, "write denyoom fast", ONE, "string", strings::setnx, "Sets a value if the key is absent."),
    command("strlen", 2, "readonly fast", ONE, "string", strings::strlen, "Tells the length of a value."),
    command("touch", -2, "readonly fast", ALL, "generic", keys::exists, "Counts the keys that are there."),
    command("ttl", 2, "readonly fast", ONE, "generic", expiry::ttl, "Tells the time to live in seconds."),
    command("type", 2, "readonly fast", ONE, "generic", keys::type_of, "Tells a value's type."),
    command("unlink", -2, "write fast", ALL, "generic", keys::del, "Deletes keys."),
];

#[rustfmt::skip]
static CLIENT: &[Command] = &[
    sub("client|getname", 2, client::getname, "Tells the connection's name."),
    sub("client|help", 2, client::help, "Tells the commands."),
    sub("client|id", 2, client::id, "Tells the connection's number."),
    sub("client|info", 2, client::info, "Tells about this connection."),
    sub("client|kill", -3, client::kill, "Ends connections."),
    sub("client|list", -2, client::list, "Tells about connections."),
    sub("client|no-evict", 3, client::no_evict, "Accepted; no connection is evicted."),
    sub("client|no-touch", 3, client::no_touch, "Accepted; reads are counted all the same."),
    sub("client|pause", -3, client::pause, "Holds commands for a time."),
    sub("client|reply", 3, client::reply, "Chooses whether commands are answered."),
    sub("client|setinfo", 4, client::setinfo, "Names the client's library."),
    sub("client|setname", 3, client::setname, "Names the connection."),
    sub("client|unblock", -3, client::unblock, "Ends a wait; no command here waits."),
    sub("client|unpause", 2, client::unpause, "Ends a pause."),
];

#[rustfmt::skip]
static COMMAND: &[Command] = &[
    sub("command|count", 2, command_info::count, "Counts the commands."),
    sub("command|docs", -2, command_info::docs, "Tells what commands do."),
    sub("command|info", -2, command_info::info, "Tells how commands are called."),
    sub("command|list", 2, command_info::list, "Tells the commands' names."),
];

#[rustfmt::skip]
static CONFIG: &[Command] = &[
    sub("config|get", -3, config::get, "Tells parameters by pattern."),
    sub("config|resetstat", 2, config::resetstat, "Accepted; counters run on."),
    sub("config|rewrite", 2, config::rewrite, "Refused: there is no such file."),
    sub("config|set", -4, config::set, "Refused: parameters are given at the start."),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_sorted_and_found_in_any_case() {
        for table in [COMMANDS, CLIENT, COMMAND, CONFIG] {
            assert!(table.windows(2).all(|pair| pair[0].name < pair[1].name), "binary search needs order");
            for command in table {
                let found = find(table, command.name.to_ascii_uppercase().as_bytes());
                assert_eq!(found.map(|found| found.full_name), Some(command.full_name));
            }
        }
        assert!(find(COMMANDS, b"").is_none());
        assert!(find(COMMANDS, &[b'a'; 100]).is_none());
    }
}
