//! Messages over a WebSocket (RFC 6455): each is sent, and the same comes back.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use lockgate_http::h1::parse::{self, Progress};
use lockgate_http::h1::{Limits, encode};

use super::returned::Returned;
use super::upload::Upload;
use super::{Done, Fault, Link, Scratch};
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
pub(super) async fn upgrade(link: &mut Link, head: &[u8], scratch: &mut Scratch) -> Result<(), Fault> {
    let handshake = Handshake::random();
    scratch.fields.clear();
    handshake.write(&mut scratch.fields);
    encode::end(&mut scratch.fields);
    let mut upload = Upload::new([head, &scratch.fields, &[]]);
    let (mut progress, mut done) = (Progress::default(), Done::default());
    let answer = &mut scratch.head;
    poll_fn(|cx| {
        // Who takes no more may have answered all the same.
        let _ = upload.poll(cx, &mut link.stream, &scratch.blocks);
        loop {
            if !link.inbox.is_empty() {
                let parsed = parse::response(link.inbox.bytes(), &mut progress, &Limits::default(), answer);
                let garbage =
                    |error: lockgate_http::h1::HeadError| Fault::new(Failure::Garbage, error.to_string());
                if let Some(used) = parsed.map_err(garbage)? {
                    link.inbox.consume(used);
                    if !answer.is_interim() {
                        return Poll::Ready(Ok(()));
                    }
                    continue;
                }
            }
            if !ready!(link.poll_read(cx, &mut done))? {
                return Poll::Ready(Err(Fault::new(Failure::Closed, "closed before an answer")));
            }
        }
    })
    .await?;
    handshake.check(&scratch.head).map_err(|error| {
        let kind =
            if matches!(error, HandshakeError::Status(_)) { Failure::Status } else { Failure::Garbage };
        Fault::new(kind, error.to_string())
    })?;
    link.frames = Some(Decoder::new(LIMIT));
    Ok(())
}

/// Sends a message and waits until it has come back.
///
/// # Errors
/// When another comes back, or none.
pub(super) async fn exchange(
    link: &mut Link,
    message: &Body,
    scratch: &mut Scratch,
    done: &mut Done,
) -> Result<(), Fault> {
    scratch.make(message);
    let Scratch { blocks, rng, fields, body, .. } = scratch;
    let sent = match message {
        Body::Fixed(bytes) => bytes,
        Body::Random(_) => &body[..],
    };
    fields.clear();
    frame::encode(fields, Opcode::Binary, sent, rng.u32(..).to_ne_bytes());
    let mut frames = link.frames.take().unwrap_or_else(|| Decoder::new(LIMIT));
    let mut returned = Returned::echo(sent);
    let mut upload = Upload::new([fields, &[], &[]]);
    let mut ping: Option<Vec<u8>> = None;
    let came = poll_fn(|cx| {
        let _ = upload.poll(cx, &mut link.stream, blocks);
        done.sent = upload.sent;
        poll(&mut frames, &mut returned, &mut ping, cx, link, done)
    })
    .await;
    done.seen.length = returned.length;
    came?;
    if let Some(payload) = ping {
        let mut pong = Vec::new();
        frame::encode(&mut pong, Opcode::Pong, &payload, rng.u32(..).to_ne_bytes());
        let mut answer = Upload::new([&pong, &[], &[]]);
        let sent = poll_fn(|cx| answer.poll(cx, &mut link.stream, blocks)).await;
        sent.map_err(|error| Fault::broken(&error))?;
        done.sent += pong.len() as u64;
    }
    if returned.differs {
        return Err(Fault::new(Failure::Body, "another message came back than was sent"));
    }
    link.frames = Some(frames);
    done.keep = true;
    Ok(())
}

/// Completes when a message has come; what was in the latest ping, which alone needs an answer (§5.5.3), goes into `ping`.
fn poll(
    frames: &mut Decoder,
    returned: &mut Returned<'_>,
    ping: &mut Option<Vec<u8>>,
    cx: &mut Context<'_>,
    link: &mut Link,
    done: &mut Done,
) -> Poll<Result<(), Fault>> {
    loop {
        let mut at = 0;
        loop {
            let coming = &link.inbox.bytes()[at..];
            let part = frames.decode(coming);
            match part.map_err(|error| Fault::new(Failure::Garbage, error.to_string()))? {
                Part::Data(range) => {
                    returned.take(&coming[range.clone()]);
                    at += range.end;
                }
                Part::End(_, used) => {
                    link.inbox.consume(at + used);
                    return Poll::Ready(Ok(()));
                }
                Part::Control(Opcode::Ping, range) => {
                    *ping = Some(coming[range.clone()].to_vec());
                    at += range.end;
                }
                Part::Control(Opcode::Close, _) => {
                    return Poll::Ready(Err(Fault::new(Failure::Closed, "the server closed the WebSocket")));
                }
                Part::Control(_, range) => at += range.end,
                Part::More(used) => {
                    at += used;
                    break;
                }
            }
        }
        link.inbox.consume(at);
        if !ready!(link.poll_read(cx, done))? {
            return Poll::Ready(Err(Fault::new(Failure::Closed, "closed before the message came back")));
        }
    }
}
