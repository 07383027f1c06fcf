//! Acknowledgements at once: of pieces of messages, and of nothing else.

use std::future::poll_fn;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use lockgate_http::h1::{framing, parse};
use lockgate_http::head::{Method, ResponseHead};
use lockgate_net::socket::ACKS_PER_MESSAGE;
use lockgate_net::socket::{Socket, SocketFamily};

use super::*;
use lockgate_net::reactor::Reactor;

/// A connection with a request to an endpoint, and the endpoint.
struct Asked {
    stream: Stream,
    reader: MessageReader,
    blocks: Rc<BufferPool>,
    endpoint: TcpStream,
}

impl Asked {
    async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        socket.set_nonblocking(true).unwrap();
        let stream = Stream::new(
            Socket::new(socket.into(), SocketFamily::Tcp).unwrap(),
            None,
            Vec::new(),
        );
        let blocks = BufferPool::new();
        let reader = MessageReader::new(&blocks, b"");
        let mut asked = Self {
            stream,
            reader,
            blocks,
            endpoint: listener.accept().unwrap().0,
        };
        asked.ask().await;
        asked
    }

    async fn ask(&mut self) {
        poll_fn(|cx| self.stream.poll_write(cx, &self.blocks, &[b"GET"]))
            .await
            .unwrap();
        self.endpoint.read_exact(&mut [0; 3]).unwrap();
    }

    /// Polls for the head until it is there, or all that has come was read.
    async fn head(&mut self) -> Option<BodyLength> {
        let Self { stream, reader, .. } = self;
        let mut head = ResponseHead::default();
        let read = poll_fn(|cx| {
            let read = reader.poll_head(cx, stream, |input, progress, limits| {
                parse::response(input, progress, limits, &mut head)
            });
            match read {
                Poll::Pending if !stream.is_quiet_now() => Poll::Pending,
                read => Poll::Ready(read),
            }
        });
        match read.await {
            Poll::Ready(read) => {
                assert!(read.unwrap());
                Some(framing::response(Method::Get, &head).unwrap())
            }
            Poll::Pending => None,
        }
    }

    /// Reads data until the body has ended, or all that has come was read.
    async fn body(&mut self) -> usize {
        let Self { stream, reader, .. } = self;
        let mut taken = 0;
        poll_fn(|cx| {
            while !reader.has_ended() {
                match reader.poll_data(cx, stream) {
                    Poll::Ready(read) => read.unwrap(),
                    Poll::Pending if !stream.is_quiet_now() => return Poll::Pending,
                    Poll::Pending => break,
                }
                taken += reader.data().len();
                reader.consume(reader.data().len());
            }
            Poll::Ready(taken)
        })
        .await
    }

    async fn says(&mut self, bytes: &[u8]) {
        self.endpoint.write_all(bytes).unwrap();
        self.stream.socket().readable().await.unwrap();
    }

    fn acknowledged(&self) -> u8 {
        self.stream.socket().acknowledged()
    }
}

fn run<F: Future>(future: F) -> F::Output {
    Reactor::new().unwrap().block_on(future).unwrap()
}

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n";
const CHUNKED: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

#[test]
fn a_complete_response_is_acknowledged_with_the_next_request() {
    run(async {
        let mut asked = Asked::new().await;
        for response in [
            [HEAD, b"body"].concat(),
            [CHUNKED, b"4\r\nbody\r\n0\r\n\r\n"].concat(),
        ] {
            assert_eq!(asked.head().await, None);
            asked.says(&response).await;
            let length = asked.head().await.unwrap();
            asked.reader.begin_body(length).unwrap();
            assert_eq!(asked.body().await, 4);
            assert!(asked.reader.has_ended());
            assert_eq!(asked.acknowledged(), 0);
            asked.ask().await;
        }
    });
}

/// The endpoint has Nagle's algorithm on, and holds the rest back until then.
#[test]
fn a_partial_response_is_acknowledged_at_once() {
    run(async {
        let whole = [HEAD, b"body"].concat();
        // Within the status line, a field, between head and body, within the body.
        for cut in [3, 20, HEAD.len(), HEAD.len() + 2] {
            let mut asked = Asked::new().await;
            asked.says(&whole[..cut]).await;
            if let Some(length) = asked.head().await {
                asked.reader.begin_body(length).unwrap();
                asked.body().await;
            }
            assert_eq!(asked.acknowledged(), 1, "{cut}");
        }
        // Chunks, and their end by itself.
        let mut asked = Asked::new().await;
        asked.says(&[CHUNKED, b"4\r\nbody\r\n"].concat()).await;
        let length = asked.head().await.unwrap();
        asked.reader.begin_body(length).unwrap();
        assert_eq!(asked.body().await, 4);
        assert_eq!(asked.acknowledged(), 1);
    });
}

#[test]
fn a_large_response_body_is_not_acknowledged_per_read() {
    run(async {
        let mut asked = Asked::new().await;
        asked.says(CHUNKED).await;
        let length = asked.head().await.unwrap();
        asked.reader.begin_body(length).unwrap();
        for _ in 0..100 {
            asked.says(b"4\r\nbody\r\n").await;
            assert_eq!(asked.body().await, 4);
        }
        assert_eq!(asked.acknowledged(), ACKS_PER_MESSAGE);
    });
}

/// Of bytes without messages in them nothing is known but how their sender pauses.
#[test]
fn tunnel_bytes_are_not_acknowledged_at_once() {
    run(async {
        let mut asked = Asked::new().await;
        asked.reader.begin_tunnel().unwrap();
        asked.says(b"whole").await;
        assert_eq!(asked.body().await, 5);
        assert_eq!(asked.acknowledged(), 0);
    });
}
