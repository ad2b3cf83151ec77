//! What a path and a machine give, found out by trying.

pub mod machine;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

pub use machine::Machine;

use crate::mapping::{Mapping, PAGE_BYTES};
use crate::numa::node_in;

/// What kind of medium a path is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaceKind {
    /// A file system on which `MAP_SYNC` works: mapped, flushed bytes are safe from power loss.
    Dax,
    /// A device-DAX character device: the same, without a file system.
    DevDax,
    /// Memory that outlives the process and not the machine.
    Tmpfs,
    /// Any other file system: block media, never mapped.
    Plain,
}

/// What was found out about a path.
#[derive(Clone, Debug)]
pub struct Place {
    /// What was asked about: the path itself, or its nearest ancestor that exists.
    pub path: PathBuf,
    /// What it is good for.
    pub kind: PlaceKind,
    /// `ext4`, `xfs`, `tmpfs`, ...; `devdax` for a device; the magic number of a file system not known by name.
    pub filesystem: String,
    /// Bytes that an unprivileged user may still write; of a device its size.
    pub free_bytes: u64,
    /// The NUMA node that the device belongs to, where the kernel says so.
    pub numa_node: Option<u32>,
}

/// Finds out what `path`, or the nearest ancestor of it that exists, gives. Tries `MAP_SYNC` on a file without a
/// name, so that nothing is left behind.
///
/// # Errors
/// If the path can't be examined.
pub fn detect(path: &Path) -> io::Result<Place> {
    let path = nearest_existing(path)?;
    let metadata = path.metadata()?;
    if metadata.file_type().is_char_device() {
        return device_place(path, metadata.rdev());
    }
    let filesystem = filesystem_name(rustix::fs::statfs(&path)?.f_type as u64);
    let space = rustix::fs::statvfs(&path)?;
    let directory = if metadata.is_dir() { path.as_path() } else { path.parent().unwrap_or(Path::new("/")) };
    let kind = match filesystem.as_str() {
        "tmpfs" | "ramfs" | "hugetlbfs" => PlaceKind::Tmpfs,
        _ if map_sync_works(directory) => PlaceKind::Dax,
        _ => PlaceKind::Plain,
    };
    let dev = metadata.dev();
    let (major, minor) = (rustix::fs::major(dev), rustix::fs::minor(dev));
    let numa_node = node_in(Path::new(&format!("/sys/dev/block/{major}:{minor}/device/numa_node")));
    Ok(Place { kind, filesystem, free_bytes: space.f_bavail.saturating_mul(space.f_frsize), numa_node, path })
}

impl Place {
    /// For people: `ext4 at /srv/data (block media), 80.0 GB free`.
    pub fn describe(&self) -> String {
        let what = match self.kind {
            PlaceKind::Dax => "DAX, MAP_SYNC works",
            PlaceKind::DevDax => "device DAX",
            PlaceKind::Tmpfs => "memory, lost with the machine's power",
            PlaceKind::Plain => "block media",
        };
        let node = self.numa_node.map_or(String::new(), |node| format!(", NUMA node {node}"));
        let (path, gigabytes) = (self.path.display(), self.free_bytes as f64 / 1e9);
        format!("{} at {path} ({what}), {gigabytes:.1} GB free{node}", self.filesystem)
    }
}

fn nearest_existing(path: &Path) -> io::Result<PathBuf> {
    let absolute = std::path::absolute(path)?;
    for ancestor in absolute.ancestors() {
        match ancestor.symlink_metadata() {
            Ok(_) => return Ok(ancestor.to_path_buf()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(io::ErrorKind::NotFound, format!("{}: no part of it exists", absolute.display())))
}

fn map_sync_works(directory: &Path) -> bool {
    let Ok(file) = unnamed_file(directory) else { return false };
    file.set_len(PAGE_BYTES as u64).is_ok() && Mapping::file(&file, PAGE_BYTES as u64, true).is_ok()
}

/// A file that is gone when it is closed, whatever happens.
fn unnamed_file(directory: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    OpenOptions::new().read(true).write(true).custom_flags(libc::O_TMPFILE).open(directory)
}

/// The name of the file system that an open file is on.
pub(crate) fn filesystem_of(file: &File) -> io::Result<String> {
    Ok(filesystem_name(rustix::fs::fstatfs(file)?.f_type as u64))
}

fn filesystem_name(magic: u64) -> String {
    let name = match magic {
        0xEF53 => "ext4",
        0x5846_5342 => "xfs",
        0x0102_1994 => "tmpfs",
        0x8584_58F6 => "ramfs",
        0x9581_58F6 => "hugetlbfs",
        0x9123_683E => "btrfs",
        0x794C_7630 => "overlay",
        0x2FC1_2FC1 => "zfs",
        0xF2F5_2010 => "f2fs",
        0xCA45_1A4E => "bcachefs",
        0x6969 => "nfs",
        0xFF53_4D42 | 0xFE53_4D42 => "smb",
        0x6573_5546 => "fuse",
        0x0102_1997 => "9p",
        _ => return format!("file system {magic:#x}"),
    };
    name.into()
}

/// The sysfs directory of a character device, if it is a device-DAX one.
fn devdax_sysfs(rdev: u64) -> Option<PathBuf> {
    let (major, minor) = (rustix::fs::major(rdev), rustix::fs::minor(rdev));
    let device = PathBuf::from(format!("/sys/dev/char/{major}:{minor}"));
    let subsystem = device.join("subsystem").canonicalize().ok()?;
    (subsystem.file_name()? == "dax").then_some(device)
}

/// Size of a device-DAX device in bytes, from its device number; `None` if it isn't one.
pub(crate) fn devdax_bytes(rdev: u64) -> Option<u64> {
    std::fs::read_to_string(devdax_sysfs(rdev)?.join("size")).ok()?.trim().parse().ok()
}

fn device_place(path: PathBuf, rdev: u64) -> io::Result<Place> {
    let not_dax = || {
        let text = format!("{}: a character device, and not a device-DAX one", path.display());
        io::Error::new(io::ErrorKind::InvalidInput, text)
    };
    let sysfs = devdax_sysfs(rdev).ok_or_else(not_dax)?;
    let free_bytes = devdax_bytes(rdev).ok_or_else(not_dax)?;
    // Node numbers of such devices don't follow their names.
    let numa_node = node_in(&sysfs.join("numa_node")).or_else(|| node_in(&sysfs.join("target_node")));
    Ok(Place { path, kind: PlaceKind::DevDax, filesystem: "devdax".into(), free_bytes, numa_node })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_and_what_does_not_exist_yet_below_it() {
        let dir = tempfile::tempdir().unwrap();
        let here = detect(dir.path()).unwrap();
        let below = detect(&dir.path().join("not/yet/there")).unwrap();
        assert_eq!((here.kind, &here.filesystem), (below.kind, &below.filesystem));
        assert_eq!(below.path, dir.path());
        assert!(here.free_bytes > 0 && here.describe().contains("GB free"));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left behind");
    }

    #[test]
    fn shared_memory_is_tmpfs() {
        let shm = Path::new("/dev/shm");
        if shm.is_dir() {
            let place = detect(shm).unwrap();
            assert_eq!((place.kind, place.filesystem.as_str()), (PlaceKind::Tmpfs, "tmpfs"));
        }
    }

    #[test]
    fn other_devices_are_refused() {
        let error = detect(Path::new("/dev/null")).unwrap_err().to_string();
        assert!(error.contains("not a device-DAX"), "{error}");
    }
}
