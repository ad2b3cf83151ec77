//! Which records lie together on the SSD: what the read of a whole buf brings along (paper, 5.2 and 5.4).
//!
//! ```text
//!   log of records in the order in which they came down:  | a b - d | e - - h | i j       - left, or came down again since
//!                                                           oldest              filling
//! ```
//!
//! Bufs are not reused in place. When a quarter of the log is dead, the oldest buf's live records are appended again.

use std::collections::VecDeque;

/// Records of a buf: of 1000 bytes, in 64 KiB ("dozens to hundreds").
pub(super) const RECORDS_A_BUF: u64 = 64;
const NOWHERE: u64 = u64::MAX;

/// See the module.
pub(super) struct Bufs {
    log: VecDeque<u32>,
    /// The position of the log's first record; a multiple of [`RECORDS_A_BUF`].
    first: u64,
    /// Where each record is.
    at: Vec<u64>,
    live: usize,
}

impl Bufs {
    pub(super) fn new(records: u32) -> Self {
        Self { log: VecDeque::new(), first: 0, at: vec![NOWHERE; records as usize], live: 0 }
    }
    fn append(&mut self, record: u32) {
        self.at[record as usize] = self.first + self.log.len() as u64;
        self.log.push_back(record);
    }
    /// A record has come down.
    pub(super) fn arrived(&mut self, record: u32) {
        self.left(record);
        self.append(record);
        self.live += 1;
        while self.log.len() > self.live + self.live / 3 + 2 * RECORDS_A_BUF as usize {
            for _ in 0..RECORDS_A_BUF {
                let Some(record) = self.log.pop_front() else { break };
                self.first += 1;
                if self.at[record as usize] == self.first - 1 {
                    self.append(record);
                }
            }
        }
    }
    /// A record has left the SSD, or its version there is old.
    pub(super) fn left(&mut self, record: u32) {
        if std::mem::replace(&mut self.at[record as usize], NOWHERE) != NOWHERE {
            self.live -= 1;
        }
    }
    /// The records that a read of this one's buf brings along.
    pub(super) fn neighbours(&self, record: u32) -> Vec<u32> {
        let position = self.at[record as usize];
        if position == NOWHERE {
            return Vec::new();
        }
        let start = position - position % RECORDS_A_BUF;
        (start..start + RECORDS_A_BUF)
            .filter_map(|position| {
                let other = *self.log.get((position - self.first) as usize)?;
                (other != record && self.at[other as usize] == position).then_some(other)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_came_down_together_lies_together() {
        let mut bufs = Bufs::new(1000);
        assert!(bufs.neighbours(7).is_empty(), "it is not on the SSD");
        (0..130).for_each(|record| bufs.arrived(record));
        assert_eq!(bufs.neighbours(0), (1..64).collect::<Vec<_>>());
        assert_eq!(bufs.neighbours(64).len(), 63);
        assert_eq!(bufs.neighbours(128), [129], "a buf that is being filled");
        bufs.left(3);
        bufs.arrived(4); // a newer version
        assert_eq!(
            bufs.neighbours(0),
            (1..64).filter(|&record| record != 3 && record != 4).collect::<Vec<_>>()
        );
        assert_eq!(bufs.neighbours(4), [128, 129]);
        assert!(bufs.neighbours(3).is_empty());
    }

    /// Whatever comes and goes, the log stays short and nobody is lost.
    #[test]
    fn the_oldest_bufs_are_cleared() {
        let (mut bufs, mut rng) = (Bufs::new(1000), crate::rng::Rng::new(1, 1));
        let mut there = [false; 1000];
        for _ in 0..50_000 {
            let record = rng.below(1000) as u32;
            there[record as usize] = rng.unit() < 0.7;
            if there[record as usize] {
                bufs.arrived(record)
            } else {
                bufs.left(record)
            }
            assert!(bufs.log.len() <= 1000 + 1000 / 3 + 129 && bufs.first % RECORDS_A_BUF == 0);
        }
        assert_eq!(bufs.live, there.iter().filter(|there| **there).count());
        for record in (0..1000).filter(|record| there[*record as usize]) {
            for other in bufs.neighbours(record) {
                assert!(there[other as usize] && bufs.neighbours(other).contains(&record));
            }
        }
    }
}
