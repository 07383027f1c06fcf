//! The file of the configuration that runs: its name and hash for the log and the metrics, its
//! check on HUP, and the counts of reloads.
//!
//! Reloads nothing: a changed file is checked and reported here.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use aws_lc_rs::digest::{Context, SHA256};
use lockgate_config::{ConfigDraft, Diagnostic, Report, Severity};

use crate::examine::{Examination, examine};
use crate::start_steps::Mode;

/// Mistakes that one check logs; `lockgate check` shows all.
const LOGGED: usize = 10;

/// The file of the configuration that runs.
pub(crate) struct Configuration {
    pub(crate) file: PathBuf,
    running: ArcSwap<ConfigText>,
    /// The files that decide what a reload of the file would take over.
    watched: ArcSwap<BTreeSet<PathBuf>>,
    last_check: ArcSwap<FileCheck>,
    reloads: ArcSwap<ReloadCounts>,
}

/// One text of the configuration file, as it was read.
pub(crate) struct ConfigText {
    /// SHA-256 of the text, followed by the texts that it includes in the order in which they were
    /// read.
    pub(crate) hash: String,
    pub(crate) read: SystemTime,
    /// The files that it was made of: see [`ConfigDraft::files`].
    pub(crate) files: BTreeSet<PathBuf>,
}

/// The result of one check of the file.
#[derive(Debug)]
pub(crate) struct FileCheck {
    pub(crate) time: SystemTime,
    /// The number of mistakes, which would stop a start.
    pub(crate) errors: usize,
    /// Whether the text differs from the one that runs.
    pub(crate) differs: bool,
    /// The hash of the text, if it could be read.
    hash: Option<String>,
}

/// The number of reloads, and the result of the last one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReloadCounts {
    pub(crate) succeeded: u64,
    pub(crate) failed: u64,
    /// Whether the last one succeeded; before the first one, the start did.
    pub(crate) last_succeeded: bool,
    /// When the last one succeeded, or the start.
    pub(crate) success: SystemTime,
}

impl ConfigText {
    /// The text of a draft, read now.
    pub(crate) fn of(draft: &ConfigDraft) -> Self {
        Self {
            hash: hash(draft),
            read: SystemTime::now(),
            files: draft.files().clone(),
        }
    }
}

impl Configuration {
    /// The file at `path`, as it was read.
    pub(crate) fn new(path: &Path, draft: &ConfigDraft) -> Arc<Self> {
        let text = ConfigText::of(draft);
        let file = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let last_check = ArcSwap::from_pointee(FileCheck {
            time: text.read,
            errors: 0,
            differs: false,
            hash: Some(text.hash.clone()),
        });
        let reloads = ArcSwap::from_pointee(ReloadCounts {
            succeeded: 0,
            failed: 0,
            last_succeeded: true,
            success: text.read,
        });
        let mut watched = text.files.clone();
        watched.insert(file.clone());
        Arc::new(Self {
            file,
            watched: ArcSwap::from_pointee(watched),
            running: ArcSwap::from_pointee(text),
            last_check,
            reloads,
        })
    }

    /// The text that runs.
    pub(crate) fn running(&self) -> Arc<ConfigText> {
        self.running.load_full()
    }

    /// The last check; before the first one on HUP, that of the start.
    pub(crate) fn last_check(&self) -> Arc<FileCheck> {
        self.last_check.load_full()
    }

    /// The reloads so far.
    pub(crate) fn reloads(&self) -> ReloadCounts {
        **self.reloads.load()
    }

    /// The files that decide what a reload of the file would take over.
    pub(crate) fn watched(&self) -> Arc<BTreeSet<PathBuf>> {
        self.watched.load_full()
    }

    fn watch(&self, files: impl Iterator<Item = PathBuf>) {
        let files = files.chain([self.file.clone()]);
        self.watched.store(Arc::new(files.collect()));
    }

    /// Notes that a reload succeeded: `text` runs now; unless it is that of the file, whether it
    /// differs from that is not known yet.
    pub(crate) fn reloaded(&self, text: ConfigText, is_of_file: bool) {
        let success = SystemTime::now();
        self.last_check.store(Arc::new(FileCheck {
            time: text.read,
            errors: 0,
            differs: false,
            hash: Some(text.hash.clone()),
        }));
        if is_of_file {
            self.watch(text.files.iter().cloned());
        }
        self.running.store(Arc::new(text));
        self.count(|reloads| ReloadCounts {
            succeeded: reloads.succeeded + 1,
            last_succeeded: true,
            success,
            ..reloads
        });
    }

    /// Notes that a reload failed, and what ran before runs on. `text` is what it read, if it could
    /// read the file.
    pub(crate) fn reload_failed(&self, report: &Report, text: Option<&ConfigText>) {
        self.log_errors(report);
        // A cure may come in a file that only this text includes.
        let failed = text.iter().flat_map(|text| &text.files).cloned();
        self.watch(self.watched().iter().cloned().chain(failed));
        self.checked(report.count(Severity::Error), text);
        self.count(|reloads| ReloadCounts {
            failed: reloads.failed + 1,
            last_succeeded: false,
            ..reloads
        });
    }

    fn count(&self, change: impl Fn(ReloadCounts) -> ReloadCounts) {
        self.reloads.rcu(|reloads| change(**reloads));
    }

    /// The same as [`Self::check`], but a text that was read last is not checked again: false.
    pub(crate) fn check_unread(&self) -> bool {
        // Its texts are all that counts.
        let draft = lockgate_config::read_keys(&self.file, &[]).ok();
        let read = draft.as_ref().map(hash);
        let is_known = read.is_some() && read == self.last_check().hash;
        !is_known && self.check()
    }

    /// Checks the file as a start would, logs its mistakes, and keeps the result; returns whether it
    /// differs from the text that runs. Reads files: not for a thread that others wait for.
    pub(crate) fn check(&self) -> bool {
        let Examination { report, draft, .. } = examine(&self.file, Mode::Serving);
        let errors = report.count(Severity::Error);
        let text = draft.as_ref().map(ConfigText::of);
        let differs = self.differs(text.as_ref());
        let file = self.file.display();
        let last = self.last_check();
        let is_told =
            last.errors == errors && last.hash == text.as_ref().map(|text| text.hash.clone());
        match (errors, differs) {
            _ if is_told => {}
            (0, false) => {
                tracing::info!(%file, "the configuration file is the same as the running configuration")
            }
            (0, true) => {
                tracing::warn!(%file, "the configuration file differs from the running configuration: `lockgate reload` takes it over")
            }
            _ => self.log_errors(&report),
        }
        self.checked(errors, text.as_ref());
        differs
    }

    fn log_errors(&self, report: &Report) {
        let is_error = |found: &&Diagnostic| found.code().severity() == Severity::Error;
        report.iter().filter(is_error).take(LOGGED).for_each(log);
        tracing::error!(
            file = %self.file.display(),
            errors = report.count(Severity::Error),
            "the configuration file has mistakes, so the running configuration stays: `lockgate check` shows all of them"
        );
    }

    /// Keeps the result of a check.
    fn checked(&self, errors: usize, text: Option<&ConfigText>) {
        self.last_check.store(Arc::new(FileCheck {
            time: SystemTime::now(),
            errors,
            differs: self.differs(text),
            hash: text.map(|text| text.hash.clone()),
        }));
    }

    /// Whether the text is another one than that which runs, or cannot be read.
    fn differs(&self, text: Option<&ConfigText>) -> bool {
        text.is_none_or(|text| text.hash != self.running.load().hash)
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
                "the configuration file differs from the running configuration: `lockgate reload` takes it over"
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

/// Writes a mistake or a warning to the operator log.
pub(crate) fn log(found: &Diagnostic) {
    let code = found.code().id();
    let at = found.at().map(ToString::to_string);
    let (why, cure, message) = (found.why(), found.cure(), found.message());
    match found.code().severity() {
        Severity::Error => {
            tracing::error!(code, at, why, cure, "the configuration file: {message}")
        }
        Severity::Warning => {
            tracing::warn!(code, at, why, cure, "the configuration file: {message}")
        }
    }
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

    #[test]
    fn a_text_that_was_read_last_is_not_checked_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lockgate.toml");
        std::fs::write(&path, "workers = 1\n").unwrap();
        let draft = lockgate_config::read(&path).unwrap();
        let configuration = Configuration::new(&path, &draft);
        let first = configuration.last_check();
        assert!(!configuration.check_unread());
        assert!(Arc::ptr_eq(&configuration.last_check(), &first));
        std::fs::write(&path, "workers = 2\n").unwrap();
        assert!(configuration.check_unread());
        assert!(configuration.last_check().differs);
        assert!(!configuration.check_unread());
        std::fs::remove_file(&path).unwrap();
        assert!(configuration.check_unread());
    }

    #[test]
    fn a_reload_changes_what_runs_and_one_that_fails_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lockgate.toml");
        let draft = |text: &str| {
            std::fs::write(&path, text).unwrap();
            lockgate_config::read(&path).unwrap()
        };
        let configuration = Configuration::new(&path, &draft("workers = 1\n"));
        let first = configuration.running();
        assert_eq!(first.files.iter().collect::<Vec<_>>(), [&path]);
        let before = configuration.reloads();
        assert_eq!((before.succeeded, before.failed), (0, 0));
        assert!(before.last_succeeded && before.success == first.read);

        let broken = draft("workerz = 1\n");
        configuration.reload_failed(broken.report(), Some(&ConfigText::of(&broken)));
        configuration.reload_failed(broken.report(), None);
        let (failed, check) = (configuration.reloads(), configuration.last_check());
        assert_eq!((failed.succeeded, failed.failed), (0, 2));
        assert!(!failed.last_succeeded && failed.success == first.read);
        let errors = broken.report().count(Severity::Error);
        assert!(check.differs && check.errors == errors && check.time >= first.read);
        assert!(Arc::ptr_eq(&configuration.running(), &first));

        // What could not be started may be what runs.
        let same = ConfigText::of(&draft("workers = 1\n"));
        configuration.reload_failed(broken.report(), Some(&same));
        assert!(!configuration.last_check().differs);

        let second = ConfigText::of(&draft("workers = 2\n"));
        let (hash, read) = (second.hash.clone(), second.read);
        configuration.reloaded(second, true);
        let (after, check) = (configuration.reloads(), configuration.last_check());
        assert_eq!((after.succeeded, after.failed), (1, 3));
        assert!(after.last_succeeded && after.success >= read);
        assert!(!check.differs && check.errors == 0 && check.time == read);
        let running = configuration.running();
        assert!(running.hash == hash && running.hash != first.hash && running.read == read);
        assert_eq!(configuration.status(), None);
    }
}
