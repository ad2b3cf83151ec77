//! What `-h`, `-V` and `-i` print.

/// The memcached whose command line this is.
const LIKE: &str = "1.6.45";

/// The version, in memcached's form.
pub fn version() -> String {
    format!("memcached {LIKE} (terrace {})", env!("CARGO_PKG_VERSION"))
}

/// The licence.
pub fn license() -> String {
    format!(
        "{}\n\nterrace is distributed under the terms of the MIT licence or the Apache licence 2.0, as you choose.\n\
         It holds no code of memcached's: it speaks its protocol and reads its command line.",
        version()
    )
}

/// All flags.
pub fn help() -> String {
    format!("{}\n{FLAGS}", version())
}

const FLAGS: &str = "\
-p, --port=<num>          TCP port to listen on (default: 11211; 0: none, -1: a free one)
-U, --udp-port=<num>      accepted: UDP is not served
-s, --unix-socket=<file>  Unix socket to listen on (no TCP then)
-a, --unix-mask=<mask>    access mask for the Unix socket, in octal (default: 700)
-A, --enable-shutdown     enable the \"shutdown\" command
-l, --listen=<addr>       addresses to listen on, with or without :port, several with commas
                          (default: 127.0.0.1, where memcached takes all interfaces;
                          -l '*' takes all here, too: on a private network only)
                          notls:<addr> has no TLS whatever -Z says
-d, --daemon              run as a daemon, once it is ready
-r, --enable-coredumps    maximize core file limit
-u, --user=<user>         assume identity of <user> (only when run as root)
-m, --memory-limit=<num>  item memory in megabytes (default: 64); the index comes on top
-M, --disable-evictions   return error on memory exhausted instead of evicting
-c, --conn-limit=<num>    max simultaneous connections (default: 1024)
-k, --lock-memory         lock down all paged memory
-v, --verbose             verbose; -vv and -vvv say more
-h, --help                print this help and exit
-i, --license             print the licence and exit
-V, --version             print version and exit
-P, --pidfile=<file>      save PID in <file>, removed at the end
-D <char>                 count by key prefixes that end with <char> (default: \":\"),
                          from the start
-t, --threads=<num>       number of threads to use (default: 4, max: 255)
-R, --max-reqs-per-event  most requests of one connection that are executed together
                          (default: as many as arrived, within bounds)
-b, --listen-backlog=<num> set the backlog queue limit (default: 1024)
-B, --protocol=<name>     auto (default: a client's first byte says which it speaks), ascii or binary
-S, --enable-sasl         with -Y: clients of the binary protocol log in by SASL PLAIN
-I, --max-item-size=<num> adjusts max item size
                          (default: 1m, min: 1k, max: 1024m)
-F, --disable-flush-all   disable flush_all command
-X, --disable-dumping     disable stats cachedump, stats detail and lru_crawler metadump
-W, --disable-watch       disable the \"watch\" command
-Y, --auth-file=<file>    clients must log in: lines of user:pass, one at least; read again on SIGHUP
-e, --memory-file=<file>  keep the items in persistent memory, in the directory <file>.terrace;
                          they are there again after a stop
-Z, --enable-ssl          enable TLS
-o, --extended            comma separated list of extended options
   - idle_timeout:        seconds after which idle connections are closed (default: 0, never)
   - ext_path:            where items go that memory has no room for, and how much of them:
                          ext_path=/mnt/ssd/cache:64G makes a directory /mnt/ssd/cache.terrace,
                          which is emptied at each start
   - ext_threads:         threads that move items (default: one for four of -t)
   - read_buf_mem_limit:  megabytes in the buffers of all connections (default: 0, a bound by -m)
   - ssl_chain_cert:      certificate chain file in PEM format
   - ssl_key:             private key, if not part of the ssl_chain_cert
   - ssl_ca_cert:         PEM format file of acceptable client CA's
   - ssl_verify_mode:     0 (none, the default), 1 (request), 2 or 3 (require)
   - ssl_min_version:     2 (TLS 1.2, the default) or 3 (TLS 1.3)

Accepted, and without a meaning here (a line of the log says why):
-C -L -U -f -n -N, and those of -o that are about memcached's LRU, slabs, hash table and extstore.
Refused: -S without -Y, -o ssl_ciphers, -o proxy_*.

SIGINT, SIGTERM, SIGUSR1: stop in order. SIGHUP: read certificates and the auth file again.
MEMCACHED_PORT_FILENAME in the environment names a file to write the ports to.";

#[cfg(test)]
mod tests {
    use super::super::getopt;
    use super::*;

    #[test]
    fn every_flag_is_told() {
        let help = help();
        for (letter, long, _) in getopt::FLAGS {
            let told = help.contains(&format!("\n-{letter}")) || help.contains(&format!(" -{letter}"));
            assert!(told, "-{letter} --{long}");
        }
        assert!(version().starts_with("memcached 1.6.") && help.starts_with(&version()));
    }
}
