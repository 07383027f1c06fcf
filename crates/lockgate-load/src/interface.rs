//! Counters of the network interface towards a target: whether it was the bottleneck.
//!
//! Targets on this machine have no such interface, and virtual interfaces have no known speed: then
//! there is no check.

use std::cmp::Reverse;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::path::PathBuf;
use std::time::Duration;

use lockgate_net::dial::DialTarget;

/// A network interface with a known speed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) name: String,
    /// Bits a second, each way.
    speed: u64,
}

/// Bytes that an interface has received and sent so far, packet headers included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct InterfaceBytes {
    received: u64,
    sent: u64,
}

impl Interface {
    /// The interface of the route to `target`.
    pub(crate) fn towards(target: &DialTarget) -> Option<Self> {
        let DialTarget::Tcp(address) = target else {
            return None;
        };
        let IpAddr::V4(ip) = address.ip() else {
            return None;
        };
        // `connect` of a UDP socket sends no packet, and chooses the local address.
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
        socket.connect(address).ok()?;
        if socket.local_addr().ok()?.ip() == address.ip() || ip.is_loopback() {
            return None;
        }
        let name = route(&std::fs::read_to_string("/proc/net/route").ok()?, ip)?;
        // Interfaces without a device, such as one end of a veth pair, report any speed.
        PathBuf::from("/sys/class/net")
            .join(&name)
            .join("device")
            .exists()
            .then_some(())?;
        let speed: u64 = read(&name, "speed")?;
        Some(Self {
            name,
            speed: speed * 1_000_000,
        })
    }

    pub(crate) fn bytes(&self) -> InterfaceBytes {
        let count = |name| read(&self.name, name).unwrap_or_default();
        InterfaceBytes {
            received: count("statistics/rx_bytes"),
            sent: count("statistics/tx_bytes"),
        }
    }

    /// The share of its speed that was used since `before` in its busier direction, all programs
    /// together.
    pub(crate) fn used(
        &self,
        before: InterfaceBytes,
        now: InterfaceBytes,
        elapsed: Duration,
    ) -> f64 {
        let bytes = (now.received.saturating_sub(before.received))
            .max(now.sent.saturating_sub(before.sent));
        bytes as f64 * 8.0 / self.speed.max(1) as f64 / elapsed.as_secs_f64().max(1e-9)
    }
}

/// A counter of an interface; `None` where it is negative, as the speed of virtual interfaces is.
fn read(interface: &str, name: &str) -> Option<u64> {
    let path = PathBuf::from("/sys/class/net").join(interface).join(name);
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The interface of the most specific route in `table` (proc(5), `/proc/net/route`).
fn route(table: &str, to: Ipv4Addr) -> Option<String> {
    // The table prints addresses as words in memory: the first byte is the lowest.
    let to = u32::from_le_bytes(to.octets());
    let routes = table.lines().skip(1).filter_map(|line| {
        let words: Vec<_> = line.split_ascii_whitespace().collect();
        let number = |index: usize| u32::from_str_radix(words.get(index)?, 16).ok();
        let (destination, mask) = (number(1)?, number(7)?);
        let metric: u32 = words.get(6)?.parse().ok()?;
        // Of two equal routes the lower metric is preferred.
        (to & mask == destination)
            .then(|| (mask.count_ones(), Reverse(metric), words[0].to_owned()))
    });
    routes.max().map(|(_, _, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
        eth0\t00000000\t0102A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
        eth1\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0\n\
        eth2\t0001000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n\
        eth3\t00000000\t0102A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0\n";

    #[test]
    fn the_most_specific_route_counts() {
        let by = |ip: &str| route(TABLE, ip.parse().unwrap());
        assert_eq!(by("192.0.2.1").as_deref(), Some("eth0"));
        assert_eq!(by("10.9.9.9").as_deref(), Some("eth1"));
        assert_eq!(by("10.0.1.9").as_deref(), Some("eth2"));
        assert_eq!(route("Iface\nshort line\n", Ipv4Addr::LOCALHOST), None);
    }

    #[test]
    fn loopback_traffic_has_no_interface() {
        assert_eq!(
            Interface::towards(&DialTarget::Tcp("127.0.0.1:80".parse().unwrap())),
            None
        );
        assert_eq!(Interface::towards(&DialTarget::Unix("/x".into())), None);
    }

    #[test]
    fn the_busier_direction_counts() {
        let interface = Interface {
            name: "eth0".to_owned(),
            speed: 1_000_000,
        };
        let before = InterfaceBytes {
            received: 1_000,
            sent: 500,
        };
        let now = InterfaceBytes {
            received: 1_500,
            sent: 125_500,
        };
        assert_eq!(interface.used(before, now, Duration::from_secs(1)), 1.0);
        assert_eq!(interface.used(now, before, Duration::from_secs(1)), 0.0);
    }
}
