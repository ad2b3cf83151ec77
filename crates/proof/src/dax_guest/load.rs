//! One boot of the power-cut loop: open what the last cut left, check it, then write until the power goes.
//!
//! ```text
//!   @@OPENING                 the server is being started: recovery
//!   @@START n0 n1 n2 n3       all is as it must be; client i goes on with write n_i
//!   @@ACK i n                 client i has had its first n writes acknowledged
//!   @@STOPPING  @@STOPPED     an orderly stop, if one was asked for
//!   @@FAIL ...                something is wrong, in words
//! ```

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use terrace_testkit::client::{RespClient, Value};
use terrace_testkit::rng::Rng;

use super::console::{say, say_first};
use super::judge::settle;
use super::server::Server;
use super::wire::Wire;
use super::work::{CLIENTS, Client, KEYS, Start};

/// A client tells how far it is after at least so many writes: the console is slow.
const TELL_EVERY: u64 = 8;
/// Requests in a pipeline at most.
const PIPELINE_MAX: u64 = 8;

/// Starts the server on the device, checks what it has, writes until the machine is cut off.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// The `terrace` binary.
    #[arg(long)]
    terrace: PathBuf,
    /// A directory for what is of no interest after this boot.
    #[arg(long)]
    scratch: PathBuf,
    /// The tier, as `terrace serve --pmem` takes it.
    #[arg(long)]
    pmem: String,
    /// The store's engine.
    #[arg(long)]
    engine: String,
    /// What the server must say about its medium.
    #[arg(long)]
    expect: String,
    /// The seed of all writes.
    #[arg(long)]
    seed: u64,
    /// The number of this boot.
    #[arg(long)]
    boot: u64,
    /// Earlier boots and where each client went on in them: `1:0,0,0,0;3:10,7,25,16`.
    #[arg(long, default_value = "")]
    history: String,
    /// Writes that each client has had acknowledged.
    #[arg(long, default_value = "0,0,0,0")]
    acknowledged: Numbers,
    /// Stop the server in order after so many writes of all clients.
    #[arg(long)]
    stop_after: Option<u64>,
}

/// A number for each client.
#[derive(Clone, Debug)]
struct Numbers(Vec<u64>);

impl FromStr for Numbers {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let numbers: Result<Vec<u64>, _> = text.split(',').map(str::parse).collect();
        let numbers = numbers.map_err(|error| format!("{text:?}: {error}"))?;
        if numbers.len() == CLIENTS {
            Ok(Self(numbers))
        } else {
            Err(format!("{text:?}: expected {CLIENTS} numbers"))
        }
    }
}

fn history(text: &str) -> Result<Vec<Start>, String> {
    let start = |part: &str| {
        let (boot, numbers) =
            part.split_once(':').ok_or_else(|| format!("{part:?}: expected BOOT:NUMBERS"))?;
        let boot = boot.parse().map_err(|error| format!("{part:?}: {error}"))?;
        Ok(Start { boot, numbers: numbers.parse::<Numbers>()?.0 })
    };
    text.split(';').filter(|part| !part.is_empty()).map(start).collect()
}

/// Runs the command; it comes back if something is wrong, or after an orderly stop.
///
/// # Errors
/// If the server can't be started.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    match attempt(arguments) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => {
            for line in format!("{error:#}").lines() {
                say(&format!("FAIL {line}"));
            }
            Ok(ExitCode::FAILURE)
        }
    }
}

fn attempt(arguments: &Arguments) -> anyhow::Result<()> {
    let history = history(&arguments.history).map_err(anyhow::Error::msg)?;
    say_first("OPENING");
    // Little DRAM, so that pages go down to the device while the load runs.
    let options =
        ["--engine", &arguments.engine, "--dram", "6MiB", "--durability", "sync", "--pmem", &arguments.pmem];
    let server = Server::ready(&arguments.terrace, &arguments.scratch, 7001, &options)?;
    server.must_say(&arguments.expect)?;
    server.must_say("durability sync")?;

    let mut clients = Vec::new();
    let (mut present, mut beyond) = (0, 0);
    for (i, acknowledged) in arguments.acknowledged.0.iter().enumerate() {
        let mut client = Client::replayed(arguments.seed, i, &history, *acknowledged);
        // Read over the other protocol than the one it writes with.
        let mut wire = Wire::connect(i % 2 == 1, if i % 2 == 1 { server.redis } else { server.memcached })?;
        let found = (0..KEYS).map(|key| wire.get(&client.key(key))).collect::<io::Result<Vec<_>>>()?;
        present += found.iter().flatten().count();
        beyond += settle(&mut client, &found).map_err(|wrong| anyhow::anyhow!("client {i}: {wrong}"))?;
        client.boot = arguments.boot;
        clients.push(client);
    }
    let size = RespClient::connect(server.redis)?.text("DBSIZE")?;
    anyhow::ensure!(size == Value::Integer(present as i64), "DBSIZE is {size:?}, {present} keys are there");
    say(&format!("CHECKED {present} keys there, {beyond} writes beyond those told"));
    let numbers: Vec<_> = clients.iter().map(|client| client.number.to_string()).collect();
    say_first(&format!("START {}", numbers.join(" ")));
    write(arguments, server, clients)
}

fn write(arguments: &Arguments, server: Server, clients: Vec<Client>) -> anyhow::Result<()> {
    let (all, stopping) = (AtomicU64::new(0), Arc::new(AtomicBool::new(false)));
    let (redis, memcached) = (server.redis, server.memcached);
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let (all, stopping) = (&all, &stopping);
        for (i, client) in clients.into_iter().enumerate() {
            let (tell, seed) = (tell.clone(), arguments.seed ^ arguments.boot << 8 ^ i as u64);
            let wire = Wire::connect(i % 2 == 0, if i % 2 == 0 { redis } else { memcached });
            scope.spawn(move || {
                let reach = arguments.stop_after.unwrap_or(u64::MAX);
                let result =
                    wire.and_then(|wire| go_on(client, wire, i, seed, all, reach, &|| _ = tell.send(Ok(()))));
                if let Err(error) = result {
                    // The server goes before its clients in an orderly stop.
                    if !stopping.load(Ordering::Acquire) {
                        _ = tell.send(Err(anyhow::anyhow!("client {i}: {error}")));
                    }
                }
            });
        }
        // Only an end is ever told; without one this lasts as long as the machine.
        told.recv()??;
        say_first("STOPPING");
        // Release: pairs with the acquire above, where a client finds out why its connection ended.
        stopping.store(true, Ordering::Release);
        let status = server.terminate()?;
        anyhow::ensure!(status.success(), "SIGTERM must end the server in order, not with {status}");
        say("STOPPED");
        Ok(())
    })
}

/// Writes until the connection ends.
fn go_on(
    mut client: Client,
    mut wire: Wire,
    i: usize,
    seed: u64,
    all: &AtomicU64,
    reach: u64,
    reached: &dyn Fn(),
) -> io::Result<()> {
    let mut rng = Rng::new(seed);
    let mut told = client.number;
    loop {
        let count = rng.between(1, PIPELINE_MAX);
        let mut expected = Vec::new();
        for _ in 0..count {
            let write = client.step();
            let (key, bytes) = (client.key(write.key), client.bytes(write.piece));
            expected.push(wire.queue(&key, write.change, &bytes, client.length(write.key)));
        }
        wire.flush()?;
        for expected in &expected {
            wire.receive(expected)?;
        }
        if client.number - told >= TELL_EVERY {
            told = client.number;
            say(&format!("ACK {i} {told}"));
        }
        // Relaxed: a count. Whoever passes the mark tells.
        let before = all.fetch_add(count, Ordering::Relaxed);
        if before < reach && before + count >= reach {
            reached();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histories_are_read() {
        assert_eq!(history("").unwrap(), []);
        let two = history("1:0,0,0,0;3:10,7,25,16").unwrap();
        assert_eq!(two[1], Start { boot: 3, numbers: vec![10, 7, 25, 16] });
        for wrong in ["1", "1:2", "x:0,0,0,0", "1:0,0,0,0,0"] {
            assert!(history(wrong).is_err(), "{wrong}");
        }
    }
}
