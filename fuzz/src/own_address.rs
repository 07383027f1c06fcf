//! What tells this machine its own addresses: the kernel by rtnetlink, and servers on the Internet.

use lockgate_ddns::AddressFamily;
use lockgate_ddns::answer::{LONGEST, first_address};
use lockgate_net::interface_addresses::{parse_dump, tells_change};

/// Addresses of interfaces, and news of them: no more than there is room for, wherever the end is cut off.
pub fn interface_addresses(data: &[u8]) {
    if let Ok(part) = parse_dump(data) {
        // A header of a message, of an address and of an attribute, and four bytes.
        assert!(part.addresses.len() <= data.len() / 32);
        for one in part.addresses {
            assert!(!one.temporary || one.address.is_ipv6());
        }
    }
    for cut in super::cuts(data.len()) {
        let _ = parse_dump(&data[..cut]);
        // A rest that cannot be read is a change.
        assert!(tells_change(&data[..cut]) || cut == 0 || cut >= 16);
    }
}

/// The answer of a server: the address is of the family that was asked for, and stands in the answer.
pub fn address_answer(data: &[u8]) {
    for family in AddressFamily::ALL {
        let Some(address) = first_address(data, family) else {
            continue;
        };
        assert_eq!(address.is_ipv4(), family == AddressFamily::Ipv4);
        if family == AddressFamily::Ipv4 {
            let seen = String::from_utf8_lossy(&data[..data.len().min(LONGEST)]);
            assert!(seen.contains(&address.to_string()), "{address}");
        }
        // What comes behind a whole answer changes nothing.
        if data.len() < LONGEST {
            let longer = [data, b" 1.2.3.4 ::1 "].concat();
            assert_eq!(first_address(&longer, family), Some(address));
        }
    }
}
