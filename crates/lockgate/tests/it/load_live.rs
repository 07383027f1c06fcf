//! Output and pushes of `load` during the run.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;

use lockgate_testkit::{Launch, Origin, RunResult, exposition};

fn load(arguments: &[&str]) -> RunResult {
    let origin =
        Origin::tcp().answering(|_| b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".to_vec());
    let url = format!("http://{}/", origin.address());
    let fixed = ["load", &url, "-c", "1", "--warm-up", "0", "--rate", "50"];
    Launch::new(env!("CARGO_BIN_EXE_lockgate")).run(&[&fixed[..], arguments].concat())
}

#[test]
fn without_a_terminal_progress_is_a_line_per_second() {
    let ended = load(&["--duration", "2s"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let lines: Vec<_> = ended.stderr.lines().collect();
    assert_eq!(lines[0], "begins: 50/s");
    assert!(lines[1].starts_with("1 s of 2 s: "), "{lines:?}");
    assert!(
        lines[1].contains("/s of 50/s due, p50 ") && lines[1].ends_with(", 0 failed"),
        "{lines:?}"
    );
    assert!(!ended.stderr.contains('\x1b') && !ended.stderr.contains('\r'));
}

#[test]
fn quiet_suppresses_progress_but_not_failed_pushes() {
    let quiet = load(&["--duration", "100ms", "--quiet"]);
    assert_eq!((quiet.code, &*quiet.stderr), (Some(0), ""));
    let gone = Origin::tcp().address();
    let url = format!("http://{gone}");
    let ended = load(&["--duration", "1200ms", "--quiet", "--push", &url]);
    assert_eq!(ended.code, Some(0));
    let lines: Vec<_> = ended.stderr.lines().collect();
    let begin = format!(
        "lockgate: the push gateway does not accept the counts, and the run goes on: {url}: "
    );
    assert!(lines[0].starts_with(&begin), "{lines:?}");
    assert!(
        lines[1].starts_with("lockgate: 2 of 2 pushes failed; "),
        "{lines:?}"
    );
    assert_eq!(lines.len(), 2, "{lines:?}");
}

#[test]
fn the_last_push_equals_the_report() {
    let (tell, told) = channel();
    let gateway = Origin::tcp().answering(move |request| {
        tell.send((request.first_line().to_owned(), request.text().to_owned()))
            .unwrap();
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec()
    });
    let url = format!("http://{}", gateway.address());
    let ended = load(&["-n", "10", "--push", &url, "--push-job", "nightly"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let pushes: Vec<_> = told.try_iter().collect();
    let (line, text) = pushes.last().unwrap();
    assert_eq!(line, "PUT /metrics/job/nightly HTTP/1.1");
    let families = exposition::parse(text);
    let requests = &families[0];
    assert_eq!(requests.name, "lockgate_load_requests_total");
    let values: Vec<_> = requests
        .samples
        .iter()
        .map(|(_, _, value)| *value)
        .collect();
    assert_eq!(values, [10.0, 0.0]);
}

#[test]
fn an_unread_stderr_does_not_block_the_report() {
    let origin =
        Origin::tcp().answering(|_| b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".to_vec());
    let (nobody, stderr) = std::io::pipe().unwrap();
    let mut full = stderr.try_clone().unwrap();
    // Ends when the pipe has no reader any more.
    thread::spawn(move || while full.write_all(&[b'x'; 4096]).is_ok() {});
    let mut program = Command::new(env!("CARGO_BIN_EXE_lockgate"))
        .args([
            "load",
            &format!("http://{}/", origin.address()),
            "--warm-up",
            "0",
            "--rate",
            "50",
            "-d",
            "1500ms",
        ])
        .stderr(stderr)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = program.stdout.take().unwrap();
    let (tell, told) = channel();
    thread::spawn(move || {
        let mut text = String::new();
        tell.send(stdout.read_to_string(&mut text).map(|_| text))
            .unwrap();
    });
    let report = told.recv_timeout(lockgate_testkit::DEADLINE);
    program.kill().unwrap();
    program.wait().unwrap();
    drop(nobody);
    assert!(report.expect("it ends").unwrap().contains("50/s"));
}
