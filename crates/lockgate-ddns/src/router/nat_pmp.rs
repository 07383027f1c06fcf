//! Messages of NAT-PMP (RFC 6886): the request for the external address, and its answer.
//!
//! The epoch of an answer (§3.6) is not compared with earlier ones: it tells that a router has lost
//! its mappings, and there are none.

use std::fmt;
use std::net::Ipv4Addr;

/// The request for the external address: version 0, opcode 0 (RFC 6886 §3.2).
pub const REQUEST: [u8; 2] = [0, 0];

/// A result other than success (RFC 6886 §3.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NatPmpRefusal(pub u16);

/// The router does not know the version of a request: it may have PCP alone (RFC 6886 §3.5).
pub const UNSUPPORTED_VERSION: NatPmpRefusal = NatPmpRefusal(1);

impl fmt::Display for NatPmpRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let meaning = match self.0 {
            1 => "unsupported version",
            2 => "not authorized",
            3 => "network failure: its line is down, or it is behind another NAT",
            4 => "out of resources",
            5 => "unsupported opcode",
            _ => "unknown",
        };
        write!(f, "result {} ({meaning})", self.0)
    }
}

/// The answer to [`REQUEST`] in a datagram: the external address, or why there is none. Nothing when
/// it is no such answer: of another opcode, version or length.
pub fn parse_answer(octets: &[u8]) -> Option<Result<Ipv4Addr, NatPmpRefusal>> {
    let &[version, RESPONSE, high, low, ref rest @ ..] = octets else {
        return None;
    };
    let result = u16::from_be_bytes([high, low]);
    match (version, result, rest) {
        // Four octets of the epoch, and the address.
        (0, 0, &[_, _, _, _, a, b, c, d]) => Some(Ok(Ipv4Addr::new(a, b, c, d))),
        (0, 1.., rest) if rest.len() == 4 || rest.len() == 8 => Some(Err(NatPmpRefusal(result))),
        // The header of PCP: its result is one octet, after a reserved one (RFC 6887 §7.2, §9).
        (1.., _, rest) if low == 1 && rest.len() >= 20 => Some(Err(UNSUPPORTED_VERSION)),
        _ => None,
    }
}

/// The opcode of an answer: that of the request, and 128 (RFC 6886 §3.2).
const RESPONSE: u8 = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_tell_the_address_or_the_result() {
        let address = Ipv4Addr::new(203, 0, 113, 5);
        let refused = |result| Some(Err(NatPmpRefusal(result)));
        let header = |reserved, result| [&[2, 128, reserved, result][..], &[0; 20]].concat();
        let (pcp, reserved, other) = (header(0, 1), header(7, 1), header(0, 3));
        let table: [(&str, &[u8], _); 9] = [
            (
                "RFC 6886 §3.2",
                &[0, 128, 0, 0, 0, 0, 4, 1, 203, 0, 113, 5],
                Some(Ok(address)),
            ),
            (
                "§3.2: the address of an error is ignored",
                &[0, 128, 0, 3, 0, 0, 4, 1, 203, 0, 113, 5],
                refused(3),
            ),
            ("§3.5", &[0, 128, 0, 1, 0, 0, 0, 9], refused(1)),
            ("§3.5", &[0, 128, 0, 2, 0, 0, 0, 9, 0, 0, 0, 0], refused(2)),
            (
                "§3.5: unknown results are errors",
                &[0, 128, 255, 255, 0, 0, 0, 9, 0, 0, 0, 0],
                refused(u16::MAX),
            ),
            ("RFC 6887 §9", &pcp, refused(1)),
            (
                "RFC 6887 §7.2: the reserved octet is ignored",
                &reserved,
                refused(1),
            ),
            ("RFC 6887 §7.2: too short a header", &pcp[..23], None),
            (
                "RFC 6887 §7.4: another error of another version",
                &other,
                None,
            ),
        ];
        for (source, octets, answer) in table {
            assert_eq!(parse_answer(octets), answer, "{source}: {octets:?}");
        }
    }

    #[test]
    fn datagrams_of_other_opcodes_and_lengths_are_no_answers() {
        let answer = [0, 128, 0, 0, 0, 0, 4, 1, 203, 0, 113, 5];
        for length in 0..answer.len() {
            assert_eq!(parse_answer(&answer[..length]), None, "{length}");
        }
        assert_eq!(parse_answer(&[&answer[..], &[0]].concat()), None);
        // RFC 6886 §3.2: a request, and the answer to a request for a mapping.
        assert_eq!(parse_answer(&REQUEST), None);
        for opcode in [0, 1, 127, 129, 130] {
            let mut other = answer;
            other[1] = opcode;
            assert_eq!(parse_answer(&other), None, "{opcode}");
        }
    }

    #[test]
    fn results_are_told_in_words() {
        let text = NatPmpRefusal(3).to_string();
        assert!(text.starts_with("result 3 (network failure: "), "{text}");
    }
}
