//! From a request's method and decoded path to a route, within one site.
//!
//! A tree of segments in which every fork tries the literal one before the parameter. Since no two
//! patterns cross for one method, the first end that is reached belongs to the most specific
//! pattern; prefixes on the way are remembered, the longest for when no end is reached. A look-up
//! visits no node twice and allocates nothing, unless it fails by method.

use std::collections::HashMap;
use std::ops::ControlFlow;

use foldhash::fast::RandomState;
use lockgate_rules::pattern::{Overlap, Pattern, Segment};

use super::clash::{Clash, Unreachable};
use super::index::{ListenerSiteIndex, RouteIndex};

/// A route as the shell gives it.
#[derive(Debug, Clone)]
pub struct RouteEntry {
    /// The only method that it is for, or any. `GET` includes HEAD (RFC 9110 §9.3.2).
    pub method: Option<Vec<u8>>,
    /// Which paths it is for.
    pub pattern: Pattern,
    /// The route.
    pub value: RouteIndex,
}

/// Why a request has no route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoRoute {
    /// 404: no pattern matches the path.
    Path,
    /// 405: there are routes, but for other methods.
    Method {
        /// For Allow (RFC 9110 §10.2.1).
        allow: String,
    },
}

/// The routes of one site.
#[derive(Debug)]
pub(super) struct PathTree {
    nodes: Vec<PathNode>,
    rules: Vec<RouteEntry>,
}

#[derive(Debug, Default)]
struct PathNode {
    literals: Literals,
    param: Option<u32>,
    /// The rules of patterns that end here.
    here: MethodTable,
    /// The rules of patterns that end here in `/*`.
    below: MethodTable,
}

/// The rule of each method at one node.
#[derive(Debug, Default)]
struct MethodTable {
    any: Option<u32>,
    named: Vec<(Box<[u8]>, u32)>,
}

/// The position of matching rules on the walk through the tree.
enum TreeMatch {
    /// The path ends here.
    End,
    /// A prefix of the path, so many segments deep.
    Prefix(usize),
}

impl PathTree {
    /// Makes the tree; the first of two rules that clash stays in it, so that all clashes are
    /// found.
    pub(super) fn build(
        site: ListenerSiteIndex,
        rules: Vec<RouteEntry>,
        clashes: &mut Vec<Clash>,
    ) -> Self {
        let mut paths = Self {
            nodes: vec![PathNode::default()],
            rules: Vec::with_capacity(rules.len()),
        };
        crossings(site, &rules, clashes);
        for rule in rules {
            if let Some(earlier) = paths.insert(&rule) {
                let earlier = &paths.rules[earlier as usize];
                clashes.push(clash(site, earlier, &rule, rule.method.as_deref()));
            } else {
                paths.rules.push(rule);
            }
        }
        paths
    }

    /// Adds the path of the next rule, or tells which rule has it.
    fn insert(&mut self, rule: &RouteEntry) -> Option<u32> {
        let mut node = 0;
        for segment in rule.pattern.segments() {
            let next = self.nodes.len() as u32;
            let child = match segment {
                Segment::Literal(text) => {
                    let literals = &mut self.nodes[node].literals;
                    literals.get_or_insert(text.as_bytes(), next)
                }
                Segment::Param(_) => *self.nodes[node].param.get_or_insert(next),
            };
            if child == next {
                self.nodes.push(PathNode::default());
            }
            node = child as usize;
        }
        let node = &mut self.nodes[node];
        let methods = if rule.pattern.is_prefix() {
            &mut node.below
        } else {
            &mut node.here
        };
        methods.insert(rule.method.as_deref(), self.rules.len() as u32)
    }

    /// Its routes.
    pub(super) fn entries(&self) -> &[RouteEntry] {
        &self.rules
    }

    /// Routes that no request can reach.
    pub(super) fn unreachable(&self, site: ListenerSiteIndex) -> impl Iterator<Item = Unreachable> {
        // RFC 9110 §9.3.6: the target of CONNECT is a host and port.
        let connects = |rule: &&RouteEntry| rule.method.as_deref() == Some(b"CONNECT");
        let rules = self.rules.iter().filter(connects);
        rules.map(move |rule| Unreachable::Connect {
            site,
            route: rule.value,
        })
    }

    /// The route of a method and a decoded path.
    pub(super) fn find(&self, method: &[u8], path: &[u8]) -> Result<&RouteEntry, NoRoute> {
        // `*`, the target of OPTIONS for the server as a whole, is no path.
        let Some(rest) = path.strip_prefix(b"/") else {
            return Err(NoRoute::Path);
        };
        let mut prefix = None;
        let end = self.walk(0, 0, Some(rest), &mut |methods, place| {
            let deeper = |depth| prefix.is_none_or(|(longest, _)| depth > longest);
            match place {
                TreeMatch::End => {
                    if let Some(rule) = methods.of(method) {
                        return ControlFlow::Break(rule);
                    }
                }
                TreeMatch::Prefix(depth) => {
                    if deeper(depth)
                        && let Some(rule) = methods.of(method)
                    {
                        prefix = Some((depth, rule));
                    }
                }
            }
            ControlFlow::Continue(())
        });
        let rule = end.break_value().or(prefix.map(|(_, rule)| rule));
        rule.and_then(|rule| self.rules.get(rule as usize))
            .ok_or_else(|| self.refuse(rest))
    }

    /// Why there is none.
    #[cold]
    fn refuse(&self, rest: &[u8]) -> NoRoute {
        let mut allowed: Vec<&[u8]> = Vec::new();
        let _ = self.walk(0, 0, Some(rest), &mut |methods, _| {
            allowed.extend(methods.named.iter().map(|(method, _)| &**method));
            ControlFlow::Continue(())
        });
        if allowed.contains(&&b"GET"[..]) {
            allowed.push(b"HEAD");
        }
        allowed.sort_unstable();
        allowed.dedup();
        if allowed.is_empty() {
            return NoRoute::Path;
        }
        let allowed: Vec<_> = allowed.into_iter().map(String::from_utf8_lossy).collect();
        NoRoute::Method {
            allow: allowed.join(", "),
        }
    }

    /// Shows `visit` the rules of every pattern that matches: ends of the most specific first,
    /// prefixes as they lie on the way. `rest` is what follows the slash behind the segments so
    /// far, if one does. No deeper than the tree.
    fn walk<'a>(
        &'a self,
        node: u32,
        depth: usize,
        rest: Option<&[u8]>,
        visit: &mut impl FnMut(&'a MethodTable, TreeMatch) -> ControlFlow<u32>,
    ) -> ControlFlow<u32> {
        let node = &self.nodes[node as usize];
        if !node.below.is_empty() {
            visit(&node.below, TreeMatch::Prefix(depth))?;
        }
        let Some(rest) = rest else {
            return if node.here.is_empty() {
                ControlFlow::Continue(())
            } else {
                visit(&node.here, TreeMatch::End)
            };
        };
        if node.is_leaf() {
            return ControlFlow::Continue(());
        }
        let (segment, rest) = match memchr::memchr(b'/', rest) {
            Some(slash) => (&rest[..slash], Some(&rest[slash + 1..])),
            None => (rest, None),
        };
        if let Some(child) = node.literals.get(segment) {
            self.walk(child, depth + 1, rest, visit)?;
        }
        match node.param {
            Some(child) if !segment.is_empty() => self.walk(child, depth + 1, rest, visit),
            _ => ControlFlow::Continue(()),
        }
    }
}

impl PathNode {
    fn is_leaf(&self) -> bool {
        self.param.is_none() && self.literals.is_empty()
    }
}

impl MethodTable {
    fn is_empty(&self) -> bool {
        self.any.is_none() && self.named.is_empty()
    }

    /// Gives a method to the next rule, or tells which rule has it.
    fn insert(&mut self, method: Option<&[u8]>, rule: u32) -> Option<u32> {
        match method {
            None if self.any.is_some() => self.any,
            None => {
                self.any = Some(rule);
                None
            }
            Some(method) => {
                let earlier = self.named(method);
                if earlier.is_none() {
                    self.named.push((method.into(), rule));
                }
                earlier
            }
        }
    }

    fn named(&self, method: &[u8]) -> Option<u32> {
        self.named
            .iter()
            .find(|(named, _)| **named == *method)
            .map(|&(_, rule)| rule)
    }

    #[inline]
    fn of(&self, method: &[u8]) -> Option<u32> {
        if self.named.is_empty() {
            return self.any;
        }
        let get = || (method == b"HEAD").then(|| self.named(b"GET")).flatten();
        self.named(method).or_else(get).or(self.any)
    }
}

/// Children by their text: compared one by one while there are few, which then is quicker than to
/// hash.
#[derive(Debug)]
enum Literals {
    Few(Vec<(Box<[u8]>, u32)>),
    Many(HashMap<Box<[u8]>, u32, RandomState>),
}

const FEW: usize = 8;

impl Default for Literals {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl Literals {
    fn is_empty(&self) -> bool {
        matches!(self, Self::Few(few) if few.is_empty())
    }

    #[inline]
    fn get(&self, text: &[u8]) -> Option<u32> {
        match self {
            Self::Few(few) => few
                .iter()
                .find(|(known, _)| **known == *text)
                .map(|&(_, child)| child),
            Self::Many(many) => many.get(text).copied(),
        }
    }

    fn get_or_insert(&mut self, text: &[u8], next: u32) -> u32 {
        if let Some(child) = self.get(text) {
            return child;
        }
        if let Self::Few(few) = self
            && few.len() == FEW
        {
            *self = Self::Many(few.drain(..).collect());
        }
        match self {
            Self::Few(few) => few.push((text.into(), next)),
            Self::Many(many) => {
                many.insert(text.into(), next);
            }
        }
        next
    }
}

/// Finds patterns that cross. Only those with parameters can.
fn crossings(site: ListenerSiteIndex, rules: &[RouteEntry], clashes: &mut Vec<Clash>) {
    let with_params: Vec<_> = rules
        .iter()
        .filter(|rule| rule.pattern.params().next().is_some())
        .collect();
    for (at, later) in with_params.iter().enumerate() {
        for earlier in &with_params[..at] {
            if earlier.pattern.overlap(&later.pattern) == Overlap::Crossing
                && let Some(method) = shared_method(earlier, later)
            {
                clashes.push(clash(site, earlier, later, method));
            }
        }
    }
}

/// A method that both are for: `Some(None)` when that is any.
fn shared_method<'a>(one: &'a RouteEntry, other: &'a RouteEntry) -> Option<Option<&'a [u8]>> {
    match (one.method.as_deref(), other.method.as_deref()) {
        (None, method) | (method, None) => Some(method),
        (Some(one), Some(other)) if one == other => Some(Some(one)),
        (Some(b"GET"), Some(b"HEAD")) | (Some(b"HEAD"), Some(b"GET")) => Some(Some(b"HEAD")),
        _ => None,
    }
}

fn clash(
    site: ListenerSiteIndex,
    earlier: &RouteEntry,
    later: &RouteEntry,
    method: Option<&[u8]>,
) -> Clash {
    Clash::Route {
        site,
        routes: (earlier.value, later.value),
        method: String::from_utf8_lossy(method.unwrap_or(b"GET")).into_owned(),
        path: earlier.pattern.example(&later.pattern),
    }
}

#[cfg(test)]
mod tests;
