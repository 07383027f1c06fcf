//! `lockgate cert`: the certificates that Lockgate obtains.

mod import;

use std::process::ExitCode;

use crate::admin_client;
use crate::cli::cert::CertOptions;

/// Carries the command out; the exit code is 1 where it has failed.
///
/// # Errors
/// When a Lockgate, a configuration or a folder is needed and is not there.
pub(crate) fn run(options: &CertOptions) -> anyhow::Result<ExitCode> {
    match options {
        CertOptions::Ask {
            socket,
            output,
            verb,
        } => admin_client::cert::run(socket, *output, verb),
        CertOptions::Import(options) => import::run(options),
    }
}
