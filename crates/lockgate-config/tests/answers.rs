//! What it means to say how answers may be kept, encoded and shown to other sites.

use std::path::Path;

use lockgate_config::{Environment, SiteRoute, parse_str_in};
use lockgate_rules::{
    Caching, Coding, Compression, Cors, HeaderOp, MediaRange, Origin, Origins, Pattern, Template,
};

fn routes_of(site: &str, inner: &str) -> Vec<SiteRoute> {
    let text = format!("[site.\"{site}\"]\n{inner}\n");
    match parse_str_in(&text, Path::new("/lockgate.toml"), &Environment::none()) {
        Ok(loaded) => {
            assert!(loaded.warnings.is_empty(), "{text}\n{}", loaded.warnings);
            loaded.config.sites[0].routes.clone()
        }
        Err(report) => panic!("{text}\n{report}"),
    }
}

/// The routes of a site on port 1, which needs no certificate.
fn routes(inner: &str) -> Vec<SiteRoute> {
    routes_of(":1", inner)
}

const FILES: &str = "root = \"/srv\"\n";
const PROXY: &str = "proxy = \"127.0.0.1:1\"\n";

fn caching(inner: &str) -> Option<Caching> {
    routes(inner).remove(0).rules.cache
}

fn pattern(text: &str) -> Pattern {
    Pattern::parse(text).expect("a pattern")
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn files_are_asked_about_unless_their_name_changes_with_their_content() {
    let files = caching(FILES).unwrap();
    assert_eq!(files.hashed, some("public, max-age=31536000, immutable"));
    assert_eq!(
        (files.otherwise, files.paths.len(), files.types.len()),
        (some("no-cache"), 0, 0)
    );
    assert_eq!(caching(PROXY), None);
    assert_eq!(caching("respond = 404"), None);
}

#[test]
fn what_stands_behind_a_password_is_kept_by_nobody_between() {
    let files = caching(&format!("{FILES}auth = {{ basic = \"/users\" }}")).unwrap();
    assert_eq!(files.hashed, some("private, max-age=31536000, immutable"));
}

#[test]
fn a_policy_replaces_only_what_it_matches_and_a_star_matches_all() {
    let table = "cache = { \"/a/*\" = \"1h\", \"/a/b/*\" = \"no-store\", \"text/*\" = \"2h\", \"Text/CSS\" = false }";
    let files = caching(&format!("{FILES}{table}")).unwrap();
    let expected = Caching {
        paths: vec![
            (pattern("/a/b/*"), some("no-store")),
            (pattern("/a/*"), some("max-age=3600")),
        ],
        types: vec![
            (MediaRange::Exact("text/css".to_owned()), None),
            (MediaRange::Under("text".to_owned()), some("max-age=7200")),
        ],
        hashed: some("public, max-age=31536000, immutable"),
        otherwise: some("no-cache"),
    };
    assert_eq!(files, expected);
    let proxied = caching(&format!("{PROXY}{table}")).unwrap();
    assert_eq!(
        proxied,
        Caching {
            hashed: None,
            otherwise: None,
            ..expected
        }
    );
    for star in ["cache = \"1m\"", "cache = { \"*\" = \"1m\" }"] {
        let all = Caching {
            otherwise: some("max-age=60"),
            ..Caching::default()
        };
        assert_eq!(caching(&format!("{FILES}{star}")), Some(all.clone()));
        assert_eq!(caching(&format!("{PROXY}{star}")), Some(all));
    }
    assert_eq!(caching(&format!("{FILES}cache = false")), None);
}

#[test]
fn policies_are_merged_by_key_and_what_a_path_says_for_all_holds_for_all_of_it() {
    let routes = routes(&format!(
        "{FILES}cache = {{ \"text/css\" = \"1h\", \"*\" = \"1m\" }}\n\
         [site.\":1\".path.\"/a/*\"]\ncache = {{ \"text/css\" = \"2h\", \"image/*\" = \"3h\" }}\n\
         [site.\":1\".path.\"/b/*\"]\ncache = \"no-store\"\n[site.\":1\".path.\"/c/*\"]\ncache = false\n"
    ));
    let [a, b, c, _] = &routes[..] else {
        panic!("{routes:?}")
    };
    let a = a.rules.cache.as_ref().unwrap();
    let types = [
        (
            MediaRange::Exact("text/css".to_owned()),
            some("max-age=7200"),
        ),
        (MediaRange::Under("image".to_owned()), some("max-age=10800")),
    ];
    assert_eq!(
        (&a.types[..], &a.otherwise, &a.hashed),
        (&types[..], &some("max-age=60"), &None)
    );
    assert_eq!(
        b.rules.cache,
        Some(Caching {
            otherwise: some("no-store"),
            ..Caching::default()
        })
    );
    assert_eq!(c.rules.cache, None);
}

#[test]
fn files_are_encoded_without_a_word_and_what_is_proxied_is_not() {
    let compress = |inner: &str| routes(inner).remove(0).rules.compress;
    let of_files = compress(FILES).unwrap();
    assert_eq!(of_files.codings, Coding::ALL.map(|coding| (coding, None)));
    assert_eq!(of_files.min, 1_000);
    assert!(
        of_files
            .types
            .iter()
            .any(|range| range.matches(b"text/html"))
    );
    assert_eq!(compress(PROXY), None);
    assert_eq!(
        compress(&format!("{PROXY}compress = true")).as_ref(),
        Some(&of_files)
    );
    assert_eq!(compress(&format!("{FILES}compress = false")), None);
    let own = "compress = { codings = [\"br\"], types = [\"image/*\"], min = \"0B\", level = { br = 11 } }";
    let types = vec![MediaRange::Under("image".to_owned())];
    let expected = Compression {
        codings: vec![(Coding::Brotli, Some(11))],
        types,
        min: 0,
    };
    assert_eq!(compress(&format!("{PROXY}{own}")), Some(expected));
}

#[test]
fn a_path_that_encodes_again_keeps_what_its_site_said_about_it() {
    let routes = routes(&format!(
        "{FILES}compress = {{ min = \"9KB\" }}\n[site.\":1\".path.\"/a\"]\ncompress = {{ codings = [\"gzip\"] }}\n\
         [site.\":1\".path.\"/b\"]\n{PROXY}[site.\":1\".path.\"/c\"]\ncompress = false"
    ));
    let found = routes.iter().map(|route| {
        route
            .rules
            .compress
            .as_ref()
            .map(|one| (one.codings.len(), one.min))
    });
    assert_eq!(
        found.collect::<Vec<_>>(),
        [Some((1, 9_000)), Some((3, 9_000)), None, Some((3, 9_000))]
    );
}

#[test]
fn other_origins_are_named_as_browsers_name_them() {
    let cors = |value: &str| {
        routes(&format!("respond = 404\ncors = {value}"))
            .remove(0)
            .rules
            .cors
    };
    let any = cors("true").unwrap();
    assert_eq!(
        (any.origins, any.headers, any.credentials),
        (Origins::Any, None, false)
    );
    assert_eq!(any.max_age, 3_600);
    assert_eq!(cors("false"), None);
    assert_eq!(cors("\"*\"").unwrap().origins, Origins::Any);
    let list = "[\"HTTPS://A.example:443\", \"http://b.example:8080\", \"https://*.c.example\", \"http://[::1]:3000\"]";
    let origins = cors(list).unwrap().origins;
    let exact = |origin: &str| Origin::Exact(origin.to_owned());
    let expected = vec![
        exact("https://a.example"),
        exact("http://b.example:8080"),
        Origin::Under("https://".to_owned(), ".c.example".to_owned()),
        exact("http://[::1]:3000"),
    ];
    assert_eq!(origins, Origins::Only(expected));
    let long = "{ origins = \"https://a.b\", methods = [\"PUT\", \"GET\"], headers = [\"x-a\"], expose = [\"x-b\"], credentials = true, max_age = \"0s\" }";
    let expected = Cors {
        origins: cors("\"https://a.b\"").unwrap().origins,
        methods: "PUT, GET".to_owned(),
        headers: Some("x-a".to_owned()),
        expose: "x-b".to_owned(),
        credentials: true,
        max_age: 0,
    };
    assert_eq!(cors(long), Some(expected));
}

#[test]
fn who_may_read_is_said_by_the_nearest_table_alone() {
    let routes = routes(
        "respond = 404\ncors = { origins = \"https://a.b\", credentials = true }\n\
         [site.\":1\".path.\"/a\"]\ncors = true\n[site.\":1\".path.\"/b\"]\ncors = false\n",
    );
    let carried = routes
        .iter()
        .map(|route| route.rules.cors.as_ref().map(|cors| cors.credentials));
    assert_eq!(carried.collect::<Vec<_>>(), [Some(false), None, Some(true)]);
}

#[test]
fn secure_fields_give_way_and_tls_is_asked_for_over_tls_only() {
    let fields = |site: &str, inner: &str| {
        let rules = routes_of(site, &format!("respond = 404\n{inner}"))
            .remove(0)
            .rules
            .headers;
        let written = |value: &Template| value.written(&Pattern::everything());
        let shown = rules.rules().iter().map(|rule| {
            let name = str::from_utf8(&rule.name).unwrap();
            match &rule.op {
                HeaderOp::Default(value) => format!("{name}? {}", written(value)),
                HeaderOp::Set(values) => format!("{name}: {}", written(&values[0])),
                other => format!("{name} {other:?}"),
            }
        });
        shown.collect::<Vec<_>>()
    };
    let plain = [
        "x-content-type-options? nosniff",
        "referrer-policy? strict-origin-when-cross-origin",
        "x-frame-options? SAMEORIGIN",
        "permissions-policy? camera=(), geolocation=(), microphone=()",
    ];
    assert_eq!(fields(":1", "headers = { secure = true }"), plain);
    assert_eq!(fields(":1", "headers = { secure = false }"), [""; 0]);
    let over_tls = |inner: &str| fields("a.b", &format!("tls = \"/a.pem\"\n{inner}"));
    assert_eq!(
        over_tls("headers = { secure = true }")[0],
        "strict-transport-security? max-age=31536000"
    );
    let long = "headers = { secure = { hsts = \"30d\", subdomains = true } }";
    assert_eq!(
        over_tls(long)[0],
        "strict-transport-security? max-age=2592000; includeSubDomains"
    );
    assert_eq!(over_tls("headers = { secure = { hsts = false } }"), plain);
    let own = fields(
        ":1",
        "headers = { secure = true, X-Frame-Options = \"DENY\", referrer-policy = false }",
    );
    assert_eq!(
        own,
        [
            "X-Frame-Options: DENY",
            "referrer-policy Remove",
            plain[0],
            plain[3]
        ]
    );
}

#[test]
fn a_path_may_go_without_the_secure_fields_of_its_site() {
    let routes = routes(
        "respond = 404\nheaders = { secure = true }\n[site.\":1\".path.\"/a\"]\nheaders = { secure = false, x = \"y\" }\n\
         [site.\":1\".path.\"/b\"]\nheaders = { x = \"y\" }\n",
    );
    let counts = routes.iter().map(|route| route.rules.headers.rules().len());
    assert_eq!(counts.collect::<Vec<_>>(), [1, 5, 4]);
}
