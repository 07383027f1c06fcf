//! Routes: the verb of a table, or that of its site, and every modifier merged.

use std::path::PathBuf;

use crate::check::{Checked, Id, Keyed, Named, Table, Value};
use crate::codes::Code;
use crate::keys;
use crate::model::{
    Action, Answer, HeaderChange, HeaderRule, LimitKey, Pattern, RateLimit, Rates, Route, Rules,
};
use crate::place::At;

use super::answers::{caching, compression};
use super::{Resolver, View};

const VERBS: [&str; 4] = ["proxy", "root", "redirect", "respond"];

/// What only a request that is sent on has.
const ONLY_PROXIED: [&str; 5] = [
    "rewrite",
    "request_headers",
    "body",
    "timeouts",
    "rewrite_location",
];

/// What only files have.
const ONLY_FILES: [&str; 11] = [
    "index",
    "clean_urls",
    "try",
    "spa",
    "not_found",
    "listing",
    "hidden",
    "symlinks",
    "types",
    "charset",
    "precompressed",
];

impl Resolver<'_> {
    /// One route for each path, then that of the site itself.
    pub(super) fn routes(&mut self, one: &Keyed, site: &View<'_>, secure: bool) -> Vec<Route> {
        let any = Pattern::Any;
        let own = self.verb(site);
        let action = match own {
            Verb::Is(name) => self.action(site, site, name, &any, &one.at),
            _ => None,
        };
        let keys = keys::find(site.keys, "path")
            .and_then(|key| key.kind.table())
            .unwrap_or(&[]);
        let paths: &[Keyed] = match one.table.entries.get("path") {
            Some(Checked {
                value: Value::Tables(paths),
                ..
            }) => paths,
            _ => &[],
        };
        if matches!(own, Verb::None) && paths.is_empty() && !one.table.entries.contains_key("path")
        {
            let cure = "add proxy = \"127.0.0.1:3000\", root = \"/srv/www\", redirect = \"https://example.org{path}\" or respond = 404";
            self.no_verb(&one.at, "site", cure);
        }
        let root = |path: &Keyed| path.name == "/";
        if let ([path], Verb::None) = (paths, &own)
            && root(path)
        {
            let message = "only `/` itself is answered";
            let why = "a path without `*` matches only itself";
            let cure =
                "write what it has into the [site] table, which answers every path; or \"/*\"";
            self.report
                .push_at(Code::OnlyRoot, &path.at, message, why, cure);
        }
        let mut routes = Vec::new();
        for path in paths {
            let Id::Path(key) = &path.id else { continue };
            let alone = View {
                keys,
                layers: vec![&path.table],
            };
            let view = View {
                keys,
                layers: vec![&path.table, &one.table],
            };
            let action = match self.verb(&alone) {
                Verb::Is(name) => self.action(&alone, &view, name, &key.pattern, &path.at),
                Verb::Broken => None,
                Verb::None => match own {
                    Verb::Is("root") => self.files(site, &view, &key.pattern, &path.at),
                    Verb::Is(name) => {
                        self.inherited(site, name, action.as_ref(), &key.pattern, &path.at)
                    }
                    Verb::Broken => None,
                    Verb::None => {
                        let cure = "add proxy, root, redirect or respond here or in its site";
                        self.no_verb(&path.at, "path", cure);
                        None
                    }
                },
            };
            if let Some(action) = &action {
                self.unused_modifiers(&alone, &[action], view.asks_somebody());
            }
            let (files, route) = (served(action.as_ref()), &path.at);
            let rules = self.rules(&view, &key.pattern, route, files, secure);
            let Some(action) = action else { continue };
            routes.push(Route {
                name: path.name.clone(),
                at: path.at.clone(),
                method: key.method.clone(),
                pattern: key.pattern.clone(),
                action,
                rules,
            });
        }
        // What was a mistake may have used them.
        let whole = routes.len() == paths.len() && (action.is_some() || matches!(own, Verb::None));
        if whole {
            // The site's own first: what it does is what is said.
            let actions: Vec<&Action> = action
                .iter()
                .chain(routes.iter().map(|route| &route.action))
                .collect();
            self.unused_modifiers(site, &actions, site.asks_somebody());
        }
        if let Some(action) = action {
            let rules = self.rules(site, &any, &one.at, served(Some(&action)), secure);
            let (name, at) = (String::new(), one.at.clone());
            routes.push(Route {
                name,
                at,
                method: None,
                pattern: any,
                action,
                rules,
            });
        }
        routes
    }

    fn no_verb(&mut self, at: &At, what: &str, cure: &str) {
        let message = format!("this {what} answers nothing");
        let why = "it has none of `proxy`, `root`, `redirect` and `respond`";
        self.report.push_at(Code::NoVerb, at, message, why, cure);
    }

    fn verb(&mut self, view: &View<'_>) -> Verb {
        let written = |name: &&'static str| view.mentions(name);
        let mut verbs = VERBS.iter().copied().filter(|name| written(name));
        let Some(first) = verbs.next() else {
            let strange = view.layers.iter().any(|layer| layer.strange.any);
            return if strange { Verb::Broken } else { Verb::None };
        };
        if let Some(second) = verbs.next() {
            let place = |name: &str| {
                view.layers
                    .iter()
                    .find_map(|layer| layer.key_places.get(name).cloned())
            };
            if let (Some(a), Some(b)) = (place(first), place(second)) {
                let (first, second, a, b) = if a.rank() > b.rank() {
                    (second, first, b, a)
                } else {
                    (first, second, a, b)
                };
                let message = format!("`{second}` beside `{first}`");
                let why = "a table does one thing";
                let cure = "keep one of them, or write a path table for the other";
                self.report.push_pair(
                    Code::TwoVerbs,
                    &b,
                    (message, why, cure),
                    (&a, "it does this already"),
                );
            }
            return Verb::Broken;
        }
        if view.written(first).is_some() {
            Verb::Is(first)
        } else {
            Verb::Broken
        }
    }

    /// What a verb of `view` does; `merged` has the modifiers that belong to it.
    fn action(
        &mut self,
        view: &View<'_>,
        merged: &View<'_>,
        verb: &str,
        pattern: &Pattern,
        route: &At,
    ) -> Option<Action> {
        let written = view.written(verb)?;
        match verb {
            "root" => self.files(view, merged, pattern, route),
            "proxy" => {
                let pool = self.proxy(view)?;
                self.requested(pool);
                Some(Action::Proxy(pool))
            }
            "redirect" => {
                let long = view.section("redirect");
                let (to, at) = match &written.value {
                    Value::Text(to) => (to.clone(), written.at.clone()),
                    _ => (long.text("to")?, long.written("to")?.at),
                };
                let whole = self.begins(&to, &at) && self.target(&to, &at, pattern, route);
                whole.then(|| Action::Redirect {
                    to,
                    status: long.number("status"),
                })
            }
            _ => {
                let long = view.section("respond");
                let answer = match &written.value {
                    Value::Integer(status) => Answer {
                        status: u16::try_from(*status).ok()?,
                        ..self.answer(&long, &written.at)?
                    },
                    Value::Text(body) => Answer {
                        body: body.clone(),
                        ..self.answer(&long, &written.at)?
                    },
                    _ => self.answer(&long, &written.at)?,
                };
                let at = long.written("body").map_or(written.at, |body| body.at);
                self.text(&answer.body, &at, pattern);
                Some(Action::Respond(answer))
            }
        }
    }

    /// Whether a target is a path or a URL with a host; else browsers would make something else of
    /// it.
    fn begins(&mut self, to: &str, at: &At) -> bool {
        let host = to
            .strip_prefix("https://")
            .or_else(|| to.strip_prefix("http://"));
        let (why, cure) = match host {
            Some(host) if host.starts_with(['/', '?']) || host.is_empty() => {
                ("its host is missing", "https://{host}")
            }
            Some(host) if host.starts_with("{path}") => {
                ("its host is missing", "https://{host}{path}")
            }
            Some(_) => return true,
            None if to.starts_with("//") => ("it names a host without its scheme", ""),
            None if to.starts_with('/') || to.starts_with('{') => return true,
            None => ("it begins neither with `/` nor with `https://`", ""),
        };
        let cure = match cure {
            "" if at.text().contains(to) => {
                format!("write \"https://{}\"", to.trim_start_matches('/'))
            }
            "" => "write \"https://example.org{path}\"".to_owned(),
            cure => format!("write \"{cure}\""),
        };
        if !self.warned(Code::BadPath, at) {
            self.report
                .push_at(Code::BadPath, at, "this is not a place to go", why, cure);
        }
        false
    }

    /// The site's verb, for a path that has none.
    fn inherited(
        &mut self,
        site: &View<'_>,
        verb: &str,
        action: Option<&Action>,
        pattern: &Pattern,
        route: &At,
    ) -> Option<Action> {
        if let Some(Action::Redirect { to, .. }) = action {
            let at = site.written(verb)?.at;
            let to = to.clone();
            return self
                .target(&to, &at, pattern, route)
                .then(|| action.cloned())
                .flatten();
        }
        action.cloned()
    }

    /// What belongs to a verb that none of `actions` is. Where a service is asked who may come,
    /// deadlines are also for that.
    fn unused_modifiers(&mut self, view: &View<'_>, actions: &[&Action], asks: bool) {
        let Some(first) = actions.first() else { return };
        let what = match first {
            Action::Proxy(_) => "requests are sent on, and no files are served",
            Action::Files(_) => "files are served, and no request is sent on",
            Action::Redirect { .. } => "a redirect is answered here",
            Action::Respond(_) => "`respond` is answered here",
        };
        let proxied = actions
            .iter()
            .any(|action| matches!(action, Action::Proxy(_)));
        let served = actions
            .iter()
            .any(|action| matches!(action, Action::Files(_)));
        let unused = |used: bool, names: &'static [&'static str], cure| {
            let names = if used { &[] } else { names };
            names.iter().map(move |name| (*name, cure))
        };
        let names = unused(
            proxied || served,
            &["shape", "strip_prefix", "compress", "rewrite_body", "cache"],
            "remove it, or write proxy or root",
        )
        .chain(unused(proxied, &ONLY_PROXIED, "remove it, or write proxy"))
        .filter(|(name, _)| !(asks && *name == "timeouts"))
        .chain(unused(served, &ONLY_FILES, "remove it, or write root"));
        for (name, cure) in names {
            let Some(at) = view
                .layers
                .iter()
                .find_map(|layer| layer.key_places.get(name))
            else {
                continue;
            };
            if self.warned(Code::NoEffect, at) {
                continue;
            }
            let message = format!("`{name}` has no effect");
            self.report.push_at(Code::NoEffect, at, message, what, cure);
        }
    }

    /// Every modifier of a route; the path's table comes before its site's.
    fn rules(
        &mut self,
        view: &View<'_>,
        pattern: &Pattern,
        route: &At,
        files: bool,
        over_tls: bool,
    ) -> Rules {
        let (strip_prefix, rewrite) = self.path_sent(view, pattern, route);
        let mut headers = self.fields(view, "headers", pattern);
        for rule in self.secure(view, over_tls) {
            if !headers
                .iter()
                .any(|told| told.name.eq_ignore_ascii_case(&rule.name))
            {
                headers.push(rule);
            }
        }
        let auth = self.auth(view);
        let body = view.section("body");
        let rates = match body.written("min_rate").map(|written| written.value) {
            Some(Value::Rate(rate)) => Rates {
                min_in: Some(rate),
                ..self.shared.rates
            },
            Some(_) => Rates {
                min_in: None,
                ..self.shared.rates
            },
            None => self.shared.rates,
        };
        Rules {
            strip_prefix,
            rewrite,
            headers,
            request_headers: self.fields(view, "request_headers", pattern),
            body_max: match body.value("max") {
                Value::Size(max) => Some(max),
                _ => None,
            },
            rates,
            limit: limit(view),
            shape: self.shape(view),
            cache: caching(view, files, auth.is_some()),
            auth,
            trace: match view.value("trace") {
                Value::Integer(share) => u8::try_from(share).ok(),
                Value::Bool(true) => Some(100),
                _ => None,
            },
            allow: view.networks("allow"),
            deny: view.networks("deny"),
            timeouts: self.timeouts(view),
            rewrite_location: view.on("rewrite_location"),
            error_pages: error_pages(view),
            raw_paths: view.word("paths") == "as-is",
            redirects: self.redirects(view),
            compress: compression(view, files),
            cors: self.cors(view),
            rewrite_body: self.body_rewrite(view, pattern),
        }
    }

    /// What becomes of the path: the nearer of the two keys holds.
    fn path_sent(
        &mut self,
        view: &View<'_>,
        pattern: &Pattern,
        route: &At,
    ) -> (bool, Option<String>) {
        let (mut no_strip, mut no_rewrite) = (false, false);
        for (depth, layer) in view.layers.iter().enumerate() {
            let strip = on(layer, "strip_prefix").filter(|_| !no_strip);
            let rewrite = on(layer, "rewrite").filter(|_| !no_rewrite);
            (no_strip, no_rewrite) = (no_strip || strip.is_some(), no_rewrite || rewrite.is_some());
            if let (Some((true, _)), Some((true, at))) = (&strip, &rewrite) {
                if !self.warned(Code::Excluded, at) {
                    let message = "`rewrite` beside `strip_prefix`";
                    let why = "both say which path is sent on";
                    let cure = "keep one of them: rewrite = \"/{*}\" drops the prefix too";
                    self.report.push_at(Code::Excluded, at, message, why, cure);
                }
                return (false, None);
            }
            match (strip, rewrite) {
                (Some((true, at)), _) => {
                    // Written in the site, it is for those paths that have a prefix.
                    if depth == 0 && *pattern != Pattern::Any {
                        self.nothing_to_strip(&at, pattern);
                    }
                    return (true, None);
                }
                (_, Some((true, at))) => {
                    let written = View {
                        keys: view.keys,
                        layers: vec![*layer],
                    }
                    .text("rewrite");
                    let whole = written
                        .as_ref()
                        .is_some_and(|to| self.rewrite(to, &at, pattern, route));
                    return (false, written.filter(|_| whole));
                }
                _ => {}
            }
        }
        (false, None)
    }

    fn rewrite(&mut self, to: &str, at: &At, pattern: &Pattern, route: &At) -> bool {
        if !to.starts_with('/') && !to.starts_with("{path}") {
            if !self.warned(Code::BadPath, at) {
                let message = "the rewritten path does not begin with `/`";
                let cure = "write a path such as \"/v1/{*}\"; the host stays that of the request";
                self.report.push_at(Code::BadPath, at, message, "", cure);
            }
            return false;
        }
        self.target(to, at, pattern, route)
    }

    /// A prefix is what stands before `/*`.
    fn nothing_to_strip(&mut self, at: &At, pattern: &Pattern) {
        let prefix =
            matches!(pattern, Pattern::Path { segments, tail: true } if !segments.is_empty());
        if !prefix && !self.warned(Code::NoEffect, at) {
            let why = "there is no prefix: the path does not end in `/*`";
            self.report.push_at(
                Code::NoEffect,
                at,
                "`strip_prefix` has no effect",
                why,
                "remove it",
            );
        }
    }

    /// Fields of every layer, by name, the nearer first.
    fn fields(&mut self, view: &View<'_>, key: &str, pattern: &Pattern) -> Vec<HeaderRule> {
        let mut rules: Vec<HeaderRule> = Vec::new();
        for one in maps(view, key) {
            // `secure` is no field.
            let known = key == "headers" && one.name == "secure";
            if known
                || rules
                    .iter()
                    .any(|rule| rule.name.eq_ignore_ascii_case(&one.name))
            {
                continue;
            }
            let change = match &one.value.value {
                Value::Bool(false) => HeaderChange::Remove,
                Value::Text(text) => HeaderChange::Set(vec![text.clone()]),
                list @ Value::List(_) => HeaderChange::Set(texts(list)),
                Value::Table(table) => match table.entries.get("add") {
                    Some(add) => HeaderChange::Add(texts(&add.value)),
                    None => continue,
                },
                _ => continue,
            };
            if let HeaderChange::Set(values) | HeaderChange::Add(values) = &change {
                for value in values {
                    self.text(value, &one.value.at, pattern);
                }
            }
            rules.push(HeaderRule {
                name: one.name.clone(),
                change,
            });
        }
        rules
    }
}

fn served(action: Option<&Action>) -> bool {
    matches!(action, Some(Action::Files(_)))
}

/// What a table says about its verb.
#[derive(Clone, Copy)]
enum Verb {
    None,
    Is(&'static str),
    /// It has been reported.
    Broken,
}

/// Whether a layer switches a modifier on or off, and where.
pub(super) fn on(layer: &Table, name: &str) -> Option<(bool, At)> {
    let written = layer.entries.get(name)?;
    let on = !matches!(written.value, Value::Bool(false) | Value::Invalid);
    Some((on, written.at.clone()))
}

pub(super) fn maps<'a>(view: &View<'a>, key: &str) -> Vec<&'a Named> {
    let maps = view
        .layers
        .iter()
        .filter_map(|layer| match layer.entries.get(key) {
            Some(Checked {
                value: Value::Map(map),
                ..
            }) => Some(map),
            _ => None,
        });
    maps.flatten().collect()
}

fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::Text(text) => vec![text.clone()],
        Value::List(items) => items.iter().flat_map(|item| texts(&item.value)).collect(),
        _ => Vec::new(),
    }
}

/// Those of every layer, by status, the nearer first.
pub(super) fn error_pages(view: &View<'_>) -> Vec<(u16, PathBuf, At)> {
    let mut told = Vec::new();
    let mut pages = Vec::new();
    for one in maps(view, "error_pages") {
        let Ok(status) = one.name.parse::<u16>() else {
            continue;
        };
        if told.contains(&status) {
            continue;
        }
        told.push(status);
        if let Value::Path(path) = &one.value.value {
            pages.push((status, path.clone(), one.value.at.clone()));
        }
    }
    pages
}

pub(super) fn limit(view: &View<'_>) -> Option<RateLimit> {
    let written = view.written("limit")?;
    let mut long = view.section("limit");
    long.layers.truncate(1);
    let (count, every, per, burst) = match written.value {
        Value::Limit(limit) => {
            let (count, every) = limit.frequency;
            (
                count,
                every,
                limit.per.unwrap_or(LimitKey::Client),
                limit.burst,
            )
        }
        Value::Table(_) => {
            let Value::Frequency(count, every) = long.value("rate") else {
                return None;
            };
            let per = match long.value("per") {
                Value::LimitKey(key) => key,
                _ => LimitKey::Client,
            };
            (
                count,
                every,
                per,
                long.count("burst")
                    .and_then(|burst| u32::try_from(burst).ok()),
            )
        }
        _ => return None,
    };
    // The short form has no status: its default is that of the long one.
    let keys = keys::find(view.keys, "limit")
        .and_then(|key| key.kind.table())
        .unwrap_or(&[]);
    let layers = if matches!(view.written("limit")?.value, Value::Table(_)) {
        long.layers
    } else {
        Vec::new()
    };
    let status = View { keys, layers }.number("status");
    Some(RateLimit {
        count,
        every,
        per,
        burst: burst.unwrap_or(count),
        status,
        at: written.at,
    })
}
