//! Messages for the names of nginx, HAProxy, Caddy, Apache and Traefik, and for guesses.

use std::path::Path;

use lockgate_config::{Environment, Report, parse_str_in};

const SITE: &str = "[site.\":8080\"]\nproxy = \"127.0.0.1:3000\"\n";
const POOL: &str = "[site.\":8080\"]\nproxy = \"pool:app\"\n[pool.app]\n";
const ENDPOINTS: &str = "endpoints = [\"10.0.0.1:8080\"]\n";

fn report(text: &str) -> Report {
    match parse_str_in(text, Path::new("lockgate.toml"), &Environment::none()) {
        Ok(loaded) => loaded.warnings,
        Err(report) => report,
    }
}

/// Each mistake on a line: `CODE LINE:COLUMN MARKED: CURE`.
fn told(text: &str) -> String {
    let marked = |one: &serde_json::Value| {
        let line = one["line"].as_u64().map_or("", |line| {
            text.lines().nth(line as usize - 1).unwrap_or_default()
        });
        let from = one["column"].as_u64().unwrap_or(1) as usize - 1;
        let to = one["end_column"].as_u64().unwrap_or(1) as usize - 1;
        let more = if one["line"] == one["end_line"] {
            to.saturating_sub(from)
        } else {
            usize::MAX
        };
        line.chars().skip(from).take(more).collect::<String>()
    };
    let json = report(text).to_json();
    let lines = json["diagnostics"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|one| {
            let field = |name: &str| one[name].as_str().unwrap_or_default().to_owned();
            let place = match one["line"].as_u64() {
                Some(line) => format!("{line}:{} {}", one["column"], marked(one)),
                None => "nowhere".to_owned(),
            };
            format!("{} {place}: {}", field("code"), field("cure"))
        });
    lines.collect::<Vec<_>>().join("\n")
}

fn check(table: &[(String, &str)]) {
    let mut wrong = String::new();
    for (text, expected) in table {
        let found = told(text);
        if found != *expected {
            wrong += &format!("{text}\n  expected {expected}\n  but got  {found}\n\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

fn site(lines: &str) -> String {
    format!("{SITE}{lines}\n")
}

fn pool(lines: &str) -> String {
    format!("{POOL}{ENDPOINTS}{lines}\n")
}

fn health(keys: &str) -> String {
    pool(&format!("health = {{ path = \"/h\", {keys} }}"))
}

#[test]
fn keys_of_other_servers_are_told_with_ours_and_nothing_else() {
    check(&[
        (
            format!("{POOL}servers = [\"10.0.0.1:8080\"]\n"),
            "E0010 4:1 servers: write endpoints = [\"10.0.0.1:8080\", \"10.0.0.2:8080\"]",
        ),
        (
            "[backend.app]\nservers = [\"10.0.0.1:8080\"]\n[frontend.web]\nbind = \":80\"\n".into(),
            "E0010 1:2 backend: write [pool.app] with endpoints = [\"10.0.0.1:8080\"], and proxy = \"pool:app\" in the [site] table\n\
             E0010 3:2 frontend: the address is the key of the table: [site.\"example.com:8443\"], [site.\":8080\"], [tcp.\":8443\"]",
        ),
        (
            "[site.\":1\"]\nproxy = { to = \"10.0.0.1:8443\", tls = { verify = false } }\n".into(),
            "E0010 2:41 verify: remove it: endpoints are always verified, and this cannot be turned off; write ca = \"/etc/tls/internal-ca.pem\" for an authority of your own",
        ),
        (
            pool("verify = false"),
            "E0010 5:1 verify: remove it: endpoints are always verified, and this cannot be turned off; write tls = { ca = \"/etc/tls/internal-ca.pem\" } for an authority of your own",
        ),
        (
            pool("keepalive_time = \"30m\""),
            "E0010 5:1 keepalive_time: write idle = { lifetime = \"1h\" } in [pool.NAME]",
        ),
        (
            pool("idle = { for = \"30s\", max_lifetime = \"30m\" }"),
            "E0010 5:23 max_lifetime: write lifetime = \"1h\"",
        ),
        (
            format!("timeout = 30\n{SITE}"),
            "E0010 1:1 timeout: write timeouts = { idle = \"75s\", response = \"60s\" }; there are handshake, head, connect and tunnel_idle too",
        ),
        (
            health("interval = \"2s\""),
            "E0010 5:25 interval: write every = \"2s\"",
        ),
        (
            health("inter = \"2s\""),
            "E0010 5:25 inter: write every = \"2s\"",
        ),
        (health("fails = 3"), "E0010 5:25 fails: write fall = 3"),
        (health("passes = 2"), "E0010 5:25 passes: write rise = 2"),
        (
            site("redirect_code = 301").replace("proxy = \"127.0.0.1:3000\"", "redirect = \"/y\""),
            "E0010 3:1 redirect_code: write redirect = { to = \"https://example.org{path}\", status = 301 }",
        ),
        (
            site("hsts = true"),
            "E0010 3:1 hsts: write headers = { secure = true }",
        ),
        (
            site("maintenance = true"),
            "E0010 3:1 maintenance: write respond = { status = 503, body = \"back soon\\n\" } instead of proxy, and restart; the page for when no endpoint is up is maintenance in [pool.NAME]",
        ),
        (
            site("websocket = true"),
            "E0010 3:1 websocket: remove it: WebSockets need no key; timeouts.tunnel_idle says how long one may be silent",
        ),
        (
            site("endpoints = [\"a.b:1\"]"),
            "E0010 3:1 endpoints: write proxy = \"127.0.0.1:3000\", a list of addresses, or \"pool:NAME\"",
        ),
        (
            site("ssl_certificate = \"/a.pem\"").replace(":8080", "a.b"),
            "E0010 3:1 ssl_certificate: write tls = { cert = \"/etc/tls/app.pem\", key = \"/etc/tls/app.key\" } in the [site] or [tcp] table",
        ),
    ]);
}

#[test]
fn unknown_keys_show_at_most_five_similar_ones() {
    for (text, cure) in [
        (
            site("banana = 1"),
            "docs/config.md lists the keys in [site.\"HOST\"]",
        ),
        (
            site("headers_of_requests = 1"),
            "perhaps one of headers, request_headers? docs/config.md lists the keys in [site.\"HOST\"]",
        ),
        (
            site("fall = 3"),
            "write health = { path = \"/health\", every = \"2s\", fall = 3, rise = 2 } in [pool.NAME]",
        ),
        (site("clients = []"), "it belongs in [tunnel.\"ADDR\"]"),
        (
            format!("auth = false\n{SITE}"),
            "it belongs in [site.\"HOST\"] or [tunnel.\"ADDR\"]",
        ),
        (
            site("auth = { banana = 1, basic = \"/u\" }"),
            "the keys in `auth` of [site.\"HOST\"] are basic, realm, forward, path, copy",
        ),
    ] {
        let report = report(&text);
        assert_eq!(
            report.iter().map(|one| one.cure()).collect::<Vec<_>>(),
            [cure],
            "{text}"
        );
    }
}

#[test]
fn keys_that_will_come_are_told_with_what_to_do_today() {
    let scripts = "there are no scripts: ask a service of your own with auth = { forward = \"127.0.0.1:4181\" }, or change pages with rewrite_body";
    for (text, name, cure) in [
        (
            format!("{SITE}[fleet]\nredis = \"rediss://10.0.0.7:6379\"\n"),
            "fleet",
            "limits and sessions hold for one process; balance = { hash = \"client\" } leads to the same endpoint in every Lockgate",
        ),
        (
            site("hints = [\"/app.css\"]"),
            "hints",
            "let the application send Link fields: browsers read them in its answer",
        ),
        (
            site("early_data = \"safe\""),
            "early_data",
            "remove it: clients resume without early data",
        ),
        (
            site("push = true"),
            "push",
            "remove it: browsers have dropped HTTP/2 push",
        ),
        (
            site("http3 = true"),
            "http3",
            "remove it: clients get HTTP/2 over TLS",
        ),
        (
            site("php_fastcgi = \"unix:/run/php.sock\""),
            "php_fastcgi",
            "run a server that speaks HTTP before the application (php-fpm: nginx, FrankenPHP or RoadRunner on a Unix socket; Python: gunicorn) and write proxy = \"unix:/run/app.sock\"",
        ),
        (
            site("proxy_cache = \"one\""),
            "proxy_cache",
            "answers are not kept: put Varnish between, or write cache = { \"/assets/*\" = \"1y immutable\" } so that browsers keep them",
        ),
        (
            format!("{SITE}[udp.\":53\"]\nproxy = \"10.0.0.1:53\"\n"),
            "udp",
            "UDP is not relayed: use nftables DNAT, or nginx's stream module",
        ),
        (site("lua = \"/a.lua\""), "lua", scripts),
        (
            site("geoip = \"/a.mmdb\""),
            "geoip",
            "the country of a client is not known: allow = [\"203.0.113.0/24\"] and deny take networks",
        ),
        (
            site("waf = true"),
            "waf",
            "Lockgate has no web application firewall: put one behind it, or ask it with auth = { forward = \"127.0.0.1:4181\" }; limit bounds the rate",
        ),
    ] {
        let report = report(&text);
        let found: Vec<_> = report
            .iter()
            .map(|one| (one.code().id(), one.message().to_owned(), one.cure()))
            .collect();
        assert_eq!(
            found,
            [("E0011", format!("`{name}` is not in this version"), cure)],
            "{text}"
        );
    }
}

#[test]
fn hosts_and_addresses_without_quotes_are_told_once() {
    let quoted =
        |host: &str, at: &str| format!("E0033 {at} {host}: put it in quotes: [site.\"{host}\"]");
    let app = quoted("app.example.com", "1:7");
    let both = format!(
        "{}\n{}",
        quoted("a.example.com", "1:7"),
        quoted("a.example.org", "3:7")
    );
    check(&[
        ("[site.app.example.com]\nproxy = \"a.b:1\"\n".into(), &app),
        (
            "[site.app.example.com]\nproxy = \"a.b:1\"\n[site.app.example.com.path.\"/x\"]\nrespond = 404\n"
                .into(),
            &app,
        ),
        ("[site.a.example.com]\nproxy = \"a.b:1\"\n[site.a.example.org]\nroot = \"/srv\"\n".into(), &both),
        (
            "[site.app.example.com]\nprxy = \"a.b:1\"\n".into(),
            &format!("{app}\nE0010 2:1 prxy: did you mean `proxy`?"),
        ),
        (
            "[site.localhost]\ntls = false\nrespond = 404\n[site.localhost.tsl]\n".into(),
            "E0010 4:17 tsl: did you mean `tls`?",
        ),
        (
            "[pool.app.internal]\nendpoints = [\"a.b:1\"]\n[site.\":1\"]\nproxy = \"pool:app.internal\"\n"
                .into(),
            "E0018 1:7 app.internal: put it in quotes: [pool.\"app.internal\"]",
        ),
        (
            "[tcp.\":443\"]\nsni.mail.example.com = \"10.0.0.5:443\"\n".into(),
            "E0033 2:5 mail.example.com: put it in quotes: sni.\"mail.example.com\" = …",
        ),
        ("[tcp.:443]\nproxy = \"a.b:1\"\n".into(), "E0001 1:1 [tcp.:443]: write [tcp.\":443\"]"),
        (
            "[tcp.127.0.0.1:443]\nproxy = \"a.b:1\"\n".into(),
            "E0001 1:1 [tcp.127.0.0.1:443]: write [tcp.\"127.0.0.1:443\"]",
        ),
        (
            "[site.*.example.com]\nproxy = \"a.b:1\"\n".into(),
            "E0001 1:1 [site.*.example.com]: write [site.\"*.example.com\"]",
        ),
        (
            "[site.\"a.b\".path./api/*]\nproxy = \"a.b:1\"\n".into(),
            "E0001 1:1 [site.\"a.b\".path./api/*]: write [site.\"a.b\".path.\"/api/*\"]",
        ),
        (
            "[example.com]\nproxy = \"a.b:1\"\n".into(),
            "E0010 1:2 example: write the section before it: [site.\"example.com\"]",
        ),
        (
            "[\"example.com\"]\nproxy = \"a.b:1\"\n".into(),
            "E0010 1:2 \"example.com\": write the section before it: [site.\"example.com\"]",
        ),
        (
            site("\"/y\" = { respond = 404 }"),
            "E0010 3:1 \"/y\": a path is a table of its own: [site.\"example.com\".path.\"/y\"]",
        ),
    ]);
}

#[test]
fn slips_of_toml_are_told_with_the_line_that_was_meant() {
    check(&[
        (
            "[site.\":1\"]\nproxy = 127.0.0.1:3000\n".into(),
            "E0001 2:9 127.0.0.1:3000: write \"127.0.0.1:3000\"",
        ),
        (
            "[site.\":1\"]\nproxy = [10.0.0.1:8080, 10.0.0.2:8080]\n".into(),
            "E0001 2:10 10.0.0.1:8080: write \"10.0.0.1:8080\"",
        ),
        (
            "[site.\":1\"]\nproxy = \"a.b:1\"\nbody = { max = 10MB }\n".into(),
            "E0001 3:16 10MB: write \"10MB\"",
        ),
        (
            "[site.\":1\"]\nroot = \"/srv\"\nlisting = yes\n".into(),
            "E0001 3:11 yes: write true",
        ),
        (
            "[site.\":1\"]\nroot = \"/srv\"\nlisting = True\n".into(),
            "E0001 3:11 True: write true",
        ),
        (
            "[site.\":1\"]\nproxy = \"a.b:1\";\n".into(),
            "E0001 2:16 : remove the `;`",
        ),
        (
            "[site.\":1\"]\nproxy: \"a.b:1\"\n".into(),
            "E0001 2:8 : write proxy = \"a.b:1\"",
        ),
        (
            "[site.\":1\"]\nproxy 127.0.0.1:3000\n".into(),
            "E0001 2:7 : write proxy = \"127.0.0.1:3000\"",
        ),
        (
            "[site.\":1\"]\nproxy = “a.b:1”\n".into(),
            "E0001 2:9 “a.b:1”: write straight quotes: proxy = \"a.b:1\"",
        ),
        (
            "[site.\":1\"]\nproxy => \"a.b:1\"\n".into(),
            "E0001 2:10 : write proxy = \"a.b:1\"",
        ),
        (
            "// comment\n[site.\":1\"]\nproxy = \"a.b:1\"\n".into(),
            "E0001 1:4 : a comment begins with #",
        ),
        (
            "user = $USER\n[site.\":1\"]\nproxy = \"a.b:1\"\n".into(),
            "E0001 1:8 $USER: write \"${env:USER}\"",
        ),
        (
            "[site.\":1\"]\nproxy =\n".into(),
            "E0001 2:8 : write a value behind it: proxy = \"…\"",
        ),
    ]);
}

#[test]
fn files_of_other_servers_are_one_mistake() {
    let files = [
        (
            "an nginx configuration",
            "events {}\nhttp {\n  server {\n    listen 443 ssl;\n    server_name shop.test;\n    location / {\n      proxy_pass http://10.0.0.1:81;\n    }\n  }\n}\n",
        ),
        (
            "an HAProxy configuration",
            "global\n  maxconn 2000\ndefaults\n  mode http\n  timeout connect 5s\nfrontend web\n  bind :80\n  default_backend app\nbackend app\n  server s1 10.0.0.1:81 check\n",
        ),
        (
            "a Caddyfile",
            "shop.test {\n  encode zstd gzip\n  reverse_proxy 10.0.0.1:81\n}\n",
        ),
        (
            "an Apache configuration",
            "<VirtualHost *:80>\n  ServerName shop.test\n  ProxyPass / http://10.0.0.1:81/\n</VirtualHost>\n",
        ),
        (
            "JSON",
            "{\n  \"apps\": { \"http\": { \"servers\": {} } }\n}\n",
        ),
        (
            "YAML",
            "entryPoints:\n  web:\n    address: \":80\"\nhttp:\n  routers:\n    app:\n      rule: Host(`shop.test`)\n",
        ),
    ];
    for (name, text) in files {
        let report = report(text);
        let found: Vec<_> = report
            .iter()
            .map(|one| (one.code().id(), one.message().to_owned(), one.why()))
            .collect();
        assert_eq!(
            found,
            [(
                "E0001",
                format!("this looks like {name}"),
                "Lockgate reads TOML"
            )],
            "{report}"
        );
        let cure = report.iter().next().unwrap().cure().to_owned();
        let example = cure
            .lines()
            .filter(|line| line.starts_with(['[', 't', 'p']))
            .collect::<Vec<_>>()
            .join("\n");
        assert_eq!(told(&example), "", "{cure}");
    }
    let whole = "error[E0001]: this looks like a Caddyfile
 --> lockgate.toml:1:1
  |
1 | shop.test {
  | ^^^^^^^^^^^ Lockgate reads TOML
  |
  = help: in Lockgate this is for example
          [site.\"shop.test\"]
          tls = { cert = \"/etc/tls/app.pem\", key = \"/etc/tls/app.key\" }
          proxy = \"10.0.0.1:81\"
          and docs/config.md has all keys

1 error
";
    assert_eq!(report(files[2].1).to_string(), whole);
}

#[test]
fn values_of_another_type_or_unit_are_told_as_they_were_meant() {
    let files = |line: &str| format!("[site.\":1\"]\nroot = \"/srv\"\n{line}\n");
    let everybody = "leave it out: without allow every client may connect, and allow = [\"10.0.0.0/8\"] refuses all others; every address is \"0.0.0.0/0\" and \"::/0\"";
    let (all, deny_all) = (
        format!("E0012 3:9 \"all\": {everybody}"),
        format!("E0017 3:9 \"all\": {everybody}"),
    );
    check(&[
        (
            files("spa = \"yes\""),
            "E0012 3:7 \"yes\": write true, or for example \"/app.html\"",
        ),
        (files("listing = \"on\""), "E0012 3:11 \"on\": write true"),
        (
            files("headers = { \"X-Foo\" = 1 }"),
            "E0012 3:23 1: write \"1\"",
        ),
        (
            files("headers = { \"X-Foo\" = true }"),
            "E0012 3:23 true: write \"true\"",
        ),
        (
            files("headers = { hsts = true }"),
            "E0012 3:20 true: write headers = { secure = true }",
        ),
        (files("headers = { x-accel-buffering = \"no\" }"), ""),
        (
            site("body = { min_rate = \"10KB\" }"),
            "E0013 3:21 \"10KB\": write \"10KB/s\"",
        ),
        (
            site("body = { min_rate = \"10kb/s\" }"),
            "E0013 3:21 \"10kb/s\": write \"10KB/s\"",
        ),
        (
            site("body = { min_rate = \"10Mbit/s\" }"),
            "E0013 3:21 \"10Mbit/s\": write \"1250KB/s\"",
        ),
        (
            site("body = { max = 10000000 }"),
            "E0013 3:16 10000000: write \"10MB\", which is 10000000 bytes",
        ),
        (
            site("body = { max = \"1048576\" }"),
            "E0013 3:16 \"1048576\": write \"1MiB\", which is 1048576 bytes",
        ),
        (
            site("body = { max = \"1.5GB\" }"),
            "E0013 3:16 \"1.5GB\": write \"1500MB\"",
        ),
        (
            site("timeouts = { response = 5000 }"),
            "E0013 3:25 5000: write \"5s\" for 5000 milliseconds, or \"5000s\" for seconds",
        ),
        (
            site("timeouts = { response = \"1h30m\" }"),
            "E0013 3:25 \"1h30m\": write \"90m\"",
        ),
        (
            site("deny = [\"192.168.1.0/255.255.255.0\"]"),
            "E0017 3:9 \"192.168.1.0/255.255.255.0\": write \"192.168.1.0/24\"",
        ),
        (
            site("deny = [\"192.168.1.7/255.255.0.0\"]"),
            "E0017 3:9 \"192.168.1.7/255.255.0.0\": write \"192.168.0.0/16\"",
        ),
        (
            site("deny = [\"10.1.*\"]"),
            "E0017 3:9 \"10.1.*\": write \"10.1.0.0/16\"",
        ),
        (site("allow = \"all\""), &all),
        (site("deny = [\"all\"]"), &deny_all),
        (
            site("allow = \"10.0.0.0/8\""),
            "E0012 3:9 \"10.0.0.0/8\": write [\"10.0.0.0/8\"]",
        ),
        (
            pool("maintenance = true"),
            "E0012 5:15 true: write maintenance = { body = \"back soon\\n\" }, the response while no endpoint is up; to take a site out of service write respond = { status = 503, body = \"back soon\\n\" } instead of proxy",
        ),
        (
            "[site.\":1\"]\nrespond = \"404\"\n".into(),
            "E0012 2:11 \"404\": write 404 without quotes for the status; a body is { body = \"404\" }",
        ),
        (
            "[site.\":1\"]\nproxy = 3000\n".into(),
            "E0012 2:9 3000: write \"127.0.0.1:3000\"",
        ),
        (site("auth = \"off\""), "E0012 3:8 \"off\": write false"),
        (
            site("auth = \"/etc/htpasswd\""),
            "E0012 3:8 \"/etc/htpasswd\": write auth = { basic = \"/etc/lockgate/htpasswd\" }",
        ),
        (
            "[site.\":1\"]\nproxy = { to = \"a.b:1\", tls = true }\n".into(),
            "E0012 2:31 true: write tls = {}",
        ),
        (
            "[site.\"a.b\"]\nrespond = 404\ntls = \"selfsigned\"\n".into(),
            "E0015 3:7 \"selfsigned\": write tls = \"internal\", for certificates of Lockgate's own authority",
        ),
        (
            "[tcp.\":1\"]\nproxy = \"a.b:1\"\ntls = \"auto\"\n".into(),
            "E0015 3:7 \"auto\": add [acme], and remove it; where the key has a port, write tls = {}",
        ),
        (
            "[site.\":1\"]\nproxy = \"docker:label=app\"\n".into(),
            "E0011 2:9 \"docker:label=app\": write the addresses, or \"srv:_app._tcp.service.consul\": SRV records are followed as they change",
        ),
        (
            site("protocols = [\"h3\"]"),
            "E0011 3:14 \"h3\": write \"h2\", or \"h2c\" without TLS",
        ),
    ]);
}

#[test]
fn placeholders_of_other_servers_are_errors_in_urls_and_warnings_in_texts() {
    let to = |target: &str| format!("[site.\":1\"]\nredirect = \"{target}\"\n");
    let below = |line: &str| format!("[site.\":1\".path.\"/a/*\"]\nproxy = \"a.b:1\"\n{line}\n");
    let path = "write {path}; the query is kept";
    let of = |written: &str, cure: &str| format!("E0040 2:12 \"{written}\": {cure}");
    let dollar = format!("{path}; a `$` itself is %24");
    let urls = [
        ("https://www.example.com$request_uri", &*dollar),
        ("https://www.example.com${request_uri}", &dollar),
        ("https://$host/", "write {host}; a `$` itself is %24"),
        ("https://www.example.com{http.request.uri}", path),
        ("https://www.example.com{uri}", path),
        ("https://%[req.hdr(host)]/", "write {host}"),
        ("https://%{HTTP_HOST}/", "write {host}"),
        ("https://{{host}}/", "write {host}"),
        (
            "/$1",
            "write one of {*}, {host}, {path}, {query}; a `$` itself is %24",
        ),
    ];
    for (target, cure) in urls {
        assert_eq!(told(&to(target)), of(target, cure));
    }
    assert_eq!(told(&to("/odata/$metadata?$filter=a")), "");
    check(&[
        (
            below("rewrite = \"/b/$1\""),
            "E0040 3:11 \"/b/$1\": write one of {*}, {path}, {query}; a `$` itself is %24",
        ),
        (
            below("request_headers = { x-real-ip = \"$remote_addr\" }"),
            "W0004 3:33 \"$remote_addr\": write {client}",
        ),
        (
            below("request_headers = { x-a = \"{http.request.host}\" }"),
            "W0004 3:27 \"{http.request.host}\": write {host}",
        ),
        (
            below("request_headers = { x-a = \"%[src]\" }"),
            "W0004 3:27 \"%[src]\": write {client}",
        ),
        (
            below("request_headers = { x-a = \"${remote_addr}\" }"),
            "W0004 3:27 \"${remote_addr}\": write {client} for that of a request, ${env:remote_addr} for a variable of the environment",
        ),
        (
            below("headers = { x-a = \"costs $1, or $5 with {{ mustaches }}\" }"),
            "",
        ),
    ]);
}

#[test]
fn what_people_guess_is_told_as_it_is_written() {
    let key = |key: &str| format!("[site.\"{key}\"]\ntls = false\nrespond = 404\n");
    let path = |path: &str| format!("[site.\":1\".path.\"{path}\"]\nrespond = 404\n");
    let to = |value: &str| {
        format!("[site.\":1\"]\nproxy = \"{value}\"\n[pool.app]\nendpoints = [\"a.b:1\"]\n")
    };
    let redirect = |value: &str| format!("[site.\":1\"]\nredirect = {value}\n");
    let off = "write \"off\"";
    check(&[
        // Two hosts in one key, as in server_name.
        (
            key("a.b, www.a.b"),
            "E0033 1:7 \"a.b, www.a.b\": write \"a.b\", and alias = [\"www.a.b\"] in the table",
        ),
        // What nginx and Apache call every host.
        (
            key("_"),
            "E0033 1:7 \"_\": write \":443\" with tls, or \":80\"",
        ),
        (
            key("0.0.0.0:8080"),
            "E0033 1:7 \"0.0.0.0:8080\": write \":8080\"",
        ),
        // A port alone.
        (key("8080"), "E0033 1:7 \"8080\": write \":8080\""),
        // The first site of a beginner.
        (
            "[site.\"localhost\"]\nproxy = \"127.0.0.1:3000\"\n".into(),
            "E0024 1:7 \"localhost\": write tls = \"internal\" for one of Lockgate's own authority; or tls = { cert = \"/etc/tls/app.pem\", key = \"/etc/tls/app.key\" }, or certs = [\"/etc/tls/*.pem\"] in [tls]; for plain HTTP write tls = false",
        ),
        (
            "[site.\":443\"]\nrespond = 404\n".into(),
            "W0008 1:7 \":443\": write tls = { cert = \"/etc/tls/app.pem\", key = \"/etc/tls/app.key\" }, or another port",
        ),
        // Paths of nginx, Express and Flask.
        (
            path("/"),
            "W0009 1:17 \"/\": move its keys to the [site] table, which is for every path; or write \"/*\"",
        ),
        (
            path("/users/:id"),
            "W0004 1:17 \"/users/:id\": write \"/users/{id}\"",
        ),
        (
            path("/users/<id>"),
            "W0004 1:17 \"/users/<id>\": write \"/users/{id}\"",
        ),
        (
            path("^/api/(.*)$"),
            "E0035 1:17 \"^/api/(.*)$\": regular expressions are not read: write \"/api/*\" for all that is below",
        ),
        (
            path("*.php"),
            "E0035 1:17 \"*.php\": a path is matched from its beginning, not by its ending: write \"/x/*\"",
        ),
        (
            path("/files/**"),
            "E0035 1:17 \"/files/**\": write \"/files/*\"",
        ),
        // Names of pools.
        (to("pool.app"), "E0016 2:9 \"pool.app\": write \"pool:app\""),
        (
            to("app"),
            "E0016 2:9 \"app\": add the port: \"app:3000\"; of [pool.app] the address is \"pool:app\"",
        ),
        (
            to("http://app"),
            "E0016 2:9 \"http://app\": write \"app:80\"; of [pool.app] the address is \"pool:app\"",
        ),
        (
            pool("balance = \"ip_hash\""),
            "E0015 5:11 \"ip_hash\": write balance = { hash = \"client\" }",
        ),
        (
            pool("balance = \"sticky\""),
            "E0015 5:11 \"sticky\": write balance = { sticky = \"cookie:lg\" }",
        ),
        // No limit.
        (
            site("timeouts = { response = 0 }"),
            &format!("E0012 3:25 0: {off}"),
        ),
        (
            site("timeouts = { response = \"0s\" }"),
            &format!("E0012 3:25 \"0s\": {off}"),
        ),
        (
            site("body = { max = \"unlimited\" }"),
            &format!("E0012 3:16 \"unlimited\": {off}"),
        ),
        // Limits and caching in other words.
        (
            site("limit = \"20 per second\""),
            "E0041 3:9 \"20 per second\": write \"20/s\"",
        ),
        (
            site("limit = \"20r/s burst=40\""),
            "E0041 3:9 \"20r/s burst=40\": write \"20/s burst 40\"",
        ),
        (
            site("cache = \"public, max-age=3600, immutable\""),
            "E0018 3:9 \"public, max-age=3600, immutable\": write \"1h immutable\"",
        ),
        // Redirects.
        (
            redirect("\"example.org{path}\""),
            "E0035 2:12 \"example.org{path}\": write \"https://example.org{path}\"",
        ),
        (
            redirect("\"https://{path}\""),
            "E0035 2:12 \"https://{path}\": write \"https://{host}{path}\"",
        ),
        (
            redirect("\"301 https://example.org/\""),
            "E0035 2:12 \"301 https://example.org/\": write { to = \"https://example.org/\", status = 301 }",
        ),
        (
            redirect("{ \"/a\" = \"/b\" }"),
            "E0010 2:14 \"/a\": a path is a table of its own: [site.\"example.com\".path.\"/a\"]",
        ),
        (
            "[site.\":1\"]\nrespond = \"404 Not Found\"\n".into(),
            "E0012 2:11 \"404 Not Found\": write 404 for the status, or { status = 404, body = \"Not Found\" }",
        ),
        // Variables of shells.
        (
            "[site.\"a.b\"]\nrespond = 404\ntls = { cert = \"$CERT\" }\n".into(),
            "W0004 3:16 \"$CERT\": write ${env:CERT} for a variable of the environment",
        ),
        // Places and words.
        (
            "[site.\":1\".paths.\"/x\"]\nrespond = 404\n".into(),
            "E0012 1:12 paths: write [site.\"example.com\".path.\"/x\"], without the s",
        ),
        (
            site("strip_prefix = \"/api\""),
            "E0012 3:16 \"/api\": write strip_prefix = true: the part of the path before /* is removed",
        ),
        (
            site("listen = [\"127.0.0.1:8080\"]"),
            "E0016 3:11 \"127.0.0.1:8080\": write \"127.0.0.1\"; the port stands in the key: [site.\":8080\"]",
        ),
        (
            pool("health = \"GET /health\""),
            "E0035 5:10 \"GET /health\": write { path = \"/health\", method = \"GET\" }",
        ),
        (
            site("headers = { \"X-Foo:\" = \"a\" }"),
            "E0039 3:13 \"X-Foo:\": write x-foo, without the colon",
        ),
        (
            site("error_pages = { \"5xx\" = \"/e.html\" }"),
            "E0014 3:17 \"5xx\": write each status: 500, 502, 503, 504",
        ),
        (
            format!("drain = {{ timeout = \"30s\" }}\n{SITE}"),
            "E0010 1:11 timeout: write deadline = \"30s\"",
        ),
        (
            format!("log = {{ file = \"/var/log/x.log\" }}\n{SITE}"),
            "E0010 1:9 file: remove it: the operator log goes to stderr, which systemd keeps; requests are in access_log",
        ),
        (
            format!("[tls]\nmetrics = \"127.0.0.1:9090\"\n{SITE}"),
            "E0010 2:1 metrics: it belongs in the top of the file, before the first [table]",
        ),
    ]);
}

/// Twenty mistakes that were invented and judged without knowledge of the code, and what came with
/// them.
#[test]
fn new_mistakes_are_told_with_a_cure_that_works() {
    const PLACES: &str =
        "[site.\"a.b:1\"]\nproxy = \"a.b:1\"\n[site.\"a.b:1\".path.\"/x/*\"]\nproxy = \"a.b:2\"\n";
    const ABOVE: &str = "it belongs in [site.\"HOST\"]: move it above the header of the path, which begins a table of its own";
    let top = |line: &str| format!("{line}\n{SITE}");
    let verb = "write headers = { x-name = \"value\", server = false }; { add = \"value\" } as the value adds one";
    let several = "write each in quotes of its own: [\"127.0.0.1:3000\", \"127.0.0.1:3001\"]";
    let conflict =
        "this is the mark of a merge conflict: keep one side, and remove the three marks";
    check(&[
        (format!("{PLACES}alias = [\"www.a.b\"]"), &format!("E0010 5:1 alias: {ABOVE}")),
        (format!("{PLACES}access_log = \"/var/log/a.log\""), &format!("E0010 5:1 access_log: {ABOVE}")),
        (
            top("limits = { connections = 20,000, per_client = 200 }"),
            "E0001 1:26 20,000: write 20000 or 20_000",
        ),
        (top("workers = 1,000"), "E0001 1:11 1,000: write 1000 or 1_000"),
        (
            "<<<<<<< HEAD\n[site.\":1\"]\n=======\n[site.\":2\"]\n>>>>>>> other\n".into(),
            &["1:1 <<<<<<< HEAD", "3:1 =======", "5:1 >>>>>>> other"].map(|at| format!("E0001 {at}: {conflict}")).join("\n"),
        ),
        (
            pool("slow_start = \"10s\"").replace("[\"10.0.0.1:8080\"]", "[\"10.0.0.1:8080 weight=5\"]"),
            "E0016 4:14 \"10.0.0.1:8080 weight=5\": write { addr = \"10.0.0.1:8080\", weight = 5 }",
        ),
        (
            pool("").replace("[\"10.0.0.1:8080\"]", "[{ addr = \"10.0.0.1:8080\", weight = \"90%\" }]"),
            "E0012 4:49 \"90%\": write 90, without %",
        ),
        (
            "[site.\":1\"]\nroot = \"/srv\"\ncache = { \"*.css\" = \"1h\", \"*.js\" = \"1h\" }\n".into(),
            "E0035 3:11 \"*.css\": responses are matched by media type: write \"text/css\"\n\
             E0035 3:27 \"*.js\": responses are matched by media type: write \"text/javascript\"",
        ),
        (
            "[site.\":1\".path.\"~* \\\\.(jpg|png)$\"]\nroot = \"/srv\"\n".into(),
            "E0035 1:17 \"~* \\\\.(jpg|png)$\": regular expressions are not read, and a path is matched from its beginning, not by its ending: write the folder, \"/images/*\"",
        ),
        (
            "[site.\":1\"]\nredirect = \"{scheme}://www.a.b{path}\"\n".into(),
            "E0040 2:12 \"{scheme}://www.a.b{path}\": write https:// or http://",
        ),
        (
            site("timeouts = { tunnel_idle = \"-1\" }"),
            "E0014 3:28 \"-1\": write a whole number and a unit: \"10s\", \"500ms\", \"2m\", \"1h\" or \"1d\"",
        ),
        (
            "[site.\":1\"]\nproxy\u{a0}= \"a.b:1\"\n".into(),
            "E0001 2:6 \u{a0}: type a plain space instead of U+00A0, or type the line anew",
        ),
        (
            site("headers = { add = { x-a = \"b\" }, remove = [\"Server\"], -Via = \"\" }"),
            &format!(
                "E0039 3:13 add: {verb}\nE0039 3:34 remove: {verb}\nE0039 3:55 -Via: write via = false, which removes it"
            ),
        ),
        (
            "[site.\":1\"]\nproxy = \"127.0.0.1:3000 127.0.0.1:3001\"\n".into(),
            &format!("E0016 2:9 \"127.0.0.1:3000 127.0.0.1:3001\": {several}"),
        ),
        (
            format!("{POOL}endpoints = \"127.0.0.1:3000, 127.0.0.1:3001\"\n"),
            "E0012 4:13 \"127.0.0.1:3000, 127.0.0.1:3001\": write [\"127.0.0.1:3000\", \"127.0.0.1:3001\"]",
        ),
        (
            site("cors = { origins = [\"https://a.b\"], methods = \"GET, POST\" }"),
            "E0012 3:47 \"GET, POST\": write [\"GET\", \"POST\"]",
        ),
        (
            "[site.\":${env:PORT}\"]\nproxy = \"a.b:1\"\n".into(),
            "E0018 1:7 \":${env:PORT}\": write the host, port or name itself",
        ),
        (
            "[site.\"a.b\"]\nproxy = \"a.b:1\"\n[tls]\ncerts = [\"/etc/a.pem\"]\n[tcp.\":80\"]\nproxy = \"a.b:1\"\n".into(),
            "E0022 5:6 \":80\": write the port into the key of the site, as in \"example.com:443\": then it has no redirect; or give the other table another port, or ports = { http = 8080 } at the top",
        ),
    ]);
}
