//! What users see when they make mistakes.

use std::path::Path;

use lockgate_config::{Code, Color, Environment, LoadedConfig, Report, Severity, parse_str_in};

const SITE: &str = "[site.\"example.com\"]\ntls = false\nproxy = \"127.0.0.1:3000\"\n";
const LISTENER: &str = "[tcp.\":1\"]\nproxy = \"127.0.0.1:3000\"\n";

fn read(text: &str, env: &Environment) -> Result<LoadedConfig, Report> {
    parse_str_in(text, Path::new("lockgate.toml"), env)
}

/// What is said about a text, whether it can run or not.
fn report_in(text: &str, env: &Environment) -> Report {
    match read(text, env) {
        Ok(loaded) => loaded.warnings,
        Err(report) => report,
    }
}

fn report(text: &str) -> Report {
    report_in(text, &Environment::none())
}

/// `code`, `line:column`, the text under the caret.
fn found(report: &Report, text: &str) -> Vec<(String, String)> {
    let json = report.to_json();
    let under = |one: &serde_json::Value| {
        let line = one["line"].as_u64().map_or("", |line| {
            text.lines().nth(line as usize - 1).unwrap_or_default()
        });
        let from = one["column"].as_u64().unwrap_or(1) as usize - 1;
        let to = one["end_column"].as_u64().unwrap_or(1) as usize - 1;
        let same = one["line"] == one["end_line"];
        line.chars()
            .skip(from)
            .take(if same { to - from } else { usize::MAX })
            .collect::<String>()
    };
    let all = json["diagnostics"].as_array().into_iter().flatten();
    all.map(|one| {
        (
            one["code"].as_str().unwrap_or_default().to_owned(),
            under(one),
        )
    })
    .collect()
}

#[test]
fn fifteen_mistakes_are_told_at_once() {
    let env = Environment::none().with_file("/sites/shop.toml", "[tls]\npolicy = \"modern\"\n");
    let rendered = report_in(include_str!("golden/mistakes.toml"), &env).render(Color::Never);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/mistakes.txt");
    if std::env::var_os("LOCKGATE_WRITE_DOCS").is_some() {
        std::fs::write(&path, &rendered).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(rendered == golden, "{rendered}");
}

/// Each line: a text, then the code, the text under the caret and a part of the cure of its only
/// mistake.
#[test]
fn every_mistake_has_its_code_its_place_and_its_cure() {
    let tls = |inner: &str| format!("[tcp.\":1\"]\nproxy = \"127.0.0.1:1\"\ntls = {inner}\n");
    let tcp = |lines: &str| format!("[tcp.\":1\"]\n{lines}\n");
    let beside = |lines: &str, more: &str| {
        format!(
            "trusted = [\"10.0.0.0/8\"]\n[tls]\ncerts = [\"/a.pem\"]\n\
             [site.\"example.com\"]\nrespond = 404\n{more}[tcp.\":443\"]\n{lines}\n"
        )
    };
    let proxy = |value: &str| format!("[tcp.\":1\"]\nproxy = {value}\n");
    let top = |line: &str| format!("{line}\n{LISTENER}");
    let site = |line: &str| format!("{SITE}{line}\n");
    let key = |key: &str| format!("[site.\"{key}\"]\nrespond = 404\n{LISTENER}");
    let path = |path: &str, lines: &str| {
        format!("{SITE}[site.\"example.com\".path.\"{path}\"]\n{lines}\n")
    };
    let tunnel = |line: &str| format!("[tunnel.\":1\"]\n{line}\n");
    let pool = |line: &str| {
        format!("[tcp.\":1\"]\nproxy = \"pool:app\"\n[pool.app]\nendpoints = [\"a.b:1\"]\n{line}\n")
    };
    let http = |pool: &str| {
        format!(
            "[site.\":1\"]\nproxy = \"pool:app\"\n[pool.app]\nendpoints = [\"a.b:1\"]\n{pool}\n"
        )
    };
    let over_tls = |line: &str| format!("[site.\":1\"]\nrespond = 404\ntls = \"/a.pem\"\n{line}\n");
    let http2 =
        |line: &str| format!("http2 = {line}\n[site.\"a.b\"]\nrespond = 404\ntls = \"/a.pem\"\n");
    let files = |lines: &str| format!("[site.\":1\"]\nroot = \"/srv\"\n{lines}\n");
    let edit = |rule: &str| format!("{SITE}rewrite_body = [{rule}]\n");
    let value = |lines: &str| format!("[values.app]\n{lines}\n{SITE}");
    let table: Vec<(String, &str, &str, &str)> = vec![
        (top("workers = 1\nworkers = 2"), "E0002", "workers", "keep one"),
        (format!("{LISTENER}{LISTENER}"), "E0002", "\":1\"", "keep one"),
        (tls("{ cert = \"/a\", cert = \"/b\" }"), "E0002", "cert", "keep one"),
        (top("include = [\"gone.toml\"]"), "E0003", "\"gone.toml\"", "correct the path"),
        (top("include = [\"lockgate.toml\"]"), "E0004", "\"lockgate.toml\"", "remove one"),
        (top("wrokers = 1"), "E0010", "wrokers", "did you mean `workers`?"),
        (top("worker_processes = 1"), "E0010", "worker_processes", "workers = 4"),
        (top("policy = \"modern\""), "E0010", "policy", "it belongs in [tls]"),
        (top("[tls]\nalpn = [\"h2\"]"), "E0010", "alpn", "`tls` of [tcp.\"ADDR\"]"),
        (top("banana = 1"), "E0010", "banana", "docs/config.md lists the keys at the top"),
        (format!("{LISTENER}location = \"/\"\n"), "E0010", "location", "no paths"),
        (site("serveralias = [\"a.b\"]"), "E0010", "serveralias", "alias = "),
        (path("/x", "polcy = 1"), "E0010", "polcy", "docs/config.md lists the keys in [site.\"HOST\".path.\"PATH\"]"),
        (tls("{ pem-file = \"/a\", cert = \"/a\" }"), "E0010", "pem-file", "write cert = "),
        (tunnel("allow = [\"*\"]"), "E0046", "\"*\"", "\"*:443\""),
        (tunnel("allow = [\":443\"]"), "E0046", "\":443\"", "\"*:443\""),
        (tunnel("deny = [\"http://a.test/\"]"), "E0046", "\"http://a.test/\"", "\"a.test:80\""),
        (tunnel("deny = [\"a.test/x\"]"), "E0046", "\"a.test/x\"", "\"a.test:443\""),
        (tunnel("allow = [\"10.0.0.1/8:22\"]"), "E0046", "\"10.0.0.1/8:22\"", "\"10.0.0.0/8\""),
        (tunnel("allow = [\"a:1:2:3\"]"), "E0046", "\"a:1:2:3\"", "[2001:db8::/32]:443"),
        (tunnel("allow = []"), "E0014", "[]", "at least one"),
        (tunnel("clients = [\"a.test\"]"), "E0017", "\"a.test\"", "10.0.0.0/8"),
        (tunnel("clients = [\"0.0.0.0/0\"]"), "W0006", "\"0.0.0.0/0\"", "add auth"),
        (tunnel("max_per_user = 3"), "W0003", "3", "add auth"),
        (tunnel("protocols = [\"h2\"]"), "E0044", "\"h2\"", "h2c"),
        (tunnel("accept_proxy = \"require\""), "E0025", "\"require\"", "trusted"),
        (format!("{LISTENER}[tunnel.\":1\"]\n"), "E0022", "\":1\"", "another port"),
        ("[site.\":1\"]\nproxy_pass = \"a.b:1\"\n".into(), "E0010", "proxy_pass", "proxy = "),
        (site("auth = { forward = \"http://a.b/verify\" }"), "E0016", "\"http://a.b/verify\"", "write \"a.b:80\""),
        (site("auth = { forward = \"a.b:1/verify\" }"), "E0016", "\"a.b:1/verify\"", "without the path"),
        (site("auth = { forward = \"pool:gone\" }"), "E0038", "\"pool:gone\"", "[pool.gone]"),
        (site("auth = { forward = \"a.b:1\", basic = \"/u\" }"), "E0019", "basic", "keep one"),
        (site("auth = { copy = [\"x-user\"] }"), "E0020", "{ copy = [\"x-user\"] }", "forward = "),
        (site("auth = { forward = \"a.b:1\", path = \"verify\" }"), "E0035", "\"verify\"", "for example"),
        (site("auth = { forward = \"a.b:1\", copy = [\"a b\"] }"), "E0039", "\"a b\"", "remote-user"),
        (site("auth = { forward = \"a.b:1\", copy = [\"Host\"] }"), "E0039", "\"Host\"", "remote-user"),
        (site("auth = { forward = \"a.b:1\", copy = [\"X_Forwarded_For\"] }"), "E0039", "\"X_Forwarded_For\"", "remote-user"),
        (site("auth = { forward = \"a.b:1\", copy = [\"content_length\"] }"), "E0039", "\"content_length\"", "remote-user"),
        (site("auth_request = \"/verify\""), "E0010", "auth_request", "auth = { forward = "),
        (site("auth = { forward = \"a.b:1\", copy_headers = [\"x-user\"] }"), "E0010", "copy_headers", "copy = "),
        ("[site.\":1\"]\nredirect = { to = \"/\", map = \"/m\" }\n".into(), "E0010", "map", "redirects = "),
        (site("redirects = \"/gone\""), "E0003", "\"/gone\"", "correct the path"),
        ("[site.\"a.b\"]\nrespond = 404\ntls = \"auto\"\n".into(), "E0015", "\"auto\"", "add [acme]"),
        (pool("protocol = \"h3\""), "E0011", "\"h3\"", "\"h2c\" without TLS"),
        (pool("health = { tcp = true, path = \"/\" }"), "E0019", "\"/\"", "remove `path`, or `tcp`"),
        (pool("health = { send = \"x\", body = \"y\" }"), "E0019", "\"y\"", "remove `body`, or `send`"),
        (pool("health = { tcp = true, send = \"\" }"), "E0018", "\"\"", "expect is enough"),
        (pool("health = { tcp = true, expect = \"\" }"), "E0018", "\"\"", "the expected text"),
        (pool("health = { tcp = true, expect = [\"200\"] }"), "E0012", "[\"200\"]", "one text"),
        (pool("health = { path = \"/\", expect = \"PONG\" }"), "E0018", "\"PONG\"", "200-399"),
        (pool("tcp_check = true"), "E0010", "tcp_check", "tcp = true"),
        (pool("balance = { hash = \"header:x-user\" }"), "E0044", "\"pool:app\"", "hash = \"client\""),
        (pool("balance = { hash = \"cookie:id\" }"), "E0044", "\"pool:app\"", "\"sni\""),
        (pool("balance = { hash = \"source\" }"), "E0015", "\"source\"", "\"client\""),
        (pool("balance = { hash = \"cookie:a b\" }"), "E0015", "\"cookie:a b\"", "\"cookie:id\""),
        (pool("balance = {}"), "E0020", "{}", "sticky = "),
        (pool("balance = { sticky = \"cookie:lg\" }"), "E0044", "\"pool:app\"", "hash = \"client\""),
        (http("balance = { sticky = \"client\" }"), "E0015", "\"client\"", "hash = \"client\""),
        (http("balance = { sticky = \"lg\" }"), "E0015", "\"lg\"", "\"cookie:lg\""),
        (http("balance = { hash = \"client\", sticky = \"cookie:lg\" }"), "E0019", "\"cookie:lg\"", "keep one"),
        (http("balance = { sticky = \"tls-session\" }"), "E0044", "app", "sticky = \"cookie:lg\""),
        (pool("balance = { sticky = \"tls\" }"), "E0015", "\"tls\"", "\"tls-session\""),
        (http("session_affinity = true"), "E0010", "session_affinity", "sticky = \"cookie:lg\""),
        (pool("balance = \"leastconn\""), "E0015", "\"leastconn\"", "did you mean \"least\"?"),
        (pool("balance = \"hash\""), "E0015", "\"hash\"", "hash = \"client\""),
        (pool("ip_hash = true"), "E0010", "ip_hash", "hash = \"client\""),
        (pool("eject = { errors = 0 }"), "E0014", "0", "from 1 to 100"),
        (pool("eject = { statuses = [\"404\"] }"), "E0018", "\"404\"", "\"502-504\""),
        (pool("eject = true"), "E0012", "true", "errors = "),
        (pool("max_fails = 3"), "E0010", "max_fails", "eject = {"),
        (pool("slowstart = 30"), "E0010", "slowstart", "slow_start = "),
        (proxy("[{ addr = \"10.0.0.1:1\", backup = true }]"), "W0003", "\"10.0.0.1:1\"", "used first"),
        (proxy("\"srv:_a._tcp.b:80\""), "E0016", "\"srv:_a._tcp.b:80\"", "write \"srv:_app"),
        (proxy("{ to = \"srv:_a._tcp.b\", tls = {} }"), "E0030", "{}", "tls = { name"),
        (top("dns = { servers = [\"ns.example:53\"] }"), "E0016", "\"ns.example:53\"", "10.0.0.53:53"),
        (top("dns = { servers = [] }"), "E0014", "[]", "at least one"),
        (top("resolver = \"10.0.0.1\""), "E0010", "resolver", "dns = { servers"),
        (tcp("proxy = \"a.b:1\"\nsni.\"a.b\" = \"a.b:1\""), "E0019", "proxy", "move it to `default`"),
        (tcp("tls = {}\nsni.\"a.b\" = \"a.b:1\""), "E0019", "tls", "in the entries"),
        (tcp("sni = {}"), "E0020", "{}", "sni.\"mail.example.com\""),
        (tcp("sni.\"a.b\" = { tls = \"/a.pem\" }"), "E0020", "{ tls = \"/a.pem\" }", "add proxy"),
        (tcp("sni.\"a.b\" = { proxy = \"a.b:1\", tsl = {} }"), "E0010", "tsl", "did you mean `tls`"),
        (tcp("sni.\"10.0.0.1\" = \"a.b:1\""), "E0033", "\"10.0.0.1\"", "as `default`"),
        (tcp("sni.\"*\" = \"a.b:1\""), "E0033", "\"*\"", "default = "),
        (tcp("sni.\"a.b:443\" = \"a.b:1\""), "E0033", "\"a.b:443\"", "write \"a.b\""),
        (tcp("sni.\"a.b\" = \"a.b:1\"\nsni.\"a.b.\" = \"a.b:1\""), "E0034", "\"a.b.\"", "keep one"),
        (tcp("sni.\"a.b\" = \"a.b:1\"\nsni.\"A.b\" = \"a.b:1\""), "E0002", "\"a.b\"", ""),
        (tcp("alpn.\"a b\" = \"a.b:1\""), "E0018", "\"a b\"", "acme-tls/1"),
        (tcp("default = \"pool:x\""), "E0038", "\"pool:x\"", "[pool.x]"),
        (tcp("ssl_preread = true"), "E0010", "ssl_preread", "sni.\"mail.example.com\""),
        (tcp("proxy = \"a.b:1\"\nproxy_protocol = \"pass\""), "E0020", "\"pass\"", "accept_proxy = "),
        (tcp("sni.\"a.b\" = { proxy = \"a.b:1\", proxy_protocol = \"pass\" }"), "E0020", "\"pass\"", "accept_proxy = "),
        (beside("sni.\"example.com\" = \"a.b:1\"", ""), "E0034", "\"example.com\"", "keep one of them"),
        (beside("default = \"a.b:1\"", "[site.\":443\"]\ntls = \"/a.pem\"\nrespond = 404\n"), "E0034", "default", "keep one"),
        (beside("proxy = \"a.b:1\"", ""), "E0022", "\":443\"", "another port"),
        (beside("sni.\"a.b\" = \"a.b:1\"\naccept_proxy = \"require\"", ""), "E0042", "\":443\"", "the same accept_proxy"),
        (files("try = []"), "E0014", "[]", "at least one"),
        (files("index = \"a.html\""), "E0012", "\"a.html\"", "write [\"a.html\"]"),
        (files("index = [\"a/b.html\"]"), "E0018", "\"a/b.html\"", "\"index.html\""),
        (files("index = [\"..\"]"), "E0018", "\"..\"", "\"index.html\""),
        (files("spa = \"app.html\""), "E0035", "\"app.html\"", "\"/404.html\""),
        (files("spa = \"/../app.html\""), "E0035", "\"/../app.html\"", "\"/404.html\""),
        (files("not_found = \"/errors/\""), "E0035", "\"/errors/\"", "\"/404.html\""),
        (files("try = [\"{path}\", \"=404\"]"), "E0035", "\"=404\"", "remove it"),
        (files("try = [\"$uri\"]"), "E0035", "\"$uri\"", "{path}.html"),
        (files("try = [\"{path}/../x\"]"), "E0035", "\"{path}/../x\"", "{path}.html"),
        (files("try = [\"/{host}{path}\"]"), "E0040", "\"/{host}{path}\"", "write {*}, {path}"),
        (files("try = [\"{path}\"]\nspa = true"), "E0019", "true", "keep one"),
        (files("types = { wasm = \"a/b\" }"), "E0035", "wasm", "\".wasm\""),
        (files("types = { \".tar.gz\" = \"a/b\" }"), "E0035", "\".tar.gz\"", "\".wasm\""),
        (files("types = { \"/x/{id}\" = \"a/b\" }"), "E0035", "\"/x/{id}\"", "\"/feed/*\""),
        (files("types = { \".wasm\" = \"wasm\" }"), "E0018", "\"wasm\"", "\"text/html\""),
        (files("charset = \"utf 8\""), "E0018", "\"utf 8\"", "\"utf-8\""),
        (files("symlinks = \"on\""), "E0015", "\"on\"", "\"inside\" or \"follow\""),
        (files("respond = 404"), "E0036", "respond", "keep one"),
        (files("try_files = [\"$uri\"]"), "E0010", "try_files", "spa = true"),
        (files("autoindex = true"), "E0010", "autoindex", "listing = true"),
        (files("open_file_cache = \"on\""), "E0010", "open_file_cache", "remove it"),
        ("[site.\":1\"]\nfile_server = \"/srv\"\n".into(), "E0010", "file_server", "root = \"/srv/www\""),
        (site("cache = \"max-age=60\""), "E0018", "\"max-age=60\"", "write \"1m\""),
        (site("cache = \"1h private public\""), "E0018", "\"1h private public\"", "\"1y immutable\""),
        (site("cache = 60"), "E0012", "60", "\"*\""),
        (site("cache = { css = \"1h\" }"), "E0035", "css", "\"text/css\""),
        (site("cache = { \"/x/{id}\" = \"1h\" }"), "E0035", "\"/x/{id}\"", "\"/assets/*\""),
        (site("compress = { codings = [\"deflate\"] }"), "E0015", "\"deflate\"", "\"gzip\""),
        (site("compress = { types = [\"html\"] }"), "E0018", "\"html\"", "\"text/*\""),
        (site("compress = { level = { zstd = 22 } }"), "E0014", "22", "from 1 to 19"),
        (site("compress = { min = 1000 }"), "E0013", "1000", "\"1000B\""),
        (site("cors = \"app.example.com\""), "E0018", "\"app.example.com\"", "\"https://app.example.com\""),
        (site("cors = \"https://a.b/x\""), "E0018", "\"https://a.b/x\"", "\"https://*.example.com\""),
        (site("cors = [\"null\"]"), "E0018", "\"null\"", "\"https://*.example.com\""),
        (site("cors = { origins = \"*\", credentials = true }"), "E0019", "true", "name the origins"),
        (site("cors = { methods = [\"GET\"] }"), "E0020", "{ methods = [\"GET\"] }", "add origins"),
        (site("headers = { secure = \"yes\" }"), "E0012", "\"yes\"", "true"),
        (site("headers = { secure = { hsts = \"1w\" } }"), "E0013", "\"1w\"", "\"1y\""),
        (site("headers = { secure = { hsts = \"1y\" } }"), "W0003", "\"1y\"", "remove it"),
        (path("/x", "redirect = \"/y\"\ncompress = true"), "W0003", "compress", "root"),
        (site("gzip = \"on\""), "E0010", "gzip", "compress = true"),
        (site("encode = \"zstd gzip\""), "E0010", "encode", "compress = true"),
        (site("expires = \"1h\""), "E0010", "expires", "cache = {"),
        (site("hsts = true"), "E0010", "hsts", "secure = true"),
        (edit("{ text = \"a\" }"), "E0020", "{ text = \"a\" }", "add with"),
        (edit("{ with = \"a\" }"), "E0020", "{ with = \"a\" }", "{ text = "),
        (edit("{ text = \"\", with = \"a\" }"), "E0018", "\"\"", "{ text = "),
        (edit("{ text = \"a\", regex = \"a\", with = \"b\" }"), "E0019", "regex", "two rules"),
        (edit("{ select = \"p\" }"), "E0020", "{ select = \"p\" }", "append"),
        (edit("{ select = \"p\", remove = false }"), "E0020", "{ select = \"p\", remove = false }", "append"),
        (edit("{ select = \"p\", with = \"a\" }"), "E0019", "with", "append"),
        (edit("{ text = \"p\", append = \"a\" }"), "E0019", "append", "{ select ="),
        (edit("{ select = \"p\", append = \"a\", after = \"b\" }"), "E0019", "after", "two rules"),
        (edit("{ select = \"p\", set = {} }"), "E0020", "{}", "class"),
        (edit("{ select = \"p\", set = { \"a b\" = \"c\" } }"), "E0018", "\"a b\"", "data-id"),
        (edit("{ text = \"a\", with = \"{value:gone}\" }"), "E0040", "\"{value:gone}\"", "[values.NAME]"),
        (edit("{ text = \"a\", with = \"{clinet}\" }"), "W0004", "\"{clinet}\"", "{client}, {scheme}"),
        (edit("{ text = \"a\", with = \"${w}\" }"), "W0004", "\"${w}\"", "${env:w}"),
        (edit("{ regex = \"a\", with = \"${w} {clinet}\" }"), "W0004", "\"${w} {clinet}\"", "{client}, {scheme}"),
        (edit("{ text = \"a\", wiht = \"b\" }"), "E0010", "wiht", "did you mean `with`?"),
        (site("rewrite_body = { rules = [{ text = \"a\", with = \"b\" }], max = 9 }"), "E0013", "9", "\"9KB\""),
        (
            site("rewrite_body = { rules = [{ select = \"p\", remove = true }], types = [\"application/json\"] }"),
            "W0003",
            "\"p\"",
            "text/html",
        ),
        (path("/x", "redirect = \"/y\"\ncache = \"1h\""), "W0003", "cache", "root"),
        (value("every = \"1s\""), "E0020", "app", "add file = "),
        (value("file = \"/a\"\nurl = \"http://a/\""), "E0019", "\"http://a/\"", "keep one"),
        (value("file = \"/a\"\nevery = \"10ms\""), "E0014", "\"10ms\"", "at least \"1s\""),
        (value("url = \"https://a.b/\""), "E0016", "\"https://a.b/\"", "http://127.0.0.1"),
        (value("url = \"http://a b/\""), "E0016", "\"http://a b/\"", "http://127.0.0.1"),
        (value("file = \"/a\""), "W0003", "app", "{value:app}"),
        (path("/x", "redirect = \"/y\"\nrewrite_body = []").replace("[]", "false"), "W0003", "rewrite_body", "root"),
        (site("sub_filter = \"a b\""), "E0010", "sub_filter", "rewrite_body = ["),
        (
            format!("access_log = \"/a\"\n{SITE}access_log = \"combined:/a\"\n"),
            "E0042",
            "\"combined:/a\"",
            "a file of its own",
        ),
        (top("user = 1"), "E0012", "1", "for example \"lockgate\""),
        (top("access_log = true"), "E0012", "true", "access.log"),
        (top("trusted = \"10.0.0.0/8\""), "E0012", "\"10.0.0.0/8\"", "write [\"10.0.0.0/8\"]"),
        (top("socket = { fast_open = \"true\" }"), "E0012", "\"true\"", "without quotes"),
        (tls("true"), "E0012", "true", "cert"),
        ("[[tcp]]\nproxy = \"127.0.0.1:1\"\n".into(), "E0012", "[[tcp]]", "single brackets"),
        ("[tcp]\nproxy = \"127.0.0.1:1\"\n".into(), "E0012", "proxy", "[tcp.\":8443\"]"),
        ("[site]\nproxy = \"127.0.0.1:1\"\n".into(), "E0012", "proxy", "[site.\"example.com:8080\"]"),
        (site("path.respond = 404"), "E0012", "respond", "[site.\"example.com\".path.\"/api/*\"]"),
        (top("limits = { handshakes = \"64\" }"), "E0012", "\"64\"", "write 64 without quotes"),
        (top("drain = { delay = 5 }"), "E0013", "5", "\"5s\" for seconds, \"5ms\""),
        (top("drain = { delay = \"5\" }"), "E0013", "\"5\"", "\"5s\" for seconds"),
        (top("drain = { delay = \"5sec\" }"), "E0013", "\"5sec\"", "write \"5s\""),
        (top("drain = { delay = \"1.5s\" }"), "E0013", "\"1.5s\"", "write \"1500ms\""),
        (
            top("access_log = { to = \"./a\", rotate = { size = 100 } }"),
            "E0013",
            "100",
            "\"100KB\" (times 1,000 bytes)",
        ),
        (top("rates = { min_in = 1 }\n[site.\":2\"]\nrespond = 404"), "E0013", "1", "\"1KB/s\""),
        (site("body = { min_rate = \"1KB\" }"), "E0013", "\"1KB\"", "\"1KB/s\""),
        (pool("idle = { lifetime = 3600 }"), "E0013", "3600", "write \"3600s\""),
        (pool("idle = { lifetime = \"0s\" }"), "E0012", "\"0s\"", "\"off\""),
        (pool("idle = { lifetime = false }"), "E0012", "false", "\"off\""),
        (pool("retry = { budget = \"20\" }"), "E0013", "\"20\"", "\"20%\""),
        (pool("retry = { budget = \"120%\" }"), "E0014", "\"120%\"", "\"100%\""),
        (site("limit = { rate = \"20/sec\" }"), "E0013", "\"20/sec\"", "write \"20/s\""),
        (site("error_pages = { 200 = \"/a\" }"), "E0014", "200", "400 to 599"),
        ("[site.\":1\"]\nredirect = { to = \"/a\", status = 305 }\n".into(), "E0014", "305", "301, 302"),
        (proxy("[{ addr = \"10.0.0.1:1\", weight = 257 }]"), "E0014", "257", "from 1 to 256"),
        (top("workers = 0"), "E0014", "0", "from 1 to 1024"),
        (top("workers = -1"), "E0014", "-1", "from 1 to 1024"),
        (top("workers = 99999999999999999999"), "E0014", "99999999999999999999", "from 1 to 1024"),
        (top("timeouts = { connect = \"0s\" }"), "E0014", "\"0s\"", "at least \"1ms\""),
        (proxy("[]"), "E0014", "[]", "at least one"),
        (top("workers = \"atuo\""), "E0015", "\"atuo\"", "did you mean \"auto\"?"),
        (top("workers = \"4\""), "E0015", "\"4\"", "write 4 without quotes"),
        (top("log = \"verbose\""), "E0015", "\"verbose\"", "\"error\" or \"warn\""),
        (top("access_log = \"stdot\""), "E0015", "\"stdot\"", "did you mean \"stdout\"?"),
        (tls("{ cert = \"/a\", policy = \"old\" }"), "E0015", "\"old\"", "\"intermediate\""),
        (tls("{ cert = \"/a\", policy = { groups = [\"P-256\"] } }"), "E0015", "\"P-256\"", "secp256r1"),
        ("[tcp.\"8443\"]\nproxy = \"127.0.0.1:1\"\n".into(), "E0016", "\"8443\"", "write \":8443\""),
        (
            "[tcp.\"localhost:1\"]\nproxy = \"127.0.0.1:1\"\n".into(),
            "E0016",
            "\"localhost:1\"",
            "\"127.0.0.1:1\"",
        ),
        ("[tcp.\"*:1\"]\nproxy = \"127.0.0.1:1\"\n".into(), "E0016", "\"*:1\"", "write \":1\""),
        (top("metrics = \"9090\""), "E0016", "\"9090\"", "write \":9090\""),
        (
            top("metrics = { at = \":9090\", hosts = [\"a.example:9090\"] }"),
            "E0018",
            "\"a.example:9090\"",
            "for example \"app.internal\"",
        ),
        (proxy("\"https://a.b/x\""), "E0016", "\"https://a.b/x\"", "{ to = \"a.b:443\", tls = {} }"),
        (
            "[site.\":1\"]\nproxy = \"h2c://a.b:50051\"\n".into(),
            "E0016",
            "\"h2c://a.b:50051\"",
            "{ to = \"a.b:50051\", protocol = \"h2c\" }",
        ),
        (
            "[site.\":1\"]\nproxy = \"grpcs://a.b\"\n".into(),
            "E0016",
            "\"grpcs://a.b\"",
            "{ to = \"a.b:443\", protocol = \"h2\", tls = {} }",
        ),
        (proxy("\"10.0.0.1:80/x\""), "E0016", "\"10.0.0.1:80/x\"", "\"10.0.0.1:80\", without"),
        (proxy("\"/run/app.sock\""), "E0016", "\"/run/app.sock\"", "\"unix:/run/app.sock\""),
        (proxy("\"app\""), "E0016", "\"app\"", "\"app:3000\""),
        (proxy("\":3000\""), "E0016", "\":3000\"", "\"127.0.0.1:3000\""),
        (top("trusted = [\"10.0.0.1/8\"]"), "E0017", "\"10.0.0.1/8\"", "\"10.0.0.0/8\" for the network"),
        (top("trusted = [\"example.com\"]"), "E0017", "\"example.com\"", "one address"),
        (top("user = \"\""), "E0018", "\"\"", ""),
        (format!("{LISTENER}[pool.\"a b\"]\nendpoints = [\"a.b:1\"]\n"), "E0018", "\"a b\"", "`app`"),
        (pool("health = { path = \"/\", expect = \"2xx\" }"), "E0018", "\"2xx\"", "200-399"),
        (pool("health = { path = \"/\", method = \"get\" }"), "E0018", "\"get\"", "\"GET\""),
        (site("listen = [\"localhost\"]"), "E0016", "\"localhost\"", "127.0.0.1"),
        ("[site.\"unix:/a\"]\nrespond = 404\nlisten = [\"::\"]\n".into(), "E0019", "[\"::\"]", "remove it"),
        (path("/x/*", "strip_prefix = true\nrewrite = \"/{*}\""), "E0019", "\"/{*}\"", "keep one"),
        ("[site.\":1\"]\nrespond = { status = 204, body = \"x\" }\n".into(), "E0019", "\"x\"", "remove the body"),
        (pool("health = { expect = \"200\" }"), "E0020", "\"200\"", "add path"),
        (top("state = \"~/state\""), "E0018", "\"~/state\"", "write a path"),
        (
            tls("{ cert = \"/a\", tickets = { keys = \"/k\", keep = 2 } }"),
            "E0019",
            "2",
            "remove one of the two",
        ),
        ("[tcp.\":1\"]\n".into(), "E0020", "\":1\"", "add proxy = "),
        (tls("{ certs = [\"/a\"], key = \"/k\" }"), "E0020", "\"/k\"", "add cert"),
        (tls("{ cert = \"/a\", client_auth = {} }"), "E0020", "{}", "add ca"),
        (
            format!("{LISTENER}[tcp.\"[::]:1\"]\nproxy = \"127.0.0.1:1\"\n"),
            "E0022",
            "\"[::]:1\"",
            "another port",
        ),
        (
            "[tcp.\":1\"]\nproxy = [{ addr = \"a.b:1\", max = 7 }]\n[tcp.\":2\"]\nproxy = [{ addr = \"a.b:1\", max = 8 }]\n".into(),
            "E0032",
            "\"a.b:1\"",
            "7 and 8",
        ),
        (top("admin = \":9090\""), "E0016", "\":9090\"", "unix:/run/lockgate/admin.sock"),
        (top("admin = \"/run/a.sock\""), "E0016", "\"/run/a.sock\"", "write \"unix:/run/a.sock\""),
        (top("admin = { mode = 660 }"), "E0012", "660", "\"0660\""),
        (top("admin = { mode = \"0466\" }"), "E0018", "\"0466\"", "\"0600\""),
        (top("admin = { mode = \"1777\" }"), "E0018", "\"1777\"", "\"0600\""),
        (top("admin = { mode = \"rw\" }"), "E0018", "\"rw\"", "\"0600\""),
        (top("stats_socket = \"/run/a.sock\""), "E0010", "stats_socket", "write admin = "),
        (
            "admin = \"unix:/a\"\n[tcp.\"unix:/a\"]\nproxy = \"127.0.0.1:1\"\n".into(),
            "E0022",
            "\"unix:/a\"",
            "another port",
        ),
        (top("metrics = \":1\""), "E0022", "\":1\"", "another port"),
        (top("[site.\":1\"]\nrespond = 404"), "E0022", "\":1\"", "another port"),
        (top("ports = { http = 81, https = 81 }\n[site.\":2\"]\nrespond = 1").replace("respond = 1", "respond = 404"), "E0022", "{ http = 81, https = 81 }", "two ports"),
        (format!("{SITE}[site.\"a.b:80\"]\nrespond = 404\ntls = \"/a.pem\"\n"), "E0022", "\"a.b:80\"", "tls in both"),
        (String::new(), "E0023", "", "[acme]\n[site.\"app.example.com\"]\n"),
        ("workers = 2\n".into(), "E0023", "", "proxy = \"127.0.0.1:3000\""),
        (tls("{}"), "E0024", "{}", "tls = { cert"),
        ("[site.\"a.b\"]\nrespond = 404\n".into(), "E0024", "\"a.b\"", "tls = { cert"),
        ("[acme]\n[site.\"box.lan\"]\nrespond = 404\n".into(), "E0047", "\"box.lan\"", "write tls = \"internal\""),
        ("state = false\n[acme]\n[site.\"a.b\"]\nrespond = 404\n".into(), "E0048", "false", "write state = "),
        (format!("{LISTENER}accept_proxy = \"optional\"\n"), "E0025", "\"optional\"", "trusted = "),
        (top("user = \"${env:NOBODY}\""), "E0026", "\"${env:NOBODY}\"", "set it"),
        (top("user = \"${file:gone}\""), "E0027", "\"${file:gone}\"", "a relative path"),
        (top("user = \"${env:NOBODY\""), "E0028", "\"${env:NOBODY\"", "${env:NAME}"),
        (
            tls("{ cert = \"/a\", policy = { suites = [\"TLS_AES_128_GCM_SHA256\"] } }"),
            "E0029",
            "[\"TLS_AES_128_GCM_SHA256\"]",
            "leave \"1.2\" out",
        ),
        (proxy("{ to = \"unix:/a\", tls = {} }"), "E0030", "{}", "name = "),
        (top("access_log = { rotate = {} }"), "E0031", "{}", "give `to` a file"),
        (key("https://a.b"), "E0033", "\"https://a.b\"", "write \"a.b\""),
        (key("a.b/x"), "E0033", "\"a.b/x\"", "[site.\"a.b\".path.\"/x\"]"),
        (key("bücher.de"), "E0033", "\"bücher.de\"", "xn--"),
        (key("*:80"), "E0033", "\"*:80\"", "write \":80\""),
        (site("alias = [\"a.b:81\"]"), "E0033", "\"a.b:81\"", "write \"a.b\""),
        (format!("{SITE}[site.\"c.d:80\"]\nrespond = 404\nalias = [\"EXAMPLE.com.\"]\n"), "E0034", "\"c.d:80\"", "keep one"),
        (path("x", "respond = 404"), "E0035", "\"x\"", "write \"/x\""),
        (path("post /x", "respond = 404"), "E0035", "\"post /x\"", "\"POST /x\""),
        (path("/a*", "respond = 404"), "E0035", "\"/a*\"", "\"/x/*\""),
        (path("/a", "rewrite = \"b\""), "E0035", "\"b\"", "/v1/{*}"),
        (pool("health = \"health\""), "E0035", "\"health\"", "\"/health\""),
        (site("respond = 404"), "E0036", "respond", "keep one"),
        ("[site.\":1\"]\n".into(), "E0037", "\":1\"", "add proxy"),
        ("[site.\":1\".path.\"/x\"]\nlimit = false\n".into(), "E0037", "\"/x\"", "in its site"),
        (pool("").replace("pool:app", "pool:ap"), "E0038", "\"pool:ap\"", "\"pool:app\"?"),
        (site("headers = { content-length = \"1\" }"), "E0039", "content-length", "remove"),
        (site("headers = { host = \"a\" }"), "E0039", "host", "remove"),
        (site("request_headers = { \"a b\" = \"1\" }"), "E0039", "\"a b\"", "colon"),
        (site("headers = { a = \"x\\r\\ny: z\" }"), "E0039", "\"x\\r\\ny: z\"", ""),
        (path("/x", "redirect = \"/y/{*}\""), "E0040", "\"/y/{*}\"", "{host}, {path}"),
        (path("/x/{id}", "rewrite = \"/y/{i}\""), "E0040", "\"/y/{i}\"", "{id}"),
        (path("/x", "rewrite = \"/y#z\""), "E0040", "\"/y#z\"", "remove the `#` and the text after it"),
        (site("limit = \"20/s for client\""), "E0041", "\"20/s for client\"", "write \"20/s per client\""),
        (site("limit = { rate = \"1/s\", per = \"ip\" }"), "E0041", "\"ip\"", "\"client\""),
        (
            format!("trusted = [\"::1\"]\n{SITE}[site.\"c.d:80\"]\nrespond = 404\naccept_proxy = \"require\"\n"),
            "E0042",
            "\"c.d:80\"",
            "the same accept_proxy",
        ),
        (proxy("[\"a.b:1\", \"a.c:1\", \"a.b:1\"]"), "E0043", "\"a.b:1\"", "weight = 2"),
        (
            pool("").replace("\"a.b:1\"", "\"a.b:1\", { addr = \"a.b:1\", max = 1 }"),
            "E0043",
            "\"a.b:1\"",
            "weight = 2",
        ),
        (http("protocol = \"h2\""), "E0044", "\"h2\"", "add tls = {}, or write \"h2c\""),
        (http("protocol = \"h2c\"\ntls = {}"), "E0044", "\"h2c\"", "write \"h2\", or remove tls"),
        (
            "[site.\":1\"]\nproxy = { to = \"a.b:1\", protocol = \"h2\" }\n".into(),
            "E0044",
            "\"h2\"",
            "add tls = {}",
        ),
        (http("tls = { alpn = [\"h2\"] }"), "E0044", "{ alpn = [\"h2\"] }", "write protocol = \"h2\""),
        (http("tls = { alpn = [\"h2\"] }\nprotocol = \"h2\""), "E0019", "[\"h2\"]", "remove it"),
        (
            http("protocol = \"h2c\"\nproxy_protocol = \"v2\""),
            "E0019",
            "\"v2\"",
            "X-Forwarded-For names each; or write protocol = \"http1\"",
        ),
        (pool("protocol = \"h2c\""), "E0044", "\"pool:app\"", "from a [site]"),
        (http("health = { grpc = true }"), "E0044", "true", "protocol = \"h2c\" in the pool"),
        (
            http("protocol = \"h2c\"\nhealth = { grpc = true, path = \"/\" }"),
            "E0019",
            "\"/\"",
            "remove `path`, or `grpc`",
        ),
        (
            http("protocol = \"h2c\"\nhealth = { grpc = \"a.B\", expect = \"200\" }"),
            "E0019",
            "\"200\"",
            "remove `expect`",
        ),
        (http("protocol = \"h2c\"\nhealth = { grpc = true, tcp = true }"), "E0019", "true", "remove `grpc`, or `tcp`"),
        (http("protocol = \"h2c\"\nhealth = { grpc = \"a B\" }"), "E0018", "\"a B\"", ""),
        (site("protocols = [\"http1\", \"h2\"]"), "E0044", "\"h2\"", "write \"h2c\""),
        (over_tls("protocols = [\"h2c\"]"), "E0044", "\"h2c\"", "write \"h2\", or tls = false"),
        (
            "[tls]\ncerts = [\"/a.pem\"]\n[site.\"a.b\"]\nrespond = 404\nprotocols = [\"h2c\"]\n".into(),
            "E0044",
            "\"h2c\"",
            "write \"h2\"",
        ),
        (site("protocols = []"), "E0014", "[]", "at least one entry"),
        (site("protocols = [\"h1\"]"), "E0015", "\"h1\"", "did you mean \"http1\"?"),
        (over_tls("protocols = [\"http/2\"]"), "E0015", "\"http/2\"", "did you mean \"h2\"?"),
        (over_tls("protocols = [\"h2\", \"h3\"]"), "E0011", "\"h3\"", "write \"h2\""),
        (over_tls("protocols = [\"h2\", \"h2\"]"), "W0003", "\"h2\"", "remove it"),
        (
            format!("{SITE}protocols = [\"h2c\"]\n[site.\"c.d:80\"]\nrespond = 404\n"),
            "E0042",
            "\"c.d:80\"",
            "the same protocols in both",
        ),
        (http2("{ window = \"9MB\" }"), "E0014", "\"9MB\"", "connection_window = \"9MB\" or more"),
        (http2("{ connection_window = \"64KiB\" }"), "E0014", "\"64KiB\"", "window = \"64KiB\" or less"),
        (http2("{ window = \"64KB\" }"), "E0014", "\"64KB\"", "at least \"64KiB\""),
        (http2("{ connection_window = \"3GB\" }"), "E0014", "\"3GB\"", "at most \"2GB\""),
        (http2("{ streams = 0 }"), "E0014", "0", "from 1 to 10000"),
        (http2("{ resets = 20 }"), "E0013", "20", "\"20/s\""),
        (http2("{ resets = \"0/s\" }"), "E0014", "\"0/s\"", ""),
        (http2("{ control = \"20/s per client burst 9\" }"), "E0041", "\"20/s per client burst 9\"", "burst 200"),
        (http2("{ control = \"many\" }"), "E0041", "\"many\"", "\"20/s burst 200\""),
        (format!("http2 = {{ streams = 9 }}\n{LISTENER}"), "W0003", "http2", "[site]"),
        (format!("http2 = {{ streams = 9 }}\n{SITE}"), "W0003", "http2", "\"h2c\"]"),
        (over_tls("tls.alpn = [\"h2\"]").replace("tls = \"/a.pem\"", "tls.cert = \"/a.pem\""), "E0010", "alpn", "protocols = "),
        (site("http2 = true"), "E0010", "http2", "protocols = [\"http1\"]"),
        (site("grpc_pass = \"grpc://a.b:1\""), "E0010", "grpc_pass", "protocol = \"h2c\" }"),
        (site("proto = \"h2\""), "E0010", "proto", "protocol = \"h2c\" in [pool.NAME]"),
        (top("http2_max_concurrent_streams = 9"), "E0010", "http2_max_concurrent_streams", "http2 = { streams"),
        (top("protocols = [\"h1\", \"h2c\"]"), "E0010", "protocols", "in the [site] table"),
        (proxy("{ to = \"a.b:1\", protocol = \"h2\" }"), "E0010", "protocol", "relays bytes unread"),
        (
            http("protocol = \"h4\"\ntls = { alpn = [\"h2\"] }\nhealth = { grpc = true }"),
            "E0015",
            "\"h4\"",
            "did you mean \"h2\"?",
        ),
        (http("protocol = \"grpc\""), "E0015", "\"grpc\"", "did you mean \"h2c\"?"),
        (pool("health = { port = 81 }").replace("a.b:1", "unix:/app.sock"), "W0003", "81", "remove"),
        (path("/x", "redirect = \"/y\"\nbody = { max = \"1MB\" }"), "W0003", "body", "write proxy"),
        (path("/x", "strip_prefix = true"), "W0003", "true", "remove it"),
        (path("/x", "root = \"/srv\"\nrequest_headers = { a = \"b\" }"), "W0003", "request_headers", "write proxy"),
        (path("/x", "index = []"), "W0003", "index", "write root"),
        (site("spa = true"), "W0003", "spa", "write root"),
        (site("alias = [\"example.com\"]"), "W0003", "\"example.com\"", "remove it"),
        (top("rates = { min_in = \"off\" }"), "W0003", "rates", "[site]"),
        (path("/x", "respond = \"{hots}\""), "W0004", "\"{hots}\"", "{host}"),
        (format!("{LISTENER}[pool.app]\nendpoints = [\"a.b:1\"]\n"), "W0005", "app", "pool:app"),
        (top("include = [\"none/*.toml\"]"), "W0001", "\"none/*.toml\"", "`*` does not match"),
        (tls("{ certs = [\"none/*.pem\"] }"), "W0002", "\"none/*.pem\"", "`*` does not match"),
        (top("[tls]\npolicy = \"modern\""), "W0003", "tls", "tls = {}"),
        (top("trusted = [\"::1\"]"), "W0003", "trusted", "accept_proxy"),
        (tunnel("private = true\nallow = [\"*:80\"]"), "W0007", "true", "169.254.169.254"),
        ("[site.\":443\"]\nrespond = 404\n".into(), "W0008", "\":443\"", "tls = {"),
        ("[site.\":1\".path.\"/\"]\nrespond = 404\n".into(), "W0009", "\"/\"", "to the [site] table"),
        (top("state = \"/${HOME}\""), "W0004", "\"/${HOME}\"", "${env:HOME}"),
    ];
    // Two have tests of their own.
    let mut seen: Vec<String> = vec!["E0001".into(), "E0045".into()];
    let mut wrong = String::new();
    for (text, code, caret, cure) in table {
        let report = report(&text);
        let only = found(&report, &text) == [(code.to_owned(), caret.to_owned())];
        if !only || !report.iter().all(|one| one.cure().contains(cure)) {
            wrong += &format!("expected {code} at {caret} with {cure}\n{text}\n{report}\n");
        }
        seen.push(code.to_owned());
    }
    assert!(wrong.is_empty(), "{wrong}");
    // The codes from 0101 on are reported by the code that opens files and sockets.
    for code in Code::ALL.iter().filter(|code| &code.id()[1..] < "0100") {
        assert!(
            seen.iter().any(|id| id == code.id()),
            "{} has no sample",
            code.id()
        );
    }
}

#[test]
fn several_syntax_errors_are_told_at_once_and_nothing_that_follows_from_them() {
    let text =
        "workers = \nuser = lockgate\n[tls]\npolcy = 1\n[tcp.\":1\"\nproxy = \"127.0.0.1:1\"\n";
    let lines: Vec<_> = report(text)
        .iter()
        .map(|one| (one.code().id(), one.at().unwrap().line()))
        .collect();
    assert_eq!(
        lines,
        [("E0001", 1), ("E0001", 2), ("E0010", 4), ("E0001", 5)]
    );
}

#[test]
fn a_mistake_is_shown_with_colours_on_request_only() {
    let report = report("wrokers = 1\n[tcp.\":1\"]\nproxy = \"127.0.0.1:1\"\n");
    assert!(!report.render(Color::Never).contains('\u{1b}'));
    assert!(report.render(Color::Always).contains("\u{1b}["));
    assert_eq!(report.to_string(), report.render(Color::Never));
}

#[test]
fn what_was_written_cannot_move_the_cursor() {
    for text in [
        "\"a\\u001b[2J\" = 1\n",
        "user = \"\u{1b}[2J\"\n",
        "user = \"a\\u001b[2J b\"\n",
        "\u{1b}[2J = 1",
    ] {
        assert!(
            !report(text).render(Color::Never).contains('\u{1b}'),
            "{text:?}"
        );
    }
}

#[test]
fn a_secret_is_never_shown() {
    const SECRET: &str = "S3CRET:99/x";
    let env = Environment::none()
        .with_var("S", SECRET)
        .with_file("/s", format!("{SECRET}\n"));
    for key in [
        "user = \"V V\"",
        "metrics = \"V\"",
        "admin = \"V\"",
        "admin = { mode = \"V\" }",
        "access_log = \"V\"",
        "access_log = { to = \"V\" }",
        "log = \"V\"",
        "workers = \"V\"",
        "trusted = [\"V\"]",
        "drain = { delay = \"V\" }",
        "drain = { delay = \"9V\" }",
        "access_log = { to = \"/a\", rotate = { size = \"V\" } }",
        "socket = { fast_open = \"V\" }",
        "include = [\"V\"]",
        "tls = { policy = \"V\" }",
        "tls = { policy = { versions = [\"V\"], suites = [\"V\"], groups = [\"V\"] } }",
        "tls = { client_auth = { mode = \"V\", ca = \"/a\" } }",
        "tcp.\":1\".proxy = \"V\"",
        "tcp.\":1\".proxy = { to = \"unix:/a\", tls = { name = \"V\" } }",
        "tcp.\":1\".max_lifetime = \"V\"",
        "tcp.\":1\".banana = \"V\"",
        "tcp.\":1\".proxy = \"pool:V\"",
        "access_log = \"combined:V V\"",
        "access_log = { sample = \"V\" }",
        "rates = { min_in = \"V\" }",
        "http2 = { resets = \"V\", window = \"V\" }",
        "pool.a = { endpoints = [\"V\"], protocol = \"V\", balance = \"V\", health = \"V\" }",
        "pool.a = { endpoints = [\"a:1\"], health = { path = \"/\", method = \"V\" } }",
        "pool.a = { endpoints = [\"a:1\"], health = { grpc = \"V V\" } }",
        "site.\":1\" = { listen = [\"V\"], alias = [\"V\"], protocols = [\"V\"] }",
        "site.\":1\" = { limit = \"V\", paths = \"V\" }",
        "site.\":1\" = { limit = { rate = \"V\", per = \"V\" } }",
        "site.\":1\" = { allow = [\"V\"], rewrite = \" V\" }",
        "site.\":1\" = { headers = { a = \"V\\n\" } }",
        "site.\":1\" = { redirect = \"/{V}\" }",
        "site.\":1\" = { tls = \"V\", rewrite = \"V\" }",
    ] {
        for reference in ["${env:S}", "${file:/s}"] {
            let report = report_in(&key.replace('V', reference), &env);
            let shown = format!("{report}{}", report.to_json());
            assert!(report.has_errors(), "{key}");
            assert!(
                !shown.contains("S3CRET") && !shown.contains("99"),
                "{key}: {shown}"
            );
        }
    }
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let report =
        lockgate_config::load_in(Path::new("gone.toml"), &Environment::none()).unwrap_err();
    assert!(
        report
            .to_string()
            .contains("E0003]: gone.toml cannot be read"),
        "{report}"
    );
    let place = report.to_json();
    assert_eq!(place["diagnostics"][0].get("file"), None);
}

#[test]
fn every_mistake_in_a_file_of_redirects_is_told_once_with_its_line() {
    let env = Environment::none().with_file("/etc/redirects", "/a /b\n/c\n/a /d\n/e /f 200\n");
    let site =
        |port: u16| format!("[site.\":{port}\"]\nredirects = \"/etc/redirects\"\nrespond = 404\n");
    let report = report_in(&(site(1) + &site(2)), &env);
    let told = report.iter().map(|one| {
        (
            one.code().id(),
            one.at().map(ToString::to_string).unwrap_or_default(),
        )
    });
    assert_eq!(
        told.collect::<Vec<_>>(),
        [
            ("E0045", "/etc/redirects:2:1".to_owned()),
            ("E0002", "/etc/redirects:3:1".to_owned()),
            ("E0045", "/etc/redirects:4:7".to_owned()),
        ]
    );
    let shown = report.render(Color::Never);
    assert!(
        shown.contains("/etc/redirects:1:1") && shown.contains("4 | /e /f 200"),
        "{shown}"
    );
}

#[test]
fn programs_get_the_same_as_json() {
    let json = report("wrokers = 1\n").to_json();
    let one = &json["diagnostics"][0];
    assert_eq!(json["errors"], 2);
    assert_eq!(
        (
            one["code"].as_str(),
            one["severity"].as_str(),
            one["file"].as_str()
        ),
        (Some("E0010"), Some("error"), Some("lockgate.toml"))
    );
    assert_eq!(
        (
            one["line"].as_u64(),
            one["column"].as_u64(),
            one["end_column"].as_u64()
        ),
        (Some(1), Some(1), Some(8))
    );
    assert_eq!(one["cure"], "did you mean `workers`?");
}

#[test]
fn mistakes_found_later_look_the_same() {
    let text = "[tcp.\":1\"]\ntls = { cert = \"/a.pem\" }\nproxy = \"127.0.0.1:1\"\n";
    let loaded = read(text, &Environment::none()).unwrap();
    let tls = loaded.config.tcp[0].relays()[0].tls.as_ref().unwrap();
    let cert = tls.certs.own.clone().unwrap();
    assert_eq!(cert.at.to_string(), "lockgate.toml:2:16");
    let mut report = Report::new();
    report.push_at(
        Code::CertificateUnreadable,
        &cert.at,
        "the certificate cannot be read",
        "no such file",
        "correct the path",
    );
    assert_eq!(report.count(Severity::Error), 1);
    let expected = "error[E0101]: the certificate cannot be read
 --> lockgate.toml:2:16
  |
2 | tls = { cert = \"/a.pem\" }
  |                ^^^^^^^^ no such file
  |
  = help: correct the path

1 error
";
    assert_eq!(report.to_string(), expected);
}

#[test]
fn a_thousand_mistakes_are_counted_and_the_first_are_shown() {
    let text: String = (0..1_000).map(|n| format!("banana{n} = 1\n")).collect();
    let report = report(&text);
    assert_eq!(report.count(Severity::Error), 1_001);
    assert_eq!(report.iter().count(), 200);
    assert!(report.to_string().ends_with("1001 errors\n"));
}
