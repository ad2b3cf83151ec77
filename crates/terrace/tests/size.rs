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
