//! The arguments of `lockgate check`.

use std::path::PathBuf;

use clap::Args;

use super::{ConfigArgs, PrintFormat, output};

// No doc comment: clap would print it instead of the command's.
#[derive(Args, Default)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    pub(super) config: ConfigArgs,
    /// Print the settings of each address: certificates, TLS versions, ALPN, routes, endpoints
    #[arg(short, long)]
    pub(super) verbose: bool,
    /// Print a JSON object instead of text
    #[arg(long)]
    pub(super) json: bool,
    /// Exit with 2 when there are warnings
    #[arg(long)]
    pub(super) strict: bool,
    /// Also try to bind the addresses, which fails if another process, such as a running Lockgate,
    /// has them
    #[arg(long)]
    pub(super) bind: bool,
    /// Have the running Lockgate check the file: as its user, and with what needs a restart
    #[arg(long, conflicts_with_all = ["verbose", "strict", "bind"])]
    pub(super) against_running: bool,
}

/// The file that `check` examines, and how it reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CheckOptions {
    pub(crate) config: PathBuf,
    pub(crate) detail: Detail,
    pub(crate) output: PrintFormat,
    pub(crate) warnings: WarningPolicy,
    pub(crate) addresses: AddressCheck,
}

/// How much `check` prints when nothing is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    /// Mistakes, and one line at the end.
    Mistakes,
    /// Also the settings of each address (`-v`).
    Everything,
}

/// The checks of the listeners' addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressCheck {
    /// Whether this machine has them; their ports may be in use, for example by the server that is
    /// to be restarted.
    OfMachine,
    /// Also whether their ports are free (`--bind`).
    Bind,
}

/// The effect of warnings on the exit code of `check`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WarningPolicy {
    /// They are printed only: exit code 0.
    Printed,
    /// They give exit code 2 (`--strict`).
    Fatal,
}

impl CheckArgs {
    pub(super) fn resolve(self, config: PathBuf) -> CheckOptions {
        CheckOptions {
            config,
            detail: if self.verbose {
                Detail::Everything
            } else {
                Detail::Mistakes
            },
            output: output(self.json),
            warnings: if self.strict {
                WarningPolicy::Fatal
            } else {
                WarningPolicy::Printed
            },
            addresses: if self.bind {
                AddressCheck::Bind
            } else {
                AddressCheck::OfMachine
            },
        }
    }
}
