//! Why the router's address on the internet is not known.

use std::fmt;
use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use lockgate_client::ClientError;

use super::device_url::UrlFault;
use super::xml::XmlError;

/// Why the router's address on the internet is not known, and what would help.
#[derive(Debug, thiserror::Error)]
pub enum RouterError {
    /// The kernel's route table cannot be read.
    #[error("cannot read /proc/net/route, which tells the router: {0}")]
    RouteTable(#[source] io::Error),
    /// There is no default route for IPv4.
    #[error("there is no default route for IPv4: no router is known that could be asked")]
    NoDefaultRoute,
    /// The default route leads into a line without a gateway.
    #[error(
        "the default route leads into {interface} without a gateway: there is no router to ask, and \
         the address is that of {interface}"
    )]
    NoGateway {
        /// The interface.
        interface: String,
    },
    /// The default gateway is no home router.
    #[error(
        "the default gateway {0} has a public address: it is not a home router that is asked for \
         one, and this machine has its own address"
    )]
    PublicGateway(Ipv4Addr),
    /// The router's address is not one of the internet: RFC 1918, or a carrier's NAT (RFC 6598).
    #[error(
        "the router's own address is private ({address}): it is behind another NAT, and clients \
         from outside cannot reach it; ask the provider for a public address, or set the outer \
         router to bridge mode"
    )]
    BehindNat {
        /// The router's address.
        address: Ipv4Addr,
        /// The protocol by which the router told it.
        protocol: RouterProtocol,
    },
    /// The router tells no address by any protocol.
    #[error("the router {gateway} does not tell its address:{}; {}", list(.failures), cure(.failures))]
    NotTold {
        /// The router's address in this network.
        gateway: Ipv4Addr,
        /// Each protocol with what came of it, in the order in which they were tried.
        failures: Vec<(RouterProtocol, ProtocolFailure)>,
    },
}

impl RouterError {
    /// Whether the router has said nothing of its address by any protocol, not even that it has none. It
    /// may have been switched off, or have none of the protocols.
    pub(crate) fn is_silence(&self) -> bool {
        match self {
            Self::NotTold { failures, .. } => !has_answer(failures),
            _ => false,
        }
    }
}

fn list(failures: &[(RouterProtocol, ProtocolFailure)]) -> String {
    let parts: Vec<_> = failures
        .iter()
        .map(|(protocol, failure)| format!(" by {protocol}: {failure}"))
        .collect();
    parts.join(",")
}

fn cure(failures: &[(RouterProtocol, ProtocolFailure)]) -> &'static str {
    match has_answer(failures) {
        true => "its settings show whether it is connected, and whether that is behind another NAT",
        false => "switch on UPnP, NAT-PMP or PCP in its settings",
    }
}

fn has_answer(failures: &[(RouterProtocol, ProtocolFailure)]) -> bool {
    failures.iter().any(|(_, failure)| failure.is_answer())
}

/// A protocol by which a router tells its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouterProtocol {
    /// NAT Port Mapping Protocol (RFC 6886).
    NatPmp,
    /// Port Control Protocol (RFC 6887).
    Pcp,
    /// Universal Plug and Play, Internet Gateway Device.
    Upnp,
}

impl fmt::Display for RouterProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NatPmp => "NAT-PMP",
            Self::Pcp => "PCP",
            Self::Upnp => "UPnP",
        })
    }
}

/// Why one protocol did not tell the address.
#[derive(Debug, thiserror::Error)]
pub enum ProtocolFailure {
    /// The time of the whole inquiry was up before.
    #[error("it was not asked, since the time was up")]
    NotAsked,
    /// The request cannot be sent.
    #[error("the request cannot be sent: {0}")]
    Unsent(#[source] io::Error),
    /// The router has no such service: it refuses datagrams for the port.
    #[error("its port {0} for UDP is closed")]
    Closed(u16),
    /// No answer in time. Its text has whole seconds: a reason that differs is told anew.
    #[error("no answer within {:.0} s", .0.as_secs_f32())]
    Silent(Duration),
    /// An answer with an error.
    #[error("it answers with {0}")]
    Refused(String),
    /// The address is one that the Internet reaches no machine at.
    #[error(
        "it answers with {address}, which is {what}: its line may be down, or have no IPv4 address of \
         its own"
    )]
    Unusable {
        /// The address.
        address: Ipv4Addr,
        /// What kind of address that is.
        what: &'static str,
    },
    /// A step of UPnP failed.
    #[error(transparent)]
    Upnp(#[from] UpnpFailure),
}

impl ProtocolFailure {
    /// Whether the router has the protocol, and has answered the question itself.
    fn is_answer(&self) -> bool {
        match self {
            Self::NotAsked | Self::Unsent(_) | Self::Closed(_) | Self::Silent(_) => false,
            Self::Refused(_) | Self::Unusable { .. } => true,
            Self::Upnp(failure) => matches!(
                failure,
                UpnpFailure::Fault { .. }
                    | UpnpFailure::Empty { .. }
                    | UpnpFailure::NoAddress { .. }
            ),
        }
    }
}

/// Why UPnP did not tell the address. The texts of the router in it are bounded.
#[derive(Debug, thiserror::Error)]
pub enum UpnpFailure {
    /// The gateway has not answered a search.
    #[error(
        "it does not answer a search (SSDP) within {:.0} s; a firewall of this machine may drop the \
         answer",
        .0.as_secs_f32()
    )]
    NotFound(Duration),
    /// The description of the device, or its control, is said to be where it is not looked for.
    #[error("it names the URL `{url}`, which is not used: {fault}")]
    Url {
        /// The URL, cut.
        url: String,
        /// What is wrong with it.
        fault: UrlFault,
    },
    /// An exchange over HTTP failed.
    #[error("{url}: {error}")]
    Http {
        /// The URL.
        url: String,
        /// The reason.
        error: ClientError,
    },
    /// A response with another status than expected.
    #[error("{url}: status {status}")]
    Status {
        /// The URL.
        url: String,
        /// The status.
        status: u16,
    },
    /// A body exceeds its limit.
    #[error("{url}: more than {limit} bytes")]
    TooLong {
        /// The URL.
        url: String,
        /// The limit in bytes.
        limit: usize,
    },
    /// A body is no XML that is read.
    #[error("{url}: {error}")]
    Xml {
        /// The URL.
        url: String,
        /// The reason.
        error: XmlError,
    },
    /// The description has no service that knows the address.
    #[error("{url}: it describes no WANIPConnection and no WANPPPConnection")]
    NoService {
        /// The URL of the description.
        url: String,
    },
    /// The service answers with an error (UPnP Device Architecture 1.1 §3.2.2).
    #[error("{url}: the answer is an error: {text}")]
    Fault {
        /// The URL of the control.
        url: String,
        /// Its number and description, cut.
        text: String,
    },
    /// The device has no address itself (WANIPConnection:2 §2.3.13), or it is a private one.
    #[error("{url}: the answer holds no address: its line is down, or it is behind another NAT")]
    Empty {
        /// The URL of the control.
        url: String,
    },
    /// The answer holds something else instead of an address.
    #[error("{url}: the answer holds `{text}` instead of an address")]
    NoAddress {
        /// The URL of the control.
        url: String,
        /// What stands in place of the address, cut.
        text: String,
    },
    /// The answer is not one to the question.
    #[error("{url}: the answer is to another question")]
    OtherAnswer {
        /// The URL of the control.
        url: String,
    },
}

/// The longest text of a router in an error, in characters.
const LONGEST_TEXT: usize = 200;

/// A text of a router on one line, cut to [`LONGEST_TEXT`], without control characters.
pub(super) fn bounded(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    let line = words.join(" ");
    let mut shown: String = line
        .chars()
        .filter(|c| !c.is_control())
        .take(LONGEST_TEXT)
        .collect();
    if line.chars().nth(LONGEST_TEXT).is_some() {
        shown.push('…');
    }
    shown
}
