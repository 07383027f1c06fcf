//! Rules for the targets of tunnels.

use std::fmt;
use std::ops::RangeInclusive;

use crate::host_pattern::HostPattern;
use crate::network::Cidr;

/// One entry of `allow` or `deny`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetRule {
    /// The hosts.
    pub named: TargetName,
    /// The ports; never empty, and without 0.
    pub ports: Vec<RangeInclusive<u16>>,
}

/// The hosts of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetName {
    /// Names; never an IP address.
    Host(HostPattern),
    /// Addresses.
    Network(Cidr),
}

impl fmt::Display for TargetRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.named {
            TargetName::Host(host) => write!(f, "{host}:")?,
            TargetName::Network(network) if network.addr().is_ipv6() => write!(f, "[{network}]:")?,
            TargetName::Network(network) => write!(f, "{network}:")?,
        }
        for (place, range) in self.ports.iter().enumerate() {
            let comma = if place > 0 { "," } else { "" };
            match (*range.start(), *range.end()) {
                (1, u16::MAX) => write!(f, "{comma}*")?,
                (first, last) if first == last => write!(f, "{comma}{first}")?,
                (first, last) => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}
