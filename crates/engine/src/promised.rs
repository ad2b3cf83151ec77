//! What keeps the promise that an answer outlives a crash: the log, and a session's end of it.
//!
//! A store has none if it was opened without (`--durability none`), or if its records are in DRAM alone: the second is known when
//! the engine is compiled, so that no operation of such an engine asks.

use std::marker::PhantomData;

use crate::space::Durable;

/// A log, or a session's writer of it, where the space and the durability that was chosen have one.
pub(crate) struct Promised<S, T> {
    keeper: Option<T>,
    space: PhantomData<fn() -> S>,
}

impl<S: Durable, T> Promised<S, T> {
    /// What was opened for the store; nothing is kept of it for a space that promises nothing.
    pub fn new(keeper: Option<T>) -> Self {
        Self { keeper: keeper.filter(|_| S::SURVIVES), space: PhantomData }
    }
    /// What keeps the promise, if one was given.
    #[inline]
    pub fn keeper(&self) -> Option<&T> {
        if S::SURVIVES { self.keeper.as_ref() } else { None }
    }
    /// The same, to write with.
    #[inline]
    pub fn keeper_mut(&mut self) -> Option<&mut T> {
        if S::SURVIVES { self.keeper.as_mut() } else { None }
    }
    /// Whether answers wait until they are safe.
    #[inline]
    pub fn is_given(&self) -> bool {
        self.keeper().is_some()
    }
    /// Ends it: what its keeper holds goes back.
    pub fn end(&mut self) {
        self.keeper = None;
    }
}
