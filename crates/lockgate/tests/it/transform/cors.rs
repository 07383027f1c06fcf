//! Pages of other origins: permission to read, and preflight requests (Fetch, §3.2).

use super::*;
use crate::files::WAYS;

const ALLOW: &str = "access-control-allow-origin";
const APP: &str = "https://app.example";

/// The CORS fields of a response.
fn cors_fields(answer: &Answer) -> Vec<(&str, &str)> {
    let fields = answer
        .fields
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()));
    let mut said: Vec<_> = fields
        .filter(|(name, _)| name.starts_with("access-control-") || *name == "vary")
        .collect();
    said.sort_unstable();
    said
}

/// Routes of all kinds: files, an origin, a local response, a redirect.
fn all_actions() -> (Www, Serving, Vec<String>) {
    let www = Www::with(&[("index.html", "page")]);
    let origin = origin_with("Content-Type: text/plain\r\n", "said");
    let actions = vec![
        format!("root = \"{}\"", www.root.display()),
        proxied(&origin, ""),
        "respond = \"said\"".to_owned(),
        "redirect = \"/elsewhere\"".to_owned(),
    ];
    (www, origin, actions)
}

#[test]
fn cors_allows_only_configured_origins() {
    let (_www, _origin, actions) = all_actions();
    for action in &actions {
        let served = Served::by(&format!("{action}\ncors = \"{APP}\""));
        for way in WAYS {
            let mut client = served.connect(way);
            for origin in [
                APP,
                "https://other.example",
                "null",
                "https://app.example.attacker",
                "HTTPS://APP.EXAMPLE",
            ] {
                let answer = client.get("/", &[("Origin", origin)]);
                let mut expected = vec![("vary", "Origin")];
                if origin == APP {
                    expected.insert(0, (ALLOW, APP));
                }
                assert_eq!(cors_fields(&answer), expected, "{way:?} {action} {origin}");
                assert!(answer.status < 400, "whoever asks, it is answered");
            }
            // Without Vary for a request without Origin, a cache would give its response to others.
            assert_eq!(
                cors_fields(&client.get("/", &[])),
                [("vary", "Origin")],
                "{way:?} {action}"
            );
        }
        let served = Served::by(&format!("{action}\ncors = true"));
        for origin in [&[][..], &[("Origin", APP)], &[("Origin", "null")]] {
            assert_eq!(
                cors_fields(&get(&served.gate, "/", origin)),
                [(ALLOW, "*")],
                "{action}"
            );
        }
        let served = Served::by(&format!("{action}\ncors = false"));
        assert_eq!(
            cors_fields(&get(&served.gate, "/", &[("Origin", APP)])),
            [],
            "{action}"
        );
    }
}

#[test]
fn a_cors_subdomain_wildcard_matches_only_subdomains() {
    let keys = "respond = \"x\"\ncors = [\"https://*.example.org\", \"https://app.example:8443\", \"http://localhost:3000\"]";
    let gate = Served::by(keys).gate;
    for (origin, allowed) in [
        ("https://a.example.org", true),
        ("https://a.b-c.example.org", true),
        ("https://example.org", false),
        ("https://.example.org", false),
        ("https://evilexample.org", false),
        ("https://evil.example.org.attacker", false),
        ("https://a.example.org:8443", false),
        ("https://a.example.org/", false),
        ("https://attacker/.example.org", false),
        ("https://attacker?.example.org", false),
        ("https://attacker#.example.org", false),
        ("https://attacker\\.example.org", false),
        ("https://user@a.example.org", false),
        ("https://attacker:443.example.org", false),
        ("https://attacker%00.example.org", false),
        ("https://attacker, https://a.example.org", false),
        ("https://attacker https://a.example.org", false),
        ("http://a.example.org", false),
        ("https://https://a.example.org", false),
        ("https://app.example:8443", true),
        ("https://app.example", false),
        ("https://app.example:84430", false),
        ("http://localhost:3000", true),
        ("https://localhost:3000", false),
        ("null", false),
        ("*", false),
        ("", false),
    ] {
        let answer = get(&gate, "/", &[("Origin", origin)]);
        assert_eq!(answer.field(ALLOW), allowed.then_some(origin), "{origin}");
        assert_eq!(answer.field("vary"), Some("Origin"), "{origin}");
    }
    // No browser sends two (RFC 6454 §7.3).
    for origins in [
        ["https://a.example.org", "https://attacker"],
        ["https://a.example.org"; 2],
    ] {
        let lines = origins.map(|origin| ("Origin", origin));
        assert_eq!(get(&gate, "/", &lines).field(ALLOW), None, "{origins:?}");
    }
}

fn preflight(origin: &str) -> Vec<(&str, &str)> {
    let mut fields = vec![("Access-Control-Request-Method", "PUT")];
    fields.push(("Access-Control-Request-Headers", "content-type,x-own"));
    fields.push(("Origin", origin));
    fields
}

#[test]
fn cors_preflight_lists_methods_and_headers() {
    let (_www, _origin, actions) = all_actions();
    for action in &actions {
        let served = Served::by(&format!("{action}\ncors = \"{APP}\""));
        for way in WAYS {
            let mut client = served.connect(way);
            let answer = client.ask("OPTIONS", "/", &preflight(APP));
            assert_eq!(
                (answer.status, answer.body.len()),
                (204, 0),
                "{way:?} {action}"
            );
            let expected = [
                ("access-control-allow-headers", "content-type,x-own"),
                (
                    "access-control-allow-methods",
                    "GET, HEAD, POST, PUT, PATCH, DELETE",
                ),
                (ALLOW, APP),
                ("access-control-max-age", "3600"),
                ("vary", "Access-Control-Request-Headers"),
                ("vary", "Origin"),
            ];
            assert_eq!(cors_fields(&answer), expected, "{way:?} {action}");
            let refused = client.ask("OPTIONS", "/", &preflight("https://other.example"));
            assert_eq!(refused.status, 204, "{way:?} {action}");
            assert_eq!(cors_fields(&refused), expected[4..], "{way:?} {action}");
            assert_eq!(
                client.get("/", &[]).field("vary"),
                Some("Origin"),
                "{way:?}: the connection goes on"
            );
        }
    }
}

#[test]
fn cors_preflight_uses_the_configured_values() {
    let keys = format!(
        "respond = \"x\"\ncors = {{ origins = [\"{APP}\"], methods = [\"GET\", \"REPORT\"], headers = [\"x-a\", \"x-b\"], \
         expose = [\"x-total\", \"etag\"], credentials = true, max_age = \"10m\" }}"
    );
    let gate = Served::by(&keys).gate;
    let ask = |method: &str, fields: &[(&str, &str)]| {
        crate::files::ask_over(&mut Http::connect(gate.address()), method, "/", fields)
    };
    let expected = [
        ("access-control-allow-credentials", "true"),
        ("access-control-allow-headers", "x-a, x-b"),
        ("access-control-allow-methods", "GET, REPORT"),
        (ALLOW, APP),
        ("access-control-max-age", "600"),
        ("vary", "Origin"),
    ];
    assert_eq!(cors_fields(&ask("OPTIONS", &preflight(APP))), expected);
    let answer = ask("GET", &[("Origin", APP)]);
    let expected = [
        expected[0],
        expected[3],
        ("access-control-expose-headers", "x-total, etag"),
        expected[5],
    ];
    assert_eq!(cors_fields(&answer), expected);
    assert_eq!(
        cors_fields(&ask("GET", &[("Origin", "https://other.example")])),
        [("vary", "Origin")]
    );
    let gate = Served::by("respond = \"x\"\ncors = { origins = \"*\", headers = false }").gate;
    let answer = crate::files::ask_over(
        &mut Http::connect(gate.address()),
        "OPTIONS",
        "/",
        &preflight(APP),
    );
    assert_eq!(answer.field("access-control-allow-headers"), None);
    assert_eq!(answer.field(ALLOW), Some("*"));
}

/// Any page could act as the user that is logged in.
#[test]
fn cors_credentials_for_every_origin_are_a_configuration_error() {
    let toml = "[site.\":0\"]\nrespond = \"x\"\ncors = { origins = \"*\", credentials = true }\n";
    let ended = crate::scene::lockgate().fail(toml);
    assert!(
        ended.stderr.contains("`credentials` for every origin"),
        "{}",
        ended.stderr
    );
}

#[test]
fn options_without_preflight_fields_reach_the_application() {
    let origin = origin_with("X-From: origin\r\n", "said");
    let served = Served::by(&proxied(&origin, &format!("cors = \"{APP}\"")));
    for fields in [
        &[][..],
        &[("Origin", APP)],
        &[("Access-Control-Request-Method", "PUT")],
    ] {
        for way in WAYS {
            let answer = served.connect(way).ask("OPTIONS", "/", fields);
            assert_eq!(
                (answer.status, answer.field("x-from")),
                (200, Some("origin")),
                "{way:?} {fields:?}"
            );
        }
    }
    let plain = Served::by(&proxied(&origin, ""));
    let answer = plain.connect(WAYS[0]).ask("OPTIONS", "/", &preflight(APP));
    assert_eq!(
        answer.field("x-from"),
        Some("origin"),
        "without a word all of them are"
    );
}

/// Fetch §3.2.2: browsers ask without credentials, and a script reads why it may not come.
#[test]
fn cors_preflight_needs_no_password_and_401_is_readable() {
    let www = Www::with(&[("htpasswd", "")]);
    let file = www.write(
        "htpasswd",
        "alice:$2y$04$2lIsLL4WkHlL1AdE.us2M.KiUDmXG4b/qmENltdLbJc9r08TNOP1m\n",
    );
    let origin = origin_with("", "inside");
    let keys = format!(
        "cors = {{ origins = \"{APP}\", credentials = true }}\nauth = {{ basic = \"{}\" }}",
        file.display()
    );
    let served = Served::by(&proxied(&origin, &keys));
    for way in WAYS {
        let mut client = served.connect(way);
        assert_eq!(
            client.ask("OPTIONS", "/", &preflight(APP)).field(ALLOW),
            Some(APP),
            "{way:?}"
        );
        assert_eq!(
            origin.accepted(),
            0,
            "{way:?}: nothing of it reaches the application"
        );
        let answer = client.get("/", &[("Origin", APP)]);
        assert_eq!(
            (answer.status, answer.field(ALLOW), answer.field("vary")),
            (401, Some(APP), Some("Origin")),
            "{way:?}"
        );
        assert_eq!(
            answer.field("access-control-allow-credentials"),
            Some("true"),
            "{way:?}"
        );
        let answer = client.get("/", &[("Origin", "https://other.example")]);
        assert_eq!((answer.status, answer.field(ALLOW)), (401, None), "{way:?}");
        // Without an Origin it is an ordinary request.
        assert_eq!(client.ask("OPTIONS", "/", &[]).status, 401, "{way:?}");
    }
}

#[test]
fn error_responses_carry_cors_fields() {
    let www = Www::with(&[("a.txt", "a")]);
    let files = Served::start(&www, &format!("cors = \"{APP}\""));
    let gone = Served::by(&format!(
        "proxy = \"{}\"\ncors = \"{APP}\"",
        crate::scene::deserted()
    ));
    let broken = origin_with("", "said");
    let limited = Served::by(&proxied(
        &broken,
        &format!("cors = \"{APP}\"\ndeny = [\"127.0.0.0/8\"]"),
    ));
    for (served, path, status) in [
        (&files, "/none", 404),
        (&gone, "/", 502),
        (&limited, "/", 403),
    ] {
        for way in WAYS {
            let answer = served.connect(way).get(path, &[("Origin", APP)]);
            let found = (answer.status, answer.field(ALLOW), answer.field("vary"));
            // Error pages differ by Accept.
            assert_eq!((found.0, found.1), (status, Some(APP)), "{way:?} {path}");
            let varies = answer
                .fields
                .iter()
                .any(|(name, value)| name == "vary" && value.contains("Origin"));
            assert!(varies, "{way:?} {path} {:?}", answer.fields);
        }
    }
    let answer = files
        .connect(WAYS[0])
        .ask("POST", "/a.txt", &[("Origin", APP)]);
    assert_eq!((answer.status, answer.field(ALLOW)), (405, Some(APP)));
    for fields in [
        ("If-None-Match", "*"),
        ("Range", "bytes=9-"),
        ("If-Match", "\"no\""),
    ] {
        let answer = files
            .connect(WAYS[0])
            .get("/a.txt", &[("Origin", APP), fields]);
        assert!(
            matches!(answer.status, 304 | 416 | 412) && answer.field(ALLOW) == Some(APP),
            "{answer:?}"
        );
    }
}

#[test]
fn cors_fields_of_the_application_are_replaced() {
    let fields = "Access-Control-Allow-Origin: *\r\naccess-control-ALLOW-origin: https://attacker\r\n\
                  Access-Control-Allow-Credentials: true\r\nAccess-Control-Expose-Headers: x\r\nVary: origin, Accept\r\n\
                  Access-Control-Allow-Private-Network: true\r\nX-Access-Control-Allow-Origin: stays\r\n";
    let origin = origin_with(fields, "said");
    let served = Served::by(&proxied(&origin, &format!("cors = \"{APP}\"")));
    for way in WAYS {
        let mut client = served.connect(way);
        let vary = ("vary", "origin, Accept");
        assert_eq!(
            cors_fields(&client.get("/", &[("Origin", APP)])),
            [(ALLOW, APP), vary],
            "{way:?}"
        );
        let other = client.get("/", &[("Origin", "https://attacker")]);
        assert_eq!(cors_fields(&other), [vary], "{way:?}");
        assert_eq!(
            other.field("x-access-control-allow-origin"),
            Some("stays"),
            "{way:?}"
        );
    }
    let plain = Served::by(&proxied(&origin, ""));
    let answer = get(&plain.gate, "/", &[("Origin", APP)]);
    assert_eq!(
        answer.field("access-control-allow-credentials"),
        Some("true"),
        "without a word it is its own"
    );
}

/// The methods of a path are not the method of the preflight.
#[test]
fn cors_preflight_matches_the_route_of_the_requested_method() {
    let keys = format!(
        "respond = \"site\"\npath.\"PUT /own\" = {{ respond = \"own\", cors = \"{APP}\" }}\n\
         path.\"GET /own\" = {{ respond = \"got\", cors = \"https://other.example\" }}\n\
         path.\"POST /closed\" = {{ respond = \"done\", cors = false }}\ncors = \"{APP}\""
    );
    let served = Served::by(&keys);
    for way in WAYS {
        let mut client = served.connect(way);
        let put = client.ask("OPTIONS", "/own", &preflight(APP));
        assert_eq!((put.status, put.field(ALLOW)), (204, Some(APP)), "{way:?}");
        let get = [("Access-Control-Request-Method", "GET"), ("Origin", APP)];
        assert_eq!(
            client.ask("OPTIONS", "/own", &get).field(ALLOW),
            None,
            "{way:?}"
        );
        // The site's setting does not hold for a route with `cors = false`.
        let post = [("Access-Control-Request-Method", "POST"), ("Origin", APP)];
        let closed = client.ask("OPTIONS", "/closed", &post);
        assert_eq!(
            closed.field("access-control-allow-methods"),
            None,
            "{way:?}"
        );
        assert!(
            client
                .ask("OPTIONS", "/open", &post)
                .field("access-control-allow-methods")
                .is_some()
        );
    }
}
