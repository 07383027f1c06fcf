//! Checks over HTTP/2: a request for a path, and the health protocol of gRPC. Has no deadline.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;

use bytes::Bytes;
use h2::RecvStream;
use h2::client::{Builder, Connection, SendRequest};
use http::{HeaderMap, Method, Uri, header};
use lockgate_http_io::h2::{FrameIo, Io};
use lockgate_net::stream::{BufferPool, Stream};

use super::{AGENT, BODY_MAX, Request, Wrong, contains};

/// What the fields of an answer may have.
const FIELDS: u32 = 64 * 1024;
/// Bytes of the answer to a gRPC check that are looked at: it has seven.
const MESSAGE_MAX: usize = 1024;

/// Asks for a path.
pub(super) async fn request(request: &Request, stream: Stream, host: &str) -> Result<(), Wrong> {
    let method = Method::from_bytes(request.method.as_bytes()).map_err(|_| Wrong::Unsayable)?;
    let mut head = head(method, &request.path, &stream, host)?;
    head.headers_mut()
        .insert(header::ACCEPT, header::HeaderValue::from_static("*/*"));
    converse(stream, async |mut send| {
        let (answer, _) = send.send_request(head, true)?;
        let (head, mut body) = answer.await?.into_parts();
        if !request
            .statuses
            .iter()
            .any(|range| range.contains(&head.status.as_u16()))
        {
            return Err(Wrong::Status(head.status.as_u16()));
        }
        match &request.body {
            None => Ok(()),
            Some(expected) if expected.is_empty() => Ok(()),
            Some(expected) => {
                let text = read(&mut body, BODY_MAX, |text| contains(text, expected)).await?;
                if contains(&text, expected) {
                    Ok(())
                } else {
                    Err(Wrong::Lacking)
                }
            }
        }
    })
    .await
}

/// Asks about a service, by `grpc.health.v1.Health/Check`; the empty name is the whole server.
pub(super) async fn grpc(service: &str, stream: Stream, host: &str) -> Result<(), Wrong> {
    let mut head = head(Method::POST, "/grpc.health.v1.Health/Check", &stream, host)?;
    let fields = head.headers_mut();
    fields.insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static("application/grpc"),
    );
    fields.insert(header::TE, header::HeaderValue::from_static("trailers"));
    converse(stream, async |mut send| {
        let (answer, mut asks) = send.send_request(head, false)?;
        asks.send_data(framed(&health_request(service)).into(), true)?;
        let (head, mut body) = answer.await?.into_parts();
        if head.status != 200 {
            return Err(Wrong::Status(head.status.as_u16()));
        }
        // An error has nothing but a head.
        status(&head.headers).unwrap_or(Ok(()))?;
        let message = read(&mut body, MESSAGE_MAX, |_| false).await?;
        let trailers = body.trailers().await?.unwrap_or_default();
        if !head.headers.contains_key("grpc-status") {
            status(&trailers).unwrap_or(Err(Wrong::NoGrpc))?;
        }
        match message.get(5..).and_then(health_status) {
            Some(1) => Ok(()),
            Some(0) => Err(Wrong::NotServing("UNKNOWN")),
            Some(2) => Err(Wrong::NotServing("NOT_SERVING")),
            Some(3) => Err(Wrong::NotServing("SERVICE_UNKNOWN")),
            _ => Err(Wrong::NoGrpc),
        }
    })
    .await
}

fn head(
    method: Method,
    path: &str,
    stream: &Stream,
    host: &str,
) -> Result<http::Request<()>, Wrong> {
    let scheme = if stream.is_secure() { "https" } else { "http" };
    let uri = Uri::builder()
        .scheme(scheme)
        .authority(host)
        .path_and_query(path);
    let mut head = http::Request::new(());
    *head.method_mut() = method;
    *head.uri_mut() = uri.build().map_err(|_| Wrong::Unsayable)?;
    head.headers_mut()
        .insert(header::USER_AGENT, header::HeaderValue::from_static(AGENT));
    Ok(head)
}

/// Runs `talk` on a connection of its own.
async fn converse(
    stream: Stream,
    talk: impl AsyncFnOnce(SendRequest<Bytes>) -> Result<(), Wrong>,
) -> Result<(), Wrong> {
    let blocks = BufferPool::new();
    let frame_io = Rc::new(RefCell::new(FrameIo::new(stream, &blocks, &[], None)));
    let (send, mut connection): (_, Connection<Io, Bytes>) = Builder::new()
        .enable_push(false)
        .max_header_list_size(FIELDS)
        .handshake(Io(Rc::clone(&frame_io)))
        .await?;
    let mut talk = pin!(talk(send));
    let talked = poll_fn(|cx| {
        frame_io.borrow_mut().begin_turn();
        let ended = Pin::new(&mut connection).poll(cx);
        let talked = talk.as_mut().poll(cx);
        // What was just said leaves now.
        let ended = if ended.is_pending() {
            Pin::new(&mut connection).poll(cx)
        } else {
            ended
        };
        let sent = frame_io.borrow_mut().poll_send(cx);
        match (talked, ended, sent) {
            (Poll::Ready(talked), ..) => Poll::Ready(talked),
            (_, Poll::Ready(Err(error)), _) => Poll::Ready(Err(error.into())),
            (_, _, Poll::Ready(Err(error))) => Poll::Ready(Err(error.into())),
            (_, Poll::Ready(Ok(())), _) => Poll::Ready(Err(Wrong::Ended)),
            _ => Poll::Pending,
        }
    })
    .await;
    // Goodbye, as far as it goes at once: the answer is there.
    poll_fn(|cx| {
        let _ = Pin::new(&mut connection).poll(cx);
        let _ = frame_io.borrow_mut().poll_send(cx);
        Poll::Ready(())
    })
    .await;
    talked
}

/// The body, up to `most` bytes of it or as far as `enough` says.
async fn read(
    body: &mut RecvStream,
    most: usize,
    enough: impl Fn(&[u8]) -> bool,
) -> Result<Vec<u8>, Wrong> {
    let mut text = Vec::new();
    while text.len() < most && !enough(&text) {
        let Some(data) = body.data().await else { break };
        let data = data?;
        body.flow_control().release_capacity(data.len())?;
        text.extend_from_slice(&data);
    }
    text.truncate(most);
    Ok(text)
}

/// What a call of gRPC has come to, where these fields say so.
fn status(fields: &HeaderMap) -> Option<Result<(), Wrong>> {
    let code = fields.get("grpc-status")?.to_str().unwrap_or_default();
    Some(if code == "0" {
        Ok(())
    } else {
        Err(Wrong::Grpc(code.chars().take(8).collect()))
    })
}

/// A message as gRPC frames it: not compressed, and its length.
fn framed(message: &[u8]) -> Vec<u8> {
    let mut out = vec![0];
    out.extend_from_slice(
        &u32::try_from(message.len())
            .unwrap_or_default()
            .to_be_bytes(),
    );
    out.extend_from_slice(message);
    out
}

/// `HealthCheckRequest { string service = 1; }`
fn health_request(service: &str) -> Vec<u8> {
    if service.is_empty() {
        return Vec::new();
    }
    let mut out = vec![0x0a];
    let mut left = service.len();
    while left >= 0x80 {
        out.push((left & 0x7f) as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
    out.extend_from_slice(service.as_bytes());
    out
}

/// `HealthCheckResponse { ServingStatus status = 1; }`, which leaves out what is 0.
fn health_status(message: &[u8]) -> Option<u8> {
    match message {
        [] => Some(0),
        [0x08, status] if *status < 0x80 => Some(*status),
        _ => None,
    }
}

impl From<h2::Error> for Wrong {
    fn from(error: h2::Error) -> Self {
        Self::H2(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_those_of_the_health_protocol() {
        assert_eq!(framed(&health_request("")), [0, 0, 0, 0, 0]);
        assert_eq!(framed(&health_request("a.B")), *b"\0\0\0\0\x05\x0a\x03a.B");
        assert_eq!(health_request(&"x".repeat(300))[..3], [0x0a, 0xac, 0x02]);
        let read: Vec<_> = [&[][..], &[8, 1], &[8, 2], &[8], &[8, 0x81, 1], &[16, 1]]
            .map(health_status)
            .into();
        assert_eq!(read, [Some(0), Some(1), Some(2), None, None, None]);
    }
}
