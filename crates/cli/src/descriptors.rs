//! The process's limit on open files, raised to what the connections need.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files beside the connections: the store's, listeners, event queues.
const OTHERS: u64 = 512;

/// Makes room for so many connections, as far as the system allows. If that is not far enough, the log says so: the
/// server then has fewer.
pub fn make_room(connections: u64) {
    let wanted = connections + OTHERS;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= wanted) {
        return;
    }
    // Root may raise the hard limit, too.
    let raised = Rlimit { current: Some(wanted), maximum: maximum.map(|maximum| maximum.max(wanted)) };
    let bounded = Rlimit { current: maximum.map(|maximum| maximum.min(wanted)), maximum };
    if let Err(why) = setrlimit(Resource::Nofile, raised) {
        // As far as the hard limit: whether that was far enough is seen below.
        let _bounded = setrlimit(Resource::Nofile, bounded);
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        if files < wanted {
            tracing::warn!(
                files,
                %why,
                "so many open files are too few for {connections} connections: raise the limit (ulimit -n), or allow fewer"
            );
        }
    }
}
