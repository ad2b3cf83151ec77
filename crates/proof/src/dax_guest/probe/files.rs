//! Detection, and regions without a server.

use std::path::Path;

use anyhow::{Context, ensure};
use terrace_media::{ByteRegion, MapOptions, MappedRegion, Place, PlaceKind, Survives, detect};

use super::{Probe, number};

fn found(probe: &Probe<'_>, kind: PlaceKind, filesystem: &str) -> anyhow::Result<Place> {
    let place = detect(probe.place)?;
    ensure!(place.kind == kind && place.filesystem == filesystem, "{}", place.describe());
    Ok(place)
}

pub fn dax_is_found(probe: &Probe<'_>) -> anyhow::Result<String> {
    Ok(found(probe, PlaceKind::Dax, "ext4")?.describe())
}

pub fn devdax_is_found(probe: &Probe<'_>) -> anyhow::Result<String> {
    let place = found(probe, PlaceKind::DevDax, "devdax")?;
    let size = number(&sysfs(probe.place)?.join("size"))?;
    ensure!(place.free_bytes as i64 == size, "{} bytes, the kernel says {size}", place.free_bytes);
    Ok(place.describe())
}

pub fn virtio_is_plain(probe: &Probe<'_>) -> anyhow::Result<String> {
    let place = found(probe, PlaceKind::Plain, "ext4")?;
    // The file system itself is mounted with DAX: only the device behind it can't keep the promise.
    let mounts = std::fs::read_to_string("/proc/mounts")?;
    let mount = mounts.lines().find(|line| line.split(' ').nth(1) == probe.place.to_str());
    let mount = mount.context("it is not mounted")?;
    ensure!(mount.contains("dax"), "not mounted with DAX: {mount}");
    Ok(place.describe())
}

/// The sysfs directory of a device below `/dev`.
fn sysfs(device: &Path) -> anyhow::Result<std::path::PathBuf> {
    let name = device.file_name().context("a device has a name")?;
    Ok(Path::new("/sys/bus/dax/devices").join(name))
}

pub fn node_is_the_devices(probe: &Probe<'_>) -> anyhow::Result<String> {
    let place = detect(probe.place)?;
    let said = match place.kind {
        PlaceKind::DevDax => number(&sysfs(probe.place)?.join("numa_node"))?,
        _ => number(Path::new("/sys/bus/nd/devices/region0/numa_node"))?,
    };
    ensure!(place.numa_node.map_or(-1, i64::from) == said, "{:?}, the kernel says {said}", place.numa_node);
    Ok(format!("node {said}"))
}

pub fn regions_keep_their_bytes(probe: &Probe<'_>) -> anyhow::Result<String> {
    let options = MapOptions::default();
    let mut described = String::new();
    for (i, len) in [4096u64, 5_000_001, 8 << 20, (8 << 20) + 4096].into_iter().enumerate() {
        let path = probe.place.join(format!("region-{i}"));
        let offsets = [0, len / 2 - 3, len - 64];
        let bytes =
            |offset: u64| -> Vec<u8> { (0..64).map(|i| (offset as u8).wrapping_add(i) | 1).collect() };
        {
            let region = MappedRegion::create(&path, len, &options)?;
            ensure!(region.kind() == PlaceKind::Dax && region.survives() == Survives::Power);
            ensure!(region.len() == len, "{} bytes instead of {len}", region.len());
            for offset in offsets {
                region.write(offset, &bytes(offset));
                region.flush(offset, 64);
            }
            region.fence();
            described = region.describe();
        }
        let region = MappedRegion::open(&path, &options)?;
        for offset in offsets {
            let mut read = [0; 64];
            region.read(offset, &mut read);
            ensure!(read[..] == bytes(offset)[..], "64 bytes at {offset} of {len} differ");
        }
        drop(region);
        std::fs::remove_file(&path)?;
    }
    ensure!(described.contains("DAX with MAP_SYNC"), "{described}");
    Ok(described)
}
