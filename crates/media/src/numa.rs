//! NUMA nodes: which there are, and memory that comes from one of them.

use std::io;
use std::path::Path;

use crate::mapping::Mapping;

/// Bits in the node mask handed to the kernel.
const NODES_MAX: usize = 1024;
const MASK_WORD_BITS: usize = libc::c_ulong::BITS as usize;

/// The nodes that are on line; empty where the kernel knows nothing of nodes.
pub fn nodes() -> Vec<u32> {
    let text = std::fs::read_to_string("/sys/devices/system/node/online").unwrap_or_default();
    parse_list(text.trim())
}

/// The node that this thread runs on just now, where the kernel tells.
pub(crate) fn here() -> Option<u32> {
    let (mut processor, mut node) = (0u32, 0u32);
    // SAFETY: the kernel writes two words of ours, and nothing through the pointer that is null.
    let result = unsafe {
        libc::syscall(
            libc::SYS_getcpu,
            &raw mut processor,
            &raw mut node,
            std::ptr::null_mut::<libc::c_void>(),
        )
    };
    (result == 0).then_some(node)
}

/// What the kernel says about a node, for people: `NUMA node 1, which has no processors, read latency 300 ns`.
pub fn describe(node: u32) -> String {
    describe_in(Path::new("/sys/devices/system/node"), node)
}

fn describe_in(nodes: &Path, node: u32) -> String {
    let here = nodes.join(format!("node{node}"));
    let mut text = format!("NUMA node {node}");
    if std::fs::read_to_string(here.join("cpulist")).is_ok_and(|list| list.trim().is_empty()) {
        text.push_str(", which has no processors");
    }
    // From the firmware's table (HMAT), as seen from the node's nearest processors.
    if let Some(ns) = node_in(&here.join("access0/initiators/read_latency")).filter(|ns| *ns > 0) {
        text.push_str(&format!(", read latency {ns} ns"));
    }
    text
}

/// `0-2,5` as numbers; what can't be read is left out.
fn parse_list(text: &str) -> Vec<u32> {
    let mut nodes = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) {
            nodes.extend(first..=last.min(NODES_MAX as u32));
        }
    }
    nodes
}

/// The number in a sysfs `numa_node` or `target_node` file; `None` if there is none or it says -1.
pub(crate) fn node_in(file: &Path) -> Option<u32> {
    std::fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// Makes pages of the mapping that aren't there yet come from `node` alone.
///
/// # Errors
/// `NotFound` with the nodes there are, or what the kernel says.
pub(crate) fn bind(mapping: &Mapping, node: u32) -> io::Result<()> {
    let known = nodes();
    if !known.contains(&node) || node as usize >= NODES_MAX {
        let known = known.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        let known = if known.is_empty() { "none that its kernel tells of".into() } else { known };
        let text = format!("NUMA node {node} does not exist; this machine has {known}");
        return Err(io::Error::new(io::ErrorKind::NotFound, text));
    }
    let mut mask: [libc::c_ulong; NODES_MAX / MASK_WORD_BITS] = [0; NODES_MAX / MASK_WORD_BITS];
    mask[node as usize / MASK_WORD_BITS] = 1 << (node as usize % MASK_WORD_BITS);
    // SAFETY: a policy for our own mapping; the mask outlives the call and holds the bits announced.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mbind,
            mapping.start(),
            mapping.len(),
            libc::MPOL_BIND,
            mask.as_ptr(),
            NODES_MAX as libc::c_ulong + 1,
            0u32,
        )
    };
    if result == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    Err(io::Error::new(error.kind(), format!("memory can't be bound to NUMA node {node}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_nodes() {
        assert_eq!(parse_list("0"), [0]);
        assert_eq!(parse_list("0-2,5"), [0, 1, 2, 5]);
        assert!(parse_list("").is_empty());
    }

    #[test]
    fn nodes_are_described_as_far_as_they_are_known() {
        let dir = tempfile::tempdir().unwrap();
        let node = |node: u32, processors: &str| {
            let node = dir.path().join(format!("node{node}"));
            std::fs::create_dir_all(node.join("access0/initiators")).unwrap();
            std::fs::write(node.join("cpulist"), processors).unwrap();
            node
        };
        node(0, "0-3\n");
        std::fs::write(node(1, "\n").join("access0/initiators/read_latency"), "300\n").unwrap();
        assert_eq!(describe_in(dir.path(), 0), "NUMA node 0");
        assert_eq!(describe_in(dir.path(), 1), "NUMA node 1, which has no processors, read latency 300 ns");
        assert_eq!(describe_in(dir.path(), 2), "NUMA node 2");
    }
}
