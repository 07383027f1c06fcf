//! Where the record of a name is: the aliases from it (RFC 1034 §3.6.2), the zone, and the servers
//! of that zone.
//!
//! Asks the name servers of the system, or those of the settings. Writes nothing.

use std::borrow::Cow;
use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::{Name, RData, RecordType};

use crate::error::{DnsError, shown};
use crate::exchange::{ask, random_id};

/// The port of name servers (RFC 1035 §4.2).
pub(crate) const PORT: u16 = 53;
/// Aliases that are followed, one after the other.
const ALIASES: usize = 8;
/// The most servers of a zone that are asked.
const SERVERS: usize = 32;
/// The most addresses of a server that are asked.
const ADDRESSES: usize = 4;
/// The most name servers of the system that are asked (resolv.conf(5)).
const SYSTEM_SERVERS: usize = 3;

/// The name servers that are asked for what others know.
#[derive(Debug)]
pub(crate) struct Resolvers {
    /// Those of the settings; none takes those of the system.
    written: Vec<SocketAddr>,
    /// The file that names those of the system.
    system: PathBuf,
    /// The port of the servers of zones.
    pub(crate) zone_port: u16,
}

/// A server of a zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ZoneServer {
    /// Its name.
    pub(crate) name: String,
    /// Its addresses; none where it has none.
    pub(crate) addresses: Vec<SocketAddr>,
}

impl Resolvers {
    /// These servers, or those of the system if there are none.
    pub(crate) fn new(written: &[SocketAddr]) -> Self {
        Self {
            written: written.to_vec(),
            system: "/etc/resolv.conf".into(),
            zone_port: PORT,
        }
    }

    /// The servers that are asked now. The file is read each time: at the start of a machine the network
    /// may not have written it yet, and in another network it names others.
    fn servers(&self) -> Cow<'_, [SocketAddr]> {
        match &*self.written {
            [] => {
                let text = std::fs::read_to_string(&self.system);
                system_servers(&text.unwrap_or_default()).into()
            }
            written => written.into(),
        }
    }

    /// The name at the end of the aliases that begin with a name; the name itself if it is none.
    ///
    /// An alias that the name has only by a wildcard (RFC 4592) is not meant for the record, and is
    /// not followed: the record makes the name exist, and the wildcard is then no longer for it.
    ///
    /// # Errors
    /// When the aliases do not end, or no server answers.
    pub(crate) async fn follow(&self, name: &Name) -> Result<Name, DnsError> {
        let (asked, mut name, mut seen) = (name, name.clone(), HashSet::new());
        for _ in 0..=ALIASES {
            if !seen.insert(name.to_lowercase()) {
                return Err(DnsError::AliasLoop(shown(&name)));
            }
            match self.alias_of(&name).await? {
                Some(alias) if name == *asked && self.is_of_wildcard(&name, &alias).await? => {
                    return Ok(name);
                }
                Some(alias) => name = alias,
                None => return Ok(name),
            }
        }
        Err(DnsError::TooManyAliases(ALIASES))
    }

    async fn alias_of(&self, name: &Name) -> Result<Option<Name>, DnsError> {
        let answer = self.ask(name, RecordType::CNAME).await?;
        let mut records = answer.answers.iter();
        Ok(records.find_map(|record| match &record.data {
            RData::CNAME(alias) if record.name == *name => Some(alias.0.clone()),
            _ => None,
        }))
    }

    /// Whether a random name beside this one, which does not exist, has the same alias.
    async fn is_of_wildcard(&self, name: &Name, alias: &Name) -> Result<bool, DnsError> {
        match random_sibling(name) {
            Some(other) => Ok(self.alias_of(&other).await?.as_ref() == Some(alias)),
            None => Ok(false),
        }
    }

    /// The zone that holds a name: the nearest name upwards with a record SOA.
    ///
    /// # Errors
    /// When there is none, or no server answers.
    pub(crate) async fn zone_of(&self, name: &Name) -> Result<Name, DnsError> {
        let mut candidate = name.clone();
        while !candidate.is_root() {
            let answer = self.ask(&candidate, RecordType::SOA).await?;
            let owns = |record: &&hickory_proto::rr::Record| {
                matches!(record.data, RData::SOA(_)) && record.name == candidate
            };
            if answer.answers.iter().any(|record| owns(&record)) {
                return Ok(candidate);
            }
            candidate = candidate.base_name();
        }
        Err(DnsError::NoZone(shown(name)))
    }

    /// The servers of a zone, with their addresses.
    ///
    /// # Errors
    /// When there is none, or no server answers.
    pub(crate) async fn servers_of(&self, zone: &Name) -> Result<Vec<ZoneServer>, DnsError> {
        let answer = self.ask(zone, RecordType::NS).await?;
        let records = answer.answers.iter();
        let names = records.filter_map(|record| match &record.data {
            RData::NS(server) if record.name == *zone => Some(server.0.clone()),
            _ => None,
        });
        let mut servers = Vec::new();
        for name in names.take(SERVERS) {
            servers.push(ZoneServer {
                addresses: self.addresses_of(&name).await,
                name: shown(&name),
            });
        }
        match servers.is_empty() {
            true => Err(DnsError::NoZone(shown(zone))),
            false => Ok(servers),
        }
    }

    /// The addresses of a host; none if no server tells them.
    async fn addresses_of(&self, host: &Name) -> Vec<SocketAddr> {
        let mut found = Vec::new();
        for kind in [RecordType::A, RecordType::AAAA] {
            let Ok(answer) = self.ask(host, kind).await else {
                continue;
            };
            let addresses = answer
                .answers
                .iter()
                .filter_map(|record| match record.data {
                    RData::A(address) => Some(IpAddr::V4(address.0)),
                    RData::AAAA(address) => Some(IpAddr::V6(address.0)),
                    _ => None,
                });
            found.extend(
                addresses
                    .map(|address| SocketAddr::new(address, self.zone_port))
                    .take(ADDRESSES),
            );
        }
        found
    }

    /// Asks one server after the other until one knows the answer, also that there is no record.
    async fn ask(&self, name: &Name, kind: RecordType) -> Result<Message, DnsError> {
        let mut reasons = Vec::new();
        for server in self.servers().iter() {
            let why = match ask(*server, name, kind, true).await {
                Ok(answer) => match answer.response_code {
                    ResponseCode::NoError | ResponseCode::NXDomain => return Ok(answer),
                    code => code.to_string(),
                },
                Err(error) => error.to_string(),
            };
            reasons.push(format!("{server}: {why}"));
        }
        Err(DnsError::Unanswered {
            question: format!("{} {kind}", shown(name)),
            why: reasons.join("; "),
        })
    }
}

/// A random name beside this one, which does not exist; none where it would be too long, so that this
/// one is hardly shorter and has labels of its own.
pub(crate) fn random_sibling(name: &Name) -> Option<Name> {
    let label = format!("_lockgate-{:04x}{:04x}", random_id(), random_id());
    name.base_name().prepend_label(label).ok()
}

/// The name servers of a resolv.conf(5); this machine if it names none.
fn system_servers(text: &str) -> Vec<SocketAddr> {
    let server = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let is_server = words.next() == Some("nameserver");
        // A scope of IPv6 behind `%` is left out: such a server is on the link.
        let address: IpAddr = words.next().filter(|_| is_server)?.parse().ok()?;
        Some(SocketAddr::new(address, PORT))
    };
    let mut servers: Vec<_> = text
        .lines()
        .filter_map(server)
        .take(SYSTEM_SERVERS)
        .collect();
    if servers.is_empty() {
        servers.push((Ipv4Addr::LOCALHOST, PORT).into());
    }
    servers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_servers_of_the_system_are_read_from_resolv_conf() {
        let text = "# nameserver 192.0.2.9\nsearch lan\nnameserver 192.0.2.1\nnameserver ::1 # x\n\
                    nameserver\nnameserver x\nnameserver 192.0.2.3\nnameserver 192.0.2.4\n";
        let shown: Vec<_> = system_servers(text)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(shown, ["192.0.2.1:53", "[::1]:53", "192.0.2.3:53"]);
        assert_eq!(system_servers("").len(), 1);
    }

    #[test]
    fn name_servers_of_the_system_may_come_after_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let resolvers = Resolvers {
            system: folder.path().join("resolv.conf"),
            ..Resolvers::new(&[])
        };
        let shown = || resolvers.servers()[0].to_string();
        assert_eq!(shown(), "127.0.0.1:53");
        for address in ["192.0.2.1", "192.0.2.2"] {
            std::fs::write(&resolvers.system, format!("nameserver {address}\n")).unwrap();
            assert_eq!(shown(), format!("{address}:53"));
        }
        let written = Resolvers::new(&[([192, 0, 2, 9], 5353).into()]);
        assert_eq!(written.servers()[0].to_string(), "192.0.2.9:5353");
    }
}
