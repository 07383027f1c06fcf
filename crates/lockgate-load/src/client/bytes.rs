//! Bytes without a protocol: sent, and as many as are expected taken back. Both at once, so that
//! neither side's buffers can stop the other.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use super::returned::Returned;
use super::upload::Upload;
use super::{ExchangeStats, Fault, Scratch, Transport};
use crate::expect::Expect;
use crate::result::Failure;
use crate::target::Body;

/// Sends `body` and takes what comes back.
///
/// # Errors
/// When less comes back, more, or other bytes than those that were sent.
pub(super) async fn exchange(
    transport: &mut Transport,
    body: &Body,
    expect: &Expect,
    scratch: &mut Scratch,
    stats: &mut ExchangeStats,
) -> Result<(), Fault> {
    scratch.make(body);
    let sent = body.or(&scratch.body);
    let mut upload = Upload::new([sent, &[], &[]]);
    let mut returned = Returned::new(sent, expect);
    let made = poll_fn(|cx| {
        let uploaded = upload.poll(cx, &mut transport.stream, &scratch.blocks);
        stats.sent = upload.sent;
        ready!(poll(&mut returned, cx, transport, stats))?;
        // Too much is a failure already; who sends it may wait for us to take it.
        if returned.due.is_some_and(|due| returned.length > due) {
            return Poll::Ready(Ok(()));
        }
        // What was to be sent is part of the exchange where nothing must come back.
        uploaded.map_err(|error| Fault::broken(&error))
    })
    .await;
    stats.response.length = returned.length;
    made?;
    if returned.differs {
        return Err(Fault::new(
            Failure::Body,
            "the echoed bytes differ from those that were sent",
        ));
    }
    stats.keep = returned.due == Some(returned.length);
    Ok(())
}

/// Completes when as much has come back as must.
fn poll(
    returned: &mut Returned<'_>,
    cx: &mut Context<'_>,
    transport: &mut Transport,
    stats: &mut ExchangeStats,
) -> Poll<Result<(), Fault>> {
    loop {
        let come = transport.inbox.bytes().len();
        returned.take(transport.inbox.bytes());
        transport.inbox.consume(come);
        if returned.is_whole() {
            return Poll::Ready(Ok(()));
        }
        if !ready!(transport.poll_read(cx, stats))? {
            return Poll::Ready(match returned.due {
                None => Ok(()),
                Some(due) => {
                    let text = format!("closed after {} of {due} bytes", returned.length);
                    Err(Fault::new(Failure::Closed, text))
                }
            });
        }
    }
}
