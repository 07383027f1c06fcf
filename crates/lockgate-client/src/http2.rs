//! HTTP/2 for one exchange after the other, on the layer that the proxy has.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use lockgate_http::fields::{Field, Fields, Known};
use lockgate_http::h1::HeadLimits;
use lockgate_http::h2::{
    Budget, Connection, Event, FieldBlock, FieldSection, Key, LocalSettings, Role, SectionError,
    StreamReset, code, frames, response,
};
use lockgate_http::head::{Method, ResponseHead};
use lockgate_http::hpack::Indexing;
use tokio::io::AsyncWrite;

use crate::error::ClientError;
use crate::limits::ExchangeLimits;
use crate::stream::ServerStream;

/// Bytes of bodies that a server may send unread: the windows that HTTP/2 begins with.
const WINDOW: u32 = 65_535;
/// What a server may cost beside its messages: many times what an honest one does.
const BUDGET: Budget = Budget {
    resets: 64,
    control: 1_024,
    updates: 1_024,
};

/// A connection that speaks HTTP/2.
pub(crate) struct Http2Connection {
    stream: ServerStream,
    connection: Connection<()>,
    section: FieldSection,
    exchange: Option<Http2Exchange>,
}

/// The latest exchange.
struct Http2Exchange {
    key: Key,
    /// The rest of the request's body.
    upload: Bytes,
    /// Bytes that interim heads may still have.
    heads_left: usize,
    head: Option<ResponseHead>,
    data: Vec<u8>,
    trailers: HeaderMap,
    /// Whether the response has ended with the data.
    has_ended: bool,
}

impl Http2Connection {
    pub(crate) fn new(stream: ServerStream) -> Self {
        let head = HeadLimits::default().head;
        let settings = LocalSettings {
            streams: 0,
            window: WINDOW,
            connection_window: WINDOW,
            head_list: u32::try_from(head).unwrap_or(u32::MAX),
            connect_protocol: false,
        };
        Self {
            stream,
            connection: Connection::new(Role::Client, settings, BUDGET),
            section: FieldSection::default(),
            exchange: None,
        }
    }

    pub(crate) fn limits(&self) -> &ExchangeLimits {
        &self.stream.limits
    }

    /// The scheme of its requests.
    pub(crate) fn scheme(&self) -> &'static str {
        if self.stream.stream.is_secure() {
            "https"
        } else {
            "http"
        }
    }

    /// Sends a request, and waits for the head of the response. The exchange before ends.
    ///
    /// # Errors
    /// When there is no response.
    pub(crate) async fn exchange(
        &mut self,
        head: &Parts,
        body: Bytes,
    ) -> Result<(u16, HeaderMap), ClientError> {
        self.end_exchange();
        let (method, scheme) = (head.method.as_str().as_bytes(), self.scheme());
        let length = body.len();
        let opened = self
            .connection
            .open(Method::of(method), (), body.is_empty(), |block| {
                write_head(head, scheme, length, block);
            });
        let Some(key) = opened else {
            return Err(ClientError::Ended);
        };
        self.exchange = Some(Http2Exchange {
            key,
            upload: body,
            heads_left: self.stream.limits.head_bytes,
            head: None,
            data: Vec::new(),
            trailers: HeaderMap::new(),
            has_ended: false,
        });
        let head = self.until(|exchange| exchange.head.take()).await?;
        Ok((head.status, map(&head.fields)))
    }

    /// The next piece of the response's body; none at its end.
    ///
    /// # Errors
    /// When it does not come.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        let (key, data) = self
            .until(|exchange| {
                let is_over = exchange.data.is_empty() && exchange.has_ended;
                let is_there = is_over || !exchange.data.is_empty();
                is_there.then(|| (exchange.key, std::mem::take(&mut exchange.data)))
            })
            .await?;
        self.connection.used(key, data.len());
        Ok(Some(data).filter(|data| !data.is_empty()).map(Bytes::from))
    }

    /// The trailers of a response that was read to its end.
    pub(crate) fn take_trailers(&mut self) -> HeaderMap {
        let exchange = self.exchange.as_mut();
        exchange.map_or_else(HeaderMap::new, |exchange| {
            std::mem::take(&mut exchange.trailers)
        })
    }

    /// Says that the connection ends, as far as that goes without waiting.
    pub(crate) async fn close(mut self) {
        self.end_exchange();
        self.connection.abort(code::NO_ERROR);
        poll_fn(|cx| {
            if self.poll_send(cx).is_ready() {
                let _ = Pin::new(&mut self.stream).poll_shutdown(cx);
            }
            Poll::Ready(())
        })
        .await;
    }

    fn end_exchange(&mut self) {
        if let Some(exchange) = self.exchange.take() {
            self.connection.close(exchange.key, code::CANCEL);
        }
    }

    /// Goes on until `wanted` is there, in time.
    async fn until<T>(
        &mut self,
        mut wanted: impl FnMut(&mut Http2Exchange) -> Option<T>,
    ) -> Result<T, ClientError> {
        let limits = self.stream.limits;
        limits
            .bound(poll_fn(|cx| self.poll_until(cx, &mut wanted)))
            .await
    }

    fn poll_until<T>(
        &mut self,
        cx: &mut Context<'_>,
        wanted: &mut impl FnMut(&mut Http2Exchange) -> Option<T>,
    ) -> Poll<Result<T, ClientError>> {
        loop {
            self.receive()?;
            let written = self.write(cx);
            if let Some(exchange) = &mut self.exchange
                && let Some(wanted) = wanted(exchange)
            {
                return Poll::Ready(Ok(wanted));
            }
            // Not before: a server that has responded may be gone.
            written?;
            // A server that does not read our acknowledgements gets no more of them.
            if self.connection.is_full() {
                return Poll::Pending;
            }
            if !ready!(self.stream.poll_more(cx))? {
                return Poll::Ready(Err(ClientError::Ended));
            }
        }
    }

    /// Handles the frames that have come.
    fn receive(&mut self) -> Result<(), ClientError> {
        let Self {
            stream,
            connection,
            section,
            exchange,
        } = self;
        loop {
            let bytes = stream.received();
            let received = connection.receive(bytes, section);
            let mut taken = Ok(());
            while let Some(event) = connection.next_event() {
                if let Some(exchange) = exchange
                    && taken.is_ok()
                {
                    taken = exchange.take(event, bytes, section);
                }
            }
            let used = match received {
                Ok(used) => used,
                Err(error) => return taken.and(Err(ClientError::Http2(error.to_string()))),
            };
            // Also where the exchange has failed: the connection goes on.
            stream.consume(used);
            taken?;
            if used == 0 {
                return Ok(());
            }
        }
    }

    /// Writes what the windows allow of the request's body, and sends what was written as far as that
    /// goes.
    fn write(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        loop {
            if let Some(Http2Exchange { key, upload, .. }) = &mut self.exchange {
                while !upload.is_empty() {
                    let taken = self.connection.data(*key, upload, true);
                    upload.advance(taken);
                    if taken == 0 {
                        break;
                    }
                }
            }
            if self.connection.unsent().is_empty() {
                return Ok(());
            }
            match self.poll_send(cx) {
                Poll::Ready(sent) => sent?,
                Poll::Pending => return Ok(()),
            }
        }
    }

    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.connection.unsent().is_empty() {
            let stream = Pin::new(&mut self.stream);
            let sent = ready!(stream.poll_write(cx, self.connection.unsent()))?;
            self.connection.note_sent(sent);
        }
        Pin::new(&mut self.stream).poll_flush(cx)
    }
}

impl Http2Exchange {
    /// Takes what has come for it.
    fn take(
        &mut self,
        event: Event,
        bytes: &[u8],
        section: &FieldSection,
    ) -> Result<(), ClientError> {
        let limits = HeadLimits::default();
        match event {
            Event::Interim { wire, .. } => {
                let left = self.heads_left.checked_sub(wire);
                self.heads_left = left.ok_or(ClientError::TooLong)?;
                let mut head = ResponseHead::default();
                section.response(&limits, &mut head).map_err(malformed)
            }
            Event::Head { ended, .. } => {
                let mut head = ResponseHead::default();
                section.response(&limits, &mut head).map_err(malformed)?;
                (self.head, self.has_ended) = (Some(head), ended);
                Ok(())
            }
            Event::Data { at, ended, .. } => {
                self.data
                    .extend_from_slice(bytes.get(at).unwrap_or_default());
                self.has_ended = ended;
                Ok(())
            }
            Event::Trailers { .. } => {
                let mut fields = Fields::default();
                section.trailers(&limits, &mut fields).map_err(malformed)?;
                (self.trailers, self.has_ended) = (map(&fields), true);
                Ok(())
            }
            // RFC 9113 §8.1: a whole response stays one, if the server needs no more of the request.
            Event::Reset { reset, .. } if !self.has_ended => Err(ClientError::Http2(words(reset))),
            Event::Reset { .. }
            | Event::WindowOpened { .. }
            | Event::Goaway { .. }
            | Event::Pong { .. }
            | Event::Priority { .. } => Ok(()),
        }
    }
}

fn malformed(error: SectionError) -> ClientError {
    ClientError::Malformed(error.to_string())
}

/// Why a stream was reset.
fn words(reset: StreamReset) -> String {
    let name = frames::error_words(reset.code);
    match reset.fault {
        Some(fault) => fault.to_string(),
        None if reset.unprocessed => format!("the server took no request: {name}"),
        None => format!("the server has reset the stream: {name}"),
    }
}

/// Writes the head of a request with a body of this length.
fn write_head(head: &Parts, scheme: &str, length: usize, block: &mut FieldBlock<'_>) {
    let authority = head
        .uri
        .authority()
        .map_or("", |authority| authority.as_str());
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    for (name, value) in [
        (":method", head.method.as_str()),
        (":scheme", scheme),
        (":authority", authority),
        (":path", path),
    ] {
        block.field(name.as_bytes(), value.as_bytes(), Indexing::Keep);
    }
    for (name, value) in &head.headers {
        let (name, value) = (name.as_str().as_bytes(), value.as_bytes());
        let known = Known::of(name);
        let field = Field { name, value, known };
        // RFC 9113 §8.2.2: of a connection's fields only TE.
        if response::passes(&field) || known == Some(Known::Te) {
            block.request_field(&field);
        }
    }
    if length > 0 {
        let length = length.to_string();
        block.field(b"content-length", length.as_bytes(), Indexing::Plain);
    }
}

/// Fields as the other side of the client has them.
fn map(fields: &Fields) -> HeaderMap {
    let mut map = HeaderMap::with_capacity(fields.len());
    for field in fields.iter() {
        if let (Ok(name), Ok(value)) = (
            HeaderName::from_bytes(field.name),
            HeaderValue::from_bytes(field.value),
        ) {
            map.append(name, value);
        }
    }
    map
}
