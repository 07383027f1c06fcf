//! Paths and files that are meant to do harm: nothing from outside the root, no wait without end,
//! always a clear status.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

use lockgate_testkit::eventually;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::*;

/// A root with folders to climb out of, and the secret beside it under names that attacks hope for.
fn root_with_traps() -> Www {
    let www = Www::with(&[
        ("index.html", "home"),
        ("a/b/c.txt", "c"),
        ("file.txt", "file"),
    ]);
    for name in ["secret", "index.html.bak"] {
        fs::write(www.folder.path().join(name), SECRET).unwrap();
    }
    www
}

/// CWE-22, CWE-35, CWE-158, CWE-180: every published spelling of `..`, and those of other systems.
#[test]
fn path_traversal_fails_in_every_spelling() {
    let www = root_with_traps();
    let outside = www.folder.path().join("secret.txt").display().to_string();
    let gates = [
        www.start(""),
        www.start("symlinks = \"follow\"\nhidden = true\nlisting = true"),
        www.start("clean_urls = true"),
        www.start("try = [\"{path}\", \"/a/{*}\", \"/a/b/c.txt/{path}\"]"),
    ];
    let ups = [
        "..",
        "%2e%2e",
        "%2E%2E",
        ".%2e",
        "%2e.",
        "%252e%252e",
        "%25%32%65%25%32%65",
        "%c0%ae%c0%ae",
        "%c0%2e%c0%2e",
        "%e0%80%ae%e0%80%ae",
        "%f0%80%80%ae%f0%80%80%ae",
        "%uff0e%uff0e",
        "%u002e%u002e",
        "%ef%bc%8e%ef%bc%8e",
        "....",
        "...",
        "..%00",
        "..%0d%0a",
        "..;",
        "..;a=b",
        "..%3b",
        ".. ",
        "..%20",
        "..%09",
        ". .",
        "%2e%00%2e",
        "..%c0%80",
        "..\u{a0}",
    ];
    let slashes = [
        "/",
        "%2f",
        "%2F",
        "%252f",
        "%5c",
        "\\",
        "%255c",
        "%c0%af",
        "%c1%9c",
        "%e0%80%af",
        "//",
        "/./",
        "%u2215",
    ];
    let mut tried = 0;
    for gate in &gates {
        for up in ups {
            for slash in slashes {
                for (before, count) in [("/", 1), ("/a/b/", 3), ("/a/b/", 9), ("//", 2)] {
                    let path =
                        format!("{before}{}secret.txt", format!("{up}{slash}").repeat(count));
                    refused(gate, &path);
                    tried += 1;
                }
            }
        }
        for path in [
            // Absolute, as some join them.
            outside.clone(),
            format!("/{outside}"),
            format!("/%2f{}", outside.trim_start_matches('/')),
            format!("/file://{outside}"),
            format!("/a/b//{outside}"),
            "/a/b/c.txt/../../../../secret.txt".to_owned(),
            "/%00/../secret.txt".to_owned(),
            "/..".to_owned(),
            "/../".to_owned(),
            "/a/..".to_owned(),
            "/.".to_owned(),
            "/a/./b/c.txt".to_owned(),
            "/proc/self/root/etc/passwd".to_owned(),
            "/dev/stdin".to_owned(),
            // Other systems.
            "/C:/secret.txt".to_owned(),
            "/C:%5csecret.txt".to_owned(),
            "/c|/secret.txt".to_owned(),
            "/%5c%5clocalhost%5csecret.txt".to_owned(),
            "/..%5c..%5csecret.txt".to_owned(),
            "/secret.txt".to_owned(),
        ] {
            refused(gate, &path);
            tried += 1;
        }
    }
    assert!(tried > 4 * 1_000);
    for gate in &gates {
        assert_eq!(get(gate, "/file.txt", &[]).text(), "file", "it serves on");
    }
}

/// Requests over a connection of its own, since a malformed request closes it.
fn refused(gate: &Lockgate, path: &str) {
    let mut client = Http::connect(gate.address());
    client.send(format!(
        "GET {path} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n"
    ));
    let answer = client.answer();
    assert!(
        !String::from_utf8_lossy(&answer.body).contains(SECRET),
        "{path}: {}",
        answer.head
    );
    let listed = String::from_utf8_lossy(&answer.body).contains("root/");
    assert!(!listed, "{path} lists what is outside: {}", answer.text());
    assert!(
        matches!(answer.status(), 400 | 404),
        "{path}: {}",
        answer.head
    );
}

/// A spelling that other systems accept for a file's name is not the file.
#[test]
fn only_the_exact_name_leads_to_a_file() {
    let www = root_with_traps();
    let gate = www.start("");
    for path in [
        "/file.txt.",
        "/file.txt..",
        "/file.txt%20",
        "/file.txt%20%20.",
        "/file.txt::$DATA",
        "/file.txt:stream",
        "/FILE.TXT",
        "/file.txt/",
        "/file.txt/.",
        "/file.txt%00",
        "/file.txt%00.html",
        "/file.txt%0a",
        "/file.txt;.html",
        "/file.txt%5c",
        "/FILE~1.TXT",
        "/file%2etxt%2f",
        "/CON",
        "/a/b",
        "/file.txt%ff",
        "/%ff%fe",
        "/file.txt*",
        "/*",
    ] {
        let answer = get(&gate, path, &[]);
        assert!(
            matches!(answer.status, 400 | 404),
            "{path}: {}",
            answer.status
        );
        assert_ne!(answer.body, b"file", "{path}");
    }
    check(
        &gate,
        &[
            ("/file%2etxt", 200, "file"),
            ("/file.txt?../../secret.txt", 200, "file"),
        ],
    );
}

#[test]
fn names_and_paths_of_any_length_are_404() {
    let www = root_with_traps();
    let gate = www.start("clean_urls = true\nspa = true");
    let script = ("Accept", "*/*");
    for (path, statuses) in [
        (format!("/{}.x", "n".repeat(253)), &[404][..]),
        (format!("/{}.x", "n".repeat(254)), &[404]),
        (format!("/{}.x", "n".repeat(5_000)), &[404]),
        (format!("/{}a.x", "d/".repeat(2_047)), &[404]),
        (format!("/{}a.x", "d/".repeat(2_050)), &[404]),
        (format!("/{}a.x", "a/b/".repeat(2_000)), &[404]),
        (format!("{}file.txt", "/".repeat(5_000)), &[200, 404]),
        (format!("/a{}b/c.txt", "/".repeat(5_000)), &[200, 404]),
        (format!("/{}", "%41".repeat(80_000)), &[414, 431]),
    ] {
        let answer = get(&gate, &path, &[script]);
        assert!(
            statuses.contains(&answer.status),
            "{} {:.30}: {}",
            path.len(),
            path,
            answer.status
        );
    }
    assert_eq!(get(&gate, "/file.txt", &[]).text(), "file", "it serves on");
}

#[test]
fn special_files_are_404_without_blocking() {
    let www = Www::with(&[("file.txt", "file")]);
    mknodat(CWD, www.path("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    mknodat(CWD, www.path("index.html"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let _listener = UnixListener::bind(www.path("socket")).unwrap();
    www.link("/dev/zero", "zero");
    www.link("/dev/stdin", "stdin");
    // Needs a capability that a test may not have.
    let device = rustix::fs::makedev(1, 5);
    let _ = mknodat(
        CWD,
        www.path("device"),
        FileType::CharacterDevice,
        Mode::RWXU,
        device,
    );
    for keys in [
        "",
        "symlinks = \"follow\"",
        "listing = true\nsymlinks = \"follow\"",
    ] {
        let gate = www.start(keys);
        for path in [
            "/fifo",
            "/socket",
            "/device",
            "/zero",
            "/stdin",
            "/index.html",
            "/fifo/",
            "/socket/x",
        ] {
            assert_eq!(get(&gate, path, &[]).status, 404, "{keys} {path}");
        }
        let root = get(&gate, "/", &[]);
        if keys.contains("listing") {
            assert_eq!((root.status, root.text()), (200, "file.txt\n"));
        } else {
            assert_eq!(root.status, 404);
        }
    }
}

#[test]
fn an_unreadable_file_is_403_and_that_is_not_cached() {
    let www = Www::with(&[("a.txt", "a"), ("folder/b.txt", "b")]);
    let mode = |name: &str, mode| {
        fs::set_permissions(www.path(name), fs::Permissions::from_mode(mode)).unwrap()
    };
    mode("a.txt", 0o000);
    mode("folder", 0o000);
    if fs::read(www.path("a.txt")).is_ok() {
        // For a user that may read everything, as root may, nothing is forbidden.
        return;
    }
    let gate = www.start("");
    check(
        &gate,
        &[
            ("/a.txt", 403, ""),
            ("/folder/b.txt", 403, ""),
            ("/folder/c.txt", 403, ""),
        ],
    );
    mode("a.txt", 0o600);
    mode("folder", 0o700);
    check(&gate, &[("/a.txt", 200, "a"), ("/folder/b.txt", 200, "b")]);
}

#[test]
fn a_missing_root_is_served_once_it_exists() {
    let www = Www::with(&[("a.txt", "a")]);
    let aside = www.folder.path().join("aside");
    fs::rename(&www.root, &aside).unwrap();
    let gate = www.start("listing = true");
    check(&gate, &[("/a.txt", 404, ""), ("/", 404, "")]);
    fs::rename(&aside, &www.root).unwrap();
    check(&gate, &[("/a.txt", 200, "a"), ("/", 200, "a.txt\n")]);
    // And gone again, within a second.
    fs::rename(&www.root, &aside).unwrap();
    eventually("it is gone", || {
        (get(&gate, "/a.txt", &[]).status == 404).then_some(())
    });
    // A file in its place is no folder.
    fs::write(&www.root, "a file").unwrap();
    check(&gate, &[("/a.txt", 404, ""), ("/", 404, "")]);
}

/// As `ln -sfn release-2 current` of a deployment has it.
#[test]
fn a_symlinked_root_may_be_switched() {
    let www = Www::new();
    for release in ["one", "two"] {
        for (name, size) in [("small", 10), ("large", 100_000)] {
            let path = www.folder.path().join(release).join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, release.repeat(size)).unwrap();
            touch(&path, CHANGED);
        }
    }
    let current = www.folder.path().join("current");
    symlink("one", &current).unwrap();
    let gate = lockgate().start(&format!(
        "[site.\":0\"]\nlisten = [\"127.0.0.1\"]\nroot = \"{}\"\n",
        current.display()
    ));
    for path in ["/small", "/large"] {
        assert!(get(&gate, path, &[]).text().starts_with("one"));
    }
    let next = www.folder.path().join("next");
    symlink("two", &next).unwrap();
    fs::rename(&next, &current).unwrap();
    for path in ["/small", "/large"] {
        eventually("the new release", || {
            get(&gate, path, &[])
                .text()
                .starts_with("two")
                .then_some(())
        });
    }
}
