//! Commands about the server.

use super::{Command, NONE, command, container, sub};
use crate::resp::{command as about, config, connection, help, info, keys, monitor, patterns};

#[rustfmt::skip]
pub(super) const ROWS: &[Command] = &[
    container(command("command", -1, "loading stale", NONE, "server", about::all, "Tells about the commands.")
        .since("2.8.13").cost("O(N) where N is the total number of Redis commands").categories("connection").tips("nondeterministic_output_order"), COMMAND),
    container(command("config", -2, "", NONE, "server", connection::container, "Tells the configuration.")
        .since("2.0.0"), CONFIG),
    command("dbsize", 1, "readonly fast", NONE, "server", keys::dbsize, "Counts the keys of the database; in a transaction those that are there after it.")
        .categories("keyspace").tips("request_policy:all_shards response_policy:agg_sum"),
    command("flushall", -1, "write", NONE, "server", keys::flushall, "Deletes the keys of all databases.")
        .cost("O(N) where N is the total number of keys in all databases").syntax("[ASYNC|SYNC]").categories("dangerous keyspace").tips("request_policy:all_shards response_policy:all_succeeded"),
    command("flushdb", -1, "write", NONE, "server", keys::flushdb, "Deletes the keys of the database.")
        .cost("O(N) where N is the number of keys in the selected database").syntax("[ASYNC|SYNC]").categories("dangerous keyspace").tips("request_policy:all_shards response_policy:all_succeeded"),
    command("info", -1, "loading stale", NONE, "server", info::info, "Tells about the server, by section.")
        .syntax("[section...]").categories("dangerous").tips("nondeterministic_output request_policy:all_shards response_policy:special"),
    command("monitor", 1, "admin noscript loading stale", NONE, "server", monitor::monitor, "Shows every command."),
    command("swapdb", 3, "write fast", NONE, "server", keys::swapdb, "Exchanges two databases.")
        .categories("keyspace dangerous").since("4.0.0").cost("N/A").syntax("index1:integer index2:integer"),
];

#[rustfmt::skip]
const COMMAND: &[Command] = &[
    sub("command|count", 2, about::count, "Counts the commands.")
        .since("2.8.13").categories("connection"),
    sub("command|docs", -2, about::docs, "Tells what commands do.")
        .since("7.0.0").cost("O(N) where N is the number of commands to look up").syntax("[command-name...]").categories("connection").tips("nondeterministic_output_order"),
    sub("command|getkeys", -4, about::getkeys, "Tells the keys that a command would use.")
        .since("2.8.13").cost("O(N) where N is the number of arguments to the command").syntax("command [arg...]").categories("connection"),
    sub("command|getkeysandflags", -4, about::getkeysandflags, "Tells the keys that a command would use, and how.")
        .since("7.0.0").cost("O(N) where N is the number of arguments to the command").syntax("command [arg...]").categories("connection"),
    sub("command|help", 2, help::help, "Tells the subcommands.")
        .since("5.0.0").categories("connection"),
    sub("command|info", -2, about::info, "Tells how commands are called.")
        .since("2.8.13").cost("O(N) where N is the number of commands to look up").syntax("[command-name...]").categories("connection").tips("nondeterministic_output_order"),
    sub("command|list", -2, about::list, "Tells the commands' names.")
        .since("7.0.0").cost("O(N) where N is the total number of Redis commands").syntax("[FILTERBY (MODULE module-name|ACLCAT category|PATTERN pattern)]").categories("connection").tips("nondeterministic_output_order"),
];

#[rustfmt::skip]
const CONFIG: &[Command] = &[
    sub("config|get", -3, patterns::config_get, "Tells parameters by pattern.").flags("admin noscript loading stale")
        .since("2.0.0").cost("O(N) when N is the number of configuration parameters provided").syntax("parameter..."),
    sub("config|help", 2, help::help, "Tells the subcommands.")
        .since("5.0.0"),
    sub("config|resetstat", 2, config::resetstat, "Lets what INFO counts begin anew.").flags("admin noscript loading stale")
        .since("2.0.0"),
    sub("config|rewrite", 2, config::rewrite, "Writes the configuration file.").flags("admin noscript loading stale")
        .since("2.8.0"),
    sub("config|set", -4, config::set, "Changes parameters, all or none.").flags("admin noscript loading stale")
        .since("2.0.0").cost("O(N) when N is the number of configuration parameters provided").syntax("(parameter value)...").tips("request_policy:all_nodes response_policy:all_succeeded"),
];
