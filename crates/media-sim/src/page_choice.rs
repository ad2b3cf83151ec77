//! The states in which a crash may leave one page.

use std::collections::BTreeSet;

use crate::replay::{SECTOR_BYTES, SECTORS};
use crate::rng::Rng;

/// Up to this many mixtures of sectors are all listed.
const ALL_MIXTURES: usize = 64;

/// For each sector the version it holds: 0 is the durable one, `n` the last of `n` unsynced.
pub(crate) type Sectors = [u16; SECTORS];

/// The listed states of a page, each with different bytes.
pub(crate) struct PageOptions {
    /// The durable page first, the newest last.
    pub(crate) listed: Vec<Sectors>,
    /// Whether these are all; else any mixture of versions is possible.
    pub(crate) complete: bool,
}

impl PageOptions {
    /// A page that was written or not, never torn.
    pub(crate) fn whole_or_nothing() -> Self {
        Self { listed: vec![[0; SECTORS], [1; SECTORS]], complete: true }
    }

    /// The states of a page with this durable content and these unsynced versions. One option alone means that all are
    /// equal.
    pub(crate) fn new(base: &[u8], versions: &[&[u8]]) -> Self {
        let newest = versions.len();
        let contents: Vec<&[u8]> = std::iter::once(base).chain(versions.iter().copied()).collect();
        // canonical[v][s]: the first version whose sector s equals version v's.
        let canonical: Vec<Sectors> = (0..=newest)
            .map(|v| {
                std::array::from_fn(|s| {
                    let sector = s * SECTOR_BYTES..(s + 1) * SECTOR_BYTES;
                    let same = |u: &usize| contents[*u][sector.clone()] == contents[v][sector.clone()];
                    (0..=v).find(same).unwrap_or(v) as u16
                })
            })
            .collect();
        let distinct: Vec<BTreeSet<u16>> =
            (0..SECTORS).map(|s| canonical.iter().map(|version| version[s]).collect()).collect();
        let mixtures = distinct.iter().try_fold(1usize, |all, sector| all.checked_mul(sector.len()));
        let complete = mixtures.is_some_and(|all| all <= ALL_MIXTURES);
        let mut states = if complete { mixtures_of(&distinct) } else { tears_of(&canonical) };
        let (first, last) = (canonical[0], canonical[newest]);
        states.remove(&first);
        states.remove(&last);
        let mut listed = vec![first];
        listed.extend(states);
        if last != first {
            listed.push(last);
        } else if listed.len() > 1 {
            // Rewritten to what it was, with other states in between: the newest is still listed last.
            listed.push(first);
        }
        Self { listed, complete }
    }
}

fn mixtures_of(distinct: &[BTreeSet<u16>]) -> BTreeSet<Sectors> {
    let mut states = BTreeSet::from([[0; SECTORS]]);
    for (s, versions) in distinct.iter().enumerate() {
        let mixed = states.iter().flat_map(|state| {
            versions.iter().map(move |version| {
                let mut state = *state;
                state[s] = *version;
                state
            })
        });
        states = mixed.collect();
    }
    states
}

/// Whole versions, and neighbours (and first with last) torn once at each sector, either side being the newer.
fn tears_of(canonical: &[Sectors]) -> BTreeSet<Sectors> {
    let mut states: BTreeSet<Sectors> = canonical.iter().copied().collect();
    let neighbours = canonical.iter().zip(canonical.iter().skip(1));
    for (old, new) in neighbours.chain(canonical.first().zip(canonical.last())) {
        for cut in 1..SECTORS {
            states.insert(std::array::from_fn(|s| if s < cut { new[s] } else { old[s] }));
            states.insert(std::array::from_fn(|s| if s < cut { old[s] } else { new[s] }));
        }
    }
    states
}

/// An unlisted mixture, the same for the same option.
pub(crate) fn wild_sectors(option: u32, versions: usize) -> Sectors {
    let mut rng = Rng::new(u64::from(option));
    std::array::from_fn(|_| rng.below(versions as u64 + 1) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_media::IO_ALIGN;

    #[test]
    fn one_changed_sector_gives_two_states() {
        let base = vec![0; IO_ALIGN];
        let mut new = base.clone();
        new[600] = 1;
        let options = PageOptions::new(&base, &[&new]);
        assert_eq!(options.listed, vec![[0; SECTORS], [0, 1, 0, 0, 0, 0, 0, 0]]);
        assert!(options.complete);
    }

    #[test]
    fn two_changed_sectors_tear_either_way() {
        let base = vec![0; IO_ALIGN];
        let mut new = base.clone();
        (new[0], new[4095]) = (1, 1);
        assert_eq!(PageOptions::new(&base, &[&new]).listed.len(), 4);
    }

    #[test]
    fn few_changed_sectors_mix_in_every_way() {
        let base = vec![0; IO_ALIGN];
        let mut new = base.clone();
        (new[0], new[1024], new[4000]) = (1, 1, 1);
        let mut options = PageOptions::new(&base, &[&new]);
        assert!(options.complete);
        assert_eq!(options.listed.last(), Some(&[1, 0, 1, 0, 0, 0, 0, 1]));
        options.listed.sort_unstable();
        options.listed.dedup();
        assert_eq!(options.listed.len(), 8);
    }

    #[test]
    fn a_fully_rewritten_page_tears_at_each_sector_and_wildly() {
        let (base, new) = (vec![0; IO_ALIGN], vec![1; IO_ALIGN]);
        let options = PageOptions::new(&base, &[&new]);
        assert_eq!(options.listed.len(), 2 + 2 * (SECTORS - 1));
        assert!(!options.complete);
        assert_eq!(options.listed.last(), Some(&[1; SECTORS]));
    }

    #[test]
    fn an_equal_rewrite_is_no_choice() {
        let base = vec![7; IO_ALIGN];
        assert_eq!(PageOptions::new(&base, &[&base]).listed.len(), 1);
    }

    #[test]
    fn a_page_changed_and_changed_back_may_survive_in_between() {
        let (base, new) = (vec![0; IO_ALIGN], {
            let mut new = vec![0; IO_ALIGN];
            new[0] = 1;
            new
        });
        let options = PageOptions::new(&base, &[&new, &base]);
        assert!(options.listed.contains(&[1, 0, 0, 0, 0, 0, 0, 0]));
        assert_eq!(options.listed.last(), Some(&[0; SECTORS]));
    }
}
