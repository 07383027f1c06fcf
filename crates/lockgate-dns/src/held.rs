//! The addresses that servers of a zone show of a name, compared with those that are wanted.
//!
//! Asks the servers themselves, since what resolvers keep may be old.

use std::net::{IpAddr, SocketAddr};

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::{Name, RData, RecordType};

use crate::error::{DnsError, shown};
use crate::exchange::ask;
use crate::wanted::WantedAddresses;
use crate::zone::{ZoneServer, random_sibling};

/// What servers have shown so far.
pub(crate) struct HeldAddresses {
    name: Name,
    wanted: WantedAddresses,
    /// The wanted addresses that a server has shown.
    shown: WantedAddresses,
    answered: bool,
}

impl HeldAddresses {
    /// Nothing has been asked so far.
    pub(crate) fn new(name: Name, wanted: WantedAddresses) -> Self {
        Self {
            name,
            wanted,
            shown: WantedAddresses::default(),
            answered: false,
        }
    }

    /// Whether a server has answered from the zone.
    pub(crate) fn has_answer(&self) -> bool {
        self.answered
    }

    /// The wanted addresses that no server has shown; `None` if none has answered.
    pub(crate) fn lacking(&self) -> Option<WantedAddresses> {
        self.answered.then(|| self.wanted.without(self.shown))
    }

    /// Asks servers, one after the other, until all that is wanted was shown.
    ///
    /// # Errors
    /// When the name is an alias.
    pub(crate) async fn ask(&mut self, servers: &[ZoneServer]) -> Result<(), DnsError> {
        for server in servers {
            for address in &server.addresses {
                if self.ask_at(*address).await? {
                    break;
                }
            }
            if self.answered && self.wanted.without(self.shown).is_empty() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Asks at one address; whether there was an answer from the zone for each family. One for a single
    /// family counts as none: of the other one nothing would be known, and it would be set in vain.
    async fn ask_at(&mut self, server: SocketAddr) -> Result<bool, DnsError> {
        let mut shown_here = self.shown;
        let kinds = [
            (RecordType::A, self.wanted.ipv4.map(IpAddr::V4)),
            (RecordType::AAAA, self.wanted.ipv6.map(IpAddr::V6)),
        ];
        for (kind, wanted) in kinds {
            let Some(wanted) = wanted else {
                continue;
            };
            let Some(answer) = self.answer(server, &self.name, kind).await else {
                return Ok(false);
            };
            if let Some(target) = alias(&answer, &self.name)
                && !self.is_of_wildcard(server, &target).await
            {
                return Err(DnsError::Alias {
                    name: shown(&self.name),
                    target: shown(&target),
                });
            }
            let mut addresses = answer.answers.iter().filter_map(|record| {
                let address = match &record.data {
                    RData::A(address) => IpAddr::V4(address.0),
                    RData::AAAA(address) => IpAddr::V6(address.0),
                    _ => return None,
                };
                (record.name == self.name).then_some(address)
            });
            if addresses.next() == Some(wanted) && addresses.next().is_none() {
                match wanted {
                    IpAddr::V4(address) => shown_here.ipv4 = Some(address),
                    IpAddr::V6(address) => shown_here.ipv6 = Some(address),
                }
            }
        }
        (self.shown, self.answered) = (shown_here, true);
        Ok(true)
    }

    /// The answer of a server that holds the zone; none of one that does not.
    async fn answer(&self, server: SocketAddr, name: &Name, kind: RecordType) -> Option<Message> {
        let answer = ask(server, name, kind, false).await.ok()?;
        let is_told = matches!(
            answer.response_code,
            ResponseCode::NoError | ResponseCode::NXDomain
        );
        // One without the bit AA is of a cache on the way, or of a server that knows nothing of the
        // zone (RFC 1035 §4.1.1).
        (is_told && answer.authoritative).then_some(answer)
    }

    /// Whether a random name beside this one has the same alias: then it is that of a wildcard
    /// (RFC 4592), and ends with the first record of the name's own.
    async fn is_of_wildcard(&self, server: SocketAddr, target: &Name) -> bool {
        // A wildcard's own alias is no other's.
        let other = random_sibling(&self.name).filter(|_| !self.name.is_wildcard());
        let Some(other) = other else {
            return false;
        };
        let answer = self.answer(server, &other, RecordType::CNAME).await;
        answer.and_then(|answer| alias(&answer, &other)).as_ref() == Some(target)
    }
}

/// The name that `name` is an alias of.
fn alias(answer: &Message, name: &Name) -> Option<Name> {
    let mut records = answer.answers.iter();
    records.find_map(|record| match &record.data {
        RData::CNAME(target) if record.name == *name => Some(target.0.clone()),
        _ => None,
    })
}
