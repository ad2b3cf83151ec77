//! Commands on parts of values, and on several values at once.

mod common;

pub(super) mod compare;
pub(super) mod float;
pub(super) mod increx;
pub(super) mod lcs;
pub(super) mod msetex;
pub(super) mod msetnx;
pub(super) mod part;
pub(super) mod range;
