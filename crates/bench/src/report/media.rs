//! Accesses to a medium during the measured phase.

use serde::Serialize;
use terrace_media::CountersSnapshot;

/// Counts. A *write* is one burst: the stores that one fence, or one submission, makes durable.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Accesses<T> {
    /// Read accesses.
    pub reads: T,
    /// Bytes read.
    pub read_bytes: T,
    /// Write bursts.
    pub writes: T,
    /// Bytes written.
    pub write_bytes: T,
    /// Cache lines written back: each takes one flush instruction (or is streamed).
    pub flushes: T,
    /// Fences, or syncs of a file.
    pub fences: T,
}

/// The same, divided by the operations of the phase.
pub type PerOperation = Accesses<f64>;

/// A medium's part in the measured phase.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct MediaReport {
    /// Totals.
    #[serde(flatten)]
    pub total: Accesses<u64>,
    /// Totals divided by the operations.
    pub per_operation: PerOperation,
    /// Cache lines written back; the same figure as `flushes`.
    pub lines_flushed: u64,
    /// Bytes written for each byte of key and value that was set; null if nothing was.
    pub bytes_per_payload_byte: Option<f64>,
}

impl MediaReport {
    /// From the counters' growth over the phase, its operations, and the bytes of keys and values set in it.
    pub fn new(counters: CountersSnapshot, operations: u64, payload_bytes: u64) -> Self {
        let CountersSnapshot { reads, read_bytes, writes, write_bytes, lines_flushed, fences } = counters;
        let each = |count: u64| if operations == 0 { 0.0 } else { count as f64 / operations as f64 };
        Self {
            total: Accesses { reads, read_bytes, writes, write_bytes, flushes: lines_flushed, fences },
            per_operation: Accesses {
                reads: each(reads),
                read_bytes: each(read_bytes),
                writes: each(writes),
                write_bytes: each(write_bytes),
                flushes: each(lines_flushed),
                fences: each(fences),
            },
            lines_flushed,
            bytes_per_payload_byte: (payload_bytes > 0).then(|| write_bytes as f64 / payload_bytes as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_that_readers_expect() {
        let counters =
            CountersSnapshot { reads: 10, write_bytes: 720, writes: 5, ..CountersSnapshot::default() };
        let json = serde_json::to_value(MediaReport::new(counters, 20, 720)).unwrap();
        for key in ["reads", "read_bytes", "writes", "write_bytes", "flushes", "fences"] {
            assert!(json[key].is_u64(), "{key}");
            assert!(json["per_operation"][key].is_f64(), "per_operation {key}");
        }
        assert_eq!(json["per_operation"]["writes"], 0.25);
        assert_eq!(json["bytes_per_payload_byte"], 1.0);
        assert_eq!(json["lines_flushed"], 0);
    }
}
