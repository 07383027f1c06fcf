//! A finding: what was looked at, what was found, and what to do.

use serde::Serialize;

/// A finding of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) group: Group,
    pub(super) level: Level,
    /// What was looked at: an address, a name, a file, a setting of the kernel.
    pub(super) what: String,
    /// What was found, with its figures.
    pub(super) found: String,
    /// What to do, in one sentence; empty where nothing is to be done.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) cure: String,
}

/// A group of findings, in the order in which they are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Group {
    Configuration,
    Ports,
    Names,
    Certificates,
    System,
    Disk,
    Limits,
}

/// How a finding matters, the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    Ok,
    /// Worth to know; nothing is wrong.
    Note,
    /// It works, and will fail or be slow some day.
    Warning,
    /// It does not work.
    Problem,
}

impl Group {
    /// Its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Configuration => "configuration",
            Self::Ports => "ports",
            Self::Names => "names",
            Self::Certificates => "certificates",
            Self::System => "system",
            Self::Disk => "disk",
            Self::Limits => "limits",
        }
    }

    /// A finding that asks for nothing.
    pub(super) fn ok(self, what: impl Into<String>, found: impl Into<String>) -> Finding {
        self.finding(Level::Ok, what, found, "")
    }

    /// A finding that is worth to know.
    pub(super) fn note(
        self,
        what: impl Into<String>,
        found: impl Into<String>,
        cure: impl Into<String>,
    ) -> Finding {
        self.finding(Level::Note, what, found, cure)
    }

    /// A finding that will fail or be slow some day.
    pub(super) fn warning(
        self,
        what: impl Into<String>,
        found: impl Into<String>,
        cure: impl Into<String>,
    ) -> Finding {
        self.finding(Level::Warning, what, found, cure)
    }

    /// A finding that does not work.
    pub(super) fn problem(
        self,
        what: impl Into<String>,
        found: impl Into<String>,
        cure: impl Into<String>,
    ) -> Finding {
        self.finding(Level::Problem, what, found, cure)
    }

    /// A finding of any level.
    pub(super) fn finding(
        self,
        level: Level,
        what: impl Into<String>,
        found: impl Into<String>,
        cure: impl Into<String>,
    ) -> Finding {
        Finding {
            group: self,
            level,
            what: what.into(),
            found: found.into(),
            cure: cure.into(),
        }
    }
}

impl Level {
    /// Its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}
