//! Sites as they run: those that share an address become one listener, with one table of hosts and
//! paths.

use std::collections::HashMap;
use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;
use std::time::Duration;

use lockgate_config as config;
use lockgate_config::{Code, Config, Host, ListenAddr, Protocol, SiteListener, SourceSpan};
use lockgate_http::h1::HeadLimits;
use lockgate_net::thread_pool::ThreadPool;
use lockgate_net::token_bucket::TokenRate;
use lockgate_proxy::action::forward_auth::ForwardAuth;
use lockgate_proxy::action::proxy::Proxy;
use lockgate_proxy::admit::basic_auth::Checker;
use lockgate_proxy::answer::Pages;
use lockgate_proxy::downstream::{Listener, SecureSites, Service};
use lockgate_proxy::files::{Files, Symlinks};
use lockgate_proxy::route::{Clash, HostPattern, Pattern, Router, Rule, SiteRoutes, Unreachable};
use lockgate_proxy::site::{self, Action, Admission, Auth};
use lockgate_proxy::upstream::Pool;

use super::rules::{self, Guards};
use super::tls::Neighbours;
use super::{Assembler, DEFERRED, Planned, accept_proxy, address, options};

/// What the sites of all listeners share.
#[derive(Default)]
pub(super) struct Sites {
    upstreams: Vec<Arc<Pool>>,
    /// From a pool's number in the configuration to its place among `upstreams`.
    numbers: HashMap<usize, usize>,
    pub(super) guards: Guards,
    /// How many routes serve files.
    files: usize,
    /// Those that serve files.
    threads: Option<FileThreads>,
}

/// Threads for what takes long with files.
#[derive(Clone)]
struct FileThreads {
    /// That wait for a disk.
    disk: Arc<ThreadPool>,
    /// That lists directories.
    lister: Arc<ThreadPool>,
    /// That compress.
    compressors: Arc<ThreadPool>,
}

/// For a service that is asked about requests, where answers have no limit.
const LONGEST_VERDICT: Duration = Duration::from_secs(60);

/// Of each kind: enough for a disk to have a queue of its own, few enough to leave the workers
/// alone.
const DISK_THREADS: NonZeroUsize = NonZeroUsize::new(4).unwrap();

impl Sites {
    /// The pools that sites use, and the files of users.
    pub(super) fn shared(self) -> (Vec<Arc<Pool>>, Vec<Arc<Checker>>) {
        (self.upstreams, self.guards.checkers())
    }
}

/// One site at one address.
#[derive(Clone, Copy)]
pub(super) struct Served<'a> {
    pub(super) site: &'a config::HostedSite,
    /// Its place in the configuration.
    place: usize,
    /// Whether it is only redirected to where it is served over TLS.
    redirects: bool,
}

/// The table of a listener while it is put together.
#[derive(Default)]
struct Table {
    hosts: Vec<SiteRoutes>,
    sites: Vec<site::Site>,
    routes: Vec<site::Route>,
    /// Where each site, and each route, was written; for mistakes.
    site_places: Vec<SourceSpan>,
    route_places: Vec<SourceSpan>,
}

impl Assembler<'_> {
    /// The listeners of all sites, each address once.
    pub(super) fn site_listeners(&mut self) -> Vec<Planned> {
        let mut addresses: Vec<(&ListenAddr, bool, Vec<Served<'_>>)> = Vec::new();
        for (place, site) in self.config.sites.iter().enumerate() {
            for SiteListener {
                addr,
                secure,
                redirects,
            } in &site.listen
            {
                let served = Served {
                    site,
                    place,
                    redirects: *redirects,
                };
                match addresses
                    .iter_mut()
                    .find(|(known, tls, _)| *known == addr && tls == secure)
                {
                    Some((_, _, sites)) => sites.push(served),
                    None => addresses.push((addr, *secure, vec![served])),
                }
            }
        }
        let mut listeners: Vec<Planned> = Vec::new();
        for (addr, secure, sites) in addresses {
            if secure
                && self
                    .config
                    .tcp
                    .iter()
                    .any(|tcp| tcp.by_hello().is_some() && tcp.listen == *addr)
            {
                // They are served by the listener that looks at names.
                continue;
            }
            // Only with port 0 can TLS and plain HTTP, or a relay, have the same text.
            let mut name = addr.to_string();
            let taken = |name: &str| {
                let relays = self.config.tcp.iter().map(|tcp| tcp.name.as_str());
                let tunnels = self
                    .config
                    .tunnels
                    .iter()
                    .map(|tunnel| tunnel.name.as_str());
                let sites = listeners
                    .iter()
                    .map(|planned| planned.listener.name.as_str());
                relays
                    .chain(tunnels)
                    .chain(sites)
                    .any(|known| known == name)
            };
            if taken(&name) {
                name.push_str(if secure { " tls" } else { " http" });
            }
            listeners.extend(self.site_listener(name, addr, secure, &sites));
        }
        listeners
    }

    fn site_listener(
        &mut self,
        name: String,
        addr: &ListenAddr,
        secure: bool,
        sites: &[Served<'_>],
    ) -> Option<Planned> {
        let config = self.config;
        let first = sites.first()?.site;
        let spoken = spoken(sites);
        let (tls, table) = if secure {
            let SecureSites { tls, sites } = self.secure_sites(sites, Neighbours::Sites)?;
            (Some(tls), sites)
        } else {
            (None, self.table(sites, &spoken)?)
        };
        let listener = Listener {
            name,
            tls,
            accept_proxy: accept_proxy(first.accept_proxy),
            handshake: config.timeouts.handshake,
            service: Service::Http(Box::new(table)),
        };
        Some(Planned {
            listener: Arc::new(listener),
            address: address(addr),
            // Clients speak first, with TLS and without.
            options: options(&config.socket, Some(DEFERRED)),
            alpn: if secure { offered(sites) } else { Vec::new() },
            plain: if secure { Vec::new() } else { spoken },
            at: first.at.clone(),
        })
    }

    /// Sites on one address, with their TLS.
    pub(super) fn secure_sites(
        &mut self,
        sites: &[Served<'_>],
        neighbours: Neighbours,
    ) -> Option<SecureSites> {
        let written: Vec<_> = sites.iter().map(|one| one.site).collect();
        let tls = self
            .rings
            .acceptors(&mut self.mistakes, &written, neighbours);
        // The mistakes of both are told at once.
        let table = self.table(sites, &spoken(sites));
        let ((tls, rules), mut table) = (tls?, table?);
        for (site, rules) in table.sites.iter_mut().zip(rules) {
            site.tls_rules = rules;
        }
        Some(SecureSites { tls, sites: table })
    }

    fn table(&mut self, sites: &[Served<'_>], spoken: &[Protocol]) -> Option<site::Sites> {
        let config = self.config;
        let mut table = Table::default();
        let mut whole = true;
        for one in sites.iter().filter(|one| !one.redirects) {
            let hosts = one.site.hosts.iter().map(host).collect();
            whole &= self.serve(&mut table, one, hosts).is_some();
        }
        for one in sites.iter().filter(|one| one.redirects) {
            // Who serves a host here himself does not have it redirected.
            let free =
                |host: &HostPattern| !table.hosts.iter().any(|site| site.hosts.contains(host));
            let hosts: Vec<HostPattern> = one.site.hosts.iter().map(host).filter(free).collect();
            if !hosts.is_empty() {
                self.redirect(&mut table, one, hosts);
            }
        }
        let (router, unreachable) = match Router::build(std::mem::take(&mut table.hosts)) {
            Ok(built) => built,
            Err(clashes) => {
                self.ambiguous(&table, &clashes);
                return None;
            }
        };
        self.unreachable(&table, &unreachable);
        whole.then(|| site::Sites {
            http1: spoken.contains(&Protocol::Http1),
            h2c: spoken.contains(&Protocol::H2c),
            ..served(config, router, table.sites, table.routes)
        })
    }

    fn unreachable(&mut self, table: &Table, unreachable: &[Unreachable]) {
        let raw = |route: usize| {
            table
                .routes
                .get(route)
                .is_some_and(|route| route.rules.raw_paths)
        };
        for one in unreachable {
            let at = match one {
                Unreachable::Path { route, .. } if raw(*route) => continue,
                Unreachable::Path { route, .. } | Unreachable::Connect { route, .. } => {
                    table.route_places.get(*route)
                }
                Unreachable::Site { site } | Unreachable::Host { site, .. } => {
                    table.site_places.get(*site)
                }
            };
            if let Some(at) = at {
                self.mistakes.warn(
                    Code::Unreachable,
                    at,
                    "no request reaches this",
                    &one.to_string(),
                    "",
                );
            }
        }
    }

    fn ambiguous(&mut self, table: &Table, clashes: &[Clash]) {
        for clash in clashes {
            let (places, pair) = match clash {
                Clash::Host { sites, .. } => (&table.site_places, *sites),
                Clash::Route { routes, .. } => (&table.route_places, *routes),
            };
            let (Some(first), Some(second)) = (places.get(pair.0), places.get(pair.1)) else {
                continue;
            };
            let cure = "make one of them more specific, or name a method in it";
            let texts = (&*clash.to_string(), "this one", cure);
            self.mistakes
                .pair(Code::Ambiguous, second, texts, (first, "and this one"));
        }
    }

    /// Adds a site and its routes.
    fn serve(
        &mut self,
        table: &mut Table,
        served: &Served<'_>,
        hosts: Vec<HostPattern>,
    ) -> Option<()> {
        let site = served.site;
        let mut own = Vec::new();
        let mut whole = Some(());
        for route in &site.routes {
            let Some((pattern, made)) = self.route(site, route) else {
                whole = None;
                continue;
            };
            let method = route
                .method
                .as_ref()
                .map(|method| method.clone().into_bytes());
            own.push(Rule {
                method,
                pattern,
                value: table.routes.len(),
            });
            table.routes.push(made);
            table.route_places.push(route.at.clone());
        }
        let pages = self
            .sites
            .guards
            .pages(&mut self.mistakes, &site.error_pages)?;
        table.add(served, hosts, own, pages);
        whole
    }

    /// Adds a site that is only redirected.
    fn redirect(&mut self, table: &mut Table, served: &Served<'_>, hosts: Vec<HostPattern>) {
        let pattern = Pattern::everything();
        let rule = Rule {
            method: None,
            pattern,
            value: table.routes.len(),
        };
        table.routes.push(site::Route {
            name: String::new(),
            action: Action::Secure(self.config.ports.https),
            admission: Admission::default(),
            rules: rules::bare(&self.config.rates),
        });
        table.route_places.push(served.site.at.clone());
        table.add(served, hosts, vec![rule], Arc::default());
    }

    fn route(
        &mut self,
        site: &config::HostedSite,
        route: &config::SiteRoute,
    ) -> Option<(Pattern, site::Route)> {
        let pattern = rules::pattern(&mut self.mistakes, route)?;
        let action = match &route.action {
            config::RouteAction::Proxy(pool) => self
                .proxy(site, *pool, &route.rules.timeouts)
                .map(Action::Proxy),
            config::RouteAction::Files(files) => {
                self.files(route, &pattern, files).map(Action::Files)
            }
            config::RouteAction::Redirect { to, status } => {
                rules::redirect(&mut self.mistakes, route, &pattern, to, *status)
            }
            config::RouteAction::Respond(answer) => {
                rules::respond(&mut self.mistakes, route, &pattern, answer)
            }
        };
        let auth = match &route.rules.auth {
            None => Some(None),
            Some(config::AuthMethod::Basic(written)) => self
                .sites
                .guards
                .basic(&mut self.mistakes, written)
                .map(|basic| Some(Auth::Basic(basic))),
            Some(config::AuthMethod::Forward(written)) => {
                let made = self.forward_auth(site, written, &route.rules.timeouts);
                made.map(|service| Some(Auth::Forward(Box::new(service))))
            }
        };
        // Also where that was a mistake, the others are told.
        let (whole, auth) = (auth.is_some(), auth.flatten());
        let rules = self.sites.guards.rules(
            &mut self.mistakes,
            route,
            &pattern,
            auth.as_ref(),
            &self.fetcher,
        );
        let admission = self.sites.guards.admission(route, auth);
        let (action, rules) = (action?, rules.filter(|_| whole)?);
        Some((
            pattern,
            site::Route {
                name: route.name.clone(),
                action,
                admission,
                rules,
            },
        ))
    }

    fn forward_auth(
        &mut self,
        site: &config::HostedSite,
        written: &config::ForwardAuth,
        timeouts: &config::Timeouts,
    ) -> Option<ForwardAuth> {
        let upstream = self.upstream(written.pool, &format!("{} auth", site.name))?;
        let config::Timeouts {
            connect, response, ..
        } = *timeouts;
        // Somebody waits for the whole of it, also where answers may take as long as they like.
        let whole = Some(response.unwrap_or(LONGEST_VERDICT));
        Some(ForwardAuth {
            proxy: Proxy {
                upstream,
                connect,
                response: whole,
                whole,
                tunnel_idle: Duration::ZERO,
            },
            target: written.path.clone(),
            copy: written
                .copy
                .iter()
                .map(|name| name.clone().into_bytes())
                .collect(),
            rules: rules::bare(&self.config.rates),
        })
    }

    fn files(
        &mut self,
        route: &config::SiteRoute,
        pattern: &Pattern,
        files: &config::StaticFiles,
    ) -> Option<Arc<Files>> {
        let there = rules::folder(&mut self.mistakes, files);
        let attempts = rules::attempts(&mut self.mistakes, route, pattern, files);
        let types = rules::types(&mut self.mistakes, route, &files.types);
        let place = self.sites.files;
        self.sites.files += 1;
        let threads = self.sites.threads.get_or_insert_with(|| FileThreads {
            disk: ThreadPool::new("disk", DISK_THREADS),
            lister: ThreadPool::new("listings", NonZeroUsize::MIN),
            compressors: ThreadPool::new("compress", DISK_THREADS),
        });
        let (attempts, types, threads) = (attempts?, types?, threads.clone());
        there.then(|| {
            Arc::new(Files {
                place,
                root: files.root.clone(),
                symlinks: match files.symlinks {
                    config::Symlinks::Inside => Symlinks::Inside,
                    config::Symlinks::Follow => Symlinks::Follow,
                },
                index: files.index.clone(),
                clean_urls: files.clean_urls,
                attempts,
                spa: files.fallback.clone().map(String::into_bytes),
                not_found: files.not_found.clone().map(String::into_bytes),
                listing: files.listing,
                hidden: files.hidden,
                types,
                charset: files.charset.clone(),
                precompressed: files.precompressed,
                threads: threads.disk,
                lister: threads.lister,
                compressors: threads.compressors,
            })
        })
    }

    fn proxy(
        &mut self,
        site: &config::HostedSite,
        number: usize,
        timeouts: &config::Timeouts,
    ) -> Option<Proxy> {
        let is_its =
            |route: &&config::SiteRoute| route.action == config::RouteAction::Proxy(number);
        // The site's own comes last; what it uses is called like the site.
        let user = match site.routes.iter().rev().find(is_its) {
            Some(route) if !route.name.is_empty() => format!("{} {}", site.name, route.name),
            _ => site.name.clone(),
        };
        let upstream = self.upstream(number, &user)?;
        let config::Timeouts {
            connect,
            response,
            tunnel_idle,
            ..
        } = *timeouts;
        Some(Proxy {
            upstream,
            connect,
            response,
            whole: None,
            tunnel_idle,
        })
    }

    /// The place that a pool has among those that sites use; `user` is what it is called without a
    /// name of its own.
    fn upstream(&mut self, number: usize, user: &str) -> Option<usize> {
        let pool = self
            .pools
            .pool(&mut self.mistakes, self.config, number, user)?;
        Some(*self.sites.numbers.entry(number).or_insert_with(|| {
            self.sites.upstreams.push(pool);
            self.sites.upstreams.len() - 1
        }))
    }
}

impl Table {
    fn add(
        &mut self,
        served: &Served<'_>,
        hosts: Vec<HostPattern>,
        routes: Vec<Rule>,
        pages: Arc<Pages>,
    ) {
        self.hosts.push(SiteRoutes { hosts, routes });
        let name = served.site.name.clone();
        let log = match served.site.access_log {
            config::SiteLog::Shared => site::SiteLog::Shared,
            config::SiteLog::Off => site::SiteLog::Off,
            config::SiteLog::Own(number) => site::SiteLog::Own(number),
        };
        self.sites.push(site::Site {
            name,
            place: served.place,
            log,
            pages,
            tls_rules: 0,
        });
        self.site_places.push(served.site.at.clone());
    }
}

/// The sites with TLS on the address of `tcp`.
pub(super) fn beside<'a>(config: &'a Config, tcp: &config::Tcp) -> Vec<Served<'a>> {
    let is_here = |site: &config::HostedSite| {
        site.listen
            .iter()
            .any(|at| at.secure && at.addr == tcp.listen)
    };
    let sites = config
        .sites
        .iter()
        .enumerate()
        .filter(|(_, site)| is_here(site));
    sites
        .map(|(place, site)| Served {
            site,
            place,
            redirects: false,
        })
        .collect()
}

/// What is offered by ALPN to one client or another.
pub(super) fn offered(sites: &[Served<'_>]) -> Vec<String> {
    let mut offered: Vec<String> = Vec::new();
    for name in sites
        .iter()
        .filter_map(|one| one.site.tls.as_ref())
        .flat_map(|tls| &tls.alpn)
    {
        if !offered.contains(name) {
            offered.push(name.clone());
        }
    }
    offered
}

/// What one site or another speaks: without TLS all that serve there say the same, with TLS each
/// has its ALPN. What only redirects has no say, as its protocols are those of another address.
fn spoken(sites: &[Served<'_>]) -> Vec<Protocol> {
    let serving = sites.iter().filter(|one| !one.redirects);
    let mut spoken: Vec<Protocol> = serving
        .flat_map(|one| one.site.protocols.iter().copied())
        .collect();
    spoken.sort_unstable();
    spoken.dedup();
    if spoken.is_empty() {
        vec![Protocol::Http1]
    } else {
        spoken
    }
}

pub(super) fn host(written: &Host) -> HostPattern {
    match written {
        Host::Any => HostPattern::Any,
        Host::Exact(host) => HostPattern::Exact(host.clone()),
        Host::Under(host) => HostPattern::Under(host.clone()),
    }
}

/// What listens for requests, before it is said what is spoken there.
pub(super) fn served(
    config: &Config,
    router: Router,
    sites: Vec<site::Site>,
    routes: Vec<site::Route>,
) -> site::Sites {
    site::Sites {
        router,
        sites,
        routes,
        limits: heads(&config.limits),
        head: config.timeouts.head,
        idle: config.timeouts.idle,
        requests: config.limits.requests.unwrap_or(u64::MAX),
        rates: rules::rates(&config.rates),
        http2: http2(&config.http2),
        tunnels: false,
        http1: false,
        h2c: false,
    }
}

/// Limits of heads.
fn heads(written: &config::ProcessLimits) -> HeadLimits {
    HeadLimits {
        head: usize::try_from(written.head).unwrap_or(usize::MAX),
        fields: written.fields,
    }
}

/// What one connection may ask for over HTTP/2.
fn http2(written: &config::Http2) -> site::Http2 {
    let at_least_one = |count| NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN);
    let allowance = |written: config::Allowance| {
        let (count, burst) = (at_least_one(written.count), at_least_one(written.burst));
        TokenRate::new(count, written.every, burst)
    };
    site::Http2 {
        streams: written.streams,
        window: written.window,
        connection_window: written.connection_window,
        resets: allowance(written.resets),
        control: allowance(written.control),
    }
}
