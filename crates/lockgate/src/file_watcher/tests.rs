//! Files that are changed and replaced in every way.

use super::*;
use std::future::Future;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use tempfile::TempDir;

/// Never polls within a test, so that what is seen was told by inotify.
const EVENTS_ONLY: PollIntervals = PollIntervals {
    settle: Duration::from_millis(1),
    longest: Duration::from_millis(50),
    poll: Duration::from_secs(3_600),
};

fn block_on<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        timeout(Duration::from_secs(60), test)
            .await
            .expect("no change was seen")
    })
}

fn watch(files: &[&Path]) -> FileWatcher {
    let watched = WatchedFiles::with(Some(open().unwrap()));
    watched.set(files.iter().map(|file| file.to_path_buf()));
    FileWatcher::with(&watched, EVENTS_ONLY)
}

fn folder() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap();
    (dir, path)
}

#[test]
fn a_write_in_place_is_seen() {
    let (_dir, dir) = folder();
    let file = dir.join("a.pem");
    fs::write(&file, "old").unwrap();
    block_on(async {
        let mut watch = watch(&[&file]);
        fs::write(&file, "newer").unwrap();
        assert_eq!(watch.changed().await, [file.as_path()]);
        fs::write(&file, "newest").unwrap();
        assert_eq!(watch.changed().await, [file.as_path()]);
    });
}

#[test]
fn an_atomic_rename_is_seen_and_names_only_the_file_that_changed() {
    let (_dir, dir) = folder();
    let (cert, key, new) = (dir.join("a.pem"), dir.join("a.key"), dir.join("new"));
    fs::write(&cert, "old").unwrap();
    fs::write(&key, "old").unwrap();
    block_on(async {
        let mut watch = watch(&[&cert, &key]);
        for content in ["one", "two"] {
            fs::write(&new, content).unwrap();
            fs::rename(&new, &cert).unwrap();
            assert_eq!(watch.changed().await, [cert.as_path()]);
        }
    });
}

#[test]
fn a_kubernetes_swap_is_seen_every_time() {
    let (_dir, dir) = folder();
    let generation = |name: &str| {
        fs::create_dir(dir.join(name)).unwrap();
        fs::write(dir.join(name).join("tls.crt"), name).unwrap();
        symlink(name, dir.join("..data_tmp")).unwrap();
        fs::rename(dir.join("..data_tmp"), dir.join("..data")).unwrap();
    };
    generation("..1");
    let file = dir.join("tls.crt");
    symlink("..data/tls.crt", &file).unwrap();
    block_on(async {
        let mut watch = watch(&[&file]);
        for (old, new) in [("..1", "..2"), ("..2", "..3")] {
            generation(new);
            fs::remove_dir_all(dir.join(old)).unwrap();
            assert_eq!(watch.changed().await, [file.as_path()]);
            assert_eq!(fs::read_to_string(&file).unwrap(), new);
        }
        // The directory behind the links is watched too.
        fs::write(dir.join("..3/tls.crt"), "in place").unwrap();
        assert_eq!(watch.changed().await, [file.as_path()]);
    });
}

#[test]
fn a_directory_that_is_a_link_elsewhere_may_be_swapped() {
    let (_dir, dir) = folder();
    for release in ["old", "new"] {
        fs::create_dir_all(dir.join("store").join(release)).unwrap();
        fs::write(dir.join("store").join(release).join("a.pem"), release).unwrap();
    }
    symlink(dir.join("store/old"), dir.join("live")).unwrap();
    let file = dir.join("live/a.pem");
    block_on(async {
        let mut watch = watch(&[&file]);
        symlink("store/new", dir.join("live.new")).unwrap();
        fs::rename(dir.join("live.new"), dir.join("live")).unwrap();
        assert_eq!(watch.changed().await, [file.as_path()]);
        fs::write(dir.join("store/new/a.pem"), "in place").unwrap();
        assert_eq!(watch.changed().await, [file.as_path()]);
    });
}

#[test]
fn deletion_and_return_are_seen_also_of_the_whole_directory() {
    let (_dir, dir) = folder();
    let file = dir.join("tls/a.pem");
    fs::create_dir(dir.join("tls")).unwrap();
    fs::write(&file, "old").unwrap();
    block_on(async {
        let mut watch = watch(&[&file]);
        fs::remove_file(&file).unwrap();
        assert_eq!(watch.changed().await, [file.as_path()]);
        fs::write(&file, "new").unwrap();
        assert_eq!(watch.changed().await, [file.as_path()]);
        fs::remove_dir_all(dir.join("tls")).unwrap();
        assert_eq!(watch.changed().await, [file.as_path()]);
        fs::create_dir(dir.join("tls")).unwrap();
        fs::write(&file, "again").unwrap();
        assert_eq!(watch.changed().await, [file.as_path()]);
        fs::write(&file, "and again").unwrap();
        assert_eq!(watch.changed().await, [file.as_path()]);
    });
}

#[test]
fn a_file_that_becomes_readable_is_seen() {
    let (_dir, dir) = folder();
    let file = dir.join("a.key");
    fs::write(&file, "key").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).unwrap();
    block_on(async {
        let mut watch = watch(&[&file]);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(watch.changed().await, [file.as_path()]);
    });
}

#[test]
fn neighbours_are_not_reported() {
    let (_dir, dir) = folder();
    let file = dir.join("a.pem");
    fs::write(&file, "old").unwrap();
    block_on(async {
        let mut watch = watch(&[&file]);
        fs::write(dir.join("b.pem"), "b").unwrap();
        watch.wait_for_event().await;
        assert_eq!(watch.watched.compare(), Vec::<PathBuf>::new());
        fs::write(&file, "newer").unwrap();
        assert_eq!(watch.changed().await, [file.as_path()]);
    });
}

#[test]
fn what_happened_during_a_dropped_wait_is_reported_by_the_next() {
    let (_dir, dir) = folder();
    let file = dir.join("a.pem");
    block_on(async {
        let mut watch = watch(&[&file]);
        watch.intervals.settle = Duration::from_secs(3_600);
        watch.intervals.longest = watch.intervals.settle;
        fs::write(&file, "new").unwrap();
        let mut wait = Box::pin(watch.changed());
        let polled = std::future::poll_fn(|cx| std::task::Poll::Ready(wait.as_mut().poll(cx)));
        assert!(polled.await.is_pending());
        drop(wait);
        watch.intervals = EVENTS_ONLY;
        assert_eq!(watch.changed().await, [file.as_path()]);
    });
}

#[test]
fn the_poll_sees_what_inotify_does_not() {
    let (_dir, dir) = folder();
    let file = dir.join("a.pem");
    block_on(async {
        let intervals = PollIntervals {
            poll: Duration::from_millis(1),
            ..EVENTS_ONLY
        };
        let watched = WatchedFiles::with(None);
        watched.set([file.clone()]);
        let mut watch = FileWatcher::with(&watched, intervals);
        fs::write(&file, "new").unwrap();
        assert_eq!(watch.changed().await, [file.as_path()]);
    });
}

#[test]
fn only_directories_that_decide_are_watched() {
    let (_dir, dir) = folder();
    fs::create_dir_all(dir.join("a/b")).unwrap();
    fs::write(dir.join("a/b/plain.pem"), "").unwrap();
    symlink("b/plain.pem", dir.join("a/link.pem")).unwrap();
    symlink("../a/link.pem", dir.join("a/twice.pem")).unwrap();
    symlink("loop.pem", dir.join("loop.pem")).unwrap();
    let of = |file: &str| {
        deciding_directories(&dir.join(file))
            .into_iter()
            .collect::<Vec<_>>()
    };
    assert_eq!(of("a/b/plain.pem"), [dir.join("a/b")]);
    assert_eq!(of("a/b/missing.pem"), [dir.join("a/b")]);
    assert_eq!(of("a/missing/b/c.pem"), [dir.join("a")]);
    assert_eq!(of("a/link.pem"), [dir.join("a"), dir.join("a/b")]);
    assert_eq!(of("a/twice.pem"), [dir.join("a"), dir.join("a/b")]);
    assert_eq!(of("loop.pem"), [dir.as_path()]);
    assert_eq!(of("a/b/plain.pem/below"), [dir.join("a/b/plain.pem")]);
    assert_eq!(of("a/b"), [dir.join("a"), dir.join("a/b")]);
}

#[test]
fn files_may_be_added_and_left_out_during_a_wait() {
    let (_dir, dir) = folder();
    let [stays, leaves, joins] =
        ["stays", "leaves", "joins"].map(|name| dir.join(name).join("a.pem"));
    for file in [&stays, &leaves, &joins] {
        fs::create_dir(file.parent().unwrap()).unwrap();
        fs::write(file, "old").unwrap();
    }
    block_on(async {
        let mut watch = watch(&[&stays, &leaves]);
        let watched = Arc::clone(&watch.watched);
        let mut wait = Box::pin(watch.changed());
        let polled = std::future::poll_fn(|cx| std::task::Poll::Ready(wait.as_mut().poll(cx)));
        assert!(polled.await.is_pending());
        // This change was not reported yet, and that of the new file is older than the watch.
        fs::write(&stays, "changed").unwrap();
        fs::write(&joins, "changed").unwrap();
        watched.set([joins.clone(), stays.clone(), stays.clone()]);
        fs::write(&leaves, "changed").unwrap();
        assert_eq!(wait.await, [stays.as_path()]);
        for file in [&joins, &stays] {
            fs::write(file, "changed again").unwrap();
            assert_eq!(watch.changed().await, [file.as_path()]);
        }
        assert_eq!(watched.lock().watches.len(), 2, "no watch is left behind");
    });
}

#[test]
fn a_new_name_in_a_folder_is_a_change_of_the_folder() {
    let (_dir, dir) = folder();
    let sites = dir.join("sites");
    block_on(async {
        let mut watch = watch(&[&sites]);
        fs::create_dir(&sites).unwrap();
        assert_eq!(watch.changed().await, [sites.as_path()]);
        fs::write(sites.join("a.toml"), "").unwrap();
        assert_eq!(watch.changed().await, [sites.as_path()]);
        fs::rename(sites.join("a.toml"), sites.join("b.toml")).unwrap();
        assert_eq!(watch.changed().await, [sites.as_path()]);
        fs::remove_file(sites.join("b.toml")).unwrap();
        assert_eq!(watch.changed().await, [sites.as_path()]);
    });
}
