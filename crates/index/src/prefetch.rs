//! Loading ahead.

/// Starts loading the line where `place` begins: for whoever prefetches the records that an index tells of.
#[inline]
pub fn prefetch<T>(place: &T) {
    crate::memory::prefetch(std::ptr::from_ref(place));
}
