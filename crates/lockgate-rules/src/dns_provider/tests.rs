use super::*;

fn parse(provider: &str, params: &[(&str, &str)]) -> Result<DnsProvider, DnsProviderError> {
    let params = params
        .iter()
        .map(|(name, value)| ((*name).to_owned(), DnsParam::from(*value)));
    DnsProvider::parse(provider, params.collect())
}

#[test]
fn a_provider_takes_its_own_and_the_common_parameters() {
    let provider = parse(
        "cf",
        &[
            ("token", "t0k"),
            ("ttl", "300"),
            ("zone", "Example.COM."),
            ("propagation_timeout", "3m"),
            ("propagation_check", "resolvers"),
            ("resolvers", "[fd00::53]:5353"),
        ],
    )
    .unwrap();
    assert_eq!(
        (provider.kind.name, provider.text("token")),
        ("cloudflare", Some("t0k"))
    );
    assert_eq!(
        (provider.ttl, provider.zone.as_deref()),
        (300, Some("example.com"))
    );
    assert_eq!(provider.propagation_timeout, Duration::from_secs(180));
    assert_eq!(provider.propagation_check, PropagationCheck::Resolvers);
    assert_eq!(provider.resolvers, ["[fd00::53]:5353".parse().unwrap()]);
    assert_eq!(parse("desec", &[("token", "t")]).unwrap().ttl, 3600);
}

#[test]
fn debug_of_a_provider_shows_no_secret() {
    let provider = parse("cloudflare", &[("token", "t0k3n")]).unwrap();
    let shown = format!("{provider:?}");
    assert!(
        shown.contains("cloudflare") && !shown.contains("t0k3n"),
        "{shown}"
    );
}

#[test]
fn mistakes_of_a_provider_name_the_cure() {
    let cases: [(&str, &[(&str, &str)], &str); 13] = [
        (
            "cloudfare",
            &[],
            "no DNS provider is called \"cloudfare\" (did you mean \"cloudflare\"?)",
        ),
        (
            "Cloudflare",
            &[],
            "no DNS provider is called \"Cloudflare\" (did you mean \"cloudflare\"?)",
        ),
        ("nonesuch", &[], "no DNS provider is called \"nonesuch\""),
        (
            "cloudflare",
            &[("api_token", "x")],
            "cloudflare has no parameter \"api_token\" (did you mean \"token\"?); it has token",
        ),
        (
            "cloudflare",
            &[("tokne", "x")],
            "cloudflare has no parameter \"tokne\" (did you mean \"token\"?); it has token",
        ),
        (
            "cloudflare",
            &[("tll", "x")],
            "cloudflare has no parameter \"tll\" (did you mean \"ttl\"?); it has token",
        ),
        ("desec", &[], "desec needs token (an API token)"),
        ("desec", &[("token", " ")], "token: the value is empty"),
        (
            "cloudns",
            &[("password", "x")],
            "cloudns needs one of id, sub_id",
        ),
        (
            "desec",
            &[("token", "x"), ("ttl", "0")],
            "ttl: a number of seconds from 1 to 86400",
        ),
        (
            "desec",
            &[("token", "x"), ("zone", "a..b")],
            "zone: a domain name, as example.com",
        ),
        (
            "desec",
            &[("token", "x"), ("propagation_timeout", "2h")],
            "propagation_timeout: a time of at most 1h, as 90s, 2m or 1h",
        ),
        (
            "desec",
            &[("token", "x"), ("resolvers", "ns1")],
            "resolvers: addresses of name servers, as 10.0.0.53 or [fd00::53]:53",
        ),
    ];
    for (provider, params, says) in cases {
        assert_eq!(parse(provider, params).unwrap_err().to_string(), says);
    }
}

#[test]
fn a_command_is_a_list_and_a_token_is_not() {
    let list = DnsParam::List(vec!["/bin/hook".to_owned(), "-v".to_owned()]);
    let params = BTreeMap::from([("command".to_owned(), list.clone())]);
    let provider = DnsProvider::parse("exec", params).unwrap();
    assert_eq!(provider.list("command"), ["/bin/hook", "-v"]);
    let params = BTreeMap::from([("token".to_owned(), list)]);
    let error = DnsProvider::parse("desec", params).unwrap_err();
    assert_eq!(error.to_string(), "token: this is one text");
}

#[test]
fn names_of_providers_and_parameters_are_unique() {
    let mut names: Vec<_> = DNS_PROVIDERS
        .iter()
        .flat_map(|kind| std::iter::once(kind.name).chain(kind.aliases.iter().copied()))
        .collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|two| two[0] != two[1]));
    for kind in &DNS_PROVIDERS {
        let mut params: Vec<_> = kind.params.iter().chain(&DNS_COMMON_PARAMS).collect();
        params.sort_unstable_by_key(|param| param.name);
        assert!(
            params.windows(2).all(|two| two[0].name != two[1].name),
            "{}",
            kind.name
        );
    }
}
