//! Reading without writing says what opening says; cutting damage makes any log openable, and invents nothing.

use crate::common::{found, on_region, open, options};
use crate::damage::small_log;
use terrace_log::{LogError, cut_damage, verify};
use terrace_media_sim::SimRegion;

#[test]
fn reading_agrees_with_opening_and_writes_nothing() {
    let (image, expected) = small_log();
    let region = SimRegion::from_image(image.clone());
    let mut seen = Vec::new();
    let report = verify(on_region(&region), options(1024), 0, |entry| {
        seen.push((entry.slot, entry.version, entry.bytes.to_vec()));
    });
    let report = report.expect("a whole log");
    assert_eq!(seen, expected);
    assert_eq!((report.entries, report.slots, report.max_version), (12, 2, 6));
    assert_eq!(report.used_blocks, 3);
    assert_eq!(region.to_bytes(), image);
}

#[test]
fn damage_is_reported_the_same_and_a_cut_makes_it_open() {
    let (image, expected) = small_log();
    let mut cut = 0;
    for at in (128..image.len()).step_by(3) {
        let mut bad = image.clone();
        bad[at] ^= 0x5A;
        let region = SimRegion::from_image(bad.clone());
        let verified = verify(on_region(&region), options(1024), 0, |_| {});
        assert_eq!(region.to_bytes(), bad, "byte {at}");
        let opened = open(on_region(&SimRegion::from_image(bad.clone())), 1024, 0).map(|_| ());
        match (&verified, &opened) {
            (Ok(_), Ok(())) => continue,
            (Err(LogError::Corrupt { offset: a, .. }), Err(LogError::Corrupt { offset: b, .. })) => {
                assert_eq!(a, b, "byte {at}");
            }
            other => panic!("byte {at}: {other:?}"),
        }
        cut_damage(&on_region(&region), options(1024), 0).expect("cut");
        let (_, replay) =
            open(on_region(&region), 1024, 0).unwrap_or_else(|error| panic!("byte {at}: {error}"));
        let got = found(&replay);
        for slot in [1, 2] {
            let all: Vec<_> = expected.iter().filter(|entry| entry.0 == slot).collect();
            let some: Vec<_> = got.iter().filter(|entry| entry.0 == slot).collect();
            // A beginning of the session's log, or an end of it if its oldest block is what was damaged.
            assert!(all.starts_with(&some) || all.ends_with(&some), "byte {at}: {} entries", some.len());
        }
        assert!(got.len() < expected.len(), "byte {at}: nothing was cut");
        cut += 1;
    }
    assert!(cut > 300, "{cut} cuts");
}
