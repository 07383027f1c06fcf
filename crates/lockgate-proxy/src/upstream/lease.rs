//! Connections to the endpoints of one pool that one worker keeps for the next request, and the right to use one.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use lockgate_net::stream::{Blocks, Stream};

use super::{DialError, Hold, Pool};
use crate::clock::Guard;
use crate::h1::Link;

/// How long connections are kept, and how many.
#[derive(Debug, Clone, Copy)]
pub struct Keeping {
    /// Idle ones to each endpoint, in each worker.
    pub max: usize,
    /// Milliseconds without a request after which one is closed.
    pub lifetime: u64,
    /// Requests after which one is closed.
    pub requests: u32,
}

/// A pool as one worker uses it.
pub struct Upstream {
    pool: Arc<Pool>,
    keeping: Keeping,
    blocks: Rc<Blocks>,
    /// For each endpoint; the one used last is taken first, so that those that are too many grow old.
    idle: Box<[RefCell<Vec<Idle>>]>,
}

struct Idle {
    link: Box<Link>,
    since: u64,
    requests: u32,
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
    /// Its place among the endpoint's.
    pub hold: Hold,
    /// Requests that it had before.
    pub requests: u32,
    index: usize,
    upstream: Rc<Upstream>,
}

impl Upstream {
    /// A pool without connections.
    pub fn new(pool: Arc<Pool>, keeping: Keeping, blocks: &Rc<Blocks>) -> Rc<Self> {
        let idle = pool.endpoints().iter().map(|_| RefCell::default()).collect();
        Rc::new(Self { pool, keeping, blocks: Rc::clone(blocks), idle })
    }

    /// The pool.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// A connection to the endpoint that is chosen: an idle one, if it lives; `certain` asks the kernel whether it does.
    ///
    /// # Errors
    /// When no endpoint can be reached.
    pub async fn lease(
        self: &Rc<Self>,
        guard: &Guard,
        connect: Duration,
        certain: bool,
    ) -> Result<Lease, DialError> {
        let index = 0;
        if let Some(hold) = self.pool.try_hold(index)
            && let Some(idle) = self.idle(index, guard.clock().now(), certain)
        {
            return Ok(Lease { link: idle.link, hold, requests: idle.requests, index, upstream: Rc::clone(self) });
        }
        self.dial(guard, connect).await
    }

    /// A new connection.
    ///
    /// # Errors
    /// When no endpoint can be reached.
    pub async fn dial(self: &Rc<Self>, guard: &Guard, connect: Duration) -> Result<Lease, DialError> {
        let dialled = Box::pin(self.pool.dial(guard, connect, &[])).await?;
        let index = self.pool.index_of(dialled.hold.endpoint());
        let stream = Stream::new(dialled.socket, dialled.session, Vec::new());
        let link = Box::new(Link::new(stream, &self.blocks, &[]));
        Ok(Lease { link, hold: dialled.hold, requests: 0, index, upstream: Rc::clone(self) })
    }

    fn idle(&self, index: usize, now: u64, certain: bool) -> Option<Idle> {
        let mut idle = self.idle.get(index)?.borrow_mut();
        while let Some(last) = idle.pop() {
            let stream = &last.link.stream;
            let lives = if certain { stream.is_quiet_now() } else { stream.is_quiet() };
            if lives && now.saturating_sub(last.since) < self.keeping.lifetime {
                return Some(last);
            }
        }
        None
    }

    /// Closes what has been idle for too long, or was closed by its endpoint.
    pub fn tidy(&self, now: u64) {
        for idle in &self.idle {
            idle.borrow_mut().retain(|one| {
                now.saturating_sub(one.since) < self.keeping.lifetime && one.link.stream.is_quiet()
            });
        }
    }

    /// Closes all that is idle.
    pub fn close(&self) {
        self.idle.iter().for_each(|idle| idle.borrow_mut().clear());
    }
}

impl Lease {
    /// Keeps the connection for the next request. Only after an answer that has come to its end, with nothing behind it.
    pub fn keep(self, now: u64) {
        let Self { link, hold, requests, index, upstream } = self;
        // The endpoint has answered: it is free for whoever waits.
        drop(hold);
        if requests + 1 < upstream.keeping.requests {
            let mut idle = upstream.idle[index].borrow_mut();
            if idle.len() < upstream.keeping.max {
                idle.push(Idle { link, since: now, requests: requests + 1 });
            }
        }
    }
}
