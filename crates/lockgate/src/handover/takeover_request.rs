//! How the end of a socket pair comes to a process that asks for a takeover: over its connection to
//! the admin socket, which is upgraded from HTTP for that (RFC 9110, section 7.8).

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use lockgate_net::socket::peer_user;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect as connect_to, socket_with,
};
use serde_json::Value;

use super::PROTOCOL;
use super::packets::{Packet, PacketSocket};

/// The resource.
pub(crate) const PATH: &str = "/v1/takeover";
/// The time in which the other Lockgate must go on with its answer.
const ANSWER: Duration = Duration::from_secs(20);
/// The most bytes of an answer.
const MOST: usize = 64 << 10;
/// What ends the head of a response.
const HEAD_END: &str = "\r\n\r\n";

/// Passes a descriptor over a connection that was upgraded.
///
/// # Errors
/// When the other end is closed.
pub(crate) fn pass(connection: OwnedFd, descriptor: &OwnedFd) -> io::Result<()> {
    PacketSocket::of(connection).send(b"\n", &[descriptor.as_fd()])
}

/// Asks the Lockgate at the first of `places` at which a program listens; `None` where none does.
/// It must run as root, as the user of this process, or as `user`.
pub(super) fn ask(places: &[PathBuf], user: Option<u32>) -> anyhow::Result<Option<PacketSocket>> {
    for place in places {
        match connect(place, ANSWER) {
            Ok(stream) => {
                let asked = is_trusted(&stream, user).and_then(|()| ask_at(stream));
                return asked
                    .map(Some)
                    .with_context(|| format!("no takeover from unix:{}", place.display()));
            }
            Err(error) => match error.kind() {
                // A file without a listener is what a killed process leaves.
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {}
                _ => return Err(unreachable(place, error)),
            },
        }
    }
    Ok(None)
}

fn unreachable(place: &Path, error: io::Error) -> anyhow::Error {
    let shown = place.display();
    if error.kind() == io::ErrorKind::PermissionDenied {
        return anyhow!(
            "no permission for unix:{shown}: only root and the user of the running Lockgate may take over"
        );
    }
    if error.kind() == io::ErrorKind::WouldBlock {
        return anyhow!("no takeover from unix:{shown}: {SILENT}");
    }
    anyhow!("no takeover from unix:{shown}: {error}")
}

const SILENT: &str = "the program that listens there does not answer";

/// Connects to a socket; `WouldBlock` where it has no room for a connection within `limit`, which
/// holds for writes too.
fn connect(place: &Path, limit: Duration) -> io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(place)?;
    let socket = socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    // A connect that does not wait fails at once where the queue is full, and poll(2) knows no end
    // of that.
    set_socket_timeout(&socket, Timeout::Send, Some(limit))?;
    loop {
        match connect_to(&socket, &address) {
            Err(Errno::INTR) => {}
            connected => return Ok(connected.map(|()| socket)?),
        }
    }
}

/// Whether the program that listens may be believed: its sockets, its ticket keys and what operators
/// have set there become those of this process.
fn is_trusted(stream: &OwnedFd, user: Option<u32>) -> anyhow::Result<()> {
    let peer = peer_user(stream)?;
    let own = nix::unistd::geteuid().as_raw();
    ensure!(
        peer == 0 || peer == own || Some(peer) == user,
        "the program that listens there runs as user {peer}, not as root, as the user of this process, or as `user`"
    );
    Ok(())
}

fn ask_at(stream: OwnedFd) -> anyhow::Result<PacketSocket> {
    let connection = PacketSocket::of(stream);
    connection.limit_wait(Some(ANSWER))?;
    let request = format!(
        "POST {PATH} HTTP/1.1\r\nHost: lockgate\r\nConnection: Upgrade\r\nUpgrade: {PROTOCOL}\r\n\
         Content-Length: 0\r\n\r\n"
    );
    connection.send(request.as_bytes(), &[])?;
    let (mut text, mut passed) = (Vec::new(), None);
    let head_end = loop {
        if let Some(end) = find_head_end(&text) {
            break end;
        }
        match next(&connection)? {
            Some(packet) if text.len() < MOST => {
                text.extend(packet.bytes);
                passed = packet.descriptors.into_iter().next().or(passed);
            }
            _ => bail!("another program answers there"),
        }
    };
    let head = String::from_utf8_lossy(&text[..head_end]).to_ascii_lowercase();
    let status = head.split(' ').nth(1).unwrap_or_default();
    if !head.contains("\r\nserver: lockgate/") {
        bail!("another program answers there");
    }
    if status == "101" {
        while passed.is_none() {
            let packet = next(&connection)?.context("the running Lockgate has ended")?;
            passed = packet.descriptors.into_iter().next();
        }
        return passed
            .map(PacketSocket::of)
            .context("the running Lockgate has ended");
    }
    let body = text[head_end + HEAD_END.len()..].to_vec();
    bail!("{}", reason(&connection, body, status))
}

/// The reason of a refusal, with its cure: the body of the response.
fn reason(connection: &PacketSocket, mut body: Vec<u8>, status: &str) -> String {
    loop {
        if let Ok(value) = serde_json::from_slice::<Value>(&body) {
            let error = &value["error"];
            if error["code"] == "unknown_path" {
                return "the Lockgate that runs is an older one without takeovers: `lockgate upgrade`, or stop it first".to_owned();
            }
            let of = |name: &str| error[name].as_str().unwrap_or_default().to_owned();
            return match (of("message"), of("cure")) {
                (message, cure) if cure.is_empty() => message,
                (message, cure) => format!("{message}: {cure}"),
            };
        }
        match next(connection) {
            Ok(Some(packet)) if body.len() < MOST => body.extend(packet.bytes),
            _ => return format!("it answers with the status {status}"),
        }
    }
}

fn next(connection: &PacketSocket) -> anyhow::Result<Option<Packet>> {
    match connection.receive() {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            bail!(SILENT)
        }
        received => Ok(received?),
    }
}

fn find_head_end(text: &[u8]) -> Option<usize> {
    let end = HEAD_END.as_bytes();
    text.windows(end.len()).position(|window| window == end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{bind, listen, socket};

    #[test]
    fn a_program_that_accepts_no_connection_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("admin.sock");
        let listener = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        bind(&listener, &SocketAddrUnix::new(&place).unwrap()).unwrap();
        listen(&listener, 0).unwrap();
        let limit = Duration::from_millis(10);
        // It has room for one.
        let first = connect(&place, limit).unwrap();
        assert!(is_trusted(&first, None).is_ok());
        let error = connect(&place, limit).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        let said = unreachable(&place, error).to_string();
        assert!(said.contains("does not answer"), "{said}");
        drop(listener);
        let error = connect(&place, limit).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }
}
