//! Real files, a device that is always full, and a scripted target for failures in the middle of a
//! line.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::sync::mpsc::TrySendError;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;

use super::*;

/// Far longer than anything here takes; only a hang comes near it.
const LONG: Duration = Duration::from_secs(60);

struct Fixture {
    directory: TempDir,
}

impl Fixture {
    fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn target(&self, rotation: Option<LogRotation>) -> LogDestination {
        LogDestination::File {
            path: self.path("access.log"),
            rotation,
        }
    }

    fn start(&self, rotation: Option<LogRotation>) -> LogWriter {
        LogWriter::start(self.target(rotation)).unwrap()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }
}

fn send(writer: &LogWriter, lines: &str) {
    writer.sender().send(lines.into()).unwrap();
}

fn lost(writer: &LogWriter) -> Arc<AtomicU64> {
    writer.lost()
}

/// Waits until all that was sent has been dealt with.
fn settle(writer: &LogWriter) {
    let sender = writer.sender();
    // The channel has no room for all of these: one was taken, so all before it are done with.
    (0..=WAITING).for_each(|_| sender.send(Vec::new()).unwrap());
}

#[test]
fn what_was_handed_over_is_in_the_file_when_finished() {
    let fixture = Fixture::new();
    let writer = fixture.start(None);
    (0..1_000).for_each(|i| send(&writer, &format!("line {i}\n")));
    let lost = lost(&writer);
    assert_eq!(writer.finish(LONG), WriterEnd::Drained);
    let expected: String = (0..1_000).map(|i| format!("line {i}\n")).collect();
    assert_eq!(fixture.read("access.log"), expected);
    assert_eq!(lost.load(Ordering::Relaxed), 0);
}

#[test]
fn the_file_is_appended_to_and_not_for_everybody() {
    let fixture = Fixture::new();
    for lines in ["one\n", "two\n"] {
        let writer = fixture.start(None);
        send(&writer, lines);
        writer.finish(LONG);
    }
    assert_eq!(fixture.read("access.log"), "one\ntwo\n");
    let mode = fs::metadata(fixture.path("access.log"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & !0o640 & 0o777, 0, "{mode:o}");
}

#[test]
fn a_file_that_cannot_be_opened_fails_the_start() {
    let fixture = Fixture::new();
    let path = fixture.path("no/such/directory.log");
    let error = LogWriter::start(LogDestination::File {
        path,
        rotation: None,
    })
    .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn a_file_that_somebody_renamed_is_reopened() {
    let fixture = Fixture::new();
    let writer = fixture.start(None);
    send(&writer, "old\n");
    settle(&writer);
    fs::rename(fixture.path("access.log"), fixture.path("renamed.log")).unwrap();
    send(&writer, "still old\n");
    settle(&writer);
    writer.reopen();
    send(&writer, "new\n");
    writer.finish(LONG);
    assert_eq!(fixture.read("renamed.log"), "old\nstill old\n");
    assert_eq!(fixture.read("access.log"), "new\n");
}

#[test]
fn a_file_that_cannot_be_reopened_stays_in_use() {
    let fixture = Fixture::new();
    let writer = fixture.start(None);
    fs::rename(fixture.path("access.log"), fixture.path("renamed.log")).unwrap();
    fs::create_dir(fixture.path("access.log")).unwrap();
    writer.reopen();
    send(&writer, "kept\n");
    let lost = lost(&writer);
    writer.finish(LONG);
    assert_eq!(fixture.read("renamed.log"), "kept\n");
    assert_eq!(lost.load(Ordering::Relaxed), 0);
}

#[test]
fn files_rotate_by_size_and_only_so_many_are_kept() {
    let fixture = Fixture::new();
    let writer = fixture.start(Some(LogRotation { size: 12, keep: 2 }));
    for lines in [
        "a1\na2\na3\n",
        "a4\n",
        "b1\nb2\n",
        "b3\n",
        "c1\nc2\n",
        "longer than a file may be\n",
        "d\n",
    ] {
        send(&writer, lines);
    }
    writer.finish(LONG);
    assert_eq!(fixture.read("access.log"), "d\n");
    assert_eq!(fixture.read("access.log.1"), "longer than a file may be\n");
    assert_eq!(fixture.read("access.log.2"), "c1\nc2\n");
    assert!(!fixture.path("access.log.3").exists());
}

#[test]
fn a_file_left_by_an_earlier_run_counts_towards_the_size() {
    let fixture = Fixture::new();
    fs::write(fixture.path("access.log"), "0123456789\n").unwrap();
    let writer = fixture.start(Some(LogRotation { size: 12, keep: 1 }));
    send(&writer, "new\n");
    writer.finish(LONG);
    assert_eq!(fixture.read("access.log.1"), "0123456789\n");
    assert_eq!(fixture.read("access.log"), "new\n");
}

#[test]
fn a_gap_in_the_numbers_is_filled_and_nothing_beyond_it_moves() {
    let fixture = Fixture::new();
    for (name, text) in [
        ("access.log", "0"),
        ("access.log.1", "1"),
        ("access.log.3", "3"),
    ] {
        fs::write(fixture.path(name), text).unwrap();
    }
    shift(&fixture.path("access.log"), 9).unwrap();
    let texts = ["access.log.1", "access.log.2", "access.log.3"].map(|name| fixture.read(name));
    assert_eq!(texts, ["0", "1", "3"]);
}

#[test]
fn keeping_none_deletes_the_old_lines() {
    let fixture = Fixture::new();
    let writer = fixture.start(Some(LogRotation { size: 4, keep: 0 }));
    send(&writer, "old\n");
    send(&writer, "new\n");
    writer.finish(LONG);
    assert_eq!(fixture.read("access.log"), "new\n");
    assert!(!fixture.path("access.log.1").exists());
}

#[test]
fn when_rotating_fails_no_line_is_lost() {
    let fixture = Fixture::new();
    // A directory stands where the rotated file should go.
    fs::create_dir(fixture.path("access.log.1")).unwrap();
    let writer = fixture.start(Some(LogRotation { size: 4, keep: 1 }));
    ["one\n", "two\n", "three\n"]
        .into_iter()
        .for_each(|lines| send(&writer, lines));
    let lost = lost(&writer);
    writer.finish(LONG);
    assert_eq!(fixture.read("access.log"), "one\ntwo\nthree\n");
    assert_eq!(lost.load(Ordering::Relaxed), 0);
}

#[test]
fn a_rotation_that_could_rename_but_not_open_does_not_shift_twice() {
    let fixture = Fixture::new();
    fs::write(fixture.path("access.log.1"), "rotated").unwrap();
    shift(&fixture.path("access.log"), 2).unwrap();
    assert_eq!(fixture.read("access.log.1"), "rotated");
}

#[test]
fn lines_of_another_writer_count_towards_the_size() {
    let fixture = Fixture::new();
    let writer = fixture.start(Some(LogRotation { size: 12, keep: 1 }));
    send(&writer, "own\n");
    settle(&writer);
    let mut other = appending().open(fixture.path("access.log")).unwrap();
    other.write_all(b"other\n").unwrap();
    send(&writer, "next\n");
    writer.finish(LONG);
    assert_eq!(fixture.read("access.log.1"), "own\nother\n");
    assert_eq!(fixture.read("access.log"), "next\n");
}

#[test]
fn a_file_rotated_by_another_is_not_rotated_again() {
    for keep in [0, 2] {
        let fixture = Fixture::new();
        let rotation = Some(LogRotation { size: 4, keep });
        let (first, second) = (fixture.start(rotation), fixture.start(rotation));
        send(&first, "one\n");
        settle(&first);
        send(&second, "two\n");
        settle(&second);
        // The file of the first one is full, and not that of the path any more.
        send(&first, "3\n");
        first.finish(LONG);
        second.finish(LONG);
        assert_eq!(fixture.read("access.log"), "two\n3\n");
        assert!(!fixture.path("access.log.2").exists());
    }
}

#[test]
fn a_writer_that_follows_reopens_and_never_rotates() {
    let fixture = Fixture::new();
    let writer = fixture.start(Some(LogRotation { size: 4, keep: 1 }));
    send(&writer, "one\n");
    settle(&writer);
    fs::rename(fixture.path("access.log"), fixture.path("renamed.log")).unwrap();
    fs::write(fixture.path("access.log"), "other\n").unwrap();
    writer.follow();
    send(&writer, "two\n");
    writer.finish(LONG);
    assert_eq!(fixture.read("renamed.log"), "one\n");
    assert_eq!(fixture.read("access.log"), "other\ntwo\n");
    assert!(!fixture.path("access.log.1").exists());
}

#[test]
fn a_followed_file_is_looked_at_once_a_second() {
    let fixture = Fixture::new();
    let mut log = OpenLog::open(fixture.target(None)).unwrap();
    let inode = |log: &OpenLog| log.lines.out.0.metadata().unwrap().ino();
    let (own, begin) = (inode(&log), Instant::now());
    fs::rename(fixture.path("access.log"), fixture.path("renamed.log")).unwrap();
    log.follow(begin).unwrap();
    fs::write(fixture.path("access.log"), "").unwrap();
    log.follow(begin + LOOKED_AT_EVERY / 2).unwrap();
    assert_eq!(inode(&log), own);
    log.follow(begin + LOOKED_AT_EVERY).unwrap();
    assert_ne!(inode(&log), own);
}

#[test]
fn only_a_regular_file_is_rotated() {
    let rotation = Some(LogRotation { size: 1, keep: 1 });
    let error = LogWriter::start(LogDestination::File {
        path: "/dev/null".into(),
        rotation,
    })
    .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

#[test]
fn on_a_full_disk_lines_are_counted_and_the_thread_lives() {
    let writer = LogWriter::start(LogDestination::File {
        path: "/dev/full".into(),
        rotation: None,
    })
    .unwrap();
    send(&writer, "one\ntwo\n");
    send(&writer, "three\n");
    settle(&writer);
    assert_eq!(lost(&writer).load(Ordering::Relaxed), 3);
    send(&writer, "four\n");
    let lost = lost(&writer);
    assert_eq!(writer.finish(LONG), WriterEnd::Drained);
    assert_eq!(lost.load(Ordering::Relaxed), 4);
}

#[test]
fn a_target_that_takes_nothing_stalls_neither_sender_nor_exit() {
    let fixture = Fixture::new();
    let path = fixture.path("fifo");
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let reader = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    let writer = LogWriter::start(LogDestination::File {
        path,
        rotation: None,
    })
    .unwrap();
    let sender = writer.sender();
    let line = vec![b'\n'; 64 * 1024];
    while !matches!(sender.try_send(line.clone()), Err(TrySendError::Full(_))) {}
    assert_eq!(writer.finish(Duration::from_millis(1)), WriterEnd::GivenUp);
    drop(reader); // the thread fails on what is left and ends
}

#[test]
fn a_fifo_that_nobody_reads_fails_the_start_instead_of_hanging_it() {
    let fixture = Fixture::new();
    let path = fixture.path("fifo");
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    assert!(
        LogWriter::start(LogDestination::File {
            path,
            rotation: None
        })
        .is_err()
    );
}

#[test]
fn standard_streams_can_be_opened_and_reopening_them_does_nothing() {
    for target in [LogDestination::Stdout, LogDestination::Stderr] {
        let writer = LogWriter::start(target).unwrap();
        writer.reopen();
        assert_eq!(writer.finish(LONG), WriterEnd::Drained);
    }
}

#[test]
fn without_finish_the_thread_ends_with_the_last_sender() {
    let fixture = Fixture::new();
    let LogWriter { sender, thread, .. } = fixture.start(None);
    sender.send(b"last\n".to_vec()).unwrap();
    drop(sender);
    let (_, thread) = thread.into_inner().unwrap().unwrap();
    thread.join().unwrap();
    assert_eq!(fixture.read("access.log"), "last\n");
}

/// Takes so many bytes per call; `None` is a full disk.
struct Scripted<I> {
    takes: I,
    taken: Vec<u8>,
}

impl<I: Iterator<Item = Option<usize>>> Write for Scripted<I> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = match self.takes.next() {
            Some(Some(n)) => n.min(bytes.len()),
            Some(None) => return Err(ErrorKind::StorageFull.into()),
            None => bytes.len(),
        };
        self.taken.extend_from_slice(&bytes[..n]);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes buffers to a scripted target; what it took, and the lines lost by each buffer.
fn scripted<const N: usize>(takes: &[Option<usize>], buffers: [&str; N]) -> (String, [u64; N]) {
    let mut lines = LineSink::new(
        Scripted {
            takes: takes.iter().copied(),
            taken: Vec::new(),
        },
        0,
    );
    let lost = buffers.map(|buffer| {
        lines
            .write(buffer.as_bytes())
            .map_or_else(|failure| failure.lost, |()| 0)
    });
    assert_eq!(lines.size, lines.out.taken.len() as u64);
    (String::from_utf8(lines.out.taken).unwrap(), lost)
}

#[test]
fn a_half_line_is_not_glued_to_the_next() {
    let written = scripted(&[Some(6), None], ["one\ntwo\nthree\n", "four\n"]);
    assert_eq!(written, ("one\ntw\nfour\n".into(), [2, 0]));
}

#[test]
fn a_failure_between_lines_leaves_no_empty_line() {
    let written = scripted(&[Some(4), None], ["one\ntwo\n", "three\n"]);
    assert_eq!(written, ("one\nthree\n".into(), [1, 0]));
}

#[test]
fn a_half_line_is_ended_even_after_more_failures() {
    let written = scripted(
        &[Some(2), None, None, Some(1), None],
        ["one\n", "two\n", "three\n", "four\n"],
    );
    assert_eq!(written, ("on\nfour\n".into(), [1, 1, 1, 0]));
}

#[test]
fn short_writes_are_not_failures() {
    let written = scripted(&[Some(1), Some(3), Some(2)], ["one\ntwo\n", "three\n"]);
    assert_eq!(written, ("one\ntwo\nthree\n".into(), [0, 0]));
}

#[test]
fn a_target_that_takes_nothing_and_does_not_say_why_is_a_failure() {
    assert_eq!(
        scripted(&[Some(0)], ["one\n", "two\n"]),
        ("two\n".into(), [1, 0])
    );
}

#[test]
fn warnings_are_rare_and_tell_all_lost_lines_with_their_error() {
    let start = Instant::now();
    let mut warnings = LossWarnings::default();
    let mut due = |seconds, lost, error: Option<ErrorKind>| {
        let told = warnings.due(
            start + Duration::from_secs(seconds),
            lost,
            error.map(io::Error::from),
        );
        told.map(|(lost, error)| (lost, error.map(|error| error.kind())))
    };
    let full = Some(ErrorKind::StorageFull);
    assert_eq!(due(0, 0, None), None);
    assert_eq!(due(1, 5, full), Some((5, full)));
    assert_eq!(due(2, 7, full), None);
    assert_eq!(due(10, 9, None), None);
    assert_eq!(
        due(11, 9, None),
        Some((4, full)),
        "the disk was full when they were lost"
    );
    assert_eq!(
        due(21, 10, None),
        Some((1, None)),
        "they found no room to wait"
    );
    assert_eq!(due(60, 10, None), None);
    assert_eq!(due(60, 10, full), Some((0, full)));
}
