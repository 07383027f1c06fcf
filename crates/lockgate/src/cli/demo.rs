//! The arguments of `lockgate demo`: its addresses.

use std::net::SocketAddr;

use clap::Args;

// No doc comment: clap would print it instead of the command's.
#[derive(Args, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DemoOptions {
    /// The address of the site
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8443", value_parser = socket_address)]
    pub(crate) listen: SocketAddr,
    /// The address of the relay [default: the port after that of the site]
    #[arg(long, value_name = "ADDR", value_parser = socket_address)]
    pub(crate) relay: Option<SocketAddr>,
    /// The address of /metrics, /top, /health and /ready
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9090", value_parser = socket_address)]
    pub(crate) metrics: SocketAddr,
}

impl DemoOptions {
    /// The address of the relay, by default the next port of the site's address.
    pub(crate) fn relay(&self) -> SocketAddr {
        self.relay.unwrap_or_else(|| next_port(self.listen))
    }
}

/// The next port of the same address; any port where `address` has any.
fn next_port(address: SocketAddr) -> SocketAddr {
    let port = if address.port() == 0 {
        0
    } else {
        address.port().checked_add(1).unwrap_or(0)
    };
    SocketAddr::new(address.ip(), port)
}

fn socket_address(written: &str) -> Result<SocketAddr, String> {
    written
        .parse()
        .map_err(|_| "write an IP address and a port: 127.0.0.1:8443 or [::1]:8443".into())
}
