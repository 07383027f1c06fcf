//! A pool as one worker uses it: the idle connections to its endpoints, and the budget of retries.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use lockgate_http_io::h1::H1Connection;
use lockgate_limits::MemberIndex;
use lockgate_limits::member_set::MemberSet;
use lockgate_net::millis::Millis;
use lockgate_net::stream::BufferPool;
use lockgate_rules::{IdleSettings, Retry};

use super::connection_usage::ConnectionUsage;
use super::h2_pool::H2Pool;
use super::worker_sockets::IdleSockets;
use super::{
    Endpoint, EndpointIndex, Member, Pool, Random, ReusePolicy, Settings, SocketPermit,
    WorkerSockets,
};

/// The most hundredths of a retry that are saved up, and the initial number: so that the first
/// failures after a quiet time can be retried.
const SAVED: u32 = 1_000;

/// The time for which a superfluous connection is kept.
const MOMENT: Millis = Millis::from_secs(1);

/// A pool with the connections of one worker.
pub struct UpstreamPool {
    pub(super) pool: Arc<Pool>,
    /// The index of its first member among the process's, for counters; none where nothing is
    /// counted by endpoint.
    first: Option<EndpointIndex>,
    pub(super) blocks: Rc<BufferPool>,
    pub(super) sockets: Rc<WorkerSockets>,
    pub(super) random: Random,
    /// Hundredths of a retry. Each worker has its own: the same share of each worker's requests is
    /// that share of all.
    budget: Cell<u32>,
    /// The idle connections to each member; the one used last is taken first, so that superfluous
    /// ones become old.
    idle: Box<[RefCell<VecDeque<IdleConnection>>]>,
    /// The HTTP/2 connections to each member, where it speaks that.
    pub(super) h2_pools: Box<[Rc<H2Pool>]>,
}

/// An idle HTTP/1 connection.
#[derive(Debug)]
pub(super) struct IdleConnection {
    pub(super) connection: Box<H1Connection>,
    pub(super) socket_permit: SocketPermit,
    /// Its use; it has no request.
    pub(super) usage: ConnectionUsage,
}

impl fmt::Debug for UpstreamPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpstreamPool")
            .field("pool", &self.pool)
            .finish_non_exhaustive()
    }
}

impl UpstreamPool {
    /// A pool without connections. Its first member has the index `first` among the process's.
    pub fn new(
        pool: Arc<Pool>,
        first: EndpointIndex,
        blocks: &Rc<BufferPool>,
        sockets: &Rc<WorkerSockets>,
    ) -> Rc<Self> {
        let upstream = Self::at(Some(first), pool, blocks, sockets);
        let keeper = Rc::downgrade(&upstream) as Weak<dyn IdleSockets>;
        sockets.register(keeper);
        upstream
    }

    fn at(
        first: Option<EndpointIndex>,
        pool: Arc<Pool>,
        blocks: &Rc<BufferPool>,
        sockets: &Rc<WorkerSockets>,
    ) -> Rc<Self> {
        let idle = pool.members().iter().map(|_| RefCell::default()).collect();
        let h2_pools = pool
            .members()
            .iter()
            .filter(|_| pool.settings.http2)
            .map(|_| Rc::default())
            .collect();
        let (blocks, sockets) = (Rc::clone(blocks), Rc::clone(sockets));
        let (random, budget) = (Random::new(), Cell::new(SAVED));
        Rc::new(Self {
            pool,
            first,
            blocks,
            sockets,
            random,
            budget,
            idle,
            h2_pools,
        })
    }

    /// The pool of a single request: `connection` leads to `endpoint`, and is not kept. Nothing is
    /// counted by endpoint.
    pub fn single_use(
        (connection, socket_permit): (Box<H1Connection>, SocketPermit),
        endpoint: Arc<Endpoint>,
        blocks: &Rc<BufferPool>,
        now: Millis,
    ) -> Rc<Self> {
        let idle_settings = IdleSettings {
            max: 0,
            ..IdleSettings::default()
        };
        let retry = Retry::NEVER;
        let settings = Settings {
            idle_settings,
            retry,
            ..Settings::default()
        };
        let pool = Pool::new(vec![Member::new(endpoint, 1)], None, None, settings);
        let upstream = Self::at(None, Arc::new(pool), blocks, socket_permit.sockets());
        let idle = IdleConnection {
            connection,
            socket_permit,
            usage: ConnectionUsage::new(now),
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

    /// Takes an idle HTTP/1 connection to a member, if the policy allows one that is there.
    pub(super) fn take_idle(
        &self,
        member: MemberIndex,
        reuse: ReusePolicy,
        now: Millis,
    ) -> Option<IdleConnection> {
        let certain = match reuse {
            ReusePolicy::Any => false,
            ReusePolicy::Alive => true,
            ReusePolicy::New(_) => return None,
        };
        let idle_settings = self.pool.settings.idle_settings;
        let mut idle = self.idle[member.get()].borrow_mut();
        while let Some(last) = idle.pop_back() {
            if is_alive(&last.connection, certain) && last.usage.allows_request(idle_settings, now)
            {
                return Some(last);
            }
        }
        None
    }

    /// Keeps a connection for the next request.
    pub(super) fn keep_idle(&self, member: MemberIndex, idle: IdleConnection) {
        idle.socket_permit.set_idle();
        self.idle[member.get()].borrow_mut().push_back(idle);
    }

    pub(super) fn are_sockets_wanted(&self) -> bool {
        self.sockets.are_wanted()
    }

    /// Whether a member outside `tried` is up and has room.
    pub fn has_another(&self, tried: MemberSet) -> bool {
        let members = MemberIndex::enumerate(self.pool.members());
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
    pub(super) fn endpoint_index(&self, member: MemberIndex) -> Option<EndpointIndex> {
        self.first.map(|first| first.of_member(member))
    }

    /// For each member, its index among the process's and the number of idle connections to it.
    pub fn idle_connections(&self) -> impl Iterator<Item = (Option<EndpointIndex>, usize)> {
        MemberIndex::enumerate(&self.idle).map(|(member, idle)| {
            let shared = self
                .h2_pools
                .get(member.get())
                .map_or(0, |h2_pool| h2_pool.count().0);
            (self.endpoint_index(member), idle.borrow().len() + shared)
        })
    }

    /// Whether there are connections, which need ticks.
    pub fn has_connections(&self) -> bool {
        self.idle.iter().any(|idle| !idle.borrow().is_empty())
            || self.h2_pools.iter().any(|h2_pool| h2_pool.count().1 > 0)
    }

    /// Closes connections that have been idle for too long, were closed by their endpoint, or are
    /// superfluous.
    ///
    /// Superfluous ones are closed only here and not at once: after a thousand concurrent requests
    /// all connections are idle for a moment, and new ones for the next thousand would cost more
    /// than everything else.
    pub fn close_stale(&self, now: Millis) {
        let idle_settings = self.pool.settings.idle_settings;
        for h2_pool in &self.h2_pools {
            h2_pool.close_stale(idle_settings, now);
        }
        for idle in &self.idle {
            let mut idle = idle.borrow_mut();
            // The oldest are at the front.
            let spare = idle.len().saturating_sub(idle_settings.max);
            let mut index = 0;
            idle.retain(|one| {
                index += 1;
                one.usage.allows_request(idle_settings, now)
                    && (index > spare || one.usage.idle_for(now) < MOMENT)
                    && one.connection.stream.is_quiet()
            });
        }
    }
}

impl IdleSockets for UpstreamPool {
    fn oldest(&self) -> Option<Millis> {
        let own = self
            .idle
            .iter()
            .filter_map(|idle| idle.borrow().front().map(|one| one.usage.idle_since));
        own.chain(self.h2_pools.iter().filter_map(|h2_pool| h2_pool.oldest()))
            .min()
    }

    fn close_oldest(&self) {
        let Some(oldest) = self.oldest() else { return };
        for idle in &self.idle {
            let front = idle.borrow().front().map(|one| one.usage.idle_since);
            if front == Some(oldest) {
                idle.borrow_mut().pop_front();
                return;
            }
        }
        if let Some(h2_pool) = self
            .h2_pools
            .iter()
            .find(|h2_pool| h2_pool.oldest() == Some(oldest))
        {
            h2_pool.close_oldest();
        }
    }
}

pub(super) fn is_alive(connection: &H1Connection, certain: bool) -> bool {
    if certain {
        connection.stream.is_quiet_now()
    } else {
        connection.stream.is_quiet()
    }
}
