//! Answers of home routers: only the router is believed, and no other is asked.

use std::net::{Ipv4Addr, SocketAddrV4};

use lockgate_ddns::router::device_description::{DeviceDescription, MOST_SERVICES};
use lockgate_ddns::router::device_url::{DeviceUrl, LONGEST_URL};
use lockgate_ddns::router::gateway::{DefaultRoute, default_route};
use lockgate_ddns::router::nat_pmp;
use lockgate_ddns::router::pcp::PcpMapping;
use lockgate_ddns::router::soap::SoapAnswer;
use lockgate_ddns::router::ssdp::{self, SERVICES};
use lockgate_ddns::router::xml::{DEEPEST, XmlEvent, XmlScanner};

const ROUTER: Ipv4Addr = Ipv4Addr::new(192, 168, 1, 1);

/// Any bytes as answers of NAT-PMP and PCP, and as a route table.
pub fn router_datagram(data: &[u8]) {
    if let Some(answer) = nat_pmp::parse_answer(data) {
        assert_eq!(data[1], 128);
        match answer {
            Ok(address) => assert_eq!((data.len(), &data[8..]), (12, &address.octets()[..])),
            Err(refusal) => assert!(refusal.0 != 0 && data.len() >= 8, "{refusal}"),
        }
    }
    let mapping = PcpMapping {
        client: SocketAddrV4::new(Ipv4Addr::new(192, 168, 1, 7), 0xabcd),
        nonce: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12],
    };
    let answer = mapping.parse_answer(data);
    if let Some(answer) = &answer {
        assert!(data[1] == 0x81 && data.len() >= 8);
        match answer {
            Ok(address) => {
                assert!(data[..1] == [2] && data[3] == 0 && data.len() <= 1100);
                assert_eq!(data[24..36], mapping.nonce);
                assert_eq!(data[56..60], address.octets());
            }
            Err(refusal) => assert!(!refusal.to_string().is_empty()),
        }
    }
    // An end is an answer too.
    assert!(answer.is_some() || mapping.parse_end(data).is_none());
    match default_route(&String::from_utf8_lossy(data)) {
        Some(DefaultRoute::Gateway(gateway)) => assert!(!gateway.is_unspecified()),
        Some(DefaultRoute::Interface(name)) => {
            assert!(!name.contains(|c: char| c.is_ascii_whitespace()))
        }
        None => {}
    }
}

/// Any bytes as the answer to a search.
pub fn ssdp_answer(data: &[u8]) {
    let Some(location) = ssdp::parse_answer(data) else {
        return;
    };
    assert!(!location.is_empty() && location.bytes().all(|byte| byte.is_ascii_graphic()));
    if let Ok(url) = DeviceUrl::parse(location, ROUTER) {
        is_at_the_router(&url);
        let shown = url.to_string();
        // A slash may have come to it.
        if shown.len() <= LONGEST_URL {
            assert_eq!(DeviceUrl::parse(&shown, ROUTER), Ok(url));
        }
    }
}

/// Any bytes as a description and as the answer of a service.
pub fn router_xml(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (mut depth, mut length, mut is_whole) = (0, 0, true);
    for event in XmlScanner::new(&text) {
        match event {
            Ok(XmlEvent::Open(name)) => {
                assert!(!name.is_empty());
                depth += 1;
                assert!(depth <= DEEPEST);
            }
            Ok(XmlEvent::Text(part)) => length += part.len(),
            Ok(XmlEvent::Close) => depth -= 1,
            Err(_) => is_whole = false,
        }
    }
    assert!(length <= text.len());
    assert!(depth == 0 || !is_whole);
    assert_eq!(SoapAnswer::parse(&text).is_ok(), is_whole);
    let description = DeviceDescription::parse(&text);
    assert_eq!(description.is_ok(), is_whole);
    let Ok(description) = description else {
        return;
    };
    assert!(description.services.len() <= MOST_SERVICES);
    let root = DeviceUrl::parse("http://192.168.1.1:5000/igd/root.xml", ROUTER).expect("a URL");
    for service in &description.services {
        assert!(SERVICES.contains(&service.kind));
        if let Ok(url) = root.join(&service.control) {
            is_at_the_router(&url);
        }
    }
}

fn is_at_the_router(url: &DeviceUrl) {
    assert!(*url.address().ip() == ROUTER && url.address().port() != 0);
    let path = url.path();
    assert!(path.starts_with('/') && path.len() <= LONGEST_URL + 1);
    assert!(path.bytes().all(|byte| byte.is_ascii_graphic()));
}
