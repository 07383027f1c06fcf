//! Lifetimes of responses in caches: Cache-Control (RFC 9111 §5.2).

use super::*;
use crate::files::WAYS;

/// The Cache-Control of each path.
#[track_caller]
fn check(served: &Served, cases: &[(&str, u16, Option<&str>)]) {
    for way in WAYS {
        let mut client = served.connect(way);
        for (path, status, said) in cases {
            let answer = client.get(path, &[]);
            assert_eq!(
                (answer.status, answer.field("cache-control")),
                (*status, *said),
                "{way:?} {path}"
            );
        }
    }
}

fn www() -> Www {
    Www::with(&[
        ("index.html", "index"),
        ("a.html", "page"),
        ("a.css", "css"),
        ("a.png", "png"),
        ("app.3f2a9c1b.js", "js"),
        ("assets/index-BX7d8sQk.css", "css"),
        ("assets/b.css", "css"),
        ("assets/deep/c.png", "png"),
        ("lost.html", "lost"),
    ])
}

#[test]
fn only_hashed_file_names_get_an_immutable_cache_control() {
    let www = www();
    let forever = Some("public, max-age=31536000, immutable");
    let served = Served::start(&www, "");
    check(
        &served,
        &[
            ("/", 200, Some("no-cache")),
            ("/a.html", 200, Some("no-cache")),
            ("/a.css", 200, Some("no-cache")),
            ("/app.3f2a9c1b.js", 200, forever),
            ("/assets/index-BX7d8sQk.css", 200, forever),
            ("/none.css", 404, Some("no-store")),
            ("/none.3f2a9c1b.js", 404, Some("no-store")),
        ],
    );
}

#[test]
fn cache_control_by_path_precedes_by_type_and_default() {
    let www = www();
    let keys = "cache = { \"/assets/*\" = \"1y immutable\", \"/assets/deep/*\" = \"5m\", \"/a.png\" = false, \
                \"text/css\" = \"1d\", \"text/*\" = \"no-store\", \"image/*\" = \"2d private\" }";
    let served = Served::start(&www, keys);
    check(
        &served,
        &[
            ("/assets/b.css", 200, Some("max-age=31536000, immutable")),
            ("/assets/deep/c.png", 200, Some("max-age=300")),
            ("/%61ssets/deep/c.png", 200, Some("max-age=300")),
            ("/a.png", 200, None),
            ("/a.css", 200, Some("max-age=86400")),
            ("/a.html", 200, Some("no-store")),
            // A path without a rule has the default; a rule for one type does not apply to others.
            ("/app.3f2a9c1b.js", 200, Some("no-store")),
            ("/none.png", 404, Some("no-store")),
        ],
    );
    let served = Served::start(&www, "cache = \"1h\"");
    check(
        &served,
        &[
            ("/a.html", 200, Some("max-age=3600")),
            ("/app.3f2a9c1b.js", 200, Some("max-age=3600")),
        ],
    );
    let served = Served::start(&www, "cache = false");
    check(
        &served,
        &[("/a.html", 200, None), ("/app.3f2a9c1b.js", 200, None)],
    );
}

#[test]
fn error_pages_get_no_cache_control_of_their_file() {
    let www = www();
    check(
        &Served::start(&www, "cache = \"1h\"\nnot_found = \"/lost.html\""),
        &[("/none", 404, None)],
    );
    let rewritten = "cache = \"1h\"\nnot_found = \"/lost.html\"\nrewrite_body = [{ text = \"lost\", with = \"{id}\" }]";
    check(
        &Served::start(&www, rewritten),
        &[
            ("/none", 404, None),
            ("/lost.html", 200, Some("max-age=3600")),
        ],
    );
    // RFC 9110 §15.5.17: it is about the request.
    let gate = www.start("cache = \"1h\"");
    let answer = get(&gate, "/a.css", &[("Range", "bytes=9-")]);
    assert_eq!((answer.status, answer.field("cache-control")), (416, None));
    let answer = get(&gate, "/a.css", &[("If-Match", "\"other\"")]);
    assert_eq!((answer.status, answer.field("cache-control")), (412, None));
    let answer = get(&gate, "/a.css", &[("Range", "bytes=0-0")]);
    assert_eq!(
        (answer.status, answer.field("cache-control")),
        (206, Some("max-age=3600"))
    );
}

/// RFC 9110 §15.4.5: it has the field that the 200 would have had.
#[test]
fn a_304_repeats_cache_control() {
    let www = www();
    let served = Served::start(&www, "");
    for way in WAYS {
        let mut client = served.connect(way);
        for path in ["/a.css", "/app.3f2a9c1b.js"] {
            let first = client.get(path, &[]);
            let again = client.get(path, &[("If-None-Match", first.field("etag").unwrap())]);
            assert_eq!(again.status, 304, "{way:?} {path}");
            assert_eq!(
                again.field("cache-control"),
                first.field("cache-control"),
                "{way:?} {path}"
            );
            assert!(first.field("cache-control").is_some());
        }
    }
}

/// An origin with the status in its path and the fields in its query.
fn origin() -> Serving {
    Origin::tcp().answering(|request| {
        let target = request.first_line().split(' ').nth(1).unwrap();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let status = path
            .trim_start_matches('/')
            .replace("%30", "0")
            .parse()
            .unwrap();
        let fields: String = query
            .split('&')
            .filter(|field| !field.is_empty())
            .map(|field| {
                let (name, value) = field.split_once('=').unwrap();
                format!("{name}: {value}\r\n")
            })
            .collect();
        if status == 304 {
            return format!("HTTP/1.1 304 Said\r\n{fields}\r\n").into_bytes();
        }
        reply(
            request,
            status,
            &fields,
            if status == 204 { b"" } else { b"body" },
        )
    })
}

#[test]
fn cache_control_of_the_origin_is_kept() {
    let origin = origin();
    let served = Served::by(&proxied(&origin, "cache = \"1h\""));
    check(
        &served,
        &[
            ("/200", 200, Some("max-age=3600")),
            ("/201", 201, Some("max-age=3600")),
            ("/206", 206, Some("max-age=3600")),
            ("/304", 304, Some("max-age=3600")),
            ("/200?Cache-Control=no-store", 200, Some("no-store")),
            ("/200?CACHE-control=private", 200, Some("private")),
            ("/200?Expires=0", 200, None),
            ("/304?Cache-Control=max-age%3D5", 304, Some("max-age%3D5")),
            ("/301", 301, None),
            ("/404", 404, None),
            ("/410", 410, None),
            ("/500", 500, None),
            ("/404?Cache-Control=no-cache", 404, Some("no-cache")),
        ],
    );
    // Without a rule no field is added.
    check(
        &Served::by(&proxied(&origin, "")),
        &[("/200?Content-Type=text/html", 200, None)],
    );
}

#[test]
fn cache_control_for_proxied_responses_depends_on_type_and_path() {
    let origin = origin();
    let keys = "cache = { \"*\" = \"no-cache\", \"text/css\" = \"1d\", \"/201\" = \"2d\" }";
    let served = Served::by(&proxied(&origin, keys));
    check(
        &served,
        &[
            ("/200", 200, Some("no-cache")),
            ("/200?Content-Type=text/html", 200, Some("no-cache")),
            (
                "/200?Content-Type=Text/CSS;charset=x",
                200,
                Some("max-age=86400"),
            ),
            ("/201?Content-Type=text/css", 201, Some("max-age=172800")),
            ("/2%301", 201, Some("max-age=172800")),
        ],
    );
}

/// RFC 9111 §4.3.4: fields of a 304 replace those of the 200. It need not have the type.
#[test]
fn a_proxied_304_adds_no_cache_control_its_200_lacked() {
    let origin = origin();
    let keys = "cache = { \"*\" = \"no-cache\", \"text/css\" = \"1d\", \"/304/x/*\" = \"2d\" }";
    let served = Served::by(&proxied(&origin, keys));
    check(
        &served,
        &[
            ("/304", 304, None),
            ("/304?Content-Type=text/css", 304, Some("max-age=86400")),
        ],
    );
    let served = Served::by(&proxied(
        &origin,
        "cache = { \"text/css\" = \"1d\", \"/304\" = \"2d\" }",
    ));
    check(&served, &[("/304", 304, Some("max-age=172800"))]);
}
