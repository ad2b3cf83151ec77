//! Lines for whoever watches the machine's console. They begin with `@@`, so that they differ from the kernel's.

use std::io::Write;

/// Writes a line, whole: threads don't mix theirs.
pub fn say(line: &str) {
    // Nobody is left to tell if the console is gone.
    let _ = std::io::stdout().lock().write_all(format!("@@{line}\n").as_bytes());
    let _ = std::io::stdout().flush();
}

/// As [`say`], and waits until the line has left the machine: what comes later comes later out there too.
pub fn say_first(line: &str) {
    say(line);
    // Fails where standard output is no terminal, which has nothing to drain.
    let _ = rustix::termios::tcdrain(std::io::stdout());
}
