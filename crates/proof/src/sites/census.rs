//! Every call in the source that makes something durable, by name: its file, the function that decided, and what it calls.
//!
//! Line numbers move with every edit, so a site's name has none: where a function makes the same call several times they
//! are numbered in order. What is `#[track_caller]` is a seam; the sites are the lines that call it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context;

/// Where the sites of each engine are looked for.
const CRATES: &[(&str, &[&str])] = &[
    ("hetermm", &["log", "engine", "blocks", "space-hybrid-log"]),
    ("tac", &["log", "engine", "blocks", "pmem-slots", "space-slab"]),
    ("heap-hybrid", &["engine", "space-heap"]),
    ("heap-object", &["engine", "space-heap"]),
    ("heap-persistent", &["engine", "space-heap"]),
    ("scmkv", &["log", "engine", "space-scm-log"]),
    ("bonsai", &["log", "engine", "space-scm-log"]),
];

/// What of these crates is another engine's alone: names of sites that begin like this.
const OF_OTHERS: &[(&str, &str)] = &[
    ("scmkv", "space-scm-log/nodes/"),
    ("bonsai", "space-scm-log/absent.rs"),
    ("bonsai", "space-scm-log/chains.rs"),
    ("bonsai", "space-scm-log/repair.rs"),
    ("bonsai", "space-scm-log/table.rs"),
];

/// What a call must look like, and the name that the compiler reports it under.
const CALLS: &[(&str, &str)] = &[
    ("device.append(", "append"),
    (".overwrite(", "overwrite"),
    ("write_super(", "write_super"),
    (".sync()", "sync"),
    ("::sync(", "sync"),
    (".clear_words(", "clear_words"),
    (".secure(", "secure"),
    (".save_manifest(", "save_manifest"),
    ("lower.write(", "write"),
    ("lower.resize(", "resize"),
    ("region.resize(", "resize"),
    ("store_copies(", "save_manifest"),
    (".write_nt(", "write_nt"),
    (".flush(self", "flush"),
    ("region.flush(", "flush"),
    (".fence()", "fence"),
    (".store_word(", "store_word"),
    ("pages.begin(", "begin"),
    ("pages.change(", "change"),
    ("pages.leave(", "leave"),
    ("pages.save(", "save"),
    (".store_kind(", "store_kind"),
    (".save_page_line(", "save_page_line"),
    (".save_root(", "save_root"),
    ("nodes.commit(", "commit"),
    (".uncommit(", "uncommit"),
    (".end_with(", "end_with"),
    (".unend(", "unend"),
    (".store_end(", "store_end"),
];

/// One call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Call {
    /// The file, from the workspace's root.
    pub file: String,
    /// Counted from 1.
    pub line: u32,
    /// Where the compiler says that a call is: a method at its name, any other at the start of its path. Counted from 1.
    pub column: u32,
    /// `crate/file.rs function call`, with a number where that is not unique.
    pub name: String,
}

/// All calls of an engine's crates that make bytes durable.
///
/// # Errors
/// If the source can't be read.
pub fn census(root: &Path, engine: &str) -> anyhow::Result<Vec<Call>> {
    let mut calls = Vec::new();
    for krate in CRATES.iter().filter(|(name, _)| *name == engine).flat_map(|(_, crates)| *crates) {
        let folder = root.join("crates").join(krate).join("src");
        let mut files = Vec::new();
        list(&folder, &mut files).with_context(|| format!("reading {}", folder.display()))?;
        files.sort();
        for path in files {
            let text = fs::read_to_string(&path)?;
            let inner = path.strip_prefix(&folder)?.display().to_string();
            calls.extend(in_file(&format!("crates/{krate}/src/{inner}"), &format!("{krate}/{inner}"), &text));
        }
    }
    let of_others =
        |call: &Call| OF_OTHERS.iter().any(|(of, start)| *of == engine && call.name.starts_with(start));
    calls.retain(|call| !of_others(call));
    Ok(calls)
}

fn list(folder: &Path, files: &mut Vec<std::path::PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            // Kernels and their fake media, for tests alone; so are files of this name.
            if !path.ends_with("schedules") {
                list(&path, files)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tests.rs") {
            files.push(path);
        }
    }
    Ok(())
}

fn in_file(file: &str, short: &str, text: &str) -> Vec<Call> {
    let mut found: Vec<(String, &str, (u32, u32))> = Vec::new();
    let (mut function, mut seam, mut attribute) = (String::new(), false, false);
    for (number, line) in text.lines().enumerate() {
        let code = line.trim_start();
        if code.starts_with("#[cfg(test)]") {
            break;
        }
        if code.starts_with("//") {
            continue;
        }
        attribute |= code.starts_with("#[track_caller]");
        if let Some(name) = function_name(code) {
            (function, seam, attribute) = (name, attribute, false);
            continue;
        }
        if seam {
            continue;
        }
        let mut columns: Vec<(u32, &str)> = Vec::new();
        for (pattern, callee) in CALLS {
            let places = line.match_indices(pattern);
            columns.extend(places.map(|(at, _)| (column(line, at + pattern.len()), *callee)));
        }
        columns.sort_unstable();
        // What two patterns know is one call.
        columns.dedup();
        let place = |column| (number as u32 + 1, column);
        found.extend(columns.into_iter().map(|(column, callee)| (function.clone(), callee, place(column))));
    }
    let mut count: BTreeMap<(String, &str), u32> = BTreeMap::new();
    for (function, callee, _) in &found {
        *count.entry((function.clone(), callee)).or_default() += 1;
    }
    let mut seen: BTreeMap<(String, &str), u32> = BTreeMap::new();
    let mut calls = Vec::new();
    for (function, callee, (line, column)) in found {
        let key = (function.clone(), callee);
        let nth = seen.entry(key.clone()).or_default();
        *nth += 1;
        let number = if count[&key] > 1 { format!(" {nth}") } else { String::new() };
        let name = format!("{short} {function} {callee}{number}");
        calls.push(Call { file: file.into(), line, column, name });
    }
    calls
}

/// The name of the function that a line begins, if it does.
fn function_name(code: &str) -> Option<String> {
    let before = code.find("fn ")?;
    let visible = |word: &str| word.starts_with("pub") || matches!(word, "const" | "unsafe" | "async");
    code[..before].split_whitespace().all(visible).then_some(())?;
    let name: String = code[before + 3..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    (!name.is_empty()).then_some(name)
}

/// The column that the compiler gives for a call whose arguments begin at or before `end`.
fn column(line: &str, end: usize) -> u32 {
    let open = line[..end].rfind('(').unwrap_or(end);
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let start = line[..open].rfind(|c: char| !word(c)).map_or(0, |at| at + 1);
    let is_path = line[..start].ends_with("::");
    let path = line[..open].rfind(|c: char| !word(c) && c != ':').map_or(0, |at| at + 1);
    (if is_path { path } else { start }) as u32 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_named_and_seams_are_not_sites() {
        let text = "
impl Log {
    fn create(&self) {
        // device.sync() in a comment
        self.device.append(1); self.device.sync();
        self.device.sync();
        self.region.flush(self.base, 8)
    }
    #[track_caller]
    pub(crate) fn sync(&self) {
        self.device.sync()
    }
}
#[cfg(test)]
mod tests {
    fn f() { self.device.sync() }
}
";
        let names: Vec<_> =
            in_file("f.rs", "log/f.rs", text).into_iter().map(|call| (call.line, call.name)).collect();
        let expected = [
            (5, "log/f.rs create append"),
            (5, "log/f.rs create sync 1"),
            (6, "log/f.rs create sync 2"),
            (7, "log/f.rs create flush"),
        ];
        assert_eq!(names, expected.map(|(line, name)| (line, name.to_string())));
    }

    #[test]
    fn columns_are_the_compilers() {
        let at = |line: &str, pattern: &str| column(line, line.find(pattern).unwrap() + pattern.len());
        assert_eq!(at("        self.device.sync()?;", ".sync()"), 21);
        assert_eq!(at("  if a::Space::sync(self).is_err() {", "::sync("), 6);
        assert_eq!(at("    write_super(&device, 0)", "write_super("), 5);
        assert_eq!(at("    self.device.append(a(b), 1)", "device.append("), 17);
    }
}
