//! Ways through the table of keys: to every key, to its full name, to a piece of a file that shows
//! it.

use super::{By, Key, Kind, ROOT};

/// The way from the top to one key.
pub(crate) type Way = Vec<&'static Key>;

/// The way to every key, tables before what is in them.
pub(crate) fn ways() -> Vec<Way> {
    let mut ways = Vec::new();
    descend(ROOT, &Vec::new(), &mut ways);
    ways
}

fn descend(keys: &'static [Key], to: &Way, ways: &mut Vec<Way>) {
    for key in keys {
        let way: Way = to.iter().copied().chain([key]).collect();
        ways.push(way.clone());
        for inner in [key.kind.listed_table(), key.kind.table()]
            .into_iter()
            .flatten()
        {
            descend(inner, &way, ways);
        }
    }
}

/// The name of a key with all that it stands in: `tls.certs[].key`, `tcp."ADDR".proxy`.
pub(crate) fn full_name(way: &[&'static Key]) -> String {
    let mut name = String::new();
    for (index, key) in way.iter().enumerate() {
        name.push_str(key.name);
        let Some(next) = way.get(index + 1) else {
            break;
        };
        let listed = key
            .kind
            .listed_table()
            .is_some_and(|keys| keys.iter().any(|one| one.name == next.name));
        let direct = key
            .kind
            .table()
            .is_some_and(|keys| keys.iter().any(|one| one.name == next.name));
        if let Kind::Map(names, ..) = key.kind
            && names.lead()
        {
            name.push_str(&format!(".{}", names.placeholder()));
        }
        match key.kind {
            Kind::Tables(by, _) => name.push_str(&format!(".{}.", by.placeholder())),
            _ if listed && !direct => name.push_str("[]."),
            _ => name.push('.'),
        }
    }
    name
}

/// A piece of a file that shows the key at the end of a way.
pub(crate) fn example(way: &[&'static Key]) -> String {
    let Some((key, above)) = way.split_last() else {
        return String::new();
    };
    let mut entries = match key.kind {
        Kind::Tables(..) => return format!("[{}]\n{}", header(way), key.inside),
        _ => vec![format!("{} = {}", key.name, key.example)],
    };
    add(&mut entries, key.with);
    let mut below = *key;
    let mut before = String::new();
    for (depth, parent) in above.iter().enumerate().rev() {
        let listed = parent
            .kind
            .table()
            .is_none_or(|keys| keys.iter().all(|one| one.name != below.name));
        if !listed {
            add(&mut entries, parent.inside);
        }
        if matches!(parent.kind, Kind::Tables(By::Site, _)) {
            add(&mut entries, key.site);
        }
        let under = |header: &str| vec![format!("[{header}]\n{}", entries.join("\n"))];
        entries = match (parent.name, parent.kind) {
            (_, Kind::Tables(by, _)) => {
                if let (By::Path, [site, ..], false) = (by, way, key.site.is_empty()) {
                    before = format!("[{}]\n{}\n\n", header(&[site]), key.site);
                }
                entries = under(&header(way.get(..=depth).unwrap_or_default()));
                break;
            }
            ("tls", Kind::Table(_)) if depth == 0 => under("tls"),
            (name, kind) => {
                let name = match kind {
                    Kind::Map(names, ..) if names.lead() => format!("{name}.{}", names.sample()),
                    _ => name.to_owned(),
                };
                let (open, close) = if listed { ("[", "]") } else { ("", "") };
                vec![format!(
                    "{name} = {open}{{ {} }}{close}",
                    entries.join(", ")
                )]
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
fn header(way: &[&'static Key]) -> String {
    let part = |key: &&'static Key| match key.kind {
        Kind::Tables(by, _) => format!("{}.{}", key.name, by.sample()),
        _ => key.name.to_owned(),
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
