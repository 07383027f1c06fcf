//! The mistakes of an assembly, each reported once.

use std::fs::File;
use std::io;
use std::path::Path;

use lockgate_config::{Code, Report, SourceSpan};

use super::ReadAccess;

/// The mistakes that are found, and whether any of them forbids to start.
pub(super) struct MistakeLog<'a> {
    report: &'a mut Report,
    access: ReadAccess,
    failed: bool,
}

impl<'a> MistakeLog<'a> {
    pub(super) fn new(report: &'a mut Report, access: ReadAccess) -> Self {
        Self {
            report,
            access,
            failed: false,
        }
    }

    /// Whether a mistake was found that forbids to start.
    pub(super) fn failed(&self) -> bool {
        self.failed
    }

    pub(super) fn error(
        &mut self,
        code: Code,
        at: &SourceSpan,
        message: impl Into<String>,
        cure: &str,
    ) {
        self.failed = true;
        self.push(code, at, message.into(), "", cure);
    }

    /// A mistake of the file at `path`.
    pub(super) fn file(
        &mut self,
        path: &Path,
        code: Code,
        at: &SourceSpan,
        message: impl Into<String>,
        cure: &str,
    ) {
        let is_denied = |error: io::Error| error.kind() == io::ErrorKind::PermissionDenied;
        if self.access == ReadAccess::Less && File::open(path).is_err_and(is_denied) {
            self.failed = true;
            let cure = "run `check` as root, as the service starts";
            return self.push(
                Code::NotExamined,
                at,
                message.into(),
                "this user is not allowed to read it",
                cure,
            );
        }
        self.error(code, at, message, cure);
    }

    pub(super) fn warn(
        &mut self,
        code: Code,
        at: &SourceSpan,
        message: impl Into<String>,
        why: &str,
        cure: &str,
    ) {
        self.push(code, at, message.into(), why, cure);
    }

    /// Warns of a change by an operator that holds no longer.
    pub(super) fn ended(&mut self, change: &str, why: &str) {
        let message = format!("{change} while Lockgate ran, which holds no longer");
        self.report
            .push(Code::EndpointChangeEnded, message, why, "");
    }

    /// A mistake that two places of the configuration make together.
    pub(super) fn pair(
        &mut self,
        code: Code,
        at: &SourceSpan,
        texts: (&str, &str, &str),
        other: (&SourceSpan, &str),
    ) {
        self.failed = true;
        if !self.is_reported(code, at, texts.0) {
            self.report.push_pair(code, at, texts, other);
        }
    }

    fn push(&mut self, code: Code, at: &SourceSpan, message: String, why: &str, cure: &str) {
        if !self.is_reported(code, at, &message) {
            self.report.push_at(code, at, message, why, cure);
        }
    }

    /// Whether it was reported before: several listeners may share what is wrong.
    fn is_reported(&self, code: Code, at: &SourceSpan, message: &str) -> bool {
        let same = |other: &SourceSpan| other.start() == at.start();
        self.report.iter().any(|found| {
            found.code() == code && found.message() == message && found.at().is_some_and(same)
        })
    }
}
