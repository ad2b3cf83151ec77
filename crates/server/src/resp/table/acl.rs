//! Commands about users and what they may do.

use super::{Command, NONE, command, container, sub};
use crate::resp::{acl, connection, help};

#[rustfmt::skip]
pub(super) const ROWS: &[Command] = &[
    container(command("acl", -2, "", NONE, "server", connection::container, "Tells and changes what users may do.")
        .since("6.0.0"), ACL),
];

#[rustfmt::skip]
const ACL: &[Command] = &[
    sub("acl|cat", -2, acl::cat, "Tells the categories, or the commands of one.").flags("noscript loading stale")
        .since("6.0.0").cost("O(1) since the categories and commands are a fixed set").syntax("[categoryname]"),
    sub("acl|deluser", -3, acl::deluser, "Deletes users; their connections are closed.").flags("admin noscript loading stale")
        .since("6.0.0").cost("O(1) amortized time considering the typical user").syntax("username..."),
    sub("acl|dryrun", -4, acl::dryrun, "Tells whether a user may call a command.").flags("admin noscript loading stale")
        .since("7.0.0").syntax("username command [arg...]"),
    sub("acl|genpass", -2, acl::genpass, "Makes a password up.").flags("noscript loading stale")
        .since("6.0.0").syntax("[bits:integer]"),
    sub("acl|getuser", 3, acl::getuser, "Tells what a user may.").flags("admin noscript loading stale")
        .since("6.0.0").cost("O(N). Where N is the number of password, command and pattern rules that the user has").syntax("username"),
    sub("acl|help", 2, help::help, "Tells the subcommands.")
        .since("6.0.0"),
    sub("acl|list", 2, acl::list, "Tells all users as the ACL file has them.").flags("admin noscript loading stale")
        .since("6.0.0").cost("O(N). Where N is the number of configured users"),
    sub("acl|load", 2, acl::load, "Reads the ACL file.").flags("admin noscript loading stale")
        .since("6.0.0").cost("O(N). Where N is the number of configured users"),
    sub("acl|log", -2, acl::log, "Tells what was refused to whom.").flags("admin noscript loading stale")
        .since("6.0.0").cost("O(N) with N being the number of entries shown").syntax("[count|RESET]"),
    sub("acl|save", 2, acl::save, "Writes the ACL file.").flags("admin noscript loading stale")
        .since("6.0.0").cost("O(N). Where N is the number of configured users"),
    sub("acl|setuser", -3, acl::setuser, "Makes or changes a user.").flags("admin noscript loading stale")
        .since("6.0.0").cost("O(N). Where N is the number of rules provided").syntax("username [rule...]"),
    sub("acl|users", 2, acl::users, "Tells the users' names.").flags("admin noscript loading stale")
        .since("6.0.0").cost("O(N). Where N is the number of configured users"),
    sub("acl|whoami", 2, acl::whoami, "Tells the connection's user.").flags("noscript loading stale")
        .since("6.0.0"),
];
