//! The state of a socket, without a call to the kernel.

use std::future::poll_fn;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use super::*;
use crate::dial::{DialTarget, dial};
use crate::reactor;
use crate::reactor::testing::{noop_context, run};

/// A dialled connection, and its other end.
async fn dialled() -> (Socket, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = dial(&DialTarget::Tcp(listener.local_addr().unwrap()))
        .await
        .unwrap();
    (near, listener.accept().unwrap().0)
}

/// A connection that we accept, and its other end, which sends something before.
fn accepted(words: &[u8]) -> (Socket, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    far.write_all(words).unwrap();
    let (near, _) = listener.accept().unwrap();
    near.set_nonblocking(true).unwrap();
    (
        Socket::accepted(near.into(), SocketFamily::Tcp).unwrap(),
        far,
    )
}

/// Waits until there was an event of the end.
async fn end_heard(socket: &Socket) {
    while !socket.fd.readiness().is_read_closed() {
        reactor::yield_now().await;
    }
}

/// Reads to the end; returns the bytes, and the number of calls.
async fn read_all(socket: &Socket) -> io::Result<(Vec<u8>, usize)> {
    let (mut all, mut calls) = (Vec::new(), 0);
    loop {
        let mut room = [0; 64];
        let read = poll_fn(|cx| {
            socket.poll_read_with(cx, room.len(), |fd| {
                calls += 1;
                rustix::net::recv(fd, &mut room, RecvFlags::empty()).map(|(read, _)| read)
            })
        });
        match read.await? {
            0 => return Ok((all, calls)),
            read => all.extend_from_slice(&room[..read]),
        }
    }
}

#[test]
fn a_fin_with_the_last_bytes_needs_no_further_read() {
    run(async {
        let (near, mut far) = dialled().await;
        far.write_all(b"all there is").unwrap();
        drop(far);
        end_heard(&near).await;
        assert_eq!(
            read_all(&near).await.unwrap(),
            (b"all there is".to_vec(), 1)
        );
        assert!(!near.is_quiet());
    });
}

#[test]
fn a_full_read_does_not_report_the_end() {
    run(async {
        let (near, mut far) = dialled().await;
        far.write_all(&[b'x'; 100]).unwrap();
        drop(far);
        end_heard(&near).await;
        assert_eq!(read_all(&near).await.unwrap(), (vec![b'x'; 100], 2));
    });
}

/// RFC 6093 §3.2: urgent data is not in the stream, but a read stops at it.
#[test]
fn data_after_urgent_data_is_read_despite_a_fin() {
    run(async {
        let (near, mut far) = dialled().await;
        far.write_all(b"before ").unwrap();
        rustix::net::send(&far, b"!", SendFlags::OOB).unwrap();
        far.write_all(b"behind").unwrap();
        drop(far);
        end_heard(&near).await;
        assert_eq!(read_all(&near).await.unwrap().0, b"before behind");
    });
}

/// The same where the FIN is told, and the urgent data is not: that of two packets before it was not
/// read yet.
#[test]
fn data_after_urgent_data_is_read_despite_unread_packets_before_it() {
    run(async {
        let (near, mut far) = dialled().await;
        for packet in [b"two ".as_slice(), b"packets "] {
            far.write_all(packet).unwrap();
            reactor::yield_now().await;
        }
        rustix::net::send(&far, b"!", SendFlags::OOB).unwrap();
        far.write_all(b"behind").unwrap();
        drop(far);
        end_heard(&near).await;
        assert_eq!(read_all(&near).await.unwrap().0, b"two packets behind");
    });
}

#[test]
fn a_reset_after_the_last_bytes_is_no_end() {
    run(async {
        let (near, mut far) = dialled().await;
        far.write_all(b"not all").unwrap();
        sockopt::set_socket_linger(&far, Some(Duration::ZERO)).unwrap();
        drop(far);
        end_heard(&near).await;
        assert_eq!(
            read_all(&near).await.unwrap_err().kind(),
            io::ErrorKind::ConnectionReset
        );
    });
}

#[test]
fn nodelay_is_set_on_the_second_write() {
    run(async {
        let (near, mut far) = dialled().await;
        let mut received = [0; 3];
        for expected in [false, true, true] {
            poll_fn(|cx| near.poll_send(cx, b"one")).await.unwrap();
            assert_eq!(sockopt::tcp_nodelay(&near).unwrap(), expected);
            far.read_exact(&mut received).unwrap();
        }
    });
}

#[test]
fn a_new_socket_reads_and_writes_without_waiting_for_readiness() {
    run(async {
        let (near, _far) = dialled().await;
        assert!(near.poll_send(&mut noop_context(), b"at once").is_ready());
        let (near, _far) = accepted(b"at once");
        let mut room = [0; 64];
        assert!(matches!(
            near.poll_recv(&mut noop_context(), &mut room),
            Poll::Ready(Ok(7))
        ));
        assert!(
            near.poll_send(&mut noop_context(), b"at once, too")
                .is_ready()
        );
    });
}

#[test]
fn an_accepted_socket_without_data_waits_for_readability() {
    run(async {
        let (near, mut far) = accepted(b"");
        let mut room = [0; 64];
        assert!(near.poll_recv(&mut noop_context(), &mut room).is_pending());
        far.write_all(b"word").unwrap();
        assert_eq!(
            poll_fn(|cx| near.poll_recv(cx, &mut room)).await.unwrap(),
            4
        );
    });
}

/// A peer with Nagle's algorithm (RFC 896) waits for the acknowledgement before it sends the rest.
#[test]
fn a_reader_waiting_for_the_rest_acknowledges_at_once() {
    run(async {
        let (near, mut far) = accepted(b"question");
        let (mut room, mut answer) = ([0; 64], [0; 6]);
        let read = async |room: &mut [u8]| poll_fn(|cx| near.poll_recv(cx, room)).await.unwrap();
        near.acknowledge_now();
        assert!(near.acknowledged() == 0, "nothing was read");
        read(&mut room).await;
        poll_fn(|cx| near.poll_send(cx, b"answer")).await.unwrap();
        near.acknowledge_now();
        assert!(near.acknowledged() == 0, "the answer has carried it");
        far.read_exact(&mut answer).unwrap();
        far.write_all(b"half").unwrap();
        read(&mut room).await;
        near.acknowledge_now();
        assert!(near.acknowledged() > 0 && sockopt::tcp_quickack(&near).unwrap());
    });
}

#[test]
fn a_reset_is_seen_behind_unread_data() {
    run(async {
        let (near, mut far) = dialled().await;
        far.write_all(b"unread").unwrap();
        near.readable().await.unwrap();
        let mut far = Some(far);
        poll_fn(|cx| {
            let gone = near.poll_gone(cx);
            // Only now: this must wake it.
            if let Some(far) = far.take() {
                sockopt::set_socket_linger(&far, Some(Duration::ZERO)).unwrap();
            }
            gone
        })
        .await;
    });
}

#[test]
fn waiting_for_a_reset_keeps_unread_data() {
    run(async {
        let (near, mut far) = dialled().await;
        far.write_all(b"unread").unwrap();
        near.readable().await.unwrap();
        assert!(near.poll_gone(&mut noop_context()).is_pending());
        assert!(near.poll_readable(&mut noop_context()).is_ready() && !near.is_quiet());
        let mut room = [0; 3];
        for part in [b"unr", b"ead"] {
            assert_eq!(
                poll_fn(|cx| near.poll_recv(cx, &mut room)).await.unwrap(),
                3
            );
            assert_eq!(&room, part);
        }
        assert!(near.is_quiet());
    });
}

#[test]
fn the_send_buffer_limit_rises_again_after_memory_pressure() {
    run(async {
        let (near, _far) = dialled().await;
        let shares = [64 * 1024, 16 * 1024, 1 << 20];
        let after = |share| {
            near.limit_to_share(share);
            near.unsent.get()
        };
        assert_eq!(shares.map(after), shares);
        near.limit_unsent(32 * 1024);
        assert_eq!(
            shares.map(after),
            [32 * 1024, 16 * 1024, 32 * 1024],
            "its owner's limit holds"
        );
    });
}

#[test]
fn a_peer_is_open_until_fin_or_reset() {
    run(async {
        let (near, mut far) = dialled().await;
        assert_eq!(near.peer(), PeerState::Open);
        far.write_all(b"unread").unwrap();
        far.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(near.peer(), PeerState::Ended);
        sockopt::set_socket_linger(&far, Some(Duration::ZERO)).unwrap();
        drop(far);
        assert_eq!(near.peer(), PeerState::Reset);
    });
}
