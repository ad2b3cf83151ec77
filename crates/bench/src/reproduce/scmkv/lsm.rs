//! An LSM of another crate, `fjall`: behind the cargo feature `lsm`, for it is needed nowhere else.
//!
//! Its write buffer has LevelDB's size, so that data of our scale is merged as the paper's is. Like the paper's it forces nothing out.

/// Why it can't be measured in this build, if so.
pub(super) fn missing() -> Option<&'static str> {
    (!cfg!(feature = "lsm"))
        .then_some("this build has no LSM: cargo build --release -p terrace-cli --features lsm")
}

#[cfg(feature = "lsm")]
pub(super) use built::{Lsm, describe};
#[cfg(not(feature = "lsm"))]
pub(super) use left_out::{Lsm, describe};

#[cfg(feature = "lsm")]
mod built {
    use std::path::Path;
    use std::time::Instant;

    use fjall::{Config, Keyspace, PartitionCreateOptions, PartitionHandle};

    use crate::client::{Client, Work};
    use crate::latency::Tally;

    /// LevelDB's default.
    const WRITE_BUFFER_BYTES: u32 = 4 << 20;

    /// What it is, for people.
    pub fn describe() -> String {
        format!(
            "fjall, {} MiB of write buffer, no compression, nothing is forced out",
            WRITE_BUFFER_BYTES >> 20
        )
    }

    /// An open one.
    pub struct Lsm {
        partition: PartitionHandle,
        // After the partition, which is a part of it.
        _keyspace: Keyspace,
    }

    impl Lsm {
        pub fn open(dir: &Path) -> anyhow::Result<Self> {
            let keyspace = Config::new(dir.join("lsm")).open()?;
            let options = PartitionCreateOptions::default().max_memtable_size(WRITE_BUFFER_BYTES);
            Ok(Self { partition: keyspace.open_partition("records", options)?, _keyspace: keyspace })
        }
        pub fn client(&self) -> Box<dyn Client> {
            Box::new(Clerk { partition: self.partition.clone(), key: Vec::new(), value: Vec::new() })
        }
    }

    struct Clerk {
        partition: PartitionHandle,
        key: Vec<u8>,
        value: Vec<u8>,
    }

    impl Client for Clerk {
        fn run(&mut self, work: &Work<'_>, tally: &mut Tally) -> anyhow::Result<()> {
            let start = Instant::now();
            for (planned, nonce) in work.operations.iter().zip(work.nonce..) {
                work.content.key(planned.record(), &mut self.key);
                if planned.kind().reads() {
                    let found = self.partition.get(&self.key)?;
                    work.read(planned.record(), found.as_deref(), tally);
                }
                if planned.kind().writes() {
                    work.content.value(planned.record(), nonce, &mut self.value);
                    self.partition.insert(self.key.as_slice(), self.value.as_slice())?;
                    tally.sets += 1;
                }
            }
            tally.record_batch(work.operations, start.elapsed());
            Ok(())
        }
    }
}

#[cfg(not(feature = "lsm"))]
mod left_out {
    use std::path::Path;

    use crate::client::Client;

    /// What it would be, for people.
    pub fn describe() -> String {
        "fjall".into()
    }

    /// There is none.
    pub enum Lsm {}

    impl Lsm {
        pub fn open(_dir: &Path) -> anyhow::Result<Self> {
            anyhow::bail!("{}", super::missing().unwrap_or_default())
        }
        pub fn client(&self) -> Box<dyn Client> {
            match *self {}
        }
    }
}
