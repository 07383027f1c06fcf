//! Files are found below their root only, opened only if they are regular files, and their stamps
//! change with them.

use std::fs;
use std::os::unix::fs::symlink;

use rustix::fs::{CWD, Mode};

use super::*;

fn opened(folder: &Path, symlinks: Symlinks) -> Root {
    Root::open(folder, symlinks, DiskWait::Yes).unwrap()
}

#[test]
fn no_path_or_symlink_leads_out_of_the_root() {
    let folder = tempfile::tempdir().unwrap();
    let (root, outside) = (folder.path().join("root"), folder.path().join("outside"));
    fs::create_dir_all(root.join("a")).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "secret").unwrap();
    fs::write(root.join("a/file"), "file").unwrap();
    symlink("../../outside/secret", root.join("a/relative")).unwrap();
    symlink(outside.join("secret"), root.join("absolute")).unwrap();
    symlink("../outside", root.join("directory")).unwrap();
    symlink("a/file", root.join("inside")).unwrap();
    symlink("loop", root.join("loop")).unwrap();
    let inside = opened(&root, Symlinks::Inside);
    for path in [
        "../outside/secret",
        "a/../../outside/secret",
        "a/relative",
        "absolute",
        "directory/secret",
        "/etc/passwd",
        "..",
    ] {
        assert_eq!(
            inside.look(path.as_bytes()).unwrap_err(),
            Errno::XDEV,
            "{path}"
        );
        assert_eq!(
            inside.file(path.as_bytes()).unwrap_err(),
            Errno::XDEV,
            "{path}"
        );
    }
    assert_eq!(inside.look(b"loop").unwrap_err(), Errno::LOOP);
    assert_eq!(inside.look(b"inside").unwrap().0, FileKind::File);
    assert_eq!(inside.look(b"").unwrap().0, FileKind::Directory);
    let follow = opened(&root, Symlinks::Follow);
    for path in ["a/relative", "absolute", "directory/secret"] {
        assert_eq!(
            follow.look(path.as_bytes()).unwrap().0,
            FileKind::File,
            "{path}"
        );
    }
}

#[test]
fn only_regular_files_are_opened() {
    let folder = tempfile::tempdir().unwrap();
    rustix::fs::mknodat(
        CWD,
        folder.path().join("fifo"),
        FileType::Fifo,
        Mode::RWXU,
        0,
    )
    .unwrap();
    fs::create_dir(folder.path().join("directory")).unwrap();
    symlink("/dev/zero", folder.path().join("device")).unwrap();
    let root = opened(folder.path(), Symlinks::Follow);
    assert_eq!(root.look(b"fifo").unwrap().0, FileKind::Other);
    assert_eq!(root.file(b"fifo").unwrap_err(), Errno::INVAL);
    assert_eq!(root.file(b"device").unwrap_err(), Errno::INVAL);
    assert_eq!(root.file(b"directory").unwrap_err(), Errno::ISDIR);
    assert_eq!(root.file(b"nothing").unwrap_err(), Errno::NOENT);
    assert_eq!(root.file(&[b'x'; 300]).unwrap_err(), Errno::NAMETOOLONG);
}

#[test]
fn a_file_stamp_changes_when_the_file_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, "one").unwrap();
    let root = opened(folder.path(), Symlinks::Inside);
    let (file, first) = root.file(b"file").unwrap();
    assert_eq!(stamp(&file).unwrap(), first);
    // Replaced by another of the same size and time.
    let other = folder.path().join("other");
    fs::write(&other, "two").unwrap();
    let time = fs::metadata(&path).unwrap().modified().unwrap();
    fs::File::options()
        .write(true)
        .open(&other)
        .unwrap()
        .set_modified(time)
        .unwrap();
    fs::rename(&other, &path).unwrap();
    let (_, second) = root.look(b"file").unwrap();
    assert_eq!((second.size, second.modified), (first.size, first.modified));
    assert_ne!(second, first);
    let mut text = [0; 8];
    assert_eq!(read_at(&file, &mut text, 1, DiskWait::Yes), Ok(2));
    assert_eq!(&text[..2], b"ne", "what was opened stays what it was");
}

#[test]
fn a_directory_is_listed_up_to_a_bound() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a", "b", "c", "hidden"] {
        fs::write(folder.path().join(name), name).unwrap();
    }
    symlink("/etc/passwd", folder.path().join("d")).unwrap();
    let root = opened(folder.path(), Symlinks::Inside);
    let (mut entries, more) = root.list(b"", 10, |name| name != b"hidden").unwrap();
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    let names: Vec<_> = entries
        .iter()
        .map(|entry| (&*entry.name, entry.kind, entry.size))
        .collect();
    let file = |name: &'static [u8]| (name, FileKind::File, 1);
    assert_eq!((names, more), (vec![file(b"a"), file(b"b"), file(b"c")], 0));
    let (entries, more) = root.list(b"", 1, |name| name != b"hidden").unwrap();
    // Behind the bound a symlink that leads outside is not examined, and may count.
    assert!(entries.len() == 1 && (2..=3).contains(&more), "{more}");
    let impatient = Root::open(folder.path(), Symlinks::Inside, DiskWait::No).unwrap();
    assert!(would_wait(impatient.list(b"", 2, |_| true).unwrap_err()));
}
