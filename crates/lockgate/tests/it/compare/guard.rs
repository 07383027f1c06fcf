//! The guard: when it or its parent ends, all that the command has started ends.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use lockgate_load::control_group::{ControlGroup, folder_of_guard};
use lockgate_load::process_tree::{ProcessTree, TopProcess};
use lockgate_testkit::eventually;
use rustix::process::{Pid, Signal, kill_process};

use super::Witness;

/// Prints the number of a daemon that forked twice, is in a session of its own, and ignores TERM.
const DAEMON: &str = "(setsid sh -c 'trap \"\" TERM INT HUP; echo $$; exec sleep 1000 >&- 2>&-' &)";

struct Running {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Running {
    fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        Self { child, said }
    }

    fn guard(script: &str) -> Self {
        Self::start(
            Command::new(env!("CARGO_BIN_EXE_lockgate")).args(["guard", "--", "sh", "-c", script]),
        )
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.said.read_line(&mut line).unwrap() > 0, "it has ended");
        line.trim().to_owned()
    }

    fn witness(&mut self) -> Witness {
        Witness::of(&self.line())
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn code(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_failing_command_leaves_no_daemon_behind() {
    let mut guard = Running::guard(&format!("daemon=$( {DAEMON} ); echo $daemon; exit 3"));
    let daemon = guard.witness();
    assert_eq!(guard.code(), Some(3));
    assert!(!daemon.is_alive());
}

#[test]
fn a_daemon_lives_until_the_guard_is_signalled() {
    let mut guard = Running::guard(&format!("{DAEMON}; echo command $$"));
    let lines = [guard.line(), guard.line()];
    let (commands, daemons): (Vec<_>, Vec<_>) =
        lines.iter().partition(|line| line.starts_with("command "));
    // The signal would be the code of a command that still runs.
    let command = format!("/proc/{}", &commands[0]["command ".len()..]);
    eventually("the end of the command", || {
        (!Path::new(&command).exists()).then_some(())
    });
    let daemon = Witness::of(daemons[0]);
    guard.signal(Signal::TERM);
    assert_eq!(guard.code(), Some(0));
    assert!(!daemon.is_alive());
}

#[test]
fn a_signalled_guard_ends_its_command_and_daemons_first() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut guard = Running::guard(&format!("{DAEMON}; exec sleep 1000"));
        let daemon = guard.witness();
        guard.signal(signal);
        assert_eq!(guard.code(), Some(128 + 15), "{signal:?}");
        assert!(!daemon.is_alive(), "{signal:?}");
    }
}

#[test]
fn killing_the_guards_parent_ends_everything() {
    let program = env!("CARGO_BIN_EXE_lockgate");
    let script = format!(
        "{program} guard --parent $$ -- sh -c '{}; exec sleep 1000' & wait",
        DAEMON.replace('\'', r"'\''")
    );
    let mut parent = Running::start(Command::new("sh").args(["-c", &script]));
    let daemon = parent.witness();
    parent.signal(Signal::KILL);
    parent.child.wait().unwrap();
    daemon.assert_ends();
}

#[test]
fn a_guard_without_its_parent_starts_nothing() {
    let mut guard = Running::start(
        Command::new(env!("CARGO_BIN_EXE_lockgate"))
            .args(["guard", "--parent", "1", "--", "echo", "started"]),
    );
    assert_eq!(guard.code(), Some(1));
    assert_eq!(std::io::read_to_string(&mut guard.said).unwrap(), "");
}

/// Whether a directory can be made beside the group of a guard: then it can make its own.
fn may_make_control_groups(guard: u32) -> bool {
    let Some(folder) = folder_of_guard(guard) else {
        return false;
    };
    let beside = folder.with_file_name(format!("lockgate-test-{guard}"));
    std::fs::create_dir(&beside).is_ok() && std::fs::remove_dir(&beside).is_ok()
}

#[test]
fn the_cgroup_of_a_guard_has_the_cpu_time_of_children_never_waited_for() {
    // Shells wait for their children whatever they are told; a wait in Perl gives none here.
    let script = r#"$SIG{CHLD} = "IGNORE"; if (!fork) { $i++ while $i < 5e6; exit } wait; $| = 1; print "worked\n"; sleep 1000"#;
    let mut guard = Running::guard(&format!("exec perl -e '{script}'"));
    assert_eq!(guard.line(), "worked");
    let pid = guard.child.id();
    let group = ControlGroup::of_guard(pid);
    assert_eq!(group.is_some(), may_make_control_groups(pid));
    let processes = ProcessTree::with(pid, TopProcess::Guard).cpu().unwrap();
    if let Some(group) = &group {
        // The child takes some 0.2 s, and the rest a few milliseconds.
        let all = group.cpu().unwrap();
        assert!(
            all.total() > processes.total() * 2 + Duration::from_millis(20),
            "{all:?} {processes:?}"
        );
    }
    guard.signal(Signal::TERM);
    guard.code();
    assert!(group.is_none_or(|group| !group.folder().exists()));
}

#[test]
fn the_guard_exits_with_the_code_of_its_command() {
    assert_eq!(Running::guard("exit 0").code(), Some(0));
    assert_eq!(Running::guard("exit 7").code(), Some(7));
    assert_eq!(Running::guard("kill -USR1 $$").code(), Some(128 + 10));
    let mut absent = Running::start(
        Command::new(env!("CARGO_BIN_EXE_lockgate"))
            .args(["guard", "--", "no-such-program"])
            .stderr(Stdio::null()),
    );
    assert_eq!(absent.code(), Some(127));
}

#[test]
fn a_guarded_command_is_pinned_with_the_hard_descriptor_limit() {
    let mut guard = Running::start(Command::new("prlimit").args([
        "--nofile=200:300",
        env!("CARGO_BIN_EXE_lockgate"),
        "guard",
        "--cpus",
        "0",
        "--",
        "sh",
        "-c",
        "ulimit -Sn; grep Cpus_allowed_list /proc/self/status",
    ]));
    assert_eq!(guard.line(), "300");
    assert_eq!(guard.line(), "Cpus_allowed_list:\t0");
}
