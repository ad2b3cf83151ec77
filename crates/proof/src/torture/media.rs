//! The server's media: files that it maps or writes, each with a shadow in another directory.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace::media_source::{FoundBlock, FoundRegion, MediaSource};
use terrace_media::{BlockFile, BlockFileOptions, MapError, MapOptions, MappedRegion};
use terrace_media_sim::shadow::{Outage, Sabotage, ShadowBlock, ShadowRegion};

/// Media whose shadows lie in a directory of their own, under the same names.
pub struct ShadowMedia {
    /// Where the shadows are.
    pub shadows: PathBuf,
    /// What the media leave out.
    pub sabotage: Option<Sabotage>,
    /// When they end the process.
    pub outage: Arc<Outage>,
}

impl ShadowMedia {
    fn shadow(&self, path: &Path) -> io::Result<PathBuf> {
        let name = path.file_name().ok_or_else(|| io::Error::other("a medium's path has a name"))?;
        Ok(self.shadows.join(name))
    }

    /// The path of a new shadow. It is made before what casts it, so that a medium that is there has one.
    fn new_shadow(&self, path: &Path) -> io::Result<PathBuf> {
        let shadow = self.shadow(path)?;
        if shadow.exists() {
            std::fs::remove_file(&shadow)?;
        }
        Ok(shadow)
    }

    fn cast(&self, live: MappedRegion, kept: MappedRegion) -> FoundRegion {
        let (description, promises) = (format!("{}, with a shadow", live.describe()), live.promises());
        let region = ShadowRegion::new(live, kept, self.sabotage.clone(), self.outage.clone());
        FoundRegion::new(Arc::new(region), description, promises)
    }
}

impl MediaSource for ShadowMedia {
    fn create_region(&self, path: &Path, len: u64, options: &MapOptions) -> Result<FoundRegion, MapError> {
        let shadow = self.new_shadow(path).map_err(|source| MapError::Io { path: path.into(), source })?;
        let kept = MappedRegion::create(&shadow, len, options)?;
        Ok(self.cast(MappedRegion::create(path, len, options)?, kept))
    }

    fn open_region(&self, path: &Path, options: &MapOptions) -> Result<FoundRegion, MapError> {
        let shadow = self.shadow(path).map_err(|source| MapError::Io { path: path.into(), source })?;
        let live = MappedRegion::open(path, options)?;
        Ok(self.cast(live, MappedRegion::open(&shadow, options)?))
    }

    fn create_block(&self, path: &Path, len: u64, options: &BlockFileOptions) -> io::Result<()> {
        let shadow = self.new_shadow(path)?;
        BlockFile::create(&shadow, len, &BlockFileOptions { direct: false, ..options.clone() })?;
        BlockFile::create(path, len, options).map(drop)
    }

    fn open_block(&self, path: &Path, options: &BlockFileOptions) -> io::Result<FoundBlock> {
        let live = BlockFile::open(path, options)?;
        let kept =
            BlockFile::open(&self.shadow(path)?, &BlockFileOptions { direct: false, ..options.clone() })?;
        let description = format!("{}, with a shadow", live.describe());
        let device = ShadowBlock::new(live, kept, self.sabotage.clone(), self.outage.clone());
        Ok(FoundBlock::new(device, description))
    }
}
