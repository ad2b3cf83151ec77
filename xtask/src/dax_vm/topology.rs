//! The machines: what memory they have and where.

use std::path::{Path, PathBuf};

const MIB: u64 = 1 << 20;
/// What an NVDIMM holds. Memory blocks of 128 MiB must fit in when one becomes a node of memory.
pub const NVDIMM_BYTES: u64 = 512 * MIB;
/// Plain memory of all nodes together, in MiB.
const MEMORY_MIB: u64 = 1536;

/// A machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Topology {
    /// One node, one NVDIMM, with ext4 on it and as a device.
    Pmem,
    /// Two nodes with processors, an NVDIMM on each.
    Numa,
    /// A second node, slow and without processors; another whose memory is an NVDIMM.
    Slow,
    /// virtio's kind of persistent memory, which can't do `MAP_SYNC`.
    Virtio,
    /// All of them.
    All,
}

/// A machine's memory, as QEMU is told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// One node, one NVDIMM.
    Nvdimm,
    /// Two nodes, an NVDIMM on each.
    TwoNodes,
    /// Two nodes, two NVDIMMs on each.
    FourOnTwoNodes,
    /// Node 1 has memory, of 300 ns, and no processors.
    SlowNode,
    /// Node 1 has only an NVDIMM.
    NvdimmNode,
    /// virtio-pmem.
    Virtio,
}

impl Memory {
    /// The files behind the persistent memory, in `state`.
    pub fn files(self, state: &Path) -> Vec<PathBuf> {
        (0..self.count()).map(|i| state.join(format!("pmem{i}.img"))).collect()
    }

    /// How many NVDIMMs there are.
    pub fn count(self) -> u32 {
        match self {
            Self::TwoNodes => 2,
            Self::FourOnTwoNodes => 4,
            _ => 1,
        }
    }

    /// QEMU's options.
    pub fn options(self, state: &Path) -> Vec<String> {
        let half = MEMORY_MIB / 2;
        let mut options: Vec<String> = Vec::new();
        let mut add = |option: &str, value: String| options.extend([option.to_owned(), value]);
        let machine = match self {
            Self::Virtio => "q35",
            Self::SlowNode => "q35,nvdimm=on,nvdimm-persistence=mem-ctrl,hmat=on",
            _ => "q35,nvdimm=on,nvdimm-persistence=mem-ctrl",
        };
        add("-machine", machine.into());
        add("-m", format!("{MEMORY_MIB}M,slots=4,maxmem=16G"));
        let ram = |id: &str, mib: u64| format!("memory-backend-ram,id={id},size={mib}M");
        match self {
            Self::Nvdimm | Self::Virtio => {}
            Self::TwoNodes | Self::FourOnTwoNodes => {
                add("-object", ram("ram0", half));
                add("-object", ram("ram1", half));
                add("-numa", "node,nodeid=0,memdev=ram0,cpus=0".into());
                add("-numa", "node,nodeid=1,memdev=ram1,cpus=1".into());
                add("-numa", "dist,src=0,dst=1,val=21".into());
            }
            Self::SlowNode => {
                add("-object", ram("ram0", half));
                add("-object", ram("ram1", half));
                add("-numa", "node,nodeid=0,memdev=ram0,cpus=0-1".into());
                add("-numa", "node,nodeid=1,memdev=ram1,initiator=0".into());
                add("-numa", "dist,src=0,dst=1,val=30".into());
                for (node, latency_ns, bandwidth) in [(0, 80, "100G"), (1, 300, "20G")] {
                    let what = format!("hmat-lb,initiator=0,target={node},hierarchy=memory,data-type=access");
                    add("-numa", format!("{what}-latency,latency={latency_ns}"));
                    add("-numa", format!("{what}-bandwidth,bandwidth={bandwidth}"));
                }
            }
            Self::NvdimmNode => {
                add("-object", ram("ram0", MEMORY_MIB));
                add("-numa", "node,nodeid=0,memdev=ram0,cpus=0-1".into());
                add("-numa", "node,nodeid=1".into());
                add("-numa", "dist,src=0,dst=1,val=30".into());
            }
        }
        for (i, file) in self.files(state).iter().enumerate() {
            // Shared: what the guest stores is in the file at once, as it would be in a persistent module.
            let path = file.display();
            add(
                "-object",
                format!("memory-backend-file,id=pmem{i},share=on,mem-path={path},size={NVDIMM_BYTES}"),
            );
            let node = match self {
                Self::TwoNodes => format!(",node={i}"),
                Self::FourOnTwoNodes => format!(",node={}", i / 2),
                Self::SlowNode => ",node=0".into(),
                Self::NvdimmNode => ",node=1".into(),
                _ => String::new(),
            };
            match self {
                Self::Virtio => add("-device", format!("virtio-pmem-pci,memdev=pmem{i},id=dev{i}")),
                _ => add("-device", format!("nvdimm,memdev=pmem{i},id=dev{i}{node}")),
            }
        }
        options
    }
}
