//! The arguments of `top`.

use clap::Args;

use super::PrintFormat;
use super::admin::{AdminArgs, SocketChoice};

// No doc comment: clap would print it instead of the command's.
#[derive(Args)]
pub(super) struct TopArgs {
    /// Print the figures once, as plain rows; so does an output that is no terminal
    #[arg(long)]
    pub(super) once: bool,
    #[command(flatten)]
    pub(super) admin: AdminArgs,
}

/// How `top` shows the figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TopOptions {
    pub(crate) socket: SocketChoice,
    /// JSON is printed once.
    pub(crate) output: PrintFormat,
    pub(crate) once: bool,
}
