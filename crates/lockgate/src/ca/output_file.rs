//! Files that a command writes for its user: certificates for everybody, keys for their owner.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use anyhow::{Context as _, bail};
use lockgate_certs::private_file;

use crate::cli::ca::Overwrite;

/// Writes a file that everybody may read (0644). One that has the same bytes already
/// is left as it is.
///
/// # Errors
/// A file that is there and may not be replaced; what the system says.
pub(super) fn write_public(file: &Path, bytes: &[u8], overwrite: Overwrite) -> anyhow::Result<()> {
    if fs::read(file).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    write(file, bytes, 0o644, overwrite)
}

/// Writes a file that only its owner may read (0600).
///
/// # Errors
/// As [`write_public`].
pub(super) fn write_private(file: &Path, bytes: &[u8], overwrite: Overwrite) -> anyhow::Result<()> {
    write(file, bytes, 0o600, overwrite)
}

/// Refuses a file that is there and may not be replaced.
///
/// # Errors
/// That it is there.
pub(super) fn check_free(file: &Path, overwrite: Overwrite) -> anyhow::Result<()> {
    match overwrite {
        Overwrite::Refuse if fs::symlink_metadata(file).is_ok() => refuse(file),
        _ => Ok(()),
    }
}

fn refuse(file: &Path) -> anyhow::Result<()> {
    bail!("{} is there already: --force replaces it", file.display())
}

fn write(file: &Path, bytes: &[u8], mode: u32, overwrite: Overwrite) -> anyhow::Result<()> {
    let written = match overwrite {
        Overwrite::Refuse => create(file, bytes, mode),
        Overwrite::Replace => replace(file, bytes, mode),
    };
    match written {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => refuse(file),
        written => written.with_context(|| file.display().to_string()),
    }
}

/// A link is not followed: what it leads to may belong to others.
fn create(file: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut created = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(file)?;
    created.write_all(bytes)?;
    created.sync_all()
}

fn replace(file: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    private_file::replace(file, bytes)?;
    fs::set_permissions(file, Permissions::from_mode(mode))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn mode(file: &Path) -> u32 {
        fs::metadata(file).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_file_that_is_there_is_replaced_only_by_force() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.key");
        write_private(&file, b"one", Overwrite::Refuse).unwrap();
        assert_eq!(mode(&file), 0o600);
        let error = write_private(&file, b"two", Overwrite::Refuse).unwrap_err();
        assert!(error.to_string().contains("--force"), "{error:#}");
        assert!(check_free(&file, Overwrite::Refuse).is_err());
        assert_eq!(fs::read(&file).unwrap(), b"one");
        check_free(&file, Overwrite::Replace).unwrap();
        write_private(&file, b"two", Overwrite::Replace).unwrap();
        assert_eq!(
            (fs::read(&file).unwrap(), mode(&file)),
            (b"two".to_vec(), 0o600)
        );
        let public = folder.path().join("a.crt");
        write_public(&public, b"one", Overwrite::Replace).unwrap();
        assert_eq!(mode(&public), 0o644);
        write_public(&public, b"one", Overwrite::Refuse).unwrap();
        assert!(write_public(&public, b"two", Overwrite::Refuse).is_err());
        let missing = folder.path().join("missing/a.crt");
        let error = write_public(&missing, b"", Overwrite::Refuse).unwrap_err();
        assert!(
            format!("{error:#}").contains("missing/a.crt: No such"),
            "{error:#}"
        );
    }

    #[test]
    fn a_link_is_never_written_through() {
        let folder = tempfile::tempdir().unwrap();
        let (victim, link) = (folder.path().join("victim"), folder.path().join("link"));
        fs::write(&victim, "precious").unwrap();
        symlink(&victim, &link).unwrap();
        assert!(write_private(&link, b"key", Overwrite::Refuse).is_err());
        write_private(&link, b"key", Overwrite::Replace).unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        assert_eq!(fs::read(&link).unwrap(), b"key");
        // Not even where it leads nowhere.
        symlink(
            folder.path().join("nothing"),
            folder.path().join("dangling"),
        )
        .unwrap();
        let dangling = folder.path().join("dangling");
        assert!(check_free(&dangling, Overwrite::Refuse).is_err());
        assert!(write_public(&dangling, b"cert", Overwrite::Refuse).is_err());
    }
}
