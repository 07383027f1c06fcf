//! An origin that keeps the rules of HTTP/2, by the h2 crate, until a test makes it leave or
//! freeze.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use bytes::Bytes;
use h2::ext::Protocol;
use h2::server::{Builder, SendResponse};
use h2::{Reason, RecvStream};
use http::{Request, Response};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use super::client::send;
use super::message::{Field, ReceivedRequest, ResponseEnd, ScriptedResponse, fields, map};
use super::runtime::Runtime;
use crate::authority::Issued;
use crate::tls::server_config;
use crate::{DEADLINE, port};

/// A listening socket that serves until it is dropped.
#[derive(Debug)]
pub struct Origin {
    address: SocketAddr,
    asked: Mutex<mpsc::Receiver<ReceivedRequest>>,
    resets: Mutex<mpsc::Receiver<(u32, u32)>>,
    orders: watch::Sender<OriginState>,
    accepted: Arc<AtomicUsize>,
    _runtime: Runtime,
}

/// The state of all connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OriginState {
    Serve,
    /// GOAWAY; open streams are finished.
    Leave,
    /// Nothing is read or written any more, not even an acknowledgement of PING.
    Freeze,
    /// The sockets are closed.
    Drop,
}

/// The shared parts of a connection.
struct Service {
    reply: Box<dyn Fn(&ReceivedRequest) -> ScriptedResponse + Send + Sync>,
    echoes: bool,
    asked: mpsc::Sender<ReceivedRequest>,
    resets: mpsc::Sender<(u32, u32)>,
    builder: Builder,
    tls: Option<TlsAcceptor>,
}

impl Origin {
    /// Listens on a free port of 127.0.0.1 that no other origin has had, with prior knowledge, and
    /// responds to every request when it is complete.
    ///
    /// # Panics
    /// When there is no port.
    pub fn plain(
        reply: impl Fn(&ReceivedRequest) -> ScriptedResponse + Send + Sync + 'static,
    ) -> Self {
        Self::plain_with(&builder(), reply)
    }

    /// The same with the windows and limits of `builder`.
    ///
    /// # Panics
    /// As [`Origin::plain`].
    pub fn plain_with(
        builder: &Builder,
        reply: impl Fn(&ReceivedRequest) -> ScriptedResponse + Send + Sync + 'static,
    ) -> Self {
        Self::start(Box::new(reply), false, builder, None)
    }

    /// The same over TLS as `issued`; with `h2` only.
    ///
    /// # Panics
    /// As [`Origin::plain`].
    pub fn tls(
        issued: &Issued,
        reply: impl Fn(&ReceivedRequest) -> ScriptedResponse + Send + Sync + 'static,
    ) -> Self {
        let mut config = Arc::unwrap_or_clone(server_config(issued, None));
        config.alpn_protocols = vec![b"h2".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Self::start(Box::new(reply), false, &builder(), Some(acceptor))
    }

    /// Answers 200 at once, echoes each piece of a body as it comes, and the trailers behind it.
    ///
    /// # Panics
    /// As [`Origin::plain`].
    pub fn echo() -> Self {
        Self::start(
            Box::new(|_| ScriptedResponse::new(200)),
            true,
            &builder(),
            None,
        )
    }

    fn start(
        reply: Box<dyn Fn(&ReceivedRequest) -> ScriptedResponse + Send + Sync>,
        echoes: bool,
        builder: &Builder,
        tls: Option<TlsAcceptor>,
    ) -> Self {
        let runtime = Runtime::new();
        let listener = port::listen();
        listener.set_nonblocking(true).expect("a descriptor");
        let address = listener.local_addr().expect("a bound socket has one");
        let (tell_asked, asked) = mpsc::channel();
        let (tell_resets, resets) = mpsc::channel();
        let (orders, order) = watch::channel(OriginState::Serve);
        let accepted = Arc::new(AtomicUsize::new(0));
        let service = Service {
            reply,
            echoes,
            asked: tell_asked,
            resets: tell_resets,
            builder: builder.clone(),
            tls,
        };
        let (service, count) = (Arc::new(service), Arc::clone(&accepted));
        runtime.spawn(async move {
            let listener = TcpListener::from_std(listener).expect("descriptors are left");
            while let Ok((stream, _)) = listener.accept().await {
                stream
                    .set_nodelay(true)
                    .expect("an option that all TCP sockets have");
                let number = count.fetch_add(1, Ordering::SeqCst);
                let (service, order) = (Arc::clone(&service), order.clone());
                // A peer that fails the handshake or breaks off is the business of the test that
                // made it do so.
                tokio::spawn(async move {
                    match service.tls.clone() {
                        None => serve(service, order, number, stream).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(service, order, number, stream).await;
                            }
                        }
                    }
                });
            }
        });
        let (asked, resets) = (Mutex::new(asked), Mutex::new(resets));
        Self {
            address,
            asked,
            resets,
            orders,
            accepted,
            _runtime: runtime,
        }
    }

    /// The address as a string, without scheme.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// The address.
    pub fn socket_address(&self) -> SocketAddr {
        self.address
    }

    /// All connections so far.
    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    /// The next request, when it is complete or was reset.
    ///
    /// # Panics
    /// When none comes.
    pub fn next(&self) -> ReceivedRequest {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked
            .recv_timeout(DEADLINE)
            .expect("a request reaches the origin")
    }

    /// The requests since the last call, without waiting.
    pub fn asked(&self) -> Vec<ReceivedRequest> {
        self.asked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .try_iter()
            .collect()
    }

    /// The next RST_STREAM of a client during its response: stream and code.
    ///
    /// # Panics
    /// When none comes.
    pub fn next_reset(&self) -> (u32, u32) {
        let resets = self.resets.lock().unwrap_or_else(PoisonError::into_inner);
        resets
            .recv_timeout(DEADLINE)
            .expect("a reset reaches the origin")
    }

    /// Sends GOAWAY on every connection, also on new ones; open streams are finished.
    pub fn leave(&self) {
        self.orders.send_replace(OriginState::Leave);
    }

    /// Freezes every connection without closing it: answers nothing, PING neither.
    pub fn freeze(&self) {
        self.orders.send_replace(OriginState::Freeze);
    }

    /// Closes every connection as if the process had died.
    pub fn drop_all(&self) {
        self.orders.send_replace(OriginState::Drop);
    }

    /// Serves again: frozen connections continue.
    pub fn serve(&self) {
        self.orders.send_replace(OriginState::Serve);
    }
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.enable_connect_protocol();
    builder
}

async fn serve<S>(
    service: Arc<Service>,
    mut order: watch::Receiver<OriginState>,
    number: usize,
    stream: S,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Ok(mut connection) = service.builder.handshake::<_, Bytes>(stream).await else {
        return;
    };
    loop {
        let now = *order.borrow_and_update();
        match now {
            OriginState::Serve => {}
            OriginState::Leave => connection.graceful_shutdown(),
            OriginState::Drop => return,
            OriginState::Freeze => {
                if order.changed().await.is_err() {
                    return;
                }
                continue;
            }
        }
        tokio::select! {
            biased; // an order precedes everything sent after it
            changed = order.changed() => if changed.is_err() { return },
            next = connection.accept() => match next {
                Some(Ok((request, respond))) => {
                    tokio::spawn(exchange(Arc::clone(&service), number, request, respond));
                }
                Some(Err(_)) | None => return,
            },
        }
    }
}

async fn exchange(
    service: Arc<Service>,
    connection: usize,
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
) {
    let stream = respond.stream_id().as_u32();
    let (head, mut body) = request.into_parts();
    let part = |part: Option<&str>| part.unwrap_or_default().to_owned();
    let mut asked = ReceivedRequest {
        connection,
        stream,
        method: head.method.to_string(),
        scheme: part(head.uri.scheme_str()),
        authority: part(head.uri.authority().map(http::uri::Authority::as_str)),
        path: part(
            head.uri
                .path_and_query()
                .map(http::uri::PathAndQuery::as_str),
        ),
        protocol: head
            .extensions
            .get::<Protocol>()
            .map(|protocol| protocol.as_str().to_owned()),
        fields: fields(&head.headers),
        ..ReceivedRequest::default()
    };
    if head
        .headers
        .get("expect")
        .is_some_and(|expect| expect == "100-continue")
    {
        let _ = respond.send_informational(response(100, &[]));
    }
    let done = if service.echoes {
        echo(&mut asked, &mut body, &mut respond).await
    } else {
        receive(&mut asked, &mut body).await
    };
    if let Err(error) = done {
        asked.reset = error.reason().map(u32::from);
    }
    let reply = (asked.reset.is_none() && !service.echoes).then(|| (service.reply)(&asked));
    // The test may be over.
    let _ = service.asked.send(asked);
    if let Some(reply) = reply
        && let Err(error) = answer(reply, &mut respond).await
        && let Some(reason) = error.reason()
    {
        let _ = service.resets.send((stream, reason.into()));
    }
}

async fn receive(asked: &mut ReceivedRequest, body: &mut RecvStream) -> Result<(), h2::Error> {
    while let Some(piece) = body.data().await {
        let piece = piece?;
        body.flow_control().release_capacity(piece.len())?;
        asked.body.extend_from_slice(&piece);
    }
    asked.trailers = body
        .trailers()
        .await?
        .as_ref()
        .map(fields)
        .unwrap_or_default();
    Ok(())
}

async fn echo(
    asked: &mut ReceivedRequest,
    body: &mut RecvStream,
    respond: &mut SendResponse<Bytes>,
) -> Result<(), h2::Error> {
    let mut out = respond.send_response(response(200, &[]), false)?;
    while let Some(piece) = body.data().await {
        let piece = piece?;
        asked.body.extend_from_slice(&piece);
        let len = piece.len();
        send(&mut out, piece, false).await?;
        body.flow_control().release_capacity(len)?;
    }
    let trailers = body.trailers().await?;
    asked.trailers = trailers.as_ref().map(fields).unwrap_or_default();
    match trailers {
        Some(trailers) => out.send_trailers(trailers),
        None => out.send_data(Bytes::new(), true),
    }
}

async fn answer(
    reply: ScriptedResponse,
    respond: &mut SendResponse<Bytes>,
) -> Result<(), h2::Error> {
    if let ResponseEnd::Refused(reason) = reply.end {
        respond.send_reset(reason);
        return Ok(());
    }
    for (status, fields) in &reply.interim {
        respond.send_informational(response(*status, fields))?;
    }
    let clean = reply.end == ResponseEnd::Clean;
    let bare = clean && reply.pieces.is_empty() && reply.trailers.is_empty();
    let mut out = respond.send_response(response(reply.status, &reply.fields), bare)?;
    if bare {
        return Ok(());
    }
    let last = reply
        .pieces
        .len()
        .checked_sub(1)
        .filter(|_| clean && reply.trailers.is_empty());
    for (at, piece) in reply.pieces.into_iter().enumerate() {
        send(&mut out, piece, Some(at) == last).await?;
    }
    match reply.end {
        ResponseEnd::Reset(reason) => {
            // A reset at once would discard queued data: the connection's task writes it meanwhile.
            for _ in 0..16 {
                tokio::task::yield_now().await;
            }
            out.send_reset(reason);
            Ok(())
        }
        ResponseEnd::Never => {
            let reason: Reason = poll_fn(|cx| out.poll_reset(cx)).await?;
            Err(reason.into())
        }
        _ if !reply.trailers.is_empty() => out.send_trailers(map(&reply.trailers)),
        _ => Ok(()),
    }
}

fn response(status: u16, fields: &[Field]) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = http::StatusCode::from_u16(status).expect("a status");
    *response.headers_mut() = map(fields);
    response
}
