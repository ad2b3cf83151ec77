//! Fetching a record from DRAM.
//!
//! # Thread safety
//! The record may be rewritten meanwhile: see [`Words`].

use terrace_engine::record::Kind;
use terrace_engine::shared_words::SharedWords;
use terrace_engine::space::{Fetch, Want};
use terrace_index::Key;
use terrace_media::Buffer;

use crate::sync::AtomicU64;
use crate::words::Words;

/// Fetches a record, as [`Records::fetch`](terrace_engine::space::Records::fetch) says.
#[inline]
pub fn fetch_words(words: Words<'_>, key: Option<&Key<'_>>, want: Want, out: &mut Buffer) -> Fetch {
    if let Some(key) = key
        && let Some(head) = words.fetch_once(key, want, out)
    {
        return Fetch::Match(head);
    }
    fetch_any(words, key, want, out)
}

/// The same of any record, at any time.
#[inline(never)]
fn fetch_any(words: Words<'_>, key: Option<&Key<'_>>, want: Want, out: &mut Buffer) -> Fetch {
    let start = out.len();
    let mut is_again = false;
    words.consistently(|head| {
        if std::mem::replace(&mut is_again, true) {
            out.truncate(start);
        }
        let meta = head.meta;
        if meta.kind() == Kind::Poison {
            return match key {
                Some(key) if words.bytes_equal(meta.key_word(), &key.hash.to_le_bytes()) => {
                    Fetch::Damaged(head)
                }
                _ => Fetch::Differs,
            };
        }
        match key {
            Some(key) => {
                let same = meta.key_bytes() == key.bytes.len()
                    && meta.db() == key.db
                    && words.bytes_equal(meta.key_word(), key.bytes);
                if !same {
                    return Fetch::Differs;
                }
                if want == Want::Value || meta.kind() == Kind::Extent {
                    words.append_bytes(meta.value_word(), meta.value_bytes(), out);
                }
            }
            None => {
                words.append_bytes(meta.key_word(), meta.key_bytes(), out);
                if want == Want::Value {
                    words.append_bytes(meta.value_word(), meta.value_bytes(), out);
                }
            }
        }
        Fetch::Match(head)
    })
}

/// Most lines that [`prefetch`] starts to load: what a short record takes. Of a long one the processor fetches the rest by itself.
#[cfg(target_arch = "x86_64")]
const PREFETCHED_LINES: usize = 4;

/// Starts loading the line that words begin in.
#[inline]
pub fn prefetch_line(words: &[AtomicU64]) {
    prefetch(&words[..words.len().min(1)]);
}

/// Starts loading a record's words into the cache.
#[inline]
pub fn prefetch(words: &[AtomicU64]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch never faults, whatever the address.
        let load = |word: &AtomicU64| unsafe { _mm_prefetch(std::ptr::from_ref(word).cast(), _MM_HINT_T0) };
        if let Some(first) = words.first_chunk::<{ PREFETCHED_LINES * 8 + 1 }>() {
            (0..PREFETCHED_LINES).for_each(|line| load(&first[line * 8]));
        } else {
            words.iter().step_by(8).for_each(load);
            // Where they don't begin with a line they may end in one more. Beyond a short record lies what nobody asked for.
            words.last().into_iter().for_each(load);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = words;
}
