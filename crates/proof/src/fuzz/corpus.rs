//! The inputs that are kept: valid ones to begin with, and every input that ever failed.

use std::path::PathBuf;

use super::Target;

/// A file of the corpus.
#[derive(Clone, Debug)]
pub struct Input {
    /// The file's name.
    pub name: String,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// A target's inputs, by name.
///
/// # Errors
/// If the corpus can't be read.
pub fn inputs(target: &Target) -> std::io::Result<Vec<Input>> {
    let folder = folder(target);
    let mut inputs = Vec::new();
    for entry in folder.read_dir()? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        inputs.push(Input { name, bytes: std::fs::read(entry.path())? });
    }
    inputs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(inputs)
}

fn folder(target: &Target) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "corpus", target.corpus].iter().collect()
}
