//! One route as it runs: its action, admission, limits, and changes to headers.
//!
//! Reads the files of users and the pages of errors, each once.

use std::collections::HashMap;
use std::io::{self, Read};
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use lockgate_config as config;
use lockgate_config::{Code, SharedSetting, SourceSpan};
use lockgate_net::token_bucket::TokenRate;
use lockgate_proxy::admit::basic_auth::PasswordFile;
use lockgate_proxy::admit::networks::Networks;
use lockgate_proxy::admit::password_pool::PasswordPool;
use lockgate_proxy::admit::rate_limit::{BUCKETS, Buckets, RateLimiter};
use lockgate_proxy::error_response::{ErrorPage, ErrorPages};
use lockgate_proxy::rules::RouteRules;
use lockgate_proxy::shaping::Shape;
use lockgate_proxy::site::{Admission, Auth, BasicAuthCheck, Gatekeeper, RequestLimit};
use lockgate_rules::{HeaderRules, MinRates, RateLimit, ShapeRates, TargetRewrite};

use super::{MistakeLog, changes};
use crate::fetcher::Fetcher;

/// The longest error page in bytes: every failure may send one.
const LONGEST_PAGE: u64 = 1 << 20;

/// The state that routes share: rate limits, files of users, error pages, redirect maps.
#[derive(Default)]
pub(super) struct SharedRules {
    buckets: Option<Arc<Buckets>>,
    /// Rate limits by their place in the configuration: routes that inherit one share it.
    limits: HashMap<String, RateLimiter>,
    /// Byte rates, likewise.
    shapes: HashMap<String, Arc<Shape>>,
    verifier: Option<Arc<PasswordPool>>,
    /// Files of users in the order of their first use; `None` for one with a mistake.
    checkers: Vec<(PathBuf, Option<Arc<PasswordFile>>)>,
    pages: HashMap<PathBuf, Option<ErrorPage>>,
    /// Sets of error pages: routes with the same files share one.
    page_sets: HashMap<Vec<(u16, PathBuf)>, Arc<ErrorPages>>,
}

impl SharedRules {
    pub(super) fn checkers(self) -> Vec<Arc<PasswordFile>> {
        self.checkers
            .into_iter()
            .filter_map(|(_, checker)| checker)
            .collect()
    }

    /// The networks, rate limit and users of `route`.
    pub(super) fn admission(&mut self, route: &config::SiteRoute, auth: Option<Auth>) -> Admission {
        let written = &route.rules;
        Admission {
            networks: Networks::new(&written.allow, &written.deny),
            limit: written.limit.as_ref().map(|limit| self.limit(limit)),
            auth,
        }
    }

    /// The rules that apply to the requests of `route` and to their responses.
    pub(super) fn rules(
        &mut self,
        mistakes: &mut MistakeLog<'_>,
        route: &config::SiteRoute,
        fetcher: &Fetcher,
    ) -> Option<RouteRules> {
        let written = &route.rules;
        // Both are made before the first failure returns: every mistake is reported at once.
        let pages = self.pages(mistakes, &written.error_pages);
        let rewrite = match &written.rewrite_body {
            Some(changes) => changes::rewrite(mistakes, changes, &route.pattern, fetcher).map(Some),
            None => Some(None),
        };
        Some(RouteRules {
            target: written.target.clone(),
            request_headers: written.request_headers.clone(),
            headers: written.headers.clone(),
            body_max: written.body_max,
            rates: written.rates,
            shape: written.shape.as_ref().map(|shape| self.shape(shape)),
            trace: written.trace,
            cache: written.cache.clone(),
            rewrite: rewrite?,
            compress: written.compress.clone(),
            cors: written.cors.clone(),
            rewrite_location: written.rewrite_location,
            pages: pages?,
            redirects: written.redirects.as_ref().map(|file| Arc::clone(&file.map)),
            raw_paths: written.raw_paths,
        })
    }

    pub(super) fn limit(&mut self, written: &SharedSetting<RateLimit>) -> RequestLimit {
        let SharedSetting { value, at } = written;
        let buckets = self.buckets.get_or_insert_with(|| Buckets::new(BUCKETS));
        let limit = self.limits.entry(at.to_string()).or_insert_with(|| {
            let at_least_one = |count| NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN);
            let (count, burst) = (at_least_one(value.count), at_least_one(value.burst));
            buckets.limit(TokenRate::new(count, value.every, burst))
        });
        RequestLimit {
            limit: limit.clone(),
            by: value.per.clone(),
            status: value.status,
        }
    }

    fn shape(&mut self, written: &SharedSetting<ShapeRates>) -> Arc<Shape> {
        let shape = self.shapes.entry(written.at.to_string());
        Arc::clone(shape.or_insert_with(|| Shape::new(&written.value)))
    }

    pub(super) fn basic(
        &mut self,
        mistakes: &mut MistakeLog<'_>,
        written: &config::BasicAuth,
    ) -> Option<BasicAuthCheck> {
        let known = self.checkers.iter().find(|(path, _)| *path == written.file);
        let checker = match known {
            Some((_, checker)) => checker.clone(),
            None => {
                let verifier = self
                    .verifier
                    .get_or_insert_with(|| PasswordPool::new(verifying_threads()));
                let checker = match PasswordFile::load(&written.file, Arc::clone(verifier)) {
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
        Some(BasicAuthCheck {
            checker: checker?,
            realm: written.realm.clone(),
            to: Gatekeeper::Site,
        })
    }

    /// Error pages by status; each file is read once.
    pub(super) fn pages(
        &mut self,
        mistakes: &mut MistakeLog<'_>,
        written: &[(u16, PathBuf, SourceSpan)],
    ) -> Option<Arc<ErrorPages>> {
        let files: Vec<_> = written
            .iter()
            .map(|(status, path, _)| (*status, path.clone()))
            .collect();
        if let Some(known) = self.page_sets.get(&files) {
            return Some(Arc::clone(known));
        }
        let mut pages = Some(ErrorPages::default());
        for (status, path, at) in written {
            let page = self.pages.entry(path.clone()).or_insert_with(|| {
                let cure = "a file of at most 1 MB with a name that ends in .html, .json or .txt";
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

/// Threads that verify password hashes, which takes long: two, where that leaves the workers half
/// of the machine.
fn verifying_threads() -> NonZeroUsize {
    match thread::available_parallelism().map_or(1, NonZeroUsize::get) {
        0..4 => NonZeroUsize::MIN,
        4.. => NonZeroUsize::MIN.saturating_add(1),
    }
}

fn page(path: &Path) -> Result<ErrorPage, String> {
    let media_type = match path.extension().and_then(|extension| extension.to_str()) {
        Some("html" | "htm") => "text/html; charset=utf-8",
        Some("json") => "application/json",
        Some("txt") => "text/plain; charset=utf-8",
        _ => return Err("its extension is not known".to_owned()),
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
    Ok(ErrorPage {
        body,
        media_type: media_type.to_owned(),
    })
}

/// Whether a folder can be served; a missing one may be made later, which is a warning.
pub(super) fn folder(mistakes: &mut MistakeLog<'_>, files: &config::StaticFiles) -> bool {
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

/// The rules of a route for which the configuration sets none.
pub(super) fn defaults(rates: MinRates) -> RouteRules {
    RouteRules {
        target: TargetRewrite::None,
        request_headers: HeaderRules::default(),
        headers: HeaderRules::default(),
        body_max: None,
        rates,
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
