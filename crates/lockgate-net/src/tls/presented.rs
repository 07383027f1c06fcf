//! The certificate that a server presents, for a comparison with our own.
//!
//! Verifies that the server has the key, and no chain. For commands: it blocks.

use std::io::{self, Read, Write};
use std::path::Path;

use rustls::ClientConnection;
use rustls::pki_types::ServerName;

use super::client::{CaSource, ClientSettings, Connector};
use super::x509::{CertFacts, parse_chain};

/// Shakes hands with the server behind `stream` as a client of `name`, and returns its certificate.
///
/// # Errors
/// Those of the stream, and of a handshake that fails.
pub fn presented(stream: &mut (impl Read + Write), name: &str) -> io::Result<CertFacts> {
    let server = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
    let connector = Connector::new(ClientSettings::new(CaSource::Anyone));
    let config = connector.map_err(io::Error::other)?.config();
    let mut connection = ClientConnection::new(config, server).map_err(io::Error::other)?;
    while connection.is_handshaking() {
        let (read, _) = connection.complete_io(stream)?;
        if read == 0 && connection.is_handshaking() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    let chain = connection.peer_certificates().unwrap_or_default();
    let path = Path::new(name);
    let parsed = parse_chain(chain, path).map_err(io::Error::other)?;
    let leaf = parsed.first().ok_or(io::ErrorKind::InvalidData)?;
    let facts = CertFacts::of(leaf, path).map_err(io::Error::other)?;
    connection.send_close_notify();
    // The server may be gone already.
    let _ = connection.write_tls(stream);
    Ok(facts)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    use rustls::ServerConnection;

    use super::super::cert_files::CertFiles;
    use super::super::fixtures::{Ca, Folder};
    use super::super::policy::Policy;
    use super::super::server::{Acceptor, ServerSettings};
    use super::*;

    #[test]
    fn the_presented_certificate_is_known_by_its_key() {
        let (folder, ca) = (Folder::new(), Ca::new("ca"));
        let cert = folder.write("a.pem", ca.issue(&["a.test"]).both());
        let settings = ServerSettings {
            certs: vec![CertFiles::of(cert)],
            default: None,
            managed: Vec::new(),
            on_demand: Vec::new(),
            policy: Policy::intermediate(),
            alpn: Vec::new(),
            client_auth: None,
            tickets: None,
        };
        let (acceptor, _) = Acceptor::new(settings).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let config = acceptor.handshake().0;
        let serving = thread::spawn(move || {
            for stream in listener.incoming().take(2) {
                let mut server = ServerConnection::new(config.clone()).unwrap();
                // The second client is refused.
                let _ = server.complete_io(&mut stream.unwrap());
            }
        });
        let ask = |name| presented(&mut TcpStream::connect(address).unwrap(), name);
        let found = ask("a.test").unwrap();
        let own = acceptor.store().describe();
        assert_eq!(own[0].facts.public_key(), found.public_key());
        assert_eq!(found.names, ["a.test"]);
        assert!(ask("b.test").is_err());
        serving.join().unwrap();
    }

    #[test]
    fn a_server_without_tls_presents_no_certificate() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        server.write_all(b"220 hello\r\n").unwrap();
        assert!(presented(&mut client, "a.test").is_err());
    }
}
