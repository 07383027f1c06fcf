//! Every configuration in the documentation is valid as it stands there.
//!
//! A block that shows a mistake, or another program's file, is not marked `toml` but `text`.

use std::path::{Path, PathBuf};

use lockgate_config::{Environment, parse_str_in};
use lockgate_testkit::Origin;
use serde_json::Value;

use crate::scene::{Site, lockgate};

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The files of documentation that users read.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![root().join("README.md")];
    for folder in [
        "docs",
        "docs/guides",
        "docs/notes",
        "docs/perf",
        "packaging",
        "bench",
    ] {
        let Ok(entries) = std::fs::read_dir(root().join(folder)) else {
            continue;
        };
        pages.extend(
            entries
                .map(|entry| entry.unwrap().path())
                .filter(|path| path.extension().is_some_and(|ext| ext == "md")),
        );
    }
    pages
}

/// The blocks of `language` in a page, each with the number of its first line.
pub(crate) fn blocks(page: &str, language: &str) -> Vec<(usize, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(usize, String)> = None;
    let mut lines = page.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        match &mut open {
            Some(_) if line.trim_start().starts_with("```") => blocks.extend(open.take()),
            Some((_, text)) => {
                text.push_str(line);
                text.push('\n');
            }
            None if line.trim_start() == format!("```{language}") => {
                open = Some((number + 2, String::new()))
            }
            // Another language: skipped to its end.
            None if line.trim_start().starts_with("```") => {
                lines
                    .by_ref()
                    .find(|(_, line)| line.trim_start().starts_with("```"));
            }
            None => {}
        }
    }
    blocks
}

/// The mistakes of a block; files and variables that it names need not exist.
fn mistakes(text: &str) -> Option<String> {
    // The reference shows one key at a time: the rest of a valid file is added.
    let whole = if text.contains("[tcp.") || text.contains("[tunnel.") || text.contains("\n[site") {
        text.to_owned()
    } else {
        let listener = if text.contains("[tls]") {
            "tls = {}\n"
        } else {
            ""
        };
        format!("{text}\n[tcp.\":1\"]\n{listener}proxy = \"127.0.0.1:3000\"\n")
    };
    let env = Environment::none()
        .with_file("/etc/lockgate/redirects", "/old /new\n")
        .with_file("/etc/lockgate/eab.key", "aGVsbG8\n")
        .with_file("/etc/lockgate/dns.token", "s3cret\n")
        .with_file("/etc/lockgate/influx.token", "s3cret\n")
        .with_file("/etc/lockgate/otlp.token", "s3cret\n")
        .with_file("/etc/lockgate/dns.key", "aGVsbG8=\n");
    let report = parse_str_in(&whole, Path::new("/etc/lockgate/lockgate.toml"), &env).err()?;
    Some(report.to_string())
}

#[test]
fn the_relay_log_line_in_the_readme_has_real_fields() {
    let site = Site::new();
    let origin = Origin::unix(&site.folder.path("app.sock"));
    let mut gate = lockgate().start(&site.tls(&origin.address(), ""));
    let mut client = site.connect(&gate);
    client.send("ping");
    let mut upstream = origin.accept();
    upstream.expect("ping");
    upstream.send("pong");
    drop(upstream);
    client.expect("pong");
    client.finish();
    let fields = |line: &Value| {
        line.as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let lines = blocks(&readme, "json").into_iter().flat_map(|(_, block)| {
        serde_json::Deserializer::from_str(&block)
            .into_iter()
            .map(Result::unwrap)
            .collect::<Vec<Value>>()
    });
    let relays: Vec<Value> = lines.filter(|line| line.get("method").is_none()).collect();
    assert_eq!(
        relays.iter().map(fields).collect::<Vec<_>>(),
        [fields(&gate.next_line())]
    );
}

#[test]
fn every_toml_block_is_a_valid_configuration() {
    let mut checked = 0;
    let mut wrong = String::new();
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for (line, block) in blocks(&text, "toml") {
            checked += 1;
            if let Some(report) = mistakes(&block) {
                wrong += &format!("{}:{line}\n{block}{report}\n", page.display());
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(checked > 50, "{checked} blocks are not the reference");
}

#[test]
fn every_documented_command_exists() {
    let verbs = [
        "run",
        "check",
        "demo",
        "proxy",
        "serve",
        "tunnel",
        "load",
        "compare",
        "version",
        "healthcheck",
        "status",
        "tail",
        "top",
        "pools",
        "endpoints",
        "certs",
        "cert",
        "ca",
        "log-level",
        "reload",
        "upgrade",
        "reopen",
        "drain",
        "stop",
        "confirm",
        "rollback",
        "doctor",
        "explain",
        "fmt",
        "import",
        "plan",
        "completion",
        "man",
    ];
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for (line, block) in blocks(&text, "sh")
            .into_iter()
            .chain(blocks(&text, "console"))
            .chain(blocks(&text, "bash"))
        {
            for words in block
                .lines()
                .map(|line| line.split_whitespace().collect::<Vec<_>>())
            {
                let Some(at) = words
                    .iter()
                    .position(|word| *word == "lockgate" || word.ends_with("/lockgate"))
                else {
                    continue;
                };
                let Some(verb) = words
                    .get(at + 1)
                    .filter(|verb| verb.chars().all(|c| c.is_ascii_lowercase() || c == '-'))
                else {
                    continue;
                };
                // As the first word of a command only: `useradd lockgate` and `-p lockgate` are
                // other commands.
                let first = words[..at]
                    .iter()
                    .all(|word| ["$", "sudo", "./target/release/lockgate"].contains(word));
                assert!(
                    !first || verbs.contains(verb),
                    "{}:{line}: lockgate {verb}",
                    page.display()
                );
            }
        }
    }
}
