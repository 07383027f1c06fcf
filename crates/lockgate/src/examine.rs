//! The examination of a configuration file and of all that a start needs: by `check`, by a start
//! with mistakes in its file, and on HUP.

use std::path::Path;

use lockgate_config::{ConfigDraft, Report, read};

use crate::assemble::Assembly;
use crate::start_steps::{self, Mode};

/// The result of an examination.
pub(crate) struct Examination {
    pub(crate) report: Report,
    /// The parsed file; `None` when it cannot be read.
    pub(crate) draft: Option<ConfigDraft>,
    /// The assembled configuration; `None` with a mistake.
    pub(crate) assembly: Option<Assembly>,
}

/// Examines the file, and the files, users and addresses that it names; see
/// [`start_steps::rehearse`].
pub(crate) fn examine(path: &Path, mode: Mode) -> Examination {
    let draft = match read(path) {
        Ok(draft) => draft,
        Err(report) => {
            return Examination {
                report,
                draft: None,
                assembly: None,
            };
        }
    };
    let (report, assembly) = examine_draft(&draft, mode);
    Examination {
        report,
        draft: Some(draft),
        assembly,
    }
}

/// Examines what a draft names, and adds its mistakes to those of the draft.
pub(crate) fn examine_draft(draft: &ConfigDraft, mode: Mode) -> (Report, Option<Assembly>) {
    let mut report = draft.report().clone();
    let mut found = Report::new();
    let assembly = start_steps::rehearse(draft.understood(), mode, &mut found);
    if report.has_errors() {
        // Where a part is missing, mistakes in how the rest fits together are not certain; those in
        // files, users and addresses are.
        found.retain(|code| code.is_of_machine());
    }
    report.append(found);
    let assembly = assembly.filter(|_| !report.has_errors());
    (report, assembly)
}
