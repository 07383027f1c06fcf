//! A configuration file and all that a start needs, looked at: by `check`, by a start whose file
//! has mistakes, and on HUP.

use std::path::Path;

use lockgate_config::{ConfigDraft, Report, read};

use crate::assemble::Assembly;
use crate::opening::{self, Mode};

/// What was found.
pub(crate) struct Examined {
    /// Every mistake and warning.
    pub(crate) report: Report,
    /// What was written; `None` when the file cannot be read.
    pub(crate) draft: Option<ConfigDraft>,
    /// What would run; `None` when something is wrong.
    pub(crate) assembly: Option<Assembly>,
}

/// Looks at the file, and at what it names as far as it can be understood; see
/// [`opening::rehearse`].
pub(crate) fn examine(path: &Path, mode: Mode) -> Examined {
    let draft = match read(path) {
        Ok(draft) => draft,
        Err(report) => {
            return Examined {
                report,
                draft: None,
                assembly: None,
            };
        }
    };
    let mut report = draft.report().clone();
    let mut found = Report::new();
    let assembly = opening::rehearse(draft.understood(), mode, &mut found);
    if report.has_errors() {
        // Where a part is missing, what the rest means together is not certain; files, users and
        // addresses are.
        found.retain(|code| code.is_of_machine());
    }
    report.append(found);
    let assembly = assembly.filter(|_| !report.has_errors());
    Examined {
        report,
        draft: Some(draft),
        assembly,
    }
}
