//! Connections to endpoints that get a PROXY header, and that only one client's connection may use
//! therefore.

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use lockgate_limits::MemberIndex;
use lockgate_limits::member_set::MemberSet;
use lockgate_limits::sockets::SocketShare;
use lockgate_net::millis::Millis;

use super::upstream_pool::{IdleConnection, UpstreamPool, is_alive};
use super::worker_sockets::IdleSockets;
use super::{Lease, Preference};

/// The idle connections of one client's connection; the one used last is at the end.
#[derive(Debug, Default)]
pub struct PrivateConnections(RefCell<Vec<PrivateConnection>>);

/// An idle connection of one client's connection.
#[derive(Debug)]
pub struct PrivateConnection {
    idle: IdleConnection,
    member: MemberIndex,
    upstream: Rc<UpstreamPool>,
}

impl PrivateConnections {
    /// Takes the connection that was used last.
    pub fn pop(&self) -> Option<PrivateConnection> {
        self.0.borrow_mut().pop()
    }

    fn push(self: &Rc<Self>, private: PrivateConnection, most: usize, now: Millis) {
        let mut kept = self.0.borrow_mut();
        kept.retain(|private| private.may_serve(now));
        if kept.len() >= most {
            return;
        }
        let socket_permit = &private.idle.socket_permit;
        socket_permit.set_idle();
        if Rc::weak_count(self) == 0 {
            let keeper = Rc::downgrade(self) as Weak<dyn IdleSockets>;
            socket_permit.sockets().register(keeper);
        }
        kept.push(private);
    }
}

impl IdleSockets for PrivateConnections {
    fn oldest(&self) -> Option<Millis> {
        let kept = self.0.borrow();
        kept.first().map(|private| private.idle.usage.idle_since)
    }

    fn close_oldest(&self) {
        let mut kept = self.0.borrow_mut();
        if !kept.is_empty() {
            kept.remove(0);
        }
    }

    fn close_administered(&self) {
        let mut kept = self.0.borrow_mut();
        kept.retain(|private| private.upstream.is_ready(private.member));
    }
}

impl Lease {
    /// Keeps the connection for the next request of the same client, and closes old ones:
    /// concurrent streams of HTTP/2 need many, successive ones only the last.
    pub fn keep_private(self, kept: &Rc<PrivateConnections>, now: Millis) {
        if let Some((idle, member, upstream)) = self.into_idle(now)
            && upstream.is_ready(member)
        {
            let most = upstream.pool().settings.idle_settings.max;
            let private = PrivateConnection {
                idle,
                member,
                upstream,
            };
            kept.push(private, most, now);
        }
    }
}

impl PrivateConnection {
    fn may_serve(&self, now: Millis) -> bool {
        let idle_settings = self.upstream.pool().settings.idle_settings;
        self.idle.usage.allows_request(idle_settings, now)
    }

    /// The connection for another request, if `upstream` has its endpoint, it is alive, and its
    /// endpoint has room; the endpoint is added to `tried`.
    pub fn take(
        self,
        upstream: &Rc<UpstreamPool>,
        share: Option<SocketShare>,
        now: Millis,
        preference: Preference,
        tried: &mut MemberSet,
    ) -> Option<Lease> {
        let member = upstream.member_of(&self.upstream, self.member)?;
        let pool = upstream.pool();
        if !self.may_serve(now)
            || !pool.is_still_preferred(member, preference, now)
            || !is_alive(&self.idle.connection, true)
        {
            return None;
        }
        let mut permit = pool.member(member)?.endpoint().try_take()?;
        tried.insert(member);
        permit.set_share(share);
        Some(Lease::reuse(
            self.idle,
            permit,
            (member, Rc::clone(upstream)),
            now,
        ))
    }
}
