//! A HyperLogLog as a value: Redis's header, then registers in one of two representations.
//!
//! ```text
//!   "HYLL"  encoding  3 unused  cached estimate, 8 bytes little-endian  registers
//! ```
//! The highest bit of the cached estimate says that it is out of date.

use super::dense;
use super::estimate::{Histogram, estimate};
use super::hash::place;
use super::sparse::{self, Corrupted, Raised};

const MAGIC: &[u8; 4] = b"HYLL";
const HEADER: usize = 16;
const ENCODING: usize = 4;
const CACHED: std::ops::Range<usize> = 8..16;
const STALE: u8 = 0x80;
/// Redis's `hll-sparse-max-bytes`: a longer value becomes dense.
const SPARSE_BYTES_MAX: usize = 3000;

/// How the registers are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Dense,
    Sparse,
}

/// The representation of a value; `None` if it is no HyperLogLog.
pub(super) fn encoding(value: &[u8]) -> Option<Encoding> {
    match (value.get(..HEADER)?.first_chunk()? == MAGIC, value[ENCODING]) {
        (true, 0) if value.len() == HEADER + dense::BYTES => Some(Encoding::Dense),
        (true, 1) => Some(Encoding::Sparse),
        _ => None,
    }
}

/// One that has counted nothing.
pub(super) fn empty() -> Vec<u8> {
    let mut value = MAGIC.to_vec();
    value.push(1);
    value.resize(HEADER, 0);
    value.extend(sparse::empty());
    value
}

/// The estimate that is kept in the value, if it is up to date.
pub(super) fn cached(value: &[u8]) -> Option<u64> {
    let cached = *value.get(CACHED)?.first_chunk()?;
    (cached[7] & STALE == 0).then_some(u64::from_le_bytes(cached))
}

/// Keeps an estimate.
pub(super) fn set_cached(value: &mut [u8], estimate: u64) {
    if let Some(cached) = value.get_mut(CACHED) {
        cached.copy_from_slice(&estimate.to_le_bytes());
    }
}

/// Says that the estimate is out of date.
pub(super) fn invalidate(value: &mut [u8]) {
    if let Some(last) = value.get_mut(CACHED.end - 1) {
        *last |= STALE;
    }
}

/// Works out the estimate.
pub(super) fn count(value: &[u8]) -> Result<u64, Corrupted> {
    let registers = &value[HEADER..];
    let histogram = match encoding(value) {
        Some(Encoding::Dense) => dense::histogram(registers),
        _ => {
            let mut histogram = [0; 64];
            sparse::each(registers, |run| histogram[usize::from(run.value)] += run.length as u32)?;
            histogram
        }
    };
    Ok(estimate(&histogram))
}

/// The estimate for merged registers.
pub(super) fn count_registers(registers: &[u8]) -> u64 {
    let mut histogram: Histogram = [0; 64];
    registers.iter().for_each(|value| histogram[usize::from(value & 63)] += 1);
    estimate(&histogram)
}

/// Raises each of `registers` to what the value has there.
pub(super) fn merge_into(registers: &mut [u8], value: &[u8]) -> Result<(), Corrupted> {
    let bytes = &value[HEADER..];
    match encoding(value) {
        Some(Encoding::Dense) => {
            registers.iter_mut().zip(dense::values(bytes)).for_each(|(register, value)| {
                *register = value.max(*register);
            });
            Ok(())
        }
        _ => {
            let mut at = 0;
            sparse::each(bytes, |run| {
                for register in registers.iter_mut().skip(at).take(run.length) {
                    *register = run.value.max(*register);
                }
                at += run.length;
            })
        }
    }
}

/// Raises the value's registers to these.
pub(super) fn raise_all(value: &mut Vec<u8>, registers: &[u8]) -> Result<(), Corrupted> {
    for (index, register) in registers.iter().enumerate().filter(|(_, register)| **register > 0) {
        raise(value, index, *register)?;
    }
    Ok(())
}

/// Counts an element; whether that changed anything.
pub(super) fn add(value: &mut Vec<u8>, element: &[u8]) -> Result<bool, Corrupted> {
    let (index, run) = place(element);
    raise(value, index, run)
}

fn raise(value: &mut Vec<u8>, index: usize, register: u8) -> Result<bool, Corrupted> {
    if encoding(value) == Some(Encoding::Sparse) {
        if register <= sparse::VALUE_MAX {
            match sparse::raise(value, HEADER, index, register, SPARSE_BYTES_MAX)? {
                Raised::Yes => return Ok(true),
                Raised::No => return Ok(false),
                Raised::NoRoom => {}
            }
        }
        make_dense(value)?;
    }
    Ok(dense::raise(&mut value[HEADER..], index, register))
}

/// Makes a sparse value dense.
pub(super) fn make_dense(value: &mut Vec<u8>) -> Result<(), Corrupted> {
    if encoding(value) == Some(Encoding::Dense) {
        return Ok(());
    }
    let mut registers = vec![0; dense::BYTES];
    let mut at = 0;
    sparse::each(&value[HEADER..], |run| {
        if run.value > 0 {
            (at..at + run.length).for_each(|index| _ = dense::raise(&mut registers, index, run.value));
        }
        at += run.length;
    })?;
    value.truncate(HEADER);
    value[ENCODING] = 0;
    value.extend_from_slice(&registers);
    Ok(())
}

/// The runs of a sparse value, in words.
pub(super) fn describe(value: &[u8]) -> String {
    sparse::describe(&value[HEADER..])
}

#[cfg(test)]
mod tests {
    use super::super::hash::REGISTERS;
    use super::*;

    fn numbered(range: std::ops::Range<u32>) -> Vec<u8> {
        let mut value = empty();
        range.for_each(|n| _ = add(&mut value, &n.to_le_bytes()).unwrap());
        value
    }

    #[test]
    fn both_representations_count_the_same() {
        for elements in [0, 1, 2, 100, 1000, 1500] {
            let sparse = numbered(0..elements);
            let mut dense = sparse.clone();
            make_dense(&mut dense).unwrap();
            assert_eq!(encoding(&dense), Some(Encoding::Dense));
            assert_eq!(count(&sparse), count(&dense));
            let mut registers = [0; REGISTERS];
            merge_into(&mut registers, &sparse).unwrap();
            merge_into(&mut registers, &dense).unwrap();
            assert_eq!(Ok(count_registers(&registers)), count(&dense));
            let error = count(&sparse).unwrap().abs_diff(elements.into());
            assert!(error <= u64::from(elements / 50), "{error} off at {elements}");
        }
    }

    #[test]
    fn a_long_sparse_value_becomes_dense_and_goes_on_counting() {
        let value = numbered(0..100_000);
        assert_eq!(encoding(&value), Some(Encoding::Dense));
        let error = count(&value).unwrap().abs_diff(100_000);
        assert!(error < 2000, "{error} off");
        let mut twice = value.clone();
        assert_eq!(add(&mut twice, &7u32.to_le_bytes()), Ok(false));
        assert_eq!(twice, value);
        assert!(numbered(0..800).len() <= SPARSE_BYTES_MAX);
    }

    #[test]
    fn merging_is_counting_both() {
        let (a, b) = (numbered(0..1000), numbered(500..2000));
        let mut registers = [0; REGISTERS];
        merge_into(&mut registers, &a).unwrap();
        merge_into(&mut registers, &b).unwrap();
        let mut merged = empty();
        raise_all(&mut merged, &registers).unwrap();
        assert_eq!(count(&merged), count(&numbered(0..2000)));
        assert_eq!(Ok(count_registers(&registers)), count(&merged));
    }

    #[test]
    fn what_is_kept_of_an_estimate() {
        let mut value = empty();
        assert_eq!(cached(&value), Some(0));
        invalidate(&mut value);
        assert_eq!(cached(&value), None);
        set_cached(&mut value, 77);
        assert_eq!(cached(&value), Some(77));
    }

    #[test]
    fn other_values_are_none() {
        let mut cut = numbered(0..100_000);
        cut.pop();
        let mut unknown = empty();
        unknown[ENCODING] = 2;
        for value in [&b""[..], b"HYLL", b"HYLLO, this is no such value", &cut, &unknown] {
            assert_eq!(encoding(value), None, "{value:x?}");
        }
        let mut damaged = empty();
        damaged.pop();
        assert_eq!(encoding(&damaged), Some(Encoding::Sparse));
        assert_eq!(count(&damaged), Err(Corrupted));
        assert_eq!(add(&mut damaged, b"a"), Err(Corrupted));
    }
}
