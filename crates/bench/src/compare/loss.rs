//! What a crash may take of the writes that were acknowledged: by durability, engine and medium.

use serde::Serialize;
use terrace::engine::Durability;
use terrace::{Options, Place, Tier, has_log};
use terrace_media::{PlaceKind, detect};

const NOTHING: &str = "nothing";
const EVERYTHING: &str = "everything";
const NOT_FLUSHED: &str = "what is in DRAM";

/// Of the writes that were acknowledged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Loss {
    /// What goes if the process is killed.
    pub killed: String,
    /// What goes if the power fails; of emulated memory, as the device that it stands in for would have it.
    pub power: String,
}

impl Loss {
    /// Of a store with these options.
    pub fn of(options: &Options) -> Self {
        let has_log = has_log(&options.engine);
        let of = |killed: &str, power: &str| Self { killed: killed.into(), power: power.into() };
        if options.ends_with_process() {
            return of(EVERYTHING, EVERYTHING);
        }
        let killed = match options.durability {
            Durability::None if has_log => NOT_FLUSHED,
            _ => NOTHING,
        };
        match options.durability {
            _ if goes_with_power(options) => of(killed, EVERYTHING),
            Durability::None if has_log => of(killed, NOT_FLUSHED),
            Durability::Batch(window) if has_log => {
                of(killed, &format!("the last {} ms", window.as_millis()))
            }
            Durability::None | Durability::Batch(_) | Durability::Sync => of(killed, NOTHING),
        }
    }
}

/// Whether a tier is memory that stands in for nothing.
fn goes_with_power(options: &Options) -> bool {
    let is_memory = |tier: &Tier| match &tier.place {
        Some(Place::Node(_)) => true,
        place => {
            let places = place.as_ref().map_or(&[][..], Place::paths);
            let mut all = places.iter().chain(options.dir.iter().filter(|_| place.is_none()));
            all.any(|path| detect(path).is_ok_and(|found| found.kind == PlaceKind::Tmpfs))
        }
    };
    let pmem = options.pmem.as_ref().filter(|_| options.profile.is_none());
    pmem.into_iter().chain(&options.ssd).any(is_memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(options: &Options) -> [String; 2] {
        let Loss { killed, power } = Loss::of(options);
        [killed, power]
    }

    #[test]
    fn each_mode_has_its_promise() {
        let with = |engine: &str, durability| {
            let place = Some(Place::Path("/".into()));
            let ssd = Some(Tier { bytes: 1 << 30, place });
            lost(&Options { engine: engine.into(), durability, ssd, ..Options::default() })
        };
        for engine in ["tac", "hetermm"] {
            assert_eq!(with(engine, Durability::default()), [NOTHING, "the last 100 ms"]);
            assert_eq!(with(engine, Durability::Sync), [NOTHING, NOTHING]);
            assert_eq!(with(engine, Durability::None), [NOT_FLUSHED, NOT_FLUSHED]);
        }
        for engine in ["heap-hybrid", "heap-persistent", "scmkv", "bonsai"] {
            assert_eq!(with(engine, Durability::default()), [NOTHING, NOTHING], "{engine}");
            assert_eq!(with(engine, Durability::None), [NOTHING, NOTHING], "{engine}");
        }
        assert_eq!(with("dram", Durability::None), [EVERYTHING, EVERYTHING]);
    }

    #[test]
    fn memory_keeps_what_the_device_would_that_it_stands_in_for() {
        let Ok(memory) = tempfile::tempdir_in("/dev/shm") else { return };
        let place = Some(Place::Path(memory.path().into()));
        let pmem = Some(Tier { bytes: 1 << 30, place });
        let options = Options { engine: "scmkv".into(), pmem, ..Options::default() };
        assert_eq!(lost(&options), [NOTHING, EVERYTHING]);
        let emulated = Options { profile: Some("optane-200".into()), ..options };
        assert_eq!(lost(&emulated), [NOTHING, NOTHING]);
    }
}
