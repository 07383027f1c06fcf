//! Look-ups by hand, and against a search that compares every pattern with every other.

use super::*;

fn rules(texts: &[&str]) -> Vec<RouteEntry> {
    let rule = |(value, text): (RouteIndex, &&str)| {
        let (method, path) = match text.split_once(' ') {
            Some((method, path)) if !text.starts_with('/') => (Some(method.into()), path),
            _ => (None, *text),
        };
        RouteEntry {
            method,
            pattern: Pattern::parse(path).unwrap(),
            value,
        }
    };
    RouteIndex::enumerate(texts).map(rule).collect()
}

fn built(texts: &[&str]) -> Result<PathTree, Vec<Clash>> {
    let mut clashes = Vec::new();
    let paths = PathTree::build(ListenerSiteIndex::new(0), rules(texts), &mut clashes);
    if clashes.is_empty() {
        Ok(paths)
    } else {
        Err(clashes)
    }
}

/// The text of the route that is found, or `404`, or `405` with the methods.
fn found(texts: &[&str], paths: &PathTree, request: &str) -> String {
    let (method, path) = request.split_once(' ').unwrap();
    match paths.find(method.as_bytes(), path.as_bytes()) {
        Ok(rule) => texts[rule.value.get()].to_owned(),
        Err(NoRoute::Path) => "404".to_owned(),
        Err(NoRoute::Method { allow }) => format!("405 {allow}"),
    }
}

#[test]
fn the_most_specific_route_wins() {
    let all = [
        "/*",
        "/",
        "/a",
        "/a/",
        "/a/*",
        "/a/b",
        "/a/b/*",
        "/a/{id}",
        "POST /a/b",
        "/a/{id}/c",
        "/{x}/*",
        "/\u{e4}",
        "/u/{id}/files/*",
    ];
    let paths = built(&all).unwrap();
    for (request, route) in [
        ("GET /", "/"),
        ("GET //", "/*"),
        ("GET //a", "/*"),
        ("GET /a", "/a"),
        ("GET /a/", "/a/"),
        ("GET /a//", "/a/*"),
        ("GET /a/b", "/a/b"),
        ("POST /a/b", "POST /a/b"),
        ("GET /a/b/", "/a/b/*"),
        ("GET /a/b/d", "/a/b/*"),
        ("GET /a/b/c", "/a/{id}/c"),
        ("GET /a/x", "/a/{id}"),
        ("GET /a/x/c", "/a/{id}/c"),
        ("GET /a/x/y", "/a/*"),
        ("GET /a//c", "/a/*"),
        ("GET /x", "/{x}/*"),
        ("GET /x/", "/{x}/*"),
        ("GET /x/y/z", "/{x}/*"),
        ("GET /\u{e4}", "/\u{e4}"),
        ("GET /A", "/{x}/*"),
        ("GET /u/7/files", "/u/{id}/files/*"),
        ("GET /u/7/files/a/b", "/u/{id}/files/*"),
        ("GET /u/7/file", "/{x}/*"),
        ("OPTIONS *", "404"),
    ] {
        assert_eq!(found(&all, &paths, request), route, "{request}");
    }
}

#[test]
fn a_prefix_is_whole_segments_and_includes_its_own_path() {
    let all = ["/x/*"];
    let paths = built(&all).unwrap();
    for (path, route) in [
        ("/x", "/x/*"),
        ("/x/", "/x/*"),
        ("/x/y", "/x/*"),
        ("/x//", "/x/*"),
        ("/xy", "404"),
        ("/", "404"),
        ("//x", "404"),
    ] {
        assert_eq!(found(&all, &paths, &format!("GET {path}")), route, "{path}");
    }
}

#[test]
fn a_path_parameter_is_never_empty() {
    let all = ["/a/{id}", "/b/{id}/c"];
    let paths = built(&all).unwrap();
    for path in ["/a/", "/a", "/b//c", "/a/x/", "/a/x/y"] {
        assert_eq!(found(&all, &paths, &format!("GET {path}")), "404", "{path}");
    }
}

/// RFC 9110 §15.5.6, §9.3.2.
#[test]
fn an_unmatched_method_falls_back_or_lists_allow() {
    let all = [
        "GET /a",
        "POST /a",
        "PUT /a/*",
        "GET /b",
        "/b/*",
        "GET /c",
        "HEAD /c",
        "/c",
        "get /d",
        "DELETE /{x}",
    ];
    let paths = built(&all).unwrap();
    for (request, route) in [
        ("GET /a", "GET /a"),
        ("HEAD /a", "GET /a"),
        ("PUT /a", "PUT /a/*"),
        ("PATCH /a", "405 DELETE, GET, HEAD, POST, PUT"),
        ("OPTIONS /a", "405 DELETE, GET, HEAD, POST, PUT"),
        ("get /a", "405 DELETE, GET, HEAD, POST, PUT"),
        ("DELETE /a", "DELETE /{x}"),
        ("GET /a/b", "405 PUT"),
        ("POST /b", "/b/*"),
        ("HEAD /c", "HEAD /c"),
        ("GET /c", "GET /c"),
        ("POST /c", "/c"),
        ("GET /d", "405 DELETE, get"),
        ("GET /e/f", "404"),
    ] {
        assert_eq!(found(&all, &paths, request), route, "{request}");
    }
}

#[test]
fn many_path_segments_are_found_like_few() {
    let texts: Vec<_> = (0..1000)
        .map(|at| format!("/p{at}/{{x}}/q{}", at % 7))
        .collect();
    let all: Vec<_> = texts.iter().map(String::as_str).collect();
    let paths = built(&all).unwrap();
    for at in [0, 7, 8, 9, 500, 999] {
        assert_eq!(
            found(&all, &paths, &format!("GET /p{at}/y/q{}", at % 7)),
            all[at]
        );
        assert_eq!(found(&all, &paths, &format!("GET /p{at}/y/q9")), "404");
    }
}

#[test]
fn routes_for_the_same_requests_conflict() {
    for (texts, method, path) in [
        (["/a", "/a"], "GET", "/a"),
        (["POST /a", "POST /a"], "POST", "/a"),
        (["/a/*", "/a/*"], "GET", "/a/x"),
        (["/a/{x}", "/a/{y}"], "GET", "/a/x"),
        (["/a/{x}/c", "/a/b/{y}"], "GET", "/a/b/c"),
        (["POST /a/{x}/c", "/a/b/{y}"], "POST", "/a/b/c"),
        (["GET /a/{x}/c", "HEAD /a/b/{y}"], "HEAD", "/a/b/c"),
        (["/{x}/b/*", "/a/{y}/*"], "GET", "/a/b/x"),
        (["/{x}/{y}/c", "/a/b/{z}"], "GET", "/a/b/c"),
    ] {
        let clash = Clash::Route {
            site: ListenerSiteIndex::new(0),
            routes: (RouteIndex::new(0), RouteIndex::new(1)),
            method: method.into(),
            path: path.into(),
        };
        assert_eq!(built(&texts).unwrap_err(), [clash], "{texts:?}");
        for rule in rules(&texts) {
            assert!(matches(&rule.pattern, path.as_bytes()), "{texts:?}");
        }
    }
    for texts in [
        ["/a", "POST /a"],
        ["GET /a", "HEAD /a"],
        ["GET /a/{x}/c", "POST /a/b/{y}"],
        ["/a/*", "/a"],
        ["/a/*", "/{x}/*"],
        ["/a/*", "/{x}/b/*"],
        ["/{x}/b", "/a/*"],
    ] {
        assert!(built(&texts).is_ok(), "{texts:?}");
    }
}

/// The meaning of a pattern, in the plainest code.
fn matches(pattern: &Pattern, path: &[u8]) -> bool {
    let parts: Vec<_> = path.split(|&byte| byte == b'/').skip(1).collect();
    let segments = pattern.segments();
    let deep = if pattern.is_prefix() {
        parts.len() >= segments.len()
    } else {
        parts.len() == segments.len()
    };
    deep && segments
        .iter()
        .zip(parts)
        .all(|(segment, part)| match segment {
            Segment::Literal(text) => text.as_bytes() == part,
            Segment::Param(_) => !part.is_empty(),
        })
}

/// The specificity of a route for a request that it matches: the greater goes first.
fn rank(rule: &RouteEntry, method: &[u8]) -> impl Ord + use<> {
    let segments = rule.pattern.segments();
    let is_literal = |segment: &Segment| matches!(segment, Segment::Literal(_));
    let kind = match rule.pattern.is_prefix() {
        true => 0,
        false if segments.iter().all(is_literal) => 2,
        false => 1,
    };
    let method = match rule.method.as_deref() {
        Some(named) if named == method => 2,
        Some(_) => 1,
        None => 0,
    };
    (
        kind,
        segments.len(),
        segments.iter().map(is_literal).collect::<Vec<_>>(),
        method,
    )
}

#[test]
fn the_route_tree_agrees_with_a_linear_search() {
    let parts = ["a", "b", "", "{x}", "{y}", "*"];
    let methods = ["", "GET ", "HEAD ", "POST "];
    // Xorshift: the same tables on every run.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut draw = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) as usize % below
    };
    let mut requests = Vec::new();
    for first in ["a", "b", "c", ""] {
        requests.push(format!("/{first}"));
        for second in ["a", "b", "c", ""] {
            requests.push(format!("/{first}/{second}"));
            for third in ["a", "b", ""] {
                requests.push(format!("/{first}/{second}/{third}"));
            }
        }
    }
    let mut compared = 0;
    for _ in 0..1_500 {
        let mut texts: Vec<String> = Vec::new();
        for _ in 0..=draw(7) {
            let mut text = methods[draw(4)].to_owned();
            for _ in 0..=draw(3) {
                text.push('/');
                text.push_str(parts[draw(6)]);
            }
            // Some are no patterns; the others make the table.
            if Pattern::parse(text.split(' ').next_back().unwrap()).is_ok() {
                texts.push(text);
            }
        }
        let all: Vec<_> = texts.iter().map(String::as_str).collect();
        let Ok(paths) = built(&all) else { continue };
        let rules = rules(&all);
        for path in &requests {
            for method in ["GET", "HEAD", "POST", "PUT"] {
                let fits = |rule: &&RouteEntry| {
                    let named = rule.method.as_deref();
                    named.is_none_or(|named| {
                        named == method.as_bytes() || (method == "HEAD" && named == b"GET")
                    })
                };
                let matching: Vec<_> = rules
                    .iter()
                    .filter(|rule| matches(&rule.pattern, path.as_bytes()))
                    .collect();
                let best = matching
                    .iter()
                    .copied()
                    .filter(fits)
                    .max_by_key(|rule| rank(rule, method.as_bytes()));
                let tree = paths.find(method.as_bytes(), path.as_bytes());
                assert_eq!(
                    tree.as_ref().ok().map(|rule| rule.value),
                    best.map(|rule| rule.value),
                    "{method} {path} in {all:?}"
                );
                assert_eq!(
                    tree.is_err_and(|error| error == NoRoute::Path),
                    matching.is_empty(),
                    "{path} {all:?}"
                );
                compared += 1;
            }
        }
    }
    assert!(compared > 100_000, "nearly every table clashed");
}
