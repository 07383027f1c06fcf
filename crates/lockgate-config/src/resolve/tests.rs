//! Every key is read, and every default is valid.

use std::path::Path;

use super::view::default_of;
use super::*;
use crate::keys;
use crate::language::{KeyRow, Unset};
use crate::load::parse_str_in;

fn env() -> Environment {
    let env = Environment::none().with_file("/sites/shop.toml", "workers = 3\n");
    env.with_file("/etc/tls/a.pem", "")
        .with_file("/etc/tls/b.pem", "")
        .with_file("/etc/lockgate/redirects", "/a /b\n")
        .with_file("/etc/lockgate/eab.key", "aGVsbG8\n")
        .with_file("/etc/lockgate/dns.token", "s3cret\n")
        .with_file("/etc/lockgate/influx.token", "s3cret\n")
        .with_file("/etc/lockgate/otlp.token", "s3cret\n")
        .with_file("/etc/lockgate/dns.key", "aGVsbG8=\n")
}

fn outcome(text: &str) -> Result<Config, Vec<&'static str>> {
    let loaded = parse_str_in(text, Path::new("/lockgate.toml"), &env());
    loaded
        .map(|loaded| Config::clone(&loaded.config))
        .map_err(|report| report.iter().map(|one| one.code().id()).collect())
}

/// The example of a key in a file that is complete and on which it has an effect.
fn complete(way: &[&'static KeyRow]) -> String {
    let example = keys::example(way);
    if ["[tcp.", "[tunnel.", "[site."]
        .iter()
        .any(|section| example.contains(section))
    {
        return example;
    }
    // What is for the hosts of sites.
    if example.contains("acme") || example.contains("issuer = ") {
        return format!("{example}\n[site.\"example.com\"]\nproxy = \"127.0.0.1:3000\"\n");
    }
    let tls = if example.contains("certs = ") {
        "tls = {}\n"
    } else {
        ""
    };
    format!("{example}\n[tcp.\":8443\"]\n{tls}proxy = \"127.0.0.1:3000\"\n")
}

fn without(value: &mut toml::Value, way: &[&'static KeyRow]) {
    let [first, rest @ ..] = way else { return };
    if let toml::Value::Array(items) = value {
        return items.iter_mut().for_each(|item| without(item, way));
    }
    let Some(table) = value.as_table_mut() else {
        return;
    };
    if rest.is_empty() {
        table.remove(first.name);
    } else if first.language.by().is_some() || first.language.tables_by().is_some() {
        let tables = table
            .get_mut(first.name)
            .and_then(|value| value.as_table_mut())
            .unwrap();
        tables
            .iter_mut()
            .for_each(|(_, value)| without(value, rest));
    } else {
        without(table.get_mut(first.name).unwrap(), rest);
    }
}

/// Whether a key has one value only.
fn is_one_word(key: &KeyRow) -> bool {
    key.language.of().is_empty() && key.language.words().len() == 1
}

#[test]
fn every_key_changes_what_will_run() {
    for way in keys::key_paths() {
        // What has one value only is there for the day when it has two.
        if way.last().is_some_and(|key| is_one_word(key)) {
            continue;
        }
        let name = keys::full_name(&way);
        let with = complete(&way);
        let config = outcome(&with);
        assert!(config.is_ok(), "{name}: {config:?}\n{with}");
        let mut value = toml::Value::Table(toml::from_str(&with).unwrap());
        without(&mut value, &way);
        let without = toml::to_string(&value).unwrap();
        assert_ne!(
            outcome(&without),
            config,
            "{name} changes nothing:\n{with}\n---\n{without}"
        );
    }
}

#[test]
fn every_default_is_valid_and_is_what_holds_without_the_key() {
    for way in keys::key_paths() {
        let key = *way.last().unwrap();
        let Unset::Is(default) = key.default else {
            continue;
        };
        let mut report = Report::new();
        let entry = default_of(key, &mut report);
        assert!(
            report.is_empty() && entry.is_some_and(|entry| !entry.broken),
            "{} = {default}\n{report}",
            key.name
        );
    }
    let bare = outcome("[tcp.\":1\"]\nproxy = \"127.0.0.1:1\"\n").unwrap();
    for way in keys::key_paths() {
        let [key] = way.as_slice() else { continue };
        if let Unset::Is(default) = key.default {
            let text = format!(
                "{} = {default}\n[tcp.\":1\"]\nproxy = \"127.0.0.1:1\"\n",
                key.name
            );
            assert_eq!(outcome(&text).as_ref(), Ok(&bare), "{}", key.name);
        }
    }
}
