//! The inquiry: the protocols one after the other, the least intrusive first, within one deadline.

use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use tokio::time::Instant;

use crate::publishable::{AddressRefusal, refusal};

use super::control_socket::{ControlSocket, Retransmission};
use super::error::{ProtocolFailure, RouterError, RouterProtocol};
use super::gateway;
use super::nat_pmp;
use super::pcp::PcpMapping;
use super::ssdp;
use super::upnp::UpnpGateway;

/// The IPv4 address that the home router of this machine has on the internet.
///
/// Takes 10 s at most. Opens and closes sockets of its own, and reads the route table without
/// waiting. Its future stays on its thread: it is for a runtime of one, or a local task.
///
/// # Errors
/// When there is no router, it does not tell its address, or it is itself behind a NAT.
pub async fn external_ipv4() -> Result<Ipv4Addr, RouterError> {
    let answer = RouterInquiry::of_this_machine()?.ask().await?;
    Ok(answer.address)
}

/// A router, and how it is asked.
///
/// NAT-PMP comes first, since its request changes nothing at the router (RFC 6886 §3.2). Then PCP:
/// it tells the address only with a mapping of a port, so one is made for a few seconds and ended at
/// once (RFC 6887 §11, §15). Then UPnP, which takes a search of the network and two exchanges over
/// HTTP. Only the router itself is believed: any machine of the network could answer otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouterInquiry {
    /// The router's address in this network; requests of NAT-PMP and PCP go there, and answers of
    /// others are passed over.
    pub gateway: Ipv4Addr,
    /// The router's port for NAT-PMP and PCP.
    pub control_port: u16,
    /// The address that a search for devices of UPnP is sent to.
    pub search: SocketAddrV4,
    /// The wait for an answer to the first of three requests; each further one is twice as long.
    pub first_wait: Duration,
    /// The wait for an answer to each of two searches.
    pub search_wait: Duration,
    /// The time for everything.
    pub time: Duration,
}

/// What a router told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouterAnswer {
    /// Its address on the internet.
    pub address: Ipv4Addr,
    /// The protocol by which it told it.
    pub protocol: RouterProtocol,
}

/// The port of NAT-PMP and PCP (RFC 6886 §3.1, RFC 6887 §19.1).
const CONTROL_PORT: u16 = 5351;
/// The first wait for an answer (RFC 6886 §3.1). RFC 6887 §8.1.1 has 3 s, for mappings that are to be
/// there for long.
const FIRST_WAIT: Duration = Duration::from_millis(250);
/// A second for the device, which may wait so long, and a half for the network.
const SEARCH_WAIT: Duration = Duration::from_millis(1500);
const TIME: Duration = Duration::from_secs(10);

/// The seconds of a mapping, in case its end is lost: more than its requests take. The router may
/// have a longer minimum (RFC 6887 §15).
const LIFETIME: u32 = 10;

impl RouterInquiry {
    /// Asks the default gateway of this machine.
    ///
    /// # Errors
    /// When there is none, or its address is public: then it is not a home router.
    pub fn of_this_machine() -> Result<Self, RouterError> {
        Self::of_gateway(gateway::default_gateway()?)
    }

    fn of_gateway(gateway: Ipv4Addr) -> Result<Self, RouterError> {
        match refusal(IpAddr::V4(gateway)) {
            Some(_) => Ok(Self::at(gateway)),
            None => Err(RouterError::PublicGateway(gateway)),
        }
    }

    /// Asks a router with the ports and times of the protocols.
    pub fn at(gateway: Ipv4Addr) -> Self {
        Self {
            gateway,
            control_port: CONTROL_PORT,
            search: ssdp::MULTICAST,
            first_wait: FIRST_WAIT,
            search_wait: SEARCH_WAIT,
            time: TIME,
        }
    }

    /// Asks the router by one protocol after the other, until it tells an address.
    ///
    /// # Errors
    /// When it tells none, or a private one.
    pub async fn ask(&self) -> Result<RouterAnswer, RouterError> {
        let end = Instant::now() + self.time;
        let mut failures = Vec::new();
        for protocol in [
            RouterProtocol::NatPmp,
            RouterProtocol::Pcp,
            RouterProtocol::Upnp,
        ] {
            let failure = match self.ask_by(protocol, end).await {
                Ok(address) => match refusal(IpAddr::V4(address)) {
                    None => return Ok(RouterAnswer { address, protocol }),
                    Some(AddressRefusal::Private(_)) => {
                        return Err(RouterError::BehindNat { address, protocol });
                    }
                    Some(AddressRefusal::Reserved(what)) => {
                        ProtocolFailure::Unusable { address, what }
                    }
                },
                Err(failure) => failure,
            };
            tracing::debug!(router = %self.gateway, %protocol, %failure, "the router tells no address");
            failures.push((protocol, failure));
        }
        Err(RouterError::NotTold {
            gateway: self.gateway,
            failures,
        })
    }

    async fn ask_by(
        &self,
        protocol: RouterProtocol,
        end: Instant,
    ) -> Result<Ipv4Addr, ProtocolFailure> {
        let control = SocketAddrV4::new(self.gateway, self.control_port);
        let socket = ControlSocket::connect(control).await?;
        let retransmission = Retransmission {
            first_wait: self.first_wait,
            end,
        };
        match protocol {
            RouterProtocol::NatPmp => ask_by_nat_pmp(&socket, retransmission).await,
            RouterProtocol::Pcp => ask_by_pcp(&socket, retransmission).await,
            RouterProtocol::Upnp => {
                let gateway = UpnpGateway {
                    gateway: self.gateway,
                    own: *socket.own().ip(),
                    search: self.search,
                    search_wait: self.search_wait,
                    end,
                };
                gateway.ask().await
            }
        }
    }
}

async fn ask_by_nat_pmp(
    socket: &ControlSocket,
    retransmission: Retransmission,
) -> Result<Ipv4Addr, ProtocolFailure> {
    let answer = socket.exchange(&nat_pmp::REQUEST, retransmission, nat_pmp::parse_answer);
    let refused = |refusal: nat_pmp::NatPmpRefusal| ProtocolFailure::Refused(refusal.to_string());
    answer.await?.map_err(refused)
}

async fn ask_by_pcp(
    socket: &ControlSocket,
    retransmission: Retransmission,
) -> Result<Ipv4Addr, ProtocolFailure> {
    let mut nonce = [0; 12];
    aws_lc_rs::rand::fill(&mut nonce).expect("the system gives random numbers");
    let mapping = PcpMapping {
        client: socket.own(),
        nonce,
    };
    let parse = |octets: &[u8]| mapping.parse_answer(octets);
    let answer = socket
        .exchange(&mapping.encode(LIFETIME), retransmission, parse)
        .await;
    match &answer {
        Ok(Ok(_)) => {
            let parse = |octets: &[u8]| mapping.parse_end(octets);
            let request = mapping.encode(0);
            let ended = socket.exchange(&request, retransmission, parse).await;
            if !matches!(ended, Ok(Ok(()))) {
                tracing::debug!("the router does not confirm the end of the mapping: it expires");
            }
        }
        // Its answer may be lost, and the mapping be there.
        Err(ProtocolFailure::Silent(_)) => socket.send_once(&mapping.encode(0)),
        _ => {}
    }
    answer?.map_err(|refusal| ProtocolFailure::Refused(refusal.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_gateway_with_a_public_address_is_not_asked() {
        for (gateway, is_asked) in [
            ("192.168.1.1", true),
            ("10.0.0.138", true),
            ("100.64.0.1", true),
            // Networks of one's own, although they should not have these addresses.
            ("192.0.2.1", true),
            ("198.18.0.1", true),
            ("8.8.4.4", false),
        ] {
            let inquiry = RouterInquiry::of_gateway(gateway.parse().unwrap());
            assert_eq!(inquiry.is_ok(), is_asked, "{gateway}");
        }
    }
}
