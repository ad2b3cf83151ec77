//! Where nodes are cut in two.

use super::contents::Part;
use super::layout::Measure;
use super::text::divider;

/// A cut may be so small a part of a node's entries away from where it would be best.
const SLACK: usize = 10;

/// Where a node is split.
pub(super) struct Cut {
    /// The first entry that goes right; in an inner node the one that goes up.
    at: usize,
    /// What divides the two.
    pub(super) separator: Vec<u8>,
}

impl Cut {
    /// In the middle of the words; after all other entries where keys come in ascending order.
    pub(super) fn of(whole: &Part<'_>, measure: Measure, appended: bool) -> Self {
        let count = whole.range.len();
        assert!(count >= 2, "a node of {count} entries is never full");
        if appended {
            let cut = Self::at(whole, count - 1);
            if cut.parts(whole, 0).0.measure().fits() {
                return cut;
            }
        }
        Self::near(whole, measure, (1, 2), count / SLACK)
    }
    /// At this share of the words, or up to `slack` entries away, where the separator is shortest: compact nodes hold short
    /// ones only.
    pub(super) fn near(whole: &Part<'_>, measure: Measure, share: (usize, usize), slack: usize) -> Self {
        let range = whole.range.clone();
        let total: usize = range.clone().map(|i| whole.entry_words(i, measure)).sum();
        let mut words = 0;
        let at = range.clone().find(|&i| {
            words += whole.entry_words(i, measure);
            share.1 * words >= share.0 * total
        });
        let (first, last) = (range.start + 1, range.end - 1);
        let best = at.unwrap_or(first).clamp(first, last);
        let near = (best.saturating_sub(slack).max(first)..=(best + slack).min(last))
            .min_by_key(|&at| (Self::separator(whole, at).len(), at.abs_diff(best)));
        Self::at(whole, near.unwrap_or(best))
    }
    fn at(whole: &Part<'_>, at: usize) -> Self {
        Self { at, separator: Self::separator(whole, at).to_vec() }
    }
    fn separator<'a>(whole: &Part<'a>, at: usize) -> &'a [u8] {
        let key = whole.contents.key(at);
        if whole.level == 0 { divider(whole.contents.key(at - 1), key) } else { key }
    }
    /// Whether there is something between this cut and another.
    pub(super) fn is_before(&self, other: &Self) -> bool {
        self.at < other.at
    }
    /// Whether nodes hold the two.
    pub(super) fn fits(&self, whole: &Part<'_>) -> bool {
        let (left, right) = self.parts(whole, 0);
        left.measure().fits() && right.measure().fits()
    }
    /// The two; `right` is the number of the second.
    pub(super) fn parts<'a>(&'a self, whole: &Part<'a>, right: u32) -> (Part<'a>, Part<'a>) {
        let leaf = whole.level == 0;
        let (left_link, right_link) =
            if leaf { (right, whole.link) } else { (whole.link, whole.contents.payload(self.at) as u32) };
        let first = if leaf { self.at } else { self.at + 1 };
        let separator = &self.separator[..];
        let left = whole.range.start..self.at;
        let left = Part { link: left_link, high: Some(separator), range: left, ..whole.clone() };
        let right = Part { link: right_link, low: separator, range: first..whole.range.end, ..whole.clone() };
        (left, right)
    }
}
