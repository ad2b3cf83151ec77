//! The report for people.

use std::fmt;

use terrace::human_bytes;

use super::Report;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.conditions(f)?;
        writeln!(
            f,
            "\nthroughput  {:.0} operations/s ({} in {:.3} s; load {:.3} s)",
            self.ops_per_second, self.operations, self.seconds, self.load_seconds
        )?;
        self.latencies(f)?;
        self.tiers_and_hits(f)?;
        self.accesses(f)?;
        if let Some(bytes) = self.dram_bytes_per_record {
            let index = self.index_bytes_per_record.unwrap_or(0.0);
            writeln!(f, "\nDRAM a record  {bytes:.1} B (index {index:.1} B)")?;
        }
        self.soundness(f)
    }
}

impl Report {
    fn conditions(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = &self.options;
        let emulated = match &options.profile {
            Some(profile) => format!("{profile} (emulated)"),
            None => "none".to_owned(),
        };
        let server = options.connect.as_ref().map(|at| format!(" at {at}")).unwrap_or_default();
        writeln!(f, "engine      {}{server}, index {}, workload {}", self.engine, self.index, self.workload)?;
        writeln!(
            f,
            "records     {} of {} + {} bytes, {}, seed {}",
            self.records, options.key_bytes, options.value_bytes, options.distribution, options.seed
        )?;
        let in_flight = match options.in_flight {
            1 => String::new(),
            batches => format!(", {batches} in flight"),
        };
        let rate = options.rate.map_or_else(String::new, |rate| format!(", {rate} operations a second"));
        writeln!(f, "running     {} threads, batches of {}{in_flight}{rate}", self.threads, options.batch)?;
        writeln!(f, "durability  {}, profile {emulated}", options.durability)?;
        let sizes: Vec<String> = [
            ("dram", options.dram),
            ("dram-records", options.dram_records),
            ("pmem", options.pmem),
            ("ssd", options.ssd),
        ]
        .iter()
        .filter_map(|(name, bytes)| bytes.map(|bytes| format!("{name} {}", human_bytes(bytes))))
        .collect();
        if !sizes.is_empty() {
            writeln!(f, "sizes       {}", sizes.join(", "))?;
        }
        options.description.iter().try_for_each(|line| writeln!(f, "            {line}"))
    }

    fn latencies(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\nlatency us {:>16} {:>9} {:>9} {:>9} {:>9} {:>9}  (of the operation's batch)",
            "p50", "p90", "p99", "p99.9", "p99.99", "max"
        )?;
        for (kind, latency) in &self.latency_ns {
            let us = |ns: u64| ns as f64 / 1000.0;
            writeln!(
                f,
                "{kind:<17} {:>9.1} {:>9.1} {:>9.1} {:>9.1} {:>9.1} {:>9.1}",
                us(latency.p50),
                us(latency.p90),
                us(latency.p99),
                us(latency.p999),
                us(latency.p9999),
                us(latency.max)
            )?;
        }
        Ok(())
    }

    fn tiers_and_hits(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.tiers.is_empty() {
            return Ok(());
        }
        writeln!(f, "\ntier  {:>12} {:>12} {:>12} {:>8}  medium", "records", "live", "capacity", "hits")?;
        for (name, tier) in &self.tiers {
            let capacity = tier.capacity_bytes.map_or_else(|| "-".to_owned(), human_bytes);
            let hits =
                tier.hit_ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{:.1}%", 100.0 * ratio));
            let live = human_bytes(tier.bytes);
            writeln!(
                f,
                "{name:<5} {:>12} {live:>12} {capacity:>12} {hits:>8}  {}",
                tier.records, tier.medium
            )?;
        }
        if let Some(optimum) = &self.static_optimum
            && let Some(reached) = optimum.hit_ratio_share_of_optimum
        {
            writeln!(
                f,
                "DRAM fits {:.1}% of the records; the best static choice would hit {:.1}% under {} over {} records; reached {:.1}% of that",
                100.0 * optimum.dram_share,
                100.0 * optimum.hit_ratio_static_optimum,
                self.options.distribution,
                self.records,
                100.0 * reached
            )?;
        }
        Ok(())
    }

    fn accesses(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.media.is_empty() {
            return Ok(());
        }
        writeln!(
            f,
            "\nan operation {:>8} {:>10} {:>8} {:>10} {:>8} {:>8} {:>14}",
            "reads", "B read", "writes", "B written", "flushes", "fences", "B/payload B"
        )?;
        for (name, media) in &self.media {
            let each = &media.per_operation;
            let amplification =
                media.bytes_per_payload_byte.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
            writeln!(
                f,
                "{name:<12} {:>8.3} {:>10.1} {:>8.3} {:>10.1} {:>8.3} {:>8.3} {amplification:>14}",
                each.reads, each.read_bytes, each.writes, each.write_bytes, each.flushes, each.fences
            )?;
        }
        Ok(())
    }

    fn soundness(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "answers     {} gets ({} missed), {} sets; {} gets compared, {} wrong",
            self.gets, self.misses, self.sets, self.verified, self.wrong
        )?;
        for (reason, count) in &self.errors {
            writeln!(f, "refused     {count} times: {reason}")?;
        }
        if let Some(recovery) = &self.recovery {
            writeln!(
                f,
                "recovery    {} of {} records in {:.3} s; of {} read back {} missing, {} wrong",
                recovery.records,
                recovery.expected,
                recovery.seconds,
                recovery.sampled,
                recovery.sample_missing,
                recovery.sample_wrong
            )?;
        }
        Ok(())
    }
}
