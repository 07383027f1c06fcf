//! Every key of the configuration, once: its type, default, unit, example and meaning.
//!
//! The checker, the reference in `docs/config.md` and the JSON Schema are made from this table, so that
//! they cannot disagree. Does not check anything itself.

mod tls;
mod ways;

use tls::{TCP_TLS, TLS, UPSTREAM_TLS};

pub(crate) use ways::{Way, example, full_name, ways};

/// One key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) default: Unset,
    /// A value in TOML that is not the default.
    pub(crate) example: &'static str,
    /// Other entries of the same table without which the example would not be valid or change nothing.
    pub(crate) with: &'static str,
    /// Entries that the examples of its own keys need beside them.
    pub(crate) inside: &'static str,
    /// An entry at the top of the file without which the example would not be valid.
    pub(crate) atop: &'static str,
    pub(crate) doc: &'static str,
}

/// What holds when the key is absent.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Unset {
    /// This value, in TOML.
    Is(&'static str),
    /// Nothing; what that means.
    Absent(&'static str),
    /// That is a mistake.
    Required,
    /// Each of its keys has its own.
    Within,
}

/// What a value may be.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    False,
    Bool,
    Integer {
        min: u64,
        max: u64,
    },
    /// In milliseconds.
    Duration {
        min: u64,
    },
    /// In bytes.
    Size {
        min: u64,
    },
    Word(&'static [&'static str]),
    /// Free text of up to 255 bytes without spaces or control characters: a user, a protocol.
    Name,
    /// A DNS name or an IP address.
    Host,
    /// A file or folder; a relative one starts from the folder of the configuration file.
    Path,
    /// A path in which `*` and `?` may stand for more.
    Pattern,
    /// A path with at least one `/`, so that a mistyped `stdout` is not a file.
    LogFile,
    Listener,
    Endpoint,
    Network,
    Version,
    Suite,
    Group,
    List {
        of: &'static Kind,
        least: usize,
    },
    Table(&'static [Key]),
    /// Tables by the address of a listener.
    ByAddress(&'static [Key]),
    /// The first that fits the form of the value.
    Either(&'static [Kind]),
}

impl Key {
    const fn new(
        name: &'static str,
        kind: Kind,
        default: Unset,
        example: &'static str,
        doc: &'static str,
    ) -> Key {
        Key { name, kind, default, example, with: "", inside: "", atop: "", doc }
    }

    const fn with(self, with: &'static str) -> Key {
        Key { with, ..self }
    }

    const fn atop(self, atop: &'static str) -> Key {
        Key { atop, ..self }
    }

    const fn inside(self, inside: &'static str) -> Key {
        Key { inside, ..self }
    }
}

impl Kind {
    /// The keys of the table that it may be.
    pub(crate) fn table(&self) -> Option<&'static [Key]> {
        match self {
            Table(keys) | ByAddress(keys) => Some(keys),
            Either(kinds) => kinds.iter().find_map(Kind::table),
            _ => None,
        }
    }

    /// The keys of the tables in the list that it may be.
    pub(crate) fn listed_table(&self) -> Option<&'static [Key]> {
        match self {
            List { of, .. } => of.table(),
            Either(kinds) => kinds.iter().find_map(Kind::listed_table),
            _ => None,
        }
    }
}

use Kind::{
    Bool, ByAddress, Duration, Either, Endpoint, False, Integer, List, Listener, LogFile, Name, Path,
    Pattern, Size, Table, Word,
};
use Unset::{Absent, Is, Required, Within};

const COUNT: Kind = Integer { min: 1, max: 1_000_000_000 };
const AT_LEAST_1MS: Kind = Duration { min: 1 };
const OFF: Kind = Word(&["off"]);
const FALSE: Unset = Is("false");

/// The top level.
pub(crate) const ROOT: &[Key] = &[
    Key::new(
        "include",
        List { of: &Pattern, least: 0 },
        Absent("nothing more is read"),
        r#"["sites/*.toml"]"#,
        "More files, merged into this one. A `[section]` may be spread over several files; a key, or the \
         table of one listener, that is written twice is an error that names both places.",
    ),
    Key::new(
        "workers",
        Either(&[Word(&["auto"]), Integer { min: 1, max: 1024 }]),
        Is(r#""auto""#),
        "4",
        "How many worker threads serve connections. `\"auto\"` is the CPU quota of the process.",
    ),
    Key::new(
        "user",
        Name,
        Absent("the user who started it"),
        r#""lockgate""#,
        "The user to become, in every thread, after addresses are bound and keys are read. Files that are read again when they change must be readable by it; what is not is a warning.",
    ),
    Key::new(
        "state",
        Path,
        Absent("nothing is kept"),
        r#""/var/lib/lockgate""#,
        "The folder in which the last good configuration is kept.",
    ),
    Key::new(
        "trusted",
        List { of: &Kind::Network, least: 0 },
        Is("[]"),
        r#"["10.0.0.0/8"]"#,
        "The networks and addresses whose PROXY headers are believed, where `accept_proxy` says that there are any.",
    ),
    Key::new(
        "metrics",
        Either(&[False, Listener]),
        FALSE,
        r#""127.0.0.1:9090""#,
        "Where `/metrics`, `/top`, `/health` and `/ready` are served, in plain HTTP: `\"ADDR:PORT\"` or \
         `\"unix:PATH\"`.",
    ),
    Key::new(
        "access_log",
        Either(&[False, Word(&["stdout", "stderr"]), LogFile, Table(ACCESS_LOG)]),
        Is(r#""stdout""#),
        r#"{ to = "/var/log/lockgate/access.log", mask_ip = true }"#,
        "One JSON object for each connection. The short form is the value of `to`; `false` writes none.",
    ),
    Key::new(
        "log",
        Either(&[Word(&["error", "warn", "info", "debug"]), Table(LOG)]),
        Within,
        r#""debug""#,
        "The operator log, on stderr. The short form is the value of `level`.",
    ),
    Key::new(
        "drain",
        Table(DRAIN),
        Within,
        r#"{ delay = "5s", deadline = "1m" }"#,
        "How it stops after TERM or INT.",
    ),
    Key::new(
        "limits",
        Table(LIMITS),
        Within,
        "{ per_client = 100 }",
        "Limits that hold for the process, whatever the number of workers. Past `connections` they wait in the \
         kernel's queue, and none fails.",
    ),
    Key::new(
        "timeouts",
        Table(TIMEOUTS),
        Within,
        r#"{ tunnel_idle = "10m" }"#,
        "Deadlines, for every listener that sets none of its own.",
    ),
    Key::new("socket", Table(SOCKET), Within, "{ backlog = 1024 }", "Options of the sockets."),
    Key::new(
        "tls",
        Table(TLS),
        Within,
        r#"{ certs = ["/etc/tls/*.pem"] }"#,
        "What holds for every TLS listener. The `tls` of a `[tcp]` table is merged over it key by key.",
    )
    .inside(r#"certs = ["/etc/tls/*.pem"]"#),
    Key::new(
        "tcp",
        ByAddress(TCP),
        Required,
        "",
        "A listener: the bytes of every connection are relayed unread, after TLS is taken off where `tls` is \
         given. ADDR is `\":8443\"` (that port on every address), `\"127.0.0.1:8443\"`, `\"[::1]:8443\"` or \
         `\"unix:/run/lockgate.sock\"`; with port 0 the kernel chooses one. At least one table is needed.",
    )
    .inside(r#"proxy = "127.0.0.1:3000""#),
];

const ACCESS_LOG: &[Key] = &[
    Key::new(
        "to",
        Either(&[Word(&["stdout", "stderr"]), LogFile]),
        Is(r#""stdout""#),
        r#""/var/log/lockgate/access.log""#,
        "Where it is written: `\"stdout\"`, `\"stderr\"` or a file, given with at least one `/`. USR1 opens \
         the file anew.",
    ),
    Key::new(
        "mask_ip",
        Bool,
        FALSE,
        "true",
        "Whether client addresses are shortened before they are written.",
    ),
    Key::new(
        "rotate",
        Either(&[OFF, Table(ROTATE)]),
        Is(r#""off""#),
        r#"{ size = "100MB", keep = 10 }"#,
        "When a file is closed and a new one begun. Only for a file.",
    )
    .with(r#"to = "/var/log/lockgate/access.log""#),
];

const ROTATE: &[Key] = &[
    Key::new(
        "size",
        Size { min: 1_000 },
        Is(r#""100MB""#),
        r#""20MB""#,
        "The size past which a new file is begun.",
    ),
    Key::new("keep", Integer { min: 0, max: 10_000 }, Is("10"), "3", "How many old files are kept."),
];

const LOG: &[Key] = &[
    Key::new(
        "level",
        Word(&["error", "warn", "info", "debug"]),
        Is(r#""info""#),
        r#""warn""#,
        "The least severe level that is written.",
    ),
    Key::new("format", Word(&["text", "json"]), Is(r#""text""#), r#""json""#, "The form of a line."),
];

const DRAIN: &[Key] = &[
    Key::new(
        "delay",
        Duration { min: 0 },
        Is(r#""0s""#),
        r#""5s""#,
        "How long listeners stay open after the signal, while `/ready` already answers 503, so that a load \
         balancer in front can look elsewhere.",
    ),
    Key::new(
        "deadline",
        Duration { min: 0 },
        Is(r#""30s""#),
        r#""5m""#,
        "After how long connections that still run are cut. A second signal cuts them at once.",
    ),
];

const LIMITS: &[Key] = &[
    Key::new(
        "connections",
        Either(&[Word(&["auto"]), COUNT]),
        Is(r#""auto""#),
        "20000",
        "Client connections at once. `\"auto\"` follows from the descriptor limit, which is raised at start.",
    ),
    Key::new(
        "per_client",
        Either(&[OFF, COUNT]),
        Is(r#""off""#),
        "100",
        "Connections at once from one client address (IPv6: one /64). As many more wait for a place, at most for \
         `timeouts.handshake`; what comes on top is closed.",
    ),
    Key::new(
        "handshakes",
        COUNT,
        Is("1024"),
        "256",
        "TLS handshakes at once; more wait, at most for `timeouts.handshake`.",
    ),
];

const TIMEOUTS: &[Key] = &[
    Key::new(
        "handshake",
        AT_LEAST_1MS,
        Is(r#""10s""#),
        r#""5s""#,
        "From accepting a connection to the end of its TLS handshake, a PROXY header included.",
    ),
    Key::new(
        "connect",
        AT_LEAST_1MS,
        Is(r#""5s""#),
        r#""2s""#,
        "For one attempt to connect to an endpoint, again for its TLS, and for a place where all endpoints are at their `max`.",
    ),
    Key::new(
        "tunnel_idle",
        AT_LEAST_1MS,
        Is(r#""1h""#),
        r#""10m""#,
        "How long a relayed connection may carry no byte in either direction.",
    ),
];

const SOCKET: &[Key] = &[
    Key::new(
        "backlog",
        Integer { min: 1, max: 65_535 },
        Is("4096"),
        "1024",
        "How many connections may wait to be accepted, for each worker; a Unix socket is shared by all. The kernel's `net.core.somaxconn` caps it.",
    ),
    Key::new(
        "fast_open",
        Bool,
        FALSE,
        "true",
        "TCP Fast Open on listeners. The kernel's `net.ipv4.tcp_fastopen` must allow it.",
    ),
    Key::new(
        "keepalive",
        Either(&[OFF, Duration { min: 1_000 }]),
        Is(r#""60s""#),
        r#""off""#,
        "After how much silence the kernel probes whether the peer is still there, on both sides; in whole \
         seconds.",
    ),
];

const TCP: &[Key] = &[
    Key::new(
        "tls",
        Either(&[False, Path, Table(TCP_TLS)]),
        FALSE,
        r#"{ cert = "/etc/tls/app.pem", key = "/etc/tls/app.key" }"#,
        "Takes TLS off. The short form is the path of `cert`; `{}` uses `[tls]` as it is; `false` relays the \
         bytes as they are.",
    )
    .inside(r#"cert = "/etc/tls/app.pem""#),
    Key::new(
        "proxy",
        Either(&[Endpoint, ENDPOINTS, Table(PROXY)]),
        Required,
        r#""unix:/run/app.sock""#,
        "Where the bytes go: an address, a list of addresses or a table. An address is `\"127.0.0.1:3000\"`, \
         `\"[::1]:3000\"`, `\"app.internal:3000\"` or `\"unix:/run/app.sock\"`. Of a list the endpoint with the \
         fewest connections is taken, and another one when it cannot be reached.",
    )
    .inside(r#"to = "10.0.0.1:443""#),
    Key::new(
        "proxy_protocol",
        Word(&["v1", "v2"]),
        Absent("none is sent"),
        r#""v2""#,
        "The PROXY header that tells the endpoint the client's address; `\"v2\"` tells ALPN, server name, TLS \
         version, cipher and the client certificate's name too.",
    ),
    Key::new(
        "accept_proxy",
        Either(&[False, Word(&["require", "optional"])]),
        FALSE,
        r#""require""#,
        "Whether clients send a PROXY header first; only those from addresses in `trusted`, and over Unix sockets, are believed. \
         `\"require\"` refuses everybody else and a connection without one, `\"optional\"` takes their bytes as they are.",
    )
    .atop(r#"trusted = ["10.0.0.0/8"]"#),
    Key::new(
        "timeouts",
        Table(TIMEOUTS),
        Absent("the global `timeouts`"),
        r#"{ tunnel_idle = "5m" }"#,
        "Deadlines of this listener, merged over the global ones key by key.",
    ),
    Key::new(
        "max_lifetime",
        Either(&[OFF, AT_LEAST_1MS]),
        Is(r#""off""#),
        r#""8h""#,
        "After how long a connection ends, whatever it carries.",
    ),
];

const ENDPOINTS: Kind = List { of: &Either(&[Endpoint, Table(ENDPOINT)]), least: 1 };

const ENDPOINT: &[Key] = &[
    Key::new("addr", Endpoint, Required, r#""10.0.0.1:8080""#, "The address."),
    Key::new(
        "max",
        COUNT,
        Absent("no limit"),
        "200",
        "Connections to it at once, for the process: over all tables that name it.",
    )
    .with(r#"addr = "10.0.0.1:8080""#),
];

const PROXY: &[Key] = &[
    Key::new(
        "to",
        Either(&[Endpoint, ENDPOINTS]),
        Required,
        r#"["10.0.0.1:443", { addr = "10.0.0.2:443", max = 200 }]"#,
        "An address or a list of them, as in the short form.",
    ),
    Key::new(
        "tls",
        Table(UPSTREAM_TLS),
        Absent("no TLS"),
        r#"{ name = "app.internal" }"#,
        "TLS to the endpoints, always verified. `{}` takes every default.",
    ),
];

/// Finds a key of a table.
pub(crate) fn find(keys: &'static [Key], name: &str) -> Option<&'static Key> {
    keys.iter().find(|key| key.name == name)
}
