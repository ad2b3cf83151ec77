//! The table of sites.

use std::collections::BTreeMap;
use std::fmt::Write;

use terrace_engine::Durability;
use terrace_media_sim::SiteKind;
use terrace_testkit::sweep::MediaKind;

use super::census::Call;
use super::probe::{Row, mode};
use super::reasons::{REASONS, Reason};
use crate::subjects::SUBJECTS;

/// A site on a medium, in every mode.
struct Line {
    name: String,
    kind: SiteKind,
    media: MediaKind,
    /// In the order sync, batch, none, the log alone; `None` where it was not executed.
    modes: [Option<Row>; 4],
    reason: Option<&'static Reason>,
}

/// All sites and what became of them.
pub struct Report {
    engine: String,
    lines: Vec<Line>,
    /// Calls that no history reached.
    unreached: Vec<(String, Option<&'static Reason>)>,
    stale: Vec<String>,
}

pub(super) fn column(durability: Option<Durability>) -> usize {
    match durability {
        Some(Durability::Sync) => 0,
        Some(Durability::Batch(_)) => 1,
        Some(Durability::None) => 2,
        None => 3,
    }
}

impl Line {
    fn caught(&self) -> bool {
        self.modes.iter().flatten().any(|row| row.caught.is_some())
    }
    fn explained_by(&self, engine: &str, reason: &Reason) -> bool {
        reason.is_of(engine) && reason.explains(&self.name, self.kind, self.media)
    }
}

impl Report {
    pub(super) fn new(engine: &str, calls: &[Call], rows: Vec<Row>) -> Self {
        let mut lines: BTreeMap<(String, String, SiteKind), Line> = BTreeMap::new();
        for row in rows {
            let (media, durability) = row.setting;
            let line = lines.entry((media.to_string(), row.name.clone(), row.kind)).or_insert_with(|| Line {
                name: row.name.clone(),
                kind: row.kind,
                media,
                modes: [None, None, None, None],
                reason: None,
            });
            line.modes[column(durability)] = Some(row);
        }
        let mut lines: Vec<Line> = lines.into_values().collect();
        let mut used = vec![false; REASONS.len()];
        for line in lines.iter_mut().filter(|line| !line.caught()) {
            let found = REASONS.iter().position(|reason| line.explained_by(engine, reason));
            line.reason = found.map(|at| {
                used[at] = true;
                &REASONS[at]
            });
        }
        let mut unreached = Vec::new();
        for call in calls.iter().filter(|call| lines.iter().all(|line| line.name != call.name)) {
            let reason = Reason::of_call(engine, &call.name).map(|at| {
                used[at] = true;
                &REASONS[at]
            });
            unreached.push((call.name.clone(), reason));
        }
        // One for all engines is needed if the first one needs it.
        let (first, _) = SUBJECTS[0];
        let asked = |reason: &Reason| reason.is_of(engine) && (!reason.engines.is_empty() || engine == first);
        let unused = REASONS.iter().zip(&used).filter(|(reason, used)| asked(reason) && !**used);
        let stale = unused.map(|(reason, _)| reason.site.to_string()).collect();
        Self { engine: engine.into(), lines, unreached, stale }
    }

    /// What must not be so.
    pub fn problems(&self) -> Vec<String> {
        let missed = self.lines.iter().filter(|line| !line.caught() && line.reason.is_none());
        let missed = missed.map(|line| {
            let images: u64 = line.modes.iter().flatten().map(|row| row.images).sum();
            format!("not caught: {} ({}, {} media), {images} images", line.name, line.kind, line.media)
        });
        let unreached = self.unreached.iter().filter(|(_, reason)| reason.is_none());
        let unreached = unreached.map(|(name, _)| format!("no history reaches: {name}"));
        let stale =
            self.stale.iter().map(|site| format!("the reason for {site} is not needed or names no site"));
        missed.chain(unreached).chain(stale).collect()
    }

    /// One line.
    pub fn summary(&self) -> String {
        let caught = self.lines.iter().filter(|line| line.caught()).count();
        let explained = self.lines.iter().filter(|line| line.reason.is_some()).count();
        let images: u64 =
            self.lines.iter().flat_map(|line| line.modes.iter().flatten()).map(|row| row.images).sum();
        format!(
            "{} sites: {caught} caught, {explained} with a reason, {} not caught; {} calls out of reach with a reason, {} without; {images} images",
            self.lines.len(),
            self.lines.len() - caught - explained,
            self.unreached.iter().filter(|(_, reason)| reason.is_some()).count(),
            self.unreached.iter().filter(|(_, reason)| reason.is_none()).count(),
        )
    }

    /// For people, with everything that was seen.
    pub fn details(&self) -> String {
        let mut text = String::new();
        for line in &self.lines {
            let _ = writeln!(text, "{} media, {}: {}", line.media, line.kind, line.name);
            for row in line.modes.iter().flatten() {
                let verdict = match (&row.caught, line.reason) {
                    (Some(wrong), _) => format!("caught by {}", first_line(wrong)),
                    (None, Some(reason)) => format!("not caught: {}", reason.why),
                    (None, None) => "NOT CAUGHT".into(),
                };
                let _ = writeln!(
                    text,
                    "    {}: executed {}, {} images, {verdict}",
                    mode(row.setting),
                    row.executed,
                    row.images
                );
            }
        }
        text
    }

    /// The names of the document's sites: a change in these makes it stale.
    pub fn names(&self) -> Vec<String> {
        let reached =
            self.lines.iter().map(|line| format!("| `{}` | {} | {} |", line.name, line.kind, line.media));
        let unreached = self.unreached.iter().map(|(name, _)| format!("| `{name}` |"));
        reached.chain(unreached).collect()
    }

    /// The document.
    pub fn markdown(&self) -> String {
        let mut text = HEAD.replace("ENGINE", &self.engine);
        for line in &self.lines {
            let cell = |mode: &Option<Row>| match mode {
                None => "-".to_string(),
                Some(row) if row.caught.is_some() => row.images.to_string(),
                Some(row) => format!("(none in {})", row.images),
            };
            let executed: u64 = line.modes.iter().flatten().map(|row| row.executed).sum();
            let wrong = line.modes.iter().flatten().find_map(|row| row.caught.as_deref());
            let verdict = match (wrong, line.reason) {
                (Some(wrong), _) => class(wrong).to_string(),
                (None, Some(reason)) => format!("*not shown:* {}", reason.why),
                (None, None) => "**not caught**".into(),
            };
            let [sync, batch, none, log] = line.modes.each_ref().map(cell);
            let _ = writeln!(
                text,
                "| `{}` | {} | {} | {executed} | {sync} | {batch} | {none} | {log} | {verdict} |",
                line.name, line.kind, line.media
            );
        }
        if !self.unreached.is_empty() {
            text.push_str(UNREACHED);
            for (name, reason) in &self.unreached {
                let _ = writeln!(text, "| `{name}` | {} |", reason.map_or("**none**", |reason| reason.why));
            }
        }
        let _ = writeln!(text, "\n{}.", self.summary());
        text
    }
}

fn first_line(wrong: &str) -> &str {
    wrong.lines().next().unwrap_or_default()
}

/// What kind of wrong it is, without the keys and bytes that a change of the histories changes.
fn class(wrong: &str) -> &'static str {
    const CLASSES: &[(&str, &str)] = &[
        ("panicked", "the store panics or hangs"),
        ("hangs", "the store hangs"),
        ("a second recovery found", "a second recovery finds something else"),
        ("the second recovery", "the second recovery fails"),
        ("a snapshot is refused", "a snapshot is not whole"),
        ("half made", "a store half made holds records"),
        ("opening", "the store refuses to open"),
        ("Poisoned", "a record is poisoned"),
        ("counts", "the count of keys is wrong"),
        ("half there", "an atomic group is half there"),
        ("had expired", "an expired key is back"),
    ];
    let found = CLASSES.iter().find(|(text, _)| wrong.contains(text));
    found.map_or("an acknowledged operation is lost, or one that never was is there", |(_, class)| class)
}

const HEAD: &str = "# Sites of engine ENGINE

Every line of the product that makes something durable under this engine was left out in turn, as if it were missing in
the source, until a crash image showed it. A site has the name of the function that decides, and what it calls there; a
*stream* is a store around the cache, which counts as flushed. `cargo xtask sites --engine ENGINE --write` makes
this page, and a test checks that it lists the sites of the source. `docs/recovery.md` says how the images are made
and judged.

The numbers are images that were judged without the site until the first wrong one, in histories of seeds 0, 1, 2... and
a few scripted ones (`log_again`, `space_again` in the proof); `-`: histories of that mode don't come by.

Not in the table: the syncs inside of the media crate (`fdatasync` and its kind are taken at their word here; sick
devices and power cuts of real processes test those), and the superblock that the command writes when it makes a store.

| site | does | media | executed | `sync` | `batch` | `none` | log alone | without it |
|---|---|---|---|---|---|---|---|---|
";

const UNREACHED: &str = "
## Out of the histories' reach

| site | why |
|---|---|
";
