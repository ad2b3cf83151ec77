//! Puts the bugs into the text of the source, each behind a choice made at run time.
//!
//! A statement becomes `if planted(7) { mutant } else { original }`, an expression the same in parentheses. Several mutants
//! of one original are chained, and an original may lie inside another one: then its mutants are in the outer's `else`.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};

use super::library::Bug;

/// Where the choice is made: in a crate that most import, in one that imports none of them, and in the one that the server imports.
const CHOOSERS: [&str; 3] = ["crates/media/", "crates/index/", "crates/engine/"];

/// One original's place, and the bugs that replace it.
struct Place<'a> {
    range: Range<usize>,
    bugs: Vec<&'a Bug>,
}

/// The files that change, with their new text.
///
/// # Errors
/// An entry whose original is not in its file exactly once, cuts through another one, or opens a bracket that it doesn't close:
/// such a mutant does not compile.
pub(super) fn rewrite(root: &Path, bugs: &[Bug]) -> anyhow::Result<BTreeMap<PathBuf, String>> {
    let mut by_file: BTreeMap<&str, Vec<&Bug>> = BTreeMap::new();
    for bug in bugs {
        by_file.entry(&bug.file).or_default().push(bug);
    }
    let mut changed = BTreeMap::new();
    for (file, bugs) in by_file {
        let text = fs::read_to_string(root.join(file)).with_context(|| format!("reading {file}"))?;
        changed.insert(PathBuf::from(file), in_file(file, &text, &bugs)?);
    }
    for folder in CHOOSERS {
        let lib = Path::new(folder).join("src/lib.rs");
        let before = match changed.remove(&lib) {
            Some(text) => text,
            None => fs::read_to_string(root.join(&lib))?,
        };
        changed.insert(lib, before + CHOICE);
    }
    Ok(changed)
}

fn in_file(file: &str, text: &str, bugs: &[&Bug]) -> anyhow::Result<String> {
    let mut places: Vec<Place<'_>> = Vec::new();
    for bug in bugs {
        for text in [&bug.original, &bug.mutant] {
            ensure!(closes(text), "{:?} in {file} opens or closes a bracket by half: {text}", bug.name);
        }
        ensure!(
            !bug.original.starts_with("let "),
            "{:?} in {file} has a whole `let` for its original, whose name would not leave the choice: give the expression",
            bug.name
        );
        let range = find(text, &bug.original).with_context(|| format!("{:?} in {file}", bug.name))?;
        match places.iter_mut().find(|place| place.range == range) {
            Some(place) => place.bugs.push(bug),
            None => places.push(Place { range, bugs: vec![bug] }),
        }
    }
    // Outer ones before those inside them.
    places.sort_by_key(|place| (place.range.start, std::cmp::Reverse(place.range.end)));
    for pair in places.windows(2) {
        let (a, b) = (&pair[0].range, &pair[1].range);
        ensure!(
            b.start >= a.end || b.end <= a.end,
            "{:?} and {:?} cut through each other in {file}",
            pair[0].bugs[0].name,
            pair[1].bugs[0].name
        );
    }
    let chooses = CHOOSERS.iter().any(|folder| file.starts_with(folder));
    let path = match chooses {
        true => "crate",
        false if file.starts_with("crates/server/") => "terrace_engine",
        false => "terrace_media",
    };
    Ok(replace(text, 0..text.len(), &places, path))
}

fn replace(text: &str, range: Range<usize>, places: &[Place<'_>], path: &str) -> String {
    let mut out = String::new();
    let (mut at, mut i) = (range.start, 0);
    while let Some(place) = places.get(i) {
        let inside = places[i + 1..].iter().take_while(|inner| inner.range.start < place.range.end).count();
        out.push_str(&text[at..place.range.start]);
        let original = replace(text, place.range.clone(), &places[i + 1..i + 1 + inside], path);
        out.push_str(&choice(&original, &text[place.range.clone()], &place.bugs, path));
        at = place.range.end;
        i += 1 + inside;
    }
    out.push_str(&text[at..range.end]);
    out
}

fn choice(original: &str, plain: &str, bugs: &[&Bug], path: &str) -> String {
    let mut chain = String::new();
    for bug in bugs {
        chain.push_str(&format!("if {path}::planted::is({}) {{ {} }} else ", bug.number, bug.mutant.trim()));
    }
    chain.push_str(&format!("{{ {original} }}"));
    // `let` would end with the branch, so its value is what an entry must name.
    if plain.trim_end().ends_with([';', '}']) { chain } else { format!("({chain})") }
}

/// Whether every bracket that it opens is closed in it.
fn closes(text: &str) -> bool {
    ["()", "[]", "{}"].iter().all(|pair| {
        let count = |side: &str| text.matches(side).count();
        count(&pair[..1]) == count(&pair[1..])
    })
}

/// Where `wanted` is, white space apart.
fn find(text: &str, wanted: &str) -> anyhow::Result<Range<usize>> {
    let words = |text: &str| -> Vec<(usize, char)> {
        text.char_indices().filter(|(_, c)| !c.is_whitespace()).collect()
    };
    let (all, part) = (words(text), words(wanted));
    ensure!(!part.is_empty(), "the original is empty");
    let same = |at: &usize| all[*at..*at + part.len()].iter().map(|(_, c)| c).eq(part.iter().map(|(_, c)| c));
    let mut found = (0..(all.len() + 1).saturating_sub(part.len())).filter(same);
    let Some(first) = found.next() else { bail!("the original is not there: {wanted}") };
    ensure!(found.next().is_none(), "the original is there more than once: {wanted}");
    let (last, c) = all[first + part.len() - 1];
    Ok(all[first].0..last + c.len_utf8())
}

const CHOICE: &str = r#"
/// Which planted bug is there: the number in `TERRACE_PLANTED`.
pub mod planted {
    use std::sync::OnceLock;

    static NUMBER: OnceLock<u32> = OnceLock::new();

    /// Whether it is this one.
    #[inline]
    pub fn is(number: u32) -> bool {
        let read = || std::env::var("TERRACE_PLANTED").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
        *NUMBER.get_or_init(read) == number
    }
}
"#;

#[cfg(test)]
mod tests {
    use super::*;

    fn bug(number: u32, original: &str, mutant: &str) -> Bug {
        Bug {
            number,
            class: String::new(),
            name: format!("bug {number}"),
            file: String::new(),
            original: original.into(),
            mutant: mutant.into(),
            why: String::new(),
            detectors: Vec::new(),
            survives: false,
        }
    }

    fn planted(text: &str, bugs: &[Bug]) -> anyhow::Result<String> {
        in_file("crates/log/src/a.rs", text, &bugs.iter().collect::<Vec<_>>())
    }

    #[test]
    fn statements_and_expressions_become_choices() {
        let text = "fn f() { sync(); let a = b\n  + 1; }";
        let bugs = [bug(1, "sync();", ""), bug(2, "b + 1", "b")];
        let expected = "fn f() { if terrace_media::planted::is(1) {  } else { sync(); } \
                        let a = (if terrace_media::planted::is(2) { b } else { b\n  + 1 }); }";
        assert_eq!(planted(text, &bugs).unwrap(), expected);
    }

    #[test]
    fn mutants_of_one_original_are_chained_and_inner_ones_stay_inside() {
        let bugs = [bug(1, "a + b", "a"), bug(2, "a + b", "b"), bug(3, "b", "c")];
        let p = "terrace_media::planted::is";
        let expected = format!(
            "x((if {p}(1) {{ a }} else if {p}(2) {{ b }} else {{ a + (if {p}(3) {{ c }} else {{ b }}) }}));"
        );
        assert_eq!(planted("x(a + b);", &bugs).unwrap(), expected);
    }

    #[test]
    fn a_crate_with_a_choice_of_its_own_asks_itself() {
        let bugs = [bug(1, "b", "c")];
        let file = "crates/index/src/clht/a.rs";
        let text = in_file(file, "f(b);", &bugs.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!(text, "f((if crate::planted::is(1) { c } else { b }));");
    }

    #[test]
    fn originals_must_be_there_once_and_whole() {
        assert!(planted("a; b;", &[bug(1, "c;", "")]).is_err());
        assert!(planted("a; a;", &[bug(1, "a;", "")]).is_err());
        assert!(planted("if a { b }", &[bug(1, "if a {", "if b {")]).is_err());
        assert!(planted("f(a)", &[bug(1, "f(a)", "f(a")]).is_err());
        assert!(planted("a b c", &[bug(1, "a b", ""), bug(2, "b c", "")]).is_err());
    }
}
