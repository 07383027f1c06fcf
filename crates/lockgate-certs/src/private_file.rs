//! Files for the eyes of their owner alone, which are replaced as a whole or not at all.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

/// Writes a file (mode 0600), at once or not at all, also across a power cut. Its folder must exist.
///
/// The bytes are on the disk when this returns: it may take as long as the disk does.
///
/// # Errors
/// What the system says; the old file then stays.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut unfinished = OsString::from(path);
    unfinished.push(".new");
    let unfinished = Path::new(&unfinished);
    write_new(unfinished, bytes)?;
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

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
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
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

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
