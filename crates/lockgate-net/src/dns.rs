//! DNS queries for SRV records and their responses (RFC 1035 §4, RFC 2782), without IO.
//!
//! Only that: one question, resolved recursively by the name server (RD), and SRV records of the
//! response. The system resolves addresses.

use std::fmt;

/// The longest response by UDP (RFC 1035 §4.2.1). A longer one needs TCP.
pub const DATAGRAM: usize = 512;

/// The longest name (RFC 1035 §2.3.4), as encoded in a message.
const NAME: usize = 255;
/// The most records of a response that are read; further ones are ignored.
const RECORDS: usize = 256;
const HEADER: usize = 12;
const SRV: u16 = 33;
const IN: u16 = 1;

/// The location of a service, by one of its records (RFC 2782).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Srv {
    /// The priority; lower ones are tried first.
    pub priority: u16,
    /// The share among records of the same priority.
    pub weight: u16,
    /// The port that the service listens on.
    pub port: u16,
    /// The host, without the dot at the end.
    pub target: String,
}

/// The response of a name server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SrvResponse {
    /// These records, and for how many seconds they are valid; none if the service is decidedly
    /// unavailable (RFC 2782: a target of `.`).
    Records(Vec<Srv>, u32),
    /// The response exceeds a datagram.
    Truncated,
}

/// The reason why a response is unusable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DnsError {
    /// The response to another question, perhaps from another sender: the right one may still come.
    #[error("the message is no answer to the query")]
    NotOurs,
    /// A response that does not follow RFC 1035.
    #[error("the answer is malformed")]
    Malformed,
    /// The name does not exist.
    #[error("the name does not exist")]
    NoName,
    /// The name has no record of a service.
    #[error("the name has no SRV record")]
    NoRecord,
    /// The name server refuses with this code (RFC 1035 §4.1.1).
    #[error("the name server reports {}", ResponseCode(*.0))]
    Refused(u8),
}

struct ResponseCode(u8);

impl fmt::Display for ResponseCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            1 => f.write_str("a malformed query"),
            2 => f.write_str("a failure"),
            5 => f.write_str("no"),
            code => write!(f, "error {code}"),
        }
    }
}

/// A question for the SRV records of `name`, with an unpredictable id. `None` if `name` is no name.
pub fn encode_query(id: u16, name: &str) -> Option<Vec<u8>> {
    let mut message = Vec::with_capacity(HEADER + name.len() + 6);
    // RFC 1035 §4.1.1: one question, with recursion.
    for word in [id, 0x0100, 1, 0, 0, 0] {
        message.extend_from_slice(&word.to_be_bytes());
    }
    for label in name.strip_suffix('.').unwrap_or(name).split('.') {
        let length = u8::try_from(label.len())
            .ok()
            .filter(|length| (1..=63).contains(length))?;
        message.push(length);
        message.extend_from_slice(label.as_bytes());
    }
    message.push(0);
    if message.len() - HEADER > NAME {
        return None;
    }
    for word in [SRV, IN] {
        message.extend_from_slice(&word.to_be_bytes());
    }
    Some(message)
}

/// Parses the response to a [`encode_query`].
///
/// # Errors
/// When it is malformed, belongs to another question, or has no records.
pub fn parse_response(message: &[u8], question: &[u8]) -> Result<SrvResponse, DnsError> {
    let mut reader = DnsReader { message, at: 0 };
    let header: [u16; 6] = reader.words().map_err(|_| DnsError::NotOurs)?;
    let [id, flags, questions, answers, ..] = header;
    let asked = question.get(HEADER..).unwrap_or_default();
    let echoed = message
        .get(HEADER..HEADER + asked.len())
        .is_some_and(|echo| echo.eq_ignore_ascii_case(asked));
    // RFC 5452 §9.1: a response, to this question, with this id. A refusal may lack the question.
    let is_ours = question.starts_with(&id.to_be_bytes()) && flags & 0x8000 != 0;
    let code = (flags & 0xf) as u8;
    match (is_ours, questions, echoed) {
        (true, 1, true) => reader.at = HEADER + asked.len(),
        (true, 0, _) if code != 0 && code != 3 => {}
        _ => return Err(DnsError::NotOurs),
    }
    match code {
        0 => {}
        3 => return Err(DnsError::NoName),
        code => return Err(DnsError::Refused(code)),
    }
    if flags & 0x0200 != 0 {
        return Ok(SrvResponse::Truncated);
    }
    let (mut records, mut ttl, mut found) = (Vec::new(), u32::MAX, false);
    for _ in 0..usize::from(answers).min(RECORDS) {
        reader.name()?;
        let [kind, class, high, low, length] = reader.words()?;
        let end = reader.at + usize::from(length);
        if (kind, class) == (SRV, IN) {
            let [priority, weight, port] = reader.words()?;
            let target = reader.host()?;
            if reader.at != end {
                return Err(DnsError::Malformed);
            }
            found = true;
            // RFC 2181 §8: a TTL with the first bit set is 0.
            let lasts = u32::from(high) << 16 | u32::from(low);
            ttl = ttl.min(if lasts >> 31 == 0 { lasts } else { 0 });
            if let Some(target) = target.filter(|_| port != 0) {
                records.push(Srv {
                    priority,
                    weight,
                    port,
                    target,
                });
            }
        }
        if end > message.len() {
            return Err(DnsError::Malformed);
        }
        reader.at = end;
    }
    if found {
        Ok(SrvResponse::Records(records, ttl))
    } else {
        Err(DnsError::NoRecord)
    }
}

struct DnsReader<'m> {
    message: &'m [u8],
    at: usize,
}

impl DnsReader<'_> {
    fn byte(&mut self) -> Result<u8, DnsError> {
        let byte = self
            .message
            .get(self.at)
            .copied()
            .ok_or(DnsError::Malformed)?;
        self.at += 1;
        Ok(byte)
    }

    fn words<const N: usize>(&mut self) -> Result<[u16; N], DnsError> {
        let mut words = [0; N];
        for word in &mut words {
            *word = u16::from_be_bytes([self.byte()?, self.byte()?]);
        }
        Ok(words)
    }

    /// A host name; `None` is the root.
    fn host(&mut self) -> Result<Option<String>, DnsError> {
        let name = self.name()?;
        // Other characters are allowed in names (RFC 2181 §11), but not in host names; a dot within
        // a label is one.
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        if !name.iter().all(plain) {
            return Err(DnsError::Malformed);
        }
        let name = String::from_utf8(name).map_err(|_| DnsError::Malformed)?;
        Ok((!name.is_empty()).then(|| name.to_ascii_lowercase()))
    }

    /// A name, of which a part may be further to the front (RFC 1035 §4.1.4). A dot within a label
    /// becomes a 0.
    ///
    /// Each jump leads in front of the last, so that there are no loops.
    fn name(&mut self) -> Result<Vec<u8>, DnsError> {
        let (mut name, mut behind, mut limit, mut jumps) = (Vec::new(), None, self.at, 0);
        loop {
            match self.byte()? {
                0 => break,
                length @ 1..=63 => {
                    let label = self.message.get(self.at..self.at + usize::from(length));
                    let label = label.ok_or(DnsError::Malformed)?;
                    self.at += usize::from(length);
                    if !name.is_empty() {
                        name.push(b'.');
                    }
                    if name.len() + label.len() + 2 > NAME {
                        return Err(DnsError::Malformed);
                    }
                    name.extend(
                        label
                            .iter()
                            .map(|byte| if *byte == b'.' { 0 } else { *byte }),
                    );
                }
                length @ 0xc0.. => {
                    let to = usize::from(length & 0x3f) << 8 | usize::from(self.byte()?);
                    jumps += 1;
                    if to >= limit || jumps > NAME {
                        return Err(DnsError::Malformed);
                    }
                    behind.get_or_insert(self.at);
                    (self.at, limit) = (to, to);
                }
                64..0xc0 => return Err(DnsError::Malformed),
            }
        }
        self.at = behind.unwrap_or(self.at);
        Ok(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: u16 = 0x1234;

    fn asked() -> Vec<u8> {
        encode_query(ID, "_app._tcp.example.internal.").unwrap()
    }

    /// A response with these flags and records, each as it stands behind the question.
    fn answered(flags: u16, count: u16, records: &[u8]) -> Vec<u8> {
        let mut message = asked();
        message[2..4].copy_from_slice(&flags.to_be_bytes());
        message[6..8].copy_from_slice(&count.to_be_bytes());
        [&message, records].concat()
    }

    /// A record of the queried name (RFC 1035 §4.1.3), with the name at its place 12.
    fn record(kind: u16, ttl: u32, data: &[u8]) -> Vec<u8> {
        let length = (data.len() as u16).to_be_bytes();
        [
            &[0xc0, 12][..],
            &kind.to_be_bytes(),
            &[0, 1],
            &ttl.to_be_bytes(),
            &length,
            data,
        ]
        .concat()
    }

    fn srv(priority: u16, weight: u16, port: u16, target: &[u8]) -> Vec<u8> {
        let words = [priority, weight, port].map(u16::to_be_bytes).concat();
        record(SRV, 30, &[&words, target].concat())
    }

    const TARGET: &[u8] = b"\x02A1\x07example\x08internal\x00";

    /// RFC 1035 §4.1.1, §4.1.2.
    #[test]
    fn an_srv_query_is_encoded_and_invalid_names_are_refused() {
        assert_eq!(asked()[..12], [0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(
            &asked()[12..],
            b"\x04_app\x04_tcp\x07example\x08internal\x00\x00\x21\x00\x01"
        );
        for bad in [
            "",
            ".",
            "a..b",
            &"x".repeat(64),
            &format!("{0}.{0}.{0}.{0}", "x".repeat(63)),
        ] {
            assert_eq!(encode_query(ID, bad), None, "{bad}");
        }
        assert!(
            encode_query(
                ID,
                &[
                    "x".repeat(63),
                    "x".repeat(63),
                    "x".repeat(63),
                    "x".repeat(61)
                ]
                .join(".")
            )
            .is_some()
        );
    }

    /// RFC 2782.
    #[test]
    fn srv_records_name_target_and_port() {
        let one = Srv {
            priority: 1,
            weight: 2,
            port: 80,
            target: "a1.example.internal".into(),
        };
        let other = Srv {
            priority: 0,
            weight: 0,
            port: 81,
            target: "b.example.internal".into(),
        };
        // The second target ends with a pointer into the question.
        let records = [srv(1, 2, 80, TARGET), srv(0, 0, 81, b"\x01b\xc0\x16")].concat();
        let found = parse_response(&answered(0x8180, 2, &records), &asked());
        assert_eq!(
            found,
            Ok(SrvResponse::Records(vec![one.clone(), other], 30))
        );
        // Others are between: an alias, and its signature.
        let records = [
            record(5, 1, b"\xc0\x0c"),
            srv(1, 2, 80, TARGET),
            record(46, 1, b"x"),
        ]
        .concat();
        assert_eq!(
            parse_response(&answered(0x8180, 3, &records), &asked()),
            Ok(SrvResponse::Records(vec![one.clone()], 30))
        );
        // The least TTL counts.
        let records = [
            srv(1, 2, 80, TARGET),
            record(SRV, 7, &[&[0, 1, 0, 2, 0, 80], TARGET].concat()),
        ]
        .concat();
        assert_eq!(
            parse_response(&answered(0x8180, 2, &records), &asked()),
            Ok(SrvResponse::Records(vec![one.clone(), one], 7))
        );
        // RFC 2181 §8.
        let records = record(SRV, 1 << 31, &[&[0, 1, 0, 2, 0, 80], TARGET].concat());
        assert!(matches!(
            parse_response(&answered(0x8180, 1, &records), &asked()),
            Ok(SrvResponse::Records(_, 0))
        ));
        // "A Target of "." means that the service is decidedly not available at this domain."
        let none = parse_response(&answered(0x8180, 1, &srv(0, 0, 0, b"\0")), &asked());
        assert_eq!(none, Ok(SrvResponse::Records(Vec::new(), 30)));
    }

    #[test]
    fn a_dns_response_must_match_its_query() {
        let good = answered(0x8180, 1, &srv(1, 2, 80, TARGET));
        let with = |at: usize, byte: u8| {
            let mut message = good.clone();
            message[at] = byte;
            parse_response(&message, &asked())
        };
        for (found, why) in [
            (with(0, 0), "RFC 5452 §9.1: another number"),
            (with(2, 0x01), "RFC 1035 §4.1.1: a question"),
            (with(14, b'x'), "RFC 5452 §9.1: another name"),
            (with(41, 1), "RFC 5452 §9.1: another kind"),
            (with(5, 2), "two questions"),
            (parse_response(b"", &asked()), "nothing"),
            (parse_response(&good[..11], &asked()), "no header"),
            (parse_response(&good[..20], &asked()), "no question"),
        ] {
            assert_eq!(found, Err(DnsError::NotOurs), "{why}");
        }
        // RFC 4343: names have no case.
        assert!(with(13, b'_').is_ok() && with(14, b'A').is_ok());
        assert_eq!(with(3, 0x83), Err(DnsError::NoName));
        assert_eq!(with(3, 0x82), Err(DnsError::Refused(2)));
        assert_eq!(with(2, 0x83), Ok(SrvResponse::Truncated));
        assert_eq!(
            parse_response(&answered(0x8180, 0, b""), &asked()),
            Err(DnsError::NoRecord)
        );
        assert_eq!(
            parse_response(&answered(0x8180, 1, &record(1, 1, &[1, 2, 3, 4])), &asked()),
            Err(DnsError::NoRecord)
        );
        // Some servers answer FORMERR without the question.
        assert_eq!(
            parse_response(&[0x12, 0x34, 0x80, 5, 0, 0, 0, 0, 0, 0, 0, 0], &asked()),
            Err(DnsError::Refused(5))
        );
        assert_eq!(
            parse_response(&[0x12, 0x34, 0x80, 3, 0, 0, 0, 0, 0, 0, 0, 0], &asked()),
            Err(DnsError::NotOurs)
        );
    }

    #[test]
    fn malformed_dns_responses_are_refused_at_every_length() {
        let good = answered(0x8180, 1, &srv(1, 2, 80, TARGET));
        for end in asked().len()..good.len() {
            assert_eq!(
                parse_response(&good[..end], &asked()),
                Err(DnsError::Malformed),
                "{end}"
            );
        }
        let at = (asked().len() + 18) as u8;
        for (target, why) in [
            (&[0xc0, at][..], "it leads to itself"),
            (&[0xc0, at + 1], "RFC 1035 §4.1.4: only to the front"),
            (&[1, b'a', 0xc0, at], "round in circles"),
            (&[0x40], "RFC 1035 §4.1.4: reserved"),
            (b"\x01.\0", "a dot within"),
            (b"\x01\xff\0", "no letter"),
            (b"\x01a\0\0", "longer than its name"),
            (
                &[&[63; 64][..], &[63; 64], &[63; 64], &[63; 64], &[0]].concat(),
                "RFC 1035 §2.3.4",
            ),
        ] {
            let found = parse_response(&answered(0x8180, 1, &srv(1, 2, 80, target)), &asked());
            assert_eq!(found, Err(DnsError::Malformed), "{why}");
        }
        // A wrong count is no loop.
        assert_eq!(
            parse_response(&answered(0x8180, u16::MAX, b""), &asked()),
            Err(DnsError::Malformed)
        );
    }
}
