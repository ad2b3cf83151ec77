//! Where a store's tiers are: its directory remembers it, so that a flag that is left out opens no empty store beside the real one.
//!
//! ```text
//!   DIR/tiers    ssd = "64GiB@/mnt/nvme0/terrace"      of each tier that was given a place of its own
//!                pmem = "8GiB@/mnt/pmem0/terrace"
//! ```
//!
//! # Invariants
//! - A tier that is remembered and was not given is taken from there; one that was given without its place takes the place.
//! - A place that is given instead must hold a store: then the store was moved, and the new place is remembered.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};
use terrace::{Place, TierSpec};

use super::shown;

/// The file in a store's directory.
const FILE: &str = "tiers";

#[derive(Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Remembered {
    #[serde(skip_serializing_if = "Option::is_none")]
    pmem: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ssd: Option<String>,
}

/// The tiers of a store, as given and as remembered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tiers {
    pub pmem: Option<TierSpec>,
    pub ssd: Option<TierSpec>,
}

/// Adds what the directory remembers to what was given.
///
/// # Errors
/// If the file can't be read or makes no sense, or if a place was given that would hide the store that is there.
pub fn complete(dir: &Path, given: Tiers) -> anyhow::Result<Tiers> {
    let known = read(dir)?;
    let pmem = one("pmem", dir, given.pmem, known.pmem)?;
    let ssd = one("ssd", dir, given.ssd, known.ssd)?;
    if let Some(place) = ssd.as_ref().and_then(|spec| paths_of(spec).first()) {
        let beside = place != dir && !terrace::store_files(dir)?.is_empty() && !holds_store(place);
        // A store on both kinds of media keeps its files in the directory of its SSD.
        anyhow::ensure!(
            !beside,
            "{} holds a store, and {} none: --ssd without the place opens it; for a new store give another --dir",
            dir.display(),
            place.display()
        );
    }
    Ok(Tiers { pmem, ssd })
}

fn one(
    name: &str,
    dir: &Path,
    given: Option<TierSpec>,
    known: Option<TierSpec>,
) -> anyhow::Result<Option<TierSpec>> {
    let Some(known) = known else { return Ok(given) };
    let Some(given) = given else { return Ok(Some(known)) };
    let Some(place) = &given.place else { return Ok(Some(TierSpec { place: known.place, ..given })) };
    let (old, new) = (paths_of(&known), place.paths());
    if given.place == known.place || old.is_empty() {
        return Ok(Some(given));
    }
    // Of memory on several devices any may be where it was, and any other one must be the store's.
    let expected = old.iter().find_map(|old| terrace::stored_identity(old));
    let expected = expected.or_else(|| terrace::stored_identity(dir));
    let listed = shown::places(old);
    for new in new {
        anyhow::ensure!(
            old.contains(&std::path::absolute(new)?) || holds_store(new),
            "the store of {dir} has its {name} at {listed}, and {new} holds no store: leave the place out to open it; if the store \
             was moved, put its files there first; for a new store give another --dir",
            dir = dir.display(),
            new = new.display()
        );
        let found = terrace::stored_identity(new);
        anyhow::ensure!(
            expected.is_none() || found.is_none() || expected == found,
            "the store of {dir} has its {name} at {listed}, and {new} is another store's: leave the place out to open it; for the \
             other store give its own --dir",
            dir = dir.display(),
            new = new.display()
        );
    }
    Ok(Some(given))
}

/// Where the files of a directory's store are, if it only remembers them: those of the SSD if there are any, else the memory, on each of
/// its devices.
///
/// # Errors
/// As [`complete`], of what the directory remembers.
pub fn store_of(dir: &Path) -> anyhow::Result<Option<Vec<PathBuf>>> {
    if holds_store(dir) || !dir.is_dir() || !terrace::store_files(dir)?.is_empty() {
        return Ok(None);
    }
    let known = read(dir)?;
    let mut places = known.ssd.iter().chain(&known.pmem).map(paths_of);
    Ok(places.find(|places| !places.is_empty()).map(<[PathBuf]>::to_vec))
}

/// Remembers the places of an open store's tiers, durably.
///
/// # Errors
/// If the file can't be written.
pub fn remember(dir: &Path, tiers: &Tiers) -> anyhow::Result<()> {
    let text = |spec: &Option<TierSpec>| -> anyhow::Result<Option<String>> {
        let Some(spec) = spec.as_ref().filter(|spec| !paths_of(spec).is_empty()) else { return Ok(None) };
        let mut paths = paths_of(spec).iter().map(std::path::absolute).collect::<Result<Vec<_>, _>>()?;
        let place = match paths.len() {
            1 => Place::Path(paths.remove(0)),
            _ => Place::Striped(paths),
        };
        Ok(Some(shown::tier(&TierSpec { place: Some(place), ..spec.clone() })))
    };
    let remembered = Remembered { pmem: text(&tiers.pmem)?, ssd: text(&tiers.ssd)? };
    if remembered == Remembered::default() {
        return Ok(());
    }
    let path = dir.join(FILE);
    let text = toml::to_string(&remembered)?;
    if std::fs::read_to_string(&path).is_ok_and(|there| there == text) {
        return Ok(());
    }
    write_whole(dir, &path, &text).with_context(|| format!("can't write {}", path.display()))
}

fn write_whole(dir: &Path, path: &Path, text: &str) -> std::io::Result<()> {
    std::fs::create_dir_all(dir)?;
    let unfinished: PathBuf = path.with_extension("new");
    let mut file = std::fs::File::create(&unfinished)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&unfinished, path)?;
    std::fs::File::open(dir)?.sync_all()
}

/// An engine that keeps nothing must not hide a store.
///
/// # Errors
/// If there is one.
pub fn refuse_to_hide(dir: &Path) -> anyhow::Result<()> {
    let mut found = terrace::store_files(dir).with_context(|| format!("can't look at {}", dir.display()))?;
    if dir.join(FILE).exists() {
        found.push(FILE);
    }
    anyhow::ensure!(
        found.is_empty(),
        "{} holds a store ({}), which --engine dram would not open but hide: leave --engine out to open it, or give another --dir",
        dir.display(),
        found.join(", ")
    );
    Ok(())
}

fn read(dir: &Path) -> anyhow::Result<Tiers> {
    let path = dir.join(FILE);
    let text = match std::fs::read_to_string(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Tiers::default()),
        read => read.with_context(|| format!("can't read {}", path.display()))?,
    };
    // It is never written without a place: what is empty was cut.
    anyhow::ensure!(
        !text.trim_matches(['\0', ' ', '\n']).is_empty(),
        "{} says where tiers are, and is empty: give them (--ssd SIZE@PATH, --pmem SIZE@PATH) in place of it, and remove it",
        path.display()
    );
    let parsed: Remembered = toml::from_str(&text).with_context(|| {
        format!("{} says where tiers are, and makes no sense: correct it", path.display())
    })?;
    let spec = |text: Option<String>| -> anyhow::Result<Option<TierSpec>> {
        text.map(|text| text.parse().map_err(|why| anyhow::anyhow!("{}: {why}", path.display()))).transpose()
    };
    Ok(Tiers { pmem: spec(parsed.pmem)?, ssd: spec(parsed.ssd)? })
}

fn paths_of(spec: &TierSpec) -> &[PathBuf] {
    spec.place.as_ref().map_or(&[], Place::paths)
}

fn holds_store(place: &Path) -> bool {
    terrace::stored_engine(place).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_is_another_stores_is_refused_by_its_name() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        for name in ["one", "other"] {
            let options = terrace::Options {
                dir: Some(at(name)),
                dram_records: Some(4 << 20),
                ssd: Some(terrace::Tier { bytes: 32 << 20, place: None }),
                ..terrace::Options::default()
            };
            terrace::open(options).unwrap().close().unwrap();
        }
        let (dir, of) = (at("dir"), |name: &str| tiers(None, Some(&format!("32MiB@{}", at(name).display()))));
        std::fs::create_dir(&dir).unwrap();
        remember(&dir, &of("one")).unwrap();
        let refused = complete(&dir, of("other")).unwrap_err().to_string();
        assert!(refused.contains("is another store's") && refused.contains("/other"), "{refused}");
        // It may be moved, and then it is the same one elsewhere.
        std::fs::rename(at("one"), at("moved")).unwrap();
        assert_eq!(complete(&dir, of("moved")).unwrap(), of("moved"));
    }

    fn tiers(pmem: Option<&str>, ssd: Option<&str>) -> Tiers {
        let spec = |text: &str| text.parse().unwrap();
        Tiers { pmem: pmem.map(spec), ssd: ssd.map(spec) }
    }

    #[test]
    fn places_of_striped_memory_are_remembered_together() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path();
        let striped = "1GiB@/a/one,1GiB@/b/two";
        remember(dir, &tiers(Some(striped), None)).unwrap();
        assert_eq!(complete(dir, Tiers::default()).unwrap(), tiers(Some(striped), None));
        assert_eq!(
            complete(dir, tiers(Some("2GiB"), None)).unwrap(),
            tiers(Some("2GiB@/a/one,2GiB@/b/two"), None)
        );
        let turned = || tiers(Some("1GiB@/b/two,1GiB@/a/one"), None);
        assert_eq!(complete(dir, turned()).unwrap(), turned(), "the store knows their order");
        let refused = complete(dir, tiers(Some("1GiB@/a/one,1GiB@/c"), None)).unwrap_err().to_string();
        assert!(refused.contains("/a/one, /b/two, and /c holds no store"), "{refused}");
        assert_eq!(store_of(dir).unwrap().unwrap(), [Path::new("/a/one"), Path::new("/b/two")]);
    }

    #[test]
    fn a_place_that_is_left_out_is_remembered() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let none = complete(dir, Tiers::default()).unwrap();
        assert_eq!(none, Tiers::default());
        remember(dir, &tiers(None, Some("1GiB"))).unwrap();
        assert!(!dir.join(FILE).exists(), "a tier in the directory itself needs no remembering");
        remember(dir, &tiers(Some("1GiB@/a/pmem"), Some("8GiB@/b/ssd"))).unwrap();
        assert_eq!(
            complete(dir, Tiers::default()).unwrap(),
            tiers(Some("1GiB@/a/pmem"), Some("8GiB@/b/ssd"))
        );
        let completed = complete(dir, tiers(None, Some("9GiB"))).unwrap();
        assert_eq!(completed, tiers(Some("1GiB@/a/pmem"), Some("9GiB@/b/ssd")));
        let refused = complete(dir, tiers(None, Some("9GiB@/c"))).unwrap_err().to_string();
        assert!(refused.contains("/b/ssd") && refused.contains("another --dir"), "{refused}");
        assert!(refuse_to_hide(dir).unwrap_err().to_string().contains("leave --engine out"));
        for cut in ["", "\0\0\0"] {
            std::fs::write(dir.join(FILE), cut).unwrap();
            let refused = complete(dir, tiers(None, None)).unwrap_err().to_string();
            assert!(refused.contains("is empty") && refused.contains("--ssd SIZE@PATH"), "{refused}");
        }
        std::fs::write(dir.join(FILE), "ssd = 7").unwrap();
        assert!(complete(dir, Tiers::default()).unwrap_err().to_string().contains("correct it"));
    }
}
