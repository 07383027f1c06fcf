//! `docs/config.md`, written from the table of keys and the table of codes.

use std::collections::BTreeMap;

use crate::codes::Code;
use crate::keys::{self, KeyPath};
use crate::language::{Unset, names};

/// The whole text of `docs/config.md`.
pub fn reference() -> String {
    let body = body();
    INTRODUCTION.replace("{contents}", contents(&body).trim_end()) + &body
}

/// The reference of all keys and codes.
fn body() -> String {
    let mut text = CHAPTERS.to_owned();
    let mut explained: BTreeMap<(&str, &str), String> = BTreeMap::new();
    let mut repeated = Repeated::default();
    for way in keys::key_paths() {
        let Some(key) = way.last() else { continue };
        let name = keys::full_name(&way);
        if let Some(chapter) = chapter(&way) {
            text.push_str(&repeated.take());
            text.push_str(&chapter);
        }
        if let Some((_, topic)) = TOPICS.iter().find(|(first, _)| *first == name) {
            text.push_str(&format!("### {topic}\n\n"));
        }
        match explained.get(&(key.name, key.doc)) {
            Some(first) => repeated.add(&name, first),
            None => {
                text.push_str(&section(&way, &name));
                explained.insert((key.name, key.doc), name);
            }
        }
    }
    text + &repeated.take() + &codes()
}

/// Keys of one chapter that mean what they mean in a table before.
#[derive(Default)]
struct Repeated {
    /// The name of each key, and of the key that explains it.
    keys: Vec<(String, String)>,
}

impl Repeated {
    /// Adds a key, unless its table is there already: the keys of a table are explained with it.
    fn add(&mut self, name: &str, first: &str) {
        let is_within = |(table, _): &(String, String)| {
            let rest = name.strip_prefix(table.as_str());
            rest.is_some_and(|rest| rest.starts_with(['.', '[']))
        };
        if !self.keys.iter().any(is_within) {
            self.keys.push((name.to_owned(), first.to_owned()));
        }
    }

    /// The keys as a list with links: a line for the tables that have the same ones.
    fn take(&mut self) -> String {
        let mut tables: Vec<(String, String, Vec<String>)> = Vec::new();
        for (name, first) in std::mem::take(&mut self.keys) {
            let (table, key) = name.rsplit_once('.').unwrap_or(("", &name));
            let first_table = first.rsplit_once('.').map_or("", |(table, _)| table);
            let link = format!("[`{key}`](#{})", anchor(&first));
            let known = |(of, as_in, _): &&mut (String, String, Vec<String>)| {
                of == table && as_in == first_table
            };
            match tables.iter_mut().find(known) {
                Some((_, _, links)) => links.push(link),
                None => tables.push((table.to_owned(), first_table.to_owned(), vec![link])),
            }
        }
        let mut lines: Vec<(Vec<String>, String)> = Vec::new();
        for (table, first_table, links) in tables {
            let keys = format!("as in `{first_table}`: {}", links.join(", "));
            match lines.iter_mut().find(|(_, line)| *line == keys) {
                Some((of, _)) => of.push(table),
                None => lines.push((vec![table], keys)),
            }
        }
        if lines.is_empty() {
            return String::new();
        }
        let mut text = String::from("### Keys explained elsewhere\n\n");
        for (of, keys) in lines {
            text.push_str(&format!("- {}, {keys}.\n", names("In ", of)));
        }
        text + "\n"
    }
}

/// The title of the chapter that begins with a key; each top-level table with tables of its own has
/// one.
fn chapter(way: &KeyPath) -> Option<String> {
    match way.as_slice() {
        [first] if first.name == keys::ROOT.first().map_or("", |key| key.name) => {
            Some("## Keys at the top\n\nThey stand before the first `[table]`.\n\n".to_owned())
        }
        [first] if matches!(first.name, "tls" | "acme" | "export") => {
            Some(format!("## `[{}]`\n\n", first.name))
        }
        [.., last] => last
            .language
            .by()
            .map(|by| format!("## `[{}.{}]`\n\n", keys::full_name(way), by.placeholder())),
        [] => None,
    }
}

/// The first key of each topic of a chapter.
const TOPICS: &[(&str, &str)] = &[
    ("include", "Files and process"),
    ("trusted", "Proxies in front"),
    ("metrics", "Metrics and logs"),
    ("drain", "Stopping"),
    ("limits", "Limits and deadlines"),
    ("dns", "Names, sockets and ports"),
    ("site.\"HOST\".alias", "Hosts, TLS and protocols"),
    (
        "site.\"HOST\".proxy",
        "Actions: proxy, root, redirect, respond",
    ),
    ("site.\"HOST\".index", "Files"),
    (
        "site.\"HOST\".cache",
        "Bodies: caching, compression, CORS, changes",
    ),
    ("site.\"HOST\".strip_prefix", "Paths"),
    ("site.\"HOST\".headers", "Fields and error pages"),
    ("site.\"HOST\".auth", "Access and limits"),
    ("site.\"HOST\".access_log", "Access log"),
];

/// Links to chapters and their topics.
fn contents(body: &str) -> String {
    let mut text = String::new();
    for line in body.lines() {
        let (indent, title) = match line.split_once(' ') {
            Some(("##", title)) => ("", title),
            Some(("###", title)) if title != "Keys explained elsewhere" => ("  ", title),
            _ => continue,
        };
        text.push_str(&format!("{indent}- [{title}](#{})\n", anchor(title)));
    }
    text
}

fn section(way: &KeyPath, name: &str) -> String {
    let Some(key) = way.last() else {
        return String::new();
    };
    let mut text = format!("#### `{name}`\n\n{}\n\n", key.doc);
    text.push_str(&format!("- Value: {}\n", key.language.reference()));
    text.push_str(&match key.default {
        Unset::Is(value) => format!("- Default: `{value}`\n"),
        Unset::Absent(meaning) => format!("- Without it: {meaning}\n"),
        Unset::Required => "- Required\n".to_owned(),
        Unset::Within => "- Default: see its keys\n".to_owned(),
    });
    if let Some(unit) = key.language.unit() {
        text.push_str(&format!("- Unit: {unit}\n"));
    }
    text.push_str(&format!("\n```toml\n{}\n```\n\n", keys::example(way)));
    text
}

/// The anchor that GitHub makes of a heading: lower case, spaces as dashes, other punctuation left
/// out.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter_map(|c| match c {
        ' ' => Some('-'),
        c if c.is_alphanumeric() || matches!(c, '_' | '-') => Some(c),
        _ => None,
    });
    kept.flat_map(char::to_lowercase).collect()
}

fn codes() -> String {
    let mut text =
        "## Errors and warnings\n\nA code never changes its meaning. E is an error: Lockgate does not start \
                    until it is corrected. W is a warning.\n\n| code | meaning |\n|---|---|\n"
            .to_owned();
    for code in Code::ALL {
        text.push_str(&format!("| {} | {} |\n", code.id(), code.meaning()));
    }
    text
}

const INTRODUCTION: &str = r#"# Configuration

<!-- Written from crates/lockgate-config/src/keys.rs and codes.rs; a test keeps it the same. To write it anew:
LOCKGATE_WRITE_DOCS=1 cargo test -p lockgate-config --test documents -->

Lockgate reads one TOML file. This is a complete one:

```toml
[acme]

[site."app.example.com"]
proxy = "unix:/run/app.sock"
```

`lockgate check` checks it without serving; `lockgate check --json` prints the mistakes for programs. `lockgate fmt` brings it into the
order of this page, and keeps comments. An editor that supports
JSON Schema completes keys with [lockgate.schema.json](lockgate.schema.json). With taplo, name the schema in the first line:
`#:schema /path/to/lockgate.schema.json`.

## Contents

{contents}

"#;

const CHAPTERS: &str = r#"## Rules

1. Every key has a safe default. The order of keys and tables does not matter.
2. A key, host or address may appear once. A second one is an error that names both places.
3. Units are strings: `"10s"`, `"100MB"`, `"10KB/s"`, `"20/s"`, `"20%"`. Times are whole numbers of `ms`, `s`, `m`, `h` or `d`.
   Sizes are multiples of 1,000 with `KB`, `MB`, `GB`, `TB` and of 1,024 with `KiB`, `MiB`, `GiB`, `TiB`. A number without its
   unit is an error.
4. Many keys have a short form (a text, a number, `true`) and a long form (a table). `false` turns off what would hold otherwise.
5. Relative paths start from the folder of the file that contains them. In `include` and `certs`, `*` and `?` match within
   one name, never a `/` or a leading dot.
6. In any string value, `${env:NAME}` is replaced by an environment variable and `${file:PATH}` by the content of a file,
   without its last line break. A missing variable or file is an error. `$` has no other meaning. Replaced values are never
   printed and not stored in `state`.
7. `include` merges more files. A `[section]` may be spread over several files; the table of one site or listener may not.
8. An unknown key is an error that names the likely key: for misspellings, and for names of nginx, HAProxy, Caddy, Apache
   and Traefik. For features that are planned or missing, the error says what to do today (`E0011`).
9. All mistakes are reported at once, each with code, file, line, column, cause and cure.

## HTTP/2 and gRPC

Clients get HTTP/2 over TLS without any setting. Towards endpoints, `protocol` turns it on. A site of an API whose gRPC
requests go to their own servers:

```toml
[site."api.example.com"]
tls = "/etc/tls/api.pem"
proxy = "127.0.0.1:3000"

[site."api.example.com".path."/shop.Cart/*"]
proxy = "pool:cart"
timeouts = { response = "off" }        # the response to a stream may begin late

[pool.cart]
endpoints = ["10.0.0.1:50051", "10.0.0.2:50051"]
protocol = "h2c"                       # "h2" beside tls = {}
health = { grpc = "shop.Cart" }
```

If a gRPC call gets a response that is not gRPC (an error, `respond`, a redirect, a refusal of `auth.forward`), Lockgate adds the
`grpc-status` that gRPC maps its status to, unless `headers` set one.

HTTP/2 without TLS, for clients inside a network that begin with HTTP/2 (prior knowledge), and HTTP/1 for all others:

```toml
[site.":8080"]
protocols = ["http1", "h2c"]
proxy = { to = "10.0.0.1:8443", protocol = "h2", tls = { name = "app.internal" } }
```

To serve HTTP/1.1 only:

```toml
[site."old.example.com"]
tls = "/etc/tls/old.pem"
protocols = ["http1"]
proxy = "127.0.0.1:3000"
```

"#;
