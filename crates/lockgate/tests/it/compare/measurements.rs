//! From a file to figures: origin, programs and loads are real.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// Lockgate in front of a Lockgate that answers, and others that cannot.
const WHOLE: &str = r#"
title = "An answer of 5 bytes"
rounds = 2
[layout]
programs = "CPU"
others = "CPU"
[job]
kind = "KIND"
upstream = "127.0.0.1:{port:origin}"
[origin.answers]
command = ["{lockgate}", "run", "-c", "{own}/origin.toml"]
ready = "127.0.0.1:{port:origin}"
files."origin.toml" = '''
workers = 1
access_log = false
[site.":{port:origin}"]
listen = ["127.0.0.1"]
respond = "hello"
'''
[program.first]
template = "lockgate"
[program.absent]
command = ["no-such-program", "{port}"]
[program.broken]
command = ["sh", "-c", "echo out of luck; exit 1"]
[program.second]
template = "lockgate"
[load.some]
url = "SCHEME://127.0.0.1:{port}/"
args = "-c 4 -n 100 --insecure"
"#;

pub(super) fn file(text: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("compare.toml"),
        text.replace("CPU", &super::cpu()),
    )
    .unwrap();
    folder
}

pub(super) fn compare(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockgate"));
    command
        .arg("compare")
        .arg("compare.toml")
        .args(arguments)
        .current_dir(folder);
    command
        .env("TMPDIR", folder)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

pub(super) fn output_text(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// That file, for a kind of job and a scheme.
fn whole(kind: &str, scheme: &str) -> String {
    let text = WHOLE.replace("KIND", kind).replace("SCHEME", scheme);
    if scheme == "http" {
        text.replace(" --insecure", "")
    } else {
        text
    }
}

#[test]
fn compare_measures_each_program_per_round_and_reports_failures() {
    for (kind, scheme) in [("http", "http"), ("tls-to-tcp", "https")] {
        let folder = file(&whole(kind, scheme));
        let files = [
            "--json",
            "c.json",
            "--csv",
            "c.csv",
            "--markdown",
            "c.md",
            "--html",
            "c.html",
        ];
        let output = compare(folder.path(), &files);
        let (stdout, stderr) = output_text(&output);
        assert_eq!(
            output.status.code(),
            Some(1),
            "a program did not start: {stderr}"
        );
        assert!(
            stdout.contains("absent was left out: no-such-program is not installed"),
            "{stdout}"
        );
        assert!(
            stdout.contains("broken: did not start: it ended before it was ready")
                && stdout.contains("out of luck"),
            "{stdout}"
        );
        // How busy this machine is decides which ratios there are.
        assert!(
            stdout.contains("beside the best other, second: no verdict in 1 of 1\n"),
            "{stdout}"
        );
        assert!(
            stdout.contains("no verdicts: they need 6 rounds, and there are 2"),
            "{stdout}"
        );
        // The order differs from round to round.
        let steps: Vec<_> = stderr
            .lines()
            .filter(|line| line.starts_with("round") && !line.contains(": "))
            .collect();
        let steps: Vec<_> = steps
            .iter()
            .map(|step| step.rsplit(", ").next().unwrap())
            .collect();
        let (one, two) = steps.split_at(3);
        let sorted = |round: &[&str]| {
            std::collections::BTreeSet::from_iter(round.iter().map(ToString::to_string))
        };
        let names = ["broken", "first", "second"];
        assert!(
            sorted(one) == sorted(&names) && sorted(two) == sorted(&names),
            "{stderr}"
        );
        assert_ne!(one, two, "{stderr}");
        assert!(
            stdout.contains("warning: [layout] has programs and others on the same CPU"),
            "{stdout}"
        );

        let report = std::fs::read(folder.path().join("c.json")).unwrap();
        let report: Value = serde_json::from_slice(&report).unwrap();
        assert_eq!(report["complete"], true);
        for program in [0, 3] {
            let program = &report["cases"][0]["programs"][program];
            assert!(
                program["version"]
                    .as_str()
                    .unwrap()
                    .starts_with("lockgate "),
                "{program:#}"
            );
            let rounds = program["rounds"].as_array().unwrap();
            assert_eq!(rounds.len(), 2);
            for round in rounds {
                assert_eq!(
                    (&round["succeeded"], &round["failed"]),
                    (&100.0.into(), &0.0.into()),
                    "{round:#}"
                );
                assert!(round["peak_bytes"].as_f64().unwrap() > 0.0, "{round:#}");
            }
        }
        for name in ["c.csv", "c.md", "c.html"] {
            assert!(
                std::fs::read_to_string(folder.path().join(name))
                    .unwrap()
                    .contains("first"),
                "{name}"
            );
        }
        let left = std::fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, 5, "the file and four reports");
    }
}

#[test]
fn compare_measures_only_selected_programs_and_loads() {
    let folder = file(&whole("http", "http"));
    let output = compare(
        folder.path(),
        &["--rounds", "1", "--programs", "second", "--only", "some"],
    );
    let (stdout, stderr) = output_text(&output);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(stderr.contains("1 load, 1 program, 1 round\n"), "{stderr}");
    assert!(
        stdout.contains("second") && !stdout.contains("absent"),
        "{stdout}"
    );
    for (option, says) in [
        ("--only", "there is no load `sume`: did you mean `some`?"),
        ("--programs", "there is no program `sume`"),
    ] {
        let output = compare(folder.path(), &[option, "sume"]);
        assert_eq!(output.status.code(), Some(1));
        assert!(
            output_text(&output).1.contains(says),
            "{}",
            output_text(&output).1
        );
    }
}

#[test]
fn compare_without_any_working_program_fails() {
    let folder = file(&whole("http", "http"));
    let output = compare(folder.path(), &["--programs", "absent"]);
    let (_, stderr) = output_text(&output);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("no program could be measured"), "{stderr}");
}

#[test]
fn compare_reports_failed_requests_by_program_and_round() {
    let text = whole("http", "http").replace("-n 100", "-n 100 --expect-status 404 --anyway");
    let output = compare(
        file(&text).path(),
        &["--rounds", "1", "--programs", "first,second"],
    );
    let (stdout, stderr) = output_text(&output);
    assert!(
        stdout.contains("first had failures, round 1: 100 status"),
        "{stdout}{stderr}"
    );
}

#[test]
fn an_unknown_load_option_is_reported_with_its_load() {
    let text = WHOLE.replace("KIND", "http").replace("SCHEME", "http");
    let output = compare(
        file(&text.replace("-n 100", "--no-such-option")).path(),
        &["--check"],
    );
    let (_, stderr) = output_text(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr.contains("load some: error:") && stderr.contains("--no-such-option"),
        "{stderr}"
    );
}

#[test]
fn an_unwritable_report_fails_before_anything_is_measured() {
    let folder = file(&WHOLE.replace("KIND", "http").replace("SCHEME", "http"));
    std::fs::write(folder.path().join("old.json"), "of yesterday").unwrap();
    let output = compare(
        folder.path(),
        &["--json", "old.json", "--csv", "absent/c.csv"],
    );
    let (stdout, stderr) = output_text(&output);
    assert_eq!((output.status.code(), stdout.as_str()), (Some(1), ""));
    assert!(
        stderr.contains("absent/c.csv: No such file") && !stderr.contains("round"),
        "{stderr}"
    );
    assert_eq!(
        std::fs::read_to_string(folder.path().join("old.json")).unwrap(),
        "of yesterday"
    );
}

#[test]
fn compare_check_starts_nothing() {
    let right = file(&WHOLE.replace("KIND", "http"));
    let output = compare(right.path(), &["--check"]);
    assert_eq!(
        (output.status.code(), output_text(&output).0.as_str()),
        (
            Some(0),
            "compare.toml is valid: 1 load, 4 programs, 2 rounds\n"
        )
    );
    let wrong = file(&WHOLE.replace("KIND", "htp").replace("rounds", "runds"));
    let output = compare(wrong.path(), &["--check"]);
    let (_, stderr) = output_text(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr.contains("compare.toml:3:1: there is no key `runds`: did you mean `rounds`?"),
        "{stderr}"
    );
    assert!(
        stderr.contains("compare.toml:8:8: there is no kind `htp`"),
        "{stderr}"
    );
    let output = compare(
        file(&WHOLE.replace("programs = \"CPU\"", "programs = \"1000\"")).path(),
        &["--check"],
    );
    assert_eq!(output.status.code(), Some(1));
}
