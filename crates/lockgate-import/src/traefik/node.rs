//! The tree that YAML, TOML, labels and flags are read into, with the statement of each leaf.

use std::collections::HashMap;

use crate::{ConversionReport, Place, StatementId, Verdict};

/// Stands in a text before the name of a value that is not known, such as a variable.
pub(super) const UNKNOWN_START: char = '\u{E000}';
/// Stands after that name.
pub(super) const UNKNOWN_END: char = '\u{E001}';
/// How deep nodes may be nested.
pub(super) const MAX_DEPTH: usize = 64;

/// A node.
#[derive(Debug, Clone)]
pub(super) struct TraefikNode {
    /// The statement of a leaf, or of a node with a name of its own such as a router.
    pub(super) statement: Option<StatementId>,
    /// Where it stands.
    pub(super) place: Place,
    /// What it holds.
    pub(super) value: TraefikValue,
}

/// What a node holds.
#[derive(Debug, Clone)]
pub(super) enum TraefikValue {
    /// Nothing.
    Empty,
    /// A text, a number or a flag.
    Text(String),
    /// A list.
    List(Vec<TraefikNode>),
    /// Nodes by name.
    Map(TraefikMap),
}

/// Nodes by name, in the order of the source.
#[derive(Debug, Clone, Default)]
pub(super) struct TraefikMap {
    entries: Vec<(String, TraefikNode)>,
    index: HashMap<String, usize>,
}

impl TraefikMap {
    /// The node of this name, made if there is none; names of fields in any case.
    pub(super) fn entry(&mut self, name: &str, place: &Place) -> Option<&mut TraefikNode> {
        let at = match self.position(name) {
            Some(at) => at,
            None => {
                self.insert(
                    name.to_owned(),
                    TraefikNode::new(place, TraefikValue::Empty),
                );
                self.entries.len() - 1
            }
        };
        self.entries.get_mut(at).map(|(_, node)| node)
    }

    /// Where the node of this name is; names of fields count in any case of their letters, as long as
    /// there are few enough of them to be compared.
    fn position(&self, name: &str) -> Option<usize> {
        let exact = self.index.get(name).copied();
        if exact.is_some() || self.entries.len() > 256 {
            return exact;
        }
        let mut names = self.entries.iter().map(|(key, _)| key);
        names.position(|key| key.eq_ignore_ascii_case(name))
    }

    /// Adds a node; one of the same name that is there already stays the one that is found.
    pub(super) fn insert(&mut self, name: String, node: TraefikNode) {
        let at = self.entries.len();
        self.index.entry(name.clone()).or_insert(at);
        self.entries.push((name, node));
    }

    /// All nodes.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &TraefikNode)> {
        self.entries
            .iter()
            .map(|(name, node)| (name.as_str(), node))
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = (&str, &mut TraefikNode)> {
        self.entries
            .iter_mut()
            .map(|(name, node)| (name.as_str(), node))
    }
}

/// Tables of which every entry has a name that the user gave: each is a statement.
const NAMED: [&str; 11] = [
    "routers",
    "services",
    "middlewares",
    "serverstransports",
    "entrypoints",
    "certificatesresolvers",
    "options",
    "stores",
    "models",
    "plugins",
    "plugin",
];

impl TraefikNode {
    /// A node without a statement.
    pub(super) fn new(place: &Place, value: TraefikValue) -> Self {
        Self {
            statement: None,
            place: place.clone(),
            value,
        }
    }

    /// The field of this name, in any case of its letters.
    pub(super) fn field(&self, name: &str) -> Option<&Self> {
        match &self.value {
            TraefikValue::Map(map) => map
                .iter()
                .find(|(key, _)| key.eq_ignore_ascii_case(name))
                .map(|(_, node)| node),
            _ => None,
        }
    }

    /// The field at the end of this path.
    pub(super) fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |node, name| node.field(name))
    }

    /// Its nodes by name.
    pub(super) fn fields(&self) -> impl Iterator<Item = (&str, &Self)> {
        let map = match &self.value {
            TraefikValue::Map(map) => Some(map),
            _ => None,
        };
        map.into_iter().flat_map(TraefikMap::iter)
    }

    /// Its text, if it is one and all of it is known.
    pub(super) fn text(&self) -> Option<&str> {
        self.raw().filter(|text| is_known(text))
    }

    /// Its text, of which a part may not be known.
    pub(super) fn raw(&self) -> Option<&str> {
        match &self.value {
            TraefikValue::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Its items: of a list, or of a text with commas as in labels.
    pub(super) fn items(&self) -> Vec<String> {
        match &self.value {
            TraefikValue::Text(text) => text
                .split(',')
                .map(|item| item.trim().to_owned())
                .filter(|item| !item.is_empty())
                .collect(),
            TraefikValue::List(list) => list
                .iter()
                .filter_map(Self::raw)
                .map(str::to_owned)
                .collect(),
            _ => Vec::new(),
        }
    }

    /// Its nodes: those of a list.
    pub(super) fn nodes(&self) -> &[Self] {
        match &self.value {
            TraefikValue::List(list) => list,
            _ => &[],
        }
    }

    /// Whether it is a list or a map of nodes that are not texts.
    pub(super) fn is_map(&self) -> bool {
        matches!(self.value, TraefikValue::Map(_))
    }

    /// Its flag.
    pub(super) fn flag(&self) -> Option<bool> {
        match self.text()?.to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "on" | "t" | "y" => Some(true),
            "false" | "0" | "no" | "off" | "f" | "n" => Some(false),
            _ => None,
        }
    }

    /// Its whole number.
    pub(super) fn number(&self) -> Option<i64> {
        let text = self.text()?;
        text.replace('_', "").parse().ok()
    }

    /// Gives every statement in it a verdict.
    pub(super) fn mark(&self, report: &mut ConversionReport, verdict: &Verdict) {
        if let Some(statement) = self.statement {
            report.set(statement, verdict.clone());
        }
        match &self.value {
            TraefikValue::List(list) => list.iter().for_each(|node| node.mark(report, verdict)),
            TraefikValue::Map(map) => map.iter().for_each(|(_, node)| node.mark(report, verdict)),
            _ => {}
        }
    }

    /// Gives every statement in it that has none a verdict.
    pub(super) fn mark_rest(&self, report: &mut ConversionReport, verdict: &Verdict) {
        if let Some(statement) = self.statement.filter(|id| !report.has_verdict(*id)) {
            report.set(statement, verdict.clone());
        }
        match &self.value {
            TraefikValue::List(list) => {
                list.iter().for_each(|node| node.mark_rest(report, verdict));
            }
            TraefikValue::Map(map) => map
                .iter()
                .for_each(|(_, node)| node.mark_rest(report, verdict)),
            _ => {}
        }
    }

    /// Gives its own statement a verdict.
    pub(super) fn set(&self, report: &mut ConversionReport, verdict: Verdict) {
        if let Some(statement) = self.statement {
            report.set(statement, verdict);
        } else {
            self.mark(report, &verdict);
        }
    }

    /// Gives the statements of these fields that have none a verdict.
    pub(super) fn mark_known(
        &self,
        fields: &[&str],
        report: &mut ConversionReport,
        verdict: &Verdict,
    ) {
        for name in fields {
            if let Some(node) = self.field(name) {
                node.mark_rest(report, verdict);
            }
        }
    }

    /// Gives its own statement a verdict, but not those in it.
    pub(super) fn set_own(&self, report: &mut ConversionReport, verdict: Verdict) {
        if let Some(statement) = self.statement {
            report.set(statement, verdict);
        }
    }

    /// Registers the statements of a file's tree, in the order of the source.
    pub(super) fn register(&mut self, parent: &str, key: &str, report: &mut ConversionReport) {
        let named = NAMED.contains(&parent.to_ascii_lowercase().as_str());
        match &mut self.value {
            TraefikValue::Map(map) if !map.entries.is_empty() => {
                if named {
                    self.statement = Some(report.add(self.place.clone(), &format!("{key}:")));
                }
                for (name, node) in map.iter_mut() {
                    // A node of an alias has been registered where the anchor stands.
                    node.register(key, name, report);
                }
            }
            TraefikValue::List(list)
                if list
                    .iter()
                    .any(|item| !matches!(item.value, TraefikValue::Text(_))) =>
            {
                for node in list {
                    node.register(key, key, report);
                }
            }
            TraefikValue::List(list) => {
                let items: Vec<_> = list.iter().take(40).filter_map(Self::raw).collect();
                let text = format!("{key}: [{}]", items.join(", "));
                self.statement = Some(report.add(self.place.clone(), &shown(&text)));
            }
            TraefikValue::Text(text) => {
                let text = format!("{key}: {text}");
                self.statement = Some(report.add(self.place.clone(), &shown(&text)));
            }
            _ => self.statement = Some(report.add(self.place.clone(), &format!("{key}:"))),
        }
    }

    /// Merges another tree into this one; of two texts the first stays.
    pub(super) fn merge(&mut self, other: Self, report: &mut ConversionReport) {
        let own = self.statement;
        match (&mut self.value, other.value) {
            (TraefikValue::Map(map), TraefikValue::Map(more)) => {
                if let Some(statement) = other.statement {
                    match own {
                        None => self.statement = Some(statement),
                        Some(_) => report.set(statement, Verdict::Default),
                    }
                }
                for (name, node) in more.entries {
                    let known = map.position(&name);
                    match known.and_then(|at| map.entries.get_mut(at)) {
                        Some((_, known)) => known.merge(node, report),
                        None => map.insert(name, node),
                    }
                }
            }
            (TraefikValue::Empty, value) => {
                self.value = value;
                self.statement = self.statement.or(other.statement);
            }
            (TraefikValue::Text(one), TraefikValue::Text(two)) if *one == two => {
                if let Some(statement) = other.statement {
                    report.set(statement, Verdict::Default);
                }
            }
            // A flag before a table of the same name.
            (TraefikValue::Text(one), TraefikValue::Map(more)) if one == "true" => {
                self.value = TraefikValue::Map(more);
            }
            (TraefikValue::Map(_), TraefikValue::Text(two)) if two == "true" => {
                if let Some(statement) = other.statement {
                    report.set(statement, Verdict::Default);
                }
            }
            (_, value) => Self {
                statement: other.statement,
                place: other.place,
                value,
            }
            .mark(
                report,
                &Verdict::not_supported(
                    "another statement says otherwise, and that one counts",
                    None,
                ),
            ),
        }
    }
}

/// Whether all of a text is known.
pub(super) fn is_known(text: &str) -> bool {
    !text.contains(UNKNOWN_START)
}

/// A text as the source has it: unknown values by their names.
pub(super) fn shown(text: &str) -> String {
    text.replace(UNKNOWN_START, "${").replace(UNKNOWN_END, "}")
}

/// A text of a file in which `${env:…}` and `${file:…}`, which mean something to Lockgate alone, and
/// our own marks are unknown values.
pub(super) fn harmless(text: &str) -> String {
    let text: String = text
        .chars()
        .map(|c| match c {
            UNKNOWN_START | UNKNOWN_END => '\u{FFFD}',
            c => c,
        })
        .collect();
    if !text.contains("${env:") && !text.contains("${file:") {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once("${") {
        out.push_str(before);
        let inner = after
            .strip_prefix("env:")
            .or_else(|| after.strip_prefix("file:"));
        match inner {
            Some(inner) => {
                let (name, after) = inner.split_once('}').unwrap_or((inner, ""));
                out.push(UNKNOWN_START);
                out.push_str(name);
                out.push(UNKNOWN_END);
                rest = after;
            }
            None => {
                out.push_str("${");
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}
