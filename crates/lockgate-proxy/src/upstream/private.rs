//! Connections to endpoints that are told of their client, and that only one client's connection
//! uses therefore.

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use super::lease::{lives, spent};
use super::slots::Keeper;
use super::{Lease, Slot, Upstream, Wire, Wish};
use crate::clock::millis;
use crate::h1::Link;
use crate::limits::sockets::Share;
use crate::member_set::MemberSet;

/// Those of one client's connection that no request uses now; the one used last is at the end.
#[derive(Debug, Default)]
pub struct Kept(RefCell<Vec<Private>>);

/// One of them.
#[derive(Debug)]
pub struct Private {
    link: Box<Link>,
    slot: Slot,
    since: u64,
    requests: u64,
    member: usize,
    upstream: Rc<Upstream>,
}

impl Kept {
    /// The one that was used last.
    pub fn pop(&self) -> Option<Private> {
        self.0.borrow_mut().pop()
    }

    fn push(self: &Rc<Self>, private: Private, most: usize, now: u64) {
        let mut kept = self.0.borrow_mut();
        kept.retain(|private| !private.is_old(now));
        if kept.len() >= most {
            return;
        }
        private.slot.rests();
        if Rc::weak_count(self) == 0 {
            let keeper = Rc::downgrade(self) as Weak<dyn Keeper>;
            private.slot.slots().register(keeper);
        }
        kept.push(private);
    }
}

impl Keeper for Kept {
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
    /// Keeps the connection for the next request of the same client, among those that it has. Of
    /// these the old ones are closed: streams of HTTP/2 at once need many, and one after the
    /// other only the last.
    pub fn keep_private(self, kept: &Rc<Kept>, now: u64) {
        let wanted = self.are_sockets_wanted();
        let (link, mut hold, requests, member, upstream) = self.into_kept();
        let idle_settings = upstream.pool().settings.idle_settings;
        if let Some(link) = spent(link)
            && let Some(slot) = hold.take_slot()
            && requests + 1 < idle_settings.requests
            && !wanted
        {
            let private = Private {
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

impl Private {
    fn is_old(&self, now: u64) -> bool {
        now.saturating_sub(self.since) >= millis(self.upstream.pool().settings.idle_settings.age)
    }

    /// The connection for another request, if it is one of `upstream`, lives, and its endpoint has
    /// room; that is then among those that were tried.
    pub fn take(
        self,
        upstream: &Rc<Upstream>,
        share: Option<Share>,
        now: u64,
        wish: Wish,
        tried: &mut MemberSet,
    ) -> Option<Lease> {
        let member = self.upstream.pool().members().get(self.member)?;
        if self.is_old(now)
            || !Rc::ptr_eq(&self.upstream, upstream)
            || !upstream.pool().may_stay(self.member, wish, now)
            || !lives(&self.link, true)
        {
            return None;
        }
        let hold = member.endpoint().try_take()?;
        tried.insert(self.member);
        let Self {
            link,
            slot,
            requests,
            member,
            upstream,
            ..
        } = self;
        let hold = hold.in_slot(slot).of_share(share);
        Some(Lease::again(
            Wire::H1(link),
            hold,
            requests,
            member,
            upstream,
            now,
        ))
    }
}
