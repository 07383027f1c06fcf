//! Tables of addresses that are accepted and refused.

use super::*;

#[test]
fn listeners_are_ports_addresses_or_sockets() {
    let ip = |text: &str| ListenAddr::Ip(text.parse().unwrap());
    for (text, expected) in [
        (":8443", Ok(ListenAddr::All(8443))),
        (":0", Ok(ListenAddr::All(0))),
        ("0.0.0.0:1", Ok(ip("0.0.0.0:1"))),
        ("[::1]:5", Ok(ip("[::1]:5"))),
        ("127.0.0.1:0", Ok(ip("127.0.0.1:0"))),
        (
            "unix:/run/a.sock",
            Ok(ListenAddr::Unix("/run/a.sock".into())),
        ),
        (
            "unix:///run/a.sock",
            Ok(ListenAddr::Unix("/run/a.sock".into())),
        ),
        ("", Err(AddressError::Empty)),
        ("8443", Err(AddressError::NoPort)),
        ("127.0.0.1", Err(AddressError::NoPort)),
        ("127.0.0.1:", Err(AddressError::NoPort)),
        ("[::1]", Err(AddressError::NoPort)),
        (":65536", Err(AddressError::BadPort)),
        (":+1", Err(AddressError::BadPort)),
        (":http", Err(AddressError::BadPort)),
        ("::1", Err(AddressError::Brackets)),
        ("::1:8443:", Err(AddressError::Brackets)),
        ("2001:db8::1:443", Err(AddressError::Brackets)),
        ("[::g]:1", Err(AddressError::BadHost)),
        ("[]:1", Err(AddressError::BadHost)),
        ("*:443", Err(AddressError::BadHost)),
        ("300.0.0.1:1", Err(AddressError::BadHost)),
        ("localhost:8443", Err(AddressError::NameNotAddress)),
        ("unix:", Err(AddressError::NoUnixPath)),
        ("https://a:443", Err(AddressError::Scheme)),
        ("/run/a.sock", Err(AddressError::BarePath)),
    ] {
        assert_eq!(ListenAddr::parse(text), expected, "{text}");
    }
}

#[test]
fn endpoints_are_hosts_addresses_or_sockets() {
    let name = |host: &str, port| {
        Ok(EndpointAddr::Name {
            host: host.into(),
            port,
        })
    };
    for (text, expected) in [
        (
            "10.0.0.1:80",
            Ok(EndpointAddr::Ip("10.0.0.1:80".parse().unwrap())),
        ),
        (
            "[fd00::1]:80",
            Ok(EndpointAddr::Ip("[fd00::1]:80".parse().unwrap())),
        ),
        ("app.internal:8080", name("app.internal", 8080)),
        ("my_app:8080", name("my_app", 8080)),
        ("localhost.:1", name("localhost.", 1)),
        (
            "unix:/run/app.sock",
            Ok(EndpointAddr::Unix("/run/app.sock".into())),
        ),
        ("unix:app.sock", Ok(EndpointAddr::Unix("app.sock".into()))),
        ("pool:app", Err(AddressError::Pool)),
        (
            "srv:_app._tcp.example.internal",
            Ok(EndpointAddr::Srv("_app._tcp.example.internal".into())),
        ),
        (
            "srv:app.service.consul.",
            Ok(EndpointAddr::Srv("app.service.consul.".into())),
        ),
        ("srv:_app._tcp.example.internal:80", Err(AddressError::Srv)),
        ("srv:", Err(AddressError::Srv)),
        ("srv:a b", Err(AddressError::Srv)),
        ("http://10.0.0.1:80", Err(AddressError::Scheme)),
        ("10.0.0.1:80/x", Err(AddressError::Path)),
        ("./app.sock", Err(AddressError::BarePath)),
        (":8080", Err(AddressError::NoHost)),
        ("10.0.0.1:0", Err(AddressError::BadPort)),
        ("10.0.0.1", Err(AddressError::NoPort)),
        ("app", Err(AddressError::NoPort)),
        ("10.0.0.256:80", Err(AddressError::BadHost)),
        ("a..b:80", Err(AddressError::BadHost)),
        ("-a:80", Err(AddressError::BadHost)),
        ("a b:80", Err(AddressError::BadHost)),
        ("ü:80", Err(AddressError::BadHost)),
    ] {
        assert_eq!(EndpointAddr::parse(text), expected, "{text}");
    }
    let long = format!("unix:/{}", "x".repeat(107));
    assert_eq!(EndpointAddr::parse(&long), Err(AddressError::UnixTooLong));
}

#[test]
fn addresses_are_displayed_as_they_are_written() {
    for text in [":1", "0.0.0.0:1", "[::1]:5", "unix:/a"] {
        assert_eq!(ListenAddr::parse(text).unwrap().to_string(), text);
    }
    for text in ["a.b:1", "0.0.0.0:1", "[::1]:5", "unix:/a"] {
        assert_eq!(EndpointAddr::parse(text).unwrap().to_string(), text);
    }
}

#[test]
fn a_port_on_every_address_conflicts_with_the_unspecified_address() {
    let conflict = |a, b| {
        let (a, b) = (ListenAddr::parse(a).unwrap(), ListenAddr::parse(b).unwrap());
        assert_eq!(a.conflicts(&b), b.conflicts(&a));
        a.conflicts(&b)
    };
    assert!(conflict(":1", "0.0.0.0:1"));
    assert!(conflict(":1", "[::]:1"));
    assert!(conflict("unix:/a", "unix:/a"));
    assert!(conflict("[::1]:1", "[0:0::1]:1"));
    assert!(!conflict(":1", "10.0.0.1:1"));
    assert!(!conflict(":1", ":2"));
    assert!(!conflict("127.0.0.1:0", "127.0.0.1:0"));
    assert!(!conflict("0.0.0.0:1", "[::]:1"));
}
