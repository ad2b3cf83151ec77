//! Several records as one step: all of them count after a crash, or none.
//!
//! ```text
//! bodies, dying words | fence | words of records, removing versions | fence | intent, twice | old chunks are freed
//!                                                                               '-- from here on the step counts
//! ```
//!
//! # Invariants
//! * A chunk whose word says that it is of a step counts if its version is at most the intent of the session that made it. Intents only
//!   grow, and a session stores one for steps alone: so it says the same for ever.
//! * A word is stored once what it speaks for is durable: of a step no chunk is torn.
//! * What a crash left of steps that don't count is gone before a session writes.

use terrace_engine::record::NewRecord;
use terrace_engine::version::Version;
use terrace_media::ByteRegion;

use crate::layout::{Place, Sort};
use crate::medium::Medium;

/// What a session's step has written so far.
#[derive(Default)]
pub struct Step {
    /// Where chunks start, the words that they are to have, and when their records expire.
    filled: Vec<(u64, u64, u64)>,
}

impl Step {
    /// Stores a chunk but for its word.
    pub fn add<R: ByteRegion>(
        &mut self,
        medium: &Medium<R>,
        offset: u64,
        place: Place,
        record: &NewRecord<'_>,
        chunk: &[u8],
    ) {
        medium.region.write_nt(medium.at(offset) + 8, &chunk[8..]);
        self.filled.push((offset, place.word(Sort::Step, record.version), record.expire_at));
    }

    /// Makes the step count: durable when it returns. `removed` are chunks of records that it removes, with their dying words;
    /// `version` is its newest one.
    pub fn commit<R: ByteRegion>(&mut self, medium: &Medium<R>, removed: &[(u64, u64)], version: Version) {
        let region = &medium.region;
        for &(offset, dying) in removed {
            medium.store_word(offset, dying);
        }
        region.fence();
        for &(offset, word, _) in &self.filled {
            medium.store_word(offset, word);
        }
        for &(offset, _) in removed {
            region.store_u64(medium.at(offset) + 8, version.0);
            region.flush(medium.at(offset) + 8, 8);
        }
        region.fence();
        medium.store_intent(version.0);
    }

    /// Ends the step: where its chunks start whose records expire, and when. A search may have passed by before their words stood there.
    pub fn take_expiring(&mut self) -> impl Iterator<Item = (u64, u64)> {
        let filled = self.filled.drain(..);
        filled.filter(|(.., expire_at)| *expire_at != 0).map(|(offset, _, expire_at)| (offset, expire_at))
    }
}
