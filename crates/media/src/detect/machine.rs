//! How much memory there is, and how much of it this process may use.

use std::path::Path;

/// Memory of the machine and of the control group that this process is in, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// All of the machine's; 0 if the kernel doesn't say.
    pub memory_bytes: u64,
    /// What could be had without swapping; 0 if the kernel doesn't say.
    pub available_bytes: u64,
    /// The tightest limit of the control group and those above it.
    pub cgroup_limit_bytes: Option<u64>,
}

impl Machine {
    /// This machine.
    pub fn detect() -> Self {
        let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        Self {
            memory_bytes: meminfo_bytes(&meminfo, "MemTotal:"),
            available_bytes: meminfo_bytes(&meminfo, "MemAvailable:"),
            cgroup_limit_bytes: cgroup_limit(Path::new("/sys/fs/cgroup"), &groups),
        }
    }

    /// What a process may count on: the machine's memory or its group's limit, whichever is less.
    pub fn usable_bytes(&self) -> u64 {
        self.cgroup_limit_bytes.map_or(self.memory_bytes, |limit| limit.min(self.memory_bytes))
    }
}

/// Version 1 of control groups says "no limit" with the largest number that is a whole page.
const NO_LIMIT_BYTES: u64 = 1 << 60;

fn meminfo_bytes(meminfo: &str, field: &str) -> u64 {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(field));
    let kibibytes = line.and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kibibytes.unwrap_or(0) * 1024
}

/// `groups` is `/proc/self/cgroup`: lines `ID:CONTROLLERS:PATH`, of which version 2's has no controllers.
fn cgroup_limit(root: &Path, groups: &str) -> Option<u64> {
    let mut limit = None;
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (root, file) = if controllers.is_empty() {
            (root.to_path_buf(), "memory.max")
        } else if controllers.split(',').any(|controller| controller == "memory") {
            (root.join("memory"), "memory.limit_in_bytes")
        } else {
            continue;
        };
        // A container may see its group's path without its files: what isn't there limits nothing.
        let mut group = root.join(path.trim_start_matches('/'));
        while group.starts_with(&root) {
            let text = std::fs::read_to_string(group.join(file)).unwrap_or_default();
            if let Some(bytes) = text.trim().parse::<u64>().ok().filter(|bytes| *bytes < NO_LIMIT_BYTES) {
                limit = Some(limit.map_or(bytes, |least: u64| least.min(bytes)));
            }
            if !group.pop() {
                break;
            }
        }
    }
    limit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_memory() {
        let machine = Machine::detect();
        assert!(machine.memory_bytes >= machine.available_bytes && machine.available_bytes > 0);
        assert!(machine.usable_bytes() <= machine.memory_bytes);
    }

    #[test]
    fn the_tightest_group_limits() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("a/b");
        std::fs::create_dir_all(&inner).unwrap();
        std::fs::write(dir.path().join("a/memory.max"), "1000000\n").unwrap();
        std::fs::write(inner.join("memory.max"), "max\n").unwrap();
        assert_eq!(cgroup_limit(dir.path(), "0::/a/b\n"), Some(1_000_000));
        std::fs::write(inner.join("memory.max"), "4096\n").unwrap();
        assert_eq!(cgroup_limit(dir.path(), "0::/a/b\n"), Some(4096));
        assert_eq!(cgroup_limit(dir.path(), "0::/elsewhere\n"), None);
    }

    #[test]
    fn the_older_kind_of_groups() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("memory/x")).unwrap();
        std::fs::write(dir.path().join("memory/x/memory.limit_in_bytes"), "777\n").unwrap();
        assert_eq!(cgroup_limit(dir.path(), "4:cpu:/x\n3:hugetlb,memory:/x\n"), Some(777));
        std::fs::write(dir.path().join("memory/x/memory.limit_in_bytes"), "9223372036854771712\n").unwrap();
        assert_eq!(cgroup_limit(dir.path(), "3:memory:/x\n"), None, "which means no limit");
    }
}
