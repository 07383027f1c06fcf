//! Includes, damaged sources and large ones.

use super::{assert_valid, import_files, server};
use crate::{ImportError, Verdict};

#[test]
fn includes() {
    let main = (
        "nginx.conf",
        "http { include conf.d/*.conf; include gone.conf; include mime.types; }",
    );
    let site = ("conf.d/a.conf", "server { listen 80; include more.conf; }");
    let imported = import_files(&[main, site, ("more.conf", "return 204;")]).unwrap();
    assert_valid(&imported);
    let text = imported.draft.to_string();
    assert!(
        text.contains("respond = 204") && text.contains("nginx.conf:1: include gone.conf"),
        "{text}"
    );
    let lines: Vec<_> = imported.report.lines().map(|line| line.verdict).collect();
    assert_eq!(
        lines
            .iter()
            .filter(|v| matches!(v, Verdict::NotSupported { .. }))
            .count(),
        1
    );
}

/// Such a file would be read twice as often with each level of includes.
#[test]
fn a_file_that_includes_itself_is_read_once() {
    let site = "server { listen 80; return 204; }";
    let main = (
        "nginx.conf",
        &*format!("include a.conf; http {{ include a.conf; {site} }}"),
    );
    let a = ("a.conf", "include b.conf; include a.conf;");
    let b = ("b.conf", "include a.conf; include nginx.conf;");
    let imported = import_files(&[main, a, b]).unwrap();
    assert_valid(&imported);
    let verdicts: Vec<_> = imported.report.lines().map(|line| line.verdict).collect();
    let refused = |verdict: &&Verdict| match verdict {
        Verdict::NotSupported { because, .. } => because.contains("includes itself"),
        _ => false,
    };
    // Two of b.conf and one of a.conf, twice.
    assert_eq!(verdicts.iter().filter(refused).count(), 6);
}

#[test]
fn damaged_sources() {
    for (source, reason) in [
        ("a b", "this directive has no ; at its end"),
        ("http { a;", "this block has no closing brace"),
        ("}", "this brace closes nothing"),
        ("a \"b;", "this quote has no end"),
        ("a \"b\"c;", "text follows a quote without a space"),
        (";", "a directive has no name"),
        ("{ }", "a directive has no name"),
        ("http { a }", "a ; is missing before this brace"),
        ("x_by_lua_block { {", "this block has no closing brace"),
    ] {
        let Err(ImportError::Syntax {
            reason: found,
            place,
        }) = import_files(&[("nginx.conf", source)])
        else {
            panic!("{source}");
        };
        assert_eq!((found.as_str(), place.line), (reason, 1), "{source}");
    }
    let deep = "a { ".repeat(100_000);
    assert!(import_files(&[("nginx.conf", &deep)]).is_err());
    for source in [
        "listen;",
        "location;",
        "location {}",
        "server_name;",
        "return;",
        "rewrite;",
        "if {}",
        "proxy_pass;",
        "root;",
        "try_files;",
        "error_page;",
        "set;",
        "add_header;",
        "expires;",
        "limit_req;",
        "alias;",
        "allow;",
        "auth_basic;",
        "access_log;",
        "proxy_set_header;",
    ] {
        let _ = server(source);
        let _ = server(&format!("location / {{ {source} }}"));
    }
}

#[test]
fn a_large_source_is_read() {
    let mut source = String::from("server { listen 80;");
    for number in 0..5_000 {
        source.push_str(&format!(
            "location /p{number}/ {{ proxy_pass http://a:1; expires 1d; }}\n"
        ));
    }
    source.push('}');
    let imported = import_files(&[("nginx.conf", &source)]).unwrap();
    assert_eq!(imported.report.lines().count(), 15_002);
}
