//! What becomes of a request, without serving it: the steps of a request that is served, by the
//! same functions and in the same order.
//!
//! What a configuration alone cannot tell is a [`Condition`]: passwords, the answer of an auth
//! service, how much of a rate limit is used up.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use lockgate_http::fields::{Field, Fields, Known};
use lockgate_http::forwarding::{self, ForwardedClient};
use lockgate_http::h1::framing;
use lockgate_http::head::RequestHead;
use lockgate_http::request_target::RequestTarget;
use lockgate_http::target::Authority;
use lockgate_http::trace::TraceId;
use lockgate_http_io::message::{FieldWriter, OutgoingHead, OutgoingRequest};
use lockgate_limits::PoolIndex;
use lockgate_net::millis::Millis;
use lockgate_net::stream::BufferPool;
use lockgate_net::tls::AcceptorIndex;
use lockgate_rules::{ClientAddress, Cors, RequestValues};
use lockgate_upstream::{AffinityInput, Pool, Preference};

use super::admission::{check_length, check_network, credentials};
use super::dispatch::Backend;
use super::locate::{self, Located, LocatedRoute, Locator, Routeless};
use super::outgoing::apply_request_rules;
use super::refusal::Refusal;
use super::respond::local_response;
use super::traces::remove_doubtful_trace;
use super::{host_name, recipient_of};
use crate::action::forward_auth::ForwardAuth;
use crate::action::forward_proxy::{Connect, JudgedTarget, forward_target, tunnel_target};
use crate::action::proxy::Proxy;
use crate::admit::targets::AskedOfAddresses;
use crate::downstream::client_context::{forwarded_address, is_trusted};
use crate::error_response::HttpFault;
use crate::exchange::ExchangeFailure;
use crate::files::Files;
use crate::request_id::RequestId;
use crate::route::{ListenerSiteIndex, RouteIndex, RouteLoss, SiteLoss};
use crate::site::{Action, Auth, BasicAuthCheck, ListenerSites};

/// The id of a request that brings none: each has its own.
const SAMPLE_ID: &[u8] = b"00000000000000000000000000000000";

/// A request that is not sent.
pub struct AskedRequest<'a> {
    /// Its head.
    pub head: &'a RequestHead,
    /// The id that it gets, if that is known.
    pub id: Option<&'a str>,
    /// The other end of the connection.
    pub peer: ClientAddress,
    /// The address that it has connected to, if that is known.
    pub local: Option<IpAddr>,
    /// Whether forwarding fields of an address are trusted.
    pub trusts: &'a dyn Fn(IpAddr) -> bool,
    /// The pools of its configuration: none where no endpoint is asked for.
    pub pool: &'a dyn Fn(PoolIndex) -> Option<&'a Pool>,
    /// The acceptor of the connection's TLS, if it has TLS.
    pub acceptor: Option<AcceptorIndex>,
    /// The server name in it, if there is one.
    pub server_name: Option<&'a str>,
    /// The addresses of the target of a tunnel, if that is a name and they are known.
    pub addresses: &'a dyn Fn(&Connect, &str) -> Option<Vec<IpAddr>>,
    /// [`lockgate_limits::clock::Clock::now`], or zero for a configuration that does not run.
    pub now: Millis,
    /// How much is asked.
    pub depth: ExplanationDepth,
}

/// How much is asked about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExplanationDepth {
    /// Only what becomes of it.
    Outcome,
    /// Also the sites and routes that it does not belong to, of which there may be thousands.
    Losses,
}

/// What becomes of a request.
pub struct Explanation<'s> {
    /// The client that networks, limits and logs have: none where a trusted proxy names none.
    pub client: ClientAddress,
    /// The site, if the request has come to one.
    pub site: Option<ListenerSiteIndex>,
    /// The route, if the request has come to one.
    pub route: Option<RouteIndex>,
    /// The sites that it does not belong to.
    pub lost_sites: Vec<(ListenerSiteIndex, SiteLoss)>,
    /// The routes of its site that it does not belong to.
    pub lost_routes: Vec<(RouteIndex, RouteLoss)>,
    /// What must be fulfilled for the outcome.
    pub conditions: Vec<Condition<'s>>,
    /// The outcome.
    pub outcome: Outcome<'s>,
}

/// What a configuration alone cannot tell.
pub enum Condition<'s> {
    /// The rate limit is not used up.
    Rate,
    /// The password is right.
    Password(&'s BasicAuthCheck),
    /// The auth service lets the request in.
    Authorized(&'s ForwardAuth),
    /// An address of this name is allowed.
    Addresses(String, AskedOfAddresses),
}

/// The outcome of a request.
pub enum Outcome<'s> {
    /// An error of Lockgate.
    Refused {
        /// Its status.
        status: u16,
        /// Why.
        reason: Cow<'static, str>,
        /// The methods that are allowed, for 405.
        allow: String,
    },
    /// Another response of Lockgate.
    Local {
        /// Its status.
        status: u16,
        /// Where it leads to, for a redirect.
        location: Option<Vec<u8>>,
    },
    /// A file, or what a folder answers instead.
    Folder(&'s Arc<Files>),
    /// An endpoint of a pool.
    Endpoint(ProxiedRequest<'s>),
    /// A tunnel to the target of the request.
    Tunnel(ReachedTarget<'s>),
    /// The target of the request, which gets this head.
    Forward(ReachedTarget<'s>, SentHead),
}

/// The target of a tunnel, or of a request that is forwarded.
pub struct ReachedTarget<'s> {
    /// The settings.
    pub connect: &'s Connect,
    /// A name in lower case, or an address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The addresses that are dialled; none where the name was not looked up.
    pub addresses: Option<Vec<SocketAddr>>,
}

/// A request that an endpoint gets.
pub struct ProxiedRequest<'s> {
    /// The pool of the endpoint, and the timeouts.
    pub proxy: &'s Proxy,
    /// The endpoint that the client prefers: none where the auth service has a say in it.
    pub preference: Option<Preference>,
    /// The head of the request.
    pub sent: SentHead,
}

/// The head of a request as an endpoint gets it.
#[derive(Debug, Default)]
pub struct SentHead {
    /// Path and query.
    pub target: Vec<u8>,
    /// Host and port.
    pub host: Vec<u8>,
    /// The other fields, but for those of the connection.
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
}

impl FieldWriter for SentHead {
    fn copy(&mut self, fields: &Fields, mut passes: impl FnMut(&Field<'_>) -> bool) {
        let passing = fields.iter().filter(|field| passes(field));
        let owned = passing.map(|field| (field.name.to_vec(), field.value.to_vec()));
        self.fields.extend(owned);
    }

    fn add(&mut self, name: &'static str, parts: &[&[u8]]) {
        self.fields.push((name.into(), parts.concat()));
    }
}

impl<'s> Explanation<'s> {
    /// What becomes of `asked` on a listener with these sites.
    pub fn of(sites: &'s ListenerSites, asked: &AskedRequest<'_>) -> Self {
        let mut explanation = Self {
            client: ClientAddress::Unknown,
            site: None,
            route: None,
            lost_sites: Vec::new(),
            lost_routes: Vec::new(),
            conditions: Vec::new(),
            // Until it has been followed.
            outcome: Outcome::local(0),
        };
        let outcome = explanation.follow(sites, asked);
        explanation.outcome = outcome.unwrap_or_else(Outcome::refused);
        explanation
    }

    fn follow(
        &mut self,
        sites: &'s ListenerSites,
        asked: &AskedRequest<'_>,
    ) -> Result<Outcome<'s>, Refusal<'s>> {
        let head = asked.head;
        let is_trusted = is_trusted(&asked.peer, asked.trusts);
        self.client = if is_trusted && !sites.tunnels {
            let named = forwarded_address(asked.peer, &head.fields, asked.trusts);
            named.unwrap_or(ClientAddress::Unknown)
        } else {
            asked.peer
        };
        let told = head.fields.first(Known::XRequestId).filter(|_| is_trusted);
        let told = told.and_then(RequestId::accept);
        let given = asked.id.map_or(SAMPLE_ID, str::as_bytes);
        let id = told.as_ref().map_or(given, RequestId::as_bytes);
        let length = framing::request(head).map_err(Refusal::of_framing)?;
        let (recipient, hops) = recipient_of(head)?;
        let target = RequestTarget::of(head).map_err(|error| Refusal::malformed(&error))?;
        let locator = Locator {
            sites,
            secure: asked.acceptor.is_some(),
        };
        let site = locator.site(head.method, &target);
        self.site = site.as_ref().ok().copied();
        let name = target.authority.as_ref().map(Authority::name);
        if asked.depth == ExplanationDepth::Losses {
            let lost = sites.router.lost_sites(name.as_deref(), self.site);
            self.lost_sites.extend(lost);
        }
        let site = site?;
        if asked
            .acceptor
            .is_some_and(|acceptor| acceptor != sites.site(site).acceptor_index)
        {
            return Err(Refusal::of_other_tls());
        }
        let LocatedRoute {
            index,
            route,
            pattern,
            ..
        } = match self.resource((locator, site), asked, &target, is_trusted)? {
            Located::Route(located) => located,
            Located::Routeless(Routeless::Preflight(cors)) => {
                return Ok(Outcome::local(cors.preflight(&head.fields).status));
            }
            Located::Routeless(_) => return Ok(Outcome::local(204)),
        };
        self.route = Some(index);
        check_network(route, self.client)?;
        if route.admission.limit.is_some() {
            self.conditions.push(Condition::Rate);
        }
        if let Some(Auth::Basic(auth)) = &route.admission.auth {
            credentials(auth, head)?;
            self.conditions.push(Condition::Password(auth));
        }
        check_length(route, length)?;
        let host = host_name(&target, || asked.local);
        let values = RequestValues {
            path: target.path,
            query: target.query,
            host: &host,
            secure: locator.secure,
            method: head.method_name(),
            client: self.client,
            id,
        };
        let mut outgoing = OutgoingHead::of(head, target.host);
        if let Some(hops) = hops {
            forwarding::set_max_forwards(hops, outgoing.change());
        }
        if TraceId::of(&head.fields).is_none() {
            remove_doubtful_trace(&head.fields, &mut outgoing);
        }
        let mut service = None;
        if let Some(Auth::Forward(asked)) = &route.admission.auth {
            self.conditions.push(Condition::Authorized(asked));
            // What the service copies is never the client's; its own is not known.
            asked.admit(&Fields::default(), &mut outgoing);
            service = Some(&**asked);
        }
        let preference = self.preference(asked, &route.action, service, outgoing.fields());
        apply_request_rules(route, &values, &mut outgoing, &BufferPool::new())?;
        if let Some((to, status)) = locate::redirect_of(route, &values) {
            let mut location = Vec::new();
            to.render(&values, &mut location);
            return Ok(Outcome::Local {
                status,
                location: Some(location),
            });
        }
        Ok(match Backend::of(&route.action, recipient, head.method) {
            None => {
                let mut text = Vec::new();
                let local = local_response(route, head.method, &values, &mut text)?;
                Outcome::Local {
                    status: local.status,
                    location: local.location.map(<[u8]>::to_vec),
                }
            }
            Some(Backend::Folder(files)) => Outcome::Folder(files),
            Some(Backend::Tunnel(connect)) => {
                let named = tunnel_target(&target, length);
                match named.and_then(|named| self.reached(connect, named, asked)) {
                    Ok(reached) => Outcome::Tunnel(reached),
                    Err(failure) => Outcome::failed(failure),
                }
            }
            Some(Backend::Forward(connect, forward)) => {
                let sent = OutgoingRequest {
                    received: head,
                    head: &outgoing,
                    target: &target,
                    rewritten: None,
                    length,
                    client: &forward.client,
                    id,
                    cookies: None,
                };
                let named = forward_target(&target, head.secure);
                match named.and_then(|named| self.reached(connect, named, asked)) {
                    Ok(reached) => Outcome::Forward(reached, SentHead::of(&sent)),
                    Err(failure) => Outcome::failed(failure),
                }
            }
            Some(Backend::Endpoint(proxy)) => {
                let peer = match asked.peer {
                    ClientAddress::Ip(ip) => ip.to_string(),
                    ClientAddress::Unix | ClientAddress::Unknown => "unknown".to_owned(),
                };
                let forwarded = ForwardedClient::new(peer, locator.secure, is_trusted);
                let sent = OutgoingRequest {
                    received: head,
                    head: &outgoing,
                    target: &target,
                    rewritten: route.rules.target.rewritten(pattern, &values),
                    length,
                    client: &forwarded,
                    id,
                    cookies: (asked.pool)(proxy.pool)
                        .and_then(|pool| pool.settings.sticky()?.without_ours(outgoing.fields())),
                };
                Outcome::Endpoint(ProxiedRequest {
                    proxy,
                    preference,
                    sent: SentHead::of(&sent),
                })
            }
        })
    }
}

impl<'s> Explanation<'s> {
    /// What is reached at a target: a name that was not looked up is a condition.
    fn reached(
        &mut self,
        connect: &'s Connect,
        (host, port): (String, u16),
        asked: &AskedRequest<'_>,
    ) -> Result<ReachedTarget<'s>, ExchangeFailure> {
        let addresses = match connect.judge(&host, port)? {
            JudgedTarget::Address(address) => Some(vec![address]),
            JudgedTarget::Name => match (asked.addresses)(connect, &host) {
                Some(found) => Some(connect.admitted(&host, port, &found)?),
                None => {
                    let rules = connect.targets.asked_of_addresses(&host, port);
                    let condition = Condition::Addresses(host.clone(), rules);
                    self.conditions.push(condition);
                    None
                }
            },
        };
        Ok(ReachedTarget {
            connect,
            host,
            port,
            addresses,
        })
    }

    /// The endpoint that the client prefers, by the fields that the auth service vouches for, if
    /// there is one; none where it depends on one that the service sets.
    fn preference(
        &self,
        asked: &AskedRequest<'_>,
        action: &Action,
        service: Option<&ForwardAuth>,
        fields: &Fields,
    ) -> Option<Preference> {
        let Action::Proxy(proxy) = action else {
            return None;
        };
        let pool = (asked.pool)(proxy.pool)?;
        if let Some((affinity, service)) = pool.settings.affinity.as_ref().zip(service)
            && service.copy.iter().any(|name| affinity.reads(name))
        {
            return None;
        }
        let affinity_input = AffinityInput {
            client: self.client.key(),
            server_name: asked.server_name,
            session: None,
            fields: Some(if service.is_some() {
                fields
            } else {
                &asked.head.fields
            }),
        };
        Some(pool.preference(&affinity_input, asked.now))
    }

    /// The resource of the request, and the routes that it does not belong to.
    fn resource<'e>(
        &mut self,
        (locator, site): (Locator<'s>, ListenerSiteIndex),
        asked: &AskedRequest<'_>,
        target: &'e RequestTarget<'e>,
        is_trusted: bool,
    ) -> Result<Located<'e, 's>, Refusal<'s>> {
        let head = asked.head;
        let located = locator.resource(site, head, target, || is_trusted);
        if asked.depth == ExplanationDepth::Outcome {
            return located;
        }
        let path = if locator.sites.tunnels {
            Cow::Borrowed(&b"/"[..])
        } else if let Ok((path, _)) = locate::routed_path(target) {
            path
        } else {
            return located;
        };
        let (won, method) = match &located {
            Ok(Located::Route(located)) => (Some(located.index), head.method_name()),
            Ok(Located::Routeless(Routeless::Server)) => return located,
            _ => {
                // Without rules for it a preflight is a request of its own method.
                let is_preflight =
                    matches!(&located, Ok(Located::Routeless(Routeless::Preflight(_))));
                let wanted = Cors::preflight_method(head).filter(|_| is_preflight);
                let method = wanted.unwrap_or_else(|| head.method_name());
                let found = locator.sites.router.route(site, method, &path);
                (found.ok().map(|found| found.route), method)
            }
        };
        let lost = locator.sites.router.lost_routes(site, method, &path, won);
        self.lost_routes.extend(lost);
        located
    }
}

impl Outcome<'_> {
    fn local(status: u16) -> Self {
        Self::Local {
            status,
            location: None,
        }
    }

    fn failed(failure: ExchangeFailure) -> Self {
        let fault = failure.fault.unwrap_or(HttpFault::Malformed);
        let reason = failure.detail;
        Self::Refused {
            status: fault.status(),
            reason: if reason.is_empty() {
                fault.detail().into()
            } else {
                reason
            },
            allow: String::new(),
        }
    }

    fn refused(refusal: Refusal<'_>) -> Self {
        let Refusal {
            fault,
            detail,
            status,
            allow,
            ..
        } = refusal;
        Self::Refused {
            status: status.unwrap_or_else(|| fault.status()),
            reason: if detail.is_empty() {
                fault.detail().into()
            } else {
                detail
            },
            allow,
        }
    }
}

impl SentHead {
    fn of(request: &OutgoingRequest<'_>) -> Self {
        let (path, query) = request.path_and_query();
        let mut sent = Self {
            target: match query {
                None => path.to_vec(),
                Some(query) => [path, query].join(&b'?'),
            },
            host: request.host().to_vec(),
            fields: Vec::new(),
        };
        request.write_fields(&mut sent);
        sent
    }
}
