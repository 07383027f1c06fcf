//! A push gateway: where it is, and one push to it over HTTP/1.1, on a connection of its own.
//!
//! Blocks, but never longer than the timeout and the lookup of the name take.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

use base64ct::{Base64UrlUnpadded, Encoding as _};
use lockgate_http::fields::Fields;
use lockgate_http::h1::body::{BodyDecoder, BodyPart};
use lockgate_http::h1::parse::{self, HeadProgress};
use lockgate_http::h1::{HeadLimits, encode, framing};
use lockgate_http::head::{Method, ResponseHead};
use lockgate_http::target::Authority;
use lockgate_metrics::CONTENT_TYPE;

/// Timeout of one push.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Limit of a response's body in bytes: a gateway explains a refusal in one line.
const MAX_BODY: usize = 16 * 1024;
/// Limit of that line in characters.
const MAX_MESSAGE: usize = 200;

/// A push gateway, and the job of its group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gateway {
    /// As it was written, for messages.
    written: String,
    host: String,
    port: u16,
    authority: String,
    path: String,
    timeout: Duration,
}

/// Error of a URL or job that is no push gateway's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GatewayError {
    /// Another scheme, userinfo, a query, characters that URLs have not.
    #[error(
        "`{0}` is no push gateway: write http://HOST:PORT, with the prefix before /metrics if it has one"
    )]
    Url(String),
    /// Gateways refuse a job without a name.
    #[error("a job needs a name")]
    Job,
}

/// Error of a push to the gateway.
#[derive(Debug, thiserror::Error)]
pub(super) enum PushError {
    #[error("{gateway}: {error}")]
    Lost { gateway: String, error: io::Error },
    #[error("{gateway} does not respond with HTTP: {error}")]
    Garbage { gateway: String, error: String },
    #[error("{gateway} responds with status {status}{message}")]
    Refused {
        gateway: String,
        status: u16,
        message: String,
    },
}

impl Gateway {
    /// The gateway at `http://HOST:PORT[/PREFIX]`, and the job by which it tells groups apart.
    ///
    /// # Errors
    /// When it is none.
    pub fn new(written: &str, job: &str) -> Result<Self, GatewayError> {
        let wrong = || GatewayError::Url(written.to_owned());
        let rest = written.strip_prefix("http://").ok_or_else(wrong)?;
        let (authority, prefix) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if !prefix
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'?' | b'#'))
        {
            return Err(wrong());
        }
        let parsed = Authority::parse(authority.as_bytes()).map_err(|_| wrong())?;
        let host = parsed.host.trim_start_matches('[').trim_end_matches(']');
        let path = format!(
            "{}/metrics/{}",
            prefix.trim_end_matches('/'),
            label("job", job)?
        );
        Ok(Self {
            written: written.to_owned(),
            host: host.to_owned(),
            port: parsed.port.unwrap_or(80),
            authority: authority.to_owned(),
            path,
            timeout: TIMEOUT,
        })
    }

    /// The timeout of one push.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Another patience, for tests of gateways that try it.
    #[cfg(test)]
    pub(super) fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Replaces the job's group by `text`.
    ///
    /// # Errors
    /// When the gateway is not there, does not answer in time, or refuses it.
    pub(super) fn put(&self, text: &str) -> Result<(), PushError> {
        let lost = |error| PushError::Lost {
            gateway: self.written.clone(),
            error,
        };
        let mut connection = self.connect().map_err(lost)?;
        let sent = connection.write_all(&self.request(text));
        // One that takes no more may have said why.
        let (status, message) = match self.read_response(&mut connection) {
            Err(PushError::Lost { error, .. }) => return Err(lost(sent.err().unwrap_or(error))),
            response => response?,
        };
        if (200..300).contains(&status) {
            return Ok(());
        }
        Err(PushError::Refused {
            gateway: self.written.clone(),
            status,
            message,
        })
    }

    fn connect(&self) -> io::Result<GatewayConnection> {
        let mut failed = io::Error::other("its host name has no address");
        let addresses = (&*self.host, self.port).to_socket_addrs()?;
        let until = Instant::now() + self.timeout;
        for address in addresses {
            match left(until).and_then(|left| TcpStream::connect_timeout(&address, left)) {
                Ok(stream) => return Ok(GatewayConnection { stream, until }),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    fn request(&self, text: &str) -> Vec<u8> {
        let mut out = Vec::with_capacity(text.len() + 512);
        encode::request_line(&mut out, b"PUT", self.path.as_bytes(), None);
        encode::field(&mut out, b"Host", self.authority.as_bytes());
        encode::field(
            &mut out,
            b"User-Agent",
            concat!("lockgate/", env!("CARGO_PKG_VERSION")).as_bytes(),
        );
        encode::field(&mut out, b"Content-Type", CONTENT_TYPE.as_bytes());
        encode::field(&mut out, b"Connection", b"close");
        encode::content_length(&mut out, text.len() as u64);
        encode::end(&mut out);
        out.extend_from_slice(text.as_bytes());
        out
    }

    /// The status of the final response, and the first line of a refusal.
    fn read_response(
        &self,
        connection: &mut GatewayConnection,
    ) -> Result<(u16, String), PushError> {
        let lost = |error| PushError::Lost {
            gateway: self.written.clone(),
            error,
        };
        let garbage = |error: String| PushError::Garbage {
            gateway: self.written.clone(),
            error,
        };
        let mut input = Vec::new();
        let (mut progress, mut head) = (HeadProgress::default(), ResponseHead::default());
        loop {
            let parsed = parse::response(&input, &mut progress, &HeadLimits::default(), &mut head);
            match parsed.map_err(|error| garbage(error.to_string()))? {
                Some(end) => {
                    input.drain(..end);
                    if !head.is_interim() {
                        break;
                    }
                    progress = HeadProgress::default();
                }
                None if !connection.read_more(&mut input).map_err(lost)? => {
                    return Err(lost(io::ErrorKind::UnexpectedEof.into()));
                }
                None => {}
            }
        }
        let length =
            framing::response(Method::Other, &head).map_err(|error| garbage(error.to_string()))?;
        let message = if (200..300).contains(&head.status) {
            Vec::new()
        } else {
            connection.body(input, BodyDecoder::new(length))
        };
        Ok((head.status, first_line(&message)))
    }
}

/// A label of the group as the path has it: base64 where its value has characters that paths take
/// otherwise.
fn label(name: &str, value: &str) -> Result<String, GatewayError> {
    if value.is_empty() {
        return Err(GatewayError::Job);
    }
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    Ok(if value.bytes().all(is_plain) {
        format!("{name}/{value}")
    } else {
        format!(
            "{name}@base64/{}",
            Base64UrlUnpadded::encode_string(value.as_bytes())
        )
    })
}

/// `: pushed metrics are invalid`, or nothing.
fn first_line(message: &[u8]) -> String {
    let message = String::from_utf8_lossy(message);
    match message.trim().lines().next() {
        Some(line) => {
            let short: String = line.chars().take(MAX_MESSAGE).collect();
            format!(": {}", crate::escape::terminal(&short))
        }
        None => String::new(),
    }
}

fn left(until: Instant) -> io::Result<Duration> {
    match until.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
        left => Ok(left),
    }
}

/// A connection on which everything together may take until then.
struct GatewayConnection {
    stream: TcpStream,
    until: Instant,
}

impl GatewayConnection {
    /// Reads once; `false` at the end of the connection.
    fn read_more(&mut self, input: &mut Vec<u8>) -> io::Result<bool> {
        let mut block = [0; 4096];
        loop {
            self.stream.set_read_timeout(Some(left(self.until)?))?;
            match self.stream.read(&mut block) {
                Ok(read) => {
                    input.extend_from_slice(&block[..read]);
                    return Ok(read > 0);
                }
                // With a timeout the kernel does not go on by itself after a signal (signal(7)).
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(in_time(error)),
            }
        }
    }

    /// The body of a response, of which `input` has come already; an error ends it.
    fn body(&mut self, mut input: Vec<u8>, mut decoder: BodyDecoder) -> Vec<u8> {
        let (mut body, mut trailers) = (Vec::new(), Fields::default());
        while body.len() < MAX_BODY && input.len() < MAX_BODY {
            match decoder.decode(&input, &HeadLimits::default(), &mut trailers) {
                Ok(BodyPart::Data(data)) => {
                    body.extend_from_slice(&input[data.clone()]);
                    input.drain(..data.end);
                }
                Ok(BodyPart::More(used)) => {
                    input.drain(..used);
                    if !self.read_more(&mut input).unwrap_or(false) {
                        break;
                    }
                }
                Ok(BodyPart::End(_)) | Err(_) => break,
            }
        }
        body
    }
}

impl Write for GatewayConnection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(left(self.until)?))?;
        self.stream.write(bytes).map_err(in_time)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A socket reports a timeout as WouldBlock (socket(7), `SO_RCVTIMEO`).
fn in_time(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::WouldBlock {
        io::ErrorKind::TimedOut.into()
    } else {
        error
    }
}
