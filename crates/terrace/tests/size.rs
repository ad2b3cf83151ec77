//! Sizes and places of tiers, as people write them.

use terrace::{Place, Size, TierSpec};

#[test]
fn sizes_as_people_write_them() {
    assert_eq!("512MiB".parse(), Ok(Size::Bytes(512 << 20)));
    assert_eq!("1.5gib".parse(), Ok(Size::Bytes(3 << 29)));
    assert_eq!(
        ("2GB".parse(), "2gb".parse()),
        (Ok(Size::Bytes(2 << 30)), Ok(Size::Bytes(2 << 30))),
        "as in redis.conf"
    );
    assert_eq!(("3k".parse(), "7g".parse()), (Ok(Size::Bytes(3000)), Ok(Size::Bytes(7_000_000_000))));
    assert_eq!("4096".parse(), Ok(Size::Bytes(4096)));
    assert_eq!("25%".parse(), Ok(Size::Percent(25.0)));
    for wrong in ["", "x", "-1MiB", "12 parsecs", "%", "nan%", "99999999TiB"] {
        assert!(wrong.parse::<Size>().is_err(), "{wrong:?} is no size");
    }
}

#[test]
fn tiers_have_places() {
    let tier: TierSpec = "8GiB@/mnt/pmem0".parse().unwrap();
    assert_eq!(tier.place, Some(Place::Path("/mnt/pmem0".into())));
    let tier: TierSpec = "10%@node:2".parse().unwrap();
    assert_eq!(tier, TierSpec { size: Size::Percent(10.0), place: Some(Place::Node(2)) });
    assert!("8GiB@".parse::<TierSpec>().is_err());
    assert!("8GiB@node:x".parse::<TierSpec>().is_err());
}

#[test]
fn memory_is_striped_over_several_places() {
    let striped = |paths: &[&str]| Some(Place::Striped(paths.iter().map(Into::into).collect()));
    let tier: TierSpec = "1GiB@/a,1GiB@/dev/dax1.0,1024mb@c".parse().unwrap();
    assert_eq!(tier, TierSpec { size: Size::Bytes(1 << 30), place: striped(&["/a", "/dev/dax1.0", "c"]) });
    assert_eq!(terrace::Tier::of(&tier, 0).bytes, 3 << 30, "the size is each place's");
    // The first one's size is that of all which have none.
    assert_eq!("1GiB@/a,/b,/c".parse::<TierSpec>().unwrap().place, striped(&["/a", "/b", "/c"]));
    let share: TierSpec = "10%@/a,10%@/b".parse().unwrap();
    assert_eq!(terrace::Tier::of(&share, 1000).bytes, 200);
    // A comma that no size and no path from the root follow is a path's own.
    assert_eq!("1GiB@/a,b".parse::<TierSpec>().unwrap().place, Some(Place::Path("/a,b".into())));
    for (wrong, told) in [
        ("1GiB@/a,2GiB@/b", "places of one size: give all the same"),
        ("1GiB@/a,10%@/b", "places of one size"),
        ("1GiB@node:0,1GiB@node:1", "needs a path"),
        ("1GiB@/a,1GiB@node:1", "needs a path"),
        ("1GiB,1GiB@/a", "needs a path"),
        ("1GiB@/a,1GiB@", "expected a path"),
    ] {
        let error = wrong.parse::<TierSpec>().unwrap_err();
        assert!(error.contains(told), "{wrong}: {error}");
    }
}
