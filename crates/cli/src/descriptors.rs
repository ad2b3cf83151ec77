//! The process's limit on open files, raised to what the connections need.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files beside the connections: the store's, listeners, event queues. Where there are few in all, half of them.
const OTHERS: u64 = 512;

/// Makes room for so many connections, as far as the system allows, and returns how many have room. If those are fewer, the log
/// says so.
pub fn make_room(connections: u64) -> u64 {
    let wanted = connections.saturating_add(OTHERS);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= wanted) {
        return connections;
    }
    // Root may raise the hard limit, too.
    let raised = Rlimit { current: Some(wanted), maximum: maximum.map(|maximum| maximum.max(wanted)) };
    let bounded = Rlimit { current: maximum.map(|maximum| maximum.min(wanted)), maximum };
    if let Err(why) = setrlimit(Resource::Nofile, raised) {
        // As far as the hard limit: whether that was far enough is seen below.
        let _bounded = setrlimit(Resource::Nofile, bounded);
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        if files < wanted {
            let fitting = fitting(files);
            tracing::warn!(
                "{files} open files are too few for {connections} connections, and the limit could not be raised ({why}): \
                 {fitting} are let in at a time; raise the limit (ulimit -n), or allow fewer"
            );
            return fitting;
        }
    }
    connections
}

/// Connections that have room among so many files.
fn fitting(files: u64) -> u64 {
    (files - OTHERS.min(files / 2)).max(1)
}

#[cfg(test)]
mod tests {
    use super::fitting;

    #[test]
    fn few_files_are_shared() {
        assert_eq!([0, 1, 60, 1024, 4096].map(fitting), [1, 1, 30, 512, 3584]);
    }
}
