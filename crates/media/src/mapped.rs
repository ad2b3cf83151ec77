//! A file or device as a region: DAX, device DAX, or tmpfs.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use rustix::fs::{CWD, FallocateFlags, RenameFlags};

use crate::detect::{PlaceKind, detect, devdax_bytes};
use crate::mapping::{Mapping, PAGE_BYTES, open_existing};
use crate::region::{Region, Survives, byte_region};
use crate::{Profile, arch};

/// How to map a file.
#[derive(Clone, Debug, Default)]
pub struct MapOptions {
    /// Emulate this device. It also lifts the refusal of tmpfs: the file is a stand-in.
    pub profile: Option<Profile>,
    /// Accept tmpfs without a profile (for stores that promise nothing).
    pub accept_volatile: bool,
    /// Take pages of a tmpfs file from this NUMA node.
    pub node: Option<u32>,
}

/// Why a path can't be a region.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    /// The system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or device.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// An ordinary file system: block media, which is never mapped.
    #[error("{} is on {filesystem}, which has no DAX: use it as block media (--ssd)", path.display())]
    NotByteAddressable {
        /// The file.
        path: PathBuf,
        /// What it is on.
        filesystem: String,
    },
    /// tmpfs, where a lasting medium was asked for.
    #[error("{} is on tmpfs, which loses everything with the machine's power: choose a profile that it stands in for (--profile) or --durability none", path.display())]
    Volatile {
        /// The file.
        path: PathBuf,
    },
    /// The medium is shorter than asked.
    #[error("{} holds {actual} bytes, {wanted} are needed", path.display())]
    TooShort {
        /// The file or device.
        path: PathBuf,
        /// Its size in bytes.
        actual: u64,
        /// What was asked for, in bytes.
        wanted: u64,
    },
}

/// A mapped file or device. Its bytes outlive the process; whether they outlive power loss, [`survives`](Self::survives)
/// says.
pub struct MappedRegion {
    region: Region,
    kind: PlaceKind,
    filesystem: String,
    /// Of one that can be resized: its file, held while its length changes.
    file: Option<Mutex<File>>,
}

impl MappedRegion {
    /// Makes a file of `len` bytes, with all its blocks allocated and reading as zeros, and maps it. A device is not
    /// made: its first `len` bytes are mapped, with whatever they hold.
    ///
    /// # Errors
    /// `AlreadyExists` in [`MapError::Io`] if the file exists; the other variants as they say. A file that could not
    /// be made whole is removed again.
    pub fn create(path: &Path, len: u64, options: &MapOptions) -> Result<Self, MapError> {
        let io_error = |source| MapError::Io { path: path.into(), source };
        if path.metadata().is_ok_and(|metadata| metadata.file_type().is_char_device()) {
            return Self::open_len(path, Some(len), options);
        }
        refuse_kind(path, options)?;
        // Under another name until it is whole: a crash in between must not leave a file that is too short to be opened.
        let mut making = path.as_os_str().to_owned();
        making.push(".new");
        let making = Path::new(&making);
        match std::fs::remove_file(making) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io_error(error)),
            _ => {}
        }
        let file =
            OpenOptions::new().read(true).write(true).create_new(true).open(making).map_err(io_error)?;
        let made = rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, len)
            .map_err(io::Error::from)
            .and_then(|()| file.sync_all())
            .map_err(io_error)
            .and_then(|()| Self::map(making, &file, len, options))
            .and_then(|region| name(making, path).map(|()| region).map_err(io_error));
        if made.is_err() {
            // The first error is the one to tell.
            let _ = std::fs::remove_file(making);
        }
        made
    }

    /// Maps an existing file or device in full.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn open(path: &Path, options: &MapOptions) -> Result<Self, MapError> {
        Self::open_len(path, None, options)
    }

    /// Maps an existing file or device in full to be looked at: it is opened for reading only, may lie on any file system, and is
    /// never written. A store to it ends the process.
    ///
    /// # Errors
    /// [`MapError::Io`], [`MapError::TooShort`] if it is empty.
    pub fn look(path: &Path) -> Result<Self, MapError> {
        let io_error = |source| MapError::Io { path: path.into(), source };
        let file = File::open(path).map_err(io_error)?;
        let len = length(&file).map_err(io_error)?;
        if len == 0 {
            return Err(MapError::TooShort { path: path.into(), actual: 0, wanted: PAGE_BYTES as u64 });
        }
        let place = detect(path).map_err(io_error)?;
        let mapping = Mapping::file_to_read(&file, len).map_err(io_error)?;
        let region = Region::new(mapping, len, None).map_err(io_error)?;
        Ok(Self { region, kind: place.kind, filesystem: place.filesystem, file: None })
    }

    fn open_len(path: &Path, wanted: Option<u64>, options: &MapOptions) -> Result<Self, MapError> {
        let io_error = |source| MapError::Io { path: path.into(), source };
        let file = open_existing(path).map_err(io_error)?;
        let actual = length(&file).map_err(io_error)?;
        let len = wanted.unwrap_or(actual);
        if actual < len {
            return Err(MapError::TooShort { path: path.into(), actual, wanted: len });
        }
        // A device is mapped in full: its pages may be huge ones, which can't be mapped in part.
        Ok(Self::map(path, &file, actual, options)?.limited(len))
    }

    /// The same region, as if it ended after `len` bytes.
    ///
    /// # Panics
    /// If it doesn't have so many.
    #[must_use]
    pub fn limited(mut self, len: u64) -> Self {
        self.region.limit(len);
        self
    }

    fn map(path: &Path, file: &File, len: u64, options: &MapOptions) -> Result<Self, MapError> {
        let io_error = |source| MapError::Io { path: path.into(), source };
        let (kind, filesystem) = refuse_kind(path, options)?;
        // A device is as long as it is, and memory of a node is asked for once.
        let grows = kind != PlaceKind::DevDax && options.node.is_none();
        let sync = kind != PlaceKind::Tmpfs;
        let mapping = match grows {
            true => Mapping::file_that_grows(file, len, sync),
            false => Mapping::file(file, len, sync),
        };
        let region =
            Region::new(mapping.map_err(io_error)?, len, options.profile.clone()).map_err(io_error)?;
        if let Some(node) = options.node {
            region.bind(node).map_err(io_error)?;
        }
        let file = grows.then(|| file.try_clone()).transpose().map_err(io_error)?;
        Ok(Self { region, kind, filesystem, file: file.map(Mutex::new) })
    }

    fn resize_file(&self, len: u64) -> io::Result<()> {
        let Some(file) = &self.file else {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "a device, or memory of a node, keeps its size",
            ));
        };
        let file = file.lock();
        let (mapping, before) = (self.region.mapping(), self.region.len());
        let most = mapping.len_max() as u64;
        let len = len.max(1).next_multiple_of(PAGE_BYTES as u64);
        if len > most {
            let text = format!("{len} bytes: there is address space for {most} until it is opened again");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        if len > before {
            // What could not be cut off earlier would be found again.
            file.set_len(before)?;
            let more = rustix::fs::fallocate(&*file, FallocateFlags::empty(), before, len - before);
            let made = more
                .map_err(io::Error::from)
                .and_then(|()| file.sync_all())
                .and_then(|()| mapping.extend(&file, before, len, self.kind != PlaceKind::Tmpfs));
            if made.is_err() {
                // The first error is the one to tell.
                let _ = mapping.cut(before, len);
                let _ = file.set_len(before);
                return made;
            }
            self.region.set_len(len);
        } else if len < before {
            // Zeros first: bytes of a file behind its end can't be read.
            mapping.cut(len, before)?;
            self.region.set_len(len);
            file.set_len(len)?;
            file.sync_all()?;
        }
        Ok(())
    }

    /// What it is, for people: `ext4 file, DAX with MAP_SYNC, clwb`, `emulated optane-200 on tmpfs file`.
    pub fn describe(&self) -> String {
        let flush = arch::flush_instruction();
        self.region.describe(&match self.kind {
            PlaceKind::Dax => format!("{} file, DAX with MAP_SYNC, {flush}", self.filesystem),
            PlaceKind::DevDax => format!("device DAX, {flush}"),
            PlaceKind::Tmpfs | PlaceKind::Plain => format!("{} file", self.filesystem),
        })
    }

    /// What kind of place it was found to be.
    pub fn kind(&self) -> PlaceKind {
        self.kind
    }

    /// What its flushed and fenced bytes truly outlive.
    pub fn survives(&self) -> Survives {
        match self.kind {
            PlaceKind::Dax | PlaceKind::DevDax => Survives::Power,
            PlaceKind::Tmpfs | PlaceKind::Plain => Survives::Process,
        }
    }

    /// What a durability promise may rest on: the device that it stands for, if it stands for one.
    pub fn promises(&self) -> Survives {
        self.region.promises(self.survives())
    }

    /// The profile that it emulates.
    pub fn profile(&self) -> Option<&Profile> {
        self.region.profile()
    }

    /// Nanoseconds that accesses were charged for the emulated device, in all; 0 without a profile.
    pub fn emulated_ns(&self) -> u64 {
        self.region.emulated_ns()
    }
}

byte_region!(
    MappedRegion
    fn len_max(&self) -> Option<u64> {
        self.file.as_ref().map(|_| self.region.mapping().len_max() as u64)
    }
    fn resize(&self, len: u64) -> io::Result<()> {
        self.resize_file(len)
    }
);

/// Bytes of a file or device.
fn length(file: &File) -> io::Result<u64> {
    let metadata = file.metadata()?;
    let is_device = metadata.file_type().is_char_device();
    Ok(if is_device { devdax_bytes(metadata.rdev()).unwrap_or(0) } else { metadata.len() })
}

/// Gives a finished file its name, unless another one has it, and makes that durable.
fn name(making: &Path, path: &Path) -> io::Result<()> {
    rustix::fs::renameat_with(CWD, making, CWD, path, RenameFlags::NOREPLACE)?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent)?.sync_all()
}

/// What a path is, or why it can't be mapped with these options.
fn refuse_kind(path: &Path, options: &MapOptions) -> Result<(PlaceKind, String), MapError> {
    let place = detect(path).map_err(|source| MapError::Io { path: path.into(), source })?;
    match place.kind {
        PlaceKind::Plain => {
            Err(MapError::NotByteAddressable { path: path.into(), filesystem: place.filesystem })
        }
        PlaceKind::Tmpfs if options.profile.is_none() && !options.accept_volatile => {
            Err(MapError::Volatile { path: path.into() })
        }
        kind => Ok((kind, place.filesystem)),
    }
}
