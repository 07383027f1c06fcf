//! Events of an HTTP/2 connection, and the responses that they make.

use lockgate_http::h2::{ConnectionError, Event, Key, StreamFault, StreamReset, code};

use super::connection::{Http2Connection, RequestOutcome, code_name};
use super::stream::{GrpcStatus, RequestStream};
use crate::client::outcome::ExchangeError;
use crate::result::FailureKind;

fn garbage(text: impl Into<String>) -> ExchangeError {
    ExchangeError::new(FailureKind::Garbage, text)
}

impl Http2Connection {
    /// Handles the frames at the front of `bytes`, and gives their length.
    ///
    /// # Errors
    /// The server does not speak HTTP/2: the connection is of no more use.
    pub(super) fn receive(&mut self, bytes: &[u8]) -> Result<usize, ExchangeError> {
        let mut at = 0;
        loop {
            let rest = &bytes[at..];
            let received = self.layer.receive(rest, &mut self.fields);
            while let Some(event) = self.layer.next_event() {
                self.handle(event, rest);
            }
            match received {
                Ok(used) if 0 < used && used < rest.len() => at += used,
                Ok(used) => return Ok(at + used),
                Err(error) => return Err(broken(error, bytes)),
            }
        }
    }

    /// Handles an event of `bytes`.
    fn handle(&mut self, event: Event, bytes: &[u8]) {
        match event {
            Event::Head { key, ended, wire } => {
                self.events_received += 1;
                self.take_head(key, ended, wire);
            }
            Event::Interim { key, wire } => {
                self.events_received += 1;
                if let Some(stream) = self.layer.get_mut(key) {
                    stream.stats.received += wire as u64;
                }
            }
            Event::Data {
                key,
                at,
                ended,
                wire,
            } => {
                self.events_received += 1;
                let length = at.len();
                self.take_data(key, bytes.get(at).unwrap_or_default(), wire);
                if ended {
                    self.finish_response(key);
                } else {
                    self.layer.used(key, length);
                }
            }
            Event::Trailers { key, wire } => {
                self.events_received += 1;
                self.take_trailers(key, wire);
            }
            Event::Reset { key, reset } => {
                self.events_received += 1;
                self.take_reset(key, reset);
            }
            Event::WindowOpened { key } => {
                if let Some(stream) = self.layer.get_mut(key)
                    && let Some(body) = &mut stream.body
                    && !std::mem::replace(&mut body.is_queued, true)
                {
                    self.uploads.push_back(key);
                }
            }
            Event::Goaway { code } => self.goaway = Some(code),
            // A server's are refused by the layer; no PING is sent.
            Event::Priority { .. } | Event::Pong { .. } => {}
        }
    }

    fn take_head(&mut self, key: Key, ended: bool, wire: usize) {
        let (fields, read_at) = (&mut self.fields, self.read_at);
        let Some(stream) = self.layer.get_mut(key) else {
            return;
        };
        stream.stats.received += wire as u64;
        if let (Some(grpc), Some(_)) = (&mut stream.grpc, fields.grpc) {
            grpc.status = fields.grpc;
        }
        stream.stats.first_byte = read_at;
        stream.stats.response.status = fields.status;
        stream.content_length = fields.length;
        if let Some(buffered) = &mut stream.buffered {
            buffered.coding = fields.coding.take();
        }
        if fields.is_too_long {
            self.refuse(key, garbage("a field section that is too long"));
        } else if ended {
            self.finish_response(key);
        }
    }

    fn take_data(&mut self, key: Key, data: &[u8], wire: usize) {
        let Some(stream) = self.layer.get_mut(key) else {
            return;
        };
        stream.stats.received += wire as u64;
        stream.stats.response.length += data.len() as u64;
        if let Some(hasher) = &mut stream.hasher {
            hasher.update(data);
        }
        if let Some(buffered) = &mut stream.buffered {
            buffered.data.extend_from_slice(data);
        }
    }

    fn take_trailers(&mut self, key: Key, wire: usize) {
        let fields = &self.fields;
        let Some(stream) = self.layer.get_mut(key) else {
            return;
        };
        stream.stats.received += wire as u64;
        if let (Some(grpc), Some(_)) = (&mut stream.grpc, fields.grpc) {
            grpc.status = fields.grpc;
        }
        if fields.is_too_long {
            self.refuse(key, garbage("a field section that is too long"));
        } else {
            self.finish_response(key);
        }
    }

    /// Ends a response: checks its gRPC status. If it came before all of the request was sent, the
    /// rest is never sent (§8.1).
    fn finish_response(&mut self, key: Key) {
        let Some(stream) = self.close(key, code::CANCEL) else {
            return;
        };
        // A response that is not 200 is judged by its status.
        let outcome = match stream
            .grpc
            .filter(|_| stream.stats.response.status == Some(200))
            .and_then(GrpcStatus::error)
        {
            Some(error) => RequestOutcome::Failed(error),
            None => RequestOutcome::Answered,
        };
        self.finish(stream, outcome);
    }

    /// Refuses a malformed response by RST_STREAM; the other streams go on (§8.1.1).
    fn refuse(&mut self, key: Key, error: ExchangeError) {
        if let Some(stream) = self.close(key, code::PROTOCOL_ERROR) {
            self.finish(stream, RequestOutcome::Failed(error));
        }
    }

    fn take_reset(&mut self, key: Key, reset: StreamReset) {
        let Some(stream) = self.close(key, reset.code) else {
            return;
        };
        let outcome = match reset.fault {
            Some(fault) => RequestOutcome::Failed(faulty(fault, &stream)),
            None => self.reset_by_server(reset, &stream),
        };
        self.finish(stream, outcome);
    }

    fn reset_by_server(&self, reset: StreamReset, stream: &RequestStream) -> RequestOutcome {
        let code = reset.code;
        if reset.unprocessed && self.goaway.is_some() && code != code::REFUSED_STREAM {
            let text = format!(
                "the server closed the connection before any response: {}",
                code_name(code)
            );
            return RequestOutcome::Unprocessed(ExchangeError::new(FailureKind::Goaway, text));
        }
        let text = format!("the server reset the stream: {}", code_name(code));
        let error = |kind| ExchangeError::new(kind, text);
        match (code, stream.stats.response.status) {
            (code::REFUSED_STREAM, None) => {
                RequestOutcome::Unprocessed(error(FailureKind::Refused))
            }
            // A server that has begun to answer has processed the request, also if it refuses the stream afterwards.
            (code::REFUSED_STREAM, Some(_)) => RequestOutcome::Failed(error(FailureKind::Refused)),
            _ => RequestOutcome::Failed(error(FailureKind::Reset)),
        }
    }
}

/// The error of a response that the layer has refused.
fn faulty(fault: StreamFault, stream: &RequestStream) -> ExchangeError {
    let content_length = stream.content_length.unwrap_or(0);
    let text = match fault {
        StreamFault::TooLittleData => format!(
            "{} bytes were received, but content-length is {content_length}",
            stream.stats.response.length
        ),
        StreamFault::TooMuchData => {
            format!("more bytes were received than content-length, which is {content_length}")
        }
        _ => return garbage(fault.to_string()),
    };
    ExchangeError::new(FailureKind::Length, text)
}

/// The error of a connection on which `bytes` came last.
fn broken(error: ConnectionError, bytes: &[u8]) -> ExchangeError {
    match error {
        ConnectionError::FirstFrame if bytes.starts_with(b"HTTP/1.") => garbage(
            "the server responded with HTTP/1: without TLS it must support HTTP/2 by prior knowledge (h2c)",
        ),
        ConnectionError::FirstFrame => garbage("the first bytes are not HTTP/2"),
        _ => garbage(error.to_string()),
    }
}
