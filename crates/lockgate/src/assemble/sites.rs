//! Sites as they run: sites on one address become one listener, with one table of hosts and paths.

use std::sync::Arc;
use std::time::Duration;

use foldhash::{HashMap, HashMapExt, HashSet};
use lockgate_config as config;
use lockgate_config::{Code, Config, ListenAddr, Protocol, SiteListener, SourceSpan};
use lockgate_http::h1::HeadLimits;
use lockgate_limits::PoolIndex;
use lockgate_net::tls::AcceptorIndex;
use lockgate_proxy::action::forward_auth::ForwardAuth;
use lockgate_proxy::action::proxy::Proxy;
use lockgate_proxy::downstream::{ListenerService, ListenerSettings, SecureSites};
use lockgate_proxy::error_response::ErrorPages;
use lockgate_proxy::metrics::http::SiteIndex;
use lockgate_proxy::route::{
    Clash, ListenerSiteIndex, RouteEntry, RouteIndex, Router, SiteRoutes, Unreachable,
};
use lockgate_proxy::rules::RouteRules;
use lockgate_proxy::site::{self, Action, Admission, Auth, SiteMaintenance};
use lockgate_rules::{HostPattern, Pattern};
use lockgate_upstream::Pool;

use super::files::{AssembledFiles, folder};
use super::rules::{self, SharedRules};
use super::shared_states::SettingUser;
use super::tls::Neighbours;
use super::{Assembler, DEFERRED, PlannedListener, Reusable, address, counted, options};

/// The state that the sites of all listeners share.
pub(super) struct AssembledSites<'a> {
    pub(super) upstreams: Vec<Arc<Pool>>,
    /// The index in `upstreams` of each pool, by its number in the configuration.
    numbers: HashMap<usize, PoolIndex>,
    pub(super) guards: SharedRules<'a>,
    pub(super) files: AssembledFiles<'a>,
    /// The maintenance of each site and tunnel, by its name.
    pub(super) maintenance: HashMap<String, SiteMaintenance>,
}

/// The time limit of an authorization service where the site's responses have none.
const AUTH_LIMIT: Duration = Duration::from_secs(60);

impl<'a> AssembledSites<'a> {
    /// The sites of `config`, with the state of `previous` that its routes still have.
    pub(super) fn after(previous: &'a Reusable, config: &Config) -> Self {
        Self {
            upstreams: Vec::new(),
            numbers: HashMap::new(),
            guards: SharedRules::after(&previous.rules, config),
            files: AssembledFiles::after(&previous.files),
            maintenance: counted(config)
                .map(|site| {
                    let running = previous.maintenance.get(site);
                    (site.clone(), running.cloned().unwrap_or_default())
                })
                .collect(),
        }
    }

    /// The maintenance of the site or tunnel with this name.
    pub(super) fn maintenance_of(&self, name: &str) -> SiteMaintenance {
        self.maintenance.get(name).cloned().unwrap_or_default()
    }
}

/// One site at one address.
#[derive(Clone, Copy)]
pub(super) struct SiteAtAddress<'a> {
    pub(super) site: &'a config::HostedSite,
    /// Its index among the sites of the configuration, which the process counts first.
    index: SiteIndex,
    /// Whether its requests are only redirected to HTTPS here.
    redirects: bool,
}

/// The hosts, sites and routes of a listener while they are collected.
struct SiteTable {
    hosts: Vec<SiteRoutes>,
    sites: Vec<site::Site>,
    routes: Vec<site::Route>,
    /// The places of the sites and routes in the configuration, for mistakes.
    site_places: Vec<SourceSpan>,
    route_places: Vec<SourceSpan>,
    /// The route of all sites that are only redirected, if there are any.
    redirect: Option<RouteIndex>,
}

impl Assembler<'_> {
    /// The listeners of all sites, each address once.
    pub(super) fn site_listeners(&mut self) -> Vec<PlannedListener> {
        let mut addresses: Vec<(&ListenAddr, bool, Vec<SiteAtAddress<'_>>)> = Vec::new();
        let mut places = HashMap::new();
        for (index, site) in SiteIndex::enumerate(&self.config.sites) {
            for SiteListener {
                addr,
                secure,
                redirects,
            } in &site.listen
            {
                let served = SiteAtAddress {
                    site,
                    index,
                    redirects: *redirects,
                };
                let place = *places.entry((addr, secure)).or_insert_with(|| {
                    addresses.push((addr, *secure, Vec::new()));
                    addresses.len() - 1
                });
                if let Some((_, _, sites)) = addresses.get_mut(place) {
                    sites.push(served);
                }
            }
        }
        let (relays, tunnels) = (&self.config.tcp, &self.config.tunnels);
        let relays = relays.iter().map(|tcp| tcp.name.clone());
        let tunnels = tunnels.iter().map(|tunnel| tunnel.name.clone());
        let mut taken: HashSet<String> = relays.chain(tunnels).collect();
        let mut listeners: Vec<PlannedListener> = Vec::new();
        for (addr, secure, sites) in addresses {
            if secure
                && self
                    .config
                    .tcp
                    .iter()
                    .any(|tcp| tcp.by_hello().is_some() && tcp.listen == *addr)
            {
                // The listener of the `[tcp]` table serves them, by their names.
                continue;
            }
            // Only with port 0 can TLS and plain HTTP, or a relay, have the same text.
            let mut name = addr.to_string();
            if taken.contains(&name) {
                name.push_str(if secure { " tls" } else { " http" });
            }
            taken.insert(name.clone());
            listeners.extend(self.site_listener(name, addr, secure, &sites));
        }
        listeners
    }

    fn site_listener(
        &mut self,
        name: String,
        addr: &ListenAddr,
        secure: bool,
        sites: &[SiteAtAddress<'_>],
    ) -> Option<PlannedListener> {
        let config = self.config;
        let first = sites.first()?.site;
        let spoken = protocols_of(sites);
        let (tls, table) = if secure {
            let SecureSites { tls, sites } = self.secure_sites(sites, Neighbours::Sites)?;
            (Some(tls), sites)
        } else {
            (None, self.table(sites, &spoken)?)
        };
        let listener = ListenerSettings {
            name,
            tls,
            accept_proxy: first.accept_proxy,
            handshake: config.timeouts.handshake,
            service: ListenerService::Http(Box::new(table)),
        };
        Some(PlannedListener {
            listener: Arc::new(listener),
            address: address(addr),
            // Clients send first, with TLS and without.
            options: options(&config.socket, Some(DEFERRED)),
            alpn: if secure {
                offered_alpn(sites)
            } else {
                Vec::new()
            },
            plain: if secure { Vec::new() } else { spoken },
            at: first.at.clone(),
        })
    }

    /// Sites on one address, with their TLS.
    pub(super) fn secure_sites(
        &mut self,
        sites: &[SiteAtAddress<'_>],
        neighbours: Neighbours,
    ) -> Option<SecureSites> {
        let written: Vec<_> = sites.iter().map(|one| one.site).collect();
        let tls = self
            .rings
            .acceptors(&mut self.mistakes, &written, neighbours, &mut self.wanted);
        // The mistakes of both are reported at once.
        let table = self.table(sites, &protocols_of(sites));
        let ((tls, indexes), mut table) = (tls?, table?);
        for (site, index) in table.sites.iter_mut().zip(indexes) {
            site.acceptor_index = index;
        }
        Some(SecureSites { tls, sites: table })
    }

    fn table(
        &mut self,
        sites: &[SiteAtAddress<'_>],
        spoken: &[Protocol],
    ) -> Option<site::ListenerSites> {
        let config = self.config;
        let mut table = SiteTable::with_room_for(sites);
        let mut whole = true;
        for one in sites.iter().filter(|one| !one.redirects) {
            let hosts = one.site.hosts.clone();
            whole &= self.serve(&mut table, one, hosts).is_some();
        }
        let mut redirected = sites.iter().filter(|one| one.redirects).peekable();
        let mut taken = HashSet::default();
        if redirected.peek().is_some() {
            let served_hosts = table.hosts.iter().flat_map(|site| &site.hosts);
            taken.extend(served_hosts.cloned());
        }
        for one in redirected {
            // A host that is served on this address is not redirected.
            let hosts = one.site.hosts.iter().filter(|host| !taken.contains(host));
            let hosts: Vec<HostPattern> = hosts.cloned().collect();
            taken.extend(hosts.iter().cloned());
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
        whole.then(|| site::ListenerSites {
            http1: spoken.contains(&Protocol::Http1),
            h2c: spoken.contains(&Protocol::H2c),
            ..served(config, router, table.sites, table.routes)
        })
    }

    fn unreachable(&mut self, table: &SiteTable, unreachable: &[Unreachable]) {
        for one in unreachable {
            let at = match one {
                Unreachable::Connect { route, .. } => table.route_place(*route),
                Unreachable::Site { site } | Unreachable::Host { site, .. } => {
                    table.site_place(*site)
                }
            };
            if let Some(at) = at {
                self.mistakes.warn(
                    Code::Unreachable,
                    at,
                    "no request can reach this",
                    &one.to_string(),
                    "",
                );
            }
        }
    }

    fn ambiguous(&mut self, table: &SiteTable, clashes: &[Clash]) {
        for clash in clashes {
            let (first, second) = match clash {
                Clash::Host { sites: (a, b), .. } => (table.site_place(*a), table.site_place(*b)),
                Clash::Route { routes: (a, b), .. } => {
                    (table.route_place(*a), table.route_place(*b))
                }
            };
            let (Some(first), Some(second)) = (first, second) else {
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
        table: &mut SiteTable,
        served: &SiteAtAddress<'_>,
        hosts: Vec<HostPattern>,
    ) -> Option<()> {
        let site = served.site;
        let pool_users = pool_users(site);
        let mut own = Vec::new();
        let mut whole = Some(());
        for route in &site.routes {
            let Some(made) = self.route(site, route, &pool_users) else {
                whole = None;
                continue;
            };
            let method = route
                .method
                .as_ref()
                .map(|method| method.clone().into_bytes());
            own.push(RouteEntry {
                method,
                pattern: route.pattern.clone(),
                value: RouteIndex::new(table.routes.len()),
            });
            table.routes.push(made);
            table.route_places.push(route.at.clone());
        }
        let pages = self
            .sites
            .guards
            .pages(&mut self.mistakes, &site.error_pages)?;
        let maintenance = self.sites.maintenance_of(&site.name);
        table.add(served, hosts, own, (pages, maintenance));
        whole
    }

    /// Adds a site that is only redirected.
    fn redirect(
        &mut self,
        table: &mut SiteTable,
        served: &SiteAtAddress<'_>,
        hosts: Vec<HostPattern>,
    ) {
        let value = *table.redirect.get_or_insert_with(|| {
            table.routes.push(site::Route {
                name: String::new(),
                action: Action::Secure(self.config.ports.https),
                admission: Admission::default(),
                rules: rules::defaults(self.config.rates),
            });
            table.route_places.push(served.site.at.clone());
            RouteIndex::new(table.routes.len() - 1)
        });
        let rule = RouteEntry {
            method: None,
            pattern: Pattern::everything(),
            value,
        };
        let maintenance = self.sites.maintenance_of(&served.site.name);
        table.add(served, hosts, vec![rule], (Arc::default(), maintenance));
    }

    fn route(
        &mut self,
        site: &config::HostedSite,
        route: &config::SiteRoute,
        pool_users: &PoolUsers<'_>,
    ) -> Option<site::Route> {
        // After each mistake, the other mistakes are reported.
        let guards = &mut self.sites.guards;
        let rules = guards.rules(&mut self.mistakes, &site.name, route, &self.fetcher);
        let action = self.action(site, route, pool_users, rules.as_ref());
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
        let (whole, auth) = (auth.is_some(), auth.flatten());
        let admission = self.sites.guards.admission(&site.name, route, auth);
        let (action, rules) = (action?, rules.filter(|_| whole)?);
        Some(site::Route {
            name: route.name.clone(),
            action,
            admission,
            rules,
        })
    }

    /// The action of a route; that of files depends on its `rules`.
    fn action(
        &mut self,
        site: &config::HostedSite,
        route: &config::SiteRoute,
        pool_users: &PoolUsers<'_>,
        rules: Option<&RouteRules>,
    ) -> Option<Action> {
        match &route.action {
            config::RouteAction::Proxy(pool) => {
                let user = match pool_users.get(pool) {
                    Some(route) if !route.is_empty() => [&*site.name, " ", route].concat(),
                    _ => site.name.clone(),
                };
                self.proxy(*pool, &user, &route.rules.timeouts)
                    .map(Action::Proxy)
            }
            config::RouteAction::Files(files) => {
                let is_usable = folder(&mut self.mistakes, files);
                let rules = rules.filter(|_| is_usable)?;
                let user = SettingUser::route(&site.name, route);
                Some(Action::Files(self.sites.files.files(user, files, rules)))
            }
            config::RouteAction::Redirect { to, status } => Some(Action::Redirect {
                to: to.clone(),
                status: *status,
            }),
            config::RouteAction::Respond(response) => Some(Action::Respond(response.clone())),
        }
    }

    fn forward_auth(
        &mut self,
        site: &config::HostedSite,
        written: &config::AuthService,
        timeouts: &config::Timeouts,
    ) -> Option<ForwardAuth> {
        let pool = self.upstream(written.pool, &format!("{} auth", site.name))?;
        let config::Timeouts {
            connect, response, ..
        } = *timeouts;
        // The client waits for the verdict, so it has a limit also where responses have none.
        let whole = Some(response.unwrap_or(AUTH_LIMIT));
        Some(ForwardAuth {
            proxy: Proxy {
                pool,
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
            rules: rules::defaults(self.config.rates),
        })
    }

    fn proxy(&mut self, number: usize, user: &str, timeouts: &config::Timeouts) -> Option<Proxy> {
        let pool = self.upstream(number, user)?;
        let config::Timeouts {
            connect,
            response,
            tunnel_idle,
            ..
        } = *timeouts;
        Some(Proxy {
            pool,
            connect,
            response,
            whole: None,
            tunnel_idle,
        })
    }

    /// The index of a pool in `upstreams`; `user` is the name of a pool that has none of its own.
    fn upstream(&mut self, number: usize, user: &str) -> Option<PoolIndex> {
        let pool = self
            .pools
            .pool(&mut self.mistakes, self.config, number, user)?;
        Some(*self.sites.numbers.entry(number).or_insert_with(|| {
            self.sites.upstreams.push(pool);
            PoolIndex::new(self.sites.upstreams.len() - 1)
        }))
    }
}

/// The last route of a site that uses each pool, by the pool's number: a pool without a name has that
/// of its site and of this route.
type PoolUsers<'a> = HashMap<usize, &'a str>;

fn pool_users(site: &config::HostedSite) -> PoolUsers<'_> {
    // The site's own route comes last.
    let users = site.routes.iter().filter_map(|route| match route.action {
        config::RouteAction::Proxy(pool) => Some((pool, route.name.as_str())),
        _ => None,
    });
    users.collect()
}

impl SiteTable {
    fn with_room_for(sites: &[SiteAtAddress<'_>]) -> Self {
        let served = sites.iter().filter(|one| !one.redirects);
        let routes = served.map(|one| one.site.routes.len()).sum();
        Self {
            hosts: Vec::with_capacity(sites.len()),
            sites: Vec::with_capacity(sites.len()),
            routes: Vec::with_capacity(routes),
            site_places: Vec::with_capacity(sites.len()),
            route_places: Vec::with_capacity(routes),
            redirect: None,
        }
    }

    fn site_place(&self, site: ListenerSiteIndex) -> Option<&SourceSpan> {
        self.site_places.get(site.get())
    }

    fn route_place(&self, route: RouteIndex) -> Option<&SourceSpan> {
        self.route_places.get(route.get())
    }

    fn add(
        &mut self,
        served: &SiteAtAddress<'_>,
        hosts: Vec<HostPattern>,
        routes: Vec<RouteEntry>,
        (pages, maintenance): (Arc<ErrorPages>, SiteMaintenance),
    ) {
        self.hosts.push(SiteRoutes { hosts, routes });
        let name = served.site.name.clone();
        self.sites.push(site::Site {
            name,
            index: served.index,
            log: served.site.access_log,
            pages,
            acceptor_index: AcceptorIndex::new(0),
            maintenance,
        });
        self.site_places.push(served.site.at.clone());
    }
}

/// The sites with TLS on the address of `tcp`.
pub(super) fn tls_sites_at<'a>(config: &'a Config, tcp: &config::Tcp) -> Vec<SiteAtAddress<'a>> {
    let is_here = |site: &config::HostedSite| {
        site.listen
            .iter()
            .any(|at| at.secure && at.addr == tcp.listen)
    };
    let sites = SiteIndex::enumerate(&config.sites).filter(|(_, site)| is_here(site));
    sites
        .map(|(index, site)| SiteAtAddress {
            site,
            index,
            redirects: false,
        })
        .collect()
}

/// The protocols that the sites offer by ALPN.
pub(super) fn offered_alpn(sites: &[SiteAtAddress<'_>]) -> Vec<String> {
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

/// The protocols of the sites on an address. Sites that only redirect there do not count: their
/// protocols are those of another address.
fn protocols_of(sites: &[SiteAtAddress<'_>]) -> Vec<Protocol> {
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

/// Sites with the settings that all listeners share, and no protocol yet.
pub(super) fn served(
    config: &Config,
    router: Router,
    sites: Vec<site::Site>,
    routes: Vec<site::Route>,
) -> site::ListenerSites {
    site::ListenerSites {
        router,
        sites,
        routes,
        limits: head_limits(&config.limits),
        head: config.timeouts.head,
        idle: config.timeouts.idle,
        max_requests: config.limits.requests.unwrap_or(u64::MAX),
        rates: config.rates,
        http2: config.http2,
        tunnels: false,
        http1: false,
        h2c: false,
    }
}

fn head_limits(written: &config::ProcessLimits) -> HeadLimits {
    HeadLimits {
        head: usize::try_from(written.head).unwrap_or(usize::MAX),
        fields: written.fields,
    }
}
