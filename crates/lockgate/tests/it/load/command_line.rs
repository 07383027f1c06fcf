//! Output and exit codes of the program.

use lockgate_testkit::{Folder, Origin};
use serde_json::Value;

use super::{PAGE, at};
use crate::scene::{deserted, lockgate, text};

#[test]
fn load_exit_codes_distinguish_failed_runs() {
    let good = Origin::tcp().answering(|_| PAGE.into());
    let bad = Origin::tcp().answering(|_| PAGE.replace("200", "404").into());
    let (good, bad) = (at("http", &good), at("http", &bad));
    let nobody = format!("http://{}", deserted());
    for (arguments, code, says) in [
        (&["-n", "5", &good][..], 0, ""),
        (&["-n", "5", "--fail-if", "errors > 0", &good], 0, ""),
        (&["-n", "5", "--expect-status", "404", &bad], 0, ""),
        (&["-n", "5", "--anyway", &bad], 0, ""),
        (
            &["-n", "5", "--anyway", "--fail-if", "errors > 4", &bad],
            3,
            "errors",
        ),
        (&["-n", "5", &bad], 1, "--expect-status 404"),
        (&["-n", "5", &nobody], 1, "cannot connect"),
        (
            &["-n", "5", "--json", "/nonexistent/report", &good],
            1,
            "/nonexistent/report cannot be written",
        ),
        (
            &["-n", "5", "--ca", "/nonexistent.pem", "https://127.0.0.1:1"],
            1,
            "/nonexistent.pem",
        ),
        (
            &["-n", "5", "--tls", "1.1", "https://127.0.0.1:1"],
            1,
            "1.1",
        ),
        (
            &["-n", "5", "localhost:8080"],
            1,
            "write http://localhost:8080",
        ),
        (
            &["-n", "5", "--json", "-", "--csv", "-", &good],
            2,
            "two reports",
        ),
        (&["-n", "five", &good], 2, "--count"),
        (&["-n", "0", &good], 2, "--count"),
        (&[], 2, "URL"),
    ] {
        let arguments = [&["load"][..], arguments].concat();
        let ended = lockgate().run(&arguments);
        assert_eq!(
            ended.code,
            Some(code),
            "{arguments:?}: {} {}",
            ended.stdout,
            ended.stderr
        );
        assert!(
            ended.stderr.contains(says),
            "{arguments:?}: {}",
            ended.stderr
        );
    }
}

#[test]
fn load_reports_go_to_stdout_or_files() {
    let server = Origin::tcp().answering(|_| PAGE.into());
    let url = at("http", &server);
    let folder = Folder::new();
    let [json, csv, timeline, hdr, html] =
        ["json", "csv", "timeline", "hdr", "html"].map(|name| text(&folder.path(name)));
    let ended = lockgate().run(&[
        "load",
        "-n",
        "7",
        "--json",
        &json,
        "--csv",
        &csv,
        "--timeline",
        &timeline,
        "--hdr",
        &hdr,
        "--html",
        &html,
        &url,
    ]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(!ended.stdout.is_empty(), "the text beside them");
    for file in [&json, &csv, &timeline, &hdr, &html] {
        assert!(!std::fs::read(file).unwrap().is_empty(), "{file}");
    }
    let written: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!(written["end"]["kind"], "complete", "{written}");
    let ended = lockgate().run(&["load", "-n", "7", "--json", "-", &url]);
    let said: Value = serde_json::from_str(&ended.stdout).expect("nothing but JSON");
    assert_eq!(said["end"]["kind"], "complete");
}

#[test]
fn an_unwritable_report_is_reported_before_the_run() {
    let server = Origin::tcp().answering(|_| PAGE.into());
    let ended = lockgate().run(&[
        "load",
        "-n",
        "7",
        "--csv",
        "/nonexistent/report",
        &at("http", &server),
    ]);
    assert_eq!(
        (ended.code, server.accepted()),
        (Some(1), 0),
        "{}",
        ended.stderr
    );
}

#[test]
fn an_unwritable_report_spares_other_reports_and_thresholds() {
    let server = Origin::tcp().answering(|_| PAGE.into());
    let url = at("http", &server);
    let folder = Folder::new();
    let html = folder.write("html", "x".repeat(1 << 20));
    let html = text(&html);
    let arguments = [
        "load",
        "-n",
        "7",
        "--json",
        "/dev/full",
        "--html",
        &html,
        "--fail-if",
        "rate > 0",
        &url,
    ];
    let ended = lockgate().run(&arguments);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    for said in ["/dev/full cannot be written", "rate > 0"] {
        assert!(ended.stderr.contains(said), "{said}: {}", ended.stderr);
    }
    assert!(!ended.stdout.is_empty(), "the text");
    let page = std::fs::read_to_string(&html).unwrap();
    assert!(
        page.trim_end().ends_with("</html>"),
        "nothing is left of what was there"
    );
}
