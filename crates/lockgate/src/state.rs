//! The state directory: the last configuration that a start succeeded with, and run-time changes that
//! were to be kept.
//!
//! Does not decide whether a configuration is good.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use lockgate_certs::private_file;

use crate::folders::writable;

const LAST_GOOD: &str = "last-good.toml";
/// What operators have set while the process ran.
const CHANGES: &str = "admin.json";
/// The largest file of these, in bytes: some ten thousand changes.
const LARGEST_CHANGES: u64 = 4 << 20;

/// Makes `dir` (0700) and its parents if they are missing, owned by `owner` (user and group id) if
/// one is given: a process that gives up root later could not make it then, nor write to one that
/// belongs to root.
///
/// An existing directory is left as it is.
///
/// # Errors
/// What the system says.
pub(crate) fn prepare(dir: &Path, owner: Option<(u32, u32)>) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    if let Some(parent) = dir.parent() {
        fs::create_dir_all(parent)?;
    }
    DirBuilder::new().mode(0o700).create(dir)?;
    match owner {
        Some((user, group)) => std::os::unix::fs::chown(dir, Some(user), Some(group)),
        None => Ok(()),
    }
}

/// Whether [`prepare`] would succeed; makes nothing.
///
/// # Errors
/// What `prepare` would fail with.
pub(crate) fn try_prepare(dir: &Path) -> io::Result<()> {
    match fs::metadata(dir) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(io::ErrorKind::NotADirectory.into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => match dir.parent() {
            // The first one that is there is where the others are made.
            Some(parent) if fs::symlink_metadata(parent).is_ok() => {
                try_prepare(parent)?;
                writable(parent)
            }
            Some(parent) => try_prepare(parent),
            None => Err(error),
        },
        Err(error) => Err(error),
    }
}

/// Keeps `toml` as the last good configuration in `dir`, which is made if it is missing.
///
/// # Errors
/// What the system says; the old file then stays.
pub(crate) fn keep_last_good(dir: &Path, toml: &str) -> io::Result<()> {
    keep(dir, LAST_GOOD, toml)
}

/// Keeps run-time changes in `dir`, which is made if it is missing.
///
/// # Errors
/// What the system says; the old file then stays.
pub(crate) fn keep_changes(dir: &Path, json: &str) -> io::Result<()> {
    keep(dir, CHANGES, json)
}

/// The run-time changes in `dir`, if any were ever kept there.
///
/// # Errors
/// What the system says of a file that exists.
pub(crate) fn changes(dir: &Path) -> io::Result<Option<String>> {
    if_any(fs::read_to_string(dir.join(CHANGES)))
}

/// The same for a start, which reads as root from a folder that may belong to another user: neither a
/// link nor a pipe there is followed.
///
/// # Errors
/// What the system says of a file that exists; one that is no file, no text, or too large.
pub(crate) fn changes_at_start(dir: &Path) -> io::Result<Option<String>> {
    let read = private_file::read(&dir.join(CHANGES), LARGEST_CHANGES)?;
    let text = read.map(String::from_utf8).transpose();
    text.map_err(|_| io::ErrorKind::InvalidData.into())
}

/// What was read of a file that may be missing.
fn if_any<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Keeps a text as a file of `dir`.
///
/// The file is 0600 (it may quote secrets) and replaced at once or not at all, also across a power
/// cut; it is not touched when it says the same already.
///
/// # Errors
/// What the system says; the old file then stays.
fn keep(dir: &Path, name: &str, text: &str) -> io::Result<()> {
    prepare(dir, None)?;
    let kept = dir.join(name);
    if fs::read(&kept).is_ok_and(|old| old == text.as_bytes()) {
        return Ok(());
    }
    private_file::replace(&kept, text.as_bytes())
}

/// The file of the last good configuration in `dir`, if one was ever kept there.
pub(crate) fn last_good(dir: &Path) -> Option<PathBuf> {
    let kept = dir.join(LAST_GOOD);
    kept.is_file().then_some(kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::{MetadataExt as _, symlink};

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn a_missing_directory_is_made_for_us_alone() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("lib/lockgate");
        assert_eq!(last_good(&dir), None);
        keep_last_good(&dir, "workers = 1\n").unwrap();
        let kept = last_good(&dir).unwrap();
        assert_eq!(fs::read_to_string(&kept).unwrap(), "workers = 1\n");
        assert_eq!(mode(&dir), 0o700);
        assert_eq!(mode(&kept), 0o600);
        assert_eq!(
            fs::read_dir(&dir).unwrap().count(),
            1,
            "no unfinished file stays"
        );
    }

    #[test]
    fn the_same_text_does_not_touch_the_file_and_another_replaces_it() {
        let dir = tempfile::tempdir().unwrap();
        keep_last_good(dir.path(), "a = 1\n").unwrap();
        let kept = last_good(dir.path()).unwrap();
        let inode = fs::metadata(&kept).unwrap().ino();
        keep_last_good(dir.path(), "a = 1\n").unwrap();
        assert_eq!(fs::metadata(&kept).unwrap().ino(), inode);
        keep_last_good(dir.path(), "a = 2\n").unwrap();
        assert_ne!(fs::metadata(&kept).unwrap().ino(), inode);
        assert_eq!(fs::read_to_string(&kept).unwrap(), "a = 2\n");
    }

    #[test]
    fn what_a_crash_left_behind_is_neither_followed_nor_kept() {
        let dir = tempfile::tempdir().unwrap();
        let victim = dir.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        symlink(&victim, dir.path().join("last-good.toml.new")).unwrap();
        keep_last_good(dir.path(), "a = 1\n").unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        assert_eq!(
            fs::read_to_string(last_good(dir.path()).unwrap()).unwrap(),
            "a = 1\n"
        );
    }

    #[test]
    fn a_directory_that_is_a_file_is_an_error_and_has_no_last_good() {
        let parent = tempfile::tempdir().unwrap();
        let file = parent.path().join("state");
        fs::write(&file, "").unwrap();
        assert!(keep_last_good(&file, "a = 1\n").is_err());
        assert_eq!(last_good(&file), None);
    }

    #[test]
    fn a_start_reads_changes_from_a_small_regular_file_only() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(changes_at_start(dir.path()).unwrap(), None);
        keep_changes(dir.path(), "{}\n").unwrap();
        assert_eq!(
            changes_at_start(dir.path()).unwrap().as_deref(),
            Some("{}\n")
        );
        let kept = dir.path().join(CHANGES);
        let large = File::create(&kept).unwrap();
        large.set_len(LARGEST_CHANGES).unwrap();
        assert!(changes_at_start(dir.path()).unwrap().is_some());
        large.set_len(LARGEST_CHANGES + 1).unwrap();
        assert!(changes_at_start(dir.path()).is_err());
        fs::remove_file(&kept).unwrap();
        fs::create_dir(&kept).unwrap();
        assert!(changes_at_start(dir.path()).is_err());
        fs::remove_dir(&kept).unwrap();
        symlink("/etc/hostname", &kept).unwrap();
        assert!(changes_at_start(dir.path()).is_err());
        fs::remove_file(&kept).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &kept, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert!(changes_at_start(dir.path()).is_err());
    }

    #[test]
    fn a_trial_of_a_directory_makes_nothing() {
        let parent = tempfile::tempdir().unwrap();
        let file = parent.path().join("file");
        fs::write(&file, "").unwrap();
        try_prepare(parent.path()).unwrap();
        try_prepare(&parent.path().join("a/b/c")).unwrap();
        assert!(!parent.path().join("a").exists());
        for bad in [file.clone(), file.join("below"), file.join("far/below")] {
            let error = try_prepare(&bad).unwrap_err();
            assert_eq!(
                error.kind(),
                io::ErrorKind::NotADirectory,
                "{}",
                bad.display()
            );
        }
    }

    #[test]
    fn an_owner_gets_a_directory_that_we_made() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("state");
        let me = fs::metadata(parent.path()).unwrap();
        prepare(&dir, Some((me.uid(), me.gid()))).unwrap();
        let made = fs::metadata(&dir).unwrap();
        assert_eq!((made.uid(), made.gid()), (me.uid(), me.gid()));
        assert_eq!(mode(&dir), 0o700);
    }
}
