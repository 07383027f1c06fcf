//! Caddyfiles.
//!
//! [`blocks`] reads sites and snippets. [`sites`] divides the paths of a site into places, of which
//! [`evaluate`] works out what becomes of their requests, in the order in which Caddy runs
//! directives; [`emit`] writes the tables.

mod access;
mod addresses;
mod blocks;
mod certificates;
mod directives;
mod emit;
mod evaluate;
mod fields;
mod files;
#[cfg(test)]
mod hostile_tests;
mod listen;
mod log;
mod matchers;
#[cfg(test)]
mod more_tests;
mod options;
mod order;
mod outcome;
mod paths;
mod places;
mod pool_keys;
mod proxy;
mod sites;
#[cfg(test)]
mod tests;
mod tests_of;
mod texts;
mod tokens;
mod transport;

use std::path::{Path, PathBuf};

use self::blocks::{CaddyReader, CaddySource};
use self::sites::CaddySites;
use crate::{ConversionReport, ImportError, Imported, Place, SourceFiles};

/// As [`crate::import`].
pub(crate) fn import(paths: &[PathBuf], files: &dyn SourceFiles) -> Result<Imported, ImportError> {
    let mut report = ConversionReport::default();
    let mut source = CaddySource::default();
    let mut reader = CaddyReader::new(files, &mut report);
    for path in paths {
        refuse_json(path, files)?;
        reader.read(path, &mut source)?;
    }
    reader.finish();
    let mut sites = CaddySites::new(&mut report);
    let mut top = std::mem::take(&mut sites.draft.top);
    sites.options.read(&source.options, &mut top, sites.report);
    sites.draft.top = top;
    for site in &source.sites {
        sites.site(site);
    }
    sites.finish();
    let draft = finish(sites);
    Ok(Imported { draft, report })
}

/// Caddy's own form is JSON, of which no statement is read.
fn refuse_json(path: &Path, files: &dyn SourceFiles) -> Result<(), ImportError> {
    let Ok(text) = files.read(path) else {
        return Ok(()); // The reader says why.
    };
    let inner = text.trim_start().strip_prefix('{').map(str::trim_start);
    if !inner.is_some_and(|inner| inner.starts_with('"')) {
        return Ok(());
    }
    Err(ImportError::Syntax {
        place: Place {
            file: path.into(),
            line: 1,
        },
        reason: "this is Caddy's JSON, of which nothing is read, apps such as layer4 included: import the Caddyfile".to_owned(),
    })
}

fn finish(sites: CaddySites<'_>) -> crate::Draft {
    let mut draft = sites.draft;
    if sites.has_proxy {
        draft.preface.push(
            "An application has 60 s to begin its response; timeouts.response = \"off\" waits \
             as long as Caddy."
                .to_owned(),
        );
    }
    if sites.has_files {
        draft.preface.push(
            "Files with names that begin with a dot are not served, nor links that lead out of a \
             root: hidden = true and symlinks = \"follow\" serve them, as Caddy does."
                .to_owned(),
        );
    }
    if sites.has_letter {
        draft.preface.push(
            "Paths of routes are compared as they are written; Caddy compares them in any case."
                .to_owned(),
        );
    }
    if sites.has_tls && !sites.options.without_http3 {
        draft
            .preface
            .push("Clients get HTTP/2 and HTTP/1.1, not HTTP/3.".to_owned());
    }
    if sites.has_default_log {
        draft
            .preface
            .push("Every request is logged on stdout: access_log = false logs none.".to_owned());
    }
    let site = draft.top.remove_table("site");
    if sites.needs_acme || !sites.options.acme.is_empty() {
        let acme = draft.top.table("acme");
        for (key, value) in sites.options.acme {
            acme.set(&key, value);
        }
    }
    sites.pools.write(&mut draft.top);
    if let Some(site) = site {
        draft.top.append_table("site", site);
    }
    sites.tests.write(&mut draft);
    draft
}
