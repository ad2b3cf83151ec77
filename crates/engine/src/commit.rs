//! Commit.

/// What a batch's answers rest on.
#[derive(Default, Debug)]
pub struct Ticket {}
impl Ticket {
    pub(crate) fn clear(&mut self) {}
}
