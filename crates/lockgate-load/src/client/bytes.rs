//! Exchange of bytes without a protocol: they are sent, and the expected number is read. Both at
//! once, so that the buffers of neither side can stop the other.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use super::echo_check::EchoCheck;
use super::vectored_write::VectoredWrite;
use super::{ClientBuffers, ExchangeError, ExchangeStats, Transport};
use crate::expect::Expect;
use crate::result::FailureKind;
use crate::target::RequestBody;

/// Sends `body` and reads the bytes that come back.
///
/// # Errors
/// Fewer, more or other bytes come back.
pub(super) async fn exchange(
    transport: &mut Transport,
    body: &RequestBody,
    expect: &Expect,
    buffers: &mut ClientBuffers,
    stats: &mut ExchangeStats,
) -> Result<(), ExchangeError> {
    buffers.make(body);
    let sent = body.or(&buffers.body);
    let mut upload = VectoredWrite::new([sent, &[], &[]]);
    let mut echo = EchoCheck::new(sent, expect);
    let made = poll_fn(|cx| {
        let uploaded = upload.poll(cx, &mut transport.stream, &buffers.blocks);
        stats.sent = upload.sent;
        ready!(poll(&mut echo, cx, transport, stats))?;
        // Too many bytes are a failure already; the server may wait until we have read the rest.
        if echo
            .expected_length
            .is_some_and(|expected| echo.length > expected)
        {
            return Poll::Ready(Ok(()));
        }
        // Where no bytes come back, the exchange is complete when all are sent.
        uploaded.map_err(|error| ExchangeError::broken(&error))
    })
    .await;
    stats.response.length = echo.length;
    made?;
    if echo.mismatch {
        return Err(ExchangeError::new(
            FailureKind::Body,
            "the echoed bytes differ from those that were sent",
        ));
    }
    stats.reusable = echo.expected_length == Some(echo.length);
    Ok(())
}

/// Completes when the expected number of bytes has come back.
fn poll(
    echo: &mut EchoCheck<'_>,
    cx: &mut Context<'_>,
    transport: &mut Transport,
    stats: &mut ExchangeStats,
) -> Poll<Result<(), ExchangeError>> {
    loop {
        let come = transport.inbox.bytes().len();
        echo.take(transport.inbox.bytes());
        transport.inbox.consume(come);
        if echo.is_whole() {
            return Poll::Ready(Ok(()));
        }
        if !ready!(transport.poll_read(cx, stats))? {
            return Poll::Ready(match echo.expected_length {
                None => Ok(()),
                Some(expected) => {
                    let text = format!("closed after {} of {expected} bytes", echo.length);
                    Err(ExchangeError::new(FailureKind::Closed, text))
                }
            });
        }
    }
}
