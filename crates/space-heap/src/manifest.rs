//! The two copies of the manifest, and how long the heap is.

use std::io;

use terrace_blocks::{Stored, u32_at, u64_at};
use terrace_engine::manifest::{MANIFEST_BYTES, Manifest};
use terrace_media::ByteRegion;

use crate::medium::{MANIFEST_COPY_BYTES, Medium};

const MAGIC: &[u8; 8] = b"TRCHEAP1";
/// Behind the manifest.
const SIZE_AT: usize = MANIFEST_BYTES;
const CRC_AT: usize = SIZE_AT + 16;

impl<R: ByteRegion> Medium<R> {
    fn size_crc(&self, bytes: &[u8]) -> u32 {
        crc32c::crc32c_append(crc32c::crc32c(&self.store_id.to_le_bytes()), &bytes[SIZE_AT..CRC_AT])
    }

    /// Stores the manifest with the length of the region, in one copy after the other; durable when it returns.
    pub fn save_manifest(&self, manifest: &[u8], bytes: u64) {
        self.save_manifest_at([0, 1], manifest, bytes);
    }

    fn save_manifest_at(&self, copies: [u64; 2], manifest: &[u8], bytes: u64) {
        let mut copy = [0; MANIFEST_COPY_BYTES as usize];
        copy[..MANIFEST_BYTES].copy_from_slice(&manifest[..MANIFEST_BYTES]);
        copy[SIZE_AT..SIZE_AT + 8].copy_from_slice(MAGIC);
        copy[SIZE_AT + 8..CRC_AT].copy_from_slice(&bytes.to_le_bytes());
        let crc = self.size_crc(&copy);
        copy[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
        for number in copies {
            self.region.write_nt(self.manifest_at(number), &copy);
            self.region.fence();
        }
    }

    /// Makes both copies the newest one that holds together, the other one first: who stores the next manifest may be cut off in what
    /// would be the only one.
    pub fn agree(&self) {
        let (first, second) = (self.copy(0), self.copy(1));
        if first == second {
            return;
        }
        let sequence = |copy: &Option<(Manifest, u64)>| copy.map(|(manifest, _)| manifest.sequence);
        let (newest, older) = if sequence(&first) >= sequence(&second) { (first, 1) } else { (second, 0) };
        if let Some((manifest, bytes)) = newest {
            self.save_manifest_at([older, 1 - older], &manifest.encode(), bytes);
        }
    }

    /// The newest manifest that holds together, and how long the region was then; `None` if there is none.
    pub fn stored_manifest(&self) -> Option<(Manifest, u64)> {
        // A resize stores another length with the manifest that there is, in the first copy before the second: of two with the
        // same number the last one here.
        let copies = [self.copy(1), self.copy(0)];
        copies.into_iter().flatten().max_by_key(|(manifest, _)| manifest.sequence)
    }

    /// What stands in the place of a copy.
    pub fn stored_copy(&self, number: u64) -> Stored<Manifest> {
        let mut bytes = [0; MANIFEST_COPY_BYTES as usize];
        self.region.read(self.manifest_at(number), &mut bytes);
        match self.copy(number) {
            Some((manifest, _)) => Stored::Valid(manifest),
            None if bytes.iter().all(|byte| *byte == 0) => Stored::Empty,
            None => Stored::Bad,
        }
    }

    fn copy(&self, number: u64) -> Option<(Manifest, u64)> {
        let mut copy = [0; MANIFEST_COPY_BYTES as usize];
        self.region.read(self.manifest_at(number), &mut copy);
        let sound = &copy[SIZE_AT..SIZE_AT + 8] == MAGIC && u32_at(&copy, CRC_AT) == self.size_crc(&copy);
        let manifest = Manifest::decode(&copy[..MANIFEST_BYTES]).filter(|_| sound)?;
        Some((manifest, u64_at(&copy, SIZE_AT + 8)))
    }

    /// Whether the store was never open: its first manifest was not stored whole in both copies.
    ///
    /// # Errors
    /// If it was and neither copy holds together.
    pub fn is_new(&self) -> io::Result<bool> {
        let mut second = [0; MANIFEST_COPY_BYTES as usize];
        self.region.read(self.manifest_at(1), &mut second);
        match self.stored_manifest() {
            Some(_) => Ok(false),
            None if second.iter().all(|byte| *byte == 0) => Ok(true),
            None => Err(io::Error::new(io::ErrorKind::InvalidData, "neither copy of the manifest is valid")),
        }
    }
}
