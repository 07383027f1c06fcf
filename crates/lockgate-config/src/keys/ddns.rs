//! The keys of `[ddns]`: names that are kept at this machine's address.

use std::time::Duration;

use lockgate_rules::{AddressSource, HostPattern};

use crate::table::CheckedTable;
use crate::values::*;

use super::Unset::Absent;
use super::{ConfigKey, Defaulted, KeyRow, dns_provider};

const NAMED: &str = r#"names = ["home.example.org"]"#;

/// `false`, a source, or a list of sources.
const fn sources(router: bool) -> Unless<False, OneOrMore<AddressSourceName>> {
    Unless(
        False,
        OneOrMore(List {
            of: AddressSourceName { router },
            least: 1,
        }),
    )
}

const IPV4_SOURCES: Unless<False, OneOrMore<AddressSourceName>> = sources(true);
const IPV6_SOURCES: Unless<False, OneOrMore<AddressSourceName>> = sources(false);

table! {
    const NAMES: ConfigKey<Items<HostPattern>> = ConfigKey::new(
        "names",
        &List { of: SiteHost, least: 1 },
        Absent("the hosts of all sites that are public names, wildcards included"),
        r#"["home.example.org", "*.home.example.org"]"#,
        "The names that are kept. A wildcard is a record of its own, `*.home.example.org`: it stands for all \
         names below that have no record. Write the names here if some of your sites' hosts are served by \
         other machines too: these would lose their records.",
    );

    const DNS: ConfigKey<CheckedTable> = ConfigKey::new(
        "dns",
        &TableOf(dns_provider::OF_ADDRESSES),
        Absent("`dns` of `[acme]`"),
        r#"{ provider = "desec", token = "${file:/etc/lockgate/dns.token}" }"#,
        "The provider that sets the records, with the keys of `dns` in `[acme]`. `acme-dns`, `ddnss` and \
         `freemyip` set no addresses.",
    )
    .with(NAMED);

    const IPV4: Defaulted<Option<Items<AddressSource>>> = ConfigKey::defaulted(
        "ipv4",
        &IPV4_SOURCES,
        r#"["interface", "router"]"#,
        r#"["interface:eth0", "https://ip.example.com/"]"#,
        "Where the IPv4 address is learnt. Of several sources, the next one is asked when the one before has \
         no public address. `false` leaves A records alone.\n\n\
         - `\"interface\"`: the network interfaces of this machine, but for the loopback; \
         `\"interface:eth0\"`: the one of that name. A change is seen at once.\n\
         - `\"router\"`: the home router, the gateway of this machine. It is asked by NAT-PMP (RFC 6886), PCP \
         (RFC 6887) and UPnP, one after the other, and tells its own address. One that is itself behind \
         another NAT is told so. One that says nothing is asked again after a minute, then after twice as \
         long each time, up to ten minutes.\n\
         - A URL: a server that answers with the address of its client, as plain text or JSON. It is asked \
         over IPv4; with `https://` its certificate is verified. It has 10 s, and 1 KB of its answer are \
         read.\n\n\
         What the router or a server tells is set once it was told twice, 5 s apart.\n\n\
         Addresses that the Internet does not reach are never set: link-local ones, those for documentation, \
         benchmarks and multicast, and, unless `private` permits them, private (RFC 1918), unique local \
         (fc00::/7) and shared ones (100.64.0.0/10, RFC 6598). Of several public addresses, the one that is \
         set stays while it is there.",
    )
    .with(NAMED);

    const IPV6: Defaulted<Option<Items<AddressSource>>> = ConfigKey::defaulted(
        "ipv6",
        &IPV6_SOURCES,
        r#""interface""#,
        "false",
        "Where the IPv6 address is learnt, as `ipv4` says. Temporary addresses of this machine (RFC 8981) are \
         not taken, nor those of an interface that are deprecated or not yet in use. `false` leaves AAAA records alone.",
    )
    .with(NAMED);

    const EVERY: Defaulted<Duration> = ConfigKey::defaulted(
        "every",
        &Time { min: 1_000 },
        r#""30s""#,
        r#""5m""#,
        "The time between two looks at the sources. When an address of an interface or the default route of \
         IPv4 changes, they are looked at sooner, and 5 s after a router or a server has told a new address. So \
         a name follows within this time, 5 s, and twice the time of an answer, which is 10 s at most: with the \
         default within a minute. Some public servers that tell addresses ask for one request a minute: write \
         `\"1m\"` there.",
    )
    .with(NAMED);

    const PRIVATE: Defaulted<bool> = ConfigKey::defaulted(
        "private",
        &Flag,
        "false",
        "true",
        "Whether addresses that only networks of your own reach are set too: private, shared and unique \
         local ones. Public ones come first. Name the interface where the machine has several with such \
         addresses, as containers give it: `\"interface:eth0\"`. A router's private address is not set.",
    )
    .with(NAMED);
}
