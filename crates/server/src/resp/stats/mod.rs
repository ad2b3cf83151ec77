//! What commands cost: counts and times of each, the slow ones, latency events, errors by their code.
//!
//! ```text
//!   Call::run --Ran--> Client::ran --the batch is answered--> note --> Worker's numbers, slow log, latency events
//!                                                                          '-- INFO, LATENCY HISTOGRAM add them up
//! ```
//! Commands run in batches, and a command's time is that of its batch: from when the worker began to take it until its answers
//! were written, commits and devices included. It is what the client waits for, less the network and the queue before it.
//!
//! # Thread safety
//! A worker's numbers are written by its thread alone, so that counting is a load and a store; others read them. Relaxed:
//! they are statistics. What is rare (errors, refusals, slow commands) is counted in one place for all, under leaf locks.

mod latency;
mod slowlog;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::ThreadId;

use parking_lot::Mutex;

use super::client::Client;
use super::table::{COMMAND_COUNT, COMMANDS};
use crate::protocol::Context;
use crate::shared::{Counters, Shared};

pub(super) use latency::*;
pub(super) use slowlog::*;

/// Room for this many commands is kept from turn to turn.
const KEEP_RAN: usize = 64;
/// Times by powers of two of a microsecond; the last one is everything longer.
pub(super) const BUCKETS: usize = 32;
/// Error codes that are counted; whoever makes more up is counted together.
const CODES_MAX: usize = 128;

/// A command that ran and is not answered yet.
pub(super) struct Ran {
    /// Its place in the table.
    pub id: u16,
    /// The first operation that it added to the batch, if it added any.
    pub first: u32,
}

impl Ran {
    /// The place of the command, among those that ran, that added this operation.
    pub fn of(ran: &[Self], op: u32) -> Option<u16> {
        let behind = ran.partition_point(|ran| ran.first <= op);
        ran[..behind].last().map(|ran| ran.id)
    }
}

/// Numbers of one command on one worker.
#[derive(Default)]
struct OfCommand {
    calls: AtomicU64,
    microseconds: AtomicU64,
    times: [AtomicU64; BUCKETS],
}

/// Numbers that one worker counts.
pub(super) struct OfWorker(Box<[OfCommand]>);

/// Numbers of one command added up.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Numbers {
    pub calls: u64,
    pub microseconds: u64,
    pub rejected: u64,
    pub failed: u64,
    pub times: [u64; BUCKETS],
}

/// See the module.
pub(crate) struct Stats {
    workers: Mutex<HashMap<ThreadId, Arc<OfWorker>>>,
    rejected: Box<[AtomicU64]>,
    failed: Box<[AtomicU64]>,
    errors: Mutex<BTreeMap<Box<str>, u64>>,
    pub(super) slow: Mutex<slowlog::SlowLog>,
    pub(super) latency: Mutex<latency::Events>,
    /// What the numbers were when they were last reset: they only grow.
    baseline: Mutex<Baseline>,
}

/// See [`Stats`].
#[derive(Default)]
struct Baseline {
    commands: Vec<Numbers>,
    totals: BTreeMap<Total, u64>,
}

/// A number that only grows: its name, and the tier that it is about, if it is about one.
pub(super) type Total = (&'static str, &'static str);

impl Default for Stats {
    fn default() -> Self {
        let zeros = || (0..COMMAND_COUNT).map(|_| AtomicU64::new(0)).collect();
        Self {
            workers: Mutex::default(),
            rejected: zeros(),
            failed: zeros(),
            errors: Mutex::default(),
            slow: Mutex::default(),
            latency: Mutex::default(),
            baseline: Mutex::default(),
        }
    }
}

impl Stats {
    /// This thread's numbers.
    pub(super) fn of_this_thread(&self) -> Arc<OfWorker> {
        let new = || Arc::new(OfWorker((0..COMMAND_COUNT).map(|_| OfCommand::default()).collect()));
        Arc::clone(self.workers.lock().entry(std::thread::current().id()).or_insert_with(new))
    }

    /// A command was refused before it ran.
    pub fn rejected(&self, id: u16) {
        self.rejected[usize::from(id)].fetch_add(1, Relaxed);
    }

    /// A command refused what it was asked.
    pub fn failed(&self, id: u16) {
        self.failed[usize::from(id)].fetch_add(1, Relaxed);
    }

    /// An error was answered.
    pub fn error(&self, text: &[u8]) {
        let code = text.split(|byte| *byte == b' ').next().unwrap_or_default();
        let fits = code.len() <= 32 && code.iter().all(u8::is_ascii_uppercase);
        let code = if fits { String::from_utf8_lossy(code) } else { "ERR".into() };
        let mut errors = self.errors.lock();
        let known = errors.contains_key(&*code) || errors.len() < CODES_MAX;
        *errors.entry(if known { code.into() } else { "ERR".into() }).or_default() += 1;
    }

    /// Errors by their codes.
    pub fn errors(&self) -> Vec<(Box<str>, u64)> {
        self.errors.lock().iter().map(|(code, count)| (code.clone(), *count)).collect()
    }

    /// The numbers of all commands since they were reset, by their places in the table.
    pub(super) fn commands(&self) -> Vec<Numbers> {
        let mut all = self.commands_ever();
        for (now, before) in all.iter_mut().zip(&self.baseline.lock().commands) {
            now.calls -= before.calls;
            now.microseconds -= before.microseconds;
            now.rejected -= before.rejected;
            now.failed -= before.failed;
            now.times.iter_mut().zip(&before.times).for_each(|(now, before)| *now -= before);
        }
        all
    }

    fn commands_ever(&self) -> Vec<Numbers> {
        let workers: Vec<Arc<OfWorker>> = self.workers.lock().values().cloned().collect();
        let of = |id: usize| {
            let mut sum = Numbers {
                rejected: self.rejected[id].load(Relaxed),
                failed: self.failed[id].load(Relaxed),
                ..Numbers::default()
            };
            for worker in &workers {
                let numbers = &worker.0[id];
                sum.calls += numbers.calls.load(Relaxed);
                sum.microseconds += numbers.microseconds.load(Relaxed);
                sum.times.iter_mut().zip(&numbers.times).for_each(|(sum, count)| *sum += count.load(Relaxed));
            }
            sum
        };
        (0..COMMAND_COUNT).map(of).collect()
    }

    /// What a total that only grows has grown by since the numbers were reset.
    pub fn since_reset(&self, total: Total, now: u64) -> u64 {
        now.saturating_sub(self.baseline.lock().totals.get(&total).copied().unwrap_or(0))
    }

    /// Lets all numbers begin at zero; `totals` are those that are counted elsewhere.
    pub fn reset(&self, totals: impl Iterator<Item = (Total, u64)>) {
        self.errors.lock().clear();
        *self.baseline.lock() = Baseline { commands: self.commands_ever(), totals: totals.collect() };
    }
}

impl OfWorker {
    fn add(&self, id: u16, calls: u64, microseconds: u64, bucket: Option<usize>) {
        // This thread alone writes.
        let add = |counter: &AtomicU64, n: u64| counter.store(counter.load(Relaxed) + n, Relaxed);
        let numbers = &self.0[usize::from(id)];
        add(&numbers.calls, calls);
        add(&numbers.microseconds, microseconds * calls);
        if let Some(bucket) = bucket {
            add(&numbers.times[bucket], calls);
        }
    }
}

/// The bucket of a time: the first whose bound, a power of two, it does not exceed.
fn bucket(microseconds: u64) -> usize {
    (u64::BITS - microseconds.saturating_sub(1).leading_zeros()).min(BUCKETS as u32 - 1) as usize
}

/// Counts the commands that were answered.
pub(super) fn note(client: &mut Client, batch: &terrace_engine::Batch, ctx: &Context<'_>) {
    let redis = &ctx.shared.redis;
    let (settings, elapsed_us) = (&redis.settings, ctx.elapsed_us);
    let numbers = client.numbers.get_or_insert_with(|| redis.stats.of_this_thread());
    let bucket = settings.latency_tracking.load(Relaxed).then(|| bucket(elapsed_us));
    for run in client.ran.chunk_by(|one, next| one.id == next.id) {
        numbers.add(run[0].id, run.len() as u64, elapsed_us, bucket);
    }
    let slower_us = settings.slowlog_slower_us.load(Relaxed);
    if u64::try_from(slower_us).is_ok_and(|slower| elapsed_us >= slower) {
        slowlog::note(client, batch, ctx, slower_us);
    }
    let threshold_ms = settings.latency_threshold_ms.load(Relaxed);
    if threshold_ms > 0 && elapsed_us >= threshold_ms as u64 * 1000 {
        redis.stats.latency.lock().add("command", ctx.time.wall_now_ms() / 1000, elapsed_us / 1000);
    }
    client.ran.clear();
    client.ran.shrink_to(KEEP_RAN);
    client.kept.clear();
}

/// What is counted for the server as a whole and told since the last reset.
pub(super) fn totals(shared: &Shared, stats: &terrace_engine::Stats) -> [(&'static str, u64); 21] {
    let counters = &shared.counters;
    let denied = shared.redis.acl.log.lock().denied;
    [
        ("total_connections_received", Counters::read(&counters.accepted)),
        ("total_commands_processed", Counters::read(&counters.commands)),
        ("total_net_input_bytes", Counters::read(&counters.bytes_in)),
        ("total_net_output_bytes", Counters::read(&counters.bytes_out)),
        ("total_reads_processed", Counters::read(&counters.reads)),
        ("total_writes_processed", Counters::read(&counters.writes)),
        ("total_batches_executed", Counters::read(&counters.batches)),
        ("rejected_connections", Counters::read(&counters.rejected)),
        ("evicted_clients", Counters::read(&counters.closed_memory)),
        ("client_query_buffer_limit_disconnections", Counters::read(&counters.closed_query)),
        ("client_output_buffer_limit_disconnections", Counters::read(&counters.closed_output)),
        ("acl_access_denied_auth", denied[0]),
        ("acl_access_denied_cmd", denied[1]),
        ("acl_access_denied_key", denied[2]),
        ("acl_access_denied_channel", denied[3]),
        ("expired_keys", stats.expired),
        ("evicted_keys", stats.evicted),
        ("keyspace_hits", stats.tiers.iter().map(|tier| tier.hits).sum()),
        ("keyspace_misses", stats.misses),
        ("write_stalls", stats.stalls),
        ("writes_refused", stats.refused),
    ]
}

/// What is counted of a tier and told since the last reset: its hits, and what its medium did, for the log, too.
pub(super) fn totals_of_tier(
    stats: &terrace_engine::Stats,
    tier: &terrace_engine::TierStats,
) -> [(&'static str, u64); 7] {
    let media = stats.traffic(tier);
    [
        ("hits", tier.hits),
        ("reads", media.reads),
        ("read_bytes", media.read_bytes),
        ("writes", media.writes),
        ("write_bytes", media.write_bytes),
        ("lines_flushed", media.lines_flushed),
        ("fences", media.fences),
    ]
}

/// Lets all that `INFO` counts begin anew.
pub(super) fn reset(shared: &Shared) {
    let stats = shared.store.stats();
    let whole = totals(shared, &stats).into_iter().map(|(name, now)| ((name, ""), now));
    let saves = [((SAVES, ""), shared.snapshots.report().saves)];
    let of_tier = |tier: &terrace_engine::TierStats| {
        let name = tier.tier;
        totals_of_tier(&stats, tier).map(|(what, now)| ((what, name), now))
    };
    let tiers: Vec<_> = stats.tiers.iter().flat_map(of_tier).collect();
    shared.redis.stats.reset(whole.chain(saves).chain(tiers));
}

/// How many snapshots were written.
pub(super) const SAVES: &str = "rdb_saves";

/// The commands with numbers, each with its name.
pub(super) fn named(numbers: &[Numbers]) -> impl Iterator<Item = (&'static str, &Numbers)> {
    COMMANDS.iter().map(|command| command.full_name).zip(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_fall_into_powers_of_two() {
        for (microseconds, expected) in
            [(0, 0), (1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (1024, 10), (u64::MAX, 31)]
        {
            assert_eq!(bucket(microseconds), expected, "{microseconds}");
        }
    }

    #[test]
    fn numbers_of_all_threads_are_added_up_and_reset() {
        let stats = Stats::default();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| stats.of_this_thread().add(3, 5, 10, Some(4)));
            }
        });
        stats.failed(3);
        let three = stats.commands()[3];
        assert_eq!((three.calls, three.microseconds, three.failed, three.times[4]), (10, 100, 1, 10));
        stats.reset([(("x", ""), 7)].into_iter());
        assert_eq!(
            (stats.commands()[3].calls, stats.since_reset(("x", ""), 9), stats.since_reset(("x", "ssd"), 9)),
            (0, 2, 9)
        );
    }

    #[test]
    fn errors_are_counted_by_code() {
        let stats = Stats::default();
        for text in ["ERR a", "ERR b", "NOPERM x", "whatever it is", "WRONGTYPE"] {
            stats.error(text.as_bytes());
        }
        let told: Vec<(String, u64)> = stats.errors().into_iter().map(|(code, n)| (code.into(), n)).collect();
        assert_eq!(told, [("ERR".to_owned(), 3), ("NOPERM".to_owned(), 1), ("WRONGTYPE".to_owned(), 1)]);
    }
}
