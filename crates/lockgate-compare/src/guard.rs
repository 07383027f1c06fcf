//! `lockgate guard`: runs a command so that none of its processes outlives the caller.
//!
//! Orphans of the command, such as a daemon that forked twice, become children of the guard. When
//! the command has ended, the guard gets a signal, or its parent has ended, all of them are ended
//! and waited for. The command has a control group of its own where the guard may make one: it
//! keeps the CPU time of processes that nothing waits for.

use std::ffi::OsString;
use std::io;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitOptions, WaitStatus, getpid, getppid, getrlimit,
    kill_process, set_child_subreaper, set_parent_process_death_signal, setrlimit, wait,
};
use tokio::signal::unix::{SignalKind, signal};

use crate::cpus::Cpus;
use lockgate_load::control_group::ControlGroup;
use lockgate_load::process_tree::ProcessTree;

/// Time between TERM and KILL.
const GRACE: Duration = Duration::from_secs(2);
/// Time after KILL before the rest is left.
const LAST: Duration = Duration::from_secs(5);

/// A guarded command with its CPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessGuard {
    /// CPUs that the command and all its descendants are pinned to.
    pub cpus: Option<Cpus>,
    /// Process that starts the guard; if the guard's parent is another one, that process has ended
    /// already.
    pub parent: Option<u32>,
    /// The command and its arguments; never empty.
    pub command: Vec<OsString>,
}

impl ProcessGuard {
    /// Runs the command to its end: TERM, INT and HUP end it, and so does the end of the thread
    /// that started the guard.
    ///
    /// Its descendants get TERM, and KILL after 2 s. A command that succeeds and leaves a daemon
    /// runs on until that ends. Descriptors are limited by the hard limit. The exit code is the
    /// command's, 128 and its number for a signal, 127 where there is no such command.
    ///
    /// # Errors
    /// An error of the system: the CPUs do not exist, no process can be made.
    pub fn run(&self) -> io::Result<ExitCode> {
        // What process lists show; nothing goes by it.
        rustix::thread::set_name(c"lockgate-guard")?;
        adopt_orphans()?;
        if let Some(cpus) = &self.cpus {
            cpus.pin()?;
        }
        raise_descriptor_limit()?;
        tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()?
            .block_on(self.hold())
    }

    async fn hold(&self) -> io::Result<ExitCode> {
        let mut ended = signal(SignalKind::child())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut hangup = signal(SignalKind::hangup())?;
        // In this order: a parent that ended before the first line shows in the second; a later end
        // sends the signal.
        set_parent_process_death_signal(Some(Signal::TERM))?;
        let parent = getppid().map_or(0, |pid| pid.as_raw_nonzero().get().unsigned_abs());
        if self.parent.is_some_and(|expected| expected != parent) {
            return Ok(ExitCode::FAILURE);
        }
        let Some((program, arguments)) = self.command.split_first() else {
            return Ok(ExitCode::FAILURE);
        };
        let mut command = Command::new(program);
        // A group of its own: Ctrl-C is for the caller to handle.
        std::os::unix::process::CommandExt::process_group(command.args(arguments), 0);
        let group = ProgramGroup::make();
        let spawned = command.spawn();
        group.leave();
        let child = match spawned {
            Ok(child) => child,
            Err(error) => {
                eprintln!("{}: {error}", program.display());
                return Ok(ExitCode::from(127));
            }
        };
        let first = Pid::from_child(&child);
        let mut status = None;
        loop {
            let left = reap(|pid, what| {
                if pid == first {
                    status = Some(what);
                }
            });
            let failed = status.is_some_and(|status| status.exit_status() != Some(0));
            if left == Children::None || failed {
                break;
            }
            let told = tokio::select! {
                _ = ended.recv() => false,
                _ = terminate.recv() => true,
                _ = interrupt.recv() => true,
                _ = hangup.recv() => true,
            };
            if told {
                break;
            }
        }
        end_descendants(|pid, what| {
            if pid == first {
                status = Some(what);
            }
        });
        Ok(status.map_or(ExitCode::FAILURE, exit_code))
    }
}

/// The control group of the command, where one can be made; removed at the end.
struct ProgramGroup(Option<ControlGroup>);

impl ProgramGroup {
    fn make() -> Self {
        // Without one, the command's CPU time comes from /proc.
        Self(ControlGroup::make().ok())
    }

    /// Leaves only the command in it.
    fn leave(&self) {
        if let Some(group) = &self.0 {
            let _ = group.leave();
        }
    }
}

impl Drop for ProgramGroup {
    fn drop(&mut self) {
        if let Some(group) = &self.0 {
            group.remove();
        }
    }
}

/// Makes this process the parent of orphans among its descendants.
///
/// # Errors
/// An error of the system.
pub fn adopt_orphans() -> io::Result<()> {
    // Any number but 0 switches it on.
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Raises the soft limit on open descriptors to the hard one, for this process and its children.
///
/// # Errors
/// An error of the system.
pub fn raise_descriptor_limit() -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        setrlimit(
            Resource::Nofile,
            Rlimit {
                current: limit.maximum,
                maximum: limit.maximum,
            },
        )?;
    }
    Ok(())
}

/// Ends all descendants and waits for them: TERM, and KILL after 2 s. `reaped` gets each. Processes
/// that are left after 5 s more, such as programs of another account, are named and left.
pub fn end_descendants(mut reaped: impl FnMut(Pid, WaitStatus)) {
    let since = Instant::now();
    signal_descendants(Signal::TERM);
    while reap(&mut reaped) == Children::Some {
        if since.elapsed() > GRACE {
            // Repeated, since processes may fork meanwhile.
            signal_descendants(Signal::KILL);
        }
        if since.elapsed() > GRACE + LAST {
            let left = ProcessTree::new(std::process::id())
                .below()
                .unwrap_or_default();
            let left: Vec<_> = left.into_iter().map(named).collect();
            eprintln!("these processes could not be ended: {}", left.join(", "));
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// ID and name of a process.
fn named(pid: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    format!(
        "{pid} {}",
        lockgate_report::escape::terminal(name.trim_end())
    )
}

fn signal_descendants(signal: Signal) {
    let all = ProcessTree::new(std::process::id())
        .below()
        .unwrap_or_default();
    for pid in all {
        if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
            // It may have ended meanwhile.
            let _ = kill_process(pid, signal);
        }
    }
}

/// Whether this process has children, ended or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Children {
    None,
    Some,
}

/// Waits for children that have ended.
fn reap(mut reaped: impl FnMut(Pid, WaitStatus)) -> Children {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => reaped(pid, status),
            Ok(None) => return Children::Some,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return Children::None,
        }
    }
}

fn exit_code(status: WaitStatus) -> ExitCode {
    let code = status
        .exit_status()
        .or_else(|| Some(128 + status.terminating_signal()?));
    code.and_then(|code| u8::try_from(code).ok())
        .map_or(ExitCode::FAILURE, ExitCode::from)
}
