//! Local responses without an origin, and rules that change requests and responses.

use lockgate_testkit::{Folder, Http, Origin};

use super::{OK, exchange_bytes, normalized_text, plain_site};
use crate::scene::{NAME, Site, deserted, lockgate, text};

#[test]
fn the_http_port_redirects_to_https() {
    let site = Site::new();
    let origin = Origin::tcp();
    let toml = format!(
        "ports = {{ http = 0, https = 0 }}\n[site.\"{NAME}\"]\nlisten = [\"127.0.0.1\"]\n\
         tls = {{ cert = \"{}\" }}\nproxy = \"{}\"\n",
        site.cert,
        origin.address()
    );
    let gate = lockgate().start(&toml);
    let plain = gate.at("127.0.0.1:0 http");
    let port = gate.at("127.0.0.1:0").port();
    let mut client = Http::connect(plain);
    // RFC 9110 §15.4.9: 308 keeps the method.
    for (method, version) in [("GET", "1.1"), ("POST", "1.1"), ("HEAD", "1.1")] {
        client.send(format!(
            "{method} /a%20b?c=%2f&d HTTP/{version}\r\nHost: APP.test\r\n\r\n"
        ));
        let head = client.head();
        assert!(head.starts_with("HTTP/1.1 308 "), "{head}");
        let location = head
            .lines()
            .find_map(|line| line.strip_prefix("Location: "))
            .unwrap();
        // The port that the system has chosen, not the 0 that was written.
        assert_eq!(location, format!("https://app.test:{port}/a%20b?c=%2f&d"));
        assert!(head.contains("Content-Length: 0\r\n"), "{head}");
    }
    // Never to a host of the client's choice.
    client.send("GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n");
    assert_eq!(client.answer().status(), 404);
    client.send(format!(
        "GET / HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\n\r\n"
    ));
    assert_eq!(client.answer().status(), 308);
    client.expect_end();
    let mut secure = Http::over(site.client().connect(gate.at("127.0.0.1:0"), NAME).unwrap());
    secure.send(format!("GET / HTTP/1.1\r\nHost: {NAME}.\r\n\r\n"));
    let mut upstream = origin.http();
    upstream.request();
    upstream.send(OK);
    assert_eq!(secure.answer().text(), "ok");
    // RFC 9110 §15.5.20: a host that the certificate is not for is misdirected.
    secure.send("GET / HTTP/1.1\r\nHost: other.test\r\n\r\n");
    assert_eq!(secure.answer().status(), 421);
    secure.send(format!("GET / HTTP/1.1\r\nHost: {NAME}\r\n\r\n"));
    upstream.request();
    upstream.send(OK);
    assert_eq!(secure.answer().text(), "ok");
}

const TABLES: &str = r#"
headers = { x-frame-options = "DENY", server = false }
[site.":0".path."/hello"]
respond = { status = 200, body = "hello {client}\n", type = "text/plain" }
[site.":0".path."/gone"]
respond = { status = 204 }
[site.":0".path."/host"]
redirect = "https://{host}/"
[site.":0".path."/dated"]
respond = 200
headers = { date = "yesterday" }
[site.":0".path."/old/*"]
redirect = "/new/{*}"
[site.":0".path."POST /only"]
respond = { status = 201, body = "made" }
[site.":0".path."/api/*"]
strip_prefix = true
[site.":0".path."/v/{id}/x"]
rewrite = "/x/{id}?from=v"
[site.":0".path."/set/*"]
request_headers = { x-set = "{host}{path}", x-drop = false }
"#;

#[test]
fn local_responses_are_complete_and_keep_the_connection() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&(plain_site(origin.address()) + TABLES));
    let cases: &[(&str, &str)] = &[
        (
            "GET /hello HTTP/1.1",
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nx-frame-options: DENY\r\nDate: NOW\r\n\
             Content-Length: 16\r\n\r\nhello 127.0.0.1\n",
        ),
        // RFC 9110 §9.3.2: the same head, and nothing behind it.
        (
            "HEAD /hello HTTP/1.1",
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nx-frame-options: DENY\r\nDate: NOW\r\n\
             Content-Length: 16\r\n\r\n",
        ),
        (
            "GET /gone HTTP/1.1",
            "HTTP/1.1 204 No Content\r\nx-frame-options: DENY\r\nDate: NOW\r\n\r\n",
        ),
        // RFC 9110 §6.6.1: there is one Date.
        (
            "GET /dated HTTP/1.1",
            "HTTP/1.1 200 OK\r\ndate: yesterday\r\nx-frame-options: DENY\r\nContent-Length: 0\r\n\r\n",
        ),
        (
            "GET /old/a/%20?b=c HTTP/1.1",
            "HTTP/1.1 308 Permanent Redirect\r\nLocation: /new/a/%20?b=c\r\nx-frame-options: DENY\r\n\
             Date: NOW\r\nContent-Length: 0\r\n\r\n",
        ),
    ];
    let mut client = Http::connect(gate.address());
    for (line, expected) in cases {
        client.send(format!("{line}\r\nHost: a\r\n\r\n"));
        let got = client.head();
        let (head, body) = expected.split_at(expected.find("\r\n\r\n").unwrap() + 4);
        assert_eq!(normalized_text(got), head, "{line}");
        client.expect(body);
    }
    // An unwanted body ends the connection, whether it is there or still to come: it is never a
    // request.
    let body = "GET /smuggled HTTP/1.1\r\n\r\n";
    let head = format!(
        "POST /hello HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    for there in [0, 20, body.len()] {
        let mut client = Http::connect(gate.address());
        client.send(head.clone() + &body[..there]);
        let answer = client.answer();
        assert_eq!(
            (answer.status(), answer.field("connection")),
            (200, Some("close"))
        );
        client.send(&body[there..]);
        client.expect_end();
    }
    let old = Http::ask(
        gate.address(),
        "GET /gone HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /hello HTTP/1.0\r\n\r\n",
    );
    // RFC 9112 §3.2: a request without Host is for the address that it came to.
    let nameless = Http::ask(gate.address(), "GET /host HTTP/1.0\r\n\r\n");
    assert!(
        nameless.contains("\r\nLocation: https://127.0.0.1/\r\n"),
        "{nameless}"
    );
    assert!(
        old.contains("Connection: keep-alive\r\n") && old.ends_with("hello 127.0.0.1\n"),
        "{old}"
    );
}

#[test]
fn refusals_keep_the_connection_after_a_complete_request() {
    let address = deserted();
    let toml = format!(
        "[site.\"a.test:0\"]\nlisten = [\"127.0.0.1\"]\n[site.\"a.test:0\".path.\"POST /only\"]\n\
                        respond = {{ status = 201, body = \"made\" }}\n[site.\"a.test:0\".path.\"/p/*\"]\nproxy = \"{address}\"\n"
    );
    let gate = lockgate().start(&toml);
    let mut client = Http::connect(gate.address());
    for (request, status, allow) in [
        ("GET / HTTP/1.1\r\nHost: b.test\r\n\r\n", 404, None),
        ("GET /nowhere HTTP/1.1\r\nHost: a.test\r\n\r\n", 404, None),
        (
            "GET /only HTTP/1.1\r\nHost: A.TEST:80\r\n\r\n",
            405,
            Some("POST"),
        ),
        (
            "POST /only HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n",
            201,
            None,
        ),
        ("GET /p/x HTTP/1.1\r\nHost: a.test\r\n\r\n", 502, None),
        // RFC 9110 §9.3.7: about no resource. RFC 9112 §3.2.4: so is one for a URL without a path.
        ("OPTIONS * HTTP/1.1\r\nHost: a.test\r\n\r\n", 204, None),
        (
            "OPTIONS http://a.test HTTP/1.1\r\nHost: a.test\r\n\r\n",
            204,
            None,
        ),
        ("OPTIONS * HTTP/1.1\r\nHost: b.test\r\n\r\n", 404, None),
    ] {
        client.send(request);
        let answer = client.answer();
        assert_eq!(
            (answer.status(), answer.field("allow")),
            (status, allow),
            "{request}"
        );
        assert_eq!(answer.field("connection"), None, "{request}");
        assert!(answer.field("date").is_some(), "{request}");
    }
    // To HEAD there is no page, only its length.
    client.send("HEAD /nowhere HTTP/1.1\r\nHost: a.test\r\n\r\n");
    let head = client.head();
    assert!(
        head.starts_with("HTTP/1.1 404 ") && !head.contains("Content-Length: 0\r\n"),
        "{head}"
    );
    client.send("HEAD /p/ HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
    let head = client.head();
    assert!(head.starts_with("HTTP/1.1 502 "), "{head}");
    client.expect_end();
    // An unreadable request is the last of its connection.
    for malformed in [
        "GET /%00 HTTP/1.1\r\nHost: a.test\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET /\r\n\r\n",
    ] {
        let all = Http::ask(
            gate.address(),
            format!("{malformed}GET /only HTTP/1.1\r\nHost: a.test\r\n\r\n"),
        );
        assert!(
            all.starts_with("HTTP/1.1 400 ") && all.contains("Connection: close\r\n"),
            "{all}"
        );
        assert_eq!(all.matches("HTTP/1.1 ").count(), 1, "{all}");
    }
}

#[test]
fn rewrite_and_header_rules_shape_the_upstream_request() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&(plain_site(origin.address()) + TABLES));
    for (asked, expected) in [
        ("/api/a%20b/c?d=%2F&e", "/a%20b/c?d=%2F&e"),
        ("/api/", "/"),
        ("/api/?q", "/?q"),
        ("/api//x", "//x"),
        ("/v/7/x", "/x/7?from=v"),
        ("/other?", "/other?"),
    ] {
        let request = format!("GET {asked} HTTP/1.1\r\nHost: a.test\r\n\r\n");
        let (seen, answer) = exchange_bytes(
            &gate,
            &origin,
            &request,
            "HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: 0\r\n\r\n",
        );
        assert_eq!(seen.first_line(), format!("GET {expected} HTTP/1.1"));
        assert!(
            answer.contains("x-frame-options: DENY\r\n") && !answer.contains("Server"),
            "{answer}"
        );
    }
    let request = "GET /set/it?q HTTP/1.1\r\nHost: a.test\r\nX-Drop: 1\r\nX-SET: theirs\r\n\r\n";
    let (seen, _) = exchange_bytes(&gate, &origin, request, OK);
    assert_eq!(
        (seen.field("x-set"), seen.field("x-drop")),
        (Some("a.test/set/it"), None)
    );
}

/// The tus protocol rests on this: an origin that does not know its own address creates an upload
/// and returns its Location.
#[test]
fn location_is_rewritten_to_the_public_url() {
    let site = Site::new();
    let origin = Origin::tcp();
    let toml = format!(
        "[site.\"{NAME}:0\"]\nlisten = [\"127.0.0.1\"]\ntls = {{ cert = \"{}\" }}\nproxy = \"{}\"\n\
         [site.\"{NAME}:0\".path.\"/up/*\"]\nstrip_prefix = true\n",
        site.cert,
        origin.address()
    );
    let gate = lockgate().start(&toml);
    let address = origin.address();
    for (path, status, location, expected) in [
        (
            "/files",
            "201 Created",
            "http://app.test/files/1".to_owned(),
            "https://app.test/files/1",
        ),
        (
            "/files",
            "201 Created",
            format!("http://{address}/files/1?a=b"),
            "https://app.test/files/1?a=b",
        ),
        ("/files", "302 Found", "/files/2".to_owned(), "/files/2"),
        (
            "/files",
            "302 Found",
            "https://elsewhere.test/x".to_owned(),
            "https://elsewhere.test/x",
        ),
        (
            "/up/files",
            "201 Created",
            "/files/3".to_owned(),
            "/up/files/3",
        ),
        (
            "/up/files",
            "201 Created",
            format!("http://{address}/files/3"),
            "https://app.test/up/files/3",
        ),
        ("/up/files", "302 Found", "next".to_owned(), "next"),
    ] {
        let mut client = Http::over(site.client().connect(gate.address(), NAME).unwrap());
        client.send(format!(
            "POST {path} HTTP/1.1\r\nHost: {NAME}\r\nContent-Length: 0\r\n\r\n"
        ));
        let mut upstream = origin.http();
        upstream.request();
        upstream.send(format!(
            "HTTP/1.1 {status}\r\nConnection: close\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"
        ));
        assert_eq!(
            client.answer().field("location"),
            Some(expected),
            "{path} {location}"
        );
    }
}

/// The rules of a route apply behind its TLS. The redirect discloses only the name, which the
/// certificate discloses as well, and a password for it would be sent unencrypted.
#[test]
fn the_https_redirect_precedes_auth_deny_and_rate_limit() {
    let site = Site::new();
    let users = site.folder.write("users", "# nobody\n");
    let gate = lockgate().start(&format!(
        "ports = {{ http = 0, https = 0 }}\n[site.\"{NAME}\"]\nlisten = [\"127.0.0.1\"]\n\
         tls = {{ cert = \"{}\" }}\ndeny = [\"127.0.0.1\"]\nauth = {{ basic = \"{}\" }}\n\
         limit = {{ rate = \"1/h\" }}\nrespond = \"in\"\n",
        site.cert,
        text(&users)
    ));
    let request = format!("GET / HTTP/1.1\r\nHost: {NAME}\r\n\r\n");
    let mut plain = Http::connect(gate.at("127.0.0.1:0 http"));
    for _ in 0..3 {
        plain.send(&request);
        assert_eq!(plain.answer().status(), 308);
    }
    let mut secure = Http::over(site.client().connect(gate.at("127.0.0.1:0"), NAME).unwrap());
    secure.send(&request);
    assert_eq!(secure.answer().status(), 403);
}

/// RFC 9110 §7.6.2.
#[test]
fn max_forwards_zero_is_answered_here() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain_site(origin.address()));
    let mut client = Http::connect(gate.address());
    client.send("OPTIONS / HTTP/1.1\r\nHost: a.test\r\nMax-Forwards: 0\r\n\r\n");
    assert_eq!(
        normalized_text(client.head()),
        "HTTP/1.1 204 No Content\r\nDate: NOW\r\n\r\n"
    );
    // RFC 9110 §9.3.8: the echoed fields may be secret.
    client.send("TRACE / HTTP/1.1\r\nHost: a.test\r\nMax-Forwards: 0\r\nCookie: a=secret\r\n\r\n");
    let answer = client.answer();
    assert_eq!(answer.status(), 501);
    assert!(!answer.text().contains("secret"));
    client.send("OPTIONS / HTTP/1.1\r\nHost: a.test\r\nMax-Forwards: 1, 2\r\n\r\n");
    assert_eq!(client.answer().status(), 400);
}

/// RFC 9110 §7.4.
#[test]
fn an_https_target_without_tls_is_a_421() {
    let origin = Origin::tcp();
    let site = plain_site(origin.address());
    let request = "GET https://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n";
    let gate = lockgate().start(&site);
    let mut client = Http::connect(gate.address());
    client.send(request);
    assert_eq!(client.answer().status(), 421);
    // A trusted proxy has terminated TLS.
    let gate = lockgate().start(&format!("trusted = [\"127.0.0.1\"]\n{site}"));
    let (seen, _) = exchange_bytes(&gate, &origin, request, OK);
    assert_eq!(seen.first_line(), "GET / HTTP/1.1");
}

#[test]
fn a_redirect_file_precedes_actions_but_not_basic_auth() {
    let folder = Folder::new();
    let map =
        "/old/* /new/{*} 301\n/caf%C3%A9 https://{host}/tea?{query}\n/locked/a /open\n/a /b 302\n";
    let file = folder.write("moved", map);
    let users = folder.write(
        "users",
        "a:$2y$04$2lIsLL4WkHlL1AdE.us2M.KiUDmXG4b/qmENltdLbJc9r08TNOP1m\n",
    );
    let toml = format!(
        "[site.\":0\"]\nlisten = [\"127.0.0.1\"]\nrespond = 404\nredirects = \"{}\"\n\
         [site.\":0\".path.\"/locked/*\"]\nauth = {{ basic = \"{}\" }}\n\
         [site.\":0\".path.\"/a/{{id}}\"]\nrespond = \"kept\"\nredirects = false\n",
        file.display(),
        users.display()
    );
    let gate = lockgate().start(&toml);
    let mut client = Http::connect(gate.address());
    for (asked, status, location) in [
        ("/old/x%20y?q=1", 301, Some("/new/x%20y?q=1")),
        ("/old//evil.test/", 301, Some("/new//evil.test/")),
        ("/old", 301, Some("/new/")),
        ("/caf%c3%a9?milk", 308, Some("https://a.test/tea?milk")),
        ("/a", 302, Some("/b")),
        ("//a", 302, Some("/b")),
        ("/a/", 404, None),
        ("/a/1", 200, None),
        ("/locked/a", 401, None),
    ] {
        client.send(format!("GET {asked} HTTP/1.1\r\nHost: a.test\r\n\r\n"));
        let answer = client.answer();
        assert_eq!(
            (answer.status(), answer.field("location")),
            (status, location),
            "{asked}"
        );
    }
}

#[test]
fn secure_headers_are_added_where_the_application_has_none() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&(plain_site(origin.address()) + "headers = { secure = true }\n"));
    let answer = "HTTP/1.1 200 OK\r\nX-Frame-Options: DENY\r\nContent-Length: 0\r\n\r\n";
    let (_, answer) = exchange_bytes(
        &gate,
        &origin,
        "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n",
        answer,
    );
    assert!(
        answer.contains("X-Frame-Options: DENY\r\n") && !answer.contains("SAMEORIGIN"),
        "{answer}"
    );
    assert!(
        answer.contains("x-content-type-options: nosniff\r\n"),
        "{answer}"
    );
    assert!(
        !answer.to_ascii_lowercase().contains("strict-transport"),
        "{answer}"
    );
}

#[test]
fn header_rules_apply_to_error_pages_but_not_caching() {
    let rules = "headers = { secure = true, x-path = \"{path}\", cache-control = \"max-age=60\", content-type = \"a/b\", \
                 proxy-status = false, allow = false }\n";
    let gate = lockgate().start(&(plain_site(deserted()) + rules + "body = { max = \"1B\" }\n"));
    let mut client = Http::connect(gate.address());
    for (asked, status) in [
        ("GET /a?b HTTP/1.1\r\n", 502),
        ("POST /a HTTP/1.1\r\nContent-Length: 2\r\n", 413),
    ] {
        client.send(format!("{asked}Host: a.test\r\n\r\n"));
        let answer = client.answer();
        let said = [
            "x-path",
            "x-content-type-options",
            "cache-control",
            "proxy-status",
        ];
        let said = said.map(|name| answer.field(name));
        assert_eq!(
            (answer.status(), said),
            (
                status,
                [Some("/a"), Some("nosniff"), Some("no-store"), None]
            )
        );
        assert_eq!(
            answer.field("content-type"),
            Some("text/plain; charset=utf-8")
        );
    }
}
