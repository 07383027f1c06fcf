//! A client's connection that speaks HTTP/1: one exchange after the other.

use std::fmt::Write as _;
use std::future::poll_fn;
use std::time::Duration;

use lockgate_http::asked::asked;
use lockgate_http::forwarding::{self, Client as Asking};
use lockgate_http::h1::{Limits, framing, parse};
use lockgate_http::head::{Method, RequestHead};
use lockgate_net::listen::Peer;
use lockgate_net::stream::Stream;

use super::connection::{Connection, Ending};
use crate::access_log::{Cause, Side};
use crate::action::proxy::Proxy;
use crate::action::relay::Client;
use crate::answer::{Body, ErrorAnswer, Fault, Form};
use crate::clock::Cut;
use crate::exchange::{Exchange, Failure, Outcome};
use crate::h1::{Link, ReadError};
use crate::site::Sites;

/// How long a client that still sends is listened to after our last word, so that it can read it.
const LINGER: Duration = Duration::from_secs(2);
/// What it may send meanwhile.
const LINGER_BYTES: u64 = 1024 * 1024;

impl Connection {
    /// Serves requests until the connection is over.
    pub(super) async fn http(&mut self, client: Client, http: &Sites) -> Ending {
        let Client { socket, session, received, unsent } = client;
        let stream = Stream::new(socket, session, unsent);
        let mut down = Link::new(stream, &self.worker.blocks, &received);
        down.reader.limit(http.limits);
        let mut address = String::new();
        let _ = match self.client {
            Peer::Ip(client) => write!(address, "{}", client.ip().to_canonical()),
            Peer::Unix => write!(address, "unknown"),
        };
        loop {
            let mut head = self.worker.requests.take();
            let ending = match self.head(&mut down, http, &mut head).await {
                Ok(()) => self.exchange(&mut down, http, &head, &address).await,
                Err(ending) => Some(ending),
            };
            self.worker.requests.give(head);
            if let Some(ending) = ending {
                return ending;
            }
        }
    }

    /// Waits for a request's head.
    async fn head(&mut self, down: &mut Link, http: &Sites, head: &mut RequestHead) -> Result<(), Ending> {
        let mut begun = false;
        let guard = &self.guard;
        guard.phase(http.idle);
        let Link { stream, reader, writer } = down;
        let read = guard.within(poll_fn(|cx| {
            let polled = reader.poll_head(cx, stream, |input, progress, limits| {
                parse::request(input, progress, limits, head)
            });
            if polled.is_pending() && !begun && reader.holds_bytes() {
                begun = true;
                guard.phase(http.head);
            }
            polled
        }));
        let error = match read.await {
            Ok(Ok(true)) => return Ok(()),
            Ok(Ok(false)) => return Err(Ending::new(Cause::ClientClosed, Side::Downstream)),
            Ok(Err(ReadError::Head(error))) => {
                let fault = match error.status() {
                    431 => Fault::HeadTooLarge,
                    505 => Fault::Version,
                    _ => Fault::Malformed,
                };
                Failure::because(fault, error.to_string())
            }
            Ok(Err(ReadError::Stream(error))) => Failure::client(&error),
            Ok(Err(error)) => Failure::silent(Cause::ClientClosed, Side::Downstream, error.to_string()),
            Err(Cut::Deadline) if begun => Failure::of(Fault::RequestTimeout),
            Err(Cut::Deadline) => return Err(Ending::new(Cause::Idle, Side::Lockgate)),
            Err(cut) => Failure::cut(cut, Fault::RequestTimeout),
        };
        let _ = writer;
        let text = error.detail.to_string();
        let (cause, side) = (error.cause, error.side);
        if let Some(fault) = error.fault {
            self.say(down, fault, Method::Other, Form::Text).await;
        }
        Err(Ending::because(cause, side, text))
    }

    /// Answers one request; the connection's end, if it is one.
    async fn exchange(
        &mut self,
        down: &mut Link,
        http: &Sites,
        head: &RequestHead,
        address: &str,
    ) -> Option<Ending> {
        let parsed = framing::request(head)
            .map_err(|error| {
                let fault = if error.status() == 501 { Fault::NotImplemented } else { Fault::Malformed };
                Failure::because(fault, error.to_string())
            })
            .and_then(|length| {
                let asked = asked(head).map_err(|error| Failure::because(Fault::Malformed, error.to_string()))?;
                down.reader.begin_body(length).map_err(|error| Failure::upload(&error))?;
                Ok((length, asked))
            });
        let worker = std::rc::Rc::clone(&self.worker);
        let (failure, reusable) = match parsed {
            Err(failure) => (Some(failure), false),
            Ok((length, asked)) => {
                let mut exchange = Exchange {
                    worker: &worker,
                    guard: &self.guard,
                    down,
                    head,
                    asked,
                    length,
                    client: Asking {
                        address,
                        secure: self.negotiated.is_some(),
                        host: asked.host,
                        trusted: false,
                    },
                    keep: forwarding::keeps_alive(head.version, &head.fields) && !worker.is_stopping(),
                    outcome: Outcome::default(),
                };
                let result = http.action.run(&mut exchange).await;
                let outcome = exchange.outcome;
                let meter = &self.guard.watch().meter;
                meter.sent.set(meter.sent.get() + outcome.sent);
                match result {
                    Ok(()) => (None, outcome.reusable),
                    Err(failure) if outcome.status == 0 => (Some(failure), false),
                    Err(failure) => {
                        return Some(Ending::because(failure.cause, failure.side, failure.detail));
                    }
                }
            }
        };
        if let Some(failure) = failure {
            let ending = Ending::because(failure.cause, failure.side, failure.detail);
            if let Some(fault) = failure.fault {
                let form = Form::of_accept(head.fields.named(b"accept"));
                self.say(down, fault, head.method, form).await;
            }
            return Some(ending);
        }
        if reusable {
            return None;
        }
        self.linger(down).await;
        Some(Ending::new(Cause::ClientClosed, Side::Lockgate))
    }

    /// Tells the client what was wrong, as our last word.
    async fn say(&self, down: &mut Link, fault: Fault, method: Method, form: Form) {
        down.writer.discard();
        let body = if method == Method::Head { Body::Withheld } else { Body::Sent };
        let date = self.worker.date();
        ErrorAnswer::of(fault).write(down.writer.head(), form, None, body, |out| {
            lockgate_http::h1::encode::field(out, b"Date", &date);
            out.extend_from_slice(b"Connection: close\r\n");
        });
        self.linger(down).await;
    }

    /// Sends what is left and waits for the client to close: closing with its bytes unread would reset the connection,
    /// and the reset could overtake the answer (RFC 9112 §9.6).
    async fn linger(&self, down: &mut Link) {
        self.guard.phase(LINGER);
        let Link { stream, writer, reader } = down;
        let flushed = self.guard.within(poll_fn(|cx| writer.poll_flush(cx, stream))).await;
        if !matches!(flushed, Ok(Ok(()))) {
            return;
        }
        let finished = self.guard.within(poll_fn(|cx| std::task::Poll::Ready(stream.finish(cx)))).await;
        if !matches!(finished, Ok(Ok(()))) {
            return;
        }
        let _ = reader.begin_body(lockgate_http::head::BodyLength::UntilClose);
        let mut heard = 0;
        let _ = self
            .guard
            .within(poll_fn(|cx| {
                loop {
                    match std::task::ready!(reader.poll_data(cx, stream)) {
                        Ok(()) if reader.has_ended() || heard > LINGER_BYTES => return std::task::Poll::Ready(()),
                        Ok(()) => {
                            let here = reader.data().len();
                            heard += here as u64;
                            reader.consume(here);
                        }
                        Err(_) => return std::task::Poll::Ready(()),
                    }
                }
            }))
            .await;
    }
}
