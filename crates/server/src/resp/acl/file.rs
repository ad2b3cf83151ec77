//! The file that keeps users: a line `user NAME RULE ...` each, as `ACL LIST` tells them.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use super::rules::{has_spaces, merge};
use super::user::{DEFAULT, User};
use super::{Acl, Users};

const NO_FILE: &str = "This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER command \
     and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store users in the \
     Redis configuration.";

impl Acl {
    /// Replaces all users by those of the file.
    ///
    /// # Errors
    /// If there is no file, it can't be read, or a line is wrong; nothing has changed then.
    pub(super) fn load(&self) -> Result<(), String> {
        let path = self.file.as_deref().ok_or(NO_FILE)?;
        let text = std::fs::read(path)
            .map_err(|error| format!("Error loading ACLs, opening file '{}': {error}", path.display()))?;
        self.replace_by(&text, &path.display().to_string(), false)
    }

    /// Replaces all users by those that lines describe. The default user stays as it is where no line is about it and
    /// `keep_default` says so.
    pub(super) fn replace_by(&self, text: &[u8], place: &str, keep_default: bool) -> Result<(), String> {
        let mut errors = String::new();
        let mut found = Users::new();
        for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let line = line.trim_ascii();
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            match self.read_line(line, &found) {
                Ok(user) => _ = found.insert(user.name.clone(), Arc::new(user)),
                // Writing to a string does not fail.
                Err(why) => _ = write!(errors, "{place}:{}: {why}. ", number + 1),
            }
        }
        if !errors.is_empty() {
            return Err(format!(
                "{errors}WARNING: ACL errors detected, no change to the previously active ACL rules was performed"
            ));
        }
        let mut users = self.users.write();
        for (name, user) in &mut found {
            // Who is the same goes on; connections of others are closed.
            if let Some(before) = users.get(name).filter(|before| before.is_like(user)) {
                *user = Arc::clone(before);
            }
        }
        if !found.contains_key(DEFAULT) {
            let before = users.get(DEFAULT).filter(|_| keep_default).cloned();
            found.insert(DEFAULT.into(), before.unwrap_or_else(|| Arc::new(User::initial())));
        }
        *users = found;
        self.changed();
        Ok(())
    }

    fn read_line(&self, line: &[u8], before: &Users) -> Result<User, String> {
        let mut words = line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
        if words.next() != Some(b"user") {
            return Err("line should start with user keyword".into());
        }
        let name = words.next().ok_or("username expected after user keyword")?;
        if has_spaces(name) {
            return Err("username can't contain spaces or null characters".into());
        }
        if before.contains_key(name) {
            return Err(format!("Duplicate user '{}' found", String::from_utf8_lossy(name)));
        }
        let mut user = User::new(name, self.new_id(name));
        let rules = merge(words).map_err(|first| {
            format!(
                "Unmatched parenthesis in selector definition starting at '{}'",
                String::from_utf8_lossy(&first)
            )
        })?;
        for rule in rules {
            user.apply(&rule).map_err(|wrong| {
                format!("Error in applying operation '{}': {wrong}", String::from_utf8_lossy(&rule))
            })?;
        }
        Ok(user)
    }

    /// Writes all users into the file: into another one that then takes its name, so that there is always a whole one.
    ///
    /// # Errors
    /// If there is no file, or it can't be written.
    pub(super) fn save(&self) -> Result<(), String> {
        let path = self.file.as_deref().ok_or(NO_FILE)?;
        let mut text = Vec::new();
        for user in self.users.read().values() {
            text.extend_from_slice(&user.text());
            text.push(b'\n');
        }
        write_whole(path, &text).map_err(|error| {
            tracing::warn!(%error, path = %path.display(), "the ACL file could not be written");
            "There was an error trying to save the ACLs. Please check the server logs for more information"
                .into()
        })
    }
}

/// Replaces a file by one with this content.
fn write_whole(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let beside = path.with_extension(format!("tmp-{}", std::process::id()));
    let written = (|| {
        let mut file = File::create(&beside)?;
        file.write_all(content)?;
        file.sync_all()?;
        std::fs::rename(&beside, path)?;
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(dir)?.sync_all()
    })();
    if written.is_err() {
        // It may not even be there.
        let _removed = std::fs::remove_file(&beside);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(acl: &Acl) -> Vec<String> {
        acl.users.read().keys().map(|name| String::from_utf8_lossy(name).into_owned()).collect()
    }

    #[test]
    fn users_are_kept_in_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("users.acl");
        std::fs::write(&path, "# people\n\nuser a on >pw ~x* (+get ~y)\r\nuser default on >d ~* &* +@all\n")
            .unwrap();
        let acl = Acl::new(b"", &[], Some(path.clone())).unwrap();
        assert_eq!(names(&acl), ["a", "default"]);
        let before = acl.user(b"a").unwrap();
        assert!(before.admits(b"pw") && !acl.is_open());
        acl.set_user(b"b", &[b"on".to_vec()]).unwrap();
        acl.save().unwrap();
        acl.delete_users([&b"b"[..]].into_iter());
        acl.load().unwrap();
        assert_eq!(names(&acl), ["a", "b", "default"]);
        assert_eq!(acl.user(b"a").unwrap().id, before.id, "a user who is the same goes on");
        std::fs::write(&path, "user a on >other\n").unwrap();
        acl.load().unwrap();
        assert_ne!(acl.user(b"a").unwrap().id, before.id);
        assert!(acl.is_open(), "there is always a default user");
    }

    #[test]
    fn a_wrong_file_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("users.acl");
        for (text, error) in [
            ("get", ":1: line should start with user keyword"),
            ("user", ":1: username expected"),
            ("\nuser a +nosuch", ":2: Error in applying operation '+nosuch': Unknown command"),
            ("user a (+get", "Unmatched parenthesis in selector definition starting at '(+get'"),
            ("user a\nuser a", ":2: Duplicate user 'a' found"),
        ] {
            std::fs::write(&path, "user a on").unwrap();
            let acl = Acl::new(b"", &[], Some(path.clone())).unwrap();
            std::fs::write(&path, text).unwrap();
            let told = acl.load().unwrap_err();
            assert!(told.contains(error), "{told}");
            assert_eq!(acl.user(b"a").unwrap().text(), b"user a on resetchannels -@all");
        }
        assert!(Acl::new(b"", &[], Some(dir.path().join("none"))).err().unwrap().contains("opening file"));
        assert!(Acl::new(b"x", &[], Some(path)).err().unwrap().contains("not both"));
        assert!(
            Acl::new(b"", &["user a nonsense".into()], None).err().unwrap().contains("the user lines:1:")
        );
    }

    #[test]
    fn lines_and_a_password() {
        let acl = Acl::new(b"secret", &["user a on nopass +get ~*".into()], None).unwrap();
        assert_eq!(names(&acl), ["a", "default"]);
        assert!(acl.user(b"default").unwrap().admits(b"secret") && !acl.is_open());
        assert_eq!(acl.save(), Err(NO_FILE.to_owned()));
        acl.require(b"");
        assert!(acl.is_open());
    }
}
