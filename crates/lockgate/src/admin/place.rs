//! The default places of the admin socket, for the server that makes it and the commands that look
//! for it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The name of the socket's file in each default place.
pub(crate) const FILE_NAME: &str = "admin.sock";

/// The folder for a service without a service manager that names one.
const SYSTEM: &str = "/run/lockgate";

/// The folders of this process's environment and of the system.
struct Places {
    unit: Option<PathBuf>,
    session: Option<PathBuf>,
}

/// The folders in which a start may make the socket, the first choice first. A service manager
/// that names a folder wants no other.
pub(crate) fn folders_to_make() -> Vec<PathBuf> {
    Places::of_process().makeable()
}

/// The folders in which a command looks for the socket, in that order.
fn folders_to_search() -> Vec<PathBuf> {
    Places::of_process().searchable()
}

/// The places of the socket of a running Lockgate: the configured one, or the default ones.
pub(crate) fn paths_to_search(configured: Option<&Path>) -> Vec<PathBuf> {
    match configured {
        Some(path) => vec![path.to_owned()],
        None => {
            let folders = folders_to_search().into_iter();
            folders.map(|folder| folder.join(FILE_NAME)).collect()
        }
    }
}

impl Places {
    /// systemd names the folder of a unit in `$RUNTIME_DIRECTORY` (systemd.exec(5)), a login
    /// session its own in `$XDG_RUNTIME_DIR`.
    fn of_process() -> Self {
        Self::of(
            std::env::var_os("RUNTIME_DIRECTORY"),
            std::env::var_os("XDG_RUNTIME_DIR"),
        )
    }

    fn of(unit: Option<OsString>, session: Option<OsString>) -> Self {
        // A unit may have several, separated by colons.
        let unit = unit.iter().flat_map(std::env::split_paths).next();
        let session = session.map(|folder| PathBuf::from(folder).join("lockgate"));
        Self {
            unit: unit.filter(|folder| folder.is_absolute()),
            session: session.filter(|folder| folder.is_absolute()),
        }
    }

    fn makeable(self) -> Vec<PathBuf> {
        match self.unit {
            Some(unit) => vec![unit],
            None => self.searchable(),
        }
    }

    fn searchable(self) -> Vec<PathBuf> {
        let system = PathBuf::from(SYSTEM);
        let all = self.unit.into_iter().chain([system]);
        all.chain(self.session).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_comes_before_the_system_and_the_session() {
        let places = |unit: Option<&str>, session: Option<&str>| {
            Places::of(unit.map(OsString::from), session.map(OsString::from))
        };
        let texts = |found: Vec<PathBuf>| {
            let text = |folder: &PathBuf| folder.display().to_string();
            found.iter().map(text).collect::<Vec<_>>()
        };
        for (unit, session, search) in [
            (None, None, &["/run/lockgate"][..]),
            (
                Some("/run/a:/run/b"),
                Some("/run/user/1"),
                &["/run/a", "/run/lockgate", "/run/user/1/lockgate"],
            ),
            // Neither of these is a folder to trust.
            (Some(""), Some("relative"), &["/run/lockgate"]),
        ] {
            assert_eq!(texts(places(unit, session).searchable()), search);
        }
        assert_eq!(
            texts(places(Some("/run/a"), Some("/b")).makeable()),
            ["/run/a"]
        );
        let session = places(None, Some("/run/user/1")).makeable();
        assert_eq!(texts(session), ["/run/lockgate", "/run/user/1/lockgate"]);
    }
}
