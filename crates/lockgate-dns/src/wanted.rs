//! The addresses that a name is to have.

use std::net::{Ipv4Addr, Ipv6Addr};

use hickory_proto::rr::RData;
use hickory_proto::rr::rdata::{A, AAAA};

/// The addresses that a name is to have: one of a family, or none where the records of that family are
/// left as they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WantedAddresses {
    /// The address of the A record.
    pub ipv4: Option<Ipv4Addr>,
    /// The address of the AAAA record.
    pub ipv6: Option<Ipv6Addr>,
}

impl WantedAddresses {
    /// Whether none is wanted.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Those that are not the same in `other`.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self {
            ipv4: self.ipv4.filter(|one| other.ipv4 != Some(*one)),
            ipv6: self.ipv6.filter(|one| other.ipv6 != Some(*one)),
        }
    }

    /// Their records.
    pub(crate) fn records(self) -> impl Iterator<Item = RData> {
        let ipv4 = self.ipv4.map(|address| RData::A(A(address)));
        let ipv6 = self.ipv6.map(|address| RData::AAAA(AAAA(address)));
        ipv4.into_iter().chain(ipv6)
    }

    /// Their texts.
    pub(crate) fn texts(self) -> Vec<String> {
        let ipv4 = self.ipv4.map(|address| address.to_string());
        let ipv6 = self.ipv6.map(|address| address.to_string());
        ipv4.into_iter().chain(ipv6).collect()
    }
}
