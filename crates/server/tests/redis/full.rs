//! A store that is full, and does not evict: what only reads goes on.

use terrace::Options;
use terrace_protocol::resp::Value;
use terrace_server::ServerOptions;

use crate::client::{Client, bulk};
use crate::ours::Ours;

#[test]
fn what_only_reads_goes_on() {
    let ours = Ours::start_over(4 << 20, ServerOptions::default());
    let mut client = Client::connect(ours.address);
    let elements: Vec<String> = (0..3000).map(|i| i.to_string()).collect();
    let add = ["PFADD", "counted"].into_iter().chain(elements.iter().map(String::as_str));
    assert_eq!(client.ask(&add.collect::<Vec<_>>()), Value::Integer(1));
    let before = client.ask(&["GET", "counted"]);
    // Smaller and smaller ones, until there is room for none.
    for bytes in [100_000, 1000, 1] {
        let value = "v".repeat(bytes);
        let refused =
            (0..1_000_000).find_map(|i| match client.ask(&["SET", &format!("{bytes}:{i}"), &value]) {
                Value::Error(text) => Some(String::from_utf8(text).unwrap()),
                _ => None,
            });
        assert!(refused.as_ref().is_some_and(|text| text.starts_with("OOM ")), "{refused:?}");
    }
    let counted = client.ask(&["PFCOUNT", "counted"]);
    let Value::Integer(count) = counted else { panic!("{counted:?}") };
    assert!((2900..3100).contains(&count), "{count}");
    assert!(client.ask(&["GET", "counted"]) == before, "there was no room to keep the estimate");
    assert!(matches!(client.ask(&["PFADD", "counted", "another"]), Value::Error(_)));
    assert_eq!(client.ask(&["GET", "1:0"]), bulk("v"));
    assert_eq!(client.ask(&["DEL", "100000:0", "100000:1", "100000:2"]), Value::Integer(3));
    assert_eq!(client.ask(&["PFCOUNT", "counted"]), Value::Integer(count));
    assert!(client.ask(&["GET", "counted"]) != before, "now it is kept");
    ours.stop();
}

/// How many values of this length fit before one is refused; they are gone then.
fn fit(client: &mut Client, value: &str) -> usize {
    let refused = |i: &usize| matches!(client.ask(&["SET", &i.to_string(), value]), Value::Error(_));
    let count = (0..1_000_000).find(refused).unwrap();
    client.ask(&["FLUSHALL"]);
    count
}

/// Of a budget for all of the process's memory.
#[test]
fn what_lies_beyond_the_store_is_no_room_for_records() {
    const MIB: u64 = 1 << 20;
    let budget = 64 * MIB;
    let store = Options { engine: "dram".into(), dram: Some(budget), ..Options::default() };
    let options = ServerOptions { threads: 2, dram_budget_bytes: budget, ..ServerOptions::default() };
    let ours = Ours::over(terrace::open(store).unwrap(), options);
    let mut client = Client::connect(ours.address);
    let (value, watch) = ("v".repeat(100_000), ours.server.memory_watch());
    let all = fit(&mut client, &value);
    let counted = || {
        let stats = ours.store.stats();
        stats.index_bytes + stats.dram_other_bytes + ours.store.buffers_of(budget)
    };
    let beyond = |bytes: u64| {
        // What was flushed goes in the background.
        let gone = (0..1_000_000).any(|_| {
            ours.store.step();
            counted() < budget / 2
        });
        assert!(gone, "{} bytes", counted());
        watch(counted() + bytes);
    };
    // Three quarters of 16 MiB may lie beyond it.
    beyond(11 * MIB);
    let as_many = fit(&mut client, &value);
    beyond(20 * MIB);
    let fewer = fit(&mut client, &value);
    let missing = (all - fewer) as u64 * value.len() as u64;
    assert!(as_many * 100 >= all * 95, "{as_many} of {all}");
    assert!((5 * MIB..11 * MIB).contains(&missing), "{missing} bytes less: {fewer} of {all}");
    (0..10_000).for_each(|_| watch(counted()));
    let again = fit(&mut client, &value);
    assert!(again * 100 >= all * 95, "{again} of {all}");
    ours.stop();
}
