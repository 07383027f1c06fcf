//! Files for the eyes of their owner alone, which are replaced as a whole or not at all.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::process::geteuid;

/// Writes a file (mode 0600), at once or not at all, also across a power cut. Its folder must exist.
///
/// The bytes are on the disk when this returns: it may take as long as the disk does.
///
/// # Errors
/// What the system says; the old file then stays.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_as(path, bytes, None)
}

/// The same as [`replace`], but what root writes gets the owner of its folder: a service without root
/// must be able to read it.
///
/// # Errors
/// What the system says; the old file then stays.
pub fn replace_for_folder_owner(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let owner = path.parent().map(owner_of_new_files).transpose()?;
    replace_as(path, bytes, owner.flatten())
}

/// The user and group that files in `folder` are to be given to; `None` leaves them to this process,
/// which only root need not do.
///
/// # Errors
/// What the system says of the folder.
pub(crate) fn owner_of_new_files(folder: &Path) -> io::Result<Option<(u32, u32)>> {
    let owner = fs::metadata(folder)?;
    let is_given = geteuid().is_root() && owner.uid() != 0;
    Ok(is_given.then(|| (owner.uid(), owner.gid())))
}

fn replace_as(path: &Path, bytes: &[u8], owner: Option<(u32, u32)>) -> io::Result<()> {
    let mut unfinished = OsString::from(path);
    unfinished.push(".new");
    let unfinished = Path::new(&unfinished);
    write_new(unfinished, bytes, owner)?;
    fs::rename(unfinished, path)?;
    sync_folder(path)
}

/// Removes a file; one that is missing is no error.
///
/// # Errors
/// What the system says.
pub fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(()) => sync_folder(path),
    }
}

/// Reads a file of up to `most` bytes; nothing where it is missing. Neither a link nor a pipe is
/// followed: the folder may belong to another user than the reader.
///
/// # Errors
/// What the system says of a file that exists; one that is no regular file, or too large.
pub fn read(path: &Path, most: u64) -> io::Result<Option<Vec<u8>>> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let opened = File::options().read(true).custom_flags(flags).open(path);
    let file = match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(Some(bytes))
}

/// A rename or removal is durable only once the folder is.
fn sync_folder(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

fn write_new(path: &Path, bytes: &[u8], owner: Option<(u32, u32)>) -> io::Result<()> {
    // Left behind by a crash; `create_new` then neither follows a link nor keeps another mode.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    if let Some((user, group)) = owner {
        fchown(&file, Some(user), Some(group))?;
    }
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    #[test]
    fn a_private_file_is_replaced_whole_and_readable_by_its_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key.pem");
        assert_eq!(read(&path, 10).unwrap(), None);
        replace(&path, b"one").unwrap();
        replace(&path, b"two").unwrap();
        assert_eq!(read(&path, 10).unwrap().as_deref(), Some(&b"two"[..]));
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        remove(&path).unwrap();
        remove(&path).unwrap();
        assert_eq!(read(&path, 10).unwrap(), None);
    }

    #[test]
    fn what_root_writes_can_have_the_owner_of_its_folder() {
        if !geteuid().is_root() {
            return println!("skipped: only root can give files away");
        }
        let dir = tempfile::tempdir().unwrap();
        chown(dir.path(), Some(65_534), Some(65_534)).unwrap();
        let owner = |name: &str| {
            let found = fs::metadata(dir.path().join(name)).unwrap();
            (found.uid(), found.gid(), found.mode() & 0o777)
        };
        replace(&dir.path().join("own"), b"key").unwrap();
        replace_for_folder_owner(&dir.path().join("given"), b"key").unwrap();
        assert_eq!(owner("own"), (0, 0, 0o600));
        assert_eq!(owner("given"), (65_534, 65_534, 0o600));
    }

    #[test]
    fn a_link_left_behind_is_neither_followed_nor_kept() {
        let dir = tempfile::tempdir().unwrap();
        let victim = dir.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        let path = dir.path().join("key.pem");
        symlink(&victim, dir.path().join("key.pem.new")).unwrap();
        replace(&path, b"key").unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        let link = dir.path().join("link");
        symlink(&victim, &link).unwrap();
        assert!(read(&link, 100).is_err());
    }

    #[test]
    fn a_private_file_that_is_too_large_or_no_file_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("large");
        replace(&path, b"12345").unwrap();
        assert!(read(&path, 5).is_ok());
        let error = read(&path, 4).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert!(read(dir.path(), 4).is_err());
    }
}
