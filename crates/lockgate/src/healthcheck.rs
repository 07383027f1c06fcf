//! `lockgate healthcheck`: whether a Lockgate on this machine is ready, as an exit code.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use lockgate_config::ListenAddr;
use lockgate_net::dial::DialTarget;
use serde_json::Value;

use crate::admin_client;
use crate::cli::admin::SocketChoice;
use crate::cli::healthcheck::{HealthcheckOptions, PlainHttpUrl};
use crate::local_request::{CollectedResponse, LocalRequest};
use crate::print::out;

/// The time for everything: less than containers wait by default (30 s).
const TIME: Duration = Duration::from_secs(10);

/// Asks, and prints the answer; the exit code is 0 if it is ready, otherwise 1.
///
/// # Errors
/// When it is not ready, there is no address to ask, or no response.
pub(crate) fn run(options: &HealthcheckOptions) -> anyhow::Result<ExitCode> {
    match options {
        HealthcheckOptions::Configured(config) => match metrics_address(config)? {
            Some(address) => ask(vec![address], "localhost", "/ready"),
            None => ask_admin(config),
        },
        HealthcheckOptions::Url(url) => ask(resolve(url)?, &url.authority, &url.path),
    }
}

fn ask(addresses: Vec<DialTarget>, host: &str, path: &str) -> anyhow::Result<ExitCode> {
    let asked = describe(&addresses);
    let request = LocalRequest {
        addresses,
        host,
        method: "GET",
        path,
        body: Bytes::new(),
        time: TIME,
    };
    let CollectedResponse { status, body, .. } = request.send().with_context(|| asked)?;
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

/// Asks the admin socket, which every Lockgate with a configuration has by default.
fn ask_admin(config: &Path) -> anyhow::Result<ExitCode> {
    let socket = admin_client::find(&SocketChoice::Configured(config.to_owned()))
        .context("there is no metrics address")?;
    let response = admin_client::ask(&socket, "GET", "/v1/status", Value::Null)?;
    let phase = response.value["phase"].as_str().unwrap_or("unknown");
    if response.status == 200 && phase == "ready" {
        out!("{phase}");
        return Ok(ExitCode::SUCCESS);
    }
    bail!("not ready: {phase}")
}

/// The metrics address of a configuration. Mistakes elsewhere in the file do not matter.
fn metrics_address(config: &Path) -> anyhow::Result<Option<DialTarget>> {
    let file = config.display();
    let Ok(draft) = lockgate_config::read(config) else {
        bail!("{file} cannot be read: see `lockgate check -c {file}`");
    };
    let metrics = draft.understood().config.metrics.as_ref();
    Ok(metrics.map(|metrics| match &metrics.at {
        ListenAddr::Unix(path) => DialTarget::Unix(path.clone()),
        ListenAddr::All(port) => DialTarget::Tcp((Ipv4Addr::LOCALHOST, *port).into()),
        ListenAddr::Ip(address) => {
            DialTarget::Tcp(SocketAddr::new(reachable(address.ip()), address.port()))
        }
    }))
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
