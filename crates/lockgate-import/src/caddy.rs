//! Caddyfiles.

use std::path::PathBuf;

use crate::{ConversionReport, Draft, ImportError, Imported, SourceFiles};

/// As [`crate::import`].
pub(crate) fn import(paths: &[PathBuf], files: &dyn SourceFiles) -> Result<Imported, ImportError> {
    for path in paths {
        files.read(path).map_err(|reason| ImportError::Unreadable {
            file: path.clone(),
            reason,
        })?;
    }
    Ok(Imported {
        draft: Draft::default(),
        report: ConversionReport::default(),
    })
}
