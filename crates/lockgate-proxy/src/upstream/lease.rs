//! Connections to the endpoints of one pool that one worker keeps for the next request, and the right to use one.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use lockgate_net::stream::{Blocks, Stream};

use super::{DialError, Endpoint, Hold, InFlight, Pool, Random};
use crate::clock::{Cut, Guard};
use crate::h1::Link;

/// Members that one request was sent to already: of more than that nobody asks which.
pub type Tried = u64;

/// A pool as one worker uses it.
pub struct Upstream {
    pool: Arc<Pool>,
    blocks: Rc<Blocks>,
    random: Random,
    /// For each member; the one used last is taken first, so that those that are too many grow old.
    idle: Box<[RefCell<Vec<Idle>>]>,
}

struct Idle {
    link: Box<Link>,
    since: u64,
    requests: u64,
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream").field("pool", &self.pool).finish_non_exhaustive()
    }
}

/// The right to send one request over a connection; dropping it closes the connection.
#[derive(Debug)]
pub struct Lease {
    /// The connection.
    pub link: Box<Link>,
    /// Requests that it had before.
    pub requests: u64,
    in_flight: InFlight,
    _hold: Hold,
    member: usize,
    upstream: Rc<Upstream>,
}

impl Upstream {
    /// A pool without connections.
    pub fn new(pool: Arc<Pool>, blocks: &Rc<Blocks>) -> Rc<Self> {
        let idle = pool.members().iter().map(|_| RefCell::default()).collect();
        Rc::new(Self { pool, blocks: Rc::clone(blocks), random: Random::new(), idle })
    }

    /// The pool.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// A connection to the endpoint that is next: an idle one, if it lives. `certain` asks the kernel whether it does,
    /// `fresh` makes a new one in any case. Members in `tried` are passed over, and the one that is chosen is added.
    ///
    /// # Errors
    /// When no endpoint can be reached in time.
    pub async fn lease(
        self: &Rc<Self>,
        guard: &Guard,
        connect: Duration,
        wanted: Wanted,
        tried: &mut Tried,
    ) -> Result<Lease, DialError> {
        let mut failed = None;
        loop {
            let now = guard.clock().now();
            let untried = |member: usize| member >= 64 || *tried & (1 << member) == 0;
            let Some(member) = self.pool.choose(untried, self.random.next(), now) else {
                return Err(failed.unwrap_or(DialError::Down));
            };
            *tried |= 1_u64.checked_shl(member as u32).unwrap_or(0);
            let endpoint = self.pool.members()[member].endpoint();
            let hold = match endpoint.try_take() {
                Some(hold) => hold,
                None => Box::pin(wait(endpoint, guard, connect)).await?,
            };
            let in_flight = endpoint.begin();
            if wanted != Wanted::New
                && let Some(idle) = self.idle(member, now, wanted == Wanted::Certain)
            {
                let Idle { link, requests, .. } = idle;
                let upstream = Rc::clone(self);
                return Ok(Lease { link, requests, in_flight, _hold: hold, member, upstream });
            }
            match Box::pin(self.pool.attempt(hold, guard, connect, &[])).await {
                Ok(dialled) => {
                    let stream = Stream::new(dialled.socket, dialled.session, Vec::new());
                    let link = Box::new(Link::new(stream, &self.blocks, &[]));
                    let upstream = Rc::clone(self);
                    return Ok(Lease { link, requests: 0, in_flight, _hold: dialled.hold, member, upstream });
                }
                // Nothing was sent: another one may do.
                Err(error @ DialError::Failed { .. }) => failed = Some(error),
                Err(error) => return Err(error),
            }
        }
    }

    fn idle(&self, member: usize, now: u64, certain: bool) -> Option<Idle> {
        let mut idle = self.idle[member].borrow_mut();
        while let Some(last) = idle.pop() {
            let stream = &last.link.stream;
            let lives = if certain { stream.is_quiet_now() } else { stream.is_quiet() };
            if lives && now.saturating_sub(last.since) < self.pool.settings.keeping.lifetime {
                return Some(last);
            }
        }
        None
    }

    /// How many connections are idle.
    pub fn idle_connections(&self) -> usize {
        self.idle.iter().map(|idle| idle.borrow().len()).sum()
    }

    /// Closes what has been idle for too long, or was closed by its endpoint.
    pub fn tidy(&self, now: u64) {
        for idle in &self.idle {
            idle.borrow_mut().retain(|one| {
                now.saturating_sub(one.since) < self.pool.settings.keeping.lifetime && one.link.stream.is_quiet()
            });
        }
    }

    /// Closes all that is idle.
    pub fn close(&self) {
        self.idle.iter().for_each(|idle| idle.borrow_mut().clear());
    }
}

/// Which connection is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Any that is not known to be dead.
    Any,
    /// One of which the kernel says that it lives: for what must not be sent twice.
    Certain,
    /// A new one.
    New,
}

/// Waits for a place at an endpoint that is at its `max`.
async fn wait(endpoint: &Arc<Endpoint>, guard: &Guard, limit: Duration) -> Result<Hold, DialError> {
    guard.phase(limit);
    guard.within(endpoint.take()).await.map_err(|cut| match cut {
        Cut::Deadline => DialError::Full,
        cut => DialError::Cut(cut),
    })
}

impl Lease {
    /// To whom.
    pub fn endpoint(&self) -> &Arc<Endpoint> {
        self.in_flight.endpoint()
    }

    /// Keeps the connection for the next request. Only after an answer that has come to its end, with nothing behind it.
    pub fn keep(self, now: u64) {
        let Self { link, requests, member, upstream, .. } = self;
        if requests + 1 < upstream.pool.settings.keeping.requests {
            let mut idle = upstream.idle[member].borrow_mut();
            if idle.len() < upstream.pool.settings.keeping.max {
                idle.push(Idle { link, since: now, requests: requests + 1 });
            }
        }
    }
}
