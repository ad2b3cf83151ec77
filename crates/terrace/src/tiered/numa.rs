//! The NUMA nodes that striped memory lies on, and memory set aside on them for copies.
//!
//! ```text
//!   --pmem A,B,C,D --nodes 2      node 0: A and B    node 1: C and D        each device: superblock | strips of the store | copies
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_engine::StoreError;
use terrace_media::{
    AnyRegion, ByteRegion, Homes, INTERLEAVED_BYTES, SUPERBLOCK_BYTES, StripedRegion, detect,
};

use crate::options::Options;

/// Of a device, one byte in so many is for copies where there are several NUMA nodes.
const COPIES_PART: u64 = 32;

/// How a store's bytes lie on its devices: part of the format (`docs/formats/superblock.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Bytes of a strip; as many as a page is interleaved in: one device after the other.
    pub strip_bytes: u64,
    /// NUMA nodes that the devices are on, as many on each: the first ones on the first.
    pub nodes: usize,
    /// Bytes at the end of each device that are set aside for copies.
    pub copy_bytes: u64,
}

impl Layout {
    /// That of a new store, on devices of so many bytes.
    pub(super) fn new(strip_bytes: u64, nodes: usize, bytes: u64) -> Self {
        let whole = |bytes: u64| bytes / SUPERBLOCK_BYTES as u64 * SUPERBLOCK_BYTES as u64;
        let copy_bytes = if nodes > 1 { whole(bytes / COPIES_PART) } else { 0 };
        Self { strip_bytes, nodes, copy_bytes }
    }
    /// Whether so many devices of so many bytes can have it.
    pub(super) fn makes_sense(&self, devices: usize, bytes: u64) -> bool {
        self.nodes > 0
            && devices.is_multiple_of(self.nodes)
            && self.copy_bytes < bytes
            && (self.nodes == 1 || self.strip_bytes != INTERLEAVED_BYTES)
    }
    /// The store's strips on devices of so many bytes each.
    pub(super) fn strips<R: ByteRegion>(
        &self,
        devices: Vec<Arc<R>>,
        bytes: u64,
    ) -> Result<StripedRegion<R>, StoreError> {
        let end = bytes.saturating_sub(self.copy_bytes) / SUPERBLOCK_BYTES as u64 * SUPERBLOCK_BYTES as u64;
        let of_each = SUPERBLOCK_BYTES as u64..end;
        let region = match self.strip_bytes {
            INTERLEAVED_BYTES => StripedRegion::interleaved(devices, of_each),
            _ => StripedRegion::on_nodes(devices, of_each, self.nodes),
        };
        region.map_err(|error| StoreError::Options(format!("--pmem: {error}")))
    }
    /// Memory for copies, and which NUMA node has what of the store, which has so many bytes; nothing where there is one node.
    pub(super) fn copies(
        &self,
        devices: &[(PathBuf, Arc<AnyRegion>)],
        bytes: u64,
        store_bytes: u64,
    ) -> Result<Option<(Homes, Arc<AnyRegion>)>, StoreError> {
        if self.nodes < 2 || self.copy_bytes == 0 {
            return Ok(None);
        }
        let end = bytes / SUPERBLOCK_BYTES as u64 * SUPERBLOCK_BYTES as u64;
        let regions = devices.iter().map(|(_, region)| region.clone()).collect();
        let copies = StripedRegion::on_nodes(regions, end - self.copy_bytes..end, self.nodes)
            .map_err(|error| StoreError::Options(format!("--pmem: {error}")))?;
        let paths = devices.iter().map(|(path, _)| path.as_path());
        Ok(Some((self.homes(paths, store_bytes), AnyRegion::of(copies))))
    }
    /// Which NUMA node has what of a store of so many bytes, whose devices are at these places.
    fn homes<'a>(&self, paths: impl Iterator<Item = &'a Path>, store_bytes: u64) -> Homes {
        let numbers: Vec<_> = paths.map(number_of).collect();
        let of_nodes = numbers.chunks(numbers.len() / self.nodes).map(|numbers| numbers[0]);
        let numa = of_nodes.collect::<Option<_>>().unwrap_or_default();
        Homes::new(self.nodes as u32, store_bytes / self.nodes as u64, numa)
    }
    /// For people: `on 2 NUMA nodes`.
    pub(super) fn describe<'a>(&self, paths: impl Iterator<Item = &'a Path>) -> String {
        let nodes = self.nodes;
        match self.nodes {
            1 => String::new(),
            _ if self.homes(paths, nodes as u64).are_real() => format!(" on {nodes} NUMA nodes"),
            _ => format!(" on {nodes} NUMA nodes (emulated: threads take turns)"),
        }
    }
}

/// The NUMA node of a file or device, where the machine tells.
fn number_of(path: &Path) -> Option<u32> {
    detect(path).ok()?.numa_node
}

/// On how many NUMA nodes a new store's devices are to be, and in which order they come then: those of a node together.
///
/// # Errors
/// If they can't be dealt out as was asked.
pub(super) fn deal(options: &Options, paths: &[&Path]) -> Result<(usize, Vec<usize>), StoreError> {
    let as_given: Vec<usize> = (0..paths.len()).collect();
    if let Some(nodes) = options.nodes {
        let nodes = nodes as usize;
        if nodes == 0 || !paths.len().is_multiple_of(nodes) {
            return Err(StoreError::Options(format!(
                "--nodes {nodes} with {} places: each NUMA node has as many devices, the first ones given are the first node's",
                paths.len()
            )));
        }
        return Ok((nodes, as_given));
    }
    let numbers: Option<Vec<u32>> = paths.iter().map(|path| number_of(path)).collect();
    let is_for_nodes = crate::scm::has_copies(&options.engine) && !options.pmem_interleaved;
    let Some(numbers) = numbers.filter(|_| is_for_nodes) else { return Ok((1, as_given)) };
    let mut different = numbers.clone();
    different.sort_unstable();
    different.dedup();
    let count = |node: &u32| numbers.iter().filter(|number| *number == node).count();
    let alike = different.iter().all(|node| count(node) * different.len() == numbers.len());
    if different.len() < 2 || !alike {
        return Ok((1, as_given));
    }
    let mut order = as_given;
    order.sort_by_key(|i| numbers[*i]);
    Ok((different.len(), order))
}

/// Refuses `--nodes` where it means nothing.
///
/// # Errors
/// [`StoreError::Options`].
pub(crate) fn refuse(options: &Options) -> Result<(), StoreError> {
    let Some(nodes) = options.nodes.filter(|nodes| *nodes > 1) else { return Ok(()) };
    let places = options.pmem.as_ref().and_then(|tier| tier.place.as_ref());
    let several = matches!(places, Some(crate::Place::Striped(paths)) if paths.len() > 1);
    if !crate::scm::has_copies(&options.engine) {
        return Err(StoreError::Options(format!(
            "--nodes {nodes}: engine {} keeps no copies on NUMA nodes; leave it out, or use --engine bonsai",
            options.engine
        )));
    }
    if !several {
        return Err(StoreError::Options(format!(
            "--nodes {nodes}: --pmem needs a place for each NUMA node at least, as in --pmem 64GiB@/dev/dax0.0,64GiB@/dev/dax1.0"
        )));
    }
    Ok(())
}
