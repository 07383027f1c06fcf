//! A list of endpoints that serve alike, and connections to them: where the one that is next cannot
//! be reached, another one is tried, and where all that are well are full, one is waited for.
//!
//! Does not say which is next: see `balance`.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use lockgate_net::dial::{Target, dial, is_exhaustion};
use lockgate_net::socket::Socket;
use lockgate_net::tls::Connector;
use lockgate_net::tls::handshake;
use lockgate_net::tls::session::Session;

use super::affinity::Asker;
use super::avoidance::{Condition, Failure};
use super::balance::{Balance, Balancer, Member, Standing};
use super::dial_error::DialError;
use super::endpoint::{Endpoint, Hold, Place};
use super::notice::Notice;
use super::patience::Patience;
use super::random::mix;
use super::settings::Settings;
use super::slots::Slots;
use super::wish::Wish;
use crate::boxed::boxed;
use crate::clock::{Clock, Cut, Guard};
use crate::member_set::MemberSet;

/// Endpoints that serve alike.
#[derive(Debug)]
pub struct Pool {
    members: Vec<Member>,
    balance: Option<Balance>,
    balancer: Balancer,
    /// TLS to the endpoints, if they want it.
    pub tls: Option<Arc<Connector>>,
    /// What holds for all of them.
    pub settings: Settings,
    relays: AtomicU64,
    queued: AtomicUsize,
    /// That no endpoint answers.
    pub(super) notice: Notice,
}

/// A connection to an endpoint, counted until it is dropped.
#[derive(Debug)]
pub struct Dialled {
    /// The connection.
    pub socket: Socket,
    /// Its TLS, if the pool has any.
    pub session: Option<Box<Session>>,
    /// Its place among the endpoint's.
    pub hold: Hold,
}

impl Pool {
    /// Serves by `members`, of which there is at least one. Without a `balance` it is by latency
    /// for requests, and for relays by what is in flight.
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

    /// To whom whoever asks belongs. `now` is [`Clock::now`].
    pub fn wish(&self, asker: &Asker<'_>, now: u64) -> Wish {
        self.settings
            .affinity
            .as_ref()
            .map_or(Wish::Any, |affinity| affinity.wish(asker, now))
    }

    /// Has those who belong to `whom`, as a text that is the same wherever it is known, belong to
    /// the member at this place.
    pub fn stand_for(&self, at: usize, whom: &str) {
        if let Some(member) = self.members.get(at) {
            member.stand_for(whom);
        }
        if let Some(sticky) = self.settings.sticky() {
            sticky.rename(at, whom);
        }
    }

    /// Chooses by the weights that members have [assumed](Member::assume) since.
    pub fn reweigh(&self) {
        self.balancer.reweigh(&self.members);
    }

    /// The member that a request goes to, and a place at it: see [`Balancer::choose`]. Of one that
    /// it belongs to by name there is none while that is full.
    pub fn choose(
        &self,
        wish: Wish,
        tried: MemberSet,
        random: u64,
        now: u64,
    ) -> Option<(usize, Hold)> {
        self.take(
            self.balance.unwrap_or(Balance::LatencyAware),
            wish,
            tried,
            random,
            now,
        )
    }

    /// Whether who was with the member at this place stays there: not with one that is left alone
    /// or to whom it does not belong, nor with a backup when another one is well again.
    pub fn may_stay(&self, at: usize, wish: Wish, now: u64) -> bool {
        let Some(member) = self.members.get(at) else {
            return false;
        };
        let is_good = |member| Standing::of(member, now) == Standing::Good;
        let is_its = match (self.named(wish, MemberSet::default(), now), wish) {
            (Some(named), _) => named == at,
            (None, Wish::Hashed(hash)) => {
                self.balancer
                    .choose(Balance::Hash, &self.members, |_| false, hash, now)
                    == Some(at)
            }
            (None, _) => !member.is_backup() || !self.members.iter().any(is_good),
        };
        is_its && member.is_up() && member.endpoint().condition(now) != Condition::Gone
    }

    /// The member that somebody belongs to by name, unless it was tried, or is left alone.
    fn named(&self, wish: Wish, tried: MemberSet, now: u64) -> Option<usize> {
        let Wish::Member(named) = wish else {
            return None;
        };
        self.to_be_had(named, tried, now).map(|_| named)
    }

    /// The member at this place, unless it was tried, or is left alone.
    fn to_be_had(&self, at: usize, tried: MemberSet, now: u64) -> Option<&Member> {
        let member = self.members.get(at).filter(|_| !tried.contains(at))?;
        (member.is_up() && member.endpoint().condition(now) != Condition::Gone).then_some(member)
    }

    fn take(
        &self,
        balance: Balance,
        wish: Wish,
        tried: MemberSet,
        random: u64,
        now: u64,
    ) -> Option<(usize, Hold)> {
        let is_tried = |member| tried.contains(member);
        if let Some(named) = self.named(wish, tried, now) {
            return Some((named, self.members.get(named)?.endpoint().try_take()?));
        }
        // A session saves a handshake, for which nobody waits where its member is full.
        if let Wish::Session(at, _) = wish
            && let Some(member) = self.to_be_had(at, tried, now)
            && let Some(hold) = member.endpoint().try_take()
        {
            return Some((at, hold));
        }
        let (balance, random) = match wish {
            Wish::Any | Wish::Member(_) | Wish::Session(_, None) => (balance, random),
            Wish::Hashed(hash) | Wish::Session(_, Some(hash)) => (Balance::Hash, hash),
        };
        loop {
            let member = self
                .balancer
                .choose(balance, &self.members, is_tried, random, now)?;
            // Where another worker was quicker it is full now, and another member is next.
            if let Some(hold) = self.members.get(member)?.endpoint().try_take() {
                return Some((member, hold));
            }
        }
    }

    /// Waits for a place at one of the members that are up and were not `tried`: at the one that
    /// whoever waits belongs to by name, else at those that are well, if there is one, and at
    /// the others only where not.
    ///
    /// # Errors
    /// When there is none, as many wait already as may, or none becomes free in time.
    pub async fn queue(
        &self,
        guard: &Guard,
        patience: &Patience,
        wish: Wish,
        tried: MemberSet,
    ) -> Result<(usize, Hold), DialError> {
        let now = guard.clock().now();
        let left = |at: usize, member: &Member| member.is_up() && !tried.contains(at);
        let members = || {
            self.members
                .iter()
                .enumerate()
                .filter(|(at, member)| left(*at, member))
        };
        let well = |member: &Member| {
            matches!(
                Standing::of(member, now),
                Standing::Good | Standing::Doubtful | Standing::Full
            )
        };
        let any = !members().any(|(_, member)| well(member));
        let named = self.named(wish, tried, now);
        let members = members()
            .filter(|(at, member)| named.map_or(any || well(member), |named| named == *at));
        let (mut places, mut waiting): (Vec<_>, Vec<_>) = members
            .map(|(at, member)| (at, Box::pin(member.endpoint().take())))
            .unzip();
        if waiting.is_empty() {
            return Err(DialError::Down);
        }
        let _place =
            Queued::enter(&self.queued, self.settings.queue.max).ok_or(DialError::QueueFull)?;
        while !waiting.is_empty() {
            let free = patience.within(guard, first_free(&mut waiting));
            let (first, hold) = free.await.map_err(no_place)?;
            drop(waiting.swap_remove(first));
            let at = places.swap_remove(first);
            // It may have fallen meanwhile, and be free because its requests have gone elsewhere.
            if self.members.get(at).is_some_and(Member::is_up) {
                return Ok((at, hold));
            }
        }
        Err(DialError::Down)
    }

    /// What a request or a relay waits at the most.
    pub fn patience(&self) -> Patience {
        Patience::new(self.settings.queue.wait)
    }

    /// Connects a relay to the endpoint that is next, or to another one that can be reached and
    /// proves who it is, and tells its place among the members; each may take `limit` to
    /// connect and again for its TLS, before which `header` goes in plain. Where those that are
    /// left are at their `max`, waits for a place as requests do.
    ///
    /// # Errors
    /// When none can be reached in time: what the last one said.
    pub async fn dial(
        &self,
        guard: &Guard,
        slots: &Rc<Slots>,
        limit: Duration,
        header: &[u8],
        wish: Wish,
    ) -> Result<(usize, Dialled), DialError> {
        let balance = self.balance.unwrap_or(Balance::Least);
        let (mut tried, mut last, patience) = (MemberSet::default(), None, self.patience());
        // Of more members than `tried` has room for, not all are told apart: as many attempts as
        // there are members.
        for _ in &self.members {
            let random = mix(self.relays.fetch_add(1, Ordering::Relaxed));
            let (member, hold) = match self.take(balance, wish, tried, random, guard.clock().now())
            {
                Some(chosen) => chosen,
                None => match self.queue(guard, &patience, wish, tried).await {
                    Ok(chosen) => chosen,
                    Err(error @ DialError::Cut(_)) => return Err(error),
                    Err(error) => return Err(last.unwrap_or(error)),
                },
            };
            tried.insert(member);
            let slot = slots.take(guard, &patience).await?;
            let hold = hold.works().in_slot(slot);
            match self
                .attempt(hold, slots, (guard, &patience), limit, header)
                .await
            {
                Err(error @ DialError::Failed { .. }) => last = Some(error),
                Ok(dialled) => {
                    self.succeeded(dialled.hold.endpoint(), guard.clock().now());
                    return Ok((member, dialled));
                }
                Err(error) => return Err(error),
            }
        }
        Err(last.unwrap_or(DialError::Down))
    }

    /// Connects to the endpoint of `hold`, and makes TLS with it if the pool has any; each may take
    /// `limit`. `header` goes before the TLS in plain. Where the system has no descriptor left,
    /// idle sockets give way, and it is tried again for as long as requests may wait. The
    /// endpoint remembers that it failed; that it is well is said by what it does then.
    ///
    /// # Errors
    /// What the endpoint said, or that the connection was cut meanwhile.
    pub async fn attempt(
        &self,
        hold: Hold,
        slots: &Slots,
        (guard, patience): (&Guard, &Patience),
        limit: Duration,
        header: &[u8],
    ) -> Result<Dialled, DialError> {
        let endpoint = Arc::clone(hold.endpoint());
        loop {
            match self.connect(&endpoint, guard, limit, header).await {
                Ok(Ok((socket, session))) => {
                    return Ok(Dialled {
                        socket,
                        session,
                        hold,
                    });
                }
                Ok(Err(error)) if is_exhaustion(&error) => {
                    if !boxed(|| slots.make_room(guard, patience))
                        .await
                        .map_err(DialError::Cut)?
                    {
                        return Err(DialError::Exhausted(Arc::new(error)));
                    }
                }
                Ok(Err(error)) => {
                    self.failed(&endpoint, Failure::Unreachable, &error, guard.clock().now());
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
        header: &[u8],
    ) -> Result<io::Result<(Socket, Option<Box<Session>>)>, Cut> {
        let socket = match reach(endpoint, guard, limit).await? {
            Ok(socket) => socket,
            Err(error) => return Ok(Err(error)),
        };
        let Some(connector) = &self.tls else {
            return Ok(Ok((socket, None)));
        };
        guard.phase(limit);
        let handshake = handshake::connect(&socket, connector, &endpoint.host, header.to_vec());
        match guard.within(handshake).await {
            // RFC 9113 §3.3: what else it speaks would take our words for its own.
            Ok(Ok(made))
                if self.settings.http2 && made.negotiated.alpn.as_deref() != Some(b"h2") =>
            {
                Ok(Err(io::Error::other(
                    "no HTTP/2: the endpoint did not choose it by ALPN",
                )))
            }
            Ok(Ok(made)) => Ok(Ok((socket, Some(made.session)))),
            Ok(Err(error)) => Ok(Err(io::Error::other(error))),
            Err(Cut::Deadline) => Ok(Err(io::ErrorKind::TimedOut.into())),
            Err(cut) => Err(cut),
        }
    }
}

/// One of those that wait; leaving the queue on every way out.
struct Queued<'a>(&'a AtomicUsize);

impl<'a> Queued<'a> {
    fn enter(queued: &'a AtomicUsize, max: usize) -> Option<Self> {
        let place = Self(queued);
        (queued.fetch_add(1, Ordering::Relaxed) < max).then_some(place)
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Connects within `limit`; a name's addresses share it. The outer error is a cut by something
/// else.
async fn reach(
    endpoint: &Endpoint,
    guard: &Guard,
    limit: Duration,
) -> Result<io::Result<Socket>, Cut> {
    let targets = endpoint.place().targets();
    let share = limit / u32::try_from(targets.len().max(1)).unwrap_or(u32::MAX);
    let mut last = io::Error::new(io::ErrorKind::NotFound, "name does not resolve");
    for target in &targets {
        guard.phase(share);
        match guard.within(dial_target(target, guard.clock())).await {
            Ok(Ok(socket)) => return Ok(Ok(socket)),
            Ok(Err(error)) if is_exhaustion(&error) => return Ok(Err(error)),
            Ok(Err(error)) => last = error,
            Err(Cut::Deadline) => last = io::ErrorKind::TimedOut.into(),
            Err(cut) => return Err(cut),
        }
    }
    if let Place::Name(name) = endpoint.place() {
        // Perhaps it has moved.
        name.failed();
    }
    Ok(Err(last))
}

/// A Unix socket whose backlog is full says so at once and cannot be waited for: it is asked again
/// with every tick.
async fn dial_target(target: &Target, clock: &Clock) -> io::Result<Socket> {
    loop {
        match dial(target).await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => clock.next_tick().await,
            dialled => return dialled,
        }
    }
}

/// The first place of those that are waited for, and which of them it is.
async fn first_free<F: Future<Output = Hold>>(waiting: &mut [Pin<Box<F>>]) -> (usize, Hold) {
    poll_fn(|cx| {
        let places = waiting.iter_mut().enumerate();
        let mut polled = places.map(|(at, place)| place.as_mut().poll(cx).map(|hold| (at, hold)));
        polled.find(Poll::is_ready).unwrap_or(Poll::Pending)
    })
    .await
}

/// What ends the wait for a place.
fn no_place(cut: Cut) -> DialError {
    match cut {
        Cut::Deadline => DialError::Full,
        cut => DialError::Cut(cut),
    }
}

#[cfg(test)]
mod tests {
    use lockgate_rules::Eject;

    use super::*;

    fn pool(weights: &[u32], settings: Settings) -> Pool {
        let member = |weight: &u32| {
            let place = Place::Ip("127.0.0.1:1".parse().unwrap());
            Member::new(
                Arc::new(Endpoint::new(String::new(), String::new(), place, None)),
                *weight,
            )
        };
        Pool::new(weights.iter().map(member).collect(), None, None, settings)
    }

    #[test]
    fn session_affinity_moves_off_unavailable_endpoints() {
        let place = || Place::Ip("127.0.0.1:1".parse().unwrap());
        let endpoint =
            |label: &str, max| Arc::new(Endpoint::new(label.into(), String::new(), place(), max));
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
        let none = MemberSet::default();
        let chosen = |pool: &Pool, wish, tried| pool.choose(wish, tried, 0, 0).map(|(at, _)| at);
        for hash in 0..20 {
            let wish = Wish::Session(0, Some(hash));
            let pool = fresh();
            assert_eq!(chosen(&pool, wish, none), Some(0));
            assert_eq!(
                chosen(&pool, wish, none.with(0)),
                pool.choose(Wish::Hashed(hash), none.with(0), 0, 0)
                    .map(|(at, _)| at)
            );
            let hold = pool.choose(wish, none, 0, 0).unwrap();
            assert_ne!(chosen(&pool, wish, none), Some(0), "it is full");
            drop(hold);
            pool.failed(pool.members()[0].endpoint(), Failure::Unserved, &"", 0);
            assert_ne!(chosen(&pool, wish, none), Some(0), "it is ejected");
            let pool = fresh();
            pool.members()[0].fall();
            assert_eq!(
                chosen(&pool, wish, none),
                chosen(&pool, Wish::Hashed(hash), none),
                "it is down"
            );
        }
        assert_eq!(chosen(&fresh(), Wish::Session(0, None), none), Some(0));
        assert!(chosen(&fresh(), Wish::Session(9, None), none).is_some());
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
                (0..5).for_each(|_| pool.failed(member.endpoint(), Failure::Unserved, &"", 0));
            }
            let count = pool
                .members()
                .iter()
                .filter(|member| member.endpoint().is_ejected(0))
                .count();
            assert_eq!(count, ejected, "of {members}");
        }
        // Members that are down, or cannot be reached, do not stay.
        for gone in [
            |pool: &Pool| pool.members()[0].fall(),
            |pool: &Pool| {
                pool.failed(pool.members()[0].endpoint(), Failure::Unreachable, &"", 0);
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
            pool.failed(pool.members()[1].endpoint(), Failure::Unserved, &"", 0);
            assert!(!pool.members()[1].endpoint().is_ejected(0));
        }
    }

    #[test]
    fn least_conn_counts_a_relay_until_it_ends() {
        let pool = pool(&[1, 2], Settings::default());
        let relay = || {
            pool.take(Balance::Least, Wish::Any, MemberSet::default(), 0, 0)
                .map(|(at, hold)| (at, hold.works()))
                .unwrap()
        };
        let relays: Vec<_> = (0..9).map(|_| relay()).collect();
        assert_eq!(relays.iter().filter(|(at, _)| *at == 0).count(), 3);
        assert_eq!(pool.members()[0].endpoint().in_flight(), 3);
        drop(relays);
        assert_eq!(pool.members()[0].endpoint().in_flight(), 0);
    }
}
