//! A pool as one worker uses it: the idle connections to its endpoints, and the budget of retries.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use lockgate_http_io::h1::H1Connection;
use lockgate_limits::MemberIndex;
use lockgate_limits::clock::ResponseSource;
use lockgate_limits::member_set::MemberSet;
use lockgate_net::millis::Millis;
use lockgate_rules::{IdleSettings, Retry};

use super::connection_usage::ConnectionUsage;
use super::h2_pool::H2Pool;
use super::worker_sockets::IdleSockets;
use super::{
    Endpoint, EndpointIndex, Member, Pool, Random, ReusePolicy, Settings, SocketPermit,
    UpstreamBuffers, WorkerSockets,
};

/// The most hundredths of a retry that are saved up, and the initial number: so that the first
/// failures after a quiet time can be retried.
const SAVED: u32 = 1_000;

/// The time for which a superfluous connection is kept.
const MOMENT: Millis = Millis::from_secs(1);

/// A pool with the connections of one worker.
pub struct UpstreamPool {
    pub(super) pool: Arc<Pool>,
    /// The index of its first member among those of the configuration, for counters; none where
    /// nothing is counted by endpoint.
    first: Option<EndpointIndex>,
    pub(super) buffers: UpstreamBuffers,
    pub(super) sockets: Rc<WorkerSockets>,
    pub(super) random: Random,
    /// Hundredths of a retry. Each worker has its own: the same share of each worker's requests is
    /// that share of all.
    budget: Cell<u32>,
    /// The connections to each member.
    connections: Box<[Rc<MemberConnections>]>,
}

/// The connections of one worker to one member of a pool. Pools of two configurations share them
/// where the endpoint, and how it is connected to, is the same.
#[derive(Debug, Default)]
pub(super) struct MemberConnections {
    /// The idle ones; the one used last is taken first, so that superfluous ones become old.
    idle: RefCell<VecDeque<IdleConnection>>,
    /// Those over HTTP/2, if the endpoint speaks that.
    pub(super) h2: Rc<H2Pool>,
    /// Whether none is kept any more, since no configuration that runs has the endpoint.
    closed: Cell<bool>,
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
    /// A pool; its first member has the index `first` among those of the configuration. It shares
    /// the connections and the budget of `previous`, the pool that had its name before.
    pub fn new(
        pool: Arc<Pool>,
        first: EndpointIndex,
        previous: Option<&Self>,
        buffers: &UpstreamBuffers,
        sockets: &Rc<WorkerSockets>,
    ) -> Rc<Self> {
        let upstream = Self::at(Some(first), pool, previous, (buffers, sockets));
        let keeper = Rc::downgrade(&upstream) as Weak<dyn IdleSockets>;
        sockets.register(keeper);
        upstream
    }

    fn at(
        first: Option<EndpointIndex>,
        pool: Arc<Pool>,
        previous: Option<&Self>,
        (buffers, sockets): (&UpstreamBuffers, &Rc<WorkerSockets>),
    ) -> Rc<Self> {
        let alike = previous.filter(|previous| previous.pool.connects_as(&pool));
        let known = |member: &Member| {
            let alike = alike?;
            let mut members = alike.pool.members().iter().zip(&alike.connections);
            members
                .find(|(known, _)| Arc::ptr_eq(known.endpoint(), member.endpoint()))
                .map(|(_, connections)| Rc::clone(connections))
        };
        let connections = pool
            .members()
            .iter()
            .map(|member| known(member).unwrap_or_default())
            .collect();
        let budget = Cell::new(previous.map_or(SAVED, |previous| previous.budget.get()));
        Rc::new(Self {
            pool,
            first,
            buffers: buffers.clone(),
            sockets: Rc::clone(sockets),
            random: Random::new(),
            budget,
            connections,
        })
    }

    /// Its connections to members, to be told from those of other pools.
    pub fn connection_ids(&self) -> impl Iterator<Item = *const ()> {
        self.connections.iter().map(|one| Rc::as_ptr(one).cast())
    }

    /// Keeps no idle connection any more, except those that `is_kept` finds among the next
    /// configuration's: its requests are the last to these endpoints.
    pub fn retire(&self, is_kept: impl Fn(*const ()) -> bool) {
        for connections in &self.connections {
            if !is_kept(Rc::as_ptr(connections).cast()) {
                connections.closed.set(true);
                connections.idle.take();
                connections.h2.retire();
            }
        }
    }

    /// The member that shares the connections of a member of `other`, a pool of the same worker.
    pub(super) fn member_of(&self, other: &Self, member: MemberIndex) -> Option<MemberIndex> {
        let shared = other.connections.get(member.get())?;
        let mut members = MemberIndex::enumerate(&self.connections);
        members
            .find(|(_, connections)| Rc::ptr_eq(connections, shared))
            .map(|(member, _)| member)
    }

    pub(super) fn connections(&self, member: MemberIndex) -> &MemberConnections {
        &self.connections[member.get()]
    }

    /// The pool of a single request: `connection` leads to `endpoint`, and is not kept. Nothing is
    /// counted by endpoint.
    pub fn single_use(
        (connection, socket_permit): (Box<H1Connection>, SocketPermit),
        endpoint: Arc<Endpoint>,
        buffers: &UpstreamBuffers,
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
        let upstream = Self::at(
            None,
            Arc::new(pool),
            None,
            (buffers, socket_permit.sockets()),
        );
        let idle = IdleConnection {
            connection,
            socket_permit,
            usage: ConnectionUsage::new(now),
        };
        if let Some(first) = upstream.connections.first() {
            first.idle.borrow_mut().push_back(idle);
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
        let mut idle = self.connections(member).idle.borrow_mut();
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
        let connections = self.connections(member);
        if !connections.closed.get() && self.is_ready(member) {
            idle.socket_permit.set_idle();
            connections.idle.borrow_mut().push_back(idle);
        }
    }

    /// Whether no operator has taken the member out of the pool.
    pub(super) fn is_ready(&self, member: MemberIndex) -> bool {
        self.pool.member(member).is_some_and(Member::is_ready)
    }

    pub(super) fn are_sockets_wanted(&self) -> bool {
        self.sockets.are_wanted()
    }

    /// Whether a member outside `tried` is up and has room.
    pub fn has_another(&self, tried: MemberSet) -> bool {
        let members = MemberIndex::enumerate(self.pool.members());
        let mut usable =
            members.filter(|(at, member)| member.takes_any_client() && !tried.contains(*at));
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

    /// The index of a member among those of the configuration.
    pub(super) fn endpoint_index(&self, member: MemberIndex) -> Option<EndpointIndex> {
        self.first.map(|first| first.of_member(member))
    }

    /// For each member, its index among those of the configuration and the number of idle
    /// connections to it.
    pub fn idle_connections(&self) -> impl Iterator<Item = (Option<EndpointIndex>, usize)> {
        MemberIndex::enumerate(&self.connections).map(|(member, connections)| {
            let idle = connections.idle.borrow().len() + connections.h2.count().0;
            (self.endpoint_index(member), idle)
        })
    }

    /// Whether there are connections, which need ticks.
    pub fn has_connections(&self) -> bool {
        self.connections.iter().any(|connections| {
            !connections.idle.borrow().is_empty() || connections.h2.count().1 > 0
        })
    }

    /// Closes connections that have been idle for too long, were closed by their endpoint, or are
    /// superfluous.
    ///
    /// Superfluous ones are closed only here and not at once: after a thousand concurrent requests
    /// all connections are idle for a moment, and new ones for the next thousand would cost more
    /// than everything else.
    pub fn close_stale(&self, now: Millis) {
        self.close_administered();
        let idle_settings = self.pool.settings.idle_settings;
        for connections in &self.connections {
            connections.h2.close_stale(idle_settings, now);
            let mut idle = connections.idle.borrow_mut();
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

impl MemberConnections {
    fn oldest_idle(&self) -> Option<Millis> {
        self.idle.borrow().front().map(|one| one.usage.idle_since)
    }

    /// Since when the longest idle connection is idle.
    fn oldest(&self) -> Option<Millis> {
        self.oldest_idle().into_iter().chain(self.h2.oldest()).min()
    }

    fn close_oldest(&self) {
        if self.oldest_idle().is_some() && self.oldest_idle() == self.oldest() {
            self.idle.borrow_mut().pop_front();
        } else {
            self.h2.close_oldest();
        }
    }
}

impl ResponseSource for UpstreamPool {
    fn is_given_up(
        &self,
        member: MemberIndex,
        tried: Option<MemberSet>,
        waited: Duration,
        now: Millis,
    ) -> bool {
        let Some(member) = self.pool.member(member) else {
            return false;
        };
        // An endpoint that has stopped gets no more requests within ticks, and not only after the
        // first deadline. Where no other endpoint can be asked, it may be merely busy, and the wait
        // goes on.
        member.endpoint().record_wait(waited, now);
        !member.is_up() && tried.is_some_and(|tried| self.has_another(tried))
    }
}

impl IdleSockets for UpstreamPool {
    fn oldest(&self) -> Option<Millis> {
        let oldest = self
            .connections
            .iter()
            .map(|connections| connections.oldest());
        oldest.flatten().min()
    }

    fn close_administered(&self) {
        for (member, connections) in self.pool.members().iter().zip(&self.connections) {
            if !member.is_ready() {
                connections.idle.take();
                connections.h2.close_all_when_idle();
            }
        }
    }

    fn close_oldest(&self) {
        let oldest = self.connections.iter();
        let oldest = oldest.filter_map(|connections| Some((connections.oldest()?, connections)));
        if let Some((_, connections)) = oldest.min_by_key(|(since, _)| *since) {
            connections.close_oldest();
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
