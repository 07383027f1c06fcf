//! The arguments of `lockgate serve`: a folder, its address, and how it is served.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;

use super::ListenerTls;

// No doc comment: clap would print it instead of the command's.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServeOptions {
    /// The folder to serve; files outside of it are never served
    #[arg(value_name = "DIR")]
    pub(crate) root: PathBuf,
    /// The address to listen on: ADDR:PORT, :PORT for every address, or unix:/PATH. The default is
    /// for this machine only
    #[arg(long, value_name = "ADDR", default_value_t = Listen::DEFAULT)]
    pub(crate) listen: Listen,
    /// Use TLS and HTTP/2 with the files of a certificate and its key; `self` makes a
    /// certificate, `internal` has one of Lockgate's own authority, as `lockgate ca` shows it
    #[arg(long, value_name = "self|internal|CERT,KEY")]
    pub(crate) tls: Option<ListenerTls>,
    /// Send /index.html for missing pages, for an application with its routes in the browser
    #[arg(long)]
    pub(crate) spa: bool,
    /// List the files of folders without an index.html
    #[arg(long)]
    pub(crate) listing: bool,
}

/// The address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Listen {
    /// `:PORT`, on every address.
    Port(u16),
    /// `ADDR:PORT`.
    Address(SocketAddr),
    /// `unix:/PATH`, as written.
    Unix(String),
}

impl Listen {
    /// Loopback only: a folder on a developer's machine is not for the whole network.
    const DEFAULT: Self = Self::Address(SocketAddr::new(
        std::net::IpAddr::V4(Ipv4Addr::LOCALHOST),
        8000,
    ));
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(written: &str) -> Result<Self, Self::Err> {
        if written.starts_with("unix:") {
            return Ok(Self::Unix(written.to_owned()));
        }
        let address = match written.strip_prefix(':') {
            Some(port) => port.parse().map(Self::Port).ok(),
            None => written.parse().map(Self::Address).ok(),
        };
        address.ok_or_else(|| {
            "write 127.0.0.1:8000, [::1]:8000, :8000 or unix:/run/www.sock".to_owned()
        })
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port(port) => write!(f, ":{port}"),
            Self::Address(address) => address.fmt(f),
            Self::Unix(written) => f.write_str(written),
        }
    }
}
