//! Iteration: a step walks whole index buckets and reads the keys behind their addresses.

use terrace_index::{Address, Index, Key, Lookup, Verdict};
use terrace_log::LogDevice;
use terrace_media::Buffer;

use super::{Core, Step, live};
use crate::batch::{self, Batch};
use crate::op::Span;
use crate::pending::{Known, Wanted};
use crate::reply::{OpError, Reply};
use crate::space::{Fetch, Space, Want};

/// Buckets a step visits at most, however few keys it finds.
const BUCKETS_MAX: usize = 4096;

impl<I: Index, S: Space, D: LogDevice> Core<I, S, D> {
    /// One step from `cursor`, about `count` keys. If any key is on a device the whole step is run again once it was read:
    /// the index may have moved meanwhile, and a step of its own is always complete.
    pub(super) fn scan(
        &mut self,
        (op, db): (usize, u8),
        cursor: u64,
        count: u32,
        known: &Known,
        output: &mut Buffer,
        keys: &mut Vec<(u32, Span)>,
    ) -> Step {
        let now_ms = self.now_ms();
        let mut addresses: Vec<Address> = Vec::new();
        let mut unread = Vec::new();
        let mut versions = Vec::new();
        let (mut at, mut found) = (cursor, 0);
        let mut next = Vec::new();
        for _ in 0..BUCKETS_MAX {
            addresses.clear();
            let Some(then) = self.machine.index.scan(at, &mut addresses) else {
                return Step::Done(Reply::Error(OpError::NoCursor(self.machine.index.name())));
            };
            at = then;
            for &address in &addresses {
                let start = output.len();
                match known.fetch(&self.machine.space, address, None, Want::Head, output) {
                    Fetch::Match(head) => {
                        versions.push(head.version);
                        let expired = head.expire_at != 0 && head.expire_at <= now_ms;
                        let is_shown =
                            head.meta.db() == db && !expired && live(&self.machine.shared, &head, false);
                        if is_shown && !self.has_newer((address, db), &output[start..], known, &addresses) {
                            next.push((op as u32, batch::span(start, output.len() - start)));
                            found += 1;
                        } else {
                            output.truncate(start);
                        }
                    }
                    // A damaged record has no key to show.
                    Fetch::Damaged(_) | Fetch::Differs => output.truncate(start),
                    Fetch::NeedsRead => unread.push(Wanted::record(&self.machine.space, address)),
                }
            }
            if at == 0 || found + unread.len() >= count as usize {
                break;
            }
        }
        if !unread.is_empty() {
            return Step::Read(unread);
        }
        for version in versions {
            self.see(version);
        }
        keys.extend(next);
        Step::Done(Reply::Scanned { cursor: at })
    }

    /// Whether a record that was read from a device has a newer version of its key among those of its bucket, which is shown in its
    /// place. One that was put there since is not among them: then the key is shown here, and maybe once more.
    fn has_newer(
        &self,
        (address, db): (Address, u8),
        key: &[u8],
        known: &Known,
        addresses: &[Address],
    ) -> bool {
        let space = &self.machine.space;
        if !S::BLIND || !known.has_read(space, address) {
            return false;
        }
        let key = Key { bytes: key, ..self.machine.shared.hasher.key(db, key) };
        let found = self.machine.index.get(&key, |at| {
            match space.fetch(at, Some(&key), Want::Head, &mut Buffer::new()) {
                Fetch::Match(_) | Fetch::Damaged(_) => Verdict::Match,
                Fetch::Differs | Fetch::NeedsRead => Verdict::Differs,
            }
        });
        matches!(found, Lookup::Found(at) if addresses.contains(&at))
    }

    pub(super) fn scan_op(&mut self, batch: &mut Batch, i: usize, known: &Known) -> Option<Step> {
        let op = batch.ops[i];
        let crate::op::OpKind::Scan { cursor, count } = op.kind else { return None };
        // Whatever comes before it in its batch may be about a key that it shows.
        if !batch.pending.is_empty() {
            return Some(Step::Read(Vec::new()));
        }
        Some(self.scan(
            (i, batch.place(&op)),
            cursor,
            count.clamp(1, 10_000),
            known,
            &mut batch.output,
            &mut batch.scanned,
        ))
    }
}
