//! What a client's keys may hold after a cut: the state after some number of its writes, not below those acknowledged.
//!
//! A connection's writes go to one session's log, which is sequential. So recovery must leave a *prefix* of what a client
//! sent, whole: nothing acknowledged may be missing, nothing may be half there, and no later write without an earlier one.

use std::fmt::Write as _;

use terrace_testkit::case::show;

use super::work::{Client, KEYS};

/// Writes that may have been acknowledged in the guest, or sent, and not have reached the console when the power went.
const AHEAD_MAX: u64 = 20_000;
/// Keys told about in a complaint.
const TOLD_MAX: usize = 5;

/// Finds out how many writes explain what was found, one entry for each key; `client` is as of the last write
/// acknowledged and afterwards as of what was found. Returns how many writes beyond those acknowledged are there.
///
/// # Errors
/// In words, if no number of writes explains it.
pub fn settle(client: &mut Client, found: &[Option<Vec<u8>>]) -> Result<u64, String> {
    settle_within(client, found, AHEAD_MAX)
}

fn settle_within(client: &mut Client, found: &[Option<Vec<u8>>], ahead_max: u64) -> Result<u64, String> {
    assert_eq!(found.len(), KEYS, "one entry for each key");
    let acknowledged = client.number;
    let fits = |client: &Client, key: usize| client.holds(key, found[key].as_deref());
    let mut right: Vec<bool> = (0..KEYS).map(|key| fits(client, key)).collect();
    let complaint = complain(client, found, &right);
    while right.contains(&false) {
        if client.number - acknowledged == ahead_max {
            return Err(complaint);
        }
        let write = client.step();
        right[write.key] = fits(client, write.key);
    }
    Ok(client.number - acknowledged)
}

fn complain(client: &Client, found: &[Option<Vec<u8>>], right: &[bool]) -> String {
    let wrong: Vec<usize> = (0..KEYS).filter(|key| !right[*key]).collect();
    let mut text = format!(
        "no number of writes from {} on explains what is there; {} keys differ from what was acknowledged:",
        client.number,
        wrong.len()
    );
    for key in wrong.iter().take(TOLD_MAX) {
        let holds = found[*key].as_ref().map_or("nothing".into(), |value| show(value));
        let pieces: Vec<_> =
            client.state(*key).iter().flatten().map(|piece| (piece.boot, piece.number)).collect();
        let (name, length) = (client.key(*key), client.length(*key));
        let _ = write!(text, " {name} holds {holds}, expected (boot, write) {pieces:?} of {length} bytes;");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dax_guest::work::{Change, Write};

    /// Enough to find what a test made, and quick where there is nothing to be found.
    const AHEAD: u64 = 500;

    fn values(client: &Client) -> Vec<Option<Vec<u8>>> {
        let value = |key| {
            client
                .state(key)
                .as_ref()
                .map(|pieces| pieces.iter().flat_map(|piece| client.bytes(*piece)).collect())
        };
        (0..KEYS).map(value).collect()
    }

    /// A client after 400 acknowledged writes, and after more that nobody answered.
    fn clients(more: u64) -> (Client, Client) {
        let mut acknowledged = Client::new(9, 3);
        (0..400).for_each(|_| _ = acknowledged.step());
        let mut ahead = acknowledged.clone();
        (0..more).for_each(|_| _ = ahead.step());
        (acknowledged, ahead)
    }

    #[test]
    fn every_prefix_from_what_was_acknowledged_on_is_right() {
        for more in [0, 1, 2, 17, 300] {
            let (mut acknowledged, ahead) = clients(more);
            let found = settle(&mut acknowledged, &values(&ahead)).unwrap();
            // A delete of an absent key leaves no trace, so that fewer may explain it.
            assert!(found <= more);
            assert_eq!(values(&acknowledged), values(&ahead));
        }
    }

    #[test]
    fn whatever_was_acknowledged_and_is_missing_is_noticed() {
        let mut lost = Client::new(9, 3);
        (0..399).for_each(|_| _ = lost.step());
        let (acknowledged, _) = clients(0);
        assert_ne!(values(&lost), values(&acknowledged), "the last write left a trace");
        let wrong = settle(&mut acknowledged.clone(), &values(&lost)).unwrap_err();
        assert!(wrong.contains("1 keys differ"), "{wrong}");
        // A hole in the middle: the newest write to one key, of any age, is taken back.
        let before = values(&acknowledged);
        for key in 0..KEYS {
            let mut found = before.clone();
            found[key] = match &before[key] {
                Some(_) => None,
                None => Some(b"back from the dead".to_vec()),
            };
            settle_within(&mut acknowledged.clone(), &found, AHEAD).unwrap_err();
        }
    }

    #[test]
    fn a_later_write_without_an_earlier_one_is_noticed() {
        let (mut acknowledged, _) = clients(0);
        let mut ahead = acknowledged.clone();
        let set = |write: &Write| write.change == Change::Set;
        let first = loop {
            let write = ahead.step();
            if set(&write) {
                break write;
            }
        };
        let second = loop {
            let write = ahead.step();
            if set(&write) && write.key != first.key {
                break write;
            }
        };
        let mut found = values(&acknowledged);
        found[second.key] = Some(ahead.bytes(second.piece));
        settle_within(&mut acknowledged, &found, AHEAD).unwrap_err();
    }

    #[test]
    fn a_write_of_an_earlier_boot_that_was_taken_back_stays_away() {
        let (mut after, ghost) = clients(30);
        after.boot = 2;
        (0..3).for_each(|_| _ = after.step());
        let mut found = values(&after);
        let ghosts = values(&ghost);
        let key = (0..KEYS).find(|key| ghosts[*key].is_some() && ghosts[*key] != found[*key]).unwrap();
        found[key] = ghosts[key].clone();
        settle_within(&mut after, &found, AHEAD).unwrap_err();
    }
}
