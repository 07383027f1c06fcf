//! Configurations of nginx, HAProxy, Caddy, Traefik and hitch, written anew as a file of Lockgate.
//!
//! Each statement of a source gets a [`Verdict`]: converted, the default, different, or not
//! supported. A statement that no code has understood is not supported: nothing is left out without
//! a word. [`SourceFiles`] reads the files, so that the crate itself does no IO.
//!
//! # Layout
//! One module for each format reads its syntax and writes a [`Draft`] and a [`ConversionReport`];
//! formats know nothing of each other.

#![forbid(unsafe_code)]

mod caddy;
mod certbot;
mod conversion_report;
mod draft;
mod field_names;
mod haproxy;
mod hitch;
mod nginx;
mod openssl_suites;
mod source_files;
mod traefik;

use std::path::PathBuf;

pub use conversion_report::{ConversionReport, ReportLine, StatementId, Verdict};
pub use draft::{Draft, DraftTable, DraftValue};
pub use source_files::{ImportError, Place, SourceFiles};

/// A server with a configuration that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// nginx: `nginx.conf` and what it includes.
    Nginx,
    /// HAProxy: `haproxy.cfg`; of several files each continues the one before.
    Haproxy,
    /// Caddy: a Caddyfile.
    Caddy,
    /// Traefik: static and dynamic files in YAML or TOML, and labels of a Compose file.
    Traefik,
    /// hitch: `hitch.conf`.
    Hitch,
}

/// A configuration that was read.
#[derive(Debug, Clone)]
pub struct Imported {
    /// The file of Lockgate.
    pub draft: Draft,
    /// The verdict of each statement, in the order of the source.
    pub report: ConversionReport,
}

/// Reads the configuration in `paths` and the files that it includes.
///
/// # Errors
/// A file of `paths` that cannot be read, or a syntax that is not that of the format. What is
/// valid there and has no counterpart here is in the report.
pub fn import(
    format: Format,
    paths: &[PathBuf],
    files: &dyn SourceFiles,
) -> Result<Imported, ImportError> {
    match format {
        Format::Nginx => nginx::import(paths, files),
        Format::Haproxy => haproxy::import(paths, files),
        Format::Caddy => caddy::import(paths, files),
        Format::Traefik => traefik::import(paths, files),
        Format::Hitch => hitch::import(paths, files),
    }
}
