//! `headers.secure`: fields that make browsers more careful.

use super::*;
use crate::files::{WAYS, Way};

const HSTS: &str = "strict-transport-security";
const CAREFUL: [(&str, &str); 4] = [
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "strict-origin-when-cross-origin"),
    ("x-frame-options", "SAMEORIGIN"),
    (
        "permissions-policy",
        "camera=(), geolocation=(), microphone=()",
    ),
];

#[test]
fn secure_headers_are_added_and_hsts_over_tls_only() {
    let www = Www::with(&[("a.txt", "a"), ("lost.html", "lost")]);
    let origin = origin_with("", "said");
    for keys in [
        format!(
            "root = \"{}\"\nnot_found = \"/lost.html\"",
            www.root.display()
        ),
        proxied(&origin, ""),
        "respond = \"said\"".to_owned(),
        "redirect = \"/else\"".to_owned(),
    ] {
        let served = Served::by(&format!("{keys}\nheaders = {{ secure = true }}"));
        for way in WAYS {
            let mut client = served.connect(way);
            for path in ["/a.txt", "/none"] {
                let answer = client.get(path, &[]);
                for (name, value) in CAREFUL {
                    assert_eq!(answer.field(name), Some(value), "{way:?} {keys} {path}");
                }
                // RFC 6797 §7.2: not over plain HTTP.
                let expected = (way != Way::Plain).then_some("max-age=31536000");
                assert_eq!(answer.field(HSTS), expected, "{way:?} {keys} {path}");
            }
        }
        let served = Served::by(&keys);
        let answer = served.connect(Way::Secure).get("/a.txt", &[]);
        assert!(
            CAREFUL.iter().all(|(name, _)| answer.field(name).is_none())
                && answer.field(HSTS).is_none()
        );
    }
}

#[test]
fn configured_headers_override_secure_headers() {
    let keys = "respond = \"x\"\nheaders = { secure = true, x-frame-options = \"DENY\", permissions-policy = false, \
                referrer-policy = { add = \"no-referrer\" } }";
    let served = Served::by(keys);
    for way in WAYS {
        let answer = served.connect(way).get("/", &[]);
        assert_eq!(answer.field("x-frame-options"), Some("DENY"), "{way:?}");
        assert_eq!(answer.field("permissions-policy"), None, "{way:?}");
        assert_eq!(
            answer.field("referrer-policy"),
            Some("no-referrer"),
            "{way:?}"
        );
        assert_eq!(
            answer.field("x-content-type-options"),
            Some("nosniff"),
            "{way:?}"
        );
    }
}

#[test]
fn headers_of_the_application_override_secure_headers() {
    let fields = "X-FRAME-options: ALLOW-ALL\r\nStrict-Transport-Security: max-age=5\r\nReferrer-Policy: a\r\n";
    let origin = origin_with(fields, "said");
    let served = Served::by(&proxied(&origin, "headers = { secure = true }"));
    for way in WAYS {
        let answer = served.connect(way).get("/", &[]);
        let names = [
            "x-frame-options",
            HSTS,
            "referrer-policy",
            "x-content-type-options",
        ];
        let found = names.map(|name| answer.field(name));
        assert_eq!(
            found,
            [
                Some("ALLOW-ALL"),
                Some("max-age=5"),
                Some("a"),
                Some("nosniff")
            ],
            "{way:?}"
        );
    }
}

#[test]
fn hsts_max_age_and_subdomains_are_configurable() {
    for (secure, expected) in [
        ("{ hsts = \"30d\" }", Some("max-age=2592000")),
        (
            "{ hsts = \"1y\", subdomains = true }",
            Some("max-age=31536000; includeSubDomains"),
        ),
        ("{ hsts = false }", None),
    ] {
        let site = crate::scene::Site::new();
        let toml = format!(
            "[site.\"{NAME}:0\"]\nlisten = [\"127.0.0.1\"]\ntls = {{ cert = \"{}\" }}\nrespond = \"x\"\n\
             headers = {{ secure = {secure} }}\n",
            site.cert
        );
        let gate = crate::scene::lockgate().start(&toml);
        let mut http = Http::over(site.connect(&gate));
        let answer = crate::files::ask_over(&mut http, "GET", "/", &[]);
        assert_eq!(answer.field(HSTS), expected, "{secure}");
        assert_eq!(answer.field("x-content-type-options"), Some("nosniff"));
    }
}
