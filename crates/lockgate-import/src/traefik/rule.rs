//! Rules of routers, such as ``Host(`a.test`) && PathPrefix(`/api`)``, as alternatives of hosts, a path
//! and methods.

use super::node::{UNKNOWN_END, UNKNOWN_START, is_known, shown};

/// How many alternatives a rule may have.
const MAX_ALTERNATIVES: usize = 256;
/// How deep parentheses may be nested.
const MAX_NESTING: usize = 64;

/// A host of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum RuleHost {
    /// This host.
    Exact(String),
    /// Every host below this one, which is written without `*.`.
    Below(String),
    /// Every host.
    Any,
}

/// A path of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum RulePath {
    /// Every path.
    All,
    /// This path and those below it, written without a slash at the end.
    Prefix(String),
    /// This path.
    Exact(String),
}

impl RulePath {
    /// Whether every path of `other` is one of this.
    pub(super) fn covers(&self, other: &Self) -> bool {
        let below = |prefix: &str, path: &str| {
            path.strip_prefix(prefix)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        match (self, other) {
            (Self::All, _) => true,
            (_, Self::All) | (Self::Exact(_), Self::Prefix(_)) => false,
            (Self::Prefix(prefix), Self::Prefix(path) | Self::Exact(path)) => below(prefix, path),
            (Self::Exact(one), Self::Exact(other)) => one == other,
        }
    }

    /// The pattern of Lockgate.
    pub(super) fn pattern(&self) -> String {
        match self {
            Self::All => "/*".to_owned(),
            Self::Prefix(prefix) => format!("{prefix}/*"),
            Self::Exact(path) => path.clone(),
        }
    }
}

/// One alternative of a rule: all of this must hold.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RuleMatch {
    /// The hosts, of which one must be the request's.
    pub(super) hosts: Vec<RuleHost>,
    /// The path.
    pub(super) path: RulePath,
    /// Paths that it must not be.
    pub(super) except: Vec<RulePath>,
    /// The methods; none for all.
    pub(super) methods: Vec<String>,
    /// Conditions that Lockgate does not have.
    pub(super) foreign: Vec<String>,
    /// Whether no request can fulfil it.
    pub(super) never: bool,
}

impl RuleMatch {
    /// Whether it names clients by the addresses that they do not have.
    pub(super) fn outsiders(&self) -> bool {
        self.foreign
            .iter()
            .any(|text| text.to_ascii_lowercase().starts_with("!clientip"))
    }
}

/// A rule that was read.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct TraefikRule {
    /// Its alternatives.
    pub(super) any_of: Vec<RuleMatch>,
    /// What its conversion changes, as sentences.
    pub(super) differs: Vec<String>,
}

impl TraefikRule {
    fn note(&mut self, text: String) {
        if !self.differs.contains(&text) {
            self.differs.push(text);
        }
    }
}

/// A call, or an operator over some.
enum RuleNode {
    Call(String, Vec<String>),
    Not(Box<RuleNode>),
    And(Vec<RuleNode>),
    Or(Vec<RuleNode>),
}

struct RuleReader<'a> {
    rest: &'a str,
}

impl RuleReader<'_> {
    fn skip(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn eat(&mut self, token: &str) -> bool {
        self.skip();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn any(&mut self, depth: usize) -> Result<RuleNode, String> {
        let mut parts = vec![self.all(depth)?];
        while self.eat("||") {
            parts.push(self.all(depth)?);
        }
        Ok(match parts.len() {
            1 => parts.swap_remove(0),
            _ => RuleNode::Or(parts),
        })
    }

    fn all(&mut self, depth: usize) -> Result<RuleNode, String> {
        let mut parts = vec![self.one(depth)?];
        while self.eat("&&") {
            parts.push(self.one(depth)?);
        }
        Ok(match parts.len() {
            1 => parts.swap_remove(0),
            _ => RuleNode::And(parts),
        })
    }

    fn one(&mut self, depth: usize) -> Result<RuleNode, String> {
        if depth > MAX_NESTING {
            return Err("its parentheses are nested too deep".to_owned());
        }
        if self.eat("!") {
            return Ok(RuleNode::Not(Box::new(self.one(depth + 1)?)));
        }
        if self.eat("(") {
            let inner = self.any(depth + 1)?;
            return match self.eat(")") {
                true => Ok(inner),
                false => Err("a parenthesis is not closed".to_owned()),
            };
        }
        self.skip();
        let end = self
            .rest
            .find(|c: char| !c.is_ascii_alphanumeric())
            .unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        if name.is_empty() || !self.eat("(") {
            return Err("it is not a rule of Traefik 2 or 3".to_owned());
        }
        let mut values = Vec::new();
        loop {
            self.skip();
            let Some(mark) = self
                .rest
                .chars()
                .next()
                .filter(|c| matches!(c, '`' | '"' | '\''))
            else {
                break;
            };
            let inner = self.rest.get(1..).unwrap_or("");
            let (value, rest) = inner
                .split_once(mark)
                .ok_or_else(|| "a value is not closed".to_owned())?;
            values.push(value.to_owned());
            self.rest = rest;
            if !self.eat(",") {
                break;
            }
        }
        match self.eat(")") {
            true => Ok(RuleNode::Call(name.to_owned(), values)),
            false => Err("its values are not in quotes, or a parenthesis is missing".to_owned()),
        }
    }
}

/// Reads the rule of a router for HTTP.
pub(super) fn read(text: &str) -> Result<TraefikRule, String> {
    let node = parse(text)?;
    let mut rule = TraefikRule::default();
    rule.any_of = alternatives(&node, false, &mut rule)?;
    if rule.any_of.iter().all(|one| one.never) {
        rule.note("no request fulfils it".to_owned());
    }
    rule.any_of.retain(|one| !one.never);
    Ok(rule)
}

fn parse(text: &str) -> Result<RuleNode, String> {
    let mut reader = RuleReader { rest: text };
    let node = reader.any(0)?;
    reader.skip();
    match reader.rest {
        "" => Ok(node),
        _ => Err("it is not a rule of Traefik 2 or 3".to_owned()),
    }
}

/// A rule for TCP, of which each part is a server name.
#[derive(Debug, PartialEq)]
pub(super) struct TraefikTcpRule {
    /// The server names; `*` for all.
    pub(super) names: Vec<String>,
    /// The protocols of ALPN.
    pub(super) alpn: Vec<String>,
}

/// Reads the rule of a router for TCP.
pub(super) fn read_tcp(text: &str) -> Result<TraefikTcpRule, String> {
    let mut rule = TraefikTcpRule {
        names: Vec::new(),
        alpn: Vec::new(),
    };
    let node = parse(text)?;
    let parts = match node {
        RuleNode::Or(parts) => parts,
        one => vec![one],
    };
    for part in parts {
        match part {
            RuleNode::Call(name, values) if name.eq_ignore_ascii_case("HostSNI") => {
                rule.names.extend(values);
            }
            RuleNode::Call(name, values) if name.eq_ignore_ascii_case("ALPN") => {
                rule.alpn.extend(values);
            }
            _ => return Err("Lockgate chooses relays by server name and ALPN alone".to_owned()),
        }
    }
    Ok(rule)
}

fn everything() -> RuleMatch {
    RuleMatch {
        hosts: vec![RuleHost::Any],
        path: RulePath::All,
        except: Vec::new(),
        methods: Vec::new(),
        foreign: Vec::new(),
        never: false,
    }
}

fn alternatives(
    node: &RuleNode,
    negated: bool,
    rule: &mut TraefikRule,
) -> Result<Vec<RuleMatch>, String> {
    let too_many = || "it has too many alternatives".to_owned();
    match (node, negated) {
        (RuleNode::Not(inner), _) => alternatives(inner, !negated, rule),
        (RuleNode::Or(parts), false) | (RuleNode::And(parts), true) => {
            let mut any = Vec::new();
            for part in parts {
                any.extend(alternatives(part, negated, rule)?);
                if any.len() > MAX_ALTERNATIVES {
                    return Err(too_many());
                }
            }
            Ok(any)
        }
        (RuleNode::And(parts), false) | (RuleNode::Or(parts), true) => {
            let mut any = vec![everything()];
            for part in parts {
                let more = alternatives(part, negated, rule)?;
                if any.len() * more.len() > MAX_ALTERNATIVES {
                    return Err(too_many());
                }
                any = any
                    .iter()
                    .flat_map(|one| more.iter().map(|other| both(one, other)))
                    .collect();
            }
            Ok(any)
        }
        (RuleNode::Call(name, values), true) => {
            let mut one = everything();
            let positive = call(name, values, rule);
            let only_path = positive.iter().all(|part| {
                part.foreign.is_empty() && part.methods.is_empty() && part.hosts == [RuleHost::Any]
            });
            if only_path {
                one.except = positive.into_iter().map(|part| part.path).collect();
            } else {
                one.foreign.push(written("!", name, values));
            }
            Ok(vec![one])
        }
        (RuleNode::Call(name, values), false) => Ok(call(name, values, rule)),
    }
}

fn written(sign: &str, name: &str, values: &[String]) -> String {
    let values: Vec<_> = values
        .iter()
        .map(|value| format!("`{}`", shown(value)))
        .collect();
    format!("{sign}{name}({})", values.join(", "))
}

fn both(one: &RuleMatch, other: &RuleMatch) -> RuleMatch {
    let mut all = one.clone();
    all.never |= other.never;
    all.foreign.extend(other.foreign.iter().cloned());
    all.except.extend(other.except.iter().cloned());
    let any = [RuleHost::Any];
    if all.hosts == any {
        all.hosts.clone_from(&other.hosts);
    } else if other.hosts != any {
        all.hosts.retain(|host| other.hosts.contains(host));
        all.never |= all.hosts.is_empty();
    }
    if all.methods.is_empty() {
        all.methods.clone_from(&other.methods);
    } else if !other.methods.is_empty() {
        all.methods.retain(|method| other.methods.contains(method));
        all.never |= all.methods.is_empty();
    }
    if all.path.covers(&other.path) {
        all.path = other.path.clone();
    } else if !other.path.covers(&all.path) {
        all.never = true;
    }
    all
}

fn call(name: &str, values: &[String], rule: &mut TraefikRule) -> Vec<RuleMatch> {
    let foreign = || {
        let mut one = everything();
        one.foreign.push(written("", name, values));
        vec![one]
    };
    let lower = name.to_ascii_lowercase();
    let mut one = everything();
    match lower.as_str() {
        "host" | "hostheader" if !values.is_empty() => {
            let hosts: Option<Vec<_>> = values.iter().map(|value| host(value, rule)).collect();
            match hosts {
                Some(hosts) => one.hosts = hosts,
                None => return foreign(),
            }
            vec![one]
        }
        "hostregexp" if !values.is_empty() => {
            let mut hosts = Vec::new();
            for value in values {
                match host_pattern(value, rule) {
                    Some(more) => hosts.extend(more),
                    None => return foreign(),
                }
            }
            one.hosts = if hosts.contains(&RuleHost::Any) {
                vec![RuleHost::Any]
            } else {
                hosts
            };
            vec![one]
        }
        "path" | "pathprefix" if !values.is_empty() => {
            let mut any = Vec::new();
            for value in values {
                let Some(path) = path(value, lower == "pathprefix", rule) else {
                    return foreign();
                };
                any.push(RuleMatch {
                    path,
                    ..everything()
                });
            }
            any
        }
        "method" | "methods" if !values.is_empty() => {
            let is_method = |value: &String| value.chars().all(|c| c.is_ascii_alphabetic());
            if !values.iter().all(is_method) {
                return foreign();
            }
            one.methods = values
                .iter()
                .map(|value| value.to_ascii_uppercase())
                .collect();
            vec![one]
        }
        _ => foreign(),
    }
}

fn is_host(text: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty()
            && label.len() < 64
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    text.len() < 254 && text.split('.').all(label)
}

/// A host with names of unknown values: one below `example.com`, which belongs to no site.
fn host(text: &str, rule: &mut TraefikRule) -> Option<RuleHost> {
    // In a file Traefik replaces no variables: such a host is none of any request, and is to be
    // written anew.
    let replaced = match is_known(text) && text.contains('$') {
        true => super::compose::expanded(text, &std::collections::HashMap::new()),
        false => text.to_owned(),
    };
    let text = replaced.as_str();
    let name = text.trim().to_ascii_lowercase();
    if is_known(&name) {
        let name = name.trim_end_matches('.');
        return is_host(name).then(|| RuleHost::Exact(name.to_owned()));
    }
    let name = stand_in(&name);
    if !is_host(&name) {
        return None;
    }
    rule.note(format!(
        "{} is not known here: write the real host in place of {name}",
        shown(text)
    ));
    Some(RuleHost::Exact(name))
}

/// A name below `example.com` in place of one with unknown values.
pub(super) fn stand_in(name: &str) -> String {
    let mut out = String::new();
    for c in name.to_ascii_lowercase().chars() {
        match c {
            UNKNOWN_START | UNKNOWN_END => {}
            '_' => out.push('-'),
            c => out.push(c),
        }
    }
    let out = out.trim_matches(['-', '.']);
    format!("{out}.example.com")
}

/// A text in which every name with unknown values is one below `example.com`.
pub(super) fn stand_ins(text: &str) -> String {
    let part = |c: char| {
        c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | UNKNOWN_START | UNKNOWN_END)
    };
    let mut out = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c| !part(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        match is_known(word) {
            true => out.push_str(word),
            false => out.push_str(&stand_in(word)),
        }
        let end = after.find(part).unwrap_or(after.len());
        let (other, after) = after.split_at(end);
        out.push_str(other);
        rest = after;
    }
    out
}

fn host_pattern(text: &str, rule: &mut TraefikRule) -> Option<Vec<RuleHost>> {
    let unknown = !is_known(text);
    let text = text.trim();
    let text = text.strip_prefix('^').unwrap_or(text);
    let text = text.strip_suffix('$').unwrap_or(text);
    // `{name:pattern}` of version 2.
    let (pattern, rest) = match text.strip_prefix('{').and_then(|text| text.split_once('}')) {
        Some((inner, rest)) => (
            inner
                .split_once(':')
                .map_or("[^.]+", |(_, pattern)| pattern),
            rest,
        ),
        None => {
            let any = text
                .strip_prefix("(.+)")
                .or_else(|| text.strip_prefix("(.*)"))
                .or_else(|| text.strip_prefix(".+"))
                .or_else(|| text.strip_prefix(".*"));
            match any {
                Some(rest) => (".+", rest),
                None => {
                    let end = if text.starts_with('[') {
                        text.find("]+").map(|at| at + 2)?
                    } else {
                        return literal_host(text).map(|name| vec![RuleHost::Exact(name)]);
                    };
                    text.split_at(end)
                }
            }
        }
    };
    let every = matches!(pattern, ".+" | ".*" | "(.+)" | "(.*)");
    if rest.is_empty() {
        return every.then(|| vec![RuleHost::Any]);
    }
    let name = literal_host(
        rest.strip_prefix("\\.")
            .or_else(|| rest.strip_prefix('.'))?,
    );
    let name = match (name, unknown) {
        (Some(name), false) => name,
        (_, true) => {
            let name = stand_in(rest.trim_start_matches('\\').trim_start_matches('.'));
            if !is_host(&name) {
                return None;
            }
            rule.note(format!(
                "{} is not known here: write the real host in place of {name}",
                shown(text)
            ));
            name
        }
        (None, false) => return None,
    };
    let one_label = pattern.starts_with('[') && pattern.ends_with("]+") && !pattern.contains('(');
    match (every, one_label) {
        (true, _) => {}
        (false, true) => rule.note(format!(
            "*.{name} stands for every name below it, also for those that {pattern} does not match"
        )),
        _ => return None,
    }
    Some(vec![RuleHost::Below(name)])
}

/// A host in a regular expression that has no other patterns.
fn literal_host(text: &str) -> Option<String> {
    let name = text.replace("\\.", ".").to_ascii_lowercase();
    is_host(&name).then_some(name)
}

/// Whether a path may stand in a pattern of Lockgate, and means itself there.
pub(super) fn is_plain_path(path: &str) -> bool {
    let plain = |c: char| {
        c.is_ascii_graphic() && !matches!(c, '*' | '{' | '}' | '?' | '#' | '%' | '\\' | '$')
    };
    let dots = path.split('/').any(|part| part == "." || part == "..");
    path.starts_with('/') && path.chars().all(plain) && !path.contains("//") && !dots
}

fn path(text: &str, prefix: bool, rule: &mut TraefikRule) -> Option<RulePath> {
    if !is_plain_path(text) {
        return None;
    }
    if !prefix {
        return Some(RulePath::Exact(text.to_owned()));
    }
    let base = text.trim_end_matches('/');
    if base.is_empty() {
        return Some(RulePath::All);
    }
    rule.note(match text.ends_with('/') {
        true => format!("{base}/* is also {base} without the slash"),
        false => format!("{base}/* is {base} and what is below it, not paths such as {base}x"),
    });
    Some(RulePath::Prefix(base.to_owned()))
}

#[cfg(test)]
mod tests;
