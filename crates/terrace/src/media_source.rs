//! How a store gets its media: from the system, or from a test that puts its own in their place.
//!
//! Everything else about opening a store (locks, superblocks, sizes, recovery) is the same for both, and so an engine that is
//! opened through [`MediaSource`] runs on whatever the proof needs: media with a shadow, media that fail.

use std::io;
use std::path::Path;
use std::sync::Arc;

use terrace_media::{
    BlockDevice, BlockFile, BlockFileOptions, ByteRegion, MapError, MapOptions, MappedRegion, Survives,
};

/// A byte-addressable medium, and what is known of it.
pub struct FoundRegion<R> {
    /// The medium.
    pub region: Arc<R>,
    /// For people.
    pub description: String,
    /// What a durability promise may rest on.
    pub promises: Survives,
}

/// A block medium, and what is known of it.
pub struct FoundBlock<D> {
    /// The medium.
    pub device: Arc<D>,
    /// For people.
    pub description: String,
}

/// Makes and opens media by their paths. (Emulated memory without a path, and NUMA nodes, are not asked for here.)
pub trait MediaSource {
    /// Byte-addressable media.
    type Region: ByteRegion;
    /// Block media.
    type Block: BlockDevice;
    /// Whether stores on these media can have any index. An engine is compiled anew for each kind of media and index: with the
    /// default index alone that takes a third of the time and of the program.
    const EVERY_INDEX: bool = true;

    /// Makes and maps a file of `len` bytes that reads as zeros; a device is mapped as it is.
    ///
    /// # Errors
    /// As [`MappedRegion::create`].
    fn create_region(
        &self,
        path: &Path,
        len: u64,
        options: &MapOptions,
    ) -> Result<FoundRegion<Self::Region>, MapError>;

    /// Maps a file or device in full.
    ///
    /// # Errors
    /// As [`MappedRegion::open`].
    fn open_region(&self, path: &Path, options: &MapOptions) -> Result<FoundRegion<Self::Region>, MapError>;

    /// Makes a file of `len` bytes that reads as zeros.
    ///
    /// # Errors
    /// As [`BlockFile::create`].
    fn create_block(&self, path: &Path, len: u64, options: &BlockFileOptions) -> io::Result<()>;

    /// Opens a file at the size it has.
    ///
    /// # Errors
    /// As [`BlockFile::open`].
    fn open_block(&self, path: &Path, options: &BlockFileOptions) -> io::Result<FoundBlock<Self::Block>>;
}

/// The system's media: what [`open`](crate::open) uses.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemMedia;

impl MediaSource for SystemMedia {
    type Region = MappedRegion;
    type Block = BlockFile;

    fn create_region(
        &self,
        path: &Path,
        len: u64,
        options: &MapOptions,
    ) -> Result<FoundRegion<MappedRegion>, MapError> {
        MappedRegion::create(path, len, options).map(found)
    }
    fn open_region(&self, path: &Path, options: &MapOptions) -> Result<FoundRegion<MappedRegion>, MapError> {
        MappedRegion::open(path, options).map(found)
    }
    fn create_block(&self, path: &Path, len: u64, options: &BlockFileOptions) -> io::Result<()> {
        BlockFile::create(path, len, options).map(drop)
    }
    fn open_block(&self, path: &Path, options: &BlockFileOptions) -> io::Result<FoundBlock<BlockFile>> {
        let device = BlockFile::open(path, options)?;
        Ok(FoundBlock { description: device.describe(), device: Arc::new(device) })
    }
}

fn found(region: MappedRegion) -> FoundRegion<MappedRegion> {
    let (description, promises) = (region.describe(), region.promises());
    FoundRegion { region: Arc::new(region), description, promises }
}
