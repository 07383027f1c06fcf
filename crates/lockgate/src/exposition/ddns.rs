//! The metrics of names that are kept at this machine's address. Without one there are no families.

use std::net::IpAddr;

use lockgate_ddns::NameStatus;
use lockgate_metrics::MetricFamilies;

use super::{Exposition, seconds};

impl Exposition {
    /// How each name stands.
    pub(crate) fn kept_names(&self) -> Vec<(String, NameStatus)> {
        self.state.ddns.statuses()
    }

    pub(super) fn ddns(&self, families: &mut MetricFamilies<'_>) {
        let names = self.kept_names();
        if names.is_empty() {
            return;
        }
        let addresses = names.iter().flat_map(|(name, status)| {
            let ipv4 = status.addresses.ipv4.map(IpAddr::V4);
            let ipv6 = status.addresses.ipv6.map(IpAddr::V6);
            let both = ipv4.into_iter().chain(ipv6);
            both.map(move |address| (name, address.to_string()))
        });
        let mut addresses = addresses.peekable();
        if addresses.peek().is_some() {
            let mut family = families.gauge(
                "lockgate_ddns_address_info",
                "Always 1; an address that a name has is the label.",
            );
            for (name, address) in addresses {
                family.sample(&[("name", name), ("address", &address)], 1_i64);
            }
        }
        let mut family = families.counter(
            "lockgate_ddns_updates_total",
            "Changes of a name's addresses that were made.",
        );
        for (name, status) in &names {
            family.sample(&[("name", name)], status.updates);
        }
        let mut family = families.counter(
            "lockgate_ddns_failures_total",
            "Failed tries to read or set a name's addresses.",
        );
        for (name, status) in &names {
            family.sample(&[("name", name)], status.failures);
        }
        let mut succeeded = names
            .iter()
            .filter_map(|(name, status)| Some((name, status.succeeded?)))
            .peekable();
        if succeeded.peek().is_none() {
            return;
        }
        let mut family = families.gauge(
            "lockgate_ddns_last_success_timestamp_seconds",
            "When a name's addresses were last found right or set, in seconds since 1970.",
        );
        for (name, succeeded) in succeeded {
            family.sample(&[("name", name)], seconds(succeeded));
        }
    }
}
