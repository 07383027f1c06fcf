//! Routes: the verb of a table, or that of its site, and every modifier merged.

use std::path::PathBuf;

use lockgate_rules::{
    Cidr, FixedResponse, HeaderOp, HeaderRule, HeaderRules, MinRates, PathKey, Pattern, Purpose,
    RateLimit, TargetRewrite, Template,
};

use crate::codes::Code;
use crate::host::SiteKey;
use crate::keys::route::{self, FieldChange, RawPaths, ShortResponse, limit, redirect, respond};
use crate::keys::{Defaulted, answers, content, files as file_keys, shape, site};
use crate::language::KeyRow;
use crate::model::{Answer, AuthMethod, RouteAction, RouteModifiers, SharedSetting, SiteRoute};
use crate::source::SourceSpan;
use crate::values::{Items, Keyed, MapOf, ShortOrLong, Switch};

use super::answers::{caching, compression};
use super::{Resolver, View};

/// The keys of a table that say what answers its requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    Proxy,
    Root,
    Redirect,
    Respond,
}

/// The verbs and their keys.
const VERBS: [(Verb, KeyRow); 4] = [
    (Verb::Proxy, route::PROXY.row()),
    (Verb::Root, file_keys::ROOT.row()),
    (Verb::Redirect, route::REDIRECT.row()),
    (Verb::Respond, route::RESPOND.row()),
];

/// Keys that only a route with `proxy` has.
const ONLY_PROXIED: [KeyRow; 5] = [
    route::REWRITE.row(),
    route::REQUEST_HEADERS.row(),
    route::BODY.row(),
    route::TIMEOUTS.row(),
    route::REWRITE_LOCATION.row(),
];

/// Keys that neither a redirect nor a fixed answer has.
const NOT_HERE: [KeyRow; 5] = [
    shape::SHAPE.row(),
    route::STRIP_PREFIX.row(),
    answers::COMPRESS.row(),
    content::REWRITE_BODY.row(),
    answers::CACHE.row(),
];

/// Keys that only a route with `root` has.
const ONLY_FILES: [KeyRow; 11] = [
    file_keys::INDEX.row(),
    file_keys::CLEAN_URLS.row(),
    file_keys::TRY.row(),
    file_keys::SPA.row(),
    file_keys::NOT_FOUND.row(),
    file_keys::LISTING.row(),
    file_keys::HIDDEN.row(),
    file_keys::SYMLINKS.row(),
    file_keys::TYPES.row(),
    file_keys::CHARSET.row(),
    file_keys::PRECOMPRESSED.row(),
];

impl Resolver<'_> {
    /// One route for each path, then that of the site itself.
    pub(super) fn routes(
        &mut self,
        one: &Keyed<SiteKey>,
        site: &View<'_>,
        secure: bool,
    ) -> Vec<SiteRoute> {
        let any = Pattern::everything();
        let own = self.verb(site);
        let action = match own {
            VerbChoice::Is(verb) => self.action(site, site, verb, &any, &one.at),
            _ => None,
        };
        let paths = one.table.value(&site::PATH).map_or(&[][..], Vec::as_slice);
        if matches!(own, VerbChoice::Nothing) && paths.is_empty() && !site.has(&site::PATH) {
            let cure = "add proxy = \"127.0.0.1:3000\", root = \"/srv/www\", redirect = \"https://example.org{path}\" or respond = 404";
            self.no_verb(&one.at, "site", cure);
        }
        let root = |path: &Keyed<PathKey>| path.name == "/";
        if let ([path], VerbChoice::Nothing) = (paths, &own)
            && root(path)
        {
            let message = "only `/` itself has an action";
            let why = "a path without `*` matches only itself";
            let cure =
                "move its keys to the [site] table, which is for every path; or write \"/*\"";
            self.report
                .push_at(Code::OnlyRoot, &path.at, message, why, cure);
        }
        let mut routes = Vec::with_capacity(paths.len() + 1);
        for path in paths {
            let key = &path.key;
            let alone = View::of(&path.table);
            let view = alone.clone().over(site.clone());
            let action = match self.verb(&alone) {
                VerbChoice::Is(verb) => self.action(&alone, &view, verb, &key.pattern, &path.at),
                VerbChoice::Broken => None,
                VerbChoice::Nothing => match own {
                    VerbChoice::Is(Verb::Root) => self.files(site, &view, &key.pattern, &path.at),
                    VerbChoice::Is(_) => {
                        self.inherited(site, action.as_ref(), &key.pattern, &path.at)
                    }
                    VerbChoice::Broken => None,
                    VerbChoice::Nothing => {
                        let cure = "add proxy, root, redirect or respond here or in its site";
                        self.no_verb(&path.at, "path", cure);
                        None
                    }
                },
            };
            if let Some(action) = &action {
                self.unused_modifiers(&alone, &[action], view.has_forward_auth());
            }
            let (files, route) = (served(action.as_ref()), &path.at);
            let rules = self.rules(&view, &key.pattern, route, files, secure);
            let Some(action) = action else { continue };
            routes.push(SiteRoute {
                name: path.name.clone(),
                at: path.at.clone(),
                method: key.method.clone(),
                pattern: key.pattern.clone(),
                action,
                rules,
            });
        }
        // What was a mistake may have used them.
        let whole =
            routes.len() == paths.len() && (action.is_some() || matches!(own, VerbChoice::Nothing));
        if whole {
            // The site's own first: what it does is what is said.
            let actions: Vec<&RouteAction> = action
                .iter()
                .chain(routes.iter().map(|route| &route.action))
                .collect();
            self.unused_modifiers(site, &actions, site.has_forward_auth());
        }
        if let Some(action) = action {
            let rules = self.rules(site, &any, &one.at, served(Some(&action)), secure);
            let (name, at) = (String::new(), one.at.clone());
            routes.push(SiteRoute {
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

    fn no_verb(&mut self, at: &SourceSpan, what: &str, cure: &str) {
        let message = format!("this {what} has no action");
        let why = "it has none of `proxy`, `root`, `redirect` and `respond`";
        self.report.push_at(Code::NoVerb, at, message, why, cure);
    }

    fn verb(&mut self, view: &View<'_>) -> VerbChoice {
        let written = |(verb, key): &'static (_, KeyRow)| Some((*verb, key, view.place_of(*key)?));
        let mut verbs = VERBS.iter().filter_map(written);
        let Some((verb, key, at)) = verbs.next() else {
            return match view.has_unknown_keys() {
                true => VerbChoice::Broken,
                false => VerbChoice::Nothing,
            };
        };
        if let Some((_, other, other_at)) = verbs.next() {
            let (first, second, a, b) = match at.rank() > other_at.rank() {
                true => (other.name, key.name, other_at, at),
                false => (key.name, other.name, at, other_at),
            };
            let message = format!("`{second}` beside `{first}`");
            let why = "a table has one action";
            let cure = "keep one of them, or write a path table for the other";
            let texts = (message, why, cure);
            self.report
                .push_pair(Code::TwoVerbs, b, texts, (a, "the first action"));
            return VerbChoice::Broken;
        }
        match view.value_at(*key) {
            Some(_) => VerbChoice::Is(verb),
            None => VerbChoice::Broken,
        }
    }

    /// The action of `view`; `merged` has the settings that belong to it.
    fn action(
        &mut self,
        view: &View<'_>,
        merged: &View<'_>,
        verb: Verb,
        pattern: &Pattern,
        route: &SourceSpan,
    ) -> Option<RouteAction> {
        match verb {
            Verb::Root => self.files(view, merged, pattern, route),
            Verb::Proxy => {
                let written = view.written(&route::PROXY)?;
                let pool = self.proxy(written, &view.section(&route::PROXY))?;
                self.check_site_pool(pool);
                Some(RouteAction::Proxy(pool))
            }
            Verb::Redirect => self.redirect(view, pattern, route),
            Verb::Respond => self.respond(view, pattern),
        }
    }

    fn redirect(
        &mut self,
        view: &View<'_>,
        pattern: &Pattern,
        route: &SourceSpan,
    ) -> Option<RouteAction> {
        let written = view.written(&route::REDIRECT)?;
        let long = view.section(&route::REDIRECT);
        let (to, at) = match written.value {
            ShortOrLong::Short(to) => (to, written.at),
            ShortOrLong::Long(_) => {
                let to = long.written(&redirect::TO)?;
                (to.value, to.at)
            }
        };
        Some(RouteAction::Redirect {
            to: self.url_template(to, at, Purpose::Redirect, pattern, route)?,
            status: long.get(&redirect::STATUS),
        })
    }

    fn respond(&mut self, view: &View<'_>, pattern: &Pattern) -> Option<RouteAction> {
        let written = view.written(&route::RESPOND)?;
        let long = view.section(&route::RESPOND);
        let mut answer = Answer {
            status: long.get(&respond::STATUS),
            body: long.get(&respond::BODY),
            media_type: long.get(&respond::TYPE),
        };
        match written.value {
            ShortOrLong::Short(ShortResponse::Status(status)) => answer.status = *status,
            ShortOrLong::Short(ShortResponse::Body(body)) => answer.body.clone_from(body),
            ShortOrLong::Long(_) => {}
        }
        let at = long
            .written(&respond::BODY)
            .map_or(written.at, |body| body.at);
        let answer = self.answer(answer, at)?;
        Some(RouteAction::Respond(FixedResponse {
            status: answer.status,
            body: self.text(&answer.body, at, pattern),
            media_type: answer.media_type,
        }))
    }

    /// The site's verb, for a path that has none.
    fn inherited(
        &mut self,
        site: &View<'_>,
        action: Option<&RouteAction>,
        pattern: &Pattern,
        route: &SourceSpan,
    ) -> Option<RouteAction> {
        // Their placeholders have the parts of this path.
        let any = Pattern::everything();
        match action? {
            RouteAction::Redirect { to, status } => {
                let (to, at) = (to.written(&any), site.written(&route::REDIRECT)?.at);
                Some(RouteAction::Redirect {
                    to: self.url_template(&to, at, Purpose::Redirect, pattern, route)?,
                    status: *status,
                })
            }
            RouteAction::Respond(response) => Some(RouteAction::Respond(FixedResponse {
                body: Template::text(&response.body.written(&any), pattern),
                ..response.clone()
            })),
            other => Some(other.clone()),
        }
    }

    /// Reports modifiers of a verb that none of `actions` is. Where a service authenticates
    /// clients, deadlines are also for its requests.
    fn unused_modifiers(&mut self, view: &View<'_>, actions: &[&RouteAction], asks: bool) {
        let Some(first) = actions.first() else { return };
        let what = match first {
            RouteAction::Proxy(_) => "the action is `proxy`",
            RouteAction::Files(_) => "the action is `root`",
            RouteAction::Redirect { .. } => "the action is `redirect`",
            RouteAction::Respond(_) => "the action is `respond`",
        };
        let proxied = actions
            .iter()
            .any(|action| matches!(action, RouteAction::Proxy(_)));
        let served = actions
            .iter()
            .any(|action| matches!(action, RouteAction::Files(_)));
        let unused = |used: bool, keys: &'static [KeyRow], cure| {
            let keys = if used { &[] } else { keys };
            keys.iter().map(move |key| (key, cure))
        };
        let keys = unused(
            proxied || served,
            &NOT_HERE,
            "remove it, or write proxy or root",
        )
        .chain(unused(proxied, &ONLY_PROXIED, "remove it, or write proxy"))
        .filter(|(key, _)| !(asks && key.name == route::TIMEOUTS.row().name))
        .chain(unused(served, &ONLY_FILES, "remove it, or write root"));
        for (key, cure) in keys {
            if let Some(at) = view.place_of(*key) {
                self.no_effect(key.name, at, what, cure);
            }
        }
    }

    /// Every modifier of a route; the path's table comes before its site's.
    fn rules(
        &mut self,
        view: &View<'_>,
        pattern: &Pattern,
        route: &SourceSpan,
        files: bool,
        over_tls: bool,
    ) -> RouteModifiers {
        let target = self.path_sent(view, pattern, route);
        let mut headers = self.fields(view, &route::HEADERS, pattern);
        for rule in self.secure(view, over_tls) {
            if !headers.has(&rule.name) {
                headers.add(rule).expect("none of them is the connection's");
            }
        }
        let auth = self.auth(view);
        let mut request_headers = self.fields(view, &route::REQUEST_HEADERS, pattern);
        if let Some(AuthMethod::Forward(service)) = &auth {
            request_headers = request_headers.reserving(&service.copy);
        }
        let body = view.section(&route::BODY);
        let shared = self.shared.rates;
        RouteModifiers {
            target,
            headers,
            request_headers,
            body_max: body.get(&route::body::MAX),
            rates: MinRates {
                min_in: body.get(&route::body::MIN_RATE).unwrap_or(shared.min_in),
                ..shared
            },
            limit: limit_of(view).map(Box::new),
            shape: self.shape(view).map(Box::new),
            cache: caching(view, files, auth.is_some()),
            auth,
            trace: match view.get(&route::TRACE) {
                Switch::Value(share) => Some(share),
                Switch::Flag(on) => on.then_some(100),
            },
            allow: networks(view, &route::ALLOW),
            deny: networks(view, &route::DENY),
            timeouts: self.timeouts(view, &route::TIMEOUTS),
            rewrite_location: view.get(&route::REWRITE_LOCATION),
            error_pages: error_pages(view),
            raw_paths: view.get(&route::PATHS) == RawPaths::Sent,
            redirects: self.redirects(view),
            compress: compression(view, files),
            cors: self.cors(view),
            rewrite_body: self.body_rewrite(view, pattern),
        }
    }

    /// The change of the path: the nearer of the two keys applies.
    fn path_sent(
        &mut self,
        view: &View<'_>,
        pattern: &Pattern,
        route: &SourceSpan,
    ) -> TargetRewrite {
        let (mut no_strip, mut no_rewrite) = (false, false);
        for (depth, layer) in view.layers.iter().enumerate() {
            let strip = layer.written(&route::STRIP_PREFIX);
            let strip = strip.filter(|strip| *strip.value && !no_strip);
            let rewrite = layer.written(&route::REWRITE);
            let rewrite = rewrite.and_then(|to| Some((to.value.as_ref()?, to.at)));
            let rewrite = rewrite.filter(|_| !no_rewrite);
            no_strip |= layer.entry(&route::STRIP_PREFIX).is_some();
            no_rewrite |= layer.entry(&route::REWRITE).is_some();
            match (strip, rewrite) {
                (Some(_), Some((_, at))) => {
                    let message = "`rewrite` beside `strip_prefix`";
                    let why = "both change the path that is sent on";
                    let cure = "keep one of them: rewrite = \"/{*}\" drops the prefix too";
                    self.push_once(Code::Excluded, at, message, why, cure);
                    return TargetRewrite::None;
                }
                (Some(strip), None) => {
                    // Written in the site, it is for those paths that have a prefix.
                    let inherits = view.layers.len() > 1;
                    if depth == 0 && inherits && pattern.prefix_depth().unwrap_or(0) == 0 {
                        let why = "there is no prefix: the path does not end in `/*`";
                        self.no_effect("strip_prefix", strip.at, why, "remove it");
                    }
                    return TargetRewrite::StripPrefix;
                }
                (None, Some((to, at))) => {
                    let to = self.url_template(to, at, Purpose::Target, pattern, route);
                    return to.map_or(TargetRewrite::None, TargetRewrite::Template);
                }
                (None, None) => {}
            }
        }
        TargetRewrite::None
    }

    /// Fields of every layer, by name, the nearer first.
    fn fields(
        &mut self,
        view: &View<'_>,
        key: &Defaulted<MapOf<FieldChange>>,
        pattern: &Pattern,
    ) -> HeaderRules {
        let mut rules = HeaderRules::default();
        for one in view.entries(key) {
            if rules.has(one.name.as_bytes()) {
                continue;
            }
            let mut lines = |texts: Vec<String>| {
                let line = |text: &String| self.text(text, &one.at, pattern);
                texts.iter().map(line).collect()
            };
            let op = match &one.value {
                Some(ShortOrLong::Short(None)) => HeaderOp::Remove,
                Some(ShortOrLong::Short(Some(set))) => {
                    HeaderOp::Set(lines(set.values().cloned().collect()))
                }
                Some(ShortOrLong::Long(table)) => match table.entry(&route::add::ADD) {
                    Some(_) => HeaderOp::Add(lines(View::of(table).list(&route::add::ADD))),
                    None => continue,
                },
                None => continue,
            };
            let name = one.name.clone().into_bytes();
            if let Err(error) = rules.add(HeaderRule { name, op }) {
                self.push_once(Code::BadField, &one.at, error.to_string(), "", "");
            }
        }
        rules
    }
}

fn served(action: Option<&RouteAction>) -> bool {
    matches!(action, Some(RouteAction::Files(_)))
}

/// The action of a table.
#[derive(Clone, Copy)]
enum VerbChoice {
    Nothing,
    Is(Verb),
    /// A mistake, which has been reported.
    Broken,
}

fn networks(view: &View<'_>, key: &Defaulted<Option<Items<Cidr>>>) -> Vec<Cidr> {
    let items = view.get(key).unwrap_or_default();
    items.values().copied().collect()
}

/// The error pages of all layers, by status, the nearer first.
pub(super) fn error_pages(view: &View<'_>) -> Vec<(u16, PathBuf, SourceSpan)> {
    let mut told = Vec::new();
    let mut pages = Vec::new();
    for one in view.entries(&route::ERROR_PAGES) {
        let Ok(status) = one.name.parse::<u16>() else {
            continue;
        };
        if told.contains(&status) {
            continue;
        }
        told.push(status);
        if let Some(Some(path)) = &one.value {
            pages.push((status, path.clone(), one.at.clone()));
        }
    }
    pages
}

pub(super) fn limit_of(view: &View<'_>) -> Option<SharedSetting<RateLimit>> {
    let written = view.written(&route::LIMIT)?;
    // The short form has no status: its default is that of the long one.
    let (short, long) = match written.value {
        ShortOrLong::Short(short) => (Some(short.as_ref()?), View::default()),
        ShortOrLong::Long(table) => (None, View::of(table)),
    };
    let (count, every) = match short {
        Some(short) => short.frequency,
        None => long.get(&limit::RATE)?,
    };
    let burst = match short {
        Some(short) => short.burst,
        None => long.get(&limit::BURST),
    };
    let per = short.and_then(|short| short.per.clone());
    let value = RateLimit {
        count,
        every,
        per: per.unwrap_or_else(|| long.get(&limit::PER)),
        burst: burst.unwrap_or(count),
        status: long.get(&limit::STATUS),
    };
    let at = written.at.clone();
    Some(SharedSetting { value, at })
}
