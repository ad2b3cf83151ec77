//! From the files that a dead server leaves to the image that it starts on next.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use terrace_media_sim::Rng;
use terrace_media_sim::shadow::{Grain, Style, merge};
use terrace_testkit::sweep::MediaKind;

/// Where media of one kind are, and what of them is lost or kept as one.
#[derive(Clone, Copy, Debug)]
pub struct Held<'a> {
    dir: &'a Path,
    grain: Grain,
}

/// A store's directories: its own, and, on both kinds of media, the one of the memory.
pub fn held<'a>(media: MediaKind, dir: &'a Path, memory: &'a Path) -> Vec<Held<'a>> {
    match media {
        MediaKind::Byte => vec![Held { dir, grain: Grain::Word }],
        MediaKind::Block => vec![Held { dir, grain: Grain::Sector }],
        MediaKind::Tiered => {
            vec![Held { dir, grain: Grain::Sector }, Held { dir: memory, grain: Grain::Word }]
        }
    }
}

/// What a cut made of.
#[derive(Clone, Debug)]
pub struct Cut {
    /// Of each medium, in the order of their names.
    pub styles: Vec<Style>,
    /// Words or sectors in which the views differed.
    pub units: u64,
    /// Lines or pages with such.
    pub groups: u64,
}

/// Makes an image of every medium in the directories and its shadow in `shadows`; then both hold it. A copy goes to `images`,
/// for whoever has to find out what recovery made wrong of it.
pub fn cut(store: &[Held<'_>], shadows: &Path, images: &Path, seed: u64) -> anyhow::Result<Cut> {
    let mut rng = Rng::new(seed);
    let of_all = Style::any(&mut rng);
    let mut cut = Cut { styles: Vec::new(), units: 0, groups: 0 };
    for kept in files(shadows)? {
        let Some(name) = kept.file_name() else { continue };
        let there =
            store.iter().map(|held| (held.dir.join(name), held.grain)).find(|(live, _)| live.exists());
        let Some((live, grain)) = there else {
            // The medium itself was never made.
            std::fs::remove_file(&kept)?;
            continue;
        };
        let (mut written, mut durable) = (std::fs::read(&live)?, std::fs::read(&kept)?);
        if written.len() != durable.len() {
            // It was being made, and nothing had been stored into it.
            continue;
        }
        // One medium may have kept all that another lost.
        let style = if cut.styles.is_empty() || rng.one_in(2) { of_all } else { Style::any(&mut rng) };
        let merged = merge(&mut written, &mut durable, grain, style, &mut rng);
        cut.styles.push(style);
        cut.units += merged.units;
        cut.groups += merged.groups;
        for path in [&live, &kept] {
            let file = OpenOptions::new().write(true).open(path)?;
            for range in &merged.changed {
                file.write_all_at(&written[range.clone()], range.start as u64)?;
            }
        }
        std::fs::write(images.join(name), &written)?;
    }
    // What was being made and has no name yet may hold anything.
    for held in store {
        for path in files(held.dir)? {
            if path.extension().is_some_and(|extension| extension == "new") && rng.one_in(2) {
                tear(&path)?;
            }
        }
    }
    Ok(cut)
}

/// What is in a directory, always in the same order.
fn files(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(dir).with_context(|| format!("reading {}", dir.display()))?;
    let mut paths = entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

/// Cuts a file to half its length.
fn tear(path: &Path) -> io::Result<()> {
    let file: File = OpenOptions::new().write(true).open(path)?;
    file.set_len(file.metadata()?.len() / 2)
}
