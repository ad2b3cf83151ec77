//! The threads that loop over a store's background steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use terrace_engine::{Progress, Store};

/// How long an idle thread waits for a call before it looks by itself: timed work (syncs, expiry) is due by then.
const IDLE: Duration = Duration::from_millis(10);

/// Running background threads.
#[derive(Default)]
pub(crate) struct Background {
    stop: Arc<AtomicBool>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Background {
    pub fn start(store: &Arc<dyn Store>, count: usize) -> std::io::Result<Self> {
        let background = Self::default();
        for i in 0..count {
            let (store, stop) = (store.clone(), background.stop.clone());
            let thread = std::thread::Builder::new().name(format!("background-{i}")).spawn(move || {
                while !stop.load(Acquire) {
                    if store.step() != Progress::Worked {
                        store.wait_for_work(IDLE);
                    }
                }
            })?;
            background.threads.lock().push(thread);
        }
        Ok(background)
    }
    /// Ends the threads after the step they are in.
    pub fn stop(&self) {
        self.stop.store(true, Release);
        for thread in self.threads.lock().drain(..) {
            // A panic in a background thread was printed when it happened; stopping goes on.
            let _ = thread.join();
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop();
    }
}
