//! Rules that change a request, beside each feature that reads one: features use the received
//! request, endpoints get the changed one.

use std::collections::BTreeSet;

use lockgate_testkit::{Http, Lockgate, Message, Origin, Serving};

use super::{ok, plain_site};
use crate::scene::{deserted, lockgate};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// Fields of the client in every request.
const SENT: &str = "User-Agent: browser/1\r\nReferer: https://from.test/\r\nAccept: text/html\r\nAccept-Encoding: gzip\r\n\
    Origin: https://page.test\r\nAuthorization: Basic YTpi\r\n\
    Traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n";

/// The rules, each as keys of a route. SERVICE is an auth service that vouches for the user
/// `vouched`.
const RULES: [&str; 9] = [
    "",
    "request_headers = { host = \"app.internal\" }\n",
    "request_headers = { user-agent = false, referer = false, accept = false, accept-encoding = false, origin = false, \
     authorization = false, traceparent = false, cookie = false, x-user = false, x-key = false }\n",
    "request_headers = { user-agent = \"rule\", referer = \"rule\", accept = \"application/json\", accept-encoding = \"br\", \
     origin = \"https://rule.test\", authorization = \"rule\", traceparent = \"rule\", cookie = \"lg=rule\", \
     x-user = \"rule\", x-key = \"rule\" }\n",
    "request_headers = { x-added = { add = \"{host}\" } }\n",
    "rewrite = \"/other\"\n",
    "auth = { forward = \"SERVICE\", copy = [\"x-user\", \"accept-encoding\"] }\n",
    "trace = true\n",
    "rewrite_body = [{ text = \"@@\", with = \"##\" }]\n",
];

/// An origin that responds with its name and the head that it has received; a request's
/// `X-Location` comes back as Location.
fn head_showing_origin(name: &'static str) -> Serving {
    Origin::tcp().answering(move |request| {
        let body = format!("{name} @@\n{}{}", request.head, "x".repeat(5_000));
        let moved = request.field("x-location").map(|to| format!("Location: {to}\r\n"));
        let (status, moved) = moved.map_or(("200 OK", String::new()), |moved| ("302 Found", moved));
        let length = body.len();
        format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/html\r\n{moved}Content-Length: {length}\r\n\r\n{body}"
        )
        .into_bytes()
    })
}

struct Scene {
    gate: Lockgate,
    origins: [Serving; 2],
    service: Serving,
}

impl Scene {
    /// A route for each feature, with these rules beside it.
    fn new(rules: &str) -> Self {
        let origins = [head_showing_origin("first"), head_showing_origin("second")];
        let service = Origin::tcp().answering(|request| match request.field("authorization") {
            Some("Basic YTpi") => b"HTTP/1.1 204 No Content\r\nX-User: vouched\r\n\r\n".to_vec(),
            _ => ok("who?"),
        });
        let [first, second] = origins.each_ref().map(Serving::address);
        let rules = rules.replace("SERVICE", service.address());
        let pool = |balance: &str| {
            format!("endpoints = [\"{first}\", \"{second}\"]\nbalance = {{ {balance} }}\n")
        };
        let mut toml = format!(
            "[pool.hash]\n{}[pool.sticky]\n{}{}",
            pool("hash = \"header:x-user\""),
            pool("sticky = \"cookie:lg\""),
            plain_site(first),
        );
        for (path, keys) in [
            ("/plain", String::new()),
            (
                "/compressed",
                "compress = { codings = [\"br\", \"gzip\"] }\n".to_owned(),
            ),
            ("/cors", "cors = \"https://page.test\"\n".to_owned()),
            ("/hash", "proxy = \"pool:hash\"\n".to_owned()),
            ("/sticky", "proxy = \"pool:sticky\"\n".to_owned()),
            (
                "/limited",
                "limit = { rate = \"1/h\", per = \"header:x-key\" }\n".to_owned(),
            ),
            ("/down", format!("proxy = \"{}\"\n", deserted())),
            (
                "/guarded",
                format!("auth = {{ forward = \"{}\" }}\n", service.address()),
            ),
            (
                "/changed",
                "rewrite_body = [{ text = \"@@\", with = \"##\" }]\n".to_owned(),
            ),
        ] {
            let twice = keys
                .split('=')
                .next()
                .is_some_and(|key| !key.is_empty() && rules.starts_with(key));
            let rules = if twice { "" } else { &rules };
            toml += &format!("[site.\":0\".path.\"{path}\"]\n{keys}{rules}");
        }
        Self {
            gate: lockgate().start(&toml),
            origins,
            service,
        }
    }

    /// Requests a path with these lines beside the usual ones.
    fn ask(&self, path: &str, lines: &str) -> Message {
        let mut client = Http::connect(self.gate.address());
        client.send(format!(
            "GET {path} HTTP/1.1\r\nHost: a.test\r\n{SENT}{lines}\r\n"
        ));
        client.answer()
    }

    /// The same without a coding, so that the response's text can be read.
    fn text(&self, path: &str, lines: &str) -> String {
        let mut client = Http::connect(self.gate.address());
        let sent = SENT.replace("Accept-Encoding: gzip\r\n", "");
        client.send(format!(
            "GET {path} HTTP/1.1\r\nHost: a.test\r\n{sent}{lines}\r\n"
        ));
        client.answer().text().to_owned()
    }
}

/// Calls `look` for each rule, with a scene that has it.
fn beside_each_rule(look: impl Fn(&mut Scene, &str)) {
    for rules in RULES {
        look(&mut Scene::new(rules), rules);
    }
}

#[test]
fn the_access_log_has_the_received_request_beside_each_rule() {
    beside_each_rule(|scene, rules| {
        scene.ask("/plain", "");
        let line = scene
            .gate
            .line("its line", |line| line["target"] == "/plain");
        let told = ["host", "user_agent", "referer", "trace_id"].map(|field| line[field].as_str());
        assert_eq!(
            told,
            ["a.test", "browser/1", "https://from.test/", TRACE].map(Some),
            "{rules}"
        );
    });
}

/// RFC 7239 §5.3: the host of the client's request.
#[test]
fn x_forwarded_host_is_the_public_host_beside_each_rule() {
    beside_each_rule(|scene, rules| {
        let seen = scene.text("/plain", "");
        assert!(
            seen.contains("\r\nX-Forwarded-Host: a.test\r\n"),
            "{rules}: {seen}"
        );
        assert!(
            seen.contains("\r\nForwarded: for=127.0.0.1;proto=http;host=\"a.test\"\r\n"),
            "{rules}: {seen}"
        );
    });
}

#[test]
fn location_names_the_public_host_beside_each_rule() {
    beside_each_rule(|scene, rules| {
        let own = format!("X-Location: http://{}/x\r\n", scene.origins[0].address());
        assert_eq!(
            scene.ask("/plain", &own).field("location"),
            Some("http://a.test/x"),
            "{rules}"
        );
        // The name that a rule gives the endpoint is the endpoint's own, with its port or without.
        // To lead a client from https, which it does not use, back to http would be a loop.
        let port = scene.origins[0].address().rsplit(':').next().unwrap();
        for (named, is_own) in [
            ("http://app.internal/x".to_owned(), true),
            (format!("http://app.internal:{port}/x"), true),
            ("https://app.internal/x".to_owned(), false),
        ] {
            let answer = scene.ask("/plain", &format!("X-Location: {named}\r\n"));
            let expected = if is_own && rules.contains("app.internal") {
                "http://a.test/x"
            } else {
                &named
            };
            assert_eq!(answer.field("location"), Some(expected), "{rules}");
        }
    });
}

/// RFC 9110 §12.5.3.
#[test]
fn compression_follows_the_received_accept_encoding_beside_each_rule() {
    beside_each_rule(|scene, rules| {
        assert_eq!(
            scene.ask("/compressed", "").field("content-encoding"),
            Some("gzip"),
            "{rules}"
        );
    });
}

#[test]
fn cors_follows_the_received_origin_beside_each_rule() {
    beside_each_rule(|scene, rules| {
        let answer = scene.ask("/cors", "");
        assert_eq!(
            answer.field("access-control-allow-origin"),
            Some("https://page.test"),
            "{rules}"
        );
    });
}

#[test]
fn hashing_follows_the_received_header_beside_each_rule() {
    beside_each_rule(|scene, rules| {
        let answered: BTreeSet<_> = (0..40)
            .map(|user| {
                scene
                    .text("/hash", &format!("X-User: u{user}\r\n"))
                    .split(' ')
                    .next()
                    .unwrap()
                    .to_owned()
            })
            .collect();
        // A field of the auth service replaces the client's.
        let endpoints = if rules.starts_with("auth") { 1 } else { 2 };
        assert_eq!(answered.len(), endpoints, "{rules}");
    });
}

#[test]
fn a_sticky_cookie_holds_beside_each_rule() {
    beside_each_rule(|scene, rules| {
        let first = scene.ask("/sticky", "Accept-Encoding: identity\r\n");
        let cookie = first
            .field("set-cookie")
            .unwrap()
            .split(';')
            .next()
            .unwrap()
            .to_owned();
        let name = |text: &str| text.split(' ').next().unwrap().to_owned();
        for _ in 0..8 {
            let mut client = Http::connect(scene.gate.address());
            client.send(format!(
                "GET /sticky HTTP/1.1\r\nHost: a.test\r\nCookie: {cookie}\r\n\r\n"
            ));
            let again = client.answer();
            assert_eq!(
                (name(again.text()), again.field("set-cookie")),
                (name(first.text()), None),
                "{rules}"
            );
        }
    });
}

#[test]
fn a_rate_limit_counts_the_received_header_beside_each_rule() {
    beside_each_rule(|scene, rules| {
        let statuses = ["one", "one", "two", "two"]
            .map(|key| scene.ask("/limited", &format!("X-Key: {key}\r\n")).status());
        assert_eq!(statuses, [200, 429, 200, 429], "{rules}");
    });
}

#[test]
fn an_error_page_follows_the_received_accept_beside_each_rule() {
    beside_each_rule(|scene, rules| {
        let answer = scene.ask("/down", "");
        let html = answer
            .field("content-type")
            .is_some_and(|of| of.starts_with("text/html"));
        assert!(answer.status() == 502 && html, "{rules}: {}", answer.head);
    });
}

#[test]
fn forward_auth_gets_the_received_credentials_beside_each_rule() {
    beside_each_rule(|scene, rules| {
        assert!(scene.service.accepted() == 0 || rules.starts_with("auth"));
        assert_eq!(scene.ask("/guarded", "").status(), 200, "{rules}");
        assert_eq!(scene.service.accepted(), 1, "{rules}");
    });
}

#[test]
fn rewrite_body_works_beside_each_rule() {
    beside_each_rule(|scene, rules| {
        assert!(scene.text("/changed", "").contains(" ##\n"), "{rules}");
    });
}

/// The other half: the endpoint gets the request as the rules make it.
#[test]
fn an_endpoint_gets_the_request_as_rewritten_by_rules() {
    for (rules, has, has_not) in [
        (
            RULES[1],
            "\r\nHost: app.internal\r\n",
            "\r\nHost: a.test\r\n",
        ),
        (RULES[2], "\r\nX-Forwarded-For: ", "\r\nReferer: "),
        (RULES[3], "\r\naccept-encoding: br\r\n", "browser/1"),
        (RULES[4], "\r\nx-added: a.test\r\n", "app.internal"),
        (RULES[5], "GET /other HTTP/1.1\r\n", "/plain"),
        (
            RULES[6],
            "\r\nx-user: vouched\r\n",
            "\r\nX-User: forged\r\n",
        ),
    ] {
        let seen = Scene::new(rules).text("/plain", "X-User: forged\r\n");
        assert!(
            seen.contains(has) && !seen.contains(has_not),
            "{rules}: {seen}"
        );
    }
}

/// RFC 9112 §3.2.2: the target overrides Host, and a rule overrides both, for any Host of the
/// client.
#[test]
fn a_host_rule_overrides_an_absolute_form_target() {
    let scene = Scene::new(RULES[1]);
    for host in ["a.test", "app.internal", "b.test"] {
        let mut client = Http::connect(scene.gate.address());
        client.send(format!(
            "GET http://b.test/plain HTTP/1.1\r\nHost: {host}\r\n\r\n"
        ));
        let seen = client.answer().text().to_owned();
        let hosts = "\r\nHost: app.internal\r\n";
        assert!(
            seen.contains(hosts) && seen.contains("\r\nX-Forwarded-Host: b.test\r\n"),
            "{host}: {seen}"
        );
    }
}

/// RFC 9112 §3.2: HTTP/1.0 may name none. Then no public host is made up for it.
#[test]
fn a_request_without_host_gets_the_rules_host_only() {
    let scene = Scene::new(RULES[1]);
    let seen = Http::ask(scene.gate.address(), "GET /plain HTTP/1.0\r\n\r\n");
    assert!(
        seen.contains("\r\nHost: app.internal\r\n") && !seen.contains("X-Forwarded-Host"),
        "{seen}"
    );
    assert!(
        seen.contains("\r\nForwarded: for=127.0.0.1;proto=http\r\n"),
        "{seen}"
    );
}

/// A host that a rule sets is not the client's to choose: it strips the port, and an upgrade to
/// https stays one.
#[test]
fn a_host_rule_keeps_an_https_redirect_of_the_endpoint() {
    let scene = Scene::new("request_headers = { host = \"{host}\" }\n");
    let mut client = Http::connect(scene.gate.address());
    client.send("GET /plain HTTP/1.1\r\nHost: a.test:8080\r\nX-Location: https://a.test/x\r\n\r\n");
    assert_eq!(client.answer().field("location"), Some("https://a.test/x"));
}

#[test]
fn a_malformed_host_rule_is_refused() {
    let scene = Scene::new("request_headers = { host = \"{path}\" }\n");
    assert_eq!(scene.ask("/plain", "").status(), 400);
}
