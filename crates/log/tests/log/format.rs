//! The bytes of the format, as `docs/formats/log.md` has them.

use terrace_log::Log;

use crate::common::{on_region, options, region};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn golden_bytes() {
    let region = region(2);
    let log = Log::create(on_region(&region), options(1024)).expect("created");
    let mut writer = log.writer(0x0102, 5);
    writer.begin_atomic();
    writer.entry(6, 0, &[b"ab"]);
    writer.entry(7, 0, &[b"hello"]);
    writer.end_atomic();
    writer.write(5, &[(9, 3)]).expect("room");
    let bytes = region.to_bytes();
    assert_eq!(hex(&bytes[..64]), SUPERBLOCK);
    assert_eq!(hex(&bytes[128..192]), BLOCK_HEADER);
    assert_eq!(hex(&bytes[192..288]), GROUP);
    let copy = 128 + 1024 - 64;
    assert_eq!(hex(&bytes[copy..copy + 64]), BLOCK_HEADER);
    assert!([&bytes[288..copy], &bytes[copy + 64..]].concat().iter().all(|byte| *byte == 0));
}

const SUPERBLOCK: &str = concat!(
    "746572724c6f6731cdab00000000000001000000000000000004000000000000",
    "02000000000000000000000000000000000000000000000025ec1bb100000000",
);
const BLOCK_HEADER: &str = concat!(
    "746572724c426b31d3c23c5ae196c3a500000000000400001c683c5ae196c3a5",
    "1b693c5ae196c3a51f693c5ae196c3a51e693c5ae196c3a5981a941a55534544",
);
const GROUP: &str = concat!(
    "74477270d1db5c87600000000200000007000000000000000500000000000000",
    "01000000624724a7090003000000000000000000000000000600000000000000",
    "020000806162000007000000000000000500000068656c6c6f00000000000000",
);
