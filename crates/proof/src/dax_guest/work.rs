//! What the clients in the guest write: every operation follows from the seed, the boot, the client and a number.
//!
//! The guest forgets everything when its power is cut, and its console is too slow to tell all that was written. So nothing
//! is told but numbers: who knows how far a client came knows what each of its keys must hold. The number of the boot is in
//! every value, so that a write that a cut took back can't come back later unnoticed.

use terrace_testkit::rng::Rng;

/// Clients; the even ones speak Redis's protocol, the odd ones memcached's.
pub const CLIENTS: usize = 4;
/// Keys of each client, which nobody else writes.
pub const KEYS: usize = 48;
/// An append to a value of so many pieces becomes a set.
const PIECES_MAX: usize = 8;

/// One write: the boot it was made in, and its number among its client's writes over all boots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The boot.
    pub boot: u64,
    /// The number.
    pub number: u64,
}

/// What a key holds: nothing, or pieces one after the other.
pub type State = Option<Vec<Piece>>;

/// What a write does to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The value becomes this piece.
    Set,
    /// This piece comes after what is there.
    Append,
    /// The key goes; whether it was there.
    Delete {
        /// It was.
        present: bool,
    },
}

/// A write.
#[derive(Clone, Copy, Debug)]
pub struct Write {
    /// Which of the client's keys.
    pub key: usize,
    /// What happens to it.
    pub change: Change,
    /// What is written.
    pub piece: Piece,
}

/// A boot, and the number at which each client went on in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// The boot.
    pub boot: u64,
    /// A number for each client.
    pub numbers: Vec<u64>,
}

/// A client and what its keys hold after its first `number` writes.
#[derive(Clone, Debug)]
pub struct Client {
    seed: u64,
    client: usize,
    /// Writes so far.
    pub number: u64,
    /// The boot that the next write is made in.
    pub boot: u64,
    states: Vec<State>,
}

impl Client {
    /// A client that has written nothing.
    pub fn new(seed: u64, client: usize) -> Self {
        Self { seed, client, number: 0, boot: 0, states: vec![None; KEYS] }
    }

    /// A client that has made `number` writes in the boots of `history`.
    pub fn replayed(seed: u64, client: usize, history: &[Start], number: u64) -> Self {
        let mut this = Self::new(seed, client);
        for (i, start) in history.iter().enumerate() {
            this.boot = start.boot;
            let end = history.get(i + 1).map_or(number, |next| next.numbers[client]);
            while this.number < end {
                this.step();
            }
        }
        this
    }

    /// The name of a key.
    pub fn key(&self, key: usize) -> String {
        format!("client{}:key{key:02}", self.client)
    }

    /// What a key holds.
    pub fn state(&self, key: usize) -> &State {
        &self.states[key]
    }

    /// Makes the next write.
    pub fn step(&mut self) -> Write {
        let piece = Piece { boot: self.boot, number: self.number };
        let mut rng = self.rng(piece, 0);
        let key = rng.below(KEYS as u64) as usize;
        let choice = rng.below(100);
        let state = &mut self.states[key];
        let change = match (choice, &mut *state) {
            (0..15, state) => Change::Delete { present: state.is_some() },
            (15..45, Some(pieces)) if pieces.len() < PIECES_MAX => Change::Append,
            _ => Change::Set,
        };
        match (change, state) {
            (Change::Append, Some(pieces)) => pieces.push(piece),
            (Change::Delete { .. }, state) => *state = None,
            (_, state) => *state = Some(vec![piece]),
        }
        self.number += 1;
        Write { key, change, piece }
    }

    /// The bytes of a piece: who wrote it, then filler of its own.
    pub fn bytes(&self, piece: Piece) -> Vec<u8> {
        let mut rng = self.rng(piece, 1);
        let mut bytes =
            format!("[boot {} client {} write {}]", piece.boot, self.client, piece.number).into_bytes();
        // Some are large enough to lie apart from the records.
        let len = match rng.below(100) {
            0..60 => rng.between(0, 200),
            60..90 => rng.between(200, 2_000),
            90..98 => rng.between(2_000, 12_000),
            _ => rng.between(17_000, 40_000),
        } as usize;
        let end = bytes.len() + len;
        while bytes.len() < end {
            bytes.extend_from_slice(&rng.next_u64().to_le_bytes());
        }
        bytes.truncate(end);
        bytes
    }

    /// Bytes in what a key holds.
    pub fn length(&self, key: usize) -> usize {
        self.states[key].iter().flatten().map(|piece| self.bytes(*piece).len()).sum()
    }

    /// Whether a key holds exactly what was found there.
    pub fn holds(&self, key: usize, found: Option<&[u8]>) -> bool {
        match (&self.states[key], found) {
            (None, None) => true,
            (Some(pieces), Some(mut rest)) => {
                for piece in pieces {
                    match rest.strip_prefix(&self.bytes(*piece)[..]) {
                        Some(after) => rest = after,
                        None => return false,
                    }
                }
                rest.is_empty()
            }
            _ => false,
        }
    }

    fn rng(&self, piece: Piece, purpose: u64) -> Rng {
        let mut rng =
            Rng::new(self.seed ^ (self.client as u64) << 56 ^ piece.boot << 40 ^ piece.number << 1 ^ purpose);
        rng.fork()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_knows_the_numbers_knows_the_values() {
        let mut written = Client::new(7, 2);
        let mut history = Vec::new();
        for (boot, writes) in [(1, 500), (2, 0), (5, 300)] {
            written.boot = boot;
            let numbers = (0..CLIENTS).map(|client| if client == 2 { written.number } else { 0 }).collect();
            history.push(Start { boot, numbers });
            (0..writes).for_each(|_| _ = written.step());
        }
        let replayed = Client::replayed(7, 2, &history, 800);
        assert_eq!(replayed.number, 800);
        for key in 0..KEYS {
            assert_eq!(replayed.state(key), written.state(key));
        }
        let states = |client: &Client| (0..KEYS).map(|key| client.state(key).clone()).collect::<Vec<_>>();
        assert_ne!(
            states(&Client::replayed(8, 2, &history, 800)),
            states(&written),
            "another seed, other writes"
        );
    }

    #[test]
    fn all_kinds_of_writes_and_sizes_occur() {
        let mut client = Client::new(1, 0);
        let writes: Vec<_> = (0..2_000).map(|_| client.step()).collect();
        let count = |wanted: fn(&Write) -> bool| writes.iter().filter(|write| wanted(write)).count();
        assert!(count(|write| write.change == Change::Set) > 500);
        assert!(count(|write| write.change == Change::Append) > 300);
        assert!(count(|write| write.change == Change::Delete { present: true }) > 100);
        assert!(count(|write| write.change == Change::Delete { present: false }) > 10);
        let lengths: Vec<_> = writes.iter().map(|write| client.bytes(write.piece).len()).collect();
        assert!(lengths.iter().any(|len| *len > 17_000) && lengths.iter().any(|len| *len < 100));
    }

    #[test]
    fn a_value_is_recognised_whole_or_not_at_all() {
        let mut client = Client::new(3, 1);
        let key = loop {
            let write = client.step();
            if write.change == Change::Append {
                break write.key;
            }
        };
        let pieces = client.state(key).clone().unwrap();
        let whole: Vec<u8> = pieces.iter().flat_map(|piece| client.bytes(*piece)).collect();
        assert!(client.holds(key, Some(&whole)));
        assert_eq!(client.length(key), whole.len());
        assert!(!client.holds(key, None));
        assert!(!client.holds(key, Some(&whole[..whole.len() - 1])));
        assert!(!client.holds(key, Some(&client.bytes(pieces[0]))), "the append is missing");
        let mut torn = whole.clone();
        torn[whole.len() / 2] ^= 1;
        assert!(!client.holds(key, Some(&torn)));
    }
}
