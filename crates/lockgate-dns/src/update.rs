//! Dynamic updates of a zone (RFC 2136), signed with TSIG (RFC 8945).
//!
//! Adds and removes single TXT records: others of the same name stay. Of addresses it sets all that a
//! name has.

use std::net::{IpAddr, SocketAddr};
use std::time::SystemTime;

use base64ct::{Base64, Encoding as _};
use hickory_proto::op::update_message::{append, delete_by_rdata};
use hickory_proto::op::{Message, MessageType, OpCode, Query, ResponseCode, UpdateMessage as _};
use hickory_proto::rr::rdata::TXT;
use hickory_proto::rr::rdata::tsig::{TsigAlgorithm, TsigError};
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordSet, RecordType, TSigner};
use lockgate_rules::DnsProvider;
use lockgate_rules::dns_provider::RFC2136;

use crate::error::{DnsError, shown};
use crate::exchange::{exchange, random_id};
use crate::wanted::WantedAddresses;
use crate::zone::PORT;

/// The time in seconds that a record may be kept elsewhere.
const TTL: u32 = 60;
/// The seconds that the clocks may differ (RFC 8945 §10).
const FUDGE: u16 = 300;

/// A server that takes updates.
pub(crate) struct UpdateServer {
    /// A host and a port.
    host: String,
    port: u16,
    signer: TSigner,
    /// The zone, if the settings name it.
    pub(crate) zone: Option<Name>,
}

/// What an update does with a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Add,
    Remove,
}

impl UpdateServer {
    /// The server of some settings.
    ///
    /// # Errors
    /// When a parameter is missing or cannot be read.
    pub(crate) fn new(provider: &DnsProvider) -> Result<Self, DnsError> {
        let bad = |why: String| DnsError::Settings {
            provider: RFC2136,
            why,
        };
        let required = |name: &str| {
            let found = provider.parameter(name);
            found.ok_or_else(|| bad(format!("`{name}` is missing")))
        };
        let (host, port) = host_and_port(required("server")?)
            .ok_or_else(|| bad("`server` is not a host or an address".to_owned()))?;
        let key_name = Name::from_ascii(required("key")?)
            .map_err(|error| bad(format!("`key` is no name: {error}")))?;
        // The error could repeat the secret.
        let secret = Base64::decode_vec(required("secret")?.trim())
            .map_err(|_| bad("`secret` is not base64".to_owned()))?;
        let algorithm = match provider.parameter("algorithm") {
            None | Some("hmac-sha256") => TsigAlgorithm::HmacSha256,
            Some("hmac-sha384") => TsigAlgorithm::HmacSha384,
            Some("hmac-sha512") => TsigAlgorithm::HmacSha512,
            Some(other) => return Err(bad(format!("`algorithm` {other} is not known"))),
        };
        let signer = TSigner::new(secret, algorithm, key_name, FUDGE)
            .map_err(|error| bad(error.to_string()))?;
        let zone = match provider.parameter("zone") {
            Some(zone) => {
                let mut zone = Name::from_ascii(zone)
                    .map_err(|error| bad(format!("`zone` is no name: {error}")))?;
                zone.set_fqdn(true);
                Some(zone)
            }
            None => None,
        };
        Ok(Self {
            host,
            port,
            signer,
            zone,
        })
    }

    /// Adds or removes a TXT record. To do it twice does no harm.
    ///
    /// # Errors
    /// When no address of the server answers, the server refuses, or its answer is not signed.
    pub(crate) async fn update(
        &self,
        change: Change,
        zone: &Name,
        name: &Name,
        value: &str,
    ) -> Result<(), DnsError> {
        self.send_to_first(zone, name, || request(change, zone, name, value))
            .await
    }

    /// Gives a name these addresses and no others of their families, in one update. To do it twice
    /// does no harm.
    ///
    /// # Errors
    /// As [`UpdateServer::update`], and when the name is an alias.
    pub(crate) async fn set_addresses(
        &self,
        zone: &Name,
        name: &Name,
        addresses: WantedAddresses,
    ) -> Result<(), DnsError> {
        self.send_to_first(zone, name, || address_request(zone, name, addresses))
            .await
    }

    /// The addresses of the server.
    ///
    /// # Errors
    /// When its name does not resolve.
    pub(crate) async fn addresses(&self) -> std::io::Result<Vec<SocketAddr>> {
        let found = tokio::net::lookup_host((&*self.host, self.port)).await;
        Ok(found?.collect())
    }

    /// Sends a request about a name to the first address of the server that answers.
    async fn send_to_first(
        &self,
        zone: &Name,
        name: &Name,
        request: impl Fn() -> Message,
    ) -> Result<(), DnsError> {
        let server = format!("{}:{}", self.host, self.port);
        let failed = |why: String| DnsError::Update {
            server: server.clone(),
            zone: shown(zone),
            why,
        };
        if !zone.zone_of(name) {
            return Err(DnsError::OtherZone {
                name: shown(name),
                zone: shown(zone),
            });
        }
        let found = self.addresses().await;
        let addresses = found.map_err(|error| failed(error.to_string()))?;
        let mut why = "its name has no address".to_owned();
        for address in addresses {
            match self.send(address, request()).await {
                Ok(()) => return Ok(()),
                Err(SendError::Unanswered(error)) => why = error,
                Err(SendError::Refused(error)) => return Err(failed(error)),
            }
        }
        Err(failed(why))
    }

    async fn send(&self, server: SocketAddr, mut request: Message) -> Result<(), SendError> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = now.unwrap_or_default().as_secs();
        let refused = |error: &dyn ToString| SendError::Refused(error.to_string());
        let verifier = request
            .finalize(&self.signer, now)
            .map_err(|error| refused(&error))?;
        let octets = request.to_vec().map_err(|error| refused(&error))?;
        let answer = exchange(server, &request, &octets)
            .await
            .map_err(|error| SendError::Unanswered(format!("{}: {error}", server.ip())))?;
        let message = &answer.message;
        if message.response_code != ResponseCode::NoError {
            return Err(SendError::Refused(refusal(message)));
        }
        let mut verifier = verifier.ok_or_else(|| refused(&"the request is not signed"))?;
        verifier
            .verify(&answer.octets)
            .map_err(|error| SendError::Refused(format!("its answer is not signed: {error}")))?;
        Ok(())
    }
}

/// Why an update was not made at one address.
enum SendError {
    /// There was no answer: another address may give one.
    Unanswered(String),
    Refused(String),
}

fn request(change: Change, zone: &Name, name: &Name, value: &str) -> Message {
    let mut records = RecordSet::with_ttl(name.clone(), RecordType::TXT, TTL);
    records.add_rdata(RData::TXT(TXT::new(vec![value.to_owned()])));
    let mut message = match change {
        Change::Add => append(records, zone.clone(), false, false),
        Change::Remove => delete_by_rdata(records, zone.clone(), false),
    };
    message.metadata.id = random_id();
    message
}

/// One update that replaces the addresses of a name, in the families in which there is one.
fn address_request(zone: &Name, name: &Name, addresses: WantedAddresses) -> Message {
    let mut message = Message::new(random_id(), MessageType::Query, OpCode::Update);
    let mut question = Query::query(zone.clone(), RecordType::SOA);
    question.set_query_class(DNSClass::IN);
    message.add_zone(question);
    // The update fails where the name is an alias (RFC 2136 §2.4.3): the server would otherwise leave
    // the new records out, and say nothing (§3.4.2.2).
    let mut no_alias = Record::update0(name.clone(), 0, RecordType::CNAME);
    no_alias.dns_class = DNSClass::NONE;
    message.add_pre_requisite(no_alias);
    for data in addresses.records() {
        // RFC 2136 §2.5.2, then §2.5.1: they are carried out in their order.
        let mut all = Record::update0(name.clone(), 0, data.record_type());
        all.dns_class = DNSClass::ANY;
        message.add_update(all);
        message.add_update(Record::from_rdata(name.clone(), TTL, data));
    }
    message
}

/// What a server says against an update (RFC 2136 §2.2, RFC 8945 §3).
fn refusal(message: &Message) -> String {
    let tsig = message.signature.as_ref();
    let why = match tsig.and_then(|signature| signature.data.error.as_ref()) {
        Some(TsigError::BadKey) => Some("it does not know the key"),
        Some(TsigError::BadSig) => Some("the secret or the algorithm is another one there"),
        Some(TsigError::BadTime) => Some("its clock differs from ours by more than five minutes"),
        _ => match message.response_code {
            ResponseCode::Refused => Some("the key may not change this name"),
            ResponseCode::NotAuth => Some("it holds no such zone, or not for this key"),
            ResponseCode::YXRRSet => Some("the name is an alias (CNAME): remove that record"),
            ResponseCode::NotZone => Some("the name is not in this zone"),
            _ => None,
        },
    };
    let code = message.response_code;
    match why {
        Some(why) => format!("{why} ({code})"),
        None => code.to_string(),
    }
}

/// The host and port of a server.
fn host_and_port(text: &str) -> Option<(String, u16)> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Some((address.ip().to_string(), address.port()));
    }
    if let Ok(address) = text.trim_matches(['[', ']']).parse::<IpAddr>() {
        return Some((address.to_string(), PORT));
    }
    let (host, port) = match text.split_once(':') {
        Some((host, port)) => (host, port.parse().ok()?),
        None => (text, PORT),
    };
    let is_host = !host.is_empty() && Name::from_ascii(host).is_ok();
    (is_host && port != 0).then(|| (host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::host_and_port;

    #[test]
    fn the_server_of_updates_has_port_53_where_none_is_written() {
        let read = |text| host_and_port(text).map(|(host, port)| format!("{host} {port}"));
        for (text, expected) in [
            ("10.0.0.1:5353", "10.0.0.1 5353"),
            ("10.0.0.1", "10.0.0.1 53"),
            ("[::1]:5353", "::1 5353"),
            ("::1", "::1 53"),
            ("ns1.example.com", "ns1.example.com 53"),
            ("ns1.example.com:54", "ns1.example.com 54"),
        ] {
            assert_eq!(read(text).as_deref(), Some(expected));
        }
        for bad in ["", ":53", "ns1:0", "ns1:x", "a..b"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
