//! A push gateway: where it is, and one push to it over HTTP/1.1, on a connection of its own.
//!
//! Blocks, but never longer than the gateway's patience and what looking up its name takes.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

use base64ct::{Base64UrlUnpadded, Encoding as _};
use lockgate_http::fields::Fields;
use lockgate_http::h1::body::{Decoder, Part};
use lockgate_http::h1::parse::{self, Progress};
use lockgate_http::h1::{Limits, encode, framing};
use lockgate_http::head::{Method, ResponseHead};
use lockgate_http::target::Authority;
use lockgate_metrics::CONTENT_TYPE;

/// What one push may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of a response that are read: a gateway says in one line what it does not like.
const MOST: usize = 16 * 1024;
/// Characters of that line that are handed on.
const SAID: usize = 200;

/// Where pushes go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gateway {
    /// As it was written, for messages.
    written: String,
    host: String,
    port: u16,
    authority: String,
    path: String,
    patience: Duration,
}

/// What is no push gateway.
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

/// Why a push failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum PushError {
    #[error("{gateway}: {error}")]
    Lost { gateway: String, error: io::Error },
    #[error("{gateway} does not respond with HTTP: {error}")]
    Garbage { gateway: String, error: String },
    #[error("{gateway} responds with status {status}{said}")]
    Refused {
        gateway: String,
        status: u16,
        said: String,
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
            patience: PATIENCE,
        })
    }

    /// What one push may take.
    pub(super) fn patience(&self) -> Duration {
        self.patience
    }

    /// Another patience, for tests of gateways that try it.
    #[cfg(test)]
    pub(super) fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
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
        let mut wire = self.connect().map_err(lost)?;
        let sent = wire.write_all(&self.request(text));
        // One that takes no more may have said why.
        let (status, said) = match self.answer(&mut wire) {
            Err(PushError::Lost { error, .. }) => return Err(lost(sent.err().unwrap_or(error))),
            answer => answer?,
        };
        if (200..300).contains(&status) {
            return Ok(());
        }
        Err(PushError::Refused {
            gateway: self.written.clone(),
            status,
            said,
        })
    }

    fn connect(&self) -> io::Result<Wire> {
        let mut failed = io::Error::other("its host name has no address");
        let addresses = (&*self.host, self.port).to_socket_addrs()?;
        let until = Instant::now() + self.patience;
        for address in addresses {
            match left(until).and_then(|left| TcpStream::connect_timeout(&address, left)) {
                Ok(stream) => return Ok(Wire { stream, until }),
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

    /// The status of the final response, and of one that refuses what it says.
    fn answer(&self, wire: &mut Wire) -> Result<(u16, String), PushError> {
        let lost = |error| PushError::Lost {
            gateway: self.written.clone(),
            error,
        };
        let garbage = |error: String| PushError::Garbage {
            gateway: self.written.clone(),
            error,
        };
        let mut input = Vec::new();
        let (mut progress, mut head) = (Progress::default(), ResponseHead::default());
        loop {
            let parsed = parse::response(&input, &mut progress, &Limits::default(), &mut head);
            match parsed.map_err(|error| garbage(error.to_string()))? {
                Some(end) => {
                    input.drain(..end);
                    if !head.is_interim() {
                        break;
                    }
                    progress = Progress::default();
                }
                None if !wire.read_more(&mut input).map_err(lost)? => {
                    return Err(lost(io::ErrorKind::UnexpectedEof.into()));
                }
                None => {}
            }
        }
        let length =
            framing::response(Method::Other, &head).map_err(|error| garbage(error.to_string()))?;
        let said = if (200..300).contains(&head.status) {
            Vec::new()
        } else {
            wire.body(input, Decoder::new(length))
        };
        Ok((head.status, first_line(&said)))
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
fn first_line(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    match said.trim().lines().next() {
        Some(line) => {
            let short: String = line.chars().take(SAID).collect();
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
struct Wire {
    stream: TcpStream,
    until: Instant,
}

impl Wire {
    /// Whether there was more.
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

    /// What comes of a body of which `input` is there: what is left of it does not matter.
    fn body(&mut self, mut input: Vec<u8>, mut decoder: Decoder) -> Vec<u8> {
        let (mut body, mut trailers) = (Vec::new(), Fields::default());
        while body.len() < MOST && input.len() < MOST {
            match decoder.decode(&input, &Limits::default(), &mut trailers) {
                Ok(Part::Data(data)) => {
                    body.extend_from_slice(&input[data.clone()]);
                    input.drain(..data.end);
                }
                Ok(Part::More(used)) => {
                    input.drain(..used);
                    if !self.read_more(&mut input).unwrap_or(false) {
                        break;
                    }
                }
                Ok(Part::End(_)) | Err(_) => break,
            }
        }
        body
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(left(self.until)?))?;
        self.stream.write(bytes).map_err(in_time)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A socket whose time is over says that it would block (socket(7), `SO_RCVTIMEO`).
fn in_time(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::WouldBlock {
        io::ErrorKind::TimedOut.into()
    } else {
        error
    }
}
