//! Several workers in threads of their own, with few permits: never more sockets than there may be,
//! and none that waits is forgotten.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use lockgate_limits::clients::{ClientClass, Clients, CountedConnection};
use lockgate_limits::clock::Ticker;

use super::*;

const HOUR: Duration = Duration::from_secs(3_600);

fn patient() -> WaitBudget {
    WaitBudget::new(HOUR)
}

/// Idle sockets of one worker: nothing but their permits.
#[derive(Default)]
struct Idle(RefCell<VecDeque<(Millis, SocketPermit)>>);

impl IdleSockets for Idle {
    fn oldest(&self) -> Option<Millis> {
        self.0.borrow().front().map(|(since, _)| *since)
    }

    fn close_oldest(&self) {
        self.0.borrow_mut().pop_front();
    }

    fn close_administered(&self) {}
}

/// Runs `work` in a worker of its own, until it ends.
fn worker<F>(
    process: &Arc<SocketLimit>,
    number: usize,
    ticker: &Arc<Ticker>,
    work: impl FnOnce(Rc<WorkerSockets>, Rc<Clock>, Rc<Idle>) -> F,
) where
    F: Future<Output = ()> + 'static,
{
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build_local(Default::default())
        .unwrap();
    runtime.block_on(async {
        let (sockets, clock) = (
            WorkerSockets::new(Arc::clone(process), WorkerIndex::new(number)),
            Clock::new(Arc::clone(ticker)),
        );
        let idle = Rc::<Idle>::default();
        sockets.register(Rc::downgrade(&idle) as Weak<dyn IdleSockets>);
        let (ticker, answering, ticking) =
            (Arc::clone(ticker), Rc::clone(&sockets), Rc::clone(&clock));
        let ticks = tokio::task::spawn_local(async move {
            loop {
                ticker.next().await;
                answering.yield_sockets(&ticking);
                if ticker.take_tick() {
                    ticking.tick(|_| {});
                }
            }
        });
        work(sockets, clock, idle).await;
        ticks.abort();
    });
}

/// Ticks every worker until `done`.
fn ticking(tickers: &[Arc<Ticker>], done: &AtomicUsize) {
    while done.load(Ordering::SeqCst) < tickers.len() {
        tickers.iter().for_each(|ticker| ticker.nudge());
        thread::yield_now();
    }
}

#[test]
fn an_idle_socket_of_another_worker_yields_to_a_request() {
    let tickers = [Ticker::new(), Ticker::new()];
    let process = Arc::new(SocketLimit::new(1, &Arc::from(tickers.to_vec())));
    let (filled, tell) = std::sync::mpsc::channel();
    let done = AtomicUsize::new(0);
    thread::scope(|scope| {
        let (process, tickers, done) = (&process, &tickers, &done);
        scope.spawn(move || {
            worker(
                process,
                0,
                &tickers[0],
                move |sockets, clock, idle| async move {
                    let socket_permit = sockets.try_take().unwrap();
                    socket_permit.set_idle();
                    idle.0.borrow_mut().push_back((clock.now(), socket_permit));
                    filled.send(()).unwrap();
                    while !idle.0.borrow().is_empty() {
                        clock.next_tick().await;
                    }
                },
            );
            done.fetch_add(1, Ordering::SeqCst);
        });
        tell.recv().unwrap();
        assert_eq!((process.open(), process.idle()), (1, 1));
        scope.spawn(move || {
            worker(process, 1, &tickers[1], |sockets, clock, _| async move {
                let guard = clock.watch();
                assert!(sockets.try_take().is_none());
                assert!(sockets.take(&guard, &patient()).await.is_ok());
            });
            done.fetch_add(1, Ordering::SeqCst);
        });
        ticking(tickers, done);
    });
    assert_eq!(
        (
            process.open(),
            process.idle(),
            process.gave_way(),
            process.waiting()
        ),
        (0, 0, 1, 0)
    );
}

/// Runs `work` in a worker that ticks only by hand.
fn alone<F: Future<Output = ()>>(work: impl FnOnce(Rc<Clock>) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build_local(Default::default())
        .unwrap();
    runtime.block_on(async { work(Clock::new(Ticker::new())).await });
}

/// Polls a future once; it must wait.
async fn waits<F: Future>(mut future: Pin<&mut F>) {
    assert!(poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await);
}

#[test]
fn only_as_many_idle_sockets_yield_as_are_needed() {
    const WORKERS: usize = 4;
    let tickers: Vec<_> = (0..=WORKERS).map(|_| Ticker::new()).collect();
    let process = Arc::new(SocketLimit::new(3 * WORKERS, &Arc::from(tickers)));
    alone(|clock| async move {
        let workers: Vec<_> = (0..WORKERS)
            .map(|number| WorkerSockets::new(Arc::clone(&process), WorkerIndex::new(number)))
            .collect();
        let idle: Vec<_> = workers.iter().map(|_| Rc::<Idle>::default()).collect();
        for (since, (sockets, idle)) in workers
            .iter()
            .zip(&idle)
            .cycle()
            .take(3 * WORKERS)
            .enumerate()
        {
            let socket_permit = sockets.try_take().unwrap();
            socket_permit.set_idle();
            idle.0
                .borrow_mut()
                .push_back((Millis::new(since as u64), socket_permit));
        }
        for (sockets, idle) in workers.iter().zip(&idle) {
            sockets.register(Rc::downgrade(idle) as Weak<dyn IdleSockets>);
        }
        let (last, wait_budget) = (
            WorkerSockets::new(Arc::clone(&process), WorkerIndex::new(WORKERS)),
            patient(),
        );
        let (guards, mut held) = ([clock.watch(), clock.watch()], Vec::new());
        for (wanted, guard) in guards.iter().enumerate() {
            let mut permit = pin!(last.take(guard, &wait_budget));
            waits(permit.as_mut()).await;
            assert_eq!(process.asked(), 1);
            workers
                .iter()
                .for_each(|sockets| sockets.yield_sockets(&clock));
            assert_eq!(
                (process.asked(), process.gave_way()),
                (0, wanted as u64 + 1)
            );
            // It has its socket, and none is evicted for it any more.
            held.push(permit.await.unwrap());
            workers
                .iter()
                .for_each(|sockets| sockets.yield_sockets(&clock));
        }
        assert_eq!(
            (process.gave_way(), process.idle(), process.open()),
            (2, 3 * WORKERS - 2, 3 * WORKERS)
        );
        // A request that no longer waits leaves no demand behind.
        let gone = clock.watch();
        waits(pin!(last.take(&gone, &wait_budget))).await;
        workers
            .iter()
            .for_each(|sockets| sockets.yield_sockets(&clock));
        assert_eq!(
            (process.asked(), process.waiting(), process.gave_way()),
            (0, 0, 2)
        );
    });
}

#[test]
fn only_idle_sockets_beyond_a_smaller_limit_are_closed() {
    let process = Arc::new(SocketLimit::new(6, &Arc::from([Ticker::new()])));
    alone(|clock| async move {
        let (sockets, idle) = (
            WorkerSockets::new(Arc::clone(&process), WorkerIndex::new(0)),
            Rc::<Idle>::default(),
        );
        sockets.register(Rc::downgrade(&idle) as Weak<dyn IdleSockets>);
        let mut busy: Vec<_> = std::iter::from_fn(|| sockets.try_take()).collect();
        for socket_permit in busy.drain(..3) {
            socket_permit.set_idle();
            idle.0.borrow_mut().push_back((Millis::ZERO, socket_permit));
        }
        process.resize(4);
        sockets.yield_sockets(&clock);
        assert_eq!((process.open(), process.idle(), process.size()), (4, 1, 4));
        process.resize(2);
        sockets.yield_sockets(&clock);
        assert_eq!((process.open(), process.idle()), (3, 0));
        assert!(sockets.are_wanted(), "none is kept idle meanwhile");
        assert_eq!((process.waiting(), process.preempted()), (0, 0));
        busy.pop();
        assert!(!sockets.are_wanted() && sockets.try_take().is_none());
        busy.pop();
        assert!(sockets.try_take().is_some());
    });
}

/// A client at its share is not served sooner by sockets that others keep.
#[test]
fn waiting_for_a_client_share_leaves_idle_sockets_alone() {
    let process = Arc::new(SocketLimit::new(4, &Arc::from([Ticker::new()])));
    alone(|clock| async move {
        let (sockets, idle) = (
            WorkerSockets::new(Arc::clone(&process), WorkerIndex::new(0)),
            Rc::<Idle>::default(),
        );
        sockets.register(Rc::downgrade(&idle) as Weak<dyn IdleSockets>);
        let clients = Clients::new();
        let connected =
            CountedConnection::new(clients.of([192, 0, 2, 1].into(), ClientClass::Ordinary));
        let more = || {
            sockets
                .try_share(Some(connected.account()))
                .ok()
                .zip(sockets.try_take())
        };
        let mut held: Vec<_> = std::iter::from_fn(more).collect();
        assert_eq!(held.len(), 2, "half of all");
        let others = sockets.try_take().unwrap();
        others.set_idle();
        idle.0.borrow_mut().push_back((Millis::ZERO, others));
        let (guard, wait_budget) = (clock.watch(), patient());
        let mut share = pin!(sockets.wait_for_share(connected.account(), &guard, &wait_budget));
        waits(share.as_mut()).await;
        assert!(
            process.waiting() == 1 && !sockets.are_wanted(),
            "the next socket may be kept as well"
        );
        sockets.yield_sockets(&clock);
        assert_eq!((process.idle(), process.gave_way()), (1, 0));
        held.pop();
        assert!(share.await.is_ok());
    });
}

#[test]
fn keepers_of_departed_clients_are_forgotten() {
    let sockets = WorkerSockets::new(
        Arc::new(SocketLimit::new(1, &Arc::from([]))),
        WorkerIndex::new(0),
    );
    let stays = Rc::<Idle>::default();
    sockets.register(Rc::downgrade(&stays) as Weak<dyn IdleSockets>);
    for _ in 0..10_000 {
        sockets.register(Rc::downgrade(&Rc::<Idle>::default()) as Weak<dyn IdleSockets>);
    }
    assert!(sockets.keepers.borrow().len() < 16);
    assert!(sockets.keepers.borrow()[0].upgrade().is_some());
}

/// `queue.wait` is for all waits of a request together.
#[test]
fn queue_wait_covers_share_and_socket_together() {
    let process = Arc::new(SocketLimit::new(1, &Arc::from([Ticker::new()])));
    alone(|clock| async move {
        let sockets = WorkerSockets::new(Arc::clone(&process), WorkerIndex::new(0));
        let (held, guard, wait_budget) = (sockets.try_take().unwrap(), clock.watch(), patient());
        let began = clock.now();
        let mut permit = Box::pin(sockets.take(&guard, &wait_budget));
        waits(permit.as_mut()).await;
        while clock.now() < began + Millis::new(5) {
            clock.tick(|_| {});
        }
        drop(held);
        assert!(permit.await.is_ok());
        let waited = Duration::from(clock.now() - began);
        assert_eq!(wait_budget.left(), HOUR - waited);
        // Nothing is left: the next wait ends with the next tick.
        let (held, spent) = (sockets.try_take().unwrap(), WaitBudget::new(Duration::ZERO));
        let mut permit = Box::pin(sockets.take(&guard, &spent));
        waits(permit.as_mut()).await;
        clock.tick(|_| {});
        assert!(matches!(permit.await, Err(DialError::Exhausted(_))));
        drop(held);
    });
}

#[test]
fn sockets_never_exceed_the_limit_and_every_wait_ends() {
    const PLACES: usize = 7;
    const TASKS: usize = 40;
    let tickers: Vec<_> = (0..4).map(|_| Ticker::new()).collect();
    let process = Arc::new(SocketLimit::new(PLACES, &Arc::from(tickers.clone())));
    let (clients, open, done) = (
        Clients::new(),
        Arc::new(AtomicUsize::new(0)),
        AtomicUsize::new(0),
    );
    thread::scope(|scope| {
        for (number, ticker) in tickers.iter().enumerate() {
            let (process, clients, open, done) =
                (&process, Arc::clone(&clients), Arc::clone(&open), &done);
            scope.spawn(move || {
                worker(
                    process,
                    number,
                    ticker,
                    move |sockets, clock, idle| async move {
                        let tasks = (0..TASKS).map(|task| {
                            let (sockets, clock, idle) =
                                (Rc::clone(&sockets), Rc::clone(&clock), Rc::clone(&idle));
                            let (clients, open) = (Arc::clone(&clients), Arc::clone(&open));
                            tokio::task::spawn_local(async move {
                                let client = [192, 0, 2, (task % 3) as u8].into();
                                let connected = CountedConnection::new(
                                    clients.of(client, ClientClass::Ordinary),
                                );
                                let guard = clock.watch();
                                for turn in 0..30 {
                                    let share = match sockets.try_share(Some(connected.account())) {
                                        Ok(share) => share,
                                        Err(account) => Some(
                                            sockets
                                                .wait_for_share(account, &guard, &patient())
                                                .await
                                                .unwrap(),
                                        ),
                                    };
                                    let kept = idle.0.borrow_mut().pop_back();
                                    let socket_permit = match kept {
                                        Some((_, socket_permit)) => socket_permit,
                                        None => sockets.take(&guard, &patient()).await.unwrap(),
                                    };
                                    socket_permit.set_busy();
                                    assert!(
                                        open.fetch_add(1, Ordering::SeqCst) < PLACES,
                                        "one too many"
                                    );
                                    // Others have their turn meanwhile, and some are given up.
                                    for _ in 0..(task + turn) % 4 {
                                        tokio::task::yield_now().await;
                                    }
                                    open.fetch_sub(1, Ordering::SeqCst);
                                    if turn % 3 > 0 && !sockets.are_wanted() {
                                        socket_permit.set_idle();
                                        idle.0.borrow_mut().push_back((clock.now(), socket_permit));
                                    }
                                    drop(share);
                                }
                            })
                        });
                        for task in tasks.collect::<Vec<_>>() {
                            task.await.unwrap();
                        }
                        idle.0.borrow_mut().clear();
                    },
                );
                done.fetch_add(1, Ordering::SeqCst);
            });
        }
        ticking(&tickers, &done);
    });
    assert_eq!(
        (
            process.open(),
            process.idle(),
            process.waiting(),
            clients.count()
        ),
        (0, 0, 0, 0)
    );
}

#[test]
fn greedy_clients_get_a_fair_share_of_scarce_sockets() {
    let process = Arc::new(SocketLimit::new(60, &Arc::from([])));
    let sockets = WorkerSockets::new(Arc::clone(&process), WorkerIndex::new(0));
    let clients = Clients::new();
    let connected: Vec<_> = (1..=5)
        .map(|last| {
            CountedConnection::new(clients.of([192, 0, 2, last].into(), ClientClass::Ordinary))
        })
        .collect();
    let mut held: Vec<Vec<_>> = (0..5).map(|_| Vec::new()).collect();
    let mut grow = || {
        for _ in 0..60 {
            for (client, held) in connected.iter().zip(&mut held) {
                if let Ok(share) = sockets.try_share(Some(client.account()))
                    && let Some(socket_permit) = sockets.try_take()
                {
                    held.push((share, socket_permit));
                }
            }
        }
    };
    grow();
    // A sixth of all for each of five, and as much for the next.
    assert!(
        connected
            .iter()
            .all(|client| client.account().sockets.now() == 10)
    );
    assert_eq!(process.open(), 50);
    let trusted = clients.of([192, 0, 2, 9].into(), ClientClass::Exempt);
    assert!(
        matches!(sockets.try_share(Some(&trusted)), Ok(None)),
        "it is not held to any"
    );
    held.drain(1..).for_each(drop);
    let alone = connected[0].account();
    let more: Vec<_> =
        std::iter::from_fn(|| sockets.try_share(Some(alone)).ok().zip(sockets.try_take()))
            .collect();
    assert_eq!(more.len(), 20, "alone it may have half");
}
