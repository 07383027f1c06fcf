//! The steps of address records, with any provider: what the zone shows of a name is read, and its
//! addresses are set.

use std::time::Duration;

use lockgate_rules::DnsProvider;
use lockgate_rules::dns_provider::{ACME_DNS, DUCKDNS};
use tokio::time::timeout;

use crate::duckdns::DuckDns;
use crate::error::{DnsError, shown};
use crate::held::HeldAddresses;
use crate::wanted::WantedAddresses;
use crate::writer::{DnsWriter, Way, parse};
use crate::zone::ZoneServer;

/// The time in which the servers of a zone are asked for the addresses of a name.
const READ_TIME: Duration = Duration::from_secs(60);

/// What the servers of a zone show of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressReading {
    /// The zone.
    pub zone: String,
    /// The wanted addresses that none of them shows as the only one of its family; `None` if none of
    /// them answers.
    pub lacking: Option<WantedAddresses>,
}

/// Reads and sets the addresses of names by one provider.
pub struct AddressWriter {
    writer: DnsWriter,
    /// The account at DuckDNS, where the call that sets an address is another one.
    duckdns: Option<DuckDns>,
}

impl AddressWriter {
    /// A writer by these settings.
    ///
    /// # Errors
    /// When a parameter is missing or cannot be read, or the provider sets no addresses.
    pub fn new(provider: &DnsProvider) -> Result<Self, DnsError> {
        let known = provider.provider;
        if !known.sets_addresses() {
            return Err(DnsError::NoAddresses(known.name));
        }
        Ok(Self {
            writer: DnsWriter::new(provider)?,
            duckdns: match known.name {
                DUCKDNS => Some(DuckDns::new(provider)?),
                _ => None,
            },
        })
    }

    /// What the servers of the zone show of a name; one that answers and shows all that is wanted is
    /// enough. For `rfc2136` the server that takes the updates is asked first: it knows of a change
    /// before the others do.
    ///
    /// # Errors
    /// When the name is none or an alias, or no name server tells its zone.
    pub async fn read_addresses(
        &self,
        name: &str,
        wanted: WantedAddresses,
    ) -> Result<AddressReading, DnsError> {
        let name = parse(name)?;
        let zone = self.writer.zone_of(&name).await?;
        let mut held = HeldAddresses::new(name, wanted);
        let asked = timeout(READ_TIME, async {
            if let Way::Update(server) = &self.writer.way {
                let addresses = server.addresses().await.unwrap_or_default();
                let primary = ZoneServer {
                    name: String::new(),
                    addresses,
                };
                held.ask(&[primary]).await?;
                if held.has_answer() {
                    return Ok(());
                }
            }
            let servers = self.writer.resolvers.servers_of(&zone).await;
            match servers {
                Ok(servers) => held.ask(&servers).await,
                // The zone is there; only its servers are not to be found.
                Err(DnsError::NoZone(_) | DnsError::Unanswered { .. }) => Ok(()),
                Err(error) => Err(error),
            }
        });
        match asked.await {
            Ok(asked) => asked?,
            Err(_) => tracing::debug!(zone = shown(&zone), "servers of the zone answer slowly"),
        }
        Ok(AddressReading {
            zone: shown(&zone),
            lacking: held.lacking(),
        })
    }

    /// Gives a name of a zone the addresses of `change`, and no others of their families. `wanted` are
    /// all that it is to have: a command gets these. To do it twice does no harm.
    ///
    /// # Errors
    /// When the provider refuses or cannot be reached; the records may be changed nevertheless.
    pub async fn set_addresses(
        &self,
        zone: &str,
        name: &str,
        wanted: WantedAddresses,
        change: WantedAddresses,
    ) -> Result<(), DnsError> {
        if let Some(account) = &self.duckdns {
            return account.set_addresses(name, change).await;
        }
        match &self.writer.way {
            Way::Command(command) => command.run("address", name, &wanted.texts()).await,
            Way::Update(server) => {
                server
                    .set_addresses(&parse(zone)?, &parse(name)?, change)
                    .await
            }
            Way::AcmeDns(_) => Err(DnsError::NoAddresses(ACME_DNS)),
            #[cfg(feature = "providers")]
            Way::Provider(account) => {
                account
                    .set_addresses(&parse(zone)?, &parse(name)?, change)
                    .await
            }
        }
    }

    /// The same with servers of zones at another port.
    #[cfg(test)]
    pub(crate) fn with_zone_port(mut self, port: u16) -> Self {
        self.writer = self.writer.with_zone_port(port);
        self
    }

    /// The same with an account at this server.
    #[cfg(test)]
    pub(crate) fn with_duckdns(mut self, account: DuckDns) -> Self {
        self.duckdns = Some(account);
        self
    }
}
