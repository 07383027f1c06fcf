//! Waits until this machine is in another network: its addresses or the default route are other ones.
//!
//! The kernel also tells of addresses that are merely confirmed, as often as a router announces itself,
//! and of those of containers' links that come and go. Sources on the network must not be asked each time.

use std::future::pending;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use lockgate_net::interface_addresses::{InterfaceAddress, NetworkChanges, interface_addresses};
use tokio::time::{Instant, sleep_until};

use crate::router::gateway::{DefaultRoute, current_default_route};

/// The least time between two comparisons.
const GAP: Duration = Duration::from_secs(1);

/// Compares the network with what it was.
pub(crate) struct NetworkWatch {
    /// None where the kernel tells no changes.
    changes: Option<NetworkChanges>,
    /// None where it could not be read.
    network: Option<Network>,
    next: Instant,
    /// Whether the kernel has told of a change since the last comparison.
    told: bool,
}

/// What of this machine's network says whether its address may be another one.
#[derive(Debug, PartialEq, Eq)]
struct Network {
    /// In a fixed order.
    addresses: Vec<InterfaceAddress>,
    route: Option<DefaultRoute>,
}

impl NetworkWatch {
    /// Begins to look. To be used in a runtime of tokio with IO and time.
    pub(crate) fn new() -> Self {
        let changes = NetworkChanges::new();
        if let Err(error) = &changes {
            unseen(error);
        }
        Self {
            changes: changes.ok(),
            network: Network::now(),
            next: Instant::now(),
            told: false,
        }
    }

    /// Waits until the network is another one than at the last time; for ever where the kernel tells
    /// no changes. To give it up loses no change.
    pub(crate) async fn changed(&mut self) {
        loop {
            if !self.told {
                self.wait_told().await;
                self.told = true;
            }
            sleep_until(self.next).await;
            self.told = false;
            self.next = Instant::now() + GAP;
            let now = Network::now();
            if now.is_none() || now != self.network {
                self.network = now;
                return;
            }
        }
    }

    async fn wait_told(&mut self) {
        let Some(changes) = &self.changes else {
            return pending().await;
        };
        if let Err(error) = changes.changed().await {
            unseen(&error);
            self.changes = None;
            pending().await
        }
    }
}

fn unseen(error: &io::Error) {
    tracing::warn!(%error, "changed addresses are seen only after a while");
}

impl Network {
    /// The present one; none where the kernel does not list it.
    fn now() -> Option<Self> {
        let addresses = interface_addresses().ok()?;
        Some(Self::of(addresses, current_default_route().ok()?))
    }

    /// Without the addresses that are never published for a while: temporary ones, of which there is
    /// another each day, and link-local ones, which each link of a container has.
    fn of(mut addresses: Vec<InterfaceAddress>, route: Option<DefaultRoute>) -> Self {
        addresses.retain(|one| {
            let is_link_local = match one.address {
                IpAddr::V4(address) => address.is_link_local(),
                IpAddr::V6(address) => address.is_unicast_link_local(),
            };
            !one.temporary && !is_link_local
        });
        addresses.sort_unstable_by_key(|one| (one.interface, one.address));
        Self { addresses, route }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_network_has_other_addresses_or_another_default_route() {
        let on = |interface, text: &str| InterfaceAddress {
            interface,
            address: text.parse().unwrap(),
            usable: true,
            temporary: false,
        };
        let to = |last| Some(DefaultRoute::Gateway([192, 168, 1, last].into()));
        let own = || vec![on(2, "192.168.1.7"), on(2, "2606:4700::1")];
        let with = |more: InterfaceAddress| [own(), vec![more]].concat();
        let temporary = InterfaceAddress {
            temporary: true,
            ..on(2, "2606:4700::9")
        };
        let deprecated = InterfaceAddress {
            usable: false,
            ..on(2, "2606:4700::1")
        };
        let before = Network::of(own(), to(1));
        for (addresses, route, is_other) in [
            (own(), to(1), false),
            (own().into_iter().rev().collect(), to(1), false),
            (with(temporary), to(1), false),
            (with(on(9, "fe80::1")), to(1), false),
            (with(on(9, "169.254.1.1")), to(1), false),
            (own(), to(2), true),
            (own(), None, true),
            (with(on(3, "10.8.0.2")), to(1), true),
            (own()[1..].to_vec(), to(1), true),
            (vec![own()[0], deprecated], to(1), true),
        ] {
            let shown = format!("{addresses:?} {route:?}");
            let is_different = Network::of(addresses, route) != before;
            assert_eq!(is_different, is_other, "{shown}");
        }
    }
}
