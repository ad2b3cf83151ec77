//! Means of repeated runs, and how sure they are.

/// A mean and half the width of its 95% confidence interval (Student's t).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Interval {
    /// The mean.
    pub mean: f64,
    /// Half the interval's width; none of a single run.
    pub half: Option<f64>,
    /// How many runs.
    pub runs: usize,
}

impl Interval {
    /// Of the figures of independent runs. Of no runs the mean is no number.
    pub fn of(figures: &[f64]) -> Self {
        let runs = figures.len();
        let mean = figures.iter().sum::<f64>() / runs as f64;
        let half = (runs > 1).then(|| {
            let squares: f64 = figures.iter().map(|figure| (figure - mean).powi(2)).sum();
            t_95(runs - 1) * (squares / (runs - 1) as f64 / runs as f64).sqrt()
        });
        Self { mean, half, runs }
    }
    /// Of the differences `a - b` of runs that belong together pair by pair.
    pub fn of_differences(a: &[f64], b: &[f64]) -> Self {
        Self::of(&a.iter().zip(b).map(|(a, b)| a - b).collect::<Vec<_>>())
    }
    /// Of the ratios `a / b` of runs that belong together pair by pair.
    pub fn of_ratios(a: &[f64], b: &[f64]) -> Self {
        Self::of(&a.iter().zip(b).map(|(a, b)| a / b).collect::<Vec<_>>())
    }
    /// The lower end; of a single run its figure.
    pub fn low(&self) -> f64 {
        self.mean - self.half.unwrap_or(0.0)
    }
    /// The upper end; of a single run its figure.
    pub fn high(&self) -> f64 {
        self.mean + self.half.unwrap_or(0.0)
    }
}

/// The middle one of some figures, or the mean of the two in the middle; 0 of none.
pub(crate) fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let at = |place: usize| sorted.get(place).copied().unwrap_or(0.0);
    (at(sorted.len().saturating_sub(1) / 2) + at(sorted.len() / 2)) / 2.0
}

/// The 97.5% quantile of Student's t with so many degrees of freedom.
fn t_95(freedom: usize) -> f64 {
    /// For 1 to 10 degrees.
    const TABLE: [f64; 10] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
    /// Of the normal distribution.
    const Z: f64 = 1.959_964;
    if let Some(&t) = freedom.checked_sub(1).and_then(|i| TABLE.get(i)) {
        return t;
    }
    // Cornish and Fisher's expansion: right to the third digit from here on.
    let n = freedom as f64;
    Z + (Z.powi(3) + Z) / (4.0 * n)
        + (5.0 * Z.powi(5) + 16.0 * Z.powi(3) + 3.0 * Z) / (96.0 * n * n)
        + (3.0 * Z.powi(7) + 19.0 * Z.powi(5) + 17.0 * Z.powi(3) - 15.0 * Z) / (384.0 * n.powi(3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (freedom, known) in
            [(1, 12.706), (4, 2.776), (11, 2.201), (20, 2.086), (60, 2.000), (1000, 1.962)]
        {
            assert!((t_95(freedom) - known).abs() < 0.001, "{freedom}: {}, known {known}", t_95(freedom));
        }
    }

    #[test]
    fn the_middle_figure_is_found() {
        assert_eq!([&[3.0, 1.0, 2.0][..], &[2.0, 1.0], &[]].map(median), [2.0, 1.5, 0.0]);
    }

    #[test]
    fn an_interval_is_as_wide_as_worked_out_by_hand() {
        // Mean 5, deviations -2 0 2, variance 4, standard error sqrt(4 / 3), t 4.303.
        let interval = Interval::of(&[3.0, 5.0, 7.0]);
        assert_eq!((interval.mean, interval.runs), (5.0, 3));
        assert!((interval.half.unwrap() - 4.303 * (4.0f64 / 3.0).sqrt()).abs() < 1e-9);
        assert!(interval.low() < 0.04 && interval.high() > 9.96);
        let once = Interval::of(&[3.0]);
        assert_eq!((once.half, once.low(), once.high()), (None, 3.0, 3.0));
        assert_eq!(Interval::of_differences(&[3.0, 4.0], &[1.0, 2.0]).half, Some(0.0));
        assert_eq!(Interval::of_ratios(&[3.0, 6.0], &[1.0, 2.0]).mean, 3.0);
    }

    /// 95% intervals hold the truth in 95% of the cases, also for few runs: what t is for.
    #[test]
    fn intervals_hold_the_truth_as_often_as_they_say() {
        let mut rng = crate::rng::Rng::new(1, 1);
        let mut held = 0;
        for _ in 0..4000 {
            // Sums of twelve uniform numbers are normal enough, with mean 6.
            let runs: Vec<f64> = (0..5).map(|_| (0..12).map(|_| rng.unit()).sum()).collect();
            let interval = Interval::of(&runs);
            held += u32::from(interval.low() <= 6.0 && 6.0 <= interval.high());
        }
        assert!((3750..3850).contains(&held), "{held} of 4000");
    }
}
