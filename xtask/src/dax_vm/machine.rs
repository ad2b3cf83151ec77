//! A running virtual machine: its console comes line by line, and it can be cut off at any moment.

use std::cell::Cell;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::image::Image;
use super::topology::{Memory, NVDIMM_BYTES};

/// Nothing that a guest does takes so long: a machine that hangs must end the run.
const SILENT_AT_MOST: Duration = Duration::from_secs(180);

/// A kernel that isn't up by then never will be: once in some dozens of boots an emulated one hangs before its first line.
/// Nothing of ours runs by then and nothing is mounted, so that the boot may be repeated without hiding anything.
const UP_WITHIN: Duration = Duration::from_secs(90);
/// Boots in a row that may hang.
const HANGS_MAX: u64 = 3;

/// How machines are run.
#[derive(Debug)]
pub struct Runner {
    /// QEMU's accelerator.
    accelerator: String,
    /// Boots that hung and were repeated.
    hung: Cell<u64>,
}

/// A running machine. Dropping it is a power cut.
pub struct Machine {
    child: Child,
    lines: Receiver<String>,
    log: File,
    started: Instant,
}

/// What happened next.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// A line for us, without its `@@`.
    Line(String),
    /// The time asked for is over.
    Time,
    /// The machine is off.
    Off,
}

impl Runner {
    /// Machines with this accelerator of QEMU's.
    pub fn new(accelerator: String) -> Self {
        Self { accelerator, hung: Cell::new(0) }
    }

    /// Boots so far that hung before the kernel was up, and were repeated.
    pub fn hung(&self) -> u64 {
        self.hung.get()
    }

    /// Boots a machine on the files in `state`, which are made if they aren't there, and has it run a shell script; the kernel
    /// is up when this returns. What the console says is added to `console.txt` there.
    ///
    /// # Errors
    /// If it can't be started, or its kernel doesn't come up.
    pub fn boot(&self, image: &Image, memory: Memory, state: &Path, job: &str) -> anyhow::Result<Machine> {
        for _ in 0..HANGS_MAX {
            let mut machine = self.start(image, memory, state, job)?;
            let deadline = Instant::now() + UP_WITHIN;
            loop {
                match machine.next(Some(deadline))? {
                    Event::Line(line) if line.starts_with("UP ") => return Ok(machine),
                    Event::Line(_) => {}
                    Event::Off => anyhow::bail!("the machine went off before its kernel was up"),
                    Event::Time => break,
                }
            }
            writeln!(machine.log, "--- hung")?;
            self.hung.set(self.hung.get() + 1);
        }
        anyhow::bail!("{HANGS_MAX} boots in a row did not come up within {UP_WITHIN:?} each")
    }

    fn start(&self, image: &Image, memory: Memory, state: &Path, job: &str) -> anyhow::Result<Machine> {
        for file in memory.files(state) {
            // Sparse; a file that is there keeps what it holds.
            File::options().create(true).truncate(false).write(true).open(&file)?.set_len(NVDIMM_BYTES)?;
        }
        let initrd = state.join("initrd");
        image.write(&initrd, job)?;
        let mut log = File::options().create(true).append(true).open(state.join("console.txt"))?;
        writeln!(log, "--- boot")?;
        let append =
            "console=ttyS0 quiet panic=-1 oops=panic tsc=reliable no_timer_check random.trust_cpu=on";
        let mut child = Command::new("setpriv")
            // It must not outlive us, whatever ends us.
            .args(["--pdeathsig", "KILL", "qemu-system-x86_64"])
            .args([
                "-accel",
                &self.accelerator,
                "-cpu",
                "max",
                "-smp",
                "2",
                "-no-reboot",
                "-nodefaults",
                "-no-user-config",
            ])
            .args(["-display", "none", "-serial", "stdio", "-monitor", "none", "-append", append])
            .arg("-kernel")
            .arg(&image.kernel)
            .arg("-initrd")
            .arg(&initrd)
            .args(memory.options(state))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log.try_clone()?)
            .spawn()
            .context("can't start qemu-system-x86_64")?;
        let console = child.stdout.take().context("the console is a pipe")?;
        let (tell, lines) = channel();
        std::thread::spawn(move || {
            let mut console = BufReader::new(console);
            let mut line = Vec::new();
            // A line that was cut off counts for nothing.
            while console.read_until(b'\n', &mut line).is_ok() && line.ends_with(b"\n") {
                if tell.send(String::from_utf8_lossy(&line).trim_end().to_owned()).is_err() {
                    return;
                }
                line.clear();
            }
        });
        Ok(Machine { child, lines, log, started: Instant::now() })
    }
}

impl Machine {
    /// Waits for the next line for us, until `deadline` if there is one.
    ///
    /// # Errors
    /// If the machine is silent for far too long, or the log can't be written.
    pub fn next(&mut self, deadline: Option<Instant>) -> anyhow::Result<Event> {
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let line = match self.lines.recv_timeout(left.unwrap_or(SILENT_AT_MOST)) {
                Ok(line) => line,
                Err(RecvTimeoutError::Disconnected) => return Ok(Event::Off),
                Err(RecvTimeoutError::Timeout) if deadline.is_some() => return Ok(Event::Time),
                Err(RecvTimeoutError::Timeout) => {
                    anyhow::bail!("the machine has said nothing for {SILENT_AT_MOST:?}")
                }
            };
            writeln!(self.log, "{:8.3} {line}", self.started.elapsed().as_secs_f64())?;
            // The firmware and the kernel may leave something in front.
            if let Some((_, told)) = line.split_once("@@") {
                return Ok(Event::Line(told.to_owned()));
            }
        }
    }

    /// How long it has been running.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Cuts the power: the process is killed, and with it all that its processors and devices had not done. Whoever asks
    /// for lines afterwards gets those that had been printed before, then [`Event::Off`].
    ///
    /// # Errors
    /// If it can't be killed.
    pub fn cut(&mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        writeln!(self.log, "{:8.3} --- power cut", self.started.elapsed().as_secs_f64())?;
        Ok(())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Fails if it is off already, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
