//! Caddyfiles that are damaged, or made to keep the import busy.

use super::tests::{read, read_files};
use crate::ImportError;

#[test]
fn damaged_text_is_a_mistake_at_its_line() {
    for (text, line) in [
        (":80 {\n respond \"a\n}\n", 2),
        (":80 {\n respond 200\n", 2),
        (":80 {\n}\n}\n", 3),
        (":80 {\n respond <<X\n a\n", 2),
        (":80 {\n {\n }\n}\n", 2),
    ] {
        match read_files(&[("Caddyfile", text)]) {
            Err(ImportError::Syntax { place, .. }) => assert_eq!(place.line, line, "{text}"),
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn hostile_sources_end() {
    let deep = format!(
        ":80 {{\n{}{}}}\n",
        "handle {\n".repeat(5000),
        "}\n".repeat(5000)
    );
    assert!(matches!(
        read_files(&[("Caddyfile", &deep)]),
        Err(ImportError::Syntax { .. })
    ));
    let nested = format!(
        ":80 {{\n{}respond 200\n{}}}\n",
        "handle {\n".repeat(60),
        "}\n".repeat(60)
    );
    read(&nested);
    let looped = [(
        "Caddyfile",
        "import Caddyfile\n:80 {\n import Caddyfile\n}\n",
    )];
    assert!(read_files(&looped).is_ok() || read_files(&looped).is_err());
    let mut snippets = String::new();
    for number in 0..40 {
        let next = number + 1;
        snippets.push_str(&format!(
            "(s{next}) {{\n import s{number}\n import s{number}\n}}\n"
        ));
    }
    snippets.push_str(":80 {\n import s40\n respond 200\n}\n");
    read(&snippets);
    let mut conditions = String::from(":80 {\n @a header A b\n");
    for number in 0..500 {
        conditions.push_str(&format!(
            " redir @a /{number}\n handle @a {{\n header A b\n }}\n"
        ));
    }
    conditions.push_str(" respond 200\n}\n");
    read(&conditions);
    for text in [
        "\u{feff}", "{", "}", "{}", "a", "\\", "@x", "`", "{$", "((((", "import", "<<",
    ] {
        let _ = read_files(&[("Caddyfile", text)]);
        let _ = read_files(&[("Caddyfile", &format!(":80 {{\n{text}\n}}"))]);
        let _ = read_files(&[(
            "Caddyfile",
            &format!(":80 {{\nheader {text}\nuri {text}\n}}"),
        )]);
    }
}
