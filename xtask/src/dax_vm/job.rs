//! What the guest's first program runs: shell that prepares a device, then one of this workspace's programs.

use super::topology::Memory;

/// What is on an NVDIMM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Fs {
    /// ext4, mounted with DAX.
    Ext4,
    /// Nothing: the device itself is mapped.
    Devdax,
    /// ext4 with DAX on each of four, two to a NUMA node: engine `bonsai` has copies there.
    Nodes,
    /// One NVDIMM with ext4, then one that is mapped itself.
    All,
}

impl Fs {
    /// Those meant.
    pub fn each(self) -> &'static [Fs] {
        match self {
            Self::Ext4 => &[Self::Ext4],
            Self::Devdax => &[Self::Devdax],
            Self::Nodes => &[Self::Nodes],
            Self::All => &[Self::Ext4, Self::Devdax],
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Devdax => "devdax",
            Self::Nodes => "nodes",
            Self::All => "all",
        }
    }

    /// Where the store is.
    pub fn place(self) -> &'static str {
        match self {
            Self::Devdax => "/dev/dax0.0",
            // Not in the order of their nodes.
            Self::Nodes => "/mnt/pmem0,/mnt/pmem2,/mnt/pmem1,/mnt/pmem3",
            Self::Ext4 | Self::All => "/mnt/pmem0",
        }
    }

    /// The store's size, on each device: small, so that pages go down and blocks are used again.
    pub fn store(self) -> &'static str {
        if self == Self::Nodes { "24MiB" } else { "96MiB" }
    }

    /// The machine that has it.
    pub fn memory(self) -> Memory {
        if self == Self::Nodes { Memory::FourOnTwoNodes } else { Memory::Nvdimm }
    }

    /// What the server says about it.
    pub fn expected(self) -> &'static str {
        match self {
            Self::Devdax => "device DAX",
            Self::Nodes => {
                "4 devices on 2 NUMA nodes in strips of 256 bytes, each ext4 file, DAX with MAP_SYNC"
            }
            Self::Ext4 | Self::All => "ext4 file, DAX with MAP_SYNC",
        }
    }
}

/// Functions for the scripts below. A namespace starts "raw", where the kernel has no pages for it and so no DAX.
const FUNCTIONS: &str = r#"
appears() { n=0; until [ -e "$1" ]; do n=$((n+1)); [ $n -lt 200 ] || { echo "@@FAIL $1 does not appear"; return 1; }; sleep 0.05; done; }
namespace() { /sbin/ndctl create-namespace --force --reconfig="namespace$1.0" --mode="$2" --map=mem >/run/ndctl 2>&1 || { echo "@@FAIL ndctl: $(tail -1 /run/ndctl)"; return 1; }; }
make_ext4() { appears "/dev/pmem$1" && /sbin/mke2fs -q -t ext4 -b 4096 -F "/dev/pmem$1"; }
mount_ext4() { mkdir -p "/mnt/pmem$1"; appears "/dev/pmem$1" && mount -t ext4 -o dax=always "/dev/pmem$1" "/mnt/pmem$1" || { echo "@@FAIL mounting pmem$1"; return 1; }; }
"#;

/// Makes what is on NVDIMM number `device` anew, once in its life, and waits until that is safe.
pub fn make(fs: Fs, device: u32) -> String {
    match fs {
        Fs::Devdax => format!("{FUNCTIONS}namespace {device} devdax || return 1\nsync\n"),
        _ => format!("{FUNCTIONS}namespace {device} fsdax && make_ext4 {device} || return 1\nsync\n"),
    }
}

/// Makes what is on NVDIMM number `device` reachable, in each boot.
pub fn attach(fs: Fs, device: u32) -> String {
    match fs {
        Fs::Devdax => format!("{FUNCTIONS}appears /dev/dax{device}.0 || return 1\n"),
        _ => format!("{FUNCTIONS}mount_ext4 {device} || return 1\n"),
    }
}

/// virtio-pmem needs no namespace.
pub fn virtio() -> String {
    format!("{FUNCTIONS}make_ext4 0 && mount_ext4 0 || return 1\n")
}

/// An NVDIMM becomes memory of its node.
pub fn to_memory() -> String {
    format!(
        r#"{FUNCTIONS}namespace 0 devdax && appears /dev/dax0.0 || return 1
/sbin/daxctl reconfigure-device --mode=system-ram --no-online --force dax0.0 >/run/daxctl 2>&1 || {{ echo "@@FAIL daxctl: $(tail -1 /run/daxctl)"; return 1; }}
for block in /sys/devices/system/memory/memory*; do
    [ "$(cat "$block/state")" = online ] || echo online_movable >"$block/state"
done
"#
    )
}

/// A call of the guest's side; `what` is its subcommand.
pub fn guest(what: &str, options: &[(&str, String)]) -> String {
    let mut line = format!("terrace-proof dax-guest {what} --terrace /bin/terrace --scratch /run/scratch");
    for (name, value) in options {
        line.push_str(&format!(" --{name} '{value}'"));
    }
    line.push('\n');
    line
}
