//! Output of `check` about sites: the route table of each address, and mistakes that only show when
//! everything is put together.

use lockgate_testkit::{Folder, RunResult};
use serde_json::{Value, json};

use crate::scene::{Site, lockgate, text};

fn check(toml: &str, more: &[&str]) -> RunResult {
    let folder = Folder::new();
    let file = text(&folder.write("lockgate.toml", toml));
    lockgate().run(&[&["check", "-c", &file], more].concat())
}

fn described(toml: &str) -> Value {
    let ended = check(toml, &["-v", "--json"]);
    assert_eq!(ended.code, Some(0), "{} {}", ended.stdout, ended.stderr);
    let said: Value = serde_json::from_str(&ended.stdout).unwrap();
    said["listeners"].clone()
}

/// Checks that a configuration is refused once with this code, and that the message has all of
/// these parts.
fn refused(toml: &str, code: &str, said: &[&str]) {
    let ended = check(toml, &[]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert_eq!(
        ended.stderr.matches(&format!("error[{code}]")).count(),
        1,
        "{}",
        ended.stderr
    );
    for part in said {
        assert!(ended.stderr.contains(part), "{part:?} in {}", ended.stderr);
    }
}

#[test]
fn check_shows_the_route_table_of_each_address() {
    let toml = "[pool.app]\nendpoints = [\"10.0.0.1:80\", \"10.0.0.2:80\"]\nhealth = \"/up\"\n\
         [site.\":8080\"]\nproxy = \"pool:app\"\n\
         [site.\":8080\".path.\"/api/*\"]\nproxy = \"10.0.0.3:80\"\nstrip_prefix = true\nlimit = \"5/s per client\"\n\
         [site.\":8080\".path.\"POST /old/{id}\"]\nredirect = \"/new/{id}\"\n\
         [site.\"a.test:8080\"]\nalias = [\"*.b.test\"]\nrespond = 404\n";
    let said = described(toml);
    assert_eq!(
        said.as_array().unwrap().len(),
        1,
        "one address is one listener: {said}"
    );
    assert_eq!(
        (&said[0]["listener"], &said[0]["tls"]),
        (&json!(":8080"), &Value::Null)
    );
    let sites = &said[0]["sites"];
    assert_eq!(sites[0]["hosts"], json!(["*"]));
    let routes = &sites[0]["routes"];
    assert_eq!(
        (&routes[0]["path"], &routes[0]["endpoints"]),
        (&json!("/api/*"), &json!(["10.0.0.3:80"]))
    );
    assert_eq!(
        routes[0]["modifiers"],
        json!(["strip_prefix", "5 in 1s per client, burst 5"])
    );
    assert_eq!(routes[0]["endpoint_protocol"], "http1");
    assert_eq!(
        (&routes[1]["method"], &routes[1]["path"]),
        (&json!("POST"), &json!("/old/{id}"))
    );
    assert_eq!(
        (&routes[1]["to"], &routes[1]["status"]),
        (&json!("/new/{id}"), &json!(308))
    );
    assert_eq!(
        (&routes[2]["path"], &routes[2]["pool"]),
        (&json!("/*"), &json!("app"))
    );
    assert_eq!(routes[2]["check"], "GET /up every 2s");
    assert_eq!(sites[1]["hosts"], json!(["a.test", "*.b.test"]));
    let ended = check(toml, &["-v"]);
    for line in [
        "    /api/*          to 10.0.0.3:80 · strip_prefix, 5 in 1s per client, burst 5",
        "    POST /old/{id}  redirected to /new/{id} with 308",
        "    /*              to 10.0.0.1:80, 10.0.0.2:80 (pool app), checked by GET /up every 2s",
        "  host         a.test, *.b.test",
        "    /*  responds with 404",
    ] {
        assert!(
            ended.stdout.lines().any(|said| said == line),
            "{line:?} in {}",
            ended.stdout
        );
    }
}

#[test]
fn check_shows_balancing_and_slow_start() {
    let toml = "[pool.app]\nendpoints = [\"10.0.0.1:80\", { addr = \"10.0.0.2:80\", backup = true }]\n\
         balance = { sticky = \"cookie:lg\" }\neject = { errors = 3, statuses = [\"500\", \"502-504\"] }\nslow_start = \"30s\"\n\
         [pool.db]\nendpoints = [\"10.0.0.3:81\"]\nbalance = { hash = \"client\" }\neject = false\n\
         health = { send = \"secret\", expect = \"PONG\", every = \"3s\" }\n\
         [site.\":8080\"]\nproxy = \"pool:app\"\n[tcp.\":5432\"]\nproxy = \"pool:db\"\n";
    let ended = check(toml, &["-v"]);
    for line in [
        "    /*  to 10.0.0.1:80, 10.0.0.2:80 (backup) (pool app), by the cookie lg, ejected for 10s after 3 failures or 500 or \
         502-504, slow start of 30s",
        "  to           10.0.0.3:81 (pool db), by a hash of the client's address, never ejected, checked by a TCP dialogue every 3s",
    ] {
        assert!(
            ended.stdout.lines().any(|said| said == line),
            "{line:?} in {}",
            ended.stdout
        );
    }
}

#[test]
fn check_shows_tunnels_and_their_targets() {
    let toml = "[tunnel.\":3128\"]\nallow = [\"*.a.test:80,443\", \"10.0.0.0/8\", \"[fd00::/8]:*\"]\ndeny = [\"b.a.test\"]\n\
         clients = [\"10.0.0.0/8\"]\nmax_per_client = 7\nmax_lifetime = \"1h\"\nproxy_protocol = \"v2\"\n\
         [tunnel.\":3129\"]\n";
    let said = described(toml);
    assert_eq!(
        said[0]["tunnels"]["allow"],
        json!(["*.a.test:80,443", "10.0.0.0/8:443", "[fd00::/8]:*"])
    );
    assert_eq!(said[0]["tunnels"]["deny"], json!(["b.a.test:*"]));
    let ended = check(toml, &["-v"]);
    for line in [
        "  no TLS       HTTP/1.1\n  tunnels for  10.0.0.0/8\n",
        "  to           *.a.test:80,443, 10.0.0.0/8:443, [fd00::/8]:*\n  not to       b.a.test:*\n",
        "  addresses    public, and private networks that are allowed above\n  at most      7 tunnels per client, 1h\n",
        "  PROXY        v2 to the targets\n",
        "  timeouts     handshake 10s, connect 5s, idle 1h; names for 1m\n",
        "  to           *:443\n",
    ] {
        assert!(ended.stdout.contains(line), "{line:?} in {}", ended.stdout);
    }
}

#[test]
fn check_shows_https_redirects_only_for_unserved_hosts() {
    let site = Site::new();
    let said = described(&format!(
        "[site.\"app.test\"]\nalias = [\"api.test\"]\ntls = \"{}\"\nrespond = \"hello\"\n\
         [site.\"api.test:80\"]\nrespond = \"plain\"\n",
        site.cert
    ));
    let plain = said
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["listener"] == ":80")
        .unwrap();
    assert_eq!(plain["sites"][0]["hosts"], json!(["api.test"]));
    assert_eq!(plain["sites"][1]["hosts"], json!(["app.test"]));
    assert_eq!(plain["sites"][1]["routes"][0]["to"], "https://{host}{path}");
}

#[test]
fn check_shows_tls_rules_with_their_hosts() {
    let site = Site::new();
    let (cert, ca) = (
        &site.cert,
        text(&site.folder.write("ca.pem", site.authority.pem())),
    );
    let toml = format!(
        "[tls]\ncerts = [\"{cert}\"]\n[site.\"app.test\"]\nrespond = 200\n[site.\"inner.app.test\"]\n\
         respond = 200\ntls = {{ client_auth = {{ ca = \"{ca}\" }} }}\n"
    );
    let said = described(&toml);
    let secure = said
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["listener"] == ":443")
        .unwrap();
    assert_eq!(secure["tls"]["alpn"], json!(["h2", "http/1.1"]));
    assert_eq!(secure["tls"]["client_certificates"], Value::Null);
    assert_eq!(secure["other_tls"][0]["client_certificates"], "require");
    assert_eq!(
        (
            &secure["sites"][0]["tls_rules"],
            &secure["sites"][1]["tls_rules"]
        ),
        (&json!(0), &json!(1))
    );
    let ended = check(&toml, &["-v"]);
    assert!(
        ended.stdout.contains("  for inner.app.test:\n"),
        "{}",
        ended.stdout
    );
    assert!(
        ended
            .stderr
            .contains("warning[W0107]: no certificate covers inner.app.test"),
        "{}",
        ended.stderr
    );
}

#[test]
fn check_shows_alpn_protocols_per_address() {
    let site = Site::new();
    let toml = format!(
        "[tls]\ncerts = [\"{}\"]\n[site.\"app.test\"]\nrespond = 200\n[site.\"old.app.test\"]\nprotocols = [\"http1\"]\n\
         respond = 200\n[site.\":8080\"]\nprotocols = [\"h2c\", \"http1\"]\nrespond = 200\n",
        site.cert
    );
    let said = described(&toml);
    let address = |name: &str| {
        said.as_array()
            .unwrap()
            .iter()
            .find(|one| one["listener"] == name)
            .unwrap()
    };
    let secure = address(":443");
    assert_eq!(
        (&secure["tls"]["alpn"], &secure["plain"]),
        (&json!(["h2", "http/1.1"]), &json!([]))
    );
    assert_eq!(secure["other_tls"][0]["alpn"], json!(["http/1.1"]));
    assert_eq!(address(":8080")["plain"], json!(["http1", "h2c"]));
    assert_eq!(
        address(":80")["plain"],
        json!(["http1"]),
        "what redirects speaks HTTP/1.1"
    );
    let ended = check(&toml, &["-v"]);
    for line in [
        "  ALPN         h2, http/1.1",
        "  ALPN         http/1.1",
        "  no TLS       HTTP/1.1",
        "  no TLS       HTTP/1.1, and HTTP/2 by prior knowledge",
    ] {
        assert!(
            ended.stdout.lines().any(|said| said == line),
            "{line:?} in {}",
            ended.stdout
        );
    }
}

#[test]
fn check_refuses_two_routes_for_the_same_request() {
    refused(
        "[site.\":8080\"]\n[site.\":8080\".path.\"/{a}/x\"]\nrespond = 200\n\
         [site.\":8080\".path.\"/y/{b}\"]\nrespond = 200\n",
        "E0114",
        &[
            "GET /y/x matches both",
            "/{a}/x",
            "/y/{b}",
            "lockgate.toml:2:",
            "lockgate.toml:4:",
            "more specific",
        ],
    );
}

#[test]
fn check_reports_a_mistake_on_two_addresses_once() {
    let folder = Folder::new();
    let users = text(&folder.write(
        "users",
        "# comment\nanna\nbert:$1$aaaaaaaa$bbbbbbbbbbbbbbbbbbbbbb\n",
    ));
    refused(
        &format!(
            "[site.\":8080\"]\nlisten = [\"127.0.0.1\", \"127.0.0.2\"]\nauth = {{ basic = \"{users}\" }}\n\
             respond = 200\n[site.\":8080\".path.\"/a\"]\nrespond = 200\n"
        ),
        "E0115",
        &["users:2:", "`user:hash`", "lockgate.toml:3:", "htpasswd -B"],
    );
    refused(
        "[site.\":8080\"]\nauth = { basic = \"/nonexistent/users\" }\nrespond = 200\n",
        "E0115",
        &[
            "/nonexistent/users: No such file",
            "`htpasswd -B -c FILE USER`",
        ],
    );
}

#[test]
fn check_reads_error_page_files() {
    let folder = Folder::new();
    let site = |page: &str| {
        format!(
            "[site.\":8080\"]\nrespond = 200\nerror_pages = {{ 404 = \"{page}\" }}\n[site.\":8080\".path.\"/a\"]\n"
        )
    };
    for (name, content, said) in [
        ("page.png", "", "its extension is not known"),
        ("page.html", &*"x".repeat((1 << 20) + 1), "longer than 1 MB"),
    ] {
        let page = text(&folder.write(name, content));
        refused(
            &site(&page),
            "E0116",
            &[said, "lockgate.toml:3:", ".html, .json or .txt"],
        );
    }
    refused(
        &site("/nonexistent/404.html"),
        "E0116",
        &["/nonexistent/404.html: No such file"],
    );
    let page = text(&folder.write("good.html", "<p>gone</p>"));
    let ended = check(&site(&page), &["-v"]);
    assert!(
        ended
            .stdout
            .contains("/a  responds with 200 · 1 page of errors"),
        "{}",
        ended.stdout
    );
}

#[test]
fn check_warns_of_an_unreachable_route() {
    let ended = check(
        "[site.\":8080\"]\nrespond = 200\n[site.\":8080\".path.\"CONNECT /a\"]\nrespond = 200\n",
        &[],
    );
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("warning[W0106]"), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("CONNECT has no path"),
        "{}",
        ended.stderr
    );
    assert!(
        ended.stderr.contains("lockgate.toml:3:"),
        "{}",
        ended.stderr
    );
}

#[test]
fn check_shows_the_forward_auth_service() {
    let toml = "[site.\":8080\"]\nproxy = \"10.0.0.1:80\"\ntrace = \"5%\"\n\
         auth = { forward = \"10.0.0.9:4181\", path = \"/verify\", copy = [\"remote-user\", \"x-groups\"] }\n\
         [site.\":8080\".path.\"/once\"]\nrespond = 200\ntimeouts = { response = \"1s\" }\n";
    let said = described(toml);
    let asked = "authorized by 10.0.0.9:4181 at /verify, which sets remote-user, x-groups";
    for route in said[0]["sites"][0]["routes"].as_array().unwrap() {
        assert_eq!(
            route["modifiers"],
            json!([asked, "traces start here, 5% recorded"]),
            "{route}"
        );
    }
}
