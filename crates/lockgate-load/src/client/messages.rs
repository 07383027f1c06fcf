//! Messages over a WebSocket (RFC 6455): each is sent, and the same comes back.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use fastrand::Rng;
use lockgate_http::h1::parse::{self, Progress};
use lockgate_http::h1::{Limits, encode};
use lockgate_net::stream::{Blocks, StreamError};

use super::returned::Returned;
use super::upload::Upload;
use super::{ExchangeStats, Fault, Scratch, Transport};
use crate::expect::Expect;
use crate::result::Failure;
use crate::target::Body;
use crate::websocket::frame::{self, Decoder, Opcode, Part};
use crate::websocket::handshake::{Handshake, HandshakeError};

/// Bytes of a message that comes back, at the most: more than was sent is a failure in any case.
const LIMIT: u64 = 1 << 30;

/// Has a connection become a WebSocket (§4.1).
///
/// # Errors
/// When the server does not want it.
pub(super) async fn upgrade(
    transport: &mut Transport,
    head: &[u8],
    scratch: &mut Scratch,
    stats: &mut ExchangeStats,
) -> Result<(), Fault> {
    let handshake = Handshake::random();
    scratch.fields.clear();
    handshake.write(&mut scratch.fields);
    encode::end(&mut scratch.fields);
    let mut upload = Upload::new([head, &scratch.fields, &[]]);
    let mut progress = Progress::default();
    let answer = &mut scratch.head;
    poll_fn(|cx| {
        // Who takes no more may have answered all the same.
        let _ = upload.poll(cx, &mut transport.stream, &scratch.blocks);
        stats.sent = upload.sent;
        loop {
            if !transport.inbox.is_empty() {
                let parsed = parse::response(
                    transport.inbox.bytes(),
                    &mut progress,
                    &Limits::default(),
                    answer,
                );
                let garbage = |error: lockgate_http::h1::HeadError| {
                    Fault::new(Failure::Garbage, error.to_string())
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
                return Poll::Ready(Err(Fault::new(Failure::Closed, "closed before a response")));
            }
        }
    })
    .await?;
    handshake.check(&scratch.head).map_err(|error| {
        let kind = if let HandshakeError::Status(status) = error {
            stats.response.status = Some(status);
            Failure::Status
        } else {
            Failure::Garbage
        };
        Fault::new(kind, error.to_string())
    })?;
    transport.frames = Some(Decoder::new(LIMIT));
    Ok(())
}

/// Takes apart what has come since the last message, and answers pings; whether there can be
/// another message.
///
/// # Errors
/// When there was a message that nobody asked for, or what is no frame.
pub(super) async fn check_idle(
    transport: &mut Transport,
    scratch: &mut Scratch,
    stats: &mut ExchangeStats,
) -> Result<bool, Fault> {
    let mut frames = transport
        .frames
        .take()
        .unwrap_or_else(|| Decoder::new(LIMIT));
    let mut pong = Pong::default();
    loop {
        let mut at = 0;
        loop {
            let coming = &transport.inbox.bytes()[at..];
            match frames
                .decode(coming)
                .map_err(|error| Fault::new(Failure::Garbage, error.to_string()))?
            {
                Part::Control(Opcode::Close, _) => return Ok(false),
                Part::Control(opcode, range) => {
                    if opcode == Opcode::Ping {
                        pong.ping = Some(coming[range.clone()].to_vec());
                    }
                    at += range.end;
                }
                Part::Data(_) | Part::End(..) => {
                    return Err(Fault::new(
                        Failure::Length,
                        "an unexpected message after the echoed one",
                    ));
                }
                Part::More(used) => {
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
    let Scratch { blocks, rng, .. } = scratch;
    let answered = poll_fn(|cx| pong.poll(cx, transport, blocks, rng)).await;
    stats.sent += pong.all;
    transport.frames = Some(frames);
    Ok(answered.is_ok())
}

/// Sends a message and waits until it has come back.
///
/// # Errors
/// When another comes back, or none.
pub(super) async fn exchange(
    transport: &mut Transport,
    message: &Body,
    expect: &Expect,
    scratch: &mut Scratch,
    stats: &mut ExchangeStats,
) -> Result<(), Fault> {
    scratch.make(message);
    let Scratch {
        blocks,
        rng,
        fields,
        body,
        ..
    } = scratch;
    let sent = message.or(body);
    fields.clear();
    frame::encode(fields, Opcode::Binary, sent, rng.u32(..).to_ne_bytes());
    let frames = transport.frames.take();
    let mut incoming = Incoming {
        frames: frames.unwrap_or_else(|| Decoder::new(LIMIT)),
        returned: Returned::new(sent, expect),
        pong: Pong::default(),
    };
    let mut upload = Upload::new([fields, &[], &[]]);
    // A handshake has gone before the first one, and answers to pings before the others.
    let before = stats.sent;
    let came = poll_fn(|cx| {
        let uploaded = upload.poll(cx, &mut transport.stream, blocks);
        let came = incoming.poll(cx, transport, stats);
        // A server may wait for it, so it does not wait for the message; between frames it must
        // stay.
        if uploaded.is_ready() {
            let _ = incoming.pong.poll(cx, transport, blocks, rng);
        }
        stats.sent = before + upload.sent + incoming.pong.all;
        came
    })
    .await;
    stats.response.length = incoming.returned.length;
    came?;
    let answered = poll_fn(|cx| incoming.pong.poll(cx, transport, blocks, rng)).await;
    stats.sent = before + upload.sent + incoming.pong.all;
    answered.map_err(|error| Fault::broken(&error))?;
    if incoming.returned.differs {
        return Err(Fault::new(
            Failure::Body,
            "the echoed message differs from the one that was sent",
        ));
    }
    transport.frames = Some(incoming.frames);
    stats.keep = upload.over;
    Ok(())
}

/// Responses to pings; several at once are answered by one (§5.5.3).
#[derive(Default)]
struct Pong {
    /// What was in the latest ping that was not answered.
    ping: Option<Vec<u8>>,
    frame: Vec<u8>,
    /// How much of the frame has left, and how much of all of them.
    sent: usize,
    all: u64,
}

impl Pong {
    /// Completes when every ping was answered.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        transport: &mut Transport,
        blocks: &Blocks,
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
            let mut upload = Upload::new([&self.frame[self.sent..], &[], &[]]);
            let left = upload.poll(cx, &mut transport.stream, blocks);
            self.sent += upload.sent as usize;
            self.all += upload.sent;
            ready!(left)?;
        }
    }
}

/// A message that comes back, and the pings between its frames.
struct Incoming<'a> {
    frames: Decoder,
    returned: Returned<'a>,
    pong: Pong,
}

impl Incoming<'_> {
    /// Completes when the message has come.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        transport: &mut Transport,
        stats: &mut ExchangeStats,
    ) -> Poll<Result<(), Fault>> {
        loop {
            let mut at = 0;
            loop {
                let coming = &transport.inbox.bytes()[at..];
                let part = self.frames.decode(coming);
                match part.map_err(|error| Fault::new(Failure::Garbage, error.to_string()))? {
                    Part::Data(range) => {
                        self.returned.take(&coming[range.clone()]);
                        at += range.end;
                    }
                    Part::End(_, used) => {
                        transport.inbox.consume(at + used);
                        return Poll::Ready(Ok(()));
                    }
                    Part::Control(Opcode::Ping, range) => {
                        self.pong.ping = Some(coming[range.clone()].to_vec());
                        at += range.end;
                    }
                    Part::Control(Opcode::Close, _) => {
                        return Poll::Ready(Err(Fault::new(
                            Failure::Closed,
                            "the server closed the WebSocket",
                        )));
                    }
                    Part::Control(_, range) => at += range.end,
                    Part::More(used) => {
                        at += used;
                        break;
                    }
                }
            }
            transport.inbox.consume(at);
            if !ready!(transport.poll_read(cx, stats))? {
                return Poll::Ready(Err(Fault::new(
                    Failure::Closed,
                    "closed before the message was echoed",
                )));
            }
        }
    }
}
