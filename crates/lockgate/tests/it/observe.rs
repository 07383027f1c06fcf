//! `docs/observe.md` is made from the program, and the alert rules are compared with it.
//!
//! `LOCKGATE_WRITE_DOCS=1 cargo test -p lockgate --test it observe` writes the document anew.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use http::Method;
use lockgate_proxy::access_log::reference::{CONNECTION, EXCHANGE, LogField};
use lockgate_proxy::access_log::{Cause, CauseSide};
use lockgate_rules::METRIC_NAMES;
use lockgate_testkit::exposition::{Parsed, parse};
use lockgate_testkit::h2::frame::{frame, kind};
use lockgate_testkit::h2::{Client, Peer};
use lockgate_testkit::{Http, Lockgate, Origin, Serving, Wire, eventually};

use crate::ddns::zone_server::ZoneServer;
use crate::ddns::{AddressServer, ddns, wait_shown};
use crate::docs::root;
use crate::http::{plain_site, secure_site};
use crate::scene::{NAME, Site, deserted, lockgate};

/// The text before the tables.
const BEGINNING: &str = "\
# What Lockgate shows

This page lists every cause, every field of the access log and every metric. It is made from the program: do not edit it.

| to watch | use |
|---|---|
| what happened to one request | the access log: `access_log` in the configuration, standard output by default |
| what Lockgate did itself | the operator log on standard error: starts, certificates, endpoints that fail and come back |
| what happens now, and in the last hour | the [live page](guides/change.md#watch): `/` of the metrics address |
| the same in a terminal, and each connection | [`lockgate top`, `tail`, `connections`](admin.md) at the admin socket |
| trends and alerts | the metrics address: `metrics = \"127.0.0.1:9090\"`, then `/metrics` for Prometheus; or [pushed](guides/export.md) to Graphite, statsd, InfluxDB or OpenTelemetry |
| where the time of single requests goes, through all programs | [spans](guides/export.md#opentelemetry) sent to a collector of OpenTelemetry |
| the busiest clients, hosts and pages, now | `/top` at the metrics address, as JSON |
| whether a load balancer may send traffic | `/ready`: 200, and 503 from the moment that a stop begins; a second line names certificates that are awaited; `/health`: 200 while the process lives |

[packaging/prometheus-alerts.yml](../packaging/prometheus-alerts.yml) has alert rules, [packaging/grafana](../packaging/grafana) the same
dashboard of Grafana for Prometheus and for Graphite. Names and labels change only with a line in the [change log](../CHANGELOG.md).

Three questions that come up most:

- **Which side is at fault?** The field `side`, and the label `cause` of `lockgate_request_errors_total`.
- **Where did the time go?** `wait_seconds` + `connect_seconds` + `first_byte_seconds` + `body_seconds` is `duration_seconds`.
  A large `first_byte_seconds` is the application's, a large `body_seconds` mostly the client's network.
- **Is it near a limit?** `lockgate_connections` beside `lockgate_connections_limit`, `lockgate_requests_queued`, and the cause
  `limit`.
";

/// Labels of every histogram's buckets, which readers do not need.
const BUCKET: &str = "le";

/// An application that accepts a WebSocket at `/chat` and answers everything else.
fn application() -> Serving {
    Origin::tcp().answering(|request| match request.first_line().split(' ').nth(1) {
        Some("/chat") => {
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
            Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
                .to_vec()
        }
        _ => b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec(),
    })
}

/// A program that has counted something in each of its families: sites over both versions of HTTP,
/// a relay, a tunnel, an endpoint that is down, a client that breaks HTTP/2, a handshake that
/// fails, a call of gRPC, a name that is kept at an address. With the Graphite that gets its figures
/// when it stops, and its other peers.
pub(crate) fn everything() -> (Lockgate, Origin, impl Sized) {
    let (site, application, echo) = (Site::new(), application(), Origin::tcp().echo());
    let graphite = Origin::tcp();
    let (zone, addresses) = (ZoneServer::start(), AddressServer::start("8.8.4.4"));
    // Its authority cannot be reached.
    let state = tempfile::tempdir().unwrap();
    let toml = format!(
        "state = \"{6}\"\nexport = {{ graphite = \"{10}\", otlp = \"http://{8}\", every = \"1h\" }}\n\
         acme = {{ directory = \"https://{2}/dir\", ca = \"{7}\" }}\n\
         [site.\"managed.example.com:0\"]\ntls = {{}}\nlisten = [\"127.0.0.5\"]\nrespond = \"\"\n\
         [pool.app]\nendpoints = [\"{0}\", \"{1}\"]\nhealth = {{ path = \"/health\", every = \"50ms\" }}\n\
         [pool.broken]\nendpoints = [\"{1}\", \"{2}\"]\n{3}{4}\
         [site.\":0\".path.\"/broken\"]\nproxy = \"pool:broken\"\n\
         [tcp.\"127.0.0.3:0\"]\nproxy = \"{5}\"\n\
         [tunnel.\"127.0.0.4:0\"]\nallow = [\"127.0.0.0/8:*\"]\n{9}",
        application.address(),
        deserted(),
        deserted(),
        plain_site("pool:app"),
        secure_site(&site.cert, application.address()),
        echo.address(),
        state.path().display(),
        site.cert,
        deserted(),
        ddns(&zone, &addresses, "[\"home.example.org\"]"),
        graphite.address(),
    );
    let gate = lockgate().start(&toml);
    let mut client = Http::connect(gate.at("127.0.0.1:0"));
    for path in ["/", "/broken", "/"] {
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a.test\r\n\r\n"));
        client.answer();
    }
    client.send(
        "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
    );
    assert!(client.head().starts_with("HTTP/1.1 101"));
    let secure = gate.at("127.0.0.2:0");
    let browser = Client::connect_tls(&site.client(), secure, NAME);
    assert_eq!(browser.get("/").status, 200);
    // Refused, which ends a call of gRPC with a status.
    let mut call = Client::request(Method::POST, "/../call");
    call.headers_mut()
        .append("content-type", "application/grpc".parse().unwrap());
    browser.begin(call, true).answer();
    let mut stranger = Wire::connect(secure);
    stranger.send("no TLS at all, and too long to be a ClientHello");
    stranger.wait_closed();
    let mut peer = Peer::connect_tls(&site.client(), secure, NAME);
    // RFC 9113 §6.5: SETTINGS on a stream.
    peer.send(frame(kind::SETTINGS, 0, 1, []));
    while let Ok(Some(_)) = peer.try_next() {}
    let mut relay = Wire::connect(gate.at("127.0.0.3:0"));
    relay.send("ping");
    relay.expect("ping");
    relay.finish();
    relay.expect_end();
    let mut tunnel = Http::connect(gate.at("127.0.0.4:0"));
    tunnel.send(format!(
        "CONNECT {0} HTTP/1.1\r\nHost: {0}\r\n\r\n",
        echo.address()
    ));
    tunnel.head();
    drop(tunnel);
    gate.line("the relay", |line| line["listener"] == "127.0.0.3:0");
    wait_shown(&gate, "home.example.org", "8.8.4.4");
    (gate, graphite, (application, echo, zone, addresses))
}

/// The labels of a family, in the order in which they are written.
fn labels(family: &Parsed) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for (_, labels, _) in &family.samples {
        for (label, _) in labels {
            if label != BUCKET && !names.contains(&label.as_str()) {
                names.push(label);
            }
        }
    }
    names
}

/// A scrape once each family has a sample: some wait for a tick, others for a check.
pub(crate) fn families(gate: &Lockgate) -> Vec<Parsed> {
    let mut missing = Vec::new();
    eventually("every family has a sample", || {
        let families = parse(&gate.metrics());
        let empty = families.iter().filter(|family| family.samples.is_empty());
        let names: Vec<_> = empty.map(|family| family.name.clone()).collect();
        if missing != names {
            println!("without a sample: {names:?}");
            missing = names;
        }
        missing.is_empty().then_some(families)
    })
}

fn fields(out: &mut String, table: &[LogField]) {
    out.push_str("| field | meaning |\n|---|---|\n");
    for LogField { name, meaning } in table {
        let _ = writeln!(out, "| `{name}` | {meaning} |");
    }
}

/// The document as the program has it.
fn document(families: &[Parsed]) -> String {
    let mut out = BEGINNING.to_owned();
    out.push_str("\n## Causes\n\nThe field `cause` of the access log and the label `cause` of metrics are one of these.\n\n");
    out.push_str("| cause | meaning | what to do if there are many |\n|---|---|---|\n");
    for cause in Cause::ALL {
        let _ = writeln!(
            out,
            "| `{}` | {} | {} |",
            cause.as_str(),
            cause.meaning(),
            cause.remedy()
        );
    }
    out.push_str("\nThe field `side` says where it went wrong: ");
    let sides = CauseSide::ALL.map(|side| format!("`{}` is {}", side.as_str(), side.meaning()));
    let _ = writeln!(out, "{}.", sides.join("; "));
    out.push_str(
        "\n## The access log: a request\n\nOne line for each request, when its answer has ended. ",
    );
    out.push_str("A field that does not apply is left out.\n\n");
    fields(&mut out, EXCHANGE);
    out.push_str("\n## The access log: a connection\n\nOne line for each relayed connection, tunnel and upgrade when it ends, ");
    out.push_str("and for each connection that ended before its first request. A connection without a byte is only counted.\n\n");
    fields(&mut out, CONNECTION);
    out.push_str("\n## Metrics\n\nThe metrics address serves them at `/metrics` in Prometheus' text format. Counters begin at 0 with the process.\n\n");
    out.push_str("| metric | type | labels | meaning |\n|---|---|---|---|\n");
    let sorted: BTreeMap<_, _> = families
        .iter()
        .map(|family| (&family.name, family))
        .collect();
    for (name, family) in sorted {
        let labels: Vec<_> = labels(family)
            .iter()
            .map(|label| format!("`{label}`"))
            .collect();
        let _ = writeln!(
            out,
            "| `{name}` | {} | {} | {} |",
            family.kind,
            labels.join(", "),
            family.help
        );
    }
    out
}

#[test]
fn observe_md_matches_the_metrics_log_fields_and_causes() {
    let (gate, _graphite, _peers) = everything();
    let text = document(&families(&gate));
    let path = root().join("docs/observe.md");
    if std::env::var_os("LOCKGATE_WRITE_DOCS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == text,
        "docs/observe.md is not what the program shows; write it with LOCKGATE_WRITE_DOCS=1"
    );
}

#[test]
fn the_names_of_all_metrics_are_those_that_the_program_shows() {
    let (gate, _graphite, _peers) = everything();
    let families = families(&gate);
    let shown: BTreeSet<_> = families.iter().map(|family| family.name.as_str()).collect();
    let known: BTreeSet<_> = METRIC_NAMES.iter().copied().collect();
    assert_eq!(shown, known);
}

/// The names that begin with `lockgate_` in a text.
pub(crate) fn metric_names(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("lockgate_")).collect()
}

#[test]
fn alert_rules_query_existing_metrics() {
    let (gate, _graphite, _peers) = everything();
    let mut exposed = BTreeSet::new();
    for family in families(&gate) {
        exposed.extend(family.samples.into_iter().map(|(name, ..)| name));
    }
    let file = "packaging/prometheus-alerts.yml";
    let text = std::fs::read_to_string(root().join(file)).unwrap();
    let named = metric_names(&text);
    assert!(named.len() > 5, "{file} asks for {named:?}");
    let unknown: Vec<_> = named
        .iter()
        .filter(|name| !exposed.contains(**name))
        .collect();
    assert!(
        unknown.is_empty(),
        "{file} asks for metrics that are not there: {unknown:?}"
    );
}
