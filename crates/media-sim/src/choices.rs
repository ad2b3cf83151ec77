//! Which of many combinations of choices to try.

use crate::rng::Rng;

/// Up to this many combinations are all tried.
pub(crate) const EXHAUSTIVE: u64 = 1024;

/// One dimension of a crash image: options `0..listed`, 0 the oldest and `listed - 1` the newest. A `wild` one takes any
/// larger number too, as the seed of an unlisted option.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arity {
    pub(crate) listed: u32,
    pub(crate) wild: bool,
}

/// Walks combinations: all if there are few, else all-old, all-new, drop-one, only-one and seeded random ones.
pub(crate) struct Choices<'a> {
    arities: &'a [Arity],
    budget: u64,
    left: u64,
    exhaustive: bool,
    turn: u64,
}

impl<'a> Choices<'a> {
    pub(crate) fn new(arities: &'a [Arity], budget: u64) -> Self {
        let all = arities.iter().try_fold(1u64, |all, arity| all.checked_mul(u64::from(arity.listed)));
        let limit = EXHAUSTIVE.min(budget);
        let all = all.filter(|all| *all <= limit && !arities.iter().any(|arity| arity.wild));
        Self { arities, budget, left: all.unwrap_or(budget), exhaustive: all.is_some(), turn: 0 }
    }

    /// Whether all combinations are tried.
    pub(crate) fn exhaustive(&self) -> bool {
        self.exhaustive
    }

    /// Fills in the next combination; `false` at the end.
    pub(crate) fn next(&mut self, rng: &mut Rng, out: &mut Vec<u32>) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        let turn = self.turn;
        self.turn += 1;
        if self.exhaustive {
            let mut rest = turn;
            self.fill(out, |_, arity| {
                let option = rest % u64::from(arity.listed);
                rest /= u64::from(arity.listed);
                option as u32
            });
            return true;
        }
        let dims = self.arities.len() as u64;
        let budget_short = self.budget < 2 + 2 * dims;
        match turn {
            0 => self.fill(out, |_, _| 0),
            1 => self.fill(out, |_, arity| arity.listed - 1),
            // Too small a budget for each dimension in turn: some at random, not always the first.
            _ if budget_short && rng.one_in(2) => {
                let (one, drop) = (rng.below(dims), rng.one_in(2));
                self.fill(out, |i, arity| pick((i == one) == drop, 0, arity.listed - 1));
            }
            _ if budget_short => self.random(rng, out),
            _ if turn < 2 + dims => self.fill(out, |i, arity| pick(i == turn - 2, 0, arity.listed - 1)),
            _ if turn < 2 + 2 * dims => {
                self.fill(out, |i, arity| pick(i == turn - 2 - dims, arity.listed - 1, 0));
            }
            _ => self.random(rng, out),
        }
        true
    }

    /// Uniform, or near all-new, or near all-old: holes often need almost everything of one kind.
    fn random(&self, rng: &mut Rng, out: &mut Vec<u32>) {
        let lean = rng.below(3);
        self.fill(out, |_, arity| {
            if lean > 0 && !rng.one_in(4) {
                return if lean == 1 { 0 } else { arity.listed - 1 };
            }
            if arity.wild && rng.one_in(2) {
                return arity.listed + rng.below(1 << 20) as u32;
            }
            rng.below(u64::from(arity.listed)) as u32
        });
    }

    fn fill(&self, out: &mut Vec<u32>, mut option: impl FnMut(u64, Arity) -> u32) {
        out.clear();
        out.extend(self.arities.iter().enumerate().map(|(i, arity)| option(i as u64, *arity)));
    }
}

fn pick(condition: bool, then: u32, otherwise: u32) -> u32 {
    if condition { then } else { otherwise }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(arities: &[Arity], budget: u64) -> Vec<Vec<u32>> {
        let (mut choices, mut rng) = (Choices::new(arities, budget), Rng::new(1));
        let (mut out, mut seen) = (Vec::new(), Vec::new());
        while choices.next(&mut rng, &mut out) {
            seen.push(out.clone());
        }
        seen
    }

    const fn listed(listed: u32) -> Arity {
        Arity { listed, wild: false }
    }

    #[test]
    fn few_combinations_are_all_tried_once() {
        let mut seen = all(&[listed(2), listed(3), listed(4)], 1024);
        assert_eq!(seen.len(), 24);
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 24);
    }

    #[test]
    fn no_dimension_is_one_image() {
        assert_eq!(all(&[], 10), vec![Vec::<u32>::new()]);
    }

    #[test]
    fn many_combinations_begin_with_the_telling_ones() {
        let seen = all(&[listed(3); 20], 100);
        assert_eq!(seen.len(), 100);
        assert_eq!(seen[0], vec![0; 20]);
        assert_eq!(seen[1], vec![2; 20]);
        assert_eq!(seen[2].iter().filter(|option| **option == 2).count(), 19);
        assert_eq!(seen[22].iter().filter(|option| **option == 2).count(), 1);
        assert!(seen[42..].iter().any(|options| options.contains(&1)), "versions in between are tried");
    }

    #[test]
    fn wild_options_appear_only_in_random_ones() {
        let seen = all(&[Arity { listed: 2, wild: true }], 200);
        assert_eq!(seen.len(), 200);
        assert!(seen[..4].iter().all(|options| options[0] < 2));
        assert!(seen[4..].iter().any(|options| options[0] >= 2));
    }
}
