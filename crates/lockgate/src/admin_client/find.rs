//! The admin socket of a running Lockgate: by its path, its configuration file, or the default
//! places.

use std::path::{Path, PathBuf};

use anyhow::bail;
use lockgate_config::AdminSocket;

use crate::admin::paths_to_search;
use crate::cli::admin::SocketChoice;

/// What a configuration file says of its admin socket.
enum Configured {
    /// Nothing, or it cannot be read.
    Unknown,
    Off,
    On(AdminSocket),
}

/// The path of the socket.
///
/// # Errors
/// When there is none.
pub(crate) fn find(choice: &SocketChoice) -> anyhow::Result<PathBuf> {
    let (file, configured) = match choice {
        SocketChoice::At(path) => return Ok(path.clone()),
        SocketChoice::Configured(file) if !file.exists() => {
            bail!("{} does not exist", file.display())
        }
        SocketChoice::Configured(file) | SocketChoice::Default(file) => (file, read(file)),
    };
    match configured {
        Configured::On(AdminSocket { at: Some(path), .. }) => Ok(path),
        Configured::Off => bail!(
            "{} has no admin socket: remove admin = false, and restart",
            file.display()
        ),
        Configured::On(_) | Configured::Unknown => in_default_place(),
    }
}

/// Mistakes elsewhere in the file do not matter: a reload must find the socket to report them.
fn read(file: &Path) -> Configured {
    match lockgate_config::read_keys(file, &["admin"]) {
        Ok(draft) => match draft.understood().config.admin.clone() {
            Some(socket) => Configured::On(socket),
            None => Configured::Off,
        },
        Err(_) => Configured::Unknown,
    }
}

/// The first default place with a socket.
fn in_default_place() -> anyhow::Result<PathBuf> {
    let places = paths_to_search(None);
    // A folder that this user may not look into may have it.
    let is_there = |path: &&PathBuf| path.try_exists().unwrap_or(true);
    if let Some(found) = places.iter().find(is_there) {
        return Ok(found.clone());
    }
    let looked: Vec<_> = places
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    bail!(
        "there is no admin socket (looked at {}): Lockgate does not run, or has its socket elsewhere (-c or --admin names it)",
        looked.join(", ")
    )
}
