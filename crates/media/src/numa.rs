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
}
