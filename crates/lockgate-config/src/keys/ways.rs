//! Ways through the table of keys: to every key, to its full name, to a piece of a file that shows it.

use super::{Key, Kind, ROOT};

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
        for inner in [key.kind.listed_table(), key.kind.table()].into_iter().flatten() {
            descend(inner, &way, ways);
        }
    }
}

/// The name of a key with all that it stands in: `tls.certs[].key`, `tcp."ADDR".proxy`.
pub(crate) fn full_name(way: &[&'static Key]) -> String {
    let mut name = String::new();
    for (index, key) in way.iter().enumerate() {
        name.push_str(key.name);
        let Some(next) = way.get(index + 1) else { break };
        let listed = key.kind.listed_table().is_some_and(|keys| keys.iter().any(|one| one.name == next.name));
        let direct = key.kind.table().is_some_and(|keys| keys.iter().any(|one| one.name == next.name));
        name.push_str(match key.kind {
            Kind::ByAddress(_) => ".\"ADDR\".",
            _ if listed && !direct => "[].",
            _ => ".",
        });
    }
    name
}

/// A piece of a file that shows the key at the end of a way.
pub(crate) fn example(way: &[&'static Key]) -> String {
    let Some((key, above)) = way.split_last() else { return String::new() };
    let mut entries = match key.kind {
        Kind::ByAddress(_) => return format!("[{}.\":8443\"]\n{}", key.name, key.inside),
        _ => vec![format!("{} = {}", key.name, key.example)],
    };
    add(&mut entries, key.with);
    let mut below = *key;
    for (depth, parent) in above.iter().enumerate().rev() {
        let listed = parent.kind.table().is_none_or(|keys| keys.iter().all(|one| one.name != below.name));
        if !listed {
            add(&mut entries, parent.inside);
        }
        let header = |name: &str| vec![format!("[{name}]\n{}", entries.join("\n"))];
        entries = match (parent.name, parent.kind) {
            (name, Kind::ByAddress(_)) => header(&format!("{name}.\":8443\"")),
            ("tls", Kind::Table(_)) if depth == 0 => header("tls"),
            (name, _) if listed => vec![format!("{name} = [{{ {} }}]", entries.join(", "))],
            (name, _) => vec![format!("{name} = {{ {} }}", entries.join(", "))],
        };
        add(&mut entries, parent.with);
        below = *parent;
    }
    if !key.atop.is_empty() {
        entries.insert(0, format!("{}\n", key.atop));
    }
    entries.join("\n")
}

/// Adds an entry unless one of that name is there.
fn add(entries: &mut Vec<String>, entry: &str) {
    let name = entry.split(" = ").next().unwrap_or_default();
    let there = |one: &String| one.split(" = ").next() == Some(name);
    if !entry.is_empty() && !entries.iter().any(there) {
        entries.push(entry.to_owned());
    }
}
