//! Tests of the import of Caddyfiles.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use lockgate_config::{Environment, parse_str_in};

use crate::{Format, ImportError, Imported, SourceFiles, Verdict, import};

/// Files that are in no folder.
struct CaddyTestFiles(BTreeMap<PathBuf, String>);

impl SourceFiles for CaddyTestFiles {
    fn read(&self, path: &Path) -> Result<String, String> {
        self.0.get(path).cloned().ok_or("no such file".to_owned())
    }

    fn matching(&self, pattern: &Path) -> Vec<PathBuf> {
        let pattern = pattern.to_string_lossy();
        let begin = pattern.split('*').next().unwrap_or_default();
        let names = self.0.keys().filter(|path| {
            let path = path.to_string_lossy();
            path.starts_with(begin) && path.len() > begin.len()
        });
        names.cloned().collect()
    }
}

pub(super) fn read_files(files: &[(&str, &str)]) -> Result<Imported, ImportError> {
    let files = files
        .iter()
        .map(|(path, text)| (PathBuf::from(path), (*text).to_owned()))
        .collect();
    import(Format::Caddy, &["Caddyfile".into()], &CaddyTestFiles(files))
}

/// Imports a text; what is written is a valid configuration.
pub(super) fn read(text: &str) -> Imported {
    let imported = read_files(&[("Caddyfile", text)]).expect("a Caddyfile");
    valid(&imported);
    imported
}

pub(super) fn valid(imported: &Imported) {
    let mut draft = imported.draft.clone();
    draft.top.take_list("test");
    let text = draft.to_string();
    let env = Environment::none()
        .with_var("APP", "app:1")
        .with_var("TOKEN", "abc")
        .with_var("ROOT", "/srv");
    if text.contains("[site") {
        let path = Path::new("/lockgate.toml");
        if let Err(report) = parse_str_in(&text, path, &env) {
            panic!("{report:?}\n{text}");
        }
    }
}

/// The draft without its preface and tests.
pub(super) fn toml(text: &str) -> String {
    let mut draft = read(text).draft;
    draft.preface.clear();
    draft.top.take_list("test");
    draft.to_string()
}

/// The verdict of the statement that begins so.
pub(super) fn verdict(text: &str, statement: &str) -> Verdict {
    let imported = read(text);
    let mut lines = imported.report.lines();
    lines
        .find(|line| line.text.starts_with(statement))
        .expect("such a statement")
        .verdict
}

pub(super) fn is_differs(text: &str, statement: &str) -> bool {
    matches!(verdict(text, statement), Verdict::Differs { .. })
}

pub(super) fn is_refused(text: &str, statement: &str) -> bool {
    matches!(verdict(text, statement), Verdict::NotSupported { .. })
}

#[track_caller]
pub(super) fn becomes(text: &str, expected: &str) {
    assert_eq!(toml(text), expected);
    for line in read(text).report.lines() {
        let fine = matches!(line.verdict, Verdict::Converted | Verdict::Default);
        assert!(fine, "{line:?}");
    }
}

#[test]
fn a_site_without_braces_is_a_proxy() {
    becomes(
        "app.example.com\nreverse_proxy 127.0.0.1:3000\n",
        "[acme]\n\n# Caddyfile:1\n[site.\"app.example.com\"]\nproxy = \"127.0.0.1:3000\"\n",
    );
}

#[test]
fn certificates_of_files_and_a_socket() {
    becomes(
        "app.example.com {\n tls /c.pem /c.key\n reverse_proxy unix//run/app.sock\n}\n",
        "# Caddyfile:1\n[site.\"app.example.com\"]\n\
         tls = { cert = \"/c.pem\", key = \"/c.key\" }\nproxy = \"unix:/run/app.sock\"\n",
    );
}

#[test]
fn several_endpoints_are_a_pool() {
    becomes(
        "http://a.example.com {
          reverse_proxy app-1:80 app-2:80 {
            lb_policy least_conn
            health_uri /up
            health_interval 2s
            fail_duration 30s
          }
        }",
        "[pool.app]
endpoints = [\"app-1:80\", \"app-2:80\"]
balance = \"least\"
health = { path = \"/up\", every = \"2s\", expect = [\"200-299\"] }
eject = { for = \"30s\" }

# Caddyfile:1
[site.\"a.example.com:80\"]
proxy = \"pool:app\"
",
    );
}

#[test]
fn a_stripped_prefix_leaves_the_path_itself_to_the_site() {
    becomes(
        ":80 {
          handle_path /api/* {
            reverse_proxy api:1
          }
          handle {
            root * /srv
            try_files {path} /index.html
            file_server
          }
        }",
        "# Caddyfile:1
[site.\":80\"]
root = \"/srv\"
try = [\"{path}\", \"/index.html\"]

# Caddyfile:3
[site.\":80\".path.\"/api/*\"]
proxy = \"api:1\"
strip_prefix = true

# Caddyfile:8
# /api/* of Caddy does not have /api itself.
[site.\":80\".path.\"/api\"]
",
    );
}

#[test]
fn files_below_a_stripped_prefix_are_tried_below_it() {
    let text = ":80 {
          handle_path /a* {
            root * /srv/a
            try_files {path} /
            file_server
          }
          respond 404
        }";
    assert!(toml(text).contains("strip_prefix = true\ntry = [\"/{*}\", \"/\"]\n"));
    assert!(is_differs(text, "handle_path"));
    // Versions of Caddy differ in it.
    assert!(is_differs(text, "try_files"));
}

#[test]
fn the_order_of_directives_is_that_of_caddy() {
    becomes(
        ":80 {
          respond /a \"no\" 403
          redir /a /b{uri} 301
          reverse_proxy app:1
          respond /c 204
        }",
        "# Caddyfile:1
[site.\":80\"]
proxy = \"app:1\"

# Caddyfile:3
[site.\":80\".path.\"/a\"]
redirect = { to = \"/b{path}\", status = 301 }

# Caddyfile:5
[site.\":80\".path.\"/c\"]
respond = 204
",
    );
}

#[test]
fn a_route_keeps_the_written_order() {
    let text = ":80 {
          route {
            reverse_proxy app:1
            redir /a /b 301
          }
        }";
    assert_eq!(
        toml(text),
        "# Caddyfile:1\n[site.\":80\"]\nproxy = \"app:1\"\n"
    );
}

#[test]
fn redirects_and_responses() {
    becomes(
        "www.example.com {
          redir https://example.com{uri} permanent
        }
        http://s.example.com {
          respond \"ok\"
        }",
        "[acme]

# Caddyfile:1
[site.\"www.example.com\"]
redirect = { to = \"https://example.com{path}\", status = 301 }

# Caddyfile:4
[site.\"s.example.com:80\"]
respond = \"ok\"
",
    );
    assert!(is_differs(":80 {\n redir https://a.example\n}", "redir"));
    assert!(is_differs(":80 {\n abort\n}", "abort"));
    assert!(is_refused(":80 {\n redir {labels.1}.a\n}", "redir"));
}

#[test]
fn fields_are_set_on_responses_and_requests() {
    becomes(
        ":80 {
          header {
            X-Frame-Options DENY
            -Server
          }
          reverse_proxy https://app.example.com {
            header_up Host {upstream_hostport}
            header_up X-Real-IP {remote_host}
            header_up X-Forwarded-Proto {scheme}
          }
        }",
        "# Caddyfile:1
[site.\":80\"]
proxy = { to = \"app.example.com:443\", tls = {} }
headers = { x-frame-options = \"DENY\", server = false }
request_headers = { host = \"app.example.com\", x-real-ip = \"{client}\" }
",
    );
}

#[test]
fn fields_of_the_site_alone_are_in_a_table_of_their_own() {
    let text = ":80 {
          handle /a {
            reverse_proxy app:1
          }
          handle {
            header X-A b
            reverse_proxy app:2
          }
        }";
    let toml = toml(text);
    assert!(toml.contains("path.\"/*\"]\nproxy = \"app:2\"\nheaders = { x-a = \"b\" }"));
    assert!(!toml.contains("[site.\":80\"]\nproxy"));
}

#[test]
fn clients_are_allowed_and_denied() {
    let allowed = "@lan remote_ip 10.0.0.1/8 ::1\n";
    for (matcher, rules, expected) in [
        (
            allowed,
            "handle @lan {\n reverse_proxy a:1\n }\n respond 403\n",
            "allow = [\"10.0.0.0/8\", \"::1\"]",
        ),
        (
            allowed,
            "respond @lan 403\n reverse_proxy a:1\n",
            "deny = [\"10.0.0.0/8\", \"::1\"]",
        ),
        (
            "@out not remote_ip 10.0.0.0/8\n",
            "abort @out\n reverse_proxy a:1\n",
            "allow = [\"10.0.0.0/8\"]",
        ),
    ] {
        let toml = toml(&format!(":80 {{\n {matcher} {rules}}}\n"));
        assert!(toml.contains(expected), "{toml}");
    }
}

#[test]
fn what_cannot_be_expressed_lets_no_client_in() {
    for refusal in [
        "@bot header User-Agent *bot*\n respond @bot 403",
        "@php path *.php\n respond @php 404",
        "respond /admin* 403",
        "basic_auth /admin* {\n a $2a$14$abc\n }",
        "crowdsec",
        "import missing.caddy",
        "authorize with x",
        "uri replace a b",
    ] {
        let text = format!(":80 {{\n {refusal}\n reverse_proxy app:1\n}}\n");
        let imported = read(&text);
        let toml = imported.draft.to_string();
        let site = toml.split("[site.\":80\".path").next().unwrap_or_default();
        assert!(site.contains("deny = [\"0.0.0.0/0\", \"::/0\"]"), "{toml}");
        let counts = imported.report.counts();
        assert!(counts.contains_key("not supported"), "{toml}");
    }
}

#[test]
fn a_condition_that_is_no_refusal_leaves_the_rest() {
    let text = ":80 {
          @ws header Upgrade websocket
          reverse_proxy @ws ws:1
          reverse_proxy app:1
        }";
    assert!(toml(text).contains("proxy = \"app:1\""));
    assert!(is_refused(text, "reverse_proxy @ws"));
    assert!(is_refused(text, "@ws"));
    let same = text.replace("ws:1", "app:1");
    assert_eq!(verdict(&same, "reverse_proxy @ws"), Verdict::Converted);
}
