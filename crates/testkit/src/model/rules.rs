//! The rule of each operation on a key, as `OpKind` and `Reply` document it.

use terrace_engine::edit::STATE_OF_VALUE;
use terrace_engine::{Condition, ExpireIf, Expiry, Meta};

use super::arithmetic::{self, Sum};
use super::{Group, Known, Model, Place, Record, same};
use crate::case::{Action, Case, Observed};

/// A write, in the reference's words.
struct Write<'a> {
    value: &'a [u8],
    condition: Condition,
    expiry: Expiry,
    flags: Option<u32>,
    old_value: bool,
}

impl Model {
    pub(super) fn check_key(&mut self, case: &Case, observed: &Observed, group: Group) -> Result<(), String> {
        let place: Place = (case.db, case.key.clone());
        let old = self.get(&place).cloned();
        match &case.action {
            Action::Get { value } => match old {
                None => same(observed, &Observed::Miss),
                Some(record) => self.check_hit(place, record, *value, false, observed),
            },
            Action::Set { value, condition, expiry, flags, old_value } => {
                let (condition, expiry, flags, old_value) = (*condition, *expiry, *flags, *old_value);
                let write = Write { value, condition, expiry, flags, old_value };
                self.check_set(place, old, write, group, observed)
            }
            Action::Delete { condition, old_value } => {
                let Some(record) = old else { return same(observed, &Observed::Miss) };
                if !holds(*condition, Some(&record), observed, |o| matches!(o, Observed::Deleted(_))) {
                    return same(observed, &Observed::NotStored(true, None));
                }
                self.records.remove(&place);
                same(observed, &Observed::Deleted(old_value.then_some(record.value)))
            }
            Action::Incr(by) => self.check_incr(place, old, *by, observed),
            Action::Append { value, front, create, condition } => {
                let present = old.is_some();
                let goes = (present || *create)
                    && holds(*condition, old.as_ref(), observed, |o| matches!(o, Observed::Length(_)));
                if !goes {
                    return same(observed, &Observed::NotStored(present, None));
                }
                let was = old.as_ref().map_or(&[][..], |record| &record.value);
                let new = if *front { [value, was].concat() } else { [was, value].concat() };
                let length = Observed::Length(new.len() as u64);
                self.rewrite(place, old, new);
                same(observed, &length)
            }
            Action::Expire { expiry, condition, value } => {
                self.check_expire(place, old, *expiry, *condition, *value, observed)
            }
            Action::Edit { rule, argument } => {
                self.check_edit(place, old, (*rule, argument), group, observed)
            }
            Action::Flush(_) | Action::Swap(_) | Action::Scan { .. } | Action::Range { .. } => {
                Err("an operation on a key".into())
            }
        }
    }

    fn check_set(
        &mut self,
        place: Place,
        old: Option<Record>,
        write: Write<'_>,
        group: Group,
        observed: &Observed,
    ) -> Result<(), String> {
        let old_value = old.as_ref().filter(|_| write.old_value).map(|record| record.value.clone());
        if !holds(write.condition, old.as_ref(), observed, |o| matches!(o, Observed::Stored(..))) {
            return same(observed, &Observed::NotStored(old.is_some(), old_value));
        }
        let expire_at = match write.expiry {
            Expiry::Clear => 0,
            Expiry::Keep => old.as_ref().map_or(0, |record| record.expire_at),
            Expiry::At(at) => at,
        };
        let flags = write.flags.unwrap_or(old.as_ref().map_or(0, |record| record.flags));
        let highest = self.versions.get(&place).copied().unwrap_or(0);
        let mut record = Record {
            value: write.value.to_vec(),
            flags,
            expire_at,
            version: Known::AtLeast(highest),
            state: 0,
            token: 0,
        };
        let expected = Err(format!(
            "Stored version above {highest}, old {:?}",
            old_value.as_deref().map(crate::case::show)
        ));
        let Observed::Stored(version, observed_old) = observed else { return expected };
        if *observed_old != old_value {
            return expected;
        }
        // What has expired by the time it is stored is a deletion, whose version nobody sees.
        if record.is_live(self.now_ms) {
            if *version < highest || *version == highest && group != Group::Again {
                return expected;
            }
            match group {
                Group::None => {
                    record.version = Known::Exactly(*version);
                    self.versions.insert(place.clone(), *version);
                }
                // A group answers its last version for all; a key's own may be an earlier one of the group.
                Group::First => record.version = Known::Above(highest),
                Group::Again => {}
            }
        }
        self.records.insert(place, record);
        Ok(())
    }

    fn check_incr(
        &mut self,
        place: Place,
        old: Option<Record>,
        by: terrace_engine::Delta,
        observed: &Observed,
    ) -> Result<(), String> {
        match arithmetic::add(old.as_ref().map(|record| &record.value[..]), by) {
            Err(error) => same(observed, &Observed::Error(error)),
            Ok(Sum::Miss) => same(observed, &Observed::Miss),
            Ok(Sum::Signed(sum)) => {
                self.rewrite(place, old, sum.to_string().into_bytes());
                same(observed, &Observed::Number(sum))
            }
            Ok(Sum::Unsigned(sum, text)) => {
                self.rewrite(place, old, text);
                same(observed, &Observed::Unsigned(sum))
            }
            Ok(Sum::Float(sum)) => {
                // How many digits are printed is the store's to choose.
                let expected = || format!("Float near {sum}");
                let Observed::Float(text) = observed else { return Err(expected()) };
                let printed: f64 =
                    std::str::from_utf8(text).ok().and_then(|t| t.parse().ok()).ok_or_else(expected)?;
                if (printed - sum).abs() > sum.abs() * 1e-9 {
                    return Err(expected());
                }
                self.rewrite(place, old, text.clone());
                Ok(())
            }
        }
    }

    fn check_expire(
        &mut self,
        place: Place,
        old: Option<Record>,
        expiry: Expiry,
        condition: ExpireIf,
        value: bool,
        observed: &Observed,
    ) -> Result<(), String> {
        let Some(mut record) = old else { return same(observed, &Observed::Miss) };
        let new = match expiry {
            Expiry::Keep => return self.check_hit(place, record, value, false, observed),
            Expiry::Clear => 0,
            Expiry::At(at) => at,
        };
        if !may_expire(condition, record.expire_at, new) {
            return same(observed, &Observed::NotStored(true, None));
        }
        record.expire_at = new;
        record.version = Known::AtLeast(record.version.floor());
        let gone = !record.is_live(self.now_ms);
        self.check_hit(place, record, value, gone, observed)
    }

    /// The record was found; `gone`: and expired by that, so that its metadata mean nothing any more.
    fn check_hit(
        &mut self,
        place: Place,
        mut record: Record,
        value: bool,
        gone: bool,
        observed: &Observed,
    ) -> Result<(), String> {
        let expected = || {
            let Record { flags, expire_at, version, token, .. } = record;
            let value = if value { crate::case::show(&record.value) } else { "none".into() };
            let bytes = record.value.len();
            Err(format!(
                "Hit, flags {flags}, expire_at {expire_at}, {bytes} bytes, version {version:?}, token {token}, value {value}"
            ))
        };
        let Observed::Hit(meta, observed_value) = observed else { return expected() };
        let Meta { version, token, flags, expire_at, value_bytes, state } = *meta;
        let meta_fits = gone
            || flags == record.flags
                && token == record.token
                && expire_at == record.expire_at
                && state == record.state
                && value_bytes == record.value.len() as u64
                && record.version.admits(version);
        let value_fits = observed_value.as_ref() == value.then_some(&record.value);
        if !meta_fits || !value_fits {
            return expected();
        }
        if !gone {
            record.version = Known::Exactly(version);
            self.versions.insert(place.clone(), version);
        }
        self.records.insert(place, record);
        Ok(())
    }

    /// A new value under the old flags, expiry and state, save what that said of the old one, with a version that was not told.
    fn rewrite(&mut self, place: Place, old: Option<Record>, value: Vec<u8>) {
        let highest = self.versions.get(&place).copied().unwrap_or(0);
        let (flags, expire_at, state) =
            old.map_or((0, 0, 0), |old| (old.flags, old.expire_at, old.state & !STATE_OF_VALUE));
        let version = Known::Above(highest);
        self.records.insert(place, Record { value, flags, expire_at, version, state, token: 0 });
    }
}

/// Whether a write goes ahead. Where the version is not known for certain, the answer (`did`) tells.
fn holds(
    condition: Condition,
    old: Option<&Record>,
    observed: &Observed,
    did: impl FnOnce(&Observed) -> bool,
) -> bool {
    match condition {
        Condition::Always => true,
        Condition::Absent => old.is_none(),
        Condition::Present => old.is_some(),
        Condition::Version(token) if old.is_some_and(|record| record.token != 0) => {
            old.is_some_and(|record| record.token == token)
        }
        Condition::Version(version) => {
            old.is_some_and(|record| record.version.equals(version).unwrap_or_else(|| did(observed)))
        }
    }
}

fn may_expire(condition: ExpireIf, old: u64, new: u64) -> bool {
    let has = old != 0;
    // Nothing is later than never; `later` and `earlier` are false both if nothing changes.
    let (later, earlier) = match (old, new) {
        (0, 0) => (false, false),
        (0, _) => (false, true),
        (_, 0) => (true, false),
        _ => (new > old, new < old),
    };
    match condition {
        ExpireIf::Always => true,
        ExpireIf::None => !has,
        ExpireIf::Some => has,
        ExpireIf::Later => later,
        ExpireIf::Earlier => earlier,
        ExpireIf::SomeLater => has && later,
        ExpireIf::SomeEarlier => has && earlier,
    }
}
