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

pub(super) fn cpu(out: &mut String, _about: &About<'_>) -> fmt::Result {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name may hold spaces; it ends with the last parenthesis.
    let behind = text.rsplit_once(')').map_or("", |(_, behind)| behind);
    // Hundredths of a second: the system's unit for readers, whatever its clock.
    let seconds = |at: usize| {
        let ticks =
            behind.split_whitespace().nth(at).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
        ticks as f64 / 100.0
    };
    let (user, system) = (seconds(11), seconds(12));
    lines!(out;
        "used_cpu_sys": format_args!("{system:.6}"),
        "used_cpu_user": format_args!("{user:.6}"),
        "used_cpu_sys_children": format_args!("{:.6}", seconds(14)),
        "used_cpu_user_children": format_args!("{:.6}", seconds(13)),
    )
}
