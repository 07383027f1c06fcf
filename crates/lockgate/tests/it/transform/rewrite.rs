//! `rewrite_body` on responses of an origin: decoded, changed and coded again as they stream by.

use std::sync::Arc;

use lockgate_testkit::h2::{self, Client, ScriptedResponse};

use super::*;
use crate::files::{WAYS, Way};
use crate::scene::lockgate;

const HTML: &str = "Content-Type: text/html; charset=utf-8\r\n";
const RULES: &str = "rewrite_body = [{ text = \"@name@\", with = \"{query}\" }, { select = \"p\", append = \"!\" }]";

fn page(lines: usize, name: &str, end: &str) -> String {
    (0..lines)
        .map(|line| format!("<p>{line} {name}{end}</p>\n"))
        .collect()
}

#[test]
fn a_proxied_page_is_rewritten_in_any_chunks() {
    let content = page(500, "@name@", "");
    let origin = Origin::tcp().answering(move |request| {
        let path = request
            .first_line()
            .split(['/', '?'])
            .nth(1)
            .unwrap()
            .to_owned();
        match path.parse() {
            Ok(size) => chunked(HTML, content.as_bytes(), size, ""),
            // With its length, or up to the close.
            Err(_) if path == "whole" => reply(request, 200, HTML, content.as_bytes()),
            Err(_) => format!("HTTP/1.1 200 OK\r\n{HTML}Connection: close\r\n\r\n").into_bytes(),
        }
    });
    let served = Served::by(&proxied(&origin, RULES));
    for way in WAYS {
        let mut client = served.connect(way);
        for (round, path) in ["1", "2", "7", "4096", "100000", "whole"]
            .into_iter()
            .enumerate()
        {
            let answer = client.get(&format!("/{path}?n{round}"), &[]);
            assert_eq!(
                answer.text(),
                page(500, &format!("n{round}"), "!"),
                "{way:?} {path}"
            );
        }
    }
}

#[test]
fn validators_and_digests_of_a_rewritten_page_are_removed() {
    let fields = format!(
        "{HTML}ETag: \"a\"\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nAccept-Ranges: bytes\r\nContent-MD5: x\r\n\
         Content-Digest: sha-256=:YQ==:\r\nX-Own: stays\r\n"
    );
    let origin = origin_with(&fields, page(10, "@name@", ""));
    let served = Served::by(&proxied(&origin, RULES));
    for way in WAYS {
        let mut client = served.connect(way);
        for method in ["GET", "HEAD"] {
            let answer = client.ask(method, "/?n", &[]);
            let gone = [
                "etag",
                "last-modified",
                "accept-ranges",
                "content-md5",
                "content-digest",
                "content-length",
            ];
            assert_eq!(
                gone.map(|name| answer.field(name)),
                [None; 6],
                "{way:?} {method}"
            );
            assert_eq!(answer.field("x-own"), Some("stays"), "{way:?} {method}");
        }
    }
}

#[test]
fn a_compressed_proxied_page_is_decoded_and_rewritten() {
    for (name, coding) in [
        ("gzip", Some(Coding::Gzip)),
        ("x-gzip", Some(Coding::Gzip)),
        ("BR", Some(Coding::Brotli)),
        ("zstd", Some(Coding::Zstd)),
        ("identity", None),
    ] {
        let content = page(500, "@name@", "");
        let coded = coding.map_or(content.clone().into_bytes(), |coding| {
            encode_all(coding, 3, content.as_bytes())
        });
        let fields = format!("{HTML}Content-Encoding: {name}\r\nVary: Accept-Encoding\r\n");
        let origin = Origin::tcp().answering(move |_| chunked(&fields, &coded, 1, ""));
        for (keys, coding) in [
            (RULES.to_owned(), None),
            (format!("{RULES}\ncompress = true"), Some("br")),
        ] {
            let served = Served::by(&proxied(&origin, &keys));
            for way in WAYS {
                let answer = served
                    .connect(way)
                    .get("/?n", &[("Accept-Encoding", "br, gzip;q=0.5")]);
                assert_eq!(answer.field("content-encoding"), coding, "{way:?} {name}");
                assert_eq!(
                    decoded(&answer),
                    page(500, "n", "!").as_bytes(),
                    "{way:?} {name}"
                );
                assert_eq!(
                    answer.field("vary"),
                    Some("Accept-Encoding"),
                    "{way:?} {name}"
                );
            }
        }
    }
}

#[test]
fn pages_that_must_not_be_rewritten_pass_unchanged() {
    let content = page(10, "@name@", "");
    for (status, fields) in [
        (
            200,
            "Content-Type: text/html\r\nContent-Encoding: x-own\r\n",
        ),
        (
            200,
            "Content-Type: text/html\r\nContent-Encoding: gzip, x-own\r\n",
        ),
        (
            200,
            "Content-Type: text/html\r\nContent-Encoding: gzip\r\nContent-Encoding: br\r\n",
        ),
        (
            200,
            "Content-Type: text/html\r\nCache-Control: no-transform\r\n",
        ),
        (
            206,
            "Content-Type: text/html\r\nContent-Range: bytes 0-9/99\r\n",
        ),
        (200, "Content-Type: text/plain\r\n"),
        (200, "Content-Type: application/xhtml+xml\r\n"),
        (200, "Content-Type: text/htmlx\r\n"),
        (200, ""),
    ] {
        let (body, said) = (content.clone(), format!("{fields}ETag: \"a\"\r\n"));
        let origin =
            Origin::tcp().answering(move |request| reply(request, status, &said, body.as_bytes()));
        let served = Served::by(&proxied(&origin, RULES));
        for way in WAYS {
            let answer = served.connect(way).get("/?n", &[]);
            assert_eq!(
                (answer.status, answer.text()),
                (status, &*content),
                "{way:?} {fields:?}"
            );
            assert_eq!(answer.field("etag"), Some("\"a\""), "{way:?} {fields:?}");
            assert_eq!(
                answer.field("content-length"),
                Some(&*content.len().to_string()),
                "{way:?} {fields:?}"
            );
        }
    }
    // Errors are pages, too.
    let origin =
        Origin::tcp().answering(move |request| reply(request, 404, HTML, content.as_bytes()));
    let answer = get(&Served::by(&proxied(&origin, RULES)).gate, "/?n", &[]);
    assert_eq!((answer.status, answer.text()), (404, &*page(10, "n", "!")));
}

#[test]
fn request_values_in_a_rewritten_page_are_escaped() {
    let body = "<p title=\"@name@\">@name@</p>";
    let origin = origin_with(HTML, body);
    let served = Served::by(&proxied(&origin, RULES));
    for way in [Way::Plain, Way::Secure] {
        let mut client = served.connect(way);
        let answer = client.get("/?\"><script>'&@name@", &[]);
        let shown = "%22%3E%3Cscript%3E%27&amp;@name@";
        assert_eq!(
            answer.text(),
            format!("<p title=\"{shown}\">{shown}!</p>"),
            "{way:?}"
        );
    }
}

/// Changed bytes are sent before more come, except for the possible beginning of a match.
#[test]
fn a_proxied_page_is_rewritten_while_it_streams() {
    let origin = Origin::tcp();
    let served = Served::by(&format!(
        "proxy = \"{}\"\n{RULES}\ncompress = true",
        origin.address()
    ));
    for coding in ["gzip", "br", "zstd"] {
        let mut client = Http::connect(served.gate.address());
        client.send(format!(
            "GET /?n HTTP/1.1\r\nHost: {NAME}\r\nAccept-Encoding: {coding}\r\n\r\n"
        ));
        let mut upstream = origin.http();
        upstream.request();
        upstream.send(format!("HTTP/1.1 200 OK\r\n{HTML}\r\n"));
        client.head();
        let (mut reader, mut come) = (Reader::new(coding), String::new());
        for round in 1..=10 {
            upstream.send(format!("<p>@name@</p>{}", " ".repeat(20)));
            while come.matches("<p>n!</p>").count() < round {
                come.push_str(&reader.read(&client.chunk().unwrap()));
            }
            assert!(!come.contains('@'), "{coding} {come}");
        }
    }
}

#[test]
fn trailers_follow_a_rewritten_body_over_http1_and_http2() {
    let content = page(300, "@name@", "");
    let coded = encode_all(Coding::Gzip, 6, content.as_bytes());
    let (body, sent) = (coded.clone(), coded);
    let classic = Origin::tcp().answering(move |_| {
        let fields = format!("{HTML}Content-Encoding: gzip\r\nTrailer: X-Sum\r\n");
        chunked(&fields, &body, 100, "X-Sum: 7\r\n")
    });
    let modern = h2::Origin::plain(move |_| {
        let reply = ScriptedResponse::new(200)
            .field("content-type", "text/html")
            .field("content-encoding", "gzip");
        let reply = sent
            .chunks(100)
            .fold(reply, |reply, piece| reply.piece(piece.to_vec()));
        reply.trailer("x-sum", "7")
    });
    let pool = format!(
        "[pool.app]\nprotocol = \"h2c\"\nendpoints = [\"{}\"]\n",
        modern.address()
    );
    for (pool, proxy) in [
        (String::new(), classic.address().to_owned()),
        (pool, "pool:app".to_owned()),
    ] {
        let site = format!(
            "listen = [\"127.0.0.1\"]\nprotocols = [\"http1\", \"h2c\"]\n{RULES}\ncompress = true"
        );
        let gate = lockgate().start(&format!(
            "{pool}[site.\":0\"]\nproxy = \"{proxy}\"\n{site}\n"
        ));
        for coding in ["identity", "zstd"] {
            let mut client = Http::connect(gate.address());
            client.send(format!(
                "GET /?n HTTP/1.1\r\nHost: {NAME}\r\nTE: trailers\r\nAccept-Encoding: {coding}\r\n\r\n"
            ));
            let answer = client.answer();
            assert_eq!(
                answer.trailers.to_lowercase(),
                "x-sum: 7\r\n",
                "{proxy} {coding}"
            );
            assert_eq!(
                decoded(&answer.into()),
                page(300, "n", "!").as_bytes(),
                "{proxy} {coding}"
            );
            let client = Client::connect(gate.address());
            let mut request = Client::request(::http::Method::GET, "/?n");
            request
                .headers_mut()
                .insert("accept-encoding", coding.parse().unwrap());
            let answer = client.begin(request, true).answer();
            assert_eq!(
                (answer.reset, answer.trailer("x-sum")),
                (None, Some("7")),
                "{proxy} {coding}"
            );
            let answer = Answer {
                status: answer.status,
                fields: answer.fields,
                body: answer.body,
            };
            assert_eq!(
                decoded(&answer),
                page(300, "n", "!").as_bytes(),
                "{proxy} {coding}"
            );
        }
    }
}

/// A response that was partly sent cannot be taken back: it ends without the last chunk.
fn broken_off(served: &Served, reason: &str, most: usize) {
    let mut client = Http::connect(served.gate.address());
    client.send(format!("GET /?n HTTP/1.1\r\nHost: {NAME}\r\n\r\n"));
    assert!(client.head().starts_with("HTTP/1.1 200 "));
    let (rest, _) = client.end();
    assert!(
        !rest.ends_with(b"0\r\n\r\n") && rest.len() <= most + most / 8 + 64,
        "{} bytes",
        rest.len()
    );
    let mut client = Http::connect(served.gate.address());
    client.send("GET /?n HTTP/1.0\r\nHost: a\r\n\r\n");
    client.head();
    // Where the close is the end, only a reset marks a truncation.
    assert!(client.end().1.is_err());
    let client = Client::connect_tls(&served.client(), served.gate.at("127.0.0.2:0"), NAME);
    let answer = client
        .begin(Client::request(::http::Method::GET, "/?n"), true)
        .answer();
    assert!(
        answer.reset.is_some() && answer.body.len() <= most,
        "{} bytes",
        answer.body.len()
    );
    for protocol in ["HTTP/1.1", "HTTP/1.0", "HTTP/2.0"] {
        let line = served
            .gate
            .line(protocol, |line| line["protocol"] == protocol);
        assert!(
            line["detail"]
                .as_str()
                .is_some_and(|detail| detail.contains(reason)),
            "{line}"
        );
        assert_eq!(line["side"], "upstream", "{line}");
    }
}

#[test]
fn a_rewritten_page_over_its_maximum_is_cut_off() {
    let origin = origin_with(HTML, "a".repeat(20_000));
    let with = "b".repeat(1_000);
    let rules = format!(
        "rewrite_body = {{ max = \"1MB\", rules = [{{ text = \"a\", with = \"{with}\" }}] }}"
    );
    broken_off(
        &Served::by(&proxied(&origin, &rules)),
        "longer than allowed",
        1_000_000,
    );
}

#[test]
fn a_page_with_wrong_content_encoding_is_cut_off() {
    let mut coded = encode_all(Coding::Gzip, 6, page(5_000, "@name@", "").as_bytes());
    let middle = coded.len() / 2;
    for (fields, reason, cut) in [
        ("Content-Encoding: gzip\r\n", "ends too early", true),
        ("Content-Encoding: br\r\n", "invalid for its coding", false),
        (
            "Content-Encoding: zstd\r\n",
            "invalid for its coding",
            false,
        ),
    ] {
        if cut {
            coded.truncate(middle);
        }
        let origin = origin_with(&format!("{HTML}{fields}"), coded.clone());
        broken_off(&Served::by(&proxied(&origin, RULES)), reason, 1_000_000);
    }
}

/// A megabyte of a coding may stand for gigabytes.
fn bomb(coding: Coding) -> Vec<u8> {
    let mut encoder = lockgate_content::coding::ContentEncoder::new(
        coding,
        if coding == Coding::Gzip { 6 } else { 2 },
    );
    let (zeros, mut out) = (vec![b'<'; 1 << 20], Vec::new());
    for _ in 0..200 {
        encoder.write(&zeros, &mut out);
    }
    encoder.finish(&mut out);
    out
}

#[test]
fn a_decompression_bomb_is_cut_off_within_bounded_memory() {
    for (name, coding) in [
        ("gzip", Coding::Gzip),
        ("br", Coding::Brotli),
        ("zstd", Coding::Zstd),
    ] {
        let bomb = Arc::new(bomb(coding));
        assert!(bomb.len() < 1 << 20, "{name}: {} bytes", bomb.len());
        let fields = format!("{HTML}Content-Encoding: {name}\r\n");
        let origin = origin_with(&fields, bomb.to_vec());
        for max in ["1MB", "100MB"] {
            let rules = format!(
                "rewrite_body = {{ max = \"{max}\", rules = [{{ text = \"@name@\", with = \"x\" }}] }}"
            );
            let served = Served::by(&proxied(&origin, &rules));
            let before = served.gate.most_resident();
            let mut client = Http::connect(served.gate.address());
            client.send(format!("GET / HTTP/1.1\r\nHost: {NAME}\r\n\r\n"));
            client.head();
            let (rest, _) = client.end();
            assert!(!rest.ends_with(b"0\r\n\r\n"), "{name}");
            let line = served.gate.line("the bomb", |line| line["status"] == 200);
            assert!(
                line["detail"]
                    .as_str()
                    .is_some_and(|detail| detail.contains("longer than allowed")),
                "{line}"
            );
            // A window of br is 16 MB.
            let grown = served.gate.most_resident().saturating_sub(before);
            assert!(grown < 32 << 20, "{name} {max}: {} MB", grown >> 20);
        }
    }
}

/// The client does not read: what a few bytes unfold to waits where it was.
#[test]
fn a_stalled_client_of_a_rewritten_page_holds_little_memory() {
    let coded = bomb(Coding::Zstd);
    let origin = origin_with(&format!("{HTML}Content-Encoding: zstd\r\n"), coded);
    let rules = "rewrite_body = { max = \"1GB\", rules = [{ text = \"@name@\", with = \"x\" }] }";
    let served = Served::by(&proxied(&origin, rules));
    let before = served.gate.most_resident();
    let mut clients: Vec<_> = (0..10)
        .map(|_| {
            let mut client = Http::over(lockgate_testkit::Wire::connect_narrow(
                served.gate.address(),
            ));
            client.send(format!("GET / HTTP/1.1\r\nHost: {NAME}\r\n\r\n"));
            client
        })
        .collect();
    for client in &mut clients {
        client.head();
        client.chunk().unwrap();
    }
    let grown = served.gate.most_resident().saturating_sub(before);
    assert!(grown < 64 << 20, "{} MB", grown >> 20);
}
