//! What a week cost, and what it may cost.

use super::server::{Server, Traffic};
use super::setting::Setting;

/// What was counted.
#[derive(Clone, Debug, Default)]
pub struct Economy {
    pub operations: u64,
    /// Answers that no account allows.
    pub wrong: u64,
    /// Reads of a cache that found nothing, where something had been stored.
    pub missed: u64,
    /// Writes that were refused, though no more than the promised share of the tier lived.
    pub refused: u64,
    pub first_refusal: String,
    /// How far the count of keys was off.
    pub miscounted: u64,
    pub resizes_refused: u64,
    /// Bytes that the client wrote (keys and values) and read (values).
    pub client_written: u64,
    pub client_read: u64,
    /// Bytes that the server counted on its SSD, the log among them, and on PMem, which is memory to the system.
    pub ssd: Traffic,
    pub pmem: Traffic,
    /// Bytes that the system counted below the process. It counts all of a folio of the page cache (up to a megabyte) where a part of
    /// it is written, so that writes of the log, which is buffered, count many times; and what long buffers spill, too.
    pub system: Traffic,
    /// The most anonymous memory seen, in bytes.
    pub memory: u64,
    /// The longest that a pipeline's answers took.
    pub longest: Stall,
    /// The longest beside the silence of the disk, once the week is over.
    pub longest_own: Stall,
    pub calm_p99_us: u64,
    pub p99_us: u64,
    pub restart_ms: u64,
    /// Of the tier, what could live when it refused; `None` if it never did.
    pub live_share: Option<f64>,
    /// And how it said so.
    pub full_as: String,
}

/// A pipeline whose answers took long.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stall {
    pub took_us: u64,
    /// Of it, the disk answered nobody.
    pub silent_us: u64,
    /// What was done then, and the answer that most of it was waited for.
    pub during: String,
}

impl Stall {
    /// Of it, what the store took.
    pub fn own_us(&self) -> u64 {
        self.took_us.saturating_sub(self.silent_us)
    }
}

/// A write is taken while no more of the tier than this lives.
const LIVE_SHARE: f64 = 0.85;

/// Anonymous memory over the budget: the larger of these.
const OVER_SHARE: f64 = 0.05;
const OVER_BYTES: u64 = 16 << 20;
/// Bytes written to the SSD for a byte of the client's, at most: log, page and what reclaiming moves.
const WRITTEN_FOR_A_BYTE: f64 = 6.0;
/// What a store writes without being asked, manifests and marks of time above all.
const WRITTEN_ANYWAY: u64 = 64 << 20;

impl Economy {
    /// Adds what a server that is about to end has cost.
    ///
    /// # Errors
    /// If it has ended already.
    pub fn measure(&mut self, server: &Server) -> anyhow::Result<()> {
        self.system.add(server.traffic()?);
        self.memory = self.memory.max(server.most_memory());
        Ok(())
    }

    /// Adds what a server says of its media in its INFO.
    pub fn measure_media(&mut self, info: &str) {
        for (media, traffic) in [("ssd_media:", &mut self.ssd), ("pmem_media:", &mut self.pmem)] {
            let Some(line) = info.lines().find_map(|line| line.strip_prefix(media)) else { continue };
            let field = |name: &str| {
                let found =
                    line.trim().split(',').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
                found.and_then(|number| number.parse::<u64>().ok()).unwrap_or(0)
            };
            traffic.add(Traffic { read: field("read_bytes"), written: field("write_bytes") });
        }
    }

    /// The most anonymous memory that a setting may take.
    pub fn memory_allowed(setting: &Setting) -> u64 {
        let budget = setting.dram_mib << 20;
        budget + ((budget as f64 * OVER_SHARE) as u64).max(OVER_BYTES)
    }

    /// Keeps the longest stalls.
    pub fn stalled(&mut self, stall: &Stall) {
        if stall.took_us > self.longest.took_us {
            self.longest = stall.clone();
        }
        if stall.own_us() > self.longest_own.own_us() {
            self.longest_own = stall.clone();
        }
    }

    /// What is more than it may be; `stall_ms` bounds the longest answer beside the silence of the disk.
    pub fn broken(&self, setting: &Setting, stall_ms: u64) -> Vec<String> {
        let mut broken = Vec::new();
        let mut check = |holds: bool, text: String| {
            if !holds {
                broken.push(text);
            }
        };
        check(self.wrong == 0, format!("{} wrong answers", self.wrong));
        check(self.refused == 0, format!("{} writes refused: {}", self.refused, self.first_refusal));
        check(self.miscounted == 0, format!("the count of keys is off by {}", self.miscounted));
        let allowed = Self::memory_allowed(setting);
        check(
            self.memory <= allowed,
            format!("{} MiB of memory, {} allowed", self.memory >> 20, allowed >> 20),
        );
        let most = (self.client_written as f64 * WRITTEN_FOR_A_BYTE) as u64 + WRITTEN_ANYWAY;
        check(
            self.ssd.written <= most,
            format!("{} MiB written to the SSD, {} allowed", self.ssd.written >> 20, most >> 20),
        );
        let live = self.live_share.unwrap_or(1.0);
        check(
            live >= LIVE_SHARE,
            format!("refused when {:.1}% of the tier lived: {}", live * 100.0, self.full_as),
        );
        let stall = &self.longest_own;
        check(
            stall.own_us() <= stall_ms * 1000,
            format!(
                "an answer took {} ms, {} of them in a silence of the disk, during {}; {stall_ms} allowed",
                stall.took_us / 1000,
                stall.silent_us / 1000,
                stall.during
            ),
        );
        broken
    }

    /// The table's head.
    pub fn head() -> String {
        format!(
            "{:<10} {:<12} {:>9} {:>6} {:>7} {:>8} {:>7} {:>7} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>9} {:>8} {:>8} {:>8} {:>6}",
            "setting",
            "workload",
            "thousand",
            "wrong",
            "refused",
            "count",
            "SSD W",
            "SSD R",
            "PMem W",
            "PMem R",
            "system W",
            "mem MiB",
            "allowed",
            "p99 ms",
            "calm ms",
            "stall ms",
            "own ms",
            "start ms",
            "live %"
        )
    }

    /// A line of it.
    pub fn line(&self, setting: &Setting, workload: &str) -> String {
        let ratio = |bytes: u64, of: u64| bytes as f64 / of.max(1) as f64;
        format!(
            "{:<10} {:<12} {:>9} {:>6} {:>7} {:>8} {:>7.2} {:>7.2} {:>8.2} {:>8.2} {:>8.2} {:>8} {:>8} {:>8.2} {:>9.2} {:>8} {:>8} {:>8} {:>6}",
            setting.name,
            workload,
            self.operations / 1000,
            self.wrong,
            self.refused,
            self.miscounted,
            ratio(self.ssd.written, self.client_written),
            ratio(self.ssd.read, self.client_read),
            ratio(self.pmem.written, self.client_written),
            ratio(self.pmem.read, self.client_read),
            ratio(self.system.written, self.client_written),
            self.memory >> 20,
            Self::memory_allowed(setting) >> 20,
            self.p99_us as f64 / 1000.0,
            self.calm_p99_us as f64 / 1000.0,
            self.longest.took_us / 1000,
            self.longest_own.own_us() / 1000,
            self.restart_ms,
            self.live_share.map_or("-".into(), |share| format!("{:.0}", share * 100.0))
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_broken_is_named() {
        let setting = &super::super::setting::ALL[0];
        let mut economy = Economy { client_written: 100 << 20, ..Economy::default() };
        economy.measure_media("ssd_media:write_bytes=314572800\r\n");
        assert_eq!(economy.broken(setting, 100), Vec::<String>::new());
        economy.memory = 81 << 20;
        economy.refused = 3;
        economy.first_refusal = "-OOM".into();
        economy.ssd.written = 700 << 20;
        economy.stalled(&Stall { took_us: 101_000, ..Stall::default() });
        economy.stalled(&Stall { took_us: 300_000, silent_us: 290_000, ..Stall::default() });
        assert_eq!((economy.longest.took_us, economy.longest_own.took_us), (300_000, 101_000));
        economy.live_share = Some(0.5);
        economy.measure_media("# tiers\r\npmem_media:reads=3,read_bytes=500,writes=2,write_bytes=40\r\n");
        assert_eq!((economy.pmem.read, economy.pmem.written), (500, 40));
        let broken = economy.broken(setting, 100);
        assert_eq!(broken.len(), 5, "{broken:?}");
        assert!(broken[0].contains("3 writes refused: -OOM"), "{broken:?}");
    }
}
