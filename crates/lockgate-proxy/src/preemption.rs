//! Which exchanges end for others where sockets towards endpoints run out: those that stand still, of the clients that have most.
//!
//! A client whose answers stay unread, whose bodies never end or whose endpoint hangs would else keep all others waiting. A
//! client with no more than its part of the exchanges loses none, and nor does one whose exchanges move.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;

use crate::clients::Account;
use crate::clock::{Clock, Cut, Waiting, Watch};

/// Milliseconds without a byte after which an exchange stands still.
pub(crate) const STILL: u64 = 2_000;

/// An exchange that uses a socket.
struct Exchange {
    watch: Rc<Watch>,
    client: IpAddr,
    still: u64,
}

/// Ends exchanges of one worker as long as they are `wanted`, which is asked once for each; says how many.
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
                exchanges.push(Exchange { watch: Rc::clone(watch), client, still });
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
        let most = exchanges.iter().enumerate().rev().max_by_key(|(_, exchange)| held(exchange));
        let Some((place, exchange)) = most else { return ended };
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
    let connection = watch.stream_of.get().map_or(watch, |connection| &**connection);
    connection.account.get().map(|connected| &**connected.account())
}

fn uses_socket(watch: &Watch) -> bool {
    let exchanges = matches!(watch.waiting(), Waiting::Otherwise | Waiting::ForBody | Waiting::ForRoom);
    exchanges && watch.uses_socket.get() && !watch.is_cut()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::clients::{Clients, Connected, Standing};
    use crate::clock::{Guard, Pulse};

    /// Exchanges of one worker, of clients by number, begun a while ago.
    struct Begun {
        clients: Arc<Clients>,
        clock: Rc<Clock>,
        exchanges: Vec<(u8, Guard)>,
    }

    impl Begun {
        fn new() -> Self {
            Self { clients: Clients::new(), clock: Clock::new(Pulse::new()), exchanges: Vec::new() }
        }

        fn add(&mut self, client: u8, standing: Standing, waiting: Waiting) -> &Guard {
            let guard = self.clock.watch();
            let account = self.clients.of(IpAddr::from([192, 0, 2, client]), standing);
            assert!(guard.watch().account.set(Connected::new(account)).is_ok());
            guard.watch().uses_socket.set(true);
            guard.watch().waits(waiting);
            self.exchanges.push((client, guard));
            &self.exchanges.last().unwrap().1
        }

        fn many(&mut self, count: usize, client: u8) {
            for _ in 0..count {
                self.add(client, Standing::Ordinary, Waiting::ForRoom);
            }
        }

        /// Ends as many as `wanted` after `millis`; how many of each client are left.
        fn left(&self, millis: u64, mut wanted: usize) -> Vec<usize> {
            end_at(self.clock.now() + millis, &self.clock, || {
                let more = wanted > 0;
                wanted = wanted.saturating_sub(1);
                more
            });
            let lives = |client: u8| {
                self.exchanges.iter().filter(|(of, guard)| *of == client && !guard.watch().is_cut()).count()
            };
            (1..=3).map(lives).collect()
        }
    }

    #[test]
    fn still_exchanges_of_the_client_that_has_most_end_first() {
        let mut begun = Begun::new();
        begun.many(20, 1);
        begun.many(12, 2);
        begun.many(1, 3);
        assert_eq!(begun.left(STILL, 10), [11, 11, 1]);
    }

    #[test]
    fn no_client_loses_its_part() {
        let mut begun = Begun::new();
        begun.many(20, 1);
        begun.many(3, 2);
        begun.many(1, 3);
        assert_eq!(begun.left(STILL, 100), [6, 3, 1]);
    }

    #[test]
    fn exchanges_that_move_or_wait_for_their_turn_go_on() {
        let mut begun = Begun::new();
        begun.many(10, 1);
        assert_eq!(begun.left(STILL - 1, 10)[0], 10, "not still for long enough");
        let mut waits = Begun::new();
        for _ in 0..10 {
            waits.add(1, Standing::Ordinary, Waiting::ForPlace);
            waits.add(2, Standing::Exempt, Waiting::ForRoom);
            waits.add(3, Standing::Ordinary, Waiting::ForTunnel);
        }
        assert_eq!(waits.left(STILL, 30), [10, 10, 10]);
    }

    #[test]
    fn a_stream_is_one_of_the_client_of_its_connection() {
        let mut begun = Begun::new();
        begun.many(1, 2);
        let connection = begun.add(1, Standing::Ordinary, Waiting::ForStreams).shared();
        for _ in 0..10 {
            let stream = begun.clock.watch();
            stream.watch().uses_socket.set(true);
            assert!(stream.watch().stream_of.set(Rc::clone(&connection)).is_ok());
            begun.exchanges.push((3, stream));
        }
        assert_eq!(begun.left(STILL, 2), [1, 1, 8]);
    }
}
