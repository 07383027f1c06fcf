//! The arguments of `lockgate explain`: a request, and the configuration that it is asked about.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;

use super::PrintFormat;
use super::admin::{AdminArgs, SocketChoice};
use crate::explain::{AskedUrl, ExplainRequest, GivenField};

// No doc comment: clap would print it instead of the command's.
#[derive(Args)]
pub(super) struct ExplainArgs {
    /// The URL that is asked for
    #[arg(value_name = "URL", required_unless_present = "trace")]
    url: Option<AskedUrl>,
    /// Follow one live request: print a field that it must bring, wait for it, and say what became
    /// of it
    #[arg(long, conflicts_with_all = ["headers", "sni", "listener", "via", "resolve", "live"])]
    trace: bool,
    /// The method
    #[arg(short = 'X', long, value_name = "METHOD", default_value = "GET")]
    method: String,
    /// A field of the request, as `Name: value`; may be repeated
    #[arg(short = 'H', long = "header", value_name = "FIELD")]
    headers: Vec<GivenField>,
    /// The address that the client connects from
    #[arg(long, value_name = "IP", default_value_t = ExplainRequest::FROM)]
    from: IpAddr,
    /// The server name in the client's TLS, empty for none [default: the host of the URL]
    #[arg(long, value_name = "NAME")]
    sni: Option<String>,
    /// The listener, as `check -v` names it, where several have the URL's port
    #[arg(long, value_name = "LISTENER")]
    listener: Option<String>,
    /// The URL of the listener that is asked for a tunnel to the URL (`https:`, `tcp:`), or to
    /// forward the request (`http:`)
    #[arg(long, value_name = "URL")]
    via: Option<AskedUrl>,
    /// Look the target of --via up, if it is a name
    #[arg(long, requires = "via")]
    resolve: bool,
    /// Ask the running Lockgate about the configuration that it runs
    #[arg(long)]
    live: bool,
    #[command(flatten)]
    source: AdminArgs,
}

/// A request, and the configuration that it is asked about.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ExplainOptions {
    pub(crate) source: ExplainSource,
    pub(crate) request: ExplainRequest,
    /// Whether the host of the URL is looked up.
    pub(crate) resolve: bool,
    pub(crate) output: PrintFormat,
}

/// A live request that is followed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TraceOptions {
    pub(crate) socket: SocketChoice,
    /// The URL that is shown in what to send.
    pub(crate) url: Option<AskedUrl>,
    pub(crate) output: PrintFormat,
}

/// The configuration that a request is asked about.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ExplainSource {
    /// That of a file.
    File(PathBuf),
    /// The one that runs.
    Running(SocketChoice),
}

impl ExplainArgs {
    /// Whether a running Lockgate is asked.
    pub(super) fn is_live(&self) -> bool {
        self.live || self.source.names_socket()
    }

    /// Whether the host of the URL is looked up.
    pub(super) fn resolves(&self) -> bool {
        self.resolve
    }

    /// The URL of the request, unless a live one is followed.
    pub(super) fn asked_url(&self) -> Option<AskedUrl> {
        self.url.clone().filter(|_| !self.trace)
    }

    /// The URL of a request that is followed, and the arguments that name the running Lockgate.
    pub(super) fn into_trace(self) -> (Option<AskedUrl>, AdminArgs) {
        (self.url, self.source)
    }

    /// The request for this URL, and the arguments that say what it is asked about.
    pub(super) fn split(self, url: AskedUrl) -> (ExplainRequest, AdminArgs) {
        let request = ExplainRequest {
            url,
            method: self.method,
            fields: self.headers,
            from: self.from,
            sni: self.sni,
            listener: self.listener,
            via: self.via,
            addresses: Vec::new(),
        };
        (request, self.source)
    }
}
