//! Recovery of a mangled store: opened or refused in words, and honest about what it serves.

use terrace_engine::{OpError, StoreError};
use terrace_testkit::sweep::MediaKind;

use super::image::{Engine, key};
use super::mangle::{Mangled, mangle};
use super::session::{Answer, Open};
use crate::contents::{contents_of, media_of};

/// On this kind of media.
pub(in crate::fuzz) fn recover(kind: MediaKind, engine: Engine, input: &[u8]) -> Result<(), String> {
    open_and_use(engine, kind, &mangle(engine, kind, input)).map(|_| ())
}

/// Background steps between opening and closing.
const STEPS: u32 = 30;

/// Opens, reads, writes, stops and opens again; whether the first opening succeeded.
pub(super) fn open_and_use(engine: Engine, kind: MediaKind, mangled: &Mangled) -> Result<bool, String> {
    let on = media_of(kind, &mangled.media);
    let mut open = match Open::new(engine, &on, false) {
        Ok(open) => open,
        Err(error) => return refused(&error).map(|()| false),
    };
    for (key, written) in &mangled.image.written {
        if let Answer::Value(value) = open.get(key)
            && !mangled.sealed
            && !written.contains(&value)
        {
            return Err(format!(
                "{} = {} bytes that were never written ({})",
                text(key),
                value.len(),
                mangled.image.name
            ));
        }
    }
    open.steps(STEPS);
    let (new, gone) = (key(77), key(3));
    let stored = open.set(&new, b"after") == Answer::Done;
    let deleted = matches!(open.delete(&gone), Answer::Done | Answer::Miss);
    open.steps(STEPS);
    if mangled.media[0][0] & 1 == 0 {
        open.kill();
    } else {
        match open.close() {
            Ok(()) => {}
            Err(error) => return refused(&error).map(|()| true),
        }
    }
    let mut again = match Open::new(engine, &media_of(kind, &contents_of(&on)), false) {
        Ok(again) => again,
        Err(error) => return Err(format!("opened once, and not again: {error}")),
    };
    if mangled.sealed {
        // Times and versions may be any: what is newest can't be said.
        again.kill();
        return Ok(true);
    }
    if stored && again.get(&new) != Answer::Value(b"after".to_vec()) {
        return Err(format!("what was stored after the opening is now {:?}", again.get(&new)));
    }
    if deleted && matches!(again.get(&gone), Answer::Value(_) | Answer::Error(OpError::Poisoned)) {
        return Err(format!("what was deleted after the opening is now {:?}", again.get(&gone)));
    }
    again.kill();
    Ok(true)
}

/// An error must say something.
fn refused(error: &StoreError) -> Result<(), String> {
    if error.to_string().len() < 10 { Err(format!("refused without a reason: {error:?}")) } else { Ok(()) }
}

fn text(key: &[u8]) -> String {
    String::from_utf8_lossy(key).into_owned()
}
