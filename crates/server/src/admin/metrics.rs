//! The store's and the server's numbers in the OpenMetrics text format.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use terrace_engine::{Stats, TierStats};

use crate::pressure::Kind;
use crate::shared::{Counters, Shared};

/// Everything there is to say now.
pub(super) fn text(shared: &Arc<Shared>) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("terrace");
    registry.register_collector(Box::new(Numbers(Arc::clone(shared))));
    let mut out = String::new();
    prometheus_client::encoding::text::encode(&mut out, &registry)?;
    Ok(out)
}

/// What there is to say while the store is opened.
pub(super) fn loading(done: u64, total: u64) -> String {
    let gauge = |name: &str, help: &str, value: u64| {
        format!("# HELP terrace_{name} {help}.\n# TYPE terrace_{name} gauge\nterrace_{name} {value}\n")
    };
    gauge("loading", "The store is being opened", 1)
        + &gauge("loading_done_bytes", "Bytes recovered", done)
        + &gauge("loading_total_bytes", "Bytes to recover", total)
        + "# EOF\n"
}

/// Reads the numbers when asked.
struct Numbers(Arc<Shared>);

impl fmt::Debug for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Numbers")
    }
}

/// One number with its labels.
type Sample = (Vec<(&'static str, &'static str)>, u64);

impl Collector for Numbers {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut out = Writer(&mut encoder);
        let shared = &self.0;
        let counters = &shared.counters;
        out.gauge("loading", "The store is being opened", 0)?;
        out.gauge("uptime_seconds", "Seconds since the start", shared.started.elapsed().as_secs())?;
        out.gauge("connections", "Open connections", Counters::read(&counters.connected))?;
        out.counter("connections_accepted", "Connections accepted", Counters::read(&counters.accepted))?;
        out.counter(
            "connections_rejected",
            "Connections refused at the limit",
            Counters::read(&counters.rejected),
        )?;
        out.counter(
            "connections_denied",
            "Connections refused by the protected mode",
            Counters::read(&counters.denied),
        )?;
        out.counter(
            "tls_handshakes_failed",
            "TLS handshakes that failed",
            Counters::read(&counters.tls_failed),
        )?;
        let closed = [
            ("idle", &counters.closed_idle),
            ("query", &counters.closed_query),
            ("output", &counters.closed_output),
            ("memory", &counters.closed_memory),
        ];
        let closed = closed.map(|(limit, counter)| (vec![("limit", limit)], Counters::read(counter)));
        out.counters("connections_closed_over_limit", "Connections closed over a limit", closed.into())?;
        out.gauge("client_buffer_bytes", "Bytes in clients' buffers", shared.limits.held.bytes() as u64)?;
        out.counter("commands", "Commands received", Counters::read(&counters.commands))?;
        out.counter("batches", "Batches executed", Counters::read(&counters.batches))?;
        out.counter("received_bytes", "Bytes received from clients", Counters::read(&counters.bytes_in))?;
        out.counter("sent_bytes", "Bytes sent to clients", Counters::read(&counters.bytes_out))?;

        let stats = shared.store.stats();
        out.gauge("keys", "Live keys in all databases", stats.keys)?;
        out.gauge("tombstones", "Tombstones that the index holds", stats.tombstones)?;
        out.gauge("index_bytes", "DRAM held by the index", stats.index_bytes)?;
        out.gauge("dram_other_bytes", "DRAM held by the engine beside the index", stats.dram_other_bytes)?;
        out.counter("misses", "Gets that missed", stats.misses)?;
        out.counter("expired", "Records expired", stats.expired)?;
        out.counter("evicted", "Records evicted", stats.evicted)?;
        out.counter("writes_refused", "Writes refused because the store was full", stats.refused)?;
        shared.pressure.look(shared, &stats);
        let pressing = shared.pressure.now();
        let pressure =
            Kind::ALL.map(|kind| (vec![("kind", kind.name())], u64::from(pressing.contains(&kind)))).into();
        out.gauges("pressure", "What the store has too little of: 1 while it is so", pressure)?;
        out.counter("stalls", "Writes that waited for space", stats.stalls)?;

        let tiers = |field: fn(&TierStats) -> u64| -> Vec<Sample> {
            stats.tiers.iter().map(|tier| (vec![("tier", tier.tier)], field(tier))).collect()
        };
        out.gauges("tier_records", "Live records", tiers(|tier| tier.records))?;
        out.gauges(
            "tier_live_bytes",
            "Bytes of live records, headers included",
            tiers(|tier| tier.live_bytes),
        )?;
        out.gauges("tier_used_bytes", "Bytes in use, garbage included", tiers(|tier| tier.used_bytes))?;
        out.gauges("tier_capacity_bytes", "Bytes there are", tiers(|tier| tier.capacity_bytes))?;
        let taken = stats.tiers.iter().filter(|tier| tier.taken_bytes > 0);
        let taken = taken.map(|tier| (vec![("tier", tier.tier)], tier.taken_bytes)).collect();
        out.gauges("tier_taken_bytes", "Bytes taken on the disk so far", taken)?;
        out.counters("tier_hits", "Gets answered", tiers(|tier| tier.hits))?;
        let traffic = |field: fn(&Stats, &TierStats) -> u64| -> Vec<Sample> {
            stats.tiers.iter().map(|tier| (vec![("tier", tier.tier)], field(&stats, tier))).collect()
        };
        out.counters(
            "media_reads",
            "Read accesses, the log's counted",
            traffic(|stats, tier| stats.traffic(tier).reads),
        )?;
        out.counters(
            "media_read_bytes",
            "Bytes read, the log's counted",
            traffic(|stats, tier| stats.traffic(tier).read_bytes),
        )?;
        out.counters(
            "media_writes",
            "Write bursts, the log's counted",
            traffic(|stats, tier| stats.traffic(tier).writes),
        )?;
        out.counters(
            "media_write_bytes",
            "Bytes written, the log's counted",
            traffic(|stats, tier| stats.traffic(tier).write_bytes),
        )?;
        out.counters(
            "media_lines_flushed",
            "Cache lines written back",
            traffic(|stats, tier| stats.traffic(tier).lines_flushed),
        )?;
        out.counters(
            "media_fences",
            "Fences or syncs, the log's counted",
            traffic(|stats, tier| stats.traffic(tier).fences),
        )?;
        if let Some(log) = stats.log {
            out.gauge("log_used_bytes", "Bytes in log blocks in use", log.used_bytes)?;
            out.gauge("log_capacity_bytes", "Bytes of the log area", log.capacity_bytes)?;
        }
        if let Some(recovery) = stats.recovery {
            out.seconds("recovery_seconds", "How long the opening of the store took", recovery.nanoseconds)?;
            out.gauge(
                "recovery_pages_scanned",
                "Pages whose records it went through",
                recovery.scanned.pages,
            )?;
            out.gauge("recovery_pages", "Pages there were", recovery.scanned.of)?;
            out.gauge("recovery_records", "Records it found live", recovery.records)?;
            out.gauge("recovery_poisoned", "Damaged records it found and poisoned", recovery.poisoned)?;
        }
        let details =
            stats.engine_details.iter().map(|(name, value)| (vec![("name", *name)], *value)).collect();
        out.gauges("engine_detail", "Numbers of this engine", details)
    }
}

struct Writer<'a, 'b>(&'a mut DescriptorEncoder<'b>);

impl Writer<'_, '_> {
    fn gauge(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        self.gauges(name, help, vec![(vec![], value)])
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        self.counters(name, help, vec![(vec![], value)])
    }

    fn seconds(&mut self, name: &str, help: &str, nanoseconds: u64) -> fmt::Result {
        let sample = vec![(vec![], nanoseconds)];
        self.family(name, help, MetricType::Gauge, sample, |ns| ConstGauge::new(ns as f64 / 1e9))
    }

    fn gauges(&mut self, name: &str, help: &str, samples: Vec<Sample>) -> fmt::Result {
        self.family(name, help, MetricType::Gauge, samples, |value| ConstGauge::new(value as i64))
    }

    fn counters(&mut self, name: &str, help: &str, samples: Vec<Sample>) -> fmt::Result {
        self.family(name, help, MetricType::Counter, samples, ConstCounter::new)
    }

    fn family<M: EncodeMetric>(
        &mut self,
        name: &str,
        help: &str,
        kind: MetricType,
        samples: Vec<Sample>,
        metric: impl Fn(u64) -> M,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, kind)?;
        for (labels, value) in samples {
            if labels.is_empty() {
                return metric(value).encode(family);
            }
            metric(value).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
