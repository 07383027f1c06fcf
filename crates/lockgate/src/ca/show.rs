//! `lockgate ca show`: what is in the folder of the authority. Makes and renews nothing.

use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use lockgate_certs::authority::{AuthorityFolder, CaCert};
use serde_json::{Value, json};

use super::refused;
use super::state_folder::StateFolder;
use crate::cli::PrintFormat;
use crate::print::out;
use crate::printable::printable;
use crate::views::timestamp;

/// The time before the end of the root in which it is warned of: clients must trust another one by then.
const ROOT_NOTICE: Duration = Duration::from_secs(366 * 86_400);

/// Prints the certificates of the authority.
///
/// # Errors
/// When there is none, or no permission.
pub(super) fn run(folder: &StateFolder, output: PrintFormat) -> anyhow::Result<ExitCode> {
    let root = folder.root()?;
    let files = AuthorityFolder::at(&folder.authority());
    let found = files.intermediate(&root);
    let intermediate = found.map_err(|error| refused(error, &folder.state))?;
    match output {
        PrintFormat::Json => out!("{:#}", to_json(&files, &root, intermediate.as_ref())),
        PrintFormat::Text => print(&files, &root, intermediate.as_ref()),
    }
    Ok(ExitCode::SUCCESS)
}

fn print(files: &AuthorityFolder, root: &CaCert, intermediate: Option<&CaCert>) {
    out!("folder        {}", files.path().display());
    out!("root          {}", printable(root.subject()));
    out!("  SHA-256     {}", root.sha256());
    out!("  valid       {}", validity(root));
    out!("  file        {}", files.root_file().display());
    if !files.root_key_file().exists() {
        out!("  key         not in the folder: the next intermediate certificate needs it");
    }
    match intermediate {
        Some(intermediate) => {
            out!("intermediate  {}", printable(intermediate.subject()));
            out!("  SHA-256     {}", intermediate.sha256());
            out!("  valid       {}", validity(intermediate));
            let renewed = intermediate.period().renew_at();
            if intermediate.period().not_after < root.period().not_after {
                out!("  renewed     from {}", timestamp(renewed));
            }
        }
        None => out!("intermediate  none that can be used: the next start makes one"),
    }
    let end = root.period().not_after;
    if SystemTime::now() + ROOT_NOTICE > end {
        let files = files.path().display();
        eprintln!(
            "warning: the root ends on {}: before that, move {files} away for a new authority, and have clients trust that",
            timestamp(end)
        );
    }
}

fn validity(cert: &CaCert) -> String {
    let period = cert.period();
    let (from, to) = (timestamp(period.not_before), timestamp(period.not_after));
    let state = match (period.contains(SystemTime::now()), SystemTime::now()) {
        (true, _) => "",
        (false, now) if now < period.not_before => " (not yet)",
        (false, _) => " (expired)",
    };
    format!("{from} to {to}{state}")
}

fn to_json(files: &AuthorityFolder, root: &CaCert, intermediate: Option<&CaCert>) -> Value {
    json!({
        "folder": files.path(),
        "root": facts(root, json!({
            "file": files.root_file(),
            "has_key": files.root_key_file().exists(),
        })),
        "intermediate": intermediate.map(|intermediate| {
            facts(intermediate, json!({
                "file": files.intermediate_file(),
                "renew_at": timestamp(intermediate.period().renew_at()),
            }))
        }),
    })
}

/// What both certificates have, and `more`.
fn facts(cert: &CaCert, mut more: Value) -> Value {
    let period = cert.period();
    more["subject"] = cert.subject().into();
    more["sha256"] = cert.sha256().into();
    more["not_before"] = timestamp(period.not_before).into();
    more["not_after"] = timestamp(period.not_after).into();
    more
}
