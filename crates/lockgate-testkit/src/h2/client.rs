//! A client that follows the rules of HTTP/2, on the h2 crate.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Mutex;
use std::task::Poll;

use bytes::Bytes;
use h2::client::{Builder, ResponseFuture, SendRequest};
use h2::ext::Protocol;
use h2::{Reason, RecvStream, SendStream};
use http::{Method, Request, Response, Uri};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio_rustls::TlsConnector;

use super::message::{ReceivedResponse, fields, map};
use super::runtime::Runtime;
use crate::tls::ClientSettings;

/// A connection; closed on drop.
#[derive(Debug)]
pub struct Client {
    sender: SendRequest<Bytes>,
    ended: Mutex<oneshot::Receiver<Result<(), h2::Error>>>,
    address: SocketAddr,
    runtime: Runtime,
}

/// A request in flight, and its response.
#[derive(Debug)]
pub struct Exchange<'a> {
    runtime: &'a Runtime,
    request: SendStream<Bytes>,
    response: Option<ResponseFuture>,
    body: Option<RecvStream>,
    answer: ReceivedResponse,
}

impl Client {
    /// Connects with prior knowledge of HTTP/2.
    ///
    /// # Panics
    /// When there is no listener.
    pub fn connect(to: SocketAddr) -> Self {
        Self::connect_with(to, &Builder::new())
    }

    /// The same with windows and limits from `builder`.
    ///
    /// # Panics
    /// As [`Client::connect`].
    pub fn connect_with(to: SocketAddr, builder: &Builder) -> Self {
        let runtime = Runtime::new();
        let stream = runtime
            .wait("a connection", dial(to))
            .expect("somebody listens");
        let address = stream.local_addr().expect("a connected socket has one");
        Self::over(runtime, address, stream, builder)
    }

    /// Connects over TLS, and agrees on `h2` by ALPN.
    ///
    /// # Panics
    /// When the other end does not agree.
    pub fn connect_tls(settings: &ClientSettings, to: SocketAddr, name: &str) -> Self {
        let config = settings.clone().alpn(&["h2"]).build();
        let name = ServerName::try_from(name.to_owned()).expect("a host name");
        let runtime = Runtime::new();
        let shake = async {
            let stream = dial(to).await?;
            TlsConnector::from(config).connect(name, stream).await
        };
        let stream = runtime.wait("a handshake", shake).expect("a handshake");
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let address = stream
            .get_ref()
            .0
            .local_addr()
            .expect("a connected socket has one");
        Self::over(runtime, address, stream, &Builder::new())
    }

    fn over<S>(runtime: Runtime, address: SocketAddr, stream: S, builder: &Builder) -> Self
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let shake = builder.handshake(stream);
        let (sender, connection) = runtime
            .wait("a beginning", shake)
            .expect("the peer takes the preface");
        let (tell, ended) = oneshot::channel();
        runtime.spawn(async move {
            // A test that does not read it ignores how the stream ended.
            let _ = tell.send(connection.await);
        });
        Self {
            sender,
            ended: Mutex::new(ended),
            address,
            runtime,
        }
    }

    /// The address of this end.
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// A request for `path` at `app.test`, to be amended.
    ///
    /// # Panics
    /// When the path is invalid.
    pub fn request(method: Method, path: &str) -> Request<()> {
        let uri = Uri::builder()
            .scheme("http")
            .authority("app.test")
            .path_and_query(path);
        let mut request = Request::new(());
        (*request.method_mut(), *request.uri_mut()) = (method, uri.build().expect("a path"));
        request
    }

    /// GET of `path` at `app.test`.
    ///
    /// # Panics
    /// When the connection ends before the response.
    pub fn get(&self, path: &str) -> ReceivedResponse {
        self.begin(Self::request(Method::GET, path), true).answer()
    }

    /// POST of `body` to `path` at `app.test`, with its length.
    ///
    /// # Panics
    /// When the connection ends before the response.
    pub fn post(&self, path: &str, body: impl Into<Bytes>) -> ReceivedResponse {
        let body = body.into();
        let mut request = Self::request(Method::POST, path);
        request
            .headers_mut()
            .insert("content-length", body.len().into());
        let mut exchange = self.begin(request, false);
        exchange.send(body, true);
        exchange.answer()
    }

    /// Sends the head of a request, as soon as the peer allows one more stream; with `end` there is
    /// no body.
    ///
    /// # Panics
    /// When the connection has ended.
    pub fn begin(&self, request: Request<()>, end: bool) -> Exchange<'_> {
        self.try_begin(request, end)
            .expect("the connection is there")
    }

    /// As [`Client::begin`].
    ///
    /// # Errors
    /// When the connection has ended, or accepts no more requests.
    pub fn try_begin(&self, request: Request<()>, end: bool) -> Result<Exchange<'_>, h2::Error> {
        let ready = self.sender.clone().ready();
        let mut sender = self.runtime.wait("room for a stream", ready)?;
        let (response, request) = sender.send_request(request, end)?;
        let answer = ReceivedResponse::default();
        Ok(Exchange {
            runtime: &self.runtime,
            request,
            response: Some(response),
            body: None,
            answer,
        })
    }

    /// Begins an extended CONNECT (RFC 8441) for `path` at `app.test`.
    ///
    /// # Panics
    /// When the peer has not announced its support within [`crate::DEADLINE`].
    pub fn connect_protocol(&self, protocol: &'static str, path: &str) -> Exchange<'_> {
        crate::eventually("extended CONNECT is enabled", || {
            self.sender
                .is_extended_connect_protocol_enabled()
                .then_some(())
        });
        let mut request = Self::request(Method::CONNECT, path);
        request
            .extensions_mut()
            .insert(Protocol::from_static(protocol));
        self.begin(request, false)
    }

    /// The number of streams that the peer allows.
    pub fn allowed_streams(&self) -> usize {
        self.sender.current_max_send_streams()
    }

    /// Waits until the connection has ended, and returns its error; an orderly GOAWAY is none.
    ///
    /// # Errors
    /// The error that ended it.
    ///
    /// # Panics
    /// When it does not end.
    pub fn ended(self) -> Result<(), h2::Error> {
        let ended = self
            .ended
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        self.runtime
            .wait("the end of the connection", ended)
            .expect("it is always told")
    }
}

impl Exchange<'_> {
    /// The id of its stream.
    pub fn stream(&self) -> u32 {
        self.request.stream_id().as_u32()
    }

    /// Sends a piece of the body, when the windows allow it; `end` marks the last.
    ///
    /// # Panics
    /// When the peer does not accept it.
    pub fn send(&mut self, piece: impl Into<Bytes>, end: bool) {
        let sent = self
            .runtime
            .wait("a window", send(&mut self.request, piece.into(), end));
        sent.expect("the peer takes the body");
    }

    /// Sends trailers, and ends the stream.
    ///
    /// # Panics
    /// When the peer has ended the stream.
    pub fn trailers(&mut self, fields: &[(&str, &str)]) {
        let fields: Vec<_> = fields
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        self.request
            .send_trailers(map(&fields))
            .expect("the stream is open");
    }

    /// Sends RST_STREAM.
    pub fn reset(&mut self, code: u32) {
        self.request.send_reset(Reason::from(code));
    }

    /// Waits for the head of the response, and interim responses before it.
    ///
    /// # Errors
    /// When the stream or the connection ends earlier.
    pub fn head(&mut self) -> Result<&ReceivedResponse, h2::Error> {
        if let Some(mut response) = self.response.take() {
            let interim = &mut self.answer.interim;
            let next = poll_fn(|cx| {
                while let Poll::Ready(Some(Ok(early))) = response.poll_informational(cx) {
                    interim.push((early.status().as_u16(), fields(early.headers())));
                }
                pin!(&mut response).poll(cx)
            });
            let (head, body) = self.runtime.wait("an answer", next)?.into_parts();
            (self.answer.status, self.answer.fields) =
                (head.status.as_u16(), fields(&head.headers));
            self.body = Some(body);
        }
        Ok(&self.answer)
    }

    /// Waits for one interim response (1xx).
    ///
    /// # Panics
    /// When none comes before the head.
    pub fn interim(&mut self) -> u16 {
        let response = self.response.as_mut().expect("the head is not there yet");
        let early: Option<Result<Response<()>, _>> = self.runtime.wait(
            "an interim answer",
            poll_fn(|cx| response.poll_informational(cx)),
        );
        let early = early
            .expect("one is there before the head")
            .expect("the stream goes on");
        let status = early.status().as_u16();
        self.answer.interim.push((status, fields(early.headers())));
        status
    }

    /// The next piece of the response's body; `None` is its end, after which the trailers are
    /// there.
    ///
    /// # Errors
    /// When the stream or the connection ends earlier.
    pub fn piece(&mut self) -> Result<Option<Bytes>, h2::Error> {
        self.head()?;
        let body = self.body.as_mut().expect("it is there with the head");
        let Some(piece) = self.runtime.wait("a body", body.data()) else {
            if let Some(trailers) = self.runtime.wait("trailers", body.trailers())? {
                self.answer.trailers = fields(&trailers);
            }
            return Ok(None);
        };
        let piece = piece?;
        body.flow_control().release_capacity(piece.len())?;
        self.answer.body.extend_from_slice(&piece);
        Ok(Some(piece))
    }

    /// The response, up to its end or its reset.
    ///
    /// # Panics
    /// When the connection ends earlier.
    pub fn answer(self) -> ReceivedResponse {
        self.try_answer().expect("the connection goes on")
    }

    /// As [`Exchange::answer`].
    ///
    /// # Errors
    /// When the connection ends earlier.
    pub fn try_answer(mut self) -> Result<ReceivedResponse, h2::Error> {
        loop {
            match self.piece() {
                Ok(Some(_)) => {}
                Ok(None) => return Ok(self.answer),
                Err(error) if error.is_reset() && error.is_remote() => {
                    self.answer.reset = error.reason().map(u32::from);
                    return Ok(self.answer);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

async fn dial(to: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(to).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Sends all of `piece` as the windows allow it.
pub(super) async fn send(
    stream: &mut SendStream<Bytes>,
    mut piece: Bytes,
    end: bool,
) -> Result<(), h2::Error> {
    while !piece.is_empty() {
        stream.reserve_capacity(piece.len());
        let room = poll_fn(|cx| Pin::new(&mut *stream).poll_capacity(cx)).await;
        let room = match room {
            Some(room) => room?,
            // The stream has ended; sending returns the reason.
            None => return stream.send_data(piece, end),
        };
        let part = piece.split_to(room.min(piece.len()));
        let last = end && piece.is_empty();
        stream.send_data(part, last)?;
        if last {
            return Ok(());
        }
    }
    if end {
        stream.send_data(Bytes::new(), true)
    } else {
        Ok(())
    }
}
