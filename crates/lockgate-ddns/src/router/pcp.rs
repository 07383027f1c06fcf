//! Messages of PCP (RFC 6887): a mapping of one port for a few seconds, its answer, and its end.
//!
//! PCP has no request for the address alone: ANNOUNCE tells none, and errors repeat what the request
//! suggested (§11.3). MAP makes state at the router, PEER needs a peer besides. The port is therefore
//! that of the socket that asks: nothing else receives what is sent to it from outside, and the
//! socket takes datagrams of the router alone. It is above 1023, where routers allow mappings; the
//! discard port is not.
//!
//! The epoch of an answer (§8.5) is not compared with earlier ones: it tells that a router has lost
//! its mappings, and none is kept.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4};

/// A mapping that is asked for, and that knows its answer by the nonce.
#[derive(Debug, Clone, Copy)]
pub struct PcpMapping {
    /// The address and port that the request is sent from.
    pub client: SocketAddrV4,
    /// Unpredictable octets (RFC 6887 §11.2).
    pub nonce: [u8; 12],
}

/// Octets of a request MAP without options.
pub const MAP_LENGTH: usize = HEADER + 36;
/// Octets of the header of requests and answers (RFC 6887 §7.1, §7.2).
const HEADER: usize = 24;
/// The longest message in octets (RFC 6887 §7).
const LONGEST: usize = 1100;
const VERSION: u8 = 2;
const MAP: u8 = 1;
/// The bit of an answer beside the opcode (RFC 6887 §7.2).
const RESPONSE: u8 = 0x80;
const UDP: u8 = 17;
const NO_ADDRESS: [u8; 16] = Ipv4Addr::UNSPECIFIED.to_ipv6_mapped().octets();

/// Why a router gave no external IPv4 address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PcpRefusal {
    /// A result other than success (RFC 6887 §7.4).
    Result(u8),
    /// The version of PCP is not known: the router has NAT-PMP alone (RFC 6886 §3.5), or a later
    /// version of PCP (RFC 6887 §9).
    UnsupportedVersion,
    /// The external address is one of IPv6.
    NotIpv4(Ipv6Addr),
}

impl fmt::Display for PcpRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = match self {
            Self::UnsupportedVersion => 1,
            Self::Result(code) => *code,
            Self::NotIpv4(address) => return write!(f, "{address}, which is not of IPv4"),
        };
        let meaning = match code {
            1 => "unsupported version",
            2 => "not authorized",
            3 => "malformed request",
            4 => "unsupported opcode",
            5 => "unsupported option",
            6 => "malformed option",
            7 => "network failure: its line is down, or it is behind another NAT",
            8 => "no resources",
            9 => "unsupported protocol",
            10 => "quota exceeded",
            11 => "cannot provide the external address",
            12 => "address mismatch: a NAT is between here and the router",
            13 => "excessive remote peers",
            _ => "unknown",
        };
        write!(f, "result {code} ({meaning})")
    }
}

impl PcpMapping {
    /// The request for a mapping of so many seconds; of none, it ends the mapping
    /// (RFC 6887 §7.1, §11.1, §15).
    pub fn encode(&self, lifetime: u32) -> [u8; MAP_LENGTH] {
        let mut octets = [0; MAP_LENGTH];
        let parts: [&[u8]; 8] = [
            &[VERSION, MAP, 0, 0],
            &lifetime.to_be_bytes(),
            &self.client.ip().to_ipv6_mapped().octets(),
            &self.nonce,
            &[UDP, 0, 0, 0],
            &self.client.port().to_be_bytes(),
            // Any external port.
            &[0, 0],
            // Any external address of IPv4; §15 has it at the end of a mapping too.
            &NO_ADDRESS,
        ];
        for (octet, from) in octets.iter_mut().zip(parts.into_iter().flatten()) {
            *octet = *from;
        }
        octets
    }

    /// The answer to the request in a datagram: the external address, or why there is none. Nothing
    /// when it is no such answer: of another opcode, version, length or mapping (RFC 6887 §8.3,
    /// §11.4).
    pub fn parse_answer(&self, octets: &[u8]) -> Option<Result<Ipv4Addr, PcpRefusal>> {
        let &[version, opcode, _, result, ..] = octets else {
            return None;
        };
        if opcode != RESPONSE | MAP {
            return None;
        }
        if version == 0 {
            // The answer of NAT-PMP to a version that it does not know (RFC 6886 §3.5).
            let is_it = result == 1 && octets.len() >= 8;
            return is_it.then_some(Err(PcpRefusal::UnsupportedVersion));
        }
        if !(HEADER..=LONGEST).contains(&octets.len()) || !octets.len().is_multiple_of(4) {
            return None;
        }
        if version != VERSION {
            return (result == 1).then_some(Err(PcpRefusal::UnsupportedVersion));
        }
        let Some((mapping, _)) = octets
            .get(HEADER..)
            .and_then(|rest| rest.split_first_chunk::<36>())
        else {
            // Not every server repeats a mapping that it does not take.
            return (result != 0).then_some(Err(PcpRefusal::Result(result)));
        };
        let (nonce, rest) = mapping.split_first_chunk::<12>()?;
        let (&[protocol, _, _, _, high, low, _, _], address) = rest.split_first_chunk::<8>()?;
        let is_ours = *nonce == self.nonce
            && protocol == UDP
            && u16::from_be_bytes([high, low]) == self.client.port();
        if !is_ours {
            return None;
        }
        if result != 0 {
            return Some(Err(PcpRefusal::Result(result)));
        }
        let address = Ipv6Addr::from(*address.first_chunk::<16>()?);
        let external = address.to_ipv4_mapped();
        Some(external.ok_or(PcpRefusal::NotIpv4(address)))
    }

    /// The answer to the request that ends the mapping: its lifetime is none, and its address that of
    /// the request (RFC 6887 §15). Nothing when it is no such answer: a late one to the beginning.
    pub fn parse_end(&self, octets: &[u8]) -> Option<Result<(), PcpRefusal>> {
        match self.parse_answer(octets)? {
            Ok(_) | Err(PcpRefusal::NotIpv4(_)) => {
                (octets.get(4..8) == Some(&[0; 4])).then_some(Ok(()))
            }
            Err(refusal) => Some(Err(refusal)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPPING: PcpMapping = PcpMapping {
        client: SocketAddrV4::new(Ipv4Addr::new(192, 168, 1, 7), 0xabcd),
        nonce: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12],
    };
    const EXTERNAL: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 5);

    /// An answer with this result: RFC 6887 §7.2 and §11.1, figure 10.
    fn answer(result: u8, external: Ipv6Addr) -> Vec<u8> {
        let mut octets = vec![2, 0x81, 0, result, 0, 0, 0, 120, 0, 0, 4, 1];
        octets.extend([0; 12]);
        octets.extend(MAPPING.nonce);
        octets.extend([17, 0, 0, 0, 0xab, 0xcd, 0x30, 0x39]);
        octets.extend(external.octets());
        octets
    }

    fn success() -> Vec<u8> {
        answer(0, EXTERNAL.to_ipv6_mapped())
    }

    #[test]
    fn requests_are_as_rfc_6887_sections_7_1_and_11_1_have_them() {
        let octets = MAPPING.encode(10);
        let header = [2, 1, 0, 0, 0, 0, 0, 10];
        assert_eq!(octets[..8], header);
        let client = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 168, 1, 7];
        assert_eq!(octets[8..24], client);
        assert_eq!(octets[24..36], MAPPING.nonce);
        assert_eq!(octets[36..44], [17, 0, 0, 0, 0xab, 0xcd, 0, 0]);
        let any = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0];
        assert_eq!(octets[44..], any);
    }

    #[test]
    fn answers_tell_the_external_address() {
        assert_eq!(MAPPING.parse_answer(&success()), Some(Ok(EXTERNAL)));
        // RFC 6887 §7.3: options may follow.
        let with_option = [&success()[..], &[1, 0, 0, 0]].concat();
        assert_eq!(MAPPING.parse_answer(&with_option), Some(Ok(EXTERNAL)));
        let ipv6: Ipv6Addr = "2001:db8::5".parse().unwrap();
        let refusal = PcpRefusal::NotIpv4(ipv6);
        assert_eq!(MAPPING.parse_answer(&answer(0, ipv6)), Some(Err(refusal)));
    }

    #[test]
    fn the_end_of_a_mapping_is_told_by_a_lifetime_of_none() {
        assert_eq!(MAPPING.parse_end(&success()), None);
        for address in [NO_ADDRESS, [0; 16]] {
            let mut octets = answer(0, address.into());
            octets[7] = 0;
            assert_eq!(MAPPING.parse_end(&octets), Some(Ok(())));
        }
        let refusal = PcpRefusal::Result(8);
        let octets = answer(8, Ipv6Addr::UNSPECIFIED);
        assert_eq!(MAPPING.parse_end(&octets), Some(Err(refusal)));
    }

    #[test]
    fn errors_are_told_with_and_without_the_mapping() {
        let any = Ipv4Addr::UNSPECIFIED.to_ipv6_mapped();
        for result in [1, 2, 7, 12, 255] {
            let refusal = Some(Err(PcpRefusal::Result(result)));
            let octets = answer(result, any);
            assert_eq!(MAPPING.parse_answer(&octets), refusal);
            assert_eq!(MAPPING.parse_answer(&octets[..24]), refusal);
        }
        let text = PcpRefusal::Result(7).to_string();
        assert!(text.starts_with("result 7 (network failure: "), "{text}");
    }

    #[test]
    fn other_versions_are_told_only_by_their_result() {
        let other = Some(Err(PcpRefusal::UnsupportedVersion));
        // RFC 6886 §3.5: NAT-PMP has eight octets.
        let nat_pmp = [0, 0x81, 0, 1, 0, 0, 0, 9];
        assert_eq!(MAPPING.parse_answer(&nat_pmp), other);
        assert_eq!(MAPPING.parse_answer(&nat_pmp[..7]), None);
        // RFC 6887 §9: a server of version 3.
        let mut later = answer(1, Ipv6Addr::UNSPECIFIED);
        later[0] = 3;
        assert_eq!(MAPPING.parse_answer(&later), other);
        later[3] = 0;
        assert_eq!(MAPPING.parse_answer(&later), None);
    }

    #[test]
    fn datagrams_of_other_mappings_opcodes_and_lengths_are_no_answers() {
        // Octets that must be these: opcode, nonce, protocol, internal port (RFC 6887 §11.4).
        for at in [1, 24, 35, 36, 40, 41] {
            let mut octets = success();
            octets[at] ^= 1;
            assert_eq!(MAPPING.parse_answer(&octets), None, "{at}");
        }
        // The request itself.
        assert_eq!(MAPPING.parse_answer(&MAPPING.encode(10)), None);
        // RFC 6887 §8.3: shorter than 24, longer than 1100, no multiple of 4.
        let octets = success();
        for length in 0..octets.len() {
            assert_eq!(MAPPING.parse_answer(&octets[..length]), None, "{length}");
        }
        let padded = |length| {
            let mut octets = success();
            octets.resize(length, 0);
            octets
        };
        assert_eq!(MAPPING.parse_answer(&padded(61)), None);
        assert_eq!(MAPPING.parse_answer(&padded(1100)), Some(Ok(EXTERNAL)));
        assert_eq!(MAPPING.parse_answer(&padded(1104)), None);
    }
}
