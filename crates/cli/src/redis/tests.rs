use super::command::{self, Wanted};
use super::conf::{self, Directive};
use super::meaning::Meaning;
use crate::serve::{ServeArgs, Settings};

/// Directives from the text of a file.
fn read(text: &str) -> Vec<Directive> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("redis.conf");
    std::fs::write(&path, text).unwrap();
    conf::read(&path).unwrap()
}

fn meaning(text: &str) -> Meaning {
    Meaning::of(&read(text)).unwrap()
}

fn value<'a>(meaning: &'a Meaning, key: &str) -> Option<&'a str> {
    meaning.values.iter().find(|(known, ..)| *known == key).map(|(_, value, _)| value.as_str())
}

/// The settings that a text stands for, in a directory of its own.
fn settings(text: &str) -> anyhow::Result<Settings> {
    let dir = tempfile::tempdir()?;
    let args = ServeArgs { dir: Some(dir.path().to_owned()), ..ServeArgs::default() };
    crate::serve::gather_redis(args, &|_| None, &meaning(text))
}

#[test]
fn an_ordinary_file_stands_for_options() {
    let text = "# Redis configuration\nbind 127.0.0.1\nport 7000\ntcp-backlog 511\ntimeout 30\nprotected-mode YES\n\
                unixsocket /run/r.sock\nunixsocketperm 770\ndaemonize yes\npidfile /run/r.pid\nloglevel notice\nlogfile \"\"\n\
                databases 16\nsave 3600 1 300 100\nmaxmemory 100mb\nmaxmemory-policy allkeys-lru\nappendonly yes\n\
                appendfsync always\nrequirepass \"a b\\\"c\"\nuser bob on >x ~* +@all\nhash-max-listpack-entries 512\n\
                client-output-buffer-limit normal 0 0 0\nclient-output-buffer-limit pubsub 32mb 8mb 60\nio-threads 4\n\
                slowlog-max-len 7\nhz 20\nreplicaof no one\n";
    let meaning = meaning(text);
    let expected = [
        ("redis", "127.0.0.1:7000,unix:770:/run/r.sock"),
        ("memcached", "off"),
        ("tcp-backlog", "511"),
        ("protected-mode", "yes"),
        ("dram", "100mb"),
        ("when-full", "evict"),
        ("durability", "sync"),
        ("requirepass", "a b\"c"),
        ("client-output-buffer-limit", "normal 0 0 0 pubsub 32mb 8mb 60"),
        ("threads", "4"),
        ("slowlog-max-len", "7"),
    ];
    for (key, expected) in expected {
        assert_eq!(value(&meaning, key), Some(expected), "{key}");
    }
    assert_eq!(meaning.users, ["user bob on >x ~* +@all"]);
    let parameters = [("loglevel", "notice"), ("hash-max-listpack-entries", "512"), ("hz", "20")];
    assert_eq!(meaning.parameters, parameters.map(|(name, value)| (name.to_owned(), value.to_owned())));
    assert!(meaning.background.daemon && meaning.background.log_file.is_none());
    assert_eq!(meaning.background.pid_file, Some("/run/r.pid".into()));
    assert_eq!(meaning.told.len(), text.lines().count() - 1, "every line says what it became");
    let told = meaning.told.join("\n");
    assert!(told.contains("line 15: maxmemory 100mb: --dram 100mb"), "{told}");
    assert!(told.contains("hash-max-listpack-entries 512: means nothing here"), "{told}");
    assert!(!told.contains("a b") && !told.contains(">x"), "secrets are not shown:\n{told}");
    let settings = settings(text).unwrap();
    assert_eq!((settings.threads, settings.memcached.0.len()), (4, 0));
    assert_eq!(settings.durability.to_string(), "sync");
}

#[test]
fn files_lie_in_the_directory() {
    let text = "aclfile users.acl\npidfile r.pid\nlogfile /var/log/r.log\nunixsocket r.sock\ntls-cert-file c.pem\ndir /srv/r\nport 0\n";
    let meaning = meaning(text);
    assert_eq!(value(&meaning, "aclfile"), Some("/srv/r/users.acl"));
    assert_eq!(value(&meaning, "tls-cert-file"), Some("/srv/r/c.pem"));
    assert_eq!(value(&meaning, "redis"), Some("unix:755:/srv/r/r.sock"));
    assert_eq!(meaning.background.pid_file, Some("/srv/r/r.pid".into()));
    assert_eq!(meaning.background.log_file, Some("/var/log/r.log".into()));
}

#[test]
fn without_a_line_it_is_as_redis_is() {
    let none = meaning("");
    let redis = value(&none, "redis").unwrap();
    assert!(redis.starts_with("0.0.0.0:6379"), "{redis}");
    assert_eq!((value(&none, "dram"), value(&none, "durability")), (None, None));
    assert!(!none.background.daemon && none.background.pid_file.is_none());
    let tls = meaning("port 0\ntls-port 6380\nbind 127.0.0.1 -10.255.255.254\n");
    assert_eq!(
        value(&tls, "redis"),
        Some("tls:127.0.0.1:6380"),
        "an address that may be missing is left out"
    );
}

#[test]
fn what_would_promise_something_is_refused_with_its_place() {
    for (line, words) in [
        ("replicaof 10.0.0.1 6379", "there is no replication"),
        ("cluster-enabled yes", "there is no cluster"),
        ("loadmodule /x.so", "there are no modules"),
        ("rename-command FLUSHALL \"\"", "ACL rules"),
        ("min-replicas-to-write 1", "no replicas"),
        ("tls-ciphers DEFAULT", "can't be chosen"),
        ("databases 17", "there are 16"),
        ("port 70000", "0 to 65535"),
        ("bind nowhere", "expected an address"),
        ("daemonize maybe", "expected yes, no"),
        ("maxmemory lots", "lots"),
        ("maxmemory-policy lru", "expected noeviction"),
        ("maxclient 7", "did you mean maxclients?"),
        ("activedefrag perhaps", "'yes' or 'no'"),
        ("port 0", "nobody could reach"),
    ] {
        let wrong = Meaning::of(&read(&format!("\n{line}\n"))).unwrap_err();
        assert!(wrong.contains(words), "{line}: {wrong}");
        assert!(line == "port 0" || wrong.contains("redis.conf, line 2: "), "{wrong}");
    }
    let both = Meaning::of(&read("loadmodule x\nport x\n")).unwrap_err();
    assert_eq!(both.lines().count(), 2, "all that is wrong is told at once: {both}");
    let wrong = settings("maxclients many\n").unwrap_err().to_string();
    assert!(wrong.contains("line 1: maxclients: \"many\": expected a whole number"), "{wrong}");
}

#[test]
fn files_include_others() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    std::fs::create_dir(at("conf.d")).unwrap();
    std::fs::write(at("conf.d/b.conf"), "port 2\n").unwrap();
    std::fs::write(at("conf.d/a.conf"), "port 1\n").unwrap();
    std::fs::write(at("conf.d/a.txt"), "port 3\n").unwrap();
    let text =
        format!("include {}/conf.d/*.conf\ninclude /nowhere/*.conf\ntimeout 1\n", dir.path().display());
    std::fs::write(at("redis.conf"), text).unwrap();
    let names: Vec<String> = conf::read(&at("redis.conf"))
        .unwrap()
        .into_iter()
        .map(|directive| format!("{} {}", directive.name, directive.values.join(" ")))
        .collect();
    assert_eq!(names, ["port 1", "port 2", "timeout 1"]);
    std::fs::write(at("redis.conf"), format!("include {}\n", at("redis.conf").display())).unwrap();
    let endless = format!("{:#}", conf::read(&at("redis.conf")).unwrap_err());
    assert!(endless.contains("include each other"), "{endless}");
    std::fs::write(at("redis.conf"), "\nrequirepass \"x\n").unwrap();
    let open = conf::read(&at("redis.conf")).unwrap_err().to_string();
    assert!(open.contains("line 2: a quote is not closed"), "{open}");
    std::fs::write(at("redis.conf"), "include /nowhere/one.conf\n").unwrap();
    let missing = format!("{:#}", conf::read(&at("redis.conf")).unwrap_err());
    assert!(missing.contains("line 1") && missing.contains("can't read /nowhere/one.conf"), "{missing}");
}

#[test]
fn the_command_line_is_redis_servers() {
    let read =
        |words: &[&str]| command::read(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
    let Ok(Wanted::Serve { file, more }) = read(&[
        "/etc/r.conf",
        "--port",
        "7",
        "--save",
        "",
        "--client-output-buffer-limit",
        "pubsub",
        "1mb",
        "0",
        "0",
    ]) else {
        panic!("no server")
    };
    assert_eq!(file, Some("/etc/r.conf".into()));
    let more: Vec<_> = more.iter().map(|directive| (&*directive.name, directive.values.join("|"))).collect();
    let limit = "pubsub|1mb|0|0".to_owned();
    assert_eq!(more, [("port", "7".into()), ("save", String::new()), ("client-output-buffer-limit", limit)]);
    assert_eq!(read(&["-v"]), Ok(Wanted::Version));
    assert_eq!(read(&["--help"]), Ok(Wanted::Help));
    assert_eq!(read(&[]), Ok(Wanted::Serve { file: None, more: vec![] }));
    assert_eq!(read(&["-"]), Ok(Wanted::Serve { file: Some("-".into()), more: vec![] }));
    for wrong in [&["--sentinel"][..], &["--test-memory", "1"], &["-x"], &["--port \"7"]] {
        assert!(read(wrong).is_err(), "{wrong:?}");
    }
    let lines = |words: &[&str]| match read(words) {
        Ok(Wanted::Serve { more, .. }) => {
            more.iter().map(|one| format!("{} {}", one.name, one.values.join("|"))).collect::<Vec<_>>()
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(
        lines(&["f", "loglevel", "verbose", "--maxmemory '2 gb'"]),
        ["loglevel verbose", "maxmemory 2 gb"]
    );
    assert_eq!(
        lines(&["--proc-title-template", "--my--title", "--port", "7"]),
        ["proc-title-template --my--title", "port 7"]
    );
    assert_eq!(lines(&["--port", "--loglevel", "verbose"]), ["port --loglevel|verbose"]);
    assert_eq!(lines(&["--save", "--port 7"]), ["save ", "port 7"]);
    assert_eq!(lines(&["--port", "7", "--save"]), ["port 7", "save "]);
    assert!(command::version().starts_with("Redis server v="));
}
