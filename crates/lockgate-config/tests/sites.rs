//! What valid sites and pools mean.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lockgate_config::{
    AccessFormat, AuthMethod, Config, EndpointChoice, EndpointPool, Environment, HostedSite,
    LogTarget, Probe, Protocol, RouteAction, SiteRoute, UpstreamTls, parse_str_in,
};
use lockgate_rules::{
    AcceptProxy, Allowance, Directions, Eject, FixedResponse, HashKey, HeaderOp, HeaderRule,
    HostPattern, Http2, IdleSettings, LimitScope, Pattern, ProxyVersion, Purpose, Retry,
    SentHeader, ServerErrors, ShapeRates, SiteLog, TargetRewrite, Template,
};

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

fn site(text: &str) -> HostedSite {
    config(text).sites.remove(0)
}

/// The routes of a site on port 1, which needs no certificate.
fn routes(inner: &str) -> Vec<SiteRoute> {
    site(&format!("[site.\":1\"]\n{inner}\n")).routes
}

/// `ADDR`, then `s` for TLS and `r` for a redirect.
fn listeners(text: &str) -> Vec<String> {
    let shown = |site: &HostedSite| {
        let each = site.listen.iter().map(|listen| {
            let marks = [(listen.secure, "s"), (listen.redirects, "r")];
            let marks: String = marks
                .iter()
                .filter(|(on, _)| *on)
                .map(|(_, mark)| *mark)
                .collect();
            format!("{} {marks}", listen.addr)
        });
        each.collect()
    };
    shown(&site(text))
}

#[test]
fn the_listener_is_implied_by_the_key() {
    let tls = "tls = \"/a.pem\"\n";
    for (key, rest, expected) in [
        ("a.b", tls, vec![":443 s", ":80 r"]),
        ("*.a.b", tls, vec![":443 s", ":80 r"]),
        ("a.b", "tls = false\n", vec![":80 "]),
        ("a.b:8443", tls, vec![":8443 s"]),
        ("a.b:8080", "", vec![":8080 "]),
        (":8080", "tls = false\n", vec![":8080 "]),
        ("unix:/run/a.sock", "", vec!["unix:/run/a.sock "]),
        ("unix:a.sock", tls, vec!["unix:/etc/lockgate/a.sock s"]),
        (
            ":81",
            "listen = [\"127.0.0.1\", \"[::1]\", \"::1\"]\n",
            vec!["127.0.0.1:81 ", "[::1]:81 "],
        ),
        (
            "a.b",
            "listen = [\"::\"]\ntls = \"/a.pem\"\n",
            vec!["[::]:443 s", "[::]:80 r"],
        ),
        (":81", "listen = [\"0.0.0.0\", \"::\"]\n", vec![":81 "]),
    ] {
        assert_eq!(
            listeners(&format!("[site.\"{key}\"]\nrespond = 404\n{rest}")),
            expected,
            "{key} {rest}"
        );
    }
    let moved =
        "ports = { http = 8080, https = 8443 }\n[site.\"a.b\"]\nrespond = 404\ntls = \"/a.pem\"\n";
    assert_eq!(listeners(moved), [":8443 s", ":8080 r"]);
    let free = "ports = { http = 0, https = 0 }\n[site.\"a.b\"]\nrespond = 404\ntls = \"/a.pem\"\n";
    assert_eq!(listeners(free), [":0 s", ":0 r"]);
}

#[test]
fn sites_share_the_certificates_that_they_inherit() {
    let config = config(
        "[tls]\ncerts = [\"/a.pem\", \"/b.pem\"]\n\
         [site.\"a.b\"]\nrespond = 404\n\
         [site.\"c.d\"]\nrespond = 404\ntls = \"/own.pem\"\n\
         [site.\"e.f\"]\nrespond = 404\ntls = { certs = [\"/a.pem\", \"/b.pem\"] }\n",
    );
    let certs = config
        .sites
        .iter()
        .map(|site| &site.tls.as_ref().unwrap().certs);
    let [inherits, beside, lists] = &*certs.collect::<Vec<_>>() else {
        panic!()
    };
    assert!(Arc::ptr_eq(&inherits.listed, &beside.listed));
    assert!(!Arc::ptr_eq(&inherits.listed, &lists.listed));
    assert_eq!(
        (inherits.own.is_some(), beside.own.is_some()),
        (false, true)
    );
    assert_eq!(inherits, lists);
}

#[test]
fn a_site_without_a_word_about_tls_takes_that_of_all() {
    let site =
        site("[tls]\ncerts = [\"/a.pem\"]\npolicy = \"modern\"\n[site.\"a.b\"]\nrespond = 404\n");
    let tls = site.tls.unwrap();
    assert_eq!(
        (tls.certs.iter().count(), tls.versions.len(), tls.alpn),
        (1, 1, vec!["h2".into(), "http/1.1".into()])
    );
}

#[test]
fn hosts_are_compared_as_requests_name_them() {
    let site = site(
        "[site.\"Example.COM.\"]\ntls = false\nrespond = 404\nalias = [\"*.B.example\", \"10.0.0.1\", \"[::0:1]\"]\n",
    );
    let exact = |host: &str| HostPattern::Exact(host.to_owned());
    let under = HostPattern::Under("b.example".to_owned());
    assert_eq!(
        site.hosts,
        [
            exact("example.com"),
            under,
            exact("10.0.0.1"),
            exact("[::1]")
        ]
    );
    assert_eq!(site.name, "Example.COM.");
}

#[test]
fn sites_share_addresses_and_an_explicit_one_may_take_the_place_of_a_redirect() {
    let config = config(
        "[tls]\ncerts = [\"/a.pem\"]\n[site.\"a.b\"]\nrespond = 404\n[site.\"c.d\"]\nrespond = 404\n[site.\"a.b:80\"]\nrespond = 200\n\
         [site.\":443\"]\ntls = {}\nrespond = 404\n",
    );
    assert_eq!(config.sites.len(), 4);
    assert!(config.tcp.is_empty());
}

#[test]
fn the_site_itself_is_the_last_route_and_paths_keep_its_verb() {
    let routes = routes(
        "proxy = \"127.0.0.1:1\"\nlimit = \"1/s\"\n[site.\":1\".path.\"/a/*\"]\nstrip_prefix = true\n\
         [site.\":1\".path.\"POST /b/{id}\"]\nredirect = { to = \"/c/{id}?{query}\", status = 303 }\nlimit = false",
    );
    let names: Vec<_> = routes.iter().map(|route| route.name.as_str()).collect();
    assert_eq!(names, ["/a/*", "POST /b/{id}", ""]);
    assert_eq!(
        (&routes[0].action, &routes[2].action),
        (&RouteAction::Proxy(0), &RouteAction::Proxy(0))
    );
    let targets = [&routes[0], &routes[2]].map(|route| &route.rules.target);
    assert_eq!(targets, [&TargetRewrite::StripPrefix, &TargetRewrite::None]);
    let pattern = Pattern::parse("/b/{id}").unwrap();
    assert_eq!(
        routes[1].action,
        RouteAction::Redirect {
            to: Template::parse("/c/{id}?{query}", Purpose::Redirect, &pattern).unwrap(),
            status: 303
        }
    );
    assert_eq!(routes[1].method.as_deref(), Some("POST"));
    assert_eq!(routes[1].pattern, pattern);
    assert_eq!(
        (&routes[2].pattern, &routes[1].rules.limit),
        (&Pattern::everything(), &None)
    );
    assert_eq!(routes[0].rules.limit, routes[2].rules.limit);
}

#[test]
fn a_file_of_redirects_is_read_once_for_a_site_and_its_paths() {
    let env = Environment::none().with_file("/etc/lockgate/moved", "/old/* /new/{*} 301\n");
    let text = "[site.\":1\"]\nrespond = 404\nredirects = \"moved\"\n[site.\":1\".path.\"/a\"]\nrespond = 200\n\
                [site.\":1\".path.\"/b\"]\nredirects = false\n";
    let loaded = parse_str_in(text, Path::new("/etc/lockgate/lockgate.toml"), &env).unwrap();
    let maps: Vec<_> = loaded.config.sites[0]
        .routes
        .iter()
        .map(|route| route.rules.redirects.clone())
        .collect();
    let [Some(a), None, Some(site)] = &maps[..] else {
        panic!("{maps:?}")
    };
    assert!(Arc::ptr_eq(a, site));
    assert_eq!(site.file, Path::new("/etc/lockgate/moved"));
    let (to, status) = site.map.find(b"/old/a").unwrap();
    let to = to.written(&Pattern::parse("/old/*").unwrap());
    assert_eq!((&*to, status, site.map.len()), ("/new/{*}", 301, 1));
}

#[test]
fn sites_that_say_the_same_share_a_log() {
    let site = |port: u16, log: &str| format!("[site.\":{port}\"]\nrespond = 404\n{log}\n");
    let config = config(
        &([
            "access_log = \"/all.log\"\n".to_owned(),
            site(1, ""),
            site(2, "access_log = false"),
            site(3, "access_log = \"combined:/a.log\""),
            site(4, "access_log = { to = \"/a.log\", format = \"combined\" }"),
            site(5, "access_log = \"/all.log\""),
            site(6, "access_log = \"stdout\""),
        ]
        .concat()),
    );
    let logs: Vec<_> = config.sites.iter().map(|site| site.access_log).collect();
    let (own, shared) = (SiteLog::Own, SiteLog::Shared);
    assert_eq!(logs, [shared, SiteLog::Off, own(0), own(0), shared, own(1)]);
    let targets: Vec<_> = config
        .site_logs
        .iter()
        .map(|(log, _)| log.to.clone())
        .collect();
    assert_eq!(
        targets,
        [LogTarget::File("/a.log".into()), LogTarget::Stdout]
    );
}

#[test]
fn a_site_may_answer_some_paths_only() {
    let routes = routes("[site.\":1\".path.\"/a\"]\nrespond = \"hello {client}\"");
    let body = Template::text("hello {client}", &Pattern::parse("/a").unwrap());
    let answer = FixedResponse {
        status: 200,
        body,
        media_type: "text/plain; charset=utf-8".into(),
    };
    assert_eq!(
        (routes.len(), &routes[0].action),
        (1, &RouteAction::Respond(answer))
    );
}

#[test]
fn short_forms_mean_the_same_as_long_ones() {
    for (short, long) in [
        ("respond = 404", "respond = { status = 404 }"),
        (
            "respond = \"{\\\"a\\\": 1}\"",
            "respond = { body = \"{\\\"a\\\": 1}\" }",
        ),
        (
            "redirect = \"/a\"",
            "redirect = { to = \"/a\", status = 308 }",
        ),
        (
            "proxy = \"127.0.0.1:1\"",
            "proxy = { to = [{ addr = \"127.0.0.1:1\", weight = 1 }], protocol = \"http1\" }",
        ),
        (
            "respond = 404\nlimit = \"20/s\"",
            "respond = 404\nlimit = { rate = \"20/s\", per = \"client\", burst = 20, status = 429 }",
        ),
        (
            "respond = 404\nlimit = \"5/m per header:X-Key burst 9\"",
            "respond = 404\nlimit = { rate = \"5/m\", per = \"header:x-key\", burst = 9 }",
        ),
        (
            "respond = 404\nheaders = { a = \"b\" }",
            "respond = 404\nheaders = { a = [\"b\"] }",
        ),
    ] {
        let text = |inner: &str| config(&format!("[site.\":1\"]\n{inner}\n"));
        assert_eq!(text(short), text(long), "{short}");
    }
    let log = |value: &str| {
        config(&format!(
            "access_log = {value}\n[site.\":1\"]\nrespond = 404\n"
        ))
        .access_log
    };
    assert_eq!(
        log("\"combined:/a.log\""),
        log("{ to = \"/a.log\", format = \"combined\" }")
    );
    let stdout = log("\"logfmt:stdout\"").unwrap();
    assert_eq!(
        (stdout.format, stdout.to),
        (AccessFormat::Logfmt, LogTarget::Stdout)
    );
    assert_eq!(log("{ sample = \"10%\" }").map(|log| log.sample), Some(10));
}

#[test]
fn modifiers_are_merged_by_key_and_false_removes() {
    let routes = routes(
        "proxy = \"127.0.0.1:1\"\nheaders = { A = \"site\", b = \"site\", c = false }\nbody = { max = \"1MB\", min_rate = \"2KB/s\" }\n\
         timeouts = { response = \"1s\", connect = \"2s\" }\nauth = { basic = \"users\" }\nallow = [\"10.0.0.0/8\"]\n\
         error_pages = { 502 = \"a.html\", 503 = \"b.html\" }\nrewrite = \"/v1/{*}\"\npaths = \"as-is\"\n\
         [site.\":1\".path.\"/p/*\"]\nheaders = { a = { add = [\"x\", \"y\"] }, b = false }\nbody = { max = \"off\" }\n\
         timeouts = { response = \"off\" }\nauth = false\nallow = false\nerror_pages = { 502 = false }\nrewrite_location = false\n\
         strip_prefix = true\npaths = \"strict\"",
    );
    let (path, own) = (&routes[0].rules, &routes[1].rules);
    let rule = |name: &str, op| HeaderRule {
        name: name.into(),
        op,
    };
    let text = |text: &str| Template::text(text, &Pattern::everything());
    assert_eq!(
        path.headers.rules(),
        [
            rule("a", HeaderOp::Add(vec![text("x"), text("y")])),
            rule("b", HeaderOp::Remove),
            rule("c", HeaderOp::Remove)
        ]
    );
    assert_eq!(
        own.headers.rules()[0],
        rule("A", HeaderOp::Set(vec![text("site")]))
    );
    assert_eq!((own.body_max, path.body_max), (Some(1_000_000), None));
    assert_eq!(
        (own.rates.min_in, path.rates.min_in, path.rates.min_out),
        (Some(2_000), Some(2_000), Some(1_000))
    );
    let seconds = Duration::from_secs;
    assert_eq!(
        (own.timeouts.response, path.timeouts.response),
        (Some(seconds(1)), None)
    );
    assert_eq!(
        (path.timeouts.connect, path.timeouts.tunnel_idle),
        (seconds(2), seconds(3600))
    );
    let Some(AuthMethod::Basic(basic)) = &own.auth else {
        panic!("{:?}", own.auth)
    };
    assert_eq!(
        (basic.file.to_str(), basic.realm.as_str()),
        (Some("/etc/lockgate/users"), "restricted")
    );
    assert_eq!(
        (&path.auth, path.allow.len(), own.allow.len()),
        (&None, 0, 1)
    );
    let pages = |rules: &lockgate_config::RouteModifiers| {
        rules
            .error_pages
            .iter()
            .map(|page| page.0)
            .collect::<Vec<_>>()
    };
    assert_eq!((pages(path), pages(own)), (vec![503], vec![502, 503]));
    assert_eq!((path.rewrite_location, own.rewrite_location), (false, true));
    assert_eq!(path.target, TargetRewrite::StripPrefix);
    let rewrite = Template::parse("/v1/{*}", Purpose::Target, &Pattern::everything()).unwrap();
    assert_eq!(own.target, TargetRewrite::Template(rewrite));
    assert_eq!((path.raw_paths, own.raw_paths), (false, true));
}

#[test]
fn what_removes_one_way_to_change_the_path_keeps_the_other() {
    let rewritten = routes(
        "proxy = \"127.0.0.1:1\"\nrewrite = \"/v1{path}\"\n[site.\":1\".path.\"/p/*\"]\nstrip_prefix = false\n\
         [site.\":1\".path.\"/q/*\"]\nrewrite = false",
    );
    let rewrites: Vec<_> = rewritten
        .iter()
        .map(|route| match &route.rules.target {
            TargetRewrite::Template(to) => Some(to.written(&route.pattern)),
            _ => None,
        })
        .collect();
    let kept = Some("/v1{path}".to_owned());
    assert_eq!(rewrites, [kept.clone(), None, kept]);
}

#[test]
fn the_globals_of_http_have_their_defaults() {
    let config = config("[site.\":1\"]\nrespond = 404\n");
    assert_eq!((config.ports.http, config.ports.https), (80, 443));
    assert_eq!(
        (
            config.limits.head,
            config.limits.fields,
            config.limits.requests
        ),
        (64_000, 128, None)
    );
    let seconds = Duration::from_secs;
    assert_eq!(
        (config.timeouts.head, config.timeouts.idle),
        (seconds(10), seconds(75))
    );
    assert_eq!(config.timeouts.response, Some(seconds(60)));
    assert_eq!(
        (
            config.rates.min_in,
            config.rates.min_out,
            config.rates.grace
        ),
        (Some(1_000), Some(1_000), seconds(10))
    );
    let rules = &config.sites[0].routes[0].rules;
    assert_eq!(
        (rules.body_max, &rules.limit, rules.rewrite_location),
        (None, &None, true)
    );
    assert_eq!(config.sites[0].accept_proxy, AcceptProxy::Never);
}

fn pool(inner: &str) -> EndpointPool {
    let mut config = config(&format!(
        "[pool.app]\nendpoints = [\"10.0.0.1:1\"]\n{inner}\n[site.\":1\"]\nproxy = \"pool:app\"\n"
    ));
    Arc::unwrap_or_clone(config.pools.remove(0))
}

#[test]
fn a_pool_without_a_word_is_that_of_an_inline_address() {
    let mut config = config("[site.\":1\"]\nproxy = \"10.0.0.1:1\"\n");
    let inline = Arc::unwrap_or_clone(config.pools.remove(0));
    let named = pool("");
    assert_eq!(
        (named.queue.max, named.queue.wait),
        (1_000, Duration::from_secs(2))
    );
    assert_eq!(
        (named.idle.max, named.idle.age, named.idle.requests),
        (256, Duration::from_secs(60), 10_000)
    );
    assert_eq!(named.idle.lifetime, Some(Duration::from_secs(3_600)));
    assert_eq!(named.idle, IdleSettings::default());
    assert_eq!(
        (named.retry, &named.balance),
        (
            Retry {
                times: 1,
                budget: 20
            },
            &None
        )
    );
    assert_eq!(
        EndpointPool {
            name: None,
            ..named
        },
        inline
    );
}

#[test]
fn a_pool_says_when_endpoints_are_ejected_and_how_slowly_they_come_back() {
    let eject = |errors, seconds| {
        Some(Eject {
            errors,
            time: Duration::from_secs(seconds),
            statuses: ServerErrors::NONE,
        })
    };
    let with = Eject {
        statuses: [500, 502, 503, 504].into_iter().collect(),
        ..eject(5, 10).unwrap()
    };
    for (keys, expected, slow_start) in [
        ("", eject(5, 10), 0),
        ("eject = false\nslow_start = \"30s\"", None, 30),
        ("eject = { errors = 3 }", eject(3, 10), 0),
        ("eject = { for = \"1m\" }", eject(5, 60), 0),
        (
            "eject = { statuses = [\"500\", \"502-504\"] }",
            Some(with),
            0,
        ),
    ] {
        let pool = pool(keys);
        assert_eq!(
            (pool.eject, pool.slow_start),
            (expected, Duration::from_secs(slow_start)),
            "{keys}"
        );
    }
}

#[test]
fn a_pool_says_by_what_clients_are_told_apart() {
    for (written, key) in [
        ("client", HashKey::Client),
        ("sni", HashKey::Sni),
        ("header:X-User", HashKey::Header("x-user".into())),
        ("cookie:Id", HashKey::Cookie("Id".into())),
    ] {
        let pool = pool(&format!("balance = {{ hash = \"{written}\" }}"));
        assert_eq!(pool.balance, Some(EndpointChoice::Hash(key)));
    }
    let sticky = pool("balance = { sticky = \"cookie:lg\" }");
    assert_eq!(sticky.balance, Some(EndpointChoice::Sticky("lg".into())));
    let relayed = |key: &str| {
        format!(
            "[pool.a]\nendpoints = [\"a.b:1\"]\nbalance = {{ hash = \"{key}\" }}\n[tcp.\":1\"]\nproxy = \"pool:a\"\n"
        )
    };
    assert_eq!(
        config(&relayed("sni")).pools[0].balance,
        Some(EndpointChoice::Hash(HashKey::Sni))
    );
    let by_session = relayed("sni").replace("hash = \"sni\"", "sticky = \"tls-session\"");
    assert_eq!(
        config(&by_session).pools[0].balance,
        Some(EndpointChoice::Session)
    );
}

#[test]
fn an_endpoint_may_be_a_backup() {
    let toml = "[site.\":1\"]\nproxy = [\"a.b:1\", { addr = \"a.b:2\", backup = true }]\n";
    let pool = config(toml).pools.remove(0);
    assert_eq!(
        pool.endpoints
            .iter()
            .map(|one| one.backup)
            .collect::<Vec<_>>(),
        [false, true]
    );
}

#[test]
fn a_pool_says_how_its_endpoints_are_chosen_checked_and_spoken_to() {
    let pool = pool(
        "balance = \"round-robin\"\nhealth = { path = \"/h?x=1\", expect = [\"200-299\", \"401\"], body = \"ok\", port = 81, tls = false }\n\
         retry = false\ntls = { name = \"a.b\" }\nproxy_protocol = \"v2\"\nmaintenance = { body = \"back soon\\n\" }",
    );
    assert_eq!(
        (pool.balance, pool.retry, pool.proxy_protocol),
        (
            Some(EndpointChoice::RoundRobin),
            Retry::NEVER,
            Some(ProxyVersion::V2)
        )
    );
    let health = pool.health.unwrap();
    let probe = Probe::Http {
        path: "/h?x=1".into(),
        method: "GET".into(),
        expect: vec![200..=299, 401..=401],
        body: Some("ok".into()),
    };
    assert_eq!(
        (&health.probe, health.port, &health.tls),
        (&probe, Some(81), &None)
    );
    assert_eq!(
        (health.fall, health.rise, health.every),
        (3, 2, Duration::from_secs(2))
    );
    assert_eq!(pool.maintenance.map(|answer| answer.status), Some(503));
    let short = |value: &str| {
        self::pool(&format!("health = {value}\ntls = {{}}"))
            .health
            .unwrap()
    };
    let tcp = |send: &str, expect: Option<&str>| Probe::Tcp {
        send: send.into(),
        expect: expect.map(Into::into),
    };
    for (written, probe) in [
        ("\"tcp\"", tcp("", None)),
        ("{ tcp = true }", tcp("", None)),
        ("{ every = \"1s\" }", tcp("", None)),
        (
            "{ tcp = true, send = \"PING\\r\\n\\u0000\", expect = \"200\" }",
            tcp("PING\r\n\0", Some("200")),
        ),
        ("{ send = \"x\" }", tcp("x", None)),
        ("{ tcp = true, expect = \"220 \" }", tcp("", Some("220 "))),
    ] {
        assert_eq!(short(written).probe, probe, "{written}");
    }
    assert_eq!(
        short("\"/h\""),
        short("{ path = \"/h\", expect = \"200-399\" }")
    );
    assert!(short("\"/h\"").tls.is_some());
}

#[test]
fn a_pool_is_shared_by_all_that_name_it() {
    let config = config(
        "[pool.app]\nendpoints = [{ addr = \"10.0.0.1:1\", weight = 3, max = 7 }]\nproxy_protocol = \"v1\"\n\
         [tcp.\":2\"]\nproxy = \"pool:app\"\n[tcp.\":3\"]\nproxy = { to = \"pool:app\" }\nproxy_protocol = \"v2\"\n\
         [site.\":1\"]\nproxy = \"pool:app\"\n[site.\":1\".path.\"/x\"]\nproxy = [\"10.0.0.1:1\", \"10.0.0.2:1\"]\n",
    );
    assert_eq!(config.pools.len(), 2);
    let relays: Vec<_> = config.tcp.iter().flat_map(|tcp| tcp.relays()).collect();
    assert_eq!((relays[0].pool, relays[1].pool), (0, 0));
    let versions: Vec<_> = relays.iter().map(|relay| relay.proxy_protocol).collect();
    assert_eq!(
        versions,
        [ProxyVersion::V1, ProxyVersion::V2].map(|version| Some(SentHeader::Own(version)))
    );
    let actions: Vec<_> = config.sites[0]
        .routes
        .iter()
        .map(|route| &route.action)
        .collect();
    assert_eq!(actions, [&RouteAction::Proxy(1), &RouteAction::Proxy(0)]);
    let ends: Vec<_> = config
        .pools
        .iter()
        .flat_map(|pool| &pool.endpoints)
        .map(|end| (end.weight, end.max))
        .collect();
    assert_eq!(ends, [(3, Some(7)), (1, Some(7)), (1, None)]);
}

#[test]
fn a_pool_that_speaks_http_2_offers_nothing_else() {
    let h2 = pool(
        "protocol = \"h2\"\ntls = { name = \"a.b\" }\nhealth = { path = \"/h\", tls = { name = \"c.d\" } }",
    );
    let offered = |tls: &Option<UpstreamTls>| tls.as_ref().map(|tls| tls.alpn.join(","));
    assert_eq!(
        (h2.protocol, offered(&h2.tls).as_deref()),
        (Protocol::H2, Some("h2"))
    );
    assert_eq!(offered(&h2.health.unwrap().tls).as_deref(), Some("h2"));
    let inline = "[site.\":1\"]\nproxy = { to = \"10.0.0.1:1\", protocol = \"h2c\" }\n";
    let h2c = config(inline).pools.remove(0);
    assert_eq!((h2c.protocol, h2c.tls.clone()), (Protocol::H2c, None));
    let plain = pool("protocol = \"http1\"\ntls = { alpn = [\"http/1.1\"] }");
    assert_eq!(
        (plain.protocol, offered(&plain.tls).as_deref()),
        (Protocol::Http1, Some("http/1.1"))
    );
}

#[test]
fn a_check_by_grpc_asks_about_the_server_or_a_service() {
    let probe = |grpc: &str| {
        pool(&format!("protocol = \"h2c\"\nhealth = {{ grpc = {grpc} }}"))
            .health
            .map(|health| health.probe)
    };
    assert_eq!(
        probe("true"),
        Some(Probe::Grpc {
            service: String::new()
        })
    );
    assert_eq!(
        probe("\"shop.Cart\""),
        Some(Probe::Grpc {
            service: "shop.Cart".into()
        })
    );
    assert_eq!(
        probe("false"),
        Some(Probe::Tcp {
            send: String::new(),
            expect: None
        })
    );
}

#[test]
fn a_site_speaks_what_fits_its_listener() {
    let spoken = |key: &str, lines: &str| {
        site(&format!("[site.\"{key}\"]\nrespond = 404\n{lines}\n")).protocols
    };
    let (http1, h2, h2c) = (Protocol::Http1, Protocol::H2, Protocol::H2c);
    let tls = "tls = \"/a.pem\"";
    assert_eq!(spoken("a.b", tls), [h2, http1]);
    assert_eq!(spoken(":8443", tls), [h2, http1]);
    assert_eq!(
        spoken("a.b", &format!("{tls}\nprotocols = [\"http1\", \"h2\"]")),
        [http1, h2]
    );
    assert_eq!(
        spoken("a.b", &format!("{tls}\nprotocols = [\"http1\"]")),
        [http1]
    );
    assert_eq!(spoken("a.b", "tls = false"), [http1]);
    assert_eq!(spoken("unix:/a", ""), [http1]);
    // There is nothing to prefer: clients begin with one or the other.
    assert_eq!(
        spoken(":80", "protocols = [\"h2c\", \"http1\"]"),
        [http1, h2c]
    );
    assert_eq!(spoken(":80", "protocols = [\"h2c\"]"), [h2c]);
}

#[test]
fn over_tls_clients_are_offered_what_the_site_speaks() {
    let offered = |protocols: &str| {
        site(&format!(
            "[site.\"a.b\"]\nrespond = 404\ntls = \"/a.pem\"\nprotocols = {protocols}\n"
        ))
        .tls
        .unwrap()
        .alpn
    };
    assert_eq!(offered("[\"h2\", \"http1\"]"), ["h2", "http/1.1"]);
    assert_eq!(offered("[\"http1\", \"h2\"]"), ["http/1.1", "h2"]);
    assert_eq!(offered("[\"http1\"]"), ["http/1.1"]);
    assert_eq!(offered("[\"h2\"]"), ["h2"]);
}

#[test]
fn what_redirects_takes_the_protocols_of_those_that_serve_there() {
    let served = config(
        "[tls]\ncerts = [\"/a.pem\"]\n[site.\"a.b\"]\nrespond = 404\n[site.\"c.d:80\"]\nrespond = 404\nprotocols = [\"http1\", \"h2c\"]\n\
         [site.\"e.f\"]\nrespond = 404\nprotocols = [\"http1\"]\n",
    );
    assert_eq!(served.sites.len(), 3);
    let disagree = "[tls]\ncerts = [\"/a.pem\"]\n[site.\"a.b\"]\nrespond = 404\n[site.\"c.d:80\"]\nrespond = 404\n\
                    [site.\"e.f:80\"]\nrespond = 404\nprotocols = [\"h2c\"]\n";
    let report = parse_str_in(disagree, Path::new("x"), &Environment::none()).unwrap_err();
    let found: Vec<_> = report
        .iter()
        .map(|one| (one.code().id(), one.at().unwrap().line()))
        .collect();
    assert_eq!(found, [("E0042", 7)], "{report}");
}

#[test]
fn what_one_connection_may_ask_for_over_http_2_is_limited_without_a_word() {
    let site = "[site.\"a.b\"]\nrespond = 404\ntls = \"/a.pem\"\n";
    let second = Duration::from_secs(1);
    let expected = Http2 {
        streams: 128,
        window: 1_000_000,
        connection_window: 8_000_000,
        resets: Allowance {
            count: 20,
            every: second,
            burst: 200,
        },
        control: Allowance {
            count: 100,
            every: second,
            burst: 1_000,
        },
    };
    assert_eq!(config(site).http2, expected);
    let own = config(&format!(
        "http2 = {{ window = \"64KiB\", connection_window = \"64KiB\", resets = \"60/m\" }}\n{site}"
    ));
    let resets = Allowance {
        count: 60,
        every: 60 * second,
        burst: 60,
    };
    assert_eq!(
        own.http2,
        Http2 {
            window: 65_536,
            connection_window: 65_536,
            resets,
            ..expected
        }
    );
}

#[test]
fn a_limit_is_counted_by_what_it_says() {
    let limit = |text: &str| {
        routes(&format!("respond = 404\nlimit = \"{text}\""))[0]
            .rules
            .limit
            .clone()
            .unwrap()
            .value
    };
    let hourly = limit("100/h per route");
    assert_eq!(
        (hourly.count, hourly.every, hourly.per),
        (100, Duration::from_secs(3_600), LimitScope::Route)
    );
    let bursting = limit("20/s burst 40 per client");
    assert_eq!(
        (bursting.burst, bursting.status, bursting.per),
        (40, 429, LimitScope::Client)
    );
}

#[test]
fn what_is_kept_means_the_same_anywhere() {
    let text = "access_log = \"combined:./a.log\"\n[pool.app]\nendpoints = [\"unix:p.sock\"]\n[site.\"unix:s.sock\"]\nproxy = \"pool:app\"\n\
                [site.\"unix:s.sock\".path.\"/x\"]\nerror_pages = { 502 = \"e.html\" }\n[site.\":1\".path.\"GET /y\"]\nrespond = \"\\\"\"\n";
    let env = Environment::none();
    let first = parse_str_in(text, Path::new("/etc/lockgate/lockgate.toml"), &env).unwrap();
    let merged = first.merged_toml();
    assert!(
        merged.contains("[site.\"unix:/etc/lockgate/s.sock\".path.\"/x\"]"),
        "{merged}"
    );
    let mut again = parse_str_in(&merged, Path::new("/var/last.toml"), &env)
        .unwrap_or_else(|report| panic!("{merged}\n{report}"));
    assert_eq!(again.merged_toml(), merged);
    Arc::make_mut(&mut again.config).sites[1].name = "unix:s.sock".into();
    assert_eq!(again.config, first.config);
}

#[test]
fn many_sites_are_read_in_time() {
    let sites = (0..1_000).map(|n| format!("[site.\"s{n}.example\"]\nproxy = \"127.0.0.1:1\"\n[site.\"s{n}.example\".path.\"/x\"]\nlimit = \"1/s\"\n"));
    let text = format!("[tls]\ncerts = [\"/a.pem\"]\n{}", sites.collect::<String>());
    assert_eq!(config(&text).sites.len(), 1_000);
}

#[test]
fn a_service_is_asked_where_the_nearest_table_says_so_and_routes_that_inherit_it_share_its_pool() {
    let found = routes(
        "proxy = \"a.b:1\"\nauth = { forward = \"a.b:2\", copy = [\"Remote-User\"] }\n\
         [site.\":1\".path.\"/a\"]\n[site.\":1\".path.\"/b\"]\nauth = { forward = \"a.b:2\", path = \"/v?x\" }\n\
         [site.\":1\".path.\"/c\"]\nauth = { basic = \"users\" }\n[site.\":1\".path.\"/d\"]\nauth = false",
    );
    let asked: Vec<_> = found
        .iter()
        .map(|route| match &route.rules.auth {
            Some(AuthMethod::Forward(auth)) => {
                Some((auth.pool, auth.path.as_str(), auth.copy.join(",")))
            }
            _ => None,
        })
        .collect();
    let [Some(inherited), Some(own), None, None, Some(sites)] = &asked[..] else {
        panic!("{asked:?}")
    };
    assert_eq!(inherited, sites);
    assert_eq!((sites.1, sites.2.as_str()), ("/", "Remote-User"));
    assert_eq!((own.1, own.2.as_str()), ("/v?x", ""));
    assert_ne!(own.0, sites.0);
}

#[test]
fn traces_begin_where_the_nearest_table_says_so() {
    let found = routes(
        "respond = 200\ntrace = true\n[site.\":1\".path.\"/a\"]\ntrace = \"7%\"\n\
         [site.\":1\".path.\"/b\"]\ntrace = false\n[site.\":1\".path.\"/c\"]",
    );
    let shares: Vec<_> = found.iter().map(|route| route.rules.trace).collect();
    assert_eq!(shares, [Some(7), None, Some(100), Some(100)]);
}

#[test]
fn rates_of_bytes_are_inherited_whole_and_are_then_those_of_the_site() {
    let text = "[site.\":1\"]\nproxy = \"127.0.0.1:1\"\nshape = { per_client = \"1MB/s\", total = \"2MB/s\" }\n\
        [site.\":1\".path.\"/a\"]\nstrip_prefix = false\n\
        [site.\":1\".path.\"/b\"]\nshape = \"3MB/s\"\n\
        [site.\":1\".path.\"/c\"]\nshape = false\n";
    let routes = &config(text).sites[0].routes;
    let shape = |name: &str| {
        routes
            .iter()
            .find(|route| route.name == name)
            .unwrap()
            .rules
            .shape
            .as_ref()
    };
    assert_eq!(shape("/a"), shape(""));
    let limited = |name: &str| {
        let ShapeRates {
            per_connection,
            total,
            ..
        } = shape(name).unwrap().value;
        [per_connection, total].map(|rates| rates != Directions::default())
    };
    assert_eq!((limited(""), limited("/b")), ([false, true], [true, false]));
    assert_eq!(shape("/c"), None);
}
