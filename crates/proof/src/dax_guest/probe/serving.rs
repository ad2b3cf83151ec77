//! The server on the machine's media.

use std::io::Write as _;

use anyhow::{Context, ensure};
use terrace_media::detect;

use super::Probe;
use crate::dax_guest::judge::settle;
use crate::dax_guest::server::{Server, Started};
use crate::dax_guest::wire::Wire;
use crate::dax_guest::work::{Client, KEYS};

/// Where servers listen; each takes two ports.
const PORT: u16 = 7101;
/// Writes before each end.
const WRITES: u64 = 300;

impl Probe<'_> {
    /// Options for a tier at the probed place.
    fn tier(&self, size: &str) -> String {
        format!("{size}@{}", self.place.display())
    }

    fn ready(&self, options: &[&str]) -> anyhow::Result<Server> {
        let all = [&["--dram", "6MiB"], options].concat();
        Server::ready(self.terrace, self.scratch, PORT, &all)
    }

    /// Fails unless the server refuses to start and says why in these words; the line that holds them.
    pub(super) fn refused(&self, options: &[&str], words: &str) -> anyhow::Result<String> {
        let all = [&["--dram", "6MiB"], options].concat();
        match Server::start(self.terrace, self.scratch, PORT + 2, &all)? {
            Started::Ready(server) => anyhow::bail!("it started:\n{}", server.output()),
            Started::Refused(status, output) => {
                ensure!(!status.success(), "it ended with {status}");
                let line = output.lines().find(|line| line.contains(words));
                Ok(line.with_context(|| format!("{words:?} is not in:\n{output}"))?.trim().to_owned())
            }
        }
    }
}

pub fn tmpfs_is_refused(probe: &Probe<'_>) -> anyhow::Result<String> {
    let tier = format!("64MiB@{}", probe.scratch.join("not-lasting").display());
    probe.refused(&["--pmem", &tier], "is on tmpfs")
}

pub fn no_dax_is_refused(probe: &Probe<'_>) -> anyhow::Result<String> {
    probe.refused(&["--pmem", &probe.tier("64MiB")], "has no DAX")
}

pub fn second_opener_is_refused(probe: &Probe<'_>) -> anyhow::Result<String> {
    let tier = probe.tier("64MiB");
    let first = probe.ready(&["--dir", "first", "--pmem", &tier])?;
    let told = probe.refused(&["--dir", "second", "--pmem", &tier], "is in use by")?;
    let _ = std::io::stdout().flush();
    drop(first);
    Ok(told)
}

/// The device is larger than the tier and its mappings come in 2 MiB: what is behind the tier is not ours.
pub fn device_size_is_kept(probe: &Probe<'_>) -> anyhow::Result<String> {
    let device = detect(probe.place)?;
    let tier = probe.tier("61MiB");
    for start in ["first", "second"] {
        let server = probe.ready(&["--pmem", &tier, "--durability", "sync"])?;
        server.must_say("device DAX").context(start)?;
        server.must_say(", 61 MiB (").context(start)?;
        ensure!(server.terminate()?.success());
    }
    // A store knows its size: another one asked for later doesn't change it.
    let server = probe.ready(&["--pmem", &probe.tier("100MiB")])?;
    server.must_say(", 61 MiB (")?;
    drop(server);
    Ok(format!("61 MiB of {} bytes", device.free_bytes))
}

/// Writes, ends the server in both ways, and asks for everything each time.
pub fn survives(probe: &Probe<'_>) -> anyhow::Result<String> {
    let tier = probe.tier("64MiB");
    let options = ["--durability", "sync", "--pmem", &tier];
    let mut client = Client::new(1, 0);
    for (round, end) in ["SIGKILL", "SIGTERM", "nothing"].into_iter().enumerate() {
        let server = probe.ready(&options)?;
        server.must_say("DAX")?;
        let mut redis = Wire::connect(true, server.redis)?;
        let found = (0..KEYS).map(|key| redis.get(&client.key(key))).collect::<std::io::Result<Vec<_>>>()?;
        let beyond = settle(&mut client, &found).map_err(anyhow::Error::msg)?;
        ensure!(beyond == 0, "{beyond} writes that nobody made");
        client.boot = round as u64;
        let mut memcached = Wire::connect(false, server.memcached)?;
        for i in 0..WRITES {
            let wire = if i % 2 == 0 { &mut redis } else { &mut memcached };
            let write = client.step();
            let (key, bytes) = (client.key(write.key), client.bytes(write.piece));
            let expected = wire.queue(&key, write.change, &bytes, client.length(write.key));
            wire.flush()?;
            wire.receive(&expected).with_context(|| format!("write {i}"))?;
        }
        match end {
            "SIGTERM" => ensure!(server.terminate()?.success(), "SIGTERM must end it in order"),
            _ => drop(server),
        }
    }
    Ok(format!("{} writes", client.number))
}
