//! Matchers: which requests of a place a directive is for.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::blocks::CaddyStatement;
use super::paths::{CaddyPattern, CaddyPlace};
use crate::{ConversionReport, StatementId, Verdict};

/// Networks that Caddy calls `private_ranges`.
pub(super) const PRIVATE_RANGES: [&str; 6] = [
    "192.168.0.0/16",
    "172.16.0.0/12",
    "10.0.0.0/8",
    "127.0.0.0/8",
    "fd00::/8",
    "::1/128",
];

/// Whether a matcher matches the requests of a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CaddyMatch {
    /// All of them.
    Yes,
    /// None of them.
    No,
    /// Those of some clients.
    Clients {
        /// The networks of the clients.
        networks: Vec<String>,
        /// Whether it is for all other clients.
        inverted: bool,
    },
    /// Some, by a condition that Lockgate does not have.
    Unknown,
}

impl CaddyMatch {
    fn and(self, other: CaddyMatch) -> CaddyMatch {
        match (self, other) {
            (CaddyMatch::No, _) | (_, CaddyMatch::No) => CaddyMatch::No,
            (CaddyMatch::Yes, other) | (other, CaddyMatch::Yes) => other,
            _ => CaddyMatch::Unknown,
        }
    }

    fn or(self, other: CaddyMatch) -> CaddyMatch {
        match (self, other) {
            (CaddyMatch::Yes, _) | (_, CaddyMatch::Yes) => CaddyMatch::Yes,
            (CaddyMatch::No, other) | (other, CaddyMatch::No) => other,
            _ => CaddyMatch::Unknown,
        }
    }

    fn not(self) -> CaddyMatch {
        match self {
            CaddyMatch::Yes => CaddyMatch::No,
            CaddyMatch::No => CaddyMatch::Yes,
            CaddyMatch::Clients { networks, inverted } => CaddyMatch::Clients {
                networks,
                inverted: !inverted,
            },
            CaddyMatch::Unknown => CaddyMatch::Unknown,
        }
    }
}

/// What has become of a request's path before a directive sees it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum CaddyPathChange {
    /// It is as the client sent it.
    #[default]
    None,
    /// A prefix was removed.
    Stripped(String),
    /// It was replaced; the text is in the placeholders of Lockgate.
    Rewritten(String),
}

/// The requests that are being worked out.
#[derive(Debug, Clone, Copy)]
pub(super) struct CaddyRequests<'a> {
    /// The host, lower case; `None` for every host that has no site of its own.
    pub(super) host: Option<&'a str>,
    /// Whether they come over TLS.
    pub(super) secure: bool,
    /// The port that they arrive at.
    pub(super) port: u16,
    /// Their paths.
    pub(super) place: &'a CaddyPlace,
    /// Their methods.
    pub(super) method: CaddyMethod<'a>,
}

/// The methods of the requests that are being worked out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CaddyMethod<'a> {
    /// All: no matcher names one, or too many are named.
    All,
    /// Those that no matcher names.
    Unnamed,
    /// This one.
    Named(&'a str),
}

/// The named matchers that a block sees.
#[derive(Debug, Default)]
pub(super) struct CaddyScope<'a> {
    names: BTreeMap<&'a str, Vec<&'a CaddyStatement>>,
    parent: Option<&'a CaddyScope<'a>>,
}

impl<'a> CaddyScope<'a> {
    /// The matchers of a block and of those around it.
    pub(super) fn new(
        statements: impl Iterator<Item = &'a CaddyStatement>,
        parent: Option<&'a CaddyScope<'a>>,
    ) -> Self {
        let mut names: BTreeMap<&str, Vec<&CaddyStatement>> = BTreeMap::new();
        for statement in statements.filter(|one| one.name().starts_with('@')) {
            names.entry(statement.name()).or_default().push(statement);
        }
        Self { names, parent }
    }

    fn find(&self, name: &str) -> Option<&[&'a CaddyStatement]> {
        match self.names.get(name) {
            Some(found) => Some(found),
            None => self.parent.and_then(|parent| parent.find(name)),
        }
    }

    /// The lines of a named matcher, each with a kind as its first word.
    pub(super) fn lines(&self, name: &str) -> Option<Vec<CaddyMatcherLine<'a>>> {
        let mut lines = Vec::new();
        for definition in self.find(name)? {
            if !definition.args().is_empty() {
                lines.push(CaddyMatcherLine {
                    words: definition.args(),
                    block: definition.inner(),
                    id: definition.id,
                });
            } else {
                lines.extend(definition.inner().iter().map(CaddyMatcherLine::new));
            }
        }
        Some(lines)
    }
}

/// A line of a matcher: `path /a /b`.
#[derive(Debug, Clone, Copy)]
pub(super) struct CaddyMatcherLine<'a> {
    words: &'a [String],
    block: &'a [CaddyStatement],
    /// Its statement.
    pub(super) id: StatementId,
}

impl<'a> CaddyMatcherLine<'a> {
    fn new(statement: &'a CaddyStatement) -> Self {
        Self {
            words: &statement.words,
            block: statement.inner(),
            id: statement.id,
        }
    }

    fn kind(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    /// The lines that a `not` turns around.
    fn turned(&self) -> Vec<CaddyMatcherLine<'a>> {
        match self.words.get(1..) {
            Some(words) if !words.is_empty() => vec![CaddyMatcherLine {
                words,
                block: self.block,
                id: self.id,
            }],
            _ => self.block.iter().map(CaddyMatcherLine::new).collect(),
        }
    }

    fn values(&self) -> Vec<String> {
        self.words.get(1..).unwrap_or_default().to_vec()
    }

    /// All patterns of paths in it, with the statement that has them.
    fn patterns(&self, found: &mut Vec<(String, StatementId)>) {
        match self.kind() {
            "path" => found.extend(self.values().into_iter().map(|one| (one, self.id))),
            "not" => {
                for line in self.turned() {
                    if line.kind() != "not" {
                        line.patterns(found);
                    }
                }
            }
            _ => {}
        }
    }

    /// All methods in it.
    fn methods(&self, found: &mut BTreeSet<String>) {
        match self.kind() {
            "method" => found.extend(self.values()),
            "not" => {
                for line in self.turned() {
                    if line.kind() != "not" {
                        line.methods(found);
                    }
                }
            }
            _ => {}
        }
    }

    /// All hosts in it.
    fn hosts(&self, found: &mut BTreeSet<String>) {
        match self.kind() {
            "host" => found.extend(self.values().into_iter().map(|one| one.to_lowercase())),
            "not" => {
                for line in self.turned() {
                    if line.kind() != "not" {
                        line.hosts(found);
                    }
                }
            }
            _ => {}
        }
    }

    fn matches(&self, requests: CaddyRequests<'_>, change: &CaddyPathChange) -> CaddyMatch {
        let values = self.values();
        match self.kind() {
            "path" => any(values.iter().map(|one| path_matches(one, requests, change))),
            "host" => any(values.iter().map(|one| host_matches(one, requests.host))),
            "protocol" => match values.first().map(String::as_str) {
                Some("https") if requests.secure => CaddyMatch::Yes,
                Some("http") if !requests.secure => CaddyMatch::Yes,
                Some("https" | "http") => CaddyMatch::No,
                _ => CaddyMatch::Unknown,
            },
            "method" => match requests.method {
                CaddyMethod::All => CaddyMatch::Unknown,
                CaddyMethod::Named(name) if values.iter().any(|one| one == name) => CaddyMatch::Yes,
                CaddyMethod::Named(_) | CaddyMethod::Unnamed => CaddyMatch::No,
            },
            "remote_ip" | "client_ip" => {
                let mut networks = Vec::new();
                for value in &values {
                    match value.as_str() {
                        "private_ranges" => {
                            networks.extend(PRIVATE_RANGES.map(str::to_owned));
                        }
                        value => match network(value) {
                            Some(network) => networks.push(network),
                            None => return CaddyMatch::Unknown,
                        },
                    }
                }
                CaddyMatch::Clients {
                    networks,
                    inverted: false,
                }
            }
            "not" => {
                let lines = self.turned();
                if lines.is_empty() || lines.iter().any(|line| line.kind() == "not") {
                    return CaddyMatch::Unknown;
                }
                all(&lines, requests, change).not()
            }
            _ => CaddyMatch::Unknown,
        }
    }
}

fn any(matches: impl Iterator<Item = CaddyMatch>) -> CaddyMatch {
    matches.fold(CaddyMatch::No, CaddyMatch::or)
}

/// Lines of one kind are joined by or, different kinds by and.
fn all(
    lines: &[CaddyMatcherLine<'_>],
    requests: CaddyRequests<'_>,
    change: &CaddyPathChange,
) -> CaddyMatch {
    let mut kinds: BTreeMap<&str, Vec<CaddyMatch>> = BTreeMap::new();
    for line in lines {
        let matches = line.matches(requests, change);
        kinds.entry(line.kind()).or_default().push(matches);
    }
    kinds
        .into_iter()
        .fold(CaddyMatch::Yes, |sum, (kind, matches)| {
            let joined = match kind {
                "path" | "host" | "protocol" | "method" => any(matches.into_iter()),
                "remote_ip" | "client_ip" if matches.len() > 1 => CaddyMatch::Unknown,
                _ => matches.into_iter().fold(CaddyMatch::Yes, CaddyMatch::and),
            };
            sum.and(joined)
        })
}

/// A network or an address as Lockgate reads it: no bit is set behind its length.
pub(super) fn network(text: &str) -> Option<String> {
    let Some((address, bits)) = text.split_once('/') else {
        return text.parse::<IpAddr>().ok().map(|_| text.to_owned());
    };
    let bits: u32 = bits.parse().ok()?;
    match address.parse().ok()? {
        IpAddr::V4(address) if bits <= 32 => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            let first = Ipv4Addr::from_bits(address.to_bits() & mask);
            Some(format!("{first}/{bits}"))
        }
        IpAddr::V6(address) if bits <= 128 => {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            let first = Ipv6Addr::from_bits(address.to_bits() & mask);
            Some(format!("{first}/{bits}"))
        }
        _ => None,
    }
}

fn path_matches(
    pattern: &str,
    requests: CaddyRequests<'_>,
    change: &CaddyPathChange,
) -> CaddyMatch {
    let stripped = match change {
        CaddyPathChange::None => "",
        CaddyPathChange::Stripped(prefix) => prefix,
        CaddyPathChange::Rewritten(path) if !path.contains(['{', '?']) => {
            let pattern = pattern.to_lowercase();
            let path = path.to_lowercase();
            let matches = match pattern.split_once('*') {
                None => path == pattern,
                Some((begin, "")) => path.starts_with(begin),
                Some(("", end)) if !end.contains('*') => path.ends_with(end),
                _ => return CaddyMatch::Unknown,
            };
            return if matches {
                CaddyMatch::Yes
            } else {
                CaddyMatch::No
            };
        }
        CaddyPathChange::Rewritten(_) => return CaddyMatch::Unknown,
    };
    if matches!(pattern, "*" | "/*") {
        return CaddyMatch::Yes;
    }
    match CaddyPattern::parse(pattern, stripped) {
        CaddyPattern::Other => match (requests.place, pattern.strip_prefix('*')) {
            // `*.css` has no exact path that ends otherwise.
            (CaddyPlace::Exact(_), Some(end)) if !end.contains('*') => {
                let path = requests.place.path();
                match path.to_lowercase().ends_with(&end.to_lowercase()) {
                    true => CaddyMatch::Yes,
                    false if path.contains('{') => CaddyMatch::Unknown,
                    false => CaddyMatch::No,
                }
            }
            _ => CaddyMatch::Unknown,
        },
        pattern if pattern.has(requests.place) => CaddyMatch::Yes,
        _ => CaddyMatch::No,
    }
}

fn host_matches(pattern: &str, host: Option<&str>) -> CaddyMatch {
    let pattern = pattern.to_lowercase();
    if pattern.contains(['{', '[']) || pattern.matches('*').count() > 1 {
        return CaddyMatch::Unknown;
    }
    let below = pattern.strip_prefix('*');
    match host {
        Some(host) if host == pattern => CaddyMatch::Yes,
        Some(host) => match below {
            Some(end) => {
                let label = host.strip_suffix(end).unwrap_or(".");
                match label.contains('.') || label.is_empty() {
                    true => CaddyMatch::No,
                    false => CaddyMatch::Yes,
                }
            }
            None => CaddyMatch::No,
        },
        None => CaddyMatch::No,
    }
}

/// The directives that have no matcher as their first word.
const WITHOUT_MATCHER: [&str; 12] = [
    "try_files",
    "import",
    "log",
    "tls",
    "bind",
    "handle_path",
    "handle_errors",
    "invoke",
    "log_name",
    "fs",
    "map",
    "copy_response",
];

/// The matcher of a directive, and its other words.
pub(super) fn of_directive(statement: &CaddyStatement) -> (Option<&str>, &[String]) {
    let args = statement.args();
    if statement.name() == "handle_path" {
        return (statement.arg(), &[]);
    }
    let Some((first, rest)) = args.split_first() else {
        return (None, args);
    };
    let lone_path = rest.is_empty() && matches!(statement.name(), "root" | "rewrite" | "redir");
    let without = WITHOUT_MATCHER.contains(&statement.name()) && !first.starts_with('@');
    let is_matcher = first == "*" || first.starts_with('@') || first.starts_with('/');
    match is_matcher && !without && !(lone_path && first.starts_with('/')) {
        true => (Some(first), rest),
        false => (None, args),
    }
}

/// Whether a directive is for the requests of a place.
pub(super) fn matches(
    statement: &CaddyStatement,
    scope: &CaddyScope<'_>,
    requests: CaddyRequests<'_>,
    change: &CaddyPathChange,
) -> CaddyMatch {
    match of_directive(statement).0 {
        None | Some("*") => CaddyMatch::Yes,
        Some(name) if name.starts_with('@') => match scope.lines(name) {
            Some(lines) => all(&lines, requests, change),
            None => CaddyMatch::Unknown,
        },
        Some(path) => path_matches(path, requests, change),
    }
}

/// The only path that a directive's matcher has, for the order, and whether it has a matcher.
pub(super) fn only_path(
    statement: &CaddyStatement,
    scope: &CaddyScope<'_>,
) -> (bool, Option<String>) {
    match of_directive(statement).0 {
        None | Some("*") => (false, None),
        Some(name) if name.starts_with('@') => {
            let lines = scope.lines(name).unwrap_or_default();
            let mut paths = Vec::new();
            for line in lines.iter().filter(|line| line.kind() == "path") {
                paths.extend(line.values());
            }
            match paths.len() {
                1 => (true, paths.pop()),
                _ => (true, None),
            }
        }
        Some(path) => (true, Some(path.to_owned())),
    }
}

/// All patterns that a directive's matcher has, with the statements that hold them.
pub(super) fn patterns(
    statement: &CaddyStatement,
    scope: &CaddyScope<'_>,
) -> Vec<(String, StatementId)> {
    let mut found = Vec::new();
    match of_directive(statement).0 {
        Some(name) if name.starts_with('@') => {
            for line in scope.lines(name).unwrap_or_default() {
                line.patterns(&mut found);
            }
        }
        Some(path) => found.push((path.to_owned(), statement.id)),
        None => {}
    }
    found
}

/// All methods that a directive's matcher names.
pub(super) fn methods(
    statement: &CaddyStatement,
    scope: &CaddyScope<'_>,
    found: &mut BTreeSet<String>,
) {
    if let Some(name) = of_directive(statement).0 {
        for line in scope.lines(name).unwrap_or_default() {
            line.methods(found);
        }
    }
}

/// All hosts that a directive's matcher names.
pub(super) fn hosts(
    statement: &CaddyStatement,
    scope: &CaddyScope<'_>,
    found: &mut BTreeSet<String>,
) {
    if let Some(name) = of_directive(statement).0 {
        for line in scope.lines(name).unwrap_or_default() {
            line.hosts(found);
        }
    }
}

/// Says of the lines of a matcher that they were not converted.
pub(super) fn refuse(
    statement: &CaddyStatement,
    scope: &CaddyScope<'_>,
    report: &mut ConversionReport,
) {
    let Some(name) = of_directive(statement).0 else {
        return;
    };
    for line in scope.lines(name).unwrap_or_default() {
        let known = matches!(line.kind(), "path" | "host" | "protocol" | "not");
        let because = match line.kind() {
            "remote_ip" | "client_ip" => continue,
            "path" => "a pattern of these is no route: Lockgate has exact paths and `/x/*`",
            _ if known => "this cannot be expressed by routes",
            "method" => "methods are told apart where all are in upper case, and eight at most",
            _ => "Lockgate does not choose by this: routes have a host, a method and a path",
        };
        report.set(line.id, Verdict::not_supported(because, None));
    }
}

/// Whether a directive's matcher has paths alone.
pub(super) fn only_paths(statement: &CaddyStatement, scope: &CaddyScope<'_>) -> bool {
    match of_directive(statement).0 {
        Some(name) if name.starts_with('@') => scope
            .lines(name)
            .unwrap_or_default()
            .iter()
            .all(|line| line.kind() == "path"),
        matcher => matcher.is_some(),
    }
}
