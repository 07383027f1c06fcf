//! Queries to name servers for the SRV records of a service: by UDP, and by TCP where the answer
//! does not fit (RFC 7766).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use lockgate_net::dns::{DATAGRAM, DnsError, Srv, SrvResponse, encode_query, parse_response};
use lockgate_upstream::Random;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

/// The time limit of one name server.
const PATIENCE: Duration = Duration::from_secs(2);
/// The number of rounds over all servers: datagrams get lost.
const ROUNDS: usize = 2;
/// The most servers that are used of the file, as by resolv.conf(5).
const SERVERS: usize = 3;
/// The file of the system's name servers.
const SYSTEM: &str = "/etc/resolv.conf";

/// The records of a service and their TTL in seconds. `servers` are asked one after the other until
/// one of them answers; without any, those of the system.
///
/// # Errors
/// The error of the last server, or that there is no record.
pub(super) async fn ask(servers: &[SocketAddr], name: &str) -> io::Result<(Vec<Srv>, u32)> {
    let of_system = if servers.is_empty() {
        system(Path::new(SYSTEM))
    } else {
        Vec::new()
    };
    let servers = if servers.is_empty() {
        &of_system
    } else {
        servers
    };
    let random = Random::new();
    let mut last = io::Error::other("no name server is configured");
    for server in servers.iter().cycle().take(ROUNDS * servers.len()) {
        let id = (random.next() >> 48) as u16;
        let asked =
            encode_query(id, name).ok_or_else(|| io::Error::other("this is no host name"))?;
        match exchange(*server, &asked).await {
            Ok(found) => return Ok(found),
            Err(error) => {
                let says = error
                    .get_ref()
                    .and_then(|error| error.downcast_ref::<DnsError>());
                // Another server would answer the same.
                if matches!(says, Some(DnsError::NoName | DnsError::NoRecord)) {
                    return Err(error);
                }
                last = io::Error::new(error.kind(), format!("{server}: {error}"));
            }
        }
    }
    Err(last)
}

async fn exchange(server: SocketAddr, asked: &[u8]) -> io::Result<(Vec<Srv>, u32)> {
    match timeout(PATIENCE, by_udp(server, asked)).await?? {
        SrvResponse::Records(records, ttl) => return Ok((records, ttl)),
        SrvResponse::Truncated => {}
    }
    match timeout(PATIENCE, by_tcp(server, asked)).await?? {
        SrvResponse::Records(records, ttl) => Ok((records, ttl)),
        SrvResponse::Truncated => Err(io::Error::other(DnsError::Malformed)),
    }
}

async fn by_udp(server: SocketAddr, asked: &[u8]) -> io::Result<SrvResponse> {
    let any: IpAddr = if server.is_ipv4() {
        Ipv4Addr::UNSPECIFIED.into()
    } else {
        Ipv6Addr::UNSPECIFIED.into()
    };
    // The system chooses a random port, which a forger has to guess beside the identifier (RFC 5452
    // §9.2).
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(server).await?;
    socket.send(asked).await?;
    let mut message = [0; 4 * DATAGRAM];
    loop {
        let length = socket.recv(&mut message).await?;
        match parse_response(message.get(..length).unwrap_or_default(), asked) {
            Err(DnsError::NotOurs) => {}
            found => return found.map_err(io::Error::other),
        }
    }
}

async fn by_tcp(server: SocketAddr, asked: &[u8]) -> io::Result<SrvResponse> {
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(asked.len()).map_err(io::Error::other)?;
    stream
        .write_all(&[&length.to_be_bytes()[..], asked].concat())
        .await?;
    let mut message = vec![0; usize::from(stream.read_u16().await?)];
    stream.read_exact(&mut message).await?;
    parse_response(&message, asked).map_err(io::Error::other)
}

/// The name servers in a file in the format of resolv.conf(5); without any, the one on this
/// machine.
fn system(file: &Path) -> Vec<SocketAddr> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let servers = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let is_one = words.next() == Some("nameserver");
        words.next().filter(|_| is_one)?.parse::<IpAddr>().ok()
    });
    let mut servers: Vec<_> = servers
        .take(SERVERS)
        .map(|ip| SocketAddr::new(ip, 53))
        .collect();
    if servers.is_empty() {
        servers.push(SocketAddr::from((Ipv4Addr::LOCALHOST, 53)));
    }
    servers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_name_servers_are_those_of_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("resolv.conf");
        let local = SocketAddr::from(([127, 0, 0, 1], 53));
        assert_eq!(system(&file), [local]);
        std::fs::write(&file, "# nameserver 10.0.0.9\nsearch a.b\nnameserver 10.0.0.1\nnameserver\tfd00::1 \nnameserver x\nnameservers 1.1.1.1\noptions ndots:5\n").unwrap();
        let found = ["10.0.0.1:53", "[fd00::1]:53"].map(|server| server.parse().unwrap());
        assert_eq!(system(&file), found);
        std::fs::write(&file, "nameserver 10.0.0.1\n".repeat(9)).unwrap();
        assert_eq!(system(&file).len(), 3);
    }
}
