//! One message to one name server and its answer: by UDP, and by TCP where that does not do
//! (RFC 1035 §4.2, RFC 7766).
//!
//! Chooses no server and interprets no record.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use hickory_proto::op::{Message, MessageType, OpCode, Query};
use hickory_proto::rr::{Name, RecordType};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

/// The time for an answer by UDP, of which there are [`TRIES`].
const DATAGRAM_TIME: Duration = Duration::from_secs(2);
const TRIES: usize = 2;
/// The time for an answer by TCP, with the connection.
const STREAM_TIME: Duration = Duration::from_secs(5);
/// The largest datagram that is read; larger ones are cut, and are then no messages.
const LARGEST_DATAGRAM: usize = 4096;
/// Datagrams that are no answer, of which so many are passed over.
const STRAYS: usize = 64;

/// An answer: its octets, which a signature covers, and what they say.
pub(crate) struct Answer {
    pub(crate) octets: Vec<u8>,
    pub(crate) message: Message,
}

/// An unpredictable id (RFC 5452 §9.2).
pub(crate) fn random_id() -> u16 {
    let mut id = [0; 2];
    aws_lc_rs::rand::fill(&mut id).expect("the system gives random numbers");
    u16::from_be_bytes(id)
}

/// Asks a server for the records of a name; `recursive` has it ask others.
///
/// # Errors
/// When there is no answer in time, or none that can be read.
pub(crate) async fn ask(
    server: SocketAddr,
    name: &Name,
    kind: RecordType,
    recursive: bool,
) -> io::Result<Message> {
    let mut message = Message::new(random_id(), MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = recursive;
    message.add_query(Query::query(name.clone(), kind));
    let octets = message.to_vec().map_err(io::Error::other)?;
    Ok(exchange(server, &message, &octets).await?.message)
}

/// Sends a request, which is encoded in `octets`, and waits for its answer.
///
/// # Errors
/// When there is none in time, or none that can be read.
pub(crate) async fn exchange(
    server: SocketAddr,
    request: &Message,
    octets: &[u8],
) -> io::Result<Answer> {
    match by_datagram(server, request, octets).await {
        Ok(answer) if !answer.message.truncation => Ok(answer),
        // Truncated, lost, or filtered on the way.
        _ => by_stream(server, request, octets).await,
    }
}

async fn by_datagram(server: SocketAddr, request: &Message, octets: &[u8]) -> io::Result<Answer> {
    let own: SocketAddr = match server {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    // A port of its own for each request (RFC 5452 §9.2).
    let socket = UdpSocket::bind(own).await?;
    socket.connect(server).await?;
    for _ in 0..TRIES {
        socket.send(octets).await?;
        let received = timeout(DATAGRAM_TIME, receive(&socket, request)).await;
        if let Ok(received) = received {
            return received;
        }
    }
    Err(ErrorKind::TimedOut.into())
}

async fn receive(socket: &UdpSocket, request: &Message) -> io::Result<Answer> {
    let mut buffer = vec![0; LARGEST_DATAGRAM];
    for _ in 0..STRAYS {
        let length = socket.recv(&mut buffer).await?;
        if let Some(answer) = answer_to(request, &buffer[..length]) {
            return Ok(answer);
        }
    }
    Err(no_answer())
}

async fn by_stream(server: SocketAddr, request: &Message, octets: &[u8]) -> io::Result<Answer> {
    let exchanged = async {
        let mut stream = TcpStream::connect(server).await?;
        let length = u16::try_from(octets.len()).map_err(io::Error::other)?;
        let framed = [&length.to_be_bytes(), octets].concat();
        stream.write_all(&framed).await?;
        let length = stream.read_u16().await?;
        let mut octets = vec![0; usize::from(length)];
        stream.read_exact(&mut octets).await?;
        answer_to(request, &octets).ok_or_else(no_answer)
    };
    let late = Err(ErrorKind::TimedOut.into());
    timeout(STREAM_TIME, exchanged).await.unwrap_or(late)
}

fn no_answer() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "what it sends is no answer")
}

/// The answer to a request in some octets: it has the request's id, and repeats its question
/// (RFC 5452 §9.1). An error may lack the question, and so may the answer to an update (RFC 2136 §3.8),
/// which is signed instead.
fn answer_to(request: &Message, octets: &[u8]) -> Option<Answer> {
    let message = Message::from_vec(octets).ok()?;
    let is_response = message.message_type == MessageType::Response;
    let is_ours = message.id == request.id && message.op_code == request.op_code;
    let repeats = match &*message.queries {
        [] => u16::from(message.response_code) != 0 || message.op_code == OpCode::Update,
        queries => *queries == *request.queries,
    };
    (is_response && is_ours && repeats).then(|| Answer {
        octets: octets.to_vec(),
        message,
    })
}
