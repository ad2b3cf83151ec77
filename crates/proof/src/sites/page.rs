//! The page of an engine's sites, read again: every site is left out in the setting where the page says that it shows with
//! the fewest images. That takes a fiftieth of the whole search, so that each run of the tests can have it.
//!
//! What the page says can't be shown is not looked for; the whole search does that (`cargo xtask sites --check`).

use std::collections::BTreeSet;

use anyhow::{Context, anyhow};
use terrace_media_sim::SiteKind;
use terrace_testkit::sweep::MediaKind;

use super::census::{Call, census};
use super::probe::{self, Effort, Key, RESIZED, Row, SETTINGS, Setting, needs_resizing};
use super::reasons::{REASONS, Reason};
use super::table::column;
use super::{document, root};
use crate::subjects::SUBJECTS;

/// What the page says of a site on a medium.
struct Listed {
    key: Key,
    media: MediaKind,
    /// The column with the fewest images; `None` if it is not shown in any.
    soonest: Option<usize>,
}

/// A page.
#[derive(Default)]
struct Page {
    sites: Vec<Listed>,
    /// Names of calls that no history reaches.
    unreached: BTreeSet<String>,
}

/// What a search by the page found.
pub struct Again {
    /// Sites that were looked for.
    pub sites: usize,
    /// Images that were judged.
    pub images: u64,
    /// What must not be so.
    pub problems: Vec<String>,
}

/// The columns of images.
const COLUMNS: std::ops::Range<usize> = 4..8;
const KINDS: [SiteKind; 6] =
    [SiteKind::Store, SiteKind::Stream, SiteKind::Flush, SiteKind::Fence, SiteKind::Write, SiteKind::Sync];

impl Page {
    fn read(text: &str) -> anyhow::Result<Self> {
        let mut page = Self::default();
        for line in text.lines().filter(|line| line.starts_with("| `")) {
            let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
            let name = cells[0].trim_matches('`').to_string();
            if cells.len() < COLUMNS.end {
                page.unreached.insert(name);
                continue;
            }
            let kind = KINDS.into_iter().find(|kind| kind.to_string() == cells[1]);
            let media =
                SETTINGS.into_iter().map(|(media, _)| media).find(|media| media.to_string() == cells[2]);
            let (Some(kind), Some(media)) = (kind, media) else {
                return Err(anyhow!("a line of no known kind or media: {line}"));
            };
            let images = |column: usize| cells[COLUMNS.start + column].parse::<u64>().ok();
            let soonest = (0..COLUMNS.len()).filter_map(|column| Some((images(column)?, column))).min();
            page.sites.push(Listed { key: (name, kind), media, soonest: soonest.map(|(_, column)| column) });
        }
        Ok(page)
    }

    /// How the page differs from the source, and from what is explained.
    fn differences(&self, engine: &str, calls: &[Call]) -> Vec<String> {
        let names = self.sites.iter().map(|site| &site.key.0).chain(&self.unreached);
        let on_page: BTreeSet<&str> = names.map(String::as_str).collect();
        let in_source: BTreeSet<&str> = calls.iter().map(|call| call.name.as_str()).collect();
        let new = in_source.difference(&on_page).map(|name| format!("not on the page: {name}"));
        let gone = on_page.difference(&in_source).map(|name| format!("on the page, and gone: {name}"));
        let explained = |name: &str| REASONS.iter().any(|reason| reason.is_of(engine) && reason.site == name);
        let not_shown = self.sites.iter().filter(|site| site.soonest.is_none()).map(|site| &site.key.0);
        let not_shown = not_shown.filter(|name| !explained(name));
        let unreached = self.unreached.iter().filter(|name| Reason::of_call(engine, name).is_none());
        let bare = not_shown.chain(unreached);
        new.chain(gone).chain(bare.map(|name| format!("neither shown nor explained: {name}"))).collect()
    }

    /// Of stores on both media the page has what neither reaches alone.
    fn lists(&self, row: &Row) -> bool {
        let media = |site: &Listed| site.media == row.setting.0 || row.setting.0 == MediaKind::Tiered;
        self.sites.iter().any(|site| site.key.0 == row.name && site.key.1 == row.kind && media(site))
    }
}

/// Leaves out every site of an engine's page where it shows soonest; what is not caught there is looked for everywhere.
///
/// The log alone is the same under every engine: what shows there is looked for with the first one.
///
/// # Errors
/// If the engine is unknown, the source or the page can't be read, or a history fails with every site in its place.
pub fn search_again(engine: &str, effort: Effort) -> anyhow::Result<Again> {
    let path = document(engine);
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let page = Page::read(&text).with_context(|| format!("reading {}", path.display()))?;
    let calls = census(&root(), engine)?;
    let mut problems = page.differences(engine, &calls);
    let subject = crate::subjects::by_name(engine).map_err(anyhow::Error::msg)?;
    let settings: Vec<Setting> = SETTINGS.into_iter().filter(|setting| subject.takes(setting.0)).collect();

    let first = engine == SUBJECTS[0].0;
    let shown = page.sites.iter().filter(|site| site.soonest.is_some());
    let mut left: Vec<&Listed> = shown.filter(|site| first || site.soonest != Some(column(None))).collect();
    let (sites, mut images) = (left.len(), 0);
    let resized = crate::subjects::resized(engine);
    let resizing = resized.into_iter().flat_map(|engine| RESIZED.map(|setting| (engine, setting, true)));
    let passes = [false, true]
        .into_iter()
        .flat_map(|anywhere| settings.iter().map(move |&setting| (engine, setting, anywhere)));
    for (engine, setting, anywhere) in passes.chain(resizing) {
        let resizes = Some(engine) == resized;
        let here = |site: &&Listed| {
            let there = anywhere || site.soonest == Some(column(setting.1));
            site.media == setting.0 && there && needs_resizing(&site.key.0) == resizes
        };
        let wanted: BTreeSet<Key> = left.iter().copied().filter(here).map(|site| site.key.clone()).collect();
        if wanted.is_empty() {
            continue;
        }
        let rows = probe::probe(engine, setting, effort, (&calls, &[], Some(&wanted)), &mut |_| {})?;
        images += rows.iter().map(|row| row.images).sum::<u64>();
        let unknown = rows.iter().filter(|row| !page.lists(row));
        problems.extend(
            unknown
                .map(|row| format!("not on the page: {} ({}, {} media)", row.name, row.kind, row.setting.0)),
        );
        let caught: BTreeSet<Key> =
            rows.into_iter().filter(|row| row.caught.is_some()).map(|row| (row.name, row.kind)).collect();
        left.retain(|site| site.media != setting.0 || !caught.contains(&site.key));
    }
    let missed = left
        .iter()
        .map(|Listed { key: (name, kind), media, .. }| format!("not caught: {name} ({kind}, {media} media)"));
    problems.extend(missed);
    problems.sort();
    problems.dedup();
    Ok(Again { sites, images, problems })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_says_where_a_site_shows_soonest() {
        let text = "
| site | does | media | executed | `sync` | `batch` | `none` | log alone | without it |
|---|---|---|---|---|---|---|---|---|
| `log/open.rs open sync` | sync | block | 9 | 30 | (none in 4) | 12 | - | lost |
| `log/open.rs erase sync` | sync | byte | 9 | (none in 30) | - | - | - | *not shown:* why |

| site | why |
|---|---|
| `engine/a.rs b sync` | why |
";
        let page = Page::read(text).unwrap();
        let soonest: Vec<_> = page.sites.iter().map(|site| (site.media, site.soonest)).collect();
        assert_eq!(soonest, [(MediaKind::Block, Some(2)), (MediaKind::Byte, None)]);
        assert!(page.unreached.contains("engine/a.rs b sync"));
        let call = |name: &str| Call { file: "f".into(), line: 1, column: 1, name: name.into() };
        let differences =
            page.differences("hetermm", &[call("log/open.rs open sync"), call("log/new.rs new sync")]);
        assert!(differences.iter().any(|text| text.contains("not on the page: log/new.rs new sync")));
        assert!(differences.iter().any(|text| text.contains("gone: log/open.rs erase sync")));
        assert!(differences.iter().any(|text| text.contains("explained: engine/a.rs b sync")));
    }
}
