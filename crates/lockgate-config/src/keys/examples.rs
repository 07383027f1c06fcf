//! Ways through the table of keys: to every key, to its full name, to a piece of a file that shows
//! it.

use crate::language::{KeyRow, TableNaming, find};

use super::ROOT;

/// The way from the top to one key.
pub(crate) type KeyPath = Vec<&'static KeyRow>;

/// The path to every key, tables before their keys.
pub(crate) fn key_paths() -> Vec<KeyPath> {
    let mut ways = Vec::new();
    descend(ROOT, &Vec::new(), &mut ways);
    ways
}

fn descend(keys: &'static [KeyRow], to: &KeyPath, ways: &mut Vec<KeyPath>) {
    for key in keys {
        let way: KeyPath = to.iter().copied().chain([key]).collect();
        ways.push(way.clone());
        let (listed, direct) = (key.language.listed_table(), key.language.table());
        // Of a table and a list of the same tables there is one way.
        let listed = listed.filter(|listed| {
            direct.is_none_or(|direct| !std::ptr::eq(listed.as_ptr(), direct.as_ptr()))
        });
        for inner in [listed, direct].into_iter().flatten() {
            descend(inner, &way, ways);
        }
    }
}

/// The full name of a key: `tls.certs[].key`, `tcp."ADDR".proxy`.
pub(crate) fn full_name(way: &[&'static KeyRow]) -> String {
    let mut name = String::new();
    for (index, key) in way.iter().enumerate() {
        name.push_str(key.name);
        let Some(next) = way.get(index + 1) else {
            break;
        };
        let has_next = |keys: Option<&'static [KeyRow]>| {
            keys.is_some_and(|keys| find(keys, next.name).is_some())
        };
        let listed = has_next(key.language.listed_table());
        let direct = has_next(key.language.table());
        if let Some(names) = key.language.tables_by() {
            name.push_str(&format!(".{}", names.placeholder()));
        }
        match key.language.by() {
            Some(by) => name.push_str(&format!(".{}.", by.placeholder())),
            None if listed && !direct => name.push_str("[]."),
            None => name.push('.'),
        }
    }
    name
}

/// A piece of a file that shows the key at the end of a way.
pub(crate) fn example(way: &[&'static KeyRow]) -> String {
    let Some((key, above)) = way.split_last() else {
        return String::new();
    };
    if key.language.by().is_some() {
        return format!("[{}]\n{}", header(way), key.inside);
    }
    let mut entries = vec![format!("{} = {}", key.name, key.example)];
    add(&mut entries, key.with);
    let mut below = *key;
    let mut before = String::new();
    for (depth, parent) in above.iter().enumerate().rev() {
        let direct = parent.language.table();
        let listed = direct.is_none_or(|keys| find(keys, below.name).is_none());
        if !listed {
            add(&mut entries, parent.inside);
        }
        if parent.language.by() == Some(TableNaming::Site) {
            add(&mut entries, key.site);
        }
        let under = |header: &str| vec![format!("[{header}]\n{}", entries.join("\n"))];
        if let Some(by) = parent.language.by() {
            if let (TableNaming::Path, [site, ..], false) = (by, way, key.site.is_empty()) {
                before = format!("[{}]\n{}\n\n", header(&[site]), key.site);
            }
            entries = under(&header(way.get(..=depth).unwrap_or_default()));
            break;
        }
        entries = match parent.name {
            name @ ("tls" | "acme" | "export") if depth == 0 => under(name),
            name => {
                let name = match parent.language.tables_by() {
                    Some(names) => format!("{name}.{}", names.sample()),
                    None => name.to_owned(),
                };
                let (open, close) = if listed { ("[", "]") } else { ("", "") };
                let inner = entries.join(", ");
                vec![format!("{name} = {open}{{ {inner} }}{close}")]
            }
        };
        add(&mut entries, parent.with);
        if depth + 1 == above.len() {
            add(&mut entries, key.around);
        }
        below = *parent;
    }
    if !key.atop.is_empty() {
        entries.insert(0, format!("{}\n", key.atop));
    }
    before + &entries.join("\n")
}

/// The header of the table at the end of a way: `site."example.com:8080".path."/api/*"`.
fn header(way: &[&'static KeyRow]) -> String {
    let part = |key: &&'static KeyRow| match key.language.by() {
        Some(by) => format!("{}.{}", key.name, by.sample()),
        None => key.name.to_owned(),
    };
    way.iter().map(part).collect::<Vec<_>>().join(".")
}

/// Adds an entry unless one of that name, or another verb or source, is there.
fn add(entries: &mut Vec<String>, entry: &str) {
    let role = |entry: &str| match entry.split([' ', '.']).next().unwrap_or_default() {
        "proxy" | "root" | "redirect" | "respond" | "sni" | "alpn" | "default" => "verb".to_owned(),
        "file" | "url" => "source".to_owned(),
        name => name.to_owned(),
    };
    let there = |one: &String| role(one) == role(entry);
    if !entry.is_empty() && !entries.iter().any(there) {
        entries.push(entry.to_owned());
    }
}
