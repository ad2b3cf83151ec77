//! What the system tells about this process.

use std::fmt::{self, Write};

use super::{About, lines};

/// Resident bytes of this process, and those of them that no file backs; 0 where the system does not tell.
pub(in crate::resp) fn process_memory() -> (u64, u64) {
    (status("VmRSS:"), status("RssAnon:"))
}

/// The most that was resident.
pub(super) fn peak_memory() -> u64 {
    status("VmHWM:")
}

/// Bytes of memory that the machine has.
pub(super) fn system_memory() -> u64 {
    field(&std::fs::read_to_string("/proc/meminfo").unwrap_or_default(), "MemTotal:")
}

fn status(name: &str) -> u64 {
    field(&std::fs::read_to_string("/proc/self/status").unwrap_or_default(), name)
}

fn field(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// The system's name and version, and the machine's kind, as Redis tells them.
pub(super) fn system() -> String {
    let told = |name: &str| std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
    let parts = [told("ostype"), told("osrelease"), std::env::consts::ARCH.to_owned()];
    parts.map(|part| part.trim().to_owned()).join(" ")
}

pub(super) fn cpu(out: &mut String, _about: &About<'_>) -> fmt::Result {
    let [user, system, user_children, system_children] = times("/proc/self/stat");
    let main = format!("/proc/self/task/{}/stat", std::process::id());
    let [user_main, system_main, ..] = times(&main);
    lines!(out;
        "used_cpu_sys": format_args!("{system:.6}"),
        "used_cpu_user": format_args!("{user:.6}"),
        "used_cpu_sys_children": format_args!("{system_children:.6}"),
        "used_cpu_user_children": format_args!("{user_children:.6}"),
        "used_cpu_sys_main_thread": format_args!("{system_main:.6}"),
        "used_cpu_user_main_thread": format_args!("{user_main:.6}"),
    )
}

/// Seconds of a process or a thread: its own and the system's for it, and both of its children.
fn times(path: &str) -> [f64; 4] {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    // The name may hold spaces; it ends with the last parenthesis.
    let behind = text.rsplit_once(')').map_or("", |(_, behind)| behind);
    let ticks = |at: usize| {
        behind.split_whitespace().nth(at).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0)
    };
    // Hundredths of a second: the system's unit for readers, whatever its clock.
    [11, 12, 13, 14].map(|at| ticks(at) as f64 / 100.0)
}
