//! Makes a failing input small: shorter first, then plainer.

/// The smallest input found in at most `runs` runs for which `fails` still holds.
pub fn minimise(input: &[u8], runs: u32, mut fails: impl FnMut(&[u8]) -> bool) -> Vec<u8> {
    let mut best = input.to_vec();
    let mut left = runs;
    let mut attempt = |candidate: Vec<u8>, best: &mut Vec<u8>| {
        if left == 0 {
            return false;
        }
        left -= 1;
        let better = fails(&candidate);
        if better {
            *best = candidate;
        }
        better
    };
    let mut chunk = best.len().next_power_of_two();
    while chunk > 0 {
        let mut at = 0;
        while at < best.len() {
            let end = (at + chunk).min(best.len());
            let shorter = [&best[..at], &best[end..]].concat();
            if !attempt(shorter, &mut best) {
                at += chunk;
            }
        }
        chunk /= 2;
    }
    for at in 0..best.len() {
        for plain in [0, b'0'] {
            if best[at] == plain {
                break;
            }
            let mut candidate = best.clone();
            candidate[at] = plain;
            if attempt(candidate, &mut best) {
                break;
            }
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::minimise;

    #[test]
    fn what_does_not_matter_goes() {
        let input: Vec<u8> = (0..200).collect();
        let fails = |bytes: &[u8]| bytes.contains(&7) && bytes.contains(&130);
        assert_eq!(minimise(&input, 10_000, fails), [7, 130]);
    }

    #[test]
    fn it_stops_in_time_with_what_it_has() {
        let mut runs = 0;
        let best = minimise(&[9; 100], 10, |bytes| {
            runs += 1;
            bytes.len() > 30
        });
        assert!(runs <= 10 && best.len() > 30);
    }
}
