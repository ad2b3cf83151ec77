//! `MONITOR`: connections that see every command.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Entry, Registry, want};

/// See the module.
#[derive(Default)]
pub(crate) struct Monitors(Mutex<BTreeMap<u64, Arc<Entry>>>);

impl Registry {
    /// The connection sees every command from now on.
    pub fn monitor(&self, entry: &Arc<Entry>) {
        let mut monitors = self.monitors.0.lock();
        monitors.insert(entry.id(), Arc::clone(entry));
        self.want(want::COMMANDS, true);
    }

    /// It does so no more.
    pub fn unmonitor(&self, entry: &Entry) {
        let mut monitors = self.monitors.0.lock();
        if monitors.remove(&entry.id()).is_some() && monitors.is_empty() {
            self.want(want::COMMANDS, false);
        }
    }

    /// Shows a line to all of them, save the one with this id; it ends in CR LF.
    pub fn show_command(&self, line: Vec<u8>, except: Option<u64>) {
        let line: Arc<[u8]> = line.into();
        for entry in self.monitors.0.lock().values().filter(|entry| Some(entry.id()) != except) {
            self.push(entry, &line);
        }
    }
}
