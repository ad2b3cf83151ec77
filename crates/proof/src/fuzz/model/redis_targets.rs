//! Redis's commands against the model: one connection's pipeline, and two that hear of each other.

use terrace_protocol::resp::{Value, write_request};

use super::super::source::Source;
use super::super::{Target, count};
use super::original::Original;
use super::ours::Ours;
use super::redis::{Model, Share, draw};
use super::{Due, Served, compare, expect};

/// One connection.
pub(in super::super) static MODEL: Target = Target {
    name: "serve-model",
    corpus: "serve-model",
    about: "Redis's commands in a pipeline, cut anywhere, against a model",
    bytes_max: 300,
    words: &[],
    run: |input| on_ours(input, 1),
};

/// Two connections.
pub(in super::super) static TWO: Target = Target {
    name: "serve-two",
    corpus: "serve-two",
    about: "Redis's commands of two connections that watch, write and publish, against a model",
    bytes_max: 400,
    words: &[],
    run: |input| on_ours(input, 2),
};

fn on_ours(input: &[u8], connections: usize) -> Result<(), String> {
    let piece_bytes = 1 + input.iter().map(|byte| usize::from(*byte)).sum::<usize>() % 97;
    let mut ours = Ours::connect(true, connections, piece_bytes)?;
    converse(input, Model::new(connections, false), connections, &mut ours).map(count)
}

/// The same inputs against the original, which proves the model: how many commands it answered.
///
/// # Errors
/// What differs.
pub(in super::super) fn on_original(
    input: &[u8],
    connections: usize,
    original: &Original,
) -> Result<u64, String> {
    let mut sockets = original.connect(connections)?;
    converse(input, Model::new(connections, true), connections, &mut sockets)
}

/// How many commands are told with a failure.
const TOLD: usize = 40;

fn converse(input: &[u8], model: Model, connections: usize, server: &mut dyn Served) -> Result<u64, String> {
    let mut said = Vec::new();
    talk(input, model, connections, server, &mut said).map(|()| said.len() as u64).map_err(|error| {
        format!("{error}; before it: {}", said[said.len().saturating_sub(TOLD)..].join(" | "))
    })
}

fn talk(
    input: &[u8],
    mut model: Model,
    connections: usize,
    server: &mut dyn Served,
    said: &mut Vec<String>,
) -> Result<(), String> {
    let mut source = Source::new(input);
    let mut due = vec![Due::new(); connections];
    while !source.is_empty() {
        let (client, commands) = match connections {
            1 => (0, usize::MAX),
            _ => (source.below(connections), 1 + source.below(4)),
        };
        let mut bytes = Vec::new();
        for _ in 0..commands {
            if source.is_empty() {
                break;
            }
            let command = draw(&mut source, &model, client, Share { listens: connections > 1 });
            write_request(&command, &mut bytes);
            said.push(tell(&mut model, client, &command, &mut due));
        }
        server.send(client, &bytes)?;
        settle(server, &mut due)?;
    }
    // Whatever is left over becomes visible in front of this.
    for client in 0..connections {
        let command = vec![b"RESET".to_vec()];
        let mut bytes = Vec::new();
        write_request(&command, &mut bytes);
        tell(&mut model, client, &command, &mut due);
        server.send(client, &bytes)?;
        settle(server, &mut due)?;
    }
    Ok(())
}

/// Applies a command to the model; answers with the command, for people.
fn tell(model: &mut Model, client: usize, command: &super::redis::Command, due: &mut [Due]) -> String {
    let words: Vec<_> = command.iter().map(|word| expect::shown(word)).collect();
    let shown = format!("{client}: {}", words.join(" "));
    for (to, expect) in model.apply(client, command) {
        due[to].push_back((shown.clone(), expect));
    }
    shown
}

fn settle(server: &mut dyn Served, due: &mut [Due]) -> Result<(), String> {
    for (connection, due) in due.iter_mut().enumerate() {
        let count = due.len();
        let is_enough = |received: &[u8]| {
            let mut rest = received;
            let mut values = 0;
            while let Ok(Some((_, taken))) = Value::decode(rest) {
                values += 1;
                rest = &rest[taken..];
            }
            values >= count || Value::decode(rest).is_err()
        };
        let received = server.receive(connection, &is_enough)?;
        compare(connection, &received, due, &mut expect::Tokens::default())?;
    }
    Ok(())
}
