//! Which file a path leads to.

use super::*;

const PAGES: [(&str, &str); 9] = [
    ("index.html", "home"),
    ("post.html", "post"),
    ("blog/index.html", "blog"),
    ("blog/first.html", "first"),
    ("evil.test/index.html", "evil"),
    ("evil.html", "evil page"),
    ("app.js", "script"),
    ("a b/é?#%.html", "odd"),
    ("empty/.keep", ""),
];

#[test]
fn a_path_maps_to_a_file_or_folder_index() {
    let www = Www::with(&PAGES);
    let gate = www.start("");
    check(
        &gate,
        &[
            ("/", 200, "home"),
            ("/?a=b", 200, "home"),
            ("/index.html", 200, "home"),
            ("/blog/", 200, "blog"),
            ("/blog/first.html", 200, "first"),
            ("//blog//first.html", 200, "first"),
            ("/%61pp.js", 200, "script"),
            ("/a%20b/%C3%A9%3F%23%25.html", 200, "odd"),
            ("/app.js/", 404, ""),
            ("/app.js/x", 404, ""),
            ("/APP.JS", 404, ""),
            ("/nothing", 404, ""),
            ("/post", 404, ""),
            ("/empty/", 404, ""),
            // No redirect leads to a path that has nothing.
            ("/empty", 404, ""),
        ],
    );
}

/// RFC 3986 §4.2: a reference that begins with two slashes names a host.
#[test]
fn a_trailing_slash_redirect_never_leads_to_another_host() {
    let www = Www::with(&PAGES);
    let gate = www.start("");
    check(
        &gate,
        &[
            ("/blog", 308, "/blog/"),
            ("/blog?a=b&c", 308, "/blog/?a=b&c"),
            ("/blog?", 308, "/blog/?"),
            ("/blog?//evil", 308, "/blog/?//evil"),
            ("/a%20b", 404, ""),
            ("//evil.test", 308, "/evil.test/"),
            ("///evil.test", 308, "/evil.test/"),
            ("/%2fevil.test", 400, ""),
            ("/\\evil.test", 400, ""),
            ("/%5cevil.test", 400, ""),
        ],
    );
}

#[test]
fn clean_urls_have_one_spelling_per_page() {
    let www = Www::with(&PAGES);
    let gate = www.start("clean_urls = true");
    check(
        &gate,
        &[
            ("/post", 200, "post"),
            ("/blog/first", 200, "first"),
            ("/post.html", 308, "/post"),
            ("/post.html?a=b", 308, "/post?a=b"),
            ("/post/", 308, "/post"),
            ("/index.html", 308, "/"),
            ("/blog/index.html", 308, "/blog/"),
            ("/blog/index.html?x=%2F", 308, "/blog/?x=%2F"),
            ("/blog", 308, "/blog/"),
            ("/app.js", 200, "script"),
            ("/nothing.html", 404, ""),
            ("/nothing/", 404, ""),
            ("/a%20b/%C3%A9%3F%23%25", 200, "odd"),
            ("/a%20b/%C3%A9%3F%23%25.html", 308, "/a%20b/%C3%A9%3F%23%25"),
            ("//evil.html", 308, "/evil"),
            ("//evil/", 308, "/evil"),
            ("//evil.test/index.html", 308, "/evil.test/"),
            ("//evil.test", 308, "/evil.test/"),
            ("/.html", 404, ""),
            ("/blog/.html", 404, ""),
        ],
    );
}

#[test]
fn trailing_slash_redirects_keep_a_stripped_prefix() {
    let www = Www::with(&PAGES);
    let gate = lockgate().start(&format!(
        "[site.\":0\"]\nlisten = [\"127.0.0.1\"]\nrespond = \"site\"\n\
         [site.\":0\".path.\"/docs/*\"]\nroot = \"{}\"\nstrip_prefix = true\nclean_urls = true\n",
        www.root.display()
    ));
    check(
        &gate,
        &[
            ("/docs/", 200, "home"),
            ("/docs", 200, "home"),
            ("/docs/post", 200, "post"),
            ("/docs/post.html?a", 308, "/docs/post?a"),
            ("/docs/blog", 308, "/docs/blog/"),
            ("/docs//evil.test", 308, "/docs/evil.test/"),
            ("/docs//evil.html", 308, "/docs/evil"),
            ("/docs/index.html", 308, "/docs/"),
            ("//docs/post.html", 308, "/docs/post"),
            ("//docs//evil.html", 308, "/docs/evil"),
            ("/post", 200, "site"),
        ],
    );
}

#[test]
fn the_first_existing_index_file_is_sent() {
    let www = Www::with(&[
        ("a/index.htm", "htm"),
        ("b/index.html", "html"),
        ("b/index.htm", "htm"),
    ]);
    www.write("c/index.html/x", "a folder of that name");
    www.write("c/index.htm", "htm");
    let gate = www.start("index = [\"index.html\", \"index.htm\"]");
    check(
        &gate,
        &[
            ("/a/", 200, "htm"),
            ("/b/", 200, "html"),
            ("/c/", 200, "htm"),
            ("/", 404, ""),
        ],
    );
    check(
        &www.start("index = []"),
        &[("/a/", 404, ""), ("/a", 404, "")],
    );
}

#[test]
fn try_files_are_tried_in_order() {
    let www = Www::with(&[
        ("page.html", "page"),
        ("both", "file"),
        ("both.html", "page of both"),
        ("app.html", "app"),
        ("folder/index.html", "folder"),
        (".hidden", "hidden"),
    ]);
    let gate = www.start("try = [\"{path}\", \"{path}.html\", \"{path}/\", \"/app.html\"]");
    check(
        &gate,
        &[
            ("/page.html", 200, "page"),
            ("/page", 200, "page"),
            ("/both", 200, "file"),
            ("/folder/", 200, "folder"),
            ("/nothing/at/all", 200, "app"),
            ("/.hidden", 200, "app"),
            ("/nothing?x", 200, "app"),
            ("/..%2fsecret.txt", 400, ""),
            ("/folder", 308, "/folder/"),
        ],
    );
    // No redirect here: the path that is tried is no path of the site.
    let www = Www::with(&[
        ("x/folder/index.html", "x"),
        ("folder/index.html", "folder"),
        ("app.html", "app"),
    ]);
    let gate = www.start("try = [\"/x{path}\", \"/app.html\"]");
    check(
        &gate,
        &[
            ("/folder", 200, "app"),
            ("/folder/", 200, "x"),
            ("/x/folder/", 200, "app"),
        ],
    );
}

/// A cached lookup of one path is not used for another with the same rest.
#[test]
fn try_files_use_the_whole_path() {
    let www = Www::with(&[("anna/x", "anna's"), ("bert/x", "bert's")]);
    let gate = lockgate().start(&format!(
        "[site.\":0\"]\nlisten = [\"127.0.0.1\"]\nrespond = \"site\"\n\
         [site.\":0\".path.\"/of/{{user}}/*\"]\nroot = \"{}\"\nstrip_prefix = true\ntry = [\"/{{user}}/{{*}}\"]\n",
        www.root.display()
    ));
    let mut client = Http::connect(gate.address());
    for (path, content) in [
        ("/of/anna/x", "anna's"),
        ("/of/bert/x", "bert's"),
        ("/of/anna/x", "anna's"),
    ] {
        assert_eq!(
            ask_over(&mut client, "GET", path, &[]).text(),
            content,
            "{path}"
        );
    }
}

#[test]
fn spa_serves_its_page_for_paths_without_a_file() {
    let www = Www::with(&[
        ("index.html", "index"),
        ("app.html", "app"),
        ("a.js", "script"),
        ("d/x", "x"),
    ]);
    const PAGE: (&str, &str) = ("Accept", "text/html,application/xhtml+xml,*/*;q=0.8");
    const SCRIPT: (&str, &str) = ("Accept", "*/*");
    for (keys, page) in [("spa = true", "index"), ("spa = \"/app.html\"", "app")] {
        let gate = www.start(keys);
        // On one connection, so that a cached lookup of one request is not used for the other.
        let mut client = Http::connect(gate.address());
        for (path, accept, status, content) in [
            ("/a.js", SCRIPT, 200, "script"),
            ("/users/1", PAGE, 200, page),
            ("/users/1", SCRIPT, 200, page),
            ("/users/1?tab=2", PAGE, 200, page),
            ("/users/", PAGE, 200, page),
            ("/d/", PAGE, 200, page),
            ("/logo.png", SCRIPT, 404, ""),
            ("/users/j.doe", PAGE, 200, page),
            ("/users/j.doe", SCRIPT, 404, ""),
            ("/users/j.doe", PAGE, 200, page),
        ] {
            let answer = ask_over(&mut client, "GET", path, &[accept]);
            let text = if status == 404 { "" } else { answer.text() };
            assert_eq!(
                (answer.status, text),
                (status, content),
                "{keys} {path} {accept:?}"
            );
        }
        assert_eq!(
            get(&gate, "/users/1", &[PAGE]).field("content-type"),
            Some("text/html; charset=utf-8")
        );
    }
}

#[test]
fn a_not_found_page_has_status_404_and_no_validators() {
    let www = Www::with(&[("404.html", "lost"), ("here", "here")]);
    let gate = www.start("not_found = \"/404.html\"");
    for fields in [
        &[][..],
        &[("If-None-Match", "*")],
        &[("Range", "bytes=0-0")],
        &[("If-Match", "\"x\"")],
        &[("If-Modified-Since", "Fri, 31 Dec 2021 00:00:00 GMT")],
    ] {
        let answer = get(&gate, "/gone", fields);
        assert_eq!((answer.status, answer.text()), (404, "lost"), "{fields:?}");
        assert_eq!(
            answer.field("content-type"),
            Some("text/html; charset=utf-8")
        );
        for none in ["etag", "last-modified", "accept-ranges", "content-range"] {
            assert_eq!(
                answer.field(none),
                None,
                "RFC 9110 §8.8: validators are those of what was asked for"
            );
        }
    }
    check(
        &gate,
        &[
            ("/404.html", 200, "lost"),
            ("/here", 200, "here"),
            ("/.hidden", 404, "lost"),
        ],
    );
    let answer = ask_over(&mut Http::connect(gate.address()), "HEAD", "/gone", &[]);
    assert_eq!(
        (answer.status, answer.field("content-length")),
        (404, Some("4"))
    );
    // Without the page itself it is an error as any.
    fs::remove_file(www.path("404.html")).unwrap();
    let answer = get(&gate, "/never/asked", &[]);
    assert_eq!(answer.status, 404);
    assert_ne!(answer.text(), "lost");
}

/// RFC 8615: `.well-known` is public.
#[test]
fn dot_files_are_hidden_unless_configured() {
    let www = Www::with(&[
        (".env", "secret"),
        (".git/config", "secret"),
        ("a/.b/c", "secret"),
        (".well-known/acme/token", "token"),
        (".well-known/.env", "secret"),
        (".well-knowns", "secret"),
        ("..a", "secret"),
        ("a.b", "plain"),
    ]);
    for (hidden, status) in [("", 404), ("hidden = true", 200)] {
        let gate = www.start(hidden);
        for path in [
            "/.env",
            "/.git/config",
            "/a/.b/c",
            "/.well-known/.env",
            "/%2eenv",
            "/.well-knowns",
            "/..a",
        ] {
            let answer = get(&gate, path, &[]);
            assert_eq!(answer.status, status, "{path}");
            assert_eq!(answer.text() == "secret", status == 200, "{path}");
        }
        check(
            &gate,
            &[
                ("/.well-known/acme/token", 200, "token"),
                ("/a.b", 200, "plain"),
            ],
        );
    }
}

#[test]
fn symlinks_leave_the_root_only_if_configured() {
    let www = Www::with(&[("a/real.txt", "real")]);
    www.link("real.txt", "a/beside.txt");
    www.link("a/real.txt", "down.txt");
    www.link("../a/real.txt", "b/up-and-down.txt");
    www.link("a", "folder");
    www.link("../secret.txt", "up.txt");
    www.link("../../secret.txt", "a/up.txt");
    www.link(www.folder.path().join("secret.txt"), "absolute.txt");
    www.link("..", "parent");
    www.link("/", "everything");
    www.link("loop", "loop");
    www.link("ping", "pong");
    www.link("pong", "ping");
    www.link("gone", "dangling");
    www.link("/proc/self/exe", "magic");
    let inside = www.start("");
    let follow = www.start("symlinks = \"follow\"");
    for gate in [&inside, &follow] {
        check(
            gate,
            &[
                ("/a/beside.txt", 200, "real"),
                ("/down.txt", 200, "real"),
                ("/b/up-and-down.txt", 200, "real"),
                ("/folder/real.txt", 200, "real"),
                ("/loop", 404, ""),
                ("/ping", 404, ""),
                ("/loop/x", 404, ""),
                ("/dangling", 404, ""),
            ],
        );
    }
    for path in [
        "/up.txt",
        "/a/up.txt",
        "/absolute.txt",
        "/parent/secret.txt",
    ] {
        check(&inside, &[(path, 404, "")]);
        check(&follow, &[(path, 200, SECRET)]);
    }
    for path in [
        "/everything/etc/passwd",
        "/everything/proc/self/environ",
        "/magic",
    ] {
        check(&inside, &[(path, 404, "")]);
    }
}

#[test]
fn methods_other_than_get_and_head_are_405() {
    let www = Www::with(&[("a.txt", "a")]);
    let gate = www.start("");
    for method in ["POST", "PUT", "DELETE", "PATCH", "TRACE", "PROPFIND", "get"] {
        let answer = ask_over(&mut Http::connect(gate.address()), method, "/a.txt", &[]);
        assert_eq!(
            (answer.status, answer.field("allow")),
            (405, Some("GET, HEAD, OPTIONS")),
            "{method}"
        );
    }
    let mut client = Http::connect(gate.address());
    for path in ["/a.txt", "/gone"] {
        let answer = ask_over(&mut client, "OPTIONS", path, &[]);
        assert_eq!(
            (answer.status, answer.field("allow")),
            (204, Some("GET, HEAD, OPTIONS")),
            "{path}"
        );
        assert_eq!(
            (answer.field("content-length"), &*answer.body),
            (None, &b""[..])
        );
    }
}
