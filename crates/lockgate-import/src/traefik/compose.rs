//! Compose files: labels of containers, and the flags and variables of Traefik's own container.

use std::collections::HashMap;

use super::node::{
    MAX_DEPTH, TraefikMap, TraefikNode, TraefikValue, UNKNOWN_END, UNKNOWN_START, shown,
};
use crate::{ConversionReport, Place, Verdict};

/// A container with labels of Traefik.
#[derive(Debug)]
pub(super) struct TraefikContainer {
    /// The name of its service, which other containers of a network resolve.
    pub(super) name: String,
    /// Ports that the Compose file says the container listens on, lowest first.
    pub(super) ports: Vec<u16>,
    /// What its labels say; none if it is not enabled by a label.
    pub(super) enabled: Option<bool>,
    /// The labels as a tree, without `traefik.`.
    pub(super) labels: TraefikNode,
}

/// What a Compose file says.
#[derive(Debug, Default)]
pub(super) struct TraefikCompose {
    /// The containers with labels.
    pub(super) containers: Vec<TraefikContainer>,
    /// Static configuration: flags and variables.
    pub(super) statics: Vec<TraefikNode>,
}

/// Whether a tree is that of a Compose file.
pub(super) fn is_compose(root: &TraefikNode) -> bool {
    let statics = ["http", "tcp", "udp", "entryPoints", "providers"];
    root.field("services").is_some_and(TraefikNode::is_map)
        && statics.iter().all(|name| root.field(name).is_none())
}

/// Reads a Compose file; `variables` are those of the file `.env` beside it.
pub(super) fn read(
    root: &TraefikNode,
    variables: &HashMap<String, String>,
    report: &mut ConversionReport,
) -> TraefikCompose {
    let mut compose = TraefikCompose::default();
    let services = root.field("services");
    for (name, service) in services.iter().flat_map(|node| node.fields()) {
        let image = service.field("image").and_then(TraefikNode::raw);
        let image = image.unwrap_or("").rsplit('/').next().unwrap_or("");
        if image.starts_with("traefik") || (image.is_empty() && name == "traefik") {
            for key in ["command", "entrypoint"] {
                flags(service.field(key), variables, &mut compose, report);
            }
            environment(
                service.field("environment"),
                variables,
                &mut compose,
                report,
            );
        }
        let mut tree = TraefikNode::new(&service.place, TraefikValue::Map(TraefikMap::default()));
        let mut any = false;
        for labels in [service.field("labels"), service.at(&["deploy", "labels"])] {
            for (text, place) in labels.iter().flat_map(|labels| pairs(labels)) {
                let (key, value) = text;
                let lower = key.to_ascii_lowercase();
                if !lower.starts_with("traefik.") {
                    continue;
                }
                any = true;
                let value = expanded(&value, variables);
                let statement = report.add(place.clone(), &shown(&format!("{key}={value}")));
                let path: Vec<&str> = key.split('.').skip(1).collect();
                insert(&mut tree, &path, value, &place, statement).told(statement, report);
            }
        }
        if !any {
            continue;
        }
        // Another name is none that resolves.
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if name.is_empty() || !name.chars().all(plain) {
            tree.mark(
                report,
                &Verdict::not_supported("the name of its service is not one of a host", None),
            );
            continue;
        }
        compose.containers.push(TraefikContainer {
            name: name.to_owned(),
            ports: ports(service),
            enabled: tree.field("enable").and_then(TraefikNode::flag),
            labels: tree,
        });
    }
    compose
}

/// The ports of a container that `expose` and `ports` name.
fn ports(service: &TraefikNode) -> Vec<u16> {
    let listed = |key| {
        let nodes = service.field(key).map(|list| list.nodes()).unwrap_or(&[]);
        nodes.iter().filter_map(|node| match node.field("target") {
            Some(target) => target.raw().map(str::to_owned),
            None => node.raw().map(str::to_owned),
        })
    };
    let port = |text: String| {
        let text = text.split('/').next().unwrap_or("").to_owned();
        text.rsplit(':').next().and_then(|port| port.parse().ok())
    };
    let mut ports: Vec<u16> = listed("expose")
        .chain(listed("ports"))
        .filter_map(port)
        .collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}

/// The pairs of a list of `key=value`, or of a map.
fn pairs(node: &TraefikNode) -> Vec<((String, String), Place)> {
    let listed = node.nodes().iter().filter_map(|item| {
        let text = item.raw()?;
        let (key, value) = text.split_once('=').unwrap_or((text, ""));
        Some((
            (key.trim().to_owned(), value.to_owned()),
            item.place.clone(),
        ))
    });
    let mapped = node.fields().map(|(key, value)| {
        let text = match &value.value {
            TraefikValue::Text(text) => text.clone(),
            _ => String::new(),
        };
        ((key.to_owned(), text), value.place.clone())
    });
    listed.chain(mapped).collect()
}

fn flags(
    node: Option<&TraefikNode>,
    variables: &HashMap<String, String>,
    compose: &mut TraefikCompose,
    report: &mut ConversionReport,
) {
    let Some(node) = node else { return };
    let words: Vec<(String, Place)> = match &node.value {
        TraefikValue::Text(text) => text
            .split_whitespace()
            .map(|word| (word.to_owned(), node.place.clone()))
            .collect(),
        _ => node
            .nodes()
            .iter()
            .filter_map(|item| Some((item.raw()?.to_owned(), item.place.clone())))
            .collect(),
    };
    let mut tree = TraefikNode::new(&node.place, TraefikValue::Map(TraefikMap::default()));
    for (word, place) in words {
        let Some(flag) = word.trim_matches(['"', '\'']).strip_prefix("--") else {
            continue;
        };
        let (key, value) = flag.split_once('=').unwrap_or((flag, "true"));
        let value = expanded(value, variables);
        let statement = report.add(place.clone(), &shown(&format!("--{key}={value}")));
        let path: Vec<&str> = key.split('.').collect();
        insert(&mut tree, &path, value, &place, statement).told(statement, report);
    }
    compose.statics.push(tree);
}

/// What the static configuration begins with.
const STATIC: [&str; 12] = [
    "accesslog",
    "api",
    "certificatesresolvers",
    "entrypoints",
    "experimental",
    "global",
    "log",
    "metrics",
    "ping",
    "providers",
    "serverstransport",
    "tracing",
];

fn environment(
    node: Option<&TraefikNode>,
    variables: &HashMap<String, String>,
    compose: &mut TraefikCompose,
    report: &mut ConversionReport,
) {
    let Some(node) = node else { return };
    let mut tree = TraefikNode::new(&node.place, TraefikValue::Map(TraefikMap::default()));
    for ((key, value), place) in pairs(node) {
        let Some(path) = key.strip_prefix("TRAEFIK_") else {
            continue;
        };
        let lower = path.to_ascii_lowercase();
        // Variables of users begin so too.
        let first = lower.split('_').next().unwrap_or("");
        if !STATIC.contains(&first) {
            continue;
        }
        let value = expanded(&value, variables);
        let statement = report.add(place.clone(), &shown(&format!("{key}={value}")));
        let path: Vec<&str> = lower.split('_').collect();
        insert(&mut tree, &path, value, &place, statement).told(statement, report);
    }
    compose.statics.push(tree);
}

/// Puts a leaf at a path; false if there is another one already, or the path is too long.
fn insert(
    tree: &mut TraefikNode,
    path: &[&str],
    value: String,
    place: &Place,
    statement: crate::StatementId,
) -> Insertion {
    if path.len() > MAX_DEPTH / 2 {
        return Insertion::Refused;
    }
    let mut node = tree;
    for part in path {
        let (name, index) = match part.split_once('[') {
            Some((name, rest)) => match rest.trim_end_matches(']').parse::<usize>() {
                Ok(index) if index < 1000 => (name, Some(index)),
                _ => return Insertion::Refused,
            },
            None => (*part, None),
        };
        if matches!(node.value, TraefikValue::Empty) {
            node.value = TraefikValue::Map(TraefikMap::default());
        }
        // `tls=true` beside `tls.certresolver=…`: the table says as much.
        if let TraefikValue::Text(text) = &node.value {
            if text != "true" && !text.is_empty() {
                return Insertion::Refused;
            }
            node.value = TraefikValue::Map(TraefikMap::default());
        }
        let TraefikValue::Map(map) = &mut node.value else {
            return Insertion::Refused;
        };
        let Some(next) = map.entry(name, place) else {
            return Insertion::Refused;
        };
        node = next;
        if let Some(index) = index {
            if matches!(node.value, TraefikValue::Empty) {
                node.value = TraefikValue::List(Vec::new());
            }
            let TraefikValue::List(list) = &mut node.value else {
                return Insertion::Refused;
            };
            while list.len() <= index {
                list.push(TraefikNode::new(place, TraefikValue::Empty));
            }
            match list.get_mut(index) {
                Some(item) => node = item,
                None => return Insertion::Refused,
            }
        }
    }
    match &node.value {
        TraefikValue::Empty => {
            node.value = TraefikValue::Text(value);
            node.statement = Some(statement);
            node.place = place.clone();
            Insertion::Done
        }
        TraefikValue::Map(_) if value == "true" && node.statement.is_none() => {
            node.statement = Some(statement);
            Insertion::Done
        }
        TraefikValue::Map(_) if value == "true" => Insertion::Repeated,
        TraefikValue::Text(text) if *text == value => Insertion::Repeated,
        _ => Insertion::Refused,
    }
}

/// What became of a label or flag in the tree.
enum Insertion {
    /// It is in the tree.
    Done,
    /// It says what is there already.
    Repeated,
    /// It says otherwise, or its path cannot be one.
    Refused,
}

impl Insertion {
    fn told(self, statement: crate::StatementId, report: &mut ConversionReport) {
        match self {
            Self::Done => {}
            Self::Repeated => report.set(statement, Verdict::Default),
            Self::Refused => report.set(
                statement,
                Verdict::not_supported("another one says otherwise, or it is too deep", None),
            ),
        }
    }
}

/// A text of a Compose file with its variables replaced; those that are not known are marked.
pub(super) fn expanded(text: &str, variables: &HashMap<String, String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        if let Some(after) = after.strip_prefix('$') {
            out.push('$');
            rest = after;
            continue;
        }
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let (inside, after) = match after
            .strip_prefix('{')
            .and_then(|inner| inner.split_once('}'))
        {
            Some(parts) => parts,
            None => {
                let end = after.find(|c| !is_name(c)).unwrap_or(after.len());
                after.split_at(end)
            }
        };
        let end = inside.find(|c| !is_name(c)).unwrap_or(inside.len());
        let (name, _) = inside.split_at(end);
        if name.is_empty() {
            out.push('$');
            out.push_str(inside);
        } else if let Some(value) = variables.get(name) {
            out.push_str(value);
        } else {
            out.push(UNKNOWN_START);
            out.push_str(name);
            out.push(UNKNOWN_END);
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

/// The variables of a file `.env`.
pub(super) fn variables(text: &str) -> HashMap<String, String> {
    let lines = text
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'));
    lines
        .filter_map(|line| {
            let (name, value) = line.split_once('=')?;
            let value = value.trim();
            let quoted = |mark: char| value.strip_prefix(mark)?.strip_suffix(mark);
            let value = quoted('"').or_else(|| quoted('\'')).unwrap_or(value);
            // A value that refers to another one is not known.
            let plain = !value.contains('$') && !value.contains(UNKNOWN_START);
            let name = name.trim().trim_start_matches("export ").to_owned();
            plain.then(|| (name, value.to_owned()))
        })
        .collect()
}
