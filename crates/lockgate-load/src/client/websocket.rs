//! Exchange of WebSocket messages (RFC 6455): each message is sent and comes back.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use fastrand::Rng;
use lockgate_http::h1::parse::{self, HeadProgress};
use lockgate_http::h1::{HeadLimits, encode};
use lockgate_net::stream::{BufferPool, StreamError};

use super::echo_check::EchoCheck;
use super::vectored_write::VectoredWrite;
use super::{ClientBuffers, ExchangeError, ExchangeStats, Transport};
use crate::expect::Expect;
use crate::result::FailureKind;
use crate::target::RequestBody;
use crate::websocket::frame::{self, FrameDecoder, FramePart, Opcode};
use crate::websocket::handshake::{Handshake, UpgradeError};

/// Limit of a message that comes back, in bytes. A longer message than the one that was sent is a
/// failure in any case.
const LIMIT: u64 = 1 << 30;

/// Upgrades a connection to a WebSocket (§4.1).
///
/// # Errors
/// The server refuses the upgrade.
pub(super) async fn upgrade(
    transport: &mut Transport,
    head: &[u8],
    buffers: &mut ClientBuffers,
    stats: &mut ExchangeStats,
) -> Result<(), ExchangeError> {
    let handshake = Handshake::random();
    buffers.fields.clear();
    handshake.write(&mut buffers.fields);
    encode::end(&mut buffers.fields);
    let mut upload = VectoredWrite::new([head, &buffers.fields, &[]]);
    let mut progress = HeadProgress::default();
    let answer = &mut buffers.head;
    poll_fn(|cx| {
        // A server that reads no more may have answered.
        let _ = upload.poll(cx, &mut transport.stream, &buffers.blocks);
        stats.sent = upload.sent;
        loop {
            if !transport.inbox.is_empty() {
                let parsed = parse::response(
                    transport.inbox.bytes(),
                    &mut progress,
                    &HeadLimits::default(),
                    answer,
                );
                let garbage = |error: lockgate_http::h1::HeadError| {
                    ExchangeError::new(FailureKind::Garbage, error.to_string())
                };
                if let Some(used) = parsed.map_err(garbage)? {
                    transport.inbox.consume(used);
                    if !answer.is_interim() {
                        return Poll::Ready(Ok(()));
                    }
                    continue;
                }
            }
            if !ready!(transport.poll_read(cx, stats))? {
                return Poll::Ready(Err(ExchangeError::new(
                    FailureKind::Closed,
                    "closed before a response",
                )));
            }
        }
    })
    .await?;
    handshake.check(&buffers.head).map_err(|error| {
        let kind = if let UpgradeError::Status(status) = error {
            stats.response.status = Some(status);
            FailureKind::Status
        } else {
            FailureKind::Garbage
        };
        ExchangeError::new(kind, error.to_string())
    })?;
    transport.frames = Some(FrameDecoder::new(LIMIT));
    Ok(())
}

/// Parses frames that came since the last message, and answers pings; `true` when there can be
/// another message.
///
/// # Errors
/// A message came without a request, or bytes that are no frame.
pub(super) async fn check_idle(
    transport: &mut Transport,
    buffers: &mut ClientBuffers,
    stats: &mut ExchangeStats,
) -> Result<bool, ExchangeError> {
    let mut frames = transport
        .frames
        .take()
        .unwrap_or_else(|| FrameDecoder::new(LIMIT));
    let mut pong = Pong::default();
    loop {
        let mut at = 0;
        loop {
            let coming = &transport.inbox.bytes()[at..];
            match frames
                .decode(coming)
                .map_err(|error| ExchangeError::new(FailureKind::Garbage, error.to_string()))?
            {
                FramePart::Control(Opcode::Close, _) => return Ok(false),
                FramePart::Control(opcode, range) => {
                    if opcode == Opcode::Ping {
                        pong.ping = Some(coming[range.clone()].to_vec());
                    }
                    at += range.end;
                }
                FramePart::Data(_) | FramePart::End(..) => {
                    return Err(ExchangeError::new(
                        FailureKind::Length,
                        "an unexpected message after the echoed one",
                    ));
                }
                FramePart::More(used) => {
                    at += used;
                    break;
                }
            }
        }
        transport.inbox.consume(at);
        match transport.read_now(stats).await {
            None => break,
            Some(true) => {}
            Some(false) => return Ok(false),
        }
    }
    let ClientBuffers { blocks, rng, .. } = buffers;
    let answered = poll_fn(|cx| pong.poll(cx, transport, blocks, rng)).await;
    stats.sent += pong.all;
    transport.frames = Some(frames);
    Ok(answered.is_ok())
}

/// Sends a message and waits for its echo.
///
/// # Errors
/// Another message comes back, or none.
pub(super) async fn exchange(
    transport: &mut Transport,
    message: &RequestBody,
    expect: &Expect,
    buffers: &mut ClientBuffers,
    stats: &mut ExchangeStats,
) -> Result<(), ExchangeError> {
    buffers.make(message);
    let ClientBuffers {
        blocks,
        rng,
        fields,
        body,
        ..
    } = buffers;
    let sent = message.or(body);
    fields.clear();
    frame::encode(fields, Opcode::Binary, sent, rng.u32(..).to_ne_bytes());
    let frames = transport.frames.take();
    let mut incoming = IncomingMessage {
        frames: frames.unwrap_or_else(|| FrameDecoder::new(LIMIT)),
        echo: EchoCheck::new(sent, expect),
        pong: Pong::default(),
    };
    let mut upload = VectoredWrite::new([fields, &[], &[]]);
    // The counts hold the handshake, before the first message, and pongs, before the others.
    let before = stats.sent;
    let came = poll_fn(|cx| {
        let uploaded = upload.poll(cx, &mut transport.stream, blocks);
        let came = incoming.poll(cx, transport, stats);
        // A server may wait for the pong, so that it does not wait for the end of the message.
        // Between the frames of a message it must wait.
        if uploaded.is_ready() {
            let _ = incoming.pong.poll(cx, transport, blocks, rng);
        }
        stats.sent = before + upload.sent + incoming.pong.all;
        came
    })
    .await;
    stats.response.length = incoming.echo.length;
    came?;
    let answered = poll_fn(|cx| incoming.pong.poll(cx, transport, blocks, rng)).await;
    stats.sent = before + upload.sent + incoming.pong.all;
    answered.map_err(|error| ExchangeError::broken(&error))?;
    if incoming.echo.mismatch {
        return Err(ExchangeError::new(
            FailureKind::Body,
            "the echoed message differs from the one that was sent",
        ));
    }
    transport.frames = Some(incoming.frames);
    stats.reusable = upload.finished;
    Ok(())
}

/// Pongs. Several pings at once are answered by one (§5.5.3).
#[derive(Default)]
struct Pong {
    /// Payload of the latest ping without a pong.
    ping: Option<Vec<u8>>,
    frame: Vec<u8>,
    /// Bytes sent of this frame, and of all frames.
    sent: usize,
    all: u64,
}

impl Pong {
    /// Completes when every ping has its pong.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        transport: &mut Transport,
        blocks: &BufferPool,
        rng: &mut Rng,
    ) -> Poll<Result<(), StreamError>> {
        loop {
            if self.sent == self.frame.len() {
                let Some(ping) = self.ping.take() else {
                    return transport.stream.poll_flush(cx);
                };
                self.frame.clear();
                self.sent = 0;
                frame::encode(
                    &mut self.frame,
                    Opcode::Pong,
                    &ping,
                    rng.u32(..).to_ne_bytes(),
                );
            }
            let mut upload = VectoredWrite::new([&self.frame[self.sent..], &[], &[]]);
            let left = upload.poll(cx, &mut transport.stream, blocks);
            self.sent += upload.sent as usize;
            self.all += upload.sent;
            ready!(left)?;
        }
    }
}

/// An incoming message, with pings between its frames.
struct IncomingMessage<'a> {
    frames: FrameDecoder,
    echo: EchoCheck<'a>,
    pong: Pong,
}

impl IncomingMessage<'_> {
    /// Completes when the message is whole.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        transport: &mut Transport,
        stats: &mut ExchangeStats,
    ) -> Poll<Result<(), ExchangeError>> {
        loop {
            let mut at = 0;
            loop {
                let coming = &transport.inbox.bytes()[at..];
                let part = self.frames.decode(coming);
                match part
                    .map_err(|error| ExchangeError::new(FailureKind::Garbage, error.to_string()))?
                {
                    FramePart::Data(range) => {
                        self.echo.take(&coming[range.clone()]);
                        at += range.end;
                    }
                    FramePart::End(_, used) => {
                        transport.inbox.consume(at + used);
                        return Poll::Ready(Ok(()));
                    }
                    FramePart::Control(Opcode::Ping, range) => {
                        self.pong.ping = Some(coming[range.clone()].to_vec());
                        at += range.end;
                    }
                    FramePart::Control(Opcode::Close, _) => {
                        return Poll::Ready(Err(ExchangeError::new(
                            FailureKind::Closed,
                            "the server closed the WebSocket",
                        )));
                    }
                    FramePart::Control(_, range) => at += range.end,
                    FramePart::More(used) => {
                        at += used;
                        break;
                    }
                }
            }
            transport.inbox.consume(at);
            if !ready!(transport.poll_read(cx, stats))? {
                return Poll::Ready(Err(ExchangeError::new(
                    FailureKind::Closed,
                    "closed before the message was echoed",
                )));
            }
        }
    }
}
