//! A full store says what gives it room, and that does, whatever the engine.

use std::path::Path;

use terrace::engine::Durability;
use terrace::{OpenStore, Options, Place, Tier};
use terrace_protocol::resp::Value;
use terrace_server::ServerOptions;

use crate::client::{Client, bulk, ok};
use crate::ours::Ours;

const BYTES: u64 = 64 << 20;

fn open(dir: &Path, engine: &str, tier: &str, bytes: u64) -> OpenStore {
    let of = |name: &str| {
        let place = (name == "pmem").then(|| Place::Path(dir.into()));
        (name == tier).then_some(Tier { bytes, place })
    };
    let options = Options {
        engine: engine.into(),
        dir: Some(dir.into()),
        dram_records: Some(8 << 20),
        pmem: of("pmem"),
        ssd: of("ssd"),
        profile: (tier == "pmem").then(|| "dram".into()),
        durability: Durability::None,
        ..Options::default()
    };
    terrace::open(options).unwrap()
}

fn serve(store: OpenStore) -> (Ours, Client) {
    let description = store.description.clone();
    let ours = Ours::over(store, ServerOptions { threads: 1, description, ..ServerOptions::default() });
    let client = Client::connect(ours.address);
    (ours, client)
}

fn set(client: &mut Client, number: u32) -> Result<(), String> {
    match client.ask(&["SET", &format!("key:{number}"), &"v".repeat(10_000)]) {
        Value::Error(text) => Err(String::from_utf8(text).unwrap()),
        other => {
            assert_eq!(other, ok());
            Ok(())
        }
    }
}

/// Fills it; the first number that is refused, and why.
fn fill(client: &mut Client) -> (u32, String) {
    (0..20_000).find_map(|number| set(client, number).err().map(|why| (number, why))).unwrap()
}

fn stop(ours: Ours, client: Client) {
    drop(client);
    ours.stop();
}

/// Fills a store, reads what it advises, and does that.
fn is_sound(engine: &str, tier: &str, advice: &str) {
    let dir = match tier {
        "pmem" => tempfile::tempdir_in("/dev/shm"),
        _ => tempfile::tempdir(),
    };
    let Ok(dir) = dir else { return };
    let (ours, mut client) = serve(open(dir.path(), engine, tier, BYTES));
    let (full, why) = fill(&mut client);
    assert!(why.contains(&format!("tier {tier} is full")) && why.contains(advice), "{engine}, {tier}: {why}");
    let more = (2 * BYTES).to_string();
    let asked = client.ask(&["CONFIG", "SET", &format!("{tier}-size"), &more]);
    if advice.contains("CONFIG SET") {
        assert_eq!(asked, ok(), "{engine}, {tier}");
        (full..full + 1_000).for_each(|number| set(&mut client, number).unwrap());
        return stop(ours, client);
    }
    assert!(matches!(asked, Value::Error(_)), "{engine}, {tier}: {asked:?}");
    stop(ours, client);
    let store = open(dir.path(), engine, tier, 2 * BYTES);
    let says = store.description.join("\n");
    let (ours, mut client) = serve(store);
    if advice.contains("start the server again") {
        assert!(says.contains("the store grew"), "{engine}, {tier}: {says}");
        (full..full + 1_000).for_each(|number| set(&mut client, number).unwrap());
    } else {
        let keeps = "was asked for: only a new store has another";
        assert!(says.contains(keeps) && !says.contains("CONFIG SET"), "{engine}, {tier}: {says}");
    }
    stop(ours, client);
}

#[test]
fn a_store_that_grows_when_it_is_opened_says_so() {
    for engine in ["scmkv", "bonsai"] {
        is_sound(engine, "pmem", ": raise --pmem and start the server again, delete keys, or");
    }
}

#[test]
fn a_store_that_grows_while_it_is_open_says_so() {
    for (engine, tier) in
        [("tac", "pmem"), ("tac", "ssd"), ("heap-hybrid", "pmem"), ("heap-persistent", "pmem")]
    {
        let advice = format!(": raise --{tier} with CONFIG SET {tier}-size, delete keys, or");
        is_sound(engine, tier, &advice);
    }
}

#[test]
fn a_store_that_keeps_its_size_says_so() {
    for tier in ["pmem", "ssd"] {
        let advice = format!(": raise --{tier} for a new store, as this one keeps its size, delete keys, or");
        is_sound("hetermm", tier, &advice);
    }
}

/// Engine `hetermm` has a read cache, which is changed while it runs; others say that they have none.
#[test]
fn the_read_cache_is_changed_while_the_server_runs() {
    for engine in ["hetermm", "tac"] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("terrace.toml");
        std::fs::write(&path, "threads = 1\n").unwrap();
        let store = open(dir.path(), engine, "ssd", BYTES);
        let options =
            ServerOptions { threads: 1, config_file: Some(path.clone()), ..ServerOptions::default() };
        let ours = Ours::over(store, options);
        let mut client = Client::connect(ours.address);
        let is = |client: &mut Client| client.ask(&["CONFIG", "GET", "read-cache"]);
        let told = |value: &str| Value::Array(vec![bulk("read-cache"), bulk(value)]);
        if engine == "hetermm" {
            assert_eq!(is(&mut client), told("gated"));
            for value in ["sampled:7", "off"] {
                assert_eq!(client.ask(&["CONFIG", "SET", "read-cache", value]), ok());
                assert_eq!(is(&mut client), told(value));
            }
            assert_eq!(client.ask(&["CONFIG", "REWRITE"]), ok());
            assert!(std::fs::read_to_string(&path).unwrap().contains("\nread-cache = \"off\"\n"));
        } else {
            assert_eq!(is(&mut client), told(""));
        }
        for (value, words) in [("sampled:0", "sampled:100"), ("on", "expected gated, off")] {
            let refused = client.ask(&["CONFIG", "SET", "read-cache", value]);
            assert!(
                matches!(&refused, Value::Error(text) if String::from_utf8_lossy(text).contains(words)),
                "{refused:?}"
            );
        }
        if engine == "tac" {
            let refused = client.ask(&["CONFIG", "SET", "read-cache", "off"]);
            assert!(
                matches!(&refused, Value::Error(text) if String::from_utf8_lossy(text).contains("no read cache"))
            );
        }
        stop(ours, client);
    }
}
