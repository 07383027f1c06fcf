//! The keys of `[acme]`, which a site's `acme` has too.

use lockgate_rules::{AcmeDirectory, CertFallback, CertKeyKind, HostPattern, SecretBytes};

use crate::model::{AuthoritySource, HttpUrl};
use crate::table::CheckedTable;
use crate::values::*;

use super::Unset::{Absent, Required};
use super::tls::AUTHORITIES;
use super::{ConfigKey, Defaulted, KeyRow, dns_provider};

table! {
    const EMAIL: ConfigKey<String> = ConfigKey::new(
        "email",
        &MailAddress,
        Absent("the account has no address"),
        r#""me@example.com""#,
        "The address of the account at the authority, which may write to it.",
    );

    const DIRECTORY: Defaulted<Items<AcmeDirectory>> = ConfigKey::defaulted(
        "directory",
        &OneOrMore(List { of: DirectoryName, least: 1 }),
        r#""letsencrypt""#,
        r#"["letsencrypt", "https://ca.example.com/acme/directory"]"#,
        "The authority: its name, or the URL of its ACME directory. Of several, the next one is asked \
         when the one before fails. `zerossl`, `google` and `sslcom` need `eab`. While you try things, \
         `\"letsencrypt-staging\"` spares the limits of `\"letsencrypt\"`; clients do not trust its \
         certificates.",
    );

    const CA: Defaulted<AuthoritySource> = ConfigKey::defaulted(
        "ca",
        &AUTHORITIES,
        r#""system""#,
        r#""/etc/lockgate/step-ca.pem""#,
        "The authorities that the server of the directory is verified by: the system's, or a PEM file. \
         A private authority such as step-ca or Pebble needs its own file here.",
    );

    const EAB: ConfigKey<CheckedTable> = ConfigKey::new(
        "eab",
        &TableOf(eab::ALL),
        Absent("the account is bound to none"),
        r#"{ key_id = "kid-1", mac_key = "${file:/etc/lockgate/eab.key}" }"#,
        "External account binding (RFC 8555 §7.3.4): the account that you have at the authority.",
    );

    const PROFILE: ConfigKey<String> = ConfigKey::new(
        "profile",
        &Identifier,
        Absent("the authority's default"),
        r#""shortlived""#,
        "The certificate profile, one of those that the authority offers (draft-ietf-acme-profiles): \
         `\"shortlived\"` of Let's Encrypt is for about six days.",
    );

    const KEY: Defaulted<Items<CertKeyKind>> = ConfigKey::defaulted(
        "key",
        &OneOrMore(List { of: KEY_KINDS, least: 1 }),
        r#""p256""#,
        r#"["p256", "rsa2048"]"#,
        "The kind of the certificates' keys: ECDSA over P-256, or RSA with 2048 bits. With both, each \
         name has two certificates, and a client gets one that it can verify.",
    );

    const DNS: ConfigKey<CheckedTable> = ConfigKey::new(
        "dns",
        &TableOf(dns_provider::ALL),
        Absent("the authority must reach port 80 or 443, and wildcards need a file"),
        r#"{ provider = "desec", token = "${file:/etc/lockgate/dns.token}" }"#,
        "Who writes TXT records for DNS-01, the challenge by DNS (RFC 8555 §8.4). Wildcards need it, and \
         machines that the authority reaches on no port. Other names take it where the other challenges \
         fail. The record stands at `_acme-challenge.` and the name, or where the CNAME from there leads; \
         it is removed once the authority has looked.",
    );

    const FALLBACK: Defaulted<CertFallback> = ConfigKey::defaulted(
        "fallback",
        &Either(&[
            &As(False, none),
            &Words(&[("internal", CertFallback::Internal)]),
        ]),
        "false",
        r#""internal""#,
        "What clients get for a name until the authority has issued its certificate. `\"internal\"` is a \
         certificate of Lockgate's own authority, as for `tls = \"internal\"`; `false` refuses the \
         handshake.",
    );

    const ON_DEMAND: ConfigKey<ShortOrLong<Items<HostPattern>>> = ConfigKey::new(
        "on_demand",
        &Short { short: List { of: SiteHost, least: 1 }, long: TableOf(on_demand::ALL) },
        Absent("certificates are obtained for configured hosts alone"),
        r#"{ ask = "http://127.0.0.1:3000/allowed" }"#,
        "Certificates for hosts that `*.` or a site for every host stands for: obtained when a client \
         first asks for the name, whose handshake waits meanwhile. Never without a permission: the short \
         form lists the hosts that are permitted. One key of ECDSA or RSA is used, the first of `key`.",
    );
}

table! {
    mod on_demand;

    const NAMES: Defaulted<Items<HostPattern>> = ConfigKey::defaulted(
        "names",
        &List { of: SiteHost, least: 0 },
        "[]",
        r#"["*.customers.example.com"]"#,
        "The hosts that are permitted. With `ask`, a host needs both permissions.",
    );

    const ASK: ConfigKey<HttpUrl> = ConfigKey::new(
        "ask",
        &PlainUrl,
        Absent("`names` alone permits"),
        r#""http://127.0.0.1:3000/allowed""#,
        "A URL that is asked before each order, renewals included, with `?domain=NAME`. The status 200 \
         permits the name; all others refuse it, and so does a service that has not answered in 5 s.",
    );

    const PER_HOUR: Defaulted<u32> = ConfigKey::defaulted(
        "per_hour",
        &WholeNumber::new(1, 10_000),
        "20",
        "100",
        "Orders in an hour for new names, of all clients. `ask` may be asked ten times as often.",
    )
    .with(r#"names = ["*.customers.example.com"]"#);

    const PER_CLIENT: Defaulted<u32> = ConfigKey::defaulted(
        "per_client",
        &WholeNumber::new(1, 10_000),
        "5",
        "2",
        "New names in an hour that one client (of IPv6 the /64) may ask for, permitted or not.",
    )
    .with(r#"names = ["*.customers.example.com"]"#);
}

const KEY_KINDS: Words<CertKeyKind> = Words(&[
    ("p256", CertKeyKind::EcdsaP256),
    ("rsa2048", CertKeyKind::Rsa2048),
]);

fn none(_: ()) -> CertFallback {
    CertFallback::None
}

table! {
    mod eab;

    const KEY_ID: ConfigKey<String> = ConfigKey::new(
        "key_id",
        &Identifier,
        Required,
        r#""kid-1""#,
        "The key identifier that the authority gave.",
    )
    .with(r#"mac_key = "${file:/etc/lockgate/eab.key}""#);

    const MAC_KEY: ConfigKey<SecretBytes> = ConfigKey::new(
        "mac_key",
        &MacKey,
        Required,
        r#""${file:/etc/lockgate/eab.key}""#,
        "The MAC key that the authority gave, in base64url without padding.",
    )
    .with(r#"key_id = "kid-1""#);
}
