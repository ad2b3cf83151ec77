//! What Redis's documentation says that commands answer, for strings, keys, transactions and channels.
//!
//! ```text
//!   input --draw--> commands of several connections --> Model::apply --> who gets which answers and messages, in order
//! ```

mod bits;
mod draw;
mod generic;
mod payload;
mod pubsub;
mod store;
mod strings;

use super::expect::{Expect, Version};
pub(super) use draw::{Share, draw};
pub(super) use payload::is_payload;
use pubsub::Listening;
pub(super) use store::Command;
use store::{Answer, Key, Run, Store};

/// One connection.
pub(super) struct Client {
    db: usize,
    version: Version,
    /// Commands kept since `MULTI`.
    queue: Option<Vec<Command>>,
    /// A command was refused: `EXEC` does nothing.
    failed: bool,
    watched: Vec<Watched>,
    listening: Listening,
}

/// A watched key.
struct Watched {
    key: Key,
    /// It was not there.
    absent: bool,
    touched: bool,
}

impl Client {
    fn new() -> Self {
        Self {
            db: 0,
            version: Version::Two,
            queue: None,
            failed: false,
            watched: Vec::new(),
            listening: Listening::default(),
        }
    }

    fn end_transaction(&mut self) {
        self.queue = None;
        self.failed = false;
        self.watched.clear();
    }
}

/// The server and its connections.
pub(super) struct Model {
    store: Store,
    pub clients: Vec<Client>,
    /// It is Redis that is compared with, not terrace: where these differ on purpose, and `docs/fuzzing.md` says so.
    original: bool,
}

/// Who gets what, in order.
pub(super) type Told = Vec<(usize, Expect)>;

impl Model {
    pub fn new(clients: usize, original: bool) -> Self {
        Self { store: Store::default(), clients: (0..clients).map(|_| Client::new()).collect(), original }
    }

    /// Whether a connection's commands are kept.
    fn is_queueing(&self, client: usize) -> bool {
        self.clients[client].queue.is_some()
    }
    fn hears_in_version_three(&self, client: usize) -> bool {
        self.clients[client].version == Version::Three && !self.clients[client].listening.is_empty()
    }
    fn listening(&self, client: usize) -> &Listening {
        &self.clients[client].listening
    }

    /// One command of a connection.
    pub fn apply(&mut self, client: usize, args: &Command) -> Told {
        let mut told = Vec::new();
        let answers = self.answer(client, args, &mut told).unwrap_or_else(|error| vec![error]);
        let answers = answers.into_iter().map(|answer| (client, answer));
        if self.original {
            told.extend(answers);
        } else {
            // What a connection tells itself comes behind its answer, as in later versions of Redis.
            told.splice(0..0, answers);
        }
        self.touch();
        told
    }

    /// Tells the watchers of what was written.
    fn touch(&mut self) {
        for key in std::mem::take(&mut self.store.touched) {
            for watched in self.clients.iter_mut().flat_map(|client| &mut client.watched) {
                watched.touched |= watched.key == key;
            }
        }
    }

    fn answer(&mut self, client: usize, args: &Command, told: &mut Told) -> Result<Vec<Expect>, Expect> {
        let name = String::from_utf8_lossy(&args[0]).to_lowercase();
        if let Err(refused) = self.check(client, &name, args) {
            let connection = &mut self.clients[client];
            if name == "exec" {
                connection.end_transaction();
                return Err(Expect::error(&format!("EXECABORT Transaction discarded because of: {refused}")));
            }
            connection.failed |= connection.queue.is_some();
            return Err(Expect::error(&format!("ERR {refused}")));
        }
        if name == "exec" {
            return self.exec(client, told).map(|answer| vec![answer]);
        }
        if !matches!(name.as_str(), "multi" | "discard" | "watch" | "reset")
            && let Some(queue) = &mut self.clients[client].queue
        {
            queue.push(args.clone());
            return Ok(vec![Expect::simple("QUEUED")]);
        }
        if name.ends_with("subscribe") {
            return Ok(pubsub::listen(self, client, &name, args));
        }
        self.execute(client, &name, args, told).map(|answer| vec![answer])
    }

    /// Whether there is such a command, with so many arguments, in this connection's state.
    fn check(&self, client: usize, name: &str, args: &Command) -> Result<(), String> {
        let Some((_, least, most, _)) = COMMANDS.iter().find(|command| command.0 == name) else {
            let rest: String =
                args[1..].iter().map(|arg| format!("'{}' ", String::from_utf8_lossy(arg))).collect();
            let shown = String::from_utf8_lossy(&args[0]);
            return Err(format!("unknown command '{shown}', with args beginning with: {rest}"));
        };
        if !(*least..=*most).contains(&args.len()) {
            let name = if name == "object" { "object|encoding" } else { name };
            return Err(format!("wrong number of arguments for '{name}' command"));
        }
        let connection = &self.clients[client];
        if connection.version == Version::Two && !connection.listening.is_empty() && !pubsub::is_allowed(name)
        {
            let name = if name == "object" { "object|encoding" } else { name };
            return Err(format!(
                "Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in \
                 this context"
            ));
        }
        Ok(())
    }

    fn exec(&mut self, client: usize, told: &mut Told) -> Answer {
        let connection = &mut self.clients[client];
        let queue = connection.queue.take().ok_or_else(|| Expect::error("ERR EXEC without MULTI"))?;
        let watched = std::mem::take(&mut connection.watched);
        if std::mem::take(&mut connection.failed) {
            return Err(Expect::error("EXECABORT Transaction discarded because of previous errors."));
        }
        let version = connection.version;
        let aborts = |watched: &Watched| {
            // We compare what is there: a key that came and went is absent as before.
            let same = watched.absent && self.store.get(watched.key.0, &watched.key.1).is_none();
            watched.touched && (self.original || !same)
        };
        if watched.iter().any(aborts) {
            return Ok(Expect::null_array(version));
        }
        let mut answers = Vec::new();
        for args in &queue {
            let name = String::from_utf8_lossy(&args[0]).to_lowercase();
            let answer = self.execute(client, &name, args, told).unwrap_or_else(|error| error);
            // We count when all is done.
            let counts = name == "dbsize" && !self.original;
            answers.push(if counts { Expect::Between(0, i64::MAX) } else { answer });
        }
        Ok(Expect::Array(answers))
    }

    /// A command that is not kept.
    fn execute(&mut self, client: usize, name: &str, args: &Command, told: &mut Told) -> Answer {
        let connection = &mut self.clients[client];
        match name {
            "multi" if connection.queue.is_some() => {
                return Err(Expect::error("ERR MULTI calls can not be nested"));
            }
            "multi" => connection.queue = Some(Vec::new()),
            "discard" => {
                connection.queue.as_ref().ok_or_else(|| Expect::error("ERR DISCARD without MULTI"))?;
                connection.end_transaction();
            }
            "watch" if connection.queue.is_some() => {
                return Err(Expect::error("ERR WATCH inside MULTI is not allowed"));
            }
            "watch" => {
                for key in &args[1..] {
                    let absent = self.store.get(connection.db, key).is_none();
                    let key = (connection.db, key.clone());
                    // Redis does not look at a key again that is watched already: if it was touched, it was.
                    if !self.original || !connection.watched.iter().any(|watched| watched.key == key) {
                        connection.watched.push(Watched { key, absent, touched: false });
                    }
                }
            }
            "unwatch" => connection.watched.clear(),
            "reset" => {
                *connection = Client::new();
                return Ok(Expect::simple("RESET"));
            }
            "hello" => {
                connection.version = if args[1] == b"3" { Version::Three } else { Version::Two };
                return Ok(Expect::Begins(if args[1] == b"3" { "%" } else { "*" }));
            }
            "ping" if connection.version == Version::Two && !connection.listening.is_empty() => {
                let message = args.get(1).map_or(&[][..], |message| message);
                return Ok(Expect::push(Version::Two, vec![Expect::bulk(b"pong"), Expect::bulk(message)]));
            }
            "ping" => return Ok(args.get(1).map_or_else(|| Expect::simple("PONG"), |arg| Expect::bulk(arg))),
            "publish" | "spublish" => {
                let (messages, count) = pubsub::publish(self, name == "spublish", &args[1], &args[2]);
                told.extend(messages);
                return Ok(Expect::int(count));
            }
            _ => return self.on_data(client, name, args),
        }
        Ok(Expect::ok())
    }

    fn on_data(&mut self, client: usize, name: &str, args: &Command) -> Answer {
        let Client { db, version, .. } = self.clients[client];
        let mut run = Run { store: &mut self.store, db, version, args, original: self.original };
        if name == "select" {
            self.clients[client].db = generic::database(&run, 1)?;
            return Ok(Expect::ok());
        }
        let handler = COMMANDS.iter().find(|command| command.0 == name).and_then(|command| command.3);
        handler.map_or_else(|| Err(Expect::error("the model lacks it")), |handler| handler(&mut run))
    }
}

type Handler = fn(&mut Run<'_>) -> Answer;
const MANY: usize = usize::MAX;

/// Names, how many arguments there may be (the name is one), and what commands do on data.
const COMMANDS: &[(&str, usize, usize, Option<Handler>)] = &[
    ("multi", 1, 1, None),
    ("exec", 1, 1, None),
    ("discard", 1, 1, None),
    ("watch", 2, MANY, None),
    ("unwatch", 1, 1, None),
    ("reset", 1, 1, None),
    ("hello", 1, MANY, None),
    ("ping", 1, MANY, None),
    ("select", 2, 2, None),
    ("publish", 3, 3, None),
    ("spublish", 3, 3, None),
    ("subscribe", 2, MANY, None),
    ("unsubscribe", 1, MANY, None),
    ("psubscribe", 2, MANY, None),
    ("punsubscribe", 1, MANY, None),
    ("ssubscribe", 2, MANY, None),
    ("sunsubscribe", 1, MANY, None),
    ("get", 2, 2, Some(strings::get)),
    ("mget", 2, MANY, Some(strings::mget)),
    ("strlen", 2, 2, Some(strings::strlen)),
    ("set", 3, MANY, Some(strings::set)),
    ("setnx", 3, 3, Some(strings::setnx)),
    ("setex", 4, 4, Some(strings::setex)),
    ("psetex", 4, 4, Some(strings::setex)),
    ("getset", 3, 3, Some(strings::getset)),
    ("getdel", 2, 2, Some(strings::getdel)),
    ("getex", 2, MANY, Some(strings::getex)),
    ("append", 3, 3, Some(strings::append)),
    ("setrange", 4, 4, Some(strings::setrange)),
    ("getrange", 4, 4, Some(strings::getrange)),
    ("substr", 4, 4, Some(strings::getrange)),
    ("incr", 2, 2, Some(strings::incrby)),
    ("decr", 2, 2, Some(strings::incrby)),
    ("incrby", 3, 3, Some(strings::incrby)),
    ("decrby", 3, 3, Some(strings::incrby)),
    ("incrbyfloat", 3, 3, Some(strings::incrbyfloat)),
    ("mset", 3, MANY, Some(strings::mset)),
    ("msetnx", 3, MANY, Some(strings::mset)),
    ("getbit", 3, 3, Some(bits::getbit)),
    ("setbit", 4, 4, Some(bits::setbit)),
    ("bitcount", 2, MANY, Some(bits::bitcount)),
    ("bitop", 4, MANY, Some(bits::bitop)),
    ("del", 2, MANY, Some(generic::del)),
    ("unlink", 2, MANY, Some(generic::del)),
    ("exists", 2, MANY, Some(generic::exists)),
    ("touch", 2, MANY, Some(generic::exists)),
    ("type", 2, 2, Some(generic::type_of)),
    ("dbsize", 1, 1, Some(generic::dbsize)),
    ("keys", 2, 2, Some(generic::keys)),
    ("flushdb", 1, MANY, Some(generic::flushdb)),
    ("flushall", 1, MANY, Some(generic::flushall)),
    ("expire", 3, MANY, Some(generic::expire)),
    ("pexpire", 3, MANY, Some(generic::expire)),
    ("expireat", 3, MANY, Some(generic::expire)),
    ("pexpireat", 3, MANY, Some(generic::expire)),
    ("persist", 2, 2, Some(generic::persist)),
    ("ttl", 2, 2, Some(generic::ttl)),
    ("pttl", 2, 2, Some(generic::ttl)),
    ("expiretime", 2, 2, Some(generic::ttl)),
    ("pexpiretime", 2, 2, Some(generic::ttl)),
    ("rename", 3, 3, Some(generic::rename)),
    ("renamenx", 3, 3, Some(generic::rename)),
    ("copy", 3, MANY, Some(generic::copy)),
    ("move", 3, 3, Some(generic::move_to)),
    ("object", 3, 3, Some(generic::encoding)),
    ("dump", 2, 2, Some(generic::dump)),
    ("restore", 4, MANY, Some(generic::restore)),
];
