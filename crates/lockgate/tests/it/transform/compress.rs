//! Responses are compressed for clients that accept it: files by default, those of an origin on
//! request.

use lockgate_testkit::Lockgate;
use lockgate_testkit::h2::{self, Client, ScriptedResponse};

use super::*;
use crate::files::WAYS;
use crate::scene::lockgate;

/// Accept-Encoding, and the coding that is chosen where all three are offered.
const CHOICES: &[(Option<&str>, Option<&str>)] = &[
    (None, None),
    (Some(""), None),
    (Some("identity"), None),
    (Some("gzip"), Some("gzip")),
    (Some("br, gzip"), Some("br")),
    (Some("gzip, deflate, br, zstd"), Some("zstd")),
    (Some("zstd;q=0.5, br;q=0.6, gzip;q=0.4"), Some("br")),
    (Some("zstd;q=0, br;q=0, gzip"), Some("gzip")),
    (Some("gzip;q=1.0, *;q=0.5"), Some("gzip")),
    (Some("*"), Some("zstd")),
    (Some("*;q=0, br"), Some("br")),
    (Some("identity;q=1, gzip;q=0.5"), None),
    (Some("gzip;q=0"), None),
    (Some("x-gzip"), Some("gzip")),
    (Some("deflate"), None),
];

/// RFC 9110 §12.5.3.
fn every_choice(served: &Served, expected: &[u8], vary: Option<&str>) {
    for way in WAYS {
        let mut client = served.connect(way);
        for (accepted, coding) in CHOICES {
            let fields: Vec<_> = accepted
                .iter()
                .map(|accepted| ("Accept-Encoding", *accepted))
                .collect();
            let answer = client.get("/a.css", &fields);
            let case = format!("{way:?} {accepted:?}: {:?}", answer.fields);
            assert_eq!(
                (answer.status, answer.field("content-encoding")),
                (200, *coding),
                "{case}"
            );
            assert!(decoded(&answer) == expected, "{case}");
            assert_eq!(answer.field("vary"), vary, "{case}");
            match coding {
                None => assert_eq!(answer.body.len(), expected.len(), "{case}"),
                Some(_) => assert!(answer.body.len() < expected.len() / 4, "{case}"),
            }
        }
    }
}

#[test]
fn a_file_is_compressed_with_the_preferred_coding() {
    let www = Www::new();
    // Held in memory, held as a descriptor, and compressed while it is sent.
    for size in [5_000, 200_000, 1_100_000] {
        let content = text(size);
        www.write("a.css", &content);
        let served = Served::start(&www, "");
        every_choice(&served, content.as_bytes(), Some("Accept-Encoding"));
    }
}

#[test]
fn a_proxied_response_is_compressed_with_the_preferred_coding() {
    let content = text(300_000);
    let origin = origin_with("Content-Type: text/css\r\n", content.clone());
    let served = Served::by(&proxied(&origin, "compress = true"));
    every_choice(&served, content.as_bytes(), Some("Accept-Encoding"));
}

#[test]
fn proxied_responses_are_not_compressed_by_default() {
    let content = text(10_000);
    let origin = origin_with("Content-Type: text/css\r\nETag: \"a\"\r\n", content.clone());
    let www = Www::with(&[("a.css", &content)]);
    let asked = [("Accept-Encoding", "gzip")];
    let answer = get(&Served::by(&proxied(&origin, "")).gate, "/", &asked);
    let found =
        ["content-encoding", "vary", "etag", "content-length"].map(|name| answer.field(name));
    assert_eq!(found, [None, None, Some("\"a\""), Some("10000")]);
    assert_eq!(answer.body, content.as_bytes());
    let answer = get(&www.start("compress = false"), "/a.css", &asked);
    assert_eq!(
        (answer.field("content-encoding"), answer.field("vary")),
        (None, None)
    );
    assert_eq!(answer.body, content.as_bytes());
}

#[test]
fn only_configured_codings_are_offered_in_their_order() {
    let www = Www::with(&[("a.css", &text(10_000))]);
    let cases = [
        ("[\"gzip\", \"zstd\"]", "zstd, br, gzip", Some("gzip")),
        ("[\"br\"]", "zstd, gzip", None),
        ("[\"br\", \"gzip\"]", "gzip, br;q=0.9", Some("gzip")),
    ];
    for (codings, accepted, coding) in cases {
        let gate = www.start(format!("compress = {{ codings = {codings} }}"));
        let answer = get(&gate, "/a.css", &[("Accept-Encoding", accepted)]);
        assert_eq!(
            answer.field("content-encoding"),
            coding,
            "{codings} {accepted}"
        );
    }
}

#[test]
fn short_files_and_other_types_are_not_compressed() {
    let www = Www::new();
    let types = [
        "css", "html", "js", "json", "svg", "wasm", "xml", "png", "woff2", "zip", "mp4", "unknown",
    ];
    for extension in types {
        www.write(format!("a.{extension}"), text(5_000));
    }
    www.write("short.css", text(999));
    www.write("long.css", text(1_000));
    let coding = |gate: &Lockgate, path: &str| {
        let answer = get(gate, path, &[("Accept-Encoding", "gzip")]);
        (
            answer.field("content-encoding").is_some(),
            answer.field("vary").is_some(),
        )
    };
    let gate = www.start("");
    for (extension, compressed) in types
        .into_iter()
        .zip([true; 7].into_iter().chain([false; 5]))
    {
        let path = format!("/a.{extension}");
        assert_eq!(
            coding(&gate, &path),
            (compressed, compressed),
            "{extension}"
        );
    }
    assert_eq!(coding(&gate, "/short.css"), (false, false));
    assert_eq!(coding(&gate, "/long.css"), (true, true));
    let gate =
        www.start("compress = { types = [\"image/*\", \"application/zip\"], min = \"5KB\" }");
    for (path, compressed) in [
        ("/a.png", true),
        ("/a.zip", true),
        ("/a.css", false),
        ("/a.mp4", false),
        ("/short.css", false),
    ] {
        assert_eq!(coding(&gate, path).0, compressed, "{path}");
    }
    let gate = www.start("compress = { min = \"5001B\" }");
    assert!(!coding(&gate, "/a.css").0);
}

/// Fields of an origin's response, its body, and whether it is compressed.
fn of_origins() -> Vec<(&'static str, String, bool)> {
    let (long, short) = (text(5_000), text(999));
    vec![
        ("Content-Type: text/css\r\n", long.clone(), true),
        (
            "Content-Type: Text/CSS ; charset=utf-8\r\n",
            long.clone(),
            true,
        ),
        (
            "Content-Type: text/css\r\nContent-Encoding: identity\r\n",
            long.clone(),
            true,
        ),
        ("Content-Type: text/css\r\n", short, false),
        ("Content-Type: image/png\r\n", long.clone(), false),
        ("", long.clone(), false),
        (
            "Content-Type: text/css\r\nContent-Encoding: gzip\r\n",
            long.clone(),
            false,
        ),
        (
            "Content-Type: text/css\r\nContent-Encoding: x-own\r\n",
            long.clone(),
            false,
        ),
        (
            "Content-Type: text/css\r\nContent-Encoding: identity, br\r\n",
            long.clone(),
            false,
        ),
        // RFC 9111 §5.2.2.6.
        (
            "Content-Type: text/css\r\nCache-Control: no-transform\r\n",
            long.clone(),
            false,
        ),
        (
            "Content-Type: text/css\r\nCache-Control: max-age=5 , NO-Transform\r\n",
            long.clone(),
            false,
        ),
        (
            "Content-Type: text/css\r\nCache-Control: public\r\nCache-Control: no-transform\r\n",
            long.clone(),
            false,
        ),
        (
            "Content-Type: text/css\r\nContent-Range: bytes 0-4999/9999\r\n",
            long,
            false,
        ),
    ]
}

#[test]
fn coded_or_unsuitable_proxied_responses_are_not_compressed() {
    for (fields, body, compressed) in of_origins() {
        let origin = origin_with(fields, body.clone());
        let served = Served::by(&proxied(&origin, "compress = true"));
        for way in WAYS {
            let answer = served.connect(way).get("/", &[("Accept-Encoding", "br")]);
            let case = format!("{way:?} {fields:?} {:?}", answer.fields);
            assert_eq!(
                answer.field("content-encoding") == Some("br"),
                compressed,
                "{case}"
            );
            if compressed {
                assert_eq!(decoded(&answer), body.as_bytes(), "{case}");
            } else {
                assert_eq!(answer.body, body.as_bytes(), "{case}");
                assert_eq!(
                    answer.field("content-length"),
                    Some(&*body.len().to_string()),
                    "{case}"
                );
            }
        }
    }
}

#[test]
fn partial_and_bodiless_proxied_responses_are_not_compressed() {
    let css = "Content-Type: text/css\r\nETag: \"a\"\r\n";
    let origin = Origin::tcp().answering(move |request| {
        let status = request
            .first_line()
            .split(['/', ' '])
            .nth(2)
            .unwrap()
            .parse()
            .unwrap();
        match status {
            204 | 304 => format!("HTTP/1.1 {status} Said\r\n{css}\r\n").into_bytes(),
            206 => {
                let fields = format!("{css}Content-Range: bytes 0-4999/9999\r\n");
                reply(request, status, &fields, text(5_000).as_bytes())
            }
            _ => reply(request, status, css, text(5_000).as_bytes()),
        }
    });
    let served = Served::by(&proxied(&origin, "compress = true"));
    for way in WAYS {
        let mut client = served.connect(way);
        let mut ask =
            |method: &str, path: &str| client.ask(method, path, &[("Accept-Encoding", "gzip")]);
        for status in [204, 304] {
            let answer = ask("GET", &format!("/{status}"));
            assert_eq!((answer.status, answer.body.len()), (status, 0), "{way:?}");
            assert_eq!(
                (answer.field("content-encoding"), answer.field("etag")),
                (None, Some("\"a\"")),
                "{way:?}"
            );
        }
        let part = ask("GET", "/206");
        assert_eq!((part.status, part.text()), (206, &*text(5_000)), "{way:?}");
        let found = ["content-encoding", "etag", "content-length"].map(|name| part.field(name));
        assert_eq!(found, [None, Some("\"a\""), Some("5000")], "{way:?}");
        // RFC 9110 §9.3.2: the head of the response to GET.
        let (head, whole) = (ask("HEAD", "/200"), ask("GET", "/200"));
        let said = |answer: &Answer| {
            ["content-encoding", "vary", "etag"].map(|name| answer.field(name).map(str::to_owned))
        };
        assert_eq!(said(&head), said(&whole), "{way:?}");
        assert_eq!(whole.field("content-encoding"), Some("gzip"), "{way:?}");
        let length = head
            .field("content-length")
            .map(|length| length.parse().unwrap());
        assert!(
            length.is_none_or(|length: usize| length == whole.body.len()),
            "{way:?} {:?}",
            head.fields
        );
        // Errors have bodies like others.
        let error = ask("GET", "/404");
        assert_eq!(
            (error.status, error.field("content-encoding")),
            (404, Some("gzip")),
            "{way:?}"
        );
        assert_eq!(decoded(&error), text(5_000).as_bytes(), "{way:?}");
        assert_eq!(
            ask("GET", "/200").status,
            200,
            "{way:?}: the connection goes on"
        );
    }
}

#[test]
fn an_empty_response_has_no_content_encoding() {
    let origin = origin_with("Content-Type: text/html\r\n", "");
    for keys in [
        "compress = { min = \"0B\" }",
        "rewrite_body = [{ text = \"a\", with = \"b\" }]\ncompress = true",
    ] {
        let served = Served::by(&proxied(&origin, keys));
        for way in WAYS {
            let mut client = served.connect(way);
            for _ in 0..2 {
                let answer = client.get("/", &[("Accept-Encoding", "gzip")]);
                assert_eq!(
                    (answer.status, answer.body.len()),
                    (200, 0),
                    "{way:?} {keys}"
                );
                assert_eq!(answer.field("content-encoding"), None, "{way:?} {keys}");
            }
        }
    }
}

/// RFC 9110 §8.8.1, §13.1.2: a weak tag is enough to see that nothing has changed.
#[test]
fn each_content_coding_of_a_file_has_its_own_etag() {
    for size in [5_000, 1_100_000] {
        let www = Www::with(&[("a.css", &text(size))]);
        let served = Served::start(&www, "");
        for way in WAYS {
            let mut client = served.connect(way);
            let mut etags = Vec::new();
            for coding in ["identity", "gzip", "br", "zstd"] {
                let etag = client
                    .get("/a.css", &[("Accept-Encoding", coding)])
                    .field("etag")
                    .unwrap()
                    .to_owned();
                assert_eq!(
                    etag.starts_with("W/"),
                    coding != "identity",
                    "{way:?} {coding} {etag}"
                );
                let asked = [("Accept-Encoding", coding), ("If-None-Match", &*etag)];
                let again = client.get("/a.css", &asked);
                assert_eq!(
                    (again.status, again.body.len()),
                    (304, 0),
                    "{way:?} {coding}"
                );
                assert_eq!(
                    (again.field("etag"), again.field("vary")),
                    (Some(&*etag), Some("Accept-Encoding"))
                );
                // RFC 9110 §13.1.1: to be sure of bytes it is not enough.
                let sure = client.get(
                    "/a.css",
                    &[("Accept-Encoding", coding), ("If-Match", &*etag)],
                );
                assert_eq!(
                    sure.status,
                    if coding == "identity" { 200 } else { 412 },
                    "{way:?} {coding}"
                );
                etags.push(etag);
            }
            etags.dedup();
            assert_eq!(etags.len(), 4, "{way:?} {etags:?}");
        }
    }
}

#[test]
fn the_etag_of_a_compressed_proxied_response_is_weak() {
    for (tag, sent) in [
        ("\"a\"", "W/\"a\""),
        ("W/\"a\"", "W/\"a\""),
        ("\"\"", "W/\"\""),
    ] {
        let fields = format!("Content-Type: text/css\r\nETag: {tag}\r\nVary: Cookie\r\n");
        let origin = origin_with(&fields, text(5_000));
        let gate = Served::by(&proxied(&origin, "compress = true")).gate;
        let answer = get(&gate, "/", &[("Accept-Encoding", "br")]);
        assert_eq!(answer.field("etag"), Some(sent), "{tag}");
        let vary: Vec<_> = answer
            .fields
            .iter()
            .filter(|(name, _)| name == "vary")
            .collect();
        assert_eq!(
            vary.iter().map(|(_, value)| &**value).collect::<Vec<_>>(),
            ["Cookie", "Accept-Encoding"]
        );
        let answer = get(&gate, "/", &[]);
        assert_eq!(answer.field("etag"), Some(tag), "as it is without a coding");
    }
}

/// RFC 9110 §15.4.5: a 304 has the tag that the 200 would have had, or a cache with that tag cannot
/// tell what is still good.
#[test]
fn a_304_from_the_origin_carries_the_weakened_etag() {
    let origin = Origin::tcp().answering(|request| {
        let tags = request.field("if-none-match").unwrap_or_default();
        let fields = "Content-Type: text/css\r\nETag: \"a\"\r\n";
        if tags.contains("\"a\"") {
            return b"HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n".to_vec();
        }
        reply(request, 200, fields, text(5_000).as_bytes())
    });
    let served = Served::by(&proxied(&origin, "compress = true"));
    for way in WAYS {
        let mut client = served.connect(way);
        for coding in ["gzip", "identity"] {
            let first = client.get("/", &[("Accept-Encoding", coding)]);
            let etag = first.field("etag").unwrap();
            let again = client.get("/", &[("Accept-Encoding", coding), ("If-None-Match", etag)]);
            assert_eq!(
                (again.status, again.field("etag")),
                (304, Some(etag)),
                "{way:?} {coding}"
            );
        }
    }
}

/// RFC 9110 §14.2: ranges need stable bytes.
#[test]
fn a_range_request_gets_the_uncompressed_file() {
    for size in [5_000, 1_100_000] {
        let content = text(size);
        let www = Www::with(&[("a.css", &content)]);
        let served = Served::start(&www, "");
        for way in WAYS {
            let mut client = served.connect(way);
            let gzip = ("Accept-Encoding", "gzip");
            let part = client.get("/a.css", &[gzip, ("Range", "bytes=100-199")]);
            assert_eq!(
                (part.status, part.field("content-encoding")),
                (206, None),
                "{way:?}"
            );
            assert_eq!(part.text(), &content[100..200], "{way:?}");
            let range = format!("bytes 100-199/{size}");
            assert_eq!(part.field("content-range"), Some(&*range), "{way:?}");
            // The tag of the compressed form is not that of the range (RFC 9110 §13.1.5).
            let whole = client.get("/a.css", &[gzip]);
            assert_eq!(whole.field("accept-ranges"), None, "{way:?}");
            let tag = whole.field("etag").unwrap();
            let other = client.get(
                "/a.css",
                &[gzip, ("Range", "bytes=100-199"), ("If-Range", tag)],
            );
            assert_eq!(
                (other.status, decoded(&other).len()),
                (200, size),
                "{way:?}"
            );
            let tag = part.field("etag").unwrap();
            let same = client.get(
                "/a.css",
                &[gzip, ("Range", "bytes=100-199"), ("If-Range", tag)],
            );
            assert_eq!(same.status, 206, "{way:?}");
        }
    }
}

#[test]
fn head_of_a_compressed_file_matches_get() {
    for size in [5_000, 200_000, 1_100_000] {
        let www = Www::with(&[("a.css", &text(size))]);
        let served = Served::start(&www, "");
        for way in WAYS {
            let mut client = served.connect(way);
            for coding in ["zstd", "br", "gzip"] {
                let asked = [("Accept-Encoding", coding)];
                let (whole, head) = (
                    client.get("/a.css", &asked),
                    client.ask("HEAD", "/a.css", &asked),
                );
                let without = |answer: &Answer| {
                    let framed = ["content-length", "transfer-encoding"];
                    let lasting = answer
                        .lasting()
                        .into_iter()
                        .filter(|(name, _)| !framed.contains(name));
                    lasting
                        .map(|(name, value)| (name.to_owned(), value.to_owned()))
                        .collect::<Vec<_>>()
                };
                assert_eq!(without(&head), without(&whole), "{way:?} {coding}");
                // RFC 9110 §8.6: the length of the response to GET, or none.
                let length = head
                    .field("content-length")
                    .map(|length| length.parse().unwrap());
                assert!(
                    length.is_none_or(|len: usize| len == whole.body.len()),
                    "{way:?} {:?}",
                    head.fields
                );
            }
        }
    }
}

/// An origin's digest of its bytes is not that of others (RFC 9110 §8.8.1, RFC 9530, RFC 1864).
#[test]
fn digest_fields_are_removed_when_a_response_is_compressed() {
    let digests = "Content-MD5: Q2hlY2sgSW50ZWdyaXR5IQ==\r\nDigest: sha-256=a\r\nContent-Digest: sha-256=:YQ==:\r\n\
                   Accept-Ranges: bytes\r\n";
    let origin = origin_with(&format!("Content-Type: text/css\r\n{digests}"), text(5_000));
    let gate = Served::by(&proxied(&origin, "compress = true")).gate;
    let names = ["content-md5", "digest", "content-digest", "accept-ranges"];
    let answer = get(&gate, "/", &[("Accept-Encoding", "gzip")]);
    assert_eq!(names.map(|name| answer.field(name)), [None; 4]);
    let answer = get(&gate, "/", &[]);
    assert!(
        names.iter().all(|name| answer.field(name).is_some()),
        "{:?}",
        answer.fields
    );
}

/// Server-sent events: each is there, decoded, before the origin sends the next.
#[test]
fn server_sent_events_are_compressed_without_delay() {
    let origin = Origin::tcp();
    let keys = format!(
        "proxy = \"{}\"\ncompress = {{ min = \"1MB\" }}",
        origin.address()
    );
    let served = Served::by(&keys);
    for coding in ["zstd", "br", "gzip"] {
        let mut client = Http::connect(served.gate.address());
        client.send(format!(
            "GET / HTTP/1.1\r\nHost: {NAME}\r\nAccept-Encoding: {coding}\r\n\r\n"
        ));
        let mut upstream = origin.http();
        upstream.request();
        upstream.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n");
        let head = client.head();
        assert!(
            head.contains(&format!("Content-Encoding: {coding}\r\n")),
            "{head}"
        );
        let mut reader = Reader::new(coding);
        for event in 0..20 {
            let event = format!("data: {event}\n\n");
            upstream.send(&event);
            let mut come = String::new();
            while come.len() < event.len() {
                come.push_str(&reader.read(&client.chunk().unwrap()));
            }
            assert_eq!(come, event, "{coding}");
        }
        drop(upstream);
        while let Some(chunk) = client.chunk() {
            assert_eq!(reader.read(&chunk), "", "{coding}");
        }
        reader.0.end().unwrap();
    }
}

#[test]
fn server_sent_events_are_compressed_without_delay_over_http2() {
    let origin = Origin::tcp();
    let served = Served::by(&format!(
        "proxy = \"{}\"\ncompress = true",
        origin.address()
    ));
    let settings = served.client();
    let client = Client::connect_tls(&settings, served.gate.at("127.0.0.2:0"), NAME);
    for coding in ["zstd", "br", "gzip"] {
        let mut request = Client::request(::http::Method::GET, "/");
        request
            .headers_mut()
            .insert("accept-encoding", coding.parse().unwrap());
        let mut exchange = client.begin(request, true);
        let mut upstream = origin.http();
        upstream.request();
        upstream.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n");
        assert_eq!(
            exchange.head().unwrap().field("content-encoding"),
            Some(coding)
        );
        let mut reader = Reader::new(coding);
        for event in 0..20 {
            let event = format!("data: {event}\n\n");
            upstream.send(&event);
            let mut come = String::new();
            while come.len() < event.len() {
                come.push_str(&reader.read(&exchange.piece().unwrap().unwrap()));
            }
            assert_eq!(come, event, "{coding}");
        }
        drop(upstream);
        let answer = exchange.answer();
        assert_eq!((answer.status, answer.reset), (200, None));
        assert_eq!(
            decode_all(Coded::of(coding.as_bytes()).unwrap(), &answer.body, MOST)
                .unwrap()
                .len(),
            190
        );
    }
}

/// RFC 9112 §6.1: a client of HTTP/1.0 gets no chunks; the close is the end.
#[test]
fn http_1_0_clients_get_compressed_bodies_until_close() {
    let content = text(1_100_000);
    let origin = origin_with("Content-Type: text/css\r\n", content.clone());
    let www = Www::with(&[("a.css", &content)]);
    let gates = [
        Served::by(&proxied(&origin, "compress = true")).gate,
        www.start(""),
    ];
    for gate in &gates {
        let mut client = Http::connect(gate.address());
        client.send(
            "GET /a.css HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\nAccept-Encoding: gzip\r\n\r\n",
        );
        let head = client.head();
        assert!(head.contains("Content-Encoding: gzip\r\n"), "{head}");
        assert!(
            !head.contains("Transfer-Encoding") && !head.contains("Content-Length"),
            "{head}"
        );
        let body = client.rest();
        assert!(decode_all(Coded::Gzip, &body, MOST).unwrap() == content.as_bytes());
    }
}

#[test]
fn trailers_follow_a_compressed_body() {
    let content = text(20_000);
    let (body, sent) = (content.clone(), content.clone());
    let origin = Origin::tcp().answering(move |_| {
        chunked(
            "Content-Type: text/css\r\nTrailer: X-Sum\r\n",
            body.as_bytes(),
            777,
            "X-Sum: 7\r\n",
        )
    });
    let modern = h2::Origin::plain(move |_| {
        let reply = ScriptedResponse::new(200)
            .field("content-type", "text/css")
            .piece(sent.clone());
        reply.trailer("x-sum", "7")
    });
    let pool = format!(
        "[pool.app]\nprotocol = \"h2c\"\nendpoints = [\"{}\"]\n",
        modern.address()
    );
    for (pool, proxy) in [
        (String::new(), origin.address().to_owned()),
        (pool, "pool:app".to_owned()),
    ] {
        let site = "listen = [\"127.0.0.1\"]\nprotocols = [\"http1\", \"h2c\"]\ncompress = true";
        let gate = lockgate().start(&format!(
            "{pool}[site.\":0\"]\n{site}\nproxy = \"{proxy}\"\n"
        ));
        let mut client = Http::connect(gate.address());
        client.send(format!(
            "GET / HTTP/1.1\r\nHost: {NAME}\r\nTE: trailers\r\nAccept-Encoding: zstd\r\n\r\n"
        ));
        let answer = client.answer();
        assert_eq!(answer.trailers.to_lowercase(), "x-sum: 7\r\n", "{proxy}");
        assert_eq!(decoded(&answer.into()), content.as_bytes(), "{proxy}");
        let client = Client::connect(gate.address());
        let mut request = Client::request(::http::Method::GET, "/");
        request
            .headers_mut()
            .insert("accept-encoding", "zstd".parse().unwrap());
        let answer = client.begin(request, true).answer();
        assert_eq!(
            (answer.trailer("x-sum"), answer.field("content-encoding")),
            (Some("7"), Some("zstd"))
        );
        assert_eq!(
            decode_all(Coded::Zstd, &answer.body, MOST).unwrap(),
            content.as_bytes(),
            "{proxy}"
        );
    }
}

#[test]
fn a_truncated_proxied_response_ends_without_the_last_chunk() {
    let origin = Origin::tcp();
    let served = Served::by(&format!(
        "proxy = \"{}\"\ncompress = true",
        origin.address()
    ));
    for coding in ["zstd", "br", "gzip"] {
        let mut client = Http::connect(served.gate.address());
        client.send(format!(
            "GET / HTTP/1.1\r\nHost: {NAME}\r\nAccept-Encoding: {coding}\r\n\r\n"
        ));
        let mut upstream = origin.http();
        upstream.request();
        upstream.send("HTTP/1.1 200 OK\r\nContent-Type: text/css\r\nContent-Length: 20000\r\n\r\n");
        upstream.send(text(10_000));
        drop(upstream);
        client.head();
        let (rest, _) = client.end();
        assert!(!rest.ends_with(b"0\r\n\r\n"), "{coding}");
    }
    let line = served.gate.line("the cut", |line| line["status"] == 200);
    assert_eq!(
        (&line["cause"], &line["side"]),
        (&"upstream_closed".into(), &"upstream".into()),
        "{line}"
    );
}
