//! Damaged, nested and large files.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::{Files, HTTP, draft, front, read};
use crate::{Format, ImportError, import};

#[test]
fn what_is_not_haproxy_is_a_syntax_error() {
    for (text, line) in [
        ("server { listen 80; }", 1),
        ("global\n log \"x", 2),
        (".endif", 1),
        ("frontend f\n.if x\n", 2),
        ("frontend f from nowhere\n", 1),
        (&".if x\n".repeat(100), 65),
        ("<html>\n", 1),
    ] {
        match read(text) {
            Err(ImportError::Syntax { place, .. }) => assert_eq!(place.line, line, "{text}"),
            other => panic!("{text}: {other:?}"),
        }
    }
    assert!(matches!(
        import(
            Format::Haproxy,
            &[PathBuf::from("none")],
            &Files(BTreeMap::new())
        ),
        Err(ImportError::Unreadable { .. })
    ));
}

#[test]
fn a_damaged_file_does_no_harm() {
    let good = front(
        " bind :443 ssl crt /a.pem\n acl x hdr(host) -i a.test\n use_backend a if x { path_beg /a } or !x\n http-request deny if { src 10.0.0.1 } x\n default_backend b",
    );
    for cut in 0..good.len() {
        if let Ok(imported) = read(&good[..cut]) {
            let _ = imported.draft.to_string();
        }
        let mut bytes = good.clone().into_bytes();
        bytes[cut] = b"{!\"\\\n#"[cut % 6];
        let _ = read(&String::from_utf8_lossy(&bytes));
    }
    for odd in [
        "bind",
        "server",
        "server s",
        "acl",
        "acl x",
        "use_backend",
        "http-request",
        "redirect",
        "http-request deny if {",
        "cookie",
        "balance",
        "timeout",
        "stats",
        "option",
        "stick on",
        "stick-table",
        "http-check",
        "compression",
        "monitor-uri",
        "errorfile",
        "tcp-request content",
        "http-request return status",
        "use_backend a if ! ! !",
    ] {
        let _ = draft(&front(&format!(" {odd}\n default_backend a")));
    }
}

#[test]
fn large_files_are_read() {
    let mut text = format!("{HTTP}frontend f\n bind :80\n");
    for n in 0..1500 {
        text.push_str(&format!(
            " use_backend b{n} if {{ hdr(host) -i h{n}.test }} {{ path_beg /p{n} }}\n"
        ));
    }
    for n in 0..5_000 {
        text.push_str(&format!("backend b{n}\n server s 10.0.0.1:80 check\n"));
    }
    read(&text).unwrap();
    let many = format!(
        "{HTTP}frontend f\n bind :80\n{}",
        " use_backend b if { hdr(host) -i a.test b.test } or { path_beg /a }\n".repeat(20_000)
    );
    read(&many).unwrap();
    let servers = format!(
        "{HTTP}listen f\n bind :80\n{}",
        " server s 10.0.0.1:80 check\n".repeat(40_000)
    );
    read(&servers).unwrap();
    let deep = front(&format!(
        " acl x {}path /\n use_backend a if {}x",
        "! ".repeat(100_000),
        "!".repeat(100_000)
    ));
    read(&deep).unwrap();
}
