//! What `INFO` tells about commands: `commandstats`, `errorstats`, `latencystats`.

use std::fmt::{self, Write};

use super::About;
use crate::resp::stats::{Numbers, named};

/// Percentiles that are told, in thousandths.
const PERCENTILES: [(u64, &str); 3] = [(500, "p50"), (990, "p99"), (999, "p99.9")];

/// A command's time is that of its batch.
pub(super) fn commands(out: &mut String, about: &About<'_>) -> fmt::Result {
    for (name, numbers) in named(&about.commands) {
        let Numbers { calls, microseconds, rejected, failed, .. } = *numbers;
        if calls + rejected > 0 {
            let each = if calls == 0 { 0.0 } else { microseconds as f64 / calls as f64 };
            write!(
                out,
                "cmdstat_{name}:calls={calls},usec={microseconds},usec_per_call={each:.2},rejected_calls={rejected},\
                 failed_calls={failed}\r\n"
            )?;
        }
    }
    Ok(())
}

pub(super) fn errors(out: &mut String, about: &About<'_>) -> fmt::Result {
    about
        .ctx
        .shared
        .redis
        .stats
        .errors()
        .iter()
        .try_for_each(|(code, count)| write!(out, "errorstat_{code}:count={count}\r\n"))
}

pub(super) fn latencies(out: &mut String, about: &About<'_>) -> fmt::Result {
    for (name, numbers) in named(&about.commands) {
        if numbers.times.iter().any(|count| *count > 0) {
            let told = PERCENTILES
                .map(|(thousandths, label)| format!("{label}={}.000", percentile(numbers, thousandths)));
            write!(out, "latency_percentiles_usec_{name}:{}\r\n", told.join(","))?;
        }
    }
    Ok(())
}

/// The bound of the bucket below which so many thousandths of the times lie.
fn percentile(numbers: &Numbers, thousandths: u64) -> u64 {
    let all: u64 = numbers.times.iter().sum();
    let wanted = (all * thousandths).div_ceil(1000).max(1);
    let mut sum = 0;
    let bucket = numbers.times.iter().position(|count| {
        sum += count;
        sum >= wanted
    });
    1 << bucket.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_bounds_of_buckets() {
        let mut numbers = Numbers::default();
        numbers.times[3] = 90;
        numbers.times[10] = 9;
        numbers.times[20] = 1;
        let told = [500, 900, 901, 990, 999].map(|thousandths| percentile(&numbers, thousandths));
        assert_eq!(told, [8, 8, 1024, 1024, 1 << 20]);
    }
}
