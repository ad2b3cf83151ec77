//! Memory that was freed goes back to the system, also while the process idles: the allocator alone gives back only when it is
//! called, and keeps its peak in between. And who must know how much the process has is told.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the process's memory is looked at.
const TICK: Duration = Duration::from_millis(100);
/// Growth since the allocator was asked last for which it is asked again.
const GROWTH_BYTES: u64 = 4 << 20;
/// After so many ticks it is asked anyway: what was freed since it was asked last still counts as the process's.
const PATIENCE_TICKS: u32 = 20;

/// Who is told how much the process has.
type Told = Box<dyn Fn(u64) + Send>;

/// A thread that sees to it, until this is dropped.
pub struct Keeper {
    tell: Option<Sender<Told>>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Starts it. `give_back` asks the allocator.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn start(give_back: fn()) -> std::io::Result<Self> {
        let (tell, to_tell) = channel::<Told>();
        let thread = std::thread::Builder::new().name("memory".into()).spawn(move || {
            let mut judge = Judge::default();
            let mut told: Option<Told> = None;
            loop {
                match to_tell.recv_timeout(TICK) {
                    Ok(other) => told = Some(other),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                }
                if anonymous_bytes().is_some_and(|bytes| judge.asks(bytes)) {
                    give_back();
                    judge.asked(anonymous_bytes().unwrap_or(0));
                }
                if let (Some(told), Some(bytes)) = (&told, anonymous_bytes()) {
                    told(bytes);
                }
            }
        })?;
        Ok(Self { tell: Some(tell), thread: Some(thread) })
    }

    /// From now on this is told, ten times a second, how much anonymous memory the process has.
    pub fn tell(&self, told: impl Fn(u64) + Send + 'static) {
        if let Some(tell) = &self.tell {
            // The thread ends with this alone.
            let _ = tell.send(Box::new(told));
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.tell = None;
        if let Some(thread) = self.thread.take() {
            // A panic there was printed when it happened.
            let _ = thread.join();
        }
    }
}

/// When the allocator is asked.
#[derive(Default)]
struct Judge {
    /// What it left when it was asked last.
    left: u64,
    ticks: u32,
}

impl Judge {
    /// Whether to ask, now that the process has so many bytes.
    fn asks(&mut self, bytes: u64) -> bool {
        self.ticks += 1;
        bytes >= self.left + GROWTH_BYTES || self.ticks >= PATIENCE_TICKS
    }

    fn asked(&mut self, left: u64) {
        (self.left, self.ticks) = (left, 0);
    }
}

/// The process's anonymous memory; `None` where the system does not tell.
fn anonymous_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = text.split_ascii_whitespace().skip(1).map(|word| word.parse::<u64>().ok());
    let (resident, shared) = (pages.next()??, pages.next()??);
    Some(resident.saturating_sub(shared) * rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_met_at_once_and_the_rest_in_a_while() {
        let mut judge = Judge::default();
        assert!(judge.asks(10 << 20));
        judge.asked(8 << 20);
        assert!(!judge.asks(9 << 20) && judge.asks(12 << 20));
        judge.asked(8 << 20);
        assert!((1..PATIENCE_TICKS).all(|_| !judge.asks(8 << 20)));
        assert!(judge.asks(8 << 20), "it may have been freed since");
    }

    #[test]
    fn who_wants_to_know_is_told_until_the_end() {
        let keeper = Keeper::start(|| ()).unwrap();
        let (send, told) = channel();
        keeper.tell(move |bytes| send.send(bytes).unwrap());
        assert!(told.recv().unwrap() > 0 && told.recv().unwrap() > 0);
        drop(keeper);
        while told.recv().is_ok() {}
    }

    #[test]
    fn the_system_tells_what_is_anonymous() {
        let before = anonymous_bytes().unwrap();
        let held = std::hint::black_box(vec![1u8; 64 << 20]);
        assert!(anonymous_bytes().unwrap() > before + (32 << 20));
        drop(held);
    }
}
