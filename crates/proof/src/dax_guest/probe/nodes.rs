//! NUMA nodes: which there are, which device belongs to which, and whether memory comes from where it should.

use std::path::Path;

use anyhow::{Context, ensure};
use terrace_media::{detect, numa};

use super::{Probe, number};
use crate::dax_guest::server::Server;

const NODES: &str = "/sys/devices/system/node";

/// The nodes below sysfs, by their directories.
fn kernels() -> anyhow::Result<Vec<u32>> {
    let mut nodes: Vec<u32> = std::fs::read_dir(NODES)?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_prefix("node")?.parse().ok())
        .collect();
    nodes.sort_unstable();
    Ok(nodes)
}

fn processors(node: u32) -> anyhow::Result<String> {
    Ok(std::fs::read_to_string(format!("{NODES}/node{node}/cpulist"))?.trim().to_owned())
}

pub fn nodes_are_known(_: &Probe<'_>) -> anyhow::Result<String> {
    let (ours, kernels) = (numa::nodes(), kernels()?);
    ensure!(ours == kernels && ours.len() == 2, "{ours:?}, the kernel says {kernels:?}");
    Ok(format!("{ours:?}"))
}

pub fn devices_have_their_nodes(_: &Probe<'_>) -> anyhow::Result<String> {
    let mut told = Vec::new();
    for device in 0..2 {
        let said = number(Path::new(&format!("/sys/block/pmem{device}/device/numa_node")))?;
        let place = detect(Path::new(&format!("/mnt/pmem{device}")))?;
        ensure!(place.numa_node.map(i64::from) == Some(said), "{}, the kernel says {said}", place.describe());
        told.push(said);
    }
    ensure!(told.contains(&0) && told.contains(&1), "one device on each node: {told:?}");
    Ok(format!("pmem0 on node {}, pmem1 on node {}", told[0], told[1]))
}

pub fn cpuless_node_is_told(probe: &Probe<'_>) -> anyhow::Result<String> {
    let node = kernels()?.into_iter().find(|node| processors(*node).is_ok_and(|list| list.is_empty()));
    let node = node.context("every node has processors")?;
    let server = on_node(probe, node, "batch:100")?;
    server.must_say(&format!("memory of NUMA node {node}, which has no processors"))?;
    let output = server.output();
    let line = output.lines().find(|line| line.contains("no processors")).unwrap_or_default();
    Ok(line.trim().to_owned())
}

fn on_node(probe: &Probe<'_>, node: u32, durability: &str) -> anyhow::Result<Server> {
    let tier = format!("64MiB@node:{node}");
    let options = ["--dram", "6MiB", "--durability", durability, "--pmem", &tier];
    Server::ready(probe.terrace, probe.scratch, 7201, &options)
}

/// `N1=123` in the lines of `numa_maps` that are bound to a node: pages by node.
fn bound_pages(pid: u32, node: u32) -> anyhow::Result<(u64, u64)> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/numa_maps"))?;
    let (mut there, mut elsewhere) = (0, 0);
    for line in maps.lines().filter(|line| line.contains(&format!(" bind:{node} "))) {
        for word in line.split(' ') {
            let Some((name, pages)) = word.split_once('=') else { continue };
            let Some(on) = name.strip_prefix('N').and_then(|on| on.parse::<u32>().ok()) else { continue };
            let pages: u64 = pages.parse()?;
            if on == node { there += pages } else { elsewhere += pages }
        }
    }
    Ok((there, elsewhere))
}

pub fn tiers_are_placed(probe: &Probe<'_>) -> anyhow::Result<String> {
    let mut told = Vec::new();
    for node in kernels()? {
        let server = on_node(probe, node, "none")?;
        server.must_say(&format!("memory of NUMA node {node}"))?;
        let (there, elsewhere) = bound_pages(server.pid(), node)?;
        ensure!(there > 0 && elsewhere == 0, "node {node}: {there} pages there, {elsewhere} elsewhere");
        told.push(format!("node {node}: {there} pages"));
    }
    Ok(told.join(", "))
}

pub fn sync_is_refused(probe: &Probe<'_>) -> anyhow::Result<String> {
    probe.refused(&["--pmem", "64MiB@node:1", "--durability", "sync"], "can't keep --durability sync")
}

pub fn absent_node_is_refused(probe: &Probe<'_>) -> anyhow::Result<String> {
    probe.refused(&["--pmem", "64MiB@node:7"], "this machine has 0, 1")
}
