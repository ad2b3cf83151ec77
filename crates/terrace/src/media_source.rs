//! How a store gets its media: from the system, or from a test that puts its own in their place.
//!
//! Everything else about opening a store (locks, superblocks, sizes, recovery) is the same for both, and so an engine that is
//! opened through [`MediaSource`] runs on whatever the proof needs: media with a shadow, media that fail.

use std::io;
use std::path::Path;
use std::sync::Arc;

use terrace_media::{
    AnyDevice, AnyRegion, BlockDevice, BlockFile, BlockFileOptions, ByteRegion, MapError, MapOptions,
    MappedRegion, Survives,
};

/// A byte-addressable medium, and what is known of it.
pub struct FoundRegion {
    /// The medium.
    pub region: Arc<AnyRegion>,
    /// For people.
    pub description: String,
    /// What a durability promise may rest on.
    pub promises: Survives,
}

/// A block medium, and what is known of it.
pub struct FoundBlock {
    /// The medium.
    pub device: Arc<AnyDevice>,
    /// For people.
    pub description: String,
}

impl FoundRegion {
    /// A medium of any type.
    pub fn new(region: Arc<impl ByteRegion>, description: String, promises: Survives) -> Self {
        Self { region: Arc::new(AnyRegion::new(region)), description, promises }
    }
}

impl FoundBlock {
    /// A medium of any type.
    pub fn new(device: impl BlockDevice, description: String) -> Self {
        Self { device: AnyDevice::of(device), description }
    }
}

/// Makes and opens media by their paths. (Emulated memory without a path, and NUMA nodes, are not asked for here.)
pub trait MediaSource {
    /// Makes and maps a file of `len` bytes that reads as zeros; a device is mapped as it is.
    ///
    /// # Errors
    /// As [`MappedRegion::create`].
    fn create_region(&self, path: &Path, len: u64, options: &MapOptions) -> Result<FoundRegion, MapError>;

    /// Maps a file or device in full.
    ///
    /// # Errors
    /// As [`MappedRegion::open`].
    fn open_region(&self, path: &Path, options: &MapOptions) -> Result<FoundRegion, MapError>;

    /// Makes a file of `len` bytes that reads as zeros.
    ///
    /// # Errors
    /// As [`BlockFile::create`].
    fn create_block(&self, path: &Path, len: u64, options: &BlockFileOptions) -> io::Result<()>;

    /// Opens a file at the size it has.
    ///
    /// # Errors
    /// As [`BlockFile::open`].
    fn open_block(&self, path: &Path, options: &BlockFileOptions) -> io::Result<FoundBlock>;
}

/// The system's media: what [`open`](crate::open) uses.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemMedia;

impl MediaSource for SystemMedia {
    fn create_region(&self, path: &Path, len: u64, options: &MapOptions) -> Result<FoundRegion, MapError> {
        MappedRegion::create(path, len, options).map(found)
    }
    fn open_region(&self, path: &Path, options: &MapOptions) -> Result<FoundRegion, MapError> {
        MappedRegion::open(path, options).map(found)
    }
    fn create_block(&self, path: &Path, len: u64, options: &BlockFileOptions) -> io::Result<()> {
        BlockFile::create(path, len, options).map(drop)
    }
    fn open_block(&self, path: &Path, options: &BlockFileOptions) -> io::Result<FoundBlock> {
        let device = BlockFile::open(path, options)?;
        let description = device.describe();
        Ok(FoundBlock::new(device, description))
    }
}

fn found(region: MappedRegion) -> FoundRegion {
    let (description, promises) = (region.describe(), region.promises());
    FoundRegion::new(Arc::new(region), description, promises)
}
