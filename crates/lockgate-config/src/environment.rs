//! The environment of a configuration: variables, files and folders.
//!
//! Tests and fuzzers use a closed environment with their own content only.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

/// The source of `${env:…}`, `${file:…}`, includes and certificate patterns.
#[derive(Debug, Clone)]
pub struct Environment {
    open: bool,
    vars: BTreeMap<String, String>,
    files: BTreeMap<PathBuf, String>,
    /// The files that were asked for, and the folders of patterns.
    sources: RefCell<BTreeSet<PathBuf>>,
}

/// The maximum length of a file; `/dev/zero` would never end.
const MAX_FILE: u64 = 16 << 20;

/// The maximum number of matches of a pattern; more are surely a mistake.
const MAX_MATCHES: usize = 100_000;

impl Environment {
    /// The process's own environment and file system.
    pub fn process() -> Environment {
        Environment {
            open: true,
            ..Environment::none()
        }
    }

    /// An empty environment: no variable is set and no file exists.
    pub fn none() -> Environment {
        Environment {
            open: false,
            vars: BTreeMap::new(),
            files: BTreeMap::new(),
            sources: RefCell::default(),
        }
    }

    /// Sets a variable, which overrides one of the process.
    pub fn with_var(mut self, name: impl Into<String>, value: impl Into<String>) -> Environment {
        self.vars.insert(name.into(), value.into());
        self
    }

    /// Adds a file, which overrides one of the file system.
    pub fn with_file(mut self, path: impl Into<PathBuf>, text: impl Into<String>) -> Environment {
        self.files.insert(path.into(), text.into());
        self
    }

    pub(crate) fn var(&self, name: &str) -> Result<String, &'static str> {
        match self.vars.get(name) {
            Some(value) => Ok(value.clone()),
            None if self.open => std::env::var(name).map_err(|error| match error {
                std::env::VarError::NotPresent => "it is not set",
                std::env::VarError::NotUnicode(_) => "its value is not UTF-8",
            }),
            None => Err("it is not set"),
        }
    }

    /// The same environment, of which no file was asked for yet.
    pub(crate) fn unread(&self) -> Environment {
        Environment {
            sources: RefCell::default(),
            ..self.clone()
        }
    }

    /// The files that were asked for, also those that cannot be read, and the folders in which
    /// names were compared with a pattern. Without descriptors that the process was started with.
    pub(crate) fn into_sources(self) -> BTreeSet<PathBuf> {
        self.sources.into_inner()
    }

    fn note(&self, path: &Path) {
        if !is_descriptor(path) {
            self.sources.borrow_mut().insert(path.to_owned());
        }
    }

    pub(crate) fn read(&self, path: &Path) -> io::Result<String> {
        self.note(path);
        match self.files.get(path) {
            Some(text) => Ok(text.clone()),
            None if self.open => read_bounded(path),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Reads a file that a configuration names. It may not be a FIFO, which blocks until another
    /// process writes to it and can be read only once. A descriptor that the process was started
    /// with (`/dev/stdin`, `/dev/fd/3`) may be one.
    pub(crate) fn read_file(&self, path: &Path) -> io::Result<String> {
        self.note(path);
        if self.open && !is_descriptor(path) && !self.files.contains_key(path) {
            let kind = std::fs::metadata(path)?.file_type();
            if !kind.is_file() {
                let what = if kind.is_dir() {
                    "a folder"
                } else {
                    "a FIFO, a socket or a device"
                };
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    format!("it is {what}, not a file"),
                ));
            }
        }
        self.read(path)
    }

    /// The absolute path.
    pub(crate) fn absolute(&self, path: &Path) -> PathBuf {
        let path = if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            path
        };
        if !self.open {
            return Path::new("/").join(path).components().collect();
        }
        std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
    }

    /// Every existing path that matches the pattern, sorted. `*` and `?` match inside one part of
    /// the path and never a leading dot.
    pub fn glob(&self, pattern: &Path) -> Vec<PathBuf> {
        let mut found = vec![PathBuf::new()];
        let mut parts = pattern.components().peekable();
        while let Some(part) = parts.next() {
            let last = parts.peek().is_none();
            found = match part {
                Component::Normal(name) if is_pattern(name) => self.expand(&found, name),
                part => found.into_iter().map(|path| path.join(part)).collect(),
            };
            if last {
                found.retain(|path| self.exists(path));
            }
        }
        found.sort();
        found
    }

    fn expand(&self, folders: &[PathBuf], pattern: &OsStr) -> Vec<PathBuf> {
        let pattern = pattern.to_string_lossy();
        let mut found = Vec::new();
        for folder in folders {
            self.note(folder);
            for name in self.names(folder) {
                if matches(&pattern, &name) && found.len() < MAX_MATCHES {
                    found.push(folder.join(name));
                }
            }
        }
        found
    }

    fn names(&self, folder: &Path) -> BTreeSet<String> {
        let mut names: BTreeSet<String> = self
            .files
            .keys()
            .filter_map(|path| path.strip_prefix(folder).ok()?.components().next())
            .map(|part| part.as_os_str().to_string_lossy().into_owned())
            .collect();
        if self.open {
            let folder = if folder.as_os_str().is_empty() {
                Path::new(".")
            } else {
                folder
            };
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            names.extend(entries.filter_map(|entry| entry.file_name().into_string().ok()));
        }
        names
    }

    fn exists(&self, path: &Path) -> bool {
        self.files.keys().any(|file| file.starts_with(path)) || self.open && path.exists()
    }
}

fn read_bounded(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let read = std::fs::File::open(path)?
        .take(MAX_FILE + 1)
        .read_to_string(&mut text)?;
    if read as u64 > MAX_FILE {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            "it is larger than 16 MiB",
        ));
    }
    Ok(text)
}

/// Whether the path is that of an open descriptor: its content can be read only once.
fn is_descriptor(path: &Path) -> bool {
    let descriptors = ["/dev/stdin", "/dev/fd", "/proc/self/fd"];
    descriptors.iter().any(|folder| path.starts_with(folder))
}

/// Whether a name has `*` or `?`.
pub(crate) fn is_pattern(name: impl AsRef<OsStr>) -> bool {
    name.as_ref().to_string_lossy().contains(['*', '?'])
}

/// Whether the name matches the pattern. It backtracks only to the last `*`, so that it cannot take
/// exponential time.
fn matches(pattern: &str, name: &str) -> bool {
    if name.starts_with('.') && !pattern.starts_with('.') {
        return false;
    }
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(c) if *c == '?' || *c == name[n] => (p, n) = (p + 1, n + 1),
            _ => match star {
                Some((at, seen)) => {
                    star = Some((at, seen + 1));
                    (p, n) = (at + 1, seen + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_within_one_name() {
        for (pattern, name, expected) in [
            ("*.pem", "a.pem", true),
            ("*.pem", ".pem", false),
            ("*.pem", "a.key", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("*", "", true),
            (".*", ".a", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn a_closed_environment_holds_only_what_was_put_in() {
        let env = Environment::none()
            .with_file("/a/x.pem", "")
            .with_file("/a/b/y.pem", "");
        assert!(env.var("PATH").is_err());
        assert!(env.read(Path::new("/etc/hostname")).is_err());
        assert_eq!(env.glob(Path::new("/a/*.pem")), [PathBuf::from("/a/x.pem")]);
        assert_eq!(
            env.glob(Path::new("/*/*/*.pem")),
            [PathBuf::from("/a/b/y.pem")]
        );
        assert_eq!(env.glob(Path::new("/etc/*")), Vec::<PathBuf>::new());
    }

    #[test]
    fn a_fifo_or_folder_that_a_configuration_names_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        assert!(
            std::process::Command::new("mkfifo")
                .arg(&fifo)
                .status()
                .unwrap()
                .success()
        );
        for (path, why) in [(&*fifo, "a FIFO"), (dir.path(), "a folder")] {
            let error = Environment::process()
                .read_file(path)
                .unwrap_err()
                .to_string();
            assert!(error.contains(why), "{error}");
        }
        let file = dir.path().join("file");
        std::fs::write(&file, "text").unwrap();
        assert_eq!(Environment::process().read_file(&file).unwrap(), "text");
    }

    #[test]
    fn patterns_find_files_on_disk_in_order() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["b.toml", "a.toml", "c.txt"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let found = Environment::process().glob(&dir.path().join("*.toml"));
        assert_eq!(
            found,
            [dir.path().join("a.toml"), dir.path().join("b.toml")]
        );
    }
}
