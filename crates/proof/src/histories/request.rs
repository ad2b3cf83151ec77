//! A call as a request, and its answer, over both protocols.

use std::io;
use std::net::SocketAddr;

use terrace_testkit::client::{MemcachedClient, RespClient, Value};
use terrace_testkit::linearize::{Action, Answer};

use super::plan;
use super::value::{Kind, decode, encode};

/// What is asked of a key.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Which key.
    pub key: u64,
    /// Which of its names a read asks for; beyond the last: all at once.
    pub name: usize,
    /// What.
    pub action: Action,
    /// The number to write: a list's only part differs from the list that it becomes.
    pub number: i64,
    /// The cas token, for a comparison.
    pub token: u64,
}

/// What came back.
#[derive(Debug)]
pub enum Reply {
    /// An answer.
    Answer(Answer),
    /// The answer to a read, with a cas token.
    WithToken(Answer, u64),
    /// The answers to a read of both names of a pair, which is two reads.
    Both(Answer, Answer),
    /// The store was full and did nothing.
    Refused,
}

/// A connection of either protocol.
pub enum Wire {
    Redis(RespClient),
    Memcached(MemcachedClient),
}

impl Wire {
    pub fn connect(memcached: bool, redis_at: SocketAddr, memcached_at: SocketAddr) -> io::Result<Self> {
        if memcached {
            MemcachedClient::connect(memcached_at).map(Self::Memcached)
        } else {
            RespClient::connect(redis_at).map(Self::Redis)
        }
    }
    /// Queues a request.
    pub fn queue(&mut self, request: &Request) {
        let names = plan::names(request.key);
        let kind = plan::kind(request.key);
        match self {
            Self::Redis(client) if is_transaction(request) => queue_transaction(client, &names, request),
            Self::Redis(client) => queue_redis(client, &names, kind, request),
            Self::Memcached(client) => queue_memcached(client, &names, kind, request),
        }
    }
    /// Sends what is queued.
    pub fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Redis(client) => client.flush(),
            Self::Memcached(client) => client.flush(),
        }
    }
    /// The answer to the oldest request without one. One that makes no sense is [`io::ErrorKind::InvalidData`].
    pub fn receive(&mut self, request: &Request) -> io::Result<Reply> {
        match self {
            Self::Redis(client) if is_transaction(request) => receive_transaction(client, request),
            Self::Redis(client) => receive_redis(client.receive()?, request),
            Self::Memcached(client) => receive_memcached(client, request),
        }
    }
}

/// Whether a pair is read or written by MULTI and EXEC, rather than by MGET and MSET: every other time.
fn is_transaction(request: &Request) -> bool {
    let of_both = request.action != Action::Get || request.name > 1;
    plan::kind(request.key) == Kind::Pair && of_both && request.number % 2 == 0
}

/// The commands between MULTI and EXEC. What is written first is not what remains.
fn transaction(names: &[String], request: &Request) -> Vec<Vec<Vec<u8>>> {
    let command = |words: &[&[u8]]| words.iter().map(|word| word.to_vec()).collect();
    let (a, b) = (names[0].as_bytes(), names[1].as_bytes());
    if request.action == Action::Get {
        return vec![command(&[b"GET", a]), command(&[b"GET", b])];
    }
    let value = encode(Kind::Pair, request.number);
    vec![
        command(&[b"SET", b, b"not what remains"]),
        command(&[b"DEL", a]),
        command(&[b"SET", a, &value]),
        command(&[b"SET", b, &value]),
    ]
}

fn queue_transaction(client: &mut RespClient, names: &[String], request: &Request) {
    client.queue(&[b"MULTI"]);
    for command in transaction(names, request) {
        client.queue(&command.iter().map(Vec::as_slice).collect::<Vec<_>>());
    }
    client.queue(&[b"EXEC"]);
}

fn receive_transaction(client: &mut RespClient, request: &Request) -> io::Result<Reply> {
    let commands = transaction(&plan::names(request.key), request).len();
    for _ in 0..=commands {
        match client.receive()? {
            Value::Simple(word) if word == "OK" || word == "QUEUED" => {}
            other => return Err(nonsense(request, &other)),
        }
    }
    let Value::Array(answers) = client.receive()? else {
        return Err(wrong(format!("{request:?}: EXEC answered no array")));
    };
    if request.action == Action::Get {
        // Read as one step, both are what one write left.
        if answers[0] != answers[1] {
            return Err(wrong(format!("half of an atomic write was seen: {answers:.200?}")));
        }
        return receive_redis(Value::Array(answers), request);
    }
    match answers.into_iter().last() {
        Some(answer) => receive_redis(answer, request),
        None => Err(wrong(format!("{request:?}: EXEC answered an empty array"))),
    }
}

fn queue_redis(client: &mut RespClient, names: &[String], kind: Kind, request: &Request) {
    let value = || encode(kind, request.number);
    let name = names[0].as_bytes();
    match request.action {
        Action::Get => match names.get(request.name) {
            Some(name) => client.queue(&[b"GET", name.as_bytes()]),
            None => client.queue(&[b"MGET", name, names[1].as_bytes()]),
        },
        Action::Set(_) if kind == Kind::Pair => {
            client.queue(&[b"MSET", name, &value(), names[1].as_bytes(), &value()]);
        }
        Action::Set(_) => client.queue(&[b"SET", name, &value()]),
        Action::SetIfAbsent(_) => client.queue(&[b"SET", name, &value(), b"NX"]),
        Action::SetIfPresent(_) => client.queue(&[b"SET", name, &value(), b"XX"]),
        Action::Swap(_) => client.queue(&[b"SET", name, &value(), b"GET"]),
        Action::Delete => client.queue(&[b"DEL", name]),
        Action::Incr(by) => client.queue(&[b"INCRBY", name, by.to_string().as_bytes()]),
        Action::Append(_) => client.queue(&[b"APPEND", name, &value()]),
        Action::Cas { .. } | Action::IncrIfPresent(_) | Action::AppendIfPresent(_) => {
            unreachable!("Redis's protocol has no {:?}", request.action)
        }
    }
}

fn receive_redis(value: Value, request: &Request) -> io::Result<Reply> {
    let kind = plan::kind(request.key);
    if matches!(&value, Value::Error(error) if error.starts_with("OOM ")) {
        return Ok(Reply::Refused);
    }
    let read = |value: Value| match value {
        Value::Bulk(bytes) => decode(kind, &bytes).map(|number| Answer::Value(Some(number))).map_err(wrong),
        Value::Null => Ok(Answer::Value(None)),
        other => Err(nonsense(request, &other)),
    };
    let answer = match (request.action, value) {
        (Action::Get, Value::Array(mut both)) if both.len() == 2 => {
            let (b, a) = (both.pop().unwrap_or(Value::Null), both.pop().unwrap_or(Value::Null));
            return Ok(Reply::Both(read(a)?, read(b)?));
        }
        (Action::Get | Action::Swap(_), value @ (Value::Bulk(_) | Value::Null)) => read(value)?,
        (Action::Set(_) | Action::SetIfAbsent(_) | Action::SetIfPresent(_), Value::Simple(ok))
            if ok == "OK" =>
        {
            Answer::Stored
        }
        (Action::SetIfAbsent(_) | Action::SetIfPresent(_), Value::Null) => Answer::NotStored,
        (Action::Delete, Value::Integer(deleted @ 0..=1)) => Answer::Deleted(deleted == 1),
        (Action::Incr(_), Value::Integer(sum)) => Answer::Number(sum),
        (Action::Append(_), Value::Integer(bytes)) if bytes % super::value::PART_BYTES as i64 == 0 => {
            Answer::Number(bytes / super::value::PART_BYTES as i64)
        }
        (_, other) => return Err(nonsense(request, &other)),
    };
    Ok(Reply::Answer(answer))
}

fn queue_memcached(client: &mut MemcachedClient, names: &[String], kind: Kind, request: &Request) {
    let name = &names[0];
    let mut store = |verb: &str, token| {
        client.queue_store(&format!("{verb} {name} 0 0"), &encode(kind, request.number), token);
    };
    match request.action {
        Action::Get => client.queue(&format!("gets {}", names.get(request.name).unwrap_or(name))),
        Action::Set(_) => store("set", None),
        Action::SetIfAbsent(_) => store("add", None),
        Action::SetIfPresent(_) => store("replace", None),
        Action::AppendIfPresent(_) => store("append", None),
        Action::Cas { .. } => store("cas", Some(request.token)),
        Action::Delete => client.queue(&format!("delete {name}")),
        Action::IncrIfPresent(by) => client.queue(&format!("incr {name} {by}")),
        Action::Incr(_) | Action::Append(_) | Action::Swap(_) => {
            unreachable!("memcached's protocol has no {:?}", request.action)
        }
    }
}

fn receive_memcached(client: &mut MemcachedClient, request: &Request) -> io::Result<Reply> {
    if request.action == Action::Get {
        let Some(item) = client.receive_items()?.pop() else {
            return Ok(Reply::Answer(Answer::Value(None)));
        };
        let number = decode(plan::kind(request.key), &item.value).map_err(wrong)?;
        return Ok(Reply::WithToken(Answer::Value(Some(number)), item.cas.unwrap_or(0)));
    }
    let line = client.receive_line()?;
    let answer = match (request.action, line.as_str()) {
        (_, "SERVER_ERROR out of memory storing object") => return Ok(Reply::Refused),
        (Action::Delete, "DELETED") => Answer::Deleted(true),
        (Action::Delete, "NOT_FOUND") => Answer::Deleted(false),
        (Action::IncrIfPresent(_) | Action::Cas { .. }, "NOT_FOUND") => Answer::NotFound,
        (Action::IncrIfPresent(_), number) => {
            Answer::Number(number.parse().map_err(|_| nonsense(request, &line))?)
        }
        (_, "STORED") => Answer::Stored,
        (Action::Cas { .. }, "EXISTS") => Answer::NotStored,
        (Action::SetIfAbsent(_) | Action::SetIfPresent(_) | Action::AppendIfPresent(_), "NOT_STORED") => {
            Answer::NotStored
        }
        _ => return Err(nonsense(request, &line)),
    };
    Ok(Reply::Answer(answer))
}

fn nonsense(request: &Request, answer: &dyn std::fmt::Debug) -> io::Error {
    wrong(format!("{request:?} was answered {answer:.200?}"))
}

fn wrong(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
