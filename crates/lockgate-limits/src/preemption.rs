//! What ends for others where permits run out: connections of clients, and exchanges that use a
//! socket towards an endpoint.
//!
//! Idle ones go first, then those that stand still, of the clients that hold more than their part.
//! A client that leaves responses unread, sends bodies without end or uses an endpoint that hangs
//! would else keep all others waiting. Exchanges that move bytes go on.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;

use lockgate_net::millis::Millis;

use crate::clients::{ClientAccount, CountedConnection};
use crate::clock::{Clock, Cut, WaitReason, Watch};

/// The time without a byte after which an exchange stands still.
const STILL: Millis = Millis::from_secs(2);
/// Connections that are closed at once at the most where one permit is wanted: an eighth of those
/// that may go first. The search costs as much for one.
const CLOSED_AT_ONCE: usize = 32;

/// Which connections that wait for nothing are closed for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdleAge {
    /// Connections that are idle for a while.
    Long,
    /// Connections that have just become idle, too.
    Any,
}

/// Why a connection is closed for others; the first of these go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum PreemptionReason {
    /// The connection of a greedy client that is idle for a while, or is only to be closed by the
    /// client.
    GreedyRests,
    /// The connection of a greedy client that is not open yet.
    GreedyOpens,
    /// A connection that is idle for a while, or only to be closed by the client.
    Rests,
    /// The connection of a greedy client that is under way and stands still.
    GreedyStands,
    /// The connection of a greedy client that has just become idle.
    GreedyIdles,
    /// A connection that has just become idle, or was just made.
    Idles,
}

impl PreemptionReason {
    /// The reason to close a connection that has waited or stood still for so long.
    fn of(waiting: WaitReason, still: Millis, is_greedy: bool, idle: IdleAge) -> Option<Self> {
        let is_still = still >= STILL;
        match waiting {
            WaitReason::ForRequest | WaitReason::ForClose if is_still && !is_greedy => {
                Some(Self::Rests)
            }
            WaitReason::ForClose => is_greedy.then_some(Self::GreedyRests),
            WaitReason::ForRequest if is_greedy => Some(if is_still {
                Self::GreedyRests
            } else {
                Self::GreedyIdles
            }),
            WaitReason::ForRequest => (idle == IdleAge::Any).then_some(Self::Idles),
            WaitReason::ForHead => is_greedy.then_some(Self::GreedyOpens),
            WaitReason::Nothing | WaitReason::ForBody | WaitReason::ForRoom => {
                (is_greedy && is_still).then_some(Self::GreedyStands)
            }
            WaitReason::ForPermit | WaitReason::ForStreams | WaitReason::ForTunnel => None,
        }
    }
}

/// Closes connections of one worker where `wanted` are, and tells how many. Of those with one
/// reason it takes those of the clients that hold most, and of these the oldest. A client with more
/// than `part` is greedy.
pub fn close_connections(clock: &Clock, wanted: usize, part: usize, idle: IdleAge) -> usize {
    let now = clock.now();
    let first = Cell::new(0);
    let order = |watch: &Watch| {
        let waiting = watch.waiting();
        let still = match waiting {
            // Even if it still sends.
            WaitReason::ForRequest | WaitReason::ForClose => now - watch.since(),
            _ => watch.still_for(now),
        };
        // Accounts are read of those that may give way only: other workers write them.
        PreemptionReason::of(waiting, still, true, idle)?;
        let account = watch.account.get().map(CountedConnection::account);
        let held = account.map_or(0, |account| account.connections.now());
        let is_greedy = held > part && !account.is_some_and(|account| account.is_exempt());
        let reason = PreemptionReason::of(waiting, still, is_greedy, idle)?;
        first.set(first.get() + usize::from(reason <= PreemptionReason::GreedyOpens));
        Some((reason, Reverse(held), watch.since()))
    };
    clock.make_room(order, |_| wanted.max((first.get() / 8).min(CLOSED_AT_ONCE)))
}

/// An exchange that uses a socket.
struct SocketUse {
    watch: Rc<Watch>,
    client: IpAddr,
    still: Millis,
}

/// Ends exchanges of one worker as long as they are `wanted`, which is called once for each;
/// returns their number.
pub fn end_stalled_exchanges(clock: &Clock, wanted: impl FnMut() -> bool) -> usize {
    end_at(clock.now(), clock, wanted)
}

fn end_at(now: Millis, clock: &Clock, mut wanted: impl FnMut() -> bool) -> usize {
    let (mut counts, mut exchanges) = (HashMap::<IpAddr, usize>::new(), Vec::new());
    clock.each_shared(|watch| {
        if let Some(account) = account(watch).filter(|_| uses_socket(watch)) {
            let (client, still) = (account.client(), watch.still_for(now));
            *counts.entry(client).or_default() += 1;
            if still >= STILL && !account.is_exempt() {
                exchanges.push(SocketUse {
                    watch: Rc::clone(watch),
                    client,
                    still,
                });
            }
        }
    });
    // As if there were one client more: that is the one for which this is done.
    let part = counts.values().sum::<usize>() / (counts.len() + 1);
    // Of the exchanges that stand still, that of the client that holds most is ended first.
    exchanges.sort_by_key(|exchange| Reverse(exchange.still));
    let mut ended = 0;
    loop {
        let held = |exchange: &SocketUse| counts.get(&exchange.client).copied().unwrap_or(0);
        let most = exchanges
            .iter()
            .enumerate()
            .rev()
            .max_by_key(|(_, exchange)| held(exchange));
        let Some((index, exchange)) = most else {
            return ended;
        };
        if held(exchange) <= part || !wanted() {
            return ended;
        }
        exchange.watch.cut(Cut::Crowded);
        if let Some(count) = counts.get_mut(&exchange.client) {
            *count -= 1;
        }
        exchanges.remove(index);
        ended += 1;
    }
}

/// The account of the client of a connection, or of a stream of it.
fn account(watch: &Watch) -> Option<&ClientAccount> {
    let connection = watch
        .stream_of
        .get()
        .map_or(watch, |connection| &**connection);
    connection
        .account
        .get()
        .map(|connected| &**connected.account())
}

fn uses_socket(watch: &Watch) -> bool {
    let exchanges = matches!(
        watch.waiting(),
        WaitReason::Nothing | WaitReason::ForBody | WaitReason::ForRoom
    );
    exchanges && watch.uses_socket.get() && !watch.is_cut()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::clients::{ClientClass, Clients, CountedConnection};
    use crate::clock::{Guard, Ticker};

    /// Exchanges of one worker, of clients by number, begun a while ago.
    struct Begun {
        clients: Arc<Clients>,
        clock: Rc<Clock>,
        exchanges: Vec<(u8, Guard)>,
    }

    impl Begun {
        fn new() -> Self {
            Self {
                clients: Clients::new(),
                clock: Clock::new(Ticker::new()),
                exchanges: Vec::new(),
            }
        }

        fn add(&mut self, client: u8, standing: ClientClass, waiting: WaitReason) -> &Guard {
            let guard = self.clock.watch();
            let account = self.clients.of(IpAddr::from([192, 0, 2, client]), standing);
            assert!(
                guard
                    .watch()
                    .account
                    .set(CountedConnection::new(account))
                    .is_ok()
            );
            guard.watch().uses_socket.set(true);
            guard.watch().set_wait(waiting);
            self.exchanges.push((client, guard));
            &self.exchanges.last().unwrap().1
        }

        fn many(&mut self, count: usize, client: u8) {
            for _ in 0..count {
                self.add(client, ClientClass::Ordinary, WaitReason::ForRoom);
            }
        }

        /// Ends as many as `wanted` after `time`; returns how many of each client are left.
        fn left(&self, time: Millis, wanted: usize) -> [usize; 3] {
            self.left_at(self.clock.now() + time, wanted)
        }

        /// Ends as many as `wanted` at the time `now`; returns how many of each client are left.
        fn left_at(&self, now: Millis, mut wanted: usize) -> [usize; 3] {
            end_at(now, &self.clock, || {
                let more = wanted > 0;
                wanted = wanted.saturating_sub(1);
                more
            });
            self.lives()
        }

        /// The number of exchanges of each client that have not ended.
        fn lives(&self) -> [usize; 3] {
            [1, 2, 3].map(|client| {
                self.exchanges
                    .iter()
                    .filter(|(of, guard)| *of == client && !guard.watch().is_cut())
                    .count()
            })
        }
    }

    #[test]
    fn preemption_order_follows_wait_reason_and_share_of_the_client() {
        let order = [
            PreemptionReason::of(WaitReason::ForClose, Millis::ZERO, true, IdleAge::Long),
            PreemptionReason::of(WaitReason::ForRequest, STILL, true, IdleAge::Long),
            PreemptionReason::of(WaitReason::ForHead, Millis::ZERO, true, IdleAge::Long),
            PreemptionReason::of(WaitReason::ForClose, STILL, false, IdleAge::Long),
            PreemptionReason::of(WaitReason::ForRequest, STILL, false, IdleAge::Long),
            PreemptionReason::of(WaitReason::ForRoom, STILL, true, IdleAge::Long),
            PreemptionReason::of(WaitReason::ForRequest, Millis::ZERO, true, IdleAge::Long),
            PreemptionReason::of(WaitReason::ForRequest, Millis::ZERO, false, IdleAge::Any),
        ];
        assert!(
            order.iter().all(Option::is_some) && order.is_sorted(),
            "{order:?}"
        );
        for (waiting, still, is_greedy) in [
            (WaitReason::ForRequest, STILL - Millis::new(1), false),
            (WaitReason::ForClose, STILL - Millis::new(1), false),
            (WaitReason::ForHead, STILL, false),
            (WaitReason::ForBody, STILL, false),
            (WaitReason::ForBody, STILL - Millis::new(1), true),
            (WaitReason::ForTunnel, STILL, true),
        ] {
            let reason = PreemptionReason::of(waiting, still, is_greedy, IdleAge::Long);
            assert_eq!(
                reason, None,
                "{waiting:?} for {still:?}, greedy {is_greedy}"
            );
        }
    }

    #[test]
    fn idle_connections_of_the_largest_client_are_preempted_first() {
        let mut begun = Begun::new();
        for client in [1, 2, 2, 2, 3, 3] {
            begun.add(client, ClientClass::Ordinary, WaitReason::ForHead);
        }
        let close = |wanted| close_connections(&begun.clock, wanted, 1, IdleAge::Long);
        assert_eq!((close(1), begun.lives()), (1, [1, 2, 2]));
        assert_eq!(
            (close(9), begun.lives()),
            (4, [1, 0, 0]),
            "as it was when the look began"
        );
    }

    #[test]
    fn stalled_exchanges_of_the_largest_client_end_first() {
        let mut begun = Begun::new();
        begun.many(20, 1);
        begun.many(12, 2);
        begun.many(1, 3);
        assert_eq!(begun.left(STILL, 10), [11, 11, 1]);
    }

    #[test]
    fn no_client_is_preempted_below_its_share() {
        let mut begun = Begun::new();
        begun.many(20, 1);
        begun.many(3, 2);
        begun.many(1, 3);
        assert_eq!(begun.left(STILL, 100), [6, 3, 1]);
    }

    #[test]
    fn exchanges_that_progress_or_queue_are_not_preempted() {
        let mut begun = Begun::new();
        begun.many(10, 1);
        // The first began before the others, by as much as it took to begin them.
        let first = begun.exchanges.first().unwrap().1.watch().since();
        assert_eq!(
            begun.left_at(first + STILL - Millis::new(1), 10)[0],
            10,
            "not still for long enough"
        );
        let mut waits = Begun::new();
        for _ in 0..10 {
            waits.add(1, ClientClass::Ordinary, WaitReason::ForPermit);
            waits.add(2, ClientClass::Exempt, WaitReason::ForRoom);
            waits.add(3, ClientClass::Ordinary, WaitReason::ForTunnel);
        }
        assert_eq!(waits.left(STILL, 30), [10, 10, 10]);
    }

    #[test]
    fn a_stream_belongs_to_the_client_of_its_connection() {
        let mut begun = Begun::new();
        begun.many(1, 2);
        let connection = begun
            .add(1, ClientClass::Ordinary, WaitReason::ForStreams)
            .shared();
        for _ in 0..10 {
            let stream = begun.clock.watch();
            stream.watch().uses_socket.set(true);
            assert!(stream.watch().stream_of.set(Rc::clone(&connection)).is_ok());
            begun.exchanges.push((3, stream));
        }
        assert_eq!(begun.left(STILL, 2), [1, 1, 8]);
    }
}
