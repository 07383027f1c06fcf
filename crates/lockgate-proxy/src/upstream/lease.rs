//! The idle connections of one worker to the endpoints of one pool, and the lease of one for a
//! request.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockgate_net::stream::{Blocks, Stream};

use super::h2_pool::{LeasedStream, H2Pool};
use super::socket_slots::IdleSockets;
use super::{
    DialError, Endpoint, ConnectionPermit, InFlight, IdleSettings, Member, WaitBudget, Pool, Random, Retry, Settings,
    SocketSlot, SocketSlots, ReusePolicy, UpstreamConnection, Preference,
};
use crate::box_future::boxed;
use crate::clients::Account;
use crate::clock::Guard;
use crate::h1::H1Connection;
use crate::limits::sockets::Share;
use crate::member_set::MemberSet;
use crate::metrics::http::{HttpCells, SiteCells};

/// The most hundredths of a retry that are saved up, and the initial number: so that the first
/// failures after a quiet time can be retried.
const SAVED: u32 = 1_000;

/// Milliseconds for which a superfluous connection is kept.
const MOMENT: u64 = 1_000;

/// A pool with the connections of one worker.
pub struct UpstreamPool {
    pool: Arc<Pool>,
    /// The index of its first member among the process's, for counters; none where nothing is
    /// counted by endpoint.
    first: Option<usize>,
    blocks: Rc<Blocks>,
    slots: Rc<SocketSlots>,
    random: Random,
    /// Hundredths of a retry. Each worker has its own: the same share of each worker's requests is
    /// that share of all.
    budget: Cell<u32>,
    /// The idle connections to each member; the one used last is taken first, so that superfluous
    /// ones become old.
    idle: Box<[RefCell<VecDeque<IdleConnection>>]>,
    /// The HTTP/2 connections to each member, where it speaks that.
    shared: Box<[Rc<H2Pool>]>,
}

struct IdleConnection {
    link: Box<H1Connection>,
    slot: SocketSlot,
    since: u64,
    requests: u64,
}

impl fmt::Debug for UpstreamPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpstreamPool")
            .field("pool", &self.pool)
            .finish_non_exhaustive()
    }
}

/// The right to send one request over a connection; dropping it closes the connection, or its
/// stream where others share it.
#[derive(Debug)]
pub struct Lease {
    /// The connection.
    pub link: UpstreamConnection,
    /// Earlier requests on it.
    pub requests: u64,
    /// The time to make it, if it is new.
    pub dialled: Option<Duration>,
    in_flight: InFlight,
    permit: ConnectionPermit,
    /// Whether the endpoint was avoided when it was chosen.
    avoided: bool,
    member: usize,
    upstream: Rc<UpstreamPool>,
}

impl UpstreamPool {
    /// A pool without connections. Its first member has the index `first` among the process's.
    pub fn new(pool: Arc<Pool>, first: usize, blocks: &Rc<Blocks>, slots: &Rc<SocketSlots>) -> Rc<Self> {
        let upstream = Self::at(Some(first), pool, blocks, slots);
        let keeper = Rc::downgrade(&upstream) as Weak<dyn IdleSockets>;
        slots.register(keeper);
        upstream
    }

    fn at(
        first: Option<usize>,
        pool: Arc<Pool>,
        blocks: &Rc<Blocks>,
        slots: &Rc<SocketSlots>,
    ) -> Rc<Self> {
        let idle = pool.members().iter().map(|_| RefCell::default()).collect();
        let shared = pool
            .members()
            .iter()
            .filter(|_| pool.settings.http2)
            .map(|_| Rc::default())
            .collect();
        let (blocks, slots) = (Rc::clone(blocks), Rc::clone(slots));
        let (random, budget) = (Random::new(), Cell::new(SAVED));
        Rc::new(Self {
            pool,
            first,
            blocks,
            slots,
            random,
            budget,
            idle,
            shared,
        })
    }

    /// The pool of a single request: `link` leads to `endpoint`, and is not kept. Nothing is counted
    /// by endpoint.
    pub fn single_use(
        (link, slot): (Box<H1Connection>, SocketSlot),
        endpoint: Arc<Endpoint>,
        blocks: &Rc<Blocks>,
        now: u64,
    ) -> Rc<Self> {
        let idle_settings = IdleSettings {
            max: 0,
            ..IdleSettings::default()
        };
        let retry = Retry {
            times: 0,
            budget: 0,
        };
        let settings = Settings {
            idle_settings,
            retry,
            ..Settings::default()
        };
        let pool = Pool::new(vec![Member::new(endpoint, 1)], None, None, settings);
        let upstream = Self::at(None, Arc::new(pool), blocks, slot.slots());
        let idle = IdleConnection {
            link,
            slot,
            since: now,
            requests: 0,
        };
        if let Some(first) = upstream.idle.first() {
            first.borrow_mut().push_back(idle);
        }
        upstream
    }

    /// The pool.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Leases a connection to the next endpoint, or to that of `preference`: an idle one, if it is
    /// alive, else a new one, on which `header` goes first. It uses the share of `share_of`, if that
    /// is limited, and waits within `wait_budget`. Members in `tried` are skipped, and those that are
    /// tried now are added. `http` and `site` count unreachable endpoints and waiting requests.
    ///
    /// # Errors
    /// When no endpoint can be reached in time.
    pub async fn lease(
        self: &Rc<Self>,
        (guard, share_of, wait_budget): (&Guard, Option<&Arc<Account>>, &WaitBudget),
        connect: Duration,
        reuse: ReusePolicy,
        header: &[u8],
        (preference, tried): (Preference, &mut MemberSet),
        (http, site): (&HttpCells, &SiteCells),
    ) -> Result<Lease, DialError> {
        // Requests on shared connections use hardly any sockets.
        let mut share = match self
            .slots
            .try_share(share_of.filter(|_| !self.pool.settings.http2))
        {
            Ok(share) => share,
            Err(account) => Some(boxed(|| self.wait_for_share(account, guard, wait_budget, site)).await?),
        };
        let mut last = None;
        // `tried` has no room for members behind the 64th: the number of attempts is that of members.
        for _ in self.pool.members() {
            let now = guard.clock().now();
            let (member, permit) = match self.pool.choose(preference, *tried, self.random.next(), now) {
                Some(chosen) => chosen,
                None => match boxed(|| self.queue((guard, wait_budget), preference, *tried, site)).await {
                    Ok(chosen) => chosen,
                    Err(error @ DialError::Cut(_)) => return Err(error),
                    Err(error) => return Err(last.unwrap_or(error)),
                },
            };
            tried.insert(member);
            if self.pool.settings.http2 {
                let in_flight = permit.endpoint().begin_request();
                match boxed(|| self.lease_stream(member, permit, in_flight, guard, connect, reuse)).await {
                    Err(error @ DialError::Failed { .. }) => {
                        self.unreachable(member, &error, http);
                        last = Some(error);
                    }
                    done => return done,
                }
                continue;
            }
            if !matches!(reuse, ReusePolicy::New(_))
                && let Some(IdleConnection {
                    link,
                    slot,
                    requests,
                    ..
                }) = self.take_idle(member, now, reuse == ReusePolicy::Alive)
            {
                let permit = permit.with_slot(slot).with_share(share);
                return Ok(Lease::reuse(
                    UpstreamConnection::H1(link),
                    permit,
                    requests,
                    member,
                    Rc::clone(self),
                    now,
                ));
            }
            let in_flight = permit.endpoint().begin_request();
            match boxed(|| {
                self.dial(
                    member,
                    permit,
                    in_flight,
                    (guard, wait_budget),
                    connect,
                    header,
                    site,
                )
            })
            .await
            {
                // Nothing was sent: another endpoint may be tried.
                Err(error @ DialError::Failed { .. }) => {
                    self.unreachable(member, &error, http);
                    last = Some(error);
                }
                Ok(mut lease) => {
                    lease.permit = lease.permit.with_share(share.take());
                    return Ok(lease);
                }
                done => return done,
            }
        }
        Err(last.unwrap_or(DialError::Down))
    }

    fn unreachable(&self, member: usize, error: &DialError, http: &HttpCells) {
        if let Some(cells) = http.endpoint(self.endpoint_index(member)) {
            cells.failed(error.fault());
        }
    }

    /// Waits for a place at an untried member.
    async fn queue(
        &self,
        (guard, wait_budget): (&Guard, &WaitBudget),
        preference: Preference,
        tried: MemberSet,
        site: &SiteCells,
    ) -> Result<(usize, ConnectionPermit), DialError> {
        let _waiting = QueuedRequest::begin(site);
        self.pool.queue(guard, wait_budget, preference, tried).await
    }

    /// Waits for the client's share of sockets.
    async fn wait_for_share(
        &self,
        account: &Arc<Account>,
        guard: &Guard,
        wait_budget: &WaitBudget,
        site: &SiteCells,
    ) -> Result<Share, DialError> {
        let _waiting = QueuedRequest::begin(site);
        self.slots.wait_for_share(account, guard, wait_budget).await
    }

    /// Takes a place for one more socket.
    async fn slot(
        &self,
        guard: &Guard,
        wait_budget: &WaitBudget,
        site: &SiteCells,
    ) -> Result<SocketSlot, DialError> {
        if let Some(slot) = self.slots.try_take() {
            return Ok(slot);
        }
        let _waiting = QueuedRequest::begin(site);
        self.slots.take(guard, wait_budget).await
    }

    #[expect(clippy::too_many_arguments, reason = "what a dial is made of")]
    async fn dial(
        self: &Rc<Self>,
        member: usize,
        permit: ConnectionPermit,
        in_flight: InFlight,
        (guard, wait_budget): (&Guard, &WaitBudget),
        connect: Duration,
        header: &[u8],
        site: &SiteCells,
    ) -> Result<Lease, DialError> {
        let permit = permit.with_slot(self.slot(guard, wait_budget, site).await?);
        let began = Instant::now();
        let avoided = permit.endpoint().is_avoided(guard.clock().now());
        let dialled = self
            .pool
            .attempt(permit, &self.slots, (guard, wait_budget), connect, header)
            .await?;
        let before_tls = dialled.session.is_some();
        let stream = Stream::new(dialled.socket, dialled.session, Vec::new());
        let mut link = Box::new(H1Connection::new(stream, &self.blocks, &[]));
        if !before_tls {
            link.writer.head().extend_from_slice(header);
        }
        let link = UpstreamConnection::H1(link);
        let (dialled, permit, upstream) = (Some(began.elapsed()), dialled.permit, Rc::clone(self));
        Ok(Lease {
            link,
            requests: 0,
            dialled,
            avoided,
            in_flight,
            permit,
            member,
            upstream,
        })
    }

    /// Leases a stream on a shared connection; where none has room, waits for one more connection.
    async fn lease_stream(
        self: &Rc<Self>,
        member: usize,
        permit: ConnectionPermit,
        in_flight: InFlight,
        guard: &Guard,
        connect: Duration,
        reuse: ReusePolicy,
    ) -> Result<Lease, DialError> {
        let (began, permit) = (Instant::now(), permit.without_connection());
        let avoided = permit.endpoint().is_avoided(guard.clock().now());
        let (h2_pool, idle_settings) = (&self.shared[member], self.pool.settings.idle_settings);
        let (mut reuse, mut waited, mut dialled) = (reuse, false, None);
        loop {
            if let Some(LeasedStream { call, requests }) = h2_pool.reserve(reuse, idle_settings) {
                let (link, upstream) = (UpstreamConnection::H2(call), Rc::clone(self));
                let requests = if waited { 0 } else { requests };
                return Ok(Lease {
                    link,
                    requests,
                    dialled,
                    avoided,
                    in_flight,
                    permit,
                    member,
                    upstream,
                });
            }
            // For the connect, TLS, and SETTINGS; more where other requests take the streams first.
            guard.phase(
                connect
                    .saturating_mul(4)
                    .saturating_add(self.pool.settings.queue.wait),
            );
            let endpoint = Arc::clone(permit.endpoint());
            let made = h2_pool.wait_for_connection(
                &self.pool,
                &endpoint,
                (&self.blocks, &self.slots),
                guard,
                connect,
            );
            let first = made.await?;
            // A new connection is alive.
            if reuse == ReusePolicy::Alive {
                reuse = ReusePolicy::Any;
            }
            waited = true;
            dialled = dialled.or(first.then(|| began.elapsed()));
        }
    }

    fn take_idle(&self, member: usize, now: u64, certain: bool) -> Option<IdleConnection> {
        let mut idle = self.idle[member].borrow_mut();
        while let Some(last) = idle.pop_back() {
            if is_alive(&last.link, certain)
                && now.saturating_sub(last.since) < self.pool.settings.idle_settings.lifetime
            {
                return Some(last);
            }
        }
        None
    }

    /// Whether a member outside `tried` is up and has room.
    pub fn has_another(&self, tried: MemberSet) -> bool {
        let members = self.pool.members().iter().enumerate();
        let mut usable = members.filter(|(at, member)| member.is_up() && !tried.contains(*at));
        usable.any(|(_, member)| !member.endpoint().is_full())
    }

    /// Takes one retry from the budget; returns whether there was one.
    pub fn may_retry(&self) -> bool {
        let left = self.budget.get().checked_sub(100);
        self.budget.set(left.unwrap_or(self.budget.get()));
        left.is_some()
    }

    /// Counts a request, which adds its share to the budget of retries.
    pub fn count_request(&self) {
        let saved = self.budget.get() + u32::from(self.pool.settings.retry.budget);
        self.budget.set(saved.min(SAVED));
    }

    /// The index of a member among the process's.
    fn endpoint_index(&self, member: usize) -> Option<usize> {
        self.first.map(|first| first + member)
    }

    /// For each member, its index among the process's and the number of idle connections to it.
    pub fn idle_connections(&self) -> impl Iterator<Item = (Option<usize>, usize)> {
        self.idle.iter().enumerate().map(|(member, idle)| {
            let shared = self.shared.get(member).map_or(0, |shared| shared.count().0);
            (self.endpoint_index(member), idle.borrow().len() + shared)
        })
    }

    /// Whether there are connections, which need ticks.
    pub fn has_connections(&self) -> bool {
        self.idle.iter().any(|idle| !idle.borrow().is_empty())
            || self.shared.iter().any(|shared| shared.count().1 > 0)
    }

    /// Closes connections that have been idle for too long, were closed by their endpoint, or are
    /// superfluous.
    ///
    /// Superfluous ones are closed only here and not at once: after a thousand concurrent requests
    /// all connections are idle for a moment, and new ones for the next thousand would cost more
    /// than everything else.
    pub fn close_stale(&self, now: u64) {
        let idle_settings = self.pool.settings.idle_settings;
        for shared in &self.shared {
            shared.close_stale(idle_settings, now);
        }
        for idle in &self.idle {
            let mut idle = idle.borrow_mut();
            // The oldest are at the front.
            let spare = idle.len().saturating_sub(idle_settings.max);
            let mut place = 0;
            idle.retain(|one| {
                place += 1;
                let age = now.saturating_sub(one.since);
                age < idle_settings.lifetime
                    && (place > spare || age < MOMENT)
                    && one.link.stream.is_quiet()
            });
        }
    }
}

impl IdleSockets for UpstreamPool {
    fn oldest(&self) -> Option<u64> {
        let own = self
            .idle
            .iter()
            .filter_map(|idle| idle.borrow().front().map(|one| one.since));
        own.chain(self.shared.iter().filter_map(|shared| shared.oldest()))
            .min()
    }

    fn close_oldest(&self) {
        let Some(oldest) = self.oldest() else { return };
        for idle in &self.idle {
            let is_it = idle.borrow().front().is_some_and(|one| one.since == oldest);
            if is_it {
                idle.borrow_mut().pop_front();
                return;
            }
        }
        if let Some(shared) = self
            .shared
            .iter()
            .find(|shared| shared.oldest() == Some(oldest))
        {
            shared.close_oldest();
        }
    }
}

/// A waiting request in its site's gauge and histogram, until this is dropped.
struct QueuedRequest<'a> {
    site: &'a SiteCells,
    since: Instant,
}

impl<'a> QueuedRequest<'a> {
    fn begin(site: &'a SiteCells) -> Self {
        site.queued.inc();
        Self {
            site,
            since: Instant::now(),
        }
    }
}

impl Drop for QueuedRequest<'_> {
    fn drop(&mut self) {
        self.site.queued.dec();
        self.site.queue_wait.record(self.since.elapsed());
    }
}

pub(super) fn is_alive(link: &H1Connection, certain: bool) -> bool {
    if certain {
        link.stream.is_quiet_now()
    } else {
        link.stream.is_quiet()
    }
}

impl Lease {
    /// The endpoint of the connection.
    pub fn endpoint(&self) -> &Arc<Endpoint> {
        self.in_flight.endpoint()
    }

    /// Its pool.
    pub fn pool(&self) -> &Pool {
        &self.upstream.pool
    }

    /// The endpoint's index among the members of the pool.
    pub fn member(&self) -> usize {
        self.member
    }

    /// The settings of its pool.
    pub fn settings(&self) -> &Settings {
        &self.upstream.pool.settings
    }

    /// The index of the endpoint among the process's, for counters.
    pub fn endpoint_index(&self) -> Option<usize> {
        self.upstream.endpoint_index(self.member)
    }

    /// Whether the endpoint was healthy when it was chosen and has failed since. When an endpoint
    /// dies, all its requests fail together: that is one failure, and no failing pool.
    pub fn is_overtaken(&self, now: u64) -> bool {
        let down = self
            .upstream
            .pool
            .members()
            .get(self.member)
            .is_some_and(|member| !member.is_up());
        !self.avoided && (down || self.endpoint().is_avoided(now))
    }

    /// Whether no other request shares its connection.
    pub fn has_own_socket(&self) -> bool {
        matches!(self.link, UpstreamConnection::H1(_))
    }

    /// A lease of an existing connection.
    pub(super) fn reuse(
        link: UpstreamConnection,
        permit: ConnectionPermit,
        requests: u64,
        member: usize,
        upstream: Rc<UpstreamPool>,
        now: u64,
    ) -> Self {
        let (avoided, in_flight) = (permit.endpoint().is_avoided(now), permit.endpoint().begin_request());
        Self {
            link,
            requests,
            dialled: None,
            avoided,
            in_flight,
            permit,
            member,
            upstream,
        }
    }

    /// Keeps the connection for the next request of any client. Only after a complete response; not
    /// while its socket is needed elsewhere.
    pub fn keep(self, now: u64) {
        let wanted = self.are_sockets_wanted();
        let (link, mut permit, requests, member, upstream) = self.into_reusable();
        let idle_settings = upstream.pool.settings.idle_settings;
        if let Some(link) = idle_h1(link)
            && let Some(slot) = permit.take_slot()
            && requests + 1 < idle_settings.requests
            && idle_settings.max > 0
            && !wanted
        {
            slot.set_idle();
            upstream.idle[member].borrow_mut().push_back(IdleConnection {
                link,
                slot,
                since: now,
                requests: requests + 1,
            });
        }
    }

    pub(super) fn are_sockets_wanted(&self) -> bool {
        self.upstream.slots.are_wanted()
    }

    pub(super) fn into_reusable(self) -> (UpstreamConnection, ConnectionPermit, u64, usize, Rc<UpstreamPool>) {
        (
            self.link,
            self.permit,
            self.requests,
            self.member,
            self.upstream,
        )
    }

    /// The connection for another protocol, with its place and the request in flight.
    pub fn into_parts(self) -> (UpstreamConnection, ConnectionPermit, InFlight) {
        (self.link, self.permit, self.in_flight)
    }
}

/// An HTTP/1 connection after a complete exchange, for the next request. A shared connection is kept
/// by its pool.
pub(super) fn idle_h1(link: UpstreamConnection) -> Option<Box<H1Connection>> {
    match link {
        UpstreamConnection::H1(link) => link.is_spent().then_some(link),
        UpstreamConnection::H2(_) => None,
    }
}
