//! The addresses of this machine's interfaces that may be published, the preferred one first.

use std::io;
use std::net::IpAddr;

use lockgate_net::interface_addresses::{InterfaceAddress, interface_addresses, interface_index};

use crate::family::AddressFamily;
use crate::publishable::{is_publishable, refusal};

/// The interfaces that are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interfaces {
    /// The one of this index.
    One(u32),
    /// All but the one of this index, the loopback.
    AllBut(Option<u32>),
}

/// The publishable addresses of an interface, or of all but the loopback; at least one.
///
/// # Errors
/// When there is none, with the reason.
pub(crate) fn addresses(
    interface: Option<&str>,
    family: AddressFamily,
    private: bool,
) -> Result<Vec<IpAddr>, String> {
    let unread = |error: io::Error| format!("the kernel does not list the addresses: {error}");
    let index = |name| interface_index(name).map_err(unread);
    let (interfaces, place) = match interface {
        Some(name) => match index(name)? {
            Some(index) => (Interfaces::One(index), format!("the interface {name}")),
            None => return Err(format!("there is no interface {name}")),
        },
        None => (
            Interfaces::AllBut(index("lo")?),
            "the interfaces of this machine".to_owned(),
        ),
    };
    let all = interface_addresses().map_err(unread)?;
    let found = candidates(&all, interfaces, family, private);
    if !found.is_empty() {
        return Ok(found);
    }
    let kind = match private {
        true => "usable",
        false => "public",
    };
    let seen = best_of_others(&all, interfaces, family);
    let seen = seen.map_or(String::new(), |address| match refusal(address) {
        Some(refusal) => format!(": {address} is {}", refusal.as_str()),
        None => format!(": {address} is temporary or not in use"),
    });
    Err(format!("no {kind} {family} address on {place}{seen}"))
}

/// Whether an address is a temporary one of this machine (RFC 8981). Connections leave from such a one
/// where the machine has any, so it is what a server on the Internet tells.
pub(crate) fn is_temporary(address: IpAddr) -> bool {
    // Where the kernel lists none, nothing says that it is one.
    let all = interface_addresses().unwrap_or_default();
    is_temporary_of(&all, address)
}

fn is_temporary_of(all: &[InterfaceAddress], address: IpAddr) -> bool {
    all.iter()
        .any(|one| one.address == address && one.temporary)
}

/// The addresses that may be published: in use, and not temporary. Public ones come first, then the
/// order is that of the addresses, so that it is always the same.
pub(crate) fn candidates(
    all: &[InterfaceAddress],
    interfaces: Interfaces,
    family: AddressFamily,
    private: bool,
) -> Vec<IpAddr> {
    let mut found: Vec<_> = of(all, interfaces, family)
        .filter(|one| one.usable && !one.temporary)
        .map(|one| one.address)
        .filter(|address| is_publishable(*address, private))
        .collect();
    found.sort_unstable_by_key(|address| (refusal(*address).is_some(), *address));
    found.dedup();
    found
}

/// One of the addresses that may not be published, for a message.
fn best_of_others(
    all: &[InterfaceAddress],
    interfaces: Interfaces,
    family: AddressFamily,
) -> Option<IpAddr> {
    of(all, interfaces, family).map(|one| one.address).min()
}

fn of(
    all: &[InterfaceAddress],
    interfaces: Interfaces,
    family: AddressFamily,
) -> impl Iterator<Item = &InterfaceAddress> {
    all.iter().filter(move |one| {
        let is_meant = match interfaces {
            Interfaces::One(index) => one.interface == index,
            Interfaces::AllBut(index) => Some(one.interface) != index,
        };
        is_meant && family.has(one.address)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(interface: u32, text: &str) -> InterfaceAddress {
        InterfaceAddress {
            interface,
            address: text.parse().unwrap(),
            usable: true,
            temporary: false,
        }
    }

    fn found(all: &[InterfaceAddress], interfaces: Interfaces, private: bool) -> Vec<String> {
        let both = AddressFamily::ALL.into_iter();
        both.flat_map(|family| candidates(all, interfaces, family, private))
            .map(|address| address.to_string())
            .collect()
    }

    #[test]
    fn public_addresses_of_interfaces_come_in_a_fixed_order() {
        let all = [
            on(1, "127.0.0.1"),
            on(1, "1.1.1.9"),
            on(3, "9.9.9.9"),
            on(2, "192.168.1.2"),
            on(2, "1.1.1.1"),
            on(2, "1.1.1.1"),
            on(2, "2606:4700::2"),
            on(2, "2606:4700::1"),
            on(2, "fe80::1"),
            on(2, "fd00::1"),
        ];
        let others = Interfaces::AllBut(Some(1));
        let public = ["1.1.1.1", "9.9.9.9", "2606:4700::1", "2606:4700::2"];
        assert_eq!(found(&all, others, false), public);
        let mut turned = all;
        turned.reverse();
        assert_eq!(found(&turned, others, false), public);
        assert_eq!(found(&all, Interfaces::One(3), false), ["9.9.9.9"]);
        assert_eq!(
            found(&all, others, true),
            [
                "1.1.1.1",
                "9.9.9.9",
                "192.168.1.2",
                "2606:4700::1",
                "2606:4700::2",
                "fd00::1",
            ]
        );
        assert!(found(&all, Interfaces::One(9), false).is_empty());
    }

    #[test]
    fn temporary_and_unusable_addresses_are_not_published() {
        let temporary = InterfaceAddress {
            temporary: true,
            ..on(2, "2606:4700::1")
        };
        let tentative = InterfaceAddress {
            usable: false,
            ..on(2, "2606:4700::2")
        };
        let all = [temporary, tentative, on(2, "2606:4700::3")];
        let others = Interfaces::AllBut(None);
        for (address, is_temporary) in [("2606:4700::1", true), ("2606:4700::3", false)] {
            let address = address.parse().unwrap();
            assert_eq!(is_temporary_of(&all, address), is_temporary, "{address}");
        }
        assert_eq!(found(&all, others, false), ["2606:4700::3"]);
        assert!(found(&all[..2], others, true).is_empty());
    }

    #[test]
    fn an_interface_that_is_not_there_is_named() {
        let error = addresses(Some("no-such-if"), AddressFamily::Ipv4, false).unwrap_err();
        assert_eq!(error, "there is no interface no-such-if");
    }
}
