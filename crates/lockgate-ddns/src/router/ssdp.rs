//! The search for the gateway device: requests by multicast and their answers by UDP (UPnP Device
//! Architecture 1.1 §1.3).
//!
//! Any machine of the network can answer a search, and what it says would become the address of
//! names. Only the answer of the gateway itself is taken.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::time::{Instant, timeout_at};

use super::error::{ProtocolFailure, UpnpFailure};

/// The address of searches (UPnP Device Architecture 1.1 §1.3.2).
pub const MULTICAST: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(239, 255, 255, 250), 1900);

/// The services that know the external address, the best one first. Version 2 answers to 1 too, and
/// not every device keeps that (UPnP Device Architecture 1.1 §1.3.2).
pub const SERVICES: [&str; 3] = [
    "urn:schemas-upnp-org:service:WANIPConnection:2",
    "urn:schemas-upnp-org:service:WANIPConnection:1",
    "urn:schemas-upnp-org:service:WANPPPConnection:1",
];

/// How often all searches are sent: datagrams are lost (§1.3.2).
const ROUNDS: u32 = 2;
/// The longest answer that is read, in octets.
const LONGEST: usize = 2048;
/// Hops of a search (§1.3.2).
const HOPS: u32 = 2;

/// Searches from the address `own`; returns where the gateway says its description is.
///
/// # Errors
/// When the gateway does not answer within two times `wait`, or before `end`.
pub(super) async fn find_description(
    gateway: Ipv4Addr,
    own: Ipv4Addr,
    search: SocketAddrV4,
    wait: Duration,
    end: Instant,
) -> Result<String, ProtocolFailure> {
    let began = Instant::now();
    if began >= end {
        return Err(ProtocolFailure::NotAsked);
    }
    let exchanged = async {
        // The source address also chooses the interface that a multicast leaves by.
        let socket = UdpSocket::bind((own, 0)).await?;
        socket.set_multicast_ttl_v4(HOPS)?;
        for _ in 0..ROUNDS {
            for service in SERVICES {
                socket
                    .send_to(search_request(service).as_bytes(), search)
                    .await?;
            }
            let until = end.min(Instant::now() + wait);
            if let Ok(received) = timeout_at(until, receive(&socket, gateway)).await {
                return received.map(Some);
            }
            if until == end {
                break;
            }
        }
        Ok(None)
    };
    let found = exchanged.await.map_err(ProtocolFailure::Unsent)?;
    found.ok_or_else(|| UpnpFailure::NotFound(began.elapsed()).into())
}

async fn receive(socket: &UdpSocket, gateway: Ipv4Addr) -> io::Result<String> {
    let mut buffer = vec![0; LONGEST];
    loop {
        let (length, sender) = socket.recv_from(&mut buffer).await?;
        let received = buffer.get(..length).unwrap_or_default();
        if sender.ip() == gateway
            && let Some(location) = parse_answer(received)
        {
            return Ok(location.to_owned());
        }
    }
}

/// The search for a service (§1.3.2). Devices answer within the second that MX gives them.
fn search_request(service: &str) -> String {
    format!(
        "M-SEARCH * HTTP/1.1\r\nHOST: {MULTICAST}\r\nMAN: \"ssdp:discover\"\r\nMX: 1\r\n\
         ST: {service}\r\n\r\n"
    )
}

/// The URL of the description in an answer to a search for one of [`SERVICES`] (§1.3.3). Nothing when
/// the datagram is no such answer. The URL is not empty and of visible ASCII.
pub fn parse_answer(octets: &[u8]) -> Option<&str> {
    let text = str::from_utf8(octets).ok()?;
    let (status, fields) = text.split_once('\n')?;
    let mut words = status.split_ascii_whitespace();
    let is_answer = words.next()?.starts_with("HTTP/1.") && words.next()? == "200";
    if !is_answer {
        return None;
    }
    let (mut location, mut service) = (None, None);
    for line in fields.lines().take_while(|line| !line.is_empty()) {
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        // The first of each: a second one is no reason to believe another.
        if name.eq_ignore_ascii_case("location") {
            location.get_or_insert(value.trim());
        } else if name.eq_ignore_ascii_case("st") {
            service.get_or_insert(value.trim());
        }
    }
    let is_ours = SERVICES.contains(&service?);
    let location = location?;
    let is_text = !location.is_empty() && location.bytes().all(|byte| byte.is_ascii_graphic());
    (is_ours && is_text).then_some(location)
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "http://192.168.1.1:5000/root.xml";

    #[test]
    fn searches_are_as_section_1_3_2_has_them() {
        assert_eq!(
            search_request(SERVICES[1]),
            "M-SEARCH * HTTP/1.1\r\nHOST: 239.255.255.250:1900\r\nMAN: \"ssdp:discover\"\r\n\
             MX: 1\r\nST: urn:schemas-upnp-org:service:WANIPConnection:1\r\n\r\n"
        );
    }

    #[test]
    fn answers_tell_where_the_description_is() {
        let st = SERVICES[2];
        for answer in [
            // §1.3.3
            format!(
                "HTTP/1.1 200 OK\r\nCACHE-CONTROL: max-age=120\r\nEXT:\r\nLOCATION: {URL}\r\n\
                 SERVER: a UPnP/1.1 b/1\r\nST: {st}\r\nUSN: uuid:1::{st}\r\n\r\n"
            ),
            // What devices do besides: other cases, line ends, no last line.
            format!("HTTP/1.0 200 OK\nlocation:{URL}\nst:\t{st} \n\n"),
            format!("HTTP/1.1 200\r\nno field\r\nSt: {st}\r\nLocation: {URL}"),
            format!(
                "HTTP/1.1 200 OK\r\nST: {st}\r\nLOCATION: {URL}\r\nLOCATION: http://10.0.0.1/\r\n\r\n"
            ),
        ] {
            assert_eq!(parse_answer(answer.as_bytes()), Some(URL), "{answer}");
        }
    }

    #[test]
    fn other_messages_are_no_answers() {
        let st = SERVICES[0];
        for message in [
            String::new(),
            "HTTP/1.1 200 OK".to_owned(),
            format!("HTTP/1.1 200 OK\r\nST: {st}\r\n\r\n"),
            format!("HTTP/1.1 200 OK\r\nLOCATION: {URL}\r\n\r\n"),
            format!("HTTP/1.1 200 OK\r\nST: {st}\r\nLOCATION:\r\n\r\n"),
            format!("HTTP/1.1 200 OK\r\nST: {st}\r\nLOCATION: http://a b\r\n\r\n"),
            format!("HTTP/1.1 200 OK\r\nST: {st}\r\n\r\nLOCATION: {URL}\r\n"),
            format!("HTTP/1.1 404 Not Found\r\nST: {st}\r\nLOCATION: {URL}\r\n\r\n"),
            // §1.2.2: an announcement, and §1.3.2: the search of another machine.
            format!("NOTIFY * HTTP/1.1\r\nNT: {st}\r\nST: {st}\r\nLOCATION: {URL}\r\n\r\n"),
            search_request(st),
            // A device of another kind.
            format!("HTTP/1.1 200 OK\r\nST: upnp:rootdevice\r\nLOCATION: {URL}\r\n\r\n"),
        ] {
            assert_eq!(parse_answer(message.as_bytes()), None, "{message}");
        }
        assert_eq!(parse_answer(b"HTTP/1.1 200 OK\r\nST: \xff\r\n\r\n"), None);
    }
}
