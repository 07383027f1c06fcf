//! The arguments of `lockgate tunnel`: the address, the clients, and the targets.

use std::path::PathBuf;

use clap::Args;

use super::{ListenerTls, not_empty};

/// The options of a proxy for tunnels. Targets and networks stay text: the configuration parses them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TunnelOptions {
    pub(crate) listen: String,
    pub(crate) allow: Vec<String>,
    pub(crate) deny: Vec<String>,
    pub(crate) clients: Vec<String>,
    pub(crate) private: bool,
    pub(crate) auth: Option<PathBuf>,
    pub(crate) tls: ListenerTls,
}

#[derive(Args)]
pub(super) struct TunnelArgs {
    /// The address to listen on: ADDR:PORT, :PORT or unix:/PATH
    #[arg(value_parser = not_empty)]
    listen: String,
    /// An allowed target: HOST, *.HOST or NETWORK, each with or without :PORTS; repeat it for more
    /// [default: port 443 of every host]
    #[arg(long, value_name = "TARGET", value_parser = not_empty)]
    allow: Vec<String>,
    /// A denied target, even if --allow matches it; repeat it for more
    #[arg(long, value_name = "TARGET", value_parser = not_empty)]
    deny: Vec<String>,
    /// A network of clients that may open tunnels; repeat it for more [default: all with --auth, else
    /// loopback and private networks]
    #[arg(long, value_name = "NETWORK", value_parser = not_empty)]
    clients: Vec<String>,
    /// Allow targets with private, loopback or link-local addresses
    #[arg(long)]
    private: bool,
    /// Require a user and password of this file, in the format of htpasswd
    #[arg(long, value_name = "FILE")]
    auth: Option<PathBuf>,
    /// Use TLS and HTTP/2 with the files of a certificate and its key; `self` makes a certificate
    #[arg(long, value_name = "self|CERT,KEY")]
    tls: Option<ListenerTls>,
}

impl TunnelArgs {
    pub(super) fn resolve(self) -> TunnelOptions {
        let Self {
            listen,
            allow,
            deny,
            clients,
            private,
            auth,
            tls,
        } = self;
        TunnelOptions {
            listen,
            allow,
            deny,
            clients,
            private,
            auth,
            tls: tls.unwrap_or(ListenerTls::Plain),
        }
    }
}
