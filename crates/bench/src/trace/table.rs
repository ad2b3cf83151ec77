//! The report for people.

use std::fmt;

use super::{HALVE_ACCESSES, Report, Row};

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = &self.options;
        writeln!(
            f,
            "percent of gets; {} records, {}% sets, {} N accesses warm, {} N measured, {} ticks in N, counts halved every {}, {} stored, seed {}",
            options.records,
            options.sets_percent,
            options.warm,
            options.measured,
            options.ticks,
            options.halve_every.map_or_else(
                || format!("{HALVE_ACCESSES} accesses a DRAM record"),
                |lengths| format!("{lengths} N")
            ),
            if options.stores_all { "all counts" } else { "changes by an eighth" },
            options.seed
        )?;
        let group =
            |row: &Row| (row.distribution.clone(), row.dram_share.to_bits(), row.pmem_share.to_bits());
        for rows in self.rows.chunk_by(|a, b| group(a) == group(b)) {
            let Some(first) = rows.first() else { continue };
            writeln!(
                f,
                "\n{}, DRAM {}%, PMem {}%\n{:34}{:>8}{:>8}{:>8}{:>8}{:>8}{:>9}{:>9}{:>8}",
                first.distribution,
                first.dram_share,
                first.pmem_share,
                "",
                "DRAM",
                "PMem",
                "both",
                "% opt",
                "% opt 2",
                "up/op",
                "down/op",
                "back"
            )?;
            let bound = |f: &mut fmt::Formatter<'_>, name: &str, dram: f64, both: f64| {
                writeln!(f, "{name:34}{dram:>8.2}{:>8.2}{both:>8.2}", both - dram)
            };
            bound(f, "Belady", first.belady_dram, first.belady_both)?;
            bound(f, "static optimum", first.optimum_dram, first.optimum_both)?;
            for row in rows {
                let both = row.dram_hits + row.pmem_hits;
                writeln!(
                    f,
                    "{:34}{:>8.2}{:>8.2}{both:>8.2}{:>8.1}{:>8.1}{:>9.4}{:>9.4}{:>8}",
                    row.setup,
                    row.dram_hits,
                    row.pmem_hits,
                    100.0 * row.dram_hits / row.optimum_dram,
                    100.0 * both / row.optimum_both,
                    row.moves_up,
                    row.moves_down,
                    row.back_after.map_or("-".into(), |after| format!("{after:.2}"))
                )?;
            }
        }
        Ok(())
    }
}
