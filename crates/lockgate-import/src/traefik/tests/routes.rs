//! Routers, rules, middlewares and services.

use super::{check, converted, dynamic, with_middleware};

#[test]
fn a_router_is_a_site() {
    check(
        &with_middleware("Host(`a.com`, `b.com`)", "{compress: {}}"),
        r#"# d.yml:3
[site."a.com"]
alias = ["b.com"]
proxy = "10.0.0.1:80"
compress = true
"#,
        &[],
    );
}

#[test]
fn paths_are_tables_and_inherit_nothing_of_each_other() {
    check(
        "http:
  routers:
    all: {rule: Host(`a.com`), service: s, middlewares: [pw], tls: {certResolver: le}}
    api: {rule: 'Host(`a.com`) && PathPrefix(`/api`)', service: t, middlewares: [strip], tls: {certResolver: le}}
    post: {rule: 'Host(`a.com`) && Path(`/x`) && Method(`POST`)', service: t, tls: {certResolver: le}}
  middlewares:
    pw: {basicAuth: {usersFile: /etc/users, removeHeader: true}}
    strip: {stripPrefix: {prefixes: [/api]}}
  services:
    s: {loadBalancer: {servers: [{url: 'http://10.0.0.1:80'}]}}
    t: {loadBalancer: {servers: [{url: 'http://10.0.0.2'}, {url: 'http://10.0.0.3'}], sticky: {cookie: {name: c}}, healthCheck: {path: /h, interval: 10s}}}
",
        r#"# d.yml:11
[pool.t]
endpoints = ["10.0.0.2:80", "10.0.0.3:80"]
balance = { sticky = "cookie:c" }
health = { path = "/h", every = "10s", timeout = "5s", fall = 1, rise = 1 }

# d.yml:5
[site."a.com".path."POST /x"]
proxy = "pool:t"

# d.yml:4
[site."a.com".path."/api/*"]
proxy = "pool:t"
strip_prefix = true
request_headers = { x-forwarded-prefix = "/api" }

# d.yml:3
[site."a.com".path."/*"]
proxy = "10.0.0.1:80"
auth = { basic = "/etc/users" }
request_headers = { authorization = false }
"#,
        &["rule: Host(`a.com`) && PathPrefix(`/api`) differs /api/* is /api and what is below it, not paths such as /apix"],
    );
}

#[test]
fn a_condition_that_kept_clients_out_refuses_their_requests() {
    // Without the first router, the second would serve everybody without a password.
    let (out, told) = dynamic(
        "http:
  routers:
    out: {rule: 'Host(`a.com`) && !ClientIP(`10.0.0.0/8`)', service: s, middlewares: [pw], tls: {certResolver: le}}
    in: {rule: Host(`a.com`), service: s, tls: {certResolver: le}}
    v2: {rule: 'Host(`b.com`) && Header(`V`, `2`)', service: s, tls: {certResolver: le}}
    v1: {rule: Host(`b.com`), service: s, tls: {certResolver: le}}
  middlewares:
    pw: {basicAuth: {usersFile: /etc/users}}
  services:
    s: {loadBalancer: {servers: [{url: 'http://10.0.0.1:80'}]}}
",
    );
    assert!(out.contains("[site.\"a.com\"]\nrespond = 403\n"), "{out}");
    assert!(
        out.contains("[site.\"b.com\"]\nproxy = \"10.0.0.1:80\"\n"),
        "{out}"
    );
    assert_eq!(
        told.iter()
            .filter(|line| line.contains("not supported"))
            .count(),
        3,
        "{told:?}"
    );
}

#[test]
fn access_control_that_cannot_be_written_refuses_the_route() {
    for middleware in [
        "{digestAuth: {users: ['a:b:c']}}",
        "{plugin: {bouncer: {a: b}}}",
        "{ipAllowList: {sourceRange: ['10.0.0.0/8'], ipStrategy: {depth: 1}}}",
        "{ipWhiteList: {sourceRange: ['LAN']}}",
        "{forwardAuth: {address: 'https://auth.com/'}}",
        "{forwardAuth: {address: 'http://auth/', authResponseHeadersRegex: '^X-'}}",
        "{chain: {middlewares: [absent]}}",
        "{headers: {allowedHosts: [x.com]}}",
        "{replacePathRegex: {regex: '^/(a|b)(.*)', replacement: '/$2'}}",
        "{redirectRegex: {regex: '^(.*)/x$', replacement: '$1/'}}",
        "{stripPrefixRegex: {regex: ['/[a-z]+']}}",
    ] {
        let (out, told) = dynamic(&with_middleware("Host(`a.com`)", middleware));
        assert!(
            out.contains("respond = 403") && !out.contains("proxy"),
            "{middleware}\n{out}"
        );
        assert!(
            told.iter()
                .any(|line| line.starts_with("rule: Host(`a.com`) not supported")),
            "{told:?}"
        );
    }
}

#[test]
fn middlewares_become_keys() {
    for (middleware, keys) in [
        (
            "{ipAllowList: {sourceRange: ['10.0.0.0/8', '::1']}}",
            "allow = [\"10.0.0.0/8\", \"::1\"]",
        ),
        (
            "{forwardAuth: {address: 'http://authelia:9091/api?rd=x', authResponseHeaders: [Remote-User, X-Forwarded-User]}}",
            "auth = { forward = \"authelia:9091\", path = \"/api?rd=x\", copy = [\"remote-user\"] }\nrequest_headers = { x-forwarded-user = false }",
        ),
        (
            "{basicAuth: {users: ['a:$2y$05$x'], realm: R}}",
            "auth = { basic = \"/etc/lockgate/m.htpasswd\", realm = \"R\" }",
        ),
        (
            "{rateLimit: {average: 100, burst: 50}}",
            "limit = { rate = \"100/s\", burst = 50 }",
        ),
        (
            "{rateLimit: {average: 10, period: 10s}}",
            "limit = { rate = \"3600/h\", burst = 1 }",
        ),
        (
            "{buffering: {maxRequestBodyBytes: 2000}}",
            "body = { max = \"2000B\" }",
        ),
        (
            "{headers: {stsSeconds: 60, stsPreload: true, frameDeny: true, customRequestHeaders: {X-Script: a, X-Gone: ''}}}",
            "request_headers = { x-script = \"a\", x-gone = false }\nheaders = { strict-transport-security = \"max-age=60; preload\", x-frame-options = \"DENY\" }",
        ),
        (
            "{headers: {accessControlAllowOriginList: ['https://o.com'], accessControlAllowMethods: [GET, OPTIONS], accessControlMaxAge: 100}}",
            "cors = { origins = \"https://o.com\", methods = [\"GET\"], headers = false, max_age = \"100s\" }",
        ),
        ("{addPrefix: {prefix: /x}}", "rewrite = \"/x/{*}\""),
        (
            "{replacePath: {path: /x}}",
            "rewrite = \"/x\"\nrequest_headers = { x-replaced-path = \"{path}\" }",
        ),
    ] {
        let (out, told) = dynamic(&with_middleware("Host(`a.com`)", middleware));
        let action = "[site.\"a.com\"]\nproxy = \"10.0.0.1:80\"\n";
        assert!(
            out.contains(&format!("{action}{keys}\n")),
            "{middleware}\n{out}"
        );
        assert!(
            !told.iter().any(|line| line.contains("not supported")),
            "{told:?}"
        );
    }
    let (out, _) = dynamic(&with_middleware("Host(`a.com`)", "{retry: {attempts: 4}}"));
    assert!(
        out.contains("retry = { times = 3 }\n") && out.contains("proxy = \"pool:s\""),
        "{out}"
    );
}

#[test]
fn redirects_are_applied_to_each_host() {
    check(
        &with_middleware(
            "Host(`a.com`) || Host(`www.a.com`)",
            "{redirectRegex: {regex: '^https?://www\\.(.*)', replacement: 'https://${1}', permanent: true}}",
        )
        .replace("'^", "\"^").replace("(.*)', repl", "(.*)\", repl").replace("www\\.", "www\\\\."),
        r#"# d.yml:3
[site."a.com"]
proxy = "10.0.0.1:80"

# d.yml:3
[site."www.a.com"]
redirect = { to = "https://a.com{path}", status = 301 }
"#,
        &[],
    );
}

#[test]
fn routers_that_only_lead_to_tls_are_the_default() {
    let text = with_middleware("Host(`a.com`)", "{redirectScheme: {scheme: https, permanent: true}}")
        .replace("tls: {certResolver: le}}", "entryPoints: [plain]}\n    b: {rule: Host(`a.com`), entryPoints: [tls], service: s, tls: {}}");
    let statics = "entryPoints: {plain: {address: ':80'}, tls: {address: ':443'}}\ntls: {certificates: [{certFile: /c.pem, keyFile: /k.pem}]}\naccessLog: {format: json}\n";
    let (out, told) = converted(&[("s.yml", statics), ("d.yml", &text)]);
    let expected = "\n\n[tls]\ncerts = [{ cert = \"/c.pem\", key = \"/k.pem\" }]\n\n# d.yml:4\n[site.\"a.com\"]\nproxy = \"10.0.0.1:80\"\n";
    assert!(out.ends_with(expected), "{out}");
    assert!(
        told.iter().all(|line| line.ends_with("default")),
        "{told:?}"
    );
}

#[test]
fn routers_that_no_request_reaches_are_said() {
    let (out, told) = dynamic(
        "http:
  routers:
    all: {rule: Host(`a.com`), priority: 100, service: s, tls: {certResolver: le}}
    api: {rule: 'Host(`a.com`) && Path(`/api`)', service: noop@internal, tls: {certResolver: le}}
    plain: {rule: Host(`a.com`), entryPoints: [web], service: s}
  services: {s: {loadBalancer: {servers: [{url: 'https://10.0.0.1'}], passHostHeader: false}}}
",
    );
    assert!(out.ends_with("[site.\"a.com\"]\nproxy = { to = \"10.0.0.1:443\", tls = {} }\nrequest_headers = { host = \"10.0.0.1\" }\n"), "{out}");
    assert_eq!(
        told.iter()
            .filter(|line| line.contains("no request reaches it"))
            .count(),
        2,
        "{told:?}"
    );
}

#[test]
fn labels_of_compose_files() {
    let compose = "services:
  app:
    image: x
    labels:
      traefik.enable: 'true'
      traefik.http.routers.app.rule: Host(`app.${DOMAIN}`)
      traefik.http.routers.app.entrypoints: websecure
      traefik.http.routers.app.tls.certresolver: le
      traefik.http.routers.app.middlewares: auth
      traefik.http.middlewares.auth.basicauth.users: 'u:$$2y$$05$$x'
      traefik.http.services.app.loadbalancer.server.port: 8080
  other:
    expose: ['9000']
    labels: ['traefik.http.routers.o.rule=Host(`o.com`)', 'traefik.http.routers.o.tls.certresolver=le', 'unrelated=1']
  off:
    labels: ['traefik.enable=false', 'traefik.http.routers.off.rule=Host(`off.com`)']
";
    let (out, told) = converted(&[("s.yml", STATIC_ONLY), ("c.yml", compose)]);
    let sites = "# c.yml:6
# /etc/lockgate/auth.htpasswd must have the users of c.yml:10
[site.\"app.domain.example.com\"]
proxy = \"app:8080\"
auth = { basic = \"/etc/lockgate/auth.htpasswd\" }

# c.yml:14
[site.\"o.com\"]
proxy = \"other:9000\"
";
    assert!(out.ends_with(sites), "{out}");
    let told: Vec<_> = told
        .iter()
        .filter(|line| line.contains("traefik."))
        .collect();
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(told[0].contains("write the real host in place of app.domain.example.com"));
    assert!(
        told[1].contains("users=u:$2y$05$x differs users stand in a file"),
        "{told:?}"
    );
    assert!(told[2].contains("not enabled"));
}

const STATIC_ONLY: &str = super::STATIC;

#[test]
fn weights_failover_and_transports() {
    let (out, told) = dynamic(
        "http:
  routers:
    a: {rule: Host(`a.com`), service: w, tls: {certResolver: le}}
    b: {rule: Host(`b.com`), service: f, tls: {certResolver: le}}
    c: {rule: Host(`c.com`), service: t, tls: {certResolver: le}}
    d: {rule: Host(`d.com`), service: absent, tls: {certResolver: le}}
  services:
    one: {loadBalancer: {servers: [{url: 'http://10.0.0.1'}]}}
    two: {loadBalancer: {servers: [{url: 'http://10.0.0.2'}]}}
    w: {weighted: {services: [{name: one, weight: 3}, {name: two, weight: 1}]}}
    f: {failover: {service: one, fallback: two}}
    t: {loadBalancer: {serversTransport: x, servers: [{url: 'https://10.0.0.4:8443'}]}}
  serversTransports:
    x: {serverName: n.com, insecureSkipVerify: true, forwardingTimeouts: {dialTimeout: 2s}}
",
    );
    for part in [
        "endpoints = [{ addr = \"10.0.0.1:80\", weight = 3 }, \"10.0.0.2:80\"]",
        "endpoints = [\"10.0.0.1:80\", { addr = \"10.0.0.2:80\", backup = true }]",
        "proxy = { to = \"10.0.0.4:8443\", tls = { name = \"n.com\" } }\ntimeouts = { connect = \"2s\" }",
    ] {
        assert!(out.contains(part), "{part}\n{out}");
    }
    assert!(!out.contains("d.com"), "{out}");
    assert!(
        told.iter()
            .any(|line| line.starts_with("insecureSkipVerify: true differs"))
    );
    assert!(
        told.iter()
            .any(|line| line.starts_with("rule: Host(`d.com`) not supported it is not served")),
        "{told:?}"
    );
}

#[test]
fn higher_routers_for_some_methods_or_hosts_stay_higher() {
    let (out, _) = dynamic(
        "http:
  routers:
    post: {rule: 'Host(`a.com`) && Method(`POST`)', priority: 500, service: s, middlewares: [pw], tls: {certResolver: le}}
    api: {rule: 'Host(`a.com`) && PathPrefix(`/api`)', service: t, tls: {certResolver: le}}
    not: {rule: 'Host(`b.com`) && !PathPrefix(`/p`)', service: s, tls: {certResolver: le}}
    every: {rule: PathPrefix(`/every`), service: t, middlewares: [lan], tls: {certResolver: le}}
    c: {rule: Host(`c.com`), service: s, tls: {certResolver: le}}
  middlewares:
    pw: {basicAuth: {usersFile: /u}}
    lan: {ipAllowList: {sourceRange: [127.0.0.1]}}
  services:
    s: {loadBalancer: {servers: [{url: 'http://10.0.0.1'}]}}
    t: {loadBalancer: {servers: [{url: 'http://10.0.0.2'}]}}
",
    );
    for part in [
        "[site.\"a.com\".path.\"POST /api/*\"]\nproxy = \"10.0.0.1:80\"\nauth = { basic = \"/u\" }\n",
        "[site.\"a.com\".path.\"/api/*\"]\nproxy = \"10.0.0.2:80\"\n",
        "[site.\"b.com\".path.\"/p/*\"]\nrespond = 404\n",
        "[site.\"c.com\".path.\"/every/*\"]\nproxy = \"10.0.0.2:80\"\nallow = [\"127.0.0.1\"]\n",
    ] {
        assert!(out.contains(part), "{part}\n{out}");
    }
}
