//! What a connection may do: who it is, and whether that has to be asked at all.

use std::sync::Arc;

use crate::resp::call::{Call, Outcome};
use crate::resp::error::Refusal;
use crate::resp::table::{Command, Flags};

use super::super::client::Running;
use super::Acl;
use super::log::{Entry, NAME_BYTES_MAX, Reason};
use super::selector::Denied;
use super::user::{DEFAULT, User};

const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";
const GONE: &str = "NOAUTH the user of this connection was deleted or replaced";

/// Who a connection is. A new one is nobody until it is asked.
#[derive(Clone, Debug, Default)]
pub(in crate::resp) struct Access {
    user: Option<Arc<User>>,
    /// It has logged in, or the default user asked for no password when it connected.
    authenticated: bool,
    /// The default user asks for no password now.
    open: bool,
    /// The generation of which `user` and `open` are; 0 for none.
    seen: u64,
    /// The generation in which it may do everything; 0 for none.
    free_in: u64,
}

impl Access {
    /// Whether no command needs a look: what every command asks.
    pub fn is_free(&self, acl: &Acl) -> bool {
        self.free_in == acl.generation()
    }

    /// Its user's name.
    pub fn name(&self) -> &[u8] {
        self.user.as_ref().map_or(DEFAULT, |user| &user.name)
    }

    /// Whether it may do more than log in. What is told holds until the next command.
    pub fn is_authenticated(&mut self, acl: &Acl) -> bool {
        // Who is gone hears of it at the next command.
        let _gone = self.refresh(acl);
        self.authenticated || self.open
    }

    /// Looks the user up again if any has changed.
    fn refresh(&mut self, acl: &Acl) -> Result<(), Refusal> {
        // Before the look, so that a change behind it is looked for again.
        let generation = acl.generation();
        if self.seen == generation {
            return Ok(());
        }
        let default = acl.user(DEFAULT);
        self.open = default.as_ref().is_some_and(|user| user.is_open());
        self.user = match &self.user {
            None => {
                self.authenticated = self.open;
                default
            }
            Some(user) => {
                let now = acl.user(&user.name).filter(|now| now.id == user.id);
                Some(now.ok_or(GONE)?)
            }
        };
        self.seen = generation;
        let free = self.user.as_ref().is_some_and(|user| user.is_free());
        self.free_in = if free && (self.authenticated || self.open) { generation } else { 0 };
        Ok(())
    }

    /// As of which change its user was looked up last.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Becomes `user`.
    fn become_user(&mut self, user: Arc<User>) {
        *self = Self { user: Some(user), authenticated: true, ..Self::default() };
    }

    /// Whether it is who the other is.
    pub fn is_same(&self, other: &Self) -> bool {
        let ids = [self, other].map(|access| access.user.as_ref().map(|user| user.id));
        ids[0] == ids[1] && self.authenticated == other.authenticated
    }

    /// Becomes nobody again, as a new connection.
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}

/// Refuses a command that the connection's user may not call. Not to be asked where [`Access::is_free`] says so.
pub(in crate::resp) fn check(call: &mut Call<'_>, command: &'static Command) -> Outcome {
    let acl = &call.ctx.shared.redis.acl;
    if let Err(gone) = call.client.access.refresh(acl) {
        call.client.closing = true;
        return Err(gone);
    }
    let access = &call.client.access;
    if !access.authenticated && !access.open {
        return if command.flags.has(Flags::NO_AUTH) {
            Ok(())
        } else {
            Err("NOAUTH Authentication required.".into())
        };
    }
    let Some(user) = access.user.clone() else { return Ok(()) };
    let args: Vec<&[u8]> = call.args.from(0).collect();
    match user.check(command, &args) {
        Ok(()) => Ok(()),
        Err(denied) => {
            let (reason, object) = match denied {
                Denied::Command => (Reason::Command, command.full_name.as_bytes()),
                Denied::Key(at) => (Reason::Key, args[at]),
                Denied::Channel(at) => (Reason::Channel, args[at]),
            };
            note(call, reason, object, &user.name);
            Err(refusal(denied, command))
        }
    }
}

fn refusal(denied: Denied, command: &Command) -> Refusal {
    match denied {
        Denied::Command => {
            format!("NOPERM this user has no permissions to run the '{}' command", command.full_name).into()
        }
        Denied::Key(_) => {
            "NOPERM this user has no permissions to access one of the keys used as arguments".into()
        }
        Denied::Channel(_) => {
            "NOPERM this user has no permissions to access one of the channels used as arguments".into()
        }
    }
}

/// Writes what was refused into the log.
fn note(call: &Call<'_>, reason: Reason, object: &[u8], user: &[u8]) {
    let (client, ctx) = (&*call.client, call.ctx);
    client.tell();
    // What waits in a transaction runs in EXEC's name.
    let in_exec = call.batch.is_atomic() || client.defers;
    let command = if in_exec { "exec" } else { call.name };
    let mut line = Vec::new();
    crate::resp::client::line_of(
        &client.entry,
        (command, Running::default()),
        NAME_BYTES_MAX,
        ctx.now_ms,
        &mut line,
    );
    let line = String::from_utf8_lossy(&line).into_owned();
    let in_multi = in_exec || client.transaction.is_some();
    let entry = Entry::new(reason, in_multi, object, user, line, ctx.time.wall_now_ms());
    let redis = &ctx.shared.redis;
    redis.acl.log.lock().add(entry, redis.settings.acl_log_max());
}

/// `AUTH [user] password`.
pub(in crate::resp) fn auth(call: &mut Call<'_>) -> Outcome {
    match call.args.len() {
        2 if call.ctx.shared.redis.acl.user(DEFAULT).is_none_or(|user| user.no_password) => {
            Err("ERR AUTH <password> called without any password configured for the default user. \
                 Are you sure your configuration is correct?"
                .into())
        }
        2 => authenticate(call, DEFAULT, call.arg(1), "AUTH"),
        3 => authenticate(call, call.arg(1), call.arg(2), "AUTH"),
        _ => return Err(crate::resp::error::SYNTAX.into()),
    }?;
    call.ok()
}

/// Makes the connection a user's if the password is right; `object` is told by the log if not.
pub(in crate::resp) fn authenticate(
    call: &mut Call<'_>,
    name: &[u8],
    password: &[u8],
    object: &str,
) -> Outcome {
    let acl = &call.ctx.shared.redis.acl;
    let user = acl.user(name);
    // A user who is not there costs as much as one who is.
    let nobody = User::new(name, 0);
    if !user.as_deref().unwrap_or(&nobody).admits(password) {
        note(call, Reason::Auth, object.as_bytes(), name);
        return Err(WRONG_PASSWORD.into());
    }
    if let Some(user) = user {
        let label = String::from_utf8_lossy(name).into();
        call.client.entry.relabel(|labels| (labels.user, labels.user_number) = (label, user.id));
        call.client.access.become_user(user);
    }
    Ok(())
}
