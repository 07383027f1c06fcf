//! What a review found: translations that said nothing about what they lost.

use crate::Verdict;

use super::{imported, server, server_verdict, verdict};

/// The table of a route in a server's file, without its header. `None` if there is none.
fn route(source: &str, key: &str) -> Option<String> {
    let text = server(source);
    let header = format!(".path.\"{key}\"]\n");
    let (_, rest) = text.split_once(&header)?;
    Some(rest.split("\n[").next().unwrap_or(rest).trim().to_owned())
}

/// Whether the route of a key refuses clients.
#[track_caller]
fn assert_refused(source: &str, key: &str) {
    let found = route(source, key).unwrap_or_default();
    assert!(
        found.contains("deny = [") || found.contains("respond = 403"),
        "{key}: {found}\n{}",
        server(source)
    );
}

#[test]
fn a_route_like_the_sites_stays_below_another_one() {
    for (rule, none) in [
        ("allow 10.0.0.0/8; deny all;", "allow all;"),
        ("auth_basic x; auth_basic_user_file /ht;", "auth_basic off;"),
        ("deny all;", "allow all;"),
    ] {
        let source = format!(
            "{rule} location / {{ proxy_pass http://127.0.0.1:9001; }}
             location /a/ {{ {none} proxy_pass http://127.0.0.1:9001; }}
             location /a/b/ {{ proxy_pass http://127.0.0.1:9001; }}
             location /c/ {{ proxy_pass http://127.0.0.1:9001; }}"
        );
        assert!(route(&source, "/a/b/*").is_some(), "{}", server(&source));
        if rule != "deny all;" {
            assert_eq!(route(&source, "/c/*"), None);
        }
        let mirror = format!(
            "location / {{ proxy_pass http://127.0.0.1:9001; }}
             location /a/ {{ {rule} proxy_pass http://127.0.0.1:9001; }}
             location /a/b/ {{ proxy_pass http://127.0.0.1:9001; }}"
        );
        assert!(route(&mirror, "/a/b/*").is_some(), "{}", server(&mirror));
    }
}

#[test]
fn nested_locations_are_searched_first() {
    const PASS: &str = "proxy_pass http://127.0.0.1:9001;";
    for (source, key) in [
        (
            format!(
                "location / {{ {PASS} }} location ^~ /app/ {{ {PASS} location /app/admin/ {{ deny 10.0.0.0/8; {PASS} }} }}
                 location ~ ^/(app|web)/ {{ {PASS} }}"
            ),
            "/app/admin/*",
        ),
        (
            format!("location ~ ^/app/ {{ {PASS} location ~ ^/app/admin/ {{ deny all; {PASS} }} }}"),
            "/app/admin/*",
        ),
        (
            format!("location ^~ /app/ {{ {PASS} location ~ ^/app/p/ {{ deny all; {PASS} }} }}"),
            "/app/p/*",
        ),
        (
            format!(
                "location ~ ^/web/ {{ {PASS} }} location /web/ {{ location ~ ^/web/admin/ {{ deny all; {PASS} }} }}"
            ),
            "/web/admin/*",
        ),
        (
            format!(
                "location ^~ /k/ {{ {PASS} }} location /k/x/ {{ {PASS} }} location ~ ^/k/x/sec/ {{ deny all; {PASS} }}"
            ),
            "/k/x/sec/*",
        ),
    ] {
        assert_refused(&source, key);
    }
}

#[test]
fn a_path_that_goes_elsewhere_in_nginx_is_closed() {
    // The expression wins below /a/b/c/, the route of /a/b/* would take it here.
    let source = "location ~ ^/a/ { deny 10.0.0.0/8; proxy_pass http://127.0.0.1:1; }
      location ^~ /a/b/ { proxy_pass http://127.0.0.1:2; } location /a/b/c/ { proxy_pass http://127.0.0.1:3; }";
    assert_refused(source, "/a/b/c/*");
    let source = "location = /x { proxy_pass http://127.0.0.1:2; } location /x { proxy_pass http://127.0.0.1:2; }
      location /x/ { deny all; proxy_pass http://127.0.0.1:2; }";
    assert_refused(source, "/x/*");
}

#[test]
fn a_servers_condition_about_a_method_holds_for_all_paths() {
    let source = "if ($request_method = DELETE) { return 403; } if ($request_method = DELETE) { return 405; }
      location / { proxy_pass http://127.0.0.1:1; } location /api/ { proxy_pass http://127.0.0.1:2; }
      location = /one { if ($request_method = DELETE) { return 204; } proxy_pass http://127.0.0.1:3; }";
    for key in ["DELETE /*", "DELETE /api/*", "DELETE /one"] {
        assert_eq!(route(source, key).as_deref(), Some("respond = 403"));
    }
    let all = "if ($request_method = DELETE) { return 403; } return 200 ok;";
    assert_refused(all, "DELETE /*");
}

#[test]
fn a_return_answers_before_access_is_asked() {
    let site = "auth_basic x; auth_basic_user_file /ht; allow 10.0.0.0/8; deny all;
      location / { proxy_pass http://127.0.0.1:1; }";
    for (location, extra) in [
        ("location = /x { return 200 ok; }", ""),
        ("location = /x { return 301 /y; }", ""),
        ("location = /x { rewrite ^ /y permanent; }", ""),
        (
            "location = /x { if ($request_method = OPTIONS) { return 204; } proxy_pass http://127.0.0.1:2; }",
            "OPTIONS ",
        ),
    ] {
        let source = format!("{site} {location}");
        let found = route(&source, &format!("{extra}/x")).unwrap();
        assert!(
            found.contains("auth = false") && found.contains("allow = false"),
            "{found}"
        );
    }
    let verdict = server_verdict("location /x/ { deny all; return 200 ok; }", "deny all");
    assert!(verdict.starts_with("differs"), "{verdict}");
}

#[test]
fn what_a_route_sends_for_another_path_is_under_that_ones_rules() {
    let site = "root /w; location / { try_files $uri $uri/ /index.html; }";
    for rule in [
        "auth_basic x; auth_basic_user_file /ht;",
        "deny all;",
        "allow 10.0.0.0/8; deny all;",
        "return 403;",
    ] {
        let source = format!("{site} location = /index.html {{ {rule} }}");
        let text = server(&source);
        assert!(
            text.contains("deny = [\"0.0.0.0/0\", \"::/0\"") || text.contains("respond = 403"),
            "{text}"
        );
        let found = server_verdict(&source, "try_files");
        assert!(found.starts_with("not"), "{found}");
        let docs = format!("root /w; location / {{ }} location = /docs/index.html {{ {rule} }}");
        assert_refused(&docs, "/docs/");
        let found = server_verdict(&docs, "location = /docs/index.html");
        assert!(found.starts_with("differs"), "{found}");
    }
    let fields = "location = /index.html { add_header x-a b; }";
    let found = server_verdict(&format!("{site} {fields}"), "try_files");
    assert!(found.starts_with("differs"), "{found}");
    let same = server_verdict(&format!("{site} location = /index.html {{ }}"), "try_files");
    assert_eq!(same, "converted");
    let named = "root /w; location / { try_files $uri @app; } location @app { deny all; proxy_pass http://127.0.0.1:1; }";
    assert!(server(named).contains("respond = 403") || server(named).contains("deny = ["));
}

#[test]
fn an_internal_page_is_no_reason_to_refuse_all() {
    let source =
        "root /w; location / { try_files $uri /index.html; } location = /index.html { internal; }";
    let found = server_verdict(source, "try_files");
    assert!(found.starts_with("differs"), "{found}");
}

#[test]
fn small_losses_are_reported() {
    let pass = "location / { proxy_pass http://127.0.0.1:1; }";
    for (source, start, verdict) in [
        (
            format!("proxy_pass_request_headers off; {pass}"),
            "proxy_pass_request_headers",
            "not: the fields",
        ),
        (
            format!("proxy_pass_request_headers on; {pass}"),
            "proxy_pass_request_headers",
            "default",
        ),
        (
            "location /i/ { alias /data; }".to_owned(),
            "alias",
            "differs: the names",
        ),
        (
            "location /i { alias /data/; }".to_owned(),
            "alias",
            "differs: the names",
        ),
        (
            "location /i/ { alias /data/; }".to_owned(),
            "alias",
            "converted",
        ),
        (
            "location /i { alias /data; }".to_owned(),
            "alias",
            "converted",
        ),
    ] {
        let found = server_verdict(&source, start);
        assert!(found.starts_with(verdict), "{source}: {found}");
    }
    let pool = "upstream u { server 127.0.0.1:1; server 127.0.0.1:2; } server { listen 80; proxy_ssl_name a.test;
      proxy_ssl_trusted_certificate /ca.pem; proxy_ssl_verify on; location / { proxy_pass https://u; } }";
    for start in [
        "proxy_ssl_name",
        "proxy_ssl_trusted_certificate",
        "proxy_ssl_verify",
        "proxy_pass",
    ] {
        assert_eq!(verdict(pool, start), "converted");
    }
    let tls = "tls = { name = \"a.test\", ca = \"/ca.pem\" }";
    assert!(imported(pool).draft.to_string().contains(tls));
    let two = pool.replace(
        "location / {",
        "location /b/ { proxy_ssl_name b.test; proxy_pass https://u; } location / {",
    );
    assert!(verdict(&two, "location /b/").starts_with("converted"));
    let passes: Vec<_> = imported(&two)
        .report
        .lines()
        .filter(|line| line.text.starts_with("proxy_pass"))
        .map(|line| matches!(line.verdict, Verdict::NotSupported { .. }))
        .collect();
    assert_eq!(passes, [false, true]);
    let off = "server { listen 80; proxy_ssl_verify off; location / { proxy_pass https://127.0.0.1:1; } }";
    assert!(verdict(off, "proxy_ssl_verify").starts_with("differs"));
    let source =
        "server { listen 80; add_header x-a b; location / { proxy_pass http://127.0.0.1:1; } }";
    let preface = imported(source).draft.preface.join(" ");
    assert!(preface.contains("add_header of nginx adds"), "{preface}");
}

#[test]
fn a_path_itself_keeps_its_rules_beside_what_is_below() {
    for below in [
        "location /admin/ {",
        "location ~ ^/admin/ {",
        "location ^~ /admin/ {",
    ] {
        let admin =
            "location /admin { allow 10.0.0.0/8; deny all; proxy_pass http://127.0.0.1:1; }";
        let below = format!("{below} proxy_pass http://127.0.0.1:2; }}");
        for source in [format!("{admin} {below}"), format!("{below} {admin}")] {
            let itself = route(&source, "/admin").unwrap();
            assert!(
                itself.contains("allow = [") && itself.contains("127.0.0.1:1"),
                "{itself}"
            );
            let below = route(&source, "/admin/*").unwrap();
            assert!(
                below.contains("127.0.0.1:2") && !below.contains("allow = ["),
                "{below}"
            );
        }
    }
}

#[test]
fn a_condition_closes_a_site_that_redirects_too() {
    let source = "if ($x) { return 403; } rewrite ^ https://b.test/ permanent;";
    let text = server(source);
    assert!(
        text.contains("respond = 403") || text.contains("deny = ["),
        "{text}"
    );
}

#[test]
fn server_name_as_host_is_the_first_name() {
    let source = |names: &str, field: &str| {
        format!(
            "server_name {names}; location / {{ proxy_pass http://10.0.0.1; proxy_set_header {field} $server_name; }}"
        )
    };
    assert_eq!(
        server_verdict(&source("a.test", "Host"), "proxy_set_header"),
        "default"
    );
    let two = source("a.test b.test", "Host");
    assert!(
        server(&two).contains("host = \"a.test\""),
        "{}",
        server(&two)
    );
    let forwarded = server_verdict(
        &source("a.test b.test", "X-Forwarded-Host"),
        "proxy_set_header",
    );
    assert!(forwarded.starts_with("differs: "), "{forwarded}");
}
