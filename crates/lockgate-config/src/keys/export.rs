//! The keys of `[export]`: metrics that are pushed.

use std::time::Duration;

use lockgate_rules::{Coding, GraphiteProtocol, SecretText, StatsdTags, TraceShare};

use crate::model::{AuthoritySource, EndpointAddr, InfluxTarget, OtlpUrl};
use crate::values::*;

use super::Unset::{Absent, Required};
use super::tls::AUTHORITIES;
use super::{ConfigKey, Defaulted, KeyRow, MapKeys};

/// One sink or several, each an address or a table.
pub(crate) type Sinks<T> = Items<ShortOrLong<T>>;

const GRAPHITE_ONE: &str = r#"graphite = "10.0.0.9:2003""#;
const GRAPHITE_ADDRESS: &str = r#"address = "10.0.0.9:2003""#;
const STATSD_ADDRESS: &str = r#"address = "127.0.0.1:8125""#;
const INFLUX_URL: &str =
    r#"url = "https://influx.example.com/api/v2/write?org=ops&bucket=lockgate""#;
const OTLP_URL: &str = r#"url = "http://10.0.0.9:4318""#;
const OF_EXPORT: super::Unset = Absent("that of `export`");

// The keys that several kinds of sinks have. Examples of them need the address of their kind.

const EVERY_OF_SINK: ConfigKey<Duration> = ConfigKey::new(
    "every",
    &PushInterval,
    OF_EXPORT,
    r#""1m""#,
    "The `every` of this sink.",
);

const PREFIX_OF_SINK: ConfigKey<String> = ConfigKey::new(
    "prefix",
    &NamePrefix,
    OF_EXPORT,
    r#""web1""#,
    "The `prefix` of this sink.",
);

const CA_OF_SINK: Defaulted<AuthoritySource> = ConfigKey::defaulted(
    "ca",
    &AUTHORITIES,
    r#""system""#,
    r#""/etc/lockgate/sink-ca.pem""#,
    "The authorities that an `https` server is verified by: the system's, or a PEM file, which is read \
     again when it changes.",
);

table! {
    const GRAPHITE: ConfigKey<Sinks<EndpointAddr>> = ConfigKey::new(
        "graphite",
        &OneOrMore(List {
            of: Short { short: SinkAddress, long: TableOf(graphite::ALL) },
            least: 1,
        }),
        Absent("no Graphite gets the figures"),
        r#""10.0.0.9:2003""#,
        "Sinks of Graphite, over TCP. The short form is the value of `address`. A series is named \
         as in `/metrics`, with the prefix for `lockgate_`; labels are parts of its path, and other \
         characters than letters, digits, `-` and `_` in them are underscores: \
         `lockgate.requests_total.site.app_example_com.method.GET.code.2xx`. Of several machines, each \
         needs a prefix of its own, or `tags`.",
    );

    const STATSD: ConfigKey<Sinks<EndpointAddr>> = ConfigKey::new(
        "statsd",
        &OneOrMore(List {
            of: Short { short: SinkAddress, long: TableOf(statsd::ALL) },
            least: 1,
        }),
        Absent("no statsd gets the figures"),
        r#""10.0.0.9:8125""#,
        "Sinks of statsd, over UDP, in datagrams of at most 1,432 bytes. The short form is the \
         value of `address`. Names are those of `graphite`. Counters are sent as what was added since \
         the last time, if anything was; of histograms their count and sum likewise.",
    );

    const INFLUX: ConfigKey<Sinks<InfluxTarget>> = ConfigKey::new(
        "influx",
        &OneOrMore(List {
            of: Short { short: InfluxAddress, long: TableOf(influx::ALL) },
            least: 1,
        }),
        Absent("no InfluxDB gets the figures"),
        r#""http://10.0.0.9:8086/write?db=lockgate""#,
        "Sinks of InfluxDB's line protocol: by POST to an `http://` or `https://` URL, or to \
         Telegraf's `socket_listener` at `udp://HOST:PORT` or `tcp://HOST:PORT`. The short form is the \
         value of `url`. Measurements have the names of `/metrics`, labels are tags beside `host`, the \
         name of this machine; fields are `counter` or `gauge`, and for histograms their bounds, \
         `count` and `sum`.",
    );

    const OTLP: ConfigKey<ShortOrLong<OtlpUrl>> = ConfigKey::new(
        "otlp",
        &Short { short: OtlpAddress, long: TableOf(otlp::ALL) },
        Absent("no collector of OpenTelemetry gets anything"),
        r#""http://10.0.0.9:4318""#,
        "A sink of OpenTelemetry's protocol over HTTP, in binary Protocol Buffers: the figures go to \
         `/v1/metrics` below the URL, spans of requests to `/v1/traces`. The short form is the value of \
         `url`.",
    );

    const EVERY: Defaulted<Duration> = ConfigKey::defaulted(
        "every",
        &PushInterval,
        r#""10s""#,
        r#""1m""#,
        "How often the figures are read and pushed: at the multiples of this time by the clock, so that \
         the points of several machines have the same times.",
    )
    .with(GRAPHITE_ONE);

    const PREFIX: Defaulted<String> = ConfigKey::defaulted(
        "prefix",
        &NamePrefix,
        r#""lockgate""#,
        r#""servers.web1.lockgate""#,
        "What the names in Graphite and statsd begin with, in place of `lockgate_`; `\"\"` leaves names \
         as they are.",
    )
    .with(GRAPHITE_ONE);

    const ONLY: Defaulted<Items<String>> = ConfigKey::defaulted(
        "only",
        &List { of: MetricNames, least: 0 },
        "[]",
        r#"["lockgate_request", "lockgate_connections"]"#,
        "The beginnings of the names of metrics that are pushed, as in `/metrics`; without any, all are.",
    )
    .with(GRAPHITE_ONE);

    const EXCEPT: Defaulted<Items<String>> = ConfigKey::defaulted(
        "except",
        &List { of: MetricNames, least: 0 },
        "[]",
        r#"["lockgate_client_"]"#,
        "The beginnings of the names of metrics that are not pushed, whatever `only` says. Addresses of \
         clients are labels of `lockgate_client_…`: those of the 20 with the most traffic, which over \
         time may be many series.",
    )
    .with(GRAPHITE_ONE);
}

table! {
    mod graphite;

    const ADDRESS: ConfigKey<EndpointAddr> = ConfigKey::new(
        "address",
        &SinkAddress,
        Required,
        r#""graphite.internal:2003""#,
        "Host and port, often 2003 for plaintext and 2004 for pickle. A name is resolved with each \
         connection.",
    );

    const PROTOCOL: Defaulted<GraphiteProtocol> = ConfigKey::defaulted(
        "protocol",
        &Words(&[
            ("plaintext", GraphiteProtocol::Plaintext),
            ("pickle", GraphiteProtocol::Pickle),
        ]),
        r#""plaintext""#,
        r#""pickle""#,
        "A line for each point, or messages of 500 points in Python's pickle.",
    )
    .with(r#"address = "10.0.0.9:2004""#);

    const TAGS: Defaulted<bool> = ConfigKey::defaulted(
        "tags",
        &Flag,
        "false",
        "true",
        "Labels as tags (Graphite 1.1) instead of parts of the path, and a tag `host`, the name of this \
         machine: `lockgate.requests_total;host=web1;site=app.example.com;method=GET;code=2xx`.",
    )
    .with(GRAPHITE_ADDRESS);

    const PREFIX: ConfigKey<String> = PREFIX_OF_SINK.with(GRAPHITE_ADDRESS);

    const EVERY: ConfigKey<Duration> = EVERY_OF_SINK.with(GRAPHITE_ADDRESS);
}

table! {
    mod statsd;

    const ADDRESS: ConfigKey<EndpointAddr> = ConfigKey::new(
        "address",
        &SinkAddress,
        Required,
        r#""127.0.0.1:8125""#,
        "Host and port, often 8125. A name is resolved each time.",
    );

    const TAGS: Defaulted<StatsdTags> = ConfigKey::defaulted(
        "tags",
        &Words(&[
            ("none", StatsdTags::None),
            ("dogstatsd", StatsdTags::DogStatsd),
            ("influx", StatsdTags::Influx),
        ]),
        r#""none""#,
        r#""dogstatsd""#,
        "Where labels go. `\"none\"`: they are parts of the name. `\"dogstatsd\"`: tags as Datadog's \
         agent takes them, `lockgate.requests_total:3|c|#site:app.example.com`. `\"influx\"`: tags as \
         Telegraf takes them, `lockgate.requests_total,site=app.example.com:3|c`. Telegraf's counts are whole \
         numbers, so what is counted in seconds is a gauge for it: the total since the start.",
    )
    .with(STATSD_ADDRESS);

    const PREFIX: ConfigKey<String> = PREFIX_OF_SINK.with(STATSD_ADDRESS);

    const EVERY: ConfigKey<Duration> = EVERY_OF_SINK.with(STATSD_ADDRESS);
}

table! {
    mod influx;

    const URL: ConfigKey<InfluxTarget> = ConfigKey::new(
        "url",
        &InfluxAddress,
        Required,
        r#""https://influx.example.com/api/v2/write?org=ops&bucket=lockgate""#,
        "Where lines go. The query of InfluxDB 1 may have user and password, `u=NAME&p=PASSWORD`; it is \
         never shown.",
    );

    const TOKEN: ConfigKey<SecretText> = ConfigKey::new(
        "token",
        &AccessToken,
        Absent("requests have no Authorization field"),
        r#""${file:/etc/lockgate/influx.token}""#,
        "The token of InfluxDB 2, sent as `Authorization: Token …`.",
    )
    .with(INFLUX_URL);

    const CA: Defaulted<AuthoritySource> = CA_OF_SINK.with(INFLUX_URL);

    const EVERY: ConfigKey<Duration> = EVERY_OF_SINK.with(INFLUX_URL);
}

table! {
    mod otlp;

    const URL: ConfigKey<OtlpUrl> = ConfigKey::new(
        "url",
        &OtlpAddress,
        Required,
        r#""https://otlp.example.com""#,
        "The URL without the path of a signal, often with port 4318. A name is resolved with each \
         connection.",
    );

    const HEADERS: ConfigKey<MapOf<SecretText>> = ConfigKey::new(
        "headers",
        &Map { names: MapKeys::SentFields, of: SecretFieldValue, beside: &[] },
        Absent("requests have no further fields"),
        r#"{ authorization = "Bearer ${file:/etc/lockgate/otlp.token}" }"#,
        "Further fields of the requests. Their values are never shown.",
    )
    .with(OTLP_URL);

    const CA: Defaulted<AuthoritySource> = CA_OF_SINK.with(r#"url = "https://otlp.example.com""#);

    const COMPRESSION: Defaulted<Option<Coding>> = ConfigKey::defaulted(
        "compression",
        &Words(&[("gzip", Some(Coding::Gzip)), ("none", None)]),
        r#""gzip""#,
        r#""none""#,
        "Whether the bodies of requests are compressed.",
    )
    .with(OTLP_URL);

    const METRICS: Defaulted<bool> = ConfigKey::defaulted(
        "metrics",
        &Flag,
        "true",
        "false",
        "Whether the figures are pushed. Names are those of `/metrics`; counters and histograms are \
         cumulative.",
    )
    .with(OTLP_URL);

    const TRACES: Defaulted<Option<TraceShare>> = ConfigKey::defaulted(
        "traces",
        &TRACE_SHARE,
        r#""1%""#,
        r#""parent""#,
        "The share of requests without a `traceparent` with which a trace begins that is recorded: \
         `\"1%\"`, `0.01`, `true` for all, `\"parent\"` for none. A request with a `traceparent` is \
         recorded if that says so, unless `traces` is `false`. In paths and sites with `trace`, that \
         share counts instead. Of a recorded request there are two spans, one as the server of the \
         client and one as the client of the endpoint, which gets that one's id. Spans are sent about \
         every second, whatever `every` says.",
    )
    .with(OTLP_URL);

    const SERVICE: Defaulted<String> = ConfigKey::defaulted(
        "service",
        &Identifier,
        r#""lockgate""#,
        r#""edge""#,
        "The attribute `service.name` of the resource: the same for all machines that serve the same.",
    )
    .with(OTLP_URL);

    const EVERY: ConfigKey<Duration> = EVERY_OF_SINK.with(OTLP_URL);
}

const TRACE_SHARE: Either<Option<TraceShare>> = Either(&[
    &As(Flag, all_or_no_traces),
    &As(TracePercent, Some),
    &As(TraceRatio, Some),
]);
