//! Templates of each purpose, rendered for hostile paths too.

use super::*;

pub(crate) fn values<'a>(path: &'a str, query: Option<&'a str>) -> RequestValues<'a> {
    RequestValues {
        path: path.as_bytes(),
        query: query.map(str::as_bytes),
        host: "a.example",
        secure: true,
        method: b"GET",
        client: ClientAddress::Ip([192, 0, 2, 7].into()),
        id: b"01J",
    }
}

fn render(purpose: Purpose, pattern: &str, text: &str, target: &str) -> String {
    let template = Template::parse(text, purpose, &Pattern::parse(pattern).unwrap()).unwrap();
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (target, None),
    };
    let mut out = b"> ".to_vec();
    template.render(&values(path, query), &mut out);
    String::from_utf8(out)
        .unwrap()
        .strip_prefix("> ")
        .unwrap()
        .to_owned()
}

fn error(purpose: Purpose, pattern: &str, text: &str) -> Option<TemplateError> {
    Template::parse(text, purpose, &Pattern::parse(pattern).unwrap()).err()
}

#[test]
fn a_rewritten_target_keeps_its_raw_percent_encoding() {
    for (pattern, text, target, rewritten) in [
        (
            "/api/*",
            "/v1/{*}",
            "/api/a%20b//c?d=%2f&e",
            "/v1/a%20b//c?d=%2f&e",
        ),
        ("/api/*", "/v1/{*}", "/api", "/v1/"),
        ("/api/*", "/v1/{*}", "/api/", "/v1/"),
        ("/api/*", "/v1/{*}?key=1", "/api/a?b", "/v1/a?key=1"),
        (
            "/api/*",
            "/v1/{*}?key=1&{query}",
            "/api/a?b=c&d",
            "/v1/a?key=1&b=c&d",
        ),
        ("/api/*", "/v1{path}", "/api/a?", "/v1/api/a?"),
        ("/api/*", "{path}", "/api/a", "/api/a"),
        ("/u/{id}/{x}", "/{x}/{id}", "/u/%c3%a4/b;c", "/b;c/%c3%a4"),
        (
            "/u/{id}",
            "/find?id={id}",
            "/u/a&b=c+d;e",
            "/find?id=a%26b%3Dc%2Bd%3Be",
        ),
        ("/*", "/find?q={*}", "/a/b", "/find?q=a/b"),
        ("/x", "/a b/\u{e4}", "/x", "/a%20b/%C3%A4"),
    ] {
        assert_eq!(
            render(Purpose::Target, pattern, text, target),
            rewritten,
            "{text} {target}"
        );
    }
}

#[test]
fn a_redirect_template_keeps_query_and_host() {
    for (pattern, text, target, location) in [
        ("/old/*", "/new/{*}", "/old/a?b", "/new/a?b"),
        (
            "/*",
            "https://{host}{path}",
            "/a?b",
            "https://a.example/a?b",
        ),
        (
            "/*",
            "https://www.{host}:8443{path}",
            "/a",
            "https://www.a.example:8443/a",
        ),
        ("/*", "https://b.example", "/a?b", "https://b.example?b"),
        (
            "/*",
            "http://b.example/x/{*}",
            "/a/b",
            "http://b.example/x/a/b",
        ),
        ("/*", "/new#part", "/a?b", "/new?b#part"),
        ("/*", "/new?x#{*}", "/a?b", "/new?x#a"),
        ("/*", "/login?to={path}", "/a?b", "/login?to=/a"),
        (
            "/*",
            "/go?to=https://{host}{path}",
            "/a",
            "/go?to=https://a.example/a",
        ),
    ] {
        assert_eq!(
            render(Purpose::Redirect, pattern, text, target),
            location,
            "{text} {target}"
        );
    }
}

/// CWE-601: a browser reads "//host" and "/\host" as another host.
#[test]
fn a_redirect_never_leads_to_a_host_chosen_by_request() {
    for (pattern, text, target, location) in [
        ("/*", "/{*}", "//evil.example/a", "/evil.example/a"),
        ("/*", "/{*}", "///evil.example", "/evil.example"),
        ("/*", "{path}", "//evil.example", "/evil.example"),
        ("/*", "{path}", "/\\evil.example", "/evil.example"),
        ("/*", "{path}", "/\\/evil.example", "/evil.example"),
        ("/*", "{path}", "/\t/evil.example", "/%09/evil.example"),
        ("/old/*", "/{*}", "/old//evil.example", "/evil.example"),
        ("/{x}/*", "/{x}/{*}", "/a//evil.example", "/a//evil.example"),
        (
            "/*",
            "https://{host}{path}",
            "//evil.example",
            "https://a.example//evil.example",
        ),
        ("/*", "https://{host}{path}", "*", "https://a.example/*"),
        (
            "/*",
            "https://b.example{path}",
            ".evil.example",
            "https://b.example/.evil.example",
        ),
    ] {
        assert_eq!(
            render(Purpose::Redirect, pattern, text, target),
            location,
            "{text} {target}"
        );
    }
    for text in [
        "{*}",
        "{x}",
        "//{host}/",
        "//b.example/{*}",
        "a",
        "",
        "?a",
        "ftp://a",
        "javascript:{*}",
        "{host}{path}",
    ] {
        assert_eq!(
            error(Purpose::Redirect, "/{x}/*", text),
            Some(TemplateError::Start),
            "{text}"
        );
    }
    for (text, name) in [
        ("https://b.example{*}", "*"),
        ("https://{*}", "*"),
        ("https://{x}.example/", "x"),
        ("https://{query}", "query"),
    ] {
        assert_eq!(
            error(Purpose::Redirect, "/{x}/*", text),
            Some(TemplateError::InHost(name.into())),
            "{text}"
        );
    }
    for text in [
        "https://",
        "http:///a",
        "https://\\\\a",
        "https://?a",
        "https://#a",
        "https://{path}",
    ] {
        assert_eq!(
            error(Purpose::Redirect, "/*", text),
            Some(TemplateError::NoHost),
            "{text}"
        );
    }
}

#[test]
fn random_paths_cause_no_open_redirect_or_crlf_injection() {
    // Xorshift: the same paths in every run.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut draw = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) as usize % below
    };
    let pattern = Pattern::parse("/{x}/*").unwrap();
    let texts = [
        "/{*}",
        "/{x}",
        "/{x}{*}",
        "/{*}{x}",
        "{path}",
        "{path}{*}",
        "/{query}",
        "/?{*}",
        "https://{host}{path}",
    ];
    let templates = texts.map(|text| Template::parse(text, Purpose::Redirect, &pattern).unwrap());
    let alphabet = *b"//\\\\.:@?#%e\t\r\n\0\xff";
    let mut out = Vec::new();
    for _ in 0..20_000 {
        let path: Vec<u8> = (0..draw(8))
            .map(|_| alphabet[draw(alphabet.len())])
            .collect();
        for template in &templates {
            out.clear();
            template.render(
                &RequestValues {
                    path: &path,
                    query: Some(&path),
                    ..values("", None)
                },
                &mut out,
            );
            let shown = out.escape_ascii();
            assert!(out.iter().all(u8::is_ascii_graphic), "{shown}");
            let here = out.starts_with(b"https://a.example/")
                || matches!(&*out, [b'/'] | [b'/', b'!'..=b'.' | b'0'..=b'[' | b']'..=b'~', ..]);
            assert!(here, "{shown}");
        }
    }
}

#[test]
fn template_values_cannot_inject_crlf_or_a_segment() {
    let path = "/a\r\nX: y /?b#c\u{7f}\u{e4}";
    let template = Template::parse("/v1/{*}", Purpose::Redirect, &Pattern::everything()).unwrap();
    let mut out = Vec::new();
    template.render(&values(path, Some("a#b\r\n c")), &mut out);
    assert_eq!(
        out.escape_ascii().to_string(),
        "/v1/a%0D%0AX:%20y%20/%3Fb%23c%7F%C3%A4?a%23b%0D%0A%20c"
    );
}

#[test]
fn a_header_template_knows_the_request() {
    for (text, target, rendered) in [
        ("hello {client}\n", "/", "hello 192.0.2.7\n"),
        (
            "{method} {scheme}://{host}{path}?{query} {id}",
            "/a?b",
            "GET https://a.example/a?b 01J",
        ),
        (
            "{\"up\": {\"ok\": true}, \"you\": \"{client}\"}",
            "/",
            "{\"up\": {\"ok\": true}, \"you\": \"192.0.2.7\"}",
        ),
        ("{} { } } {", "/", "{} { } } {"),
        ("p {color} {{client}}", "/", "p {color} {192.0.2.7}"),
        ("", "/", ""),
        // No value becomes markup in a page (CWE-79).
        ("<p>{path}", "/<script>'\"`", "<p>/%3Cscript%3E%27%22%60"),
    ] {
        assert_eq!(
            render(Purpose::Text, "/*", text, target),
            rendered,
            "{text}"
        );
    }
    assert_eq!(render(Purpose::Text, "/{id}", "{id}", "/7"), "7");
    let fixed = Template::text("a", &Pattern::everything());
    assert_eq!(fixed.fixed(), Some(&b"a"[..]));
}

#[test]
fn a_template_is_written_as_it_was_read() {
    for (purpose, pattern, text) in [
        (Purpose::File, "/*", "{path}.html"),
        (Purpose::Target, "/{a}/*", "/v1/{a}/{*}?b={query}"),
        (Purpose::Redirect, "/x", "https://www.{host}:8443{path}#top"),
        (
            Purpose::Text,
            "/x",
            "{method} {scheme} {client} {id} {color} {\u{e4}}\n",
        ),
    ] {
        let pattern = Pattern::parse(pattern).unwrap();
        let template = Template::parse(text, purpose, &pattern).unwrap();
        assert_eq!(template.written(&pattern), text);
    }
}

#[test]
fn invalid_templates_are_refused() {
    use TemplateError::*;
    for (purpose, pattern, text, expected) in [
        (Purpose::Target, "/*", "/{user}", Unknown("user".into())),
        (Purpose::Target, "/*", "/{host}", Unknown("host".into())),
        (
            Purpose::Redirect,
            "/*",
            "/{client}",
            Unknown("client".into()),
        ),
        (Purpose::Target, "/a", "/{*}", NoRest),
        (
            Purpose::Redirect,
            "/*",
            "{scheme}://a/",
            Unknown("scheme".into()),
        ),
        (Purpose::File, "/*", "/{query}", Unknown("query".into())),
        (Purpose::Target, "/*", "/{", Open),
        (Purpose::Target, "/*", "/}", Brace),
        (Purpose::Target, "/*", "/{a b}", Unknown("a b".into())),
        (Purpose::Target, "/*", "v1/{*}", Start),
        (Purpose::Target, "/*", "//v1", Start),
        (Purpose::Target, "/*", "{*}", Start),
        (Purpose::Target, "/*", "https://a.example/", Start),
        (Purpose::Target, "/*", "/a#b", Fragment),
        (Purpose::Target, "/*", "/a\r\n", Control),
    ] {
        assert_eq!(error(purpose, pattern, text), Some(expected), "{text}");
    }
}
