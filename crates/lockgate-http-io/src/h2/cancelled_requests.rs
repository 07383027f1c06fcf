//! Requests to an endpoint that are cancelled before their response, and the pace of their resets.
//!
//! An endpoint that receives many resets of requests that it has not handled ends the connection
//! with all requests (CVE-2023-44487): a server on the h2 crate tolerates 20. So only a few resets
//! are in flight. SETTINGS that change nothing show whether the endpoint has read them: PING would
//! show the same, but servers of gRPC end a connection with more than a few of those.

use std::collections::VecDeque;
use std::mem;
use std::pin::Pin;
use std::task::Context;

use bytes::Bytes;
use h2::client::{Connection, ResponseFuture};

use super::Io;

/// Resets that the endpoint may not have read. As many may follow behind the SETTINGS: together
/// fewer than 20.
const UNREAD: usize = 8;

/// The cancelled requests of one connection.
#[derive(Debug, Default)]
pub(super) struct CancelledRequests {
    /// Requests that are not reset yet.
    waiting: VecDeque<ResponseFuture>,
    /// Resets since the endpoint has shown that it reads.
    unread: usize,
    /// Whether SETTINGS were sent and not acknowledged.
    asked: bool,
}

impl CancelledRequests {
    /// Resets a request without a response; where too many resets may be unread, leaves it to
    /// [`poll`](Self::poll) and returns `false`.
    pub(super) fn reset(&mut self, response: ResponseFuture) -> bool {
        let at_once = self.waiting.is_empty() && self.unread < UNREAD;
        if at_once {
            self.unread += 1;
        } else {
            self.waiting.push_back(response);
        }
        at_once
    }

    /// Resets as many requests as may be now, and returns their streams. The driver of the
    /// connection calls it in each turn. `window` is our SETTINGS_INITIAL_WINDOW_SIZE.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        connection: &mut Connection<Io, Bytes>,
        window: u32,
    ) -> Vec<u32> {
        let mut reset = Vec::new();
        // A request with a response was handled: its reset does not count.
        self.waiting.retain_mut(|response| {
            let waits = Pin::new(&mut *response).poll(cx).is_pending();
            if !waits {
                reset.push(response.stream_id().as_u32());
            }
            waits
        });
        // The crate sends no SETTINGS before the last ones are acknowledged.
        if !self.waiting.is_empty() && connection.set_initial_window_size(window).is_ok() {
            // They leave in the next turn, before the resets of this one.
            cx.waker().wake_by_ref();
            if mem::replace(&mut self.asked, true) {
                let now = self.waiting.len().min(UNREAD);
                reset.extend(
                    self.waiting
                        .drain(..now)
                        .map(|response| response.stream_id().as_u32()),
                );
                self.unread = now;
            }
        }
        self.asked &= !self.waiting.is_empty();
        reset
    }
}
