//! Rules in, alternatives out.

use super::*;

fn shape(text: &str) -> String {
    let rule = match read(text) {
        Ok(rule) => rule,
        Err(why) => return why,
    };
    let host = |host: &RuleHost| match host {
        RuleHost::Exact(name) => name.clone(),
        RuleHost::Below(name) => format!("*.{name}"),
        RuleHost::Any => "any".to_owned(),
    };
    let one = |one: &RuleMatch| {
        let hosts: Vec<_> = one.hosts.iter().map(host).collect();
        let mut text = format!("{}{}", hosts.join(","), one.path.pattern());
        for path in &one.except {
            text = format!("{text} not {}", path.pattern());
        }
        for more in one.methods.iter().chain(&one.foreign) {
            text = format!("{text} {more}");
        }
        text
    };
    rule.any_of.iter().map(one).collect::<Vec<_>>().join(" | ")
}

#[test]
fn rules_are_alternatives() {
    for (text, expected) in [
        ("Host(`a.test`)", "a.test/*"),
        (
            "Host(`a.test`, `B.test`) && PathPrefix(`/api`)",
            "a.test,b.test/api/*",
        ),
        ("host(`a.test`) || Host(\"b.test\")", "a.test/* | b.test/*"),
        (
            "Host(`a.test`) && (PathPrefix(`/api/`) || Path(`/x`)) && Method(`GET`)",
            "a.test/api/* GET | a.test/x GET",
        ),
        ("PathPrefix(`/`)", "any/*"),
        ("HostRegexp(`{any:.+}`)", "any/*"),
        ("HostRegexp(`^.+\\.a\\.test$`)", "*.a.test/*"),
        ("HostRegexp(`{sub:[a-z]+}.a.test`)", "*.a.test/*"),
        (
            "HostRegexp(`^(a|b)\\.test$`)",
            "any/* HostRegexp(`^(a|b)\\.test$`)",
        ),
        ("Host(`a.test`) && !PathPrefix(`/x`)", "a.test/* not /x/*"),
        (
            "Host(`a.test`) && !ClientIP(`10.0.0.0/8`)",
            "a.test/* !ClientIP(`10.0.0.0/8`)",
        ),
        ("!(Path(`/a`) || Path(`/b`))", "any/* not /a not /b"),
        (
            "Host(`a.test`) && Headers(`X`, `1`)",
            "a.test/* Headers(`X`, `1`)",
        ),
        ("Host(`a.test`) && Host(`b.test`)", ""),
        ("Path(`/u/{id}`)", "any/* Path(`/u/{id}`)"),
        (
            "Host(a.test)",
            "its values are not in quotes, or a parenthesis is missing",
        ),
        ("Host:a.test;Path:/x", "it is not a rule of Traefik 2 or 3"),
        ("(Host(`a.test`)", "a parenthesis is not closed"),
        (
            "Host(`a.test`",
            "its values are not in quotes, or a parenthesis is missing",
        ),
        ("", "it is not a rule of Traefik 2 or 3"),
    ] {
        assert_eq!(shape(text), expected, "{text}");
    }
    assert!(shape(&"(".repeat(100_000)).contains("too deep"));
    assert!(shape(&"!".repeat(100_000)).contains("too deep"));
    let many = format!("({})", ["Path(`/a`)"; 40].join("||"));
    assert!(shape(&[many.as_str(); 3].join("&&")).contains("too many"));
}

#[test]
fn what_differs_is_said() {
    let rule = read("Host(`\u{E000}D_X\u{E001}.a`) && PathPrefix(`/api`)").unwrap();
    assert_eq!(
        rule.any_of[0].hosts,
        [RuleHost::Exact("d-x.a.example.com".into())]
    );
    assert_eq!(
        rule.differs,
        [
            "${D_X}.a is not known here: write the real host in place of d-x.a.example.com",
            "/api/* is /api and what is below it, not paths such as /apix"
        ]
    );
}
