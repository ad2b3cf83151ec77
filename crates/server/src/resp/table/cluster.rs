//! Commands about clusters, which there are none of.

use super::{Command, NONE, command, container, sub};
use crate::resp::{admin, connection};

#[rustfmt::skip]
pub(super) const ROWS: &[Command] = &[
    command("asking", 1, "fast", NONE, "cluster", admin::cluster_disabled, "Answers that there is no cluster.")
        .since("3.0.0").categories("connection"),
    container(command("cluster", -2, "", NONE, "cluster", connection::container, "Answers that there is no cluster.")
        .since("3.0.0"), CLUSTER),
    command("readonly", 1, "loading stale fast", NONE, "cluster", admin::cluster_disabled, "Answers that there is no cluster.")
        .since("3.0.0").categories("connection"),
    command("readwrite", 1, "loading stale fast", NONE, "cluster", admin::cluster_disabled, "Answers that there is no cluster.")
        .since("3.0.0").categories("connection"),
];

#[rustfmt::skip]
const CLUSTER: &[Command] = &[
    sub("cluster|countkeysinslot", 3, admin::cluster_disabled, "Answers that there is no cluster.").flags("stale")
        .since("3.0.0").syntax("slot:integer"),
    sub("cluster|getkeysinslot", 4, admin::cluster_disabled, "Answers that there is no cluster.").flags("stale")
        .since("3.0.0").cost("O(log(N)) where N is the number of requested keys").syntax("slot:integer count").tips("nondeterministic_output"),
    sub("cluster|help", 2, admin::cluster_disabled, "Answers that there is no cluster.")
        .since("5.0.0"),
    sub("cluster|info", 2, admin::cluster_disabled, "Answers that there is no cluster.").flags("stale")
        .since("3.0.0").tips("nondeterministic_output"),
    sub("cluster|keyslot", 3, admin::cluster_disabled, "Answers that there is no cluster.").flags("stale")
        .since("3.0.0").cost("O(N) where N is the number of bytes in the key").syntax("key:string"),
    sub("cluster|myid", 2, admin::cluster_disabled, "Answers that there is no cluster.").flags("stale")
        .since("3.0.0"),
    sub("cluster|nodes", 2, admin::cluster_disabled, "Answers that there is no cluster.").flags("stale")
        .since("3.0.0").cost("O(N) where N is the total number of Cluster nodes").tips("nondeterministic_output"),
    sub("cluster|shards", 2, admin::cluster_disabled, "Answers that there is no cluster.").flags("stale")
        .since("7.0.0").cost("O(N) where N is the total number of cluster nodes").tips("nondeterministic_output"),
    sub("cluster|slots", 2, admin::cluster_disabled, "Answers that there is no cluster.").flags("stale")
        .since("3.0.0").cost("O(N) where N is the total number of Cluster nodes").tips("nondeterministic_output").deprecated("7.0.0", "CLUSTER SHARDS"),
];
