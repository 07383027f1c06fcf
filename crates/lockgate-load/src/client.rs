//! One client: a connection at a time to each peer, and one exchange after the other.

mod bytes;
pub(crate) mod h2;
mod http;
mod messages;
mod returned;
mod scratch;
mod transport;
mod upload;

pub(crate) use http::Piece;
pub(crate) use http::fetch;
pub(crate) use scratch::Scratch;
pub(crate) use transport::Transport;

use lockgate_net::dial;
use lockgate_net::stream::StreamError;
use lockgate_net::tls::session::SessionError;

use crate::expect::ObservedResponse;
use crate::result::Failure;
use crate::target::{Exchange, Peer, Target};

/// Failure of an exchange: its kind, and a text for the reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) failure: Failure,
    pub(crate) text: String,
    /// Whether it may go better in a moment, for no reason of the peer's.
    pub(crate) again: bool,
    /// Whether this side is the reason: it has run out of descriptors, ports or memory.
    pub(crate) ours: bool,
}

impl Fault {
    pub(crate) fn new(failure: Failure, text: impl Into<String>) -> Self {
        Self {
            failure,
            text: text.into(),
            again: false,
            ours: false,
        }
    }

    /// A connection that broke while a response was due.
    fn broken(error: &StreamError) -> Self {
        match error {
            StreamError::Tls(SessionError::Alerted(_))
            | StreamError::Truncated
            | StreamError::Io(_) => Self::new(Failure::Closed, error.to_string()),
            StreamError::Tls(_) => Self::new(Failure::Tls, error.to_string()),
        }
    }
}

/// Counts of one exchange and its response, whether it failed or not.
#[derive(Debug, Default)]
pub(crate) struct ExchangeStats {
    /// The response, as far as it came.
    pub(crate) response: ObservedResponse,
    /// Bytes of messages sent.
    pub(crate) sent: u64,
    /// And received.
    pub(crate) received: u64,
    /// Whether there was a connection for it.
    pub(crate) connected: bool,
    /// Whether the connection can have another.
    pub(crate) keep: bool,
}

/// Opens a connection for `target` at `address`; what a WebSocket takes to open is in `done`.
///
/// # Errors
/// When none comes about, or it does not become what is spoken.
pub(crate) async fn open(
    target: &Target,
    address: &dial::Target,
    scratch: &mut Scratch,
    stats: &mut ExchangeStats,
) -> Result<Transport, Fault> {
    let mut transport = connect(&target.peer, address, scratch).await?;
    match &target.exchange {
        Exchange::WebSocket(asked) => {
            messages::upgrade(&mut transport, &asked.head, scratch, stats).await?
        }
        Exchange::Http2(_) => h2::check(&transport)?,
        Exchange::Http1(_) | Exchange::Bytes(_) => {}
    }
    Ok(transport)
}

/// Connects to `address` of `peer`, TLS included.
///
/// # Errors
/// When no connection comes about.
pub(crate) async fn connect(
    peer: &Peer,
    address: &dial::Target,
    scratch: &Scratch,
) -> Result<Transport, Fault> {
    transport::open(peer, address, &scratch.blocks, scratch.link_queue.as_ref()).await
}

/// Looks at what has come since the last exchange on `link`: whether it can have another, or has
/// ended.
///
/// # Errors
/// Something came behind the exchange before.
pub(crate) async fn check_idle(
    transport: &mut Transport,
    target: &Target,
    scratch: &mut Scratch,
    stats: &mut ExchangeStats,
) -> Result<bool, Fault> {
    if transport.is_quiet() {
        return Ok(true);
    }
    match &target.exchange {
        Exchange::WebSocket(_) => messages::check_idle(transport, scratch, stats).await,
        Exchange::Http1(_) | Exchange::Http2(_) | Exchange::Bytes(_) => {
            match transport.read_now(stats).await {
                None => Ok(true),
                // To connections without a request some servers say so before they close them (RFC 9110
                // §15.5.9).
                Some(true)
                    if !transport
                        .inbox
                        .bytes()
                        .get(8..)
                        .is_some_and(|rest| rest.starts_with(b" 408 ")) =>
                {
                    let more = transport.inbox.bytes().len();
                    Err(Fault::new(
                        Failure::Length,
                        format!("{more} unexpected bytes after the end, after a while"),
                    ))
                }
                Some(_) => Ok(false),
            }
        }
    }
}

/// Makes one exchange on `link`; what it moved is in `done` even when it failed or was dropped.
///
/// # Errors
/// When no response came about, or it was not as expected.
pub(crate) async fn exchange(
    transport: &mut Transport,
    target: &Target,
    scratch: &mut Scratch,
    stats: &mut ExchangeStats,
) -> Result<(), Fault> {
    match &target.exchange {
        Exchange::Http1(request) => {
            http::exchange(transport, request, &target.expect, scratch, stats).await?
        }
        Exchange::Http2(request) => {
            h2::exchange(transport, request, &target.expect, scratch, stats).await?
        }
        Exchange::WebSocket(asked) => {
            messages::exchange(transport, &asked.message, &target.expect, scratch, stats).await?
        }
        Exchange::Bytes(body) => {
            bytes::exchange(transport, body, &target.expect, scratch, stats).await?
        }
    }
    let judged = target.judge(&stats.response);
    judged.map_err(|(failure, text)| Fault::new(failure, text))
}
