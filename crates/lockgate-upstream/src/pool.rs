//! Pools of endpoints that serve alike, and connections to them: where the next endpoint cannot be
//! reached, another one is tried, and where all healthy ones are full, one is waited for.
//!
//! Does not choose the next endpoint: see `balance`.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use lockgate_limits::MemberIndex;
use lockgate_limits::box_future::boxed;
use lockgate_limits::clock::{Clock, Cut, Guard};
use lockgate_limits::member_set::MemberSet;
use lockgate_net::dial::{DialTarget, dial, is_exhaustion};
use lockgate_net::millis::Millis;
use lockgate_net::socket::Socket;
use lockgate_net::tls::Connector;
use lockgate_net::tls::handshake;
use lockgate_net::tls::session::TlsSession;

use super::affinity::AffinityInput;
use super::balance::{Availability, Balance, Balancer, Member};
use super::dial_error::DialError;
use super::endpoint::{Endpoint, EndpointAddress, EndpointPermit};
use super::notice::Notice;
use super::outlier_detection::{Condition, EndpointFailure};
use super::preference::Preference;
use super::random::mix;
use super::settings::Settings;
use super::wait_budget::WaitBudget;
use super::worker_sockets::WorkerSockets;

/// A pool of endpoints that serve alike.
#[derive(Debug)]
pub struct Pool {
    members: Vec<Member>,
    pub(super) balance: Option<Balance>,
    pub(super) balancer: Balancer,
    /// The TLS client of its endpoints, if they use TLS.
    pub tls: Option<Arc<Connector>>,
    /// The settings for all of them.
    pub settings: Settings,
    pub(super) relays: AtomicU64,
    queued: AtomicUsize,
    /// The report that no endpoint answers.
    pub(super) notice: Notice,
}

/// The load balancing method of requests, where the pool names none, and that of relays.
pub(super) const REQUESTS: Balance = Balance::LatencyAware;
pub(super) const RELAYS: Balance = Balance::Least;

/// A connection to an endpoint, counted until it is dropped.
#[derive(Debug)]
pub struct Dialled {
    /// The connection.
    pub socket: Socket,
    /// Its TLS session, if the pool uses TLS.
    pub session: Option<Box<TlsSession>>,
    /// Its permit at the endpoint.
    pub permit: EndpointPermit,
}

impl Pool {
    /// A pool of `members`, at least one unless operators have removed all. Without `balance`, requests are balanced by latency, and
    /// relays by requests in flight.
    pub fn new(
        members: Vec<Member>,
        balance: Option<Balance>,
        tls: Option<Arc<Connector>>,
        settings: Settings,
    ) -> Self {
        let balancer = Balancer::new(&members, settings.slow_start);
        let (relays, queued) = (AtomicU64::new(0), AtomicUsize::new(0));
        let notice = Notice::default();
        Self {
            members,
            balance,
            balancer,
            tls,
            settings,
            relays,
            queued,
            notice,
        }
    }

    /// All members, in the order of the configuration.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The member with this index.
    pub fn member(&self, member: MemberIndex) -> Option<&Member> {
        self.members.get(member.get())
    }

    /// Whether its connections can serve the requests of another pool to the same endpoint: TLS,
    /// protocol and PROXY header are the same.
    pub(super) fn connects_as(&self, other: &Self) -> bool {
        let tls = match (&self.tls, &other.tls) {
            (None, None) => true,
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            _ => false,
        };
        tls && self.settings.http2 == other.settings.http2
            && self.settings.proxy_protocol == other.settings.proxy_protocol
    }

    /// The endpoint that a client prefers. `now` is [`Clock::now`].
    pub fn preference(&self, affinity_input: &AffinityInput<'_>, now: Millis) -> Preference {
        self.settings
            .affinity
            .as_ref()
            .map_or(Preference::Any, |affinity| {
                affinity.preference(affinity_input, now)
            })
    }

    /// Gives a member the clients of `alias`, an SRV record as text.
    pub fn set_alias(&self, at: MemberIndex, alias: &str) {
        if let Some(member) = self.member(at) {
            member.set_alias(alias);
        }
        if let Some(sticky) = self.settings.sticky() {
            sticky.rename(at, alias);
        }
    }

    /// Takes over the weights of the members, of the [configuration](Member::set_weight) and of
    /// [operators](Member::override_weight).
    pub fn reweigh(&self) {
        self.balancer.reweigh(&self.members);
    }

    /// The member for a request, and a permit at it: see `Balancer::choose`. None while the
    /// member of a sticky cookie is full.
    pub fn choose(
        &self,
        preference: Preference,
        tried: MemberSet,
        random: u64,
        now: Millis,
    ) -> Option<(MemberIndex, EndpointPermit)> {
        let balance = self.balance.unwrap_or(REQUESTS);
        self.take(balance, preference, tried, random, now)
    }

    /// Whether a client may keep its connection to a member: not if that is avoided or is not the
    /// preferred one, nor to a backup when another is healthy again.
    pub(crate) fn is_still_preferred(
        &self,
        at: MemberIndex,
        preference: Preference,
        now: Millis,
    ) -> bool {
        let Some(member) = self.member(at) else {
            return false;
        };
        let is_good = |member| Availability::of(member, now) == Availability::Good;
        let is_its = match (
            self.named(preference, MemberSet::default(), now),
            preference,
        ) {
            (Some(named), _) => named == at,
            (None, Preference::Hashed(hash)) => {
                self.balancer
                    .choose(Balance::Hash, &self.members, |_| false, hash, now)
                    == Some(at)
            }
            (None, _) => {
                let is_backup = member.is_backup() && self.members.iter().any(is_good);
                member.weight() > 0 && !is_backup
            }
        };
        is_its && member.is_usable() && member.endpoint().condition(now) != Condition::Unavailable
    }

    /// The member of a sticky cookie, unless it was tried, or is avoided.
    pub(super) fn named(
        &self,
        preference: Preference,
        tried: MemberSet,
        now: Millis,
    ) -> Option<MemberIndex> {
        let Preference::Member(named) = preference else {
            return None;
        };
        self.available(named, tried, now).map(|_| named)
    }

    /// The member, unless it was tried, or is avoided.
    fn available(&self, at: MemberIndex, tried: MemberSet, now: Millis) -> Option<&Member> {
        let member = self.member(at).filter(|_| !tried.contains(at))?;
        (member.is_usable() && member.endpoint().condition(now) != Condition::Unavailable)
            .then_some(member)
    }

    fn take(
        &self,
        balance: Balance,
        preference: Preference,
        tried: MemberSet,
        random: u64,
        now: Millis,
    ) -> Option<(MemberIndex, EndpointPermit)> {
        let (balance, random) = method(preference, balance, random);
        let choose = || {
            let is_tried = |member| tried.contains(member);
            self.balancer
                .choose(balance, &self.members, is_tried, random, now)
        };
        self.pick((preference, tried, now), choose, Endpoint::try_take)
    }

    /// The member of the preference, else the one that `choose` finds, if `take` takes it.
    pub(super) fn pick<T>(
        &self,
        (preference, tried, now): (Preference, MemberSet, Millis),
        choose: impl Fn() -> Option<MemberIndex>,
        take: impl Fn(&Arc<Endpoint>) -> Option<T>,
    ) -> Option<(MemberIndex, T)> {
        if let Some(named) = self.named(preference, tried, now) {
            return Some((named, take(self.member(named)?.endpoint())?));
        }
        // A session only saves a handshake: where its member is full, it is not waited for.
        if let Preference::Session(at, _) = preference
            && let Some(member) = self.available(at, tried, now)
            && let Some(taken) = take(member.endpoint())
        {
            return Some((at, taken));
        }
        loop {
            let member = choose()?;
            // Where another worker was first it is full now, and another member is next.
            if let Some(taken) = take(self.member(member)?.endpoint()) {
                return Some((member, taken));
            }
        }
    }

    /// The members that a permit is waited for at: those that are up and were not `tried`, of which
    /// the member of a sticky cookie, else healthy ones, and others only where there is none.
    pub(super) fn members_to_wait_at(
        &self,
        preference: Preference,
        tried: MemberSet,
        now: Millis,
    ) -> Vec<MemberIndex> {
        if let Some(named) = self.named(preference, tried, now) {
            return vec![named];
        }
        let members = || {
            let members = MemberIndex::enumerate(&self.members);
            members.filter(|(at, member)| member.takes_any_client() && !tried.contains(*at))
        };
        let is_well = |member: &Member| {
            matches!(
                Availability::of(member, now),
                Availability::Good | Availability::Suspect | Availability::Full
            )
        };
        let any = !members().any(|(_, member)| is_well(member));
        let chosen = members().filter(|(_, member)| any || is_well(member));
        chosen.map(|(at, _)| at).collect()
    }

    /// Waits for a permit at one of the members that a request or a relay may wait at. With each
    /// tick these may be others: where an operator or a check takes one out or back, it is chosen
    /// again by `choose`, which is told [`Clock::now`].
    ///
    /// # Errors
    /// When there is none, the queue is full, or no permit becomes free in time.
    pub async fn queue(
        &self,
        guard: &Guard,
        wait_budget: &WaitBudget,
        (preference, tried): (Preference, MemberSet),
        choose: impl Fn(Millis) -> Option<(MemberIndex, EndpointPermit)>,
    ) -> Result<(MemberIndex, EndpointPermit), DialError> {
        let clock = guard.clock();
        let wait_at = |at: MemberIndex| Some((at, Box::pin(self.member(at)?.endpoint().take())));
        let wanted = self.members_to_wait_at(preference, tried, clock.now());
        let mut waiting: Vec<_> = wanted.into_iter().filter_map(wait_at).collect();
        if waiting.is_empty() {
            return Err(DialError::Down);
        }
        let _queued =
            QueueEntry::enter(&self.queued, self.settings.queue.max).ok_or(DialError::QueueFull)?;
        let chosen = async {
            loop {
                let free = free_or_tick(&mut waiting, clock).await;
                let now = clock.now();
                if let Some((first, permit)) = free {
                    let (at, _) = waiting.remove(first);
                    // It may be down meanwhile, and have room because its requests were retried
                    // elsewhere.
                    let is_named = self.named(preference, tried, now) == Some(at);
                    let takes_it = |member: &Member| member.takes_any_client() || is_named;
                    if self.member(at).is_some_and(takes_it) {
                        return Ok((at, permit));
                    }
                }
                let wanted = self.members_to_wait_at(preference, tried, now);
                if !waiting.is_empty()
                    && waiting.iter().map(|(at, _)| *at).eq(wanted.iter().copied())
                {
                    continue;
                }
                if let Some(chosen) = choose(now) {
                    return Ok(chosen);
                }
                // Where all are out, one may be back by the time that it has room.
                if !wanted.is_empty() {
                    // The place in the queue of a member that is still waited for is kept.
                    let mut before = std::mem::take(&mut waiting).into_iter().peekable();
                    waiting.extend(wanted.into_iter().filter_map(|at| {
                        while before.next_if(|(earlier, _)| *earlier < at).is_some() {}
                        before
                            .next_if(|(same, _)| *same == at)
                            .or_else(|| wait_at(at))
                    }));
                }
                if waiting.is_empty() {
                    return Err(DialError::Down);
                }
            }
        };
        wait_budget
            .within(guard, chosen)
            .await
            .map_err(queue_error)?
    }

    /// The time that a request or a relay may wait.
    pub fn wait_budget(&self) -> WaitBudget {
        WaitBudget::new(self.settings.queue.wait)
    }

    /// Connects a relay to the next endpoint, or to another one that can be reached and
    /// authenticated, and returns it as a member; each has `limit` to connect and again for its TLS
    /// handshake, before which `proxy_header` goes in plain. Where the untried ones are at their
    /// `max`, waits for a permit as requests do.
    ///
    /// # Errors
    /// When none can be reached in time: the last one's error.
    pub async fn dial(
        &self,
        guard: &Guard,
        sockets: &Rc<WorkerSockets>,
        limit: Duration,
        proxy_header: &[u8],
        preference: Preference,
    ) -> Result<(MemberIndex, Dialled), DialError> {
        let balance = self.balance.unwrap_or(RELAYS);
        let (mut tried, mut last, wait_budget) = (MemberSet::default(), None, self.wait_budget());
        // Bounded, since `MemberSet` forgets members behind the 64th.
        for _ in &self.members {
            let choose = |now| {
                let random = mix(self.relays.fetch_add(1, Ordering::Relaxed));
                self.take(balance, preference, tried, random, now)
            };
            let (member, permit) = match choose(guard.clock().now()) {
                Some(chosen) => chosen,
                None => {
                    let queued = self.queue(guard, &wait_budget, (preference, tried), choose);
                    match queued.await {
                        Ok(chosen) => chosen,
                        Err(error @ DialError::Cut(_)) => return Err(error),
                        Err(error) => return Err(last.unwrap_or(error)),
                    }
                }
            };
            tried.insert(member);
            let socket_permit = sockets.take(guard, &wait_budget).await?;
            let mut permit = permit.with_request();
            permit.set_socket(socket_permit);
            match self
                .attempt(permit, sockets, (guard, &wait_budget), limit, proxy_header)
                .await
            {
                Err(error @ DialError::Failed { .. }) => last = Some(error),
                Ok(dialled) => {
                    self.succeeded(dialled.permit.endpoint(), guard.clock().now());
                    return Ok((member, dialled));
                }
                Err(error) => return Err(error),
            }
        }
        Err(last.unwrap_or(DialError::Down))
    }

    /// Connects to the endpoint of `permit`, with a TLS handshake if the pool uses TLS; each has
    /// `limit`. `proxy_header` goes before TLS in plain. Where the system has no descriptor left,
    /// closes idle sockets and tries again for as long as requests may wait. A failure is noted at
    /// the endpoint; a success is noted with its first response.
    ///
    /// # Errors
    /// The endpoint's error, or that the client's connection was cut meanwhile.
    pub async fn attempt(
        &self,
        permit: EndpointPermit,
        sockets: &WorkerSockets,
        (guard, wait_budget): (&Guard, &WaitBudget),
        limit: Duration,
        proxy_header: &[u8],
    ) -> Result<Dialled, DialError> {
        let endpoint = Arc::clone(permit.endpoint());
        loop {
            match self.connect(&endpoint, guard, limit, proxy_header).await {
                Ok(Ok((socket, session))) => {
                    return Ok(Dialled {
                        socket,
                        session,
                        permit,
                    });
                }
                Ok(Err(error)) if is_exhaustion(&error) => {
                    if !boxed(|| sockets.make_room(guard, wait_budget))
                        .await
                        .map_err(DialError::Cut)?
                    {
                        return Err(DialError::Exhausted(Arc::new(error)));
                    }
                }
                Ok(Err(error)) => {
                    self.failed(
                        &endpoint,
                        EndpointFailure::Unreachable,
                        &error,
                        guard.clock().now(),
                    );
                    return Err(DialError::Failed {
                        endpoint: endpoint.label.clone(),
                        error: Arc::new(error),
                    });
                }
                Err(cut) => return Err(DialError::Cut(cut)),
            }
        }
    }

    /// The outer error is a cut by something else than `limit`.
    async fn connect(
        &self,
        endpoint: &Endpoint,
        guard: &Guard,
        limit: Duration,
        proxy_header: &[u8],
    ) -> Result<io::Result<(Socket, Option<Box<TlsSession>>)>, Cut> {
        let socket = match reach(endpoint, guard, limit).await? {
            Ok(socket) => socket,
            Err(error) => return Ok(Err(error)),
        };
        let Some(connector) = &self.tls else {
            return Ok(Ok((socket, None)));
        };
        guard.begin_phase(limit);
        let handshake =
            handshake::connect(&socket, connector, &endpoint.host, proxy_header.to_vec());
        match guard.within(handshake).await {
            // RFC 9113 §3.3: another protocol would misread our frames.
            Ok(Ok(made))
                if self.settings.http2 && made.negotiated.alpn.as_deref() != Some(b"h2") =>
            {
                Ok(Err(io::Error::other(
                    "the endpoint did not choose HTTP/2 by ALPN",
                )))
            }
            Ok(Ok(made)) => Ok(Ok((socket, Some(made.session)))),
            Ok(Err(error)) => Ok(Err(io::Error::other(error))),
            Err(Cut::Deadline) => Ok(Err(io::ErrorKind::TimedOut.into())),
            Err(cut) => Err(cut),
        }
    }
}

/// The load balancing method for a client with this preference, and the number that it draws by,
/// where its pool has the method `balance` and `random` is a fresh number.
pub(super) fn method(preference: Preference, balance: Balance, random: u64) -> (Balance, u64) {
    match preference {
        Preference::Any | Preference::Member(_) | Preference::Session(_, None) => (balance, random),
        Preference::Hashed(hash) | Preference::Session(_, Some(hash)) => (Balance::Hash, hash),
    }
}

/// One more in the queue, until this is dropped.
struct QueueEntry<'a>(&'a AtomicUsize);

impl<'a> QueueEntry<'a> {
    fn enter(queued: &'a AtomicUsize, max: usize) -> Option<Self> {
        let entry = Self(queued);
        (queued.fetch_add(1, Ordering::Relaxed) < max).then_some(entry)
    }
}

impl Drop for QueueEntry<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Connects within `limit`, which a name's addresses share. The outer error is another cut.
async fn reach(
    endpoint: &Endpoint,
    guard: &Guard,
    limit: Duration,
) -> Result<io::Result<Socket>, Cut> {
    let targets = endpoint.address().targets();
    let share = limit / u32::try_from(targets.len().max(1)).unwrap_or(u32::MAX);
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name does not resolve");
    for target in &targets {
        guard.begin_phase(share);
        match guard.within(dial_target(target, guard.clock())).await {
            Ok(Ok(socket)) => return Ok(Ok(socket)),
            Ok(Err(error)) if is_exhaustion(&error) => return Ok(Err(error)),
            Ok(Err(error)) => last = error,
            Err(Cut::Deadline) => last = io::ErrorKind::TimedOut.into(),
            Err(cut) => return Err(cut),
        }
    }
    if let EndpointAddress::Name(name) = endpoint.address() {
        // Its addresses may have changed.
        name.failed();
    }
    Ok(Err(last))
}

/// Dials, and dials again with every tick where the backlog of a Unix socket is full, which cannot
/// be waited for.
async fn dial_target(target: &DialTarget, clock: &Clock) -> io::Result<Socket> {
    loop {
        match dial(target).await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => clock.next_tick().await,
            dialled => return dialled,
        }
    }
}

/// The first free permit of those that are waited for, with its place there; none with the next
/// tick.
async fn free_or_tick<F: Future<Output = EndpointPermit>>(
    waiting: &mut [(MemberIndex, Pin<Box<F>>)],
    clock: &Clock,
) -> Option<(usize, EndpointPermit)> {
    let mut tick = pin!(clock.next_tick());
    poll_fn(|cx| {
        let permits = waiting.iter_mut().enumerate();
        let mut polled = permits
            .map(|(place, (_, permit))| permit.as_mut().poll(cx).map(|permit| (place, permit)));
        match polled.find(Poll::is_ready) {
            Some(free) => free.map(Some),
            None => tick.as_mut().poll(cx).map(|()| None),
        }
    })
    .await
}

/// The error of a cut wait for a permit.
fn queue_error(cut: Cut) -> DialError {
    match cut {
        Cut::Deadline => DialError::Full,
        cut => DialError::Cut(cut),
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use lockgate_limits::clock::Ticker;
    use lockgate_rules::Eject;

    use super::*;
    use crate::administration::AdminMode;

    fn pool(weights: &[u32], settings: Settings) -> Pool {
        let member = |weight: &u32| {
            let address = EndpointAddress::Ip("127.0.0.1:1".parse().unwrap());
            Member::new(
                Arc::new(Endpoint::new(String::new(), String::new(), address, None)),
                *weight,
            )
        };
        Pool::new(weights.iter().map(member).collect(), None, None, settings)
    }

    #[test]
    fn session_affinity_moves_off_unavailable_endpoints() {
        let address = || EndpointAddress::Ip("127.0.0.1:1".parse().unwrap());
        let endpoint =
            |label: &str, max| Arc::new(Endpoint::new(label.into(), String::new(), address(), max));
        let members = || {
            let full = endpoint("full", Some(1));
            vec![
                Member::new(full, 1),
                Member::new(endpoint("b", None), 1),
                Member::new(endpoint("c", None), 1),
            ]
        };
        let eject = Some(Eject {
            errors: 1,
            time: Duration::from_millis(1_000),
            ..Eject::default()
        });
        let fresh = || {
            Pool::new(
                members(),
                None,
                None,
                Settings {
                    eject,
                    ..Settings::default()
                },
            )
        };
        let (none, first) = (MemberSet::default(), MemberIndex::new(0));
        let chosen = |pool: &Pool, preference, tried| {
            pool.choose(preference, tried, 0, Millis::ZERO)
                .map(|(at, _)| at)
        };
        for hash in 0..20 {
            let preference = Preference::Session(first, Some(hash));
            let pool = fresh();
            assert_eq!(chosen(&pool, preference, none), Some(first));
            assert_eq!(
                chosen(&pool, preference, none.with(first)),
                pool.choose(Preference::Hashed(hash), none.with(first), 0, Millis::ZERO)
                    .map(|(at, _)| at)
            );
            let permit = pool.choose(preference, none, 0, Millis::ZERO).unwrap();
            assert_ne!(chosen(&pool, preference, none), Some(first), "it is full");
            drop(permit);
            pool.failed(
                pool.members()[0].endpoint(),
                EndpointFailure::Unserved,
                &"",
                Millis::ZERO,
            );
            assert_ne!(
                chosen(&pool, preference, none),
                Some(first),
                "it is ejected"
            );
            let pool = fresh();
            pool.members()[0].mark_down();
            assert_eq!(
                chosen(&pool, preference, none),
                chosen(&pool, Preference::Hashed(hash), none),
                "it is down"
            );
        }
        assert_eq!(
            chosen(&fresh(), Preference::Session(first, None), none),
            Some(first)
        );
        assert!(
            chosen(
                &fresh(),
                Preference::Session(MemberIndex::new(9), None),
                none
            )
            .is_some()
        );
    }

    #[test]
    fn at_least_half_of_a_pool_is_never_ejected() {
        for (members, ejected) in [(1, 0), (2, 1), (3, 1), (4, 2), (5, 2)] {
            let eject = Some(Eject::default());
            let pool = pool(
                &vec![1; members],
                Settings {
                    eject,
                    ..Settings::default()
                },
            );
            for member in pool.members() {
                (0..5).for_each(|_| {
                    pool.failed(
                        member.endpoint(),
                        EndpointFailure::Unserved,
                        &"",
                        Millis::ZERO,
                    )
                });
            }
            let count = pool
                .members()
                .iter()
                .filter(|member| member.endpoint().is_ejected(Millis::ZERO))
                .count();
            assert_eq!(count, ejected, "of {members}");
        }
        // Members that are down, or cannot be reached, do not stay.
        for gone in [
            |pool: &Pool| pool.members()[0].mark_down(),
            |pool: &Pool| {
                pool.failed(
                    pool.members()[0].endpoint(),
                    EndpointFailure::Unreachable,
                    &"",
                    Millis::ZERO,
                );
            },
        ] {
            let eject = Some(Eject {
                errors: 1,
                time: Duration::from_millis(1_000),
                ..Eject::default()
            });
            let pool = pool(
                &[1, 1, 1],
                Settings {
                    eject,
                    ..Settings::default()
                },
            );
            gone(&pool);
            pool.failed(
                pool.members()[1].endpoint(),
                EndpointFailure::Unserved,
                &"",
                Millis::ZERO,
            );
            assert!(!pool.members()[1].endpoint().is_ejected(Millis::ZERO));
        }
    }

    #[test]
    fn least_conn_counts_a_relay_until_it_ends() {
        let pool = pool(&[1, 2], Settings::default());
        let relay = || {
            pool.take(
                Balance::Least,
                Preference::Any,
                MemberSet::default(),
                0,
                Millis::ZERO,
            )
            .map(|(at, permit)| (at, permit.with_request()))
            .unwrap()
        };
        let relays: Vec<_> = (0..9).map(|_| relay()).collect();
        assert_eq!(relays.iter().filter(|(at, _)| at.get() == 0).count(), 3);
        assert_eq!(pool.members()[0].endpoint().in_flight(), 3);
        drop(relays);
        assert_eq!(pool.members()[0].endpoint().in_flight(), 0);
    }

    /// A pool of two endpoints for one request at a time, and what waits there needs.
    struct QueueScene {
        pool: Pool,
        clock: Rc<Clock>,
        guard: Guard,
        wait_budget: WaitBudget,
    }

    type QueueResult = Result<(MemberIndex, EndpointPermit), DialError>;

    const FIRST: Preference = Preference::Member(MemberIndex::new(0));

    impl QueueScene {
        fn new() -> Self {
            let member = |label: &str| {
                let address = EndpointAddress::Ip("127.0.0.1:1".parse().unwrap());
                let endpoint = Endpoint::new(label.into(), String::new(), address, Some(1));
                Member::new(Arc::new(endpoint), 1)
            };
            let members = ["a", "b"].map(member).into();
            let clock = Clock::new(Ticker::new());
            Self {
                pool: Pool::new(members, None, None, Settings::default()),
                guard: clock.watch(),
                clock,
                wait_budget: WaitBudget::new(Duration::from_secs(3_600)),
            }
        }

        fn fill(&self, member: usize) -> EndpointPermit {
            self.pool.members()[member].endpoint().try_take().unwrap()
        }

        fn set(&self, member: usize, mode: AdminMode) {
            self.pool.members()[member].set_mode(mode, self.clock.now());
        }

        /// A request that waits.
        fn wait(&self, preference: Preference) -> Pin<Box<dyn Future<Output = QueueResult> + '_>> {
            let tried = MemberSet::default();
            let choose = move |now| self.pool.choose(preference, tried, 0, now);
            let chosen = (preference, tried);
            let queue = self
                .pool
                .queue(&self.guard, &self.wait_budget, chosen, choose);
            let mut queue: Pin<Box<dyn Future<Output = QueueResult>>> = Box::pin(queue);
            assert!(ended(&mut queue).is_none());
            queue
        }
    }

    /// The result of a wait, if it has ended.
    fn ended(wait: &mut Pin<Box<dyn Future<Output = QueueResult> + '_>>) -> Option<QueueResult> {
        match wait.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => Some(result),
            Poll::Pending => None,
        }
    }

    /// The member of a wait that has ended well.
    fn member_of(wait: &mut Pin<Box<dyn Future<Output = QueueResult> + '_>>) -> Option<usize> {
        ended(wait).map(|result| result.unwrap().0.get())
    }

    #[test]
    fn queued_sticky_requests_leave_a_drained_endpoint() {
        let scene = QueueScene::new();
        let held = scene.fill(0);
        let (mut first, mut second) = (scene.wait(FIRST), scene.wait(FIRST));
        scene.set(0, AdminMode::Drain);
        // The permit that comes is not taken.
        drop(held);
        assert_eq!(member_of(&mut first), Some(1));
        scene.clock.tick(|_| {});
        assert_eq!(member_of(&mut second), Some(1));
    }

    #[test]
    fn queued_requests_move_to_an_endpoint_that_is_ready_again() {
        let scene = QueueScene::new();
        scene.set(1, AdminMode::Drain);
        let held = scene.fill(0);
        let (mut first, mut second) = (scene.wait(Preference::Any), scene.wait(Preference::Any));
        scene.set(1, AdminMode::Ready);
        scene.set(0, AdminMode::Drain);
        drop(held);
        let taken = ended(&mut first).unwrap().unwrap();
        assert_eq!(taken.0.get(), 1);
        scene.clock.tick(|_| {});
        assert!(ended(&mut second).is_none(), "it waits at the other one");
        drop(taken);
        assert_eq!(member_of(&mut second), Some(1));
    }

    #[test]
    fn a_queued_request_keeps_its_place_while_members_change() {
        let scene = QueueScene::new();
        scene.set(1, AdminMode::Drain);
        let held = [scene.fill(0), scene.fill(1)];
        let (mut first, mut second) = (scene.wait(Preference::Any), scene.wait(Preference::Any));
        scene.set(1, AdminMode::Ready);
        scene.clock.tick(|_| {});
        // The later one looks first.
        assert!(ended(&mut second).is_none() && ended(&mut first).is_none());
        drop(held);
        let taken = ended(&mut first).unwrap().unwrap();
        assert_eq!(taken.0.get(), 0);
        assert_eq!(member_of(&mut second), Some(1));
    }

    #[test]
    fn a_queue_ends_only_when_no_endpoint_is_usable() {
        let scene = QueueScene::new();
        scene.set(1, AdminMode::Drain);
        let held = scene.fill(0);
        let mut waits = scene.wait(FIRST);
        scene.set(0, AdminMode::Drain);
        scene.clock.tick(|_| {});
        assert!(ended(&mut waits).is_none(), "one may be back in time");
        scene.set(0, AdminMode::Ready);
        drop(held);
        assert_eq!(member_of(&mut waits), Some(0));
        let held = scene.fill(0);
        let mut waits = scene.wait(FIRST);
        scene.set(0, AdminMode::Drain);
        drop(held);
        assert!(matches!(ended(&mut waits), Some(Err(DialError::Down))));
    }
}
