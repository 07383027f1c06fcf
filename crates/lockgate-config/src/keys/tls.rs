//! The keys of TLS: of `[tls]`, of a listener, of an upstream.

use std::path::PathBuf;
use std::time::Duration;

use crate::model::{AuthoritySource, ClientCertificates, Group, Suite, TlsVersion};
use crate::values::*;

use super::Unset::{Absent, Required, Within};
use super::{ConfigKey, Defaulted, KeyRow};

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

/// The issuer of the certificates that a table has besides those of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IssuerName {
    Internal,
    Acme,
}

/// The short form of `tls` of a listener.
#[derive(Debug, Clone)]
pub(crate) enum TlsShort {
    /// No TLS.
    Off,
    /// TLS with certificates of our own authority.
    Internal,
    /// TLS with the certificate of a file.
    Cert(PathBuf),
}

/// `tls` of a listener.
pub(crate) type TlsForm = ShortOrLong<TlsShort>;

/// The short forms of `tls` in tables that name hosts.
pub(super) const SHORT: Either<TlsShort> = Either(&[
    &As(False, off),
    &As(INTERNAL, internal),
    &As(CertificateFile, TlsShort::Cert),
]);

/// Those of tables that name none.
pub(super) const FILE_ONLY: Either<TlsShort> =
    Either(&[&As(False, off), &As(CertificateFile, TlsShort::Cert)]);

const INTERNAL: Words<()> = Words(&[("internal", ())]);

fn off(_: ()) -> TlsShort {
    TlsShort::Off
}

fn internal(_: ()) -> TlsShort {
    TlsShort::Internal
}

/// The authorities of a server's certificate.
pub(super) const AUTHORITIES: Either<AuthoritySource> =
    Either(&[&As(SYSTEM, system), &As(FilePath, AuthoritySource::File)]);

const SYSTEM: Words<()> = Words(&[("system", ())]);

fn system(_: ()) -> AuthoritySource {
    AuthoritySource::System
}

table! {
    const POLICY: Defaulted<ShortOrLong<PolicyName>> = ConfigKey::defaulted(
        "policy",
        &Short { short: POLICIES, long: TableOf(policy::ALL) },
        r#""intermediate""#,
        r#""modern""#,
        "TLS versions, cipher suites and groups. `\"intermediate\"` is TLS 1.2 and 1.3 with forward \
         secrecy, `\"modern\"` is TLS 1.3 only. A table changes `\"intermediate\"` key by key.",
    );

    const CERTS: Defaulted<Items<ShortOrLong<PathBuf>>> = ConfigKey::defaulted(
        "certs",
        &List { of: Short { short: FilePattern, long: TableOf(cert::ALL) }, least: 0 },
        "[]",
        r#"["/etc/tls/*.pem", { cert = "/etc/tls/b.crt", key = "/etc/tls/b.key" }]"#,
        "Certificates, chosen by the client's server name. An exact name wins over a wildcard. \
         Patterns are expanded at the start.",
    );

    const DEFAULT: ConfigKey<ShortOrLong<PathBuf>> = ConfigKey::new(
        "default",
        &Short { short: FilePath, long: TableOf(cert::ALL) },
        Absent("such a client is refused, unless the table names exactly one certificate: then that one is used"),
        r#""/etc/tls/default.pem""#,
        "The certificate for clients without a server name, or with one that no certificate covers.",
    );

    const ISSUER: ConfigKey<IssuerName> = ConfigKey::new(
        "issuer",
        &Words(&[("internal", IssuerName::Internal), ("acme", IssuerName::Acme)]),
        Absent("`\"acme\"` where there is `[acme]`, else none"),
        r#""internal""#,
        "Whose certificates hosts get that no file covers. `\"internal\"` is Lockgate's own authority, \
         whose root certificate is in `state`: clients must trust it first. It certifies every host, \
         IP addresses too. `\"acme\"` is the authority of `[acme]`. It is for sites and for entries \
         of `sni`.",
    );

    const TICKETS: ConfigKey<ShortOrLong<()>> = ConfigKey::new(
        "tickets",
        &Short { short: False, long: TableOf(tickets::ALL) },
        Within,
        "false",
        "Session tickets, by which clients resume a session without a full handshake. `false` turns \
         them off. With `keys`, `rotate` and `keep` do not apply.",
    );

    const CLIENT_AUTH: Defaulted<ShortOrLong<()>> = ConfigKey::defaulted(
        "client_auth",
        &Short { short: False, long: TableOf(client_auth::ALL) },
        "false",
        r#"{ mode = "require", ca = "/etc/tls/clients.pem" }"#,
        "Client certificates.",
    )
    .inside(r#"ca = "/etc/tls/clients.pem""#);
}

table! {
    mod policy;

    const VERSIONS: ConfigKey<Items<TlsVersion>> = ConfigKey::new(
        "versions",
        &List { of: VersionName, least: 1 },
        Absent("both"),
        r#"["1.3"]"#,
        "TLS versions: `\"1.2\"`, `\"1.3\"`.",
    );

    const SUITES: ConfigKey<Items<Suite>> = ConfigKey::new(
        "suites",
        &List { of: SuiteName, least: 1 },
        Absent("the suites of `\"intermediate\"` for these versions, AES before ChaCha20"),
        r#"["TLS13_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"]"#,
        "Cipher suites in order of preference, by their IANA names. Those of TLS 1.3 may have the \
         prefix `TLS13_`.",
    );

    const GROUPS: ConfigKey<Items<Group>> = ConfigKey::new(
        "groups",
        &List { of: GroupName, least: 1 },
        Absent("`X25519MLKEM768`, `X25519`, `secp256r1`, `secp384r1`"),
        r#"["X25519", "secp256r1"]"#,
        "Key exchange groups in order of preference.",
    );
}

table! {
    mod cert;

    const CERT: ConfigKey<PathBuf> = ConfigKey::new(
        "cert",
        &FilePath,
        Required,
        r#""/etc/tls/app.pem""#,
        "The certificate and its chain, in PEM.",
    );

    const KEY: ConfigKey<PathBuf> = ConfigKey::new(
        "key",
        &FilePath,
        Absent("in the same file, or beside it with the extension `.key`"),
        r#""/etc/tls/app.key""#,
        "The private key, in PEM.",
    )
    .with(r#"cert = "/etc/tls/app.pem""#);

    const OCSP: ConfigKey<PathBuf> = ConfigKey::new(
        "ocsp",
        &FilePath,
        Absent("none is sent"),
        r#""/etc/tls/app.ocsp""#,
        "An OCSP response in DER, which is stapled unchanged.",
    )
    .with(r#"cert = "/etc/tls/app.pem""#);
}

table! {
    mod tickets;

    const ROTATE: Defaulted<Duration> = ConfigKey::defaulted(
        "rotate",
        &Time { min: 60_000 },
        r#""12h""#,
        r#""6h""#,
        "How long one key issues tickets.",
    );

    const KEEP: Defaulted<u8> = ConfigKey::defaulted(
        "keep",
        &WholeNumber::new(1, 16),
        "3",
        "2",
        "How many keys are accepted, including the current one.",
    );

    const KEYS: ConfigKey<PathBuf> = ConfigKey::new(
        "keys",
        &FilePath,
        Absent("keys are made at the start and never leave the process"),
        r#""/etc/lockgate/tickets""#,
        "A file of ticket keys, so that sessions can be resumed on several machines and after a \
         restart.",
    );
}

table! {
    mod client_auth;

    const MODE: Defaulted<ClientCertificates> = ConfigKey::defaulted(
        "mode",
        &Words(&[
            ("require", ClientCertificates::Require),
            ("request", ClientCertificates::Request),
        ]),
        r#""require""#,
        r#""request""#,
        "`\"require\"` refuses clients without a valid certificate; `\"request\"` also accepts \
         clients without any certificate.",
    );

    const CA: ConfigKey<PathBuf> = ConfigKey::new(
        "ca",
        &FilePath,
        Required,
        r#""/etc/tls/clients.pem""#,
        "The authorities of client certificates, in PEM. A missing or empty file is an error at the \
         start. Client certificates must be X.509 version 3: `openssl x509 -req` makes version 1 \
         unless it has extensions to add (`-extfile`).",
    );
}

table! {
    mod upstream;

    const NAME: ConfigKey<String> = ConfigKey::new(
        "name",
        &HostName,
        Absent("the host or address of each endpoint; needed for a Unix socket"),
        r#""app.internal""#,
        "The server name that is sent, and that the endpoint's certificate must contain.",
    );

    const CA: Defaulted<AuthoritySource> = ConfigKey::defaulted(
        "ca",
        &AUTHORITIES,
        r#""system""#,
        r#""/etc/tls/internal-ca.pem""#,
        "The authorities of the endpoint's certificate: the system's, or a PEM file.",
    );

    const ALPN: Defaulted<Items<String>> = ConfigKey::defaulted(
        "alpn",
        &List { of: Identifier, least: 0 },
        "[]",
        r#"["postgresql"]"#,
        "Application protocols to offer, in order of preference.",
    );
}

table! {
    /// TLS of a site. HTTP says itself which protocols are offered.
    mod site;

    const CERT: ConfigKey<PathBuf> = ConfigKey::new(
        "cert",
        &FilePath,
        Absent("the certificates of `certs`"),
        r#""/etc/tls/app.pem""#,
        "The certificate of this listener and its chain, in PEM. It takes precedence over those of \
         `certs`.",
    );

    const KEY: ConfigKey<PathBuf> = ConfigKey::new(
        "key",
        &FilePath,
        Absent("in the same file, or beside it with the extension `.key`"),
        r#""/etc/tls/app.key""#,
        "The private key of `cert`.",
    );

    const OCSP: ConfigKey<PathBuf> = ConfigKey::new(
        "ocsp",
        &FilePath,
        Absent("none is sent"),
        r#""/etc/tls/app.ocsp""#,
        "An OCSP response for `cert`, in DER.",
    );

    const CERTS: Defaulted<Items<ShortOrLong<PathBuf>>> = super::CERTS;
    const DEFAULT: ConfigKey<ShortOrLong<PathBuf>> = super::DEFAULT;
    const ISSUER: ConfigKey<IssuerName> = super::ISSUER;

    const POLICY: Defaulted<ShortOrLong<PolicyName>> = super::POLICY;
    const TICKETS: ConfigKey<ShortOrLong<()>> = super::TICKETS;

    const CLIENT_AUTH: Defaulted<ShortOrLong<()>> = super::CLIENT_AUTH;
}

table! {
    /// TLS of a tunnel.
    mod tunnel;

    const CERT: ConfigKey<PathBuf> = site::CERT;
    const KEY: ConfigKey<PathBuf> = site::KEY;

    const OCSP: ConfigKey<PathBuf> = site::OCSP;
    const CERTS: Defaulted<Items<ShortOrLong<PathBuf>>> = super::CERTS;

    const DEFAULT: ConfigKey<ShortOrLong<PathBuf>> = super::DEFAULT;

    const POLICY: Defaulted<ShortOrLong<PolicyName>> = super::POLICY;
    const TICKETS: ConfigKey<ShortOrLong<()>> = super::TICKETS;

    const CLIENT_AUTH: Defaulted<ShortOrLong<()>> = super::CLIENT_AUTH;
}

table! {
    /// TLS of a `[tcp]` table.
    mod tcp;

    const CERT: ConfigKey<PathBuf> = site::CERT;
    const KEY: ConfigKey<PathBuf> = site::KEY;

    const OCSP: ConfigKey<PathBuf> = site::OCSP;
    const CERTS: Defaulted<Items<ShortOrLong<PathBuf>>> = super::CERTS;

    const DEFAULT: ConfigKey<ShortOrLong<PathBuf>> = super::DEFAULT;

    const ALPN: Defaulted<Items<String>> = ConfigKey::defaulted(
        "alpn",
        &List { of: Identifier, least: 0 },
        "[]",
        r#"["postgresql"]"#,
        "Application protocols to accept, in order of preference. The application must then speak \
         the negotiated protocol. Without this key ALPN is not answered.",
    );

    const POLICY: Defaulted<ShortOrLong<PolicyName>> = super::POLICY;
    const TICKETS: ConfigKey<ShortOrLong<()>> = super::TICKETS;

    const CLIENT_AUTH: Defaulted<ShortOrLong<()>> = super::CLIENT_AUTH;
}

table! {
    /// TLS of an entry of `sni`, which has a name.
    mod entry;

    const CERT: ConfigKey<PathBuf> = site::CERT;
    const KEY: ConfigKey<PathBuf> = site::KEY;

    const OCSP: ConfigKey<PathBuf> = site::OCSP;
    const CERTS: Defaulted<Items<ShortOrLong<PathBuf>>> = super::CERTS;

    const DEFAULT: ConfigKey<ShortOrLong<PathBuf>> = super::DEFAULT;
    const ISSUER: ConfigKey<IssuerName> = super::ISSUER;

    const ALPN: Defaulted<Items<String>> = tcp::ALPN;

    const POLICY: Defaulted<ShortOrLong<PolicyName>> = super::POLICY;
    const TICKETS: ConfigKey<ShortOrLong<()>> = super::TICKETS;

    const CLIENT_AUTH: Defaulted<ShortOrLong<()>> = super::CLIENT_AUTH;
}
