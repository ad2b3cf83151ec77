//! What `INFO` tells about commands: `commandstats`, `errorstats`, `latencystats`.

use std::fmt::{self, Write};

use super::About;
use crate::resp::config;
use crate::resp::stats::{Numbers, named};

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
    let chosen = config::percentiles(about.ctx.shared);
    let wanted: Vec<(&str, f64)> =
        chosen.split(' ').filter_map(|text| Some((text, text.parse().ok()?))).collect();
    for (name, numbers) in named(&about.commands) {
        if numbers.times.iter().any(|count| *count > 0) {
            let told: Vec<String> = wanted
                .iter()
                .map(|(text, percent)| format!("p{text}={}.000", percentile(numbers, *percent)))
                .collect();
            write!(out, "latency_percentiles_usec_{name}:{}\r\n", told.join(","))?;
        }
    }
    Ok(())
}

/// The bound of the bucket below which so many hundredths of the times lie.
fn percentile(numbers: &Numbers, percent: f64) -> u64 {
    let all: u64 = numbers.times.iter().sum();
    let wanted = ((all as f64 * percent / 100.0).ceil() as u64).max(1);
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
        let told = [0.0, 50.0, 90.0, 90.1, 99.0, 99.9].map(|percent| percentile(&numbers, percent));
        assert_eq!(told, [8, 8, 8, 1024, 1024, 1 << 20]);
    }
}
