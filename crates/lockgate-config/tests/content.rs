//! What it means to say how bodies are changed.

use std::path::Path;
use std::time::Duration;

use lockgate_config::{
    BodyChange, Config, ElementEdit, EndpointAddr, Environment, HttpUrl, ValueSource, parse_str_in,
};
use lockgate_rules::MediaRange;

fn config(text: &str) -> Config {
    match parse_str_in(
        text,
        Path::new("/etc/lockgate/lockgate.toml"),
        &Environment::none(),
    ) {
        Ok(loaded) => {
            assert!(loaded.warnings.is_empty(), "{text}\n{}", loaded.warnings);
            Config::clone(&loaded.config)
        }
        Err(report) => panic!("{text}\n{report}"),
    }
}

/// What the rules of a site on port 1 do.
fn changes(rules: &str) -> Vec<BodyChange> {
    let text = format!("[site.\":1\"]\nroot = \"/srv\"\nrewrite_body = {rules}\n");
    let rewrite = config(&text)
        .sites
        .remove(0)
        .routes
        .remove(0)
        .rules
        .rewrite_body;
    rewrite
        .map(|rewrite| rewrite.rules.into_iter().map(|rule| rule.change).collect())
        .unwrap_or_default()
}

fn select(edit: ElementEdit) -> BodyChange {
    BodyChange::Select {
        selector: "p".to_owned(),
        edit,
    }
}

#[test]
fn a_rule_searches_for_one_thing_and_does_one_thing() {
    let text = |text: &str| text.to_owned();
    for (rule, expected) in [
        (
            "text = \"a\", with = \"\"",
            BodyChange::Text {
                find: text("a"),
                with: text(""),
            },
        ),
        (
            "regex = \"(a)\", with = \"$1\"",
            BodyChange::Pattern {
                pattern: text("(a)"),
                with: text("$1"),
            },
        ),
        // Groups of the expression, of which the configuration has nothing to say.
        (
            "regex = \"(?<w>b)ody\", with = \"${w}O$${id}$$${w}\"",
            BodyChange::Pattern {
                pattern: text("(?<w>b)ody"),
                with: text("${w}O$${id}$$${w}"),
            },
        ),
        (
            "with = \"${w}${path}\", regex = \"(?<w>b)\"",
            BodyChange::Pattern {
                pattern: text("(?<w>b)"),
                with: text("${w}${path}"),
            },
        ),
        (
            "select = \"p\", append = \"{id}\"",
            select(ElementEdit::Append(text("{id}"))),
        ),
        (
            "select = \"p\", prepend = \"{time}\"",
            select(ElementEdit::Prepend(text("{time}"))),
        ),
        (
            "select = \"p\", before = \"{counter}\"",
            select(ElementEdit::Before(text("{counter}"))),
        ),
        (
            "select = \"p\", after = \"\"",
            select(ElementEdit::After(text(""))),
        ),
        // An object of JavaScript, not the value of a name.
        (
            "select = \"p\", before = \"{value: 1}{value:}\"",
            select(ElementEdit::Before(text("{value: 1}{value:}"))),
        ),
        (
            "select = \"p\", replace = \"a {b: 1}\"",
            select(ElementEdit::Replace(text("a {b: 1}"))),
        ),
        (
            "select = \"p\", inner = \"a\", remove = false",
            select(ElementEdit::Inner(text("a"))),
        ),
        ("select = \"p\", remove = true", select(ElementEdit::Remove)),
        (
            "select = \"p\", set = { Class = \"a\", onload = false }",
            select(ElementEdit::Set(vec![
                (text("class"), Some(text("a"))),
                (text("onload"), None),
            ])),
        ),
    ] {
        assert_eq!(
            changes(&format!("[{{ {rule} }}]")),
            std::slice::from_ref(&expected),
            "{rule}"
        );
        assert_eq!(
            changes(&format!("{{ rules = [{{ {rule} }}] }}")),
            [expected],
            "{rule}"
        );
    }
    assert_eq!(changes("false"), []);
}

#[test]
fn rules_are_those_of_the_nearest_table_in_their_order() {
    let config = config(
        "[site.\":1\"]\nproxy = \"127.0.0.1:1\"\n\
         rewrite_body = { rules = [{ text = \"b\", with = \"\" }, { text = \"a\", with = \"\" }], max = \"1MB\", types = [\"text/*\"] }\n\
         [site.\":1\".path.\"/a\"]\nrewrite_body = [{ text = \"c\", with = \"\" }]\n\
         [site.\":1\".path.\"/b\"]\nrewrite_body = false\n",
    );
    let [a, b, site] = &config.sites[0].routes[..] else {
        panic!("{config:?}")
    };
    let a = a.rules.rewrite_body.as_ref().unwrap();
    assert_eq!(
        (a.rules.len(), a.max, &a.types[..]),
        (1, 16_000_000, &[MediaRange::Exact("text/html".into())][..])
    );
    assert_eq!(b.rules.rewrite_body, None);
    let site = site.rules.rewrite_body.as_ref().unwrap();
    assert_eq!(
        (site.rules.len(), site.max, &site.types[..]),
        (2, 1_000_000, &[MediaRange::Under("text".into())][..])
    );
    let find = |change: &BodyChange| matches!(change, BodyChange::Text { find, .. } if find == "b");
    assert!(find(&site.rules[0].change) && !find(&site.rules[1].change));
}

#[test]
fn values_come_from_files_and_from_urls_of_plain_http() {
    let using = "[site.\":1\"]\nroot = \"/srv\"\nrewrite_body = [{ text = \"a\", with = \"{value:a}{value:b-1}\" }]\n";
    let values = |b: &str| {
        config(&format!(
            "values = {{ a = {{ file = \"version\" }}, b-1 = {b} }}\n{using}"
        ))
        .values
    };
    let found =
        values("{ url = \"http://127.0.0.1:9000/motd?x\", every = \"1m\", default = \"none\" }");
    let [a, b] = &found[..] else {
        panic!("{found:?}")
    };
    assert_eq!(
        (&*a.name, a.every, &*a.default),
        ("a", Duration::from_secs(10), "")
    );
    assert_eq!(a.source, ValueSource::File("/etc/lockgate/version".into()));
    assert_eq!(
        (&*b.name, b.every, &*b.default),
        ("b-1", Duration::from_secs(60), "none")
    );
    let url = |host: &str, addr: EndpointAddr, path: &str| {
        ValueSource::Url(HttpUrl {
            addr,
            host: host.to_owned(),
            path: path.to_owned(),
        })
    };
    let name = |host: &str| EndpointAddr::Name {
        host: host.to_owned(),
        port: 80,
    };
    assert_eq!(
        b.source,
        url(
            "127.0.0.1:9000",
            EndpointAddr::Ip("127.0.0.1:9000".parse().unwrap()),
            "/motd?x"
        )
    );
    for (written, expected) in [
        ("http://a.b", url("a.b", name("a.b"), "/")),
        ("http://a.b:80/x", url("a.b", name("a.b"), "/x")),
        ("http://a.b?x", url("a.b", name("a.b"), "/?x")),
        (
            "http://[::1]/",
            url("[::1]", EndpointAddr::Ip("[::1]:80".parse().unwrap()), "/"),
        ),
    ] {
        assert_eq!(
            values(&format!("{{ url = \"{written}\" }}"))[1].source,
            expected,
            "{written}"
        );
    }
}
