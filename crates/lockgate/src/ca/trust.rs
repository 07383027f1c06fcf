//! `lockgate ca trust`: this machine trusts the root certificate, or no longer does.

use std::process::ExitCode;

use anyhow::ensure;
use lockgate_certs::authority::CaCert;

use super::browsers::{BrowserDatabases, BrowserResult};
use super::system_trust::SystemTrust;
use crate::print::out;
use crate::printable::printable;

/// Refuses a process that could change only a part.
///
/// # Errors
/// When this process is not root.
pub(super) fn check_rights() -> anyhow::Result<()> {
    ensure!(
        nix::unistd::geteuid().is_root(),
        "the trust store of this system belongs to root: run this by sudo"
    );
    Ok(())
}

/// Adds the certificate to the trust store of the system, and to the databases of browsers.
///
/// # Errors
/// When the system has no trust store of a known kind, or a step fails.
pub(super) fn install(root: &CaCert) -> anyhow::Result<ExitCode> {
    let system = SystemTrust::find()?;
    out!("{}", printable(root.subject()));
    out!("SHA-256 {}", root.sha256());
    system.add(root)?;
    let browsers = BrowserDatabases::find().add(root);
    out!("programs of this machine that are started now trust certificates of this authority");
    Ok(exit_code(browsers))
}

/// Takes the certificate out again, wherever it is.
///
/// # Errors
/// As [`install`].
pub(super) fn uninstall(root: &CaCert) -> anyhow::Result<ExitCode> {
    let system = SystemTrust::find()?;
    out!("{}", printable(root.subject()));
    system.remove(root)?;
    Ok(exit_code(BrowserDatabases::find().remove(root)))
}

fn exit_code(browsers: BrowserResult) -> ExitCode {
    match browsers {
        BrowserResult::Done => ExitCode::SUCCESS,
        BrowserResult::Failed => ExitCode::FAILURE,
    }
}
