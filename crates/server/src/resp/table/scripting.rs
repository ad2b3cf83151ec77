//! Commands about scripts, which there are none of.

use super::{Command, NONE, command, container, sub};
use crate::resp::{admin, connection, help};

#[rustfmt::skip]
pub(super) const ROWS: &[Command] = &[
    container(command("function", -2, "", NONE, "scripting", connection::container, "Tells the functions; there are none.")
        .since("7.0.0").categories(""), FUNCTION),
    container(command("script", -2, "", NONE, "scripting", connection::container, "Tells the scripts; there are none.")
        .since("2.6.0").categories(""), SCRIPT),
];

#[rustfmt::skip]
const FUNCTION: &[Command] = &[
    sub("function|flush", -2, admin::function_flush, "Answers OK: there are none.").flags("write noscript")
        .since("7.0.0").cost("O(N) where N is the number of functions deleted").syntax("[ASYNC|SYNC]").tips("request_policy:all_shards response_policy:all_succeeded"),
    sub("function|help", 2, help::help, "Tells the subcommands.")
        .since("7.0.0"),
    sub("function|kill", 2, admin::not_busy, "Answers that none runs.").flags("noscript allow_busy")
        .since("7.0.0").tips("request_policy:all_shards response_policy:one_succeeded"),
    sub("function|list", -2, admin::function_list, "Tells none.").flags("noscript")
        .since("7.0.0").cost("O(N) where N is the number of functions").syntax("[LIBRARYNAME library-name-pattern] [WITHCODE]").tips("nondeterministic_output_order"),
];

#[rustfmt::skip]
const SCRIPT: &[Command] = &[
    sub("script|exists", -3, admin::script_exists, "Tells that none exists.").flags("noscript")
        .since("2.6.0").cost("O(N) with N being the number of scripts to check (so checking a single script is an O(1) operation)").syntax("sha1...").tips("request_policy:all_shards response_policy:agg_logical_and"),
    sub("script|flush", -2, admin::script_flush, "Answers OK: there are none.").flags("noscript")
        .since("2.6.0").cost("O(N) with N being the number of scripts in cache").syntax("[ASYNC|SYNC]").tips("request_policy:all_nodes response_policy:all_succeeded"),
    sub("script|help", 2, help::help, "Tells the subcommands.")
        .since("5.0.0"),
    sub("script|kill", 2, admin::not_busy, "Answers that none runs.").flags("noscript allow_busy")
        .since("2.6.0").tips("request_policy:all_shards response_policy:one_succeeded"),
];
