//! Media types, charsets, and forms of a file that were compressed before.

use lockgate_content::coding::{Coded, decode_all};

use super::*;

#[test]
fn the_content_type_follows_the_extension_or_a_path_rule() {
    let www = Www::new();
    let names = [
        "a.html",
        "a.css",
        "a.js",
        "a.mjs",
        "a.json",
        "a.svg",
        "a.txt",
        "a.png",
        "a.woff2",
        "a.wasm",
        "a.pdf",
        "a.xml",
        "A.HTML",
        "a.tar.gz",
        "none",
        "a.unknown",
        "a.mp4",
        "x.own",
        "a.html.own",
        "feed/a.html",
        "feed/deep/a",
        "doc",
    ];
    for name in names {
        www.write(name, "x");
    }
    let gate = www.start(
        "types = { \".own\" = \"application/x-own\", \".mp4\" = \"video/x-mine\", \"/feed/*\" = \"application/rss+xml\", \
         \"/feed/deep/*\" = \"text/x-deep\", \"/doc\" = \"text/html; charset=koi8-r\" }",
    );
    for (path, media_type) in [
        ("/a.html", "text/html; charset=utf-8"),
        ("/a.css", "text/css; charset=utf-8"),
        ("/a.js", "text/javascript; charset=utf-8"),
        ("/a.mjs", "text/javascript; charset=utf-8"),
        ("/a.json", "application/json"),
        ("/a.svg", "image/svg+xml"),
        ("/a.txt", "text/plain; charset=utf-8"),
        ("/a.png", "image/png"),
        ("/a.woff2", "font/woff2"),
        ("/a.wasm", "application/wasm"),
        ("/a.pdf", "application/pdf"),
        ("/A.HTML", "text/html; charset=utf-8"),
        ("/a.tar.gz", "application/gzip"),
        ("/none", "application/octet-stream"),
        ("/a.unknown", "application/octet-stream"),
        ("/a.mp4", "video/x-mine"),
        ("/x.own", "application/x-own"),
        ("/a.html.own", "application/x-own"),
        ("/feed/a.html", "application/rss+xml"),
        ("/feed/deep/a", "text/x-deep; charset=utf-8"),
        ("/doc", "text/html; charset=koi8-r"),
    ] {
        let answer = get(&gate, path, &[]);
        let said = answer.field("content-type").unwrap();
        // The charset of other XML types is not tested here.
        let said = if media_type.contains(';') {
            said
        } else {
            said.split(';').next().unwrap()
        };
        assert_eq!((answer.status, said), (200, media_type), "{path}");
        assert_eq!(answer.field("content-encoding"), None, "{path}");
    }
}

#[test]
fn the_charset_of_text_is_configurable() {
    let www = Www::with(&[("a.html", "x"), ("a.png", "x")]);
    for (keys, html) in [
        ("", "text/html; charset=utf-8"),
        ("charset = \"iso-8859-1\"", "text/html; charset=iso-8859-1"),
        ("charset = false", "text/html"),
    ] {
        let gate = www.start(keys);
        assert_eq!(get(&gate, "/a.html", &[]).field("content-type"), Some(html));
        assert_eq!(
            get(&gate, "/a.png", &[]).field("content-type"),
            Some("image/png")
        );
    }
}

/// The page for a missing path has its own type, not the type of that path.
#[test]
fn error_and_spa_pages_have_their_own_content_type() {
    let www = Www::with(&[("lost.html", "lost"), ("app.html", "app")]);
    let types = "types = { \"/feed/*\" = \"application/rss+xml\" }\n";
    let html = Some("text/html; charset=utf-8");
    let gate = www.start(format!("{types}not_found = \"/lost.html\""));
    assert_eq!(get(&gate, "/feed/none", &[]).field("content-type"), html);
    let gate = www.start(format!("{types}spa = \"/app.html\""));
    assert_eq!(get(&gate, "/feed/none", &[]).field("content-type"), html);
}

fn compressed() -> Www {
    let www = Www::new();
    // Larger than files that are held in memory, and smaller; their content does not matter.
    for (name, size) in [("small.js", 1_000), ("large.js", 200_000)] {
        www.write(name, "i".repeat(size));
        for (extension, letter) in [("zst", "z"), ("br", "b"), ("gz", "g")] {
            www.write(format!("{name}.{extension}"), letter.repeat(size / 2));
        }
    }
    www
}

/// RFC 9110 §12.5.3.
#[test]
fn a_precompressed_sibling_is_chosen_by_accept_encoding() {
    let www = compressed();
    let served = Served::start(&www, "");
    for way in WAYS {
        let mut client = served.connect(way);
        for (path, size) in [("/small.js", 1_000), ("/large.js", 200_000)] {
            let mut etags = Vec::new();
            for (accepted, coding) in [
                (None, None),
                (Some(""), None),
                (Some("identity"), None),
                (Some("gzip"), Some("gzip")),
                (Some("x-gzip"), Some("gzip")),
                (Some("GZIP"), Some("gzip")),
                (Some("br"), Some("br")),
                (Some("zstd"), Some("zstd")),
                // As browsers send it.
                (Some("gzip, deflate, br, zstd"), Some("zstd")),
                (Some("gzip, deflate, br"), Some("br")),
                (Some("gzip, deflate"), Some("gzip")),
                (Some("*"), Some("zstd")),
                (Some("*;q=0.5, gzip"), Some("gzip")),
                (Some("zstd;q=0, *"), Some("br")),
                (Some("br;q=0.9, gzip;q=1.0, zstd;q=0.1"), Some("gzip")),
                (Some("gzip;q=0.5, identity"), None),
                (Some("gzip;q=0"), None),
                (Some("gzip;q=0, br;q=0.000"), None),
                (Some("gzip;q=2"), None),
                (Some("gzip;q=x"), None),
                (Some("deflate"), None),
                (Some("gzipp, brr"), None),
                // §15.5.7: rather than 406, the form that every client can read.
                (Some("identity;q=0, deflate"), None),
            ] {
                let fields: Vec<_> = accepted
                    .iter()
                    .map(|accepted| ("Accept-Encoding", *accepted))
                    .collect();
                let what = format!("{way:?} {path} {accepted:?}");
                let answer = client.get(path, &fields);
                assert_eq!(
                    (answer.status, answer.field("content-encoding")),
                    (200, coding),
                    "{what}"
                );
                let (letter, size) = match coding {
                    None => ('i', size),
                    Some(coding) => (coding.chars().next().unwrap(), size / 2),
                };
                assert!(
                    answer.body.iter().all(|byte| char::from(*byte) == letter),
                    "{what}"
                );
                assert_eq!(answer.body.len(), size, "{what}");
                assert_eq!(answer.field("vary"), Some("Accept-Encoding"), "{what}");
                assert_eq!(
                    answer.field("content-type"),
                    Some("text/javascript; charset=utf-8"),
                    "{what}"
                );
                let etag = (coding, answer.field("etag").unwrap().to_owned());
                if !etags.contains(&etag) {
                    etags.push(etag);
                }
            }
            // RFC 9110 §8.8.3.3: one for each coding.
            assert_eq!(etags.len(), 4, "{way:?} {path}: {etags:?}");
            let distinct: std::collections::HashSet<_> =
                etags.iter().map(|(_, etag)| etag).collect();
            assert_eq!(distinct.len(), 4);
            for (coding, etag) in &etags {
                let accepted = ("Accept-Encoding", coding.unwrap_or("identity"));
                let answer = client.get(path, &[accepted, ("If-None-Match", etag)]);
                assert_eq!((answer.status, answer.field("etag")), (304, Some(&**etag)));
                assert_eq!(answer.field("vary"), Some("Accept-Encoding"), "§15.4.5");
                // The ETag of another coding does not match.
                let other = &etags.iter().find(|(other, _)| other != coding).unwrap().1;
                assert_eq!(
                    client
                        .get(path, &[accepted, ("If-None-Match", other)])
                        .status,
                    200
                );
            }
        }
    }
}

/// RFC 9110 §14.2: ranges are of the representation that is sent, here the compressed one.
#[test]
fn ranges_of_a_precompressed_sibling_count_its_own_bytes() {
    let www = compressed();
    let served = Served::start(&www, "");
    for way in WAYS {
        let mut client = served.connect(way);
        for (path, size) in [("/small.js", 500), ("/large.js", 100_000)] {
            let gzip = ("Accept-Encoding", "gzip");
            let etag = client.get(path, &[gzip]).field("etag").unwrap().to_owned();
            let own = client.get(path, &[]).field("etag").unwrap().to_owned();
            let answer = client.get(path, &[gzip, ("Range", "bytes=10-19"), ("If-Range", &etag)]);
            assert_eq!(
                (answer.status, answer.text()),
                (206, "gggggggggg"),
                "{way:?} {path}"
            );
            assert_eq!(
                answer.field("content-range"),
                Some(&*format!("bytes 10-19/{size}"))
            );
            assert_eq!(answer.field("content-encoding"), Some("gzip"));
            let answer = client.get(path, &[gzip, ("Range", "bytes=10-19"), ("If-Range", &own)]);
            assert_eq!(
                (answer.status, answer.body.len()),
                (200, size),
                "{way:?} {path}"
            );
            let answer = client.get(path, &[gzip, ("Range", &format!("bytes={size}-"))]);
            assert_eq!(
                (answer.status, answer.field("content-range")),
                (416, Some(&*format!("bytes */{size}")))
            );
        }
    }
}

#[test]
fn unsuitable_precompressed_siblings_are_ignored() {
    let gzip = ("Accept-Encoding", "gzip, br, zstd");
    let www = Www::with(&[
        ("stale.js", "new"),
        ("stale.js.gz", "old"),
        ("folder.js", "plain"),
        ("lone.js.gz", "lone"),
    ]);
    touch(&www.path("stale.js"), CHANGED + 1_000);
    www.write("folder.js.gz/x", "a folder");
    www.write("link.js", "plain");
    www.link("../secret.txt", "link.js.gz");
    www.write("fifo.js", "plain");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        www.path("fifo.js.br"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let gate = www.start("");
    for (path, content) in [
        ("/stale.js", "new"),
        ("/folder.js", "plain"),
        ("/link.js", "plain"),
        ("/fifo.js", "plain"),
    ] {
        let answer = get(&gate, path, &[gzip]);
        assert_eq!((answer.status, answer.text()), (200, content), "{path}");
        assert_eq!(answer.field("content-encoding"), None);
    }
    // By its own name it is a file as any; and without the file there is no form of it.
    let answer = get(&gate, "/lone.js.gz", &[gzip]);
    assert_eq!(
        (answer.text(), answer.field("content-encoding")),
        ("lone", None)
    );
    assert_eq!(answer.field("content-type"), Some("application/gzip"));
    assert_eq!(get(&gate, "/lone.js", &[gzip]).status, 404);
    // A new sibling is noticed, and so is a removed one.
    www.write("stale.js.gz", "made");
    touch(&www.path("stale.js.gz"), CHANGED + 1_001);
    lockgate_testkit::eventually("the new sibling", || {
        (get(&gate, "/stale.js", &[gzip]).text() == "made").then_some(())
    });
    fs::remove_file(www.path("stale.js.gz")).unwrap();
    lockgate_testkit::eventually("the file itself", || {
        (get(&gate, "/stale.js", &[gzip]).text() == "new").then_some(())
    });
}

#[test]
fn without_precompressed_the_siblings_are_ordinary_files() {
    let www = compressed();
    let gate = www.start("precompressed = false\ncompress = false");
    let answer = get(&gate, "/small.js", &[("Accept-Encoding", "gzip")]);
    assert_eq!(
        (answer.body.len(), answer.field("content-encoding")),
        (1_000, None)
    );
    assert_eq!(answer.field("vary"), None);
}

/// Text that compresses well and has no two equal parts.
fn lines(size: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(size + 32);
    let mut line = 0_u64;
    while text.len() < size {
        text.extend_from_slice(format!("line {line} of many\n").as_bytes());
        line += 1;
    }
    text.truncate(size);
    text
}

/// The content that a client decodes.
fn decoded(answer: &Answer) -> Vec<u8> {
    let coded = match answer.field("content-encoding") {
        None => return answer.body.clone(),
        Some("zstd") => Coded::Zstd,
        Some("br") => Coded::Brotli,
        Some("gzip") => Coded::Gzip,
        Some(other) => panic!("{other} was not asked for"),
    };
    decode_all(coded, &answer.body, 1 << 30).unwrap()
}

/// RFC 9110 §8.4, §8.8.3.3, §9.3.2, §12.5.5, §14.2: below the minimum size, cached, cached as a
/// descriptor, and streamed.
#[test]
fn a_file_compressed_on_the_fly_has_a_weak_etag() {
    let www = Www::new();
    let sizes = [
        ("/tiny.txt", 10),
        ("/small.txt", 5_000),
        ("/medium.txt", 200_000),
        ("/large.txt", 3 << 20),
    ];
    for (path, size) in sizes {
        www.write(&path[1..], lines(size));
    }
    let served = Served::start(&www, "");
    for way in WAYS {
        let mut client = served.connect(way);
        for (path, size) in sizes {
            let plain = client.get(path, &[]);
            assert!(plain.body == lines(size) && plain.field("content-encoding").is_none());
            for coding in ["zstd", "br", "gzip"] {
                let what = format!("{way:?} {path} {coding}");
                let accept = ("Accept-Encoding", coding);
                // The second time it is cached.
                for _ in 0..2 {
                    let answer = client.get(path, &[accept]);
                    assert_eq!(answer.status, 200, "{what}");
                    assert!(decoded(&answer) == lines(size), "{what}");
                    assert_eq!(
                        answer.field("content-encoding").is_some(),
                        size > 1_024,
                        "{what}"
                    );
                    assert_eq!(
                        answer.field("vary"),
                        plain.field("vary"),
                        "{what}: for caches both are of one kind"
                    );
                    let length = answer
                        .field("content-length")
                        .map(|length| length.parse().unwrap());
                    assert!(
                        length.is_none_or(|length: usize| length == answer.body.len()),
                        "{what}"
                    );
                    let head = client.ask("HEAD", path, &[accept]);
                    assert_eq!(head.status, 200);
                    for name in [
                        "etag",
                        "vary",
                        "content-encoding",
                        "content-type",
                        "last-modified",
                        "cache-control",
                    ] {
                        assert_eq!(
                            head.field(name),
                            answer.field(name),
                            "{what}: HEAD's {name}"
                        );
                    }
                    if answer.field("content-encoding").is_none() {
                        continue;
                    }
                    let etag = answer.field("etag").unwrap();
                    assert!(
                        etag.starts_with("W/\"") && !etag.contains(plain.field("etag").unwrap()),
                        "{what}: {etag}"
                    );
                    let again = client.get(path, &[accept, ("If-None-Match", etag)]);
                    assert_eq!(
                        (again.status, again.field("etag")),
                        (304, Some(etag)),
                        "{what}"
                    );
                    assert_eq!(again.field("vary"), plain.field("vary"), "§15.4.5: {what}");
                    // A range is one of the file, requested by the file's strong tag.
                    let strong = plain.field("etag").unwrap();
                    let part = client.get(
                        path,
                        &[accept, ("Range", "bytes=10-29"), ("If-Range", strong)],
                    );
                    assert_eq!(
                        (part.status, &*part.body),
                        (206, &plain.body[10..30]),
                        "{what}"
                    );
                    assert_eq!(
                        (part.field("etag"), part.field("content-encoding")),
                        (Some(strong), None),
                        "{what}"
                    );
                    let part = client.get(
                        path,
                        &[accept, ("Range", "bytes=10-29"), ("If-Range", etag)],
                    );
                    assert_eq!(part.status, 200, "§13.1.5: {what}");
                    assert!(decoded(&part) == lines(size), "{what}");
                }
            }
        }
    }
}

/// A compressed form is of the file as it is now.
#[test]
fn a_changed_file_is_compressed_again() {
    let www = Www::new();
    for (name, size) in [("small.txt", 5_000), ("medium.txt", 200_000)] {
        let path = format!("/{name}");
        www.write(name, lines(size));
        let gate = www.start("");
        let gzip = ("Accept-Encoding", "gzip");
        let first = get(&gate, &path, &[gzip]);
        assert!(first.field("content-encoding") == Some("gzip") && decoded(&first) == lines(size));
        let mut other = lines(size);
        other.reverse();
        www.replace(name, &other);
        let second = lockgate_testkit::eventually("the other file", || {
            let answer = get(&gate, &path, &[gzip]);
            let now = decoded(&answer);
            assert!(now == other || now == lines(size));
            (now == other).then_some(answer)
        });
        assert_ne!(first.field("etag"), second.field("etag"));
        assert_eq!(
            get(
                &gate,
                &path,
                &[gzip, ("If-None-Match", first.field("etag").unwrap())]
            )
            .status,
            200
        );
    }
}

/// No client is sent a coding that it cannot read.
#[test]
fn a_client_without_accept_encoding_gets_the_plain_file() {
    let www = Www::new();
    www.write("a.txt", lines(5_000));
    www.write("a.png", lines(5_000));
    let gate = www.start("");
    for fields in [
        &[][..],
        &[("Accept-Encoding", "")],
        &[("Accept-Encoding", "identity")],
        &[("Accept-Encoding", "x")],
    ] {
        assert!(
            get(&gate, "/a.txt", fields).body == lines(5_000),
            "{fields:?}"
        );
    }
    let png = get(&gate, "/a.png", &[("Accept-Encoding", "gzip, br, zstd")]);
    assert_eq!(
        (png.field("content-encoding"), png.field("vary")),
        (None, None),
        "it is compressed as it is"
    );
    // HTTP/1.0 has no chunks: a body without a length ends with the connection.
    www.write("large.txt", lines(3 << 20));
    let mut client = Http::connect(gate.address());
    client.send("GET /large.txt HTTP/1.0\r\nAccept-Encoding: gzip\r\n\r\n");
    let answer = Answer::from(client.answer());
    assert!(decoded(&answer) == lines(3 << 20));
}
