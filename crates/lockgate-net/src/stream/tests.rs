//! Streams over sockets, in plain and under TLS, with a peer that is another stream.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use super::*;
use crate::nanos::Nanos;
use crate::reactor::testing::{self, run};
use crate::tls::handshake::tests::{
    TLS12_TERMS, TLS13_TERMS, Terms, pair, send_all, tcp_sockets, twins, unix_sockets,
};

/// Two ends of one connection, and the pool of their worker.
struct Ends {
    near: Stream,
    far: Stream,
    pool: Rc<BufferPool>,
}

fn plain() -> Ends {
    let (near, far) = tcp_sockets();
    let stream = |socket| Stream::new(socket, None, Vec::new());
    Ends {
        near: stream(near),
        far: stream(far),
        pool: BufferPool::new(),
    }
}

fn tls(terms: Terms) -> Ends {
    let ((near, far), (server, client)) = (unix_sockets(), twins(terms));
    let stream = |socket, session| Stream::new(socket, Some(session), Vec::new());
    let (near, far) = (
        stream(near, server.session()),
        stream(far, client.session()),
    );
    Ends {
        near,
        far,
        pool: BufferPool::new(),
    }
}

const SECURE: [fn() -> Ends; 2] = [|| tls(TLS13_TERMS), || tls(TLS12_TERMS)];
const ALL: [fn() -> Ends; 3] = [plain, SECURE[0], SECURE[1]];

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n * 31 % 253) as u8).collect()
}

/// Writes all of `parts` and flushes.
async fn write(stream: &mut Stream, pool: &BufferPool, parts: &[&[u8]]) -> Result<(), StreamError> {
    let whole = parts.concat();
    let mut at = 0;
    poll_fn(|cx| {
        while at < whole.len() {
            // The rest is cut in two, so that there are always several parts.
            let rest = &whole[at..];
            let (front, back) = rest.split_at(rest.len() / 2);
            at += ready!(stream.poll_write(cx, pool, &[front, back]))?;
        }
        stream.poll_flush(cx)
    })
    .await
}

/// Reads until this much is held, or to the end.
async fn read(
    stream: &mut Stream,
    buffer: &mut ReadBuffer,
    until: usize,
) -> Result<bool, StreamError> {
    let mut goes_on = true;
    while goes_on && buffer.bytes().len() < until {
        goes_on = poll_fn(|cx| stream.poll_read(cx, buffer)).await?;
    }
    Ok(goes_on)
}

#[test]
fn a_vectored_write_is_read_as_one_message() {
    for ends in ALL {
        run(async {
            let Ends {
                mut near,
                mut far,
                pool,
            } = ends();
            let mut buffer = ReadBuffer::new(&pool);
            write(&mut near, &pool, &[b"head ", b"and ", b"body"])
                .await
                .unwrap();
            assert!(read(&mut far, &mut buffer, 13).await.unwrap());
            assert_eq!(buffer.bytes(), b"head and body");
            buffer.consume(5);
            buffer.release_block();
            assert_eq!(buffer.bytes(), b"and body");
            write(&mut near, &pool, &[b"!"]).await.unwrap();
            assert!(read(&mut far, &mut buffer, 9).await.unwrap());
            assert_eq!(buffer.bytes(), b"and body!");
        });
    }
}

#[test]
fn megabytes_pass_a_reader_that_takes_little_at_a_time() {
    for ends in ALL {
        run(async {
            let Ends {
                mut near,
                mut far,
                pool,
            } = ends();
            let sent = bytes(3_000_000);
            let (writing, expected) = (Rc::clone(&pool), sent.clone());
            let writer = testing::spawn(async move {
                write(&mut near, &writing, &[&sent]).await.unwrap();
                poll_fn(|cx| near.poll_finish(cx)).await.unwrap();
                near
            });
            let (mut buffer, mut received) = (ReadBuffer::new(&pool), Vec::new());
            let mut turn = 0;
            loop {
                let more = poll_fn(|cx| far.poll_read(cx, &mut buffer)).await.unwrap();
                turn += 1;
                let taken = if more {
                    buffer.bytes().len() * (turn % 7) / 7
                } else {
                    buffer.bytes().len()
                };
                received.extend_from_slice(&buffer.bytes()[..taken]);
                buffer.consume(taken);
                if turn % 3 == 0 {
                    buffer.release_block();
                }
                if !more {
                    break;
                }
                // Like its users: nothing more is read while much is held.
                if buffer.bytes().len() > 40_000 {
                    received.extend_from_slice(buffer.bytes());
                    buffer.consume(buffer.bytes().len());
                }
            }
            assert!(received == expected);
            writer.await.unwrap();
        });
    }
}

#[test]
fn the_beginning_of_much_data_leaves_with_a_flush_or_the_rest() {
    let over_tcp = || with_queue(Some(TLS13_TERMS)).0;
    for ends in ALL.into_iter().chain([over_tcp as fn() -> Ends]) {
        run(async {
            let mut ends = ends();
            let (beginning, rest) = (bytes(50_000), bytes(7));
            let mut buffer = ReadBuffer::new(&ends.pool);
            for follows in [false, true] {
                let (far, pool) = (&mut ends.far, &ends.pool);
                let mut at = 0;
                poll_fn(|cx| {
                    while at < beginning.len() {
                        at += ready!(far.poll_write_more(cx, pool, &beginning[at..]))?;
                    }
                    if follows {
                        far.poll_sent(cx)
                    } else {
                        far.poll_flush(cx)
                    }
                })
                .await
                .unwrap();
                let mut expected = beginning.clone();
                if follows {
                    write(far, pool, &[&rest]).await.unwrap();
                    expected.extend_from_slice(&rest);
                }
                read(&mut ends.near, &mut buffer, expected.len())
                    .await
                    .unwrap();
                assert!(buffer.bytes() == expected);
                buffer.consume(expected.len());
            }
        });
    }
}

#[test]
fn a_full_read_buffer_is_an_error() {
    for ends in SECURE {
        run(async {
            let Ends {
                mut near,
                mut far,
                pool,
            } = ends();
            let mut buffer = ReadBuffer::new(&pool);
            buffer.extend(&bytes(READ + 1));
            write(&mut near, &pool, &[b"more"]).await.unwrap();
            let read = poll_fn(|cx| far.poll_read(cx, &mut buffer)).await;
            assert!(
                matches!(read, Err(StreamError::Io(error)) if error.kind() == io::ErrorKind::StorageFull)
            );
        });
    }
}

#[test]
fn session_tickets_are_sent_with_the_first_data() {
    run(async {
        let (near, far) = unix_sockets();
        let mut pair = pair(TLS13_TERMS);
        let pool = BufferPool::new();
        assert!(!pair.unsent.is_empty());
        let mut stream = Stream::new(near, Some(pair.session), pair.unsent);
        poll_fn(|cx| stream.poll_flush(cx)).await.unwrap();
        assert!(far.is_quiet_now(), "they wait for company");
        write(&mut stream, &pool, &[b"answer"]).await.unwrap();
        let mut plain = Vec::new();
        while plain.len() < 6 {
            let wire = crate::tls::handshake::tests::receive_some(&far)
                .await
                .unwrap();
            pair.client.read_tls(&mut wire.as_slice()).unwrap();
            pair.client.process_new_packets().unwrap();
            let _ = io::Read::read_to_end(&mut pair.client.reader(), &mut plain);
        }
        assert_eq!(plain, b"answer");
    });
}

#[test]
fn an_end_without_close_notify_is_a_truncation() {
    for ends in SECURE {
        run(async {
            let Ends {
                near,
                mut far,
                pool,
            } = ends();
            drop(near);
            let read = poll_fn(|cx| far.poll_read(cx, &mut ReadBuffer::new(&pool))).await;
            assert!(matches!(read, Err(StreamError::Truncated)));
        });
    }
    for ends in ALL {
        run(async {
            let Ends {
                mut near,
                mut far,
                pool,
            } = ends();
            poll_fn(|cx| near.poll_finish(cx)).await.unwrap();
            assert!(
                !poll_fn(|cx| far.poll_read(cx, &mut ReadBuffer::new(&pool)))
                    .await
                    .unwrap()
            );
        });
    }
}

#[test]
fn an_idle_connection_is_quiet_until_data_arrives() {
    for ends in ALL {
        run(async {
            let Ends {
                mut near,
                mut far,
                pool,
            } = ends();
            let mut buffer = ReadBuffer::new(&pool);
            assert!(far.is_quiet() && far.is_quiet_now());
            write(&mut near, &pool, &[b"surplus"]).await.unwrap();
            assert!(!far.is_quiet_now());
            assert!(read(&mut far, &mut buffer, 7).await.unwrap());
            assert!(
                far.is_quiet() && far.is_quiet_now(),
                "what was read is no news"
            );
            drop(near);
            assert!(!far.is_quiet_now());
        });
    }
}

#[test]
fn a_reset_is_distinguished_from_a_half_close() {
    run(async {
        let Ends { near, mut far, .. } = plain();
        near.socket().shutdown_write().unwrap();
        let gone = poll_fn(|cx| Poll::Ready(far.poll_gone(cx).is_ready())).await;
        assert!(!gone, "it still listens");
        near.socket().reset_on_close();
        drop(near);
        poll_fn(|cx| {
            // The reactor sees it in a later turn.
            if far.poll_gone(cx).is_ready() {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
        poll_fn(|cx| far.poll_finish(cx)).await.unwrap_err();
    });
}

#[test]
fn a_worker_lends_the_same_block_again() {
    run(async {
        let Ends {
            mut far,
            pool,
            near,
        } = plain();
        let mut buffer = ReadBuffer::new(&pool);
        for _ in 0..3 {
            send_all(near.socket(), b"word").await;
            assert!(read(&mut far, &mut buffer, 4).await.unwrap());
            buffer.consume(4);
            assert!(buffer.is_empty());
            assert_eq!(format!("{pool:?}"), "BufferPool { free: 1 }");
        }
    });
}

/// Edge-triggered readiness: data that a read has left in the socket causes no event.
#[test]
fn data_beyond_the_buffer_is_read_without_another_event() {
    run(async {
        let Ends {
            mut near,
            mut far,
            pool,
        } = plain();
        let mut buffer = ReadBuffer::new(&pool);
        let sent = bytes(60_000 + 80_000);
        write(&mut near, &pool, &[&sent[..60_000]]).await.unwrap();
        assert!(read(&mut far, &mut buffer, 60_000).await.unwrap());
        // More than fits behind the held bytes.
        write(&mut near, &pool, &[&sent[60_000..]]).await.unwrap();
        assert!(read(&mut far, &mut buffer, 60_001).await.unwrap());
        let mut received = Vec::new();
        while received.len() < sent.len() {
            received.extend_from_slice(buffer.bytes());
            buffer.consume(buffer.bytes().len());
            if received.len() < sent.len() {
                assert!(read(&mut far, &mut buffer, 1).await.unwrap());
            }
        }
        assert!(received == sent);
    });
}

#[test]
fn no_more_is_read_from_the_socket_than_allowed() {
    for ends in ALL {
        run(async {
            let Ends {
                mut near,
                mut far,
                pool,
            } = ends();
            let mut buffer = ReadBuffer::new(&pool);
            let sent = bytes(5000);
            write(&mut near, &pool, &[&sent]).await.unwrap();
            let (mut taken, mut idle) = (0, 0);
            while buffer.bytes().len() < sent.len() {
                let before = buffer.bytes().len();
                let mut allowed = 1000;
                assert!(
                    poll_fn(|cx| far.poll_read_within(cx, &mut buffer, &mut allowed))
                        .await
                        .unwrap()
                );
                taken += 1000 - allowed;
                idle += usize::from(buffer.bytes().len() == before);
                assert!(buffer.bytes().len() <= taken, "bytes that were not taken");
            }
            assert_eq!(buffer.bytes(), sent);
            // A record is data only when it is whole, and has more bytes than it carries.
            assert_eq!(
                (idle > 0, taken > sent.len()),
                (far.is_secure(), far.is_secure())
            );
            let mut none = 0;
            assert!(
                poll_fn(|cx| far.poll_read_within(cx, &mut buffer, &mut none))
                    .await
                    .unwrap()
            );
        });
    }
}

#[test]
fn unused_blocks_are_freed_after_a_while() {
    let pool = BufferPool::new();
    let use_at_once = |count: usize| {
        let filled = |_| {
            let mut buffer = ReadBuffer::new(&pool);
            buffer.extend(b"held");
            buffer
        };
        drop((0..count).map(filled).collect::<Vec<_>>());
    };
    let left = || {
        pool.evict_unused();
        format!("{pool:?}")
    };
    use_at_once(10);
    assert_eq!(left(), "BufferPool { free: 10 }");
    use_at_once(4);
    assert_eq!(left(), "BufferPool { free: 4 }");
    assert_eq!(
        [left(), left()],
        ["BufferPool { free: 1 }"; 2],
        "one is always at hand"
    );
}

/// Ends of a TCP connection whose reader has a queue with a stopped clock.
fn with_queue(terms: Option<Terms>) -> (Ends, Rc<ShapingQueue>) {
    let queue = ShapingQueue::stopped();
    let (near, far) = tcp_sockets();
    let (server, client) = match terms.map(twins) {
        Some((server, client)) => (Some(server.session()), Some(client.session())),
        None => (None, None),
    };
    let ends = Ends {
        near: Stream::new(near, server, Vec::new()),
        far: Stream::new(far, client, Vec::new()),
        pool: BufferPool::with_queue(Some(Rc::clone(&queue))),
    };
    (ends, queue)
}

/// Reads a body of which `left` bytes are still to come, as far as it has come.
async fn read_body(ends: &mut Ends, buffer: &mut ReadBuffer, left: &mut u64) {
    loop {
        // Lets events in.
        crate::reactor::yield_now().await;
        let near = &mut ends.near;
        let polled = poll_fn(|cx| Poll::Ready(near.poll_read_body(cx, buffer, *left))).await;
        if polled.map(Result::unwrap).is_pending() {
            break;
        }
        *left -= buffer.bytes().len() as u64;
        buffer.consume(buffer.bytes().len());
    }
}

#[test]
fn a_fast_body_under_tls_is_awaited_by_full_reads_until_its_sender_pauses() {
    for terms in [TLS13_TERMS, TLS12_TERMS] {
        run(async {
            let (mut ends, queue) = with_queue(Some(terms));
            let mut buffer = ReadBuffer::new(&ends.pool);
            let mut left = 1 << 20;
            let mut sent = 0;
            while ends.near.full_reads.mark().is_none() {
                sent += READ as u64;
                write(&mut ends.far, &ends.pool, &[&bytes(READ)])
                    .await
                    .unwrap();
                read_body(&mut ends, &mut buffer, &mut left).await;
            }
            assert_eq!(ends.near.full_reads.mark(), Some(FULL));
            assert_eq!(left, (1 << 20) - sent);

            write(&mut ends.far, &ends.pool, &[b"few"]).await.unwrap();
            let before = left;
            read_body(&mut ends, &mut buffer, &mut left).await;
            assert_eq!(left, before, "few bytes do not wake the reader");
            for _ in 0..3 {
                queue.pass(Nanos::from_millis(8));
                read_body(&mut ends, &mut buffer, &mut left).await;
            }
            assert_eq!(left, before - 3, "after a pause they do");
            assert_eq!(ends.near.full_reads.mark(), None);
        });
    }
}

#[test]
fn a_fast_body_is_awaited_though_each_record_wakes_its_reader() {
    const RECORD: usize = 16 * 1024;
    for (pause, awaited) in [(Nanos::ZERO, true), (Nanos::from_millis(5), false)] {
        run(async {
            let (mut ends, queue) = with_queue(Some(TLS13_TERMS));
            let mut buffer = ReadBuffer::new(&ends.pool);
            let mut left = 1 << 20;
            for sent in 1..=4 {
                write(&mut ends.far, &ends.pool, &[&bytes(RECORD)])
                    .await
                    .unwrap();
                while left > (1 << 20) - (sent * RECORD) as u64 {
                    read_body(&mut ends, &mut buffer, &mut left).await;
                }
                queue.pass(pause);
            }
            assert_eq!(ends.near.full_reads.mark().is_some(), awaited);
        });
    }
}

#[test]
fn the_end_of_a_fast_body_is_awaited_by_what_is_left_of_it() {
    run(async {
        let (mut ends, _queue) = with_queue(Some(TLS13_TERMS));
        let mut buffer = ReadBuffer::new(&ends.pool);
        let whole = bytes(3 * READ);
        let mut left = whole.len() as u64 + 150_000;
        write(&mut ends.far, &ends.pool, &[&whole]).await.unwrap();
        read_body(&mut ends, &mut buffer, &mut left).await;
        assert_eq!(left, 150_000);
        assert_eq!(ends.near.full_reads.mark(), Some(150_000));

        write(&mut ends.far, &ends.pool, &[&bytes(150_000)])
            .await
            .unwrap();
        read_body(&mut ends, &mut buffer, &mut left).await;
        assert_eq!(left, 0);
        assert_eq!(ends.near.full_reads.mark(), None, "nothing is left");

        write(&mut ends.far, &ends.pool, &[b"next"]).await.unwrap();
        read(&mut ends.near, &mut buffer, 4).await.unwrap();
        assert_eq!(buffer.bytes(), b"next");
    });
}

#[test]
fn a_plain_small_or_slow_body_wakes_its_reader_with_any_data() {
    for (terms, whole, piece) in [
        (None, 1 << 20, 3 * READ),
        (Some(TLS13_TERMS), 100_000, READ),
        (Some(TLS13_TERMS), 1 << 20, READ / 4),
    ] {
        run(async {
            let (mut ends, _queue) = with_queue(terms);
            let mut buffer = ReadBuffer::new(&ends.pool);
            let mut left: u64 = whole;
            write(&mut ends.far, &ends.pool, &[&bytes(piece)])
                .await
                .unwrap();
            read_body(&mut ends, &mut buffer, &mut left).await;
            assert_eq!(left, whole - piece as u64, "it was read");
            assert_eq!(ends.near.full_reads.mark(), None);
        });
    }
}
