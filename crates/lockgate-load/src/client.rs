//! One client: a connection at a time to each peer, and one exchange after the other.

mod buffers;
mod bytes;
mod echo_check;
pub(crate) mod h2;
mod http;
mod outcome;
mod transport;
mod vectored_write;
mod websocket;

pub(crate) use buffers::ClientBuffers;
pub(crate) use http::{ResponsePart, fetch};
pub(crate) use outcome::{ExchangeError, ExchangeStats};
pub(crate) use transport::Transport;

use lockgate_net::dial;

use crate::result::FailureKind;
use crate::target::{LoadTarget, RemotePeer, TargetRequest};

/// Opens a connection for `target` at `address`; `stats` counts the bytes of a WebSocket handshake.
///
/// # Errors
/// The connection fails, or the server does not agree to the protocol.
pub(crate) async fn open(
    target: &LoadTarget,
    address: &dial::DialTarget,
    buffers: &mut ClientBuffers,
    stats: &mut ExchangeStats,
) -> Result<Transport, ExchangeError> {
    let mut transport = connect(&target.peer, address, buffers).await?;
    match &target.request {
        TargetRequest::WebSocket(asked) => {
            websocket::upgrade(&mut transport, &asked.head, buffers, stats).await?
        }
        TargetRequest::Http2(_) => h2::check(&transport)?,
        TargetRequest::Http1(_) | TargetRequest::Bytes(_) => {}
    }
    Ok(transport)
}

/// Connects to `address` of `peer`, TLS included.
///
/// # Errors
/// The connection fails.
pub(crate) async fn connect(
    peer: &RemotePeer,
    address: &dial::DialTarget,
    buffers: &ClientBuffers,
) -> Result<Transport, ExchangeError> {
    transport::open(peer, address, &buffers.blocks, buffers.link_queue.as_ref()).await
}

/// Checks the connection after an idle time: whether it can have another exchange, or has ended.
///
/// # Errors
/// The server has sent bytes behind the last exchange.
pub(crate) async fn check_idle(
    transport: &mut Transport,
    target: &LoadTarget,
    buffers: &mut ClientBuffers,
    stats: &mut ExchangeStats,
) -> Result<bool, ExchangeError> {
    if transport.is_quiet() {
        return Ok(true);
    }
    match &target.request {
        TargetRequest::WebSocket(_) => websocket::check_idle(transport, buffers, stats).await,
        TargetRequest::Http1(_) | TargetRequest::Http2(_) | TargetRequest::Bytes(_) => {
            match transport.read_now(stats).await {
                None => Ok(true),
                // To connections without a request some servers say so before they close them (RFC
                // 9110 §15.5.9).
                Some(true)
                    if !transport
                        .inbox
                        .bytes()
                        .get(8..)
                        .is_some_and(|rest| rest.starts_with(b" 408 ")) =>
                {
                    let more = transport.inbox.bytes().len();
                    Err(ExchangeError::new(
                        FailureKind::Length,
                        format!("{more} unexpected bytes after the end, after a while"),
                    ))
                }
                Some(_) => Ok(false),
            }
        }
    }
}

/// Makes one exchange on a connection. `stats` is complete even when the exchange fails or is
/// dropped.
///
/// # Errors
/// There is no response, or it is not as expected.
pub(crate) async fn exchange(
    transport: &mut Transport,
    target: &LoadTarget,
    buffers: &mut ClientBuffers,
    stats: &mut ExchangeStats,
) -> Result<(), ExchangeError> {
    match &target.request {
        TargetRequest::Http1(request) => {
            http::exchange(transport, request, &target.expect, buffers, stats).await?
        }
        TargetRequest::Http2(request) => {
            h2::exchange(transport, request, &target.expect, buffers, stats).await?
        }
        TargetRequest::WebSocket(asked) => {
            websocket::exchange(transport, &asked.message, &target.expect, buffers, stats).await?
        }
        TargetRequest::Bytes(body) => {
            bytes::exchange(transport, body, &target.expect, buffers, stats).await?
        }
    }
    let judged = target.judge(&stats.response);
    judged.map_err(|(failure, text)| ExchangeError::new(failure, text))
}
