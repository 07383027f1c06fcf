//! Version 2: the binary header and its addresses (§2.2).

use std::net::{IpAddr, SocketAddr};

use super::header::AddressPair;
use super::prefix::PrefixMatch;
use super::{HeaderVersion, ParsedHeader, ProxiedAddresses, ProxyError, ProxyHeader, Tlvs, tlv};

/// The longest accepted header. The specification allows 65,551 bytes, but wants a header to fit
/// into 536; the largest in practice (client certificates in TLVs) are below 4 KB.
pub const HEADER_MAX: usize = 4096;

pub(super) const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// Signature, version and command, family and transport, length.
const FIXED: usize = SIGNATURE.len() + 4;
const UNIX_NAME: usize = 108;

const LOCAL: u8 = 0x20;
const PROXY: u8 = 0x21;
const UNSPEC: u8 = 0x00;
const TCP4: u8 = 0x11;
const TCP6: u8 = 0x21;
const UNIX_STREAM: u8 = 0x31;

pub(super) fn parse(bytes: &[u8]) -> Result<Option<ParsedHeader>, ProxyError> {
    match PrefixMatch::of(bytes, SIGNATURE) {
        PrefixMatch::No => return Err(ProxyError::NotProxy),
        PrefixMatch::Undecided => return Ok(None),
        PrefixMatch::Yes => {}
    }
    let mut fixed = bytes.iter().copied().skip(SIGNATURE.len());
    let Some(command) = fixed.next() else {
        return Ok(None);
    };
    check_command(command)?;
    let Some(family) = fixed.next() else {
        return Ok(None);
    };
    // LOCAL: the family is ignored, and so is the rest.
    let block = if command == LOCAL {
        0
    } else {
        address_block(family)?
    };
    let (Some(high), Some(low)) = (fixed.next(), fixed.next()) else {
        return Ok(None);
    };
    let length = usize::from(u16::from_be_bytes([high, low]));
    let len = FIXED + length;
    if len > HEADER_MAX {
        return Err(ProxyError::TooLong);
    }
    if length < block {
        return Err(ProxyError::AddressBlock);
    }
    let Some(whole) = bytes.get(..len) else {
        return Ok(None);
    };
    let (addresses, tlvs) = if command == LOCAL {
        (ProxiedAddresses::Local, Tlvs::default())
    } else {
        let block = whole.get(FIXED..FIXED + block).unwrap_or_default();
        (
            addresses(family, block)?,
            tlv::parse(whole, FIXED + block.len())?,
        )
    };
    Ok(Some(ParsedHeader {
        header: ProxyHeader {
            version: HeaderVersion::V2,
            addresses,
            tlvs,
        },
        len,
    }))
}

/// Appends a header to `out`.
///
/// Families as in [`encode_v1`](super::encode_v1). [`ProxiedAddresses::Unknown`] becomes the PROXY
/// command with an unspecified family, so that the receiver still reads `tlvs`;
/// [`ProxiedAddresses::Local`] the LOCAL command, without them (§2.2: the receiver would discard
/// them). Values longer than [`VALUE_MAX`](super::VALUE_MAX) are left out rather than truncated.
pub fn encode_v2(out: &mut Vec<u8>, addresses: &ProxiedAddresses, tlvs: &Tlvs<'_>) {
    let mut block = Vec::with_capacity(256);
    let (command, family) = encode_addresses(&mut block, addresses);
    if command == PROXY {
        tlv::encode(&mut block, tlvs);
    }
    let length =
        u16::try_from(block.len()).expect("addresses and five values of 255 bytes fit into 64 KB");
    out.reserve(FIXED + block.len());
    out.extend_from_slice(SIGNATURE);
    out.extend_from_slice(&[command, family]);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&block);
}

fn check_command(byte: u8) -> Result<(), ProxyError> {
    match byte {
        LOCAL | PROXY => Ok(()),
        0x22..=0x2F => Err(ProxyError::Command),
        _ => Err(ProxyError::Version),
    }
}

/// The length of the addresses for this family and transport.
fn address_block(byte: u8) -> Result<usize, ProxyError> {
    match byte {
        UNSPEC => Ok(0),
        TCP4 => Ok(2 * 4 + 2 * 2),
        TCP6 => Ok(2 * 16 + 2 * 2),
        UNIX_STREAM => Ok(2 * UNIX_NAME),
        0x12 | 0x22 | 0x32 => Err(ProxyError::Datagram),
        _ => Err(ProxyError::Family),
    }
}

fn addresses(family: u8, block: &[u8]) -> Result<ProxiedAddresses, ProxyError> {
    let addresses = match family {
        TCP4 => inet::<4>(block),
        TCP6 => inet::<16>(block),
        UNIX_STREAM => block
            .split_at_checked(UNIX_NAME)
            .map(|(source, destination)| ProxiedAddresses::Unix {
                source: unix_name(source),
                destination: unix_name(destination),
            }),
        _ => Some(ProxiedAddresses::Unknown),
    };
    addresses.ok_or(ProxyError::AddressBlock)
}

fn inet<const N: usize>(block: &[u8]) -> Option<ProxiedAddresses>
where
    IpAddr: From<[u8; N]>,
{
    let (from, rest) = block.split_first_chunk::<N>()?;
    let (to, rest) = rest.split_first_chunk::<N>()?;
    let (from_port, rest) = rest.split_first_chunk::<2>()?;
    let (to_port, _) = rest.split_first_chunk::<2>()?;
    let source = SocketAddr::new(IpAddr::from(*from), u16::from_be_bytes(*from_port));
    let destination = SocketAddr::new(IpAddr::from(*to), u16::from_be_bytes(*to_port));
    Some(ProxiedAddresses::inet(source, destination))
}

fn unix_name(field: &[u8]) -> Box<[u8]> {
    let end = field
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1);
    field.get(..end).unwrap_or_default().into()
}

/// Writes the address block; returns its command and family.
fn encode_addresses(block: &mut Vec<u8>, addresses: &ProxiedAddresses) -> (u8, u8) {
    match addresses {
        ProxiedAddresses::Local => (LOCAL, UNSPEC),
        ProxiedAddresses::Unknown => (PROXY, UNSPEC),
        ProxiedAddresses::Inet {
            source,
            destination,
        } => {
            let family = match AddressPair::of(*source, *destination) {
                AddressPair::V4(source, destination) => {
                    block.extend_from_slice(&source.ip().octets());
                    block.extend_from_slice(&destination.ip().octets());
                    TCP4
                }
                AddressPair::V6(source, destination) => {
                    block.extend_from_slice(&source.ip().octets());
                    block.extend_from_slice(&destination.ip().octets());
                    TCP6
                }
            };
            block.extend_from_slice(&source.port().to_be_bytes());
            block.extend_from_slice(&destination.port().to_be_bytes());
            (PROXY, family)
        }
        ProxiedAddresses::Unix {
            source,
            destination,
        } => {
            for name in [source, destination] {
                let end = block.len() + UNIX_NAME;
                block.extend(name.iter().take(UNIX_NAME));
                block.resize(end, 0);
            }
            (PROXY, UNIX_STREAM)
        }
    }
}
