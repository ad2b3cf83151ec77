//! Every engine under the crash sweep, by name. A new engine adds its module and its line in [`SUBJECTS`].

pub(crate) mod hetermm;

use terrace_testkit::sweep::Subject;

pub use hetermm::Hetermm;

/// The engines that keep anything across a crash.
pub const SUBJECTS: &[(&str, &(dyn Subject + Sync))] = &[("hetermm", &Hetermm)];

/// The engine of this name.
///
/// # Errors
/// If there is none, with the names that there are.
pub fn by_name(name: &str) -> Result<&'static (dyn Subject + Sync), String> {
    let found = SUBJECTS.iter().find(|(known, _)| *known == name);
    found.map(|(_, subject)| *subject).ok_or_else(|| {
        let names: Vec<_> = SUBJECTS.iter().map(|(name, _)| *name).collect();
        format!("engine {name:?}: expected {}", names.join(" or "))
    })
}
