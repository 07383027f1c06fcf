//! What an intermediary must change on the way (RFC 9110 §7.6), and what it tells of who came to it (RFC 7239).

use std::fmt::Write;
use std::net::IpAddr;

use crate::fields::{Field, Fields, Known};
use crate::head::Version;

/// Which fields of a message go on: all but those that are for this connection only (RFC 9110 §7.6.1).
///
/// A field that Connection names goes no further, except those that framing and routing rest on: a client that could
/// have them removed would decide how the next server reads its message ("hop-by-hop abuse").
#[derive(Debug)]
pub struct Onward<'a> {
    /// Names that Connection has and that are known by no other reason to end here.
    named: Vec<&'a [u8]>,
}

impl<'a> Onward<'a> {
    /// For the message with these fields.
    pub fn of(fields: &'a Fields) -> Self {
        let usual = |token: &&[u8]| {
            [&b"close"[..], b"keep-alive"].iter().any(|usual| usual.eq_ignore_ascii_case(token))
        };
        Self { named: fields.tokens(Known::Connection).filter(|token| !usual(token)).collect() }
    }

    /// Whether a field goes on. Framing is not forwarded but made anew: Content-Length and Transfer-Encoding are the
    /// encoder's.
    pub fn passes(&self, field: &Field<'_>) -> bool {
        match field.known {
            Some(
                Known::Connection
                | Known::ContentLength
                | Known::KeepAlive
                | Known::ProxyConnection
                | Known::Te
                | Known::TransferEncoding
                | Known::Upgrade,
            ) => false,
            Some(Known::Host) => true,
            _ => !self.named.iter().any(|name| name.eq_ignore_ascii_case(field.name)),
        }
    }

    /// Whether Connection has this token.
    pub fn names(&self, token: &str) -> bool {
        self.named.iter().any(|name| name.eq_ignore_ascii_case(token.as_bytes()))
    }
}

/// Whether the connection is to be kept after this message, as its sender wants it (RFC 9112 §9.3).
pub fn keeps_alive(version: Version, fields: &Fields) -> bool {
    let has = |token: &str| {
        fields.tokens(Known::Connection).any(|found| found.eq_ignore_ascii_case(token.as_bytes()))
    };
    !has("close") && (version == Version::Http11 || has("keep-alive"))
}

/// Who asked us, for the origin.
#[derive(Debug, Clone, Copy)]
pub struct Client<'a> {
    /// The other end of the connection, or whom a PROXY header named.
    pub address: IpAddr,
    /// Whether it came over TLS.
    pub secure: bool,
    /// The host that it asked for, with its port, as it was written.
    pub host: &'a str,
    /// Whether it may speak for others: what it says of earlier clients is kept, and ours is added behind it.
    pub trusted: bool,
}

impl Client<'_> {
    /// Sets `X-Forwarded-For`, `-Proto` and `-Host`, and `Forwarded` (RFC 7239 §4) where the client is trusted and sent
    /// one. What a client that is not trusted says of itself is dropped: anybody could.
    pub fn tell(&self, fields: &mut Fields) {
        let mut chain = self.earlier(fields, Known::XForwardedFor);
        let _ = write!(chain, "{}", self.address);
        let mut forwarded = self.earlier(fields, Known::Forwarded);
        let before = !forwarded.is_empty();
        let proto = if self.secure { "https" } else { "http" };
        let _ = match self.address {
            IpAddr::V4(address) => write!(forwarded, "for={address}"),
            IpAddr::V6(address) => write!(forwarded, "for=\"[{address}]\""),
        };
        let _ = write!(forwarded, ";proto={proto};host=\"{}\"", self.host);
        fields.set(Known::XForwardedFor, chain.as_bytes());
        // The first hop knows best what the user asked for.
        for (known, ours) in [(Known::XForwardedProto, proto), (Known::XForwardedHost, self.host)] {
            if !self.trusted || fields.first(known).is_none() {
                fields.set(known, ours.as_bytes());
            }
        }
        if before {
            fields.set(Known::Forwarded, forwarded.as_bytes());
        } else {
            fields.remove(Known::Forwarded);
        }
    }

    /// What earlier hops said, as the beginning of one list.
    fn earlier(&self, fields: &Fields, known: Known) -> String {
        let mut list = String::new();
        for value in fields.values(known).filter(|value| self.trusted && !value.is_empty()) {
            list.push_str(&String::from_utf8_lossy(value));
            list.push_str(", ");
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::tests::fields;

    fn shown(fields: &Fields, keep: impl Fn(&Field<'_>) -> bool) -> Vec<String> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let line = |field: Field<'_>| format!("{}: {}", text(field.name), text(field.value));
        fields.iter().filter(keep).map(line).collect()
    }

    #[test]
    fn what_is_for_this_connection_only_ends_here() {
        let sent = fields(&[
            ("Host", "a.example"),
            ("Connection", "close, X-Secret"),
            ("connection", "Keep-Alive, host, content-length"),
            ("Keep-Alive", "timeout=5"),
            ("Proxy-Connection", "keep-alive"),
            ("TE", "trailers"),
            ("Upgrade", "h2c"),
            ("Transfer-Encoding", "chunked"),
            ("Content-Length", "3"),
            ("x-secret", "1"),
            ("X-Other", "2"),
        ]);
        let onward = Onward::of(&sent);
        assert_eq!(shown(&sent, |field| onward.passes(field)), ["Host: a.example", "X-Other: 2"]);
        assert!(onward.names("X-SECRET") && !onward.names("x-other"));
    }

    /// RFC 9112 §9.3.
    #[test]
    fn connections_are_kept_as_their_version_has_it() {
        let keeps = |version, value: &str| keeps_alive(version, &fields(&[("Connection", value)]));
        let (old, new) = (Version::Http10, Version::Http11);
        assert_eq!(
            ["", "close", "Close, x", "keep-alive"].map(|value| keeps(new, value)),
            [true, false, false, true]
        );
        assert_eq!(
            ["", "close", "Keep-Alive", "close, keep-alive"].map(|value| keeps(old, value)),
            [false, false, true, false]
        );
    }

    #[test]
    fn strangers_cannot_say_who_they_are() {
        let lies = [
            ("X-Forwarded-For", "1.1.1.1"),
            ("x-forwarded-proto", "https"),
            ("X-Forwarded-Host", "evil"),
            ("Forwarded", "for=1.1.1.1"),
        ];
        let mut sent = fields(&lies);
        Client { address: [192, 0, 2, 7].into(), secure: false, host: "a.example:80", trusted: false }
            .tell(&mut sent);
        assert_eq!(
            shown(&sent, |_| true),
            ["X-Forwarded-For: 192.0.2.7", "X-Forwarded-Proto: http", "X-Forwarded-Host: a.example:80"]
        );
    }

    #[test]
    fn what_trusted_proxies_say_is_kept_and_ours_added() {
        let told = [
            ("X-Forwarded-For", "203.0.113.9"),
            ("X-Forwarded-For", "10.0.0.1"),
            ("X-Forwarded-Proto", "https"),
            ("Forwarded", "for=203.0.113.9"),
        ];
        let mut sent = fields(&told);
        let address = "2001:db8::7".parse().unwrap();
        Client { address, secure: false, host: "a.example", trusted: true }.tell(&mut sent);
        assert_eq!(
            shown(&sent, |_| true),
            [
                "X-Forwarded-Proto: https",
                "X-Forwarded-For: 203.0.113.9, 10.0.0.1, 2001:db8::7",
                "X-Forwarded-Host: a.example",
                "Forwarded: for=203.0.113.9, for=\"[2001:db8::7]\";proto=http;host=\"a.example\"",
            ]
        );
    }
}
