//! Affinity of clients to endpoints. Knows no endpoints: see `balance` for the member of a hash.

use std::net::IpAddr;

use lockgate_http::fields::Fields;
use lockgate_net::millis::Millis;
use lockgate_rules::HashKey;

use super::preference::Preference;
use super::random::mix;
use super::sessions::Sessions;
use super::sticky::{Sticky, cookies};

/// The attributes of a client and its request or relay.
#[derive(Debug, Clone, Copy)]
pub struct AffinityInput<'a> {
    /// The client's address, if it has any.
    pub client: Option<IpAddr>,
    /// The server name of its SNI.
    pub server_name: Option<&'a str>,
    /// The identifier of the TLS session that it offers (RFC 5246 §7.4.1.2), where TLS passes
    /// through to the endpoint.
    pub session: Option<&'a [u8]>,
    /// The fields of the request, for HTTP.
    pub fields: Option<&'a Fields>,
}

/// The affinity of a pool.
#[derive(Debug)]
pub enum Affinity {
    /// By the hash of an attribute.
    Hash(HashKey),
    /// By a cookie.
    Sticky(Sticky),
    /// By TLS session, else by address.
    Session(Sessions),
}

impl Affinity {
    /// The endpoint that a client prefers. `now` is [`lockgate_limits::clock::Clock::now`].
    pub fn preference(&self, affinity_input: &AffinityInput<'_>, now: Millis) -> Preference {
        match self {
            Self::Hash(key) => preference(key, affinity_input),
            Self::Sticky(sticky) => affinity_input
                .fields
                .map_or(Preference::Any, |fields| sticky.preference(fields)),
            Self::Session(sessions) => {
                let address = preference(&HashKey::Client, affinity_input);
                match (
                    affinity_input
                        .session
                        .and_then(|session| sessions.find(session, now)),
                    address,
                ) {
                    (Some(member), Preference::Hashed(hash)) => {
                        Preference::Session(member, Some(hash))
                    }
                    (Some(member), _) => Preference::Session(member, None),
                    (None, address) => address,
                }
            }
        }
    }
}

impl Affinity {
    /// Whether it depends on a field of this name.
    pub fn reads(&self, name: &[u8]) -> bool {
        match self {
            Self::Hash(HashKey::Header(field)) => name.eq_ignore_ascii_case(field.as_bytes()),
            Self::Hash(HashKey::Cookie(_)) | Self::Sticky(_) => {
                name.eq_ignore_ascii_case(b"cookie")
            }
            Self::Hash(HashKey::Client | HashKey::Sni) | Self::Session(_) => false,
        }
    }
}

/// The endpoint that a client prefers: the same in every worker, after every start and in every
/// Lockgate with the same endpoints.
fn preference(key: &HashKey, affinity_input: &AffinityInput<'_>) -> Preference {
    let fields = affinity_input.fields;
    let own = match key {
        HashKey::Client => None,
        HashKey::Sni => affinity_input.server_name.map(str::as_bytes),
        HashKey::Header(name) => fields.and_then(|fields| fields.named(name.as_bytes()).next()),
        HashKey::Cookie(name) => fields.and_then(|fields| cookies(fields, name.as_bytes()).next()),
    };
    match (
        own.filter(|value| !value.is_empty()),
        affinity_input.client.map(lockgate_limits::client),
    ) {
        (Some(value), _) => Preference::Hashed(hash(value)),
        (None, Some(IpAddr::V4(ip))) => Preference::Hashed(hash(&ip.octets())),
        (None, Some(IpAddr::V6(ip))) => Preference::Hashed(hash(&ip.octets())),
        (None, None) => Preference::Any,
    }
}

/// A hash that is the same everywhere and always. It does not resist collisions: by one, a client
/// only reaches an endpoint that it could choose anyway.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    let seed = mix(bytes.len() as u64 ^ 0x9e37_79b9_7f4a_7c15);
    bytes.chunks(8).fold(seed, |hash, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        mix(hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from_le_bytes(word))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use lockgate_limits::MemberIndex;

    use super::*;

    fn fields(lines: &[(&str, &str)]) -> Fields {
        let mut fields = Fields::default();
        lines
            .iter()
            .for_each(|(name, value)| fields.append(name.as_bytes(), value.as_bytes()));
        fields
    }

    fn preference(
        key: &HashKey,
        client: Option<&str>,
        server_name: Option<&str>,
        lines: &[(&str, &str)],
    ) -> Preference {
        let fields = fields(lines);
        let client = client.map(|ip| ip.parse().unwrap());
        super::preference(
            key,
            &AffinityInput {
                client,
                server_name,
                session: None,
                fields: Some(&fields),
            },
        )
    }

    fn hashed(value: &str) -> Preference {
        Preference::Hashed(hash(value.as_bytes()))
    }

    #[test]
    fn the_affinity_of_an_ipv6_client_is_its_64_prefix() {
        let of = |ip| preference(&HashKey::Client, Some(ip), Some("a.test"), &[]);
        assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1:2:3"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(
            preference(&HashKey::Client, None, None, &[]),
            Preference::Any
        );
    }

    #[test]
    fn a_missing_affinity_key_falls_back_to_the_client_address() {
        let (field, cookie) = (
            HashKey::Header("x-user".into()),
            HashKey::Cookie("id".into()),
        );
        let address = preference(&HashKey::Client, Some("192.0.2.1"), None, &[]);
        for (key, name, lines, expected) in [
            (
                &field,
                None,
                &[("X-User", "ann"), ("x-user", "bob")][..],
                hashed("ann"),
            ),
            (&field, None, &[("x-users", "ann")], address),
            (&field, None, &[("x-user", "")], address),
            (
                &cookie,
                None,
                &[("Cookie", "a=b; id=ann; id=bob")],
                hashed("ann"),
            ),
            (
                &cookie,
                None,
                &[("cookie", "a=b"), ("cookie", "id=ann")],
                hashed("ann"),
            ),
            (
                &cookie,
                None,
                &[("cookie", "uid=1;id=\"x=y\" ;z=1")],
                hashed("\"x=y\""),
            ),
            (
                &cookie,
                None,
                &[("cookie", "ID=ann; idx=ann; id; =id")],
                address,
            ),
            (&cookie, None, &[("cookie", "id=")], address),
            (&HashKey::Sni, Some("a.test"), &[], hashed("a.test")),
            (&HashKey::Sni, None, &[], address),
        ] {
            assert_eq!(
                preference(key, Some("192.0.2.1"), name, lines),
                expected,
                "{key:?} {lines:?}"
            );
        }
        assert_eq!(preference(&field, None, None, &[]), Preference::Any);
        let relay = AffinityInput {
            client: None,
            server_name: Some("a.test"),
            session: None,
            fields: None,
        };
        assert_eq!(
            (
                super::preference(&field, &relay),
                super::preference(&HashKey::Sni, &relay)
            ),
            (Preference::Any, hashed("a.test"))
        );
    }

    #[test]
    fn tls_session_affinity_precedes_the_address_while_known() {
        let sessions = Sessions::default();
        sessions.learn(b"known", MemberIndex::new(3), Millis::ZERO);
        let by_session = Affinity::Session(sessions);
        let preference = |ip: Option<&str>, session, now| {
            let client = ip.map(|ip| ip.parse().unwrap());
            by_session.preference(
                &AffinityInput {
                    client,
                    server_name: None,
                    session,
                    fields: None,
                },
                now,
            )
        };
        let Preference::Hashed(address) = preference(Some("192.0.2.1"), None, Millis::ZERO) else {
            panic!()
        };
        let (known, other) = (Some(&b"known"[..]), Some(&b"other"[..]));
        for (ip, session, now, expected) in [
            (
                Some("192.0.2.1"),
                known,
                0,
                Preference::Session(MemberIndex::new(3), Some(address)),
            ),
            (Some("192.0.2.1"), other, 0, Preference::Hashed(address)),
            (
                Some("192.0.2.1"),
                Some(&b""[..]),
                0,
                Preference::Hashed(address),
            ),
            (
                Some("192.0.2.1"),
                known,
                u64::MAX,
                Preference::Hashed(address),
            ),
            (
                None,
                known,
                0,
                Preference::Session(MemberIndex::new(3), None),
            ),
            (None, None, 0, Preference::Any),
        ] {
            assert_eq!(
                preference(ip, session, Millis::new(now)),
                expected,
                "{ip:?} {session:?} {now}"
            );
        }
    }

    #[test]
    fn the_affinity_hash_is_stable_and_spreads_similar_keys() {
        // Affinity must survive a new version: these values must not change.
        let known = [
            hash(b""),
            hash(b"a"),
            hash(b"192.0.2.1"),
            hash(b"0123456789abcdef"),
        ];
        assert_eq!(known, KNOWN);
        let many = (0..10_000).map(|number| hash(format!("user-{number}").as_bytes()));
        let buckets: HashSet<u64> = many.map(|hash| hash >> 40).collect();
        assert!(buckets.len() > 9_980, "{}", buckets.len());
        assert_ne!(hash(b"a"), hash(b"a\0"));
        assert_ne!(hash(b"01234567"), hash(b"01234567\0"));
    }

    const KNOWN: [u64; 4] = [
        16_294_208_416_658_607_535,
        3_558_369_983_829_320_514,
        10_014_836_288_433_319_250,
        18_420_346_982_676_511_625,
    ];
}
