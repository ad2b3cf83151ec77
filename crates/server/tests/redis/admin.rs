//! What is told about the server and changed in it: sections, numbers that grow, the slow log, latency, debugging, the file of
//! settings, the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use terrace_protocol::resp::Value;
use terrace_server::ServerOptions;

use crate::client::{Client, bulk, error, ok};
use crate::ours::Ours;

fn text(value: Value) -> String {
    match value {
        Value::Bulk(text) | Value::Verbatim(text) | Value::Simple(text) | Value::Error(text) => {
            String::from_utf8(text).unwrap()
        }
        other => panic!("{other:?} is no text"),
    }
}

fn array(value: Value) -> Vec<Value> {
    match value {
        Value::Array(values) => values,
        other => panic!("{other:?} is no array"),
    }
}

fn line(info: &str, name: &str) -> String {
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("{name} is missing in {info}")).to_owned()
}

#[test]
fn info_has_the_sections_that_are_asked_for() {
    let ours = Ours::start();
    let mut client = Client::connect(ours.address);
    let sections = |info: &str| -> Vec<String> {
        info.lines().filter_map(|line| line.strip_prefix("# ")).map(str::to_owned).collect()
    };
    let default = text(client.ask(&["INFO"]));
    assert!(!sections(&default).contains(&"Commandstats".to_owned()));
    assert_eq!(default, default.replace("\n\n", "\n"), "lines end in CR LF");
    for all in ["all", "EVERYTHING"] {
        let told = sections(&text(client.ask(&["INFO", all])));
        for name in
            ["Server", "CPU", "Modules", "Commandstats", "Latencystats", "Errorstats", "Cluster", "Tiers"]
        {
            assert!(told.contains(&name.to_owned()), "{name} is missing in {told:?}");
        }
    }
    assert_eq!(sections(&text(client.ask(&["INFO", "commandstats", "cpu"]))), ["CPU", "Commandstats"]);
    assert_eq!(sections(&text(client.ask(&["INFO", "nonsense"]))), [""; 0]);
    for name in [
        "redis_version",
        "run_id",
        "uptime_in_seconds",
        "connected_clients",
        "maxclients",
        "used_memory",
        "used_memory_rss",
        "used_memory_peak",
        "maxmemory_policy",
        "mem_fragmentation_ratio",
        "loading",
        "rdb_last_save_time",
        "aof_enabled",
        "total_commands_processed",
        "instantaneous_ops_per_sec",
        "keyspace_hits",
        "expired_keys",
        "evicted_keys",
        "pubsub_channels",
        "role",
        "master_repl_offset",
        "used_cpu_sys",
        "used_cpu_user",
        "cluster_enabled",
    ] {
        assert!(!line(&default, name).is_empty(), "{name} is empty");
    }
    ours.stop();
}

#[test]
fn commands_and_errors_are_counted_until_that_is_reset() {
    let ours = Ours::start();
    let mut client = Client::connect(ours.address);
    client.send(b"SET a 1\r\nSET b 2\r\nGET a\r\nGET\r\nINCR c\r\nSET c x\r\nINCR c\r\nnonsense\r\n");
    (0..8).for_each(|_| _ = client.answer());
    let info = text(client.ask(&["INFO", "commandstats", "errorstats", "stats", "latencystats"]));
    let set = line(&info, "cmdstat_set");
    assert!(set.starts_with("calls=3,usec="), "{set}");
    assert!(set.ends_with(",rejected_calls=0,failed_calls=0"), "{set}");
    assert!(
        line(&info, "cmdstat_get").contains("calls=1,")
            && line(&info, "cmdstat_get").contains("rejected_calls=1,")
    );
    assert_eq!(line(&info, "errorstat_ERR"), "count=3");
    assert!(line(&info, "latency_percentiles_usec_set").starts_with("p50="));
    let processed: u64 = line(&info, "total_commands_processed").parse().unwrap();
    assert!(processed >= 8);
    assert_eq!(client.ask(&["CONFIG", "RESETSTAT"]), ok());
    let info = text(client.ask(&["INFO", "all"]));
    assert!(!info.contains("cmdstat_set:") && !info.contains("errorstat_ERR"), "{info}");
    assert!(line(&info, "total_commands_processed").parse::<u64>().unwrap() < processed);
    ours.stop();
}

#[test]
fn slow_commands_are_logged_with_their_arguments_where_all_are() {
    let options = ServerOptions { debug_commands: true, ..ServerOptions::default() };
    let ours = Ours::start_with(options);
    let mut client = Client::connect(ours.address);
    client.ask(&["CLIENT", "SETNAME", "me"]);
    assert_eq!(client.ask(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]), ok());
    client.ask(&["SLOWLOG", "RESET"]);
    client.ask(&["SET", "key", "value"]);
    client.ask(&["CONFIG", "SET", "slowlog-log-slower-than", "20000"]);
    let entries = array(client.ask(&["SLOWLOG", "GET"]));
    let set = entries
        .iter()
        .map(|entry| array(entry.clone()))
        .find(|entry| array(entry[3].clone())[0] == bulk("SET"));
    let set = set.expect("the SET is missing");
    assert_eq!(array(set[3].clone()), [bulk("SET"), bulk("key"), bulk("value")]);
    assert_eq!(set[5], bulk("me"));
    client.ask(&["SLOWLOG", "RESET"]);
    client.ask(&["GET", "key"]);
    assert_eq!(client.ask(&["SLOWLOG", "LEN"]), Value::Integer(0));
    // One that is slow itself, at a coarse threshold.
    client.ask(&["CONFIG", "SET", "latency-monitor-threshold", "20"]);
    client.ask(&["DEBUG", "SLEEP", "0.05"]);
    let entries = array(client.ask(&["SLOWLOG", "GET"]));
    let entry = array(entries[0].clone());
    assert!(matches!(entry[2], Value::Integer(50_000..)), "{entry:?}");
    assert_eq!(array(entry[3].clone()), [bulk("DEBUG"), bulk("SLEEP"), bulk("0.05")]);
    let latest = array(array(client.ask(&["LATENCY", "LATEST"]))[0].clone());
    assert!(latest[0] == bulk("command") && matches!(latest[3], Value::Integer(50..)), "{latest:?}");
    assert_eq!(array(client.ask(&["LATENCY", "HISTORY", "command"])).len(), 1);
    assert!(text(client.ask(&["LATENCY", "GRAPH", "command"])).contains("all time high"));
    assert!(text(client.ask(&["LATENCY", "DOCTOR"])).contains("20 ms or longer"));
    assert_eq!(client.ask(&["LATENCY", "RESET"]), Value::Integer(1));
    let histogram = array(client.ask(&["LATENCY", "HISTOGRAM", "set", "debug"]));
    assert_eq!(histogram.len(), 4);
    assert_eq!(client.ask(&["CONFIG", "SET", "slowlog-max-len", "0"]), ok());
    ours.stop();
}

#[test]
fn a_slow_subcommand_is_logged_with_its_arguments() {
    let ours = Ours::start();
    let mut client = Client::connect(ours.address);
    assert_eq!(client.ask(&["CONFIG", "SET", "slowlog-log-slower-than", "1000"]), ok());
    // One turn's commands count as one, which takes more than a millisecond.
    let entry = (0..20).find_map(|_| {
        client.send(&b"CONFIG GET *\r\n".repeat(500));
        (0..500).for_each(|_| assert!(matches!(client.answer(), Value::Array(_))));
        let entries = array(client.ask(&["SLOWLOG", "GET", "1"]));
        entries.first().map(|entry| array(array(entry.clone())[3].clone()))
    });
    assert_eq!(entry.expect("none was slow"), [bulk("CONFIG"), bulk("GET"), bulk("*")]);
    ours.stop();
}

#[test]
fn slow_commands_are_logged_without_secrets() {
    let ours = Ours::start();
    let mut client = Client::connect(ours.address);
    client.ask(&["CLIENT", "SETNAME", &"n".repeat(5000)]);
    client.ask(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
    client.ask(&["AUTH", "default", "secret"]);
    client.ask(&["HELLO", "2", "AUTH", "default", "secret"]);
    client.ask(&["ACL", "SETUSER", "bob", ">secret"]);
    client.ask(&["CONFIG", "SET", "hz", "10", "requirepass", "secret"]);
    client.ask(&["MULTI"]);
    client.ask(&["SET", "key", &"v".repeat(5000)]);
    client.ask(&["EXEC"]);
    let entries = array(client.ask(&["SLOWLOG", "GET", "-1"]));
    let mut told = String::new();
    for entry in entries {
        let entry = array(entry);
        let line: Vec<String> = array(entry[3].clone()).into_iter().map(text).collect();
        told += &format!("{}\n", line.join(" "));
        assert!(text(entry[5].clone()).len() <= 128, "a name's length is the client's choice");
    }
    let value = format!("SET key {}... (4872 more bytes)", "v".repeat(128));
    for line in [
        "AUTH (redacted) (redacted)",
        "HELLO 2 AUTH (redacted) (redacted)",
        "ACL SETUSER (redacted) (redacted)",
        "CONFIG SET hz 10 requirepass (redacted)",
        "MULTI",
        &value,
    ] {
        assert!(told.lines().any(|told| told == line), "{line:?} is not in\n{told}");
    }
    assert!(!told.contains("secret") && !told.contains("EXEC"), "{told}");
    ours.stop();
}

#[test]
fn errors_found_when_a_command_is_done_are_counted_as_its_failures() {
    let ours = Ours::start();
    let mut client = Client::connect(ours.address);
    client.ask(&["SET", "s", "string"]);
    for (command, code) in [
        (&["RENAME", "none", "b"][..], "ERR"),
        (&["RENAME", "none", "none"], "ERR"),
        (&["PFCOUNT", "s"], "WRONGTYPE"),
        (&["PFCOUNT", "s", "none"], "WRONGTYPE"),
        (&["GETEX", "s", "EX", "0"], "ERR"),
        (&["INCRBYFLOAT", "s", "1"], "ERR"),
        (&["INCR", "s"], "ERR"),
        (&["RESTORE", "s", "0", "x"], "BUSYKEY"),
        (&["SETRANGE", "s", "-1", "x"], "ERR"),
        (&["CLIENT", "KILL", "1.1.1.1:1"], "ERR"),
    ] {
        client.ask(&["CONFIG", "RESETSTAT"]);
        // Others that succeed stand around it, in one batch.
        client.command(&["GET", "s"]);
        client.command(command);
        client.command(&["GET", "s"]);
        client.answer();
        assert!(matches!(client.answer(), Value::Error(_)), "{command:?}");
        client.answer();
        let info = text(client.ask(&["INFO", "everything"]));
        let name = if command[0] == "CLIENT" { "client|kill".into() } else { command[0].to_lowercase() };
        let stats =
            |name: &str| info.lines().find(|line| line.starts_with(&format!("cmdstat_{name}:"))).unwrap();
        assert!(stats(&name).ends_with("rejected_calls=0,failed_calls=1"), "{command:?}: {info}");
        assert!(stats("get").ends_with("failed_calls=0"), "{command:?}: {info}");
        assert!(info.contains(&format!("errorstat_{code}:count=1\r\n")), "{command:?}: {info}");
        assert!(info.contains("total_error_replies:1\r\n"), "{command:?}: {info}");
    }
    ours.stop();
}

#[test]
fn reads_count_as_hits_and_misses_and_nothing_else_does() {
    let ours = Ours::start();
    let mut client = Client::connect(ours.address);
    client.ask(&["SET", "a", "1"]);
    for (command, hits, misses) in [
        (&["DEL", "none", "other"][..], 0, 0),
        (&["UNLINK", "none"], 0, 0),
        (&["EXPIRE", "none", "1"], 0, 0),
        (&["PERSIST", "none"], 0, 0),
        (&["SET", "a", "2", "GET"], 1, 0),
        (&["SET", "a", "2", "NX", "GET"], 1, 0),
        (&["SET", "b", "2", "GET"], 0, 1),
        (&["GETSET", "a", "3"], 1, 0),
        (&["GETSET", "c", "3"], 0, 1),
        (&["GETEX", "a", "EX", "100"], 1, 0),
        (&["GETEX", "none", "EX", "100"], 0, 1),
        (&["GETDEL", "c"], 1, 0),
        (&["GETDEL", "c"], 0, 1),
        (&["MGET", "a", "none"], 1, 1),
        (&["INCR", "a"], 0, 0),
    ] {
        client.ask(&["CONFIG", "RESETSTAT"]);
        client.ask(command);
        let info = text(client.ask(&["INFO", "stats"]));
        let line = format!("keyspace_hits:{hits}\r\nkeyspace_misses:{misses}\r\n");
        assert!(info.contains(&line), "{command:?}: {info}");
    }
    ours.stop();
}

#[test]
fn debug_does_what_clients_tests_need() {
    let ours = Ours::start_with(ServerOptions { debug_commands: true, ..ServerOptions::default() });
    let mut client = Client::connect(ours.address);
    client.ask(&["SET", "a", "value"]);
    for fine in [
        &["SLEEP", "0"][..],
        &["SET-ACTIVE-EXPIRE", "0"],
        &["QUICKLIST-PACKED-THRESHOLD", "1k"],
        &["RELOAD"],
        &["CHANGE-REPL-ID"],
    ] {
        assert_eq!(client.ask(&[&["DEBUG"], fine].concat()), ok(), "{fine:?}");
    }
    assert!(text(client.ask(&["DEBUG", "OBJECT", "a"])).contains("serializedlength:6"));
    assert_eq!(client.ask(&["DEBUG", "OBJECT", "none"]), error("ERR no such key"));
    assert_eq!(client.ask(&["DEBUG", "ERROR", "MINE this is it"]), error("MINE this is it"));
    for unknown in ["SEGFAULT", "JMAP", "LOADAOF"] {
        let refused =
            format!("ERR unknown subcommand or wrong number of arguments for '{unknown}'. Try DEBUG HELP.");
        assert_eq!(client.ask(&["DEBUG", unknown]), error(&refused));
    }
    assert!(!array(client.ask(&["DEBUG", "HELP"])).is_empty());
    ours.stop();
}

#[test]
fn writes_since_the_last_snapshot_are_counted() {
    let ours = Ours::start();
    let mut client = Client::connect(ours.address);
    let told = |client: &mut Client, field: &str| {
        let info = text(client.ask(&["INFO", "everything"]));
        let value = info.lines().find_map(|line| line.strip_prefix(&format!("{field}:")).map(str::to_owned));
        value.unwrap_or_else(|| panic!("{field} is not in {info}"))
    };
    assert_eq!(told(&mut client, "rdb_changes_since_last_save"), "0");
    for command in
        [&["MSET", "a", "1", "b", "2"][..], &["DEL", "a", "none"], &["GET", "b"], &["EXPIRE", "b", "9"]]
    {
        client.ask(command);
    }
    assert_eq!(told(&mut client, "rdb_changes_since_last_save"), "4");
    assert_eq!(client.ask(&["SAVE"]), ok());
    assert_eq!(told(&mut client, "rdb_changes_since_last_save"), "0");
    client.ask(&["SET", "a", "1"]);
    assert_eq!(told(&mut client, "rdb_changes_since_last_save"), "1");
    let reads: u64 = told(&mut client, "total_reads_processed").parse().unwrap();
    let writes: u64 = told(&mut client, "total_writes_processed").parse().unwrap();
    assert!(reads >= 10 && writes >= 10, "{reads} {writes}");
    assert!(told(&mut client, "os").starts_with("Linux "));
    for zero in ["number_of_cached_scripts", "number_of_functions", "current_save_keys_total", "aof_rewrites"]
    {
        assert_eq!(told(&mut client, zero), "0");
    }
    assert!(told(&mut client, "used_cpu_user_main_thread").parse::<f64>().unwrap() >= 0.0);
    ours.stop();
}

#[test]
fn memory_and_time_are_told() {
    let ours = Ours::start();
    let mut client = Client::connect(ours.address);
    client.ask(&["SET", "a", &"x".repeat(1000)]);
    assert!(matches!(client.ask(&["MEMORY", "USAGE", "a"]), Value::Integer(1000..2000)));
    let stats = array(client.ask(&["MEMORY", "STATS"]));
    assert!(stats.contains(&bulk("keys.count")) && stats.len().is_multiple_of(2));
    assert!(text(client.ask(&["MEMORY", "DOCTOR"])).contains("of DRAM in use"));
    assert!(!text(client.ask(&["MEMORY", "MALLOC-STATS"])).is_empty());
    let time = array(client.ask(&["TIME"]));
    assert!(text(time[0].clone()).parse::<u64>().unwrap() > 1_700_000_000);
    assert!(text(time[1].clone()).parse::<u64>().unwrap() < 1_000_000);
    assert!(text(client.ask(&["LOLWUT"])).contains("Redis ver."));
    let Value::Integer(before) = client.ask(&["LASTSAVE"]) else { panic!("no time") };
    assert!(before > 1_700_000_000);
    let help = array(client.ask(&["CONFIG", "HELP"]));
    assert!(help.iter().any(
        |line| text(line.clone()).starts_with("SET parameter") || text(line.clone()).starts_with("SET (")
    ));
    ours.stop();
}

#[test]
fn waitaof_refuses_where_nothing_is_kept() {
    let ours = Ours::start_with(ServerOptions { durability: "none".into(), ..ServerOptions::default() });
    let mut client = Client::connect(ours.address);
    assert_eq!(client.ask(&["WAITAOF", "0", "0", "0"]), Value::Array(vec![Value::Integer(0); 2]));
    let refused = "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.";
    assert_eq!(client.ask(&["WAITAOF", "1", "0", "0"]), error(refused));
    assert_eq!(client.ask(&["CONFIG", "SET", "appendonly", "no", "appendfsync", "no"]), ok());
    ours.stop();
}

#[test]
fn memory_purge_has_the_allocator_give_back() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    fn give_back() {
        CALLS.fetch_add(1, SeqCst);
    }
    let ours = Ours::start_with(ServerOptions { give_back: Some(give_back), ..ServerOptions::default() });
    let mut client = Client::connect(ours.address);
    assert_eq!(client.ask(&["MEMORY", "PURGE"]), ok());
    assert_eq!(CALLS.load(SeqCst), 1, "before the answer");
    ours.stop();
}

#[test]
fn settings_are_changed_all_or_none_and_written_to_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("terrace.toml");
    std::fs::write(&path, "# mine\ntimeout = 5\nthreads = 2\n").unwrap();
    let (config_file, dram_budget_bytes) = (Some(path.clone()), 1_000_000);
    let ours = Ours::start_with(ServerOptions { config_file, dram_budget_bytes, ..ServerOptions::default() });
    let mut client = Client::connect(ours.address);
    let get = |client: &mut Client, name: &str| text(array(client.ask(&["CONFIG", "GET", name]))[1].clone());
    let before = get(&mut client, "timeout");
    let refused = text(client.ask(&["CONFIG", "SET", "timeout", "77", "maxmemory-policy", "allkeys-lfu"]));
    assert!(refused.contains("'maxmemory-policy'") && refused.contains("--when-full evict"), "{refused}");
    assert_eq!(get(&mut client, "timeout"), before, "what came before is taken back");
    assert_eq!(
        client.ask(&["CONFIG", "SET", "timeout", "77", "maxclients", "500", "requirepass", "a\"b"]),
        ok()
    );
    assert_eq!((get(&mut client, "timeout"), get(&mut client, "maxclients")), ("77".into(), "500".into()));
    assert_eq!(client.ask(&["CONFIG", "REWRITE"]), ok());
    let written = std::fs::read_to_string(&path).unwrap();
    assert_eq!(written, "# mine\ntimeout = 77\nthreads = 2\nmaxclients = 500\nrequirepass = \"a\\\"b\"\n");
    for (name, value, told) in [
        ("notify-keyspace-events", "KEA", "AKE"),
        (
            "client-output-buffer-limit",
            "normal 100mb 0 0 pubsub 32mb 8mb 60",
            "normal 104857600 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
        ),
        ("protected-mode", "no", "no"),
        ("maxmemory-clients", "1gb", "1073741824"),
        ("maxmemory-clients", "10%", "100000"),
        ("tcp-keepalive", "60", "60"),
        ("acllog-max-len", "7", "7"),
        ("latency-monitor-threshold", "8", "8"),
        ("latency-tracking", "no", "no"),
        ("slowlog-log-slower-than", "-1", "-1"),
        ("slowlog-max-len", "9", "9"),
        ("tracking-table-max-keys", "10", "10"),
    ] {
        assert_eq!(client.ask(&["CONFIG", "SET", name, value]), ok(), "{name}");
        assert_eq!(get(&mut client, name), told);
        assert_eq!(client.ask(&["CONFIG", "REWRITE"]), ok());
        let written = std::fs::read_to_string(&path).unwrap().replace('"', "");
        assert!(written.contains(&format!("\n{name} = {told}\n")), "{name} is not in {written}");
    }
    client.ask(&["ACL", "SETUSER", "bob", "on"]);
    let refused = text(client.ask(&["CONFIG", "REWRITE"]));
    assert!(refused.contains("no place for users"), "{refused}");
    client.ask(&["ACL", "DELUSER", "bob"]);
    assert_eq!(client.ask(&["CONFIG", "REWRITE"]), ok());
    let refused = text(client.ask(&["CONFIG", "SET", "client-output-buffer-limit", "normal x 0 0"]));
    assert!(refused.contains("Error in hard, soft or soft_seconds"), "{refused}");
    for (value, words) in
        [("101%", "less or equal to 100"), ("x%", "a memory or percent value"), ("-1", "percent")]
    {
        let refused = text(client.ask(&["CONFIG", "SET", "maxmemory-clients", value]));
        assert!(refused.contains(words), "{refused}");
    }
    ours.stop();
}

#[test]
fn settings_hold_from_the_start() {
    let limits = "normal 104857600 1048576 5 slave 268435456 67108864 60 pubsub 33554432 8388608 60";
    let parameters = [
        ("acllog-max-len", "7"),
        ("client-output-buffer-limit", limits),
        ("latency-monitor-threshold", "8"),
        ("latency-tracking", "no"),
        ("notify-keyspace-events", "AKE"),
        ("slowlog-log-slower-than", "-1"),
        ("slowlog-max-len", "9"),
        ("tracking-table-max-keys", "10"),
    ];
    let owned = parameters.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let ours = Ours::start_with(ServerOptions { parameters: owned.to_vec(), ..ServerOptions::default() });
    let mut client = Client::connect(ours.address);
    for (name, value) in parameters {
        assert_eq!(array(client.ask(&["CONFIG", "GET", name])), [bulk(name), bulk(value)]);
        assert_eq!(terrace_server::check_parameter(name, value), Ok(()));
    }
    ours.stop();
    for (name, wrong, words) in [
        ("slowlog-max-len", "-1", "between 0 and"),
        ("slowlog-log-slower-than", "soon", "integer"),
        ("latency-tracking", "on", "'yes' or 'no'"),
        ("notify-keyspace-events", "KQ", "Use 'Ag$lshzxeKEtmdn'"),
        ("client-output-buffer-limit", "normal 1", "Wrong number of arguments"),
        ("nonsense", "1", "there is no parameter"),
        ("databases", "1", "immutable"),
    ] {
        let why = terrace_server::check_parameter(name, wrong).unwrap_err();
        assert!(why.contains(words), "{name}: {why}");
    }
}

#[test]
fn a_client_may_end_the_server_where_somebody_listens() {
    let ours = Ours::start();
    let asked = Arc::new(AtomicUsize::new(0));
    let hook = Arc::clone(&asked);
    ours.server.on_shutdown_request(move || _ = hook.fetch_add(1, SeqCst));
    let mut client = Client::connect(ours.address);
    client.send(b"SET a 1\r\nSHUTDOWN NOSAVE NOW\r\n");
    assert_eq!(client.answer(), ok());
    assert_eq!(client.rest(), b"", "there is no answer, the connection ends");
    assert_eq!(asked.load(SeqCst), 1);
    ours.stop();
}
