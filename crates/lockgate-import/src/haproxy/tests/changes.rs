//! Rules that ask for what earlier ones have changed.

use super::{HTTP, draft, front, read, verdict};

const CLOSED: &str = "deny = [\"0.0.0.0/0\", \"::/0\"]";

/// With these rules every client is refused, and the last statement that begins so is reported.
fn closed(rules: &str, begins: &str) {
    let text = front(&format!(" {rules}\n default_backend a"));
    let draft = draft(&text);
    assert!(draft.contains(CLOSED), "{rules}\n{draft}");
    assert_eq!(verdict(&text, begins).0, 'n', "{rules}");
}

#[test]
fn conditions_after_a_change_of_the_path() {
    for (change, then, begins) in [
        (
            "set-path /n%[path]",
            "http-request deny if { path_beg /n/x }",
            "http-request deny",
        ),
        (
            "set-path /n%[path]",
            "http-request deny unless { path_beg /n/x }",
            "http-request deny",
        ),
        (
            "set-path /n%[path]",
            "use_backend b if { path_beg /n/adm }",
            "use_backend",
        ),
        (
            "set-path /n%[path] if { path_beg /q }",
            "use_backend b if { path_beg /n/q/adm }",
            "use_backend",
        ),
        (
            "set-path /n%[path] if { hdr(x-new) 1 }",
            "use_backend b if { path_beg /n/q/adm }",
            "use_backend",
        ),
        (
            "replace-path /q/(.*) /\\1 if { path_beg /q/ }",
            "http-request deny if { path /x }",
            "http-request deny",
        ),
        (
            "set-uri /n%[path]",
            "use_backend b if { path_beg /n/x } { src 10.0.0.1 }",
            "use_backend",
        ),
        (
            "set-path /n%[path]",
            "http-request allow if { path /n/x }\n http-request deny if { src 10.0.0.1 }",
            "http-request allow",
        ),
        (
            "set-path /n%[path]",
            "use_backend c\nbackend c\n http-request deny if { path /n/x }\n server s 10.0.0.3:80\nfrontend g\n bind :81",
            "http-request deny",
        ),
    ] {
        closed(&format!("http-request {change}\n {then}"), begins);
    }
    // What decides without the path, or before the change, is as it was.
    for rules in [
        "http-request deny if { path_beg /x }\n http-request set-path /n%[path]",
        "http-request set-path /n%[path]\n use_backend b if { path_beg /x } { dst_port 81 }",
        "http-request set-path /n%[path]\n use_backend b if { hdr(host) -i x.test }",
    ] {
        let draft = draft(&front(&format!(" {rules}\n default_backend a")));
        assert!(!draft.contains(CLOSED), "{rules}\n{draft}");
        assert!(draft.contains("rewrite = \"/n{path}\""), "{rules}\n{draft}");
    }
    // Only the paths that are changed are closed.
    let text = front(
        " http-request set-path /n%[path] if { path_beg /q }\n use_backend b if { path_beg /z }\n default_backend a",
    );
    let draft = draft(&text);
    assert!(draft.starts_with("[site.\":80\"]\nproxy = \"10.0.0.1:80\"\n\n"));
    assert!(draft.contains(".path.\"/z/*\"]\nproxy = \"10.0.0.2:80\""));
    assert!(
        draft.contains(&format!(".path.\"/q/*\"]\n{CLOSED}")),
        "{draft}"
    );
}

#[test]
fn targets_and_values_after_a_change() {
    for rules in [
        "http-request set-path /n%[path]\n http-request redirect location https://a.test%[path]",
        "http-request set-path /n%[path]\n redirect scheme https",
        "http-request set-header Host x.test\n redirect scheme https",
    ] {
        let text = front(&format!(" {rules}\n default_backend a"));
        assert!(draft(&text).contains("respond = 503"), "{rules}");
    }
    let text = front(
        " http-request set-path /n%[path]\n http-request set-header X-Path %[path]\n default_backend a",
    );
    assert!(!draft(&text).contains("x-path"));
    assert_eq!(verdict(&text, "http-request set-header").0, 'n');
}

#[test]
fn conditions_after_a_change_of_the_host() {
    for change in [
        "http-request set-header Host x.test",
        "http-request replace-header host (.*)\\.old \\1.test",
        "http-request replace-value Host a x",
        "http-request del-header Host",
        "http-request del-header ^Ho -m reg",
        "http-request add-header Host x.test",
        "http-request set-header Host x.test if { hdr(x-new) 1 }",
        "reqidel ^Host:.*",
    ] {
        for (then, begins) in [
            ("use_backend b if { hdr(host) -i x.test }", "use_backend"),
            (
                "http-request deny unless { hdr(host) -i x.test }",
                "http-request deny",
            ),
        ] {
            closed(&format!("{change}\n {then}"), begins);
        }
    }
    for rules in [
        "use_backend b if { hdr(host) -i x.test }\nbackend b\n http-request set-header Host y.test\nfrontend g\n bind :81",
        "http-request set-header Host %[req.hdr(Host),field(1,:),lower]\n use_backend b if { hdr(host) -i x.test }",
        "http-request set-header X-Host x.test\n use_backend b if { hdr(host) -i x.test }",
    ] {
        let draft = draft(&front(&format!(" {rules}\n default_backend a")));
        assert!(!draft.contains(CLOSED), "{rules}\n{draft}");
    }
}

#[test]
fn fields_of_a_connection_are_left_alone() {
    for field in [
        "Connection",
        "Keep-Alive",
        "Upgrade",
        "TE",
        "Content-Length",
        "Host",
        "Via",
        "Expect",
        "Forwarded",
        "X-Forwarded-For",
        "X-Request-Id",
        "Date",
        "Set-Cookie",
    ] {
        for message in ["request", "response"] {
            for rule in [
                format!("del-header {field}"),
                format!("set-header {field} x"),
                format!("add-header {field} x"),
            ] {
                // The file must be valid.
                draft(&front(&format!(
                    " http-{message} {rule}\n default_backend a"
                )));
            }
        }
    }
}

#[test]
fn a_password_that_lets_no_client_in() {
    let users = "userlist u\n user x password $6$a$b\n";
    let text = front(
        " http-request auth unless { http_auth(u) } { hdr(host) -i b.test }\n default_backend a",
    );
    let text = format!("{users}{text}");
    assert!(draft(&text).contains(CLOSED));
    let (code, because) = verdict(&text, "http-request auth");
    assert!(
        code == 'n' && because.starts_with("where the condition holds, every client is asked"),
        "{because}"
    );
}

#[test]
fn what_no_statement_says_stands_at_the_start() {
    let ipv6 = "for IPv6 too";
    let pauses = "pauses in its body";
    let default = "without a known server name";
    for (bind, expected) in [
        ("bind :80", &[ipv6, pauses][..]),
        ("bind *:80", &[ipv6, pauses]),
        ("bind 0.0.0.0:80", &[ipv6, pauses]),
        ("bind *:80\n bind :::80 v6only", &[pauses]),
        ("bind :::80", &[pauses]),
        ("bind ipv6@:80", &[pauses]),
        ("bind 10.0.0.1:80", &[pauses]),
        ("bind ::1:443 ssl crt /etc/certs/", &[pauses, default]),
        ("bind ::1:443 ssl crt /etc/certs/ strict-sni", &[pauses]),
        ("bind ::1:443 ssl crt /a.pem crt /etc/certs/", &[pauses]),
        ("bind ::1:80\n timeout server 0", &[]),
    ] {
        let text = format!("{HTTP}listen l\n {bind}\n server s 10.0.0.1:80\n");
        draft(&text);
        let preface = read(&text).unwrap().draft.preface;
        for note in [ipv6, pauses, default] {
            let count = preface.iter().filter(|line| line.contains(note)).count();
            assert_eq!(
                count,
                usize::from(expected.contains(&note)),
                "{bind}: {preface:?}"
            );
        }
    }
    let strict = front(" bind :443 ssl crt /a.pem strict-sni\n default_backend a");
    assert_eq!(verdict(&strict, "bind :443").0, 'd');
    let relay =
        "listen l\n mode tcp\n bind :443 ssl crt /a.pem crt /b.pem\n server s 10.0.0.1:80\n";
    assert!(draft(relay).contains("certs = [\"/a.pem\", \"/b.pem\"], default = \"/a.pem\""));
    let v6only = front(" bind ipv6@:81 v6only\n default_backend a");
    assert!(draft(&v6only).contains("listen = [\"[::]\"]"));
}

#[test]
fn conditions_after_a_change_of_the_port() {
    for change in ["http-request", "tcp-request content"] {
        closed(
            &format!("{change} set-dst-port int(81)\n http-request deny unless {{ dst_port 80 }}"),
            "http-request deny",
        );
    }
}

#[test]
fn rules_for_responses_do_not_know_the_request() {
    for (condition, expected) in [
        ("{ path_beg /x }", 'd'),
        ("{ hdr(host) a.test }", 'd'),
        ("TRUE", 'C'),
    ] {
        let text = front(&format!(
            " http-response set-header X-A 1 if {condition}\n default_backend a"
        ));
        assert_eq!(verdict(&text, "http-response").0, expected, "{condition}");
    }
}
