//! The arguments of `connections`.

use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand};
use lockgate_load::profile::duration;
use serde_json::{Value, json};

use super::PrintFormat;
use super::admin::{AdminArgs, SocketChoice};

// No doc comment: clap would print it instead of the command's.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct ConnectionsArgs {
    #[command(subcommand)]
    action: Option<ConnectionsAction>,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(Subcommand)]
enum ConnectionsAction {
    /// List the connections, the oldest first
    List(ListArgs),
    /// Close connections
    #[command(
        after_help = "Examples:\n  lockgate connections close --client 192.0.2.7\n  \
        lockgate connections close --site app.example.com --older-than 1h\n\n\
        Options together mean the connections that are of every kind."
    )]
    Close(CloseArgs),
}

#[derive(Args)]
struct ListArgs {
    /// Only of this client: an address or a network
    #[arg(long, value_name = "IP")]
    client: Option<String>,
    /// Only of this listener
    #[arg(long, value_name = "NAME")]
    listener: Option<String>,
    /// Only with a request for this site
    #[arg(long, value_name = "NAME")]
    site: Option<String>,
    /// Only those that are older
    #[arg(long, value_name = "TIME", value_parser = time)]
    older_than: Option<Duration>,
    /// The most rows [default: 1000]
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    #[command(flatten)]
    admin: AdminArgs,
}

#[derive(Args)]
#[command(group = ArgGroup::new("which").required(true).multiple(true).args(["ids", "client", "listener", "site", "older_than"]))]
struct CloseArgs {
    /// The ids that `connections` shows
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// All of this client: an address or a network
    #[arg(long, value_name = "IP", conflicts_with = "ids")]
    client: Option<String>,
    /// All of this listener
    #[arg(long, value_name = "NAME", conflicts_with = "ids")]
    listener: Option<String>,
    /// All with a request for this site
    #[arg(long, value_name = "NAME", conflicts_with = "ids")]
    site: Option<String>,
    /// All that are older
    #[arg(long, value_name = "TIME", conflicts_with = "ids", value_parser = time)]
    older_than: Option<Duration>,
    #[command(flatten)]
    admin: AdminArgs,
}

/// What `connections` does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionsOptions {
    pub(crate) socket: SocketChoice,
    pub(crate) output: PrintFormat,
    pub(crate) verb: ConnectionsVerb,
}

/// A verb of `connections`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionsVerb {
    /// List those that these parameters of a query choose.
    List(Vec<(&'static str, String)>),
    /// Close those that this body chooses.
    Close(Value),
}

impl ConnectionsArgs {
    /// The verb, and the arguments that choose the admin socket.
    pub(super) fn split(self) -> (ConnectionsVerb, AdminArgs) {
        match self.action {
            None => self.list.split(),
            Some(ConnectionsAction::List(list)) => list.split(),
            Some(ConnectionsAction::Close(close)) => close.split(),
        }
    }
}

impl ListArgs {
    fn split(self) -> (ConnectionsVerb, AdminArgs) {
        let older_than = self.older_than.map(|time| time.as_secs_f64().to_string());
        let parameters = [
            ("client", self.client),
            ("listener", self.listener),
            ("site", self.site),
            ("older_than", older_than),
            ("limit", self.limit.map(|limit| limit.to_string())),
        ];
        let given = parameters.into_iter();
        let given = given.filter_map(|(name, value)| Some((name, value?)));
        (ConnectionsVerb::List(given.collect()), self.admin)
    }
}

impl CloseArgs {
    fn split(self) -> (ConnectionsVerb, AdminArgs) {
        let mut body = json!({
            "client": self.client,
            "listener": self.listener,
            "site": self.site,
            "older_than": self.older_than.map(|time| time.as_secs_f64()),
        });
        if !self.ids.is_empty() {
            body["ids"] = json!(self.ids);
        }
        (ConnectionsVerb::Close(body), self.admin)
    }
}

/// A time such as `90s` or `5m`.
pub(super) fn time(written: &str) -> Result<Duration, String> {
    duration(written).map_err(|error| error.to_string())
}
