//! The event loop with real sockets and threads.

use std::future::{pending, ready};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread;

use tokio::sync::{Notify, oneshot};

use crate::socket::{Socket, SocketFamily};

use super::testing::{noop_context, run};
use super::*;

/// A socket of the reactor, and its peer, which blocks.
fn pair() -> (Socket, UnixStream) {
    let (near, far) = UnixStream::pair().unwrap();
    near.set_nonblocking(true).unwrap();
    (Socket::new(near.into(), SocketFamily::Unix).unwrap(), far)
}

async fn receive(socket: &Socket) -> Vec<u8> {
    let mut room = [0; 64];
    let read = poll_fn(|cx| socket.poll_recv(cx, &mut room)).await.unwrap();
    room[..read].to_vec()
}

#[test]
fn a_future_that_is_ready_completes() {
    assert_eq!(run(ready(7)), 7);
}

#[test]
fn a_socket_wakes_its_task_with_data_and_with_the_end() {
    run(async {
        let (socket, mut far) = pair();
        let sender = thread::spawn(move || {
            far.write_all(b"data").unwrap();
            far
        });
        assert_eq!(receive(&socket).await, b"data");
        let far = sender.join().unwrap();
        let closer = thread::spawn(move || drop(far));
        assert_eq!(receive(&socket).await, b"");
        closer.join().unwrap();
    });
}

#[test]
fn a_full_socket_wakes_its_task_when_there_is_room() {
    run(async {
        let (socket, mut far) = pair();
        let data = vec![1; 4 << 20];
        let reader = thread::spawn(move || {
            let mut all = vec![0; 4 << 20];
            far.read_exact(&mut all).unwrap();
            all
        });
        let mut sent = 0;
        while sent < data.len() {
            sent += poll_fn(|cx| socket.poll_send(cx, &data[sent..]))
                .await
                .unwrap();
        }
        assert_eq!(reader.join().unwrap(), data);
    });
}

#[test]
fn tasks_run_in_the_order_in_which_they_were_spawned() {
    let order = Rc::new(RefCell::new(Vec::new()));
    run(async {
        let done = Rc::new(Notify::new());
        for number in 0..5 {
            let (order, done) = (Rc::clone(&order), Rc::clone(&done));
            spawn(async move {
                order.borrow_mut().push(number);
                yield_now().await;
                order.borrow_mut().push(number + 10);
                if number == 4 {
                    done.notify_one();
                }
            });
        }
        done.notified().await;
    });
    assert_eq!(*order.borrow(), [0, 1, 2, 3, 4, 10, 11, 12, 13, 14]);
}

#[test]
fn a_task_that_yields_lets_events_in() {
    run(async {
        let (socket, mut far) = pair();
        let received = Rc::new(Cell::new(false));
        let told = Rc::clone(&received);
        spawn(async move {
            receive(&socket).await;
            told.set(true);
        });
        far.write_all(b"data").unwrap();
        while !received.get() {
            yield_now().await;
        }
    });
}

#[test]
fn a_task_that_always_has_data_lets_others_go_first() {
    run(async {
        let (socket, far) = pair();
        let turns = Rc::new(Cell::new(0));
        let counted = Rc::clone(&turns);
        spawn(async move {
            loop {
                counted.set(counted.get() + 1);
                yield_now().await;
            }
        });
        yield_now().await;
        let before = turns.get();
        // Nothing to wait for: each write is taken out again.
        for _ in 0..10 * OPERATIONS_PER_POLL {
            poll_fn(|cx| socket.poll_send(cx, b"x")).await.unwrap();
            let mut room = [0];
            (&far).read_exact(&mut room).unwrap();
        }
        assert!(turns.get() > before);
    });
}

#[test]
fn another_thread_wakes_a_task_and_the_main_future() {
    run(async {
        let (to_task, mut told) = oneshot::channel();
        let (done, end) = oneshot::channel();
        let (running, is_running) = mpsc::channel();
        spawn(async move {
            running.send(()).unwrap();
            let number: u32 = (&mut told).await.unwrap();
            done.send(number + 1).unwrap();
        });
        let waker = thread::spawn(move || {
            is_running.recv().unwrap();
            to_task.send(1).unwrap();
            end
        });
        yield_now().await;
        let mut end = waker.join().unwrap();
        assert_eq!((&mut end).await, Ok(2));
        let (to_main, told) = oneshot::channel();
        let waker = thread::spawn(move || to_main.send(3).unwrap());
        assert_eq!(told.await, Ok(3));
        waker.join().unwrap();
    });
}

#[test]
fn a_waker_of_a_task_that_has_ended_does_not_wake_the_next_one_in_its_place() {
    run(async {
        let (kept, polls) = (Rc::new(RefCell::new(None)), Rc::new(Cell::new(0)));
        let waker = Rc::clone(&kept);
        spawn(poll_fn(move |cx| {
            waker.replace(Some(cx.waker().clone()));
            Poll::Ready(())
        }));
        yield_now().await;
        let counted = Rc::clone(&polls);
        spawn(poll_fn(move |_| {
            counted.set(counted.get() + 1);
            Poll::Pending
        }));
        yield_now().await;
        let old: Waker = kept.take().unwrap();
        old.wake();
        yield_now().await;
        assert_eq!(polls.get(), 1);
    });
}

#[test]
fn a_task_that_wakes_itself_in_its_last_poll_leaves_nothing_behind() {
    run(async {
        let polls = Rc::new(Cell::new(0));
        for _ in 0..2 {
            let polls = Rc::clone(&polls);
            spawn(poll_fn(move |cx| {
                polls.set(polls.get() + 1);
                cx.waker().wake_by_ref();
                Poll::Ready(())
            }));
            yield_now().await;
        }
        assert_eq!(polls.get(), 2);
    });
}

#[test]
fn dropping_the_reactor_drops_tasks_and_those_that_they_spawn_then() {
    struct SpawnsAnother(Rc<Cell<u32>>, u32);
    impl Drop for SpawnsAnother {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
            if self.1 > 0 {
                let another = Self(Rc::clone(&self.0), self.1 - 1);
                spawn(async move {
                    let _another = another;
                    pending().await
                });
            }
        }
    }
    let dropped = Rc::new(Cell::new(0));
    let reactor = Reactor::new().unwrap();
    let first = SpawnsAnother(Rc::clone(&dropped), 2);
    let (socket, far) = reactor.block_on(async { pair() }).unwrap();
    reactor
        .block_on(async {
            spawn(async move {
                let _first = first;
                receive(&socket).await;
            });
            yield_now().await;
        })
        .unwrap();
    drop(reactor);
    assert_eq!(dropped.get(), 3);
    // The task's socket is closed.
    assert_eq!((&far).read(&mut [0; 1]).unwrap(), 0);
}

#[test]
fn a_descriptor_in_the_place_of_a_closed_one_gets_no_event_of_it() {
    run(async {
        let (near, mut far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        // As in a child before exec: the open file outlives the socket, and so do its events.
        let _kept = near.try_clone().unwrap();
        let first = Socket::new(near.into(), SocketFamily::Unix).unwrap();
        yield_now().await;
        drop(first);
        let (second, _far) = pair();
        yield_now().await;
        far.write_all(b"data").unwrap();
        yield_now().await;
        assert_eq!(current().unwrap().sources.last_events(), 1);
        assert!(second.poll_readable(&mut noop_context()).is_pending());
    });
}

#[test]
fn a_listening_socket_that_another_process_has_gives_no_events_after_it_was_dropped() {
    run(async {
        let listening = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listening.local_addr().unwrap();
        drop(Registration::new(listening.try_clone().unwrap().into(), Interest::Read).unwrap());
        TcpStream::connect(address).unwrap();
        yield_now().await;
        assert_eq!(current().unwrap().sources.last_events(), 0);
    });
}

#[test]
fn a_thread_without_a_reactor_has_none() {
    assert!(current().is_none());
    run(async { assert!(current().is_some()) });
    assert!(current().is_none());
}

/// Takes what has come, as a splice does: a call that may have left data.
fn take(socket: &Socket, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
    let mut room = [0; 64];
    socket.poll_read_with(cx, 1, |fd| {
        rustix::net::recv(fd, &mut room, rustix::net::RecvFlags::empty()).map(|(read, _)| read)
    })
}

#[test]
fn data_that_was_read_before_its_event_wakes_nothing_but_the_first_time() {
    run(async {
        let (socket, mut far) = pair();
        let mut events = Vec::new();
        for _ in 0..4 {
            far.write_all(b"wakes").unwrap();
            while poll_fn(|cx| Poll::Ready(take(&socket, cx)))
                .await
                .is_pending()
            {
                yield_now().await;
            }
            far.write_all(b"is read with it").unwrap();
            while poll_fn(|cx| Poll::Ready(take(&socket, cx)))
                .await
                .is_ready()
            {}
            yield_now().await;
            events.push(current().unwrap().sources.last_events());
        }
        assert_eq!(events, [1, 0, 0, 0], "it told of room that was known");

        // Where there is no room, that is still told.
        let piece = [1; 4096];
        while poll_fn(|cx| Poll::Ready(socket.poll_send(cx, &piece)))
            .await
            .is_ready()
        {}
        let reader = thread::spawn(move || {
            let mut rest = Vec::new();
            far.read_to_end(&mut rest).unwrap();
        });
        poll_fn(|cx| socket.poll_send(cx, &piece)).await.unwrap();
        drop(socket);
        reader.join().unwrap();
    });
}

#[test]
fn data_that_no_task_waits_for_wakes_the_reactor_twice_at_most() {
    run(async {
        let (socket, mut far) = pair();
        let mut events = Vec::new();
        for _ in 0..4 {
            far.write_all(b"data").unwrap();
            yield_now().await;
            events.push(current().unwrap().sources.last_events());
        }
        assert_eq!(events, [1, 1, 0, 0]);
        assert_eq!(receive(&socket).await, b"data".repeat(4));

        assert!(socket.is_quiet(), "all was read");
        far.write_all(b"more").unwrap();
        yield_now().await;
        assert!(!socket.is_quiet(), "what was read is told of again");
        assert_eq!(receive(&socket).await, b"more");
        drop(far);
        assert_eq!(receive(&socket).await, b"", "with the end, too");
    });
}

/// A TCP connection of the reactor, and its peer, which blocks.
fn tcp_pair() -> (Socket, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    near.set_nonblocking(true).unwrap();
    let socket = Socket::new(near.into(), SocketFamily::Tcp).unwrap();
    (socket, listener.accept().unwrap().0)
}

#[test]
fn an_end_that_stays_told_does_not_keep_the_reactor_awake() {
    for shut in [Shutdown::Write, Shutdown::Both] {
        run(async {
            let (socket, mut far) = tcp_pair();
            for _ in 0..2 {
                far.write_all(b"unread").unwrap();
                yield_now().await;
            }
            far.shutdown(shut).unwrap();
            yield_now().await;
            // Of a full socket, room is to be told again.
            let piece = [1; 64 * 1024];
            while let Poll::Ready(Ok(_)) =
                poll_fn(|cx| Poll::Ready(socket.poll_send(cx, &piece))).await
            {}
            let mut events = Vec::new();
            for _ in 0..8 {
                yield_now().await;
                events.push(current().unwrap().sources.last_events());
            }
            assert_eq!(events[4..], [0; 4], "{shut:?}: {events:?}");
        });
    }
}
