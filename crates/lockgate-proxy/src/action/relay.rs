//! The join of a client's connection and an endpoint's: bytes both ways, without looking at them.

use std::net::SocketAddr;

use lockgate_net::proxy_protocol::{self, ProxiedAddresses, Ssl, Tlvs};
use lockgate_net::relay::{Relay, RelayEnd, RelayPreface};
use lockgate_net::socket::Socket;
use lockgate_net::tls::handshake::Negotiated;
use lockgate_net::tls::session::{SessionError, TlsSession};
use lockgate_rules::ProxyVersion;
use lockgate_upstream::{Dialled, EndpointPermit};

/// A client's connection, ready to be relayed.
#[derive(Debug)]
pub struct ClientTransport {
    /// The client's socket.
    pub socket: Socket,
    /// The client's TLS, if it has any.
    pub session: Option<Box<TlsSession>>,
    /// Bytes that were read already.
    pub received: Vec<u8>,
    /// Bytes that are sent to the client before all others, as they go over the wire.
    pub unsent: Vec<u8>,
}

/// The contents of the PROXY header that tells an endpoint of a client.
#[derive(Debug)]
pub struct ClientProxyHeader<'a> {
    /// In which form.
    pub version: ProxyVersion,
    /// The client's address and the one it connected to, if they are known.
    pub addresses: Option<(SocketAddr, SocketAddr)>,
    /// The name it asked for.
    pub server_name: Option<&'a str>,
    /// The client's negotiated TLS.
    pub negotiated: Option<&'a Negotiated>,
}

/// Joins a client's connection to one to an endpoint, which was sent `proxy_header` already if it
/// has TLS.
///
/// # Errors
/// When the endpoint's TLS cannot be used.
pub fn join(
    client: ClientTransport,
    dialled: Dialled,
    proxy_header: Vec<u8>,
) -> Result<(Relay, EndpointPermit), SessionError> {
    let mut preface = RelayPreface {
        upstream: proxy_header,
        downstream: client.unsent,
    };
    let up = match dialled.session {
        None => RelayEnd::plain(dialled.socket),
        Some(session) => {
            // The header went before the endpoint's TLS, as every peer sends and expects it.
            preface.upstream.clear();
            RelayEnd::tls(dialled.socket, session)
        }
    };
    preface.upstream.extend_from_slice(&client.received);
    let down = match client.session {
        None => RelayEnd::plain(client.socket),
        Some(session) => RelayEnd::tls(client.socket, session),
    };
    Ok((Relay::new(down, up, preface)?, dialled.permit))
}

impl ClientProxyHeader<'_> {
    /// Appends the header.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let addresses = match self.addresses {
            Some((source, destination)) => ProxiedAddresses::of(Some(source), Some(destination)),
            None => ProxiedAddresses::Unknown,
        };
        match self.version {
            ProxyVersion::V1 => proxy_protocol::encode_v1(out, &addresses),
            ProxyVersion::V2 => proxy_protocol::encode_v2(out, &addresses, &self.tlvs()),
        }
    }

    fn tlvs(&self) -> Tlvs<'_> {
        let authority = self.server_name.map(Into::into);
        // A name without what was agreed on: its TLS was passed through.
        let Some(negotiated) = self.negotiated else {
            return Tlvs {
                authority,
                ..Tlvs::default()
            };
        };
        let verified = negotiated.peer_verified;
        let client = match (verified, negotiated.resumed) {
            (false, _) => Ssl::OVER_TLS,
            (true, true) => Ssl::OVER_TLS | Ssl::CERTIFICATE_IN_SESSION,
            (true, false) => Ssl::OVER_TLS | Ssl::CERTIFICATE_NOW | Ssl::CERTIFICATE_IN_SESSION,
        };
        Tlvs {
            alpn: negotiated.alpn.as_deref().map(Into::into),
            authority,
            ssl: Some(Ssl {
                client,
                verify: u32::from(!verified),
                version: Some(negotiated.version.into()),
                common_name: negotiated.peer_name.as_deref().map(Into::into),
                cipher: Some(negotiated.cipher.into()),
            }),
        }
    }
}
