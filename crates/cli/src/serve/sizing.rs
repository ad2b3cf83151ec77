//! Sizes that nobody gave: from the machine, its control group and the disk.

use std::path::{Path, PathBuf};

use anyhow::Context;
use terrace::{Options, Place, Tier, TierSpec, defaults, human_bytes};
use terrace_media::Machine;

use super::settings::Settings;
use super::tiers;

/// What the store is opened with, and what that rests on.
pub struct Sized {
    /// For [`terrace::open`].
    pub options: Options,
    /// What was found, a line each, for people.
    pub found: Vec<String>,
}

/// Fills the sizes in.
///
/// # Errors
/// If the machine can't be examined, or has no room.
pub fn size(settings: &Settings) -> anyhow::Result<Sized> {
    let machine = Machine::detect();
    let usable = machine.usable_bytes();
    let limit = machine.cgroup_limit_bytes.filter(|limit| *limit < machine.memory_bytes);
    let limit = limit.map(|bytes| format!(", limited to {} by the control group", human_bytes(bytes)));
    let mut found =
        vec![format!("{} of memory{}", human_bytes(machine.memory_bytes), limit.unwrap_or_default())];

    let mut dram = settings.dram.map(|size| size.of(usable));
    let dram_records = settings.dram_records.map(|size| size.of(usable));
    if dram.is_none() && dram_records.is_none() {
        dram = Some(defaults::dram_bytes().context("the machine's memory is unknown; give --dram SIZE")?);
    }
    let volatile = settings.engine == "dram";
    if volatile {
        tiers::refuse_to_hide(&settings.dir)?;
    }
    // An emulated device without a place is in memory.
    let pmem_home = settings.profile.is_none().then_some(settings.dir.as_path());
    let pmem = settings.pmem.as_ref().map(|spec| tier(spec, pmem_home, usable, &mut found)).transpose()?;
    let ssd = match &settings.ssd {
        Some(spec) => Some(tier(spec, Some(&settings.dir), usable, &mut found)?),
        None if pmem.is_some() || volatile => None,
        None => Some(default_ssd(&settings.dir, dram.or(dram_records).unwrap_or(usable), &mut found)?),
    };
    let options = Options {
        engine: settings.engine.clone(),
        index: settings.index.clone(),
        placement: settings.placement,
        policy: settings.policy,
        swap: settings.swap,
        read_cache: settings.read_cache,
        heap: settings.heap,
        dir: (!volatile).then(|| settings.dir.clone()),
        dram,
        dram_records,
        pmem,
        ssd,
        profile: settings.profile.clone(),
        nodes: settings.nodes.0,
        expected_records: settings.expected_records,
        durability: settings.durability,
        when_full: settings.when_full,
        background_threads: settings.background_threads,
        threads: settings.threads,
        recovery_threads: settings.threads,
        ..Options::default()
    };
    Ok(Sized { options, found })
}

/// A tier that was asked for; a percentage is of the free space at its place (`home` where none was named), or of memory if
/// that is where it is. Of several places that is the one with the least.
fn tier(spec: &TierSpec, home: Option<&Path>, usable: u64, found: &mut Vec<String>) -> anyhow::Result<Tier> {
    let places: Vec<&Path> = match &spec.place {
        Some(place) => Place::paths(place).iter().map(PathBuf::as_path).collect(),
        None => home.into_iter().collect(),
    };
    let free = places.iter().map(|path| free_at(path, found)).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(Tier::of(spec, free.into_iter().min().unwrap_or(usable)))
}

/// What is free at a place, which is told.
fn free_at(path: &Path, found: &mut Vec<String>) -> anyhow::Result<u64> {
    let place = detect(path)?;
    let line = place.describe();
    if !found.contains(&line) {
        found.push(line);
    }
    Ok(place.free_bytes)
}

fn default_ssd(dir: &Path, dram: u64, found: &mut Vec<String>) -> anyhow::Result<Tier> {
    found.push(detect(dir)?.describe());
    Ok(defaults::ssd(dir, dram)?)
}

fn detect(path: &Path) -> anyhow::Result<terrace_media::Place> {
    terrace_media::detect(path).with_context(|| format!("can't examine {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::super::args::ServeArgs;
    use super::super::settings::gather;
    use super::*;
    use terrace::Size;
    use terrace::defaults::REMEMBERED;

    fn sized(args: ServeArgs) -> Sized {
        size(&gather(args, &|_| None).unwrap()).unwrap()
    }

    #[test]
    fn a_machine_sizes_itself_and_keeps_to_it() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("data");
        let args = || ServeArgs { dir: Some(dir.clone()), ..ServeArgs::default() };
        let first = sized(args()).options;
        let dram = first.dram.unwrap();
        assert!(dram > 0 && dram <= Machine::detect().usable_bytes() / 2);
        let ssd = first.ssd.unwrap();
        assert!(ssd.bytes > 0 && ssd.bytes <= dram * 16);
        // Whatever is free by then, the second start opens what the first one made.
        std::fs::write(dir.join(REMEMBERED), "123456\n").unwrap();
        assert_eq!(sized(args()).options.ssd.unwrap().bytes, 123_456);
    }

    #[test]
    fn without_options_it_opens_what_the_library_does() {
        let (library, serve) = (Options::default(), gather(ServeArgs::default(), &|_| None).unwrap());
        assert_eq!((&*library.engine, &*library.index), (&*serve.engine, &*serve.index));
        assert_eq!((library.durability, library.when_full), (serve.durability, serve.when_full));
        assert_eq!(serve.dir, Path::new(defaults::DIR));
    }

    #[test]
    fn what_is_given_is_taken() {
        let args = ServeArgs {
            dram_records: Some(Size::Bytes(5 << 20)),
            pmem: Some("1GiB".parse().unwrap()),
            ..ServeArgs::default()
        };
        let options = sized(args).options;
        assert_eq!((options.dram, options.dram_records), (None, Some(5 << 20)));
        assert_eq!(options.pmem.unwrap().bytes, 1 << 30);
        assert!(options.ssd.is_none(), "one lower tier is enough");
    }

    #[test]
    fn dram_alone_keeps_no_files() {
        let args = ServeArgs { engine: Some("dram".parse().unwrap()), ..ServeArgs::default() };
        let options = sized(args).options;
        assert!(options.dir.is_none() && options.ssd.is_none());
        assert_eq!(options.durability.to_string(), "none");
    }
}
