//! The rules of [`crate::edits`], as their documentation says.

use terrace_engine::Meta;
use terrace_engine::edit::STATE_END;

use super::{Group, Known, Model, Place, Record};
use crate::case::Observed;
use crate::edits::Rule;

impl Model {
    pub(super) fn check_edit(
        &mut self,
        place: Place,
        old: Option<Record>,
        (rule, argument): (Rule, &[u8]),
        group: Group,
        observed: &Observed,
    ) -> Result<(), String> {
        let highest = self.versions.get(&place).copied().unwrap_or(0);
        let was_there = old.is_some();
        // A record that a group writes more than once has one version for all its answers.
        let version = if group == Group::Again { Known::AtLeast(highest) } else { Known::Above(highest) };
        let (answer, new) = match (rule, old) {
            (Rule::Stamp, None) => {
                let value = argument.to_vec();
                (b"0".to_vec(), Some(Record { value, flags: 0, expire_at: 0, version, state: 0, token: 0 }))
            }
            (Rule::Stamp, Some(old)) => {
                let bytes = old.value.len();
                let value = [argument, &old.value].concat();
                let state = (old.state + 1) % STATE_END;
                let new = Record { value, flags: bytes as u32, version, state, token: 0, ..old };
                (bytes.to_string().into_bytes(), Some(new))
            }
            (Rule::Mark, old) => {
                let flags = argument.len() as u32;
                (Vec::new(), old.map(|old| Record { flags, version, token: flags.into(), ..old }))
            }
            (Rule::Take, old) => {
                self.carried = old.as_ref().map(|old| old.value.clone());
                (old.map_or(Vec::new(), |old| old.value), None)
            }
            (Rule::Give, old) => match &self.carried {
                None => (Vec::new(), old),
                Some(value) => {
                    let new =
                        Record { value: value.clone(), flags: 9, expire_at: 0, version, state: 1, token: 0 };
                    (value.len().to_string().into_bytes(), Some(new))
                }
            },
            // One that ends its group is looked for before.
            (Rule::Guard, old) => (Vec::new(), old),
        };
        let expected = Err(format!("Edited {}, then {new:?}", crate::case::show(&answer)));
        let Observed::Edited(observed_answer, meta) = observed else { return expected };
        let meta_fits = match &new {
            None => *meta == Meta::default(),
            Some(new) => {
                let Meta { version, token, flags, expire_at, value_bytes, state } = *meta;
                let bytes = new.value.len() as u64;
                (token, flags, expire_at, value_bytes, state)
                    == (new.token, new.flags, new.expire_at, bytes, new.state)
                    && new.version.admits(version)
            }
        };
        if *observed_answer != answer || !meta_fits {
            return expected;
        }
        match new {
            // One that has expired may still be counted.
            None if was_there => {
                self.records.remove(&place);
            }
            None => {}
            Some(new) => {
                self.versions.insert(place.clone(), meta.version);
                self.records.insert(place, Record { version: Known::Exactly(meta.version), ..new });
            }
        }
        Ok(())
    }

    /// A group begins: nothing was handed on yet.
    pub fn begin_group(&mut self) {
        self.carried = None;
    }

    /// An operation of a group was checked: what it was told of its record's version is the version that the record ends with.
    pub fn within_group(&mut self, place: &Place, failed: bool) {
        if failed {
            self.carried = None;
        }
        if let Some(record) = self.records.get_mut(place) {
            record.version = Known::AtLeast(record.version.floor());
        }
    }
}
