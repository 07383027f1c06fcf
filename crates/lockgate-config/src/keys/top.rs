//! The keys at the top of the file, and those of the tables that only stand there.

use std::path::PathBuf;
use std::time::Duration;

use lockgate_rules::Cidr;

use crate::address::ListenAddr;
use crate::host::SiteKey;
use crate::model::{AccessFormat, EndpointAddr, Level, LogFormat, LogTarget, Memory};
use crate::values::*;

use super::Unset::{Absent, Required, Within};
use super::{
    AUTO, Defaulted, Key, OFF, Row, content, http2, pool, ports, rates, site, tcp, timeouts, tls,
    tunnel,
};

table! {
    const INCLUDE: Key<Items<PathBuf>> = Key::new(
        "include",
        &List { of: FilePattern, least: 0 },
        Absent("nothing more is read"),
        r#"["sites/*.toml"]"#,
        "More files, merged into this one. A `[section]` may be spread over several files; a key, or the \
         table of one listener, that is written twice is an error that names both places.",
    );

    const WORKERS: Defaulted<Option<usize>> = Key::defaulted(
        "workers",
        &Unless(AUTO, Number::new(1, 1024)),
        r#""auto""#,
        "4",
        "How many worker threads serve connections. `\"auto\"` is the CPU quota of the process.",
    );

    const USER: Key<String> = Key::new(
        "user",
        &Name,
        Absent("the user who started it"),
        r#""lockgate""#,
        "The user to become, in every thread, after addresses are bound and keys are read. Files that are read again when they change must be readable by it; what is not is a warning.",
    );

    const STATE: Key<PathBuf> = Key::new(
        "state",
        &FilePath,
        Absent("nothing is kept"),
        r#""/var/lib/lockgate""#,
        "The folder in which the last good configuration is kept: every start that succeeds writes it to `last-good.toml`, included \
         files merged, paths made absolute, `${…}` as written. Nothing reads it by itself; a start that fails names it. To go back, run \
         `lockgate run -c /var/lib/lockgate/last-good.toml`, or copy it over your file.",
    );

    const TRUSTED: Defaulted<Items<Cidr>> = Key::defaulted(
        "trusted",
        &List { of: Network, least: 0 },
        "[]",
        r#"["10.0.0.0/8"]"#,
        "The networks and addresses of proxies in front of Lockgate. What they say of their clients is believed: PROXY headers, where \
         `accept_proxy` says that there are any, and `X-Forwarded-For`, `-Proto`, `-Host`, `Forwarded` and `X-Request-Id` of \
         requests. The client is then the last address in `X-Forwarded-For` that is not itself trusted; it may have a port, \
         brackets and quotes. Where a trusted proxy names no address (`unknown`), the client is unknown: `allow` and `deny` refuse \
         it, limits and hashes take all unknown clients for one, and the log says `unknown`. From all others these fields are \
         removed and made anew. `Proxy` is always removed. Other fields of this kind are passed on as they come, from \
         everybody (`X-Real-IP`, `X-Forwarded-Port`, `-Prefix` and `-User`, `X-Original-URL`): where an application believes one, \
         remove or set it by `request_headers`.",
    );

    const METRICS: Defaulted<Form<Option<ListenAddr>>> = Key::defaulted(
        "metrics",
        &Short { short: Unless(False, Listener), long: TableOf(metrics::ALL) },
        "false",
        r#""127.0.0.1:9090""#,
        "Where `/metrics`, `/top`, `/health` and `/ready` are served, in plain HTTP: `\"ADDR:PORT\"` or \
         `\"unix:PATH\"`. The short form is the value of `at`.",
    );

    const ACCESS_LOG: Defaulted<Form<Option<(AccessFormat, LogTarget)>>> = Key::defaulted(
        "access_log",
        &LOG_PLACE,
        r#""stdout""#,
        r#"{ to = "/var/log/lockgate/access.log", mask_ip = true }"#,
        "One line for each request, and for each connection of a `[tcp]` table. The short form is the value of `to`, \
         also after a format: `\"combined:/var/log/lockgate/access.log\"`; `false` writes none.",
    );

    const LOG: Key<Form<Level>> = Key::new(
        "log",
        &Short { short: LEVELS, long: TableOf(log::ALL) },
        Within,
        r#""debug""#,
        "The operator log, on stderr. The short form is the value of `level`.",
    );

    const DRAIN: Key<Table> = Key::new(
        "drain",
        &TableOf(drain::ALL),
        Within,
        r#"{ delay = "5s", deadline = "1m" }"#,
        "How it stops after TERM or INT.",
    );

    const LIMITS: Key<Table> = Key::new(
        "limits",
        &TableOf(limits::ALL),
        Within,
        "{ per_client = 100 }",
        "Limits that hold for the process, whatever the number of workers. Past `connections` they wait in the \
         kernel's queue, and none fails.",
    );

    const TIMEOUTS: Key<Table> = Key::new(
        "timeouts",
        &TableOf(timeouts::ALL),
        Within,
        r#"{ tunnel_idle = "10m" }"#,
        "Deadlines, for every listener that sets none of its own.",
    );

    const RATES: Key<Table> = Key::new(
        "rates",
        &TableOf(rates::ALL),
        Within,
        r#"{ min_in = "10KB/s" }"#,
        "Minimum rates by which slow peers of sites are caught. They are measured only while that peer is waited for, \
         so that long polls and server-sent events live; relayed and upgraded connections have none. Over HTTP/2 an \
         answer that waits for its turn is not measured: a client that takes `min_out` of all its answers together \
         keeps all of them, up to `http2.streams`.",
    );

    const HTTP2: Key<Table> = Key::new(
        "http2",
        &TableOf(http2::ALL),
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
    );

    const DNS: Key<Table> = Key::new(
        "dns",
        &TableOf(dns::ALL),
        Within,
        r#"{ servers = ["10.0.0.53:53"] }"#,
        "Who is asked for the records of services, endpoints written as `\"srv:NAME\"`. Names of hosts are resolved by the system.",
    );

    const SOCKET: Key<Table> = Key::new(
        "socket",
        &TableOf(socket::ALL),
        Within,
        "{ backlog = 1024 }",
        "Options of the sockets.",
    );

    const PORTS: Key<Table> = Key::new(
        "ports",
        &TableOf(ports::ALL),
        Within,
        "{ http = 8080, https = 8443 }",
        "The ports of sites whose key has none.",
    );

    const TLS: Key<Table> = Key::new(
        "tls",
        &TableOf(tls::ALL),
        Within,
        r#"{ certs = ["/etc/tls/*.pem"] }"#,
        "What holds for every TLS listener. The `tls` of a `[site]` or `[tcp]` table is merged over it key by key.",
    )
    .inside(r#"certs = ["/etc/tls/*.pem"]"#);

    const SITE: Key<Vec<Keyed<SiteKey>>> = Key::new(
        "site",
        &Tables::of(site::ALL),
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
    .inside(r#"proxy = "127.0.0.1:3000""#);

    const POOL: Key<Vec<Keyed<TableName>>> = Key::new(
        "pool",
        &Tables::of(pool::ALL),
        Absent("addresses are written inline"),
        "",
        "A named group of endpoints, for `proxy = \"pool:NAME\"` in any table.",
    )
    .inside(r#"endpoints = ["10.0.0.1:8080"]"#);

    const VALUES: Key<Vec<Keyed<TableName>>> = Key::new(
        "values",
        &Tables::of(content::value::ALL),
        Absent("there are none"),
        "",
        "A text that is looked for while running, for `{value:NAME}` in the rules of `rewrite_body`: from a `file` or a `url`.",
    )
    .inside(r#"file = "/etc/version""#);

    const TUNNEL: Key<Vec<Keyed<ListenAddr>>> = Key::new(
        "tunnel",
        &Tables::of(tunnel::ALL),
        Absent("nobody has tunnels"),
        "",
        "An HTTP proxy: clients ask for a tunnel to a host and port of their choice (CONNECT, over HTTP/1.1 and HTTP/2), and get one where \
         the rules say so. ADDR is as in `[tcp]` tables. Other methods are answered with 405, unless `forward` says otherwise.",
    );

    const TCP: Key<Vec<Keyed<ListenAddr>>> = Key::new(
        "tcp",
        &Tables::of(tcp::ALL),
        Absent("nothing is relayed unread; at least one `[site]`, `[tcp]` or `[tunnel]` table is needed"),
        "",
        "A listener: the bytes of every connection are relayed unread, after TLS is taken off where `tls` is \
         given. Where they go is said by `proxy`, or by `sni`, `alpn` and `default` for each name that clients of TLS ask \
         for. ADDR is `\":8443\"` (that port on every address), `\"127.0.0.1:8443\"`, `\"[::1]:8443\"` or \
         `\"unix:/run/lockgate.sock\"`; with port 0 the kernel chooses one.",
    )
    .inside(r#"proxy = "127.0.0.1:3000""#);
}

table! {
    /// `metrics`.
    mod metrics;

    const AT: Key<ListenAddr> = Key::new(
        "at",
        &Listener,
        Required,
        r#""127.0.0.1:9090""#,
        "The address, or the path of a Unix socket.",
    );

    const HOSTS: Defaulted<Items<String>> = Key::defaulted(
        "hosts",
        &List { of: HostName, least: 0 },
        "[]",
        r#"["metrics.example.com"]"#,
        "Names under which it may be asked over TCP, beside IP addresses, `localhost` and the names of this machine. \
         Requests for other hosts, and those that pages of other hosts make, are answered with 421: a page could \
         have its own name lead here and read the answers.",
    )
    .with(r#"at = "127.0.0.1:9090""#);
}

/// Streams of the process that a log can go to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    fn target(self) -> LogTarget {
        match self {
            Stream::Stdout => LogTarget::Stdout,
            Stream::Stderr => LogTarget::Stderr,
        }
    }

    fn json(self) -> (AccessFormat, LogTarget) {
        (AccessFormat::Json, self.target())
    }
}

const STREAMS: Words<Stream> = Words(&[("stdout", Stream::Stdout), ("stderr", Stream::Stderr)]);

const FORMATS: Words<AccessFormat> = Words(&[
    ("json", AccessFormat::Json),
    ("combined", AccessFormat::Combined),
    ("logfmt", AccessFormat::Logfmt),
]);

const LEVELS: Words<Level> = Words(&[
    ("error", Level::Error),
    ("warn", Level::Warn),
    ("info", Level::Info),
    ("debug", Level::Debug),
]);

type LogForm = Short<Unless<False, Either<(AccessFormat, LogTarget)>>>;

/// Where an access log goes, or its table.
pub(super) const LOG_PLACE: LogForm = Short {
    short: Unless(False, Either(&[&As(STREAMS, Stream::json), &FormattedLog])),
    long: TableOf(access_log::ALL),
};

table! {
    /// `access_log`, of all and of a site.
    mod access_log;

    const TO: Defaulted<LogTarget> = Key::defaulted(
        "to",
        &Either(&[&As(STREAMS, Stream::target), &As(LogFile, LogTarget::File)]),
        r#""stdout""#,
        r#""/var/log/lockgate/access.log""#,
        "Where it is written: `\"stdout\"`, `\"stderr\"` or a file, given with at least one `/`. USR1 opens \
         the file anew.",
    );

    const FORMAT: Defaulted<AccessFormat> = Key::defaulted(
        "format",
        &FORMATS,
        r#""json""#,
        r#""combined""#,
        "The form of a line: one JSON object, the combined format that other servers write, or `key=value` pairs.",
    );

    const SAMPLE: Defaulted<u8> = Key::defaulted(
        "sample",
        &Percent,
        r#""100%""#,
        r#""10%""#,
        "How many lines of a hundred are written.",
    );

    const MASK_IP: Defaulted<bool> = Key::defaulted(
        "mask_ip",
        &Flag,
        "false",
        "true",
        "Whether client addresses are shortened before they are written, to /24 and /48. In `/top` and the metrics they \
         are then too: networks in the place of clients.",
    );

    const ROTATE: Defaulted<Form<()>> = Key::defaulted(
        "rotate",
        &Short { short: OFF, long: TableOf(rotate::ALL) },
        r#""off""#,
        r#"{ size = "100MB", keep = 10 }"#,
        "When a file is closed and a new one begun. Only for a file.",
    )
    .with(r#"to = "/var/log/lockgate/access.log""#);
}

table! {
    /// `access_log.rotate`.
    mod rotate;

    const SIZE: Defaulted<u64> = Key::defaulted(
        "size",
        &Size { min: 1_000, max: u64::MAX },
        r#""100MB""#,
        r#""20MB""#,
        "The size past which a new file is begun.",
    );

    const KEEP: Defaulted<u32> = Key::defaulted(
        "keep",
        &Number::new(0, 10_000),
        "10",
        "3",
        "How many old files are kept.",
    );
}

table! {
    /// `log`.
    mod log;

    const LEVEL: Defaulted<Level> = Key::defaulted(
        "level",
        &LEVELS,
        r#""info""#,
        r#""warn""#,
        "The least severe level that is written.",
    );

    const FORMAT: Defaulted<LogFormat> = Key::defaulted(
        "format",
        &Words(&[("text", LogFormat::Text), ("json", LogFormat::Json)]),
        r#""text""#,
        r#""json""#,
        "The form of a line.",
    );
}

table! {
    /// `drain`.
    mod drain;

    const DELAY: Defaulted<Duration> = Key::defaulted(
        "delay",
        &Time { min: 0 },
        r#""0s""#,
        r#""5s""#,
        "How long listeners stay open after the signal, while `/ready` already answers 503, so that a load \
         balancer in front can look elsewhere.",
    );

    const DEADLINE: Defaulted<Duration> = Key::defaulted(
        "deadline",
        &Time { min: 0 },
        r#""30s""#,
        r#""5m""#,
        "After how long connections that still run are cut. A second signal cuts them at once.",
    );
}

table! {
    /// `limits`.
    mod limits;

    const CONNECTIONS: Defaulted<Option<usize>> = Key::defaulted(
        "connections",
        &Unless(AUTO, Number::count()),
        r#""auto""#,
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
    );

    const PER_CLIENT: Defaulted<Option<usize>> = Key::defaulted(
        "per_client",
        &Unless(OFF, Number::count()),
        r#""off""#,
        "100",
        "Connections at once from one client address (IPv6: one /64), whether or not places are scarce. As many more wait for a place, at most for \
         `timeouts.handshake`; what comes on top is closed. Over HTTP/2 each has as many requests at once as \
         `http2.streams` says.",
    );

    const HANDSHAKES: Defaulted<usize> = Key::defaulted(
        "handshakes",
        &Number::count(),
        "1024",
        "256",
        "TLS handshakes that are computed at once; more wait, at most for `timeouts.handshake`, and clients take turns. \
         One that waits for its client is not among them.",
    );

    const MEMORY: Defaulted<Memory> = Key::defaulted(
        "memory",
        &Either(&[
            &Words(&[("auto", Memory::Auto), ("off", Memory::Off)]),
            &As(Size { min: 16_000_000, max: u64::MAX }, Memory::Bytes),
        ]),
        r#""auto""#,
        r#""512MB""#,
        "Memory of the process, with what the kernel holds for its connections. `\"auto\"` is 80 % of the cgroup's \
         limit (`memory.max` or `memory.high`, whichever is less); where that has none, half of the machine's memory. \
         From 60 % of it on nothing is kept for later, and answers are not compressed; from 85 % on new connections \
         and requests wait, and clients that hold most and take nothing are disconnected (cause `limit`, detail \
         `memory`), but for those in `trusted`.",
    );

    const HEAD: Defaulted<u64> = Key::defaulted(
        "head",
        &Size { min: 1_000, max: 65_536 },
        r#""64KB""#,
        r#""16KB""#,
        "The longest head of a request or answer. A longer one is refused.",
    );

    const FIELDS: Defaulted<usize> = Key::defaulted(
        "fields",
        &Number::new(1, 10_000),
        "128",
        "64",
        "The most fields in a head, and in the trailers of a body.",
    );

    const REQUESTS: Defaulted<Option<u64>> = Key::defaulted(
        "requests",
        &Unless(OFF, Number::count()),
        r#""off""#,
        "1000",
        "Requests on one client connection; it is closed after the last.",
    );
}

table! {
    /// `dns`.
    mod dns;

    const SERVERS: Key<Items<EndpointAddr>> = Key::new(
        "servers",
        &List { of: Endpoint, least: 1 },
        Absent("those in /etc/resolv.conf"),
        r#"["10.0.0.53:53", "[fd00::53]:53"]"#,
        "Addresses of name servers, each with its port, in the order in which they are asked.",
    );
}

table! {
    /// `socket`.
    mod socket;

    const BACKLOG: Defaulted<u32> = Key::defaulted(
        "backlog",
        &Number::new(1, 65_535),
        "4096",
        "1024",
        "How many connections may wait to be accepted, for each worker; a Unix socket is shared by all. The kernel's `net.core.somaxconn` caps it.",
    );

    const FAST_OPEN: Defaulted<bool> = Key::defaulted(
        "fast_open",
        &Flag,
        "false",
        "true",
        "TCP Fast Open on listeners. The kernel's `net.ipv4.tcp_fastopen` must allow it.",
    );

    const KEEPALIVE: Defaulted<Option<Duration>> = Key::defaulted(
        "keepalive",
        &Unless(OFF, Time { min: 1_000 }),
        r#""60s""#,
        r#""off""#,
        "After how much silence the kernel probes whether the peer is still there, on both sides; in whole \
         seconds.",
    );
}
