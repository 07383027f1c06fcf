//! OpenTelemetry's protocol: a collector of the test gets figures and spans of requests.

use std::sync::{Arc, Mutex};

use lockgate_content::coding::{Coded, decode_all};
use lockgate_testkit::protobuf::ProtoMessage;
use lockgate_testkit::{
    Authority, Folder, Http, Lockgate, Message, Origin, Serving, Tls, eventually, server_config,
};

use crate::http::plain_site;
use crate::reload::reload;
use crate::scene::{Site, deserted, lockgate, text};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SAMPLED: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const UNSAMPLED: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";

const TAKEN: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

/// A program that keeps what it gets.
struct Collector {
    serving: Serving,
    got: Arc<Mutex<Vec<Message>>>,
}

impl Collector {
    /// Gives these responses, one after the other, and then takes everything.
    fn start(first: &[&str]) -> Self {
        let got = Arc::<Mutex<Vec<Message>>>::default();
        let first: Vec<_> = first.iter().map(|short| to_response(short)).collect();
        let kept = Arc::clone(&got);
        let serving = Origin::tcp().answering(move |request| {
            let mut kept = kept.lock().unwrap();
            kept.push(request.clone());
            let response = first.get(kept.len() - 1).map_or(TAKEN, String::as_str);
            response.as_bytes().to_vec()
        });
        Self { serving, got }
    }

    fn url(&self) -> String {
        format!("http://{}", self.serving.address())
    }

    /// The bodies that came to this path.
    fn requests(&self, path: &str) -> Vec<Message> {
        let line = format!("POST {path} HTTP/1.1");
        let got = self.got.lock().unwrap();
        got.iter()
            .filter(|request| request.first_line() == line)
            .cloned()
            .collect()
    }

    /// All spans so far.
    fn spans(&self) -> Vec<ProtoMessage> {
        let requests = self.requests("/v1/traces");
        requests
            .iter()
            .flat_map(|request| {
                let scope = decoded(request).message(1).message(2);
                scope.messages(2).collect::<Vec<_>>()
            })
            .collect()
    }

    /// Waits for so many spans.
    fn wait_for_spans(&self, count: usize) -> Vec<ProtoMessage> {
        eventually("spans", || {
            let spans = self.spans();
            (spans.len() >= count).then_some(spans)
        })
    }
}

/// A response: `503`, `400`, or the body of a 200.
fn to_response(short: &str) -> String {
    match short {
        "503" => "HTTP/1.1 503 Busy\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n".to_owned(),
        "400" => "HTTP/1.1 400 Bad\r\nContent-Length: 3\r\n\r\nbad".to_owned(),
        body => format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ),
    }
}

/// The message in the body of a request.
fn decoded(request: &Message) -> ProtoMessage {
    assert_eq!(
        request.field("content-type"),
        Some("application/x-protobuf")
    );
    match request.field("content-encoding") {
        None => ProtoMessage::parse(&request.body),
        Some(coding) => {
            assert_eq!(coding, "gzip");
            let body = decode_all(Coded::Gzip, &request.body, 4 << 20).unwrap();
            ProtoMessage::parse(&body)
        }
    }
}

/// An application that responds with what it got as `traceparent`.
fn application() -> Serving {
    Origin::tcp().answering(|request| {
        if request.first_line().contains("/odd") {
            // RFC 9112 §6.3 rule 5: no proxy may hand this on.
            let response = "HTTP/1.1 201 Odd\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nodd";
            return response.as_bytes().to_vec();
        }
        let body = request.field("traceparent").unwrap_or("none");
        let status = match request.first_line() {
            line if line.contains("/fail") => "500 Broken",
            _ => "200 OK",
        };
        let length = body.len();
        format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes()
    })
}

/// Asks for a target with these lines in the head.
fn ask(gate: &Lockgate, target: &str, lines: &str) -> Message {
    let mut client = Http::connect(gate.address());
    client.send(format!(
        "GET {target} HTTP/1.1\r\nHost: a.test:8080\r\n{lines}\r\n"
    ));
    client.answer()
}

/// An attribute of a span as text; empty where it has none.
fn attribute(span: &ProtoMessage, key: &str) -> String {
    let found = span.messages(9).find(|pair| pair.text(1) == key);
    found.map_or_else(String::new, |pair| {
        let value = pair.message(2);
        match value.number(3).or(value.number(2)) {
            Some(number) => number.to_string(),
            None => value.text(1).to_owned(),
        }
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A site in front of `to`, with spans for `collector`; `traces` as in the configuration.
fn traced(collector: &Collector, traces: &str, to: &str) -> String {
    let url = collector.url();
    format!(
        "[export]\notlp = {{ url = \"{url}\", metrics = false, traces = {traces} }}\n{}",
        plain_site(to)
    )
}

#[test]
fn a_sampled_request_is_a_server_span_with_a_client_child() {
    let (collector, origin) = (Collector::start(&[]), application());
    let gate = lockgate().start(&traced(&collector, "\"parent\"", origin.address()));
    let lines = format!("Traceparent: {SAMPLED}\r\nTracestate: a=1\r\n");
    let told = ask(&gate, "/a/b?token=secret", &lines);
    let told: Vec<_> = told.text().split('-').map(str::to_owned).collect();
    assert_eq!((&*told[0], &*told[1], &*told[3]), ("00", TRACE, "01"));
    let line = gate.line("its line", |line| line["trace_id"] == TRACE);
    assert_eq!(line["status"], 200);
    let spans = collector.wait_for_spans(2);
    let [server, client] = &spans[..] else {
        panic!("{} spans", spans.len());
    };
    for span in [server, client] {
        assert_eq!(hex(span.bytes(1)), TRACE);
        assert!(span.number(7) <= span.number(8));
        assert!(!span.has(15), "it has not failed");
        let of_span = |key| attribute(span, key);
        assert_eq!(of_span("http.request.method"), "GET");
        assert_eq!(of_span("http.response.status_code"), "200");
        assert_eq!(of_span("lockgate.endpoint"), origin.address());
        let is_secret = |pair: ProtoMessage| pair.message(2).text(1).contains("secret");
        assert!(!span.messages(9).any(is_secret));
    }
    // Ours belongs to that of the client, and that of the application to our request to it.
    assert_eq!(hex(server.bytes(4)), "00f067aa0ba902b7");
    assert_eq!(client.bytes(4), server.bytes(2));
    assert_eq!(hex(client.bytes(2)), told[2]);
    assert_ne!(client.bytes(2), server.bytes(2));
    // SPAN_KIND_SERVER, SPAN_KIND_CLIENT; sampled, and whether the parent is remote.
    assert_eq!((server.number(6), client.number(6)), (Some(2), Some(3)));
    assert_eq!(
        (server.number(16), client.number(16)),
        (Some(0x301), Some(0x101))
    );
    assert_eq!((server.text(5), client.text(5)), ("GET", "GET"));
    for (key, value) in [
        ("url.path", "/a/b"),
        ("url.scheme", "http"),
        ("server.address", "a.test"),
        ("server.port", "8080"),
        ("network.protocol.version", "1.1"),
        ("client.address", "127.0.0.1"),
        ("lockgate.site", ":0"),
        ("error.type", ""),
    ] {
        assert_eq!(attribute(server, key), value, "{key}");
    }
    let (host, port) = origin.address().rsplit_once(':').unwrap();
    assert_eq!(attribute(client, "server.address"), host);
    assert_eq!(attribute(client, "server.port"), port);
    // The child lies within its parent, with the first byte within it.
    assert!(server.number(7) <= client.number(7) && client.number(8) <= server.number(8));
    let events: Vec<_> = client.messages(11).collect();
    let names: Vec<_> = events.iter().map(|event| event.text(2)).collect();
    assert_eq!(names, ["connected", "first_byte"]);
    let mut times = vec![client.number(7)];
    times.extend(events.iter().map(|event| event.number(1)));
    times.push(client.number(8));
    assert!(times.is_sorted(), "{times:?}");
    gate.wait_for_sample("lockgate_export_spans_total", &[], 2.0);
}

#[test]
fn requests_of_unsampled_traces_send_no_spans() {
    let (collector, origin) = (Collector::start(&[]), application());
    let gate = lockgate().start(&traced(&collector, "\"parent\"", origin.address()));
    let unsampled = format!("Traceparent: {UNSAMPLED}\r\n");
    assert_eq!(ask(&gate, "/", &unsampled).text(), UNSAMPLED);
    assert_eq!(ask(&gate, "/", "").text(), "none");
    // RFC 9110 §7.6.1: it was for us only, and is none.
    let hidden = format!("Connection: traceparent\r\nTraceparent: {SAMPLED}\r\n");
    assert_eq!(ask(&gate, "/", &hidden).text(), "none");
    ask(&gate, "/last", &format!("Traceparent: {SAMPLED}\r\n"));
    // Spans come in the order of their requests.
    let spans = collector.wait_for_spans(2);
    assert_eq!(spans.len(), 2);
    assert_eq!(attribute(&spans[0], "url.path"), "/last");
}

#[test]
fn a_trace_begins_with_the_share_of_the_sink_or_of_the_route() {
    let (collector, origin) = (Collector::start(&[]), application());
    let toml = traced(&collector, "true", origin.address())
        + "[site.\":0\".path.\"/parts/*\"]\ntrace = \"50%\"\n";
    let gate = lockgate().start(&toml);
    let told = ask(&gate, "/all", "Tracestate: a=1\r\n");
    let told: Vec<_> = told.text().split('-').map(str::to_owned).collect();
    let spans = collector.wait_for_spans(2);
    assert_eq!(
        (hex(spans[0].bytes(1)), hex(spans[1].bytes(2))),
        (told[1].clone(), told[2].clone())
    );
    assert_eq!((spans[0].has(4), spans[0].number(16)), (false, Some(0x101)));
    assert_eq!(told[3], "01");
    // Of a route with a share of its own, that decides.
    let mut sampled = 0;
    for _ in 0..100 {
        sampled += usize::from(ask(&gate, "/parts/1", "").text().ends_with("-01"));
    }
    assert!((1..100).contains(&sampled), "{sampled}");
    ask(&gate, "/all", "");
    let spans = collector.wait_for_spans(2 + 2 * sampled + 2);
    assert_eq!(spans.len(), 2 + 2 * sampled + 2);
    assert_eq!(spans[2].text(5), "GET /parts/*");
    assert_eq!(attribute(&spans[2], "http.route"), "/parts/*");
}

#[test]
fn a_failed_request_has_spans_that_tell_why() {
    let (collector, origin) = (Collector::start(&[]), application());
    let toml = traced(&collector, "true", origin.address())
        + &format!(
            "[site.\":0\".path.\"/away\"]\nproxy = \"{}\"\n\
             [site.\":0\".path.\"/no\"]\ndeny = [\"127.0.0.1\"]\n",
            deserted()
        );
    let gate = lockgate().start(&toml);
    assert_eq!(ask(&gate, "/fail", "").status(), 500);
    assert_eq!(ask(&gate, "/away", "").status(), 502);
    assert_eq!(ask(&gate, "/no", "").status(), 403);
    assert_eq!(ask(&gate, "/odd", "").status(), 502);
    let spans = collector.wait_for_spans(6);
    let found: Vec<_> = spans
        .iter()
        .map(|span| {
            let of_span = |key| attribute(span, key);
            let keys = ["http.response.status_code", "error.type", "lockgate.cause"];
            // STATUS_CODE_ERROR.
            let has_failed = span.message(15).number(3) == Some(2);
            (span.number(6) == Some(2), keys.map(of_span), has_failed)
        })
        .collect();
    let row = |is_server, texts: [&str; 3], failed| (is_server, texts.map(str::to_owned), failed);
    assert_eq!(
        found,
        [
            row(true, ["500", "500", ""], true),
            row(false, ["500", "500", ""], true),
            row(true, ["502", "connect_failed", "connect_failed"], true),
            // For a server, what it refuses has not failed.
            row(true, ["403", "", "refused_by_rule"], false),
            row(true, ["502", "refused_by_rule", "refused_by_rule"], true),
            // The endpoint has responded with another status than the client got.
            row(false, ["201", "refused_by_rule", ""], true),
        ]
    );
}

#[test]
fn masked_addresses_are_masked_in_spans() {
    let (collector, origin) = (Collector::start(&[]), application());
    let toml = "access_log = { to = \"stdout\", mask_ip = true }\n".to_owned()
        + &traced(&collector, "true", origin.address());
    let gate = lockgate().start(&toml);
    ask(&gate, "/", "");
    let spans = collector.wait_for_spans(1);
    assert_eq!(attribute(&spans[0], "client.address"), "127.0.0.0");
}

#[test]
fn spans_are_sent_again_to_a_busy_sink_and_rejected_ones_are_counted() {
    // ExportTraceServiceResponse.partial_success: 1; rejected_spans: 1, error_message: 2.
    let rejected = "\x0a\x09\x08\x01\x12\x05stale";
    let collector = Collector::start(&["503", rejected, rejected, "400"]);
    let origin = application();
    let gate = lockgate().start(&traced(&collector, "true", origin.address()));
    ask(&gate, "/1", "");
    gate.says("spans cannot be sent");
    gate.wait_for_sample("lockgate_export_spans_total", &[], 1.0);
    let requests = collector.requests("/v1/traces");
    assert_eq!(requests[0].body, requests[1].body);
    let refused = ["reason=\"refused\""];
    assert_eq!(
        gate.sample("lockgate_export_lost_spans_total", &refused),
        1.0
    );
    let said = gate.says("a part of what is sent is rejected");
    assert_eq!(
        (said["rejected"].as_u64(), said["why"].as_str()),
        (Some(1), Some("stale"))
    );
    gate.says("spans are sent again");
    ask(&gate, "/2", "");
    gate.wait_for_sample("lockgate_export_spans_total", &[], 2.0);
    // What is malformed for it stays so.
    ask(&gate, "/3", "");
    gate.wait_for_sample("lockgate_export_lost_spans_total", &refused, 4.0);
    gate.says("spans are refused");
    ask(&gate, "/4", "");
    gate.wait_for_sample("lockgate_export_spans_total", &[], 4.0);
    let paths: Vec<_> = collector
        .spans()
        .iter()
        .step_by(2)
        .map(|span| attribute(span, "url.path"))
        .collect();
    assert_eq!(paths, ["/1", "/1", "/2", "/3", "/4"]);
    let warned = gate.stderr().json();
    let warned = warned
        .iter()
        .filter(|line| line["rejected"].is_u64())
        .count();
    assert_eq!(warned, 1);
}

#[test]
fn a_sink_that_is_down_or_never_reads_holds_up_no_request() {
    let silent = Origin::tcp();
    for url in [
        format!("http://{}", deserted()),
        format!("http://{}", silent.address()),
    ] {
        let origin = application();
        let toml = format!(
            "[export]\notlp = {{ url = \"{url}\", traces = true, every = \"1h\" }}\n{}",
            plain_site(origin.address())
        );
        let gate = lockgate().workers(2).start(&toml);
        for _ in 0..300 {
            assert_eq!(ask(&gate, "/", "").status(), 200);
        }
        let address = url.strip_prefix("http://").unwrap();
        let shown = gate.metrics();
        assert!(shown.contains(&format!(
            "lockgate_export_spans_total{{sink=\"otlp:{address}\"}} 0"
        )));
        let ended = gate.stop();
        assert!(
            ended.stderr.contains("the last spans could not be sent"),
            "{}",
            ended.stderr
        );
        assert!(ended.stderr.contains("\"spans\":600"), "{}", ended.stderr);
    }
}

#[test]
fn a_collector_gets_the_figures_with_its_fields_and_a_last_time_at_a_stop() {
    let (collector, folder) = (Collector::start(&[]), Folder::new());
    let token = text(&folder.write("token", "s3cret\n"));
    let toml = format!(
        "[export]\nevery = \"1h\"\nonly = [\"lockgate_request\"]\n\
         otlp = {{ url = \"{}/otlp/\", traces = false, service = \"edge\", \
         headers = {{ Authorization = \"Bearer ${{file:{token}}}\" }} }}\n\
         [site.\":0\"]\nlisten = [\"127.0.0.1\"]\nrespond = \"hi\"\n",
        collector.url()
    );
    let gate = lockgate().start(&toml);
    for _ in 0..3 {
        ask(&gate, "/", "");
    }
    gate.wait_for_sample("lockgate_requests_total", &[], 3.0);
    let shown = gate.metrics() + &gate.stderr().text();
    assert!(!shown.contains("s3cret"));
    let pid = gate.pid();
    gate.stop();
    let requests = collector.requests("/otlp/v1/metrics");
    let request = requests.last().unwrap();
    assert_eq!(request.field("authorization"), Some("Bearer s3cret"));
    assert_eq!(request.field("content-encoding"), Some("gzip"));
    let of_resource = decoded(request).message(1);
    let resource: Vec<_> = of_resource.message(1).messages(1).collect();
    let resource: Vec<_> = resource
        .iter()
        .map(|pair| (pair.text(1), pair.message(2).text(1).to_owned()))
        .collect();
    assert_eq!(resource[0], ("service.name", "edge".to_owned()));
    assert_eq!(resource[1].0, "service.instance.id");
    assert!(resource[1].1.ends_with(&format!(":{pid}")));
    let metrics: Vec<_> = of_resource.message(2).messages(2).collect();
    assert!(
        metrics
            .iter()
            .all(|metric| metric.text(1).starts_with("lockgate_request"))
    );
    let named = |name: &str| {
        metrics
            .iter()
            .find(|metric| metric.text(1) == name)
            .unwrap()
    };
    let points: Vec<_> = named("lockgate_requests_total")
        .message(7)
        .messages(1)
        .collect();
    assert_eq!(
        points
            .iter()
            .filter_map(|point| point.number(6))
            .sum::<u64>(),
        3
    );
    let points: Vec<_> = named("lockgate_request_duration_seconds")
        .message(9)
        .messages(1)
        .collect();
    assert_eq!(
        points
            .iter()
            .filter_map(|point| point.number(4))
            .sum::<u64>(),
        3
    );
    assert_eq!(points[0].packed64(6).iter().sum::<u64>(), 3);
}

#[test]
fn a_collector_over_tls_is_verified_by_the_configured_authority() {
    let (site, collector) = (Site::new(), Origin::tcp());
    let authority = text(&site.folder.write("ca.pem", site.authority.pem()));
    let other = Authority::new("Other Authority").pem();
    let other = text(&site.folder.write("other.pem", other));
    let port = collector.socket_address().port();
    let served = server_config(&site.authority.issue(&["localhost"]), None);
    for (ca, is_trusted) in [(other, false), (authority, true)] {
        let toml = format!(
            "[export]\notlp = {{ url = \"https://localhost:{port}\", ca = \"{ca}\", \
             compression = \"none\", metrics = false, traces = true }}\n\
             [site.\":0\"]\nlisten = [\"127.0.0.1\"]\nrespond = \"hi\"\n"
        );
        let gate = lockgate().start(&toml);
        ask(&gate, "/", "");
        let accepted = Tls::accept(&served, collector.accept());
        assert_eq!(accepted.is_ok(), is_trusted, "{ca}");
        let Ok(stream) = accepted else {
            let said = gate.says("spans cannot be sent");
            assert!(said["why"].as_str().unwrap().starts_with("TLS: "), "{said}");
            continue;
        };
        let mut http = Http::over(stream);
        let request = http.request();
        assert_eq!(request.field("host"), Some(&*format!("localhost:{port}")));
        let scope = decoded(&request).message(1).message(2);
        assert_eq!(scope.messages(2).count(), 1);
        http.send(TAKEN);
        gate.wait_for_sample("lockgate_export_spans_total", &[], 1.0);
    }
}

#[test]
fn authorities_of_a_collector_are_read_again_when_they_change() {
    let (site, collector) = (Site::new(), Origin::tcp());
    let other = Authority::new("Other Authority").pem();
    let ca = text(&site.folder.write("sink-ca.pem", other));
    let port = collector.socket_address().port();
    let served = server_config(&site.authority.issue(&["localhost"]), None);
    let gate = lockgate().start(&format!(
        "[export]\notlp = {{ url = \"https://localhost:{port}\", ca = \"{ca}\", metrics = false, \
         traces = true }}\n[site.\":0\"]\nlisten = [\"127.0.0.1\"]\nrespond = \"hi\"\n"
    ));
    ask(&gate, "/", "");
    assert!(Tls::accept(&served, collector.accept()).is_err());
    site.folder.write("sink-ca.pem", site.authority.pem());
    gate.says("authorities of sinks of `export` replaced");
    // The same spans come again.
    let stream = loop {
        if let Ok(stream) = Tls::accept(&served, collector.accept()) {
            break stream;
        }
    };
    let mut http = Http::over(stream);
    let scope = decoded(&http.request()).message(1).message(2);
    assert_eq!(scope.messages(2).count(), 1);
    http.send(TAKEN);
    gate.wait_for_sample("lockgate_export_spans_total", &[], 1.0);
}

#[test]
fn a_reload_moves_spans_without_loss_and_ends_them() {
    let (before, after, origin) = (Collector::start(&[]), Collector::start(&[]), application());
    let gate = lockgate().start(&traced(&before, "true", origin.address()));
    ask(&gate, "/before", "");
    reload(&gate, &traced(&after, "true", origin.address()));
    ask(&gate, "/after", "");
    // The worker hands its spans over with its next tick, to whichever task there is.
    let all = eventually("all spans", || {
        let all: Vec<_> = before.spans().into_iter().chain(after.spans()).collect();
        (all.len() == 4).then_some(all)
    });
    let paths: Vec<_> = all.iter().map(|span| attribute(span, "url.path")).collect();
    assert_eq!(paths, ["/before", "", "/after", ""]);
    reload(&gate, &plain_site(origin.address()));
    assert_eq!(ask(&gate, "/none", "").text(), "none");
    assert!(!gate.metrics().contains("lockgate_export_spans_total"));
}
