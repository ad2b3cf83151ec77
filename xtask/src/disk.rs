//! What the kernel counts of a disk, whoever used it.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

const SECTOR_BYTES: u64 = 512;

/// Since the disk was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disk {
    pub reads: u64,
    /// Milliseconds that reads took, all together: in a second, a thousand times the mean number under way.
    pub reading_ms: u64,
    pub written_bytes: u64,
}

impl Disk {
    /// Of the disk that a file or directory lies on; `None` where the kernel doesn't tell.
    pub fn under(path: &Path) -> Option<Self> {
        let device = std::fs::metadata(path).ok()?.dev();
        // As `makedev(3)` has them.
        let major = ((device >> 8) & 0xfff) | ((device >> 32) & !0xfff);
        let minor = (device & 0xff) | ((device >> 12) & !0xff & 0xffff_ffff);
        Self::read(&std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")).ok()?)
    }
    fn read(stat: &str) -> Option<Self> {
        let fields: Vec<u64> = stat.split_whitespace().map_while(|field| field.parse().ok()).collect();
        let &[reads, _, _, reading_ms, _, _, sectors_written, ..] = fields.as_slice() else { return None };
        Some(Self { reads, reading_ms, written_bytes: sectors_written * SECTOR_BYTES })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_the_kernels() {
        let stat = "  100 1 800 2500 40 2 4096 90 0 1200 2590 0 0\n";
        assert_eq!(Disk::read(stat), Some(Disk { reads: 100, reading_ms: 2500, written_bytes: 4096 * 512 }));
        assert_eq!(Disk::read("1 2 3"), None);
    }
}
