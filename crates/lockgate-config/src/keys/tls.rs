//! The keys of TLS: of `[tls]`, of a listener, of an upstream.

use std::path::PathBuf;
use std::time::Duration;

use crate::model::{AuthoritySource, ClientCertificates, Group, Suite, TlsVersion};
use crate::values::*;

use super::Unset::{Absent, Required, Within};
use super::{Defaulted, Key, Row};

/// A policy that has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PolicyName {
    Intermediate,
    Modern,
}

const POLICIES: Words<PolicyName> = Words(&[
    ("intermediate", PolicyName::Intermediate),
    ("modern", PolicyName::Modern),
]);

const SYSTEM: Words<()> = Words(&[("system", ())]);

fn system(_: ()) -> AuthoritySource {
    AuthoritySource::System
}

table! {
    const POLICY: Defaulted<Form<PolicyName>> = Key::defaulted(
        "policy",
        &Short { short: POLICIES, long: TableOf(policy::ALL) },
        r#""intermediate""#,
        r#""modern""#,
        "Versions, cipher suites and groups. `\"intermediate\"` is TLS 1.2 and 1.3 with forward secrecy, \
         `\"modern\"` TLS 1.3 only; a table changes `\"intermediate\"` key by key.",
    );

    const CERTS: Defaulted<Items<Form<PathBuf>>> = Key::defaulted(
        "certs",
        &List { of: Short { short: FilePattern, long: TableOf(cert::ALL) }, least: 0 },
        "[]",
        r#"["/etc/tls/*.pem", { cert = "/etc/tls/b.crt", key = "/etc/tls/b.key" }]"#,
        "Certificates, chosen by the host that the client names; an exact name wins over a wildcard. Patterns \
         are read when it starts.",
    );

    const DEFAULT: Key<Form<PathBuf>> = Key::new(
        "default",
        &Short { short: FilePath, long: TableOf(cert::ALL) },
        Absent("such a client is refused; in a table that names exactly one certificate, that one"),
        r#""/etc/tls/default.pem""#,
        "The certificate for a client that names no host, or one that no certificate covers.",
    );

    const TICKETS: Key<Form<()>> = Key::new(
        "tickets",
        &Short { short: False, long: TableOf(tickets::ALL) },
        Within,
        "false",
        "Session tickets, with which clients resume without a full handshake. `false` switches them off; with \
         `keys`, `rotate` and `keep` do not apply.",
    );

    const CLIENT_AUTH: Defaulted<Form<()>> = Key::defaulted(
        "client_auth",
        &Short { short: False, long: TableOf(client_auth::ALL) },
        "false",
        r#"{ mode = "require", ca = "/etc/tls/clients.pem" }"#,
        "Certificates asked of clients.",
    )
    .inside(r#"ca = "/etc/tls/clients.pem""#);
}

table! {
    /// `policy`.
    mod policy;

    const VERSIONS: Key<Items<TlsVersion>> = Key::new(
        "versions",
        &List { of: Version, least: 1 },
        Absent("both"),
        r#"["1.3"]"#,
        "TLS versions: `\"1.2\"`, `\"1.3\"`.",
    );

    const SUITES: Key<Items<Suite>> = Key::new(
        "suites",
        &List { of: SuiteName, least: 1 },
        Absent("those of `\"intermediate\"` for these versions, AES before ChaCha20"),
        r#"["TLS13_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"]"#,
        "Cipher suites, best first, by their IANA names; those of TLS 1.3 also with the prefix `TLS13_`.",
    );

    const GROUPS: Key<Items<Group>> = Key::new(
        "groups",
        &List { of: GroupName, least: 1 },
        Absent("`X25519MLKEM768`, `X25519`, `secp256r1`, `secp384r1`"),
        r#"["X25519", "secp256r1"]"#,
        "Key exchange groups, best first.",
    );
}

table! {
    /// One certificate.
    mod cert;

    const CERT: Key<PathBuf> = Key::new(
        "cert",
        &FilePath,
        Required,
        r#""/etc/tls/app.pem""#,
        "The certificate and its chain, in PEM.",
    );

    const KEY: Key<PathBuf> = Key::new(
        "key",
        &FilePath,
        Absent("in the same file, or beside it with the ending `.key`"),
        r#""/etc/tls/app.key""#,
        "The private key, in PEM.",
    )
    .with(r#"cert = "/etc/tls/app.pem""#);

    const OCSP: Key<PathBuf> = Key::new(
        "ocsp",
        &FilePath,
        Absent("none is sent"),
        r#""/etc/tls/app.ocsp""#,
        "An OCSP response in DER, stapled as it is.",
    )
    .with(r#"cert = "/etc/tls/app.pem""#);
}

table! {
    /// `tickets`.
    mod tickets;

    const ROTATE: Defaulted<Duration> = Key::defaulted(
        "rotate",
        &Time { min: 60_000 },
        r#""12h""#,
        r#""6h""#,
        "How long one key makes new tickets.",
    );

    const KEEP: Defaulted<u8> = Key::defaulted(
        "keep",
        &Number::new(1, 16),
        "3",
        "2",
        "How many keys are accepted, the current one included.",
    );

    const KEYS: Key<PathBuf> = Key::new(
        "keys",
        &FilePath,
        Absent("keys are made at start and never leave the process"),
        r#""/etc/lockgate/tickets""#,
        "A file of ticket keys, so that several machines or a restart resume each other's sessions.",
    );
}

table! {
    /// `client_auth`.
    mod client_auth;

    const MODE: Defaulted<ClientCertificates> = Key::defaulted(
        "mode",
        &Words(&[
            ("require", ClientCertificates::Require),
            ("request", ClientCertificates::Request),
        ]),
        r#""require""#,
        r#""request""#,
        "`\"require\"` refuses a client without a valid certificate; `\"request\"` lets one come without any.",
    );

    const CA: Key<PathBuf> = Key::new(
        "ca",
        &FilePath,
        Required,
        r#""/etc/tls/clients.pem""#,
        "The authorities that sign them, in PEM. A missing or empty file fails the start. Certificates of clients must be X.509 \
         version 3: `openssl x509 -req` makes version 1 unless it has extensions to add (`-extfile`).",
    );
}

table! {
    /// TLS to endpoints.
    mod upstream;

    const NAME: Key<String> = Key::new(
        "name",
        &HostName,
        Absent("the host or address of each endpoint; needed for a Unix socket"),
        r#""app.internal""#,
        "The name that is sent and that the certificate must carry.",
    );

    const CA: Defaulted<AuthoritySource> = Key::defaulted(
        "ca",
        &Either(&[&As(SYSTEM, system), &As(FilePath, AuthoritySource::File)]),
        r#""system""#,
        r#""/etc/tls/internal-ca.pem""#,
        "Who signs it: the system's authorities or a PEM file.",
    );

    const ALPN: Defaulted<Items<String>> = Key::defaulted(
        "alpn",
        &List { of: Name, least: 0 },
        "[]",
        r#"["postgresql"]"#,
        "Application protocols to offer, best first.",
    );
}

table! {
    /// TLS of a site or a tunnel. HTTP says itself which protocols are offered.
    mod site;

    const CERT: Key<PathBuf> = Key::new(
        "cert",
        &FilePath,
        Absent("those of `certs`"),
        r#""/etc/tls/app.pem""#,
        "The certificate of this listener and its chain, in PEM. It comes before those of `certs`.",
    );

    const KEY: Key<PathBuf> = Key::new(
        "key",
        &FilePath,
        Absent("in the same file, or beside it with the ending `.key`"),
        r#""/etc/tls/app.key""#,
        "The private key of `cert`.",
    );

    const OCSP: Key<PathBuf> = Key::new(
        "ocsp",
        &FilePath,
        Absent("none is sent"),
        r#""/etc/tls/app.ocsp""#,
        "An OCSP response for `cert`, in DER.",
    );

    const CERTS: Defaulted<Items<Form<PathBuf>>> = super::CERTS;
    const DEFAULT: Key<Form<PathBuf>> = super::DEFAULT;

    const POLICY: Defaulted<Form<PolicyName>> = super::POLICY;
    const TICKETS: Key<Form<()>> = super::TICKETS;

    const CLIENT_AUTH: Defaulted<Form<()>> = super::CLIENT_AUTH;
}

table! {
    /// TLS of a `[tcp]` table.
    mod tcp;

    const CERT: Key<PathBuf> = site::CERT;
    const KEY: Key<PathBuf> = site::KEY;

    const OCSP: Key<PathBuf> = site::OCSP;
    const CERTS: Defaulted<Items<Form<PathBuf>>> = super::CERTS;

    const DEFAULT: Key<Form<PathBuf>> = super::DEFAULT;

    const ALPN: Defaulted<Items<String>> = Key::defaulted(
        "alpn",
        &List { of: Name, least: 0 },
        "[]",
        r#"["postgresql"]"#,
        "Application protocols to accept, best first; the application must then speak what was chosen. \
         Without it ALPN is not answered.",
    );

    const POLICY: Defaulted<Form<PolicyName>> = super::POLICY;
    const TICKETS: Key<Form<()>> = super::TICKETS;

    const CLIENT_AUTH: Defaulted<Form<()>> = super::CLIENT_AUTH;
}
