//! Command lines as they are found in the world.

use super::options::{CommandLine, Wanted, read};
use super::*;

fn split(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn line(text: &str) -> CommandLine {
    match read(&split(text)) {
        Ok(Wanted::Serve(line)) => *line,
        other => panic!("{text}: {other:?}"),
    }
}

fn refusal(text: &str) -> String {
    match read(&split(text)) {
        Err(why) => why,
        Ok(other) => panic!("{text}: {other:?}"),
    }
}

/// Where it listens, and whether it says that something has no meaning.
fn shown(text: &str) -> String {
    let line = line(text);
    let endpoints: Vec<String> = server::endpoints(&line).unwrap().iter().map(ToString::to_string).collect();
    let notes = line.notes.len();
    format!(
        "{} m={} c={} t={} notes={notes}",
        endpoints.join(","),
        line.megabytes,
        line.connections,
        line.threads
    )
}

#[test]
fn command_lines_of_the_world_are_understood() {
    for (text, expected) in [
        ("", "127.0.0.1:11211 m=64 c=1024 t=4 notes=0"),
        // Debian's /etc/memcached.conf behind its wrapper, and behind start-memcached.
        (
            "-m 64 -p 11211 -u memcache -l 127.0.0.1 -l ::1 -P /var/run/memcached/memcached.pid",
            "127.0.0.1:11211,[::1]:11211 m=64 c=1024 t=4 notes=0",
        ),
        (
            "-d -m 64 -p 11211 -u memcache -l 127.0.0.1 -v -k -M -r -c 2048",
            "127.0.0.1:11211 m=64 c=2048 t=4 notes=0",
        ),
        // Fedora's and Red Hat's unit: ExecStart=/usr/bin/memcached -p ${PORT} -u ${USER} -m ${CACHESIZE} -c ${MAXCONN} $OPTIONS.
        (
            "-p 11211 -u memcached -m 64 -c 1024 -l 127.0.0.1,::1",
            "127.0.0.1:11211,[::1]:11211 m=64 c=1024 t=4 notes=0",
        ),
        // Docker's image.
        ("-m 64 -I 2m -o modern", "127.0.0.1:11211 m=64 c=1024 t=4 notes=0"),
        (
            "-m 1024 --conn-limit=4096 --port=11311 --threads 8 -v",
            "127.0.0.1:11311 m=1024 c=4096 t=8 notes=0",
        ),
        // A Helm chart.
        (
            "-m 64 -o modern -v -I 1m -l 0.0.0.0 --extended=lru_crawler",
            "0.0.0.0:11211 m=64 c=1024 t=4 notes=1",
        ),
        ("-s /run/memcached.sock -a 0770 -m 128", "unix:770:/run/memcached.sock m=128 c=1024 t=4 notes=0"),
        ("-s /run/m -a 700", "unix:/run/m m=64 c=1024 t=4 notes=0"),
        (
            "-U 0 -B ascii -C -L -f 1.05 -n 5 -o slab_reassign,slab_automove=2,hash_algorithm=jenkins,hashpower=20",
            "127.0.0.1:11211 m=64 c=1024 t=4 notes=8",
        ),
        (
            "-Z -o ssl_chain_cert=/c,ssl_key=/k,ssl_ca_cert=/ca,ssl_verify_mode=2 -l 127.0.0.1,notls:127.0.0.1:7",
            "tls:127.0.0.1:11211,127.0.0.1:7 m=64 c=1024 t=4 notes=0",
        ),
        (
            "-m 102400 -c 16384 -o ext_path=/mnt/nvme/file:500G,ext_threads=8,ext_item_size=512,idle_timeout=3600 -b 4096",
            "127.0.0.1:11211 m=102400 c=16384 t=4 notes=1",
        ),
        (
            "-l 127.0.0.1 -l 127.0.0.1,127.0.0.1:11211 -l 127.0.0.1:7",
            "127.0.0.1:11211,127.0.0.1:7 m=64 c=1024 t=4 notes=0",
        ),
        ("-o inline_ascii_resp --napi-ids=2 --napi_ids=2", "127.0.0.1:11211 m=64 c=1024 t=4 notes=3"),
        ("-D ::", "127.0.0.1:11211 m=64 c=1024 t=4 notes=0"),
        ("-o ext_path=/b:64M:compact", "127.0.0.1:11211 m=64 c=1024 t=4 notes=0"),
        ("-o ext_io_depth=4,relaxed_privileges", "127.0.0.1:11211 m=64 c=1024 t=4 notes=2"),
        ("-p -1 -l 127.0.0.1", "127.0.0.1:0 m=64 c=1024 t=4 notes=0"),
    ] {
        assert_eq!(shown(text), expected, "{text}");
    }
}

#[test]
fn a_name_given_twice_is_listened_on_once() {
    assert_eq!(shown("-l localhost -l localhost"), shown("-l localhost"));
    assert_eq!(shown("-l *,*"), shown("-l *"));
}

/// memcached takes the number to be 0 where it does not know the unit, and a storage of that size takes nothing.
#[test]
fn a_size_of_storage_without_a_unit_is_none() {
    for text in ["/b:1", "/b:P", "/b:0G", "/b:64MB"] {
        let line = line(&format!("-o ext_path={text}"));
        assert_eq!((line.extended.ext_path, line.notes.len()), (None, 1), "{text}");
    }
    let line = line("-D :: -o ext_path=/b:64m:default");
    assert_eq!(
        (line.extended.ext_path, line.delimiter, line.notes.len()),
        (Some(("/b".into(), 64 << 20)), Some(b':'), 0)
    );
}

#[test]
fn flags_reach_the_server() {
    let line = line(
        "-M -I 4m -R 50 -b 77 -F -A -X -W -D / -o idle_timeout=9,read_buf_mem_limit=3 -Z -o ssl_chain_cert=/c,ssl_min_version=3",
    );
    let options = server::options(&line, &serve::MemcachedAccess::read(None).unwrap());
    assert_eq!((options.memcached_value_bytes_max, options.connection_operations), (4 << 20, 50));
    assert_eq!(
        (options.backlog, options.idle_timeout.as_secs(), options.clients_bytes_max),
        (77, 9, 3 << 20)
    );
    assert!(!options.evicts && !options.protected_mode);
    let tls = options.tls.unwrap();
    assert_eq!((tls.client_auth, tls.only_tls13), (terrace_server::ClientAuth::No, true));
    assert!(!options.memcached_flush && !options.memcached_dump && options.shutdown_command);
    assert!(!options.memcached_watch);
    assert!(options.on_stop.is_some() && options.memcached_users.is_none());
    assert_eq!((options.memcached_prefix_delimiter, options.memcached_detail), (b'/', true));
}

#[test]
fn users_come_from_a_file_and_mistakes_in_it_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("users");
    std::fs::write(&file, "a:b\nc:d\n").unwrap();
    let line = line(&format!("-Y {}", file.display()));
    let access = serve::MemcachedAccess::read(line.auth_file.as_ref()).unwrap();
    assert!(server::options(&line, &access).memcached_users.is_some());
    access.read_again().unwrap();
    std::fs::write(&file, "a:b\nnobody\n").unwrap();
    assert!(access.read_again().unwrap_err().to_string().contains("line 2"));
    std::fs::remove_file(&file).unwrap();
    let missing = format!("{:#}", serve::MemcachedAccess::read(Some(&file)).err().unwrap());
    assert!(missing.contains("users"), "{missing}");
}

#[test]
fn what_cannot_be_had_is_refused_with_a_reason() {
    for (text, words) in [
        ("-U many", "expected a port, or 0"),
        ("-B foo", "expected auto, ascii or binary"),
        ("-S", "-Y FILE"),
        ("-m lots", "-m \"lots\": expected megabytes"),
        ("-m 0", "expected megabytes"),
        ("-p 70000", "expected a port"),
        ("-p 0", "nobody could reach"),
        ("-I 2g", "from 1k to 1g"),
        ("-I 512", "from 1k to 1g"),
        ("-I 1g", "give -m 2048 or more"),
        ("-a 999", "permissions in octal"),
        ("-t 0", "1 to 255"),
        ("-t 256", "1 to 255"),
        ("-c 0", "a number of connections"),
        ("-D \u{1}", "a character"),
        ("-Z", "ssl_chain_cert"),
        ("-e /a -o ext_path=/b:1G", "can't be combined"),
        ("-o ext_path=/b", "PATH:SIZE"),
        ("-o ext_path=:1G", "PATH:SIZE"),
        ("-o ext_path=/b:xG", "PATH:SIZE"),
        ("-o ext_path=/b:1G,ext_path=/c:1G", "only one"),
        ("-o idle_timeout", "a value is missing"),
        ("-o ssl_ciphers=x", "can't be chosen"),
        ("-o proxy_config=/x.lua", "no proxy"),
        ("-o ssl_verify_mode=9", "expected 0, 1, 2 or 3"),
        ("-o zork", "Illegal suboption \"zork\""),
        ("-l a:b", "expected an address"),
        ("-l proto[ascii]:127.0.0.1:5", "-B says"),
        ("-l mtls:127.0.0.1", "-o ssl_verify_mode says"),
        ("-q", "invalid option -- 'q'"),
    ] {
        let why = refusal(text);
        assert!(why.contains(words), "{text}: {why}");
    }
}

#[test]
fn a_link_named_memcached_is_memcached() {
    let called = |all: &[&str]| arguments(all.iter().map(OsString::from));
    assert_eq!(called(&["/usr/bin/memcached", "-m", "5"]), Some(vec!["-m".to_owned(), "5".to_owned()]));
    assert_eq!(called(&["./memcached-debug", "-A"]), Some(vec!["-A".to_owned()]));
    assert_eq!(called(&["terrace", "memcached"]), None);
    assert_eq!(called(&[]), None);
    for (text, wanted) in [("-h", Wanted::Help), ("-m 5 -V", Wanted::Version), ("-i", Wanted::License)] {
        assert_eq!(read(&split(text)), Ok(wanted), "{text}");
    }
}
