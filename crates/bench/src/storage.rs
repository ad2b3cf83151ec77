//! Where a run's store lies: which tiers it gets, how large, and what is removed at the end.

use std::path::{Path, PathBuf};

use anyhow::Context;
use tempfile::TempDir;
use terrace::engine::Durability;
use terrace::{OpenStore, Options, Place, Size, Tier, TierSpec};
use terrace_media::{PlaceKind, detect};

use crate::{Config, record::record_bytes};

/// The share of the records that is kept in DRAM where a run does not say.
pub(crate) const DRAM_DEFAULT: Size = Size::Percent(25.0);
/// The lower tier's size where a run does not say: the records, as much again for new versions, and room for the log.
const LOWER_DEFAULT_PERCENT: f64 = 300.0;
const LOWER_DEFAULT_MIN_BYTES: u64 = 256 << 20;
/// Where temporary files outlive a restart of the system (FHS 3.0, section 5.15).
const ON_DISK: &str = "/var/tmp";
/// Engines that need no lower tier.
pub(crate) const DRAM_ONLY: &str = "dram";

/// The store's options, and the temporary directories that go when this is dropped.
pub struct Storage {
    /// What the store is opened with.
    pub options: Options,
    /// Bytes that percentages are of.
    pub data_bytes: u64,
    temporary: Vec<TempDir>,
}

impl Storage {
    /// Decides on sizes and places.
    ///
    /// # Errors
    /// If a directory can't be made.
    pub fn plan(config: &Config) -> anyhow::Result<Self> {
        let each = record_bytes(&config.engine, config.key_bytes, config.value_bytes);
        let data_bytes = each * config.records;
        let mut storage = Self { options: Options::default(), data_bytes, temporary: Vec::new() };
        storage.options = storage.options_for(config)?;
        Ok(storage)
    }

    fn options_for(&mut self, config: &Config) -> anyhow::Result<Options> {
        let of = |size: Option<Size>| size.map(|size| size.of(self.data_bytes));
        let volatile = config.engine == DRAM_ONLY;
        let (mut dram, mut dram_records) = (of(config.dram), of(config.dram_records));
        if dram.is_none() && dram_records.is_none() && !volatile {
            dram_records = of(Some(DRAM_DEFAULT));
        }
        if volatile && dram_records.take().is_some() {
            // The ceiling holds every record in DRAM whatever share the other engines are given.
            dram = None;
        }
        let (mut pmem, mut ssd) = (config.pmem.clone(), config.ssd.clone());
        if pmem.is_none() && ssd.is_none() && !volatile {
            let size = Size::Percent(LOWER_DEFAULT_PERCENT).of(self.data_bytes).max(LOWER_DEFAULT_MIN_BYTES);
            let spec = Some(TierSpec { size: Size::Bytes(size), place: None });
            if config.profile.is_some() { pmem = spec } else { ssd = spec }
        }
        let keep = config.dir.is_some();
        let pmem = pmem.map(|spec| self.tier(&spec, keep)).transpose()?;
        let ssd = ssd.map(|spec| self.tier(&spec, keep)).transpose()?;
        // An emulated device without a place is memory that ends with the process: nothing to keep, nothing to open again.
        let nowhere = |tier: &Tier| config.profile.is_some() && tier.place.is_none();
        let in_memory = ssd.is_none() && pmem.as_ref().is_none_or(nowhere);
        let dir = match &config.dir {
            Some(dir) => Some(dir.clone()),
            None if !volatile && (!in_memory || config.recover) => Some(self.directory(&scratch())?),
            None => None,
        };
        let durability = match config.durability.unwrap_or_default() {
            // One command line is to serve for both engines of a comparison; what is reported is what holds.
            Durability::Batch(_) if volatile => Durability::None,
            durability => durability,
        };
        let mut options = Options {
            engine: config.engine.clone(),
            index: config.index.clone(),
            placement: config.placement,
            policy: config.policy,
            swap: config.swap,
            read_cache: config.read_cache,
            heap: config.heap,
            dir,
            dram,
            dram_records,
            pmem,
            ssd,
            profile: config.profile.clone(),
            durability,
            recovery_threads: config.threads,
            ..Options::default()
        };
        if config.recover
            && let Some(pmem) = options.pmem.as_mut().filter(|pmem| pmem.place.is_none())
        {
            pmem.place = shared_memory().map(|path| self.directory(&path)).transpose()?.map(Place::Path);
        }
        Ok(options)
    }

    /// A tier of this specification. One that is to lie in a directory lies in a temporary one within it, unless it is kept.
    fn tier(&mut self, spec: &TierSpec, keep: bool) -> anyhow::Result<Tier> {
        let mut tier = Tier::of(spec, self.data_bytes);
        let paths = match &mut tier.place {
            Some(Place::Path(path)) => std::slice::from_mut(path),
            Some(Place::Striped(paths)) => paths,
            Some(Place::Node(_)) | None => &mut [],
        };
        for path in paths.iter_mut().filter(|path| path.is_dir() && !keep) {
            *path = self.directory(path)?;
        }
        Ok(tier)
    }

    fn directory(&mut self, within: &Path) -> anyhow::Result<PathBuf> {
        let made =
            tempfile::Builder::new().prefix("terrace-bench-").tempdir_in(within).with_context(|| {
                format!("can't make a temporary directory in {}; name one with --dir", within.display())
            })?;
        let path = made.path().to_owned();
        self.temporary.push(made);
        Ok(path)
    }

    /// Opens the store, which must be new or empty.
    ///
    /// # Errors
    /// As [`terrace::open`], and if there are records already.
    pub fn open(&self) -> anyhow::Result<OpenStore> {
        let store = self.reopen()?;
        let found = store.len_all();
        if found > 0 {
            let place = self.options.dir.as_deref().unwrap_or(Path::new("the medium")).display();
            anyhow::bail!(
                "{place} holds {found} records already; a benchmark needs an empty store: name another --dir"
            );
        }
        Ok(store)
    }

    /// Opens the store whatever it holds.
    ///
    /// # Errors
    /// As [`terrace::open`].
    pub fn reopen(&self) -> anyhow::Result<OpenStore> {
        Ok(terrace::open(self.options.clone())?)
    }

    /// Ends the store's life: saved if it is to be kept, dropped if its directories go anyway. Emulated memory
    /// without a place stays until its store is closed: the next one would find what is in it.
    ///
    /// # Errors
    /// If saving fails.
    pub fn end(self, store: OpenStore) -> anyhow::Result<()> {
        if self.options.dir.is_none() || self.temporary.is_empty() {
            store.close()?;
        } else {
            store.kill();
        }
        Ok(())
    }
}

/// Where temporary files lie on a disk. Many systems have theirs in memory, which keeps no promise of a store.
fn scratch() -> PathBuf {
    let usual = std::env::temp_dir();
    let is_disk = |dir: &PathBuf| detect(dir).is_ok_and(|place| place.kind != PlaceKind::Tmpfs);
    let all = [usual.clone(), ON_DISK.into(), ".".into()];
    all.into_iter().find(|dir| dir.is_dir() && is_disk(dir)).unwrap_or(usual)
}

/// Where a file stays in memory and can still be opened by name.
fn shared_memory() -> Option<PathBuf> {
    Some(PathBuf::from("/dev/shm")).filter(|path| path.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_of_records_with_their_headers() {
        let config = Config {
            records: 1000,
            dram_records: Some(Size::Percent(25.0)),
            pmem: Some(TierSpec { size: Size::Percent(200.0), place: None }),
            profile: Some("optane-200".into()),
            ..Config::default()
        };
        let storage = Storage::plan(&config).unwrap();
        assert_eq!(storage.data_bytes, 96_000);
        assert_eq!(storage.options.dram_records, Some(24_000));
        assert_eq!(storage.options.pmem.as_ref().unwrap().bytes, 192_000);
        assert_eq!(storage.options.dir, None, "emulated in memory, nothing is kept");
    }

    #[test]
    fn a_profile_chooses_byte_addressable_media_and_else_files() {
        let emulated = Config { profile: Some("optane-200".into()), ..Config::default() };
        let storage = Storage::plan(&emulated).unwrap();
        assert!(storage.options.pmem.is_some() && storage.options.ssd.is_none());
        let files = Storage::plan(&Config::default()).unwrap();
        assert!(files.options.ssd.is_some() && files.options.pmem.is_none());
        let dir = files.options.dir.clone().unwrap();
        assert!(dir.is_dir());
        drop(files);
        assert!(!dir.exists(), "temporary directories go");
    }

    #[test]
    fn dram_needs_no_tier_and_promises_nothing() {
        let storage = Storage::plan(&Config {
            engine: "dram".into(),
            dram_records: Some(Size::Percent(25.0)),
            ..Config::default()
        });
        let options = storage.unwrap().options;
        assert_eq!((options.dram, options.dram_records, options.dir), (None, None, None));
        assert_eq!(options.durability, Durability::None);
    }

    #[test]
    fn places_within_a_directory_are_removed() {
        let mine = tempfile::tempdir().unwrap();
        let spec = TierSpec { size: Size::Bytes(1 << 20), place: Some(Place::Path(mine.path().to_owned())) };
        let storage = Storage::plan(&Config { pmem: Some(spec), ..Config::default() }).unwrap();
        assert_eq!(std::fs::read_dir(mine.path()).unwrap().count(), 1);
        drop(storage);
        assert_eq!(std::fs::read_dir(mine.path()).unwrap().count(), 0);
    }
}
