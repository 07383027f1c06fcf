//! Version 1: one line of text (§2.1).

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::str::{self, FromStr};

use super::header::AddressPair;
use super::prefix::PrefixMatch;
use super::{HeaderVersion, ParsedHeader, ProxiedAddresses, ProxyError, ProxyHeader, Tlvs};

/// The longest line, CRLF included (§2.1: "worst case").
pub const LINE_MAX: usize = 107;

pub(super) const GREETING: &[u8] = b"PROXY ";

const KEYWORDS: [&[u8]; 3] = [TCP4, TCP6, UNKNOWN];
const TCP4: &[u8] = b"TCP4 ";
const TCP6: &[u8] = b"TCP6 ";
const UNKNOWN: &[u8] = b"UNKNOWN";

pub(super) fn parse(bytes: &[u8]) -> Result<Option<ParsedHeader>, ProxyError> {
    let rest = match PrefixMatch::of(bytes, GREETING) {
        PrefixMatch::No => return Err(ProxyError::NotProxy),
        PrefixMatch::Undecided => return Ok(None),
        PrefixMatch::Yes => bytes.get(GREETING.len()..).unwrap_or_default(),
    };
    if KEYWORDS
        .iter()
        .all(|keyword| PrefixMatch::of(rest, keyword) == PrefixMatch::No)
    {
        return Err(ProxyError::Keyword);
    }
    let Some(line) = line(bytes)? else {
        return Ok(None);
    };
    let addresses = addresses(line.get(GREETING.len()..).unwrap_or_default())?;
    let header = ProxyHeader {
        version: HeaderVersion::V1,
        addresses,
        tlvs: Tlvs::default(),
    };
    Ok(Some(ParsedHeader {
        header,
        len: line.len() + 2,
    }))
}

/// Appends the line for `addresses` to `out`.
///
/// IPv4-mapped IPv6 on both sides becomes TCP4; mixed families become TCP6 with the IPv4 side
/// mapped; anything but TCP becomes `PROXY UNKNOWN`, which some receivers refuse (§2.1). Zone and
/// flow of an IPv6 address are omitted.
pub fn encode_v1(out: &mut Vec<u8>, addresses: &ProxiedAddresses) {
    let written = match addresses {
        ProxiedAddresses::Inet {
            source,
            destination,
        } => match AddressPair::of(*source, *destination) {
            AddressPair::V4(source, destination) => {
                let (from, to) = (source.ip(), destination.ip());
                write!(
                    out,
                    "PROXY TCP4 {from} {to} {} {}\r\n",
                    source.port(),
                    destination.port()
                )
            }
            AddressPair::V6(source, destination) => {
                let (from, to) = (hexadecimal(source), hexadecimal(destination));
                write!(
                    out,
                    "PROXY TCP6 {from} {to} {} {}\r\n",
                    source.port(),
                    destination.port()
                )
            }
        },
        ProxiedAddresses::Local | ProxiedAddresses::Unknown | ProxiedAddresses::Unix { .. } => {
            out.write_all(b"PROXY UNKNOWN\r\n")
        }
    };
    written.expect("a Vec takes every write");
}

/// The line without its CRLF, once complete.
fn line(bytes: &[u8]) -> Result<Option<&[u8]>, ProxyError> {
    let window = bytes.get(..LINE_MAX).unwrap_or(bytes);
    let more = if window.len() == LINE_MAX {
        Err(ProxyError::LineTooLong)
    } else {
        Ok(None)
    };
    let Some(at) = window.iter().position(|byte| matches!(byte, b'\r' | b'\n')) else {
        return more;
    };
    match window.get(at..).unwrap_or_default() {
        [b'\r', b'\n', ..] => Ok(window.get(..at)),
        [b'\r'] => more,
        _ => Err(ProxyError::LineEnd),
    }
}

fn addresses(told: &[u8]) -> Result<ProxiedAddresses, ProxyError> {
    if let Some(told) = told.strip_prefix(TCP4) {
        return inet::<Ipv4Addr>(told);
    }
    if let Some(told) = told.strip_prefix(TCP6) {
        return inet::<Ipv6Addr>(told);
    }
    match told.strip_prefix(UNKNOWN) {
        Some([] | [b' ', ..]) => Ok(ProxiedAddresses::Unknown), // the rest must be ignored
        _ => Err(ProxyError::Keyword),
    }
}

/// "SOURCE DESTINATION PORT PORT", single spaces. Rust's address parsers are as strict as §2.1: no
/// leading zeros, no short forms, no zones.
fn inet<Ip: FromStr + Into<IpAddr>>(told: &[u8]) -> Result<ProxiedAddresses, ProxyError> {
    let mut fields = told.split(|byte| *byte == b' ');
    let (Some(from), Some(to), Some(from_port), Some(to_port), None) = (
        fields.next(),
        fields.next(),
        fields.next(),
        fields.next(),
        fields.next(),
    ) else {
        return Err(ProxyError::Fields);
    };
    let source = SocketAddr::new(address::<Ip>(from)?, port(from_port)?);
    let destination = SocketAddr::new(address::<Ip>(to)?, port(to_port)?);
    Ok(ProxiedAddresses::inet(source, destination))
}

fn address<Ip: FromStr + Into<IpAddr>>(field: &[u8]) -> Result<IpAddr, ProxyError> {
    let text = str::from_utf8(field).map_err(|_| ProxyError::Address)?;
    text.parse::<Ip>()
        .map(Into::into)
        .map_err(|_| ProxyError::Address)
}

fn port(field: &[u8]) -> Result<u16, ProxyError> {
    // `u16::from_str` alone would take "+80" and "080".
    let canonical = match field {
        [b'0'] => true,
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    let text = str::from_utf8(field).map_err(|_| ProxyError::Port)?;
    text.parse()
        .ok()
        .filter(|_| canonical)
        .ok_or(ProxyError::Port)
}

/// §2.1 requires hexadecimal groups, where Rust would write `::ffff:192.0.2.1`.
fn hexadecimal(address: SocketAddrV6) -> String {
    match (address.ip().to_ipv4_mapped(), address.ip().segments()) {
        (Some(_), [.., high, low]) => format!("::ffff:{high:x}:{low:x}"),
        (None, _) => address.ip().to_string(),
    }
}
