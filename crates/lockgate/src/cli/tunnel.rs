//! The arguments of `lockgate tunnel`: the address, the clients, and the targets.

use std::path::PathBuf;

use clap::Args;

use super::{ListenerTls, not_empty};

// Targets and networks stay text: the configuration parses them.
// No doc comment: clap would print it instead of the command's.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub(crate) struct TunnelOptions {
    /// The address to listen on: ADDR:PORT, :PORT or unix:/PATH
    #[arg(value_parser = not_empty)]
    pub(crate) listen: String,
    /// An allowed target: HOST, *.HOST or NETWORK, each with or without :PORTS; repeat it for more
    /// [default: port 443 of every host]
    #[arg(long, value_name = "TARGET", value_parser = not_empty)]
    pub(crate) allow: Vec<String>,
    /// A denied target, even if --allow matches it; repeat it for more
    #[arg(long, value_name = "TARGET", value_parser = not_empty)]
    pub(crate) deny: Vec<String>,
    /// A network of clients that may open tunnels; repeat it for more [default: all with --auth,
    /// else loopback and private networks]
    #[arg(long, value_name = "NETWORK", value_parser = not_empty)]
    pub(crate) clients: Vec<String>,
    /// Allow targets with private, loopback or link-local addresses
    #[arg(long)]
    pub(crate) private: bool,
    /// Require a user and password of this file, in the format of htpasswd
    #[arg(long, value_name = "FILE")]
    pub(crate) auth: Option<PathBuf>,
    /// Use TLS and HTTP/2 with the files of a certificate and its key; `self` makes a
    /// certificate, `internal` has one of Lockgate's own authority, as `lockgate ca` shows it
    #[arg(long, value_name = "self|internal|CERT,KEY")]
    pub(crate) tls: Option<ListenerTls>,
}
