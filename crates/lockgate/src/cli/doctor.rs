//! The arguments of `lockgate doctor`: a configuration, and the Lockgate that runs it.

use std::path::PathBuf;

use clap::Args;

use super::PrintFormat;
use super::admin::{SocketArg, SocketChoice};
use super::check::WarningPolicy;

// No doc comment: clap would print it instead of the command's.
#[derive(Args)]
pub(super) struct DoctorArgs {
    #[command(flatten)]
    pub(super) config: super::ConfigArgs,
    /// The admin socket of the running Lockgate, where the configuration does not name it
    #[arg(long, value_name = "unix:/PATH")]
    admin: Option<SocketArg>,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
    /// Exit with 1 for a warning, too
    #[arg(long)]
    strict: bool,
}

/// What `doctor` examines, and how it reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DoctorOptions {
    pub(crate) config: PathBuf,
    /// The running Lockgate.
    pub(crate) socket: SocketChoice,
    pub(crate) output: PrintFormat,
    pub(crate) warnings: WarningPolicy,
}

impl DoctorArgs {
    pub(super) fn resolve(self, config: PathBuf) -> DoctorOptions {
        DoctorOptions {
            socket: match self.admin {
                Some(SocketArg(path)) => SocketChoice::At(path),
                None => SocketChoice::Default(config.clone()),
            },
            config,
            output: super::output(self.json),
            warnings: match self.strict {
                true => WarningPolicy::Fatal,
                false => WarningPolicy::Printed,
            },
        }
    }
}
