//! Records that are written, set, waited for and removed, with scripted servers on real sockets.

mod acme_dns;
mod addresses;
mod aliases;
mod duckdns;
mod exec;
mod name_server;
mod powerdns;
mod propagation;
mod updates;

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use lockgate_rules::{DnsProvider, KnownDnsProvider, SecretText};

/// Runs a test on a runtime as that of the thread of certificates.
fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(test)
}

/// A provider with these parameters, which asks one name server.
fn provider(name: &str, parameters: &[(&'static str, &str)], resolver: SocketAddr) -> DnsProvider {
    DnsProvider {
        provider: KnownDnsProvider::named(name).unwrap(),
        parameters: parameters
            .iter()
            .map(|(name, value)| (*name, SecretText((*value).to_owned())))
            .collect(),
        command: Vec::new(),
        propagation: Duration::from_secs(20),
        resolvers: vec![resolver],
    }
}
