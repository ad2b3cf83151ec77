//! Values that a panic doesn't drop: a store that hangs would hang again in its destructor.

use std::ops::{Deref, DerefMut};

/// Dropped as usual, unless the thread is panicking; then it leaks.
pub(super) struct Kept<T>(Option<T>);

impl<T> Kept<T> {
    pub fn new(value: T) -> Self {
        Self(Some(value))
    }
    /// Drops the value now. Nobody may use it again.
    pub fn end(&mut self) {
        self.0 = None;
    }
}

impl<T> Deref for Kept<T> {
    type Target = T;
    fn deref(&self) -> &T {
        match &self.0 {
            Some(value) => value,
            None => unreachable!("held until dropped"),
        }
    }
}

impl<T> DerefMut for Kept<T> {
    fn deref_mut(&mut self) -> &mut T {
        match &mut self.0 {
            Some(value) => value,
            None => unreachable!("held until dropped"),
        }
    }
}

impl<T> Drop for Kept<T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::mem::forget(self.0.take());
        }
    }
}
