//! The first step of a reload, in a thread: a configuration is read, and assembled beside the one
//! that runs.

use std::io;
use std::path::Path;
use std::sync::Arc;

use lockgate_config::{Code, LoadedConfig, Report};

use crate::assemble::{self, Assembly, BackgroundWork, Previous, ReadAccess};
use crate::configuration::ConfigText;
use crate::endpoint_changes::EndpointChanges;
use crate::examine::examine_draft;
use crate::start_steps::Mode;

/// Why a configuration is not taken over.
pub(super) struct FailedReload {
    pub(super) report: Report,
    /// The text, as far as it was read.
    pub(super) text: Option<ConfigText>,
}

/// A configuration that was read and assembled.
pub(super) struct AssembledConfig {
    pub(super) loaded: Arc<LoadedConfig>,
    /// The text that it was read from, unless it ran before.
    pub(super) text: Option<ConfigText>,
    pub(super) assembly: Assembly,
    pub(super) report: Report,
}

impl AssembledConfig {
    pub(super) fn fail(self) -> FailedReload {
        FailedReload {
            report: self.report,
            text: self.text,
        }
    }

    pub(super) fn fail_with(mut self, error: &io::Error) -> FailedReload {
        let message = format!("the system has no room for this configuration: {error}");
        let cure = "raise the limit of open descriptors, or restart";
        self.report.push(Code::NoRoom, message, "", cure);
        self.fail()
    }
}

/// Reads the file at `path`, or `text` instead of it, and assembles everything of it, with `changes`
/// on top. Takes its time: not for a thread that others wait for.
pub(super) fn read(
    path: &Path,
    text: Option<&str>,
    (running, changes): (&Assembly, EndpointChanges),
    background: BackgroundWork,
) -> Result<AssembledConfig, FailedReload> {
    let failed = |report, text| FailedReload { report, text };
    let draft = match text {
        Some(text) => lockgate_config::read_text(text, path),
        None => lockgate_config::read(path).map_err(|report| failed(report, None))?,
    };
    let text = ConfigText::of(&draft);
    if draft.report().has_errors() {
        // The other mistakes that would stop it are reported with those in the file.
        let report = examine_draft(&draft, Mode::Serving).0;
        return Err(failed(report, Some(text)));
    }
    let loaded = match draft.finish() {
        Ok(loaded) => loaded,
        Err(report) => return Err(failed(report, Some(text))),
    };
    let report = loaded.warnings.clone();
    assemble_beside(
        (Arc::new(loaded), Some(text), report),
        (running, changes),
        background,
    )
}

/// Assembles a configuration, with `changes` on top of it, beside the one that runs.
pub(super) fn assemble_beside(
    (loaded, text, mut report): (Arc<LoadedConfig>, Option<ConfigText>, Report),
    (running, changes): (&Assembly, EndpointChanges),
    background: BackgroundWork,
) -> Result<AssembledConfig, FailedReload> {
    let previous = Previous {
        assembly: Some(running),
        background,
        changes,
    };
    let access = ReadAccess::AsStart;
    match assemble::assemble(&loaded.config, access, previous, &mut report) {
        Some(assembly) => Ok(AssembledConfig {
            loaded,
            text,
            assembly,
            report,
        }),
        None => Err(FailedReload { report, text }),
    }
}
