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
    /// Where to listen: ADDR:PORT, :PORT or unix:/PATH
    #[arg(value_parser = not_empty)]
    listen: String,
    /// Where tunnels may lead: HOST, *.HOST or NETWORK, each with :PORTS or without; again for
    /// more [default: every host at 443]
    #[arg(long, value_name = "TARGET", value_parser = not_empty)]
    allow: Vec<String>,
    /// Where they may not, whatever is allowed
    #[arg(long, value_name = "TARGET", value_parser = not_empty)]
    deny: Vec<String>,
    /// Who may come [default: with --auth everybody, else loopback and private networks]
    #[arg(long, value_name = "NETWORK", value_parser = not_empty)]
    clients: Vec<String>,
    /// Allow targets whose addresses are private, loopback or link-local
    #[arg(long)]
    private: bool,
    /// Ask for a password of this file, as htpasswd writes it
    #[arg(long, value_name = "FILE")]
    auth: Option<PathBuf>,
    /// Speak TLS and HTTP/2: `self` makes a certificate, else the files of a certificate and its
    /// key
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
