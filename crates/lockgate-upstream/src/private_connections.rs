//! Connections to endpoints that get a PROXY header, and that only one client's connection may use
//! therefore.

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use lockgate_limits::MemberIndex;
use lockgate_limits::member_set::MemberSet;
use lockgate_limits::sockets::SocketShare;
use lockgate_net::millis::Millis;

use super::socket_slots::IdleSockets;
use super::upstream_pool::{IdleConnection, UpstreamPool, is_alive};
use super::{Lease, Preference, UpstreamConnection};

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
        kept.retain(|private| !private.is_old(now));
        if kept.len() >= most {
            return;
        }
        let slot = &private.idle.slot;
        slot.set_idle();
        if Rc::weak_count(self) == 0 {
            let keeper = Rc::downgrade(self) as Weak<dyn IdleSockets>;
            slot.slots().register(keeper);
        }
        kept.push(private);
    }
}

impl IdleSockets for PrivateConnections {
    fn oldest(&self) -> Option<Millis> {
        self.0.borrow().first().map(|private| private.idle.since)
    }

    fn close_oldest(&self) {
        let mut kept = self.0.borrow_mut();
        if !kept.is_empty() {
            kept.remove(0);
        }
    }
}

impl Lease {
    /// Keeps the connection for the next request of the same client, and closes old ones:
    /// concurrent streams of HTTP/2 need many, successive ones only the last.
    pub fn keep_private(self, kept: &Rc<PrivateConnections>, now: Millis) {
        if let Some((idle, member, upstream)) = self.into_idle(now) {
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
    fn is_old(&self, now: Millis) -> bool {
        let age = self.upstream.pool().settings.idle_settings.age;
        now - self.idle.since >= age.into()
    }

    /// The connection for another request, if it belongs to `upstream`, is alive, and its endpoint
    /// has room; the endpoint is added to `tried`.
    pub fn take(
        self,
        upstream: &Rc<UpstreamPool>,
        share: Option<SocketShare>,
        now: Millis,
        preference: Preference,
        tried: &mut MemberSet,
    ) -> Option<Lease> {
        let pool = self.upstream.pool();
        let member = pool.member(self.member)?;
        if self.is_old(now)
            || !Rc::ptr_eq(&self.upstream, upstream)
            || !pool.is_still_preferred(self.member, preference, now)
            || !is_alive(&self.idle.link, true)
        {
            return None;
        }
        let permit = member.endpoint().try_take()?;
        tried.insert(self.member);
        let IdleConnection {
            link,
            slot,
            requests,
            ..
        } = self.idle;
        let permit = permit.with_slot(slot).with_share(share);
        Some(Lease::reuse(
            UpstreamConnection::H1(link),
            permit,
            requests,
            (self.member, self.upstream),
            now,
        ))
    }
}
