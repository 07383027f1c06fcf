//! What ends for others where places run out: connections of clients, and exchanges that use a
//! socket towards an endpoint.
//!
//! Those that wait for nothing go first, then those that stand still, of the clients that have more
//! than their part. A client whose answers stay unread, whose bodies never end or whose endpoint
//! hangs would else keep all others waiting. What moves goes on.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;

use crate::clients::{Account, Connected};
use crate::clock::{Clock, Cut, WaitReason, Watch};

/// Milliseconds without a byte after which an exchange stands still.
pub(crate) const STILL: u64 = 2_000;
/// Of the connections that may go first, an eighth are closed at once where one is wanted, and no
/// more than this: looking for them costs as much for one.
const CLOSED_AT_ONCE: usize = 32;

/// Which connections that wait for nothing are closed for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Idle {
    /// Those that have done so for a while.
    Long,
    /// Those since a moment ago, too.
    Any,
}

/// Why a connection is closed for others; the first of these go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reason {
    /// Its client has more than its part, and it has waited for nothing for a while, or is only to
    /// be closed by the client.
    GreedyRests,
    /// Its client has more than its part, and it is not open yet.
    GreedyOpens,
    /// It has waited for nothing for a while, or for the client to close it.
    Rests,
    /// Its client has more than its part, and it is under way and stands still.
    GreedyStands,
    /// Its client has more than its part, and it waits for nothing since a moment ago.
    GreedyIdles,
    /// It waits for nothing since a moment ago, as a connection does that was just made.
    Idles,
}

impl Reason {
    /// Of a connection that has waited or stood still for so many milliseconds.
    fn of(waiting: WaitReason, millis: u64, is_greedy: bool, idle: Idle) -> Option<Self> {
        let is_still = millis >= STILL;
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
            WaitReason::ForRequest => (idle == Idle::Any).then_some(Self::Idles),
            WaitReason::ForOpening => is_greedy.then_some(Self::GreedyOpens),
            WaitReason::Otherwise | WaitReason::ForBody | WaitReason::ForRoom => {
                (is_greedy && is_still).then_some(Self::GreedyStands)
            }
            WaitReason::ForPlace | WaitReason::ForStreams | WaitReason::ForTunnel => None,
        }
    }
}

/// Closes connections of one worker where `wanted` are, and says how many. Of those with one reason
/// those go first whose client has most, and of these the longest there. A client with more than
/// `part` has more than its part.
pub(crate) fn close_connections(clock: &Clock, wanted: usize, part: usize, idle: Idle) -> usize {
    let now = clock.now();
    let first = Cell::new(0);
    let order = |watch: &Watch| {
        let waiting = watch.waiting();
        let millis = match waiting {
            // Whatever it still sends.
            WaitReason::ForRequest | WaitReason::ForClose => now.saturating_sub(watch.since()),
            _ => watch.still_for(now),
        };
        // Accounts are read of those that may give way only: other workers write them.
        Reason::of(waiting, millis, true, idle)?;
        let account = watch.account.get().map(Connected::account);
        let held = account.map_or(0, |account| account.connections.now());
        let is_greedy = held > part && !account.is_some_and(|account| account.is_exempt());
        let reason = Reason::of(waiting, millis, is_greedy, idle)?;
        first.set(first.get() + usize::from(reason <= Reason::GreedyOpens));
        Some((reason, Reverse(held), watch.since()))
    };
    clock.make_room(order, |_| wanted.max((first.get() / 8).min(CLOSED_AT_ONCE)))
}

/// An exchange that uses a socket.
struct Exchange {
    watch: Rc<Watch>,
    client: IpAddr,
    still: u64,
}

/// Ends exchanges of one worker as long as they are `wanted`, which is asked once for each; says
/// how many.
pub(crate) fn end_still_exchanges(clock: &Clock, wanted: impl FnMut() -> bool) -> usize {
    end_at(clock.now(), clock, wanted)
}

fn end_at(now: u64, clock: &Clock, mut wanted: impl FnMut() -> bool) -> usize {
    let (mut counts, mut exchanges) = (HashMap::<IpAddr, usize>::new(), Vec::new());
    clock.each_shared(|watch| {
        if let Some(account) = account(watch).filter(|_| uses_socket(watch)) {
            let (client, still) = (account.client(), watch.still_for(now));
            *counts.entry(client).or_default() += 1;
            if still >= STILL && !account.is_exempt() {
                exchanges.push(Exchange {
                    watch: Rc::clone(watch),
                    client,
                    still,
                });
            }
        }
    });
    // As if there were one client more: that is the one for which this is done.
    let part = counts.values().sum::<usize>() / (counts.len() + 1);
    // Of the longest still ones the first is taken whose client has most.
    exchanges.sort_by_key(|exchange| Reverse(exchange.still));
    let mut ended = 0;
    loop {
        let held = |exchange: &Exchange| counts.get(&exchange.client).copied().unwrap_or(0);
        let most = exchanges
            .iter()
            .enumerate()
            .rev()
            .max_by_key(|(_, exchange)| held(exchange));
        let Some((place, exchange)) = most else {
            return ended;
        };
        if held(exchange) <= part || !wanted() {
            return ended;
        }
        exchange.watch.cut(Cut::Crowded);
        if let Some(count) = counts.get_mut(&exchange.client) {
            *count -= 1;
        }
        exchanges.remove(place);
        ended += 1;
    }
}

/// The account of the client of a connection, or of a stream of it.
fn account(watch: &Watch) -> Option<&Account> {
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
        WaitReason::Otherwise | WaitReason::ForBody | WaitReason::ForRoom
    );
    exchanges && watch.uses_socket.get() && !watch.is_cut()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::clients::{Clients, Connected, Standing};
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

        fn add(&mut self, client: u8, standing: Standing, waiting: WaitReason) -> &Guard {
            let guard = self.clock.watch();
            let account = self.clients.of(IpAddr::from([192, 0, 2, client]), standing);
            assert!(guard.watch().account.set(Connected::new(account)).is_ok());
            guard.watch().uses_socket.set(true);
            guard.watch().set_wait(waiting);
            self.exchanges.push((client, guard));
            &self.exchanges.last().unwrap().1
        }

        fn many(&mut self, count: usize, client: u8) {
            for _ in 0..count {
                self.add(client, Standing::Ordinary, WaitReason::ForRoom);
            }
        }

        /// Ends as many as `wanted` after `millis`; returns how many of each client are left.
        fn left(&self, millis: u64, wanted: usize) -> [usize; 3] {
            self.left_at(self.clock.now() + millis, wanted)
        }

        /// Ends as many as `wanted` at the time `now`; returns how many of each client are left.
        fn left_at(&self, now: u64, mut wanted: usize) -> [usize; 3] {
            end_at(now, &self.clock, || {
                let more = wanted > 0;
                wanted = wanted.saturating_sub(1);
                more
            });
            self.lives()
        }

        /// How many of each client have not ended.
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
            Reason::of(WaitReason::ForClose, 0, true, Idle::Long),
            Reason::of(WaitReason::ForRequest, STILL, true, Idle::Long),
            Reason::of(WaitReason::ForOpening, 0, true, Idle::Long),
            Reason::of(WaitReason::ForClose, STILL, false, Idle::Long),
            Reason::of(WaitReason::ForRequest, STILL, false, Idle::Long),
            Reason::of(WaitReason::ForRoom, STILL, true, Idle::Long),
            Reason::of(WaitReason::ForRequest, 0, true, Idle::Long),
            Reason::of(WaitReason::ForRequest, 0, false, Idle::Any),
        ];
        assert!(
            order.iter().all(Option::is_some) && order.is_sorted(),
            "{order:?}"
        );
        for (waiting, millis, is_greedy) in [
            (WaitReason::ForRequest, STILL - 1, false),
            (WaitReason::ForClose, STILL - 1, false),
            (WaitReason::ForOpening, STILL, false),
            (WaitReason::ForBody, STILL, false),
            (WaitReason::ForBody, STILL - 1, true),
            (WaitReason::ForTunnel, STILL, true),
        ] {
            let reason = Reason::of(waiting, millis, is_greedy, Idle::Long);
            assert_eq!(
                reason, None,
                "{waiting:?} for {millis} ms, greedy {is_greedy}"
            );
        }
    }

    #[test]
    fn idle_connections_of_the_largest_client_are_preempted_first() {
        let mut begun = Begun::new();
        for client in [1, 2, 2, 2, 3, 3] {
            begun.add(client, Standing::Ordinary, WaitReason::ForOpening);
        }
        let close = |wanted| close_connections(&begun.clock, wanted, 1, Idle::Long);
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
            begun.left_at(first + STILL - 1, 10)[0],
            10,
            "not still for long enough"
        );
        let mut waits = Begun::new();
        for _ in 0..10 {
            waits.add(1, Standing::Ordinary, WaitReason::ForPlace);
            waits.add(2, Standing::Exempt, WaitReason::ForRoom);
            waits.add(3, Standing::Ordinary, WaitReason::ForTunnel);
        }
        assert_eq!(waits.left(STILL, 30), [10, 10, 10]);
    }

    #[test]
    fn a_stream_belongs_to_the_client_of_its_connection() {
        let mut begun = Begun::new();
        begun.many(1, 2);
        let connection = begun
            .add(1, Standing::Ordinary, WaitReason::ForStreams)
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
