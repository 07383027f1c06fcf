//! Requests to an endpoint that are taken back before their answer, and how many of them at once.
//!
//! An endpoint that finds many of them before it has looked at them ends the connection for
//! everybody on it (CVE-2023-44487): one on the h2 crate bears 20. So no more than a few resets are
//! on their way. Whether the endpoint has read them is asked by SETTINGS that change nothing: PING
//! would ask the same, but servers of gRPC end a connection with more than a few of those.

use std::collections::VecDeque;
use std::mem;
use std::pin::Pin;
use std::task::Context;

use bytes::Bytes;
use h2::client::{Connection, ResponseFuture};

use super::Io;

/// Resets that an endpoint may not have read. As many may follow behind the SETTINGS that ask:
/// together fewer than 20.
const UNREAD: usize = 8;

/// The requests of one connection that nobody wants any more.
#[derive(Debug, Default)]
pub(super) struct CancelledRequests {
    /// Those that are not reset yet.
    waiting: VecDeque<ResponseFuture>,
    /// Resets since the endpoint has shown that it reads.
    unread: usize,
    /// Whether it was asked, and has not answered.
    asked: bool,
}

impl CancelledRequests {
    /// Resets a request that was not answered; where the endpoint may not have read enough others,
    /// gives it to [`poll`](Self::poll) and says `false`.
    pub(super) fn reset(&mut self, answer: ResponseFuture) -> bool {
        let at_once = self.waiting.is_empty() && self.unread < UNREAD;
        if at_once {
            self.unread += 1;
        } else {
            self.waiting.push_back(answer);
        }
        at_once
    }

    /// Resets those that may be, and says which streams these were. It is called in each turn of
    /// the connection's driver. `window` is the initial window that the endpoint was told.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        connection: &mut Connection<Io, Bytes>,
        window: u32,
    ) -> Vec<u32> {
        let mut reset = Vec::new();
        // One that is answered was looked at.
        self.waiting.retain_mut(|answer| {
            let waits = Pin::new(&mut *answer).poll(cx).is_pending();
            if !waits {
                reset.push(answer.stream_id().as_u32());
            }
            waits
        });
        // The crate takes no SETTINGS before the last ones are acknowledged.
        if !self.waiting.is_empty() && connection.set_initial_window_size(window).is_ok() {
            // They leave in the next turn, before the resets of this one.
            cx.waker().wake_by_ref();
            if mem::replace(&mut self.asked, true) {
                let now = self.waiting.len().min(UNREAD);
                reset.extend(
                    self.waiting
                        .drain(..now)
                        .map(|answer| answer.stream_id().as_u32()),
                );
                self.unread = now;
            }
        }
        self.asked &= !self.waiting.is_empty();
        reset
    }
}
