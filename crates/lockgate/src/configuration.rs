//! The file of the configuration that runs: its name and hash for the log and the metrics, and its
//! check on HUP.
//!
//! A changed file is checked and reported, but not used: that needs a restart.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use aws_lc_rs::digest::{Context, SHA256};
use lockgate_config::{ConfigDraft, Diagnostic, Severity};
use serde_json::{Value, json};

use crate::examine::{Examination, examine};
use crate::start_steps::Mode;

/// Mistakes that one check logs; `lockgate check` shows all.
const LOGGED: usize = 10;

/// The file that was read at the start.
pub(crate) struct Configuration {
    pub(crate) file: PathBuf,
    /// SHA-256 of its text, followed by the texts that it includes in the order in which they were
    /// read.
    pub(crate) hash: String,
    pub(crate) read: SystemTime,
    last_check: ArcSwap<FileCheck>,
}

/// The result of one check of the file.
#[derive(Debug)]
pub(crate) struct FileCheck {
    pub(crate) time: SystemTime,
    /// The number of mistakes, which would stop a start.
    pub(crate) errors: usize,
    /// Whether the text differs from the one that runs.
    pub(crate) differs: bool,
    /// The mistakes and warnings, as `check --json` prints them.
    pub(crate) diagnostics: Value,
}

impl Configuration {
    /// The file at `path`, as it was read.
    pub(crate) fn new(path: &Path, draft: &ConfigDraft) -> Arc<Self> {
        let read = SystemTime::now();
        let file = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let last_check = ArcSwap::from_pointee(FileCheck {
            time: read,
            errors: 0,
            differs: false,
            diagnostics: json!([]),
        });
        Arc::new(Self {
            file,
            hash: hash(draft),
            read,
            last_check,
        })
    }

    /// The last check; before the first one on HUP, that of the start.
    pub(crate) fn last_check(&self) -> Arc<FileCheck> {
        self.last_check.load_full()
    }

    /// Checks the file as a start would, logs its mistakes, and keeps the result. Reads files: not
    /// for a thread that others wait for.
    pub(crate) fn check(&self) {
        let Examination { report, draft, .. } = examine(&self.file, Mode::Serving);
        let errors = report.count(Severity::Error);
        let differs = draft.is_none_or(|draft| hash(&draft) != self.hash);
        let file = self.file.display();
        report
            .iter()
            .filter(|found| found.code().severity() == Severity::Error)
            .take(LOGGED)
            .for_each(log);
        match (errors, differs) {
            (0, false) => {
                tracing::info!(%file, "the configuration file is the same as the running configuration")
            }
            (0, true) => {
                tracing::warn!(%file, "the configuration file differs from the running configuration: restart to use it")
            }
            (errors, _) => tracing::error!(
                %file,
                errors,
                "the configuration file has mistakes, so the running configuration stays: `lockgate check` shows all of them"
            ),
        }
        self.last_check.store(Arc::new(FileCheck {
            time: SystemTime::now(),
            errors,
            differs,
            diagnostics: report.to_json()["diagnostics"].take(),
        }));
    }

    /// The state of the file for systemd's status line; `None` while it is the one that runs.
    pub(crate) fn status(&self) -> Option<String> {
        match *self.last_check() {
            FileCheck {
                errors: 0,
                differs: false,
                ..
            } => None,
            FileCheck {
                errors: 0,
                differs: true,
                ..
            } => Some(
                "the configuration file differs from the running configuration: restart to use it"
                    .to_owned(),
            ),
            FileCheck { errors: 1, .. } => {
                Some("the configuration file has 1 error: see `lockgate check`".to_owned())
            }
            FileCheck { errors, .. } => Some(format!(
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
