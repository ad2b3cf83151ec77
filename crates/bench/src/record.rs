//! How many bytes a record occupies: the one place that percentages are computed from.

/// Bytes before the key.
pub const HEADER_BYTES: u64 = 24;

/// Bytes that a record of these lengths occupies with its header, as the hybrid log lays it out: header, key and value, the
/// two padded to 8 bytes each. The other engines are sized by the same figure, so that percentages mean the same for all.
pub fn record_bytes(_engine: &str, key_bytes: usize, value_bytes: usize) -> u64 {
    HEADER_BYTES + (key_bytes as u64).next_multiple_of(8) + (value_bytes as u64).next_multiple_of(8)
}

#[cfg(test)]
mod tests {
    #[test]
    fn keys_and_values_are_padded_apart() {
        assert_eq!(super::record_bytes("hetermm", 8, 64), 96);
        assert_eq!(super::record_bytes("hetermm", 9, 1), 24 + 16 + 8);
        assert_eq!(super::record_bytes("dram", 8, 0), 32);
    }
}
