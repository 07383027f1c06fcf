//! The arguments of `lockgate plan`: a configuration, and the one before it.

use std::path::PathBuf;

use clap::Args;

use super::PrintFormat;
use super::admin::{SocketArg, SocketChoice};

// No doc comment: clap would print it instead of the command's.
#[derive(Args)]
pub(super) struct PlanArgs {
    #[command(flatten)]
    pub(super) config: super::ConfigArgs,
    /// The configuration before [default: the one that runs]
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// The admin socket of the running Lockgate, where no configuration file names it
    #[arg(long, value_name = "unix:/PATH", conflicts_with = "from")]
    admin: Option<SocketArg>,
    /// An access log in JSON, with requests that both configurations decide about; `-` is standard
    /// input; may be repeated
    #[arg(long = "log", value_name = "FILE")]
    logs: Vec<PathBuf>,
    /// Exit with 2 if a request of the logs would meet something else, or without logs if anything
    /// changes
    #[arg(long)]
    strict: bool,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

/// Two configurations to compare.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlanOptions {
    /// The file of the configuration to come.
    pub(crate) config: PathBuf,
    pub(crate) before: ConfigBefore,
    pub(crate) logs: Vec<PathBuf>,
    pub(crate) is_strict: bool,
    pub(crate) output: PrintFormat,
}

/// The configuration before.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ConfigBefore {
    /// That of a file.
    File(PathBuf),
    /// The one that runs.
    Running(SocketChoice),
}

impl PlanArgs {
    pub(super) fn resolve(self, config: PathBuf) -> PlanOptions {
        PlanOptions {
            before: match (self.from, self.admin) {
                (Some(file), _) => ConfigBefore::File(file),
                (None, Some(SocketArg(path))) => ConfigBefore::Running(SocketChoice::At(path)),
                (None, None) => ConfigBefore::Running(SocketChoice::Default(config.clone())),
            },
            config,
            logs: self.logs,
            is_strict: self.strict,
            output: super::output(self.json),
        }
    }
}
