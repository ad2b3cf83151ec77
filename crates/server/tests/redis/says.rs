//! What the server says about itself: what it lacks, numbers that clients parse, numbers that begin anew.

use std::collections::BTreeMap;
use std::io::{Read, Write};

use terrace::OpenStore;
use terrace::engine::Scanned;
use terrace_protocol::resp::Value;
use terrace_server::{Endpoint, ServerOptions};

use crate::client::{Client, error, ok};
use crate::ours::Ours;

fn info(client: &mut Client, section: &str) -> BTreeMap<String, String> {
    let Value::Bulk(text) = client.ask(&["INFO", section]) else { panic!("INFO is no text") };
    let text = String::from_utf8(text).unwrap();
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    let mut all = BTreeMap::new();
    for (name, value) in lines {
        assert!(all.insert(name.to_owned(), value.to_owned()).is_none(), "{name} is there twice: {text}");
    }
    all
}

/// A value as redis-py takes it: pairs if there is an equals sign, and else a list if there is a comma.
fn pairs(value: &str) -> Option<BTreeMap<&str, &str>> {
    value
        .contains('=')
        .then(|| value.split(',').map(|item| item.rsplit_once('=').unwrap_or((item, "no pair"))).collect())
}

/// What the admin port answers, head included.
fn page(ours: &Ours, path: &str) -> String {
    let mut stream = std::net::TcpStream::connect(ours.admin).unwrap();
    stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

fn open_on_ssd(dir: &tempfile::TempDir) -> OpenStore {
    let options = terrace::Options {
        engine: "tac".into(),
        dir: Some(dir.path().to_owned()),
        dram_records: Some(8 << 20),
        ssd: Some(terrace::Tier { bytes: 64 << 20, place: None }),
        ..terrace::Options::default()
    };
    terrace::open(options).unwrap()
}

fn on_ssd(dir: &tempfile::TempDir) -> Ours {
    let store = open_on_ssd(dir);
    let description = store.description.clone();
    Ours::over(store, ServerOptions { threads: 1, description, ..ServerOptions::default() })
}

#[test]
fn a_command_that_is_lacking_is_no_typo() {
    let ours = Ours::start();
    let mut client = Client::connect(ours.address);
    for (command, family) in [
        (&["LPUSH", "l", "1"][..], "lists"),
        (&["sadd", "s", "1"], "sets"),
        (&["ZADD", "z", "1", "a"], "sorted sets"),
        (&["HSET", "h", "f", "v"], "hashes"),
        (&["XADD", "x", "*", "f", "v"], "streams"),
        (&["GEOADD", "g", "1", "1", "a"], "geospatial indexes"),
        (&["EVAL", "return 1", "0"], "scripts"),
        (&["MIGRATE", "h"], "cluster"),
        (&["PSYNC", "?", "-1"], "replication"),
    ] {
        let name = command[0].to_ascii_uppercase();
        let expected = format!("ERR this server has no {family} yet: {name} is not supported");
        assert_eq!(client.ask(command), error(&expected));
    }
    for (command, expected) in [
        (["SCRIPT", "LOAD", "x"], "ERR this server has no scripts yet: SCRIPT LOAD is not supported"),
        (["XGROUP", "CREATE", "x"], "ERR this server has no streams yet: XGROUP is not supported"),
        (["LPUSHS", "a", "b"], "ERR unknown command 'LPUSHS', with args beginning with: 'a' 'b' "),
        (["SCRIPT", "LAOD", "x"], "ERR unknown subcommand 'LAOD'. Try SCRIPT HELP."),
    ] {
        assert_eq!(client.ask(&command), error(expected));
    }
    assert_eq!(client.ask(&["MULTI"]), ok());
    assert!(matches!(client.ask(&["RPUSH", "l", "1"]), Value::Error(_)));
    let Value::Error(aborted) = client.ask(&["EXEC"]) else { panic!("EXEC ran") };
    assert!(aborted.starts_with(b"EXECABORT"));
    ours.stop();
}

#[test]
fn numbers_of_tiers_are_read_by_clients() {
    let dir = tempfile::tempdir().unwrap();
    let ours = on_ssd(&dir);
    let mut client = Client::connect(ours.address);
    assert_eq!(client.ask(&["SET", "k", "v"]), ok());
    let tiers = info(&mut client, "tiers");
    for name in ["dram", "ssd"] {
        let tier = pairs(&tiers[name]).unwrap();
        for (key, value) in &tier {
            assert_eq!(value.parse::<u64>().is_ok(), *key != "medium", "{key}={value} in {tiers:?}");
        }
        let keys: Vec<_> = tier.into_keys().collect();
        assert_eq!(keys, ["capacity_bytes", "hits", "live_bytes", "medium", "records", "used_bytes"]);
        assert!(pairs(&tiers[&format!("{name}_media")]).unwrap().values().all(|n| n.parse::<u64>().is_ok()));
    }
    let found: Vec<_> = tiers.iter().filter(|(name, _)| name.starts_with("found_")).collect();
    assert!(found.len() > 1 && found.iter().all(|(_, text)| !text.contains([',', '='])), "{found:?}");
    ours.stop();
}

#[test]
fn all_that_is_counted_begins_anew() {
    let dir = tempfile::tempdir().unwrap();
    let ours = on_ssd(&dir);
    let mut client = Client::connect(ours.address);
    assert_eq!(client.ask(&["SET", "k", "v"]), ok());
    client.ask(&["GET", "k"]);
    client.ask(&["AUTH", "nobody", "wrong"]);
    assert_eq!(client.ask(&["SAVE"]), ok());
    let counted = |client: &mut Client| {
        let (stats, saved) = (info(client, "stats"), info(client, "persistence"));
        let hits = pairs(&info(client, "tiers")["dram"]).unwrap()["hits"].parse().unwrap();
        let number = |text: &str| text.parse::<u64>().unwrap();
        [
            number(&stats["total_batches_executed"]),
            number(&stats["acl_access_denied_auth"]),
            number(&saved["rdb_saves"]),
            hits,
        ]
    };
    let before = counted(&mut client);
    assert!(before[0] > 3 && before[1..].iter().all(|n| *n == 1), "{before:?}");
    assert_eq!(client.ask(&["CONFIG", "RESETSTAT"]), ok());
    let after = counted(&mut client);
    assert!(after[0] < before[0] && after[1..] == [0; 3], "{after:?}");
    ours.stop();
}

#[test]
fn traffic_of_the_ssd_counts_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let ours = on_ssd(&dir);
    let mut client = Client::connect(ours.address);
    let written = |client: &mut Client| -> u64 {
        pairs(&info(client, "tiers")["ssd_media"]).unwrap()["write_bytes"].parse().unwrap()
    };
    let before = written(&mut client);
    // Too little for a page to leave DRAM: what is written is the log.
    let value = "v".repeat(1000);
    for i in 0..200 {
        assert_eq!(client.ask(&["SET", &format!("k{i}"), &value]), ok());
    }
    let after = written(&mut client);
    assert!(after - before >= 200_000, "{before} before, {after} after");
    let (stats, metrics) = (ours.store.stats(), page(&ours, "/metrics"));
    let log = stats.log.unwrap().media.write_bytes;
    let tier = stats.tiers.iter().find(|tier| tier.tier == "ssd").unwrap();
    assert_eq!(stats.traffic(tier).write_bytes, tier.media.write_bytes + log);
    let line =
        metrics.lines().find_map(|line| line.strip_prefix("terrace_media_write_bytes_total{tier=\"ssd\"} "));
    assert!(line.unwrap().parse::<u64>().unwrap() >= after - before, "{metrics}");
    ours.stop();
}

#[test]
fn what_an_opening_went_through_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let start = || {
        let options = ServerOptions {
            memcached: vec![Endpoint::Tcp(([127, 0, 0, 1], 0).into())],
            threads: 1,
            ..ServerOptions::default()
        };
        Ours::over(open_on_ssd(&dir), options)
    };
    let ours = start();
    let mut client = Client::connect(ours.address);
    assert_eq!(client.ask(&["SET", "k", &"v".repeat(1000)]), ok());
    assert!(!info(&mut client, "persistence").contains_key("recovery"), "it is a new store");
    assert!(!page(&ours, "/metrics").contains("terrace_recovery"));
    drop(client);
    ours.stop();

    // Its snapshot spares the scan.
    for is_spared in [true, false] {
        let ours = start();
        let mut client = Client::connect(ours.address);
        let recovery = ours.store.stats().recovery.unwrap();
        let Scanned { pages, of } = recovery.scanned;
        assert!(of > 0 && (pages == 0) == is_spared, "{recovery:?}");
        let all = info(&mut client, "persistence");
        let told = pairs(&all["recovery"]).unwrap();
        assert_eq!(
            (told["pages_scanned"], told["pages"]),
            (&*pages.to_string(), &*of.to_string()),
            "{told:?}"
        );
        let metrics = page(&ours, "/metrics");
        let seconds = recovery.nanoseconds as f64 / 1e9;
        for line in [
            format!("terrace_recovery_seconds {seconds}"),
            format!("terrace_recovery_pages_scanned {pages}"),
            format!("terrace_recovery_pages {of}"),
            "terrace_recovery_records 1".to_owned(),
            "terrace_recovery_poisoned 0".to_owned(),
        ] {
            assert!(metrics.lines().any(|told| told == line), "{line}: {metrics}");
        }
        let stats = memcached_stats(&ours);
        for line in [format!("recovery_pages_scanned {pages}"), format!("recovery_pages {of}")] {
            assert!(stats.contains(&format!("STAT {line}\r\n")), "{line}: {stats}");
        }
        drop(client);
        let Ours { server, store, .. } = ours;
        server.shutdown().unwrap();
        store.kill();
    }
}

/// `stats` of memcached's protocol.
fn memcached_stats(ours: &Ours) -> String {
    let mut stream = std::net::TcpStream::connect(ours.memcached()).unwrap();
    stream.write_all(b"stats\r\nquit\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn a_full_store_names_the_tier_and_the_option() {
    let dir = tempfile::tempdir().unwrap();
    let ours = on_ssd(&dir);
    let mut client = Client::connect(ours.address);
    assert!(page(&ours, "/health").ends_with("\r\n\r\nok\n"));
    assert!(page(&ours, "/metrics").contains("terrace_pressure{kind=\"refusing\"} 0\n"));
    let value = "v".repeat(10_000);
    let refused = (0..20_000).find_map(|i| match client.ask(&["SET", &format!("k{i}"), &value]) {
        Value::Error(text) => Some(String::from_utf8(text).unwrap()),
        _ => None,
    });
    let refused = refused.unwrap();
    assert!(refused.starts_with("OOM command not allowed when used memory > 'maxmemory'."), "{refused}");
    assert!(refused.contains("tier ssd is full") && refused.contains("raise --ssd"), "{refused}");
    let health = page(&ours, "/health");
    assert!(
        health.starts_with("HTTP/1.0 200 ") && health.contains("\nrefusing: tier ssd is full"),
        "{health}"
    );
    let metrics = page(&ours, "/metrics");
    assert!(metrics.contains("terrace_pressure{kind=\"refusing\"} 1\n"), "{metrics}");
    assert!(!metrics.contains("terrace_writes_refused_total 0\n"), "{metrics}");
    assert_ne!(info(&mut client, "stats")["writes_refused"], "0");
    ours.stop();
}
