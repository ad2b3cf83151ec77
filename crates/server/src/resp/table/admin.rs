//! Commands of those who run the server.

use super::{Command, NONE, command, container, sub};
use crate::resp::{admin, connection, help, stats};

#[rustfmt::skip]
pub(super) const ROWS: &[Command] = &[
    command("bgrewriteaof", 1, "admin noscript no_async_loading", NONE, "server", admin::bgrewriteaof, "Answers as if it rewrote; logs are cleaned all the time."),
    command("bgsave", -1, "admin noscript no_async_loading", NONE, "server", admin::bgsave, "Begins a snapshot: a file that Redis loads.")
        .syntax("[SCHEDULE]"),
    command("debug", -2, "admin noscript loading stale", NONE, "server", admin::debug, "Does what tests of clients need, where that is allowed."),
    command("lastsave", 1, "loading stale fast", NONE, "server", admin::lastsave, "Tells when the last snapshot was written.")
        .categories("admin dangerous").tips("nondeterministic_output"),
    container(command("latency", -2, "", NONE, "server", connection::container, "Tells how long commands took.")
        .since("2.8.13"), LATENCY),
    command("lolwut", -1, "readonly fast", NONE, "server", admin::lolwut, "Tells the version, with a line.")
        .since("5.0.0").cost("").syntax("[VERSION version:integer]"),
    container(command("memory", -2, "", NONE, "server", connection::container, "Tells what memory is used for.")
        .since("4.0.0"), MEMORY),
    container(command("module", -2, "", NONE, "server", connection::container, "Tells the modules; there are none.")
        .since("4.0.0"), MODULE),
    command("replicaof", 3, "admin noscript stale no_async_loading", NONE, "server", admin::replicaof, "Accepts NO ONE.")
        .since("5.0.0").syntax("((host port)|(NO ONE))"),
    command("role", 1, "noscript loading stale fast", NONE, "server", admin::role, "Tells that the server is a master.")
        .since("2.8.12").categories("admin dangerous"),
    command("save", 1, "admin noscript no_async_loading no_multi", NONE, "server", admin::save, "Takes a snapshot, and answers when it is written; others go on.")
        .cost("O(N) where N is the total number of keys in all databases"),
    command("shutdown", -1, "admin noscript loading stale no_multi allow_busy", NONE, "server", admin::shutdown, "Ends the server.")
        .cost("O(N) when saving, where N is the total number of keys in all databases when saving data, otherwise O(1)").syntax("[NOSAVE|SAVE] [NOW] [FORCE] [ABORT]"),
    command("slaveof", 3, "admin noscript stale no_async_loading", NONE, "server", admin::replicaof, "Accepts NO ONE.")
        .syntax("((host port)|(NO ONE))").deprecated("5.0.0", "REPLICAOF"),
    container(command("slowlog", -2, "", NONE, "server", connection::container, "Tells which commands were slow.")
        .since("2.2.12"), SLOWLOG),
    command("time", 1, "loading stale fast", NONE, "server", admin::time, "Tells the time.")
        .since("2.6.0").tips("nondeterministic_output"),
];

#[rustfmt::skip]
const LATENCY: &[Command] = &[
    sub("latency|doctor", 2, stats::latency_doctor, "Explains what was measured.").flags("admin noscript loading stale")
        .since("2.8.13").tips("nondeterministic_output request_policy:all_nodes response_policy:special"),
    sub("latency|graph", 3, stats::latency_graph, "Draws an event's samples.").flags("admin noscript loading stale")
        .since("2.8.13").syntax("event").tips("nondeterministic_output request_policy:all_nodes response_policy:special"),
    sub("latency|help", 2, help::help, "Tells the subcommands.")
        .since("2.8.13"),
    sub("latency|histogram", -2, stats::latency_histogram, "Tells how commands' times are distributed.").flags("admin noscript loading stale")
        .since("7.0.0").cost("O(N) where N is the number of commands with latency information being retrieved").syntax("[command...]").tips("nondeterministic_output request_policy:all_nodes response_policy:special"),
    sub("latency|history", 3, stats::latency_history, "Tells an event's samples.").flags("admin noscript loading stale")
        .since("2.8.13").syntax("event").tips("nondeterministic_output request_policy:all_nodes response_policy:special"),
    sub("latency|latest", 2, stats::latency_latest, "Tells each event's last sample.").flags("admin noscript loading stale")
        .since("2.8.13").tips("nondeterministic_output request_policy:all_nodes response_policy:special"),
    sub("latency|reset", -2, stats::latency_reset, "Forgets events.").flags("admin noscript loading stale")
        .since("2.8.13").syntax("[event...]").tips("request_policy:all_nodes response_policy:all_succeeded"),
];

#[rustfmt::skip]
const MEMORY: &[Command] = &[
    sub("memory|doctor", 2, admin::memory_doctor, "Explains what memory is used for.").flags("")
        .since("4.0.0").tips("nondeterministic_output request_policy:all_shards response_policy:special"),
    sub("memory|help", 2, help::help, "Tells the subcommands.")
        .since("4.0.0"),
    sub("memory|malloc-stats", 2, admin::memory_malloc_stats, "Tells what the allocator knows.").flags("")
        .since("4.0.0").cost("Depends on how much memory is allocated, could be slow").tips("nondeterministic_output request_policy:all_shards response_policy:special"),
    sub("memory|purge", 2, admin::memory_purge, "Answers OK: unused memory goes back at once.").flags("")
        .since("4.0.0").cost("Depends on how much memory is allocated, could be slow").tips("request_policy:all_shards response_policy:all_succeeded"),
    sub("memory|stats", 2, admin::memory_stats, "Tells what memory is used for.").flags("")
        .since("4.0.0").tips("nondeterministic_output request_policy:all_shards response_policy:special"),
    sub("memory|usage", -3, admin::memory_usage, "Tells the bytes of a record.").flags("readonly").keys((2, 2, 1))
        .since("4.0.0").cost("O(N) where N is the number of samples").syntax("key [SAMPLES count]").access("RO"),
];

#[rustfmt::skip]
const MODULE: &[Command] = &[
    sub("module|help", 2, help::help, "Tells the subcommands.")
        .since("5.0.0"),
    sub("module|list", 2, admin::module_list, "Tells none.").flags("admin noscript")
        .since("4.0.0").cost("O(N) where N is the number of loaded modules").tips("nondeterministic_output_order"),
];

#[rustfmt::skip]
const SLOWLOG: &[Command] = &[
    sub("slowlog|get", -2, stats::slowlog_get, "Tells the last slow commands.").flags("admin loading stale")
        .since("2.2.12").cost("O(N) where N is the number of entries returned").syntax("[count]").tips("request_policy:all_nodes nondeterministic_output"),
    sub("slowlog|help", 2, help::help, "Tells the subcommands.")
        .since("6.2.0"),
    sub("slowlog|len", 2, stats::slowlog_len, "Counts them.").flags("admin loading stale")
        .since("2.2.12").tips("request_policy:all_nodes response_policy:agg_sum nondeterministic_output"),
    sub("slowlog|reset", 2, stats::slowlog_reset, "Forgets them.").flags("admin loading stale")
        .since("2.2.12").cost("O(N) where N is the number of entries in the slowlog").tips("request_policy:all_nodes response_policy:all_succeeded"),
];
