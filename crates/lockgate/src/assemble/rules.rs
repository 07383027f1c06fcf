//! One route as it runs: its action, admission, limits, and changes to headers.
//!
//! Reads the files of users and the pages of errors, each once.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use foldhash::{HashMap, HashMapExt};
use lockgate_config as config;
use lockgate_config::{Code, Config, SharedSetting, SourceSpan};
use lockgate_net::token_bucket::TokenRate;
use lockgate_proxy::admit::basic_auth::PasswordFile;
use lockgate_proxy::admit::networks::Networks;
use lockgate_proxy::admit::password_pool::PasswordPool;
use lockgate_proxy::admit::rate_limit::{BUCKETS, Buckets, RateLimiter};
use lockgate_proxy::error_response::{ErrorPage, ErrorPages};
use lockgate_proxy::rules::RouteRules;
use lockgate_proxy::shaping::Shape;
use lockgate_proxy::site::{Admission, Auth, BasicAuthCheck, Gatekeeper, RequestLimit};
use lockgate_proxy::transform::Rewrite;
use lockgate_rules::{
    HeaderRules, MinRates, Pattern, RateLimit, ShapeRates, TargetRewrite, TraceShare,
};

use super::shared_states::{SettingUser, SharedStates, UsedStates, routes};
use super::{MistakeLog, changes};
use crate::fetcher::Fetcher;

/// The longest error page in bytes: every failure may send one.
const LONGEST_PAGE: u64 = 1 << 20;

/// The rewrites of bodies by their routes, each with its settings.
type Rewrites = HashMap<SettingUser, (config::BodyRewrite, Pattern, Arc<Rewrite>)>;

/// The state that routes share: rate limits, files of users, error pages, redirect maps.
pub(super) struct SharedRules<'a> {
    previous: &'a ReusableRules,
    buckets: Option<Arc<Buckets>>,
    /// Rate limits: routes that inherit one share it.
    limits: SharedStates<RateLimit, RateLimiter>,
    /// Byte rates, likewise.
    shapes: SharedStates<ShapeRates, Arc<Shape>>,
    rewrites: Rewrites,
    verifier: Option<Arc<PasswordPool>>,
    /// The files of users; `None` for one with a mistake.
    checkers: BTreeMap<PathBuf, Option<Arc<PasswordFile>>>,
    pages: HashMap<PathBuf, Option<ErrorPage>>,
    /// Sets of error pages: routes with the same files share one.
    page_sets: HashMap<Vec<(u16, PathBuf)>, Arc<ErrorPages>>,
}

/// A rate limit with the names of the routes and tunnels that share it.
#[derive(Debug, Clone)]
pub(crate) struct NamedLimit {
    pub(crate) names: Vec<String>,
    pub(crate) limiter: RateLimiter,
}

/// The state of rules that the next assembly may take over.
#[derive(Default)]
pub(super) struct ReusableRules {
    buckets: Option<Arc<Buckets>>,
    limits: UsedStates<RateLimit, RateLimiter>,
    shapes: UsedStates<ShapeRates, Arc<Shape>>,
    rewrites: Rewrites,
    verifier: Option<Arc<PasswordPool>>,
    checkers: BTreeMap<PathBuf, Arc<PasswordFile>>,
}

impl ReusableRules {
    /// The rate limits, each once, with the names of those that share it.
    pub(super) fn limits(&self) -> Vec<NamedLimit> {
        let mut limits: Vec<NamedLimit> = Vec::new();
        for (user, (_, limit)) in &self.limits {
            let limiter = limit.state();
            let known = limits.iter_mut();
            match known
                .into_iter()
                .find(|one| one.limiter.shares_buckets(limiter))
            {
                Some(known) => known.names.push(user.name()),
                None => limits.push(NamedLimit {
                    names: vec![user.name()],
                    limiter: limiter.clone(),
                }),
            }
        }
        limits.iter_mut().for_each(|one| one.names.sort_unstable());
        limits.sort_by(|one, other| one.names.cmp(&other.names));
        limits
    }

    /// The files of users, each once.
    pub(super) fn checkers(&self) -> impl Iterator<Item = &Arc<PasswordFile>> {
        self.checkers.values()
    }
}

impl<'a> SharedRules<'a> {
    /// The rules of `config`, with the state of `previous` that its users still have.
    pub(super) fn after(previous: &'a ReusableRules, config: &Config) -> Self {
        let relays = config.tcp.iter().filter_map(|tcp| {
            let shape = tcp.shape.as_ref()?;
            Some((SettingUser::relay(&tcp.name), shape))
        });
        let tunnels = || {
            let tunnels = config.tunnels.iter();
            tunnels.map(|tunnel| (SettingUser::tunnel(&tunnel.name), tunnel))
        };
        let limits = routes(config)
            .filter_map(|(site, route)| {
                let limit = route.rules.limit.as_deref()?;
                Some((SettingUser::route(site, route), limit))
            })
            .chain(tunnels().filter_map(|(user, tunnel)| Some((user, tunnel.limit.as_ref()?))));
        let shapes = routes(config)
            .filter_map(|(site, route)| {
                let shape = route.rules.shape.as_deref()?;
                Some((SettingUser::route(site, route), shape))
            })
            .chain(relays)
            .chain(tunnels().filter_map(|(user, tunnel)| Some((user, tunnel.shape.as_ref()?))));
        Self {
            buckets: previous.buckets.clone(),
            limits: SharedStates::after(&previous.limits, limits),
            shapes: SharedStates::after(&previous.shapes, shapes),
            rewrites: Rewrites::default(),
            verifier: previous.verifier.clone(),
            checkers: BTreeMap::new(),
            pages: HashMap::new(),
            page_sets: HashMap::new(),
            previous,
        }
    }

    /// What the next assembly may take over.
    pub(super) fn into_reusable(self) -> ReusableRules {
        let checkers = self.checkers.into_iter();
        ReusableRules {
            buckets: self.buckets,
            limits: self.limits.into_used(),
            shapes: self.shapes.into_used(),
            rewrites: self.rewrites,
            verifier: self.verifier,
            checkers: checkers
                .filter_map(|(path, checker)| Some((path, checker?)))
                .collect(),
        }
    }

    /// The networks, rate limit and users of a site's `route`.
    pub(super) fn admission(
        &mut self,
        site: &str,
        route: &config::SiteRoute,
        auth: Option<Auth>,
    ) -> Admission {
        let written = &route.rules;
        let limit = written.limit.as_ref();
        Admission {
            networks: Networks::new(&written.allow, &written.deny),
            limit: limit.map(|limit| Box::new(self.limit(SettingUser::route(site, route), limit))),
            auth,
        }
    }

    /// The rules that apply to the requests of a site's `route` and to their responses.
    pub(super) fn rules(
        &mut self,
        mistakes: &mut MistakeLog<'_>,
        site: &str,
        route: &config::SiteRoute,
        fetcher: &Fetcher,
    ) -> Option<RouteRules> {
        let written = &route.rules;
        // Both are made before the first failure returns: every mistake is reported at once.
        let pages = self.pages(mistakes, &written.error_pages);
        let rewrite = match &written.rewrite_body {
            Some(changes) => changes::rewrite(mistakes, changes, &route.pattern, fetcher)
                .map(|rewrite| Some(self.rewrite(site, route, changes, rewrite))),
            None => Some(None),
        };
        let shape = written.shape.as_ref();
        let shape = shape.map(|shape| self.shape(SettingUser::route(site, route), shape));
        Some(RouteRules {
            target: written.target.clone(),
            request_headers: written.request_headers.clone(),
            headers: written.headers.clone(),
            body_max: written.body_max,
            rates: written.rates,
            shape,
            trace: written
                .trace
                .map(|percent| TraceShare::new(f64::from(percent) / 100.0)),
            cache: written.cache.clone().map(Box::new),
            rewrite: rewrite?,
            compress: written.compress.clone(),
            cors: written.cors.clone().map(Box::new),
            rewrite_location: written.rewrite_location,
            pages: pages?,
            redirects: written.redirects.as_ref().map(|file| Arc::clone(&file.map)),
            raw_paths: written.raw_paths,
        })
    }

    /// The rewrite of a route's bodies: the one that runs, if it is the same.
    fn rewrite(
        &mut self,
        site: &str,
        route: &config::SiteRoute,
        written: &config::BodyRewrite,
        made: Arc<Rewrite>,
    ) -> Arc<Rewrite> {
        let user = SettingUser::route(site, route);
        let running = self.previous.rewrites.get(&user);
        let same = running.filter(|(settings, pattern, rewrite)| {
            settings == written && *pattern == route.pattern && rewrite.has_values_of(&made)
        });
        let rewrite = same.map_or(made, |(_, _, rewrite)| Arc::clone(rewrite));
        let kept = (written.clone(), route.pattern.clone(), Arc::clone(&rewrite));
        self.rewrites.insert(user, kept);
        rewrite
    }

    pub(super) fn limit(
        &mut self,
        user: SettingUser,
        written: &SharedSetting<RateLimit>,
    ) -> RequestLimit {
        let buckets = self.buckets.get_or_insert_with(|| Buckets::new(BUCKETS));
        let limit = self.limits.of(user, written, |value| {
            let at_least_one = |count| NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN);
            let (count, burst) = (at_least_one(value.count), at_least_one(value.burst));
            buckets.limit(TokenRate::new(count, value.every, burst))
        });
        RequestLimit {
            limit,
            by: written.value.per.clone(),
            status: written.value.status,
        }
    }

    pub(super) fn shape(
        &mut self,
        user: SettingUser,
        written: &SharedSetting<ShapeRates>,
    ) -> Arc<Shape> {
        self.shapes.of(user, written, Shape::new)
    }

    pub(super) fn basic(
        &mut self,
        mistakes: &mut MistakeLog<'_>,
        written: &config::BasicAuth,
    ) -> Option<BasicAuthCheck> {
        let checker = match self.checkers.get(&written.file) {
            Some(checker) => checker.clone(),
            None => {
                let checker = self.password_file(mistakes, written);
                self.checkers.insert(written.file.clone(), checker.clone());
                checker
            }
        };
        Some(BasicAuthCheck {
            checker: checker?,
            realm: written.realm.clone(),
            to: Gatekeeper::Site,
        })
    }

    fn password_file(
        &mut self,
        mistakes: &mut MistakeLog<'_>,
        written: &config::BasicAuth,
    ) -> Option<Arc<PasswordFile>> {
        let verifier = self
            .verifier
            .get_or_insert_with(|| PasswordPool::new(verifying_threads()));
        match PasswordFile::load(&written.file, Arc::clone(verifier)) {
            Ok(read) => {
                // The running one reads the file again with the change of the configuration.
                let running = self.previous.checkers.get(&written.file);
                Some(running.map_or_else(|| Arc::new(read), Arc::clone))
            }
            Err(error) => {
                let cure = "a line for each user: `htpasswd -B -c FILE USER` makes the file, without -c it adds to it; `openssl passwd -6` makes a hash, to be written as USER:HASH";
                let (code, message) = (Code::UsersUnreadable, error.to_string());
                mistakes.file(&written.file, code, &written.at, message, cure);
                None
            }
        }
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
