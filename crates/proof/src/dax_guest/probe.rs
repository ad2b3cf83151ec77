//! What the product makes of a machine's media, compared with what the kernel says.

mod files;
mod nodes;
mod serving;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::console::say;

/// Checks of one kind of machine.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// The `terrace` binary.
    #[arg(long)]
    terrace: PathBuf,
    /// A directory in memory, for what is of no interest after this boot.
    #[arg(long)]
    scratch: PathBuf,
    /// What the machine has.
    #[arg(long)]
    what: Machine,
    /// Where the first device is: a directory on it, or the device itself.
    #[arg(long)]
    place: PathBuf,
}

/// What a machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Machine {
    /// ext4 with DAX.
    Ext4,
    /// A device-DAX device.
    Devdax,
    /// Two nodes, a device on each.
    Numa,
    /// A second node without processors.
    Slow,
    /// A device that became a node of memory.
    Kmem,
    /// A file system on a device that can't do `MAP_SYNC`.
    Virtio,
}

/// What each check works with.
struct Probe<'a> {
    terrace: &'a Path,
    scratch: &'a Path,
    place: &'a Path,
}

/// A check: what it found, in words for people.
type Check = fn(&Probe<'_>) -> anyhow::Result<String>;

/// Runs the command.
///
/// # Errors
/// Never: what is wrong is told on the console and by the status.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let probe = Probe { terrace: &arguments.terrace, scratch: &arguments.scratch, place: &arguments.place };
    let checks: &[(&str, Check)] = match arguments.what {
        Machine::Ext4 => &[
            ("a file on ext4 with DAX is found to be DAX", files::dax_is_found),
            (
                "regions of odd sizes are mapped with MAP_SYNC and keep their bytes",
                files::regions_keep_their_bytes,
            ),
            ("the NUMA node of the file is the device's", files::node_is_the_devices),
            ("tmpfs is refused", serving::tmpfs_is_refused),
            ("a server under sync survives SIGKILL and SIGTERM", serving::survives),
            ("a second opener is refused", serving::second_opener_is_refused),
        ],
        Machine::Devdax => &[
            ("a device is found to be device DAX", files::devdax_is_found),
            ("the NUMA node of the device is the kernel's", files::node_is_the_devices),
            ("the size asked for is kept to, whatever the device's alignment", serving::device_size_is_kept),
            ("a server under sync survives SIGKILL and SIGTERM", serving::survives),
            ("a second opener is refused, whatever its directory", serving::second_opener_is_refused),
        ],
        Machine::Numa => &[
            ("the nodes are those of the kernel", nodes::nodes_are_known),
            ("each device's node is read, not guessed from its name", nodes::devices_have_their_nodes),
            ("a tier on each node takes its pages from there", nodes::tiers_are_placed),
            ("memory of a node can't promise sync", nodes::sync_is_refused),
            ("a node that isn't there is refused", nodes::absent_node_is_refused),
        ],
        Machine::Slow => &[
            ("the nodes are those of the kernel", nodes::nodes_are_known),
            ("the node without processors is told of", nodes::cpuless_node_is_told),
            ("a tier on each node takes its pages from there", nodes::tiers_are_placed),
        ],
        Machine::Kmem => &[
            ("the nodes are those of the kernel", nodes::nodes_are_known),
            ("the node without processors is told of", nodes::cpuless_node_is_told),
            ("a tier on each node takes its pages from there", nodes::tiers_are_placed),
        ],
        Machine::Virtio => &[
            ("a file system without MAP_SYNC is found to be block media", files::virtio_is_plain),
            ("it is refused as --pmem", serving::no_dax_is_refused),
        ],
    };
    let mut failed = 0;
    for (name, check) in checks {
        match check(&probe) {
            Ok(found) => say(&format!("PASS {name}: {found}")),
            Err(error) => {
                failed += 1;
                for line in format!("{name}: {error:#}").lines() {
                    say(&format!("FAIL {line}"));
                }
            }
        }
    }
    say(&format!("PROBED {} checks, {failed} failed", checks.len()));
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A number in a file of the kernel's.
fn number(path: &Path) -> anyhow::Result<i64> {
    let text =
        std::fs::read_to_string(path).map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?;
    Ok(text.trim().parse()?)
}
