//! Parts of a router on 127.0.0.1: sockets that answer by a script and keep what they were asked.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

/// What a part was asked, in its order.
pub(super) struct Asked<T>(Arc<Mutex<Vec<T>>>);

impl<T> Asked<T> {
    fn new() -> Self {
        Self(Arc::default())
    }

    fn share(&self) -> Self {
        Self(Arc::clone(&self.0))
    }

    fn push(&self, request: T) {
        self.0.lock().unwrap().push(request);
    }

    /// Takes all of it.
    pub(super) fn take(&self) -> Vec<T> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

fn version_4(address: SocketAddr) -> SocketAddrV4 {
    match address {
        SocketAddr::V4(address) => address,
        SocketAddr::V6(address) => panic!("{address}"),
    }
}

/// A UDP socket: `script` gives the answers to a datagram, in their order.
pub(super) async fn datagrams(
    mut script: impl FnMut(&[u8]) -> Vec<Vec<u8>> + Send + 'static,
) -> (SocketAddrV4, Asked<Vec<u8>>) {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = version_4(socket.local_addr().unwrap());
    let asked = Asked::new();
    let kept = asked.share();
    tokio::spawn(async move {
        let mut buffer = [0; 2048];
        loop {
            let (length, sender) = socket.recv_from(&mut buffer).await.unwrap();
            kept.push(buffer[..length].to_vec());
            for answer in script(&buffer[..length]) {
                socket.send_to(&answer, sender).await.unwrap();
            }
        }
    });
    (address, asked)
}

/// A UDP socket that gives one answer, after a machine at 127.0.0.2 has given another one.
pub(super) async fn datagrams_beside_a_liar(lie: Vec<u8>, truth: Vec<u8>) -> SocketAddrV4 {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let liar = UdpSocket::bind((Ipv4Addr::new(127, 0, 0, 2), 0))
        .await
        .unwrap();
    let address = version_4(socket.local_addr().unwrap());
    tokio::spawn(async move {
        let mut buffer = [0; 2048];
        loop {
            let (_, sender) = socket.recv_from(&mut buffer).await.unwrap();
            liar.send_to(&lie, sender).await.unwrap();
            socket.send_to(&truth, sender).await.unwrap();
        }
    });
    address
}

/// A server of HTTP at an address: `script` gives the response to a request, both with their bodies;
/// none is a connection that stays open without one.
pub(super) async fn http(
    address: Ipv4Addr,
    mut script: impl FnMut(&str) -> Option<String> + Send + 'static,
) -> (SocketAddrV4, Asked<String>) {
    let listener = TcpListener::bind((address, 0)).await.unwrap();
    let address = version_4(listener.local_addr().unwrap());
    let asked = Asked::new();
    let kept = asked.share();
    tokio::spawn(async move {
        let mut silent = Vec::new();
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let request = request(&mut stream).await;
            let response = script(&request);
            kept.push(request);
            match response {
                // Its reader may have enough of it before the end.
                Some(response) => drop(stream.write_all(response.as_bytes()).await),
                None => silent.push(stream),
            }
        }
    });
    (address, asked)
}

/// A request with its body.
async fn request(stream: &mut TcpStream) -> String {
    let mut octets = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&octets).to_lowercase();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.split("content-length: ").nth(1);
            let length = length.and_then(|rest| rest.split("\r\n").next());
            let length: usize = length.map_or(0, |length| length.parse().unwrap());
            if body.len() >= length {
                return String::from_utf8(octets).unwrap();
            }
        }
        assert_ne!(stream.read_buf(&mut octets).await.unwrap(), 0, "{text}");
    }
}

/// A response with a status and a body.
pub(super) fn response(status: u16, body: &str) -> Option<String> {
    let length = body.len();
    Some(format!(
        "HTTP/1.1 {status} Status\r\nContent-Type: text/xml\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    ))
}
