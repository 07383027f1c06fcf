//! Connections to the endpoints of one pool that one worker keeps for the next request, and the
//! right to use one.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockgate_net::stream::{Blocks, Stream};
use lockgate_rules::{IdleSettings, Retry};

use super::sharing::{Place, Sharing};
use super::slots::Keeper;
use super::{
    DialError, Endpoint, Hold, InFlight, Member, Patience, Pool, Random, Settings,
    Slot, Slots, Wanted, Wire, Wish,
};
use crate::boxed::boxed;
use crate::clients::Account;
use crate::clock::{Guard, millis};
use crate::h1::Link;
use crate::limits::sockets::Share;
use crate::member_set::MemberSet;
use crate::metrics::http::{HttpCells, SiteCells};

/// Hundredths of a retry that are saved up at the most, and what a worker begins with: so that the
/// first failures after a quiet time can be made good.
const SAVED: u32 = 1_000;

/// Milliseconds for which a connection that is too many may still be of use.
const MOMENT: u64 = 1_000;

/// A pool as one worker uses it.
pub struct Upstream {
    pool: Arc<Pool>,
    /// The place of its first member among the process's, for counters; none where nothing is
    /// counted by endpoint.
    first: Option<usize>,
    blocks: Rc<Blocks>,
    slots: Rc<Slots>,
    random: Random,
    /// Hundredths of a retry. Each worker's own: what is a share of the requests of each is one of
    /// those of all.
    budget: Cell<u32>,
    /// For each member; the one used last is taken first, so that those that are too many grow
    /// old.
    idle: Box<[RefCell<VecDeque<Idle>>]>,
    /// For each member, where HTTP/2 is spoken.
    shared: Box<[Rc<Sharing>]>,
}

struct Idle {
    link: Box<Link>,
    slot: Slot,
    since: u64,
    requests: u64,
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream")
            .field("pool", &self.pool)
            .finish_non_exhaustive()
    }
}

/// The right to send one request over a connection; dropping it closes the connection, or its
/// stream where others share it.
#[derive(Debug)]
pub struct Lease {
    /// The connection.
    pub link: Wire,
    /// Requests that it had before.
    pub requests: u64,
    /// How long it took to make, if it is new.
    pub dialled: Option<Duration>,
    in_flight: InFlight,
    hold: Hold,
    /// Whether the endpoint had failed lately when it was chosen.
    avoided: bool,
    member: usize,
    upstream: Rc<Upstream>,
}

impl Upstream {
    /// A pool without connections, whose first member has this place among the process's.
    pub fn new(pool: Arc<Pool>, first: usize, blocks: &Rc<Blocks>, slots: &Rc<Slots>) -> Rc<Self> {
        let upstream = Self::at(Some(first), pool, blocks, slots);
        let keeper = Rc::downgrade(&upstream) as Weak<dyn Keeper>;
        slots.register(keeper);
        upstream
    }

    fn at(
        first: Option<usize>,
        pool: Arc<Pool>,
        blocks: &Rc<Blocks>,
        slots: &Rc<Slots>,
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

    /// One request's own: `link` leads to `endpoint`, and is not kept. Nothing is counted by
    /// endpoint.
    pub fn once(
        (link, slot): (Box<Link>, Slot),
        endpoint: Arc<Endpoint>,
        blocks: &Rc<Blocks>,
        now: u64,
    ) -> Rc<Self> {
        let idle_settings = IdleSettings {
            max: 0,
            ..IdleSettings::default()
        };
        let settings = Settings {
            idle_settings,
            retry: Retry::NEVER,
            ..Settings::default()
        };
        let pool = Pool::new(vec![Member::new(endpoint, 1)], None, None, settings);
        let upstream = Self::at(None, Arc::new(pool), blocks, slot.slots());
        let idle = Idle {
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

    /// A connection to the endpoint that is next: an idle one, if it lives, else a new one, on
    /// which `header` goes first. It takes of the share of `share_of`, if that is limited, and
    /// waits as long as `patience` has it. It is that of `wish` if there is one. Members in `tried`
    /// are passed over, and those that are tried now are added. `http` and `site` count those that
    /// could not be reached, and what waits.
    ///
    /// # Errors
    /// When no endpoint can be reached in time.
    pub async fn lease(
        self: &Rc<Self>,
        (guard, share_of, patience): (&Guard, Option<&Arc<Account>>, &Patience),
        connect: Duration,
        wanted: Wanted,
        header: &[u8],
        (wish, tried): (Wish, &mut MemberSet),
        (http, site): (&HttpCells, &SiteCells),
    ) -> Result<Lease, DialError> {
        // Requests that share connections take hardly any.
        let mut share = match self
            .slots
            .try_share(share_of.filter(|_| !self.pool.settings.http2))
        {
            Ok(share) => share,
            Err(account) => Some(boxed(|| self.portion(account, guard, patience, site)).await?),
        };
        let mut last = None;
        // Of more members than `tried` has room for, not all are told apart: as many attempts as
        // there are members.
        for _ in self.pool.members() {
            let now = guard.clock().now();
            let (member, hold) = match self.pool.choose(wish, *tried, self.random.next(), now) {
                Some(chosen) => chosen,
                None => match boxed(|| self.queue((guard, patience), wish, *tried, site)).await {
                    Ok(chosen) => chosen,
                    Err(error @ DialError::Cut(_)) => return Err(error),
                    Err(error) => return Err(last.unwrap_or(error)),
                },
            };
            tried.insert(member);
            if self.pool.settings.http2 {
                let in_flight = hold.endpoint().begin();
                match boxed(|| self.share(member, hold, in_flight, guard, connect, wanted)).await {
                    Err(error @ DialError::Failed { .. }) => {
                        self.unreachable(member, &error, http);
                        last = Some(error);
                    }
                    done => return done,
                }
                continue;
            }
            if !matches!(wanted, Wanted::New(_))
                && let Some(Idle {
                    link,
                    slot,
                    requests,
                    ..
                }) = self.idle(member, now, wanted == Wanted::Certain)
            {
                let hold = hold.in_slot(slot).of_share(share);
                return Ok(Lease::again(
                    Wire::H1(link),
                    hold,
                    requests,
                    member,
                    Rc::clone(self),
                    now,
                ));
            }
            let in_flight = hold.endpoint().begin();
            match boxed(|| {
                self.dial(
                    member,
                    hold,
                    in_flight,
                    (guard, patience),
                    connect,
                    header,
                    site,
                )
            })
            .await
            {
                // Nothing was sent: another one may do.
                Err(error @ DialError::Failed { .. }) => {
                    self.unreachable(member, &error, http);
                    last = Some(error);
                }
                Ok(mut lease) => {
                    lease.hold = lease.hold.of_share(share.take());
                    return Ok(lease);
                }
                done => return done,
            }
        }
        Err(last.unwrap_or(DialError::Down))
    }

    fn unreachable(&self, member: usize, error: &DialError, http: &HttpCells) {
        if let Some(cells) = http.endpoint(self.place(member)) {
            cells.failed(error.fault());
        }
    }

    /// Waits for a place at a member that was not tried.
    async fn queue(
        &self,
        (guard, patience): (&Guard, &Patience),
        wish: Wish,
        tried: MemberSet,
        site: &SiteCells,
    ) -> Result<(usize, Hold), DialError> {
        let _waiting = Waiting::begin(site);
        self.pool.queue(guard, patience, wish, tried).await
    }

    /// Waits for the client's share of sockets.
    async fn portion(
        &self,
        account: &Arc<Account>,
        guard: &Guard,
        patience: &Patience,
        site: &SiteCells,
    ) -> Result<Share, DialError> {
        let _waiting = Waiting::begin(site);
        self.slots.share(account, guard, patience).await
    }

    /// A place for one more socket.
    async fn slot(
        &self,
        guard: &Guard,
        patience: &Patience,
        site: &SiteCells,
    ) -> Result<Slot, DialError> {
        if let Some(slot) = self.slots.try_take() {
            return Ok(slot);
        }
        let _waiting = Waiting::begin(site);
        self.slots.take(guard, patience).await
    }

    #[expect(clippy::too_many_arguments, reason = "what a dial is made of")]
    async fn dial(
        self: &Rc<Self>,
        member: usize,
        hold: Hold,
        in_flight: InFlight,
        (guard, patience): (&Guard, &Patience),
        connect: Duration,
        header: &[u8],
        site: &SiteCells,
    ) -> Result<Lease, DialError> {
        let hold = hold.in_slot(self.slot(guard, patience, site).await?);
        let began = Instant::now();
        let avoided = hold.endpoint().is_avoided(guard.clock().now());
        let dialled = self
            .pool
            .attempt(hold, &self.slots, (guard, patience), connect, header)
            .await?;
        let before_tls = dialled.session.is_some();
        let stream = Stream::new(dialled.socket, dialled.session, Vec::new());
        let mut link = Box::new(Link::new(stream, &self.blocks, &[]));
        if !before_tls {
            link.writer.head().extend_from_slice(header);
        }
        let link = Wire::H1(link);
        let (dialled, hold, upstream) = (Some(began.elapsed()), dialled.hold, Rc::clone(self));
        Ok(Lease {
            link,
            requests: 0,
            dialled,
            avoided,
            in_flight,
            hold,
            member,
            upstream,
        })
    }

    /// A place on one of the connections that requests share; all of them wait while one more is
    /// made.
    async fn share(
        self: &Rc<Self>,
        member: usize,
        hold: Hold,
        in_flight: InFlight,
        guard: &Guard,
        connect: Duration,
        wanted: Wanted,
    ) -> Result<Lease, DialError> {
        let (began, hold) = (Instant::now(), hold.shares());
        let avoided = hold.endpoint().is_avoided(guard.clock().now());
        let (sharing, idle_settings) = (&self.shared[member], self.pool.settings.idle_settings);
        let (mut wanted, mut waited, mut dialled) = (wanted, false, None);
        loop {
            if let Some(Place { call, requests }) = sharing.place(wanted, idle_settings) {
                let (link, upstream) = (Wire::H2(call), Rc::clone(self));
                let requests = if waited { 0 } else { requests };
                return Ok(Lease {
                    link,
                    requests,
                    dialled,
                    avoided,
                    in_flight,
                    hold,
                    member,
                    upstream,
                });
            }
            // To connect, for TLS and for SETTINGS; more only where others were quicker.
            guard.phase(
                connect
                    .saturating_mul(4)
                    .saturating_add(self.pool.settings.queue.wait),
            );
            let endpoint = Arc::clone(hold.endpoint());
            let made = sharing.another(
                &self.pool,
                &endpoint,
                (&self.blocks, &self.slots),
                guard,
                connect,
            );
            let first = made.await?;
            // What was waited for is as certain as can be.
            if wanted == Wanted::Certain {
                wanted = Wanted::Any;
            }
            waited = true;
            dialled = dialled.or(first.then(|| began.elapsed()));
        }
    }

    fn idle(&self, member: usize, now: u64, certain: bool) -> Option<Idle> {
        let mut idle = self.idle[member].borrow_mut();
        while let Some(last) = idle.pop_back() {
            if lives(&last.link, certain)
                && now.saturating_sub(last.since) < millis(self.pool.settings.idle_settings.age)
            {
                return Some(last);
            }
        }
        None
    }

    /// Whether a member that is not in `tried` could be asked now.
    pub fn has_another(&self, tried: MemberSet) -> bool {
        let members = self.pool.members().iter().enumerate();
        let mut usable = members.filter(|(at, member)| member.is_up() && !tried.contains(*at));
        usable.any(|(_, member)| !member.endpoint().is_full())
    }

    /// Whether one more attempt may be made, which it then counts.
    pub fn may_retry(&self) -> bool {
        let left = self.budget.get().checked_sub(100);
        self.budget.set(left.unwrap_or(self.budget.get()));
        left.is_some()
    }

    /// Counts a request, a share of which may be tried again.
    pub fn count(&self) {
        let saved = self.budget.get() + u32::from(self.pool.settings.retry.budget);
        self.budget.set(saved.min(SAVED));
    }

    /// The place of a member among the process's.
    fn place(&self, member: usize) -> Option<usize> {
        self.first.map(|first| first + member)
    }

    /// For each member, its place among the process's and how many connections to it are idle.
    pub fn idle_connections(&self) -> impl Iterator<Item = (Option<usize>, usize)> {
        self.idle.iter().enumerate().map(|(member, idle)| {
            let shared = self.shared.get(member).map_or(0, |shared| shared.count().0);
            (self.place(member), idle.borrow().len() + shared)
        })
    }

    /// Whether there is a connection that must be looked after.
    pub fn has_connections(&self) -> bool {
        self.idle.iter().any(|idle| !idle.borrow().is_empty())
            || self.shared.iter().any(|shared| shared.count().1 > 0)
    }

    /// Closes what has been idle for too long, was closed by its endpoint, or is too much.
    ///
    /// Too many are closed only here and not as they come: of a thousand requests at once all
    /// connections are idle for a moment, and making them anew for the next thousand would cost
    /// more than everything else.
    pub fn tidy(&self, now: u64) {
        let idle_settings = self.pool.settings.idle_settings;
        for shared in &self.shared {
            shared.tidy(idle_settings, now);
        }
        for idle in &self.idle {
            let mut idle = idle.borrow_mut();
            // The oldest are at the front.
            let spare = idle.len().saturating_sub(idle_settings.max);
            let mut place = 0;
            idle.retain(|one| {
                place += 1;
                let age = now.saturating_sub(one.since);
                age < millis(idle_settings.age)
                    && (place > spare || age < MOMENT)
                    && one.link.stream.is_quiet()
            });
        }
    }
}

impl Keeper for Upstream {
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

/// A request that waits for an endpoint, also when it gives up.
struct Waiting<'a> {
    site: &'a SiteCells,
    since: Instant,
}

impl<'a> Waiting<'a> {
    fn begin(site: &'a SiteCells) -> Self {
        site.queued.inc();
        Self {
            site,
            since: Instant::now(),
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.site.queued.dec();
        self.site.queue_wait.record(self.since.elapsed());
    }
}

pub(super) fn lives(link: &Link, certain: bool) -> bool {
    if certain {
        link.stream.is_quiet_now()
    } else {
        link.stream.is_quiet()
    }
}

impl Lease {
    /// To whom.
    pub fn endpoint(&self) -> &Arc<Endpoint> {
        self.in_flight.endpoint()
    }

    /// Its pool.
    pub fn pool(&self) -> &Pool {
        &self.upstream.pool
    }

    /// The endpoint's place among the members of the pool.
    pub fn member(&self) -> usize {
        self.member
    }

    /// What holds for its pool.
    pub fn settings(&self) -> &Settings {
        &self.upstream.pool.settings
    }

    /// The place of the endpoint among the process's, for counters.
    pub fn place(&self) -> Option<usize> {
        self.upstream.place(self.member)
    }

    /// Whether the endpoint was well when it was chosen and is known since not to be. What was on
    /// its way to one that dies fails all at once, which is one failure and not a pool in
    /// trouble.
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
        matches!(self.link, Wire::H1(_))
    }

    /// One over a connection that is there already.
    pub(super) fn again(
        link: Wire,
        hold: Hold,
        requests: u64,
        member: usize,
        upstream: Rc<Upstream>,
        now: u64,
    ) -> Self {
        let (avoided, in_flight) = (hold.endpoint().is_avoided(now), hold.endpoint().begin());
        Self {
            link,
            requests,
            dialled: None,
            avoided,
            in_flight,
            hold,
            member,
            upstream,
        }
    }

    /// Keeps the connection for the next request of anybody. Only after an answer that has come to
    /// its end; not while its socket is wanted elsewhere.
    pub fn keep(self, now: u64) {
        let wanted = self.are_sockets_wanted();
        let (link, mut hold, requests, member, upstream) = self.into_kept();
        let idle_settings = upstream.pool.settings.idle_settings;
        if let Some(link) = spent(link)
            && let Some(slot) = hold.take_slot()
            && requests + 1 < idle_settings.requests
            && idle_settings.max > 0
            && !wanted
        {
            slot.rests();
            upstream.idle[member].borrow_mut().push_back(Idle {
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

    pub(super) fn into_kept(self) -> (Wire, Hold, u64, usize, Rc<Upstream>) {
        (
            self.link,
            self.hold,
            self.requests,
            self.member,
            self.upstream,
        )
    }

    /// The connection, for whoever speaks something else over it, and what counts for the endpoint.
    pub fn into_parts(self) -> (Wire, Hold, InFlight) {
        (self.link, self.hold, self.in_flight)
    }
}

/// A connection of its own on which nothing of the exchange is left, and nothing has come behind
/// it. One that is shared is kept by whoever shares it.
pub(super) fn spent(link: Wire) -> Option<Box<Link>> {
    match link {
        Wire::H1(link) => link.is_spent().then_some(link),
        Wire::H2(_) => None,
    }
}
