//! `fmt`: configuration files in their canonical form.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use lockgate_testkit::Folder;

use crate::scene::{lockgate, text};

const MESSY: &str = "# The file.\n\n[site.':8080']\nrespond='x' # said\n[acme]\nemail='a@b.c'\n";
const TIDY: &str =
    "# The file.\n\n[acme]\nemail = \"a@b.c\"\n\n[site.\":8080\"]\nrespond = \"x\" # said\n";

#[test]
fn fmt_writes_a_file_anew_and_keeps_its_permissions_and_links() {
    let folder = Folder::new();
    let file = folder.write("lockgate.toml", MESSY);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let link = folder.path("link.toml");
    symlink(&file, &link).unwrap();
    let ended = lockgate().run(&["fmt", &text(&link)]);
    assert_eq!(
        (ended.code, ended.stdout),
        (Some(0), text(&link)),
        "{}",
        ended.stderr
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), TIDY);
    assert!(link.is_symlink());
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o640);
    // Nothing else is left, and nothing is left to do.
    let names = fs::read_dir(folder.path(".")).unwrap().count();
    assert_eq!(names, 2);
    let again = lockgate().run(&["fmt", &text(&file)]);
    assert_eq!((again.code, &*again.stdout), (Some(0), ""));
}

#[test]
fn fmt_check_lists_files_with_another_form_and_changes_none() {
    let folder = Folder::new();
    let messy = folder.write("messy.toml", MESSY);
    let tidy = folder.write("tidy.toml", TIDY);
    let ended = lockgate().run(&["fmt", "--check", &text(&tidy), &text(&messy)]);
    assert_eq!(
        (ended.code, ended.stdout),
        (Some(1), text(&messy)),
        "{}",
        ended.stderr
    );
    assert_eq!(fs::read_to_string(&messy).unwrap(), MESSY);
    let ended = lockgate().run(&["fmt", "--check", &text(&tidy)]);
    assert_eq!(ended.code, Some(0));
}

#[test]
fn fmt_leaves_a_file_that_is_no_toml_as_it_is() {
    let folder = Folder::new();
    let file = folder.write("lockgate.toml", "[site\nrespond=1\n");
    let ended = lockgate().run(&["fmt", &text(&file)]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("line 1"), "{}", ended.stderr);
    assert_eq!(fs::read_to_string(&file).unwrap(), "[site\nrespond=1\n");
}
