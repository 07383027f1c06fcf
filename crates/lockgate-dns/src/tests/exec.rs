//! Commands that write records.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

use crate::DnsError;
use crate::exec::RecordCommand;
use crate::tests::run;

/// A script with this text in a folder of its own.
fn script(text: &str) -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record");
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (folder, path)
}

fn command(words: &[&str]) -> RecordCommand {
    let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
    RecordCommand::new(&words).unwrap()
}

fn reason(error: DnsError) -> String {
    match error {
        DnsError::Command { why, .. } => why,
        other => panic!("{other}"),
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn a_command_gets_the_action_the_name_and_the_value() {
    let (folder, path) = script(r#"echo "$# $*" >> "$1"; env | cut -d= -f1 > "$1.env""#);
    let out = folder.path().join("out");
    let out_text = out.to_str().unwrap();
    run(async {
        let command = command(&[&path, out_text, "-v"]);
        command
            .run("present", "_acme-challenge.a.com", &["v w".to_owned()])
            .await
            .unwrap();
        command
            .run("cleanup", "_acme-challenge.a.com", &["v w".to_owned()])
            .await
            .unwrap();
    });
    assert_eq!(
        read(&out),
        format!(
            "5 {out_text} -v present _acme-challenge.a.com v w\n\
             5 {out_text} -v cleanup _acme-challenge.a.com v w\n"
        )
    );
    // A shell sets some by itself.
    let known = ["PATH", "PWD", "SHLVL", "_", "OLDPWD"];
    for name in read(&folder.path().join("out.env")).lines() {
        assert!(
            known.contains(&name) || name.starts_with("LOCKGATE_"),
            "{name}"
        );
    }
}

#[test]
fn a_command_that_fails_is_told_with_a_part_of_its_stderr() {
    let (_folder, path) = script("echo out; echo 'no such zone' >&2; exit 3");
    let why = run(command(&[&path]).run("present", "a.com", &["v".to_owned()])).unwrap_err();
    assert_eq!(reason(why), "exit status: 3: no such zone");
    // More than a pipe holds: the command is not stopped by it, and the error is short.
    let (_folder, path) = script("yes é | head -c 300000 >&2; exit 1");
    let why =
        reason(run(command(&[&path]).run("present", "a.com", &["v".to_owned()])).unwrap_err());
    assert!(why.starts_with("exit status: 1: é"), "{why}");
    assert!(why.len() < 700, "{}", why.len());
    let why = run(command(&["/no/such/program"]).run("present", "a.com", &["v".to_owned()]));
    assert!(reason(why.unwrap_err()).contains("No such file"));
}

#[test]
fn a_command_that_does_not_end_is_killed() {
    let (_folder, path) = script("echo waiting >&2; sleep 1000");
    let mut command = command(&[&path]);
    command.time = Duration::from_millis(300);
    let why = reason(run(command.run("present", "a.com", &["v".to_owned()])).unwrap_err());
    assert!(why.starts_with("it has not ended after 0 s"), "{why}");
}

/// So ends a command when its order is given up.
#[test]
fn a_command_is_killed_with_what_it_has_started() {
    let (folder, path) = script(r#"(exec 3>"$1"; echo x >&3; exec sleep 1000) & wait"#);
    let fifo = folder.path().join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(made.unwrap().success());
    let command = command(&[&path, fifo.to_str().unwrap()]);
    let value = ["v".to_owned()];
    run(async {
        let opened = tokio::task::spawn_blocking(move || {
            let mut fifo = fs::File::open(fifo).unwrap();
            fifo.read_exact(&mut [0; 2]).unwrap();
            fifo
        });
        let mut fifo = tokio::select! {
            ended = command.run("present", "a.com", &value) => panic!("{ended:?}"),
            opened = opened => opened.unwrap(),
        };
        // It ends when nobody has it open any more.
        assert_eq!(fifo.read(&mut [0; 1]).unwrap(), 0);
    });
}

#[test]
fn a_process_that_a_command_leaves_behind_does_not_hold_it_up() {
    // It keeps stderr open until it is killed with its group.
    let (_folder, path) = script("sleep 1000 & exit 0");
    run(command(&[&path]).run("present", "a.com", &["v".to_owned()])).unwrap();
}
