//! Bitmaps and bit fields: values as rows of bits, the highest of the first byte first.

mod combine;
mod field;
mod scan;

pub(super) mod fields;
pub(super) mod merge;
pub(super) mod reads;
pub(super) mod single;

use terrace_protocol::resp::parse_integer;

use super::error::Refusal;

/// An offset as a command gives it: in bits, or, if `field_bits` says how long fields are and it begins with `#`, in fields.
/// The bit lies in a value of at most `bytes_max`.
fn offset(text: &[u8], field_bits: Option<u8>, bytes_max: usize) -> Result<u64, Refusal> {
    let (number, scale) = match (text, field_bits) {
        ([b'#', number @ ..], Some(bits)) => (number, i64::from(bits)),
        _ => (text, 1),
    };
    parse_integer(number)
        .and_then(|number| u64::try_from(number.checked_mul(scale)?).ok())
        .filter(|offset| offset / 8 < bytes_max as u64)
        .ok_or_else(|| "ERR bit offset is not an integer or out of range".into())
}

#[cfg(test)]
mod tests {
    use super::offset;

    #[test]
    fn offsets() {
        let ok = |text: &str, bits| offset(text.as_bytes(), bits, 512 << 20).ok();
        assert_eq!(ok("7", None), Some(7));
        assert_eq!(ok("#7", Some(8)), Some(56));
        assert_eq!(ok("7", Some(8)), Some(7));
        assert_eq!(ok("4294967295", None), Some(4_294_967_295));
        for (text, bits) in [
            ("4294967296", None),
            ("#536870912", Some(8)),
            ("-1", None),
            ("#-1", Some(8)),
            ("#1", None),
            ("#9223372036854775807", Some(63)),
            ("#", Some(8)),
            ("", None),
            ("x", None),
        ] {
            assert_eq!(ok(text, bits), None, "{text}");
        }
    }
}
