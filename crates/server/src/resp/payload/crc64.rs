//! CRC-64 with the polynomial of Jones, which ends the payload of `DUMP`.

const TABLE: [u64; 256] = {
    /// The polynomial, lowest power first.
    const POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

/// The checksum of `bytes`.
pub(super) fn crc64(bytes: &[u8]) -> u64 {
    crc64_of(0, bytes)
}

/// The checksum of `bytes` behind others, whose checksum is `before`.
pub(crate) fn crc64_of(before: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(before, |crc, byte| crc >> 8 ^ TABLE[usize::from(crc as u8 ^ byte)])
}

#[cfg(test)]
mod tests {
    use super::crc64;

    #[test]
    fn the_check_value() {
        assert_eq!(crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
        assert_eq!(crc64(b""), 0);
    }
}
