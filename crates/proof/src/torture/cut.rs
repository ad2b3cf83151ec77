//! From the files that a dead server leaves to the image that it starts on next.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::Context;
use terrace_media_sim::Rng;
use terrace_media_sim::shadow::{Grain, Style, merge};

/// What a cut made of.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    pub style: Style,
    /// Words or sectors in which the views differed.
    pub units: u64,
    /// Lines or pages with such.
    pub groups: u64,
}

/// Makes an image of every medium in `dir` and its shadow in `shadows`; then both hold it. A copy goes to `images`, for whoever
/// has to find out what recovery made wrong of it.
pub fn cut(dir: &Path, shadows: &Path, images: &Path, grain: Grain, seed: u64) -> anyhow::Result<Cut> {
    let mut rng = Rng::new(seed);
    let mut cut = Cut { style: Style::any(&mut rng), units: 0, groups: 0 };
    for entry in std::fs::read_dir(shadows).with_context(|| format!("reading {}", shadows.display()))? {
        let kept = entry?.path();
        let Some(name) = kept.file_name() else { continue };
        let live = dir.join(name);
        if !live.exists() {
            // The medium itself was never made.
            std::fs::remove_file(&kept)?;
            continue;
        }
        let (mut written, mut durable) = (std::fs::read(&live)?, std::fs::read(&kept)?);
        if written.len() != durable.len() {
            // It was being made, and nothing had been stored into it.
            continue;
        }
        let merged = merge(&mut written, &mut durable, grain, cut.style, &mut rng);
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
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "new") && rng.one_in(2) {
            tear(&path)?;
        }
    }
    Ok(cut)
}

/// Cuts a file to half its length.
fn tear(path: &Path) -> io::Result<()> {
    let file: File = OpenOptions::new().write(true).open(path)?;
    file.set_len(file.metadata()?.len() / 2)
}
