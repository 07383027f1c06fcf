//! Messages of netlink(7) and rtnetlink(7) about addresses: the request for a list of them, the parts of
//! the answer, and news. Their numbers have the byte order of the machine.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::InterfaceAddress;

/// Kinds of messages (linux/netlink.h, linux/rtnetlink.h).
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const RTM_NEWADDR: u16 = 20;
const RTM_GETADDR: u16 = 22;
const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;

/// Flags of messages.
const NLM_F_REQUEST: u16 = 0x1;
const NLM_F_DUMP_INTR: u16 = 0x10;
const NLM_F_DUMP: u16 = 0x300;

/// Attributes of an address (linux/if_addr.h).
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_FLAGS: u16 = 8;

/// Flags of an address. The kernel calls the first one secondary for IPv4.
const IFA_F_TEMPORARY: u32 = 0x01;
const IFA_F_DADFAILED: u32 = 0x08;
const IFA_F_DEPRECATED: u32 = 0x20;
const IFA_F_TENTATIVE: u32 = 0x40;
/// Set with the one before, on addresses that are used before they are known to be single (RFC 4429).
const IFA_F_OPTIMISTIC: u32 = 0x04;

const AF_UNSPEC: u8 = 0;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

/// Bytes of `struct nlmsghdr`, `struct ifaddrmsg` and `struct rtattr`.
const HEADER: usize = 16;
const ADDRESS_HEADER: usize = 8;
const ATTRIBUTE_HEADER: usize = 4;

/// A part of the list of addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DumpPart {
    /// The addresses, in their order.
    pub addresses: Vec<InterfaceAddress>,
    /// Whether this was the last part.
    pub done: bool,
    /// Whether addresses have changed since the first part: the list is not one of one moment.
    pub interrupted: bool,
}

/// The reason why an answer of the kernel cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// A length reaches over the end, or is shorter than what it covers.
    #[error("the kernel's list of addresses has a length that is wrong")]
    Length,
    /// The kernel refuses, with the number of an error.
    #[error("the kernel lists no addresses: error {0}")]
    Refused(i32),
    /// The list does not end.
    #[error("the kernel's list of addresses does not end")]
    TooLong,
}

/// The request for all addresses.
pub(super) fn dump_request() -> [u8; HEADER + ADDRESS_HEADER] {
    let mut request = [0; HEADER + ADDRESS_HEADER];
    let length = (HEADER + ADDRESS_HEADER) as u32;
    request[..4].copy_from_slice(&length.to_ne_bytes());
    request[4..6].copy_from_slice(&RTM_GETADDR.to_ne_bytes());
    request[6..8].copy_from_slice(&(NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    request[HEADER] = AF_UNSPEC;
    request
}

/// Reads a part of an answer: one or more messages, each from a multiple of four bytes.
///
/// Messages and attributes of other kinds are passed over, and so is an address without one.
///
/// # Errors
/// When a length is wrong, or the kernel refuses.
pub fn parse_dump(mut bytes: &[u8]) -> Result<DumpPart, MessageError> {
    let mut part = DumpPart::default();
    while !bytes.is_empty() {
        let (message, rest) = cut(bytes, u32_at(bytes, 0)? as usize, HEADER)?;
        bytes = rest;
        let flags = u16_at(message, 6)?;
        part.interrupted |= flags & NLM_F_DUMP_INTR != 0;
        let body = &message[HEADER..];
        match u16_at(message, 4)? {
            NLMSG_DONE => {
                // The kernel has given up in the middle where it has a negative number.
                if let Ok(number) = u32_at(body, 0).map(u32::cast_signed)
                    && number < 0
                {
                    return Err(MessageError::Refused(number.wrapping_neg()));
                }
                part.done = true;
                return Ok(part);
            }
            NLMSG_ERROR => {
                let number = u32_at(body, 0)? as i32;
                return Err(MessageError::Refused(number.wrapping_neg()));
            }
            RTM_NEWADDR => part.addresses.extend(address(body)?),
            _ => {}
        }
    }
    Ok(part)
}

/// Whether some news are of a change: all are but those of routes that are not a default one, of which
/// a machine may have thousands. News that cannot be read are.
pub fn tells_change(mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        let message = u32_at(bytes, 0).and_then(|length| cut(bytes, length as usize, HEADER));
        let Ok((message, rest)) = message else {
            return true;
        };
        bytes = rest;
        let is_route = matches!(u16_at(message, 4), Ok(RTM_NEWROUTE | RTM_DELROUTE));
        // `struct rtmsg`: the family, then the bits of the prefix.
        let prefix = message.get(HEADER + 1).copied().unwrap_or_default();
        if !is_route || prefix == 0 {
            return true;
        }
    }
    false
}

/// The address of a message `RTM_NEWADDR`.
fn address(body: &[u8]) -> Result<Option<InterfaceAddress>, MessageError> {
    if body.len() < ADDRESS_HEADER {
        return Err(MessageError::Length);
    }
    let (family, interface) = (body[0], u32_at(body, 4)?);
    // Eight bits of them; the attribute has all.
    let mut flags = u32::from(body[2]);
    let (mut local, mut given) = (None, None);
    let mut attributes = &body[ADDRESS_HEADER..];
    while !attributes.is_empty() {
        let length = usize::from(u16_at(attributes, 0)?);
        let (attribute, rest) = cut(attributes, length, ATTRIBUTE_HEADER)?;
        attributes = rest;
        let value = &attribute[ATTRIBUTE_HEADER..];
        match u16_at(attribute, 2)? {
            IFA_LOCAL => local = ip(family, value),
            IFA_ADDRESS => given = ip(family, value),
            IFA_FLAGS => flags = u32_at(value, 0)?,
            _ => {}
        }
    }
    // On a link with two ends, the address that is not the local one is the other end's.
    let Some(address) = local.or(given) else {
        return Ok(None);
    };
    let unusable = IFA_F_DADFAILED | IFA_F_DEPRECATED | IFA_F_TENTATIVE | IFA_F_OPTIMISTIC;
    Ok(Some(InterfaceAddress {
        interface,
        address,
        usable: flags & unusable == 0,
        temporary: address.is_ipv6() && flags & IFA_F_TEMPORARY != 0,
    }))
}

fn ip(family: u8, value: &[u8]) -> Option<IpAddr> {
    match family {
        AF_INET => <[u8; 4]>::try_from(value)
            .ok()
            .map(|octets| Ipv4Addr::from(octets).into()),
        AF_INET6 => <[u8; 16]>::try_from(value)
            .ok()
            .map(|octets| Ipv6Addr::from(octets).into()),
        _ => None,
    }
}

/// The first `length` bytes, of which there are at least `least`, and what comes behind the padding.
fn cut(bytes: &[u8], length: usize, least: usize) -> Result<(&[u8], &[u8]), MessageError> {
    if length < least || length > bytes.len() {
        return Err(MessageError::Length);
    }
    let next = length.next_multiple_of(4).min(bytes.len());
    Ok((&bytes[..length], &bytes[next..]))
}

fn u16_at(bytes: &[u8], at: usize) -> Result<u16, MessageError> {
    let read = bytes.get(at..at + 2).and_then(|two| two.try_into().ok());
    read.map(u16::from_ne_bytes).ok_or(MessageError::Length)
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32, MessageError> {
    let read = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
    read.map(u32::from_ne_bytes).ok_or(MessageError::Length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn padded(mut bytes: Vec<u8>) -> Vec<u8> {
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = (ATTRIBUTE_HEADER + value.len()) as u16;
        padded([&length.to_ne_bytes(), &kind.to_ne_bytes(), value].concat())
    }

    fn message(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
        let length = (HEADER + body.len()) as u32;
        let head = [
            &length.to_ne_bytes()[..],
            &kind.to_ne_bytes(),
            &flags.to_ne_bytes(),
            &[0; 8],
        ];
        padded([&head.concat()[..], body].concat())
    }

    fn new_address(family: u8, flags: u8, attributes: &[Vec<u8>]) -> Vec<u8> {
        let head = [family, 64, flags, 0];
        let body = [&head[..], &7_u32.to_ne_bytes(), &attributes.concat()].concat();
        message(RTM_NEWADDR, 2, &body)
    }

    fn shown(bytes: &[u8]) -> String {
        let part = parse_dump(bytes).unwrap();
        let one = |one: &InterfaceAddress| {
            let (usable, temporary) = (one.usable, one.temporary);
            format!("{} {} {usable} {temporary}", one.interface, one.address)
        };
        let lines: Vec<_> = part.addresses.iter().map(one).collect();
        lines.join("; ")
    }

    const V6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

    /// rtnetlink(7), linux/if_addr.h: what each attribute and flag says.
    #[test]
    fn addresses_of_rtnetlink_have_their_interface_and_flags() {
        let v6 = || attribute(IFA_ADDRESS, &V6);
        let all = |flags: u32| attribute(IFA_FLAGS, &flags.to_ne_bytes());
        for (bytes, expected) in [
            (
                new_address(AF_INET, 0x80, &[attribute(IFA_LOCAL, &[192, 0, 2, 1])]),
                "7 192.0.2.1 true false",
            ),
            // A link with two ends: the other end is IFA_ADDRESS.
            (
                new_address(
                    AF_INET,
                    0x80,
                    &[
                        attribute(IFA_ADDRESS, &[192, 0, 2, 9]),
                        attribute(IFA_LOCAL, &[192, 0, 2, 1]),
                    ],
                ),
                "7 192.0.2.1 true false",
            ),
            // The second address of IPv4 in a network is no temporary one.
            (
                new_address(AF_INET, 0x01, &[attribute(IFA_LOCAL, &[192, 0, 2, 2])]),
                "7 192.0.2.2 true false",
            ),
            (
                new_address(AF_INET6, 0, &[v6(), all(0x300)]),
                "7 2001:db8::1 true false",
            ),
            // RFC 8981.
            (
                new_address(AF_INET6, 0, &[v6(), all(0x301)]),
                "7 2001:db8::1 true true",
            ),
            (
                new_address(AF_INET6, 0x01, &[v6()]),
                "7 2001:db8::1 true true",
            ),
            // RFC 4862 §5.4 and §5.5.4, RFC 4429.
            (
                new_address(AF_INET6, 0, &[v6(), all(0x40)]),
                "7 2001:db8::1 false false",
            ),
            (
                new_address(AF_INET6, 0, &[all(0x20), v6()]),
                "7 2001:db8::1 false false",
            ),
            (
                new_address(AF_INET6, 0, &[v6(), all(0x08)]),
                "7 2001:db8::1 false false",
            ),
            (
                new_address(AF_INET6, 0, &[v6(), all(0x44)]),
                "7 2001:db8::1 false false",
            ),
            // An unknown attribute with a padding, and one of another length.
            (
                new_address(
                    AF_INET6,
                    0,
                    &[attribute(99, b"abc"), attribute(IFA_LOCAL, &[1; 5]), v6()],
                ),
                "7 2001:db8::1 true false",
            ),
            (new_address(AF_INET6, 0, &[]), ""),
            (new_address(17, 0, &[attribute(IFA_LOCAL, &[1; 4])]), ""),
            (message(16, 0, b"a link"), ""),
            (Vec::new(), ""),
        ] {
            assert_eq!(shown(&bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn the_list_of_addresses_ends_with_its_last_message() {
        let one = new_address(AF_INET, 0, &[attribute(IFA_LOCAL, &[192, 0, 2, 1])]);
        let part = parse_dump(&[one.clone(), one.clone()].concat()).unwrap();
        assert_eq!((part.addresses.len(), part.done), (2, false));
        let done = message(NLMSG_DONE, 2, &[0; 4]);
        let part = parse_dump(&[one, done, b"x".to_vec()].concat()).unwrap();
        assert_eq!((part.addresses.len(), part.done), (1, true));
        assert!(!part.interrupted);
        let part = parse_dump(&message(NLMSG_DONE, NLM_F_DUMP_INTR, &[0; 4])).unwrap();
        assert!(part.interrupted && part.done);
    }

    /// linux/rtnetlink.h: `struct rtmsg` has the family and the bits of the prefix.
    #[test]
    fn news_of_addresses_and_default_routes_tell_a_change() {
        let address = new_address(AF_INET, 0, &[attribute(IFA_LOCAL, &[192, 0, 2, 1])]);
        let route = |kind, bits| message(kind, 0, &[AF_INET, bits, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0]);
        let of_a_net = route(RTM_NEWROUTE, 24);
        for (bytes, expected) in [
            (address.clone(), true),
            (message(21, 0, &address[HEADER..]), true),
            (route(RTM_NEWROUTE, 0), true),
            (route(RTM_DELROUTE, 0), true),
            (of_a_net.clone(), false),
            (route(RTM_DELROUTE, 32), false),
            ([of_a_net.clone(), of_a_net.clone()].concat(), false),
            ([of_a_net.clone(), address].concat(), true),
            // What cannot be read.
            (of_a_net[..20].to_vec(), true),
            (message(RTM_NEWROUTE, 0, &[AF_INET]), true),
            (Vec::new(), false),
        ] {
            assert_eq!(tells_change(&bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn wrong_lengths_and_refusals_of_the_kernel_are_errors() {
        let whole = new_address(AF_INET6, 0, &[attribute(IFA_ADDRESS, &V6)]);
        for end in 1..whole.len() {
            assert_eq!(
                parse_dump(&whole[..end]),
                Err(MessageError::Length),
                "{end}"
            );
        }
        let with_length = |at: usize, length: u8| {
            let mut bytes = whole.clone();
            bytes[at] = length;
            bytes
        };
        // Of the message, and of its attribute; none of them may stand still or reach too far.
        for (at, length) in [
            (0, 0),
            (0, 15),
            (0, 20),
            (0, 255),
            (24, 0),
            (24, 3),
            (24, 21),
        ] {
            let bytes = with_length(at, length);
            assert_eq!(
                parse_dump(&bytes),
                Err(MessageError::Length),
                "{at} {length}"
            );
        }
        let refused = message(NLMSG_ERROR, 0, &(-1_i32).to_ne_bytes());
        assert_eq!(parse_dump(&refused), Err(MessageError::Refused(1)));
        // So ends a list that the kernel has given up.
        let given_up = message(NLMSG_DONE, 2, &(-12_i32).to_ne_bytes());
        assert_eq!(parse_dump(&given_up), Err(MessageError::Refused(12)));
        let short = message(NLMSG_ERROR, 0, &[0; 2]);
        assert_eq!(parse_dump(&short), Err(MessageError::Length));
    }

    #[test]
    fn the_request_asks_for_the_addresses_of_both_families() {
        let request = dump_request();
        assert_eq!(u32_at(&request, 0), Ok(24));
        assert_eq!(u16_at(&request, 4), Ok(RTM_GETADDR));
        assert_eq!(u16_at(&request, 6), Ok(0x301));
        assert_eq!(request[HEADER], AF_UNSPEC);
    }
}
