//! The default places of the admin socket, for the server that makes it and the commands that look
//! for it.

use std::ffi::OsString;
use std::path::PathBuf;

/// The name of the socket's file in each default place.
pub(crate) const FILE_NAME: &str = "admin.sock";

/// The folder for a service without a service manager that names one.
const SYSTEM: &str = "/run/lockgate";

/// The folders in which the socket may be, the first choice first.
///
/// systemd names the folder of a unit in `$RUNTIME_DIRECTORY` (systemd.exec(5)), a login session
/// its own in `$XDG_RUNTIME_DIR`.
pub(crate) fn default_places() -> Vec<PathBuf> {
    places(
        std::env::var_os("RUNTIME_DIRECTORY"),
        std::env::var_os("XDG_RUNTIME_DIR"),
    )
}

fn places(unit: Option<OsString>, session: Option<OsString>) -> Vec<PathBuf> {
    // A unit may have several, separated by colons.
    let unit = unit.iter().flat_map(std::env::split_paths).next();
    let session = session.map(|folder| PathBuf::from(folder).join("lockgate"));
    let is_absolute = |folder: &PathBuf| folder.is_absolute();
    unit.into_iter()
        .chain([PathBuf::from(SYSTEM)])
        .chain(session)
        .filter(is_absolute)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_comes_before_the_system_and_the_session() {
        let found = |unit: Option<&str>, session: Option<&str>| {
            let text = |folder: PathBuf| folder.display().to_string();
            let found = places(unit.map(OsString::from), session.map(OsString::from));
            found.into_iter().map(text).collect::<Vec<_>>()
        };
        assert_eq!(found(None, None), ["/run/lockgate"]);
        assert_eq!(
            found(Some("/run/a:/run/b"), Some("/run/user/1")),
            ["/run/a", "/run/lockgate", "/run/user/1/lockgate"]
        );
        // Neither of these is a folder to trust.
        assert_eq!(found(Some(""), Some("relative")), ["/run/lockgate"]);
    }
}
