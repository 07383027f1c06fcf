//! `hitch.conf` in, a file of Lockgate out.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::{Format, ImportError, Imported, SourceFiles, Verdict};

struct HitchFiles(BTreeMap<PathBuf, String>);

impl SourceFiles for HitchFiles {
    fn read(&self, path: &Path) -> Result<String, String> {
        let text = self.0.get(path).cloned();
        text.ok_or_else(|| "no such file".to_owned())
    }

    fn matching(&self, _: &Path) -> Vec<PathBuf> {
        Vec::new()
    }
}

fn read(text: &str) -> Result<Imported, ImportError> {
    let path = PathBuf::from("hitch.conf");
    let files = HitchFiles([(path.clone(), text.to_owned())].into());
    crate::import(Format::Hitch, &[path], &files)
}

/// The file of a source, which must be valid, and the verdicts other than converted.
fn converted(text: &str) -> (String, Vec<String>) {
    let imported = read(text).unwrap();
    let out = imported.draft.to_string();
    let env = lockgate_config::Environment::none();
    if !out.is_empty() {
        let loaded = lockgate_config::parse_str_in(&out, Path::new("/lockgate.toml"), &env);
        assert!(loaded.is_ok(), "{out}\n{:?}", loaded.err());
    }
    let told = imported.report.lines().filter_map(|line| {
        let (name, why) = match line.verdict {
            Verdict::Converted => return None,
            Verdict::Default => ("default", String::new()),
            Verdict::Differs { because } => ("differs", because),
            Verdict::NotSupported { because, .. } => ("not supported", because),
        };
        Some(format!("{} {name} {why}", line.text).trim().to_owned())
    });
    (out, told.collect())
}

fn check(text: &str, toml: &str, told: &[&str]) {
    let (out, verdicts) = converted(text);
    assert_eq!(out, toml);
    assert_eq!(verdicts, told);
}

#[test]
fn a_relay_with_one_certificate() {
    check(
        "frontend = {\n  host = \"*\"\n  port = \"443\"\n}\nbackend = \"[127.0.0.1]:6086\" # Varnish\nworkers = 4\n\
         daemon = on\nuser = \"hitch\"\ngroup = \"hitch\"\nalpn-protos = \"h2, http/1.1\"\nwrite-proxy-v2 = on\n\
         pem-file = \"/etc/a.pem\"\nsyslog = on\nlog-level = 1\nbackend-refresh = 5\n",
        r#"workers = 4
user = "hitch"
log = "error"

# hitch.conf:1
[tcp.":443"]
tls = { cert = "/etc/a.pem", alpn = ["h2", "http/1.1"] }
proxy = "127.0.0.1:6086"
proxy_protocol = "v2"
"#,
        &[
            "daemon = on differs Lockgate stays in the foreground, and systemd or another supervisor keeps it running",
            "group = hitch default",
            "syslog = on differs Lockgate logs to stderr, which journald keeps",
            "backend-refresh = 5 default",
        ],
    );
}

#[test]
fn several_frontends_and_certificates() {
    check(
        "frontend = \"[10.0.0.1]:443+/etc/x.pem\"\nfrontend = \"[::1]:8443\"\nbackend = \"/run/v.sock\"\nchroot = \"/jail/\"\n\
         pem-file = \"/etc/a.pem\"\npem-file = {\n cert = \"/etc/b.crt\"\n private-key = \"/etc/b.key\"\n ocsp-resp-file = \"/etc/b.der\"\n}\n\
         keepalive = 3600\nbacklog = 200\ntcp-fastopen = on\nbackend-connect-timeout = 30\n",
        r#"[socket]
keepalive = "3600s"
backlog = 200
fast_open = true

[timeouts]
connect = "30s"

# hitch.conf:1
[tcp."10.0.0.1:443"]
tls = { certs = ["/etc/a.pem", { cert = "/etc/b.crt", key = "/etc/b.key", ocsp = "/etc/b.der" }, "/etc/x.pem"], default = "/etc/x.pem" }
proxy = "unix:/jail/run/v.sock"

# hitch.conf:2
[tcp."[::1]:8443"]
tls = { certs = ["/etc/a.pem", { cert = "/etc/b.crt", key = "/etc/b.key", ocsp = "/etc/b.der" }], default = { cert = "/etc/b.crt", key = "/etc/b.key", ocsp = "/etc/b.der" } }
proxy = "unix:/jail/run/v.sock"
"#,
        &["chroot = /jail/ not supported Lockgate does not change its root folder"],
    );
}

#[test]
fn folders_of_certificates_and_versions() {
    check(
        "pem-dir = \"/etc/pem\"\npem-dir-glob = \"*.pem\"\nsni-nomatch-abort = on\ntls-protos = TLSv1.3\nprefer-server-ciphers = on\n\
         ciphers = \"EECDH+AESGCM\"\nclient-verify = optional\nclient-verify-ca = \"/etc/ca.pem\"\necdh-curve = \"X25519:prime256v1:secp521r1\"\n",
        r#"[tcp.":8443"]
tls = { certs = ["/etc/pem/*.pem"], policy = { versions = ["1.3"], groups = ["X25519", "secp256r1"] }, client_auth = { mode = "request", ca = "/etc/ca.pem" } }
proxy = "127.0.0.1:8000"
"#,
        &[
            "sni-nomatch-abort = on differs clients that send no server name are refused too",
            "prefer-server-ciphers = on default",
            "ciphers = EECDH+AESGCM differs Lockgate's own choice holds, all of it with forward secrecy",
            "ecdh-curve = X25519:prime256v1:secp521r1 differs Lockgate has no secp521r1",
        ],
    );
    let (out, _) = converted(
        "pem-file = \"/a.pem\"\nciphers = \"ECDHE-RSA-AES256-GCM-SHA384:ECDHE-RSA-AES128-SHA\"\ntls-protos = TLSv1.1 TLSv1.2\n",
    );
    assert!(
        out.contains("versions = [\"1.2\"], suites = [\"TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384\"]")
    );
}

#[test]
fn a_header_is_passed_on() {
    let (out, told) = converted("pem-file = \"/a.pem\"\nproxy-proxy = on\n");
    assert!(out.contains("proxy_protocol = \"pass\"\naccept_proxy = \"require\""));
    assert!(told.is_empty());
}

#[test]
fn a_relay_that_would_admit_more_is_left_out() {
    // Without its certificate authority, with a header that the backend reads otherwise.
    for text in [
        "pem-file = \"/a.pem\"\nfrontend = \"[*]:443\"\nclient-verify = required\n",
        "pem-file = \"/a.pem\"\nfrontend = \"[*]:443\"\nclient-verify = perhaps\n",
        "pem-file = \"/a.pem\"\nfrontend = \"[*]:443\"\nwrite-ip = on\n",
        "frontend = \"[*]:443\"\n",
        "pem-file = \"/a.pem\"\nfrontend = \"[${env:X}]:443\"\n",
    ] {
        let (out, told) = converted(text);
        assert_eq!(out, "", "{text}");
        assert!(told.iter().any(|line| line.contains("not supported")));
    }
    let (out, told) = converted(
        "pem-file = {\n cert = \"/a.pem\"\n client-verify = required\n client-verify-ca = \"/ca.pem\"\n}\nocsp-dir = \"/x\"\n",
    );
    assert!(out.contains("client_auth = { ca = \"/ca.pem\" }"));
    assert_eq!(told.len(), 3);
}

#[test]
fn damaged_text_is_an_error_with_its_line() {
    for (text, message) in [
        (
            "a = b\nfrontend = {\n host = \"*\"\n",
            "hitch.conf:2: this block has no end",
        ),
        ("\n}\n", "hitch.conf:2: this brace closes no block"),
        ("pem-file = \"x\n", "hitch.conf:1: this quote has no end"),
        (
            "server {\n",
            "hitch.conf:1: an option is written as `name = value`",
        ),
        (
            "a = {\nb = {\n",
            "hitch.conf:2: a block stands in another one",
        ),
    ] {
        assert_eq!(read(text).unwrap_err().to_string(), message);
    }
    let text = "pem-file = \"/a.pem\"\n".repeat(50_000);
    assert!(read(&text).is_ok());
}
