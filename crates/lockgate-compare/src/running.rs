//! Running programs: started through a guard, ready when they accept connections, ended.

use std::fs::File;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tokio::net::{TcpStream, UnixStream};
use tokio::process::{Child, Command};

use crate::cpus::Cpus;
use crate::placeholders::PlaceholderValues;
use crate::plan::ServiceSettings;

/// Timeout of a start, until the program accepts connections.
const UNTIL_READY: Duration = Duration::from_secs(10);

/// Directories of servers, which are often not in a user's PATH.
const ALSO: &str = "/usr/local/sbin:/usr/sbin:/sbin";

/// A running program with all its processes.
pub(crate) struct RunningProgram {
    guard: Child,
    log: PathBuf,
    /// Process ID of the guard: the top of the program's tree.
    pub(crate) pid: u32,
}

/// Starter of programs, through this executable as guard.
#[derive(Debug, Clone)]
pub(crate) struct Starter {
    pub(crate) executable: PathBuf,
}

impl Starter {
    /// Starts `command` in `directory`, with its output in the file `log`.
    pub(crate) fn start(
        &self,
        command: &[String],
        environment: &[(String, String)],
        directory: &Path,
        log: &Path,
        cpus: &Cpus,
    ) -> io::Result<RunningProgram> {
        let log = log.to_owned();
        let file = File::create(&log)?;
        let mut guard = Command::new(&self.executable);
        guard.args([
            "guard",
            "--cpus",
            &cpus.to_string(),
            "--parent",
            &std::process::id().to_string(),
            "--",
        ]);
        guard
            .args(command)
            .env("PATH", search_path())
            .envs(environment.iter().map(|(name, value)| (name, value)));
        guard
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file);
        // A process group of its own: Ctrl-C is for this process to handle.
        guard.process_group(0);
        let guard = guard.spawn()?;
        let pid = guard
            .id()
            .ok_or_else(|| io::Error::other("it has ended already"))?;
        Ok(RunningProgram { guard, log, pid })
    }

    /// Starts a service and waits until it accepts connections.
    ///
    /// # Errors
    /// The reason, with the last lines of the program's output.
    pub(crate) async fn serve(
        &self,
        service: &ServiceSettings,
        values: &PlaceholderValues,
        own: &Path,
        cpus: &Cpus,
    ) -> Result<RunningProgram, String> {
        let ready = values.fill(&service.ready);
        if accepts(&ready).await {
            return Err(format!(
                "another process already accepts connections at {ready}"
            ));
        }
        for (name, content) in &service.files {
            write(&own.join(name), &values.fill(content))
                .map_err(|error| format!("{name}: {error}"))?;
        }
        let command: Vec<_> = service
            .command
            .iter()
            .map(|word| values.fill(word))
            .collect();
        let environment: Vec<_> = service
            .environment
            .iter()
            .map(|(name, value)| (name.clone(), values.fill(value)))
            .collect();
        let started = self.start(&command, &environment, own, &own.join("output"), cpus);
        let mut running = started.map_err(|error| format!("it could not be started: {error}"))?;
        let since = Instant::now();
        loop {
            if let Ok(Some(status)) = running.guard.try_wait() {
                return Err(format!(
                    "it ended before it was ready, {status}{}",
                    running.last_words()
                ));
            }
            if accepts(&ready).await {
                return Ok(running);
            }
            if since.elapsed() > UNTIL_READY {
                let words = running.last_words();
                running.stop().await;
                let limit = UNTIL_READY.as_secs();
                return Err(format!(
                    "it did not accept connections at {ready} within {limit} s{words}"
                ));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl RunningProgram {
    /// Waits until the program ends by itself.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.guard.wait().await
    }

    /// Whether the program has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.guard.try_wait(), Ok(None))
    }

    /// The last lines of its output behind a colon; empty without output.
    pub(crate) fn last_words(&self) -> String {
        let said = std::fs::read(&self.log).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        let lines: Vec<_> = said
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        let last = lines
            .get(lines.len().saturating_sub(5)..)
            .unwrap_or_default();
        if last.is_empty() {
            String::new()
        } else {
            format!(":\n    {}", last.join("\n    "))
        }
    }

    /// Ends the program with all its processes. The guard gives them 2 s.
    pub(crate) async fn stop(mut self) {
        if let Some(pid) = self
            .guard
            .id()
            .and_then(|pid| Pid::from_raw(pid.cast_signed()))
        {
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = self.guard.wait().await;
    }
}

/// The path of a program, if it is installed.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let may_run = |path: &Path| {
        path.metadata()
            .is_ok_and(|what| what.is_file() && what.permissions().mode() & 0o111 != 0)
    };
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| may_run(path));
    }
    std::env::split_paths(&search_path())
        .map(|folder| folder.join(program))
        .find(|path| may_run(path))
}

/// The first line of a command's output; empty without output.
pub(crate) async fn first_line(command: &[String]) -> String {
    let Some((program, arguments)) = command.split_first() else {
        return String::new();
    };
    let mut asked = Command::new(find(program).unwrap_or_else(|| program.into()));
    asked
        .args(arguments)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let Ok(Ok(output)) = tokio::time::timeout(Duration::from_secs(10), asked.output()).await else {
        return String::new();
    };
    let said = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&said)
        .lines()
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default()
        .trim()
        .to_owned()
}

/// Makes an empty directory, open to accounts that programs change to.
pub(crate) fn fresh_directory(path: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    std::fs::create_dir_all(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
}

fn write(path: &Path, content: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, content)
}

async fn accepts(address: &str) -> bool {
    let connected = async {
        match address.strip_prefix("unix:") {
            Some(path) => UnixStream::connect(path).await.is_ok(),
            None => TcpStream::connect(address).await.is_ok(),
        }
    };
    // A full queue or a dropped packet must not use up the timeout of the start.
    tokio::time::timeout(Duration::from_secs(1), connected)
        .await
        .unwrap_or(false)
}

fn search_path() -> std::ffi::OsString {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    path.push(":");
    path.push(ALSO);
    path
}
