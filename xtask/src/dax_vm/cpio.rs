//! An archive of the kind that a Linux kernel unpacks as its first file system ("newc"). Several may follow each other.

const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const LINK: u32 = 0o120_777;

/// An archive in the making.
#[derive(Default)]
pub struct Cpio {
    bytes: Vec<u8>,
    directories: std::collections::BTreeSet<String>,
    entries: u32,
}

impl Cpio {
    /// Adds a file, executable, with the directories that lead to it.
    pub fn file(&mut self, path: &str, content: &[u8]) {
        self.parents(path);
        self.entry(path, PROGRAM, content);
    }

    /// Adds an empty directory, with those that lead to it.
    pub fn directory(&mut self, path: &str) {
        self.parents(&format!("{path}/x"));
    }

    /// Adds a symbolic link.
    pub fn link(&mut self, path: &str, to: &str) {
        self.parents(path);
        self.entry(path, LINK, to.as_bytes());
    }

    /// The archive.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn parents(&mut self, path: &str) {
        let path = path.trim_start_matches('/').to_owned();
        for (at, _) in path.match_indices('/') {
            if self.directories.insert(path[..at].to_owned()) {
                self.entry(&path[..at], DIRECTORY, &[]);
            }
        }
    }

    fn entry(&mut self, path: &str, mode: u32, content: &[u8]) {
        let path = path.trim_start_matches('/');
        self.entries += 1;
        let (name, size) = (path.len() + 1, content.len());
        // Inode, mode, user, group, links, time, size, device of the file and of a node (two numbers each), name, checksum.
        let fields = [self.entries as usize, mode as usize, 0, 0, 1, 0, size, 0, 0, 0, 0, name, 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_names_and_contents_are_where_the_kernel_looks() {
        let mut cpio = Cpio::default();
        cpio.file("/bin/tool", b"12345");
        cpio.link("/bin/other", "tool");
        let bytes = cpio.finish();
        assert_eq!(bytes.len() % 4, 0);
        let mut names = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let header = std::str::from_utf8(&bytes[at..at + 110]).unwrap();
            assert!(header.starts_with("070701"));
            let field = |i: usize| usize::from_str_radix(&header[6 + 8 * i..14 + 8 * i], 16).unwrap();
            let (name, size) = (field(11), field(6));
            let text = std::str::from_utf8(&bytes[at + 110..at + 110 + name - 1]).unwrap();
            names.push((text.to_owned(), field(1) as u32, size));
            let content = (at + 110 + name).next_multiple_of(4);
            if text == "bin/tool" {
                assert_eq!(&bytes[content..content + size], b"12345");
            }
            at = (content + size).next_multiple_of(4);
        }
        let expected =
            [("bin", DIRECTORY, 0), ("bin/tool", PROGRAM, 5), ("bin/other", LINK, 4), ("TRAILER!!!", 0, 0)];
        assert_eq!(names, expected.map(|(name, mode, size)| (name.to_owned(), mode, size)));
    }
}
