//! Tests of whole files: text in, text and verdicts out.

mod changes;
mod damaged;
mod relays;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use lockgate_config::{Environment, parse_str_in};

use crate::{Format, ImportError, Imported, SourceFiles, Verdict, import};

struct Files(BTreeMap<&'static str, String>);

impl SourceFiles for Files {
    fn read(&self, path: &Path) -> Result<String, String> {
        let known = self.0.get(path.to_str().unwrap());
        known.cloned().ok_or_else(|| "no such file".to_owned())
    }

    fn matching(&self, _: &Path) -> Vec<PathBuf> {
        Vec::new()
    }
}

fn read(text: &str) -> Result<Imported, ImportError> {
    let files = Files(BTreeMap::from([
        ("h.cfg", text.to_owned()),
        (
            "/certs.txt",
            "# a list\n/etc/a.pem [alpn h2] a.test\n/etc/b.pem\n".to_owned(),
        ),
    ]));
    import(Format::Haproxy, &[PathBuf::from("h.cfg")], &files)
}

/// The file of Lockgate, which must be valid, without its tests and comments.
fn draft(text: &str) -> String {
    let mut imported = read(text).unwrap();
    imported.draft.top.take_list("test");
    let text = imported.draft.to_string();
    let env = Environment::none()
        .with_var("HOST", "app.internal")
        .with_var("PORT", "80");
    if let Err(report) = parse_str_in(&text, Path::new("/lockgate.toml"), &env) {
        panic!("{report:?}\n{text}");
    }
    let lines = text.lines().filter(|line| !line.starts_with("# "));
    lines.collect::<Vec<_>>().join("\n").trim().to_owned()
}

/// The verdict of the last statement that begins with these words: C, D, d (differs) or n.
fn verdict(text: &str, begins: &str) -> (char, String) {
    let imported = read(text).unwrap();
    let lines: Vec<_> = imported.report.lines().collect();
    let line = lines
        .iter()
        .rev()
        .find(|line| line.text.starts_with(begins));
    match &line.unwrap().verdict {
        Verdict::Converted => ('C', String::new()),
        Verdict::Default => ('D', String::new()),
        Verdict::Differs { because } => ('d', because.clone()),
        Verdict::NotSupported { because, .. } => ('n', because.clone()),
    }
}

const HTTP: &str = "defaults\n mode http\n timeout connect 5s\n timeout server 60s\n";

/// A frontend on port 80 with these lines, and backends `a` and `b`.
fn front(lines: &str) -> String {
    format!(
        "{HTTP}frontend f\n bind :80\n{lines}\nbackend a\n server s 10.0.0.1:80\nbackend b\n server s 10.0.0.2:80\n"
    )
}

#[test]
fn one_server_is_an_address() {
    assert_eq!(
        draft(&front(" default_backend a")),
        "[site.\":80\"]\nproxy = \"10.0.0.1:80\""
    );
}

#[test]
fn hosts_and_paths_become_tables() {
    let text = front(
        " acl one hdr(host) -i one.test\n acl api path_beg /api\n use_backend b if one api\n \
         use_backend a if one\n use_backend b if { hdr_end(host) .two.test } { path /x }",
    );
    assert_eq!(
        draft(&text),
        "[site.\"one.test:80\"]\nproxy = \"10.0.0.1:80\"\n\n\
         [site.\"one.test:80\".path.\"/api/*\"]\nproxy = \"10.0.0.2:80\"\n\n\
         [site.\"*.two.test:80\".path.\"/x\"]\nproxy = \"10.0.0.2:80\""
    );
    assert_eq!(verdict(&text, "acl one").0, 'C');
    assert_eq!(verdict(&text, "acl api").0, 'd');
    assert_eq!(verdict(&text, "use_backend a").0, 'C');
}

#[test]
fn the_first_rule_wins_as_in_haproxy() {
    // The wider path comes first: the narrower one is never reached.
    let text = front(
        " use_backend a if { path_beg /x/ }\n use_backend b if { path_beg /x/y/ }\n default_backend b",
    );
    assert_eq!(
        draft(&text),
        "[site.\":80\"]\nproxy = \"10.0.0.2:80\"\n\n[site.\":80\".path.\"/x/*\"]\nproxy = \"10.0.0.1:80\""
    );
    assert_eq!(verdict(&text, "use_backend b").0, 'd');
    // A wildcard before an exact host takes its requests.
    let text = front(
        " use_backend a if { hdr_end(host) -i .t.test }\n use_backend b if { hdr(host) -i x.t.test }",
    );
    assert_eq!(
        draft(&text),
        "[site.\"*.t.test:80\"]\nproxy = \"10.0.0.1:80\""
    );
}

#[test]
fn hosts_with_the_same_rules_are_aliases() {
    let text = front(" use_backend a if { hdr(host) -i a.test b.test }\n default_backend b");
    assert_eq!(
        draft(&text),
        "[site.\"a.test:80\"]\nalias = [\"b.test\"]\nproxy = \"10.0.0.1:80\"\n\n[site.\":80\"]\nproxy = \"10.0.0.2:80\""
    );
}

#[test]
fn tls_and_its_redirect_are_one_site() {
    let text = front(
        " bind :443 ssl crt /etc/a.pem alpn h2,http/1.1\n http-request redirect scheme https code 308 unless { ssl_fc }\n \
         use_backend a if { hdr(host) -i a.test }",
    );
    assert_eq!(
        draft(&text),
        "[site.\"a.test\"]\ntls = \"/etc/a.pem\"\nproxy = \"10.0.0.1:80\""
    );
    assert_eq!(verdict(&text, "http-request redirect").0, 'C');
    let other = text.replace("308", "301");
    assert_eq!(verdict(&other, "http-request redirect").0, 'd');
    // Every host: both tables are written, with the status.
    let text = front(
        " bind :443 ssl crt /etc/a.pem\n redirect scheme https code 301 if !{ ssl_fc }\n default_backend a",
    );
    assert_eq!(
        draft(&text),
        "[site.\":80\"]\nredirect = { to = \"https://{host}{path}\", status = 301 }\n\n\
         [site.\":443\"]\ntls = \"/etc/a.pem\"\nproxy = \"10.0.0.1:80\""
    );
}

#[test]
fn redirects_keep_their_status_and_target() {
    let text = front(
        " redirect prefix https://www.a.test code 301 if { hdr(host) -i a.test }\n \
         http-request redirect location https://b.test/new if { path /old }\n default_backend a",
    );
    let draft = draft(&text);
    assert!(draft.contains("redirect = { to = \"https://www.a.test{path}\", status = 301 }"));
    assert!(draft.contains(
        "[site.\":80\".path.\"/old\"]\nredirect = { to = \"https://b.test/new\", status = 302 }"
    ));
    assert_eq!(verdict(&text, "redirect prefix").0, 'C');
    assert_eq!(verdict(&text, "http-request redirect").0, 'd');
    let text = front(" redirect location https://%[req.hdr(x)]/ if { path /old }");
    assert!(super::tests::draft(&text).contains("respond = 503"));
    assert_eq!(verdict(&text, "redirect").0, 'n');
}

#[test]
fn restrictions_by_address() {
    for (rule, expected) in [
        (
            "http-request deny if { src 10.1.2.3/8 }",
            "deny = [\"10.0.0.0/8\"]",
        ),
        (
            "http-request deny unless { src 10.0.0.0/8 ::1 }",
            "allow = [\"10.0.0.0/8\", \"::1/128\"]",
        ),
        (
            "http-request allow if { src 10.0.0.0/8 }\n http-request deny",
            "allow = [\"10.0.0.0/8\"]",
        ),
        (
            "tcp-request connection reject if { src 192.0.2.1 }",
            "deny = [\"192.0.2.1/32\"]",
        ),
        (
            "http-request deny if !{ src 10.0.0.1 } !{ src 10.0.0.2 }",
            "allow = [\"10.0.0.1/32\", \"10.0.0.2/32\"]",
        ),
    ] {
        let text = front(&format!(" {rule}\n default_backend a"));
        assert!(draft(&text).ends_with(expected), "{rule}\n{}", draft(&text));
    }
}

#[test]
fn a_restriction_that_cannot_be_said_refuses_every_client() {
    const CLOSED: &str = "deny = [\"0.0.0.0/0\", \"::/0\"]";
    for rule in [
        "http-request deny if { hdr(x-key) secret }",
        "http-request deny unless { hdr(x-key) secret }",
        "http-request deny unless { ssl_c_verify 0 }",
        "http-request deny if { path_reg ^/(a|b) }",
        "http-request deny if UNKNOWN",
        "http-request deny if { src -f /etc/list }",
        "http-request set-src hdr(x-real-ip)\n http-request deny unless { src 10.0.0.1 }",
        "http-request auth unless { http_auth(missing) }",
        "http-request return status 403 if { hdr(x-key) secret }",
        "tcp-request content reject if { src_conn_rate gt 10 }",
        "use_backend b if { src 10.0.0.1 }",
        "use_backend b if { ssl_c_used }",
        "redirect location /login if !{ cook(session) -m found }",
        "reqideny ^Host:\\ evil",
        "reqrep ^GET\\ (.*) POST\\ \\1",
        "http-request lua.auth",
        "http-request replace-path /a(.*) /b\\1",
        ".if feature(X)\n http-request deny\n .endif",
        "http-response deny if { res.hdr(x) y }",
    ] {
        let text = front(&format!(" {rule}\n default_backend a"));
        assert!(draft(&text).contains(CLOSED), "{rule}\n{}", draft(&text));
    }
    // Only the guarded path is closed.
    let text = front(
        " http-request deny if { path_beg /admin } !{ hdr(x-key) secret }\n default_backend a",
    );
    assert_eq!(
        draft(&text),
        "[site.\":80\"]\nproxy = \"10.0.0.1:80\"\n\n[site.\":80\".path.\"/admin/*\"]\n".to_owned()
            + CLOSED
    );
    assert_eq!(verdict(&text, "http-request deny").0, 'n');
}

#[test]
fn paths_and_hosts_are_refused_with_certainty() {
    let text = front(
        " http-request deny if { path_beg /admin/ }\n http-request deny deny_status 404 unless { hdr(host) -i a.test }\n default_backend a",
    );
    assert_eq!(
        draft(&text),
        "[site.\"a.test:80\"]\nproxy = \"10.0.0.1:80\"\n\n[site.\"a.test:80\".path.\"/admin/*\"]\nrespond = 403\n\n\
         [site.\":80\"]\nrespond = 404\n\n[site.\":80\".path.\"/admin/*\"]\nrespond = 403"
    );
}

#[test]
fn passwords_are_asked_for() {
    let text = format!(
        "userlist u\n user x password $6$a$b\n user y insecure-password z\n{}",
        front(" http-request auth realm team unless { http_auth(u) }\n default_backend a")
    );
    assert!(
        draft(&text).ends_with("auth = { basic = \"/etc/lockgate/u.htpasswd\", realm = \"team\" }")
    );
    assert_eq!(verdict(&text, "user x").0, 'd');
    assert_eq!(verdict(&text, "user y").0, 'n');
    let report = read(&text).unwrap().report;
    assert!(
        report
            .lines()
            .all(|line| !line.text.contains("$6$") && !line.text.ends_with('z'))
    );
}

#[test]
fn rates_become_limits() {
    let text = front(
        " stick-table type ip size 1m expire 10s store http_req_rate(10s)\n http-request track-sc0 src\n \
         http-request deny deny_status 429 if { sc_http_req_rate(0) gt 20 }\n default_backend a",
    );
    assert!(draft(&text).ends_with("limit = { rate = \"2/s\", burst = 20 }"));
    assert_eq!(verdict(&text, "http-request deny").0, 'd');
    let text =
        front(" tcp-request connection reject if { src_conn_cur gt 10 }\n default_backend a");
    assert!(draft(&text).starts_with("limits = { per_client = 10 }"));
}

#[test]
fn fields_of_requests_and_responses() {
    let text = front(
        " option forwardfor\n http-request set-header X-Forwarded-Proto http\n http-request set-header X-Real-IP %[src]\n \
         http-request set-header X-Forwarded-Port %[dst_port]\n http-request set-header X-Z %[rand(3)]\n \
         http-response set-header X-Frame-Options DENY\n http-response del-header Server\n \
         http-response set-header X-Once 1\n http-response set-header X-Once 2 if { res.hdr(a) b }\n \
         http-response set-header X-Json {host}\n default_backend a",
    );
    assert_eq!(
        draft(&text),
        "[site.\":80\"]\nproxy = \"10.0.0.1:80\"\nheaders = { x-frame-options = \"DENY\", server = false }\n\
         request_headers = { x-real-ip = \"{client}\", x-forwarded-port = \"80\" }"
    );
    assert_eq!(verdict(&text, "option forwardfor").0, 'D');
    assert_eq!(
        verdict(&text, "http-request set-header X-Forwarded-Proto").0,
        'D'
    );
    for unknown in [
        "http-request set-header X-Z",
        "http-response set-header X-Once 1",
        "http-response set-header X-Json",
    ] {
        assert_eq!(verdict(&text, unknown).0, 'n', "{unknown}");
    }
}

#[test]
fn pools_have_balance_checks_and_cookies() {
    let text = format!(
        "{HTTP}frontend f\n bind :80\n default_backend p\nbackend p\n balance leastconn\n option httpchk GET /h\n \
         http-check expect status 200\n timeout check 1s\n timeout queue 9s\n default-server check inter 3s fall 2 rise 1\n \
         server a 10.0.0.1:80 weight 5 maxconn 9\n server b [::1]:80 backup\n server c 10.0.0.3:80 disabled\n"
    );
    assert_eq!(
        draft(&text),
        "[site.\":80\"]\nproxy = \"pool:p\"\n\n[pool.p]\n\
         endpoints = [{ addr = \"10.0.0.1:80\", weight = 5, max = 9 }, { addr = \"[::1]:80\", backup = true }]\n\
         balance = \"least\"\nhealth = { path = \"/h\", expect = [\"200\"], every = \"3s\", fall = 2, rise = 1 }\n\
         queue = { wait = \"9s\" }"
    );
    assert_eq!(verdict(&text, "server c").0, 'd');
    let balance = |line: &str| {
        let text = front(&format!(
            " default_backend p\nbackend p\n {line}\n server a 10.0.0.1:80\n server b 10.0.0.2:80\n"
        ));
        let draft = draft(&text);
        let found = draft
            .lines()
            .find_map(|line| line.strip_prefix("balance = "));
        (found.unwrap_or_default().to_owned(), verdict(&text, line).0)
    };
    for (line, value, code) in [
        ("balance roundrobin", "\"round-robin\"", 'C'),
        ("balance source", "{ hash = \"client\" }", 'C'),
        ("balance hdr(X-U)", "{ hash = \"header:x-u\" }", 'C'),
        ("balance random", "", 'D'),
        ("balance uri", "", 'n'),
        ("balance first", "", 'n'),
        ("cookie S insert indirect", "{ sticky = \"cookie:S\" }", 'C'),
        (
            "cookie JSESSIONID prefix",
            "{ sticky = \"cookie:lockgate_endpoint\" }",
            'd',
        ),
        ("stick on src", "{ hash = \"client\" }", 'd'),
    ] {
        assert_eq!(balance(line), (value.to_owned(), code), "{line}");
    }
}

#[test]
fn several_backups_and_equal_weights() {
    let text = format!(
        "{HTTP}listen l\n bind :80\n server a 10.0.0.1:80 weight 100\n server b 10.0.0.2:80 weight 100\n server c 10.0.0.3:80 backup weight 100\n server d 10.0.0.4:80 backup weight 100\n"
    );
    assert!(draft(&text).contains(
        "endpoints = [\"10.0.0.1:80\", \"10.0.0.2:80\", { addr = \"10.0.0.3:80\", backup = true }, { addr = \"10.0.0.4:80\", backup = true }]"
    ));
    assert_eq!(verdict(&text, "server c").0, 'd');
    assert_eq!(
        verdict(&format!("{text} option allbackups\n"), "server c").0,
        'C'
    );
}

#[test]
fn options_of_servers() {
    let server = |options: &str| {
        let text = format!("{HTTP}listen l\n bind :80\n server s 10.0.0.1:443 {options}\n");
        let draft = draft(&text);
        (
            draft.split_once("proxy = ").unwrap().1.to_owned(),
            verdict(&text, "server s").0,
        )
    };
    for (options, value, code) in [
        (
            "ssl verify required ca-file /etc/ca.pem",
            "{ to = \"10.0.0.1:443\", tls = { ca = \"/etc/ca.pem\" } }",
            'C',
        ),
        (
            "ssl verify none",
            "{ to = \"10.0.0.1:443\", tls = {} }",
            'd',
        ),
        (
            "ssl sni str(a.test)",
            "{ to = \"10.0.0.1:443\", tls = { name = \"a.test\" } }",
            'C',
        ),
        (
            "ssl sni req.hdr(host)",
            "{ to = \"10.0.0.1:443\", tls = {} }",
            'n',
        ),
        (
            "send-proxy-v2",
            "{ to = \"10.0.0.1:443\", proxy_protocol = \"v2\" }",
            'C',
        ),
        ("resolvers d init-addr none", "\"10.0.0.1:443\"", 'C'),
        ("agent-check", "\"10.0.0.1:443\"", 'n'),
        ("bogus", "\"10.0.0.1:443\"", 'n'),
    ] {
        assert_eq!(server(options), (value.to_owned(), code), "{options}");
    }
}

#[test]
fn fixed_answers() {
    let answer = |rule: &str| {
        let text = front(&format!(
            " http-request return {rule} if {{ path /x }}\n default_backend a"
        ));
        let draft = draft(&text);
        let found = draft
            .lines()
            .find_map(|line| line.strip_prefix("respond = "));
        (
            found.unwrap_or_default().to_owned(),
            verdict(&text, "http-request return").0,
        )
    };
    for (rule, value, code) in [
        ("status 204", "204", 'C'),
        (
            "status 200 content-type text/html string hi",
            "{ body = \"hi\", type = \"text/html\" }",
            'C',
        ),
        ("status 200 string hi hdr X y", "\"hi\"", 'd'),
        ("file /x status 200 hdr X y", "503", 'n'),
        ("status 200 lf-string %[src]", "503", 'n'),
        ("status 99", "503", 'n'),
    ] {
        assert_eq!(answer(rule), (value.to_owned(), code), "{rule}");
    }
}

#[test]
fn prefixes_are_taken_off() {
    for rule in [
        "http-request replace-path /api(/)?(.*) /\\2",
        "http-request replace-path ^/api/(.*) /\\1",
        "http-request set-path %[path,regsub(^/api/,/)]",
        "reqrep ^([^\\ :]*)\\ /api/(.*) \\1\\ /\\2",
    ] {
        let text = format!(
            "{HTTP}frontend f\n bind :80\n use_backend a if {{ path_beg /api/ }}\nbackend a\n {rule}\n server s 10.0.0.1:80\n"
        );
        assert_eq!(
            draft(&text),
            "[site.\":80\".path.\"/api/*\"]\nproxy = \"10.0.0.1:80\"\nstrip_prefix = true",
            "{rule}"
        );
        assert_eq!(
            verdict(&text, rule.split(' ').next().unwrap()).0,
            'C',
            "{rule}"
        );
    }
}

#[test]
fn statistics_are_the_live_page() {
    let open = "defaults\n mode http\nlisten s\n bind :8404\n stats enable\n stats uri /stats\n";
    assert!(draft(open).starts_with("metrics = \":8404\""));
    assert_eq!(verdict(open, "stats uri").0, 'd');
    let at_the_root = open.replace("/stats", "/");
    assert_eq!(verdict(&at_the_root, "stats uri").0, 'd');
    let guarded = format!("{open} stats auth a:b\n");
    assert!(draft(&guarded).starts_with("metrics = \"127.0.0.1:8404\""));
    assert_eq!(verdict(&guarded, "stats auth").0, 'd');
}

#[test]
fn global_settings() {
    let text = format!(
        "global\n user h\n group h\n daemon\n chroot /x\n nbthread 4\n maxconn 100\n log /dev/log local0\n log 127.0.0.1 local0\n \
         hard-stop-after 30s\n lua-load /x.lua\n tune.bufsize 1\n tune.bogus 1\n ssl-default-bind-options ssl-min-ver TLSv1.3\n bogus\n\
         {}",
        front(" bind :443 ssl crt-list /certs.txt\n default_backend a")
    );
    let draft = draft(&text);
    assert!(draft.starts_with(
        "user = \"h\"\nworkers = 4\ndrain = { deadline = \"30s\" }\nlimits = { connections = 100 }"
    ));
    assert!(draft.contains("[tls]\npolicy = \"modern\""));
    assert!(
        draft.contains(
            "tls = { certs = [\"/etc/a.pem\", \"/etc/b.pem\"], default = \"/etc/a.pem\" }"
        )
    );
    for (line, code) in [
        ("daemon", 'D'),
        ("chroot", 'n'),
        ("log /dev/log", 'D'),
        ("log 127", 'd'),
        ("lua-load", 'n'),
        ("tune.bufsize", 'D'),
        ("tune.bogus", 'n'),
        ("bogus", 'n'),
        ("nbthread", 'C'),
    ] {
        assert_eq!(verdict(&text, line).0, code, "{line}");
    }
}

#[test]
fn listeners() {
    let bind = |bind: &str| {
        let text = format!("{HTTP}listen l\n bind {bind}\n server s 10.0.0.1:80\n");
        (draft(&text), verdict(&text, "bind").0)
    };
    let proxy = "proxy = \"10.0.0.1:80\"";
    for (line, head, code) in [
        (
            "127.0.0.1:80",
            "[site.\":80\"]\nlisten = [\"127.0.0.1\"]\n",
            'C',
        ),
        ("/run/l.sock", "[site.\"unix:/run/l.sock\"]\n", 'C'),
        (
            ":443 ssl crt /a.pem verify required ca-file /ca.pem",
            "[site.\":443\"]\ntls = { cert = \"/a.pem\", client_auth = { ca = \"/ca.pem\" } }\n",
            'C',
        ),
        (
            ":443 ssl crt /a.pem ssl-min-ver TLSv1.3",
            "[site.\":443\"]\ntls = { cert = \"/a.pem\", policy = \"modern\" }\n",
            'C',
        ),
        (
            ":443 ssl crt /a.pem alpn http/1.1",
            "[site.\":443\"]\ntls = \"/a.pem\"\nprotocols = [\"http1\"]\n",
            'C',
        ),
        (":443 ssl", "[site.\":443\"]\ntls = \"internal\"\n", 'n'),
        (
            ":80 accept-proxy",
            "trusted = [\"192.0.2.1/32\"] # an example: write the addresses of the proxies that send PROXY headers\n\n[site.\":80\"]\naccept_proxy = \"require\"\n",
            'd',
        ),
    ] {
        assert_eq!(bind(line), (format!("{head}{proxy}"), code), "{line}");
    }
    let (draft, code) = bind(":443 ssl crt /a.pem verify required ca-file /ca.pem crl-file /c");
    assert!(draft.contains("deny = [\"0.0.0.0/0\", \"::/0\"]") && code == 'n');
    for left_out in [":80-90", "${BIND}", "abns@x", "fd@3", ":80 interface eth0"] {
        let (draft, code) = bind(left_out);
        assert!(
            draft.ends_with("respond = 503") && code == 'n',
            "{left_out}: {draft}"
        );
    }
}

#[test]
fn each_route_has_a_test() {
    let text = front(
        " use_backend b if { hdr(host) -i b.test } { path_beg /x }\n redirect location https://c.test/ code 301 if { path /c }\n default_backend a",
    );
    let mut imported = read(&text).unwrap();
    let tests: Vec<String> = imported
        .draft
        .top
        .take_list("test")
        .into_iter()
        .map(|test| {
            let draft = crate::Draft {
                top: test,
                ..crate::Draft::default()
            };
            draft.to_string()
        })
        .collect();
    assert!(tests.contains(&"request = \"GET http://b.test/x/any-path\"\nexpect = { site = \"b.test:80\", route = \"/x/*\" }\n".to_owned()), "{tests:?}");
    assert!(tests.contains(&"request = \"GET http://any.example/c\"\nexpect = { site = \":80\", route = \"/c\", status = 301, location = \"https://c.test/\" }\n".to_owned()));
    assert_eq!(tests.len(), 5);
}

#[test]
fn a_backend_without_a_time_has_not_that_of_other_defaults() {
    let text = "defaults\n mode http\n timeout connect 2s\n timeout server 10s\nfrontend f\n bind :80\n use_backend b if { path_beg /b/ }\n default_backend a\nbackend a\n server s 10.0.0.1:80\n\
                defaults\n mode http\nbackend b\n server s 10.0.0.2:80\n";
    let text = draft(text);
    let slow = "proxy = \"10.0.0.2:80\"\ntimeouts = { connect = \"5s\", response = \"off\" }";
    assert!(text.contains(slow), "{text}");
    let top = "timeouts = { connect = \"2s\", response = \"10s\" }\n\n[site.\":80\"]\nproxy = \"10.0.0.1:80\"\n\n";
    assert!(text.starts_with(top), "{text}");
}

#[test]
fn conditions_after_a_normalizer_see_the_same_path() {
    let text = front(
        " http-request normalize-uri path-merge-slashes\n http-request deny if { path_beg /admin/ }\n default_backend a",
    );
    let found = draft(&text);
    let closed = "[site.\":80\".path.\"/admin/*\"]\nrespond = 403";
    assert!(found.contains(closed), "{found}");
    let because = verdict(&text, "http-request normalize-uri").1;
    assert!(because.starts_with("routes are chosen by the normalized path"));
}
