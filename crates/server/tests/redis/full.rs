//! A store that is full, and does not evict: what only reads goes on.

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
