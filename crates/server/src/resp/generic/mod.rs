//! Commands on keys that need more than one operation, or several turns.

pub(super) mod every;
pub(super) mod moving;
pub(super) mod object;
pub(super) mod random;
pub(super) mod refused;
pub(super) mod restore;

use terrace_engine::DATABASES;
use terrace_protocol::resp::parse_integer;

use super::error::{NOT_AN_INTEGER, Refusal};

/// The database that an argument names.
fn database(text: &[u8]) -> Result<u8, Refusal> {
    let number = parse_integer(text).ok_or(NOT_AN_INTEGER)?;
    let number = i32::try_from(number)
        .map_err(|_| "ERR value is out of range, value must between -2147483648 and 2147483647")?;
    u8::try_from(number)
        .ok()
        .filter(|db| usize::from(*db) < DATABASES)
        .ok_or_else(|| "ERR DB index is out of range".into())
}
