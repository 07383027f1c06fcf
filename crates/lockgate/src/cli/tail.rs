//! The arguments of `tail`.

use std::time::Duration;

use clap::Args;

use super::PrintFormat;
use super::admin::{AdminArgs, SocketChoice};
use super::connections::time;

// No doc comment: clap would print it instead of the command's.
#[derive(Args)]
pub(super) struct TailArgs {
    /// Only requests for this site
    #[arg(long, value_name = "NAME")]
    site: Option<String>,
    /// Only this status, class of statuses or range: 404, 5xx, 500-504; may be given again
    #[arg(long, value_name = "STATUS")]
    status: Vec<String>,
    /// Only what failed for this cause
    #[arg(long, value_name = "CAUSE")]
    cause: Option<String>,
    /// Only what took longer
    #[arg(long, value_name = "TIME", value_parser = time)]
    slower_than: Option<Duration>,
    /// Only of this client: an address or a network
    #[arg(long, value_name = "CIDR")]
    client: Option<String>,
    /// Only of this listener
    #[arg(long, value_name = "NAME")]
    listener: Option<String>,
    #[command(flatten)]
    admin: AdminArgs,
}

/// The lines that `tail` follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TailOptions {
    pub(crate) socket: SocketChoice,
    pub(crate) output: PrintFormat,
    /// The parameters of the query that chooses the lines.
    pub(crate) parameters: Vec<(&'static str, String)>,
}

impl TailArgs {
    /// The parameters, and the arguments that choose the admin socket.
    pub(super) fn split(self) -> (Vec<(&'static str, String)>, AdminArgs) {
        let slower_than = self.slower_than.map(|time| time.as_secs_f64().to_string());
        let once = [
            ("site", self.site),
            ("cause", self.cause),
            ("slower_than", slower_than),
            ("client", self.client),
            ("listener", self.listener),
        ];
        let once = once.into_iter();
        let once = once.filter_map(|(name, value)| Some((name, value?)));
        let statuses = self.status.into_iter().map(|status| ("status", status));
        (once.chain(statuses).collect(), self.admin)
    }
}
