//! Redirects from a file, before every other action.

use std::fs;

use lockgate_testkit::{Folder, Http, Lockgate, Message, Origin};

use crate::http::plain_site;
use crate::scene::{lockgate, text};

/// The response to one request: a status and a Location, and nothing behind the head.
fn response_to(client: &mut Http, line: &str, more: &str) -> (u16, Option<String>) {
    client.send(format!("{line} HTTP/1.1\r\nHost: a.test\r\n{more}\r\n"));
    let head = client.head();
    assert!(head.contains("\r\nContent-Length: 0\r\n"), "{line}: {head}");
    let message = Message {
        head,
        ..Message::default()
    };
    (
        message.status(),
        message.field("location").map(str::to_owned),
    )
}

/// Asserts where each request leads, all of them on one connection.
fn expect(gate: &Lockgate, cases: &[(&str, u16, &str)]) {
    let mut client = Http::connect(gate.address());
    for (line, status, location) in cases {
        assert_eq!(
            response_to(&mut client, line, ""),
            (*status, Some((*location).to_owned())),
            "{line}"
        );
    }
}

const MAP: &str = "# moved in May\n/a /b\n/a/* https://b.test/x/{*}\n/caf%c3%a9%20x /coffee 301\n/* /all/{*} 302\n\
                   /see /other 303\n/keep /kept 307\n";

#[test]
fn a_redirect_file_precedes_every_kind_of_action() {
    let folder = Folder::new();
    let map = text(&folder.write("map", MAP));
    let root = folder.path("root");
    fs::create_dir(&root).unwrap();
    fs::write(root.join("a"), "a file").unwrap();
    let origin = Origin::tcp();
    for action in [
        format!("proxy = \"{}\"", origin.address()),
        format!("root = \"{}\"", text(&root)),
        "respond = \"no\"".to_owned(),
        "redirect = \"/no\"".to_owned(),
    ] {
        let gate = lockgate().start(&format!(
            "[site.\":0\"]\nlisten = [\"127.0.0.1\"]\n{action}\nredirects = \"{map}\"\n\
             headers = {{ x-own = \"{{path}}\" }}\n"
        ));
        expect(
            &gate,
            &[
                // The exact path goes first, then the longest prefix of whole segments.
                ("GET /a?q=%2f&r", 308, "/b?q=%2f&r"),
                ("GET /a/", 308, "https://b.test/x/"),
                ("GET /a/b%20c//d?e", 308, "https://b.test/x/b%20c//d?e"),
                ("GET /ab", 302, "/all/ab"),
                // Paths are decoded before they are looked up, and filled in as they came.
                ("GET /%61", 308, "/b"),
                ("GET /%61/%62", 308, "https://b.test/x/%62"),
                ("GET /caf%C3%A9%20x", 301, "/coffee"),
                ("GET //a", 308, "/b"),
                // RFC 9110 §15.4: the status decides whether the method may change.
                ("HEAD /a", 308, "/b"),
                ("DELETE /keep", 307, "/kept"),
                ("PATCH /see", 303, "/other"),
                ("OPTIONS /a", 308, "/b"),
                // CWE-601: a part that looks like a host is part of the path.
                ("GET //evil.test/", 302, "/all//evil.test/"),
            ],
        );
        let mut client = Http::connect(gate.address());
        client.send("GET /a HTTP/1.1\r\nHost: a.test\r\n\r\n");
        assert_eq!(client.answer().field("x-own"), Some("/a"));
        // A body is not waited for, and never the next request.
        let mut client = Http::connect(gate.address());
        let body = "GET /b HTTP/1.1\r\n\r\n";
        client.send(format!(
            "POST /a HTTP/1.1\r\nHost: a.test\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ));
        assert_eq!(client.answer().status(), 308);
        client.expect_end();
    }
}

#[test]
fn unmatched_paths_pass_and_redirects_never_loop() {
    let folder = Folder::new();
    let map = text(&folder.write("map", "/old/* /new/{*}\n/docs/* /docs\n/a%2eb /b\n"));
    let origin = Origin::tcp().answering(|request| {
        let line = request.first_line();
        format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{line}",
            line.len()
        )
        .into_bytes()
    });
    let gate = lockgate().start(
        &(plain_site(origin.address())
            + &format!(
                "redirects = \"{map}\"\n[site.\":0\".path.\"/old/kept\"]\nredirects = false\n\
                 [site.\":0\".path.\"/new/*\"]\nrespond = \"new\"\nallow = [\"192.0.2.0/24\"]\n\
                 [site.\":0\".path.\"/old/closed/*\"]\nallow = [\"192.0.2.0/24\"]\n"
            )),
    );
    let mut client = Http::connect(gate.address());
    let mut ask = |target: &str| {
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n\r\n"));
        client.answer()
    };
    for target in ["/", "/older", "/docs", "/docs?a=/x", "/old/kept"] {
        let answer = ask(target);
        assert_eq!(
            (answer.status(), answer.text()),
            (200, &*format!("GET {target} HTTP/1.1"))
        );
    }
    for (target, location) in [
        ("/old", "/new/"),
        ("/old/x", "/new/x"),
        ("/docs/x", "/docs"),
        ("/a.b", "/b"),
    ] {
        let answer = ask(target);
        assert_eq!(
            (answer.status(), answer.field("location")),
            (308, Some(location)),
            "{target}"
        );
    }
    // A client that is refused does not learn where it went.
    let answer = ask("/old/closed/x");
    assert_eq!((answer.status(), answer.field("location")), (403, None));
}

#[test]
fn a_hundred_thousand_redirects_are_looked_up() {
    let folder = Folder::new();
    let lines: String = (0..100_000)
        .map(|n| match n % 100 {
            0 => format!("/section/{n}/* /moved/{n}/{{*}} 301\n"),
            _ => format!("/archive/2019/article-{n}.html /articles/{n}/\n"),
        })
        .collect();
    let map = text(&folder.write("map", lines));
    let started = |redirects: &str| {
        let gate = lockgate().start(&format!(
            "[site.\":0\"]\nlisten = [\"127.0.0.1\"]\nrespond = \"no\"\n{redirects}[site.\":0\".path.\"/section/*\"]\n\
             respond = \"here\"\n"
        ));
        let resident = gate.resident();
        (gate, resident)
    };
    let (_, without) = started("");
    let (gate, with) = started(&format!("redirects = \"{map}\"\n"));
    expect(
        &gate,
        &[
            ("GET /archive/2019/article-1.html", 308, "/articles/1/"),
            (
                "GET /archive/2019/article-99999.html?x",
                308,
                "/articles/99999/?x",
            ),
            ("GET /section/99900/a/b", 301, "/moved/99900/a/b"),
            // Both routes have the same table.
            ("GET /section/0", 301, "/moved/0/"),
        ],
    );
    let mut client = Http::connect(gate.address());
    client.send("GET /archive/2019/article-100.html HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!(client.answer().text(), "no");
    client.send(format!(
        "GET /section{} HTTP/1.1\r\nHost: a.test\r\n\r\n",
        "/a".repeat(3_000)
    ));
    assert_eq!(client.answer().text(), "here");
    let each = with.saturating_sub(without) / 100_000;
    println!("{each} bytes each");
    assert!(each < 700, "{each} bytes for each redirect");
}
