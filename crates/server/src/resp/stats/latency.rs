//! `LATENCY`: batches that took longer than `latency-monitor-threshold`, and the distribution of each command's times.
//!
//! One event is measured, Redis's `command`: the time of a batch as [`super`] explains it.

use std::collections::{BTreeMap, VecDeque};

use super::super::call::{Call, Outcome};
use super::super::error::Refusal;
use super::super::step::Step;
use super::super::table::{COMMAND_COUNT, COMMANDS, named};
use super::Numbers;

/// Samples that are kept of an event, as in Redis.
const SAMPLES: usize = 160;

/// What happened to one event: in each second the longest time.
#[derive(Clone, Debug, Default)]
struct Samples {
    /// Seconds since the Unix epoch, and milliseconds.
    all: VecDeque<(u64, u64)>,
    longest_ms: u64,
}

/// Events by name.
#[derive(Debug, Default)]
pub(in crate::resp) struct Events(BTreeMap<&'static str, Samples>);

impl Events {
    /// An event happened.
    pub fn add(&mut self, event: &'static str, at_s: u64, milliseconds: u64) {
        let samples = self.0.entry(event).or_default();
        samples.longest_ms = samples.longest_ms.max(milliseconds);
        match samples.all.back_mut().filter(|last| last.0 == at_s) {
            Some(last) => last.1 = last.1.max(milliseconds),
            None => samples.all.push_back((at_s, milliseconds)),
        }
        if samples.all.len() > SAMPLES {
            samples.all.pop_front();
        }
    }

    fn of(&self, event: &[u8]) -> Samples {
        let event = String::from_utf8_lossy(event).to_ascii_lowercase();
        self.0.get(&*event).cloned().unwrap_or_default()
    }
}

/// `LATENCY LATEST`.
pub(in crate::resp) fn latency_latest(call: &mut Call<'_>) -> Outcome {
    let latest: Vec<_> = call.ctx.shared.redis.stats.latency.lock().0.clone().into_iter().collect();
    call.late(move |answer| {
        answer.encoder.array(latest.len());
        for (event, samples) in &latest {
            let (at_s, milliseconds) = samples.all.back().copied().unwrap_or_default();
            answer.encoder.array(4);
            answer.encoder.bulk(event.as_bytes());
            for number in [at_s, milliseconds, samples.longest_ms] {
                answer.encoder.integer(number as i64);
            }
        }
    })
}

/// `LATENCY HISTORY event`.
pub(in crate::resp) fn latency_history(call: &mut Call<'_>) -> Outcome {
    let samples = call.ctx.shared.redis.stats.latency.lock().of(call.arg(2));
    call.late(move |answer| {
        answer.encoder.array(samples.all.len());
        for (at_s, milliseconds) in &samples.all {
            answer.encoder.array(2);
            answer.encoder.integer(*at_s as i64);
            answer.encoder.integer(*milliseconds as i64);
        }
    })
}

/// `LATENCY RESET [event …]`: how many there were.
pub(in crate::resp) fn latency_reset(call: &mut Call<'_>) -> Outcome {
    let mut events = call.ctx.shared.redis.stats.latency.lock();
    let before = events.0.len();
    if call.args.len() == 2 {
        events.0.clear();
    } else {
        events
            .0
            .retain(|event, _| !call.args.from(2).any(|name| name.eq_ignore_ascii_case(event.as_bytes())));
    }
    let reset = before - events.0.len();
    drop(events);
    call.answer(Step::Integer(reset as i64))
}

/// `LATENCY GRAPH event`: a column a sample, its height by its time.
pub(in crate::resp) fn latency_graph(call: &mut Call<'_>) -> Outcome {
    let event = call.arg(2);
    let samples = call.ctx.shared.redis.stats.latency.lock().of(event);
    if samples.all.is_empty() {
        return Err(Refusal::from([b"ERR No samples available for event '", event, b"'"].concat()));
    }
    let text = graph(&String::from_utf8_lossy(event), &samples);
    call.late(move |answer| answer.encoder.verbatim(text.as_bytes()))
}

fn graph(event: &str, samples: &Samples) -> String {
    const ROWS: u64 = 4;
    const COLUMNS: usize = 80;
    let shown: Vec<u64> = samples.all.iter().rev().take(COLUMNS).rev().map(|(_, ms)| *ms).collect();
    let (low, high) = (shown.iter().min().copied().unwrap_or(0), shown.iter().max().copied().unwrap_or(0));
    let mut text =
        format!("{event} - high {high} ms, low {low} ms (all time high {} ms)\n", samples.longest_ms);
    text.push_str(&"-".repeat(COLUMNS));
    text.push('\n');
    for row in (0..ROWS).rev() {
        let reaches = |ms: &u64| (ms - low) * ROWS > row * (high - low).max(1) || row == 0;
        text.extend(shown.iter().map(|ms| if reaches(ms) { '#' } else { ' ' }));
        text.push('\n');
    }
    text
}

/// `LATENCY DOCTOR`.
pub(in crate::resp) fn latency_doctor(call: &mut Call<'_>) -> Outcome {
    let redis = &call.ctx.shared.redis;
    let watched = redis.settings.latency_threshold_ms.load(std::sync::atomic::Ordering::Relaxed);
    let samples = redis.stats.latency.lock().of(b"command");
    let text = match (watched, samples.all.len()) {
        (0, _) => {
            "Latency monitoring is off. CONFIG SET latency-monitor-threshold <milliseconds> switches it on.\n"
                .into()
        }
        (_, 0) => {
            format!("No batch of commands took {watched} ms or longer since latency events were reset.\n")
        }
        (_, count) => {
            let sum: u64 = samples.all.iter().map(|(_, ms)| ms).sum();
            format!(
                "command: {count} seconds with batches of {watched} ms or longer; their longest took {} ms on average, the longest of \
                 all {} ms. A batch waits for its slowest command, for commits as --durability says, and for devices: \
                 SLOWLOG GET names commands, INFO tiers tells what devices were asked.\n",
                sum / count as u64,
                samples.longest_ms
            )
        }
    };
    call.late(move |answer| answer.encoder.verbatim(text.as_bytes()))
}

/// `LATENCY HISTOGRAM [command …]`.
pub(in crate::resp) fn latency_histogram(call: &mut Call<'_>) -> Outcome {
    let mut wanted = [false; COMMAND_COUNT];
    for command in call.args.from(2).filter_map(named) {
        let with_subs = std::iter::once(command).chain(command.subcommands());
        with_subs.for_each(|command| wanted[usize::from(command.id)] = true);
    }
    let wanted = move |name: &str| {
        COMMANDS.iter().any(|command| wanted[usize::from(command.id)] && command.full_name == name)
    };
    let everything = call.args.len() == 2;
    call.late(move |answer| {
        let numbers = answer.ctx.shared.redis.stats.commands();
        let told: Vec<(&str, &Numbers)> = super::named(&numbers)
            .filter(|(name, numbers)| {
                numbers.times.iter().any(|count| *count > 0) && (everything || wanted(name))
            })
            .collect();
        answer.encoder.map(told.len());
        for (name, numbers) in told {
            answer.encoder.bulk(name.as_bytes());
            answer.encoder.map(2);
            answer.encoder.bulk(b"calls");
            answer.encoder.integer(numbers.times.iter().sum::<u64>() as i64);
            answer.encoder.bulk(b"histogram_usec");
            let mut sum = 0;
            let buckets: Vec<(i64, u64)> = numbers
                .times
                .iter()
                .enumerate()
                .filter(|(_, count)| **count > 0)
                .map(|(bucket, count)| {
                    sum += count;
                    (1 << bucket, sum)
                })
                .collect();
            answer.encoder.map(buckets.len());
            for (bound, count) in buckets {
                answer.encoder.integer(bound);
                answer.encoder.integer(count as i64);
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_keep_their_longest_and_old_ones_go() {
        let mut events = Events::default();
        for (at_s, ms) in [(1, 5), (1, 9), (1, 3), (2, 4)] {
            events.add("command", at_s, ms);
        }
        let samples = events.of(b"COMMAND");
        let all: Vec<_> = samples.all.iter().copied().collect();
        assert_eq!((all, samples.longest_ms), (vec![(1, 9), (2, 4)], 9));
        (0..1000).for_each(|at_s| events.add("command", at_s, 1));
        assert_eq!(events.of(b"command").all.len(), SAMPLES);
        assert!(events.of(b"nonsense").all.is_empty());
    }

    #[test]
    fn a_graph_has_a_column_for_each_sample() {
        let mut events = Events::default();
        [(1, 10), (2, 20), (3, 40)].into_iter().for_each(|(at_s, ms)| events.add("command", at_s, ms));
        let text = graph("command", &events.of(b"command"));
        let rows: Vec<&str> = text.lines().skip(2).collect();
        assert!(text.starts_with("command - high 40 ms, low 10 ms (all time high 40 ms)\n"));
        assert_eq!(rows, ["  #", "  #", " ##", "###"]);
    }
}
