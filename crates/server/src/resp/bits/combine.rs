//! Bitwise operations on whole values, the shorter one taken to end in zeros.

use terrace_engine::Buffer;

/// Bytes that are combined at a time.
const PART_BYTES: usize = 4096;

/// Which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    And,
    Or,
    Xor,
    Not,
}

impl Operation {
    const ALL: [Self; 4] = [Self::And, Self::Or, Self::Xor, Self::Not];

    /// The operation of this name.
    pub fn named(name: &[u8]) -> Option<Self> {
        let names = ["AND", "OR", "XOR", "NOT"];
        let at = names.iter().position(|known| name.eq_ignore_ascii_case(known.as_bytes()))?;
        Self::ALL.get(at).copied()
    }

    /// As an argument of a store operation.
    pub fn encode(self) -> u8 {
        self as u8
    }

    /// What [`encode`](Self::encode) made.
    pub fn decode(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte)).copied()
    }

    /// Begins with the first value.
    pub fn begin(self, result: &mut Buffer, value: &[u8]) {
        match self {
            Self::Not => {
                let mut part = [0; PART_BYTES];
                for bytes in value.chunks(PART_BYTES) {
                    part.iter_mut().zip(bytes).for_each(|(part, byte)| *part = !byte);
                    result.extend_from_slice(&part[..bytes.len()]);
                }
            }
            Self::And | Self::Or | Self::Xor => result.extend_from_slice(value),
        }
    }

    /// Goes on with a further value; `result[start..]` is what came out so far.
    pub fn combine(self, result: &mut Buffer, start: usize, value: &[u8]) {
        let common = (result.len() - start).min(value.len());
        let mut part = [0; PART_BYTES];
        for (n, bytes) in value[..common].chunks(PART_BYTES).enumerate() {
            let (at, part) = (start + n * PART_BYTES, &mut part[..bytes.len()]);
            part.copy_from_slice(&result[at..at + bytes.len()]);
            for (part, byte) in part.iter_mut().zip(bytes) {
                match self {
                    Self::And => *part &= byte,
                    Self::Or => *part |= byte,
                    Self::Xor => *part ^= byte,
                    // Has one value only.
                    Self::Not => {}
                }
            }
            result.write_at(at, part);
        }
        match self {
            Self::And => {
                let length = result.len() + (value.len() - common);
                result.truncate(start + common);
                result.resize_zeroed(length);
            }
            Self::Or | Self::Xor => result.extend_from_slice(&value[common..]),
            Self::Not => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(operation: Operation, values: &[&[u8]]) -> Vec<u8> {
        let mut result = Buffer::new();
        result.push(b'#');
        operation.begin(&mut result, values[0]);
        values[1..].iter().for_each(|value| operation.combine(&mut result, 1, value));
        result[1..].to_vec()
    }

    #[test]
    fn shorter_values_end_in_zeros() {
        assert_eq!(result(Operation::And, &[b"\xff\x0f", b"\xf0"]), b"\xf0\x00");
        assert_eq!(result(Operation::And, &[b"\xf0", b"\xff\x0f"]), b"\xf0\x00");
        assert_eq!(result(Operation::And, &[b"", b"\xff\x0f", b"\xff\xff\xff"]), b"\x00\x00\x00");
        assert_eq!(result(Operation::Or, &[b"\xf0", b"\x0f\x01", b""]), b"\xff\x01");
        assert_eq!(result(Operation::Or, &[b"\x0f\x01", b"\xf0"]), b"\xff\x01");
        assert_eq!(result(Operation::Xor, &[b"\xff\xff", b"\x0f", b"\x01\x01\x01"]), b"\xf1\xfe\x01");
        assert_eq!(result(Operation::Not, &[b"\xf0\x00"]), b"\x0f\xff");
        assert_eq!(result(Operation::Not, &[b""]), b"");
    }

    #[test]
    fn names_in_any_case() {
        for (name, operation) in
            [("and", Operation::And), ("OR", Operation::Or), ("xOr", Operation::Xor), ("NOT", Operation::Not)]
        {
            assert_eq!(Operation::named(name.as_bytes()), Some(operation));
            assert_eq!(Operation::decode(operation.encode()), Some(operation));
        }
        assert_eq!(Operation::named(b"nand"), None);
        assert_eq!(Operation::decode(4), None);
    }
}
