//! A store of engine `bonsai`: each entry of each node is followed, and what its log holds beyond that is verified.

use std::sync::Arc;

use terrace_engine::hash::KeyHasher;
use terrace_media::{ByteRegion, Superblock};
use terrace_space_scm_log::Geometry;
use terrace_space_scm_log::inspect::{Fault, NodeFault, examine_ordered};
use terrace_space_scm_log::repair::repair_ordered;

use super::scm::{BASE, look_and_mend};
use super::{CheckError, CheckOptions, Report};
use crate::scm::Bonsai;
use crate::tiered::{self, Sizes};

/// Checks the store in a region, repairs it if that is asked for and needed, and checks it again.
pub(super) fn run<R: ByteRegion>(
    region: Arc<R>,
    superblock: &Superblock,
    sizes: &Sizes,
    about: Vec<String>,
    options: &CheckOptions<'_>,
) -> Result<Report, CheckError> {
    let ids = (Bonsai::geometry(sizes, superblock.media_bytes), tiered::store_id(superblock));
    let hasher = KeyHasher::new(superblock.hash_seed);
    let look = || look(region.clone(), ids, hasher, options);
    let mend = || repair_ordered(region.clone(), BASE, ids, hasher);
    Ok(look_and_mend(look, mend, about, options.repair))
}

/// What is there, and whether something is damaged that a repair makes anew or gives up.
fn look<R: ByteRegion>(
    region: Arc<R>,
    ids: (Geometry, u64),
    hasher: KeyHasher,
    options: &CheckOptions<'_>,
) -> (Report, bool) {
    let found = examine_ordered(region.clone(), BASE, ids, hasher, options.progress);
    let nodes = found.nodes;
    let what = format!(
        "{} nodes in {} pages, {} slots free, {} with texts of fences; {} entries inline, {} references",
        nodes.nodes, found.pages.2, nodes.free, nodes.texts, nodes.inline, nodes.references
    );
    let mut report = super::scm::tell(region, ids, &found, what, |fault| match fault {
        Fault::Root => "no copy of the root is whole; the store does not open".into(),
        other => super::scm::text_of(other),
    });
    if !report.no_manifest {
        let mended = [
            (
                nodes.copies,
                "a damaged copy of what does not change or of when they end; opening sets it right",
            ),
            (nodes.fingerprints, "damaged fingerprints; opening makes them anew from the keys"),
        ];
        let told = mended.into_iter().filter(|(count, _)| *count > 0);
        report.notes.extend(told.map(|(count, what)| format!("{count} nodes have {what}")));
    }
    let is_mended = |fault: &Fault| matches!(fault, Fault::Node { .. } | Fault::Page { .. } | Fault::Root);
    let is_mendable = !report.no_manifest && found.faults.iter().any(is_mended);
    (report, is_mendable)
}

/// What of a node is not as it should be, for people.
pub(super) fn text_of_node(slot: u32, what: NodeFault) -> String {
    match what {
        NodeFault::Fence => format!(
            "node {slot}: nobody can tell which keys it has: neither copy of its fence is whole, or its text is damaged, or both words of when it \
             ends; the store does not open"
        ),
        NodeFault::Zeroed => format!(
            "node {slot}: nodes are missing, and what is in front of its entries reads as zeros: nobody can tell which keys it has; the store does \
             not open"
        ),
        NodeFault::Commit => format!(
            "node {slot}: the word is damaged that says which entries it has: keys that belong there answer an error until SET or DEL"
        ),
        NodeFault::Lost => format!(
            "node {slot}: something of it was lost: keys that belong there and are not found answer an error, though they may be there"
        ),
        NodeFault::Entry(entry) => {
            format!("node {slot}, entry {entry}: damaged; its key answers an error until SET or DEL")
        }
        NodeFault::Fingerprint(entry) => {
            format!("node {slot}, entry {entry}: its fingerprint is not its key's, which is not found")
        }
        NodeFault::Another(entry) => {
            format!(
                "node {slot}, entry {entry}: it leads to the record of another key, or to another version"
            )
        }
        NodeFault::Outside(entry) => {
            format!("node {slot}, entry {entry}: its key belongs to another node, and is not found")
        }
        NodeFault::Twice(entry) => format!("node {slot}, entry {entry}: the node has its key twice"),
    }
}
