//! From registers to a number of elements: Otmar Ertl, "New cardinality estimation algorithms for HyperLogLog sketches",
//! arXiv:1702.01284, as Redis computes it.

use super::hash::{REGISTERS, RUN_BITS};

/// How many registers have each value. Values are below 64, those beyond the longest run only in forged ones.
pub(super) type Histogram = [u32; 64];

/// The estimate.
pub(super) fn estimate(histogram: &Histogram) -> u64 {
    /// 1 / (2 ln 2).
    const ALPHA: f64 = 0.721_347_520_444_481_7;
    const M: f64 = REGISTERS as f64;
    let longest = RUN_BITS as usize;
    let mut z = M * tau((M - f64::from(histogram[longest + 1])) / M);
    for count in histogram[1..=longest].iter().rev() {
        z = (z + f64::from(*count)) * 0.5;
    }
    z += M * sigma(f64::from(histogram[0]) / M);
    (ALPHA * M * M / z).round() as u64
}

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z == before {
            return z;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x) * (1.0 - x) * y;
        if z == before {
            return z / 3.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extremes() {
        let mut histogram = [0; 64];
        histogram[0] = REGISTERS as u32;
        assert_eq!(estimate(&histogram), 0);
        histogram[0] -= 1;
        histogram[1] = 1;
        assert_eq!(estimate(&histogram), 1);
        let mut full = [0; 64];
        full[RUN_BITS as usize + 1] = REGISTERS as u32;
        assert_eq!(estimate(&full), u64::MAX, "an infinite estimate saturates");
    }
}
