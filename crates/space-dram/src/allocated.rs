//! What an allocation takes of the process's memory.

/// Up to so many bytes an allocation takes what it asks for, in units of 16.
const EXACT_BYTES: usize = 64;
/// What is longer takes the system's pages that it touches.
const PAGED_BYTES: usize = (8 << 10) + 1;
const PAGE_BYTES: usize = 4096;

/// Bytes that the allocator of `terrace` takes for so many: short ones have four lengths between a power of two and the next one. Other
/// allocators take about as much.
pub(crate) fn allocated_bytes(bytes: usize) -> u64 {
    let taken = match bytes {
        0..=EXACT_BYTES => bytes.next_multiple_of(16),
        PAGED_BYTES.. => bytes.next_multiple_of(PAGE_BYTES),
        _ => bytes.next_multiple_of(bytes.next_power_of_two() / 8),
    };
    taken as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_powers_of_two_there_are_four_lengths() {
        assert_eq!([0, 1, 24, 64].map(allocated_bytes), [0, 16, 32, 64]);
        assert_eq!([65, 80, 81, 96, 128, 129].map(allocated_bytes), [80, 80, 96, 96, 128, 160]);
        assert_eq!([4096, 4097, 5121, 7169].map(allocated_bytes), [4096, 5120, 6144, 8192]);
        assert_eq!([8192, 8193, 100_000].map(allocated_bytes), [8192, 12288, 102_400]);
        // More is never taken for less.
        let all: Vec<u64> = (0..300_000).map(allocated_bytes).collect();
        assert!(all.is_sorted() && all.iter().enumerate().all(|(bytes, taken)| *taken >= bytes as u64));
    }
}
