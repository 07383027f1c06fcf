//! The default gateway of the machine, from the kernel's route table for IPv4.
//!
//! Reads the main table only: routes of policies (ip-rule(8)) are not seen.

use std::fs::File;
use std::io::{self, Read};
use std::net::Ipv4Addr;

use super::error::{RouterError, bounded};

/// Where packets go that no other route is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DefaultRoute {
    /// To a router.
    Gateway(Ipv4Addr),
    /// Straight into the interface of this name: the other end of a line, without a router.
    Interface(String),
}

/// Reads the address of the default gateway from the route table.
///
/// # Errors
/// When the table cannot be read, or there is no gateway.
pub(crate) fn default_gateway() -> Result<Ipv4Addr, RouterError> {
    match current_default_route().map_err(RouterError::RouteTable)? {
        Some(DefaultRoute::Gateway(gateway)) => Ok(gateway),
        Some(DefaultRoute::Interface(interface)) => Err(RouterError::NoGateway {
            interface: bounded(&interface),
        }),
        None => Err(RouterError::NoDefaultRoute),
    }
}

/// The default route that the machine has now, if any.
///
/// # Errors
/// When the table cannot be read.
pub(crate) fn current_default_route() -> io::Result<Option<DefaultRoute>> {
    Ok(default_route(&read_table()?))
}

/// The table's beginning: it is sorted by destinations, and the default routes are its first ones.
fn read_table() -> io::Result<String> {
    let mut octets = Vec::new();
    let file = File::open(ROUTE_TABLE)?;
    file.take(MOST_READ).read_to_end(&mut octets)?;
    Ok(String::from_utf8_lossy(&octets).into_owned())
}

const ROUTE_TABLE: &str = "/proc/net/route";
const MOST_READ: u64 = 64 << 10;

/// The default route in a route table of the kernel (`/proc/net/route`, proc_pid_net(5)): of several
/// the one of the lowest metric, as the kernel chooses. Lines that cannot be read are passed over.
pub fn default_route(table: &str) -> Option<DefaultRoute> {
    let found = table.lines().filter_map(read_line);
    found.min_by_key(|(metric, _)| *metric).map(|(_, to)| to)
}

/// A line with a default route that is up: its metric, and where it leads.
fn read_line(line: &str) -> Option<(u32, DefaultRoute)> {
    // Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT
    let fields: Vec<_> = line.split_ascii_whitespace().take(8).collect();
    let &[interface, destination, gateway, flags, _, _, metric, mask] = &*fields else {
        return None;
    };
    let flags = u32::from_str_radix(flags, 16).ok()?;
    let is_default = read_address(destination)?.is_unspecified();
    let is_all = read_address(mask)?.is_unspecified();
    if !is_default || !is_all || flags & UP == 0 || flags & REJECT != 0 {
        return None;
    }
    let gateway = read_address(gateway)?;
    let to = match flags & GATEWAY != 0 && !gateway.is_unspecified() {
        true => DefaultRoute::Gateway(gateway),
        false => DefaultRoute::Interface(interface.to_owned()),
    };
    Some((metric.parse().ok()?, to))
}

/// An address as the kernel prints it: the number that its four bytes in memory are.
fn read_address(text: &str) -> Option<Ipv4Addr> {
    let number = u32::from_str_radix(text, 16).ok()?;
    Some(Ipv4Addr::from(number.to_ne_bytes()))
}

// Flags of a route (linux/route.h).
const UP: u32 = 0x1;
const GATEWAY: u32 = 0x2;
const REJECT: u32 = 0x200;

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str =
        "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n";

    /// Interface, destination, gateway, flags, metric, mask.
    type Route<'a> = (&'a str, [u8; 4], [u8; 4], u32, u32, [u8; 4]);

    /// A table with these routes.
    fn table(routes: &[Route<'_>]) -> String {
        let mut text = HEAD.to_owned();
        for (interface, destination, gateway, flags, metric, mask) in routes {
            let [destination, gateway, mask] = [destination, gateway, mask]
                .map(|octets| format!("{:08X}", u32::from_ne_bytes(*octets)));
            text += &format!(
                "{interface}\t{destination}\t{gateway}\t{flags:04X}\t0\t0\t{metric}\t{mask}\t0\t0\t0\n"
            );
        }
        text
    }

    fn gateway(octets: [u8; 4]) -> Option<DefaultRoute> {
        Some(DefaultRoute::Gateway(octets.into()))
    }

    #[test]
    fn the_default_route_of_the_lowest_metric_is_taken() {
        let none = [0; 4];
        let table = table(&[
            ("wlan0", none, [192, 168, 2, 1], 3, 600, none),
            ("eth0", none, [192, 168, 1, 1], 3, 100, none),
            ("eth1", none, [192, 168, 3, 1], 3, 100, none),
            ("eth0", [192, 168, 1, 0], none, 1, 0, [255, 255, 255, 0]),
        ]);
        assert_eq!(default_route(&table), gateway([192, 168, 1, 1]));
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn addresses_are_in_the_byte_order_of_the_machine() {
        let text =
            format!("{HEAD}eth0\t00000000\t0101A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0   \n");
        assert_eq!(default_route(&text), gateway([192, 168, 1, 1]));
    }

    #[test]
    fn a_default_route_into_an_interface_has_no_gateway() {
        let none = [0; 4];
        let table = table(&[("ppp0", none, none, 1, 0, none)]);
        let interface = DefaultRoute::Interface("ppp0".to_owned());
        assert_eq!(default_route(&table), Some(interface));
    }

    #[test]
    fn routes_that_are_down_rejected_or_of_a_part_are_none() {
        let (none, to) = ([0; 4], [10, 0, 0, 1]);
        for route in [
            ("eth0", none, to, 0x2, 0, none),
            ("*", none, none, 0x201, 0, none),
            // Half of all addresses: a tunnel beside the default route.
            ("wg0", none, to, 0x3, 0, [128, 0, 0, 0]),
            ("wg0", [128, 0, 0, 0], to, 0x3, 0, [128, 0, 0, 0]),
        ] {
            assert_eq!(default_route(&table(&[route])), None, "{route:?}");
        }
    }

    #[test]
    fn lines_that_cannot_be_read_are_passed_over() {
        for line in [
            "",
            HEAD,
            "eth0",
            "eth0 0 1 3 0 0 0",
            "eth0 x 1 3 0 0 0 0",
            "eth0 0 100000000 3 0 0 0 0",
            "eth0 0 1 3 0 0 -1 0",
            "eth0 0 1 g 0 0 0 0",
            "eth0 0 1 3 0 0 0 \u{fffd}",
        ] {
            assert_eq!(default_route(line), None, "{line}");
        }
    }
}
