//! The keys at the top of the file, and those of the tables that only stand there.

use std::path::PathBuf;
use std::time::Duration;

use lockgate_rules::Cidr;

use crate::address::ListenAddr;
use crate::host::SiteKey;
use crate::model::{EndpointAddr, LogFormat, LogLevel, Memory, ReloadTrigger};
use crate::table::CheckedTable;
use crate::values::*;

use super::Unset::{Absent, Required, Within};
use super::access_log::{self, AccessLogForm};
use super::{
    AT_LEAST_1MS, AUTO, ConfigKey, Defaulted, KeyRow, OFF, acme, content, ddns, export, http2,
    pool, ports, rates, request_test, site, tcp, timeouts, tls, tunnel,
};

table! {
    const INCLUDE: ConfigKey<Items<PathBuf>> = ConfigKey::new(
        "include",
        &List { of: FilePattern, least: 0 },
        Absent("no other file is read"),
        r#"["sites/*.toml"]"#,
        "More files to merge into this one. A `[section]` may be spread over several files. A key, \
         or the table of one listener, that appears twice is an error that names both places.",
    );

    const WORKERS: Defaulted<Option<usize>> = ConfigKey::defaulted(
        "workers",
        &Unless(AUTO, WholeNumber::new(1, 1024)),
        r#""auto""#,
        "4",
        "The number of worker threads that serve connections. `\"auto\"` is the CPU quota of the \
         process.",
    );

    const USER: ConfigKey<String> = ConfigKey::new(
        "user",
        &Identifier,
        Absent("the user that started Lockgate"),
        r#""lockgate""#,
        "The user to run as, after addresses are bound and keys are read. Files that Lockgate reads \
         again when they change must be readable by this user; one that is not is a warning. Of \
         root's capabilities only CAP_NET_BIND_SERVICE is kept, by the main thread, to bind further \
         ports below 1024.",
    );

    const STATE: ConfigKey<Option<PathBuf>> = ConfigKey::new(
        "state",
        &Unless(False, FilePath),
        Absent(
            "none, unless certificates come by themselves: then `$STATE_DIRECTORY` if that is set, \
             as systemd does, else `/var/lib/lockgate`",
        ),
        r#""/var/lib/lockgate""#,
        "A folder for what Lockgate keeps: certificates that come by themselves, with their keys and \
         accounts (`certs`), and the last good configuration. `false` is for none. Every successful start writes it to \
         `last-good.toml`: with included files merged, absolute paths, and `${…}` unexpanded. \
         Lockgate does not read it by itself; a failed start names it. To go back, run `lockgate \
         run -c /var/lib/lockgate/last-good.toml`, or copy it over your file.",
    );

    const RELOAD: Defaulted<ReloadTrigger> = ConfigKey::defaulted(
        "reload",
        &Words(&[("manual", ReloadTrigger::Manual), ("watch", ReloadTrigger::Watch)]),
        r#""manual""#,
        r#""watch""#,
        "When a changed file is taken over while Lockgate runs. `\"manual\"`: by \
         `lockgate reload` and on `HUP`. `\"watch\"`: also when it, an included file, an error page or a file of redirects \
         changes, once writes pause for 200 ms. A configuration is taken over as a whole or not at \
         all: one with a mistake, or with an address that cannot be bound, changes nothing and is \
         reported. Open requests, relays and tunnels go on by the old one; the next request of a \
         kept connection has the new one. `user`, `workers`, `state`, `admin` and `log.format` take \
         effect with the next start or upgrade.",
    );

    const TRUSTED: Defaulted<Items<Cidr>> = ConfigKey::defaulted(
        "trusted",
        &List { of: CidrNetwork, least: 0 },
        "[]",
        r#"["10.0.0.0/8"]"#,
        "The networks and addresses of proxies in front of Lockgate. Lockgate believes what they \
         send about their clients: PROXY headers, where `accept_proxy` expects them, and the \
         request fields `X-Forwarded-For`, `-Proto`, `-Host`, `Forwarded` and `X-Request-Id`. From \
         all other addresses these fields are removed and made anew.\n\n\
         - The client is the last address in `X-Forwarded-For` that is not itself trusted. It may \
         have a port, brackets and quotes.\n\
         - If a trusted proxy names no address (`unknown`), the client is unknown: `allow` and \
         `deny` refuse it, limits and hashes treat all unknown clients as one, and the log shows \
         `unknown`.\n\
         - `Proxy` is always removed.\n\
         - `X-Real-IP`, `X-Forwarded-Port`, `-Prefix` and `-User`, `X-Original-URL` and similar \
         fields are forwarded unchanged from all clients. If an application believes one, remove or \
         set it with `request_headers`.",
    );

    const METRICS: Defaulted<ShortOrLong<Option<ListenAddr>>> = ConfigKey::defaulted(
        "metrics",
        &Short { short: Unless(False, BindAddress), long: TableOf(metrics::ALL) },
        "false",
        r#""127.0.0.1:9090""#,
        "The address of the live page, `/metrics`, `/top`, `/health` and `/ready`, in plain HTTP: `\"ADDR:PORT\"` \
         or `\"unix:PATH\"`. The short form is the value of `at`.",
    );

    const ADMIN: ConfigKey<ShortOrLong<Option<PathBuf>>> = ConfigKey::new(
        "admin",
        &Short { short: Unless(False, SocketPath), long: TableOf(admin::ALL) },
        Absent(
            "`admin.sock` in `$RUNTIME_DIRECTORY` if that is set, as systemd does; else in \
             `/run/lockgate` if Lockgate may write there; else in `$XDG_RUNTIME_DIR/lockgate`; \
             without any of these, none",
        ),
        r#""unix:/run/lockgate/admin.sock""#,
        "The Unix socket of `lockgate status`, `pools`, `certs`, `reload`, `stop` and other \
         commands: see [admin.md](admin.md). Root and the user of Lockgate may use it. The short \
         form is the value of `at`; `false` is for none. If another Lockgate has the default \
         place, Lockgate starts without a socket, with a warning; if it has the place that `at` \
         names, the start fails.",
    );

    const ACCESS_LOG: Defaulted<AccessLogForm> = ConfigKey::defaulted(
        "access_log",
        &access_log::FORM,
        r#""stdout""#,
        r#"{ to = "/var/log/lockgate/access.log", mask_ip = true }"#,
        "The access log: one line for each request, relayed connection, upgrade and tunnel, and for \
         each connection that failed before its first request. The short form is the value of `to`, \
         optionally after a format: `\"combined:/var/log/lockgate/access.log\"`. `false` writes \
         none.",
    );

    const LOG: ConfigKey<ShortOrLong<LogLevel>> = ConfigKey::new(
        "log",
        &Short { short: LEVELS, long: TableOf(log::ALL) },
        Within,
        r#""debug""#,
        "The operator log, on stderr. The short form is the value of `level`.",
    );

    const DRAIN: ConfigKey<CheckedTable> = ConfigKey::new(
        "drain",
        &TableOf(drain::ALL),
        Within,
        r#"{ delay = "5s", deadline = "1m" }"#,
        "How Lockgate stops after TERM or INT.",
    );

    const LIMITS: ConfigKey<CheckedTable> = ConfigKey::new(
        "limits",
        &TableOf(limits::ALL),
        Within,
        "{ per_client = 100 }",
        "Limits per process, whatever the number of workers. Connections above `connections` wait \
         in the kernel's queue, as long as that has room (`socket.backlog`).",
    );

    const TIMEOUTS: ConfigKey<CheckedTable> = ConfigKey::new(
        "timeouts",
        &TableOf(timeouts::ALL),
        Within,
        r#"{ tunnel_idle = "10m" }"#,
        "The default deadlines. `[tcp]` and `[tunnel]` tables can set `handshake`, `connect` and \
         `tunnel_idle`; sites and paths can set `connect`, `response` and `tunnel_idle`.",
    );

    const RATES: ConfigKey<CheckedTable> = ConfigKey::new(
        "rates",
        &TableOf(rates::ALL),
        Within,
        r#"{ min_in = "10KB/s" }"#,
        "Minimum rates that disconnect slow clients of sites. They are measured only while Lockgate \
         waits for that client, so long polls and server-sent events are not affected. Request \
         bodies are not measured while their response is on its way, nor are those of gRPC calls to a \
         pool over HTTP/2: either side may send a message at any time. Relayed and upgraded \
         connections have none. Over HTTP/2, a response that waits for its turn is not measured: a client that reads `min_out` of all its responses together keeps all of them, \
         up to `http2.streams`.",
    );

    const HTTP2: ConfigKey<CheckedTable> = ConfigKey::new(
        "http2",
        &TableOf(http2::ALL),
        Within,
        "{ streams = 64 }",
        "What one client connection may do over HTTP/2. `protocols` says which sites speak it. A \
         client that sends more resets or control frames than an honest one needs is disconnected \
         (GOAWAY with ENHANCE_YOUR_CALM), counted (`lockgate_http2_violations_total`, by reason) \
         and logged with the cause.\n\n\
         These limits hold besides the keys below:\n\n\
         - A field section is limited by `limits.head` and `limits.fields`: a longer one gets 431, \
         and one that is several times as long ends the connection. CONTINUATION frames are limited \
         to what a section of that length needs.\n\
         - The decoded heads and trailers of all open requests of a connection are limited \
         together: see `streams`.\n\
         - Bodies that endpoints do not read are kept, and other bodies of the connection go on \
         meanwhile: see `connection_window`.\n\
         - A connection ends if its bodies come in tiny pieces that nothing reads: of DATA frames \
         with less than 9 bytes that come behind unread data, 16,384 are allowed, 2,000 more each \
         second, and one for each DATA frame that Lockgate sends.\n\
         - Flow-control windows begin at 64 KiB for a body and 1 MiB for a connection. They grow \
         while endpoints read.\n\
         - If a client does not read Lockgate's answers to its frames, Lockgate stops reading from \
         it.\n\
         - A client that opens no window, or does not send the body that it has announced, falls \
         under `rates`, and its request is cancelled. So is a request whose body cannot arrive \
         because other requests' bodies, which endpoints do not read, take all that a connection \
         may hold.\n\
         - A tunnel has `timeouts.tunnel_idle`. A connection without requests ends after \
         `timeouts.idle`.",
    );

    const DNS: ConfigKey<CheckedTable> = ConfigKey::new(
        "dns",
        &TableOf(dns::ALL),
        Within,
        r#"{ servers = ["10.0.0.53:53"] }"#,
        "The name servers for SRV records (endpoints written as `\"srv:NAME\"`). Host names are \
         resolved by the system.",
    );

    const SOCKET: ConfigKey<CheckedTable> = ConfigKey::new(
        "socket",
        &TableOf(socket::ALL),
        Within,
        "{ backlog = 1024 }",
        "Socket options.",
    );

    const PORTS: ConfigKey<CheckedTable> = ConfigKey::new(
        "ports",
        &TableOf(ports::ALL),
        Within,
        "{ http = 8080, https = 8443 }",
        "The ports of sites whose key has no port.",
    );

    const TLS: ConfigKey<CheckedTable> = ConfigKey::new(
        "tls",
        &TableOf(tls::ALL),
        Within,
        r#"{ certs = ["/etc/tls/*.pem"] }"#,
        "TLS settings of every listener. The `tls` of a `[site]` or `[tcp]` table is merged over it \
         key by key.",
    )
    .inside(r#"certs = ["/etc/tls/*.pem"]"#);

    const ACME: ConfigKey<CheckedTable> = ConfigKey::new(
        "acme",
        &TableOf(acme::ALL),
        Absent("certificates are those of files, and of `issuer = \"internal\"`"),
        r#"{ email = "me@example.com" }"#,
        "Certificates that come by themselves, by ACME (RFC 8555). With this table, which may be empty, \
         every site on TLS and every entry of `sni` that ends TLS gets a certificate for each of its \
         hosts that no file covers, and renews it in time. Having the table accepts the terms of \
         service of the authority.\n\n\
         The authority must reach this machine under the host's name, on port 80 or 443. Names that \
         no public authority certifies (`box.lan`, `localhost`, IP addresses) are an error: write \
         `tls = \"internal\"` in their sites. Wildcards need `dns`.",
    );

    const DDNS: ConfigKey<CheckedTable> = ConfigKey::new(
        "ddns",
        &TableOf(ddns::ALL),
        Absent("no record of an address is set"),
        r#"{ names = ["home.example.org"], dns = { provider = "desec", token = "${file:/etc/lockgate/dns.token}" } }"#,
        "Dynamic DNS: the A and AAAA records of names are kept at this machine's address, for a machine at \
         home whose address changes. A name has one address of each family; other addresses that the zone \
         has for it are removed. The zone is changed only if it is not right already. Where no address is \
         found, the records stay as they are; they stay, too, when a name leaves this table. A name that is \
         an alias (CNAME) is an error, and is not changed.\n\n\
         The time for which others keep a record is 60 s, or the shortest that the provider takes.",
    )
    .inside(r#"dns = { provider = "desec", token = "${file:/etc/lockgate/dns.token}" }"#);
    const EXPORT: ConfigKey<CheckedTable> = ConfigKey::new(
        "export",
        &TableOf(export::ALL),
        Absent("figures are pushed to no other program"),
        r#"{ graphite = "10.0.0.9:2003" }"#,
        "The figures of `/metrics` pushed to other programs, whether or not `metrics` is set: see \
         [the guide](guides/export.md). Each sink is served by itself. One that cannot be reached is \
         tried again, after 1 s to 30 s; meanwhile up to 1 MB of points is kept for it, and the oldest \
         are dropped.",
    );

    const SITE: ConfigKey<Vec<Keyed<SiteKey>>> = ConfigKey::new(
        "site",
        &Tables::of(site::ALL),
        Absent("no sites; at least one `[site]`, `[tcp]` or `[tunnel]` table is needed"),
        "",
        "A site. HOST is `\"example.com\"` (TLS on `ports.https`, and a redirect to it from \
         `ports.http`), `\"*.example.com\"`, `\"example.com:8443\"` or `\":8080\"` (plain HTTP on \
         that port unless `tls` is given; without a host for every host), or \
         `\"unix:/run/lockgate.sock\"`. Hosts may be IP addresses too. `listen` chooses the \
         addresses to bind.\n\n\
         An exact host wins over `*.`, and that wins over a port alone. One of `proxy`, `root`, \
         `redirect` and `respond` answers requests, here or in the `path` tables.\n\n\
         The redirect from `ports.http` is open to all clients: `allow`, `deny`, `auth` and `limit` \
         apply only to the TLS site, because a password sent to the redirect would not be \
         encrypted.",
    )
    .inside(r#"proxy = "127.0.0.1:3000""#);

    const POOL: ConfigKey<Vec<Keyed<TableName>>> = ConfigKey::new(
        "pool",
        &Tables::of(pool::ALL),
        Absent("endpoints stand in the tables that use them"),
        "",
        "A named group of endpoints, for `proxy = \"pool:NAME\"` in any table.",
    )
    .inside(r#"endpoints = ["10.0.0.1:8080"]"#);

    const VALUES: ConfigKey<Vec<Keyed<TableName>>> = ConfigKey::new(
        "values",
        &Tables::of(content::value::ALL),
        Absent("no texts are fetched"),
        "",
        "A text that is fetched while Lockgate runs, from a `file` or a `url`, for `{value:NAME}` \
         in `rewrite_body`.",
    )
    .inside(r#"file = "/etc/version""#);

    const TUNNEL: ConfigKey<Vec<Keyed<ListenAddr>>> = ConfigKey::new(
        "tunnel",
        &Tables::of(tunnel::ALL),
        Absent("no tunnels"),
        "",
        "An HTTP proxy. Clients ask for a tunnel to a host and port (CONNECT, over HTTP/1.1 and \
         HTTP/2) and get one if the rules allow it. ADDR is as in `[tcp]` tables. Other methods get \
         405, unless `forward` allows them.",
    );

    const TCP: ConfigKey<Vec<Keyed<ListenAddr>>> = ConfigKey::new(
        "tcp",
        &Tables::of(tcp::ALL),
        Absent("no TCP relays; at least one `[site]`, `[tcp]` or `[tunnel]` table is needed"),
        "",
        "A listener that relays the bytes of every connection, and terminates TLS if `tls` is \
         given. `proxy` says where they go, or `sni`, `alpn` and `default` by the client's server \
         name and protocols. ADDR is `\":8443\"` (that port on every address), \
         `\"127.0.0.1:8443\"`, `\"[::1]:8443\"` or `\"unix:/run/lockgate.sock\"`. With port 0 the \
         kernel chooses one.",
    )
    .inside(r#"proxy = "127.0.0.1:3000""#);

    const TEST: Defaulted<Items<CheckedTable>> = ConfigKey::defaulted(
        "test",
        &List { of: TableOf(request_test::ALL), least: 0 },
        "[]",
        r#"[{ request = "GET https://app.example.com/", expect = { site = "app.example.com" } }]"#,
        "Tests of the configuration, which `lockgate check` runs: what becomes of a request by the \
         functions that serve, as [`lockgate explain`](guides/explain.md) says it. Nothing is sent. \
         Each is best written as a table of its own, in any of the included files:\n\n\
         ```toml\n\
         [[test]]\n\
         request = \"GET https://app.example.com/admin\"\n\
         from = \"203.0.113.9\"\n\
         expect = { route = \"/admin/*\", status = 403 }\n\
         ```\n\n\
         A test that fails is an error of `check`. A start and a reload do not run them.",
    );
}

table! {
    mod metrics;

    const AT: ConfigKey<ListenAddr> = ConfigKey::new(
        "at",
        &BindAddress,
        Required,
        r#""127.0.0.1:9090""#,
        "The address, or the path of a Unix socket.",
    );

    const HOSTS: Defaulted<Items<String>> = ConfigKey::defaulted(
        "hosts",
        &List { of: HostName, least: 0 },
        "[]",
        r#"["metrics.example.com"]"#,
        "Host names that requests over TCP may use, besides IP addresses, `localhost` and the names \
         of this machine. Other hosts, and requests from pages of other hosts, get 421. This stops \
         web pages that point their own name at this address to read the answers (DNS rebinding).",
    )
    .with(r#"at = "127.0.0.1:9090""#);
}

table! {
    mod admin;

    const AT: ConfigKey<PathBuf> = ConfigKey::new(
        "at",
        &SocketPath,
        Absent("the place of `admin` without a value"),
        r#""unix:/run/lockgate/admin.sock""#,
        "The path of the socket. A file that a Lockgate has left there is replaced.",
    );

    const GROUP: ConfigKey<String> = ConfigKey::new(
        "group",
        &Identifier,
        Absent("no group"),
        r#""wheel""#,
        "A group with members that may use the socket too: a name or a number.",
    );

    const MODE: ConfigKey<u32> = ConfigKey::new(
        "mode",
        &FileMode,
        Absent("`\"0600\"`, or `\"0660\"` with `group`"),
        r#""0660""#,
        "The permissions of the file, in octal. They only narrow: a user that is neither root, \
         nor that of Lockgate, nor a member of `group` is refused with any mode.",
    );
}

const LEVELS: Words<LogLevel> = Words(&[
    ("error", LogLevel::Error),
    ("warn", LogLevel::Warn),
    ("info", LogLevel::Info),
    ("debug", LogLevel::Debug),
]);

table! {
    mod log;

    const LEVEL: Defaulted<LogLevel> = ConfigKey::defaulted(
        "level",
        &LEVELS,
        r#""info""#,
        r#""warn""#,
        "The least severe level that is written.",
    );

    const FORMAT: Defaulted<LogFormat> = ConfigKey::defaulted(
        "format",
        &Words(&[("text", LogFormat::Text), ("json", LogFormat::Json)]),
        r#""text""#,
        r#""json""#,
        "The form of a line.",
    );
}

table! {
    mod drain;

    const DELAY: Defaulted<Duration> = ConfigKey::defaulted(
        "delay",
        &Time { min: 0 },
        r#""0s""#,
        r#""5s""#,
        "How long listeners stay open after the signal, while `/ready` already responds with 503, \
         so that a load balancer in front can react.",
    );

    const DEADLINE: Defaulted<Duration> = ConfigKey::defaulted(
        "deadline",
        &Time { min: 0 },
        r#""30s""#,
        r#""5m""#,
        "The time after which remaining connections are closed. A second signal closes them at \
         once.",
    );

    const CHANGE: Defaulted<Option<Duration>> = ConfigKey::defaulted(
        "change",
        &Unless(OFF, AT_LEAST_1MS),
        r#""off""#,
        r#""1h""#,
        "The time after a reload in which requests, relays and tunnels that go on by an earlier \
         configuration may end; those that are left are closed. `\"off\"`: they may last as long \
         as they do.",
    );
}

table! {
    mod limits;

    const CONNECTIONS: Defaulted<Option<usize>> = ConfigKey::defaulted(
        "connections",
        &Unless(AUTO, WholeNumber::count()),
        r#""auto""#,
        "20000",
        "Client connections at once. `\"auto\"` follows from the descriptor limit, which is raised \
         at the start: descriptors that are not reserved for listeners, logs and files are divided \
         between clients and sockets to endpoints, so that each connection can have one. A higher \
         number is allowed, but an eighth always remains for endpoints. The log line `ready` shows \
         both numbers.\n\n\
         A client is an address (of IPv6 the /64), after a PROXY header where one is accepted. The \
         fair share of a client is all permits divided by the number of clients. Addresses in \
         `trusted` and clients on Unix sockets have no share.\n\n\
         If no permit is left, connections are closed for clients that wait \
         (`lockgate_connections_evicted_total`), over HTTP/2 by GOAWAY. Tunnels and relays are not \
         closed. The order is:\n\n\
         1. of clients above their share, connections without a request, or without a first byte, \
         for 2 s;\n\
         2. of clients above their share, connections whose handshake or head is incomplete;\n\
         3. of other clients, connections without a request for 2 s;\n\
         4. of clients above their share, connections whose exchange has not moved for 2 s;\n\
         5. connections without a request for less than 2 s.\n\n\
         Within each step, the clients with the most connections come first.\n\n\
         Sockets to endpoints are limited too, idle ones included. If none is left, the socket of \
         any pool that has been idle for the longest time is closed. Otherwise a request or relay \
         waits for one, at most for the `queue.wait` of its pool (2 s for tunnels); then a request \
         gets 503 and a relayed connection is closed, both with the cause `limit`. To make room, \
         exchanges of clients above their share are ended if they have not moved for 2 s \
         (`lockgate_upstream_sockets_preempted_total`). Over HTTP/2, once a client's requests use \
         more than 6 sockets and as many as are left for all other clients, its further streams \
         wait.",
    );

    const PER_CLIENT: Defaulted<Option<usize>> = ConfigKey::defaulted(
        "per_client",
        &Unless(OFF, WholeNumber::count()),
        r#""off""#,
        "100",
        "Connections at once from one client address (of IPv6 the /64), whether or not permits are \
         scarce. As many more may wait for a permit, at most for `timeouts.handshake`; further \
         ones are closed. Over HTTP/2, each connection may have `http2.streams` requests at once.",
    );

    const HANDSHAKES: Defaulted<usize> = ConfigKey::defaulted(
        "handshakes",
        &WholeNumber::count(),
        "1024",
        "256",
        "TLS handshakes that are computed at once. Others wait, at most for `timeouts.handshake`, \
         and clients take turns. A handshake that waits for its client does not count.",
    );

    const MEMORY: Defaulted<Memory> = ConfigKey::defaulted(
        "memory",
        &Either(&[
            &Words(&[("auto", Memory::Auto), ("off", Memory::Off)]),
            &As(Size { min: 16_000_000, max: u64::MAX }, Memory::Bytes),
        ]),
        r#""auto""#,
        r#""512MB""#,
        "Memory of the process, including what the kernel holds for its connections. `\"auto\"` is \
         80 % of the cgroup's limit (`memory.max` or `memory.high`, whichever is less), or half of \
         the machine's memory if there is none. From 60 % on, nothing is kept for later (caches, \
         buffers) and responses are not compressed. From 85 % on, new connections and requests \
         wait, and the clients that hold the most memory and read nothing are disconnected (cause \
         `limit`, detail `memory`), except those in `trusted`.",
    );

    const HEAD: Defaulted<u64> = ConfigKey::defaulted(
        "head",
        &Size { min: 1_000, max: 65_536 },
        r#""64KB""#,
        r#""16KB""#,
        "The longest head of a request or response. A longer one is refused.",
    );

    const FIELDS: Defaulted<usize> = ConfigKey::defaulted(
        "fields",
        &WholeNumber::new(1, 10_000),
        "128",
        "64",
        "The most fields in a head, and in trailers.",
    );

    const REQUESTS: Defaulted<Option<u64>> = ConfigKey::defaulted(
        "requests",
        &Unless(OFF, WholeNumber::count()),
        r#""off""#,
        "1000",
        "Requests on one client connection. It is closed after the last one.",
    );
}

table! {
    mod dns;

    const SERVERS: ConfigKey<Items<EndpointAddr>> = ConfigKey::new(
        "servers",
        &List { of: UpstreamAddress, least: 1 },
        Absent("the name servers of /etc/resolv.conf"),
        r#"["10.0.0.53:53", "[fd00::53]:53"]"#,
        "Addresses of name servers, with ports, in the order in which they are asked.",
    );
}

table! {
    mod socket;

    const BACKLOG: Defaulted<u32> = ConfigKey::defaulted(
        "backlog",
        &WholeNumber::new(1, 65_535),
        "4096",
        "1024",
        "How many connections may wait to be accepted, per worker; all workers share a Unix socket. \
         The kernel's `net.core.somaxconn` caps it.",
    );

    const FAST_OPEN: Defaulted<bool> = ConfigKey::defaulted(
        "fast_open",
        &Flag,
        "false",
        "true",
        "TCP Fast Open on listeners. The kernel's `net.ipv4.tcp_fastopen` must allow it.",
    );

    const KEEPALIVE: Defaulted<Option<Duration>> = ConfigKey::defaulted(
        "keepalive",
        &Unless(OFF, Time { min: 1_000 }),
        r#""60s""#,
        r#""off""#,
        "The time of silence after which the kernel checks whether the peer is still there, on both \
         sides; in whole seconds.",
    );
}
