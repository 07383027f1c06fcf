//! `import`: configurations of other servers, written anew, with a verdict for each statement.

use std::fs;

use lockgate_testkit::{Folder, RunResult};
use serde_json::Value;

use crate::scene::{lockgate, text};

const NGINX: &str = "events {}\nhttp {\n  upstream app { server 127.0.0.1:3000; server 127.0.0.1:3001; }\n  server {\n    \
     listen 8080;\n    server_name a.test;\n    location / { proxy_pass http://app; }\n    \
     location /static/ { root /srv; }\n    location = /old { return 301 /new; }\n    \
     location /lua/ { content_by_lua_block { ngx.say(1) } }\n  }\n}\n";

fn import(format: &str, source: &str, more: &[&str]) -> (Folder, RunResult) {
    let folder = Folder::new();
    let file = text(&folder.write("source.conf", source));
    let ended = lockgate().run(&[&["import", format, &file], more].concat());
    (folder, ended)
}

#[test]
fn an_imported_configuration_passes_check_with_its_tests() {
    let sources = [
        ("nginx", NGINX),
        (
            "haproxy",
            "defaults\n  mode http\n  timeout connect 5s\n  timeout client 30s\n  timeout server 30s\n\
             frontend web\n  bind :8080\n  acl api path_beg /api/\n  use_backend api if api\n  default_backend app\n\
             backend api\n  server a 127.0.0.1:3001 check\nbackend app\n  server b 127.0.0.1:3000\n",
        ),
        (
            "caddy",
            "http://a.test:8080 {\n\thandle_path /api/* {\n\t\treverse_proxy 127.0.0.1:3001\n\t}\n\
             \thandle {\n\t\treverse_proxy 127.0.0.1:3000\n\t}\n\tredir /old /new permanent\n}\n",
        ),
        (
            "traefik",
            "entryPoints:\n  web:\n    address: \":8080\"\nhttp:\n  routers:\n    app:\n      rule: \"Host(`a.test`)\"\n      \
             service: app\n  services:\n    app:\n      loadBalancer:\n        servers:\n          - url: \"http://127.0.0.1:3000\"\n",
        ),
    ];
    for (format, source) in sources {
        let (folder, ended) = import(format, source, &[]);
        assert_eq!(ended.code, Some(0), "{format}: {}", ended.stderr);
        let file = text(&folder.write("lockgate.toml", &ended.stdout));
        let checked = lockgate().run(&["check", "-c", &file]);
        assert_eq!(
            checked.code,
            Some(0),
            "{format}: {}\n{}",
            checked.stderr,
            ended.stdout
        );
        assert!(
            checked.stdout.contains("1 listener") && checked.stdout.contains("passed test"),
            "{format}: {}\n{}",
            checked.stdout,
            ended.stdout
        );
        let formatted = lockgate().run(&["fmt", "--check", &file]);
        assert_eq!(
            formatted.stdout, file,
            "{format}: standard output lacks its last line end"
        );
    }
    let (folder, ended) = import(
        "hitch",
        "frontend = \"[127.0.0.1]:8443\"\nbackend = \"[127.0.0.1]:8080\"\npem-file = \"/etc/a.pem\"\n",
        &[],
    );
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(
        ended.stdout.contains("[tcp.\"127.0.0.1:8443\"]"),
        "{}",
        ended.stdout
    );
    drop(folder);
}

#[test]
fn each_statement_of_an_import_has_a_verdict() {
    let (folder, ended) = import("nginx", NGINX, &["--verbose"]);
    let at = text(&folder.path("source.conf"));
    for line in [
        format!("{at}:5: converted: listen 8080"),
        format!("{at}:7: converted: proxy_pass http://app"),
        format!("{at}:10: not supported: content_by_lua_block"),
    ] {
        assert!(ended.stderr.contains(&line), "{line}\n{}", ended.stderr);
    }
    let (_, ended) = import("nginx", NGINX, &[]);
    assert!(!ended.stderr.contains(": converted: "), "{}", ended.stderr);
    assert!(ended.stderr.contains("    because "), "{}", ended.stderr);
    let (_, ended) = import("nginx", NGINX, &["--json"]);
    let said: Value = serde_json::from_str(&ended.stdout).unwrap();
    let statements = said["statements"].as_array().unwrap();
    let counts = said["counts"].as_object().unwrap().values();
    let counted: u64 = counts.filter_map(Value::as_u64).sum();
    assert_eq!(statements.len() as u64, counted);
    assert_eq!(
        said["counts"]["not supported"]
            .as_u64()
            .map(|count| count > 0),
        Some(true)
    );
    assert!(said["toml"].as_str().unwrap().contains("[pool.app]"));
    assert_eq!(import("nginx", NGINX, &["--strict"]).1.code, Some(2));
}

#[test]
fn a_source_that_cannot_be_read_is_an_error_with_its_place() {
    for (format, source, message) in [
        ("nginx", "http {\n  server {\n", "source.conf:"),
        ("caddy", "a.test {\n", "source.conf:"),
        (
            "haproxy",
            "frontend web\n  bind \"unclosed\n",
            "source.conf:2",
        ),
        ("traefik", "http: [\n", "source.conf:"),
    ] {
        let (_, ended) = import(format, source, &[]);
        assert_eq!(ended.code, Some(1), "{format}: {}", ended.stdout);
        assert!(ended.stderr.contains(message), "{format}: {}", ended.stderr);
        assert_eq!(ended.stdout, "", "{format}");
    }
    let ended = lockgate().run(&["import", "nginx", "/nowhere/nginx.conf"]);
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.stderr.contains("/nowhere/nginx.conf cannot be read"),
        "{}",
        ended.stderr
    );
}

#[test]
fn an_import_writes_a_new_file_and_replaces_none() {
    let folder = Folder::new();
    let source = text(&folder.write("nginx.conf", NGINX));
    let target = folder.path("lockgate.toml");
    let arguments = ["import", "nginx", &source, "-o", &text(&target)];
    let ended = lockgate().run(&arguments);
    assert_eq!(
        (ended.code, &*ended.stdout),
        (Some(0), ""),
        "{}",
        ended.stderr
    );
    let written = fs::read_to_string(&target).unwrap();
    assert!(written.contains("[site.\"a.test:8080\"]"), "{written}");
    fs::write(&target, "mine").unwrap();
    let ended = lockgate().run(&arguments);
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.stderr.contains("cannot be written"),
        "{}",
        ended.stderr
    );
    assert_eq!(fs::read_to_string(&target).unwrap(), "mine");
}

#[test]
fn includes_of_an_import_are_read_from_the_disk() {
    let folder = Folder::new();
    folder.write(
        "b.conf",
        "server { listen 8081; server_name b.test; return 404; }\n",
    );
    folder.write(
        "a.conf",
        "server { listen 8081; server_name a.test; return 403; }\n",
    );
    let main = format!(
        "events {{}}\nhttp {{ include {}/?.conf; include gone/*.conf; include none.conf; }}\n",
        text(&folder.path("."))
    );
    let main = text(&folder.write("nginx.conf", main));
    let ended = lockgate().run(&["import", "nginx", &main]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    for part in ["[site.\"a.test:8081\"]", "[site.\"b.test:8081\"]"] {
        assert!(ended.stdout.contains(part), "{}", ended.stdout);
    }
    assert!(
        ended.stderr.contains("not supported: include none.conf"),
        "{}",
        ended.stderr
    );
}

#[test]
fn certificates_of_certbot_are_obtained_with_acme() {
    let server = |names: &str, listen: &str| {
        format!(
            "server {{ listen {listen}; server_name {names}; root /srv; ssl_certificate /etc/letsencrypt/live/a/fullchain.pem;\n\
             ssl_certificate_key /etc/letsencrypt/live/a/privkey.pem; }}\n"
        )
    };
    let source = server("a.test www.a.test", "443 ssl") + &server("*.b.test", "443 ssl");
    let (folder, ended) = import("nginx", &source, &["--acme", "me@a.test"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let kept = "[site.\"*.b.test\"] keeps its certificate of certbot";
    assert!(ended.stderr.contains(kept), "{}", ended.stderr);
    let acme = "acme = { email = \"me@a.test\" }";
    assert!(ended.stdout.contains(acme), "{}", ended.stdout);
    // Only the file of the wildcard is missed.
    let file = text(&folder.write("lockgate.toml", &ended.stdout));
    let checked = lockgate().run(&["check", "-c", &file]);
    let files = checked.stderr.matches("error[E0101]").count();
    assert_eq!(files, 1, "{}", checked.stderr);
}
