//! However `compare` ends, nothing that it started is left.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::Witness;

const PROGRAM: &str = env!("CARGO_BIN_EXE_lockgate");

/// A file in which the program starts a daemon and then runs `then`. The daemon forked twice,
/// ignores TERM, and writes its number to the pipe `daemon` beside the file; a reader of the pipe
/// `go` waits for [`go`].
fn file(then: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let pipes = ["daemon", "go"].map(|name| folder.path().join(name));
    assert!(
        Command::new("mkfifo")
            .args(&pipes)
            .status()
            .unwrap()
            .success()
    );
    let script = format!(
        r#"(setsid sh -c 'trap "" TERM INT HUP; echo $$ > {{here}}/daemon; exec sleep 1000' &); {then}"#
    );
    let cpu = super::cpu();
    let text = format!(
        "rounds = 1\n[layout]\nprograms = \"{cpu}\"\nothers = \"{cpu}\"\n[program.forking]\ncommand = [\"sh\", \"-c\", '''{script}''']\n\
         [load.one]\nurl = \"http://127.0.0.1:{{port}}/\"\n"
    );
    std::fs::write(folder.path().join("compare.toml"), text).unwrap();
    folder
}

fn compare(folder: &Path) -> Command {
    let mut command = Command::new(PROGRAM);
    command.arg("compare").arg(folder.join("compare.toml"));
    command
        .env("TMPDIR", folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// The daemon, once it runs.
fn daemon(folder: &Path) -> Witness {
    let pipe = std::fs::File::open(folder.join("daemon")).unwrap();
    let mut number = String::new();
    BufReader::new(pipe).read_line(&mut number).unwrap();
    Witness::of(&number)
}

fn begun(then: &str) -> (TempDir, Child, Witness) {
    let folder = file(then);
    let child = compare(folder.path()).spawn().unwrap();
    let daemon = daemon(folder.path());
    (folder, child, daemon)
}

fn let_daemon_go(folder: &Path) {
    std::fs::write(folder.join("go"), "go\n").unwrap();
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// No directory of the run either.
fn assert_nothing_is_left_in(folder: &Path) {
    let names = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = names
        .filter(|name| name.to_string_lossy().starts_with("lockgate-compare-"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn no_process_survives_a_program_that_does_not_start() {
    let (folder, child, daemon) = begun("read go < {here}/go; echo the reason; exit 3");
    let_daemon_go(folder.path());
    let output = child.wait_with_output().unwrap();
    assert!(!daemon.is_alive());
    assert_eq!(output.status.code(), Some(1));
    let text = text(&output);
    assert!(
        text.contains("forking: did not start: it ended before it was ready")
            && text.contains("    the reason"),
        "{text}"
    );
    assert_nothing_is_left_in(folder.path());
}

#[test]
fn no_process_survives_ctrl_c_or_term() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let (folder, child, daemon) = begun("exec sleep 1000");
        kill_process(Pid::from_child(&child), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(!daemon.is_alive(), "{signal:?}");
        assert_eq!(output.status.code(), Some(code));
        let text = text(&output);
        assert!(text.contains("partial: it was stopped early"), "{text}");
        assert_nothing_is_left_in(folder.path());
    }
}

#[test]
fn no_process_survives_a_killed_compare() {
    let (_folder, mut child, daemon) = begun("exec sleep 1000");
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
    daemon.assert_ends();
}

#[test]
fn no_process_survives_a_killed_guard() {
    let (folder, child, daemon) = begun("exec sleep 1000");
    let children = format!("/proc/{0}/task/{0}/children", child.id());
    let guard: i32 = std::fs::read_to_string(children)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    kill_process(Pid::from_raw(guard).unwrap(), Signal::KILL).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(!daemon.is_alive());
    assert_nothing_is_left_in(folder.path());
}

#[test]
fn no_process_survives_an_origin_that_does_not_start() {
    let folder = file("exec sleep 1000");
    let path = folder.path().join("compare.toml");
    let plan = std::fs::read_to_string(&path).unwrap();
    let plan = plan.replace(
        "[program.forking]",
        "[origin.forking]\nready = \"unix:{dir}/never\"",
    );
    let plan = plan.replace("exec sleep 1000'''", "read go < {here}/go; exit 4'''");
    std::fs::write(&path, plan + "[program.other]\ncommand = [\"true\"]\n").unwrap();
    let child = compare(folder.path()).spawn().unwrap();
    let daemon = daemon(folder.path());
    let_daemon_go(folder.path());
    let output = child.wait_with_output().unwrap();
    assert!(!daemon.is_alive());
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("origin forking: it ended before it was ready"));
    assert_nothing_is_left_in(folder.path());
}
