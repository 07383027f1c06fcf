//! `docs/config.md`, written from the table of keys and the table of codes.

use std::collections::BTreeMap;

use crate::codes::Code;
use crate::keys::{self, KeyPath};
use crate::language::Unset;

/// The whole text of `docs/config.md`.
pub fn reference() -> String {
    let mut text = INTRODUCTION.to_owned();
    let mut told: BTreeMap<(&str, &str), String> = BTreeMap::new();
    for way in keys::key_paths() {
        let name = keys::full_name(&way);
        text.push_str(&heading(&way));
        let Some(key) = way.last() else { continue };
        match told.get(&(key.name, key.doc)) {
            Some(first) => text.push_str(&format!(
                "`{name}`: as [`{first}`](#{}).\n\n",
                anchor(first)
            )),
            None => {
                text.push_str(&section(&way, &name));
                told.insert((key.name, key.doc), name);
            }
        }
    }
    text.push_str(&codes());
    text
}

/// A chapter begins with each key of the top level that holds others.
fn heading(way: &KeyPath) -> String {
    match way.as_slice() {
        [first] if first.name == keys::ROOT.first().map_or("", |key| key.name) => {
            "## Keys at the top\n\nThey stand before the first `[table]`.\n\n".to_owned()
        }
        [first] if first.name == "tls" => "## `[tls]`\n\n".to_owned(),
        [.., last] => last.language.by().map_or_else(String::new, |by| {
            format!("## `[{}.{}]`\n\n", keys::full_name(way), by.placeholder())
        }),
        _ => String::new(),
    }
}

fn section(way: &KeyPath, name: &str) -> String {
    let Some(key) = way.last() else {
        return String::new();
    };
    let mut text = format!("### `{name}`\n\n{}\n\n", key.doc);
    text.push_str(&format!("- Value: {}\n", key.language.reference()));
    text.push_str(&match key.default {
        Unset::Is(value) => format!("- Default: `{value}`\n"),
        Unset::Absent(meaning) => format!("- Without it: {meaning}\n"),
        Unset::Required => "- Required\n".to_owned(),
        Unset::Within => "- Default: that of each of its keys\n".to_owned(),
    });
    if let Some(unit) = key.language.unit() {
        text.push_str(&format!("- Unit: {unit}\n"));
    }
    text.push_str(&format!("\n```toml\n{}\n```\n\n", keys::example(way)));
    text
}

/// As GitHub makes them: lower case, punctuation left out.
fn anchor(name: &str) -> String {
    let kept = name
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
    kept.flat_map(char::to_lowercase).collect()
}

fn codes() -> String {
    let mut text =
        "## Errors and warnings\n\nA code keeps its meaning for ever. E is an error: nothing starts \
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

Lockgate reads one TOML file. A complete one:

```toml
[site."app.example.com"]
tls = { cert = "/etc/tls/app.pem", key = "/etc/tls/app.key" }
proxy = "unix:/run/app.sock"
```

`lockgate check` reads it and starts nothing; `lockgate check --json` tells programs what is wrong. An editor that
knows JSON Schema completes keys with [lockgate.schema.json](lockgate.schema.json): in those that use taplo the first line
`#:schema /path/to/lockgate.schema.json` names it.

## Rules

1. Every key has a safe default; the order of keys and tables never matters.
2. Keys are identities: a key, host or address that is written twice is an error that names both places.
3. Units are strings: `"10s"`, `"100MB"`, `"10KB/s"`, `"20/s"`, `"20%"`. Times are whole numbers of `ms`, `s`, `m`, `h` or `d`. Sizes count by 1,000
   with `KB`, `MB`, `GB`, `TB` and by 1,024 with `KiB`, `MiB`, `GiB`, `TiB`. A bare number where a unit belongs is an
   error.
4. Where a key has a short form, it is a string; the long form is a table. `false` removes.
5. Relative paths start from the folder of the file that names them. In `include` and `certs` the signs `*` and `?`
   match within one name, never a `/` and never a leading dot.
6. In any string value `${env:NAME}` is replaced by an environment variable and `${file:PATH}` by the content of a
   file, without its last line break. What is not there is an error. `$` has no other meaning, and what was brought in
   is never printed and not kept in `state`.
7. `include` merges more files: a `[section]` may be spread over several, the table of one site or listener may not.
8. An unknown key is an error, with what was probably meant: slips, and the names of nginx, HAProxy, Caddy, Apache and
   Traefik. What will come later, and what Lockgate does not do, is told with what to do today (`E0011`).
9. All mistakes are told at once, each with code, file, line, column, cause and cure.

## HTTP/2 and gRPC

Over TLS clients get HTTP/2 without a line about it. Towards endpoints it is written, as `protocol`. A site of an API
whose requests of gRPC go to servers of their own:

```toml
[site."api.example.com"]
tls = "/etc/tls/api.pem"
proxy = "127.0.0.1:3000"

[site."api.example.com".path."/shop.Cart/*"]
proxy = "pool:cart"
timeouts = { response = "off" }        # the answer to a stream may begin late

[pool.cart]
endpoints = ["10.0.0.1:50051", "10.0.0.2:50051"]
protocol = "h2c"                       # "h2" beside tls = {}
health = { grpc = "shop.Cart" }
```

Calls that meet an answer which is none of gRPC (an error, `respond`, a redirect, a denial of `auth.forward`) end with the `grpc-status`
of its status, as gRPC maps them, unless `headers` set one.

Without TLS, for clients inside a network that begin with HTTP/2 (prior knowledge), and for all others:

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
