//! Where keys stand, in words: for messages that send a key to its place.

use crate::keys::{self, Key, Kind};

pub(super) fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// Endpoints and deadlines stand in several places but lack the same keys.
pub(super) fn short(path: &str, name: &str) -> String {
    let table = match path.rsplit('.').next().unwrap_or_default() {
        "proxy" | "to" | "endpoints" | "forward" => "endpoint",
        "*" if path.starts_with("site.") => "site.*",
        last => last,
    };
    join(table, name)
}

/// Where a table stands, in words.
pub(super) fn reading(path: &str) -> String {
    match path.rsplit_once(".*") {
        None if path.is_empty() => "at the top".to_owned(),
        None if path == "tls" => "in [tls]".to_owned(),
        None => format!("in `{path}`"),
        Some((section, "")) => format!("in [{}]", header(section)),
        Some((section, rest)) => format!("in `{}` of [{}]", rest.trim_start_matches('.'), header(section)),
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

/// Where a key of that name does exist, nearest to `path` first.
pub(super) fn elsewhere(name: &str, path: &str) -> Option<String> {
    let mut places = Vec::new();
    collect(keys::ROOT, "", name, &mut places);
    let section = path.split('.').next().unwrap_or_default();
    let near = places.iter().find(|place| !section.is_empty() && place.starts_with(section));
    // The least deep is the likeliest; of two, that of a listener.
    let place = near.or_else(|| places.iter().rev().min_by_key(|place| place.matches('.').count()))?;
    Some(match reading(place).as_str() {
        "at the top" => "the top of the file, before the first [table]".to_owned(),
        place => place.trim_start_matches("in ").to_owned(),
    })
}

fn collect(keys: &'static [Key], path: &str, name: &str, places: &mut Vec<String>) {
    for key in keys {
        if key.name == name {
            places.push(path.to_owned());
        }
        let Some(inner) = key.kind.table() else { continue };
        let inside = join(path, key.name);
        let has_names = match key.kind {
            Kind::Tables(..) => true,
            Kind::Map(names, ..) => names.lead(),
            _ => false,
        };
        let inside = if has_names { join(&inside, "*") } else { inside };
        collect(inner, &inside, name, places);
    }
}

/// The example of the key at a path.
pub(super) fn example(path: &str) -> Option<&'static str> {
    let mut keys = keys::ROOT;
    let mut example = None;
    for name in path.split('.').filter(|name| *name != "*") {
        let key = keys::find(keys, name)?;
        example = Some(key.example);
        keys = key.kind.table().or_else(|| key.kind.listed_table()).unwrap_or(&[]);
    }
    example
}
