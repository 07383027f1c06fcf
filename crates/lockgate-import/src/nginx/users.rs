//! Files of users and passwords: which of their hashes Lockgate refuses.

use std::path::{Path, PathBuf};

use crate::SourceFiles;

/// The most users that are named.
const MOST_NAMES: usize = 10;

/// The beginnings of the hashes that Lockgate verifies: bcrypt, SHA-crypt and argon2id.
const STRONG: &[&str] = &["$2a$", "$2b$", "$2y$", "$5$", "$6$", "$argon2id$"];

/// Reads files of users.
pub(super) struct NginxUsers<'f> {
    files: &'f dyn SourceFiles,
    folder: PathBuf,
}

impl<'f> NginxUsers<'f> {
    /// `folder` is that of the main file: nginx looks up relative names there.
    pub(super) fn new(files: &'f dyn SourceFiles, folder: &Path) -> Self {
        Self {
            files,
            folder: folder.to_owned(),
        }
    }

    /// The users of a file with a hash that is refused, ten at most; `None` if the file cannot be
    /// read.
    pub(super) fn weak(&self, file: &str) -> Option<Vec<String>> {
        let text = self.files.read(&self.folder.join(file)).ok()?;
        let mut names = Vec::new();
        for line in text.lines() {
            let line = line.trim();
            let Some((name, hash)) = line.split_once(':').filter(|_| !line.starts_with('#')) else {
                continue;
            };
            if !STRONG.iter().any(|start| hash.starts_with(start)) {
                if names.len() == MOST_NAMES {
                    names.push("…".to_owned());
                    break;
                }
                names.push(name.to_owned());
            }
        }
        Some(names)
    }
}
