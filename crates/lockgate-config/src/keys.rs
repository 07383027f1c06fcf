//! Every key of the configuration, once: its type, default, unit, example and meaning.
//!
//! The checker, the reference in `docs/config.md` and the JSON Schema are made from this table, so
//! that they cannot disagree. Does not check anything itself.

mod answers;
mod content;
mod deadlines;
mod files;
mod named;
mod pool;
mod route;
mod site;
mod tcp;
mod tls;
mod tunnel;
mod ways;

use content::VALUE;
use deadlines::{CONNECT, HANDSHAKE, RESPONSE, TIMEOUTS, TUNNEL_IDLE};
use pool::POOL;
use site::{HTTP2, PORTS, RATES, SITE};
use tcp::TCP;
use tls::TLS;
use tunnel::TUNNEL;

pub(crate) use named::{By, Names};
pub(crate) use ways::{Way, example, full_name, ways};

/// One key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) default: Unset,
    /// A value in TOML that is not the default.
    pub(crate) example: &'static str,
    /// Other entries of the same table without which the example would not be valid or change
    /// nothing.
    pub(crate) with: &'static str,
    /// An entry of the table around its own without which the example would not be valid.
    pub(crate) around: &'static str,
    /// Entries that the examples of its own keys need beside them.
    pub(crate) inside: &'static str,
    /// An entry at the top of the file without which the example would not be valid.
    pub(crate) atop: &'static str,
    /// An entry of the site without which the example would change nothing.
    pub(crate) site: &'static str,
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
        max: u64,
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
    /// A format, a colon and where to: `combined:/var/log/x.log`.
    FormattedLog,
    Listener,
    Endpoint,
    /// An endpoint or `pool:NAME`.
    Target,
    Network,
    /// A host or a network, and ports: `*.example.com:443`.
    TunnelRule,
    Ip,
    /// The host of a site, without a port.
    SiteHost,
    /// Bytes a second: `10KB/s`.
    Rate,
    /// Of a hundred, from 1 on.
    Percent,
    /// Requests in a time: `20/s`.
    Frequency,
    /// A frequency and what belongs to it: `20/s per client burst 40`.
    Limit,
    /// A frequency, and what may come at once: `20/s burst 200`.
    Allowance,
    /// Who is counted apart: `client`, `route`, `header:NAME`.
    LimitKey,
    /// By what clients are told apart: `client`, `sni`, `header:NAME`, `cookie:NAME`.
    HashKey,
    /// What clients are given to show: `cookie:NAME`, `tls-session`.
    StickyKey,
    /// Statuses from this one to 599: `200`, `200-399`.
    Statuses {
        from: u16,
    },
    /// One of these numbers.
    OneOf(&'static [u64]),
    /// The path and query of a URL.
    UrlPath,
    /// A method of HTTP.
    Method,
    /// Text on one line.
    Line,
    /// Any text.
    Body,
    /// The value of a field.
    FieldValue,
    /// A text with placeholders, without spaces or control characters.
    Template,
    /// The name of a file, without a folder.
    FileName,
    /// The path of a file within the root of a site.
    InsidePath,
    /// The same with placeholders, or of a folder.
    TryPath,
    /// `type/subtype`.
    MediaType,
    /// A word of letters, digits and marks (RFC 9110 §5.6.2).
    Token,
    /// The name of a field of a request that may be told by others than the client.
    RequestField,
    /// How long to keep: `1h private`.
    CachePolicy,
    /// A time in whole seconds, which may be counted in years.
    Age,
    /// `type/subtype` or `type/*`.
    MediaRange,
    /// `https://example.com`, or `*`.
    Origin,
    /// `http://127.0.0.1:9000/path`.
    HttpUrl,
    Version,
    Suite,
    Group,
    List {
        of: &'static Kind,
        least: usize,
    },
    Table(&'static [Key]),
    /// Tables by a key that the user chooses.
    Tables(By, &'static [Key]),
    /// Values by a key that the user chooses, beside keys of a meaning of their own.
    Map(Names, &'static Kind, &'static [Key]),
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
        Key {
            name,
            kind,
            default,
            example,
            with: "",
            around: "",
            inside: "",
            atop: "",
            site: "",
            doc,
        }
    }

    const fn with(self, with: &'static str) -> Key {
        Key { with, ..self }
    }

    const fn around(self, around: &'static str) -> Key {
        Key { around, ..self }
    }

    const fn atop(self, atop: &'static str) -> Key {
        Key { atop, ..self }
    }

    const fn site(self, site: &'static str) -> Key {
        Key { site, ..self }
    }

    const fn inside(self, inside: &'static str) -> Key {
        Key { inside, ..self }
    }
}

impl Kind {
    /// The keys of the table that it may be.
    pub(crate) fn table(&self) -> Option<&'static [Key]> {
        match self {
            Table(keys) | Tables(_, keys) => Some(keys),
            Map(_, _, keys) if !keys.is_empty() => Some(keys),
            Map(names, of, _) if names.lead() => of.table(),
            Either(kinds) => kinds.iter().find_map(Kind::table),
            _ => None,
        }
    }

    /// The keys of the tables in the list that it may be.
    pub(crate) fn listed_table(&self) -> Option<&'static [Key]> {
        match self {
            List { of, .. } => of.table(),
            Map(names, of, _) if names.lead() => of.listed_table(),
            Either(kinds) => kinds.iter().find_map(Kind::listed_table),
            _ => None,
        }
    }
}

use Kind::{
    Bool, Duration, Either, Endpoint, False, FormattedLog, Host, Integer, List, Listener, LogFile,
    Map, Name, Path, Pattern, Percent, Size, Table, Tables, Word,
};
use Unset::{Absent, Is, Required, Within};

const COUNT: Kind = Integer {
    min: 1,
    max: 1_000_000_000,
};
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
        "The folder in which the last good configuration is kept: every start that succeeds writes it to `last-good.toml`, included \
         files merged, paths made absolute, `${…}` as written. Nothing reads it by itself; a start that fails names it. To go back, run \
         `lockgate run -c /var/lib/lockgate/last-good.toml`, or copy it over your file.",
    ),
    Key::new(
        "trusted",
        List { of: &Kind::Network, least: 0 },
        Is("[]"),
        r#"["10.0.0.0/8"]"#,
        "The networks and addresses of proxies in front of Lockgate. What they say of their clients is believed: PROXY headers, where \
         `accept_proxy` says that there are any, and `X-Forwarded-For`, `-Proto`, `-Host`, `Forwarded` and `X-Request-Id` of \
         requests. The client is then the last address in `X-Forwarded-For` that is not itself trusted; it may have a port, \
         brackets and quotes. Where a trusted proxy names no address (`unknown`), the client is unknown: `allow` and `deny` refuse \
         it, limits and hashes take all unknown clients for one, and the log says `unknown`. From all others these fields are \
         removed and made anew. `Proxy` is always removed. Other fields of this kind are passed on as they come, from \
         everybody (`X-Real-IP`, `X-Forwarded-Port`, `-Prefix` and `-User`, `X-Original-URL`): where an application believes one, \
         remove or set it by `request_headers`.",
    ),
    Key::new(
        "metrics",
        Either(&[False, Listener, Table(METRICS)]),
        FALSE,
        r#""127.0.0.1:9090""#,
        "Where `/metrics`, `/top`, `/health` and `/ready` are served, in plain HTTP: `\"ADDR:PORT\"` or \
         `\"unix:PATH\"`. The short form is the value of `at`.",
    ),
    Key::new(
        "access_log",
        LOG_KIND,
        Is(r#""stdout""#),
        r#"{ to = "/var/log/lockgate/access.log", mask_ip = true }"#,
        "One line for each request, and for each connection of a `[tcp]` table. The short form is the value of `to`, \
         also after a format: `\"combined:/var/log/lockgate/access.log\"`; `false` writes none.",
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
    Key::new(
        "rates",
        Table(RATES),
        Within,
        r#"{ min_in = "10KB/s" }"#,
        "Minimum rates by which slow peers of sites are caught. They are measured only while that peer is waited for, \
         so that long polls and server-sent events live; relayed and upgraded connections have none. Over HTTP/2 an \
         answer that waits for its turn is not measured: a client that takes `min_out` of all its answers together \
         keeps all of them, up to `http2.streams`.",
    ),
    Key::new(
        "http2",
        Table(HTTP2),
        Within,
        "{ streams = 64 }",
        "What one client connection may ask for over HTTP/2, which sites speak as `protocols` says. A client that sends \
         more resets or control frames than an honest one needs is disconnected (GOAWAY with ENHANCE_YOUR_CALM), counted \
         (`lockgate_http2_violations_total`, by reason) and logged with the cause. What else holds: a field section is \
         bounded by `limits.head` and `limits.fields` (431, and the connection ends where it is several times as large), those of all open requests of a connection together by 1MB as they \
         are decoded (REFUSED_STREAM, and the request may be sent again), CONTINUATION by the frames that one of that length needs; \
         DATA of a few bytes by the memory that `connection_window` stands for, and it ends the connection when \
         nobody takes it; the windows begin at 64KiB for a body and 1MiB for all, and grow while endpoints take what comes. A client \
         that does not read our answers to its frames is not read either. One that does not open its windows, or does \
         not send the body that it has announced, is below `rates`, and its request is broken off; so is one whose \
         body cannot come because endpoints do not take others, which fill `connection_window`. A tunnel has \
         `timeouts.tunnel_idle`. Without requests the connection ends after `timeouts.idle`.",
    ),
    Key::new(
        "dns",
        Table(DNS),
        Within,
        r#"{ servers = ["10.0.0.53:53"] }"#,
        "Who is asked for the records of services, endpoints written as `\"srv:NAME\"`. Names of hosts are resolved by the system.",
    ),
    Key::new("socket", Table(SOCKET), Within, "{ backlog = 1024 }", "Options of the sockets."),
    Key::new(
        "ports",
        Table(PORTS),
        Within,
        "{ http = 8080, https = 8443 }",
        "The ports of sites whose key has none.",
    ),
    Key::new(
        "tls",
        Table(TLS),
        Within,
        r#"{ certs = ["/etc/tls/*.pem"] }"#,
        "What holds for every TLS listener. The `tls` of a `[site]` or `[tcp]` table is merged over it key by key.",
    )
    .inside(r#"certs = ["/etc/tls/*.pem"]"#),
    Key::new(
        "site",
        Tables(By::Site, SITE),
        Absent("no HTTP is served; at least one `[site]`, `[tcp]` or `[tunnel]` table is needed"),
        "",
        "A site. HOST is `\"example.com\"` (TLS on `ports.https`, and a redirect to it from `ports.http`), \
         `\"*.example.com\"`, `\"example.com:8443\"` or `\":8080\"` (plain HTTP on that port unless `tls` is given; \
         without a host for every one), or `\"unix:/run/lockgate.sock\"`. Hosts may be IP addresses too; `listen` says \
         which addresses are bound. An exact host wins over `*.`, and that over a port alone. What a site answers is \
         said by one of `proxy`, `root`, `redirect` and `respond`, here or in its `path` tables. The redirect from `ports.http` is \
         for everybody: `allow`, `deny`, `auth` and `limit` hold behind it, as a password that was asked for there would \
         come unencrypted.",
    )
    .inside(r#"proxy = "127.0.0.1:3000""#),
    Key::new(
        "pool",
        Tables(By::Name, POOL),
        Absent("addresses are written inline"),
        "",
        "A named group of endpoints, for `proxy = \"pool:NAME\"` in any table.",
    )
    .inside(r#"endpoints = ["10.0.0.1:8080"]"#),
    Key::new(
        "values",
        Tables(By::Name, VALUE),
        Absent("there are none"),
        "",
        "A text that is looked for while running, for `{value:NAME}` in the rules of `rewrite_body`: from a `file` or a `url`.",
    )
    .inside(r#"file = "/etc/version""#),
    Key::new(
        "tunnel",
        Tables(By::Address, TUNNEL),
        Absent("nobody has tunnels"),
        "",
        "An HTTP proxy: clients ask for a tunnel to a host and port of their choice (CONNECT, over HTTP/1.1 and HTTP/2), and get one where \
         the rules say so. ADDR is as in `[tcp]` tables. Other methods are answered with 405, unless `forward` says otherwise.",
    ),
    Key::new(
        "tcp",
        Tables(By::Address, TCP),
        Absent("nothing is relayed unread; at least one `[site]`, `[tcp]` or `[tunnel]` table is needed"),
        "",
        "A listener: the bytes of every connection are relayed unread, after TLS is taken off where `tls` is \
         given. Where they go is said by `proxy`, or by `sni`, `alpn` and `default` for each name that clients of TLS ask \
         for. ADDR is `\":8443\"` (that port on every address), `\"127.0.0.1:8443\"`, `\"[::1]:8443\"` or \
         `\"unix:/run/lockgate.sock\"`; with port 0 the kernel chooses one.",
    )
    .inside(r#"proxy = "127.0.0.1:3000""#),
];

const METRICS: &[Key] = &[
    Key::new("at", Listener, Required, r#""127.0.0.1:9090""#, "The address, or the path of a Unix socket."),
    Key::new(
        "hosts",
        List { of: &Host, least: 0 },
        Is("[]"),
        r#"["metrics.example.com"]"#,
        "Names under which it may be asked over TCP, beside IP addresses, `localhost` and the names of this machine. \
         Requests for other hosts, and those that pages of other hosts make, are answered with 421: a page could \
         have its own name lead here and read the answers.",
    )
    .with(r#"at = "127.0.0.1:9090""#),
];

const LOG_KIND: Kind = Either(&[
    False,
    Word(&["stdout", "stderr"]),
    FormattedLog,
    Table(ACCESS_LOG),
]);

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
        "format",
        Word(&["json", "combined", "logfmt"]),
        Is(r#""json""#),
        r#""combined""#,
        "The form of a line: one JSON object, the combined format that other servers write, or `key=value` pairs.",
    ),
    Key::new(
        "sample",
        Percent,
        Is(r#""100%""#),
        r#""10%""#,
        "How many lines of a hundred are written.",
    ),
    Key::new(
        "mask_ip",
        Bool,
        FALSE,
        "true",
        "Whether client addresses are shortened before they are written, to /24 and /48. In `/top` and the metrics they \
         are then too: networks in the place of clients.",
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
        Size {
            min: 1_000,
            max: u64::MAX,
        },
        Is(r#""100MB""#),
        r#""20MB""#,
        "The size past which a new file is begun.",
    ),
    Key::new(
        "keep",
        Integer {
            min: 0,
            max: 10_000,
        },
        Is("10"),
        "3",
        "How many old files are kept.",
    ),
];

const LOG: &[Key] = &[
    Key::new(
        "level",
        Word(&["error", "warn", "info", "debug"]),
        Is(r#""info""#),
        r#""warn""#,
        "The least severe level that is written.",
    ),
    Key::new(
        "format",
        Word(&["text", "json"]),
        Is(r#""text""#),
        r#""json""#,
        "The form of a line.",
    ),
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
        "Client connections at once. `\"auto\"` follows from the descriptor limit, which is raised at start: what is not kept \
         for listeners, logs and files is divided between clients and sockets towards endpoints, so that each connection can \
         have one. More is allowed, but an eighth is always left for endpoints; the line `ready` says how many there are of \
         both. Where no place is left, connections are closed for clients that wait (`lockgate_connections_evicted_total`): of clients \
         that have more than all places divided by the clients those without a request or before their first byte for 2 s, then those \
         whose handshake or head is not whole; then those without a request for 2 s of other clients; then, again of clients that \
         have more, those whose exchange has stood still for 2 s; at last those that are without a request for less. Of one kind the \
         clients that have most come first. Over HTTP/2 it is GOAWAY. Tunnels and relays are not closed. Sockets towards endpoints are limited as well, idle ones included: where \
         there is none, the longest idle one of any pool is closed, and else a request or relay waits for one, at most for the \
         `queue.wait` of its pool (2 s for tunnels), and is then 503 with the cause `limit`. For those that wait exchanges end that have \
         stood still for 2 s, of the clients that have more than their part (`lockgate_upstream_sockets_preempted_total`). Streams \
         of HTTP/2 use no more than a share: while a client's requests have as many sockets as are left for all others, and more \
         than 6, its further streams wait. A client is \
         an address (IPv6: one /64), after the PROXY header where that is accepted; addresses in `trusted` and clients of Unix \
         sockets have no share.",
    ),
    Key::new(
        "per_client",
        Either(&[OFF, COUNT]),
        Is(r#""off""#),
        "100",
        "Connections at once from one client address (IPv6: one /64), whether or not places are scarce. As many more wait for a place, at most for \
         `timeouts.handshake`; what comes on top is closed. Over HTTP/2 each has as many requests at once as \
         `http2.streams` says.",
    ),
    Key::new(
        "handshakes",
        COUNT,
        Is("1024"),
        "256",
        "TLS handshakes that are computed at once; more wait, at most for `timeouts.handshake`, and clients take turns. \
         One that waits for its client is not among them.",
    ),
    Key::new(
        "memory",
        Either(&[
            Word(&["auto", "off"]),
            Size {
                min: 16_000_000,
                max: u64::MAX,
            },
        ]),
        Is(r#""auto""#),
        r#""512MB""#,
        "Memory of the process, with what the kernel holds for its connections. `\"auto\"` is 80 % of the cgroup's \
         limit (`memory.max` or `memory.high`, whichever is less); where that has none, half of the machine's memory. \
         From 60 % of it on nothing is kept for later, and answers are not compressed; from 85 % on new connections \
         and requests wait, and clients that hold most and take nothing are disconnected (cause `limit`, detail \
         `memory`), but for those in `trusted`.",
    ),
    Key::new(
        "head",
        Size {
            min: 1_000,
            max: 65_536,
        },
        Is(r#""64KB""#),
        r#""16KB""#,
        "The longest head of a request or answer. A longer one is refused.",
    ),
    Key::new(
        "fields",
        Integer {
            min: 1,
            max: 10_000,
        },
        Is("128"),
        "64",
        "The most fields in a head, and in the trailers of a body.",
    ),
    Key::new(
        "requests",
        Either(&[OFF, COUNT]),
        Is(r#""off""#),
        "1000",
        "Requests on one client connection; it is closed after the last.",
    ),
];

const DNS: &[Key] = &[Key::new(
    "servers",
    List {
        of: &Endpoint,
        least: 1,
    },
    Absent("those in /etc/resolv.conf"),
    r#"["10.0.0.53:53", "[fd00::53]:53"]"#,
    "Addresses of name servers, each with its port, in the order in which they are asked.",
)];

const SOCKET: &[Key] = &[
    Key::new(
        "backlog",
        Integer {
            min: 1,
            max: 65_535,
        },
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

/// Finds a key of a table.
pub(crate) fn find(keys: &'static [Key], name: &str) -> Option<&'static Key> {
    keys.iter().find(|key| key.name == name)
}
