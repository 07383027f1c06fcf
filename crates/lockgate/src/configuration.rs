//! The file of the configuration that runs: its name and hash for the log and the metrics, and what
//! HUP finds in it.
//!
//! A changed file is checked and reported, and not taken up: that needs a restart.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use aws_lc_rs::digest::{Context, SHA256};
use lockgate_config::{ConfigDraft, Diagnostic, Severity};

use crate::examine::{Examined, examine};
use crate::opening::Mode;

/// Mistakes that one look logs; `check` shows all.
const LOGGED: usize = 10;

/// The file that was read at the start.
pub(crate) struct Configuration {
    /// Its path.
    pub(crate) file: PathBuf,
    /// SHA-256 of its text, followed by the texts that it includes in the order in which they were
    /// read.
    pub(crate) hash: String,
    /// When it was read.
    pub(crate) read: SystemTime,
    last: ArcSwap<Look>,
}

/// What a look at the file found.
#[derive(Debug)]
pub(crate) struct Look {
    /// When that was.
    pub(crate) time: SystemTime,
    /// What would stop a start.
    pub(crate) errors: usize,
    /// Whether the text is another one than that which runs.
    pub(crate) differs: bool,
}

impl Configuration {
    /// The file at `path`, as it was read.
    pub(crate) fn new(path: &Path, draft: &ConfigDraft) -> Arc<Self> {
        let read = SystemTime::now();
        let file = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let last = ArcSwap::from_pointee(Look {
            time: read,
            errors: 0,
            differs: false,
        });
        Arc::new(Self {
            file,
            hash: hash(draft),
            read,
            last,
        })
    }

    /// What the last look found; before the first one, what the start found.
    pub(crate) fn last(&self) -> Arc<Look> {
        self.last.load_full()
    }

    /// Checks the file as a start would, logs its mistakes, and keeps what it found. Reads files:
    /// not for a thread that others wait for.
    pub(crate) fn look(&self) {
        let Examined { report, draft, .. } = examine(&self.file, Mode::Serving);
        let errors = report.count(Severity::Error);
        let differs = draft.is_none_or(|draft| hash(&draft) != self.hash);
        let file = self.file.display();
        report
            .iter()
            .filter(|found| found.code().severity() == Severity::Error)
            .take(LOGGED)
            .for_each(log);
        match (errors, differs) {
            (0, false) => tracing::info!(%file, "the configuration file is the one that runs"),
            (0, true) => {
                tracing::warn!(%file, "the configuration file differs from what runs: restart to take it up")
            }
            (errors, _) => tracing::error!(
                %file,
                errors,
                "the configuration file has mistakes, and what runs stays: `lockgate check` shows all of them"
            ),
        }
        self.last.store(Arc::new(Look {
            time: SystemTime::now(),
            errors,
            differs,
        }));
    }

    /// What there is to say of the file beside what is served; nothing while it is the one that
    /// runs.
    pub(crate) fn status(&self) -> Option<String> {
        match *self.last() {
            Look {
                errors: 0,
                differs: false,
                ..
            } => None,
            Look {
                errors: 0,
                differs: true,
                ..
            } => Some(
                "the configuration file differs from what runs: restart to take it up".to_owned(),
            ),
            Look { errors: 1, .. } => {
                Some("the configuration file has 1 error: see `lockgate check`".to_owned())
            }
            Look { errors, .. } => Some(format!(
                "the configuration file has {errors} errors: see `lockgate check`"
            )),
        }
    }
}

fn log(found: &Diagnostic) {
    let code = found.code().id();
    let at = found.at().map(ToString::to_string);
    let (why, cure) = (found.why(), found.cure());
    tracing::error!(
        code,
        at,
        why,
        cure,
        "the configuration file: {}",
        found.message()
    );
}

fn hash(draft: &ConfigDraft) -> String {
    let mut context = Context::new(&SHA256);
    draft
        .texts()
        .for_each(|text| context.update(text.as_bytes()));
    let mut hash = String::new();
    for byte in context.finish().as_ref() {
        let _ = write!(hash, "{byte:02x}"); // writing to a String cannot fail
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_sha256sum_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lockgate.toml");
        std::fs::write(&path, "abc = 1\n").unwrap();
        let draft = lockgate_config::read(&path).unwrap();
        let output = std::process::Command::new("sha256sum")
            .arg(&path)
            .output()
            .unwrap();
        let sum = String::from_utf8(output.stdout).unwrap();
        assert_eq!(sum.split_whitespace().next(), Some(&*hash(&draft)));
    }
}
