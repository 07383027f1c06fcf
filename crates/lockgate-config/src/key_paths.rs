//! Names of places in the configuration, for messages that send a key to its place.

use lockgate_rules::PathKey;

use crate::language::{KeyRow, find};
use crate::spelling::{nearest, similar};

pub(crate) fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        [path, ".", name].concat()
    }
}

/// The name of a table's place.
pub(crate) fn place_name(path: &str) -> String {
    match path.rsplit_once(".*") {
        None if path.is_empty() => "at the top".to_owned(),
        None if matches!(path, "tls" | "acme" | "export") => format!("in [{path}]"),
        None => format!("in `{path}`"),
        Some((section, "")) => format!("in [{}]", header(section)),
        Some((section, rest)) => format!(
            "in `{}` of [{}]",
            rest.trim_start_matches('.'),
            header(section)
        ),
    }
}

/// The header of a table in a section: `site."HOST".path."PATH"`.
fn header(section: &str) -> String {
    match section {
        "tcp" => "tcp.\"ADDR\"".to_owned(),
        "tunnel" => "tunnel.\"ADDR\"".to_owned(),
        "pool" => "pool.NAME".to_owned(),
        "values" => "values.NAME".to_owned(),
        "site" => "site.\"HOST\"".to_owned(),
        "tcp.*.sni" => "tcp.\"ADDR\".sni.\"NAME\"".to_owned(),
        "tcp.*.alpn" => "tcp.\"ADDR\".alpn.\"PROTOCOL\"".to_owned(),
        _ => "site.\"HOST\".path.\"PATH\"".to_owned(),
    }
}

/// The cure for a key without a known meaning: a similar name, the place of a key with this name,
/// or the list of all keys.
pub(crate) fn unknown_key_cure(
    root: &'static [KeyRow],
    keys: &'static [KeyRow],
    name: &str,
    path: &str,
) -> String {
    let names = || keys.iter().map(|key| key.name);
    let is_path = PathKey::parse(name).is_ok() && name.contains('/');
    let leads = ["strip_prefix", "to"]
        .iter()
        .any(|key| find(keys, key).is_some());
    if is_path && leads {
        return format!("a path is a table of its own: [site.\"example.com\".path.{name:?}]");
    }
    if let Some(near) = nearest(name, names()) {
        return format!("did you mean `{near}`?");
    }
    if let Some(other) = other_places(root, name, path) {
        let below =
            if path == "site.*.path.*" && other == place_name("site.*").trim_start_matches("in ") {
                ": move it above the header of the path, which begins a table of its own"
            } else {
                ""
            };
        return format!("it belongs in {other}{below}");
    }
    let place = place_name(path);
    if keys.len() <= FEW {
        return format!(
            "the keys {place} are {}",
            names().collect::<Vec<_>>().join(", ")
        );
    }
    match &*similar(name, names()) {
        [] => format!("docs/config.md lists the keys {place}"),
        [near] => format!("perhaps `{near}`? docs/config.md lists the keys {place}"),
        near => format!(
            "perhaps one of {}? docs/config.md lists the keys {place}",
            near.join(", ")
        ),
    }
}

/// The maximum number of keys that a message lists.
pub(crate) const FEW: usize = 5;

/// Places of keys with this name, those near `path` first.
pub(crate) fn other_places(root: &'static [KeyRow], name: &str, path: &str) -> Option<String> {
    let mut places = Vec::new();
    collect(root, "", name, &mut places);
    let section = path.split('.').next().unwrap_or_default();
    let near = places
        .iter()
        .find(|place| !section.is_empty() && place.starts_with(section));
    // The least deep are the likeliest.
    let depth = |place: &&String| place.matches('.').count();
    let least = places.iter().map(|place| depth(&place)).min()?;
    let places: Vec<&String> = match near {
        Some(near) => vec![near],
        None => places
            .iter()
            .filter(|place| depth(place) == least)
            .collect(),
    };
    let shown = places.into_iter().map(|place| match &*place_name(place) {
        "at the top" => "the top of the file, before the first [table]".to_owned(),
        place => place.trim_start_matches("in ").to_owned(),
    });
    Some(shown.collect::<Vec<_>>().join(" or "))
}

fn collect(keys: &'static [KeyRow], path: &str, name: &str, places: &mut Vec<String>) {
    for key in keys {
        if key.name == name {
            places.push(path.to_owned());
        }
        let Some(inner) = key.language.table() else {
            continue;
        };
        let has_names = key.language.by().is_some() || key.language.tables_by().is_some();
        let inside = match has_names {
            true => join(&join(path, key.name), "*"),
            false => join(path, key.name),
        };
        collect(inner, &inside, name, places);
    }
}

/// The example of the key at a path.
pub(crate) fn example(root: &'static [KeyRow], path: &str) -> Option<&'static str> {
    let mut keys = root;
    let mut example = None;
    for name in path.split('.').filter(|name| *name != "*") {
        let key = find(keys, name)?;
        example = Some(key.example);
        keys = key
            .language
            .table()
            .or_else(|| key.language.listed_table())
            .unwrap_or(&[]);
    }
    example
}
