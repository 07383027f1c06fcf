//! Configurations of hitch: TLS in front of one backend, written as `[tcp]` relays.

mod relay;
mod syntax;

#[cfg(test)]
mod tests;

use std::path::PathBuf;

use crate::{ConversionReport, ImportError, Imported, SourceFiles};

/// As [`crate::import`].
pub(crate) fn import(paths: &[PathBuf], files: &dyn SourceFiles) -> Result<Imported, ImportError> {
    let mut report = ConversionReport::default();
    let mut options = Vec::new();
    for path in paths {
        let text = files.read(path).map_err(|reason| ImportError::Unreadable {
            file: path.clone(),
            reason,
        })?;
        options.extend(syntax::read(&text, path, &mut report)?);
    }
    let draft = relay::draft(&options, &mut report);
    Ok(Imported { draft, report })
}
