//! Connections to endpoints that get a PROXY header, and that only one client's connection may use
//! therefore.

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use super::lease::{is_alive, idle_h1};
use super::socket_slots::IdleSockets;
use super::{Lease, SocketSlot, UpstreamPool, UpstreamConnection, Preference};
use crate::h1::H1Connection;
use crate::limits::sockets::Share;
use crate::member_set::MemberSet;

/// The idle connections of one client's connection; the one used last is at the end.
#[derive(Debug, Default)]
pub struct PrivateConnections(RefCell<Vec<PrivateConnection>>);

/// An idle connection of one client's connection.
#[derive(Debug)]
pub struct PrivateConnection {
    link: Box<H1Connection>,
    slot: SocketSlot,
    since: u64,
    requests: u64,
    member: usize,
    upstream: Rc<UpstreamPool>,
}

impl PrivateConnections {
    /// Takes the connection that was used last.
    pub fn pop(&self) -> Option<PrivateConnection> {
        self.0.borrow_mut().pop()
    }

    fn push(self: &Rc<Self>, private: PrivateConnection, most: usize, now: u64) {
        let mut kept = self.0.borrow_mut();
        kept.retain(|private| !private.is_old(now));
        if kept.len() >= most {
            return;
        }
        private.slot.set_idle();
        if Rc::weak_count(self) == 0 {
            let keeper = Rc::downgrade(self) as Weak<dyn IdleSockets>;
            private.slot.slots().register(keeper);
        }
        kept.push(private);
    }
}

impl IdleSockets for PrivateConnections {
    fn oldest(&self) -> Option<u64> {
        self.0.borrow().first().map(|private| private.since)
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
    pub fn keep_private(self, kept: &Rc<PrivateConnections>, now: u64) {
        let wanted = self.are_sockets_wanted();
        let (link, mut permit, requests, member, upstream) = self.into_reusable();
        let idle_settings = upstream.pool().settings.idle_settings;
        if let Some(link) = idle_h1(link)
            && let Some(slot) = permit.take_slot()
            && requests + 1 < idle_settings.requests
            && !wanted
        {
            let private = PrivateConnection {
                link,
                slot,
                since: now,
                requests: requests + 1,
                member,
                upstream,
            };
            kept.push(private, idle_settings.max, now);
        }
    }
}

impl PrivateConnection {
    fn is_old(&self, now: u64) -> bool {
        now.saturating_sub(self.since) >= self.upstream.pool().settings.idle_settings.lifetime
    }

    /// The connection for another request, if it belongs to `upstream`, is alive, and its endpoint
    /// has room; the endpoint is added to `tried`.
    pub fn take(
        self,
        upstream: &Rc<UpstreamPool>,
        share: Option<Share>,
        now: u64,
        preference: Preference,
        tried: &mut MemberSet,
    ) -> Option<Lease> {
        let member = self.upstream.pool().members().get(self.member)?;
        if self.is_old(now)
            || !Rc::ptr_eq(&self.upstream, upstream)
            || !upstream.pool().is_still_preferred(self.member, preference, now)
            || !is_alive(&self.link, true)
        {
            return None;
        }
        let permit = member.endpoint().try_take()?;
        tried.insert(self.member);
        let Self {
            link,
            slot,
            requests,
            member,
            upstream,
            ..
        } = self;
        let permit = permit.with_slot(slot).with_share(share);
        Some(Lease::reuse(
            UpstreamConnection::H1(link),
            permit,
            requests,
            member,
            upstream,
            now,
        ))
    }
}
