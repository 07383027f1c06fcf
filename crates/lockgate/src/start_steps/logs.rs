//! The access logs of a start: opened, or only tried.

use std::io;
use std::sync::Arc;

use lockgate_config::{AccessLog, Code, LogTarget, SourceSpan};

use super::StartSteps;
use crate::assemble::ReadAccess;
use crate::folders::parent;
use crate::log_writer::{self, LogDestination, LogWriter};

/// The writers of the access logs.
#[derive(Default)]
pub(crate) struct Logs {
    pub(crate) shared: Option<Arc<LogWriter>>,
    /// In the order of `Config::site_logs`.
    pub(crate) sites: Vec<Arc<LogWriter>>,
}

impl Logs {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<LogWriter>> {
        self.shared.iter().chain(&self.sites)
    }
}

impl StartSteps<'_> {
    /// Opens every access log; `None` where one cannot be opened, or they are only tried.
    pub(super) fn logs(&mut self) -> Option<Logs> {
        let config = &self.loaded.config;
        let shared = config
            .access_log
            .as_ref()
            .map(|log| self.log(log, self.loaded.at("access_log")));
        let sites: Vec<_> = config
            .site_logs
            .iter()
            .map(|(log, at)| self.log(log, Some(at)))
            .collect();
        let shared = match shared {
            Some(opened) => Some(opened?),
            None => None,
        };
        Some(Logs {
            shared,
            sites: sites.into_iter().collect::<Option<_>>()?,
        })
    }

    /// Opens one access log; `None` where it cannot be opened, or is only tried.
    fn log(&mut self, log: &AccessLog, at: Option<&SourceSpan>) -> Option<Arc<LogWriter>> {
        let target = match &log.to {
            LogTarget::Stdout => LogDestination::Stdout,
            LogTarget::Stderr => LogDestination::Stderr,
            LogTarget::File(path) => LogDestination::File {
                path: path.clone(),
                rotation: log.rotate.map(|rotate| log_writer::LogRotation {
                    size: rotate.size,
                    keep: rotate.keep,
                }),
            },
        };
        if let Some(known) = self.open_log(&target) {
            return Some(known);
        }
        let opened = match self.is_real() {
            true => LogWriter::start(target).map(|log| Some(Arc::new(log))),
            false => log_writer::try_open(&target).map(|()| None),
        };
        match opened {
            Ok(opened) => opened,
            // The user of the start may be able to open it, if it exists.
            Err(error)
                if self.access == ReadAccess::Less && error.kind() != io::ErrorKind::NotFound =>
            {
                None
            }
            Err(error) => {
                self.failed = true;
                let (message, cure) = (
                    format!("{}: {error}", log.to),
                    self.log_cure(&log.to, &error),
                );
                match at {
                    Some(at) => self
                        .report
                        .push_at(Code::LogUnwritable, at, message, "", cure),
                    None => self.report.push(Code::LogUnwritable, message, "", cure),
                }
                None
            }
        }
    }

    fn log_cure(&self, to: &LogTarget, error: &io::Error) -> String {
        let LogTarget::File(path) = to else {
            return String::new();
        };
        let folder = parent(path).display();
        let user = self.loaded.config.user.as_deref();
        let owner = user.map(|user| format!("chown {user} {folder}"));
        match (error.kind(), owner) {
            (io::ErrorKind::NotFound, None) => format!("make the folder: mkdir -p {folder}"),
            (io::ErrorKind::NotFound, Some(owner)) => {
                format!("make the folder, for `user` to write to: mkdir -p {folder} && {owner}")
            }
            (io::ErrorKind::PermissionDenied, Some(owner)) => {
                format!(
                    "`user` must be able to write to the folder, and to the file if it is there: {owner}"
                )
            }
            (io::ErrorKind::PermissionDenied, None) => {
                format!("the user that runs Lockgate must be able to write to {folder}")
            }
            _ => String::new(),
        }
    }
}
