//! The steps of a TXT record, with any provider: the alias is followed, the record written, waited for,
//! and removed.
//!
//! Those of address records: see `addresses`, which has the provider from here.

use std::time::Duration;

use hickory_proto::rr::Name;
use lockgate_rules::DnsProvider;
use lockgate_rules::dns_provider::{ACME_DNS, EXEC, RFC2136};
use serde::{Deserialize, Serialize};

use crate::acme_dns::AcmeDns;
use crate::error::{DnsError, shown};
use crate::exec::RecordCommand;
#[cfg(feature = "providers")]
use crate::providers::ProviderAccount;
use crate::update::{Change, UpdateServer};
use crate::visible::wait_visible;
use crate::zone::Resolvers;

/// Writes TXT records by one provider.
pub struct DnsWriter {
    pub(crate) way: Way,
    pub(crate) resolvers: Resolvers,
    propagation: Duration,
}

/// A record that was written, or that may have been.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishedRecord {
    /// The name of the record: where the aliases lead that begin with the name that was asked for.
    pub name: String,
    /// The zone that holds it.
    pub zone: String,
    /// The value, which is no secret.
    pub value: String,
}

/// The way in which records are written.
pub(crate) enum Way {
    Command(RecordCommand),
    Update(UpdateServer),
    AcmeDns(Box<AcmeDns>),
    #[cfg(feature = "providers")]
    Provider(Box<ProviderAccount>),
}

impl DnsWriter {
    /// A writer by these settings.
    ///
    /// # Errors
    /// When a parameter is missing or cannot be read.
    pub fn new(provider: &DnsProvider) -> Result<Self, DnsError> {
        let way = match provider.provider.name {
            EXEC => {
                let command = RecordCommand::new(&provider.command);
                Way::Command(command.ok_or_else(|| DnsError::Settings {
                    provider: EXEC,
                    why: "`command` is missing".to_owned(),
                })?)
            }
            RFC2136 => Way::Update(UpdateServer::new(provider)?),
            ACME_DNS => Way::AcmeDns(Box::new(AcmeDns::new(provider)?)),
            #[cfg(feature = "providers")]
            _ => Way::Provider(Box::new(ProviderAccount::new(provider)?)),
            #[cfg(not(feature = "providers"))]
            name => {
                return Err(DnsError::Settings {
                    provider: name,
                    why: "this program was built without the feature `dns-providers`".to_owned(),
                });
            }
        };
        Ok(Self {
            way,
            resolvers: Resolvers::new(&provider.resolvers),
            propagation: provider.propagation,
        })
    }

    /// Finds where the TXT record of a name goes: at most eight aliases (CNAME) are followed. Writes
    /// nothing, so that the record can be kept before [`DnsWriter::publish`].
    ///
    /// # Errors
    /// When the name is none, its aliases do not end, or no name server answers.
    pub async fn locate(&self, name: &str, value: &str) -> Result<PublishedRecord, DnsError> {
        let asked = parse(name)?;
        let target = self.resolvers.follow(&asked).await?;
        if matches!(self.way, Way::AcmeDns(_)) && target == asked {
            return Err(DnsError::NoAlias(shown(&asked)));
        }
        let zone = self.zone_of(&target).await?;
        Ok(PublishedRecord {
            name: shown(&target),
            zone: shown(&zone),
            value: value.to_owned(),
        })
    }

    /// The zone of a name: that of the settings, or the one that is found by asking.
    pub(crate) async fn zone_of(&self, name: &Name) -> Result<Name, DnsError> {
        match &self.way {
            Way::Update(UpdateServer {
                zone: Some(zone), ..
            }) => Ok(zone.clone()),
            _ => self.resolvers.zone_of(name).await,
        }
    }

    /// Writes a located record. Others of the same name stay. To do it twice does no harm.
    ///
    /// # Errors
    /// When the provider refuses or cannot be reached; the record may be there nevertheless.
    pub async fn publish(&self, record: &PublishedRecord) -> Result<(), DnsError> {
        tracing::debug!(
            name = record.name,
            zone = record.zone,
            "a TXT record is written"
        );
        self.change(Change::Add, record).await
    }

    /// Waits until every server of the zone shows the record, for at most the time of propagation.
    ///
    /// # Errors
    /// When they do not in time: the error names those that lack it.
    pub async fn wait_visible(&self, record: &PublishedRecord) -> Result<(), DnsError> {
        let (zone, name) = (parse(&record.zone)?, parse(&record.name)?);
        let limit = self.propagation;
        wait_visible(&self.resolvers, &zone, &name, &record.value, limit).await
    }

    /// Removes a record; one that is gone already is no error. acme-dns removes nothing: there the
    /// record stays until others take its place.
    ///
    /// # Errors
    /// When the provider refuses or cannot be reached.
    pub async fn remove(&self, record: &PublishedRecord) -> Result<(), DnsError> {
        tracing::debug!(
            name = record.name,
            zone = record.zone,
            "a TXT record is removed"
        );
        self.change(Change::Remove, record).await
    }

    async fn change(&self, change: Change, record: &PublishedRecord) -> Result<(), DnsError> {
        let PublishedRecord { name, zone, value } = record;
        match &self.way {
            Way::Command(command) => {
                let action = match change {
                    Change::Add => "present",
                    Change::Remove => "cleanup",
                };
                command.run(action, name, std::slice::from_ref(value)).await
            }
            Way::Update(server) => {
                server
                    .update(change, &parse(zone)?, &parse(name)?, value)
                    .await
            }
            Way::AcmeDns(server) => match change {
                Change::Add => server.update(value).await,
                Change::Remove => Ok(()),
            },
            #[cfg(feature = "providers")]
            Way::Provider(account) => {
                account
                    .update(change, &parse(zone)?, &parse(name)?, value)
                    .await
            }
        }
    }

    /// The same with servers of zones at another port.
    #[cfg(test)]
    pub(crate) fn with_zone_port(mut self, port: u16) -> Self {
        self.resolvers.zone_port = port;
        self
    }
}

/// A name with at least one label; each is one of 1 to 63 bytes (RFC 1035 §2.3.4).
pub(crate) fn parse(name: &str) -> Result<Name, DnsError> {
    let bad = || DnsError::BadName(name.to_owned());
    let labels = name.strip_suffix('.').unwrap_or(name);
    if labels.split('.').any(str::is_empty) {
        return Err(bad());
    }
    let mut parsed = Name::from_ascii(name).map_err(|_| bad())?;
    parsed.set_fqdn(true);
    Ok(parsed)
}
