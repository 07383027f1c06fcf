//! The keys of TLS: of `[tls]`, of a listener, of an upstream.

use super::Kind::{Duration, Either, False, Host, Integer, List, Name, Path, Pattern, Table, Word};
use super::Unset::{Absent, Is, Required, Within};
use super::{FALSE, Key, Kind};

const POLICY_KEY: Key = Key::new(
    "policy",
    Either(&[Word(&["intermediate", "modern"]), Table(POLICY)]),
    Is(r#""intermediate""#),
    r#""modern""#,
    "Versions, cipher suites and groups. `\"intermediate\"` is TLS 1.2 and 1.3 with forward secrecy, \
     `\"modern\"` TLS 1.3 only; a table changes `\"intermediate\"` key by key.",
);

const CERTS_KEY: Key = Key::new(
    "certs",
    List {
        of: &Either(&[Pattern, Table(CERT)]),
        least: 0,
    },
    Is("[]"),
    r#"["/etc/tls/*.pem", { cert = "/etc/tls/b.crt", key = "/etc/tls/b.key" }]"#,
    "Certificates, chosen by the host that the client names; an exact name wins over a wildcard. Patterns \
     are read when it starts.",
);

const DEFAULT_KEY: Key = Key::new(
    "default",
    Either(&[Path, Table(CERT)]),
    Absent("such a client is refused; in a table that names exactly one certificate, that one"),
    r#""/etc/tls/default.pem""#,
    "The certificate for a client that names no host, or one that no certificate covers.",
);

const TICKETS_KEY: Key = Key::new(
    "tickets",
    Either(&[False, Table(TICKETS)]),
    Within,
    "false",
    "Session tickets, with which clients resume without a full handshake. `false` switches them off; with \
     `keys`, `rotate` and `keep` do not apply.",
);

const CLIENT_AUTH_KEY: Key = Key::new(
    "client_auth",
    Either(&[False, Table(CLIENT_AUTH)]),
    FALSE,
    r#"{ mode = "require", ca = "/etc/tls/clients.pem" }"#,
    "Certificates asked of clients.",
)
.inside(r#"ca = "/etc/tls/clients.pem""#);

pub(super) const TLS: &[Key] = &[
    POLICY_KEY,
    CERTS_KEY,
    DEFAULT_KEY,
    TICKETS_KEY,
    CLIENT_AUTH_KEY,
];

const POLICY: &[Key] = &[
    Key::new(
        "versions",
        List {
            of: &Kind::Version,
            least: 1,
        },
        Absent("both"),
        r#"["1.3"]"#,
        "TLS versions: `\"1.2\"`, `\"1.3\"`.",
    ),
    Key::new(
        "suites",
        List {
            of: &Kind::Suite,
            least: 1,
        },
        Absent("those of `\"intermediate\"` for these versions, AES before ChaCha20"),
        r#"["TLS13_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"]"#,
        "Cipher suites, best first, by their IANA names; those of TLS 1.3 also with the prefix `TLS13_`.",
    ),
    Key::new(
        "groups",
        List {
            of: &Kind::Group,
            least: 1,
        },
        Absent("`X25519MLKEM768`, `X25519`, `secp256r1`, `secp384r1`"),
        r#"["X25519", "secp256r1"]"#,
        "Key exchange groups, best first.",
    ),
];

const CERT: &[Key] = &[
    Key::new(
        "cert",
        Path,
        Required,
        r#""/etc/tls/app.pem""#,
        "The certificate and its chain, in PEM.",
    ),
    Key::new(
        "key",
        Path,
        Absent("in the same file, or beside it with the ending `.key`"),
        r#""/etc/tls/app.key""#,
        "The private key, in PEM.",
    )
    .with(r#"cert = "/etc/tls/app.pem""#),
    Key::new(
        "ocsp",
        Path,
        Absent("none is sent"),
        r#""/etc/tls/app.ocsp""#,
        "An OCSP response in DER, stapled as it is.",
    )
    .with(r#"cert = "/etc/tls/app.pem""#),
];

const TICKETS: &[Key] = &[
    Key::new(
        "rotate",
        Duration { min: 60_000 },
        Is(r#""12h""#),
        r#""6h""#,
        "How long one key makes new tickets.",
    ),
    Key::new(
        "keep",
        Integer { min: 1, max: 16 },
        Is("3"),
        "2",
        "How many keys are accepted, the current one included.",
    ),
    Key::new(
        "keys",
        Path,
        Absent("keys are made at start and never leave the process"),
        r#""/etc/lockgate/tickets""#,
        "A file of ticket keys, so that several machines or a restart resume each other's sessions.",
    ),
];

const CLIENT_AUTH: &[Key] = &[
    Key::new(
        "mode",
        Word(&["require", "request"]),
        Is(r#""require""#),
        r#""request""#,
        "`\"require\"` refuses a client without a valid certificate; `\"request\"` lets one come without any.",
    ),
    Key::new(
        "ca",
        Path,
        Required,
        r#""/etc/tls/clients.pem""#,
        "The authorities that sign them, in PEM. A missing or empty file fails the start. Certificates of clients must be X.509 \
         version 3: `openssl x509 -req` makes version 1 unless it has extensions to add (`-extfile`).",
    ),
];

pub(super) const UPSTREAM_TLS: &[Key] = &[
    Key::new(
        "name",
        Host,
        Absent("the host or address of each endpoint; needed for a Unix socket"),
        r#""app.internal""#,
        "The name that is sent and that the certificate must carry.",
    ),
    Key::new(
        "ca",
        Either(&[Word(&["system"]), Path]),
        Is(r#""system""#),
        r#""/etc/tls/internal-ca.pem""#,
        "Who signs it: the system's authorities or a PEM file.",
    ),
    Key::new(
        "alpn",
        List {
            of: &Name,
            least: 0,
        },
        Is("[]"),
        r#"["postgresql"]"#,
        "Application protocols to offer, best first.",
    ),
];

const CERT_KEY: Key = Key::new(
    "cert",
    Path,
    Absent("those of `certs`"),
    r#""/etc/tls/app.pem""#,
    "The certificate of this listener and its chain, in PEM. It comes before those of `certs`.",
);

const KEY_KEY: Key = Key::new(
    "key",
    Path,
    Absent("in the same file, or beside it with the ending `.key`"),
    r#""/etc/tls/app.key""#,
    "The private key of `cert`.",
);

const OCSP_KEY: Key = Key::new(
    "ocsp",
    Path,
    Absent("none is sent"),
    r#""/etc/tls/app.ocsp""#,
    "An OCSP response for `cert`, in DER.",
);

pub(super) const TCP_TLS: &[Key] = &[
    CERT_KEY,
    KEY_KEY,
    OCSP_KEY,
    CERTS_KEY,
    DEFAULT_KEY,
    Key::new(
        "alpn",
        List {
            of: &Name,
            least: 0,
        },
        Is("[]"),
        r#"["postgresql"]"#,
        "Application protocols to accept, best first; the application must then speak what was chosen. \
         Without it ALPN is not answered.",
    ),
    POLICY_KEY,
    TICKETS_KEY,
    CLIENT_AUTH_KEY,
];

/// HTTP says itself which protocols are offered.
pub(super) const SITE_TLS: &[Key] = &[
    CERT_KEY,
    KEY_KEY,
    OCSP_KEY,
    CERTS_KEY,
    DEFAULT_KEY,
    POLICY_KEY,
    TICKETS_KEY,
    CLIENT_AUTH_KEY,
];
