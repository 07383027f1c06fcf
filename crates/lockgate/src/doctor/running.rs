//! What the running Lockgate says of itself over its admin socket.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lockgate_config::Config;
use lockgate_net::listen::ListenAddress;
use serde::Deserialize;
use tokio::net::UnixStream;
use tokio::runtime::Builder;

use super::finding::{Finding, Group};
use super::sockets::{connect_unix, holders};
use crate::admin_client::{Unanswered, ask_for_within, find};
use crate::cli::admin::SocketChoice;

/// The time for an answer, which comes from memory.
const PATIENCE: Duration = Duration::from_secs(5);

/// The Lockgate that runs the configuration.
#[derive(Debug)]
pub(super) enum Running {
    Answers(Box<RunningAnswer>),
    /// A program listens at the admin socket, and does not answer in time: the socket and the error.
    Hung(String),
    /// There is none, or it cannot be asked: the reason.
    Silent(String),
    /// The configuration has no admin socket.
    NoSocket,
}

/// The answers of a running Lockgate.
#[derive(Debug, Default)]
pub(super) struct RunningAnswer {
    socket: PathBuf,
    /// `status.pid`, if that number is this process in the /proc of this command, too.
    process: Option<u32>,
    pub(super) status: StatusAnswer,
    pub(super) rate_limits: RateLimitsAnswer,
}

/// Of `/v1/status`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct StatusAnswer {
    pub(super) version: String,
    pub(super) pid: u32,
    pub(super) phase: String,
    pub(super) uptime_seconds: u64,
    pub(super) listeners: Vec<BoundAnswer>,
    pub(super) limits: LimitsAnswer,
    /// The names that `[ddns]` keeps.
    pub(super) names: Vec<KeptNameAnswer>,
    configuration: Option<FileAnswer>,
}

/// A name that `[ddns]` keeps.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct KeptNameAnswer {
    pub(super) name: String,
    /// Why the last try has failed.
    pub(super) failure: Option<String>,
}

/// A listener that runs.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct BoundAnswer {
    pub(super) name: String,
    pub(super) address: String,
    /// `http`, `https`, `tcp` or `tls`; the latter two relay.
    pub(super) kind: String,
}

/// The limits of the process.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct LimitsAnswer {
    pub(super) connections: UsedAnswer,
    pub(super) sockets: UsedAnswer,
    pub(super) handshakes: UsedAnswer,
    pub(super) memory: UsedAnswer,
    /// The span of the peaks.
    pub(super) peak_seconds: u64,
}

/// A limit, and how much of it is used.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct UsedAnswer {
    pub(super) used: u64,
    /// The most that was seen in use within `peak_seconds`.
    pub(super) peak: Option<u64>,
    /// `None` where there is no limit.
    pub(super) size: Option<u64>,
    /// Those that wait.
    pub(super) waiting: u64,
    /// Those of `used` that give way to others.
    pub(super) idle: u64,
}

/// The file of the configuration that runs.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct FileAnswer {
    file: PathBuf,
    differs: bool,
}

/// Of `/v1/limits`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RateLimitsAnswer {
    pub(super) limits: Vec<RateLimitAnswer>,
    pub(super) buckets: UsedAnswer,
}

/// A rate limit.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RateLimitAnswer {
    pub(super) names: Vec<String>,
    /// Clients that are at the limit now.
    pub(super) limited: u64,
    /// Refused requests since the start.
    pub(super) refused: u64,
}

impl Running {
    /// Asks the Lockgate of a configuration file. One that answers in a default place and runs
    /// another file is not asked further.
    pub(super) fn ask(choice: &SocketChoice, file: &Path, config: &Config) -> Self {
        match choice {
            SocketChoice::Default(_) | SocketChoice::Configured(_) if config.admin.is_none() => {
                Self::NoSocket
            }
            _ => Self::ask_within(PATIENCE, choice, file),
        }
    }

    fn ask_within(time: Duration, choice: &SocketChoice, file: &Path) -> Self {
        match Self::try_ask(time, choice, file) {
            Ok(answer) => Self::Answers(Box::new(answer)),
            Err(error) => match error.downcast::<Unanswered>() {
                Ok(Unanswered { socket, error }) => {
                    Self::Hung(format!("unix:{}: {error}", socket.display()))
                }
                Err(error) => Self::Silent(format!("{error:#}")),
            },
        }
    }

    fn try_ask(
        time: Duration,
        choice: &SocketChoice,
        file: &Path,
    ) -> anyhow::Result<RunningAnswer> {
        let socket = find(choice)?;
        let status: StatusAnswer = ask_for_within(time, &socket, "/v1/status")?;
        let is_named = matches!(choice, SocketChoice::At(_));
        let runs = status.configuration.as_ref().map(|known| &known.file);
        if let Some(other) = runs.filter(|known| !is_named && !is_same(known, file)) {
            anyhow::bail!(
                "the Lockgate at unix:{} runs {}",
                socket.display(),
                other.display()
            );
        }
        Ok(RunningAnswer {
            rate_limits: ask_for_within(time, &socket, "/v1/limits")?,
            process: is_process(status.pid, &socket).then_some(status.pid),
            socket,
            status,
        })
    }

    /// What it has answered.
    pub(super) fn answer(&self) -> Option<&RunningAnswer> {
        match self {
            Self::Answers(answer) => Some(answer),
            Self::Hung(_) | Self::Silent(_) | Self::NoSocket => None,
        }
    }

    /// Its process, as it says.
    pub(super) fn pid(&self) -> Option<u32> {
        self.answer().map(|answer| answer.status.pid)
    }

    /// Its process in the /proc of this command; `None` also where that number is another process,
    /// since it runs in another PID namespace.
    pub(super) fn process(&self) -> Option<u32> {
        self.answer()?.process
    }

    /// Whether it runs, and what it runs.
    pub(super) fn findings(&self) -> Vec<Finding> {
        let (group, what) = (Group::Configuration, "running Lockgate");
        let answer = match self {
            Self::Answers(answer) => answer,
            Self::Hung(error) => {
                let cure = "look at its log, and at `ps`: it is stopped, or its admin thread is stuck; a restart ends that";
                let found = format!("listens and does not answer: {error}");
                return vec![group.problem(what, found, cure)];
            }
            Self::NoSocket => {
                let cure =
                    "remove admin = false, and restart: ports, usage and peaks are known from it";
                return vec![group.note(what, "not asked: the file has admin = false", cure)];
            }
            Self::Silent(why) => {
                let cure = "start it, or name its socket by --admin: ports, usage and peaks are known from it";
                return vec![group.note(what, format!("not asked: {why}"), cure)];
            }
        };
        let RunningAnswer {
            socket,
            status,
            process,
            ..
        } = &**answer;
        let found = format!(
            "{} {} in process {}, at unix:{}",
            status.version,
            status.phase,
            status.pid,
            socket.display()
        );
        let mut findings = vec![match &*status.phase {
            "ready" => group.ok(what, found),
            _ => group.note(what, found, "ask again when it is ready"),
        }];
        if process.is_none() {
            let found = format!(
                "{} is not its number in the /proc of this command, so its open descriptors and their limit are not known",
                status.pid
            );
            let cure = "run doctor where Lockgate runs, in its PID namespace: `nsenter -t PID -p -m`, `docker exec`";
            findings.push(group.note("process", found, cure));
        }
        let own = env!("CARGO_PKG_VERSION");
        if status.version != own {
            let found = format!("{}, and this program is {own}", status.version);
            findings.push(group.note(
                "version",
                found,
                "`lockgate upgrade` lets this program take over",
            ));
        }
        if status
            .configuration
            .as_ref()
            .is_some_and(|known| known.differs)
        {
            let found = "the running Lockgate does not run the file as it is now";
            findings.push(group.note(
                "reload",
                found,
                "`lockgate plan` says what differs, `lockgate reload` takes it over",
            ));
        }
        findings
    }
}

/// Whether `pid` is the process behind an admin socket, in the /proc of this command.
fn is_process(pid: u32, socket: &Path) -> bool {
    let is_peer = peer_of(socket).is_ok_and(|peer| peer == i32::try_from(pid).ok());
    // After an upgrade, the process that began to listen has ended, and its successor has the socket.
    is_peer || {
        let address = ListenAddress::Unix(socket.to_owned());
        holders(&address).iter().any(|holder| holder.pid == pid)
    }
}

/// The process that has begun to listen at an admin socket (SO_PEERCRED). By tokio, since one of a
/// namespace that is not seen is 0, which the `Pid` of rustix cannot hold.
fn peer_of(socket: &Path) -> io::Result<Option<i32>> {
    let runtime = Builder::new_current_thread().enable_io().build()?;
    let _entered = runtime.enter();
    let stream = UnixStream::from_std(connect_unix(socket)?.into())?;
    Ok(stream.peer_cred()?.pid())
}

/// Whether two paths are one file.
fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    real(one) == real(other)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::super::finding::Level;
    use super::*;

    #[test]
    fn an_admin_socket_that_does_not_answer_is_a_problem() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("admin.sock");
        let _listener = UnixListener::bind(&path).unwrap();
        let choice = SocketChoice::At(path);
        let running = Running::ask_within(Duration::from_millis(1), &choice, Path::new("a.toml"));
        let findings = running.findings();
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert_eq!(findings[0].level, Level::Problem);
        assert!(
            findings[0].found.starts_with("listens and does not answer"),
            "{findings:?}"
        );
    }

    #[test]
    fn only_the_process_that_listens_is_that_of_the_answer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("admin.sock");
        let _listener = UnixListener::bind(&path).unwrap();
        assert!(is_process(std::process::id(), &path));
        assert!(!is_process(1, &path), "a number of another PID namespace");
    }

    #[test]
    fn figures_of_a_process_that_is_not_seen_are_not_known() {
        let running = Running::Answers(Box::new(RunningAnswer {
            status: StatusAnswer {
                pid: 1,
                phase: "ready".to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                ..StatusAnswer::default()
            },
            ..RunningAnswer::default()
        }));
        assert_eq!((running.pid(), running.process()), (Some(1), None));
        let findings = running.findings();
        let note = findings.iter().find(|found| found.what == "process");
        assert!(note.is_some_and(|note| note.found.contains("not known")));
    }
}
