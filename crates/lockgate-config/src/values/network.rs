//! Networks, and cures for the words and masks of other servers.

use std::net::{Ipv4Addr, SocketAddr};

use lockgate_rules::network::{Cidr, CidrError};

use crate::codes::Code;
use crate::document::TomlString;

use super::{InvalidText, TextLanguage};

/// A network, or one address.
pub(crate) struct CidrNetwork;

impl TextLanguage for CidrNetwork {
    type Value = Cidr;

    const EXPECTED: &str = "a network such as \"10.0.0.0/8\"";

    fn list_cure(&self, text: &str) -> Option<String> {
        network_cure(text)
    }

    fn parse(&self, text: &TomlString) -> Result<Cidr, InvalidText> {
        let value = &*text.value;
        Cidr::parse(value).map_err(|error| {
            let (why, meant) = match error {
                CidrError::BadAddress => ("names and ports have no place here", None),
                CidrError::BadPrefix { max: 32 } => ("the prefix of IPv4 goes from 0 to 32", None),
                CidrError::BadPrefix { .. } => ("the prefix of IPv6 goes from 0 to 128", None),
                CidrError::HostBits { network } => {
                    let address = value.split('/').next().unwrap_or_default();
                    let cure = format!(
                        "write \"{network}\" for the network, \"{address}\" for the one address"
                    );
                    ("it has bits beyond its prefix", Some(cure))
                }
            };
            let cure = "write \"10.0.0.0/8\", \"2001:db8::/32\" or one address";
            text.invalid(Code::BadNetwork, "is not a network", why, cure)
                .or_meant(meant.or_else(|| network_cure(value)))
        })
    }
}

/// The cure for a network in the notation of another server.
fn network_cure(value: &str) -> Option<String> {
    let cure = match value.to_ascii_lowercase().as_str() {
        "all" | "any" | "*" | "everyone" | "everybody" => {
            "leave it out: without allow every client may connect, and allow = [\"10.0.0.0/8\"] refuses all others; \
             every address is \"0.0.0.0/0\" and \"::/0\""
        }
        "private" | "private_ranges" | "rfc1918" | "lan" | "internal" => {
            "write \"10.0.0.0/8\", \"172.16.0.0/12\", \"192.168.0.0/16\""
        }
        "localhost" | "loopback" | "local" => "write \"127.0.0.0/8\", \"::1\"",
        _ => {
            let meant = by_mask(value)
                .or_else(|| by_stars(value))
                .or_else(|| without_port(value))?;
            return Some(format!("write \"{meant}\""));
        }
    };
    Some(cure.to_owned())
}

/// A network with a mask: `192.168.1.0/255.255.255.0`.
fn by_mask(value: &str) -> Option<Cidr> {
    let (addr, mask) = value.split_once('/')?;
    let mask = u32::from(mask.parse::<Ipv4Addr>().ok()?);
    let prefix = mask.leading_ones();
    (prefix + mask.trailing_zeros() >= 32).then_some(())?;
    network_of(addr.parse().ok()?, prefix)
}

/// A network with stars, or cut off: `192.168.1.*`, `192.168.`.
fn by_stars(value: &str) -> Option<Cidr> {
    let known: Vec<&str> = value
        .split('.')
        .take_while(|part| !matches!(*part, "*" | "" | "x"))
        .collect();
    let rest = value.split('.').skip(known.len());
    let stars =
        (1..4).contains(&known.len()) && rest.clone().all(|part| matches!(part, "*" | "" | "x"));
    let addr = known
        .iter()
        .copied()
        .chain(["0"; 4])
        .take(4)
        .collect::<Vec<_>>()
        .join(".");
    let prefix = u32::try_from(known.len() * 8).ok()?;
    if stars && rest.count() > 0 {
        network_of(addr.parse().ok()?, prefix)
    } else {
        None
    }
}

/// The address before a port: `10.0.0.1:80`.
fn without_port(value: &str) -> Option<Cidr> {
    let addr: SocketAddr = value.parse().ok()?;
    Cidr::parse(&addr.ip().to_string()).ok()
}

fn network_of(addr: Ipv4Addr, prefix: u32) -> Option<Cidr> {
    match Cidr::parse(&format!("{addr}/{prefix}")) {
        Ok(network) | Err(CidrError::HostBits { network }) => Some(network),
        Err(_) => None,
    }
}
