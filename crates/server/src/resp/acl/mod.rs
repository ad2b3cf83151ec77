//! Users and what each may do.
//!
//! ```text
//!   AUTH, HELLO --> Access (one a connection) --check--> User --> its Selectors
//!                      '-- generation, compared on each command --- Acl <-- ACL SETUSER, ACL LOAD, CONFIG SET requirepass
//! ```
//!
//! # Thread safety
//! Users are replaced, never changed; who has found one keeps it. Every change happens under the lock of `users` and then
//! moves `generation` on; a connection whose `Access` is of an older generation looks its user up again. A command that runs
//! while the change is made may still be judged by what was before; one sent after the change was answered may not, because the
//! answer went through the kernel behind the store. The lock and the log's are leaves. What goes on without a command, such as
//! listening, is looked at by whoever makes the change (`standing.rs`).

mod access;
mod commands;
mod file;
mod log;
mod rules;
mod selector;
mod standing;
mod user;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use parking_lot::{Mutex, RwLock};

use super::error::Refusal;
use crate::registry::DEFAULT_USER;

pub(super) use access::{Access, auth, authenticate, check};
pub(super) use commands::*;
use user::{DEFAULT, User};

/// By name.
type Users = BTreeMap<Box<[u8]>, Arc<User>>;

/// See the module.
pub(crate) struct Acl {
    users: RwLock<Users>,
    /// Moved on with every change; from 1.
    generation: AtomicU64,
    next_id: AtomicU64,
    /// The password that `requirepass` set last, for `CONFIG GET`.
    required: Mutex<Vec<u8>>,
    /// Where `ACL SAVE` and `ACL LOAD` keep the users.
    file: Option<PathBuf>,
    /// Lines at the start described users.
    has_lines: bool,
    pub(super) log: Mutex<log::Log>,
}

impl Acl {
    /// The default user alone, with `required` as its password unless that is empty; then the users that `lines` describe, or
    /// those of the file.
    ///
    /// # Errors
    /// If a line or the file can't be read; the text says where and why.
    pub fn new(required: &[u8], lines: &[String], file: Option<PathBuf>) -> Result<Self, String> {
        let mut default = User::initial();
        default.require(required);
        let users = Users::from([(default.name.clone(), Arc::new(default))]);
        let acl = Self {
            users: RwLock::new(users),
            generation: AtomicU64::new(1),
            next_id: AtomicU64::new(DEFAULT_USER + 1),
            required: Mutex::new(required.to_vec()),
            file,
            has_lines: !lines.is_empty(),
            log: Mutex::default(),
        };
        if acl.file.is_some() {
            if !lines.is_empty() || !required.is_empty() {
                return Err(
                    "give the users in the ACL file, or with requirepass and user lines, not both".into()
                );
            }
            acl.load()?;
        } else {
            acl.replace_by(lines.join("\n").as_bytes(), "the user lines", true)?;
        }
        Ok(acl)
    }

    /// Which change was the last one.
    pub fn generation(&self) -> u64 {
        self.generation.load(Acquire)
    }

    fn changed(&self) {
        self.generation.fetch_add(1, Release);
    }

    /// The number of a user that is made.
    fn new_id(&self, name: &[u8]) -> u64 {
        if name == DEFAULT {
            return DEFAULT_USER;
        }
        self.next_id.fetch_add(1, Relaxed)
    }

    /// The user of this name.
    fn user(&self, name: &[u8]) -> Option<Arc<User>> {
        self.users.read().get(name).cloned()
    }

    /// Whether there is a user of this name.
    pub fn has(&self, name: &[u8]) -> bool {
        self.users.read().contains_key(name)
    }

    /// Whether connections need no password: the default user asks for none. A server that is open to the network asks this.
    pub fn is_open(&self) -> bool {
        self.user(DEFAULT).is_some_and(|user| user.is_open())
    }

    /// Whether a restart knows less of users than there is: nothing keeps them, and there is more than a default user with the
    /// password of `requirepass`.
    pub fn are_users_lost(&self) -> bool {
        if self.file.is_some() || self.has_lines {
            return false;
        }
        let mut default = User::initial();
        default.require(&self.required());
        let users = self.users.read();
        users.len() > 1 || users.get(DEFAULT).is_none_or(|user| !user.is_like(&default))
    }

    /// The password that `requirepass` set last; empty for none.
    pub fn required(&self) -> Vec<u8> {
        self.required.lock().clone()
    }

    /// Gives the default user this password alone, or with an empty one none.
    pub fn require(&self, password: &[u8]) {
        let mut users = self.users.write();
        let mut default = users.get(DEFAULT).map_or_else(User::initial, |user| User::clone(user));
        default.require(password);
        users.insert(DEFAULT.into(), Arc::new(default));
        *self.required.lock() = password.to_vec();
        self.changed();
    }

    /// Applies rules to a user, which is made if it is not there; nothing changes if one is wrong. The user as it is
    /// then.
    fn set_user(&self, name: &[u8], words: &[Vec<u8>]) -> Result<Arc<User>, Refusal> {
        let mut users = self.users.write();
        let mut user = match users.get(name) {
            Some(user) => User::clone(user),
            None => User::new(name, self.new_id(name)),
        };
        for word in words {
            user.apply(word).map_err(|wrong| {
                let why = wrong.to_string();
                Refusal::from(
                    [&b"ERR Error in ACL SETUSER modifier '"[..], word, b"': ", why.as_bytes()].concat(),
                )
            })?;
        }
        let user = Arc::new(user);
        users.insert(name.into(), Arc::clone(&user));
        self.changed();
        Ok(user)
    }

    /// Deletes users; the numbers of those that there were.
    fn delete_users<'a>(&self, names: impl Iterator<Item = &'a [u8]>) -> Vec<u64> {
        let mut users = self.users.write();
        let deleted = names.filter_map(|name| users.remove(name)).map(|user| user.id).collect();
        self.changed();
        deleted
    }
}
