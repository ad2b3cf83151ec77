//! Which line of the program an access comes from, for simulations that crash there.
//!
//! A medium behind a pointer ([`AnyRegion`](crate::AnyRegion), [`AnyDevice`](crate::AnyDevice)) is called by the pointer's own code:
//! its `#[track_caller]` would name that. So the pointer notes its caller, for the medium to take.

use std::cell::Cell;
use std::panic::Location;

thread_local! {
    static NOTED: Cell<Option<&'static Location<'static>>> = const { Cell::new(None) };
}

/// The next access of this thread comes from there.
pub fn note(place: &'static Location<'static>) {
    NOTED.set(Some(place));
}

/// Where this access comes from: what was noted for it, or the caller.
#[track_caller]
pub fn noted() -> &'static Location<'static> {
    NOTED.take().unwrap_or(Location::caller())
}
