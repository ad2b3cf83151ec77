//! What an outage leaves of two views of a medium.

use std::ops::Range;

use crate::rng::Rng;

/// What is lost or kept as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grain {
    /// Byte-addressable media: an aligned word of 8 bytes, in lines of 64.
    Word,
    /// Block media: a sector of 512 bytes, in pages of 4096.
    Sector,
}

impl Grain {
    /// Bytes that are lost or kept as one.
    pub fn unit_bytes(self) -> usize {
        match self {
            Self::Word => 8,
            Self::Sector => 512,
        }
    }
    /// Bytes that are usually written back together.
    pub fn group_bytes(self) -> usize {
        self.unit_bytes() * 8
    }
}

/// How the units that differ are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Nothing that was not made durable.
    Kept,
    /// Everything that was written.
    Live,
    /// Each unit by itself, the live one so many times in a hundred.
    Units(u64),
    /// Each group by itself, likewise.
    Groups(u64),
    /// Of each group the first units live, the others not.
    Prefixes,
    /// All but one unit.
    AllButOne,
    /// One unit alone.
    OneAlone,
}

impl Style {
    /// One of them.
    pub fn any(rng: &mut Rng) -> Self {
        match rng.below(10) {
            0 | 1 => Self::Kept,
            2 => Self::Live,
            3 => Self::Units(50),
            4 => Self::Units(90),
            5 => Self::Groups(50),
            6 => Self::Groups(10),
            7 => Self::Prefixes,
            8 => Self::AllButOne,
            _ => Self::OneAlone,
        }
    }
}

/// What a merge did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// Units that differed.
    pub units: u64,
    /// Groups with such units.
    pub groups: u64,
    /// Groups that differed, as ranges of bytes: in both views they now hold the image.
    pub changed: Vec<Range<usize>>,
}

/// Makes both views the same: an image that power loss may leave.
///
/// # Panics
/// If they differ in length, or it is not a whole number of groups.
pub fn merge(live: &mut [u8], kept: &mut [u8], grain: Grain, style: Style, rng: &mut Rng) -> Merged {
    let (unit, group) = (grain.unit_bytes(), grain.group_bytes());
    assert!(live.len() == kept.len() && live.len().is_multiple_of(group), "two views of one medium");
    let mut merged = Merged::default();
    for (at, (live, kept)) in live.chunks(group).zip(kept.chunks(group)).enumerate() {
        if live != kept {
            merged.changed.push(at * group..(at + 1) * group);
            let units = live.chunks(unit).zip(kept.chunks(unit));
            merged.units += units.filter(|(live, kept)| live != kept).count() as u64;
        }
    }
    merged.groups = merged.changed.len() as u64;
    let mut left = merged.units;
    let the_one = if left == 0 { 0 } else { rng.below(left) };
    for range in &merged.changed {
        let whole_group = match style {
            Style::Groups(percent) => rng.below(100) < percent,
            _ => false,
        };
        let prefix = rng.below((group / unit) as u64 + 1);
        let pairs = live[range.clone()].chunks_mut(unit).zip(kept[range.clone()].chunks_mut(unit));
        for (i, (live, kept)) in pairs.enumerate().filter(|(_, (live, kept))| live != kept) {
            left -= 1;
            let is_live = match style {
                Style::Kept => false,
                Style::Live => true,
                Style::Units(percent) => rng.below(100) < percent,
                Style::Groups(_) => whole_group,
                Style::Prefixes => (i as u64) < prefix,
                Style::AllButOne => left != the_one,
                Style::OneAlone => left == the_one,
            };
            if is_live { kept.copy_from_slice(live) } else { live.copy_from_slice(kept) }
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(style: Style) -> (Vec<u8>, Merged) {
        let (mut live, mut kept) = (vec![1; 192], vec![0; 192]);
        kept[64..128].fill(1);
        kept[8..16].fill(1);
        let merged = merge(&mut live, &mut kept, Grain::Word, style, &mut Rng::new(5));
        assert_eq!(live, kept);
        (live, merged)
    }

    #[test]
    fn each_style_takes_what_it_says() {
        let live_units = |style| merged(style).0.chunks(8).filter(|word| word[0] == 1).count();
        // Nine are the same in both.
        assert_eq!(live_units(Style::Kept), 9);
        assert_eq!(live_units(Style::Live), 24);
        assert_eq!(live_units(Style::AllButOne), 23);
        assert_eq!(live_units(Style::OneAlone), 10);
        assert!((10..24).contains(&live_units(Style::Units(50))));
        let (image, merged) = merged(Style::Prefixes);
        assert_eq!((merged.units, merged.groups), (15, 2));
        assert_eq!(merged.changed, [0..64, 128..192]);
        let last = image[128..].chunks(8).map(|word| word[0]);
        assert!(last.is_sorted_by(|a, b| a >= b), "the first ones are live");
    }

    #[test]
    fn the_same_views_are_their_own_image() {
        let (mut live, mut kept) = (vec![3; 4096], vec![3; 4096]);
        let merged = merge(&mut live, &mut kept, Grain::Sector, Style::OneAlone, &mut Rng::new(1));
        assert_eq!((merged, live), (Merged::default(), vec![3; 4096]));
    }
}
