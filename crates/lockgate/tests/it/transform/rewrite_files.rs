//! `rewrite_body` on files: changed once, filled in for each request.

use super::*;
use crate::files::{WAYS, ask_over};

const PAGE: &str = "<!doctype html>\n<html><head><title>Old title</title></head>\n\
                    <body><h1 id=\"top\" class=\"big\">Hello @name@</h1><p>one</p><p class='x'>two</p><img src=\"a.png\">\
                    <p>v1.2.3 and v10.20.30, @name@</p></body></html>\n";

fn www() -> Www {
    Www::with(&[("index.html", PAGE)])
}

/// A site with a page that is changed by these rules.
fn page_with_rules(rules: &str) -> String {
    format!("rewrite_body = [{rules}]")
}

#[test]
fn texts_patterns_and_elements_are_replaced_in_files() {
    let www = www();
    for (rules, from, to) in [
        ("{ text = \"@name@\", with = \"World\" }", "@name@", "World"),
        ("{ text = \"Old title\", with = \"\" }", "Old title", ""),
        (
            "{ regex = \"v([0-9]+)\\\\.(?P<minor>[0-9]+)\\\\.[0-9]+\", with = \"$$${minor}-$1\" }",
            "v1.2.3 and v10.20.30",
            "$2-1 and $20-10",
        ),
        ("{ regex = \"(?i)HELLO\", with = \"Bye\" }", "Hello", "Bye"),
        (
            "{ select = \"title\", inner = \"<b>{{new}\" }",
            "Old title",
            "<b>{{new}",
        ),
        (
            "{ select = \"h1#top\", before = \"<hr>\" }",
            "<h1 ",
            "<hr><h1 ",
        ),
        (
            "{ select = \".big\", after = \"<hr>\" }",
            "</h1>",
            "</h1><hr>",
        ),
        (
            "{ select = \"head\", prepend = \"<base>\" }",
            "<head>",
            "<head><base>",
        ),
        (
            "{ select = \"head\", append = \"<link>\" }",
            "</head>",
            "<link></head>",
        ),
        (
            "{ select = \"p.x\", replace = \"<i>three</i>\" }",
            "<p class='x'>two</p>",
            "<i>three</i>",
        ),
        (
            "{ select = \"body > p:nth-of-type(2)\", remove = true }",
            "<p class='x'>two</p>",
            "",
        ),
        (
            "{ select = \"img[src]\", set = { src = \"b.png\", alt = \"b\" } }",
            "<img src=\"a.png\">",
            "<img src=\"b.png\" alt=\"b\">",
        ),
        (
            "{ select = \"h1\", set = { class = false } }",
            "<h1 id=\"top\" class=\"big\">",
            "<h1 id=\"top\">",
        ),
        // Text that a rule has put in is not changed by another.
        (
            "{ text = \"one\", with = \"two\" }, { text = \"two\", with = \"one\" }",
            "<p>one</p><p class='x'>two</p>",
            "<p>two</p><p class='x'>one</p>",
        ),
    ] {
        let served = Served::start(&www, &page_with_rules(rules));
        let expected = PAGE.replace(from, to);
        assert_ne!(expected, PAGE, "{rules}");
        for way in WAYS {
            let answer = served.connect(way).get("/", &[]);
            assert_eq!(
                (answer.status, answer.text()),
                (200, &*expected),
                "{way:?} {rules}"
            );
            assert_eq!(
                answer.field("content-length"),
                Some(&*expected.len().to_string()),
                "{way:?} {rules}"
            );
        }
    }
}

#[test]
fn rewrite_body_applies_to_html_unless_types_are_configured() {
    let www = Www::with(&[
        ("a.html", "a"),
        ("a.txt", "a"),
        ("a.json", "\"a\""),
        ("a.js", "'a'"),
        ("a.svg", "<a/>"),
    ]);
    let gate = www.start(page_with_rules("{ text = \"a\", with = \"{query}\" }"));
    for (path, expected) in [
        ("/a.html?b", "b"),
        ("/a.txt?b", "a"),
        ("/a.json?b", "\"a\""),
        ("/a.svg?b", "<a/>"),
    ] {
        assert_eq!(get(&gate, path, &[]).text(), expected, "{path}");
    }
    assert!(get(&gate, "/a.txt", &[]).field("etag").is_some());
    let types = "types = [\"text/*\", \"application/json\", \"image/svg+xml\"]";
    let keys = format!(
        "rewrite_body = {{ {types}, rules = [{{ text = \"a\", with = \"{{query}}\" }}, {{ select = \"a\", remove = true }}] }}"
    );
    let gate = www.start(keys);
    for (path, expected) in [
        ("/a.txt?&\"b", "&%22b"),
        // RFC 8259 §7: characters that would end the string, or the script that it is in, are
        // escaped.
        ("/a.json?&\"b", "\"\\u0026%22b\""),
        ("/a.js?$'b", "'\\u0024%27b'"),
        ("/a.svg?&<b", "<&amp;%3Cb/>"),
    ] {
        assert_eq!(get(&gate, path, &[]).text(), expected, "{path}");
    }
}

#[test]
fn rewritten_pages_have_values_per_request() {
    let www = Www::with(&[("index.html", "<p>@</p>"), ("app.html", "<p>@</p>")]);
    let with = "{method}|{client}|{scheme}|{host}|{path}|{query}|{counter}|{id}|{time}|{none}";
    let served = Served::start(
        &www,
        &format!(
            "spa = \"/app.html\"\n{}",
            page_with_rules(&format!("{{ text = \"@\", with = \"{with}\" }}"))
        ),
    );
    let mut seen = Vec::new();
    for way in WAYS {
        let scheme = if way == WAYS[0] { "http" } else { "https" };
        let mut client = served.connect(way);
        // Each of the two sites counts for itself.
        for (round, path) in ["/", "/x?y=1", "/?z"].into_iter().enumerate() {
            let answer = client.get(path, &[("Accept", "text/html")]);
            let values = answer
                .text()
                .strip_prefix("<p>")
                .unwrap()
                .strip_suffix("</p>")
                .unwrap();
            let values: Vec<_> = values.split('|').collect();
            let (path, query) = path.split_once('?').unwrap_or((path, ""));
            assert_eq!(
                values[..6],
                ["GET", "127.0.0.1", scheme, NAME, path, query],
                "{way:?}"
            );
            let counted: usize = values[6].parse().unwrap();
            assert_eq!(counted % 3, (round + 1) % 3, "{way:?}");
            assert_eq!(answer.field("x-request-id").unwrap_or(values[7]), values[7]);
            assert_eq!(
                (values[8].len(), values[9]),
                ("2026-05-04T12:30:00Z".len(), "{none}")
            );
            seen.push(values[7].to_owned());
        }
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 9, "every request has a name of its own");
}

/// Values of a request stand in the page as text.
#[test]
fn values_cannot_inject_tags_or_attributes() {
    let page = "<html><head></head><body><p title=\"@\" class='@'>@</p></body></html>";
    let www = Www::with(&[("app.html", page)]);
    let rules = "{ text = \"@\", with = \"{path}?{query}&{host}\" }, \
                 { select = \"head\", append = \"<meta content=\\\"{query}\\\">\" }, \
                 { select = \"p\", set = { data-q = \"{query}\" } }";
    let served = Served::start(
        &www,
        &format!("spa = \"/app.html\"\n{}", page_with_rules(rules)),
    );
    let hostile = [
        "\"><script>alert(1)</script>",
        "'><script>alert(1)</script>",
        "\"onmouseover=\"alert(1)",
        "'onmouseover='alert(1)",
        "</p><script>alert(1)</script>",
        "--><script>alert(1)</script>",
        "&lt;script&gt;",
        "@@@",
    ];
    for hostile in hostile {
        let target = format!("/x{hostile}?{hostile}");
        let mut http = Http::connect(served.gate.address());
        let answer = ask_over(&mut http, "GET", &target, &[("Accept", "text/html")]);
        // A rejected value is not shown.
        if answer.status != 200 {
            assert_eq!(answer.status, 400, "{target}");
            continue;
        }
        // Percent-encoded (RFC 3986 §2.1), and then escaped for HTML.
        let references = [
            ("\"", "%22"),
            ("<", "%3C"),
            (">", "%3E"),
            ("'", "%27"),
            ("&", "&amp;"),
        ];
        let harmless = references
            .iter()
            .fold(hostile.to_owned(), |text, (from, to)| {
                text.replace(from, to)
            });
        let all = format!("/x{harmless}?{harmless}&{NAME}");
        let expected = format!(
            "<html><head><meta content=\"{harmless}\"></head><body><p title=\"{all}\" class='{all}' data-q=\"{harmless}\">{all}</p></body></html>"
        );
        // `set` writes a start tag anew; its meaning is tested, not its spelling.
        let plain = |text: &str| text.replace('\'', "\"");
        assert_eq!(plain(answer.text()), plain(&expected), "{target}");
        assert!(
            !answer.text().contains("<script"),
            "{target}: {}",
            answer.text()
        );
    }
    // The same that a browser would send.
    let mut http = Http::connect(served.gate.address());
    let escaped = "/x%22%3E%3Cscript%3E?%22%3E%3Cscript%3E";
    let answer = ask_over(&mut http, "GET", escaped, &[("Accept", "text/html")]);
    assert_eq!(
        (answer.status, answer.text().matches("<script").count()),
        (200, 0)
    );
    for host in ["\"><script>", "a\"b", "<script>", "a'b"] {
        let mut http = Http::connect(served.gate.address());
        http.send(format!(
            "GET /x HTTP/1.1\r\nHost: {host}\r\nAccept: text/html\r\n\r\n"
        ));
        let answer = Answer::from(http.answer());
        let shown = String::from_utf8(answer.body.clone()).unwrap();
        assert!(
            !shown.contains("<script") && !shown.contains("a\"b") && !shown.contains("a'b"),
            "{host}: {shown}"
        );
    }
}

/// RFC 9110 §8.8: a page that differs each time has no validators and no ranges.
#[test]
fn a_page_with_request_values_has_no_etag_or_ranges() {
    let www = www();
    let served = Served::start(
        &www,
        &page_with_rules("{ text = \"@name@\", with = \"{id}\" }"),
    );
    for way in WAYS {
        let mut client = served.connect(way);
        let answer = client.get("/", &[]);
        let names = ["etag", "last-modified", "accept-ranges"];
        assert_eq!(names.map(|name| answer.field(name)), [None; 3], "{way:?}");
        assert_eq!(answer.field("cache-control"), Some("no-cache"), "{way:?}");
        for condition in [
            ("If-None-Match", "*"),
            ("If-Modified-Since", "Fri, 01 Jan 2100 00:00:00 GMT"),
            ("Range", "bytes=0-9"),
        ] {
            let again = client.get("/", &[condition]);
            assert_eq!(
                (again.status, again.body.len()),
                (200, answer.body.len()),
                "{way:?} {condition:?}"
            );
            assert_ne!(again.body, answer.body, "{way:?} {condition:?}");
        }
    }
}

#[test]
fn a_rewritten_page_without_request_values_keeps_etag_and_ranges() {
    let www = www();
    let rules = page_with_rules("{ text = \"@name@\", with = \"World\" }");
    let expected = PAGE.replace("@name@", "World");
    let unruled = get(&www.start(""), "/", &[])
        .field("etag")
        .unwrap()
        .to_owned();
    let mut tags = Vec::new();
    for _ in 0..2 {
        let served = Served::start(&www, &rules);
        for way in WAYS {
            let mut client = served.connect(way);
            let answer = client.get("/", &[]);
            let tag = answer.field("etag").unwrap().to_owned();
            // RFC 9110 §8.8.2.2: the file's time is not that of the rules.
            assert!(
                tag.starts_with('"') && answer.field("last-modified").is_none(),
                "{way:?} {:?}",
                answer.fields
            );
            let again = client.get("/", &[("If-None-Match", &tag)]);
            assert_eq!(
                (again.status, again.field("etag")),
                (304, Some(&*tag)),
                "{way:?}"
            );
            let part = client.get("/", &[("Range", "bytes=100-149"), ("If-Range", &tag)]);
            assert_eq!(
                (part.status, part.text()),
                (206, &expected[100..150]),
                "{way:?}"
            );
            let range = format!("bytes 100-149/{}", expected.len());
            assert_eq!(part.field("content-range"), Some(&*range), "{way:?}");
            tags.push(tag);
        }
    }
    tags.dedup();
    assert_eq!(tags.len(), 1, "the same rules make the same tag");
    assert_ne!(tags[0], unruled);
    // Other rules make another page of the same file: no cache keeps the old one for it.
    for other in [
        "{ text = \"@name@\", with = \"Moon\" }",
        "{ regex = \"@name@\", with = \"World\" }",
    ] {
        let gate = www.start(page_with_rules(other));
        let answer = get(&gate, "/", &[("If-None-Match", &tags[0])]);
        assert_eq!(answer.status, 200, "{other}");
        assert_ne!(answer.field("etag"), Some(&*tags[0]), "{other}");
        let part = get(
            &gate,
            "/",
            &[("Range", "bytes=0-9"), ("If-Range", &tags[0])],
        );
        assert_eq!(part.status, 200, "{other}");
    }
    for rules in [
        "",
        "rewrite_body = [{ text = \"@name@\", with = \"{id}\" }]",
    ] {
        assert_eq!(
            get(&www.start(rules), "/", &[("If-None-Match", &tags[0])]).status,
            200,
            "{rules}"
        );
    }
}

#[test]
fn a_page_without_matches_is_served_unchanged() {
    let www = www();
    let unruled = get(&www.start(""), "/", &[]);
    let gate = www.start(page_with_rules(
        "{ text = \"@nobody@\", with = \"{id}\" }, { select = \"nav\", remove = true }",
    ));
    let answer = get(&gate, "/", &[]);
    assert_eq!(answer.lasting(), unruled.lasting());
    assert_eq!(answer.body, unruled.body);
}

/// RFC 9110 §9.3.2, §8.6.
#[test]
fn head_of_a_rewritten_page_matches_get() {
    let www = Www::with(&[("index.html", &PAGE.repeat(20))]);
    for value in ["World", "{client}", "{id}"] {
        let served = Served::start(
            &www,
            &page_with_rules(&format!("{{ text = \"@name@\", with = \"{value}\" }}")),
        );
        for way in WAYS {
            let mut client = served.connect(way);
            let (page, head) = (client.get("/", &[]), client.ask("HEAD", "/", &[]));
            assert_eq!(head.lasting(), page.lasting(), "{way:?} {value}");
            assert_eq!(
                head.field("content-length"),
                Some(&*page.body.len().to_string()),
                "{way:?} {value}"
            );
            assert!(head.body.is_empty());
        }
    }
}

#[test]
fn a_rewritten_page_is_compressed_afterwards() {
    let page = PAGE.repeat(20);
    let www = Www::with(&[("index.html", &page)]);
    // A precompressed sibling is of the page as it was.
    www.write(
        "index.html.gz",
        encode_all(Coding::Gzip, 6, page.as_bytes()),
    );
    for (value, filled) in [("World", false), ("{client}", true)] {
        let served = Served::start(
            &www,
            &page_with_rules(&format!("{{ text = \"@name@\", with = \"{value}\" }}")),
        );
        let expected = page.replace("@name@", &value.replace("{client}", "127.0.0.1"));
        for way in WAYS {
            let mut client = served.connect(way);
            for coding in ["gzip", "br", "zstd"] {
                let answer = client.get("/", &[("Accept-Encoding", coding)]);
                assert_eq!(
                    answer.field("content-encoding"),
                    Some(coding),
                    "{way:?} {value}"
                );
                assert_eq!(
                    answer.field("vary"),
                    Some("Accept-Encoding"),
                    "{way:?} {value}"
                );
                assert_eq!(
                    decoded(&answer),
                    expected.as_bytes(),
                    "{way:?} {value} {coding}"
                );
                assert_eq!(
                    answer.field("content-length"),
                    Some(&*answer.body.len().to_string())
                );
                assert_eq!(answer.field("etag").is_none(), filled, "{way:?} {value}");
            }
            assert_eq!(client.get("/", &[]).text(), expected, "{way:?} {value}");
        }
    }
}

#[test]
fn a_changed_file_is_rewritten_again() {
    let www = www();
    for (value, shown) in [("World", "World"), ("{client}", "127.0.0.1")] {
        www.write("index.html", PAGE);
        let served = Served::start(
            &www,
            &page_with_rules(&format!("{{ text = \"@name@\", with = \"{value}\" }}")),
        );
        let mut client = served.connect(WAYS[0]);
        let first = client.get("/", &[]);
        assert_eq!(first.text(), PAGE.replace("@name@", shown));
        www.replace("index.html", "<p>other @name@</p>");
        lockgate_testkit::eventually("the other page", || {
            let answer = client.get("/", &[]);
            let expected = format!("<p>other {shown}</p>");
            assert!(
                [first.text(), &*expected].contains(&answer.text()),
                "{}",
                answer.text()
            );
            (answer.text() == expected).then_some(())
        });
        if let Some(tag) = first.field("etag") {
            assert_eq!(client.get("/", &[("If-None-Match", tag)]).status, 200);
        }
    }
}

#[test]
fn index_and_error_pages_are_rewritten_too() {
    let www = Www::with(&[
        ("app.html", "app @name@"),
        ("lost.html", "lost @name@"),
        ("deep/index.html", "index @name@"),
    ]);
    for (value, shown) in [("World", "World"), ("{method}", "GET")] {
        let rules = page_with_rules(&format!("{{ text = \"@name@\", with = \"{value}\" }}"));
        for (keys, path, status, page) in [
            ("spa = \"/app.html\"", "/any/where", 200, "app"),
            ("not_found = \"/lost.html\"", "/any/where", 404, "lost"),
            (
                "try = [\"{path}\", \"/app.html\"]",
                "/any/where",
                200,
                "app",
            ),
            ("clean_urls = true", "/app", 200, "app"),
            ("", "/deep/", 200, "index"),
        ] {
            let served = Served::start(&www, &format!("{keys}\n{rules}"));
            for way in WAYS {
                let answer = served.connect(way).get(path, &[("Accept", "text/html")]);
                assert_eq!(
                    (answer.status, answer.text()),
                    (status, &*format!("{page} {shown}")),
                    "{way:?} {keys}"
                );
                assert_eq!(
                    answer.field("content-type"),
                    Some("text/html; charset=utf-8")
                );
            }
        }
    }
}

#[test]
fn a_rewritten_page_may_hold_many_values() {
    let www = Www::with(&[("index.html", &"<p>@</p>".repeat(20_000))]);
    let served = Served::start(
        &www,
        &page_with_rules("{ text = \"@\", with = \"{query}\" }"),
    );
    for way in WAYS {
        let mut client = served.connect(way);
        for query in ["a", "", "b&c"] {
            let answer = client.get(&format!("/?{query}"), &[]);
            let shown = query.replace('&', "&amp;");
            assert_eq!(
                answer.text(),
                format!("<p>{shown}</p>").repeat(20_000),
                "{way:?} {query}"
            );
            assert_eq!(
                answer.field("content-length"),
                Some(&*answer.body.len().to_string()),
                "{way:?}"
            );
        }
    }
}

#[test]
fn a_rewritten_file_over_its_maximum_is_a_500() {
    let www = Www::with(&[
        ("index.html", &"a".repeat(20_000)),
        ("short.html", &"a".repeat(999)),
    ]);
    let with = "b".repeat(1_000);
    let keys = format!(
        "rewrite_body = {{ max = \"1MB\", rules = [{{ text = \"a\", with = \"{with}\" }}] }}"
    );
    let served = Served::start(&www, &keys);
    for way in WAYS {
        let mut client = served.connect(way);
        assert_eq!(client.get("/", &[]).status, 500, "{way:?}");
        assert_eq!(
            client.get("/short.html", &[]).body.len(),
            999_000,
            "{way:?}"
        );
    }
    let line = served.gate.line("the error", |line| line["status"] == 500);
    let detail = line["detail"].as_str().unwrap();
    assert!(detail.contains("too long"), "{line}");
}

/// The page has 20,000 places, and a client has 4 KB for each of them.
#[test]
fn long_request_values_cannot_exceed_the_rewrite_maximum() {
    let www = Www::with(&[("index.html", &"@".repeat(20_000))]);
    let keys = "rewrite_body = { max = \"1MB\", rules = [{ text = \"@\", with = \"{query}\" }] }";
    let served = Served::start(&www, keys);
    let long = format!("/?{}", "q".repeat(4_000));
    for way in WAYS {
        let mut client = served.connect(way);
        assert_eq!(client.get("/?q", &[]).body.len(), 20_000, "{way:?}");
        let before = served.gate.most_resident();
        for coding in ["identity", "gzip"] {
            assert_eq!(
                client.get(&long, &[("Accept-Encoding", coding)]).status,
                500,
                "{way:?}"
            );
        }
        let grown = served.gate.most_resident().saturating_sub(before);
        assert!(grown < 16 << 20, "{way:?}: {} MB", grown >> 20);
        assert_eq!(
            client.get(&format!("/?{}", "q".repeat(50)), &[]).body.len(),
            1_000_000,
            "{way:?}"
        );
        assert_eq!(
            client.get(&format!("/?{}", "q".repeat(51)), &[]).status,
            500,
            "{way:?}"
        );
    }
}
