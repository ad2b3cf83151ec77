//! Numbers as `INCRBYFLOAT` keeps them: 80 bits wide, read and written as text.
//!
//! Redis adds in C's `long double`, which on x86-64 has a mantissa of 64 bits, and shows 17 digits behind the point. A sum in
//! `f64` would show other digits, so the format is computed here, exactly and on every machine alike.

mod extended;
mod read;
mod write;

pub(super) use extended::Extended;
