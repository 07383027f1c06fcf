//! Upgrades: a new program takes over the listening sockets, and the old one finishes what it has
//! begun.

mod changes;
mod failures;
mod handover;
mod logs;
mod privileges;
mod service_manager;
mod sockets;
mod takeover;

use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use lockgate_testkit::{Folder, Http, Launch, Lockgate, Signal, eventually};
use rustix::process::{Pid, kill_process};
use serde_json::Value;

use crate::admin::ask;
use crate::scene::text;

/// A Lockgate with an admin socket.
struct UpgradeScene {
    folder: Folder,
    gate: Lockgate,
    socket: PathBuf,
    /// The process that serves.
    serving: u32,
    successors: Vec<Successor>,
}

/// A process that an upgrade has started: it ends with the test.
pub(crate) struct Successor(Pid);

impl Successor {
    /// The process that the answer to a request for an upgrade names.
    pub(crate) fn of(answer: &Value) -> Self {
        let pid = answer["pid"].as_u64().expect("a number");
        Self(pid_of(u32::try_from(pid).expect("a process")))
    }
}

impl Drop for Successor {
    fn drop(&mut self) {
        // It may have ended.
        let _ = kill_process(self.0, Signal::KILL);
    }
}

impl UpgradeScene {
    fn new(launch: &Launch, toml: &str) -> Self {
        let folder = Folder::new();
        let socket = folder.path("admin.sock");
        let gate = launch.start(&(admin_at(&socket) + toml));
        Self {
            folder,
            serving: gate.pid(),
            gate,
            socket,
            successors: Vec::new(),
        }
    }

    fn rewrite(&self, toml: &str) {
        self.gate.rewrite(&(admin_at(&self.socket) + toml));
    }

    /// The status and the JSON of the answer to a request for an upgrade.
    fn ask(&self, body: &str) -> (u16, Value) {
        ask(&self.socket, "POST", "/v1/upgrade", body)
    }

    /// An upgrade that succeeds; returns the process that has served before.
    fn upgrade(&mut self) -> u32 {
        let (status, answer) = self.ask("");
        assert_eq!(status, 200, "{answer}");
        let pid = answer["pid"].as_u64().unwrap();
        self.served_by(u32::try_from(pid).unwrap())
    }

    fn served_by(&mut self, pid: u32) -> u32 {
        self.successors.push(Successor(pid_of(pid)));
        std::mem::replace(&mut self.serving, pid)
    }

    /// The process that the admin socket is of.
    fn answers(&self) -> u32 {
        let (status, answer) = ask(&self.socket, "GET", "/v1/status", "");
        assert_eq!(status, 200, "{answer}");
        u32::try_from(answer["pid"].as_u64().unwrap()).unwrap()
    }

    /// An upgrade to `program` that fails; returns the error, and the lines of the program.
    fn failed(&self, program: &Path, limit: u64) -> (String, String) {
        let program = text(program);
        let body = format!("{{ \"program\": \"{program}\", \"limit_seconds\": {limit} }}");
        let (status, answer) = self.ask(&body);
        assert_eq!(
            (status, &answer["error"]["code"]),
            (502, &"upgrade_failed".into()),
            "{answer}"
        );
        assert_eq!(self.answers(), self.serving);
        let lines = answer["output"].as_array().unwrap().iter();
        let lines: Vec<_> = lines.map(|line| line.as_str().unwrap()).collect();
        let why = answer["error"]["message"].as_str().unwrap();
        (why.to_owned(), lines.join("\n"))
    }

    fn waiting_program(&self) -> WaitingProgram {
        let gate = self.folder.path("go");
        let binary = env!("CARGO_BIN_EXE_lockgate");
        let program = self.script(
            "waits",
            &format!(
                "echo waits > '{0}.waits'; while [ ! -e '{0}' ]; do sleep 0.05; done; exec '{binary}' \"$@\"",
                text(&gate)
            ),
        );
        WaitingProgram { program, gate }
    }

    /// A program of this script.
    fn script(&self, name: &str, script: &str) -> PathBuf {
        let path = self.folder.write(name, format!("#!/bin/sh\n{script}\n"));
        std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        path
    }
}

/// A program that becomes Lockgate once the test allows it.
struct WaitingProgram {
    program: PathBuf,
    gate: PathBuf,
}

impl WaitingProgram {
    /// The body of a request for an upgrade to it.
    fn body(&self) -> String {
        format!("{{ \"program\": \"{}\" }}", text(&self.program))
    }

    /// Waits until it was started.
    fn wait(&self) {
        let waits = self.gate.with_extension("waits");
        eventually("the program waits", || waits.exists().then_some(()));
    }

    fn go_on(&self) {
        std::fs::write(&self.gate, "").unwrap();
    }
}

fn admin_at(socket: &Path) -> String {
    format!("admin = \"unix:{}\"\n", text(socket))
}

fn pid_of(pid: u32) -> Pid {
    Pid::from_raw(i32::try_from(pid).unwrap()).unwrap()
}

/// Waits until a process has ended, whether its parent knows or not.
fn wait_for_end(pid: u32) {
    eventually("the process ends", || {
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
            return Some(());
        };
        // proc_pid_stat(5): the state follows the name, which is in parentheses.
        let state = stat.rsplit_once(") ").unwrap().1;
        state.starts_with(['Z', 'X']).then_some(())
    });
}

/// A site for any host, without TLS, that responds with this text.
fn responding(text: &str) -> String {
    format!("[site.\":0\"]\nlisten = [\"127.0.0.1\"]\nrespond = {{ body = \"{text}\" }}\n")
}

/// Fills a pipe: what writes to it waits.
fn fill(pipe: impl AsFd) {
    rustix::io::ioctl_fionbio(&pipe, true).unwrap();
    while rustix::io::write(&pipe, b"\n").is_ok() {}
    rustix::io::ioctl_fionbio(&pipe, false).unwrap();
}

/// Waits until a new process of two workers has all sockets.
fn wait_for_sockets(pid: u32) {
    let descriptors = format!("/proc/{pid}/fd");
    eventually("it has the sockets", || {
        let all = std::fs::read_dir(&descriptors).unwrap();
        let links = all.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
        let sockets = links.filter(|link| text(link).starts_with("socket:"));
        // Of each worker, of the metrics address, the admin socket, and the pair.
        (sockets.count() == 5).then_some(())
    });
}

fn get() -> &'static str {
    "GET / HTTP/1.1\r\nHost: app.test\r\n\r\n"
}

/// The text that a new connection gets.
fn body(address: SocketAddr) -> String {
    let mut client = Http::connect(address);
    client.send(get());
    client.answer().text().to_owned()
}
