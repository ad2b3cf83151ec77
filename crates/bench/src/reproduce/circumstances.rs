//! The machine and the program that figures come from.

use serde::Serialize;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Circumstances {
    /// This program's version.
    pub version: &'static str,
    /// The processor's model, as the kernel tells it; empty if it does not.
    pub processor: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// Memory that it may use: the machine's, or its group's limit; 0 if the kernel tells neither.
    pub memory_bytes: u64,
    /// The kernel; empty if it is not told.
    pub kernel: String,
}

impl Circumstances {
    /// Those of this process.
    pub fn here() -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        Self {
            version: env!("CARGO_PKG_VERSION"),
            processor: model(&read("/proc/cpuinfo")),
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get),
            memory_bytes: terrace_media::Machine::detect().usable_bytes(),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        }
    }
}

fn model(cpuinfo: &str) -> String {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"));
    line.and_then(|line| line.split_once(':')).map(|(_, name)| name.trim().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_found_among_other_lines() {
        assert_eq!(model("processor\t: 0\nmodel name\t: A CPU: fast\nflags\t: a b\n"), "A CPU: fast");
        assert_eq!(model(""), "");
        assert!(Circumstances::here().cores > 0);
    }
}
