//! Forward authentication: a service decides whether a request is admitted.

use std::fmt::Display;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};

use http::Method;
use lockgate_testkit::h2::{self, Client, ScriptedResponse};
use lockgate_testkit::{Folder, Http, Lockgate, Message, Origin, Serving, Wire};

use crate::http::{normalized_text, plain_site};
use crate::scene::{NAME, Site, deserted, lockgate, text};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const YES: &str = "HTTP/1.1 204 No Content\r\n\r\n";
const NO: &str = "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno";

/// A site in front of `origin` with `service` for authentication; more keys of `auth` begin with a
/// comma.
fn guarded(origin: impl Display, service: impl Display, more: &str) -> String {
    plain_site(origin) + &format!("auth = {{ forward = \"{service}\"{more} }}\n")
}

/// Answers everything with `answer`, and hands on the requests.
fn recording_origin(answer: &'static str) -> (Serving, Receiver<Message>) {
    let (asked, told) = channel();
    let asked = Mutex::new(asked);
    let serving = Origin::tcp().answering(move |request| {
        // When the receiver is gone, the test is over.
        let _ = asked.lock().unwrap().send(request.clone());
        answer.as_bytes().to_vec()
    });
    (serving, told)
}

/// Sends a request for `/` with these lines, and reads its response.
fn ask(gate: &Lockgate, lines: &str) -> Message {
    let mut client = Http::connect(gate.address());
    client.send(format!("GET / HTTP/1.1\r\nHost: a.test\r\n{lines}\r\n"));
    client.answer()
}

#[test]
fn forward_auth_sends_a_get_describing_the_request() {
    let (origin, service) = (Origin::tcp(), Origin::tcp());
    let toml = guarded(
        origin.address(),
        service.address(),
        ", path = \"/verify?role=admin\"",
    );
    let gate = lockgate().start(&toml);
    let mut client = Http::connect(gate.address());
    client.send(
        "POST /a%20b?c=d HTTP/1.1\r\nHost: a.test:81\r\nAuthorization: Bearer x\r\nCookie: s=1\r\nX-Own: 1\r\n\
         Connection: x-hop\r\nX-Hop: 1\r\nKeep-Alive: x\r\nTE: trailers\r\nUpgrade: websocket\r\n\
         Range: bytes=0-1\r\nIf-None-Match: *\r\nTrailer: x\r\nContent-Length: 4\r\n\
         X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Method: GET\r\nX-Forwarded-Uri: /public\r\n\
         X-Forwarded-Proto: https\r\nX-Forwarded-Host: b.test\r\nx_forwarded_uri: /public\r\n\
         X-Original-URL: /public\r\nX-Original_Uri: /public\r\nX-Rewrite-Url: /public\r\n\r\nbody",
    );
    let mut asked = service.http();
    assert_eq!(
        normalized_text(asked.head()),
        "GET /verify?role=admin HTTP/1.1\r\nHost: a.test:81\r\nAuthorization: Bearer x\r\nCookie: s=1\r\nX-Own: 1\r\n\
         X-Forwarded-Method: POST\r\nX-Forwarded-Uri: /a%20b?c=d\r\n\
         X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: a.test:81\r\n\
         Forwarded: for=127.0.0.1;proto=http;host=\"a.test:81\"\r\nX-Request-Id: ID\r\nVia: 1.1 lockgate\r\n\r\n"
    );
    asked.send(YES);
    let mut upstream = origin.http();
    let seen = upstream.request();
    assert_eq!(
        (seen.first_line(), &seen.body[..]),
        ("POST /a%20b?c=d HTTP/1.1", &b"body"[..])
    );
    upstream.send(OK);
    assert_eq!(client.answer().text(), "ok");
    // The connection to the service is reused for the next request.
    client.send("GET /next HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!(asked.request().field("x-forwarded-uri"), Some("/next"));
}

/// Forwarding fields of a trusted proxy about the client are kept; those about the request are
/// ours.
#[test]
fn a_trusted_proxy_sets_forwarding_fields_for_forward_auth() {
    let (service, told) = recording_origin(NO);
    let toml =
        "trusted = [\"127.0.0.1\"]\n".to_owned() + &guarded(deserted(), service.address(), "");
    let gate = lockgate().start(&toml);
    let lines = "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: b.test\r\n\
                 X-Forwarded-Method: PUT\r\nX-Forwarded-Uri: /public\r\n";
    assert_eq!(ask(&gate, lines).status(), 403);
    let asked = told.recv().unwrap();
    for (name, value) in [
        ("x-forwarded-for", "192.0.2.1, 127.0.0.1"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "b.test"),
        ("x-forwarded-method", "GET"),
        ("x-forwarded-uri", "/"),
    ] {
        assert_eq!(asked.field(name), Some(value));
    }
}

#[test]
fn forward_auth_fields_are_copied_from_the_service_only() {
    let said = "HTTP/1.1 200 OK\r\nRemote-User: ann\r\nRemote-Groups: a\r\nRemote-Groups: b\r\nX-Other: 1\r\n\
                Authorization: Bearer inner\r\nContent-Length: 5\r\n\r\nhello";
    let (service, asked) = recording_origin(said);
    let (origin, told) = recording_origin(OK);
    let copy = ", copy = [\"remote-user\", \"Remote-Groups\", \"remote-email\", \"authorization\"]";
    let gate = lockgate()
        .workers(2)
        .start(&guarded(origin.address(), service.address(), copy));
    let lies = "remote-user: root\r\nREMOTE_USER: root\r\nRemote_Groups: root\r\nRemote-Email: root@a.test\r\n\
                remote_email: root@a.test\r\nAuthorization: Bearer outer\r\nConnection: remote-user, authorization\r\n\
                X-Own: 1\r\n";
    assert_eq!(ask(&gate, lies).text(), "ok");
    let question = asked.recv().unwrap();
    assert!(!question.head.contains("root"), "{}", question.head);
    let seen = told.recv().unwrap();
    assert!(
        !seen.head.contains("root") && !seen.head.contains("outer"),
        "{}",
        seen.head
    );
    assert_eq!(
        (seen.field("remote-user"), seen.field("x-own")),
        (Some("ann"), Some("1"))
    );
    assert_eq!(seen.all("remote-groups").collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(seen.field("authorization"), Some("Bearer inner"));
    assert_eq!(
        (seen.field("remote-email"), seen.field("x-other")),
        (None, None)
    );
    // The service gets the credentials of its users.
    ask(&gate, "Authorization: Bearer outer\r\n");
    assert_eq!(
        asked.recv().unwrap().field("authorization"),
        Some("Bearer outer")
    );
    // An application that adds trailers to the head must not find them there (RFC 9110 §6.5.1).
    let mut client = Http::connect(gate.address());
    client.send(
        "POST / HTTP/1.1\r\nHost: a.test\r\nTE: trailers\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\
         Remote-User: root\r\nremote_groups: root\r\nX-Sum: 1\r\n\r\n",
    );
    client.answer();
    let mut sent = told
        .iter()
        .filter(|seen| seen.first_line().starts_with("POST"));
    assert_eq!(sent.next().unwrap().trailers, "X-Sum: 1\r\n");
}

#[test]
fn any_other_forward_auth_response_goes_to_the_client() {
    let (origin, told) = recording_origin(OK);
    let mut answers = Vec::new();
    for status in [
        "302 Found",
        "401 Unauthorized",
        "403 Forbidden",
        "500 Internal Server Error",
        "304 Not Modified",
    ] {
        let body = if status.starts_with("304") {
            ""
        } else {
            "Content-Length: 6\r\n\r\nlog in"
        };
        let end = if body.is_empty() { "\r\n" } else { "" };
        answers.push(format!(
            "HTTP/1.1 {status}\r\nLocation: https://login.test/?to=x\r\nWWW-Authenticate: Bearer\r\n\
             Set-Cookie: a=1; Path=/\r\nSet-Cookie: b=2\r\nX-Hop: 1\r\nConnection: x-hop\r\n{body}{end}"
        ));
    }
    for answer in answers {
        let service = Origin::tcp();
        let gate = lockgate().start(&guarded(origin.address(), service.address(), ""));
        let mut client = Http::connect(gate.address());
        client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        let mut asked = service.http();
        asked.request();
        asked.send(&answer);
        let got = client.answer();
        let status: u16 = answer[9..12].parse().unwrap();
        assert_eq!(
            (got.status(), got.field("location")),
            (status, Some("https://login.test/?to=x"))
        );
        assert_eq!(got.field("www-authenticate"), Some("Bearer"));
        assert_eq!(
            got.all("set-cookie").collect::<Vec<_>>(),
            ["a=1; Path=/", "b=2"]
        );
        assert_eq!((got.field("x-hop"), got.field("connection")), (None, None));
        assert_eq!(got.text(), if status == 304 { "" } else { "log in" });
        let line = gate.line("who answered", |line| line["status"] == status);
        assert_eq!(line["endpoint"], service.address(), "{line}");
        // RFC 9110 §9.3.2: of HEAD the client has the head.
        client.send("HEAD / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        assert_eq!(asked.request().field("x-forwarded-method"), Some("HEAD"));
        asked.send(&answer);
        assert!(client.head().starts_with(&format!("HTTP/1.1 {status}")));
        client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        asked.request();
        asked.send(YES);
        assert_eq!(client.answer().text(), "ok");
        told.recv().unwrap();
    }
    assert_eq!(origin.accepted(), 5);
}

#[test]
fn forward_auth_failures_are_5xx_and_admit_no_request() {
    let (origin, told) = recording_origin(OK);
    let long = format!(
        "HTTP/1.1 403 Forbidden\r\nContent-Length: 65537\r\n\r\n{}",
        "x".repeat(65_537)
    );
    let endless = format!("HTTP/1.1 403 Forbidden\r\n\r\n{}", "x".repeat(100_000));
    for (answer, status, error) in [
        (None, 502, "connection_refused"),
        (Some(""), 502, "connection_terminated"),
        (Some("HTTP/1.1 200"), 502, "http_response_incomplete"),
        (Some("nonsense\r\n\r\n"), 502, "http_protocol_error"),
        (
            Some("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello"),
            502,
            "http_protocol_error",
        ),
        (
            Some("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell"),
            502,
            "http_response_incomplete",
        ),
        (
            Some("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
            502,
            "http_upgrade_failed",
        ),
        (Some(&*long), 502, "http_protocol_error"),
        (Some(&*endless), 502, "http_protocol_error"),
    ] {
        let service = answer.map_or_else(unreachable_service, |answer| {
            let answer = answer.to_owned();
            Service::Serving(Origin::tcp().serve(move |wire| {
                let mut http = Http::over(wire.another());
                http.request();
                // A response that is too long is not read to its end.
                let _ = std::io::Write::write_all(&mut http.stream, answer.as_bytes());
                http.stream.finish();
                http.wait_closed();
            }))
        });
        let gate = lockgate().start(&guarded(
            origin.address(),
            service.address(),
            ", copy = [\"x-user\"]",
        ));
        let got = ask(&gate, "X-User: root\r\n");
        assert_eq!(got.status(), status, "{answer:.80?}");
        let said = got.field("proxy-status").unwrap();
        assert!(said.contains(error), "{answer:.80?}: {said}");
        let line = gate.line("its line", |line| line["status"] == status);
        assert!(
            line["detail"]
                .as_str()
                .unwrap()
                .starts_with("the auth service: "),
            "{line}"
        );
        // The error page must not blame the application.
        for text in [said, got.text()] {
            assert!(text.contains("the auth service"), "{text}");
            assert!(!text.contains("the application"), "{text}");
        }
    }
    assert!(told.try_recv().is_err(), "a request went on");
}

enum Service {
    Nobody(String),
    Serving(Serving),
}

impl Service {
    fn address(&self) -> &str {
        match self {
            Self::Nobody(address) => address,
            Self::Serving(serving) => serving.address(),
        }
    }
}

fn unreachable_service() -> Service {
    Service::Nobody(deserted().to_string())
}

#[test]
fn a_forward_auth_timeout_is_504_and_admits_no_request() {
    let (origin, told) = recording_origin(OK);
    let silent = Origin::tcp();
    // One sends nothing, one a status and no more, one a part of the body.
    for (said, attempts) in [
        ("", 2),
        ("HTTP/1.1 200 OK\r\n", 2),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", 1),
    ] {
        let toml = guarded(origin.address(), silent.address(), "")
            + "timeouts = { response = \"200ms\" }\n[site.\":0\".path.\"/fixed\"]\nrespond = 200\n";
        let gate = lockgate().start(&toml);
        let mut client = Http::connect(gate.address());
        client.send("GET /fixed HTTP/1.1\r\nHost: a.test\r\n\r\n");
        // A request without a response is sent once more.
        let mut held: Vec<Http> = Vec::new();
        for _ in 0..attempts {
            let mut asked = silent.http();
            asked.request();
            asked.send(said);
            held.push(asked);
            if !silent.has_one(std::time::Duration::from_secs(2)) {
                break;
            }
        }
        let got = client.answer();
        assert_eq!(got.status(), 504, "{said}");
        assert!(
            got.head.contains("http_response_timeout"),
            "{said}: {}",
            got.head
        );
    }
    assert!(told.try_recv().is_err(), "a request went on");
}

#[test]
fn a_request_body_is_not_read_before_forward_auth_admits() {
    let (origin, service) = (Origin::tcp(), Origin::tcp());
    let gate = lockgate().start(&guarded(origin.address(), service.address(), ""));
    let mut client = Http::connect(gate.address());
    let head =
        "PUT / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n";
    // RFC 9110 §10.1.1: no 100 before the request is admitted.
    client.send(head);
    let mut asked = service.http();
    let question = asked.request();
    assert_eq!(
        (question.field("expect"), question.field("content-length")),
        (None, None)
    );
    asked.send(YES);
    let mut upstream = origin.http();
    assert!(upstream.head().contains("\r\nExpect: 100-continue\r\n"));
    upstream.send("HTTP/1.1 100 Continue\r\n\r\n");
    assert_eq!(client.answer().status(), 100);
    client.send("body");
    upstream.expect("body");
    upstream.send(OK);
    assert_eq!(client.answer().text(), "ok");
    client.send(head);
    asked.request();
    asked.send(NO);
    let refused = client.answer();
    assert_eq!(
        (
            refused.status(),
            refused.text(),
            refused.field("connection")
        ),
        (403, "no", Some("close"))
    );
}

#[test]
fn a_client_that_leaves_cancels_its_forward_auth_request() {
    let service = Origin::tcp();
    let gate = lockgate().start(&guarded(deserted(), service.address(), ""));
    let mut client = Http::connect(gate.address());
    client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    let mut asked = service.http();
    asked.request();
    client.stream.reset();
    asked.wait_closed();
    let line = gate.line("its end", |line| line["cause"] == "client_reset");
    assert_eq!(line["status"], 499, "{line}");
}

#[test]
fn forward_auth_protects_every_kind_of_action() {
    let folder = Folder::new();
    folder.write("page.html", "page");
    let service = Origin::tcp().answering(|request| {
        let may = request.all("cookie").any(|cookie| cookie == "s=1");
        if may { YES.into() } else { NO.into() }
    });
    let mut toml = format!(
        "[site.\":0\"]\nlisten = [\"127.0.0.1\"]\nrespond = \"fixed\"\nauth = {{ forward = \"{}\" }}\ncors = \"https://b.test\"\n",
        service.address()
    );
    let path = |path: &str, lines: &str| format!("[site.\":0\".path.\"{path}\"]\n{lines}\n");
    toml += &path(
        "/page.html",
        &format!("root = \"{}\"", text(&folder.path("."))),
    );
    toml += &path("/moved", "redirect = \"/\"");
    toml += &path("/open", "auth = false");
    let _ = write!(
        toml,
        "{}",
        path(
            "POST /once",
            "body = { max = \"1B\" }\nproxy = \"127.0.0.1:1\""
        )
    );
    let gate = lockgate().start(&toml);
    let mut client = Http::connect(gate.address());
    for (target, status) in [
        ("/", 200),
        ("/page.html", 200),
        ("/moved", 308),
        ("/open", 200),
    ] {
        for cookie in ["", "Cookie: s=1\r\n"] {
            client.send(format!(
                "GET {target} HTTP/1.1\r\nHost: a.test\r\nOrigin: https://b.test\r\n{cookie}\r\n"
            ));
            let answer = client.answer();
            let may = target == "/open" || !cookie.is_empty();
            assert_eq!(
                answer.status(),
                if may { status } else { 403 },
                "{target} {cookie}"
            );
            // A script must be able to read the error.
            assert_eq!(
                answer.field("access-control-allow-origin"),
                Some("https://b.test")
            );
        }
    }
    // A request that is refused here is not sent to the service.
    let before = service.accepted();
    client.send("POST /once HTTP/1.1\r\nHost: a.test\r\nContent-Length: 2\r\n\r\nab");
    assert_eq!(
        (client.answer().status(), service.accepted()),
        (413, before)
    );
}

#[test]
fn websocket_upgrades_pass_forward_auth() {
    let (origin, service) = (Origin::tcp(), Origin::tcp());
    let gate = lockgate().start(&guarded(
        origin.address(),
        service.address(),
        ", copy = [\"x-user\"]",
    ));
    let mut client = Http::connect(gate.address());
    client.send(
        "GET /chat HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-User: root\r\n\
         Sec-WebSocket-Key: k\r\n\r\n",
    );
    let mut asked = service.http();
    let question = asked.request();
    assert_eq!(
        (question.field("upgrade"), question.field("connection")),
        (None, None)
    );
    asked.send("HTTP/1.1 200 OK\r\nX-User: ann\r\nContent-Length: 0\r\n\r\n");
    let mut upstream = origin.http();
    let seen = upstream.request();
    assert_eq!(
        (seen.field("x-user"), seen.field("upgrade")),
        (Some("ann"), Some("websocket"))
    );
    upstream.send(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    );
    assert_eq!(client.answer().status(), 101);
    client.send("ping");
    upstream.expect("ping");
}

#[test]
fn each_http2_stream_passes_forward_auth() {
    let service = Origin::tcp().answering(|request| match request.field("x-forwarded-uri") {
        Some("/yes") => b"HTTP/1.1 200 OK\r\nX-User: ann\r\nContent-Length: 0\r\n\r\n".to_vec(),
        _ => NO.as_bytes().to_vec(),
    });
    let (origin, told) = recording_origin(OK);
    let toml = guarded(origin.address(), service.address(), ", copy = [\"x-user\"]")
        + "protocols = [\"h2c\", \"http1\"]\n";
    let gate = lockgate().start(&toml);
    let client = Client::connect(gate.address());
    let ask = |path: &str| {
        let mut request = Client::request(Method::POST, path);
        request
            .headers_mut()
            .append("x_user", "root".parse().unwrap());
        client.begin(request, true)
    };
    let (yes, no) = (ask("/yes"), ask("/no"));
    let no = no.answer();
    assert_eq!((no.status, no.text(), no.reset), (403, "no", None));
    assert_eq!(yes.answer().text(), "ok");
    let seen = told.recv().unwrap();
    assert_eq!(
        (seen.field("x-user"), seen.field("x_user")),
        (Some("ann"), None)
    );
}

#[test]
fn forward_auth_may_use_a_pool_with_maintenance() {
    let toml = format!(
        "[pool.auth]\nendpoints = [\"{}\"]\nhealth = {{ every = \"10ms\", fall = 1 }}\n\
         maintenance = {{ status = 200, body = \"later\" }}\n{}",
        deserted(),
        guarded(deserted(), "pool:auth", "")
    );
    let gate = lockgate().start(&toml);
    gate.says("every endpoint of the pool is down");
    let answer = ask(&gate, "");
    assert_eq!((answer.status(), answer.text()), (200, "later"));
}

#[test]
fn credentials_of_forward_auth_are_in_no_log() {
    let said =
        "HTTP/1.1 401 Unauthorized\r\nSet-Cookie: inner-secret=1\r\nContent-Length: 0\r\n\r\n";
    let (service, _told) = recording_origin(said);
    let gate = lockgate().start(&guarded(deserted(), service.address(), ""));
    ask(
        &gate,
        "Authorization: Bearer outer-secret\r\nCookie: s=outer-secret\r\n",
    );
    gate.line("its line", |line| line["status"] == 401);
    let all = gate.stdout().text() + &gate.stderr().text() + &gate.metrics();
    assert!(!all.contains("secret"), "{all}");
}

#[test]
fn forward_auth_uses_the_protocol_of_its_pool() {
    let site = Site::new();
    let ca = text(&site.folder.write("ca.pem", site.authority.pem()));
    let service = h2::Origin::tls(&site.issued, |asked| match asked.field("cookie") {
        Some("s=1") => ScriptedResponse::new(200).field("x-user", "ann"),
        _ => ScriptedResponse::new(401)
            .field("www-authenticate", "Bearer")
            .piece("who are you?"),
    });
    let (origin, told) = recording_origin(OK);
    let pool = format!(
        "[pool.auth]\nendpoints = [\"{}\"]\nprotocol = \"h2\"\ntls = {{ name = \"{NAME}\", ca = \"{ca}\" }}\n",
        service.address()
    );
    let site = guarded(
        origin.address(),
        "pool:auth",
        ", path = \"/verify?a\", copy = [\"X-User\"]",
    );
    let gate = lockgate().workers(2).start(&(pool + &site));
    let refused = ask(&gate, "X-User: root\r\n");
    assert_eq!(
        (refused.status(), refused.field("www-authenticate")),
        (401, Some("Bearer"))
    );
    assert_eq!(refused.text(), "who are you?");
    let question = service.next();
    assert_eq!(
        (question.method.as_str(), question.path.as_str()),
        ("GET", "/verify?a")
    );
    assert_eq!(
        (question.authority.as_str(), question.field("x-user")),
        ("a.test", None)
    );
    assert_eq!(question.field("x-forwarded-uri"), Some("/"));
    assert_eq!(ask(&gate, "Cookie: s=1\r\nX-User: root\r\n").text(), "ok");
    assert_eq!(told.recv().unwrap().field("x-user"), Some("ann"));
}

#[test]
fn forward_auth_may_receive_a_proxy_protocol_header() {
    let (origin, service) = (Origin::tcp(), Origin::tcp());
    let pool = format!(
        "[pool.auth]\nendpoints = [\"{}\"]\nproxy_protocol = \"v1\"\n",
        service.address()
    );
    let gate = lockgate().start(&(pool + &guarded(origin.address(), "pool:auth", "")));
    let mut client = Http::over(Wire::connect_from([127, 0, 0, 9].into(), gate.address()));
    client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    let mut asked = service.http();
    assert!(asked.line().starts_with("PROXY TCP4 127.0.0.9 127.0.0.1 "));
    assert_eq!(asked.request().field("x-forwarded-for"), Some("127.0.0.9"));
    asked.send(YES);
    let mut upstream = origin.http();
    upstream.request();
    upstream.send(OK);
    assert_eq!(client.answer().text(), "ok");
}

/// The body of a response that admits a request is not needed.
#[test]
fn a_long_forward_auth_response_admits_as_a_short_one() {
    let service = Origin::tcp().answering(|_| {
        let body = "x".repeat(200_000);
        format!(
            "HTTP/1.1 200 OK\r\nX-User: ann\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    });
    let (origin, told) = recording_origin(OK);
    let gate = lockgate().start(&guarded(
        origin.address(),
        service.address(),
        ", copy = [\"x-user\"]",
    ));
    let mut client = Http::connect(gate.address());
    for _ in 0..3 {
        client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        assert_eq!(client.answer().text(), "ok");
        assert_eq!(told.recv().unwrap().field("x-user"), Some("ann"));
    }
}
