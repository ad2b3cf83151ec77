use super::*;

fn example() -> Superblock {
    Superblock {
        engine: "hetermm".into(),
        options: b"index=clht".to_vec(),
        identity: *b"0123456789abcdef",
        hash_seed: 0x1122_3344_5566_7788,
        media_bytes: 1 << 30,
        created_ms: 1_700_000_000_000,
    }
}

/// Seals bytes that a test has changed.
fn seal(bytes: &mut [u8; SUPERBLOCK_BYTES]) {
    let checksum = crc32c::crc32c(&bytes[..CHECKSUM_AT]);
    bytes[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
}

#[test]
fn golden_bytes() {
    let bytes = example().encode().unwrap();
    let mut golden = Vec::new();
    golden.extend(b"TERRACE1");
    golden.extend([4, 0, 0, 0, 10, 0, 0, 0]);
    golden.extend(b"hetermm\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    golden.extend(b"0123456789abcdef");
    golden.extend([0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11]);
    golden.extend([0, 0, 0, 0x40, 0, 0, 0, 0]);
    golden.extend([0x00, 0x68, 0xe5, 0xcf, 0x8b, 0x01, 0, 0]);
    golden.extend(b"index=clht");
    golden.resize(CHECKSUM_AT, 0);
    golden.extend(GOLDEN_CHECKSUM.to_le_bytes());
    assert!(bytes[..] == golden[..], "the format changed: {:#010x}", u32_at(&bytes, CHECKSUM_AT));
    assert_eq!(Superblock::decode(&bytes), Ok(example()));
}

/// CRC-32C of the bytes above it, computed by a separate bitwise program.
const GOLDEN_CHECKSUM: u32 = 0x64f7_b22c;

#[test]
fn a_foreign_or_short_medium() {
    for bytes in [&[][..], &[0; 4096], b"TERRACE1", &[b"SQLite f".as_slice(), &[0; 5000]].concat()] {
        let error = Superblock::decode(bytes).unwrap_err();
        assert!(error.to_string().starts_with("not a terrace store"), "{error}");
    }
}

#[test]
fn every_flipped_bit_is_seen() {
    let bytes = example().encode().unwrap();
    for bit in 0..SUPERBLOCK_BYTES * 8 {
        let mut bytes = bytes;
        bytes[bit / 8] ^= 1 << (bit % 8);
        let error = Superblock::decode(&bytes).unwrap_err();
        assert!(
            matches!(error, SuperblockError::Checksum { .. } | SuperblockError::NotTerrace { .. }),
            "bit {bit}: {error}"
        );
    }
}

#[test]
fn another_version() {
    for found in [3, 5] {
        let mut bytes = example().encode().unwrap();
        bytes[VERSION_AT] = found as u8;
        seal(&mut bytes);
        let error = Superblock::decode(&bytes).unwrap_err();
        assert_eq!(error, SuperblockError::Version { found });
        assert!(error.to_string().contains("use the terrace that it was made by"), "{error}");
    }
}

#[test]
fn sealed_nonsense() {
    let mut bytes = example().encode().unwrap();
    bytes[OPTIONS_LEN_AT + 1] = 0xFF;
    seal(&mut bytes);
    assert!(matches!(Superblock::decode(&bytes), Err(SuperblockError::Senseless(_))));
    let mut bytes = example().encode().unwrap();
    bytes[ENGINE_AT] = 0;
    seal(&mut bytes);
    assert!(matches!(Superblock::decode(&bytes), Err(SuperblockError::Senseless(_))));
}

#[test]
fn another_engine_or_an_impossible_size() {
    let block = example();
    assert_eq!(block.check("hetermm", 1 << 30), Ok(()));
    assert_eq!(block.check("hetermm", 2 << 30), Ok(()));
    let error = block.check("tac", 1 << 30).unwrap_err().to_string();
    assert!(error.contains("\"hetermm\"") && error.contains("\"tac\""), "{error}");
    let error = block.check("hetermm", (1 << 30) - 4096).unwrap_err().to_string();
    assert!(error.contains("1073737728") && error.contains("1073741824"), "{error}");
}

#[test]
fn what_does_not_fit() {
    let long = Superblock { options: vec![0; OPTIONS_BYTES_MAX + 1], ..example() };
    assert!(matches!(long.encode(), Err(SuperblockError::TooLong { what: "the options", .. })));
    let full = Superblock { options: vec![7; OPTIONS_BYTES_MAX], engine: "e".repeat(24), ..example() };
    assert_eq!(Superblock::decode(&full.encode().unwrap()), Ok(full));
    let long = Superblock { engine: "e".repeat(25), ..example() };
    assert!(matches!(long.encode(), Err(SuperblockError::TooLong { .. })));
    assert!(Superblock { engine: String::new(), ..example() }.encode().is_err());
}

#[test]
fn identities_differ() {
    assert_ne!(random_identity().unwrap(), random_identity().unwrap());
}
