//! What a store has too little of: it is filling, refuses writes, evicts, or has them wait.
//!
//! ```text
//!   the store's numbers, once a second --> Pressure --a line when it begins, one when it is over--> the log
//!                                             '-- /health, /metrics; the reason behind OOM
//! ```
//! Numbers tell it, not those who are refused: they may be many thousands a second, and a line each would fill the disk.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use terrace::human_bytes;
use terrace_engine::{MoreRoom, Stats, TierStats};

use crate::options::MoreRoomBy;
use crate::shared::Shared;

/// Between two looks.
const PERIOD: Duration = Duration::from_secs(1);
/// Live bytes of the lowest tier, in hundredths of it, from which on it is filling, and below which it no longer is.
const FILLING: u64 = 90;
const FILLED_NO_MORE: u64 = 85;
/// So many waits in a period are worth a line: single ones are what a burst does to any store.
const STALLS: u64 = 100;

/// What there can be too little of, in the order in which it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Filling,
    Refusing,
    Evicting,
    Stalling,
}

impl Kind {
    pub const ALL: [Self; 4] = [Self::Filling, Self::Refusing, Self::Evicting, Self::Stalling];

    /// As metrics and `/health` name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Filling => "filling",
            Self::Refusing => "refusing",
            Self::Evicting => "evicting",
            Self::Stalling => "stalling",
        }
    }

    /// It is over when nothing of the kind has happened for so long. A cache that is full evicts now and then for ever.
    fn quiet(self) -> Duration {
        match self {
            Self::Filling => Duration::ZERO,
            Self::Refusing | Self::Stalling => Duration::from_secs(10),
            Self::Evicting => Duration::from_secs(60),
        }
    }
}

/// What is in force, and what was seen last. The lock is a leaf.
#[derive(Default)]
pub(crate) struct Pressure(Mutex<Watch>);

#[derive(Default)]
struct Watch {
    looked: Option<Instant>,
    /// Refusals, evictions and stalls at the last look.
    seen: [u64; 3],
    states: [State; 4],
    /// Why a write is refused now, if somebody asked.
    reason: Option<(Instant, Arc<str>)>,
}

#[derive(Clone, Copy, Default)]
struct State {
    /// Since when it is so, and when it was seen last.
    during: Option<(Instant, Instant)>,
    /// How often since it began.
    count: u64,
}

/// What begins or is over.
#[derive(Debug, PartialEq, Eq)]
struct Change {
    kind: Kind,
    /// How often it happened and how long, if it is over.
    over: Option<(u64, Duration)>,
}

impl Watch {
    /// Compares with the last look.
    fn look(&mut self, stats: &Stats, evicts: bool, now: Instant) -> Vec<Change> {
        let totals = [stats.refused, stats.evicted, stats.stalls];
        // What was counted before the first look is of another time.
        let before = if self.looked.is_some() { self.seen } else { totals };
        let passed = self.looked.map_or(PERIOD, |looked| now.saturating_duration_since(looked));
        let [refused, evicted, stalls] = std::array::from_fn(|i| totals[i].saturating_sub(before[i]));
        (self.looked, self.seen) = (Some(now), totals);
        let many = STALLS.saturating_mul(passed.as_secs().max(1));
        let was_filling = self.states[Kind::Filling as usize].during.is_some();
        // A cache is meant to be full, but not to have less than it was given.
        let filling = stats.tiers.last().is_some_and(|tier| {
            let bound = if was_filling { FILLED_NO_MORE } else { FILLING };
            let nearly_full = tier.capacity_bytes > 0
                && u128::from(tier.live_bytes) * 100 >= u128::from(tier.capacity_bytes) * u128::from(bound);
            (nearly_full && !evicts) || tier.cramped.is_some()
        });
        let counts = [u64::from(filling), refused, evicted, if stalls >= many { stalls } else { 0 }];
        let mut changes = Vec::new();
        for (kind, count) in Kind::ALL.into_iter().zip(counts) {
            let state = &mut self.states[kind as usize];
            match &mut state.during {
                Some((_, last)) if count > 0 => *last = now,
                Some((since, last)) if now.saturating_duration_since(*last) >= kind.quiet() => {
                    changes.push(Change {
                        kind,
                        over: Some((state.count, now.saturating_duration_since(*since))),
                    });
                    *state = State::default();
                }
                None if count > 0 => {
                    changes.push(Change { kind, over: None });
                    state.during = Some((now, now));
                }
                _ => {}
            }
            if state.during.is_some() {
                state.count += count;
            }
        }
        changes
    }
}

impl Pressure {
    /// Looks at the store's numbers, and writes down what has begun and what is over.
    pub fn look(&self, shared: &Shared, stats: &Stats) {
        let changes = self.0.lock().look(stats, shared.options.evicts, Instant::now());
        for change in changes {
            let why = reason(shared, stats, change.kind);
            match (change.kind, change.over) {
                (Kind::Filling, None) => tracing::warn!("{why}"),
                (Kind::Refusing, None) => tracing::warn!("writes are refused: {why}"),
                (Kind::Evicting, None) => tracing::info!("eviction has begun: {why}"),
                (Kind::Stalling, None) => tracing::warn!(
                    "writes wait for room: background threads or the device don't keep up; raise --background-threads or --dram"
                ),
                (Kind::Filling, Some(_)) => tracing::info!("the lowest tier is no longer filling"),
                (kind, Some((count, time))) => {
                    let what = match kind {
                        Kind::Refusing => "writes are no longer refused",
                        Kind::Evicting => "eviction has ended",
                        _ => "writes no longer wait for room",
                    };
                    tracing::info!(count, seconds = time.as_secs(), "{what}");
                }
            }
        }
    }

    /// What is in force.
    pub fn now(&self) -> Vec<Kind> {
        let watch = self.0.lock();
        Kind::ALL.into_iter().filter(|kind| watch.states[*kind as usize].during.is_some()).collect()
    }

    /// Why a write is refused, told anew at most once a period: thousands may ask.
    pub fn why_full(&self, shared: &Shared) -> Arc<str> {
        if let Some((at, reason)) = &self.0.lock().reason
            && at.elapsed() < PERIOD
        {
            return Arc::clone(reason);
        }
        let told: Arc<str> = reason(shared, &shared.store.stats(), Kind::Refusing).into();
        self.0.lock().reason = Some((Instant::now(), Arc::clone(&told)));
        told
    }
}

/// Which tier has too little, and what to do: the lowest one, or DRAM if the index has taken it.
pub(crate) fn reason(shared: &Shared, stats: &Stats, kind: Kind) -> String {
    let (budget, options) = (shared.dram_budget(), &shared.options);
    let lowest = stats.tiers.last().filter(|tier| tier.tier != "dram");
    let there_is = |tier: &TierStats| match &tier.cramped {
        Some(_) => tier.taken_bytes.min(tier.capacity_bytes),
        None => tier.capacity_bytes,
    };
    let below_has_room = lowest.is_none_or(|tier| tier.used_bytes < there_is(tier) / 4 * 3);
    let (what, tier, more) = match stats.tiers.last() {
        _ if below_has_room && budget > 0 && stats.index_bytes > budget / 2 => {
            let (index, budget) = (human_bytes(stats.index_bytes), human_bytes(budget));
            (format!("the index takes {index} of {budget} of DRAM"), "dram", stats.more_dram)
        }
        Some(tier) if tier.tier != "dram" => (state_of(tier, kind), tier.tier, tier.more_room),
        Some(tier) => (state_of(tier, kind), tier.tier, stats.more_dram),
        None => ("there is no room".into(), "dram", stats.more_dram),
    };
    let by = options.more_room.as_ref();
    match stats.tiers.last().and_then(|lowest| lowest.cramped.as_ref().filter(|_| tier == lowest.tier)) {
        // More of the option would not help.
        Some(_) if options.evicts => format!("{what}: make room on that disk"),
        Some(_) if more == MoreRoom::WhileOpen && by.is_none() => {
            format!(
                "{what}: make room on that disk, lower --{tier} with CONFIG SET {tier}-size, or delete keys"
            )
        }
        Some(_) => format!("{what}: make room on that disk, or delete keys"),
        None => format!("{what}: {}", advice(tier, more, by, options.evicts)),
    }
}

fn state_of(tier: &TierStats, kind: Kind) -> String {
    if let Some(why) = &tier.cramped {
        return format!(
            "tier {} can't grow from {} to the {} that it was given ({why})",
            tier.tier,
            human_bytes(tier.taken_bytes),
            human_bytes(tier.capacity_bytes),
        );
    }
    let is = if kind == Kind::Filling { "is filling" } else { "is full" };
    format!(
        "tier {} {is} ({} of {} in use, {} live)",
        tier.tier,
        human_bytes(tier.used_bytes),
        human_bytes(tier.capacity_bytes),
        human_bytes(tier.live_bytes),
    )
}

/// What gives a tier more room, of which the engine says how it takes it; `by` is another command's name for it than that of
/// `terrace serve`.
fn advice(tier: &str, more: MoreRoom, by: Option<&MoreRoomBy>, evicts: bool) -> String {
    let raise = match (by, tier, more) {
        (Some(by), "dram", _) => by.dram.clone(),
        (Some(by), ..) => by.below.clone(),
        (None, "dram", MoreRoom::WhileOpen) => "raise --dram, or CONFIG SET maxmemory".into(),
        // What a store has of a tier stands in it, and an option says it of new ones alone.
        (None, _, MoreRoom::WhileOpen) => format!("raise --{tier} with CONFIG SET {tier}-size"),
        (None, _, MoreRoom::WhenOpened) => format!("raise --{tier} and start the server again"),
        (None, _, MoreRoom::Never) => format!("raise --{tier} for a new store, as this one keeps its size"),
    };
    match (evicts, by) {
        (true, _) => raise,
        (false, Some(_)) => format!("{raise}, or delete keys"),
        (false, None) => format!("{raise}, delete keys, or run with --when-full evict"),
    }
}

/// Looks once a period until the server stops; whoever stops it unparks the thread.
pub(crate) fn watch(shared: &Arc<Shared>) {
    while !shared.stopping.load(Relaxed) {
        shared.pressure.look(shared, &shared.store.stats());
        thread::park_timeout(PERIOD);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(refused: u64, evicted: u64, stalls: u64, live_bytes: u64) -> Stats {
        let tier = TierStats {
            tier: "ssd",
            live_bytes,
            capacity_bytes: 100,
            used_bytes: 99,
            ..TierStats::default()
        };
        Stats { refused, evicted, stalls, tiers: vec![tier], ..Stats::default() }
    }

    #[test]
    fn what_begins_is_told_once_and_once_more_when_it_is_over() {
        let mut watch = Watch::default();
        let start = Instant::now();
        let mut look = |second: u64, stats| watch.look(&stats, false, start + Duration::from_secs(second));
        let begins = |kind| vec![Change { kind, over: None }];
        let over =
            |kind, count, seconds| vec![Change { kind, over: Some((count, Duration::from_secs(seconds))) }];
        assert_eq!(look(0, stats(1000, 1000, 1000, 50)), [], "of another time");
        assert_eq!(look(1, stats(1005, 1000, 1000, 50)), begins(Kind::Refusing));
        assert_eq!(look(2, stats(9000, 1000, 1000, 50)), []);
        assert_eq!(look(11, stats(9000, 1000, 1000, 50)), []);
        assert_eq!(look(12, stats(9000, 1000, 1000, 50)), over(Kind::Refusing, 8000, 11));
        assert_eq!(
            look(13, stats(9000, 1001, 1050, 50)),
            begins(Kind::Evicting),
            "few waits are nobody's business"
        );
        assert_eq!(look(14, stats(9000, 1001, 1150, 50)), begins(Kind::Stalling));
        assert_eq!(look(24, stats(9000, 1001, 1150, 50)), over(Kind::Stalling, 100, 10));
        assert_eq!(look(73, stats(9000, 1001, 1150, 50)), over(Kind::Evicting, 1, 60));
    }

    #[test]
    fn a_tier_is_filling_until_there_is_some_room_again() {
        let mut watch = Watch::default();
        let now = Instant::now();
        let mut kinds = |live| {
            watch
                .look(&stats(0, 0, 0, live), false, now)
                .into_iter()
                .map(|c| c.over.is_some())
                .collect::<Vec<_>>()
        };
        let told: Vec<_> = [89, 90, 100, 85, 84, 89].map(&mut kinds).into();
        assert_eq!(told, [vec![], vec![false], vec![], vec![], vec![true], vec![]]);
    }

    #[test]
    fn the_reason_names_the_tier_and_the_option() {
        let tier = TierStats { used_bytes: 3 << 29, ..stats(0, 0, 0, 1 << 29).tiers.remove(0) };
        let tier = TierStats { capacity_bytes: 2 << 30, ..tier };
        assert_eq!(
            state_of(&tier, Kind::Refusing),
            "tier ssd is full (1.5 GiB of 2 GiB in use, 512 MiB live)"
        );
        assert!(state_of(&tier, Kind::Filling).starts_with("tier ssd is filling ("));
        let advice = |tier, more| advice(tier, more, None, true);
        assert_eq!(advice("ssd", MoreRoom::WhileOpen), "raise --ssd with CONFIG SET ssd-size");
        assert_eq!(advice("pmem", MoreRoom::WhileOpen), "raise --pmem with CONFIG SET pmem-size");
        assert_eq!(advice("pmem", MoreRoom::WhenOpened), "raise --pmem and start the server again");
        assert_eq!(advice("ssd", MoreRoom::Never), "raise --ssd for a new store, as this one keeps its size");
        assert_eq!(advice("dram", MoreRoom::WhileOpen), "raise --dram, or CONFIG SET maxmemory");
        assert_eq!(advice("dram", MoreRoom::WhenOpened), "raise --dram and start the server again");
    }

    #[test]
    fn who_does_not_evict_may_delete_keys_and_other_commands_have_their_own_options() {
        assert_eq!(
            advice("ssd", MoreRoom::WhileOpen, None, false),
            "raise --ssd with CONFIG SET ssd-size, delete keys, or run with --when-full evict"
        );
        let by = MoreRoomBy { dram: "raise -m".into(), below: "raise the other".into() };
        assert_eq!(advice("dram", MoreRoom::WhileOpen, Some(&by), false), "raise -m, or delete keys");
        assert_eq!(advice("ssd", MoreRoom::WhileOpen, Some(&by), true), "raise the other");
    }
}
