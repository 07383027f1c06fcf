//! Tests of the importer of nginx: source in, file of Lockgate out, and the verdicts.

mod hostile;
mod review;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use lockgate_config::Environment;

use super::import;
use crate::{ImportError, Imported, SourceFiles, Verdict};

/// Files that are only in the test.
struct Files(BTreeMap<PathBuf, String>);

impl SourceFiles for Files {
    fn read(&self, path: &Path) -> Result<String, String> {
        self.0.get(path).cloned().ok_or("no such file".to_owned())
    }

    fn matching(&self, pattern: &Path) -> Vec<PathBuf> {
        let text = pattern.to_string_lossy();
        let (start, end) = text.split_once('*').unwrap_or((&text, ""));
        let fits = |path: &&PathBuf| {
            let path = path.to_string_lossy();
            path.starts_with(start) && path.ends_with(end)
        };
        self.0.keys().filter(fits).cloned().collect()
    }
}

fn import_files(files: &[(&str, &str)]) -> Result<Imported, ImportError> {
    let map = files
        .iter()
        .map(|(name, text)| (PathBuf::from(name), (*text).to_owned()));
    import(&[PathBuf::from("nginx.conf")], &Files(map.collect()))
}

fn imported(text: &str) -> Imported {
    let imported = import_files(&[("nginx.conf", text)]).unwrap();
    assert_valid(&imported);
    imported
}

/// Whether the file is one that Lockgate takes.
fn assert_valid(imported: &Imported) {
    let mut draft = imported.draft.clone();
    let _ = draft.top.take_list("test");
    let env = Environment::none();
    if let Err(report) =
        lockgate_config::parse_str_in(&draft.to_string(), Path::new("/etc/new.toml"), &env)
    {
        panic!("{report}\n{draft}");
    }
}

/// The file without its preface, comments and tests.
fn toml(text: &str) -> String {
    let mut draft = imported(text).draft;
    let _ = draft.top.take_list("test");
    let text = draft.to_string();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.collect::<Vec<_>>().join("\n").trim().to_owned()
}

/// In a server on port 80 for every host.
fn server(text: &str) -> String {
    toml(&format!("server {{ listen 80; {text} }}"))
}

#[track_caller]
fn assert_server(source: &str, expected: &str) {
    assert_eq!(server(source), expected.trim(), "{source}");
}

/// The verdict of the first statement that begins with `start`, as `converted`, `default`,
/// `differs: …` or `not: …`.
fn verdict(text: &str, start: &str) -> String {
    let imported = imported(text);
    let line = imported
        .report
        .lines()
        .find(|line| line.text.starts_with(start))
        .unwrap();
    match line.verdict {
        Verdict::Converted => "converted".to_owned(),
        Verdict::Default => "default".to_owned(),
        Verdict::Differs { because } => format!("differs: {because}"),
        Verdict::NotSupported { because, .. } => format!("not: {because}"),
    }
}

fn server_verdict(text: &str, start: &str) -> String {
    verdict(&format!("server {{ listen 80; {text} }}"), start)
}

const CLOSED: &str = "deny = [\"0.0.0.0/0\", \"::/0\"]";

#[test]
fn a_tls_site_and_its_redirect_are_one_table() {
    let source = "events {} http { server { listen 80; server_name a.test; return 301 https://$host$request_uri; }
      server { listen 443 ssl; http2 on; server_name a.test; ssl_certificate /t/a.pem; ssl_certificate_key /t/a.key;
        location / { proxy_pass http://unix:/run/app.sock; proxy_set_header Host $host;
          proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; proxy_set_header X-Forwarded-Proto $scheme; } } }";
    let expected = "[site.\"a.test\"]\ntls = { cert = \"/t/a.pem\", key = \"/t/a.key\" }\nproxy = \"unix:/run/app.sock\"";
    assert_eq!(toml(source), expected);
    assert_eq!(verdict(source, "return 301"), "default");
    let test = "[[test]]\nrequest = \"GET https://a.test/x\"\nexpect = { site = \"a.test\", route = \"/*\" }";
    let text = imported(source).draft.to_string();
    assert!(
        text.contains("# nginx.conf:2\n[site.") && text.contains(test),
        "{text}"
    );
}

#[test]
fn certbots_conditions_are_the_redirect() {
    let source = "server { server_name a.test; listen 443 ssl; ssl_certificate /a.pem; ssl_certificate_key /a.pem; root /w; }
      server { if ($host = a.test) { return 301 https://$host$request_uri; } listen 80; server_name a.test; return 404; }";
    assert_eq!(
        toml(source),
        "[site.\"a.test\"]\ntls = \"/a.pem\"\nroot = \"/w\""
    );
}

#[test]
fn port_80_that_does_more_than_redirect_stays() {
    let source = "server { listen 80; server_name a.test; location /.well-known/acme-challenge/ { root /w; }
      location / { return 301 https://$host$request_uri; } }
      server { listen 443 ssl; server_name a.test; ssl_certificate /a.pem; ssl_certificate_key /a.pem; return 204; }";
    let expected = r#"[site."a.test:80"]
redirect = { to = "https://{host}{path}", status = 301 }

[site."a.test:80".path."/.well-known/acme-challenge/*"]
root = "/w"

[site."a.test:443"]
tls = "/a.pem"
respond = 204"#;
    assert_eq!(toml(source), expected);
}

#[test]
fn hosts_that_no_server_names() {
    let two = "server { listen 80; server_name a.test; return 204; } server { listen 80 default_server; return 404; }";
    let expected = "[site.\"a.test:80\"]\nrespond = 204\n\n[site.\":80\"]\nrespond = 404";
    assert_eq!(toml(two), expected);
    let one = "server { listen 80; server_name a.test .b.test; return 204; }";
    assert_eq!(
        toml(one),
        "[site.\"a.test:80\"]\nalias = [\"b.test\", \"*.b.test\"]\nrespond = 204"
    );
    assert!(
        verdict(one, "server_name").starts_with("differs: nginx also answers hosts on port 80")
    );
    for name in ["~^a", "www.a.*", "$hostname"] {
        let source = format!("server {{ listen 80; server_name {name} b.test; return 204; }}");
        assert!(
            verdict(&source, "server_name").starts_with("not: the name"),
            "{name}"
        );
    }
}

#[test]
fn addresses_and_ports() {
    assert_eq!(
        toml("server { listen 127.0.0.1:8080; listen [::1]:8080; return 204; }"),
        "[site.\":8080\"]\nlisten = [\"127.0.0.1\", \"[::1]\"]\nrespond = 204"
    );
    assert_eq!(
        toml("server { listen unix:/run/a.sock; return 204; }"),
        "[site.\"unix:/run/a.sock\"]\nrespond = 204"
    );
    let quic = "server { listen 443 quic; listen 80; return 204; }";
    assert_eq!(verdict(quic, "listen 443"), "not: HTTP/3 is not spoken yet");
    let source = "server { listen $PORT; return 204; } server { listen 81; return 204; }";
    assert!(verdict(source, "listen $").starts_with("not"));
}

#[test]
fn the_path_that_the_endpoint_sees() {
    let host = "proxy_set_header Host $http_host;";
    for (location, pass, expected) in [
        ("/a/", "http://x:1", "/a/* proxy = \"x:1\""),
        (
            "/a/",
            "http://x:1/",
            "/a/* proxy = \"x:1\" strip_prefix = true",
        ),
        ("/a/", "http://x:1/a/", "/a/* proxy = \"x:1\""),
        (
            "/a/",
            "http://x:1/b/",
            "/a/* proxy = \"x:1\" rewrite = \"/b/{*}\"",
        ),
        (
            "= /a",
            "http://x:1/b",
            "/a proxy = \"x:1\" rewrite = \"/b\"",
        ),
        ("/a/", "http://x:1$request_uri", "/a/* proxy = \"x:1\""),
        ("~ ^/a/", "http://x:1", "/a/* proxy = \"x:1\""),
    ] {
        let text = server(&format!(
            "location {location} {{ proxy_pass {pass}; {host} }}"
        ));
        let (key, keys) = expected.split_once(' ').unwrap();
        let found = text.replace(&format!("[site.\":80\".path.\"{key}\"]"), "");
        assert_eq!(
            found.split('\n').collect::<Vec<_>>().join(" ").trim(),
            match location {
                "/a/" => format!(
                    "{keys}  [site.\":80\".path.\"/a\"] redirect = {{ to = \"/a/\", status = 301 }}"
                ),
                _ => keys.to_owned(),
            },
            "{location} {pass}"
        );
    }
    assert_server(
        "location /a { proxy_pass http://x:1/b; proxy_set_header Host $http_host; }",
        r#"
[site.":80".path."/a"]
proxy = "x:1"
rewrite = "/b"

[site.":80".path."/a/*"]
proxy = "x:1"
rewrite = "/b/{*}""#,
    );
    assert_server(
        "location /r { return 404; } location /r/ { rewrite ^/r/(.*)$ /$1 break; proxy_pass http://x:1; proxy_set_header Host $http_host; }",
        r#"
[site.":80".path."/r"]
respond = 404

[site.":80".path."/r/*"]
proxy = "x:1"
strip_prefix = true"#,
    );
    let folded =
        "set $up http://x:9; location / { proxy_pass $up; proxy_set_header Host $http_host; }";
    assert_server(folded, "[site.\":80\"]\nproxy = \"x:9\"");
    let unknown = "location / { proxy_pass http://$up; }";
    assert_server(unknown, "[site.\":80\"]\nrespond = 501");
    assert!(server_verdict(unknown, "proxy_pass").starts_with("not: its target has variables"));
}

#[test]
fn request_fields() {
    assert_server(
        "location / { proxy_pass http://app:1; proxy_set_header X-Real-IP $remote_addr; proxy_set_header X-A \"\";
         proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $connection_upgrade; }",
        "[site.\":80\"]\nproxy = \"app:1\"\nrequest_headers = { x-real-ip = \"{client}\", x-a = false, host = \"app:1\" }",
    );
    // A location with one field has none of its server's.
    assert_server(
        "proxy_set_header X-A a; proxy_set_header Host $host; location / { proxy_pass http://app:1; } location /b/ { proxy_pass http://app:1; proxy_set_header X-B b; }",
        r#"
[site.":80".path."/*"]
proxy = "app:1"
request_headers = { x-a = "a" }

[site.":80".path."/b/*"]
proxy = "app:1"
request_headers = { x-b = "b", host = "app:1" }

[site.":80".path."/b"]
redirect = { to = "/b/", status = 301 }"#,
    );
    let unknown = "location / { proxy_pass http://a:1; proxy_set_header Host $host; proxy_set_header X-Cert $ssl_client_s_dn; }";
    assert_server(
        unknown,
        "[site.\":80\"]\nproxy = \"a:1\"\nrequest_headers = { x-cert = false }",
    );
    assert!(server_verdict(unknown, "proxy_set_header X-Cert").starts_with("not: this variable"));
    assert_eq!(
        server_verdict(
            "listen 8080; location / { proxy_pass http://a:1; proxy_set_header Host $host; }",
            "proxy_set_header"
        ),
        "differs: the endpoint gets Host as the client sent it, with the port"
    );
    let https = "location / { proxy_pass https://up.test; }";
    assert_server(
        https,
        "[site.\":80\"]\nproxy = { to = \"up.test:443\", tls = {} }\nrequest_headers = { host = \"up.test\" }",
    );
    assert!(server_verdict(https, "proxy_pass").starts_with("differs: the endpoint's certificate"));
}

#[test]
fn pools() {
    let source = "upstream app { least_conn; server a:1 weight=2 max_fails=3 fail_timeout=30s; server b:1 max_fails=3 fail_timeout=30s; server c:1 backup max_fails=3 fail_timeout=30s; server d:1 down; keepalive 16; }
      server { listen 80; location / { proxy_pass http://app; proxy_set_header Host $host; } }";
    let expected = r#"[site.":80"]
proxy = "pool:app"

[pool.app]
endpoints = [{ addr = "a:1", weight = 2 }, "b:1", { addr = "c:1", backup = true }]
balance = "least"
eject = { errors = 3, for = "30s" }"#;
    assert_eq!(toml(source), expected);
    let one = "upstream app { ip_hash; server a:1; } server { listen 80; location / { proxy_pass http://app; proxy_set_header Host $host; } }";
    assert_eq!(toml(one), "[site.\":80\"]\nproxy = \"a:1\"");
    let odd = "upstream app { hash $request_uri; server a:1; server b:1; } server { listen 80; location / { proxy_pass http://app; } }";
    assert!(verdict(odd, "hash").starts_with("not: endpoints are hashed"));
}

#[test]
fn who_is_let_in() {
    for (rules, expected) in [
        ("allow 10.0.0.0/8; deny all;", "allow = [\"10.0.0.0/8\"]"),
        (
            "deny 10.0.0.1; allow 10.0.0.0/8; deny all;",
            "allow = [\"10.0.0.0/8\"]\ndeny = [\"10.0.0.1\"]",
        ),
        ("deny 1.2.3.4; allow all;", "deny = [\"1.2.3.4\"]"),
        ("deny 1.2.3.4;", "deny = [\"1.2.3.4\"]"),
        (
            "allow 10.0.0.0/8; deny 1.2.3.4; deny all;",
            "allow = [\"10.0.0.0/8\"]",
        ),
        ("allow all; deny all;", ""),
        (
            "allow 10.1.0.0/16; deny 10.0.0.0/8;",
            "deny = [\"10.0.0.0/8\"]",
        ),
        ("deny nonsense;", CLOSED),
    ] {
        let text = server(&format!(
            "location / {{ {rules} proxy_pass http://a:1; proxy_set_header Host $host; }}"
        ));
        let expected = format!("[site.\":80\"]\n{expected}\nproxy = \"a:1\"").replace("\n\n", "\n");
        assert_eq!(text, expected, "{rules}");
    }
    let order = "location / { allow 10.1.0.0/16; deny 10.0.0.0/8; proxy_pass http://a:1; }";
    assert!(server_verdict(order, "deny").starts_with("differs: it also refuses"));
    assert_server(
        "location / { deny all; proxy_pass http://a:1; }",
        "[site.\":80\"]\nrespond = 403",
    );
    // A level with one of them hides those above.
    assert_server(
        "deny all; location / { proxy_pass http://a:1; proxy_set_header Host $host; allow 10.0.0.1; deny all; }",
        "[site.\":80\"]\nallow = [\"10.0.0.1\"]\nproxy = \"a:1\"",
    );
}

#[test]
fn the_address_of_a_client_behind_a_proxy() {
    let rules = "allow 10.0.0.0/8; deny all; location / { proxy_pass http://a:1; proxy_set_header Host $host; }";
    let real = "set_real_ip_from 192.168.0.0/16;";
    let header = "real_ip_header X-Forwarded-For;";
    let text = toml(&format!("{real} {header} server {{ listen 80; {rules} }}"));
    let expected = "trusted = [\"192.168.0.0/16\"]\n\n[site.\":80\"]\nallow = [\"10.0.0.0/8\"]\nproxy = \"a:1\"";
    assert_eq!(text, expected);
    // The proxy itself may be in `allow`: without its word about clients, none is let in.
    for source in [
        format!("{real} server {{ listen 80; {rules} }}"),
        format!("{real} real_ip_header CF-Connecting-IP; server {{ listen 80; {rules} }}"),
        format!("server {{ listen 80; {real} {header} {rules} }}"),
    ] {
        assert!(toml(&source).contains(CLOSED), "{source}");
    }
}

#[test]
fn passwords_and_services() {
    let text = server(
        "auth_basic in; auth_basic_user_file /etc/h; root /w; location /open/ { auth_basic off; }",
    );
    assert!(
        text.contains("auth = { basic = \"/etc/h\", realm = \"in\" }"),
        "{text}"
    );
    assert!(
        text.contains("[site.\":80\".path.\"/open/*\"]\nauth = false\nroot = \"/w\""),
        "{text}"
    );
    assert_server(
        "location / { auth_request /check; proxy_pass http://a:1; proxy_set_header Host $host; }
         location = /check { internal; proxy_pass http://auth:4181/verify; }",
        r#"
[site.":80"]
proxy = "a:1"

[site.":80".path."/check"]
auth = false
respond = 404"#
            .replace(
                "proxy = \"a:1\"",
                "auth = { forward = \"auth:4181\", path = \"/verify\" }\nproxy = \"a:1\"",
            )
            .as_str(),
    );
}

#[test]
fn a_rule_that_cannot_be_kept_closes_the_route() {
    for rule in [
        "auth_basic x;",
        "auth_basic x; auth_basic_user_file $f;",
        "auth_request /nowhere;",
        "auth_jwt x;",
        "access_by_lua_block { if x then return { 1 } end }",
        "limit_except GET { deny all; }",
        "if ($http_user_agent ~ bot) { return 403; }",
        "location ~ secret { deny all; }",
        "location ~* \\.(bak|sql)$ { return 404; }",
        "location ~ /\\.ht { deny all; }",
    ] {
        let text = server(&format!("location / {{ {rule} proxy_pass http://a:1; }}"));
        assert!(text.contains(CLOSED), "{rule}: {text}");
        let at_server = server(&format!("{rule} location / {{ proxy_pass http://a:1; }}"));
        assert!(at_server.contains(CLOSED), "{rule}: {at_server}");
    }
    let tls = "server { listen 443 ssl; ssl_certificate /a; ssl_certificate_key /b; ssl_verify_client optional_no_ca; location / { proxy_pass http://a:1; } }";
    assert!(toml(tls).contains(CLOSED));
    // Of files, Lockgate serves no hidden names.
    assert_server(
        "root /w; location ~ /\\. { deny all; }",
        "[site.\":80\"]\nroot = \"/w\"",
    );
}

#[test]
fn scripts_of_php_are_never_sent_as_text() {
    let source = "root /w; index index.php; location / { try_files $uri $uri/ /index.php?$query_string; }
      location ~ \\.php$ { fastcgi_pass unix:/run/php.sock; } location = /robots.txt { access_log off; } error_page 404 /index.php;";
    assert_server(
        source,
        "[site.\":80\"]\nrespond = 501\n\n[site.\":80\".path.\"/robots.txt\"]\nroot = \"/w\"",
    );
    assert!(server_verdict(source, "fastcgi_pass").starts_with("not: "));
    assert!(server_verdict(source, "error_page").starts_with("not: "));
}

#[test]
fn files() {
    for (source, expected) in [
        (
            "root /w; index index.html index.htm;",
            "root = \"/w\"\nindex = [\"index.html\", \"index.htm\"]",
        ),
        (
            "root /w; location / { try_files $uri $uri/ =404; }",
            "root = \"/w\"",
        ),
        (
            "root /w; location / { try_files $uri $uri/ /index.html; }",
            "root = \"/w\"\ntry = [\"{path}\", \"{path}/\", \"/index.html\"]",
        ),
        (
            "root /w; location / { autoindex on; charset koi8-r; }",
            "root = \"/w\"\nlisting = true\ncharset = \"koi8-r\"",
        ),
        (
            "root /w; error_page 404 /404.html;",
            "root = \"/w\"\nnot_found = \"/404.html\"",
        ),
        (
            "root /w; expires 30d; gzip off;",
            "root = \"/w\"\ncache = \"30d\"\ncompress = false",
        ),
        (
            "root /w; location / { expires 1y; add_header Cache-Control \"public, immutable\"; }",
            "root = \"/w\"\ncache = \"1y public immutable\"",
        ),
        (
            "root /w; location ~* \\.(css|js)$ { expires 7d; }",
            "root = \"/w\"\ncache = { \"text/css\" = \"7d\", \"text/javascript\" = \"7d\" }",
        ),
    ] {
        assert_eq!(
            server(source),
            format!("[site.\":80\"]\n{expected}"),
            "{source}"
        );
    }
    for (source, expected) in [
        (
            "location /s/ { alias /data/s/; }",
            "\"/s/*\"]\nroot = \"/data\"",
        ),
        (
            "location /s/ { alias /data/; }",
            "\"/s/*\"]\nroot = \"/data\"\nstrip_prefix = true",
        ),
        (
            "location = /f { alias /data/g.txt; }",
            "\"/f\"]\nroot = \"/data\"\ntry = [\"/g.txt\"]",
        ),
    ] {
        assert_eq!(
            server(source),
            format!("[site.\":80\".path.{expected}"),
            "{source}"
        );
    }
    let rails = "root /w; location / { try_files $uri @app; } location @app { proxy_pass http://a:1; proxy_set_header Host $host; }";
    assert_server(rails, "[site.\":80\"]\nproxy = \"a:1\"");
    assert!(
        server_verdict(rails, "try_files")
            .starts_with("differs: all requests go to the application")
    );
}

#[test]
fn answers_and_redirects() {
    for (source, expected) in [
        (
            "return 301 https://b.test$request_uri;",
            "redirect = { to = \"https://b.test{path}\", status = 301 }",
        ),
        (
            "rewrite ^ https://b.test$request_uri? permanent;",
            "redirect = { to = \"https://b.test{path}\", status = 301 }",
        ),
        (
            "rewrite ^/(.*)$ https://b.test/$1 redirect;",
            "redirect = { to = \"https://b.test{path}\", status = 302 }",
        ),
        (
            "return 200 \"ok $host\";",
            "respond = { status = 200, body = \"ok {host}\" }",
        ),
        ("return 444;", "respond = 444"),
    ] {
        assert_eq!(
            server(source),
            format!("[site.\":80\"]\n{expected}"),
            "{source}"
        );
    }
    assert_server(
        "location ~ ^/old/(.*)$ { return 308 /new/$1; } location ~ ^/(a|b)(/|$) { return 410; }",
        r#"
[site.":80".path."/old/*"]
redirect = "/new/{*}"

[site.":80".path."/a/*"]
respond = 410

[site.":80".path."/b/*"]
respond = 410"#,
    );
    let cookie = "location / { return 302 https://b.test/$cookie_x; }";
    assert_server(cookie, "[site.\":80\"]\nrespond = 501");
}

#[test]
fn limits_bodies_and_deadlines() {
    let source = "limit_req_zone $binary_remote_addr zone=one:1m rate=10r/s;
      server { listen 80; location / { limit_req zone=one burst=5 nodelay; limit_req_status 429; client_max_body_size 10m;
        proxy_read_timeout 5m; proxy_connect_timeout 10s; proxy_pass http://a:1; proxy_set_header Host $host; } }";
    let expected = r#"[site.":80"]
limit = { rate = "10/s", burst = 6 }
body = { max = "10MiB" }
proxy = "a:1"
timeouts = { connect = "10s", response = "5m" }"#;
    assert_eq!(toml(source), expected);
    let delayed = source.replace(" nodelay", "");
    assert!(verdict(&delayed, "limit_req ").starts_with("differs: requests within the burst"));
}

#[test]
fn nginx_asks_regular_expressions_first() {
    let source =
        "location /a/b/ { proxy_pass http://b:1; } location ~ ^/a/ { proxy_pass http://a:1; }";
    assert!(!server(source).contains("b:1"));
    assert!(server_verdict(source, "location /a/b/").starts_with("not: line 1 takes"));
    let strong =
        "location ^~ /a/ { proxy_pass http://b:1; } location ~ ^/a/x/ { proxy_pass http://a:1; }";
    assert!(!server(strong).contains("a:1"));
}

#[test]
fn preflights_are_a_route_of_their_own() {
    assert_server(
        "location / { if ($request_method = 'OPTIONS') { add_header Access-Control-Allow-Origin *; return 204; } proxy_pass http://a:1; proxy_set_header Host $host; }",
        r#"
[site.":80"]
proxy = "a:1"

[site.":80".path."OPTIONS /*"]
respond = 204
headers = { access-control-allow-origin = "*" }"#,
    );
}

#[test]
fn relays() {
    let source = "stream { map $ssl_preread_server_name $b { a.test 10.0.0.1:443; default 10.0.0.2:443; }
      server { listen 443; ssl_preread on; proxy_protocol on; proxy_pass $b; }
      upstream db { server d:5432; server e:5432; } server { listen 5432; proxy_pass db; proxy_timeout 10m; }
      server { listen 22; allow 10.0.0.0/8; deny all; proxy_pass x:22; } server { listen 53 udp; proxy_pass x:53; } }";
    let expected = r#"[tcp.":443"]
sni = { "a.test" = "10.0.0.1:443" }
default = "10.0.0.2:443"
proxy_protocol = "v1"

[tcp.":5432"]
proxy = ["d:5432", "e:5432"]
timeouts = { tunnel_idle = "10m" }"#;
    assert_eq!(toml(source), expected);
    assert!(verdict(source, "allow").starts_with("not: a relay lets in every client"));
}

#[test]
fn the_test_of_an_unnamed_host_names_no_other_site() {
    let source = "server { listen 80 default_server; return 404; }
      server { listen 80; server_name example.com example.net; return 204; }";
    let text = imported(source).draft.to_string();
    let test = "request = \"GET http://unnamed.invalid/x\"\nexpect = { site = \":80\"";
    assert!(text.contains(test), "{text}");
}

#[test]
fn the_user_of_the_workers_is_kept() {
    let of = |user: &str| format!("{user} http {{ server {{ listen 80; return 204; }} }}");
    let kept = toml(&of("user www-data;"));
    assert!(kept.starts_with("user = \"www-data\""), "{kept}");
    assert_eq!(verdict(&of("user www-data www-data;"), "user"), "converted");
    assert_eq!(
        verdict(&of("user nginx adm;"), "user"),
        "differs: the group is that of the user"
    );
}

#[test]
fn users_with_weak_hashes_are_named() {
    let source = "server { listen 80; root /w; auth_basic x; auth_basic_user_file ht; }";
    let of = |hashes: &str| {
        let files = [("nginx.conf", source), ("ht", hashes)];
        let imported = import_files(&files).unwrap();
        let mut lines = imported.report.lines();
        let line = lines.find(|line| line.text.starts_with("auth_basic_user_file"));
        (line.unwrap().verdict, imported.draft.to_string())
    };
    let (verdict, text) = of("alice:$apr1$x$y\n# c:d\nbob:$2y$05$abc\ncarol:{SHA}x\n");
    let because = "Lockgate takes bcrypt, SHA-crypt and argon2id, and refuses the hashes of alice, carol: `htpasswd -B` or `openssl passwd -6` makes new ones";
    assert_eq!(verdict, Verdict::differs(because));
    assert!(
        text.contains("# needs new hashes for: alice, carol"),
        "{text}"
    );
    assert_eq!(of("bob:$2y$05$abc\n").0, Verdict::Converted);
}

#[test]
fn a_path_without_its_slash_is_answered_as_nginx_does() {
    // An application gets nothing for it: nginx redirects, before any rule of access.
    assert_server(
        "allow 10.0.0.0/8; deny all; location / { root /w; } location /x/ { proxy_pass http://a:1; proxy_set_header Host $host; }",
        r#"
[site.":80"]
allow = ["10.0.0.0/8"]
root = "/w"

[site.":80".path."/x/*"]
proxy = "a:1"

[site.":80".path."/x"]
allow = false
redirect = { to = "/x/", status = 301 }"#,
    );
    // Files leave it to the location around them: an application, or a rule of access.
    assert_server(
        "location / { proxy_pass http://a:1; proxy_set_header Host $host; } location /x/ { root /w; }",
        r#"
[site.":80"]
proxy = "a:1"

[site.":80".path."/x/*"]
root = "/w"

[site.":80".path."/x"]
proxy = "a:1""#,
    );
    assert_server(
        "root /w; location / { allow 10.0.0.0/8; deny all; } location /x/ { allow all; }",
        r#"
[site.":80"]
allow = ["10.0.0.0/8"]
root = "/w"

[site.":80".path."/x/*"]
allow = false
root = "/w"

[site.":80".path."/x"]
root = "/w""#,
    );
    let outside = "root /w; location /x/ { return 204; }";
    let text = imported(&format!("server {{ listen 80; {outside} }}"))
        .draft
        .to_string();
    assert!(text.contains("is also about /x itself"), "{text}");
}

#[test]
fn a_server_that_stands_twice_has_the_sum_of_its_weights() {
    let source = "upstream u { server 10.0.0.1:80; server 10.0.0.2:80 max_conns=9; server 10.0.0.1:80; server 10.0.0.2:80 weight=2; }
      server { listen 80; location / { proxy_pass http://u; proxy_set_header Host $http_host; } }";
    let text = toml(source);
    let endpoints =
        "{ addr = \"10.0.0.1:80\", weight = 2 }, { addr = \"10.0.0.2:80\", weight = 3, max = 9 }";
    assert!(
        text.replace('\n', " ")
            .replace("    ", "")
            .contains(endpoints),
        "{text}"
    );
    assert_eq!(verdict(source, "server 10.0.0.2:80 weight"), "converted");
}
