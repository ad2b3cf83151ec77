//! What x86-64 does with a node in fewer instructions than one word at a time: comparing many heads, half a word, a payload.
//! SSE2 is a part of every such processor.
//!
//! # Thread safety
//! Sixteen bytes are loaded at a time, which the processor does as (at least) two loads of an aligned word, each atomic: what
//! relaxed loads of the two words would give. Eight bytes that begin anywhere are parts of two such words, and no more than
//! two relaxed loads would tell. Written in assembly, as no load in the language may meet a store in another thread so.
//!
//! # Invariants
//! Every access is within the node, whatever a stale shape made the caller ask for.

use std::arch::asm;
use std::arch::x86_64::{
    __m128i, _mm_cmpgt_epi32, _mm_movemask_epi8, _mm_packs_epi16, _mm_packs_epi32, _mm_set1_epi32,
};

use super::node::Node;

/// Half `i` of the words from word `FIRST` on; 127 is the last that can be asked for.
#[inline]
pub(super) fn half<const FIRST: usize>(node: &Node, i: usize) -> u32 {
    const { assert!(8 * FIRST + 4 * 128 <= size_of::<Node>()) };
    let half: u32;
    // SAFETY: it is in the node, by the assertion. A relaxed load of the word, half of which is used.
    unsafe {
        asm!(
            "mov {half:e}, [{node} + 4 * {i} + {first}]",
            node = in(reg) node, i = in(reg) i & 127, first = const 8 * FIRST, half = lateout(reg) half,
            options(readonly, nostack, preserves_flags)
        );
    }
    half
}

/// The 48 bits that end at byte `end` of the node, which is 8 at least.
#[inline]
pub(super) fn bits_48_before(node: &Node, end: usize) -> u64 {
    let begin = end.wrapping_sub(8).min(size_of::<Node>() - 8);
    let word: u64;
    // SAFETY: these eight bytes are in the node. They are read only, and as atomics are: see the top.
    unsafe {
        asm!(
            "mov {word}, [{node} + {begin}]",
            node = in(reg) node, begin = in(reg) begin, word = lateout(reg) word,
            options(readonly, nostack, preserves_flags)
        );
    }
    word >> 16
}

/// Twice the index of the first of 7 values above this one, of the last where none before it is. They begin at word `FIRST`,
/// an even one.
#[inline]
pub(super) fn first_above_of_7<const FIRST: usize>(node: &Node, value: i32) -> usize {
    const { assert!(FIRST.is_multiple_of(2) && 8 * FIRST + 32 <= size_of::<Node>()) };
    let (a, b): (__m128i, __m128i);
    // SAFETY: the four words are in the node, by the assertion, and aligned as it is. They are read only, and as atomics are:
    // see the top.
    unsafe {
        asm!(
            "movdqa {a}, [{node} + {first}]", "movdqa {b}, [{node} + {first} + 16]",
            node = in(reg) node, first = const 8 * FIRST, a = out(xmm_reg) a, b = lateout(xmm_reg) b,
            options(readonly, nostack, preserves_flags)
        );
    }
    // SAFETY: SSE2 is there.
    unsafe {
        let value = _mm_set1_epi32(value);
        let above = _mm_packs_epi32(_mm_cmpgt_epi32(a, value), _mm_cmpgt_epi32(b, value));
        (_mm_movemask_epi8(above) as u32 | 1 << 12).trailing_zeros() as usize
    }
}

/// The first of 16 values above this one, 16 where none is. They are the line of the cache `offset` bytes after word `FIRST`;
/// a line beyond the node is the first.
#[inline]
pub(super) fn first_above_of_16<const FIRST: usize>(node: &Node, offset: usize, value: i32) -> usize {
    const { assert!(FIRST.is_multiple_of(8)) };
    debug_assert!(offset.is_multiple_of(64));
    let offset = if 8 * FIRST + offset + 64 <= size_of::<Node>() { offset } else { 0 };
    let (a, b, c, d): (__m128i, __m128i, __m128i, __m128i);
    // SAFETY: the eight words are in the node, as just made sure. As above otherwise.
    unsafe {
        asm!(
            "movdqa {a}, [{node} + {offset} + {first}]", "movdqa {b}, [{node} + {offset} + {first} + 16]",
            "movdqa {c}, [{node} + {offset} + {first} + 32]", "movdqa {d}, [{node} + {offset} + {first} + 48]",
            node = in(reg) node, offset = in(reg) offset, first = const 8 * FIRST,
            a = out(xmm_reg) a, b = out(xmm_reg) b, c = out(xmm_reg) c, d = lateout(xmm_reg) d,
            options(readonly, nostack, preserves_flags)
        );
    }
    // SAFETY: SSE2 is there.
    unsafe {
        let value = _mm_set1_epi32(value);
        let first = _mm_packs_epi32(_mm_cmpgt_epi32(a, value), _mm_cmpgt_epi32(b, value));
        let last = _mm_packs_epi32(_mm_cmpgt_epi32(c, value), _mm_cmpgt_epi32(d, value));
        (_mm_movemask_epi8(_mm_packs_epi16(first, last)) as u32 | 1 << 16).trailing_zeros() as usize
    }
}
