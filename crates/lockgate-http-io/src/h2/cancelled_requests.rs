//! Requests to an endpoint that are cancelled before their response, and the pace of their resets.
//!
//! An endpoint that receives many resets of requests that it has not handled ends the connection
//! with all requests (CVE-2023-44487): a server on the h2 crate tolerates 20. So only a few resets
//! are in flight. SETTINGS that change nothing show whether the endpoint has read them: PING would
//! show the same, but servers of gRPC end a connection with more than a few of those.

use std::collections::VecDeque;

use lockgate_http::h2::{Key, code};

use super::link::Link;

/// Resets that the endpoint may not have read: fewer than 20, also where it counts those of requests
/// that it has handled meanwhile.
const UNREAD: usize = 8;

/// The cancelled requests of one connection.
#[derive(Debug, Default)]
pub(super) struct CancelledRequests {
    /// Requests that are not reset yet.
    waiting: VecDeque<Key>,
    /// Resets that the endpoint has not shown to have read.
    unread: usize,
    /// How many of these came before SETTINGS that it has not acknowledged.
    asked: Option<usize>,
}

impl CancelledRequests {
    /// Resets a request without a response. Where too many resets may be unread, leaves it to
    /// [`advance`](Self::advance) and returns `false`.
    pub(super) fn cancel(&mut self, link: &mut Link, key: Key) -> bool {
        // A request that was handled does not count.
        if link.is_lost() || link.is_answered(key) {
            link.close(key, code::CANCEL);
            return true;
        }
        let at_once = self.waiting.is_empty() && self.unread < UNREAD;
        if at_once {
            self.unread += 1;
            link.close(key, code::CANCEL);
        } else {
            self.waiting.push_back(key);
            link.wake_driver();
        }
        at_once
    }

    /// Resets as many requests as may be now, and returns how many. The connection's task calls it in
    /// each turn.
    pub(super) fn advance(&mut self, link: &mut Link) -> usize {
        if link.is_settled()
            && let Some(read) = self.asked.take()
        {
            self.unread -= read;
        }
        let before = self.waiting.len();
        if before == 0 {
            return 0;
        }
        self.waiting.retain(|key| {
            let is_answered = link.is_answered(*key);
            if is_answered {
                link.close(*key, code::CANCEL);
            }
            !is_answered
        });
        while self.unread < UNREAD
            && let Some(key) = self.waiting.pop_front()
        {
            self.unread += 1;
            link.close(key, code::CANCEL);
        }
        // Behind the resets: when it is acknowledged, they were read.
        if !self.waiting.is_empty() && self.asked.is_none() && link.probe() {
            self.asked = Some(self.unread);
        }
        before - self.waiting.len()
    }

    /// Whether all cancelled requests are reset.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Gives up all of them with their connection, and returns how many there were.
    pub(super) fn close_all(self, link: &mut Link) -> usize {
        for key in &self.waiting {
            link.close(*key, code::CANCEL);
        }
        self.waiting.len()
    }
}
