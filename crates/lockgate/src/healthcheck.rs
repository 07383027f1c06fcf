//! `lockgate healthcheck`: whether a Lockgate on this machine is ready, as an exit code.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use lockgate_config::ListenAddr;
use lockgate_net::dial::DialTarget;

use crate::cli::healthcheck::{HealthcheckOptions, PlainHttpUrl};
use crate::local_request::{LocalRequest, LocalResponse};
use crate::print::out;

/// The time for everything: less than containers wait by default (30 s).
const TIME: Duration = Duration::from_secs(10);

/// Asks, and prints the first line of the answer; the exit code is 0 with status 200, otherwise 1.
///
/// # Errors
/// When there is no address to ask, or no response.
pub(crate) fn run(options: &HealthcheckOptions) -> anyhow::Result<ExitCode> {
    let (addresses, host, path) = match options {
        HealthcheckOptions::Configured(config) => {
            let address = ready_address(config)?;
            (vec![address], "localhost", "/ready")
        }
        HealthcheckOptions::Url(url) => (resolve(url)?, &*url.authority, &*url.path),
    };
    let asked = describe(&addresses);
    let request = LocalRequest {
        addresses,
        host,
        method: "GET",
        path,
        body: Bytes::new(),
        time: TIME,
    };
    let LocalResponse { status, body, .. } = request.send().with_context(|| asked)?;
    let text = String::from_utf8_lossy(&body);
    let line: String = text
        .lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(200)
        .collect();
    if status == 200 {
        out!("{line}");
        return Ok(ExitCode::SUCCESS);
    }
    bail!("not ready: {status} {line}")
}

/// The metrics address of a configuration. Mistakes elsewhere in the file do not matter.
fn ready_address(config: &Path) -> anyhow::Result<DialTarget> {
    let file = config.display();
    let Ok(draft) = lockgate_config::read(config) else {
        bail!("{file} cannot be read: see `lockgate check -c {file}`");
    };
    let Some(metrics) = &draft.understood().config.metrics else {
        bail!("{file} has no metrics address: write metrics = \"127.0.0.1:9090\", or use --url");
    };
    Ok(match &metrics.at {
        ListenAddr::Unix(path) => DialTarget::Unix(path.clone()),
        ListenAddr::All(port) => DialTarget::Tcp((Ipv4Addr::LOCALHOST, *port).into()),
        ListenAddr::Ip(address) => {
            DialTarget::Tcp(SocketAddr::new(reachable(address.ip()), address.port()))
        }
    })
}

/// An address that leads to a listener on `ip`.
fn reachable(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    }
}

fn resolve(url: &PlainHttpUrl) -> anyhow::Result<Vec<DialTarget>> {
    let found = (&*url.host, url.port)
        .to_socket_addrs()
        .with_context(|| format!("{} does not resolve", url.host))?;
    Ok(found.map(DialTarget::Tcp).collect())
}

fn describe(addresses: &[DialTarget]) -> String {
    let texts = addresses.iter().map(|address| match address {
        DialTarget::Tcp(address) => address.to_string(),
        DialTarget::Unix(path) => format!("unix:{}", path.display()),
    });
    texts.collect::<Vec<_>>().join(", ")
}
