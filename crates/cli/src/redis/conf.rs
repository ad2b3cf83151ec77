//! Reading a redis.conf: lines of words, and the files that they include.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use terrace_server::split_words;

/// Files that include each other end here.
const DEPTH_MAX: usize = 16;

/// A line that is no comment.
#[derive(Clone, Debug, PartialEq)]
pub struct Directive {
    /// In small letters.
    pub name: String,
    pub values: Vec<String>,
    /// Where it stands.
    pub place: String,
}

impl Directive {
    /// One that the command line gives: a name, and values behind it, if they are in the same argument.
    ///
    /// # Errors
    /// If a quote is not closed.
    pub fn of_command_line(line: &str) -> Result<Self, String> {
        let words = split_words(line.as_bytes()).ok_or_else(|| format!("--{line}: a quote is not closed"))?;
        let mut words = words.into_iter().map(|word| String::from_utf8_lossy(&word).into_owned());
        let name = words.next().unwrap_or_default();
        Ok(Self { name: name.to_lowercase(), values: words.collect(), place: format!("--{name}") })
    }
}

/// Reads a file and what it includes; `-` is standard input.
///
/// # Errors
/// If one can't be read, or a line's quotes don't balance; the text says where.
pub fn read(path: &Path) -> anyhow::Result<Vec<Directive>> {
    let mut all = Vec::new();
    if path == Path::new("-") {
        let mut text = Vec::new();
        std::io::stdin().read_to_end(&mut text).context("can't read standard input")?;
        parse(&text, "standard input", 0, &mut all)?;
    } else {
        read_file(path, 0, &mut all)?;
    }
    Ok(all)
}

fn read_file(path: &Path, depth: usize, all: &mut Vec<Directive>) -> anyhow::Result<()> {
    let text = std::fs::read(path).with_context(|| format!("can't read {}", path.display()))?;
    parse(&text, &path.display().to_string(), depth, all)
}

fn parse(text: &[u8], place: &str, depth: usize, all: &mut Vec<Directive>) -> anyhow::Result<()> {
    ensure!(depth < DEPTH_MAX, "{place}: files include each other more than {DEPTH_MAX} deep");
    for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let place = format!("{place}, line {}", number + 1);
        let Some(words) = split_words(line) else { bail!("{place}: a quote is not closed") };
        let mut words = words.into_iter().map(|word| String::from_utf8_lossy(&word).into_owned());
        let Some(name) = words.next() else { continue };
        let directive = Directive { name: name.to_lowercase(), values: words.collect(), place };
        if directive.name == "include" {
            for file in included(&directive)? {
                read_file(&file, depth + 1, all).with_context(|| directive.place.clone())?;
            }
        } else {
            all.push(directive);
        }
    }
    Ok(())
}

/// The files that a directive names: of a pattern those that there are, sorted.
fn included(directive: &Directive) -> anyhow::Result<Vec<PathBuf>> {
    let [pattern] = &directive.values[..] else {
        bail!("{}: include takes one file, or a pattern such as /etc/redis/conf.d/*.conf", directive.place)
    };
    let path = Path::new(pattern);
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    if !name.contains(['*', '?', '[']) {
        return Ok(vec![path.to_owned()]);
    }
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entries = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(|| format!("{}: can't read {}", directive.place, dir.display()))?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.with_context(|| directive.place.clone())?;
        if terrace_server::glob_matches(name.as_bytes(), entry.file_name().as_encoded_bytes()) {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}
