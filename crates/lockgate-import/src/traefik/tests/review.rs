//! What a review found: each source would lose a part without a word.

use super::{STATIC, converted, dynamic, with_middleware};

/// These routers, and services `s1` and `s2`.
fn routers(routers: &str) -> (String, Vec<String>) {
    let text = format!(
        "http:
  routers:
{routers}
  middlewares:
    pw: {{basicAuth: {{usersFile: /u}}}}
    lan: {{ipAllowList: {{sourceRange: [127.0.0.1]}}}}
  services:
    s1: {{loadBalancer: {{servers: [{{url: 'http://10.0.0.1'}}]}}}}
    s2: {{loadBalancer: {{servers: [{{url: 'http://10.0.0.2'}}]}}}}
"
    );
    converted(&[("s.yml", STATIC), ("d.yml", &text)])
}

/// A router of the host `a.com` with TLS.
fn router(name: &str, rest: &str, more: &str) -> String {
    format!("    {name}: {{rule: 'Host(`a.com`){rest}', tls: {{certResolver: le}}, {more}}}\n")
}

#[test]
fn services_of_traefik_have_the_paths_of_their_rules() {
    let all = router("all", "", "service: s2");
    for (service, action) in [
        ("noop@internal", "respond = 418"),
        ("ping@internal", "respond = { status = 200, body = \"OK\" }"),
        ("errors@internal", "respond = 502"),
        ("api@internal", "respond = 502"),
        ("api@internal, middlewares: [pw]", "respond = 502"),
        ("prometheus@internal, middlewares: [lan]", "respond = 502"),
    ] {
        let own = router(
            "own",
            " && PathPrefix(`/admin`)",
            &format!("service: {service}"),
        );
        let (out, told) = routers(&format!("{all}{own}"));
        assert!(
            out.contains(&format!("[site.\"a.com\".path.\"/admin/*\"]\n{action}\n")),
            "{service}\n{out}"
        );
        assert!(
            out.contains("[site.\"a.com\"]\nproxy = \"10.0.0.2:80\"\n"),
            "{service}\n{out}"
        );
        assert!(!out.contains("metrics"), "{service}\n{out}");
        let lost = told.iter().any(|line| {
            line.starts_with("rule: Host(`a.com`) && PathPrefix(`/admin`) not supported")
        });
        assert_eq!(lost, action.ends_with("502"), "{service}\n{told:?}");
    }
    // Alone on its host, the page has all of it.
    let page = router(
        "page",
        " && (PathPrefix(`/api`) || PathPrefix(`/dashboard`))",
        "service: api@internal, middlewares: [pw]",
    );
    let (out, _) = routers(&page);
    assert!(out.contains("hosts = [\"a.com\"]"), "{out}");
    assert!(
        out.contains("[site.\"a.com\"]\nproxy = \"127.0.0.1:"),
        "{out}"
    );
    // Another page for other clients is another router.
    let metrics = router(
        "m",
        " && Path(`/metrics`)",
        "service: prometheus@internal, middlewares: [lan]",
    );
    let (out, _) = routers(&format!("{page}{metrics}"));
    assert!(!out.contains("proxy"), "{out}");
    // On another host it is not; and a page of all paths is one beside any router.
    let (out, _) = routers(&format!("{page}{}", metrics.replace("a.com", "b.com")));
    assert!(out.contains("hosts = [\"a.com\", \"b.com\"]"), "{out}");
    let whole = router("whole", "", "service: api@internal, middlewares: [pw]");
    let every =
        "    every: {rule: 'PathPrefix(`/`)', priority: 1, service: s1, tls: {certResolver: le}}\n";
    let (out, _) = routers(&format!("{whole}{every}"));
    assert!(
        out.contains("[site.\"a.com\"]\nproxy = \"127.0.0.1:"),
        "{out}"
    );
    let (out, _) = routers(&format!("{page}{every}"));
    assert!(!out.contains("127.0.0.1:"), "{out}");
}

#[test]
fn a_route_as_that_of_its_host_stays_below_another_one() {
    let all = router("all", "", "service: s1");
    for (rest, pattern) in [
        ("PathPrefix(`/api`)", "/api/*"),
        ("Method(`POST`)", "POST /*"),
        ("PathPrefix(`/api`) && Method(`POST`)", "POST /api/*"),
    ] {
        let between = router("b", &format!(" && {rest}"), "service: s2");
        let long = router(
            "long",
            " && PathPrefix(`/api/v2`)",
            "priority: 500, service: s1",
        );
        let (out, _) = routers(&format!("{all}{between}{long}"));
        for part in [
            "[site.\"a.com\"]\nproxy = \"10.0.0.1:80\"\n",
            &format!("[site.\"a.com\".path.\"{pattern}\"]\nproxy = \"10.0.0.2:80\"\n"),
            "[site.\"a.com\".path.\"/api/v2/*\"]\nproxy = \"10.0.0.1:80\"\n",
        ] {
            assert!(out.contains(part), "{part}\n{out}");
        }
        // Nothing lies between these two.
        let (out, _) = routers(&format!("{all}{long}"));
        assert!(!out.contains("path"), "{out}");
    }
}

#[test]
fn weights_that_lockgate_has_not_are_said() {
    let read = |servers: &str| {
        converted(&[(
            "d.yml",
            &format!(
                "http:\n  routers: {{a: {{rule: Host(`a.com`), service: s}}}}\n  services: {{s: {{loadBalancer: {{servers: [{servers}]}}}}}}\n"
            ),
        )])
    };
    let one = "{url: 'http://10.0.0.1', weight: 1}";
    for (weight, endpoint, said) in [
        (
            "0",
            "proxy = \"10.0.0.1:80\"",
            "an endpoint that gets no requests is left out",
        ),
        ("256", "{ addr = \"10.0.0.2:80\", weight = 256 }", ""),
        (
            "300",
            "{ addr = \"10.0.0.2:80\", weight = 256 }",
            "the greatest weight of an endpoint is 256",
        ),
        ("-1", "\"10.0.0.2:80\"", "not supported"),
        ("x", "\"10.0.0.2:80\"", "not supported"),
    ] {
        let (out, told) = read(&format!(
            "{one}, {{url: 'http://10.0.0.2', weight: {weight}}}"
        ));
        assert!(out.contains(endpoint), "{weight}\n{out}");
        let any = told
            .iter()
            .any(|line| !said.is_empty() && line.contains(said));
        assert_eq!(any, !said.is_empty(), "{weight}\n{told:?}");
    }
    let (out, told) = read("{url: 'http://10.0.0.2', weight: 0}");
    assert!(!out.contains("proxy"), "{out}");
    assert!(
        told.iter().any(|line| line.contains("not served")),
        "{told:?}"
    );
}

#[test]
fn a_condition_that_refused_clients_refuses_them_still() {
    let all = router("all", "", "service: s2");
    let narrow = " && PathPrefix(`/adm`) && ";
    for (condition, service, more, refused) in [
        ("!ClientIP(`10.0.0.0/8`)", "noop@internal", "", true),
        ("Header(`X`, `1`)", "noop@internal", "", true),
        ("!ClientIP(`10.0.0.0/8`)", "s1", "", true),
        ("!ClientIP(`10.0.0.0/8`)", "ping@internal", "", true),
        // The same service, or nothing, is below these; and the last names no outsiders.
        ("!ClientIP(`10.0.0.0/8`)", "s2", "", false),
        ("!ClientIP(`10.0.0.0/8`)", "noop@internal", "noop", false),
        ("ClientIP(`10.0.0.0/8`)", "s1", "", false),
    ] {
        let text = format!("{narrow}{condition}");
        let own = router("own", &text, &format!("service: {service}, priority: 900"));
        let lower = match more {
            "" => all.clone(),
            _ => router("all", "", "service: noop@internal"),
        };
        let (out, told) = routers(&format!("{own}{lower}"));
        let written = out.contains("[site.\"a.com\".path.\"/adm/*\"]\nrespond = 403\n");
        assert_eq!(written, refused, "{condition} {service}\n{out}");
        assert!(
            told.iter().any(|line| line.contains("not supported")),
            "{told:?}"
        );
    }
}

#[test]
fn development_leaves_out_only_what_is_about_hosts_and_tls() {
    let headers = |more: &str| {
        dynamic(&with_middleware(
            "Host(`a.com`)",
            &format!(
                "{{headers: {{customFrameOptionsValue: X, contentTypeNosniff: true, stsSeconds: 9, {more}}}}}"
            ),
        ))
    };
    let own = "x-content-type-options = \"nosniff\", x-frame-options = \"X\"";
    let sts = "strict-transport-security = \"max-age=9\"";
    let (out, told) = headers("isDevelopment: true, allowedHosts: [b.com]");
    assert!(out.contains(&format!("headers = {{ {own} }}\n")), "{out}");
    assert_eq!(
        told,
        ["stsSeconds: 9 default", "allowedHosts: [b.com] default"]
    );
    let (out, told) = headers("isDevelopment: false");
    assert!(
        out.contains(&format!("headers = {{ {sts}, {own} }}\n")),
        "{out}"
    );
    assert!(told.is_empty(), "{told:?}");
    let (out, told) = headers("contentSecurityPolicy: script-src $NONCE");
    assert!(!out.contains("NONCE"), "{out}");
    assert!(
        told.iter().any(|line| line.contains("not supported")),
        "{told:?}"
    );
}

#[test]
fn paths_that_lose_access_control_are_said() {
    for (more, lower, said) in [
        ("service: s1, middlewares: [pw]", "service: s2", true),
        ("service: noop@internal", "service: s2", true),
        ("service: s1, middlewares: [unknown]", "service: s2", true),
        (
            "service: s1, middlewares: [pw]",
            "service: s2, middlewares: [pw]",
            false,
        ),
        ("service: s1", "service: s2", false),
        // Requests with GET reach a service.
        ("service: noop@internal", "service: noop@internal", true),
    ] {
        let all = router("all", "", lower);
        let get = router("get", " && Method(`GET`)", "service: s2, middlewares: [pw]");
        let own = router(
            "own",
            " && PathPrefix(`/wp-login`)",
            &format!("priority: 900, {more}"),
        );
        let (out, told) = routers(&format!("{own}{get}{all}"));
        let named = told
            .iter()
            .any(|line| line.contains("without the access control"));
        assert_eq!(named, said, "{more}\n{out}\n{told:?}");
    }
}

#[test]
fn the_file_begins_with_what_differs_everywhere() {
    let (time, turns) = ("60 s to begin its response", "as Traefik does");
    for (service, more, said) in [
        ("s1", "", vec![time]),
        ("two", "", vec![time, turns]),
        ("two", ", strategy: wrr", vec![time]),
        ("noop@internal", "", vec![]),
    ] {
        let text = format!(
            "http:\n  routers: {{a: {{rule: Host(`a.com`), service: {service}}}}}\n  services:\n    s1: {{loadBalancer: {{servers: [{{url: 'http://10.0.0.1'}}]}}}}\n    two: {{loadBalancer: {{servers: [{{url: 'http://10.0.0.1'}}, {{url: 'http://10.0.0.2'}}]{more}}}}}\n"
        );
        let (out, _) = converted(&[("d.yml", &text)]);
        for part in [time, turns] {
            assert_eq!(out.contains(part), said.contains(&part), "{part}\n{out}");
        }
    }
}
