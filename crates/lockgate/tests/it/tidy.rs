//! The rules of the house that a reader of the sources can check: which module imports which, and
//! what no file has.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::docs::root;

/// A source file: its path from the root, and its text.
struct Source {
    path: String,
    text: String,
}

impl Source {
    /// The text up to its inline tests.
    fn code(&self) -> &str {
        self.text
            .split("#[cfg(test)]\nmod tests {")
            .next()
            .unwrap_or_default()
    }

    fn is_test(&self) -> bool {
        self.path.contains("/tests/")
            || self.path.ends_with("/tests.rs")
            || self.path.ends_with("/fixtures.rs")
    }

    fn is_in(&self, folder: &str) -> bool {
        self.path.starts_with(folder)
    }

    /// Lines of code, numbered, without lines that are comments.
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.code().lines().enumerate();
        lines
            .map(|(at, line)| (at + 1, line))
            .filter(|(_, line)| !line.trim_start().starts_with("//"))
    }
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for path in entries.map(|entry| entry.unwrap().path()) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if !["target", ".git", "corpus", "artifacts", "img"].contains(&name.as_str()) {
                walk(&path, found);
            }
        } else {
            found.push(path);
        }
    }
}

/// Files below `folder` of which `is_it`.
fn files(folder: &str, is_it: impl Fn(&str) -> bool) -> Vec<Source> {
    let mut found = Vec::new();
    walk(&root().join(folder), &mut found);
    let text = |path: PathBuf| {
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        let text = is_it(&name)
            .then(|| std::fs::read_to_string(&path).ok())
            .flatten()?;
        Some(Source { path: name, text })
    };
    found.into_iter().filter_map(text).collect()
}

fn sources() -> Vec<Source> {
    let sources = files("crates", |path| path.ends_with(".rs"));
    assert!(sources.len() > 50, "these are not the sources");
    sources
}

/// Places, as one text.
fn report(places: impl IntoIterator<Item = String>) {
    let places: Vec<_> = places.into_iter().collect();
    assert!(places.is_empty(), "\n{}", places.join("\n"));
}

/// Every line of code outside tests with `word` in files of which `is_it`.
fn uses<'a>(
    sources: &'a [Source],
    word: &'a str,
    is_it: impl Fn(&Source) -> bool + 'a,
) -> impl Iterator<Item = String> + 'a {
    let concerned = sources
        .iter()
        .filter(move |source| !source.is_test() && is_it(source));
    concerned.flat_map(move |source| {
        let found = source.lines().filter(move |(_, line)| line.contains(word));
        found.map(|(at, line)| format!("{}:{at}: {}", source.path, line.trim()))
    })
}

#[test]
fn every_file_has_a_leading_doc_comment() {
    let first = |source: &Source| {
        source
            .text
            .lines()
            .next()
            .is_some_and(|line| line.starts_with("//! "))
    };
    let all = sources()
        .into_iter()
        .chain(files("fuzz/fuzz_targets", |path| path.ends_with(".rs")));
    report(
        all.filter(|source| !first(source))
            .map(|source| source.path),
    );
}

#[test]
fn only_the_tls_folder_uses_rustls() {
    let sources = sources();
    let elsewhere = |source: &Source| {
        !source.is_in("crates/lockgate-net/src/tls") && !source.is_in("crates/lockgate-testkit")
    };
    report(uses(&sources, "rustls::", elsewhere));
}

/// Note 038: the product speaks HTTP/2 by a layer of its own, and the crate is the other opinion.
#[test]
fn only_tests_use_the_h2_crate() {
    let sources = sources();
    let elsewhere = |source: &Source| !source.is_in("crates/lockgate-testkit/");
    let words = ["use h2::", "h2::client::", "h2::server::"];
    report(
        words
            .into_iter()
            .flat_map(|word| uses(&sources, word, elsewhere)),
    );
}

/// A thread that another function starts would keep what only the main thread may do.
#[test]
fn every_thread_of_the_server_gives_up_its_capability() {
    let sources = sources();
    let rooms = [
        "crates/lockgate/src/",
        "crates/lockgate-http-io/",
        "crates/lockgate-limits/",
        "crates/lockgate-net/",
        "crates/lockgate-proxy/",
        "crates/lockgate-upstream/",
    ];
    let is_server = |source: &Source| {
        let is_in = |room: &&str| source.is_in(room);
        rooms.iter().any(is_in) && source.path != "crates/lockgate-net/src/threads.rs"
    };
    let words = [
        "thread::Builder",
        "thread::spawn",
        "thread::scope",
        "new_multi_thread",
    ];
    report(
        words
            .into_iter()
            .flat_map(|word| uses(&sources, word, is_server)),
    );
}

#[test]
fn unsafe_is_only_in_syscall_and_allocator() {
    let sources = sources();
    let word = "unsafe";
    let rooms = [
        "crates/lockgate-net/src/syscall.rs",
        "crates/lockgate-net/src/memory/allocator.rs",
    ];
    // The task that measures the sources counts the word.
    let elsewhere =
        |source: &Source| !rooms.contains(&source.path.as_str()) && !source.is_in("crates/xtask");
    let found = uses(&sources, word, elsewhere);
    report(found.filter(|line| {
        !line.contains("forbid(unsafe_code)")
            && !line.contains("deny(unsafe_code)")
            && !line.contains("allow(unsafe_code")
            // Names of statements of HAProxy.
            && !line.contains("-unsafe-violations-")
    }));
}

/// The dependencies in the manifest of a crate of ours, outside tests.
fn dependencies(name: &str) -> BTreeSet<String> {
    let manifest =
        std::fs::read_to_string(root().join("crates").join(name).join("Cargo.toml")).unwrap();
    let section = manifest
        .split("\n[dependencies]\n")
        .nth(1)
        .expect("a section of dependencies");
    let section = section.split("\n[").next().unwrap_or_default();
    let name = |line: &str| {
        line.split(['.', ' ', '='])
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    section
        .lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
        .map(name)
        .collect()
}

/// What crates of lower floors and crates of others must not be imported for all that; `xtask` has
/// the floors.
#[test]
fn crates_have_no_dependency_that_is_not_theirs() {
    let never: [(&str, &[&str]); 19] = [
        ("lockgate-content", &["tokio", "tracing", "serde"]),
        ("lockgate-http", &["tokio", "tracing", "serde", "h2"]),
        ("lockgate-metrics", &["tokio"]),
        (
            "lockgate-rules",
            &["lockgate-metrics", "tokio", "tracing", "serde", "toml"],
        ),
        ("lockgate-config", &["lockgate-metrics", "tokio", "rustls"]),
        (
            "lockgate-export",
            &["lockgate-config", "tokio", "tracing", "serde"],
        ),
        (
            "lockgate-net",
            &[
                "lockgate-http",
                "lockgate-rules",
                "lockgate-metrics",
                "tracing",
                "serde",
            ],
        ),
        (
            "lockgate-limits",
            &[
                "lockgate-config",
                "lockgate-http",
                "lockgate-rules",
                "lockgate-metrics",
                "tracing",
                "serde",
                "rustls",
            ],
        ),
        (
            "lockgate-http-io",
            &[
                "lockgate-config",
                "lockgate-rules",
                "lockgate-metrics",
                "tracing",
                "serde",
                "rustls",
                "h2",
                "http",
            ],
        ),
        (
            "lockgate-certs",
            &["lockgate-config", "lockgate-proxy", "rustls", "clap"],
        ),
        (
            "lockgate-dns",
            &["lockgate-config", "lockgate-proxy", "rustls", "clap"],
        ),
        (
            "lockgate-ddns",
            &["lockgate-config", "lockgate-proxy", "rustls", "clap"],
        ),
        (
            "lockgate-client",
            &[
                "lockgate-config",
                "lockgate-rules",
                "lockgate-metrics",
                "rustls",
                "tracing",
                "serde",
                "h2",
            ],
        ),
        (
            "lockgate-upstream",
            &[
                "lockgate-config",
                "lockgate-client",
                "lockgate-load",
                "lockgate-metrics",
                "serde",
                "rustls",
            ],
        ),
        (
            "lockgate-proxy",
            &[
                "lockgate-config",
                "lockgate-client",
                "lockgate-load",
                "lockgate-report",
                "serde",
                "serde_json",
                "rustls",
                "toml",
                "clap",
                "nix",
                "h2",
                "http",
            ],
        ),
        (
            "lockgate-load",
            &["lockgate-config", "rustls", "clap", "serde", "serde_json"],
        ),
        (
            "lockgate-report",
            &[
                "lockgate-config",
                "lockgate-http-io",
                "lockgate-limits",
                "rustls",
                "clap",
            ],
        ),
        (
            "lockgate-compare",
            &[
                "lockgate-config",
                "lockgate-http-io",
                "lockgate-limits",
                "lockgate-upstream",
                "rustls",
                "clap",
            ],
        ),
        ("lockgate", &["rustls", "h2"]),
    ];
    let broken = never.iter().flat_map(|(name, never)| {
        let has = dependencies(name);
        let found = never.iter().filter(move |other| has.contains(**other));
        found.map(move |other| format!("{name} must not depend on {other}"))
    });
    report(broken);
    for entry in std::fs::read_dir(root().join("crates")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(
            !dependencies(&name).contains("lockgate-testkit"),
            "{name}: the testkit is for tests only"
        );
    }
}

#[test]
fn only_assemble_uses_both_config_and_proxy() {
    let sources = sources();
    let both = sources
        .iter()
        .filter(|source| source.is_in("crates/lockgate/src") && !source.is_test())
        .filter(|source| {
            // The supervisor and its modules start what the assembly made, by settings that are
            // only theirs.
            let starts = [
                "assemble.rs",
                "supervisor.rs",
                "check.rs",
                "start.rs",
                "generation.rs",
            ];
            let rooms = ["/assemble/", "/check/", "/explain/", "/supervisor/"];
            let may = starts.iter().any(|name| source.path.ends_with(name))
                || rooms.iter().any(|room| source.path.contains(room));
            let heart = ["lockgate_proxy::", "lockgate_upstream::"];
            !may && source.code().contains("lockgate_config::")
                && heart.iter().any(|name| source.code().contains(name))
        });
    report(both.map(|source| source.path.clone()));
}

/// What modules of lower floors and crates must not be imported for all that.
#[test]
fn proxy_modules_import_only_what_they_need() {
    let sources = sources();
    let never = [
        ("crates/lockgate-proxy/src/action/", &["crate::route"][..]),
        (
            "crates/lockgate-proxy/src/route/",
            &["lockgate_upstream", "tokio"],
        ),
        (
            "crates/lockgate-proxy/src/transform/",
            &["lockgate_upstream", "tokio"],
        ),
    ];
    let found = never.iter().flat_map(|(folder, words)| {
        let sources = &sources;
        words
            .iter()
            .flat_map(move |word| uses(sources, word, move |source| source.is_in(folder)))
    });
    report(found);
}

#[test]
fn workers_share_no_lock_but_the_limit_tables() {
    let sources = sources();
    let shared = |source: &Source| {
        [
            "/sharded_table.rs",
            "/rate_limit.rs",
            "/shaping.rs",
            // A worker and one reader, and only while that reads.
            "/access_log/tail.rs",
            // A worker and the live page, and only for an error.
            "/access_log/recent_errors.rs",
            // A worker and the admin socket, and only for a request with a token while one is open.
            "/request_traces.rs",
            // A worker and the task that sends spans, and only once a tick.
            "/lockgate-proxy/src/spans.rs",
        ]
        .iter()
        .any(|room| source.path.ends_with(room))
    };
    let crates = ["proxy", "upstream", "limits", "http-io"];
    let folders = crates.map(|name| format!("crates/lockgate-{name}/src/"));
    let heart =
        |source: &Source| folders.iter().any(|folder| source.is_in(folder)) && !shared(source);
    let words = [
        "tokio::spawn",
        "Mutex<",
        "RwLock<",
        "std::env::",
        "tokio::signal",
        "tokio::time",
    ];
    report(
        words
            .into_iter()
            .flat_map(|word| uses(&sources, word, heart)),
    );
}

#[test]
fn no_file_contains_todo_or_dbg() {
    // Put together here, so that this file does not contain them.
    let words = [
        ["TO", "DO"],
        ["FIX", "ME"],
        ["XX", "X"],
        ["todo", "!("],
        ["dbg", "!("],
        ["unimplemented", "!("],
    ];
    let words = words.map(|parts| parts.concat());
    let all = sources()
        .into_iter()
        .chain(files("bench", |_| true))
        .chain(files("docs", |path| path.ends_with(".md")));
    let found = all.flat_map(|source| {
        let has = |line: &str| words.iter().any(|word| whole_word(line, word));
        let lines: Vec<_> = source
            .text
            .lines()
            .enumerate()
            .filter(|(_, line)| has(line))
            .map(|(at, line)| format!("{}:{}: {}", source.path, at + 1, line.trim()))
            .collect();
        lines
    });
    report(found);
}

/// Whether `line` has `word` with no letter right before or after it.
fn whole_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let letter = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        let call = word.ends_with('(');
        !letter(line[..at].chars().next_back())
            && (call || !letter(line[at + word.len()..].chars().next()))
    })
}

#[test]
fn no_file_contains_a_machine_path() {
    let words = [
        ["/ho", "me/"],
        ["/ro", "ot/"],
        ["/wo", "rk/"],
        ["/Us", "ers/"],
        ["/tmp/", "target"],
    ]
    .map(|parts| parts.concat());
    let text = |path: &str| !path.ends_with(".png") && !path.ends_with(".lock");
    let mut all = files("crates", text);
    for folder in ["docs", "bench", "packaging", "fuzz", ".ci"] {
        all.extend(files(folder, text));
    }
    for page in [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "Cargo.toml",
        "deny.toml",
    ] {
        if let Ok(text) = std::fs::read_to_string(root().join(page)) {
            all.push(Source {
                path: page.to_owned(),
                text,
            });
        }
    }
    let found = all.iter().flat_map(|source| {
        let lines = source.text.lines().enumerate();
        let bad = lines.filter(|(_, line)| words.iter().any(|word| starts_path(line, word)));
        bad.map(|(at, line)| format!("{}:{}: {}", source.path, at + 1, line.trim()))
    });
    report(found);
}

/// Whether a path in `line` begins with `word`: `docs/work/` does not.
fn starts_path(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || ".}_-".contains(c))
    })
}

#[test]
fn no_file_is_called_util_or_helpers() {
    let nothing = [
        "util", "utils", "common", "helpers", "helper", "manager", "context", "globals", "misc",
    ];
    let named = |source: &Source| {
        let mut parts = source.path.trim_end_matches(".rs").split('/');
        parts.any(|part| nothing.contains(&part) || part.ends_with("_main"))
    };
    report(
        sources()
            .into_iter()
            .filter(named)
            .map(|source| source.path),
    );
}

#[test]
fn lib_rs_and_mod_rs_hold_no_logic() {
    let root =
        |source: &Source| source.path.ends_with("/lib.rs") || source.path.ends_with("/mod.rs");
    let found = sources().into_iter().filter(root).filter(|source| {
        let functions = source
            .lines()
            .filter(|(_, line)| line.trim_start().starts_with("fn ") || line.contains(" fn "));
        functions.count() > 2
    });
    report(found.map(|source| source.path));
}

#[test]
fn no_file_exceeds_its_line_limit() {
    let long = |source: &Source| !source.is_test() && source.code().lines().count() > 780;
    report(
        sources()
            .into_iter()
            .filter(long)
            .map(|source| format!("{}: {} lines", source.path, source.code().lines().count())),
    );
}

#[test]
fn every_dependency_has_a_comment() {
    // Once is enough: by the crate of ours that uses it first, or where versions are shared.
    let mut explained = BTreeSet::new();
    let mut used = BTreeSet::new();
    for entry in std::fs::read_dir(root().join("crates")).unwrap() {
        let manifest = std::fs::read_to_string(entry.unwrap().path().join("Cargo.toml")).unwrap();
        let Some(section) = manifest.split("\n[dependencies]\n").nth(1) else {
            continue;
        };
        for line in section
            .split("\n[")
            .next()
            .unwrap_or_default()
            .lines()
            .filter(|line| line.contains('='))
        {
            let name = line
                .split(['.', ' ', '='])
                .next()
                .unwrap_or_default()
                .to_owned();
            if line.contains(" # ") {
                explained.insert(name.clone());
            }
            used.insert(name);
        }
    }
    // A crate that is widely known, or comes with another one, needs no comment.
    let known = [
        "tokio",
        "thiserror",
        "tracing-subscriber",
        "tempfile",
        "hyper-util",
    ];
    let silent = used.into_iter().filter(|name| {
        !explained.contains(name)
            && !name.starts_with("lockgate")
            && !known.contains(&name.as_str())
    });
    report(silent);
    let workspace = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let members = workspace
        .split("members = [")
        .nth(1)
        .unwrap()
        .split(']')
        .next()
        .unwrap();
    report(
        members
            .lines()
            .filter(|line| line.contains("crates/") && !line.contains('#'))
            .map(str::to_owned),
    );
}
