//! What a review found: translations that said nothing about what they lost.

use super::{CLOSED, imported, server, server_verdict};

/// The table of a route in a server's file, without its header. `None` if there is none.
fn route(source: &str, key: &str) -> Option<String> {
    let text = server(source);
    let header = format!(".path.\"{key}\"]\n");
    let (_, rest) = text.split_once(&header)?;
    Some(rest.split("\n[").next().unwrap_or(rest).trim().to_owned())
}

#[track_caller]
fn assert_has(source: &str, key: &str, line: &str) {
    let found = route(source, key);
    assert!(
        found.as_deref().is_some_and(|text| text.contains(line)),
        "{key}: {found:?}\n{}",
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
