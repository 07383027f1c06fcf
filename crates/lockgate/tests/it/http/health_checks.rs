//! Active health checks: their requests, when they take an endpoint out of its pool and back, and
//! responses meanwhile.
//!
//! Checks of one endpoint follow each other, so the result of one is known when the next one comes.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};

use lockgate_testkit::{DEADLINE, Http, Lockgate, Message, Origin, Serving, Tls, server_config};

use super::{ask, get, ok, pooled, with_body};
use crate::scene::{NAME, Site, deserted, lockgate, text};

const BAD: &[u8] = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n";

fn up(gate: &Lockgate, endpoint: &str) -> f64 {
    gate.sample(
        "lockgate_upstream_up",
        &[&format!("endpoint=\"{endpoint}\"")],
    )
}

/// Answers `/health` by its state, and every other request with its name.
struct App {
    serving: Serving,
    well: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
}

impl App {
    fn new(name: &'static str, well: bool) -> Self {
        let (well, asked) = (
            Arc::new(AtomicBool::new(well)),
            Arc::new(AtomicUsize::new(0)),
        );
        let (is_well, count) = (Arc::clone(&well), Arc::clone(&asked));
        let serving = Origin::tcp().answering(move |request| match request.first_line() {
            "GET /health HTTP/1.1" if is_well.load(Ordering::SeqCst) => ok("fine"),
            "GET /health HTTP/1.1" => BAD.to_vec(),
            _ => {
                count.fetch_add(1, Ordering::SeqCst);
                ok(name)
            }
        });
        Self {
            serving,
            well,
            asked,
        }
    }

    fn set(&self, well: bool) {
        self.well.store(well, Ordering::SeqCst);
    }

    fn wait_until_up(&self, gate: &Lockgate, up: f64) {
        let label = format!("endpoint=\"{}\"", self.serving.address());
        gate.wait_for_sample("lockgate_upstream_up", &[&label], up);
    }
}

#[test]
fn health_checks_count_fall_and_rise() {
    let app = Origin::tcp();
    let health = Origin::tcp();
    let port = health.socket_address().port();
    let gate = lockgate().workers(2).start(&pooled(format!(
        "endpoints = [\"{}\"]\nhealth = {{ path = \"/health?q\", every = \"10ms\", timeout = \"60s\", fall = 3, rise = 2, port = {port} }}",
        app.address()
    )));
    let mut check = health.http();
    // The result of the check before: nothing, before the first.
    for (at, (answer, before)) in [
        ('+', 1.0),
        ('-', 1.0),
        ('-', 1.0),
        ('+', 1.0),
        ('-', 1.0),
        ('-', 1.0),
        ('-', 1.0),
        ('-', 0.0),
        ('+', 0.0),
        ('-', 0.0),
        ('+', 0.0),
        ('+', 0.0),
        ('+', 1.0),
    ]
    .into_iter()
    .enumerate()
    {
        let request = check.request();
        assert_eq!(request.first_line(), "GET /health?q HTTP/1.1");
        assert_eq!(
            request.field("host"),
            Some(format!("127.0.0.1:{port}").as_str())
        );
        assert_eq!(up(&gate, &app.address()), before, "at check {at}");
        check.send(if answer == '+' { ok("") } else { BAD.to_vec() });
        check = health.http();
    }
    let down = gate.says("the endpoint is down");
    assert_eq!(
        (&down["endpoint"], &down["pool"]),
        (&app.address().into(), &"app".into()),
        "{down}"
    );
    assert_eq!(
        (&down["level"], &down["why"]),
        (&"WARN".into(), &"status 500".into()),
        "{down}"
    );
    let all = gate.says("every endpoint of the pool is down");
    assert_eq!(
        (&all["level"], &all["pool"]),
        (&"ERROR".into(), &"app".into()),
        "{all}"
    );
    assert_eq!(gate.says("the endpoint is up")["endpoint"], app.address());
}

#[test]
fn a_down_endpoint_gets_no_requests_until_it_is_up() {
    let (one, other) = (App::new("one", true), App::new("other", false));
    let gate = lockgate().workers(2).start(&pooled(format!(
        "endpoints = [\"{}\", \"{}\"]\nbalance = \"round-robin\"\n\
         health = {{ path = \"/health\", every = \"10ms\", timeout = \"60s\", fall = 1, rise = 1 }}",
        one.serving.address(),
        other.serving.address()
    )));
    other.wait_until_up(&gate, 0.0);
    let before = other.asked.load(Ordering::SeqCst);
    for _ in 0..30 {
        assert_eq!(ask(&gate).text(), "one");
    }
    assert_eq!(other.asked.load(Ordering::SeqCst), before);
    other.set(true);
    other.wait_until_up(&gate, 1.0);
    let mut answers: Vec<_> = (0..4).map(|_| ask(&gate).text().to_owned()).collect();
    answers.sort();
    assert_eq!(answers, ["one", "one", "other", "other"]);
}

#[test]
fn without_a_healthy_endpoint_requests_get_503() {
    let app = App::new("app", false);
    let mut gate = lockgate().workers(2).start(&pooled(format!(
        "endpoints = [\"{}\"]\nhealth = {{ path = \"/health\", every = \"10ms\", timeout = \"60s\", rise = 1 }}",
        app.serving.address()
    )));
    app.wait_until_up(&gate, 0.0);
    let answer = ask(&gate);
    assert_eq!(answer.status(), 503);
    let status = answer.field("proxy-status").unwrap();
    assert!(status.contains("error=destination_unavailable"), "{status}");
    assert!(
        answer.text().contains("the application is down"),
        "{}",
        answer.text()
    );
    let line = gate.next_line();
    assert_eq!(
        (&line["status"], &line["cause"]),
        (&503.into(), &"connect_failed".into()),
        "{line}"
    );
    assert_eq!(app.asked.load(Ordering::SeqCst), 0);
    app.set(true);
    app.wait_until_up(&gate, 1.0);
    assert_eq!(ask(&gate).text(), "app");
}

#[test]
fn maintenance_is_served_only_while_no_endpoint_is_up() {
    let app = App::new("app", false);
    let gate = lockgate().start(&pooled(format!(
        "endpoints = [\"{}\"]\nhealth = {{ path = \"/health\", every = \"10ms\", timeout = \"60s\", rise = 1, fall = 1 }}\n\
         queue = {{ max = 0 }}\n\
         maintenance = {{ status = 200, body = \"<p>back soon\", type = \"text/html\" }}",
        app.serving.address()
    )));
    for _ in 0..2 {
        app.set(false);
        app.wait_until_up(&gate, 0.0);
        let answer = ask(&gate);
        assert_eq!(
            (answer.status(), answer.text()),
            (200, "<p>back soon"),
            "{}",
            answer.head
        );
        assert_eq!(answer.field("content-type"), Some("text/html"));
        app.set(true);
        app.wait_until_up(&gate, 1.0);
        assert_eq!(ask(&gate).text(), "app");
    }
}

#[test]
fn a_failure_of_a_healthy_endpoint_is_no_maintenance() {
    let gate = lockgate().start(&pooled(format!(
        "endpoints = [\"{}\"]\nmaintenance = {{ body = \"back soon\" }}",
        deserted()
    )));
    let answer = ask(&gate);
    assert_eq!(answer.status(), 502);
    assert!(!answer.text().contains("back soon"));
}

/// A check by `health` of an origin with the same response each time: whether the endpoint is up
/// after the second.
fn up_after_check(health: &str, answer: &[u8]) -> (bool, String) {
    let origin = Origin::tcp();
    let gate = lockgate().start(&pooled(format!(
        "endpoints = [\"{}\"]\nhealth = {{ every = \"10ms\", fall = 1, rise = 1, {health} }}",
        origin.address()
    )));
    let mut first = String::new();
    for _ in 0..2 {
        let mut check = origin.http();
        first = check.request().first_line().to_owned();
        check.send(answer);
    }
    let _third = origin.http();
    (up(&gate, &origin.address()) > 0.0, first)
}

#[test]
fn a_health_check_expects_its_configured_status_and_body() {
    for (health, answer, well) in [
        (
            "path = \"/\"",
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            true,
        ),
        (
            "path = \"/\"",
            "HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n",
            true,
        ),
        (
            "path = \"/\"",
            "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
            false,
        ),
        (
            "path = \"/\"",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
            true,
        ),
        (
            "path = \"/\", expect = [\"200-299\", \"401\"]",
            "HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n",
            true,
        ),
        (
            "path = \"/\", expect = \"200\"",
            "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n",
            false,
        ),
        (
            "path = \"/\", body = \"ready\"",
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nall ready",
            true,
        ),
        (
            "path = \"/\", body = \"ready\"",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nreads",
            false,
        ),
        (
            "path = \"/\", body = \"ready\"",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nre\r\n3\r\nady\r\n0\r\n\r\n",
            true,
        ),
        ("path = \"/\"", "SSH-2.0-OpenSSH\r\n", false),
        (
            "path = \"/\"",
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\n",
            false,
        ),
    ] {
        assert_eq!(
            up_after_check(health, answer.as_bytes()).0,
            well,
            "{health}: {answer:?}"
        );
    }
    let (well, asked) = up_after_check(
        "path = \"/\", method = \"HEAD\"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n",
    );
    assert_eq!((well, asked.as_str()), (true, "HEAD / HTTP/1.1"));
}

#[test]
fn a_tcp_health_check_only_connects() {
    let origin = Origin::tcp();
    let nobody = deserted().to_string();
    let gate = lockgate().start(&pooled(format!(
        "endpoints = [\"{}\", \"{nobody}\"]\nhealth = \"tcp\"",
        origin.address()
    )));
    origin.accept().expect_end();
    gate.wait_for_sample(
        "lockgate_upstream_up",
        &[&format!("endpoint=\"{nobody}\"")],
        0.0,
    );
    assert_eq!(up(&gate, &origin.address()), 1.0);
}

#[test]
fn a_health_check_timeout_marks_the_endpoint_down() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&pooled(format!(
        "endpoints = [\"{}\"]\nhealth = {{ path = \"/\", every = \"10ms\", timeout = \"50ms\", fall = 1 }}",
        origin.address()
    )));
    let down = gate.says("the endpoint is down");
    assert_eq!(down["why"], "no response within 50ms", "{down}");
}

#[test]
fn a_health_check_uses_the_settings_of_the_pool() {
    let site = Site::new();
    let ca = text(&site.folder.write("ca.pem", site.authority.pem()));
    let origin = Origin::tcp();
    let gate = lockgate().start(&pooled(format!(
        "endpoints = [\"{}\"]\nproxy_protocol = \"v1\"\nhealth = {{ path = \"/\", every = \"10ms\", timeout = \"60s\" }}\n\
         tls = {{ name = \"{NAME}\", ca = \"{ca}\" }}",
        origin.address()
    )));
    for _ in 0..2 {
        let mut wire = origin.accept();
        // Its own connection, of no client.
        wire.expect("PROXY UNKNOWN\r\n");
        let mut check = Http::over(Tls::accept(&server_config(&site.issued, None), wire).unwrap());
        assert_eq!(check.request().first_line(), "GET / HTTP/1.1");
        check.send(ok(""));
    }
    assert_eq!(up(&gate, &origin.address()), 1.0);
}

#[test]
fn health_checks_use_tls_proxy_protocol_and_their_port() {
    let site = Site::new();
    let ca = text(&site.folder.write("ca.pem", site.authority.pem()));
    let config = server_config(&site.issued, None);
    for (keys, asked, said) in [
        ("tcp = true", "", ""),
        ("tcp = true, expect = \"220 \"", "", "220 ready\r\n"),
        (
            "tcp = true, send = \"PING\\r\\n\", expect = \"PONG\"",
            "PING\r\n",
            "+PONG\r\n",
        ),
        (
            "path = \"/\"",
            "GET / HTTP/1.1\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        ),
    ] {
        // No endpoint is where requests would go.
        let (endpoint, checked) = ("127.0.0.1:1", Origin::tcp());
        let gate = lockgate().workers(2).start(&pooled(format!(
            "endpoints = [\"{endpoint}\"]\nproxy_protocol = \"v1\"\ntls = {{ name = \"{NAME}\", ca = \"{ca}\" }}\n\
             health = {{ {keys}, port = {}, every = \"10ms\", timeout = \"60s\", fall = 1, rise = 1 }}",
            checked.socket_address().port()
        )));
        let endpoint = format!("endpoint=\"{endpoint}\"");
        for well in [true, false, true] {
            let mut wire = checked.accept();
            wire.expect("PROXY UNKNOWN\r\n");
            if well {
                let mut check = Tls::accept(&config, wire).unwrap();
                check.expect(asked);
                check.send(said);
                check.flush();
                check.wait_closed();
            } else {
                drop(wire);
            }
            gate.wait_for_sample("lockgate_upstream_up", &[&endpoint], f64::from(well));
        }
    }
}

#[test]
fn a_health_check_of_relays_expects_its_configured_text() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&format!(
        "[pool.db]\nendpoints = [\"{}\"]\nhealth = {{ send = \"PING\\r\\n\", expect = \"+PONG\", every = \"10ms\", timeout = \"60s\", fall = 1, rise = 1 }}\n\
         [tcp.\"127.0.0.1:0\"]\nproxy = \"pool:db\"\n",
        origin.address()
    ));
    for said in ["+PONG\r\n", "-LOADING the data\r\n", "+PONG\r\n"] {
        let mut check = origin.accept();
        check.expect("PING\r\n");
        check.send(said);
        check.finish();
        check.wait_closed();
    }
    assert_eq!(
        gate.says("the endpoint is up")["endpoint"],
        origin.address()
    );
    let down = gate.says("the endpoint is down");
    assert_eq!(
        down["why"], "the received bytes lack the expected text",
        "{down}"
    );
}

/// An origin with requests that a test answers; its health checks are answered by its state.
struct Held {
    serving: Serving,
    well: Arc<AtomicBool>,
    requests: Receiver<(Message, Http)>,
}

impl Held {
    fn new() -> Self {
        let (well, (pass, requests)) = (Arc::new(AtomicBool::new(true)), mpsc::channel());
        let (is_well, pass) = (Arc::clone(&well), Mutex::new(pass));
        let serving = Origin::tcp().serve(move |wire| {
            let mut http = Http::over(wire.another());
            let Some(request) = http.next_request() else {
                return;
            };
            match (request.first_line(), is_well.load(Ordering::SeqCst)) {
                ("GET /health HTTP/1.1", true) => http.send(ok("fine")),
                ("GET /health HTTP/1.1", false) => http.send(BAD),
                _ => {
                    // When the receiver is gone, the test is over.
                    let _ = pass.lock().unwrap().send((request, http));
                }
            }
        });
        Self {
            serving,
            well,
            requests,
        }
    }

    /// The next request that came, and the connection for its response.
    fn next(&self) -> (Message, Http) {
        self.requests.recv_timeout(DEADLINE).unwrap()
    }

    fn falls(&self, gate: &Lockgate) {
        self.well.store(false, Ordering::SeqCst);
        gate.wait_for_sample(
            "lockgate_upstream_up",
            &[&format!("endpoint=\"{}\"", self.serving.address())],
            0.0,
        );
    }
}

/// A pool of these in turns, where no wait ends by itself.
fn falling(endpoints: &[&Serving], more: &str) -> String {
    let endpoints: Vec<_> = endpoints
        .iter()
        .map(|one| format!("\"{}\"", one.address()))
        .collect();
    let pool = pooled(format!(
        "endpoints = [{}]\nbalance = \"round-robin\"\n\
         health = {{ path = \"/health\", every = \"10ms\", timeout = \"60s\", fall = 1, rise = 1 }}\n{more}",
        endpoints.join(", ")
    ));
    format!(
        "timeouts = {{ response = \"off\" }}\n{pool}[site.\":0\".path.\"/tick\"]\nrespond = 204\n"
    )
}

/// Lines of the log are written with the tick: a line that was requested now proves that there was
/// one since.
fn tick(gate: &mut Lockgate) {
    let mut client = Http::connect(gate.address());
    client.send(get("/tick"));
    assert_eq!(client.answer().status(), 204);
    while gate.next_line()["status"] != 204 {}
}

#[test]
fn a_pending_idempotent_request_of_a_falling_endpoint_is_retried() {
    let (held, other) = (Held::new(), App::new("other", true));
    let mut gate = lockgate().start(&falling(&[&held.serving, &other.serving], ""));
    for request in [
        get("/"),
        String::from_utf8(with_body("PUT", b"body")).unwrap(),
    ] {
        let mut client = Http::connect(gate.address());
        client.send(&request);
        let (first, mut upstream) = held.next();
        held.falls(&gate);
        assert_eq!(client.answer().text(), "other", "{request}");
        assert!(upstream.rest().is_empty(), "{}", first.head);
        let line = gate.next_line();
        assert_eq!(
            (&line["retries"], &line["status"]),
            (&1.into(), &200.into()),
            "{line}"
        );
        assert_eq!(line["endpoint"], other.serving.address(), "{line}");
        held.well.store(true, Ordering::SeqCst);
        gate.wait_for_sample(
            "lockgate_upstream_up",
            &[&format!("endpoint=\"{}\"", held.serving.address())],
            1.0,
        );
    }
    assert_eq!(other.asked.load(Ordering::SeqCst), 2);
    let fallen = format!("endpoint=\"{}\"", held.serving.address());
    gate.wait_for_sample("lockgate_upstream_retries_total", &[&fallen], 2.0);
    let reason = ["reason=\"destination_unavailable\"", fallen.as_str()];
    gate.wait_for_sample("lockgate_upstream_failures_total", &reason, 2.0);
}

/// A check may fail because the endpoint is busy: a request that may not be retried, or not
/// elsewhere, waits on.
#[test]
fn a_pending_request_that_cannot_be_retried_keeps_waiting() {
    for (method, more, alone) in [
        ("POST", "", false),
        ("GET", "retry = false", false),
        ("GET", "", true),
    ] {
        let (held, other) = (Held::new(), App::new("other", true));
        let endpoints = if alone {
            vec![&held.serving]
        } else {
            vec![&held.serving, &other.serving]
        };
        let mut gate = lockgate().start(&falling(&endpoints, more));
        let mut client = Http::connect(gate.address());
        client.send(with_body(method, b""));
        let (_, mut upstream) = held.next();
        held.falls(&gate);
        tick(&mut gate);
        upstream.send(ok("late"));
        assert_eq!(client.answer().text(), "late", "{method} {more}");
        assert_eq!(other.asked.load(Ordering::SeqCst), 0);
    }
}

#[test]
fn a_free_connection_at_a_fallen_endpoint_is_not_used() {
    let held = Held::new();
    let address = format!("\"{}\"", held.serving.address());
    let toml = falling(&[&held.serving], "queue = { wait = \"60s\" }");
    let gate =
        lockgate().start(&toml.replace(&address, &format!("{{ addr = {address}, max = 1 }}")));
    let (mut served, mut waiting) = (Http::connect(gate.address()), Http::connect(gate.address()));
    served.send(get("/"));
    let (_, mut upstream) = held.next();
    waiting.send(get("/"));
    gate.wait_for_sample("lockgate_requests_queued", &[], 1.0);
    held.falls(&gate);
    upstream.send(ok("served"));
    assert_eq!(served.answer().text(), "served");
    let answer = waiting.answer();
    assert_eq!(answer.status(), 503);
    assert!(
        answer
            .field("proxy-status")
            .unwrap()
            .contains("error=destination_unavailable"),
        "{}",
        answer.head
    );
}

#[test]
fn a_pending_request_moves_once_another_endpoint_has_room() {
    let (held, other) = (Held::new(), Held::new());
    let toml = falling(&[&held.serving, &other.serving], "queue = { max = 0 }");
    let second = format!("\"{}\"", other.serving.address());
    let toml = toml.replace(&second, &format!("{{ addr = {second}, max = 1 }}"));
    let mut gate = lockgate().start(&toml);
    let mut clients = [Http::connect(gate.address()), Http::connect(gate.address())];
    clients[0].send(get("/first"));
    let _held = held.next();
    clients[1].send(get("/second"));
    let (_, mut upstream) = other.next();
    held.falls(&gate);
    tick(&mut gate);
    upstream.send(ok("second"));
    assert_eq!(clients[1].answer().text(), "second");
    assert_eq!(upstream.request().first_line(), "GET /first HTTP/1.1");
    upstream.send(ok("first"));
    assert_eq!(clients[0].answer().text(), "first");
}
