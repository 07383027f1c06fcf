//! Hands a request to an endpoint, and its response to the client.
//!
//! Request and response run side by side: an origin may respond while the client still sends. A
//! failure before the response began may be retried; a response that has begun is delivered as far
//! as it comes, and never as complete when it is not.

mod attempt_failure;
mod attempts;
mod replay;
mod request;
mod response;
mod upload;

use std::rc::Rc;
use std::time::Duration;

use lockgate_limits::PoolIndex;
use lockgate_limits::box_future::boxed;

use crate::exchange::{Exchange, ExchangeFailure, RoutedRequest};

use attempts::Attempts;
use lockgate_http_io::message::ClientExchange;
use lockgate_upstream::UpstreamPool;
use request::RequestAttempt;

/// Proxying to a pool: which one, and its timeouts.
#[derive(Debug)]
pub struct Proxy {
    /// The pool, of those of its configuration; a forwarded request has one of its own instead.
    pub pool: PoolIndex,
    /// For one attempt to connect.
    pub connect: Duration,
    /// From a request that was sent to the head of its response, if that is limited.
    pub response: Option<Duration>,
    /// From the head of a response to its end, where the whole of it is waited for: by an auth
    /// request.
    pub whole: Option<Duration>,
    /// For a connection that was switched to another protocol, and on which nothing moves.
    pub tunnel_idle: Duration,
}

impl Proxy {
    /// Has an endpoint of the pool respond.
    ///
    /// # Errors
    /// When there is none, or not the whole of it; nothing was answered if the outcome has no
    /// status.
    pub fn run<D: ClientExchange>(
        &self,
        exchange: &mut Exchange<'_, D>,
    ) -> impl Future<Output = Result<(), ExchangeFailure>> {
        let upstream = Rc::clone(exchange.request.generation.upstream(self.pool));
        self.run_by(upstream, exchange)
    }

    /// Has an endpoint of this upstream respond.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub async fn run_by<D: ClientExchange>(
        &self,
        upstream: Rc<UpstreamPool>,
        exchange: &mut Exchange<'_, D>,
    ) -> Result<(), ExchangeFailure> {
        upstream.count_request();
        let mut attempts = Attempts::new(self, upstream, exchange)?;
        loop {
            let mut lease = attempts.lease(exchange).await?;
            let RoutedRequest {
                worker, generation, ..
            } = exchange.request;
            let cells = generation.cells.http.endpoint(lease.endpoint_index());
            let mut attempt = RequestAttempt::new(&mut attempts, &mut lease, exchange);
            let sent = attempt.send(exchange).await;
            let waited = exchange.guard.watch().pending.take();
            match sent {
                Ok(mut response) => {
                    attempts.note_response(exchange, &lease, response.status, waited);
                    let upload = &mut attempts.upload;
                    // Boxed: mostly it ends within this poll. Then its state is in memory that
                    // the last request has had, and the state of those that wait is smaller.
                    let result =
                        boxed(|| self.send_response(exchange, lease, upload, &mut response)).await;
                    worker.response_heads.give(response);
                    if let Some(cells) = cells {
                        cells.in_flight.dec();
                    }
                    return result;
                }
                Err(failure) => {
                    if let Some(cells) = cells {
                        cells.in_flight.dec();
                        if let Some(fault) = failure.failure.fault {
                            cells.failed(fault);
                        }
                    }
                    attempts.note_failure(exchange, &lease, failure)?;
                }
            }
        }
    }
}
