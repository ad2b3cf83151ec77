//! `INFO`: sections of `name:value` lines, named as Redis names them where the meaning is the same.

mod commands;
mod process;
mod rates;
mod sections;

pub(super) use process::process_memory;
pub(crate) use rates::Rates;

use std::fmt;

use terrace_engine::Stats;

use super::call::{Call, Outcome};
use super::stats::Numbers;
use crate::protocol::Context;

/// What sections tell about.
struct About<'a> {
    ctx: &'a Context<'a>,
    stats: Stats,
    commands: Vec<Numbers>,
}

/// One section.
struct Section {
    name: &'static str,
    /// Told by `INFO` without arguments.
    by_default: bool,
    /// Writes its lines.
    write: fn(&mut String, &About<'_>) -> fmt::Result,
}

const SECTIONS: [Section; 14] = {
    const fn section(
        name: &'static str,
        by_default: bool,
        write: fn(&mut String, &About<'_>) -> fmt::Result,
    ) -> Section {
        Section { name, by_default, write }
    }
    [
        section("Server", true, sections::server),
        section("Clients", true, sections::clients),
        section("Memory", true, sections::memory),
        section("Persistence", true, sections::persistence),
        section("Stats", true, sections::counts),
        section("Replication", true, sections::replication),
        section("CPU", true, process::cpu),
        section("Modules", true, sections::nothing),
        section("Tiers", true, sections::tiers),
        section("Commandstats", false, commands::commands),
        section("Errorstats", true, commands::errors),
        section("Latencystats", false, commands::latencies),
        section("Cluster", true, sections::cluster),
        section("Keyspace", true, sections::keyspace),
    ]
};

/// `INFO [section …]`.
pub(super) fn info(call: &mut Call<'_>) -> Outcome {
    let wanted: Vec<String> =
        call.args.from(1).map(|name| String::from_utf8_lossy(name).to_ascii_lowercase()).collect();
    call.about_store(move |answer| {
        let text = text(&wanted, answer.ctx);
        answer.encoder.verbatim(text.as_bytes());
    })
}

fn text(wanted: &[String], ctx: &Context<'_>) -> String {
    let all = wanted.iter().any(|name| matches!(&**name, "all" | "everything"));
    let default = wanted.is_empty() || wanted.iter().any(|name| name == "default");
    let shared = ctx.shared;
    let about = About { ctx, stats: shared.store.stats(), commands: shared.redis.stats.commands() };
    let mut text = String::new();
    for section in &SECTIONS {
        if all || default && section.by_default || wanted.contains(&section.name.to_ascii_lowercase()) {
            let gap = if text.is_empty() { "" } else { "\r\n" };
            text += &format!("{gap}# {}\r\n", section.name);
            // Writing to a string does not fail.
            let _written = (section.write)(&mut text, &about);
        }
    }
    text
}

/// Writes `name:value` lines.
macro_rules! lines {
    ($out:expr; $($name:literal: $value:expr),* $(,)?) => {{
        $(write!($out, concat!($name, ":{}\r\n"), $value)?;)*
        Ok(())
    }};
}
use lines;

/// Bytes for people, as Redis shows them.
fn human(bytes: u64) -> String {
    const UNITS: [(u64, &str); 4] = [(1 << 40, "T"), (1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];
    let unit = UNITS.into_iter().find(|(size, _)| bytes >= *size);
    unit.map_or(format!("{bytes}B"), |(size, name)| format!("{:.2}{name}", bytes as f64 / size as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_shown_as_redis_shows_them() {
        let shown: Vec<String> = [0, 1023, 1024, 2_201_848, 25_276_502_016].map(human).to_vec();
        assert_eq!(shown, ["0B", "1023B", "1.00K", "2.10M", "23.54G"]);
    }
}
