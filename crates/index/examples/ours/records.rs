//! Records of 64 bytes, the key first, in huge pages where the kernel gives them.

use terrace_index::{Address, Verdict};

use crate::keys;

/// A record: the key and 56 bytes of value.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub struct Record {
    pub key: u64,
    pub value: [u64; 7],
}

/// All records. Number `i` has the address `i + 1`.
pub struct Records {
    start: *const Record,
    count: u64,
}

impl Records {
    /// Fills `count` records.
    pub fn new(count: u64) -> Self {
        const HUGE_PAGE_BYTES: usize = 2 << 20;
        let bytes = count as usize * size_of::<Record>() + HUGE_PAGE_BYTES;
        let (protection, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
        );
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no existing memory.
        let mapping = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
        assert_ne!(mapping, libc::MAP_FAILED, "no memory for {count} records");
        // SAFETY: advice on the mapping just made changes no content.
        unsafe { libc::madvise(mapping, bytes, libc::MADV_HUGEPAGE) };
        let start = mapping.wrapping_byte_add(mapping.align_offset(HUGE_PAGE_BYTES)).cast::<Record>();
        for i in 0..count {
            let record = Record { key: keys::key(i), value: [i; 7] };
            // SAFETY: record `i` is inside the mapping, which is a huge page longer than the records, and nobody else has it.
            unsafe { start.wrapping_add(i as usize).write(record) };
        }
        Self { start, count }
    }
    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count
    }
    /// The address of a record by its number.
    pub fn address(&self, number: u64) -> Address {
        Address::new(number + 1)
    }
    #[inline]
    fn pointer(&self, address: Address) -> *const Record {
        debug_assert!(address.raw() <= self.count);
        self.start.wrapping_add(address.raw() as usize - 1)
    }
    /// Compares the record's key.
    #[inline]
    pub fn verify(&self, key: u64, address: Address) -> Verdict {
        // SAFETY: an address is that of a record: only those were inserted. Records are written no more.
        if unsafe { (*self.pointer(address)).key } == key { Verdict::Match } else { Verdict::Differs }
    }
    /// Copies all 64 bytes.
    #[inline]
    pub fn copy(&self, address: Address, to: &mut Record) {
        // SAFETY: as in `verify`.
        *to = unsafe { *self.pointer(address) };
    }
    /// Starts loading a record.
    #[inline]
    pub fn prefetch(&self, address: Address) {
        #[cfg(target_arch = "x86_64")]
        {
            use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: a prefetch is a hint; it accesses no memory and faults on no address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(self.pointer(address).cast()) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = address;
    }
}
