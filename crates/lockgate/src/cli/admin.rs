//! The arguments of the commands that ask a running Lockgate over its admin socket.

mod change;

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use lockgate_load::profile::duration;

use super::{PrintFormat, output};

pub(crate) use change::ChangeRequest;
pub(super) use change::{ClientCommand, EndpointCommand, LimitsArgs, SiteCommand};

// No doc comment: clap would print it instead of the command's.
#[derive(Args)]
pub(super) struct AdminArgs {
    /// The configuration file of the Lockgate to ask, which names its admin socket
    /// [default: $LOCKGATE_CONFIG, else /etc/lockgate/lockgate.toml]
    #[arg(
        short = 'c',
        short_alias = 'f',
        long = "config",
        value_name = "FILE",
        id = "file"
    )]
    config: Option<PathBuf>,
    /// The admin socket, instead of a configuration file
    #[arg(long, value_name = "unix:/PATH", conflicts_with = "file")]
    admin: Option<SocketArg>,
    /// Print the JSON of the response
    #[arg(long)]
    json: bool,
}

// No doc comment: clap would print it instead of the command's.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub(crate) struct UpgradeOptions {
    /// The new program [default: the file of the running one]
    #[arg(value_name = "BINARY")]
    pub(crate) program: Option<PathBuf>,
    /// The time in seconds within which it must be ready to serve
    #[arg(long, value_name = "SECONDS", default_value_t = 60,
        value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) timeout: u64,
}

/// `unix:/PATH`, or the path alone.
#[derive(Clone, Debug)]
pub(super) struct SocketArg(pub(super) PathBuf);

/// A command over the admin socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AdminOptions {
    pub(crate) socket: SocketChoice,
    pub(crate) output: PrintFormat,
    pub(crate) verb: AdminVerb,
}

/// Where the admin socket is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SocketChoice {
    /// At this path.
    At(PathBuf),
    /// Where this configuration file has it.
    Configured(PathBuf),
    /// Where this configuration file has it, or in a default place if the file cannot be read:
    /// nothing named the file.
    Default(PathBuf),
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AdminVerb {
    Status,
    Pools,
    Endpoints,
    Certs,
    /// The level to set; without one the level is shown.
    LogLevel(Option<LevelName>),
    Reload {
        /// Whether the configuration comes from standard input.
        stdin: bool,
        /// The seconds within which it must be confirmed, if it must.
        confirm: Option<u64>,
    },
    /// What a reload of the file would find wrong.
    Check,
    Confirm,
    Rollback,
    Upgrade(UpgradeOptions),
    Reopen,
    Drain,
    Stop,
    Change(ChangeRequest),
}

/// The level of the operator log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LevelName {
    Error,
    Warn,
    Info,
    Debug,
}

impl LevelName {
    /// As the configuration and the admin socket name it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }
}

/// Has the running Lockgate of a file check it.
pub(super) fn check(file: PathBuf, json: bool) -> AdminOptions {
    AdminOptions {
        socket: SocketChoice::Configured(file),
        output: output(json),
        verb: AdminVerb::Check,
    }
}

/// The time for a confirmation, in whole seconds.
pub(super) fn confirmation(written: &str) -> Result<u64, String> {
    let time = duration(written).map_err(|error| error.to_string())?;
    let seconds = time.as_secs();
    (1..=86_400)
        .contains(&seconds)
        .then_some(seconds)
        .ok_or_else(|| "from 1s to 24h".to_owned())
}

impl AdminArgs {
    /// Whether it names an admin socket.
    pub(super) fn names_socket(&self) -> bool {
        self.admin.is_some()
    }

    /// The configuration file that it names, and how the answer is printed.
    pub(super) fn into_file(self) -> (Option<PathBuf>, PrintFormat) {
        (self.config, output(self.json))
    }

    /// Where the socket is, and how the response is printed; `outer` is a file before the command,
    /// `default` the one for none. `None` where a file is given twice, or a file and a socket.
    pub(super) fn choice(
        self,
        outer: Option<PathBuf>,
        default: PathBuf,
    ) -> Option<(SocketChoice, PrintFormat)> {
        let socket = match (self.admin, self.config, outer) {
            (Some(SocketArg(path)), None, None) => SocketChoice::At(path),
            (None, Some(file), None) | (None, None, Some(file)) => SocketChoice::Configured(file),
            (None, None, None) => SocketChoice::Default(default),
            _ => return None,
        };
        Some((socket, output(self.json)))
    }
}

impl FromStr for SocketArg {
    type Err = String;

    fn from_str(written: &str) -> Result<Self, Self::Err> {
        let path = written.strip_prefix("unix:").unwrap_or(written);
        if !path.contains('/') {
            return Err("write unix:/run/lockgate/admin.sock".to_owned());
        }
        Ok(Self(PathBuf::from(path)))
    }
}
