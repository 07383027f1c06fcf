//! The ways to programs that figures are pushed to: a stream, datagrams, requests.
//!
//! Does not try again and draws no conclusion. A name is resolved with each connection, and that of
//! datagrams with each reading. A step that takes longer than its limit ends the connection.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use lockgate_client::{
    ClientError, ClientRequest, DialTarget, ExchangeLimits, HttpConnection, RemoteServer,
};
use lockgate_config::{EndpointAddr, InfluxUrl};
use lockgate_export::EncodedPoints;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpStream, UdpSocket, lookup_host};
use tokio::time::timeout;

use super::sink_response::{AGENT, ReceivedAnswer, limits, receive, shown};
use super::sink_transport::SinkTransport;
use super::status::{LossReason, SinkStatus};

/// The shortest pause that a program can ask for.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
/// What a program may say on a stream before it is looked at again, in reads of a kilobyte.
const READS: usize = 64;

/// Why points were not pushed.
#[derive(Debug, thiserror::Error)]
pub(super) enum PushError {
    #[error("its name does not resolve: {0}")]
    Unresolved(io::Error),
    #[error("cannot connect: {0}")]
    Unreachable(io::Error),
    #[error("the connection broke: {0}")]
    Broken(io::Error),
    #[error("it takes nothing for {0:?}")]
    Late(Duration),
    #[error("datagrams are refused: nothing listens there")]
    Refused,
    #[error("{0}")]
    Client(#[from] ClientError),
    #[error("status {0}: {1}")]
    Status(u16, String),
    #[error("status {0}: it asks to be left alone for a while")]
    Busy(u16, Option<Duration>),
}

impl PushError {
    /// How long the program wants to be left alone, if it has said so.
    pub(super) fn pause(&self) -> Option<Duration> {
        match self {
            Self::Busy(_, pause) => pause.map(|pause| pause.max(SHORTEST_PAUSE)),
            _ => None,
        }
    }
}

/// A stream that is kept from one reading to the next.
pub(super) struct TcpSink {
    to: EndpointAddr,
    stream: Option<TcpStream>,
}

impl TcpSink {
    pub(super) fn new(to: EndpointAddr) -> Self {
        Self { to, stream: None }
    }

    /// Sends what is left of the points, each step within `limit`.
    ///
    /// # Errors
    /// See [`PushError`]: not all were sent, or some were refused.
    pub(super) async fn send(
        &mut self,
        points: &mut EncodedPoints,
        status: &SinkStatus,
        limit: Duration,
    ) -> Result<(), PushError> {
        // One that the other side has closed takes another write as if nothing were wrong.
        let kept = self.stream.take().filter(|stream| !has_ended(stream));
        let mut stream = match kept {
            Some(stream) => stream,
            None => connect(&self.to, limit).await?,
        };
        for frame in points.frames() {
            let written = timeout(limit, stream.write_all(frame.bytes)).await;
            written
                .map_err(|_| PushError::Late(limit))?
                .map_err(PushError::Broken)?;
        }
        // After anything else the stream is closed, and all points are sent again: that a part of
        // them comes twice, with the same times, changes nothing.
        self.stream = Some(stream);
        status.add_points(points.finish());
        Ok(())
    }

    /// Closes the stream behind its last byte.
    pub(super) async fn close(self) {
        if let Some(mut stream) = self.stream {
            let _ = stream.shutdown().await;
        }
    }
}

/// Whether the other side has closed a stream. What it says is thrown away.
fn has_ended(stream: &TcpStream) -> bool {
    let mut said = [0; 1024];
    for _ in 0..READS {
        match stream.try_read(&mut said) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != ErrorKind::WouldBlock,
        }
    }
    false
}

async fn connect(to: &EndpointAddr, limit: Duration) -> Result<TcpStream, PushError> {
    let mut failure = PushError::Late(limit);
    for address in resolve(to, limit).await? {
        match timeout(limit, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => failure = PushError::Unreachable(error),
            Err(_) => failure = PushError::Unreachable(ErrorKind::TimedOut.into()),
        }
    }
    Err(failure)
}

/// The addresses of a program, in the order in which they are tried.
async fn resolve(to: &EndpointAddr, limit: Duration) -> Result<Vec<SocketAddr>, PushError> {
    let (host, port) = match to {
        EndpointAddr::Ip(address) => return Ok(vec![*address]),
        EndpointAddr::Name { host, port } => (host, *port),
        // The configuration has none of them.
        EndpointAddr::Unix(_) | EndpointAddr::Srv(_) => {
            return Err(PushError::Unresolved(ErrorKind::Unsupported.into()));
        }
    };
    let found = timeout(limit, lookup_host((host.as_str(), port))).await;
    let found = found.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()));
    let found: Vec<_> = found.map_err(PushError::Unresolved)?.collect();
    if found.is_empty() {
        return Err(PushError::Unresolved(ErrorKind::NotFound.into()));
    }
    Ok(found)
}

/// Datagrams from one socket, as long as the name leads to the same address and that one refuses none.
pub(super) struct UdpSink {
    to: EndpointAddr,
    socket: Option<(UdpSocket, SocketAddr)>,
    /// The addresses of the name, as they were found last.
    found: Vec<SocketAddr>,
    /// The points of the datagram that was sent last.
    last: u64,
}

impl UdpSink {
    pub(super) fn new(to: EndpointAddr) -> Self {
        Self {
            to,
            socket: None,
            found: Vec::new(),
            last: 0,
        }
    }

    /// Sends what is left of the points, each step within `limit`.
    ///
    /// # Errors
    /// See [`PushError`]: not all were sent, or some were refused.
    pub(super) async fn send(
        &mut self,
        points: &mut EncodedPoints,
        status: &SinkStatus,
        limit: Duration,
    ) -> Result<(), PushError> {
        let mut socket = self.socket(limit).await?;
        let mut outcome = Ok(());
        while let Some(frame) = points.next_frame() {
            let mut sent = send_datagram(&socket.0, frame.bytes, limit).await;
            if matches!(&sent, Err(error) if error.kind() == ErrorKind::ConnectionRefused) {
                // udp(7): the error is that of a datagram before, and this one was not sent.
                status.add_lost(LossReason::Refused, std::mem::take(&mut self.last));
                outcome = Err(PushError::Refused);
                // A name may have an address where nothing listens, as `localhost` has in IPv6.
                if let Some(other) = address_behind(socket.1, &self.found)
                    && let Ok(opened) = open(other).await
                {
                    socket = opened;
                }
                sent = send_datagram(&socket.0, frame.bytes, limit).await;
            }
            match sent {
                Ok(()) => {
                    self.last = points.advance();
                    status.add_points(self.last);
                }
                // The next reading resolves the name again.
                Err(error) => return Err(PushError::Broken(error)),
            }
        }
        self.socket = Some(socket);
        outcome
    }

    /// The socket towards the address that the name has now. It is out of its place until all was
    /// sent.
    async fn socket(&mut self, limit: Duration) -> Result<(UdpSocket, SocketAddr), PushError> {
        let kept = self.socket.take();
        self.found = match resolve(&self.to, limit).await {
            Ok(found) => found,
            // A name server that is away for a while does not matter.
            Err(error) => return kept.ok_or(error),
        };
        if let Some((socket, address)) = kept
            && self.found.contains(&address)
        {
            return Ok((socket, address));
        }
        let Some(address) = self.found.first().copied() else {
            return Err(PushError::Unresolved(ErrorKind::NotFound.into()));
        };
        self.last = 0;
        open(address).await.map_err(PushError::Unreachable)
    }
}

/// A socket towards an address.
async fn open(address: SocketAddr) -> io::Result<(UdpSocket, SocketAddr)> {
    let from: SocketAddr = match address {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(from).await?;
    socket.connect(address).await?;
    Ok((socket, address))
}

/// The address of a name behind `refused`, the first one behind the last; none where there is no
/// other.
fn address_behind(refused: SocketAddr, found: &[SocketAddr]) -> Option<SocketAddr> {
    let at = found.iter().position(|one| *one == refused)?;
    let behind = found.get(at + 1).or(found.first()).copied();
    behind.filter(|address| *address != refused)
}

async fn send_datagram(socket: &UdpSocket, datagram: &[u8], limit: Duration) -> io::Result<()> {
    let sent = timeout(limit, socket.send(datagram)).await;
    sent.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))
        .map(drop)
}

/// Requests, each on a connection of its own: between two readings servers close theirs.
pub(super) struct HttpSink {
    url: InfluxUrl,
    transport: SinkTransport,
    authorization: Option<String>,
}

impl HttpSink {
    pub(super) fn new(url: InfluxUrl, transport: SinkTransport) -> Box<Self> {
        let authorization = url.token.as_ref().map(|token| format!("Token {}", token.0));
        Box::new(Self {
            url,
            transport,
            authorization,
        })
    }

    /// Sends what is left of the points, each step within `limit`.
    ///
    /// # Errors
    /// See [`PushError`]: not all were sent, or some were refused.
    pub(super) async fn send(
        &mut self,
        points: &mut EncodedPoints,
        status: &SinkStatus,
        limit: Duration,
    ) -> Result<(), PushError> {
        let limits = limits(limit);
        let mut outcome = Ok(());
        while let Some(frame) = points.next_frame() {
            let body = Bytes::copy_from_slice(frame.bytes);
            let (code, pause, text) = limits.bound(self.post(body, limits)).await?;
            let refusal = || PushError::Status(code, shown(&text));
            match code {
                200..300 => status.add_points(points.advance()),
                // What is malformed, too long or too old for it stays so.
                400 | 413 | 422 => {
                    status.add_lost(LossReason::Refused, points.advance());
                    outcome = Err(refusal());
                }
                _ if pause.is_some() => return Err(PushError::Busy(code, pause)),
                _ => return Err(refusal()),
            }
        }
        outcome
    }

    /// The response to a request with this body.
    async fn post(&self, body: Bytes, limits: ExchangeLimits) -> Result<ReceivedAnswer, PushError> {
        let mut connection = connect_http(&self.url.addr, &self.transport, limits).await?;
        let mut fields = vec![
            ("user-agent", AGENT),
            ("content-type", "text/plain; charset=utf-8"),
            ("connection", "close"),
        ];
        if let Some(authorization) = &self.authorization {
            fields.push(("authorization", authorization.as_str()));
        }
        let request = ClientRequest {
            method: "POST",
            host: &self.url.host,
            path: &self.url.path.0,
            fields: &fields,
            body,
        };
        Ok(receive(connection.exchange(&request).await?).await?)
    }
}

/// A connection for requests of HTTP/1.1.
pub(super) async fn connect_http(
    to: &EndpointAddr,
    transport: &SinkTransport,
    limits: ExchangeLimits,
) -> Result<HttpConnection, PushError> {
    let found = resolve(to, limits.time).await?;
    let name = match to {
        EndpointAddr::Ip(address) => address.ip().to_string(),
        EndpointAddr::Name { host, .. } => host.clone(),
        EndpointAddr::Unix(_) | EndpointAddr::Srv(_) => String::new(),
    };
    let server = RemoteServer {
        addresses: found.into_iter().map(DialTarget::Tcp).collect(),
        tls: transport.connector().map(|connector| (connector, &*name)),
        proxy_header: &[],
    };
    Ok(HttpConnection::http1(server.connect(limits).await?).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_address_of_a_name_follows_one_that_refuses() {
        let [one, two, three] = [1, 2, 3].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        for (refused, found, next) in [
            (one, &[one, two, three][..], Some(two)),
            (three, &[one, two, three], Some(one)),
            (one, &[one], None),
            (one, &[two], None),
            (one, &[], None),
        ] {
            assert_eq!(address_behind(refused, found), next, "{refused} {found:?}");
        }
    }
}
