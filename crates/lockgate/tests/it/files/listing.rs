//! Directories as lists.

use serde_json::Value;

use super::*;

const HTML: Line<'_> = ("Accept", "text/html,application/xhtml+xml,*/*;q=0.8");
const JSON: Line<'_> = ("Accept", "application/json");

fn json(gate: &Lockgate, path: &str) -> Vec<Value> {
    let answer = get(gate, path, &[JSON]);
    assert_eq!(
        (answer.status, answer.field("content-type")),
        (200, Some("application/json"))
    );
    serde_json::from_slice(&answer.body).unwrap()
}

fn names(gate: &Lockgate, path: &str) -> Vec<String> {
    json(gate, path)
        .iter()
        .map(|entry| entry["name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_directory_listing_has_three_forms() {
    let www = Www::with(&[
        ("b.txt", "bb"),
        ("a.txt", "a"),
        ("c/x", ""),
        ("site/index.html", "index"),
        (".hidden", ""),
    ]);
    let gate = www.start("listing = true");
    let text = get(&gate, "/", &[]);
    assert_eq!(
        (text.status, text.text()),
        (200, "c/\nsite/\na.txt\nb.txt\n")
    );
    assert_eq!(
        text.field("content-type"),
        Some("text/plain; charset=utf-8")
    );
    let page = get(&gate, "/", &[HTML]);
    assert_eq!(page.field("content-type"), Some("text/html; charset=utf-8"));
    for link in ["href=\"./c/\">c/</a>", "href=\"./a.txt\">a.txt</a>"] {
        assert!(page.text().contains(link), "{}", page.text());
    }
    assert!(
        !page.text().contains("hidden") && !page.text().contains("../"),
        "{}",
        page.text()
    );
    assert!(get(&gate, "/c/", &[HTML]).text().contains("href=\"../\""));
    for answer in [&text, &page] {
        assert_eq!(
            (answer.field("vary"), answer.field("cache-control")),
            (Some("Accept"), Some("no-cache"))
        );
    }
    let listed = json(&gate, "/");
    assert_eq!(listed[0]["type"], "directory");
    let file = &listed[3];
    assert_eq!(
        (&file["name"], &file["type"], &file["size"]),
        (&"b.txt".into(), &"file".into(), &2.into())
    );
    assert_eq!(
        (&file["modified"], &file["url"]),
        (&CHANGED_TEXT.into(), &"./b.txt".into())
    );
    let head = ask_over(&mut Http::connect(gate.address()), "HEAD", "/", &[]);
    assert_eq!(head.lasting(), text.lasting());
    check(
        &gate,
        &[
            ("/site/", 200, "index"),
            ("/c", 308, "/c/"),
            ("/c/", 200, "x\n"),
        ],
    );
    check(
        &www.start(""),
        &[("/", 404, ""), ("/c/", 404, ""), ("/c", 404, "")],
    );
    assert_eq!(
        names(&www.start("listing = true\nhidden = true"), "/")[2],
        ".hidden"
    );
}

#[test]
fn a_directory_listing_is_sorted_by_query() {
    let www = Www::with(&[("b", "1"), ("a", "333"), ("c", "22"), ("folder/x", "")]);
    touch(&www.path("c"), CHANGED - 10);
    touch(&www.path("a"), CHANGED + 10);
    let gate = www.start("listing = true");
    for (query, order) in [
        ("", ["folder", "a", "b", "c"]),
        ("?sort=name", ["folder", "a", "b", "c"]),
        ("?sort=name&order=desc", ["folder", "c", "b", "a"]),
        ("?sort=size", ["folder", "b", "c", "a"]),
        ("?order=desc&sort=size", ["folder", "a", "c", "b"]),
        ("?sort=time", ["folder", "c", "b", "a"]),
        ("?sort=time&order=desc", ["folder", "a", "b", "c"]),
        ("?sort=%00&order=<script>", ["folder", "a", "b", "c"]),
        ("?sort", ["folder", "a", "b", "c"]),
        ("?&&=&sort=", ["folder", "a", "b", "c"]),
    ] {
        assert_eq!(names(&gate, &format!("/{query}")), order, "{query}");
    }
}

/// No name is more than text, wherever it is written; every link leads to its file.
#[test]
fn a_directory_listing_escapes_names_and_links_work() {
    let www = Www::new();
    let odd: [&[u8]; 14] = [
        b"<script>alert(1)</script>",
        b"\"onmouseover=\"alert(1)",
        b"'><img src=x onerror=alert(1)>",
        b"javascript:alert(1)",
        b"a&amp;b",
        b"?query",
        b"#fragment",
        b"100%25",
        b"new\nline\r\ttab",
        b"\xff\xfe no text",
        b"\xe2\x80\xae right to left",
        "\u{fc}ml\u{e4}ut \u{1f600}".as_bytes(),
        b" spaces ",
        b"</title></a>",
    ];
    // A slash is in no name; the folder has one of each.
    for name in odd {
        let name: Vec<u8> = name
            .iter()
            .map(|byte| if *byte == b'/' { b'_' } else { *byte })
            .collect();
        www.write(&name, &name);
        www.write([b"<b>'\"\xff/", &name[..]].concat(), &name);
    }
    let gate = www.start("listing = true");
    for path in ["/", "/%3Cb%3E%27%22%FF/"] {
        let page = get(&gate, path, &[HTML]);
        let body =
            String::from_utf8(page.body.clone()).expect("a page is text whatever the names are");
        for harm in [
            "<script",
            "<img",
            "<b>",
            "href=\"javascript",
            "\"onmouse",
            "\u{202e} right</a>x",
        ] {
            assert!(!body.contains(harm), "{harm}: {body}");
        }
        let links: Vec<_> = body
            .split("href=\"./")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap())
            .collect();
        assert_eq!(links.len(), odd.len() + usize::from(path == "/"), "{body}");
        for link in links.into_iter().filter(|link| !link.ends_with('/')) {
            let link = link.replace("&#39;", "'").replace("&amp;", "&");
            let answer = get(&gate, &format!("{path}{link}"), &[]);
            assert_eq!(answer.status, 200, "{link}");
            assert!(fs::metadata(www.path(&answer.body)).is_ok(), "{link}");
        }
        for entry in json(&gate, path)
            .iter()
            .filter(|entry| entry["type"] == "file")
        {
            // No reference begins with a scheme.
            let url = entry["url"].as_str().unwrap().strip_prefix("./").unwrap();
            let answer = get(&gate, &format!("{path}{url}"), &[]);
            assert_eq!(
                (answer.status, entry["size"].as_u64()),
                (200, Some(answer.body.len() as u64)),
                "{url}"
            );
        }
        let text = get(&gate, path, &[]);
        assert_eq!(
            text.text().lines().count(),
            odd.len() + usize::from(path == "/"),
            "a line for each"
        );
        for line in text.text().lines().filter(|line| !line.ends_with('/')) {
            assert_eq!(
                get(&gate, &format!("{path}{line}"), &[]).status,
                200,
                "{line}"
            );
        }
    }
}

#[test]
fn hidden_files_and_escaping_symlinks_are_not_listed() {
    let www = Www::with(&[("a", ""), (".env", ""), (".well-known/x", "")]);
    www.link("../secret.txt", "out");
    www.link("gone", "dangling");
    www.link("loop", "loop");
    www.link("a", "in");
    assert_eq!(
        names(&www.start("listing = true"), "/"),
        [".well-known", "a", "in"]
    );
    assert_eq!(
        names(&www.start("listing = true\nsymlinks = \"follow\""), "/"),
        [".well-known", "a", "in", "out"]
    );
}

#[test]
fn a_directory_listing_is_limited_to_ten_thousand_names() {
    let www = Www::new();
    fs::create_dir(www.path("many")).unwrap();
    for number in 0..100_000 {
        fs::File::create(www.path(format!("many/{number:06}"))).unwrap();
    }
    // Names that are not shown do not count for the limit.
    for number in 0..20_000 {
        fs::write(www.path(format!("many/.{number}")), "").unwrap();
    }
    let gate = www.start("listing = true");
    let before = gate.resident();
    let listed = names(&gate, "/many/");
    assert_eq!(listed.len(), 10_000);
    assert!(listed.is_sorted());
    let page = get(&gate, "/many/", &[HTML]);
    assert!(
        page.text().ends_with("<p>and 90000 more\n</body></html>\n"),
        "{:?}",
        &page.text()[page.body.len() - 60..]
    );
    assert_eq!(page.text().matches("<tr><td>").count(), 10_001);
    assert!(
        get(&gate, "/many/", &[])
            .text()
            .ends_with("# and 90000 more\n")
    );
    let grown = gate.most_resident().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes more");
}

#[test]
fn directories_are_listed_by_a_separate_thread() {
    let www = Www::with(&[("a.txt", "a")]);
    let gate = www.start("listing = true");
    assert_eq!(get(&gate, "/", &[]).status, 200);
    let tasks = fs::read_dir(format!("/proc/{}/task", gate.pid())).unwrap();
    let names: Vec<_> = tasks
        .map(|task| fs::read_to_string(task.unwrap().path().join("comm")).unwrap())
        .collect();
    assert_eq!(
        names
            .iter()
            .filter(|name| name.starts_with("listings-"))
            .count(),
        1,
        "{names:?}"
    );
}
