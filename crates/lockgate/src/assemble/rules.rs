//! One route as it runs: its pattern, what answers, and what its requests are held to.
//!
//! Reads the files of users and the pages of errors, each once.

use std::collections::HashMap;
use std::io::{self, Read};
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use lockgate_config as config;
use lockgate_config::{Cidr, Code, Segment, SourceSpan};
use lockgate_net::token_bucket::TokenRate;
use lockgate_proxy::admit::basic_auth::Checker;
use lockgate_proxy::admit::networks::Networks;
use lockgate_proxy::admit::rate_limit::{BUCKETS, Buckets, RateLimit};
use lockgate_proxy::admit::verifier::Verifier;
use lockgate_proxy::answer::{Page, Pages};
use lockgate_proxy::route::Pattern;
use lockgate_proxy::rules::{Rates, Rules};
use lockgate_proxy::shaping::Shape;
use lockgate_proxy::site::{Action, Admission, Auth, Basic, By, Fixed, Gatekeeper, Limited};
use lockgate_proxy::transform::redirect_map::{Moved, RedirectError};
use lockgate_proxy::transform::{
    HeaderOp, HeaderRule, HeaderRules, Purpose, RedirectMap, TargetRewrite, Template, Types,
};

use super::{Mistakes, answers, changes, millis, shape};
use crate::fetcher::Fetcher;

/// The longest page of an error: every failure sends one.
const LONGEST_PAGE: u64 = 1 << 20;

/// What routes share: the table of rate limits, files of users, pages.
#[derive(Default)]
pub(super) struct Guards {
    buckets: Option<Arc<Buckets>>,
    /// By the place where they were written: routes that inherit a limit share it.
    limits: HashMap<String, RateLimit>,
    /// The same of rates of bytes.
    shapes: HashMap<String, Arc<Shape>>,
    verifier: Option<Arc<Verifier>>,
    /// In the order in which they are met; nothing for a file with a mistake.
    checkers: Vec<(PathBuf, Option<Arc<Checker>>)>,
    pages: HashMap<PathBuf, Option<Page>>,
    /// Routes with the same files share them.
    page_sets: HashMap<Vec<(u16, PathBuf)>, Arc<Pages>>,
    /// By their files; routes with the same one share it.
    redirects: HashMap<PathBuf, Option<Arc<RedirectMap>>>,
}

impl Guards {
    /// The files of users.
    pub(super) fn checkers(self) -> Vec<Arc<Checker>> {
        self.checkers
            .into_iter()
            .filter_map(|(_, checker)| checker)
            .collect()
    }

    /// Who may use `route`, and how often.
    pub(super) fn admission(&mut self, route: &config::SiteRoute, auth: Option<Auth>) -> Admission {
        let written = &route.rules;
        Admission {
            networks: Networks::new(&networks(&written.allow), &networks(&written.deny)),
            limit: written.limit.as_ref().map(|limit| self.limit(limit)),
            auth,
        }
    }

    /// What the requests of `route` and their answers are held to.
    pub(super) fn rules(
        &mut self,
        mistakes: &mut Mistakes<'_>,
        route: &config::SiteRoute,
        pattern: &Pattern,
        auth: Option<&Auth>,
        fetcher: &Fetcher,
    ) -> Option<Rules> {
        let written = &route.rules;
        // All of them before the first that fails ends it: every mistake is told at once.
        let target = target(mistakes, route, pattern);
        let request_headers = headers(mistakes, route, &written.request_headers, pattern);
        let headers = headers(mistakes, route, &written.headers, pattern);
        let pages = self.pages(mistakes, &written.error_pages);
        let redirects = match &written.redirects {
            None => Some(None),
            Some(map) => self.redirects(mistakes, map).map(Some),
        };
        Some(Rules {
            target: target?,
            request_headers: match auth {
                Some(Auth::Forward(service)) => request_headers?.reserving(&service.copy),
                _ => request_headers?,
            },
            headers: headers?,
            body_max: written.body_max,
            rates: rates(&written.rates),
            shape: written.shape.as_ref().map(|shape| self.shape(shape)),
            trace: written.trace,
            cache: match &written.cache {
                Some(cache) => Some(answers::caching(mistakes, route, cache)?),
                None => None,
            },
            rewrite: match &written.rewrite_body {
                Some(changes) => Some(changes::rewrite(mistakes, changes, pattern, fetcher)?),
                None => None,
            },
            compress: written.compress.as_ref().map(answers::compress),
            cors: written.cors.as_ref().map(answers::cors),
            rewrite_location: written.rewrite_location,
            pages: pages?,
            redirects: redirects?,
            raw_paths: written.raw_paths,
        })
    }

    fn redirects(
        &mut self,
        mistakes: &mut Mistakes<'_>,
        written: &config::RedirectMap,
    ) -> Option<Arc<RedirectMap>> {
        if let Some(known) = self.redirects.get(&written.file) {
            return known.clone();
        }
        let froms: Vec<String> = written
            .entries
            .iter()
            .map(|one| one.from.clone() + if one.below { "*" } else { "" })
            .collect();
        let each = written.entries.iter().zip(&froms);
        let made = RedirectMap::new(each.map(|(one, from)| Moved {
            from,
            to: &one.to,
            status: one.status,
        }));
        let complain = |error: RedirectError| {
            let from = froms.get(error.number).map_or("", String::as_str);
            let message = format!("{}: {from:?}: {error}", written.file.display());
            mistakes.error(Code::BadRedirect, &written.at, message, "");
        };
        let map = made.map_err(complain).ok().map(Arc::new);
        self.redirects.insert(written.file.clone(), map.clone());
        map
    }

    /// How often requests may come.
    pub(super) fn limit(&mut self, written: &config::RateLimit) -> Limited {
        let buckets = self.buckets.get_or_insert_with(|| Buckets::new(BUCKETS));
        let limit = self
            .limits
            .entry(written.at.to_string())
            .or_insert_with(|| {
                let at_least_one = |count| NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN);
                let (count, burst) = (at_least_one(written.count), at_least_one(written.burst));
                buckets.limit(TokenRate::new(count, written.every, burst))
            });
        let by = match &written.per {
            config::LimitKey::Client => By::Client,
            config::LimitKey::Header(name) => By::Field(name.to_ascii_lowercase().into_bytes()),
            config::LimitKey::Route => By::Route,
        };
        Limited {
            limit: limit.clone(),
            by,
            status: written.status,
        }
    }

    fn shape(&mut self, written: &config::Shape) -> Arc<Shape> {
        let shape = self
            .shapes
            .entry(written.at.to_string())
            .or_insert_with(|| shape(written));
        Arc::clone(shape)
    }

    /// A file of users.
    pub(super) fn basic(
        &mut self,
        mistakes: &mut Mistakes<'_>,
        written: &config::BasicAuth,
    ) -> Option<Basic> {
        let known = self.checkers.iter().find(|(path, _)| *path == written.file);
        let checker = match known {
            Some((_, checker)) => checker.clone(),
            None => {
                let verifier = self
                    .verifier
                    .get_or_insert_with(|| Verifier::new(verifying_threads()));
                let checker = match Checker::load(&written.file, Arc::clone(verifier)) {
                    Ok(checker) => Some(Arc::new(checker)),
                    Err(error) => {
                        let cure = "a line for each user, as `htpasswd -B FILE USER` writes it";
                        let message = error.to_string();
                        mistakes.file(
                            &written.file,
                            Code::UsersUnreadable,
                            &written.at,
                            message,
                            cure,
                        );
                        None
                    }
                };
                self.checkers.push((written.file.clone(), checker.clone()));
                checker
            }
        };
        Some(Basic {
            checker: checker?,
            realm: written.realm.clone(),
            to: Gatekeeper::Site,
        })
    }

    /// Pages by status, read once whoever has them.
    pub(super) fn pages(
        &mut self,
        mistakes: &mut Mistakes<'_>,
        written: &[(u16, PathBuf, SourceSpan)],
    ) -> Option<Arc<Pages>> {
        let files: Vec<_> = written
            .iter()
            .map(|(status, path, _)| (*status, path.clone()))
            .collect();
        if let Some(known) = self.page_sets.get(&files) {
            return Some(Arc::clone(known));
        }
        let mut pages = Some(Pages::default());
        for (status, path, at) in written {
            let page = self.pages.entry(path.clone()).or_insert_with(|| {
                let cure = "a file of at most 1 MB whose name ends in .html, .json or .txt";
                let complain = |error: String| {
                    let message = format!("{}: {error}", path.display());
                    mistakes.file(path, Code::PageUnreadable, at, message, cure);
                };
                page(path).map_err(complain).ok()
            });
            match (&mut pages, page) {
                (Some(pages), Some(page)) => pages.set(*status, page.clone()),
                _ => pages = None,
            }
        }
        let pages = Arc::new(pages?);
        self.page_sets.insert(files, Arc::clone(&pages));
        Some(pages)
    }
}

/// Hashes take long and are waited for: two at once, where that leaves the workers half of the
/// machine.
fn verifying_threads() -> NonZeroUsize {
    match thread::available_parallelism().map_or(1, NonZeroUsize::get) {
        0..4 => NonZeroUsize::MIN,
        4.. => NonZeroUsize::MIN.saturating_add(1),
    }
}

fn page(path: &Path) -> Result<Page, String> {
    let media_type = match path.extension().and_then(|extension| extension.to_str()) {
        Some("html" | "htm") => "text/html; charset=utf-8",
        Some("json") => "application/json",
        Some("txt") => "text/plain; charset=utf-8",
        _ => return Err("its name does not say what it is".to_owned()),
    };
    let read = |path: &Path| -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        std::fs::File::open(path)?
            .take(LONGEST_PAGE + 1)
            .read_to_end(&mut body)?;
        Ok(body)
    };
    let body = read(path).map_err(|error| error.to_string())?;
    if body.len() as u64 > LONGEST_PAGE {
        return Err("longer than 1 MB".to_owned());
    }
    Ok(Page {
        body,
        media_type: media_type.to_owned(),
    })
}

/// The paths of `route`.
pub(super) fn pattern(mistakes: &mut Mistakes<'_>, route: &config::SiteRoute) -> Option<Pattern> {
    pattern_of(mistakes, route, &route.pattern)
}

/// A pattern in a table of `route`.
pub(super) fn pattern_of(
    mistakes: &mut Mistakes<'_>,
    route: &config::SiteRoute,
    written: &config::Pattern,
) -> Option<Pattern> {
    let config::Pattern::Path { segments, tail } = written else {
        return Some(Pattern::everything());
    };
    let mut text = String::new();
    for segment in segments {
        match segment {
            Segment::Literal(literal) => text.extend(["/", literal]),
            Segment::Param(name) => text.extend(["/{", name, "}"]),
        }
    }
    text.push_str(if *tail { "/*" } else { "" });
    let complain = |error: lockgate_proxy::route::PatternError| {
        mistakes.error(Code::BadPath, &route.at, error.to_string(), "");
    };
    Pattern::parse(&text).map_err(complain).ok()
}

/// Whether there is a folder to serve, or may be one later.
pub(super) fn folder(mistakes: &mut Mistakes<'_>, files: &config::StaticFiles) -> bool {
    match std::fs::metadata(&files.root) {
        Ok(metadata) if metadata.is_dir() => true,
        Ok(_) => {
            let cure = "name the folder; for one file write try = [\"/name\"] beside it";
            mistakes.error(Code::RootUnusable, &files.at, "this is no folder", cure);
            false
        }
        Err(error) => {
            let cure = "make the folder, or correct the path";
            let message = "this folder cannot be served now";
            mistakes.warn(
                Code::RootMissing,
                &files.at,
                message,
                &error.to_string(),
                cure,
            );
            true
        }
    }
}

/// What is looked for instead of a path.
pub(super) fn attempts(
    mistakes: &mut Mistakes<'_>,
    route: &config::SiteRoute,
    pattern: &Pattern,
    files: &config::StaticFiles,
) -> Option<Vec<Template>> {
    let attempts = files.attempts.iter();
    attempts
        .map(|attempt| template(mistakes, route, attempt, Purpose::Target, pattern))
        .collect()
}

/// Media types of a route's own.
pub(super) fn types(
    mistakes: &mut Mistakes<'_>,
    route: &config::SiteRoute,
    written: &config::FileTypes,
) -> Option<Types> {
    let mut path = |(path, media_type): &(config::Pattern, String)| {
        pattern_of(mistakes, route, path).map(|pattern| (pattern, media_type.clone()))
    };
    let paths = written.paths.iter().map(&mut path).collect::<Option<_>>()?;
    Some(Types {
        paths,
        extensions: written.extensions.clone(),
    })
}

/// Looks elsewhere.
pub(super) fn redirect(
    mistakes: &mut Mistakes<'_>,
    route: &config::SiteRoute,
    pattern: &Pattern,
    to: &str,
    status: u16,
) -> Option<Action> {
    let to = template(mistakes, route, to, Purpose::Redirect, pattern)?;
    Some(Action::Redirect { to, status })
}

/// Answers.
pub(super) fn respond(
    mistakes: &mut Mistakes<'_>,
    route: &config::SiteRoute,
    pattern: &Pattern,
    answer: &config::Answer,
) -> Option<Action> {
    let body = template(mistakes, route, &answer.body, Purpose::Text, pattern)?;
    Some(Action::Respond(Fixed {
        status: answer.status,
        body,
        media_type: answer.media_type.clone(),
    }))
}

/// What holds where nothing was written.
pub(super) fn bare(written: &config::Rates) -> Rules {
    Rules {
        target: TargetRewrite::None,
        request_headers: HeaderRules::default(),
        headers: HeaderRules::default(),
        body_max: None,
        rates: rates(written),
        shape: None,
        trace: None,
        cache: None,
        rewrite: None,
        compress: None,
        cors: None,
        rewrite_location: false,
        pages: Arc::default(),
        redirects: None,
        raw_paths: false,
    }
}

fn target(
    mistakes: &mut Mistakes<'_>,
    route: &config::SiteRoute,
    pattern: &Pattern,
) -> Option<TargetRewrite> {
    match &route.rules.rewrite {
        Some(to) => {
            template(mistakes, route, to, Purpose::Target, pattern).map(TargetRewrite::Template)
        }
        None if route.rules.strip_prefix => Some(TargetRewrite::StripPrefix),
        None => Some(TargetRewrite::None),
    }
}

fn headers(
    mistakes: &mut Mistakes<'_>,
    route: &config::SiteRoute,
    written: &[config::HeaderRule],
    pattern: &Pattern,
) -> Option<HeaderRules> {
    let mut rules = Vec::new();
    let mut line = |text: &String| template(mistakes, route, text, Purpose::Text, pattern);
    for rule in written {
        let op = match &rule.change {
            config::HeaderChange::Set(lines) => {
                HeaderOp::Set(lines.iter().map(&mut line).collect::<Option<_>>()?)
            }
            config::HeaderChange::Add(lines) => {
                HeaderOp::Add(lines.iter().map(&mut line).collect::<Option<_>>()?)
            }
            config::HeaderChange::Default(text) => HeaderOp::Default(line(text)?),
            config::HeaderChange::Remove => HeaderOp::Remove,
        };
        rules.push(HeaderRule {
            name: rule.name.clone().into_bytes(),
            op,
        });
    }
    let complain = |error: lockgate_proxy::transform::HeaderError| {
        mistakes.error(Code::BadField, &route.at, error.to_string(), "");
    };
    HeaderRules::new(rules).map_err(complain).ok()
}

fn template(
    mistakes: &mut Mistakes<'_>,
    route: &config::SiteRoute,
    text: &str,
    purpose: Purpose,
    pattern: &Pattern,
) -> Option<Template> {
    let complain = |error: lockgate_proxy::transform::TemplateError| {
        mistakes.error(
            Code::BadPlaceholder,
            &route.at,
            format!("{text:?}: {error}"),
            "",
        );
    };
    Template::parse(text, purpose, pattern)
        .map_err(complain)
        .ok()
}

/// Minimum rates of clients.
pub(super) fn rates(written: &config::Rates) -> Rates {
    Rates {
        min_in: written.min_in,
        min_out: written.min_out,
        grace: millis(written.grace),
    }
}

/// Networks as the heart knows them.
pub(super) fn networks(written: &[Cidr]) -> Vec<(std::net::IpAddr, u8)> {
    written
        .iter()
        .map(|network| (network.addr(), network.prefix()))
        .collect()
}
