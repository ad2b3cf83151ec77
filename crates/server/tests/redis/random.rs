//! Random commands, most of them right and near each other's edges.

/// What commands are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    Strings,
    Bits,
    HyperLogLogs,
    Keys,
}

/// A source of numbers (SplitMix64) and of what is made of them.
pub struct Random(u64);

type Command = Vec<Vec<u8>>;

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn one_of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len() as u64) as usize]
    }

    /// All keys that commands use.
    pub fn keys(&self) -> impl Iterator<Item = Vec<u8>> + use<> {
        ["a", "b", "c", "d", "e"].into_iter().map(|key| key.as_bytes().to_vec())
    }

    fn key(&mut self) -> Vec<u8> {
        self.one_of(&["a", "b", "c", "d", "e"]).as_bytes().to_vec()
    }

    /// A value: short or long, a number, bytes, or the same bytes again and again.
    pub fn value(&mut self) -> Vec<u8> {
        let length = match self.below(8) {
            0 => 0,
            1 => self.below(3000),
            _ => self.below(40),
        };
        match self.below(5) {
            0 => self.whole().into_bytes(),
            1 => self.float().into_bytes(),
            2 => vec![self.below(256) as u8; length as usize],
            3 => (0..length).map(|_| self.one_of(&["a", "b", "ab", "\0"]).as_bytes()[0]).collect(),
            _ => (0..length).map(|_| self.next() as u8).collect(),
        }
    }

    fn whole(&mut self) -> String {
        match self.below(10) {
            0 => self
                .one_of(&["0", "-1", "9223372036854775807", "-9223372036854775808", "007", "1 ", "-0", "x"])
                .into(),
            1 => (self.next() as i64 >> self.below(64)).to_string(),
            _ => (self.below(260) as i64 - 30).to_string(),
        }
    }

    fn float(&mut self) -> String {
        let digits = self.next() >> self.below(64);
        match self.below(12) {
            0 => self
                .one_of(&[
                    "inf", "nan", "1e400", "-1e4932", "1e-4940", "", " 1", "1e", ".5", "5.", "+3", "0x1p3",
                    "-0",
                ])
                .into(),
            1 => format!("{digits}e{}", self.below(60) as i64 - 40),
            2 => format!("-0.{digits:020}"),
            3 => format!("{digits}.{:019}", self.next() >> 1),
            4 => (-(digits as i64 >> 8)).to_string(),
            _ => format!("{}.{}", digits % 1000, self.below(1000)),
        }
    }

    fn index(&mut self) -> String {
        match self.below(20) {
            0 => self
                .one_of(&["x", "9223372036854775807", "-9223372036854775808", "99999999999999999999"])
                .into(),
            1..5 => (self.below(3000) as i64 - 1500).to_string(),
            _ => (self.below(60) as i64 - 30).to_string(),
        }
    }

    fn bit(&mut self) -> String {
        match self.below(20) {
            0 => self.one_of(&["-1", "x", "4294967296", "99999999999"]).into(),
            1 => self.below(30_000).to_string(),
            _ => self.below(200).to_string(),
        }
    }

    /// Adds a command, or a whole transaction.
    pub fn commands(&mut self, group: Group, commands: &mut Vec<Command>) {
        if group == Group::Keys && self.below(8) == 0 {
            commands.push(words("MULTI"));
            for _ in 0..self.below(12) {
                let group = [Group::Strings, Group::Bits, Group::HyperLogLogs, Group::Keys];
                let group = group[self.below(4) as usize];
                let mut command = self.command(group);
                if command[0] == b"PFADD" {
                    // See below.
                    command.truncate(3);
                }
                commands.push(command);
            }
            commands.push(words(if self.below(6) == 0 { "DISCARD" } else { "EXEC" }));
        } else if group == Group::HyperLogLogs && self.below(20) == 0 {
            // Damage. It does not stay: of a command that fails half way Redis leaves the first half done.
            let key = self.key();
            commands.push(with(
                "SETRANGE",
                [key.clone(), self.below(60).to_string().into(), vec![self.next() as u8]],
            ));
            commands.push(with("PFADD", [key.clone(), self.value()]));
            commands.push(with("PFMERGE", [b"e".to_vec(), key.clone()]));
            commands.push(with("PFCOUNT", [key.clone()]));
            commands.push(with("DEL", [key]));
        } else {
            commands.push(self.command(group));
        }
    }

    fn command(&mut self, group: Group) -> Command {
        match group {
            Group::Strings => self.strings(),
            Group::Bits => self.bits(),
            Group::HyperLogLogs => self.hyperloglogs(),
            Group::Keys => self.on_keys(),
        }
    }

    fn strings(&mut self) -> Command {
        let key = self.key();
        match self.below(20) {
            0..3 => with("SET", [key, self.value()]),
            3 => with("APPEND", [key, self.value()]),
            4..6 => with("GETRANGE", [key, self.index().into(), self.index().into()]),
            6..8 => {
                let offset = if self.below(4) == 0 { self.index() } else { self.below(50).to_string() };
                with("SETRANGE", [key, offset.into(), self.value()])
            }
            8 => with("STRLEN", [key]),
            9 => with("GETSET", [key, self.value()]),
            10 => with("GETDEL", [key]),
            11..15 => with("INCRBYFLOAT", [key, self.float().into()]),
            15 => with("INCRBY", [key, self.whole().into()]),
            16 => {
                let name = self.one_of(&["MSET", "MSETNX", "MSETNX"]);
                with(name, [key, self.value(), self.key(), self.value()])
            }
            17 => with("MGET", [key, self.key(), b"none".to_vec()]),
            _ => {
                let mut command = with("LCS", [key, self.key()]);
                for _ in 0..self.below(3) {
                    let option =
                        self.one_of(&["LEN", "IDX", "WITHMATCHLEN", "MINMATCHLEN 2", "MINMATCHLEN x"]);
                    command.extend(words(option));
                }
                command
            }
        }
    }

    fn bits(&mut self) -> Command {
        let key = self.key();
        match self.below(16) {
            0 => with("SET", [key, self.value()]),
            1..4 => {
                let bit = self.one_of(&["0", "1", "1", "1", "2"]);
                with("SETBIT", [key, self.bit().into(), bit.into()])
            }
            4 => with("GETBIT", [key, self.bit().into()]),
            5..7 => {
                let mut command = with("BITCOUNT", [key]);
                self.range(&mut command);
                command
            }
            7..10 => {
                let mut command = with("BITPOS", [key, self.one_of(&["0", "1", "0", "1", "2"]).into()]);
                self.range(&mut command);
                command
            }
            10..12 => {
                let operation = self.one_of(&["AND", "OR", "XOR", "NOT", "nor"]);
                let mut command = with("BITOP", [operation.into(), key]);
                let sources = if operation == "NOT" { 1 + self.below(10) / 9 } else { 1 + self.below(3) };
                command.extend((0..sources).map(|_| self.key()));
                command
            }
            12 => with("DEL", [key]),
            _ => self.fields(key),
        }
    }

    fn range(&mut self, command: &mut Command) {
        for _ in 0..[0, 2, 2, 2, 1][self.below(5) as usize] {
            command.push(self.index().into());
        }
        if self.below(3) == 0 {
            command.push(self.one_of(&["BIT", "BYTE", "bit", "x"]).into());
        }
    }

    fn fields(&mut self, key: Vec<u8>) -> Command {
        let name = self.one_of(&["BITFIELD", "BITFIELD", "BITFIELD", "BITFIELD_RO"]);
        let mut command = with(name, [key]);
        for _ in 0..self.below(6) {
            let action = match self.below(8) {
                0..3 => "GET",
                3..5 if name == "BITFIELD" => "SET",
                5..7 if name == "BITFIELD" => "INCRBY",
                7 => "OVERFLOW",
                _ => "GET",
            };
            command.push(action.into());
            if action == "OVERFLOW" {
                command.push(self.one_of(&["WRAP", "SAT", "FAIL", "fail", "sat"]).into());
                continue;
            }
            let field = match self.below(30) {
                0 => self.one_of(&["u64", "i65", "x", "i0", "i64", "u63"]).into(),
                _ => format!("{}{}", self.one_of(&["u", "i"]), 1 + self.below(63)),
            };
            command.push(field.into());
            let offset = if self.below(4) == 0 { format!("#{}", self.below(8)) } else { self.bit() };
            command.push(offset.into());
            if action != "GET" {
                // Smaller ones than those of which Redis, saturating them, makes the largest instead of the smallest number.
                command.push(if self.below(2) == 0 {
                    (self.next() as i64 >> 2 >> self.below(60)).to_string().into()
                } else {
                    self.below(300).to_string().into()
                });
            }
        }
        command
    }

    fn hyperloglogs(&mut self) -> Command {
        let key = self.key();
        match self.below(60) {
            0 => with("SET", [key, self.value()]),
            1 => with("DEL", [key]),
            2 => with("PFDEBUG", [b"TODENSE".to_vec(), key]),
            3..8 => with("PFDEBUG", [b"ENCODING".to_vec(), key]),
            8..10 => with("PFDEBUG", [b"DECODE".to_vec(), key]),
            10..18 => with("PFCOUNT", [key]),
            18..24 => with("PFCOUNT", [key, self.key(), self.key()]),
            24..28 => with("PFMERGE", [key, self.key(), self.key()]),
            28 => with("PFMERGE", [key]),
            _ => {
                let mut command = with("PFADD", [key]);
                let (count, elements) = if self.below(4) == 0 { (300, 1 << 40) } else { (20, 500) };
                let count = self.below(count);
                command.extend((0..count).map(|_| self.below(elements).to_string().into_bytes()));
                command
            }
        }
    }

    fn on_keys(&mut self) -> Command {
        let key = self.key();
        match self.below(14) {
            0..2 => with("SET", [key, self.value()]),
            2 => with("SET", [key, self.value(), b"EXAT".to_vec(), b"99999999999".to_vec()]),
            3..5 => with("RENAME", [key, self.key()]),
            5 => with("RENAMENX", [key, self.key()]),
            6 => with("COPY", [key, self.key()]),
            7 => with("COPY", [key, self.key(), b"REPLACE".to_vec()]),
            8 => {
                let db = self.one_of(&["0", "1", "16"]);
                with("COPY", [key, self.key(), b"DB".to_vec(), db.into()])
            }
            9 => with("MOVE", [key, self.one_of(&["0", "1", "1", "x"]).into()]),
            10 => with("EXPIRETIME", [key]),
            11 => with("SELECT", [self.one_of(&["0", "1"]).into()]),
            12 => with(self.one_of(&["PERSIST", "DEL", "EXISTS", "TYPE"]), [key]),
            _ => with("STRLEN", [key]),
        }
    }
}

fn words(text: &str) -> Command {
    text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

fn with<const N: usize>(name: &str, args: [Vec<u8>; N]) -> Command {
    let mut command = vec![name.as_bytes().to_vec()];
    command.extend(args);
    command
}
