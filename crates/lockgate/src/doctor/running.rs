//! What the running Lockgate says of itself over its admin socket.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::finding::{Finding, Group};
use crate::admin_client::{ask_for, find};
use crate::cli::admin::SocketChoice;

/// The Lockgate that runs the configuration.
#[derive(Debug)]
pub(super) enum Running {
    Answers(Box<RunningAnswer>),
    /// There is none, or it cannot be asked: the reason.
    Silent(String),
}

/// The answers of a running Lockgate.
#[derive(Debug, Default)]
pub(super) struct RunningAnswer {
    socket: PathBuf,
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
    configuration: Option<FileAnswer>,
}

/// A listener that runs.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct BoundAnswer {
    pub(super) name: String,
    pub(super) address: String,
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
    pub(super) fn ask(choice: &SocketChoice, file: &Path) -> Self {
        match Self::try_ask(choice, file) {
            Ok(answer) => Self::Answers(Box::new(answer)),
            Err(error) => Self::Silent(format!("{error:#}")),
        }
    }

    fn try_ask(choice: &SocketChoice, file: &Path) -> anyhow::Result<RunningAnswer> {
        let socket = find(choice)?;
        let status: StatusAnswer = ask_for(&socket, "/v1/status")?;
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
            rate_limits: ask_for(&socket, "/v1/limits")?,
            socket,
            status,
        })
    }

    /// What it has answered.
    pub(super) fn answer(&self) -> Option<&RunningAnswer> {
        match self {
            Self::Answers(answer) => Some(answer),
            Self::Silent(_) => None,
        }
    }

    /// Its process.
    pub(super) fn pid(&self) -> Option<u32> {
        self.answer().map(|answer| answer.status.pid)
    }

    /// Whether it runs, and what it runs.
    pub(super) fn findings(&self) -> Vec<Finding> {
        let (group, what) = (Group::Configuration, "running Lockgate");
        let answer = match self {
            Self::Answers(answer) => answer,
            Self::Silent(why) => {
                let cure = "start it, or name its socket by --admin: ports, usage and peaks are known from it";
                return vec![group.note(what, format!("not asked: {why}"), cure)];
            }
        };
        let RunningAnswer { socket, status, .. } = &**answer;
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

/// Whether two paths are one file.
fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    real(one) == real(other)
}
