//! `lockgate ca`: the internal authority in the folder of `state`, without a running Lockgate.
//!
//! What the authority is and issues, `lockgate_certs::authority` says.

mod browsers;
mod issue;
mod output_file;
mod show;
mod state_folder;
mod system_trust;
mod trust;

use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::{Context as _, anyhow};
use lockgate_certs::authority::{Authority, AuthorityError, AuthorityOrigin};

use crate::cli::ca::{CaOptions, CaVerb, CertFormat, ExportOptions, StateChoice};
use crate::print::out;
use crate::state;
use state_folder::StateFolder;

/// Does what was asked for.
///
/// # Errors
/// When there is no folder or no permission, or the authority cannot do it.
pub(crate) fn run(options: &CaOptions) -> anyhow::Result<ExitCode> {
    match &options.verb {
        CaVerb::Show(output) => show::run(&StateFolder::find(&options.state)?, *output),
        CaVerb::Export(export) => run_export(&options.state, export),
        CaVerb::Issue(request) => issue::run(&open(&options.state)?, request),
        CaVerb::Trust => {
            trust::check_rights()?;
            trust::install(open(&options.state)?.root())
        }
        CaVerb::Distrust => {
            trust::check_rights()?;
            let folder = StateFolder::find(&options.state)?;
            trust::uninstall(&folder.root()?)
        }
    }
}

fn run_export(state: &StateChoice, options: &ExportOptions) -> anyhow::Result<ExitCode> {
    let authority = open(state)?;
    let root = authority.root();
    let bytes = match options.format {
        CertFormat::Pem => root.pem().into_bytes(),
        CertFormat::Der => root.der().to_vec(),
    };
    match &options.file {
        Some(file) => {
            output_file::write_public(file, &bytes, options.overwrite)?;
            out!("{}: {}", file.display(), root.subject());
            out!("SHA-256 {}", root.sha256());
        }
        None => match io::stdout().write_all(&bytes) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error.into()),
            _ => {}
        },
    }
    Ok(ExitCode::SUCCESS)
}

/// Opens the authority, makes it if it is not there, and renews its intermediate certificate if that
/// is due. Says so on standard error.
fn open(choice: &StateChoice) -> anyhow::Result<Authority> {
    let folder = StateFolder::find(choice)?;
    let made = state::prepare(&folder.state, folder.owner);
    made.with_context(|| format!("{}: the folder cannot be made", folder.state.display()))?;
    let now = SystemTime::now();
    let opened = Authority::open_or_create(&folder.authority(), now);
    let mut authority = opened.map_err(|error| refused(error, &folder.state))?;
    let at = folder.authority();
    match authority.origin() {
        AuthorityOrigin::Found => {}
        AuthorityOrigin::NewIntermediate => {
            eprintln!(
                "a new intermediate certificate was made in {}",
                at.display()
            );
        }
        AuthorityOrigin::NewRoot => {
            let root = authority.root().subject();
            eprintln!("a new authority was made in {}: {root}", at.display());
        }
    }
    // The old one goes on until its end.
    if let Err(error) = authority.renew(now) {
        eprintln!("warning: the intermediate certificate is not renewed: {error}");
    }
    Ok(authority)
}

/// The error, with the cure where rights are missing.
fn refused(error: AuthorityError, state: &Path) -> anyhow::Error {
    match error.is_permission_denied() {
        true => anyhow!(
            "{error}: run this as root (sudo) or as the user of Lockgate, to whom {} belongs",
            state.display()
        ),
        false => error.into(),
    }
}
